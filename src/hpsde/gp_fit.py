"""Hyper-parameters of the Gaussian process by marginal likelihood, or by its product with weak priors.

All starts, bounds and priors are relative to the spread of the data, so that shifting and scaling points or returns
shifts and scales the result and changes nothing else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from hpsde._precision import double_precision
from hpsde._shapes import Array
from hpsde.errors import InputError, UnknownNameError
from hpsde.gp_likelihood import ValueAndGradient, jax_likelihood, lapack_likelihood
from hpsde.gp_model import Hyperparameters

_GOLDEN = 0.5 * (5.0**0.5 - 1.0)
_BACKENDS = {"lapack": lapack_likelihood, "jax": jax_likelihood}


class Prior(NamedTuple):
    """Independent log-normal priors: median, in spreads of the data, and standard deviation of the logarithm.

    A spread is the standard deviation of a coordinate (for lengths) or of the residuals (for signal and noise).
    """

    length: tuple[float, float] = (1.0, 1.5)
    signal: tuple[float, float] = (1.0, 1.0)
    noise: tuple[float, float] = (0.1, 1.5)


WEAK_PRIOR = Prior()


class Bounds(NamedTuple):
    """Lower and upper bounds in spreads of the data (see Prior)."""

    length: tuple[float, float] = (1e-2, 1e2)
    signal: tuple[float, float] = (1e-2, 1e2)
    noise: tuple[float, float] = (1e-3, 1e1)


DEFAULT_BOUNDS = Bounds()


class FitInfo(NamedTuple):
    """What a fit did: log p(y) at its end, that plus the log prior, evaluations of all starts, the points used."""

    log_likelihood: float
    objective: float
    evaluations: int
    converged: bool
    points: int


def spread_subset(n: int, size: int) -> np.ndarray:
    """`size` of the indices 0..n-1, evenly over their order: those i with the smallest fraction of i times the golden ratio.

    No draw is needed, no regular pattern in the order of the data is met in step, and when n grows by a few the
    subset changes by a few.
    """
    if size >= n:
        return np.arange(n)
    return np.sort(np.argsort(np.arange(n) * _GOLDEN % 1.0, kind="stable")[:size])


@double_precision
def choose_points(key: Array, count: int, max_points: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Indices of the rows to condition on when there are more than `max_points`, in ascending order.

    Rows are in the order of arrival. The newest half of `max_points` is kept, for that is where the policy is now;
    the other half is drawn from the older rows without replacement, with probabilities in proportion to `weights`
    [count] (all alike by default; rows of weight 0 are taken only when the others do not suffice). The returns have
    no say: picking points by noisy returns would bias the regression.
    """
    if max_points < 1:
        raise InputError(f"max_points must be at least 1, got {max_points}")
    if count <= max_points:
        return np.arange(count)
    recent = max_points // 2
    older = count - recent
    weight = np.ones(older) if weights is None else np.asarray(weights, dtype=float)[:older]
    with np.errstate(divide="ignore"):
        log_weight = np.maximum(np.log(weight), -1e300)
    # Gumbel's trick: the largest of log w_i + Gumbel noise are a weighted draw without replacement.
    score = log_weight + np.asarray(jax.random.gumbel(key, (older,)))
    drawn = np.argsort(-score, kind="stable")[: max_points - recent]
    return np.concatenate([np.sort(drawn), np.arange(older, count)])


def _spreads(z: np.ndarray, residual: np.ndarray, isotropic: bool) -> np.ndarray:
    """log spreads of [coordinates, signal, noise]; 1 stands in for a spread of 0, as of a constant coordinate."""
    coordinates = np.std(z, axis=0)
    coordinates[coordinates <= 1e-12 * (1.0 + np.max(np.abs(z), axis=0, initial=0.0))] = 0.0
    if isotropic:
        moving = coordinates[coordinates > 0]
        coordinates[:] = np.sqrt(np.mean(moving**2)) if len(moving) else 0.0
    returns = np.sqrt(np.mean(residual**2))
    spreads = np.concatenate([coordinates, [returns, returns]])
    return np.log(np.where(spreads > 0.0, spreads, 1.0))


def _per_dimension(pairs: Prior | Bounds, Z: int) -> tuple[np.ndarray, np.ndarray]:
    """The two columns of the pairs for [lengths, signal, noise]."""
    table = np.array([pairs.length] * Z + [pairs.signal, pairs.noise], dtype=float)
    return table[:, 0], table[:, 1]


