"""The policy before anything is learned: where its parameters come from, and with what density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from hpsde import density
from hpsde._checks import as_numbers, check_rows
from hpsde._padding import pad_rows, padded_size
from hpsde._precision import double_precision
from hpsde._shapes import Array
from hpsde.distributions import Distribution, as_distribution
from hpsde.errors import InputError

DENSITY_COMPONENTS = 20


@runtime_checkable
class InitialPolicy(Protocol):
    """pi_0(xi | s)."""

    def sample(self, key: Array, contexts: np.ndarray) -> np.ndarray:
        """Parameters [N, D] for contexts [N, S]."""

    def log_density(self, contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray | None:
        """log pi_0(xi | s) [N], or None where it is not known and must be estimated from the rollouts."""


class FromDistribution:
    """Parameters from one distribution, whatever the context."""

    def __init__(self, distribution: Distribution):
        self.distribution = distribution

    def sample(self, key: Array, contexts: np.ndarray) -> np.ndarray:
        drawn = self.distribution.sample(key, len(contexts))
        return check_rows("draws of the initial distribution", drawn, self.distribution.size, len(contexts))

    def log_density(self, contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray | None:
        if not self.distribution.has_density:
            return None
        values = self.distribution.log_prob(parameters)
        return _densities("the initial distribution's log_prob", values, len(contexts))


class FromTask:
    """A task's own initial policy: `sample_initial` and, where it has a density, `log_initial`."""

    def __init__(self, task: Any, parameter_size: int):
        self.task, self.parameter_size = task, parameter_size

    def sample(self, key: Array, contexts: np.ndarray) -> np.ndarray:
        drawn = self.task.sample_initial(key, contexts)
        return check_rows("the task's initial parameters", drawn, self.parameter_size, len(contexts))

    def log_density(self, contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray | None:
        if not getattr(self.task, "has_initial_density", True):
            return None
        values = self.task.log_initial(contexts, parameters)
        return _densities("the task's log_initial", values, len(contexts))


def _densities(name: str, values: Any, rows: int) -> np.ndarray:
    """Log densities [rows]: numbers or minus infinity, never NaN."""
    array = as_numbers(name, values)
    if array.shape != (rows,) or np.any(np.isnan(array)) or np.any(np.isposinf(array)):
        raise InputError(
            f"{name} must give {rows} log densities, finite or minus infinity; got shape {list(array.shape)}"
            f" with {np.sum(np.isnan(array) | np.isposinf(array))} that are neither"
        )
    return array


def make_initial(initial: Any, parameter_size: int) -> InitialPolicy:
    """The initial policy from a task, a distribution or an array of samples."""
    if hasattr(initial, "sample_initial") and hasattr(initial, "log_initial"):
        return FromTask(initial, parameter_size)
    distribution = as_distribution(initial, "initial")
    if distribution.size != parameter_size:
        raise InputError(
            f"initial must give {parameter_size} parameters (parameter_size); it gives {distribution.size}"
        )
    return FromDistribution(distribution)


@dataclass(frozen=True, eq=False)
class EstimatedDensity:
    """log pi_0(xi | s) = log p(s, xi) - log p(s) by a mixture of the initial rollouts, in standard units."""

    context_size: int
    mixture: density.Mixture

    @classmethod
    @double_precision
    def fit(cls, key: Array, contexts: np.ndarray, parameters: np.ndarray) -> EstimatedDensity:
        """The mixture of contexts [N, S] and parameters [N, D]."""
        joint = np.concatenate([contexts, parameters], axis=1)
        rows = padded_size(len(joint))
        weights = jnp.asarray(pad_rows(np.ones(len(joint)), rows))
        x = jnp.asarray(pad_rows(joint, rows))
        prior = density.default_prior(x, weights, DENSITY_COMPONENTS)
        mixture, _ = density.fit(key, x, weights, prior, max_components=DENSITY_COMPONENTS)
        return cls(contexts.shape[1], mixture)

    @double_precision
    def log_density(self, contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """log pi_0(xi | s) [N] in standard units."""
        rows = padded_size(len(contexts))
        joint = pad_rows(np.concatenate([contexts, parameters], axis=1), rows)
        values = _log_density(self.mixture, jnp.asarray(joint))
        if self.context_size:
            of_context = density.marginal(self.mixture, tuple(range(self.context_size)))
            values = values - _log_density(of_context, jnp.asarray(joint[:, : self.context_size]))
        return np.asarray(values)[: len(contexts)]


_log_density = jax.jit(density.log_density)
