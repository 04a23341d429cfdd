"""A Gaussian process of many points by way of few: what all of them say of the return at m points, collapsed.

Given the return f_m at m of the points, each other point is taken to tell of f_m alone (FITC, Snelson and Ghahramani
2006). With K_mm = L L', V = L^-1 K_mn and r = y - mean,

    lambda_i = noise^2 + k_ii - |v_i|^2,    A = V Lambda^-1 V',    b = V Lambda^-1 r

    mean at z = m + k' beta,    variance = signal^2 - k' B k,    k = K_mz
    beta = L^-T (I + A)^-1 b,   B = L^-T (I - (I + A)^-1) L^-1.

So the posterior has the form of the exact one, with B for K^-1, and whatever asks a process can ask it. A point among
the m counts exactly; another one counts with the variance that the m leave it, so that few points make the process
less sure, and not wrong. A and b are sums over the points: they are added up block by block, in memory of m^2 and of
m times a block, on an accelerator where there is one and it is worth it.

Three quarters of the m points are the newest, for that is where the policy is now, the others are spread over all; a
point whose return those chosen before it leave no doubt of is passed over. What is near counts in kernel lengths: along
directions in which the return hardly varies all points are near.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hpsde.base.devices import accelerator
from hpsde.base.later import Later
from hpsde.gp.fit import GOLDEN_RATIO, NEWEST, fitting_subset, spread_subset
from hpsde.gp.kernel import JITTER, correlation
from hpsde.gp.lapack import as_floats
from hpsde.gp.model import GP, Hyperparameters

linalg = Later("scipy.linalg")


MOST = 4096  # points that the others speak by
BLOCK = 2048  # points that are looked at at once
CANDIDATES = 8192  # points that the m are chosen from
LARGE = 10**10  # products, from which on an accelerator adds up
AT_ONCE = 512  # of these
SURE = 0.1  # of the noise variance: a point with less variance than that is known by the others
LOOKED_AT = 1024  # points that are compared with what the process says of them


class Missed(NamedTuple):
    """What a process misses of some of its points, each predicted from all others; see `surface.Residuals`."""

    rows: np.ndarray  # [n] their numbers
    beta: np.ndarray  # [n] residual over variance
    precision: np.ndarray  # [n] 1 / variance
    noise: np.ndarray  # [n] lambda


class _Chosen(NamedTuple):
    """The points by which the others speak: their numbers [m], and L of their covariance and the jitter."""

    rows: np.ndarray
    L: np.ndarray


class SparseKernel:
    """Covariances of points [n, Z] in numpy."""

    def __init__(self, hyperparameters: Hyperparameters, centre: np.ndarray):
        log_lengths, log_signal, log_noise = (np.asarray(part, dtype=float) for part in hyperparameters)
        self.lengths, self.centre, self.kind = np.exp(log_lengths), centre, hyperparameters.kernel
        self.signal_variance, self.noise_variance = math.exp(2.0 * log_signal), math.exp(2.0 * log_noise)
        self.jitter = JITTER * self.signal_variance

    def scaled(self, z: np.ndarray) -> np.ndarray:
        """Points in kernel lengths."""
        return (z - self.centre) / self.lengths

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """k(a_i, b_j) of scaled points."""
        k = correlation(self.kind, self.distances(a, b))
        k *= self.signal_variance
        return k

    def distances(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """|a_i - b_j|^2."""
        d2 = a @ (-2.0 * b.T)
        d2 += np.sum(a**2, axis=1)[:, None]
        d2 += np.sum(b**2, axis=1)[None]
        return np.maximum(d2, 0.0, out=d2)

    def factor(self, points: np.ndarray) -> np.ndarray:
        """The lower Cholesky factor of their covariance and the jitter."""
        K = self(points, points)
        np.einsum("ii->i", K)[:] = self.signal_variance + self.jitter
        return linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)


def condition_sparse(
    hyperparameters: Hyperparameters, z: np.ndarray, y: np.ndarray, most: int, looked: np.ndarray
) -> tuple[GP, np.ndarray, Missed]:
    """The posterior of a process of mean 0 given y [n] at z [n, Z], in the order of arrival, by at most `most` of the
    points; the numbers of these points; and what it misses of the rows `looked` at.
    """
    kernel = SparseKernel(hyperparameters, np.mean(z, axis=0))
    chosen = choose_inducing(kernel, z, y, most)
    points, m = kernel.scaled(z[chosen.rows]), len(chosen.rows)
    L_inverse = linalg.solve_triangular(chosen.L, np.eye(m), lower=True, check_finite=False)
    device = accelerator() if len(z) * m * m > LARGE else None
    if device is None:
        A, b = _sums(kernel, L_inverse, points, z, y)
    else:
        from hpsde.gp.sums import sums_on

        A, b = sums_on(device, kernel, L_inverse, points, z, y)
    C = linalg.cholesky(A + np.eye(m), lower=True, overwrite_a=True, check_finite=False)
    W = linalg.solve_triangular(C, L_inverse, lower=True, check_finite=False)  # W'W = L^-T (I + A)^-1 L^-1
    beta = W.T @ linalg.solve_triangular(C, b, lower=True, check_finite=False)
    B = L_inverse.T @ L_inverse - W.T @ W
    missed = _missed(kernel, L_inverse, W, beta, points, z, y, looked)
    return _process(hyperparameters, kernel, points, beta, B), chosen.rows, missed


def parts_of(n: int, size: int) -> Iterator[slice]:
    """Blocks of n rows."""
    return (slice(start, start + size) for start in range(0, n, size))


def _sums(
    kernel: SparseKernel, L_inverse: np.ndarray, points: np.ndarray, z: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A [m, m] and b [m]."""
    A, b = np.zeros_like(L_inverse), np.zeros(len(points))
    for part in parts_of(len(z), BLOCK):
        v, noise = _seen(kernel, L_inverse, kernel(kernel.scaled(z[part]), points))
        v /= np.sqrt(noise)[:, None]
        A += v.T @ v
        b += v.T @ (y[part] / np.sqrt(noise))
    return A, b


