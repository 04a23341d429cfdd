"""The initial policy: how its parameters are drawn, and their density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from hpsde.base.arrays import as_numpy
from hpsde.base.checks import as_numbers, check_rows
from hpsde.base.distributions import Distribution, as_distribution
from hpsde.base.draws import jax_key, with_key
from hpsde.base.padding import pad_rows, padded_size
from hpsde.base.shapes import Array
from hpsde.base.with_jax import with_jax
from hpsde.errors import InputError
from hpsde.mixture.model import Mixture

DENSITY_COMPONENTS = 20
ENOUGH = 2  # rollouts for each number of context and parameters, for a density to depend on the context
PAIRS = 2**20  # of samples that are looked at at once


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
        drawn = with_key(self.distribution.sample, key, len(contexts))
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
        drawn = with_key(self.task.sample_initial, key, contexts)
        return check_rows("the task's initial parameters", drawn, self.parameter_size, len(contexts))

    def log_density(self, contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray | None:
        if not getattr(self.task, "has_initial_density", True):
            return None
        values = self.task.log_initial(contexts, parameters)
        return _densities("the task's log_initial", values, len(contexts))


class OfEncoded:
    """An initial policy for contexts that are encoded: it remembers which context each z [Z] came from.

    Where parameters come from one distribution, whatever the context, there is nothing to remember; and where there is
    no density to ask for, only the last contexts.
    """

    def __init__(self, initial: Any):
        self.initial = initial
        start = getattr(initial, "initial", initial)  # behind its bounds
        self._needs = isinstance(start, FromTask)
        self._forgets = self._needs and not getattr(start.task, "has_initial_density", True)
        self._known: dict[bytes, np.ndarray] = {}

    def remember(self, z: np.ndarray, contexts: np.ndarray) -> None:
        """z [N, Z] came from contexts [N, S]."""
        if self._needs:
            if self._forgets:
                self._known = {}
            self._known |= {each.tobytes(): context for each, context in zip(z, contexts, strict=True)}

    def sample(self, key: Array, contexts: np.ndarray) -> np.ndarray:
        return self.initial.sample(key, self._behind(contexts))

    def log_density(self, contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray | None:
        if self._forgets:
            return None
        return self.initial.log_density(self._behind(contexts), parameters)

    def _behind(self, z: np.ndarray) -> np.ndarray:
        if not self._needs or not len(z):
            return z
        return np.stack([self._known[each.tobytes()] for each in np.ascontiguousarray(z)])


def _densities(name: str, values: Any, rows: int) -> np.ndarray:
    """Log densities [rows]: numbers or minus infinity, never NaN."""
    array = as_numbers(name, values)
    if array.shape != (rows,) or np.any(np.isnan(array)) or np.any(np.isposinf(array)):
        raise InputError(
            f"{name} must give {rows} log densities, finite or minus infinity; got shape {list(array.shape)}"
            f" with {np.sum(np.isnan(array) | np.isposinf(array))} that are neither"
        )
    return array


def make_initial(initial: Any, parameter_size: int, any_context: bool = False) -> InitialPolicy:
    """The initial policy from a task, a distribution or an array of samples.

    any_context: of a task whose first parameters do not depend on the context (`initial_of_any_context`), take their
    distribution, `initial`: it needs no context.
    """
    if any_context and getattr(initial, "initial_of_any_context", False):
        return FromDistribution(initial.initial)
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
    """log pi_0(xi | s) = log p(s, xi) - log p(s) by a mixture of the initial rollouts, in standard units.

    Few rollouts in contexts of many numbers, such as pictures, do not say how parameters depend on them: with fewer
    than ENOUGH rollouts for each number it is log p(xi).
    """

    context_size: int
    mixture: Mixture

    @classmethod
    @with_jax
    def fit(cls, key: Array, contexts: np.ndarray, parameters: np.ndarray) -> EstimatedDensity:
        """The mixture of contexts [N, S] and parameters [N, D]."""
        import jax.numpy as jnp

        from hpsde.mixture import estimation as density

        if len(parameters) < ENOUGH * (contexts.shape[1] + parameters.shape[1]):
            contexts = contexts[:, :0]
        joint = np.concatenate([contexts, parameters], axis=1)
        rows = padded_size(len(joint))
        weights = jnp.asarray(pad_rows(np.ones(len(joint)), rows))
        x = jnp.asarray(pad_rows(joint, rows))
        prior = density.default_prior(x, weights, DENSITY_COMPONENTS)
        mixture, _ = density.fit(jax_key(key), x, weights, prior, max_components=DENSITY_COMPONENTS)
        return cls(contexts.shape[1], as_numpy(mixture))

    @with_jax
    def log_density(self, contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """log pi_0(xi | s) [N] in standard units."""
        import jax.numpy as jnp

        from hpsde.mixture import estimation as density

        rows, contexts = padded_size(len(contexts)), contexts[:, : self.context_size]
        joint = pad_rows(np.concatenate([contexts, parameters], axis=1), rows)
        values = density.compiled_log_density(self.mixture, jnp.asarray(joint))
        if self.context_size:
            of_context = density.marginal(self.mixture, tuple(range(self.context_size)))
            values = values - density.compiled_log_density(of_context, jnp.asarray(joint[:, : self.context_size]))
        return np.asarray(values)[: len(contexts)]


def kernel_log_density(
    known: tuple[np.ndarray, np.ndarray], contexts: np.ndarray, parameters: np.ndarray
) -> np.ndarray:
    """log p(xi | s) [N] by Gaussian kernels on `known` pairs of contexts [M, S] and parameters [M, K], for small K.

    p(xi | s) = sum_j k(s - s_j) k(xi - xi_j) / sum_j k(s - s_j); widths by Scott's rule.
    """
    count, size = len(known[0]), contexts.shape[1] + parameters.shape[1]
    narrow = count ** (-1.0 / (size + 4))
    widths = [narrow * np.where(at.std(axis=0) > 0.0, at.std(axis=0), 1.0) for at in known]
    constant = np.sum(np.log(widths[1])) + 0.5 * parameters.shape[1] * np.log(2.0 * np.pi)
    rows, found = max(1, PAIRS // count), np.empty(len(contexts))
    for start in range(0, len(contexts), rows):
        part = slice(start, start + rows)
        of_contexts = _log_kernels(known[0] / widths[0], contexts[part] / widths[0])
        of_both = of_contexts + _log_kernels(known[1] / widths[1], parameters[part] / widths[1])
        found[part] = _log_sum(of_both) - _log_sum(of_contexts) - constant
    return found


def _log_kernels(at: np.ndarray, points: np.ndarray) -> np.ndarray:
    """-|p_i - a_j|^2 / 2 [N, M]."""
    return -0.5 * np.sum((points[:, None, :] - at[None, :, :]) ** 2, axis=-1)


def _log_sum(values: np.ndarray) -> np.ndarray:
    """log sum_j exp(values_ij) [N]."""
    most = values.max(axis=1)
    return most + np.log(np.sum(np.exp(values - most[:, None]), axis=1))
