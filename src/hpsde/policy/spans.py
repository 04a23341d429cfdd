"""What a few points of an option, its nodes, tell of the scores of its others: bounds that take no more than the nodes.

An option's points lie on a smooth surface over the contexts, so that the functions k(z, .) of all of them are nearly
combinations of those of a few. With e an orthonormal basis of the nodes' functions, in units of the signal,

    k(z, .) / signal = c(z)' e + rest,    c = L^-1 corr(nodes, z),    left = |rest| = sqrt(1 - |c|^2),

L L' being the correlations of the nodes. The posterior mean m + f is linear in k(z, .), and its standard deviation is a
seminorm that never exceeds the prior one, so that

    |mean(z) - m - c' f(e)| <= signal left |f|,    |deviation(z) - sqrt(c' V c)| <= signal left,

where V is the posterior covariance of the basis. What rounding adds is allowed for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde.gp.kernel import Kernel, correlation
from hpsde.policy.process import ProcessInUse, inverse_of_lower, squared_distances

MOST = 144  # nodes of an option; they stand for others only if they are fewer than the points of the process
BLOCK = 64  # rows of a triangular matrix that are multiplied at once
NEAR, FAR = 1e-10, 1e-3  # left^2 that is small enough, and that is too large for nodes to tell anything
ROUNDING = 1e-12  # of left^2, for points around the centre
VARIANCE_ROUNDING, VARIANCE_ROUNDING_SPARSE = 1e-8, 1e-6  # of a variance, in units of signal^2


class Span(NamedTuple):
    """The nodes [R, E] of an option, L^-1 [R, R], f(e) [R] and V [R, R]."""

    nodes: np.ndarray
    factor: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray

    def bounds(self, process: ProcessInUse, at: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of points [C, E] the least and the largest mean [C], and the least and the largest deviation [C]."""
        c, signal2 = self._coordinates(process.kernel, at), process.signal_variance
        rounding = ROUNDING * (1.0 + np.einsum("ce,ce->c", at, at))
        left = np.sqrt(signal2 * (np.maximum(1.0 - np.einsum("cr,cr->c", c, c), 0.0) + rounding))
        mean, variance = process.mean + c @ self.mean, np.einsum("cr,cr->c", c @ self.covariance, c)
        width = process.norm * left
        error = signal2 * (VARIANCE_ROUNDING if process.inverse is None else VARIANCE_ROUNDING_SPARSE)
        least = np.sqrt(np.maximum(variance - error, 0.0)) - left
        most = np.sqrt(np.maximum(variance, 0.0) + error) + left
        return mean - width, mean + width, np.maximum(least, 0.0), most

    def _coordinates(self, kernel: Kernel, at: np.ndarray) -> np.ndarray:
        """c [C, R] of points [C, E]; of the zeros of L^-1 few are multiplied."""
        k, R = correlation(kernel, squared_distances(at, self.nodes)), len(self.nodes)
        c = np.empty_like(k)
        for start in range(0, R, BLOCK):
            end = min(start + BLOCK, R)
            np.matmul(k[:, :end], self.factor[start:end, :end].T, out=c[:, start:end])
        return c


def find_span(process: ProcessInUse, points: np.ndarray) -> Span | None:
    """What the nodes among points [N, E] of an option tell; None where a few do not stand for all."""
    chosen = _nodes(process.kernel, points, min(MOST, len(process.points) - 1))
    if chosen is None:
        return None
    nodes = points[chosen]
    try:
        L = np.linalg.cholesky(correlation(process.kernel, squared_distances(nodes, nodes)))
    except np.linalg.LinAlgError:
        return None
    factor = inverse_of_lower(L)
    k, signal2 = factor @ process.covariances(nodes), process.signal_variance
    return Span(nodes, factor, k @ process.beta, signal2 * np.eye(len(nodes)) - process.known_together(k))


def _nodes(kernel: Kernel, points: np.ndarray, most: int) -> np.ndarray | None:
    """Places of points that the others are nearly combinations of: each time the one of which most is left."""
    left, L = np.ones(len(points)), np.empty((max(most, 0), len(points)))
    chosen: list[int] = []
    while len(chosen) < min(most, len(points)):
        place, done = int(np.argmax(left)), len(chosen)
        if left[place] <= NEAR:
            break
        row = correlation(kernel, squared_distances(points[place : place + 1], points))[0]
        row -= L[:done, place] @ L[:done]
        L[done] = row / np.sqrt(left[place])
        left = left - L[done] ** 2
        chosen.append(place)
    return np.array(chosen) if np.max(left, initial=0.0) <= FAR and chosen else None