def _seen(kernel: SparseKernel, L_inverse: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """v_i and lambda_i of points with covariances k [n, m]."""
    # L^-1 K_mn in place: the transposed view is in Fortran's order.
    v = linalg.blas.dtrmm(1.0, L_inverse.T, k.T, lower=0, trans_a=1, overwrite_b=1).T
    left = kernel.signal_variance + kernel.jitter - np.sum(v**2, axis=1)
    return v, kernel.noise_variance + np.maximum(left, kernel.jitter)


def _missed(
    kernel: SparseKernel,
    L_inverse: np.ndarray,
    W: np.ndarray,
    beta: np.ndarray,
    points: np.ndarray,
    z: np.ndarray,
    y: np.ndarray,
    looked: np.ndarray,
) -> Missed:
    """By (Q + Lambda)^-1 = Lambda^-1 - Lambda^-1 K_nm W'W K_mn Lambda^-1."""
    parts = []
    for part in parts_of(len(looked), BLOCK):
        rows = looked[part]
        k = kernel(kernel.scaled(z[rows]), points)
        residual, known = y[rows] - k @ beta, np.sum((k @ W.T) ** 2, axis=1)
        noise = _seen(kernel, L_inverse, k)[1]
        parts.append((residual / noise, 1.0 / noise - known / noise**2, noise))
    return Missed(looked, *(np.concatenate(each) for each in zip(*parts, strict=True)))


def _process(
    hyperparameters: Hyperparameters, kernel: SparseKernel, points: np.ndarray, beta: np.ndarray, B: np.ndarray
) -> GP:
    """The process of these points."""
    mask, mean = np.ones(len(points), dtype=bool), np.asarray(0.0)
    return GP(as_floats(hyperparameters), points * kernel.lengths, mask, beta, B, mean, kernel.centre)


def choose_inducing(kernel: SparseKernel, z: np.ndarray, y: np.ndarray, most: int) -> _Chosen:
    """At most `most` points, the best of all first."""
    n, count = len(z), min(most, MOST)
    older = max(n - int(NEWEST * CANDIDATES), 0)
    newest = np.arange(n - 1, older - 1, -1)
    rest = np.concatenate([spread_subset(older, CANDIDATES - len(newest)), newest])
    # In the order of fractional parts, so that the first of them are as spread as all.
    rest = rest[np.argsort(rest * GOLDEN_RATIO % 1.0, kind="stable")]
    best = np.array([int(np.argmax(y))])
    chosen = _Chosen(best, kernel.factor(kernel.scaled(z[best])))
    chosen = _fill(kernel, z, chosen, newest, max(int(NEWEST * count), 1))
    return _fill(kernel, z, chosen, rest, count)


def _fill(kernel: SparseKernel, z: np.ndarray, chosen: _Chosen, candidates: np.ndarray, count: int) -> _Chosen:
    """The chosen ones and more of the candidates, the first of them first, `count` in all at most: those that the
    others before leave some doubt of.
    """
    for start in range(0, len(candidates), AT_ONCE):
        missing = count - len(chosen.rows)
        if missing <= 0:
            break
        chosen = _with_useful(kernel, z, chosen, candidates[start : start + AT_ONCE], missing)
    return chosen


def _with_useful(kernel: SparseKernel, z: np.ndarray, chosen: _Chosen, more: np.ndarray, most: int) -> _Chosen:
    """The chosen ones, and at most so many of the others that add to them, asked from the farthest to the nearest."""
    at, known = kernel.scaled(z[more]), kernel.scaled(z[chosen.rows])
    order = _far_first(at, np.min(kernel.distances(at, known), axis=1))
    at, more = at[order], more[order]
    beside = linalg.solve_triangular(chosen.L, kernel(known, at), lower=True, check_finite=False)
    left = kernel(at, at) - beside.T @ beside
    np.einsum("ii->i", left)[:] += kernel.jitter
    doubt = np.diagonal(linalg.cholesky(left, lower=True, check_finite=False)) ** 2
    # The jitter counts as noise.
    useful = np.flatnonzero(doubt - kernel.jitter > SURE * (kernel.noise_variance + kernel.jitter))[:most]
    corner = linalg.cholesky(left[np.ix_(useful, useful)], lower=True, check_finite=False)
    above = np.zeros((len(chosen.L), len(useful)))
    return _Chosen(np.append(chosen.rows, more[useful]), np.block([[chosen.L, above], [beside[:, useful].T, corner]]))


def _far_first(at: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Numbers of the points [n, Z], each the farthest from those known, whose squared distance that is, and from those
    before it; without those that are one of them.
    """
    order = []
    for _ in range(len(at)):
        farthest = int(np.argmax(distance))
        if not distance[farthest] > 0.0:
            break
        order.append(farthest)
        np.minimum(distance, np.sum((at - at[farthest]) ** 2, axis=1), out=distance)
        distance[farthest] = 0.0
    return np.array(order, dtype=int)


def looked_at(y: np.ndarray, most: int = LOOKED_AT) -> np.ndarray:
    """Rows to be compared with what a sparse process says of them: the newest half, some older ones, and the best."""
    n = len(y)
    if n <= most:
        return np.arange(n)
    best = np.argpartition(-y, most // 16)[: most // 16]
    return np.union1d(fitting_subset(n, most), best)
