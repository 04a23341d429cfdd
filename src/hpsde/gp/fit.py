"""Hyper-parameters of the Gaussian process by marginal likelihood, or by its product with weak priors.

All starts, bounds and priors are relative to the spread of the data, so that shifting and scaling points or
returns shifts and scales the result and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from hpsde.base.devices import large_on, on_device
from hpsde.base.draws import uniform_rows
from hpsde.base.later import Later
from hpsde.base.shapes import Array
from hpsde.base.with_jax import with_jax
from hpsde.errors import InputError, UnknownNameError
from hpsde.gp.kernel import KINDS
from hpsde.gp.lapack import ValueAndGradient, lapack_likelihood
from hpsde.gp.model import KERNELS, Hyperparameters

optimize = Later("scipy.optimize")


_BACKENDS = ("lapack", "jax")
GOLDEN_RATIO = 0.5 * (5.0**0.5 - 1.0)
NEWEST = 0.75  # of the points that are chosen
# The default start, in spreads of the data: lengths per sqrt(Z), signal, noise.
_START = (0.5, 1.0, 0.3)
# Further starts: what multiplies the default start's lengths and noise.
_RESTART_FACTORS = ((0.25, 0.3), (4.0, 3.0), (0.1, 1.0), (1.0, 0.3), (10.0, 1.0))


class Prior(NamedTuple):
    """Independent log-normal priors: median, in spreads of the data, and standard deviation of the logarithm.

    A spread is the standard deviation of a coordinate for its length, the root mean square of y - mean for
    signal and noise.
    """

    length: tuple[float, float] = (1.0, 1.5)
    signal: tuple[float, float] = (1.0, 1.0)
    noise: tuple[float, float] = (0.1, 1.5)


class Bounds(NamedTuple):
    """Lower and upper bounds, in spreads of the data (see Prior)."""

    length: tuple[float, float] = (1e-2, 1e2)
    signal: tuple[float, float] = (1e-2, 1e2)
    noise: tuple[float, float] = (1e-3, 1e1)


WEAK_PRIOR = Prior()
DEFAULT_BOUNDS = Bounds()


class FitInfo(NamedTuple):
    """What a fit did.

    log_likelihood: log p(y) at its end.  objective: the same plus the log prior (up to its constant).
    evaluations: of the likelihood, over all starts.  converged: the best start.  points: how many were used.
    """

    log_likelihood: float
    objective: float
    evaluations: int
    converged: bool
    points: int


def spread_subset(n: int, size: int) -> np.ndarray:
    """`size` of the indices 0..n-1, spread evenly: the smallest fractional parts of i times the golden ratio.

    Nothing is drawn, no regular pattern in the order of the data is met in step, and when n grows by a few
    rows the subset changes by a few.
    """
    if size >= n:
        return np.arange(n)
    return np.sort(np.argsort(np.arange(n) * GOLDEN_RATIO % 1.0, kind="stable")[:size])


def fitting_subset(n: int, size: int) -> np.ndarray:
    """`size` of n rows in the order of arrival: the newest half, and the rest spread over the older ones.

    Old rollouts alone would fit lengths too long for where the policy is now, the newest alone too short for the rest.
    """
    if size >= n:
        return np.arange(n)
    newest = size // 2
    return np.concatenate([spread_subset(n - newest, size - newest), np.arange(n - newest, n)])


def choose_points(key: Array, count: int, max_points: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Indices of the rows to condition on when there are more than `max_points`, in ascending order.

    Rows are in the order of arrival. The newest three quarters of `max_points` are kept, for that is where the
    policy is now; the rest is drawn from the older rows without replacement, with probabilities in proportion to
    `weights` [count] (default: all alike; rows of weight 0 only when the others do not suffice). The returns
    have no say: to pick points by their noisy returns would bias the regression.
    """
    if max_points < 1:
        raise InputError(f"max_points must be at least 1, got {max_points}")
    weight = np.ones(count) if weights is None else np.asarray(weights, dtype=float)
    if weight.shape != (count,) or not np.all(np.isfinite(weight) & (weight >= 0.0)):
        raise InputError(f"weights must be {count} finite numbers >= 0, got shape {weight.shape}")
    if count <= max_points:
        return np.arange(count)
    newest = int(NEWEST * max_points)
    older = count - newest
    log_weight = np.log(np.maximum(weight[:older], np.finfo(float).tiny))
    # The largest of log w_i + Gumbel noise are a weighted draw without replacement.
    gumbel = -np.log(-np.log(np.maximum(uniform_rows(key, older), np.finfo(float).tiny)))
    score = log_weight + gumbel
    drawn = np.argsort(-score, kind="stable")[: max_points - newest]
    return np.concatenate([np.sort(drawn), np.arange(older, count)])


