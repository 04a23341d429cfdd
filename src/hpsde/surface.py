"""The return function over z = [xi, s], approximated by a Gaussian process, and the directions in which it varies.

The process is the paper's gate. Beyond that it tells what of context and parameters the return depends on: along an
axis with a long length it hardly changes, and what changes nothing cannot tell solutions apart. Options are
sought, and rollouts weighted, along the other axes alone.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from hpsde import gp
from hpsde._padding import pad_rows, padded_size
from hpsde._shapes import Array, Float
from hpsde.gp_axes import turned_axes
from hpsde.settings import Settings
from hpsde.warp import Warp, fit_warp

FEW_DIMENSIONS = 4  # of contexts and parameters together: up to here the process sees them along their own axes
ENOUGH_ROLLOUTS = 5  # for every dimension, before axes are turned
TURN_GROWTH = 1.25  # of the number of rollouts before the axes are turned again
FIRST_TURNS = 3  # of the axes the first time; later fits go on from the last
FIRST_LENGTHS = (0.3, 1.0, 3.0)  # to start from the first time, in spreads
SIGNAL, NOISE = 1.0, 0.3  # to start from
TOLERANCE = 1e-5  # of the likelihood, that a step must gain: some thousandths of a nat
LITTLE = 0.1  # of the largest weight that a direction gives to parameters counts as none


class Start(NamedTuple):
    """Where the next fit starts from: hyper-parameters, and axes A [Z, Z] where they are turned."""

    hyperparameters: gp.Hyperparameters | None = None
    axes: np.ndarray | None = None
    turned: int = 0  # number of rollouts that the axes were last turned by


class Surface(NamedTuple):
    """The process over z, or over A z, of the warped returns `scores`; and what the return sees of [s, xi].

    directions [S + D, E] lead from [s, xi] to the E coordinates that matter, None where all do; relevance [E] is
    how fast the return changes along them.
    """

    process: gp.GP
    scores: Float[Array, " N"]
    warp: Warp
    axes: Float[Array, "Z Z"] | None
    directions: np.ndarray | None
    relevance: np.ndarray | None
    start: Start


def fit(
    key: Array,
    joint: np.ndarray,
    context_size: int,
    returns: np.ndarray,
    share: np.ndarray,
    mask: np.ndarray,
    spreads: np.ndarray,
    start: Start,
    settings: Settings,
) -> Surface:
    """The surface of rollouts [s, xi] [N, S + D], padded, with `share` [N] of weight for good returns."""
    rows = np.flatnonzero(mask)
    scores, warp = fit_warp(returns[rows], share[rows], settings.warp)
    points = gp.choose_points(key, len(rows), settings.gp_max_points)
    z = np.roll(joint, -context_size, axis=1)[rows[points]]  # [xi, s]
    size = len(mask) if len(points) == len(rows) else padded_size(len(points))
    z, y, known = pad_rows(z, size), pad_rows(scores[points], size), np.arange(size) < len(points)
    if not turns(settings.gp_axes, len(rows), z.shape[1]):
        process = _fit_process(z, y, known, start.hyperparameters, settings)
        return Surface(process, jnp.asarray(y), warp, None, None, None, Start(process.hyperparameters))
    process, axes = _fit_turned(z, y, known, spreads, start, settings)
    directions, relevance = _active(process, axes, context_size, settings)
    if len(rows) >= TURN_GROWTH * start.turned:
        next_axes, next_hyperparameters = turned_axes(process, axes)
        start = Start(next_hyperparameters, next_axes, len(rows))
    else:
        start = Start(process.hyperparameters, axes, start.turned)
    return Surface(process, jnp.asarray(y), warp, jnp.asarray(axes), directions, relevance, start)


def is_needed(rollouts: int, dimensions: int, settings: Settings) -> bool:
    """Whether anything asks for the process: the gate, the search for options or the options themselves."""
    seeks = _seeks(settings) and turns(settings.gp_axes, rollouts, dimensions)
    return settings.gate == "gp" or settings.target != "weighted" or settings.model_step or seeks


def _seeks(settings: Settings) -> bool:
    """Whether options are sought along the axes that matter."""
    return settings.active_length > 0.0 and not settings.embedding_dimensions


def turns(rule: str, rollouts: int, dimensions: int) -> bool:
    """Whether the axes of the process are turned."""
    many = dimensions > FEW_DIMENSIONS and rollouts >= ENOUGH_ROLLOUTS * dimensions
    return rule == "turned" or (rule == "automatic" and many)


def _active(
    process: gp.GP, axes: np.ndarray, context_size: int, settings: Settings
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Directions and relevance of the axes whose length is within `active_length`; None, None where that is all."""
    lengths = np.exp(np.asarray(process.hyperparameters.log_lengths))
    active = (lengths < settings.active_length) | (lengths == lengths.min())
    if not _seeks(settings) or active.all():
        return None, None
    return np.roll(axes[active], context_size, axis=1).T, 1.0 / lengths[active]


