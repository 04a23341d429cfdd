"""Valleys of the modelled return between two policies, at the same context.

Two policies are one solution where one can be changed into the other, context by context, without the return falling.
From mu_i(s) to mu_j(s) the model's mean m is followed along the straight way, whose points then climb across it (with
several parameters the pass may lie beside the straight way). The dip is how far m falls below the lower end:

    dip(s) = min(m(mu_i(s), s), m(mu_j(s), s)) - min_t m(x_t, s).

It counts as a valley if it is more than a share of T, and more than a posterior standard deviation of that difference,
which the process knows: the covariance of the two places is that of one unknown function.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde import gp
from hpsde.base.precision import single
from hpsde.base.shapes import Float, Int
from hpsde.gp.kernel import correlation

BETWEEN = 9  # points on the way, without its ends
CLIMBS = 10  # steps of these points across the way
STRIDE = 0.2  # of the first of these steps, in kernel lengths
DEPTH = 0.3  # of T: a lesser dip is none
AT_ONCE = 4096  # places
DOUBT = 1.0  # standard deviations of the difference that a dip must exceed


class Model(NamedTuple):
    """The process, its axes [E, Z], the way back from y to parameters L [K, D], and T in its scores.

    highest: score that any rollout had; what the process believes to be higher has not been seen.
    """

    process: gp.GP
    axes: Float[np.ndarray, "E Z"]
    L: Float[np.ndarray, "K D"]
    temperature: float
    highest: float = np.inf


def heights(model: Model, curves: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """m [C, A] on curves y [C, A, K] in contexts [A, S]."""
    flat = curves.reshape(-1, curves.shape[-1])
    return heights_at(model, flat, np.tile(contexts, (len(curves), 1))).reshape(curves.shape[:2])


def heights_at(model: Model, y: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """m [B] at places y [B, K] in contexts [B, S]."""
    return _heights(*_lean(model), *single((y, contexts))).astype(float)


def deviations_at(model: Model, y: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """Posterior standard deviation [B] of m at places y [B, K] in contexts [B, S]."""
    return np.sqrt(gp.predict(model.process, _points(model.axes, model.L, y, contexts))[1])


def are_separate(model: Model, first: np.ndarray, second: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """Whether there is a valley [B] between places y [B, K] and [B, K] in contexts [B, S]."""
    deep = np.zeros(len(first), dtype=bool)
    # Points that climb only make a dip smaller: where the straight way has none, there is none.
    asked = np.arange(len(first))
    for climbs in (0, CLIMBS) if first.shape[1] > 1 else (0,):
        places = single((first[asked], second[asked], contexts[asked]))
        lowest, dip, end = (np.asarray(each, dtype=float) for each in _dips(*_lean(model), *places, climbs=climbs))
        possible = dip > DEPTH * model.temperature
        asked, lowest, dip, end = asked[possible], lowest[possible], dip[possible], end[possible]
        if not len(asked):
            return deep
    lower = np.where(end[:, None] == 0, first[asked], second[asked])
    deep[asked] = dip > DOUBT * _deviation(model, lowest, lower, contexts[asked])
    return deep


def _lean(model: Model) -> tuple[gp.GP, np.ndarray, np.ndarray]:
    return single((gp.without_inverse(model.process), model.axes, model.L))


def _points(axes: np.ndarray, L: np.ndarray, y: np.ndarray, s: np.ndarray) -> np.ndarray:
    return np.concatenate([y @ L, s], axis=-1) @ axes.T


def _heights(
    process: gp.GP, axes: np.ndarray, L: np.ndarray, y: Float[np.ndarray, "B K"], s: Float[np.ndarray, "B S"]
) -> Float[np.ndarray, " B"]:
    points = _points(axes, L, y, s)
    parts = (gp.predict_mean(process, points[start : start + AT_ONCE]) for start in range(0, len(points), AT_ONCE))
    return np.concatenate([np.zeros(0, points.dtype), *parts])


def _dips(
    process: gp.GP,
    axes: np.ndarray,
    L: np.ndarray,
    first: Float[np.ndarray, "B K"],
    second: Float[np.ndarray, "B K"],
    s: Float[np.ndarray, "B S"],
    *,
    climbs: int,
) -> tuple[Float[np.ndarray, "B K"], Float[np.ndarray, " B"], Int[np.ndarray, " B"]]:
    """Where m is lowest on the way, how far below the lower end, and which end that is."""
    share = (np.arange(1, BETWEEN + 1) / (BETWEEN + 1.0)).astype(first.dtype)
    y = first[:, None] + share[None, :, None] * (second - first)[:, None]
    along = second - first
    along = along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
    contexts = np.repeat(s, BETWEEN, axis=0)
    by_y = axes[:, : L.shape[1]] @ L.T

    def climbed(y: np.ndarray, stride: float) -> np.ndarray:
        points = _points(axes, L, y.reshape(len(contexts), -1), contexts)
        slope = (gp.predict_gradient(process, points) @ by_y).reshape(y.shape)
        slope -= np.sum(slope * along[:, None], axis=-1, keepdims=True) * along[:, None]
        steepest = np.max(np.linalg.norm(slope, axis=-1, keepdims=True), axis=1, keepdims=True)
        return y + stride * slope / np.maximum(steepest, 1e-9)

    for t in range(climbs):
        y = climbed(y, STRIDE * (1.0 - t / climbs))
    between = _heights(process, axes, L, y.reshape(len(contexts), -1), contexts).reshape(y.shape[:2])
    ends = np.stack([_heights(process, axes, L, each, s) for each in (first, second)])
    lowest = np.take_along_axis(y, np.argmin(between, axis=1)[:, None, None], axis=1)[:, 0]
    return lowest, np.min(ends, axis=0) - np.min(between, axis=1), np.argmin(ends, axis=0)


def _deviation(model: Model, y: np.ndarray, other: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Posterior standard deviation [B] of m(y) - m(other), in contexts s."""
    hyperparameters = model.process.hyperparameters
    lengths, of = np.exp(hyperparameters.log_lengths), hyperparameters.kernel
    variance = float(np.exp(2.0 * hyperparameters.log_signal))
    z = model.process.z / lengths

    def places(y: np.ndarray) -> np.ndarray:
        return (_points(model.axes, model.L, y, s) - model.process.centre) / lengths

    a, b = places(y), places(other)
    difference = variance * (correlation(of, gp.squared_distances(a, z)) - correlation(of, gp.squared_distances(b, z)))
    prior = 2.0 * variance * (1.0 - correlation(of, np.sum((a - b) ** 2, axis=1)))
    known = np.sum((difference @ model.process.K_inverse) * difference, axis=1)
    return np.sqrt(np.maximum(prior - known, 0.0))