def _checked(z: Any, y: Any, mask: Any) -> tuple[np.ndarray, np.ndarray]:
    """Points and returns of the rows in the mask."""
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
    return points, returns


def _log_spreads(points: np.ndarray, residual: np.ndarray, isotropic: bool) -> np.ndarray:
    """log spreads for [lengths, signal, noise]; a spread of 0, as of a constant coordinate, counts as 1."""
    coordinates = np.std(points, axis=0)
    coordinates[coordinates <= 1e-12 * np.max(np.abs(points), axis=0)] = 0.0
    if isotropic and np.any(coordinates > 0.0):
        coordinates[:] = np.sqrt(np.mean(coordinates[coordinates > 0.0] ** 2))
    returns = np.sqrt(np.mean(residual**2))
    spreads = np.concatenate([coordinates, [returns, returns]])
    return np.log(np.where(spreads > 0.0, spreads, 1.0))


def _columns(pairs: Prior | Bounds, Z: int) -> tuple[np.ndarray, np.ndarray]:
    """First and second entries of the pairs for [lengths, signal, noise]."""
    table = np.array([pairs.length] * Z + [pairs.signal, pairs.noise], dtype=float)
    return table[:, 0], table[:, 1]


def _starts(start: Hyperparameters | None, spread: np.ndarray, restarts: int) -> list[np.ndarray]:
    """The given start if there is one, the default one, then others: the first 1 + restarts of them."""
    Z = len(spread) - 2
    default = spread + np.log([_START[0] * np.sqrt(Z)] * Z + list(_START[1:]))
    starts = [default]
    if start is not None:
        given = np.concatenate([np.ravel(np.asarray(part, dtype=float)) for part in start])
        if given.shape != default.shape or not np.all(np.isfinite(given)):
            raise InputError(f"start must hold {Z} lengths, a signal and a noise, all finite, got {given}")
        starts = [given, default]
    for length, noise in _RESTART_FACTORS:
        starts.append(default + np.log([length] * Z + [1.0, noise]))
    if not 0 <= restarts < len(starts):
        raise InputError(f"restarts must be between 0 and {len(starts) - 1}, got {restarts}")
    return starts[: 1 + restarts]


def _climb(
    likelihood: ValueAndGradient,
    prior: tuple[np.ndarray, np.ndarray] | None,
    start: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    isotropic: bool,
    options: dict[str, Any],
) -> Any:
    """Maximise log likelihood + log prior (means and deviations of theta) from one start by L-BFGS-B."""
    Z = len(start) - 2
    # theta = expand @ free: with a shared length the first free number stands for all lengths.
    expand = np.eye(Z + 2)
    if isotropic:
        expand = np.column_stack([np.sum(expand[:, :Z], axis=1), expand[:, Z:]])
    average = expand.T / np.sum(expand, axis=0)[:, None]

    def objective(free: np.ndarray) -> tuple[float, np.ndarray]:
        theta = expand @ free
        value, gradient = likelihood(theta)
        if prior is not None:
            error = (theta - prior[0]) / prior[1]
            value, gradient = value - 0.5 * error @ error, gradient - error / prior[1]
        return -value, -(expand.T @ gradient)

    box = list(zip(average @ bounds[0], average @ bounds[1], strict=True))
    first = average @ np.clip(start, *bounds)
    result = optimize.minimize(objective, first, jac=True, method="L-BFGS-B", bounds=box, options=options)
    result.theta = expand @ result.x
    return result