def _starts(start: Hyperparameters | None, spread: np.ndarray, restarts: int) -> list[np.ndarray]:
    """The given start or the default one, then `restarts` more with other lengths and other shares of noise."""
    Z = len(spread) - 2
    default = spread + np.log([0.5 * np.sqrt(Z)] * Z + [1.0, 0.3])
    if start is None:
        starts = [default]
    else:
        vector = [np.ravel(np.asarray(part, dtype=float)) for part in start]
        starts = [np.concatenate(vector), default]
    factors = [(0.25, 0.1), (4.0, 1.0), (0.1, 0.3), (1.0, 0.1), (10.0, 0.3)]
    for k in range(restarts):
        length, noise = factors[k % len(factors)]
        starts.append(default + np.log([length] * Z + [1.0, noise / 0.3]) / (1 + k // len(factors)))
    return starts[: 1 + restarts]


def _minimise(
    likelihood: ValueAndGradient,
    prior: tuple[np.ndarray, np.ndarray] | None,
    start: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    isotropic: bool,
    iterations: int,
) -> Any:
    """Climb the likelihood (times the prior) from one start with L-BFGS-B; scipy's result, x in full length."""
    Z = len(start) - 2
    # Isotropic: one free number for all lengths. full = expand @ free.
    expand = np.eye(Z + 2)
    if isotropic and Z > 0:
        expand = np.concatenate([np.ones((Z + 2, 1)), np.eye(Z + 2)[:, Z:]], axis=1)
        expand[Z:, 0] = 0.0

    def objective(free: np.ndarray) -> tuple[float, np.ndarray]:
        theta = expand @ free
        value, gradient = likelihood(theta)
        if prior is not None:
            error = (theta - prior[0]) / prior[1]
            value, gradient = value - 0.5 * error @ error, gradient - error / prior[1]
        return -value, -(expand.T @ gradient)

    first = np.clip(start, *bounds)
    collapse = expand.T / np.sum(expand, axis=0)[:, None]
    free_bounds = list(zip(collapse @ bounds[0], collapse @ bounds[1], strict=True))
    options = {"maxiter": iterations}
    result = minimize(
        objective, collapse @ first, jac=True, method="L-BFGS-B", bounds=free_bounds, options=options
    )
    result.x = expand @ result.x
    return result


def _checked(z: Any, y: Any, mask: Any, mean: float) -> tuple[np.ndarray, np.ndarray]:
    """The rows in the mask: points less their average, returns less the prior mean."""
    points, returns = np.asarray(z, dtype=float), np.asarray(y, dtype=float)
    if points.ndim != 2 or returns.shape != points.shape[:1]:
        raise InputError(f"z must be [N, Z] and y [N], got {points.shape} and {returns.shape}")
    if mask is not None:
        keep = np.asarray(mask) != 0
        if keep.shape != returns.shape:
            raise InputError(f"mask must be [N] = {returns.shape}, got {keep.shape}")
        points, returns = points[keep], returns[keep]
    if len(points) == 0:
        raise InputError("the Gaussian process needs at least one point, got none")
    if not (np.all(np.isfinite(points)) and np.all(np.isfinite(returns))):
        raise InputError("z and y must be finite in all rows of the mask")
    return points - np.mean(points, axis=0), returns - mean


@double_precision
def fit_hyperparameters(
    z: Any,
    y: Any,
    mask: Any = None,
    start: Hyperparameters | None = None,
    *,
    mean: float = 0.0,
    isotropic: bool = False,
    prior: Prior | None = WEAK_PRIOR,
    bounds: Bounds = DEFAULT_BOUNDS,
    fit_points: int = 512,
    restarts: int = 0,
    iterations: int = 100,
    backend: str | None = None,
) -> tuple[Hyperparameters, FitInfo]:
    """Hyper-parameters that maximise log p(y) plus the log prior, by L-BFGS-B with the analytic gradient.

    z [N, Z] points, y [N] returns, mask [N] (true or a weight above 0: the row counts; default: all do).
    start: where to begin, as the last fit's result; without it, lengths of 1/2 sqrt(Z) spreads. `restarts` more
    starts follow, of which the highest objective wins. isotropic: one shared length. prior: None for pure maximum
    likelihood. More than `fit_points` rows are thinned to that number by `spread_subset`.
    backend: "lapack", "jax", or None for LAPACK where JAX's default device is the CPU, and JAX elsewhere.
    """
    points, residual = _checked(z, y, mask, mean)
    chosen = spread_subset(len(points), fit_points)
    points, residual = points[chosen], residual[chosen]
    backend = backend or ("lapack" if jax.default_backend() == "cpu" else "jax")
    if backend not in _BACKENDS:
        raise UnknownNameError("backend", backend, _BACKENDS)
    likelihood = _BACKENDS[backend](points, residual)

    Z = points.shape[1]
    spread = _spreads(points, residual, isotropic)
    lower, upper = _per_dimension(bounds, Z)
    limits = (spread + np.log(lower), spread + np.log(upper))
    belief = None
    if prior is not None:
        median, deviation = _per_dimension(prior, Z)
        belief = (spread + np.log(median), deviation)

    results = [
        _minimise(likelihood, belief, s, limits, isotropic, iterations)
        for s in _starts(start, spread, restarts)
    ]
    best = min(results, key=lambda result: result.fun)
    log_p = likelihood(best.x)[0] if belief is not None else -best.fun
    info = FitInfo(
        float(log_p), -float(best.fun), sum(r.nfev for r in results), bool(best.success), len(points)
    )
    x = jnp.asarray(best.x)
    return Hyperparameters(x[:-2], x[-2], x[-1]), info
