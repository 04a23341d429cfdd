"""Curves through points: interpolating cubic splines of many routes at once.

The curve through points p_0 ... p_K has the chord length as its parameter, u_k = |p_1 - p_0| + ... + |p_k - p_(k-1)|.
It is a cubic between neighbouring points, has two continuous derivatives, and three at the second point and the last
but one (de Boor's "not-a-knot" condition). A point that repeats the one before it is left out.
"""

from __future__ import annotations

import numpy as np

from hpsde.base.later import Later
from hpsde.base.shapes import Float

interpolate = Later("scipy.interpolate")


__all__ = ["curves_through"]


def curves_through(points: Float[np.ndarray, "N K 2"], samples: int) -> Float[np.ndarray, "N samples 2"]:
    """The curves through four or more points each, at `samples` values of u, evenly spaced from the first to the last.

    Distinct points that are fewer than four have a parabola or a line through them, or are a curve that stays.
    """
    lengths = np.linalg.norm(np.diff(points, axis=1), axis=2)
    moving = np.all(lengths > 0.0, axis=1)
    curves = np.empty((len(points), samples, 2))
    curves[moving] = _hermite(points[moving], lengths[moving], _slopes(points[moving], lengths[moving]), samples)
    for row in np.flatnonzero(~moving):
        curves[row] = _curve_with_rests(points[row], lengths[row], samples)
    return curves


def _slopes(points: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The derivatives s_k at the points [N, K, 2], by elimination from the first to the last.

    With the chords h_k and their directions d_k, continuous second derivatives ask that
        h_k s_(k-1) + 2 (h_(k-1) + h_k) s_k + h_(k-1) s_(k+1) = 3 (h_k d_(k-1) + h_(k-1) d_k).
    """
    h = h[:, :, None]
    d = np.diff(points, axis=1) / h
    first, second = _end(h[:, 0], h[:, 1], d[:, 0], d[:, 1])
    above, right = [first], [second]
    for k in range(1, points.shape[1] - 1):
        before, after = h[:, k - 1], h[:, k]
        pivot = 2.0 * (before + after) - after * above[-1]
        known = 3.0 * (after * d[:, k - 1] + before * d[:, k]) - after * right[-1]
        above.append(before / pivot)
        right.append(known / pivot)
    ratio, known = _end(h[:, -1], h[:, -2], d[:, -1], d[:, -2])
    slopes = np.empty_like(points)
    slopes[:, -1] = (known - ratio * right[-1]) / (1.0 - ratio * above[-1])
    for k in range(points.shape[1] - 2, -1, -1):
        slopes[:, k] = right[k] - above[k] * slopes[:, k + 1]
    return slopes


def _end(h: np.ndarray, next_h: np.ndarray, d: np.ndarray, next_d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """c and r of s_0 + c s_1 = r at an end, where the first two cubics are one."""
    both = h + next_h
    return both / next_h, ((h + 2.0 * both) * d + h * h / next_h * next_d) / both


def _hermite(points: np.ndarray, h: np.ndarray, slopes: np.ndarray, samples: int) -> np.ndarray:
    """The cubics with these values and slopes at even steps of u."""
    n, last = len(h), samples - 1
    u = np.concatenate([np.zeros((n, 1)), np.cumsum(h, axis=1)], axis=1)
    # Sample m lies behind the inner knot k where m >= u_k / u_K (samples - 1).
    first = np.minimum(np.ceil(u[:, 1:-1] / u[:, -1:] * last), last).astype(int)
    flat = (first + samples * np.arange(n)[:, None]).ravel()
    piece = np.cumsum(np.bincount(flat, minlength=n * samples).reshape(n, samples), axis=1)
    step = h[:, :, None]
    d, start, end = np.diff(points, axis=1) / step, slopes[:, :-1], slopes[:, 1:]
    square, cube = (3.0 * d - 2.0 * start - end) / step, (start + end - 2.0 * d) / step**2
    at = np.arange(n)[:, None], piece
    x = (np.linspace(0.0, 1.0, samples) * u[:, -1:] - u[at])[:, :, None]
    return points[at] + x * (start[at] + x * (square[at] + x * cube[at]))


def _curve_with_rests(points: np.ndarray, h: np.ndarray, samples: int) -> np.ndarray:
    """The curve through the points [K, 2] of which some repeat the one before."""
    distinct = points[np.append(True, h > 0.0)]
    if len(distinct) == 1:
        return np.repeat(distinct, samples, axis=0)
    u = np.append(0.0, np.cumsum(h[h > 0.0]))
    return interpolate.CubicSpline(u, distinct)(np.linspace(0.0, u[-1], samples))
