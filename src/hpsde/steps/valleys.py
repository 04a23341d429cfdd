"""Valleys of the modelled return between two policies, at the same context.

Two policies are one solution where one can be changed into the other, context by context, without the return falling.
From mu_i(s) to mu_j(s) the model's mean m is followed along the straight way, whose points then climb across it (with
several parameters the pass may lie beside the straight way). The dip is how far m falls below the lower end:

    dip(s) = min(m(mu_i(s), s), m(mu_j(s), s)) - min_t m(x_t, s).

It counts as a valley if it is more than a share of T, and more than a posterior standard deviation of that difference,
which the process knows: the covariance of the two places is that of one unknown function.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hpsde import gp
from hpsde.base.padding import pad_rows
from hpsde.base.precision import single
from hpsde.base.shapes import Array, Float, Int
from hpsde.gp.kernel import correlation

BETWEEN = 9  # points on the way, without its ends
CLIMBS = 10  # steps of these points across the way
STRIDE = 0.2  # of the first of these steps, in kernel lengths
DEPTH = 0.3  # of T: a lesser dip is none
DOUBT = 1.0  # standard deviations of the difference that a dip must exceed


class Model(NamedTuple):
    """The process, its axes [E, Z], the way back from y to parameters L [K, D], and T in its scores.

    highest: score that any rollout had; what the process believes to be higher has not been seen.
    """

    process: gp.GP
    axes: Float[Array, "E Z"]
    L: Float[Array, "K D"]
    temperature: float
    highest: float = np.inf


def heights(model: Model, curves: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """m [C, A] on curves y [C, A, K] in contexts [A, S]."""
    flat = curves.reshape(-1, curves.shape[-1])
    return heights_at(model, flat, np.tile(contexts, (len(curves), 1))).reshape(curves.shape[:2])


def heights_at(model: Model, y: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """m [B] at places y [B, K] in contexts [B, S]."""
    rows = _padded(len(y))
    values = _heights(*_lean(model), single(pad_rows(y, rows)), single(pad_rows(contexts, rows)))
    return np.asarray(values, dtype=float)[: len(y)]


def deviations_at(model: Model, y: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """Posterior standard deviation [B] of m at places y [B, K] in contexts [B, S]."""
    rows = _padded(len(y))
    points = pad_rows(np.concatenate([y @ np.asarray(model.L), contexts], axis=1) @ np.asarray(model.axes).T, rows)
    return np.sqrt(np.maximum(np.asarray(_variance(model.process, jnp.asarray(points))), 0.0))[: len(y)]


def are_separate(model: Model, first: np.ndarray, second: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """Whether there is a valley [B] between places y [B, K] and [B, K] in contexts [B, S]."""
    deep = np.zeros(len(first), dtype=bool)
    # Points that climb only make a dip smaller: where the straight way has none, there is none.
    asked = np.arange(len(first))
    for climbs in (0, CLIMBS) if first.shape[1] > 1 else (0,):
        rows = _padded(len(asked))
        places = (single(pad_rows(each[asked], rows)) for each in (first, second, contexts))
        found = _dips(*_lean(model), *places, climbs=climbs)
        lowest, dip, end = (np.asarray(each, dtype=float)[: len(asked)] for each in found)
        possible = dip > DEPTH * model.temperature
        asked, lowest, dip, end = asked[possible], lowest[possible], dip[possible], end[possible]
        if not len(asked):
            return deep
    lower = np.where(end[:, None] == 0, first[asked], second[asked])
    deep[asked] = dip > DOUBT * _deviation(model, lowest, lower, contexts[asked])
    return deep


def _lean(model: Model) -> tuple[gp.GP, Array, Array]:
    return single((model.process._replace(K_inverse=jnp.zeros((0, 0))), model.axes, model.L))


def _padded(count: int) -> int:
    size = 64
    while size < count:
        size *= 2
    return size


def _points(axes: Array, L: Array, y: Array, s: Array) -> Array:
    return jnp.concatenate([y @ L, s], axis=-1) @ axes.T


@jax.jit
def _heights(process: gp.GP, axes: Array, L: Array, y: Float[Array, "B K"], s: Float[Array, "B S"]) -> Array:
    return gp.predict_mean(process, _points(axes, L, y, s))


@jax.jit
def _variance(process: gp.GP, points: Float[Array, "B E"]) -> Float[Array, " B"]:
    return gp.predict(process, points)[1]


@functools.partial(jax.jit, static_argnames="climbs")
def _dips(
    process: gp.GP,
    axes: Array,
    L: Array,
    first: Float[Array, "B K"],
    second: Float[Array, "B K"],
    s: Array,
    *,
    climbs: int,
) -> tuple[Float[Array, "B K"], Float[Array, " B"], Int[Array, " B"]]:
    """Where m is lowest on the way, how far below the lower end, and which end that is."""
    share = jnp.arange(1, BETWEEN + 1) / (BETWEEN + 1.0)
    share = share.astype(first.dtype)
    y = first[:, None] + share[None, :, None] * (second - first)[:, None]
    along = second - first
    along = along / jnp.maximum(jnp.linalg.norm(along, axis=1, keepdims=True), 1e-9)
    contexts = jnp.broadcast_to(s[:, None], (*y.shape[:2], s.shape[1]))
    by_y = axes[:, : L.shape[1]] @ L.T

    def seen(y: Array) -> Array:
        points = _points(axes, L, y, contexts)
        return points.reshape(-1, points.shape[-1])

    def climb(t: Array | int, y: Array) -> Array:
        slope = (gp.predict_gradient(process, seen(y)) @ by_y).reshape(y.shape)
        slope = slope - jnp.sum(slope * along[:, None], axis=-1, keepdims=True) * along[:, None]
        steepness = jnp.linalg.norm(slope, axis=-1, keepdims=True)
        steepest = jnp.max(steepness, axis=1, keepdims=True)
        return y + STRIDE * (1.0 - t / climbs) * slope / jnp.maximum(steepest, 1e-9)

    if climbs:
        y = jax.lax.fori_loop(0, climbs, climb, y)
    between = gp.predict_mean(process, seen(y)).reshape(y.shape[:2])
    ends = jnp.stack([_heights(process, axes, L, each, s) for each in (first, second)])
    at = jnp.argmin(between, axis=1)
    lowest = jnp.take_along_axis(y, at[:, None, None], axis=1)[:, 0]
    return lowest, jnp.min(ends, axis=0) - jnp.min(between, axis=1), jnp.argmin(ends, axis=0)


def _deviation(model: Model, y: np.ndarray, other: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Posterior standard deviation [B] of m(y) - m(other), in contexts s."""
    A, L = np.asarray(model.axes), np.asarray(model.L)
    lengths = np.exp(np.asarray(model.process.hyperparameters.log_lengths))
    variance, of = np.exp(2.0 * float(model.process.hyperparameters.log_signal)), model.process.hyperparameters.kernel
    known = np.asarray(model.process.mask)
    z = np.asarray(model.process.z)[known] / lengths
    K_inverse = np.asarray(model.process.K_inverse)[np.ix_(known, known)]

    def places(y: np.ndarray) -> np.ndarray:
        return (np.concatenate([y @ L, s], axis=1) @ A.T - np.asarray(model.process.centre)) / lengths

    def kernel(a: np.ndarray) -> np.ndarray:
        squares = np.sum(a**2, axis=1)[:, None] + np.sum(z**2, axis=1)[None] - 2.0 * a @ z.T
        return variance * correlation(of, np.maximum(squares, 0.0), xp=np)

    a, b = places(y), places(other)
    difference = kernel(a) - kernel(b)
    prior = 2.0 * variance * (1.0 - correlation(of, np.sum((a - b) ** 2, axis=1), xp=np))
    return np.sqrt(np.maximum(prior - np.sum((difference @ K_inverse) * difference, axis=1), 0.0))
