"""Likelihood and posterior of the Gaussian process on a CPU, with LAPACK: nothing to compile, one triangle.

LAPACK's potrf and potri take n^3 operations together, where a Cholesky factor and two solves with the
identity take 7/3 n^3. Equations: likelihood.py and model.py; the results are those of compiled.py to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpsde.base.later import Later
from hpsde.gp.kernel import JITTER, SQUARED_EXPONENTIAL, Kernel
from hpsde.gp.model import GP, Hyperparameters

blas = Later("scipy.linalg.blas")
lapack = Later("scipy.linalg.lapack")


# theta = [log lengths, log signal, log noise] -> (log likelihood, its gradient); (-inf, zeros) where K has no
# Cholesky factor.
ValueAndGradient = Callable[[np.ndarray], tuple[float, np.ndarray]]

_BLOCK = 128


def _blocks(n: int, block: int = _BLOCK) -> list[tuple[slice, slice]]:
    """Rows and columns of blocks that cover the lower triangle of an n x n matrix."""
    ends = [min(i + block, n) for i in range(0, n, block)]
    return [(slice(i * block, end), slice(0, end)) for i, end in enumerate(ends)]


def _fill_kernel(kernel: np.ndarray, scaled: np.ndarray, log_signal: float, block: int = _BLOCK) -> None:
    """K_f = exp(2 log signal - 1/2 |z_i - z_j|^2) into the lower triangle of `kernel`, of scaled points."""
    half_norms = 0.5 * np.sum(scaled**2, axis=1, keepdims=True)
    ones = np.ones_like(half_norms)
    # The exponent is one product: [z_i, 2 log signal - |z_i|^2 / 2, 1] . [z_j, 1, -|z_j|^2 / 2].
    left = np.concatenate([scaled, 2.0 * log_signal - half_norms, ones], axis=1)
    right = np.concatenate([scaled, ones, -half_norms], axis=1)
    for rows, columns in _blocks(len(scaled), block):
        part = kernel[rows, columns]
        np.matmul(left[rows], right[columns].T, out=part)
        np.exp(part, out=part)
    np.fill_diagonal(kernel, math.exp(2.0 * log_signal))


def _fill_sum(
    values: np.ndarray,
    slopes: np.ndarray | None,
    scaled: np.ndarray,
    log_signal: float,
    kernel: Kernel,
    block: int = _BLOCK,
) -> None:
    """K_f of a sum of squared exponentials, and its slope, into lower triangles, of scaled points; see kernel.py."""
    signal_variance = math.exp(2.0 * log_signal)
    for rows, columns in _blocks(len(scaled), block):
        part = values[rows, columns]
        slope = None if slopes is None else slopes[rows, columns]
        exponent, term = np.empty_like(part), np.empty_like(part)
        _fill_exponents(exponent, scaled[rows], scaled[columns])
        for number, (tau, w) in enumerate(kernel.parts):
            np.multiply(exponent, 1.0 / tau, out=term)
            np.exp(term, out=term)
            term *= signal_variance * w
            _add(part, term, number == 0)
            if slope is not None:
                term *= 1.0 / tau
                _add(slope, term, number == 0)
    np.fill_diagonal(values, signal_variance)
    if slopes is not None:
        np.fill_diagonal(slopes, signal_variance * kernel.curvature)


def _fill_exponents(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """-1/2 |a_i - b_j|^2 of scaled points."""
    np.matmul(a, b.T, out=out)
    out -= 0.5 * np.sum(a**2, axis=1)[:, None]
    out -= 0.5 * np.sum(b**2, axis=1)[None]


def _add(total: np.ndarray, term: np.ndarray, first: bool) -> None:
    if first:
        total[:] = term
    else:
        total += term


class _Evidence:
    """log p(y) of n points in two n x n arrays of its own, and M [1, x] for any x [n, q]; see likelihood.py."""

    def __init__(self, residual: np.ndarray, block: int, kind: Kernel = SQUARED_EXPONENTIAL):
        n = len(residual)
        self.residual, self.block, self.kind = residual, block, kind
        self.kernel, self.work = np.empty((n, n)), np.empty((n, n))
        self.diagonal = np.einsum("ii->i", self.work)
        self.blocks = _blocks(n, block)

    def __call__(
        self, scaled: np.ndarray, log_signal: float, log_noise: float, x: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray] | None:
        """log p(y), M [1, x], and the gradient for log signal and log noise; None where K has no factor."""
        kernel, work, residual = self.kernel, self.work, self.residual
        jitter, noise_variance = JITTER * math.exp(2.0 * log_signal), math.exp(2.0 * log_noise)
        if self.kind.is_sum:  # `kernel` then holds the slope, by which M goes
            _fill_sum(work, kernel, scaled, log_signal, self.kind, self.block)
        else:
            _fill_kernel(kernel, scaled, log_signal, self.block)
            for part in self.blocks:
                work[part] = kernel[part]
        self.diagonal[:] += noise_variance + jitter
        # The transposed view is in Fortran's order, its upper triangle our lower one: LAPACK works in place.
        factor, failed = lapack.dpotrf(work.T, lower=0, clean=0, overwrite_a=1)
        if failed:
            return None
        beta, _ = lapack.dpotrs(factor, residual, lower=0)
        log_determinant = 2.0 * np.sum(np.log(self.diagonal))
        value = -0.5 * (residual @ beta + log_determinant + len(residual) * math.log(2.0 * math.pi))

        lapack.dpotri(factor, lower=0, overwrite_c=1)  # work now holds K^-1
        trace = beta @ beta - np.sum(self.diagonal)
        for part in self.blocks:
            work[part] *= kernel[part]
        ones_and_x = np.concatenate([np.ones((len(residual), 1)), x], axis=1)
        product = beta[:, None] * blas.dsymm(1.0, kernel.T, beta[:, None] * ones_and_x, lower=0)
        product -= blas.dsymm(1.0, work.T, ones_and_x, lower=0)
        if self.kind.is_sum:  # sum_ij (beta beta' - K^-1)_ij K_ij = r' beta - n, and K less the noise is K_f
            signal = residual @ beta - len(residual) - noise_variance * trace
        else:
            signal = np.sum(product[:, 0]) + jitter * trace
        return float(value), product, np.array([signal, noise_variance * trace])


def lapack_likelihood(
    z: np.ndarray, residual: np.ndarray, kernel: Kernel = SQUARED_EXPONENTIAL, block: int = _BLOCK
) -> ValueAndGradient:
    """The likelihood of data z [n, Z], residual [n], as a function of theta, in two n x n arrays."""
    evidence = _Evidence(residual, block, kernel)

    def value_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        scaled = z * np.exp(-theta[:-2])
        found = evidence(scaled, theta[-2], theta[-1], scaled)
        if found is None:
            return -math.inf, np.zeros_like(theta)
        value, product, rest = found
        lengths = product[:, 0] @ scaled**2 - np.sum(scaled * product[:, 1:], axis=0)
        return value, np.concatenate([lengths, rest])

    return value_and_gradient


def projected_likelihood(
    z: np.ndarray, residual: np.ndarray, block: int = _BLOCK
) -> Callable[[np.ndarray, float, float], tuple[float, tuple[np.ndarray, np.ndarray]]]:
    """The likelihood as a function of W [K, Z], log signal and log noise, with its gradient; see directions.py.

    The kernel is the squared exponential.
    """
    evidence = _Evidence(residual, block)

    def value_and_gradient(
        W: np.ndarray, log_signal: float, log_noise: float
    ) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
        found = evidence(z @ W.T, log_signal, log_noise, z)
        if found is None:
            return -math.inf, (np.zeros_like(W), np.zeros(2))
        value, product, rest = found
        return value, (W @ (z.T @ product[:, 1:] - (z.T * product[:, 0]) @ z), rest)

    return value_and_gradient


def _noise_free_triangle(hyperparameters: Hyperparameters, points: np.ndarray) -> np.ndarray:
    """The lower triangle of K_f at points [n, Z]."""
    log_lengths, log_signal, _ = (np.asarray(part, dtype=float) for part in hyperparameters)
    K, scaled = np.empty((len(points), len(points))), points * np.exp(-log_lengths)
    if hyperparameters.kernel.is_sum:
        _fill_sum(K, None, scaled, float(log_signal), hyperparameters.kernel)
    else:
        _fill_kernel(K, scaled, float(log_signal))
    return K


def _covariance(hyperparameters: Hyperparameters, points: np.ndarray) -> np.ndarray:
    """The lower triangle of K at points [n, Z]."""
    _, log_signal, log_noise = (np.asarray(part, dtype=float) for part in hyperparameters)
    K = _noise_free_triangle(hyperparameters, points)
    np.einsum("ii->i", K)[:] += np.exp(2.0 * log_noise) + JITTER * np.exp(2.0 * log_signal)
    return K


def noise_free_covariance(hyperparameters: Hyperparameters, points: np.ndarray) -> np.ndarray:
    """K_f, whole, at points [n, Z], with the jitter."""
    log_signal = np.asarray(hyperparameters.log_signal, dtype=float)
    K = _noise_free_triangle(hyperparameters, points)
    K = np.tril(K) + np.tril(K, -1).T
    np.einsum("ii->i", K)[:] += JITTER * np.exp(2.0 * log_signal)
    return K


def log_evidence_by_lapack(hyperparameters: Hyperparameters, z: np.ndarray, residual: np.ndarray) -> float:
    """log p(y) of data z [n, Z], residual [n] alone, which is a third of the work; -inf where K has no factor."""
    K = _covariance(hyperparameters, z)
    factor, failed = lapack.dpotrf(K.T, lower=0, clean=0, overwrite_a=1)
    if failed:
        return -math.inf
    beta, _ = lapack.dpotrs(factor, residual, lower=0)
    log_determinant = 2.0 * np.sum(np.log(np.diagonal(factor)))
    return float(-0.5 * (residual @ beta + log_determinant + len(z) * math.log(2.0 * math.pi)))


def _invert(K: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """K^-1 residual, K given by its lower triangle and replaced by all of K^-1; NaN where K has no factor."""
    if len(K) == 0:
        return residual
    factor, failed = lapack.dpotrf(K.T, lower=0, clean=0, overwrite_a=1)
    if failed:
        K[:] = np.nan
        return np.full_like(residual, np.nan)
    beta, _ = lapack.dpotrs(factor, residual, lower=0)
    lapack.dpotri(factor, lower=0, overwrite_c=1)
    for rows, columns in _blocks(len(K)):
        corner = K[rows, rows]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
        K[columns, rows] = K[rows, columns].T
    return beta


def as_floats(hyperparameters: Hyperparameters) -> Hyperparameters:
    """The same in numpy's arrays of 64 bits."""
    return type(hyperparameters)(*(np.asarray(part, dtype=float) for part in hyperparameters))


def condition_by_lapack(
    hyperparameters: Hyperparameters, z: Any, y: Any, mask: Any, mean: float = 0.0, centre: Any = None
) -> GP:
    """As `compiled.condition`, for concrete z [N, Z], y [N], mask [N] on a CPU; nothing is compiled."""
    mask = np.asarray(mask, dtype=bool)
    rows, N = np.flatnonzero(mask), len(mask)
    points = np.asarray(z, dtype=float)[rows]
    centre = np.sum(points, axis=0) / max(len(rows), 1) if centre is None else np.asarray(centre, dtype=float)
    points = points - centre

    K = _covariance(hyperparameters, points)
    weights = _invert(K, np.asarray(y, dtype=float)[rows] - float(mean))

    mean, hyperparameters = float(mean), as_floats(hyperparameters)
    if mask.all():
        return GP(hyperparameters, points, mask, weights, K, np.asarray(mean), centre)
    padded_z, beta, K_inverse = np.zeros((N, points.shape[1])), np.zeros(N), np.zeros((N, N))
    padded_z[rows], beta[rows], K_inverse[np.ix_(rows, rows)] = points, weights, K
    return GP(hyperparameters, padded_z, mask, beta, K_inverse, np.asarray(mean), centre)
