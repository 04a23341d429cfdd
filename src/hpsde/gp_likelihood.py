"""The log marginal likelihood of a Gaussian process and its gradient, for LAPACK on a CPU and for JAX.

    log p(y) = -1/2 r' beta - 1/2 log |K| - N/2 log 2 pi,    r = y - mean,  beta = K^-1 r
    d log p / d theta = 1/2 sum_ij (beta beta' - K^-1)_ij dK_ij / d theta

For a log length, dK_ij = K_f,ij (z_id - z_jd)^2 / length_d^2. With M = (beta beta' - K^-1) o K_f,

    sum_ij M_ij (z_id - z_jd)^2 = 2 (sum_i (M 1)_i z_id^2 - z_d' M z_d),

so that the gradient for all lengths is one product of M with [1, z].
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve
from scipy.linalg import blas, lapack

from hpsde._padding import pad_rows, padded_size
from hpsde._shapes import Array, Bool, Float
from hpsde.gp_model import JITTER, Hyperparameters, inverse_from_cholesky, masked_covariance

# [log lengths, log signal, log noise] -> (log likelihood, its gradient); (-inf, zeros) where K is not positive definite.
ValueAndGradient = Callable[[np.ndarray], tuple[float, np.ndarray]]


@jax.jit
def log_likelihood(
    hyperparameters: Hyperparameters,
    z: Float[Array, "N Z"],
    residual: Float[Array, " N"],
    mask: Bool[Array, " N"],
) -> tuple[Float[Array, ""], Hyperparameters]:
    """log p(y) of the rows in the mask, and its gradient. z should be centred; both are zero outside the mask."""
    K_f, K = masked_covariance(hyperparameters, z, mask)
    L = jax.lax.linalg.cholesky(K, symmetrize_input=False)
    K_inverse = inverse_from_cholesky(L)
    beta = cho_solve((L, True), residual)
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(L)))
    value = -0.5 * (residual @ beta + log_determinant + jnp.sum(mask) * math.log(2.0 * math.pi))

    M = (beta[:, None] * beta[None, :] - K_inverse) * K_f
    scaled = z / jnp.exp(hyperparameters.log_lengths)
    row_sums = jnp.sum(M, axis=1)
    lengths = row_sums @ scaled**2 - jnp.sum(scaled * (M @ scaled), axis=0)
    trace = jnp.sum(jnp.where(mask, beta**2 - jnp.diagonal(K_inverse), 0.0))
    signal = jnp.sum(row_sums) + JITTER * jnp.exp(2.0 * hyperparameters.log_signal) * trace
    noise = jnp.exp(2.0 * hyperparameters.log_noise) * trace
    return value, Hyperparameters(lengths, signal, noise)


def jax_likelihood(z: np.ndarray, residual: np.ndarray) -> ValueAndGradient:
    """The likelihood of data z [n, Z], residual [n] on JAX's default device, padded to one of few sizes."""
    n, size = len(z), padded_size(len(z))
    points, values = jnp.asarray(pad_rows(z, size)), jnp.asarray(pad_rows(residual, size))
    mask = jnp.arange(size) < n

    def value_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        hyperparameters = Hyperparameters(
            jnp.asarray(theta[:-2]), jnp.asarray(theta[-2]), jnp.asarray(theta[-1])
        )
        value, gradient = jax.device_get(log_likelihood(hyperparameters, points, values, mask))
        vector = np.concatenate([gradient.log_lengths, [gradient.log_signal, gradient.log_noise]])
        if not (np.isfinite(value) and np.all(np.isfinite(vector))):
            return -math.inf, np.zeros_like(theta)
        return float(value), vector

    return value_and_gradient


def lapack_likelihood(z: np.ndarray, residual: np.ndarray, block: int = 128) -> ValueAndGradient:
    """The likelihood of data z [n, Z], residual [n] on the CPU. Nothing is compiled and no padding is needed.

    LAPACK's potrf and potri take n^3 operations together, a third of what two triangular solves with the identity
    take, and leave the upper triangle alone; so does all else here. Two n x n arrays serve all evaluations.
    """
    n, Z = z.shape
    kernel, work = np.empty((n, n)), np.empty((n, n))
    blocks = [(slice(i, min(i + block, n)), slice(0, min(i + block, n))) for i in range(0, n, block)]
    diagonal = np.einsum("ii->i", work)
    left, right = np.ones((n, Z + 2)), np.ones((n, Z + 2))

    def fill_kernel(scaled: np.ndarray, log_signal: float) -> None:
        # -1/2 |z_i - z_j|^2 + 2 log signal = [z_i, a_i, 1] . [z_j, 1, b_j]
        half_norms = 0.5 * np.sum(scaled**2, axis=1)
        left[:, :Z] = right[:, :Z] = scaled
        left[:, Z], right[:, Z + 1] = 2.0 * log_signal - half_norms, -half_norms
        for rows, columns in blocks:
            part = kernel[rows, columns]
            np.matmul(left[rows], right[columns].T, out=part)
            np.exp(part, out=part)
            work[rows, columns] = part

    def value_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        signal_variance, noise_variance = math.exp(2.0 * theta[-2]), math.exp(2.0 * theta[-1])
        scaled = z * np.exp(-theta[:-2])
        fill_kernel(scaled, theta[-2])
        np.einsum("ii->i", kernel)[:] = signal_variance
        diagonal[:] = signal_variance * (1.0 + JITTER) + noise_variance
        # The transposed view is in Fortran's order: its upper triangle is our lower one, and LAPACK works in place.
        factor, failed = lapack.dpotrf(work.T, lower=0, clean=0, overwrite_a=1)
        if failed:
            return -math.inf, np.zeros_like(theta)
        beta, _ = lapack.dpotrs(factor, residual, lower=0)
        log_determinant = 2.0 * np.sum(np.log(diagonal))
        value = -0.5 * (residual @ beta + log_determinant + n * math.log(2.0 * math.pi))

        lapack.dpotri(factor, lower=0, overwrite_c=1)  # work now holds K^-1
        trace = beta @ beta - np.sum(diagonal)
        for rows, columns in blocks:
            work[rows, columns] *= kernel[rows, columns]
        ones_and_z = np.concatenate([np.ones((n, 1)), scaled], axis=1)
        product = beta[:, None] * blas.dsymm(1.0, kernel.T, beta[:, None] * ones_and_z, lower=0)
        product -= blas.dsymm(1.0, work.T, ones_and_z, lower=0)  # M [1, z]
        row_sums = product[:, 0]
        lengths = row_sums @ scaled**2 - np.sum(scaled * product[:, 1:], axis=0)
        signal = np.sum(row_sums) + JITTER * signal_variance * trace
        return value, np.concatenate([lengths, [signal, noise_variance * trace]])

    return value_and_gradient