def parameter_combinations(directions: np.ndarray, context_size: int) -> np.ndarray:
    """Orthonormal combinations P [D, K] of the parameters: what `directions` [S + D, E] see of them, given the context.

    A direction that looks at the context alone, or nearly so, beside others that do not, has none.
    """
    turn, size, _ = np.linalg.svd(directions[context_size:], full_matrices=False)
    return turn[:, size > LITTLE * size[0]]


def _fit_turned(
    z: np.ndarray, y: np.ndarray, mask: np.ndarray, spreads: np.ndarray, start: Start, settings: Settings
) -> tuple[gp.GP, np.ndarray]:
    """The process over A z, and A: the start's, or the first time what a few turns lead to."""
    if start.axes is not None:
        return _fit_process(z @ start.axes.T, y, mask, start.hyperparameters, settings), start.axes
    axes = np.eye(z.shape[1])
    process = _first_process(z, y, mask, spreads, settings)
    for _ in range(FIRST_TURNS):
        axes, hyperparameters = turned_axes(process, axes)
        process = _fit_process(z @ axes.T, y, mask, hyperparameters, settings)
    return process, axes


def _fit_process(
    z: np.ndarray, y: np.ndarray, mask: np.ndarray, start: gp.Hyperparameters | None, settings: Settings
) -> gp.GP:
    """The process at its likeliest hyper-parameters, found from some of the points; or at the start's, if the
    likelihood of all points is higher there: what some points look like the others may contradict.
    """
    found, info = _likeliest(z, y, mask, start, settings)
    if start is not None and info.points < mask.sum():
        found = max(found, start, key=lambda each: gp.log_evidence(each, z, y, mask))
    return gp.posterior(found, z, y, mask)


def _likeliest(
    z: np.ndarray, y: np.ndarray, mask: np.ndarray, start: gp.Hyperparameters | None, settings: Settings
) -> tuple[gp.Hyperparameters, gp.FitInfo]:
    isotropic, points = settings.isotropic, settings.gp_fit_points
    return gp.fit_hyperparameters(z, y, mask, start, isotropic=isotropic, fit_points=points, tolerance=TOLERANCE)


def _first_process(z: np.ndarray, y: np.ndarray, mask: np.ndarray, spreads: np.ndarray, settings: Settings) -> gp.GP:
    """The likeliest of fits from several starts, each with one length for all numbers as they were before whitening.

    Whitened numbers that hardly varied are as large as the others; from equal lengths for all, the fit may end
    where the return depends on those alone.
    """

    def found(length: float) -> tuple[gp.Hyperparameters, gp.FitInfo]:
        lengths = np.clip(length / spreads, *gp.DEFAULT_BOUNDS.length)
        start = gp.Hyperparameters(*(jnp.log(jnp.asarray(value)) for value in (lengths, SIGNAL, NOISE)))
        return _likeliest(z, y, mask, start, settings)

    best, _ = max((found(length) for length in FIRST_LENGTHS), key=lambda each: each[1].objective)
    return gp.posterior(best, z, y, mask)
