"""The initial policy: how its parameters are drawn, and their density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from hpsde.base.checks import as_numbers, check_rows
from hpsde.base.distributions import Distribution, as_distribution
from hpsde.base.padding import pad_rows, padded_size
from hpsde.base.precision import double_precision
from hpsde.base.shapes import Array, Bool, Float
from hpsde.errors import InputError
from hpsde.mixture import estimation as density

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


def kernel_log_density(
    known: tuple[np.ndarray, np.ndarray], contexts: np.ndarray, parameters: np.ndarray, expected: int = 0
) -> np.ndarray:
    """log p(xi | s) [N] by Gaussian kernels on `known` pairs of contexts [M, S] and parameters [M, K], for small K.

    p(xi | s) = sum_j k(s - s_j) k(xi - xi_j) / sum_j k(s - s_j); widths by Scott's rule.
    """
    rows, sizes = padded_size(len(known[0])), padded_size(len(contexts), expected)
    mask = jnp.asarray(np.arange(rows) < len(known[0]))
    points = (jnp.asarray(pad_rows(part, rows)) for part in known)
    asked = (jnp.asarray(pad_rows(part, sizes)) for part in (contexts, parameters))
    return np.asarray(_kernel_log_density(mask, *points, *asked))[: len(contexts)]


@jax.jit
def _kernel_log_density(
    mask: Bool[Array, " M"],
    known_contexts: Float[Array, "M S"],
    known_parameters: Float[Array, "M K"],
    contexts: Float[Array, "N S"],
    parameters: Float[Array, "N K"],
) -> Float[Array, " N"]:
    size = known_contexts.shape[1] + known_parameters.shape[1]
    share = mask / jnp.sum(mask)
    narrow = jnp.sum(mask) ** (-1.0 / (size + 4))

    def log_kernels(at: Array, points: Array) -> tuple[Array, Array]:
        deviation = jnp.sqrt(share @ (at - (share @ at)[None]) ** 2)
        width = narrow * jnp.where(deviation > 0.0, deviation, 1.0)
        difference = (points[:, None, :] - at[None, :, :]) / width[None, None]
        constant = jnp.sum(jnp.log(width)) + 0.5 * at.shape[1] * jnp.log(2.0 * jnp.pi)
        return jnp.where(mask[None], -0.5 * jnp.sum(difference**2, axis=-1), -jnp.inf), constant

    of_contexts, _ = log_kernels(known_contexts, contexts)
    of_parameters, constant = log_kernels(known_parameters, parameters)
    return logsumexp(of_contexts + of_parameters, axis=1) - logsumexp(of_contexts, axis=1) - constant