def _likelihood(backend: str) -> Callable[..., ValueAndGradient]:
    """The likelihood of points, residuals and a kernel, computed in that way."""
    if backend == "lapack":
        return lapack_likelihood
    from hpsde.gp.likelihood import jax_likelihood

    return jax_likelihood


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
    tolerance: float = 1e-8,
    backend: str | None = None,
    kernel: str | None = None,
) -> tuple[Hyperparameters, FitInfo]:
    """Hyper-parameters that maximise log p(y) plus the log prior, by L-BFGS-B with the analytic gradient.

    z [N, Z] points, y [N] returns, mask [N] (true or a weight above 0: the row counts; default: all do).
    start: where to begin, such as the last fit's result; default: relative to the spread of the data.
    `restarts` further starts follow, and the highest objective wins. isotropic: one length for all
    coordinates. prior: None for pure maximum likelihood. More than `fit_points` rows, in the
    order of arrival, are thinned by `fitting_subset`.
    tolerance: stop when a step gains less than this share of the objective.
    backend: "lapack", "jax", or None: JAX where its default device is an accelerator and there are many points.
    kernel: "se" or "matern"; default: that of the start, or the squared exponential.
    """
    points, returns = _checked(z, y, mask)
    if fit_points < 1:
        raise InputError(f"fit_points must be at least 1, got {fit_points}")
    chosen = fitting_subset(len(points), fit_points)
    points, residual = points[chosen], returns[chosen] - mean
    device = large_on(len(points))
    backend = _known("backend", backend or ("lapack" if device is None else "jax"), _BACKENDS)
    kernel = _known("kernel", kernel or ("se" if start is None else start.kernel.name), KERNELS)

    Z = points.shape[1]
    spread = _log_spreads(points, residual, isotropic)
    lower, upper = _columns(bounds, Z)
    limits = (spread + np.log(lower), spread + np.log(upper))
    belief = None
    if prior is not None:
        median, deviation = _columns(prior, Z)
        belief = (spread + np.log(median), deviation)
    options = {"maxiter": iterations, "ftol": tolerance}

    starts = _starts(start, spread, restarts)

    def climbs() -> list[Any]:
        with on_device(device):
            likelihood = _likelihood(backend)(points - np.mean(points, axis=0), residual, KINDS[kernel])
            return [_climb(likelihood, belief, first, limits, isotropic, options) for first in starts]

    results = climbs() if backend == "lapack" else with_jax(climbs)()
    best = min(results, key=lambda result: result.fun)
    evaluations = sum(result.nfev for result in results)
    theta = np.asarray(best.theta)
    hyperparameters = KERNELS[kernel](theta[:-2], np.asarray(theta[-2]), np.asarray(theta[-1]))
    return hyperparameters, _info(best, belief, evaluations, len(points))


def _known(what: str, name: str, valid: Collection[str]) -> str:
    """The name, or an error that lists the valid ones."""
    if name not in valid:
        raise UnknownNameError(what, name, valid)
    return name


def _info(best: Any, belief: tuple[np.ndarray, np.ndarray] | None, evaluations: int, points: int) -> FitInfo:
    """What the best climb has reached; the log likelihood is its objective less the log prior."""
    penalty = 0.0 if belief is None else 0.5 * float(np.sum(((best.theta - belief[0]) / belief[1]) ** 2))
    objective = -float(best.fun)
    return FitInfo(objective + penalty, objective, evaluations, bool(best.success), points)
