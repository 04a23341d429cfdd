"""The log marginal likelihood of a Gaussian process and its gradient.

    log p(y) = -1/2 r' beta - 1/2 log |K| - N/2 log 2 pi,    r = y - mean,  beta = K^-1 r
    d log p / d theta = 1/2 sum_ij (beta beta' - K^-1)_ij dK_ij / d theta

For a log length, dK_ij = K_s,ij (z_id - z_jd)^2 / length_d^2, where K_s is the kernel's slope (kernel.py), for the
squared exponential K_f itself. With M = (beta beta' - K^-1) o K_s,

    sum_ij M_ij (z_id - z_jd)^2 = 2 (sum_i (M 1)_i z_id^2 - z_d' M z_d),

so that the gradient for all lengths is one product of M with [1, z].
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve

from hpsde.base.padding import pad_rows, padded_size
from hpsde.base.shapes import Array, Bool, Float
from hpsde.gp.blocked import log_likelihood
from hpsde.gp.compiled import masked_covariance
from hpsde.gp.kernel import SQUARED_EXPONENTIAL, Kernel
from hpsde.gp.lapack import ValueAndGradient
from hpsde.gp.model import KERNELS, Hyperparameters

LARGE = 2048  # points, from which on sizes are multiples of a quarter of it


def _log_evidence(L: Array, residual: Array, mask: Array) -> tuple[Float[Array, ""], Float[Array, " N"]]:
    """log p(y) and beta, given the Cholesky factor L of K."""
    beta = cho_solve((L, True), residual)
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(L)))
    return -0.5 * (residual @ beta + log_determinant + jnp.sum(mask) * math.log(2.0 * math.pi)), beta


@jax.jit
def log_evidence(
    hyperparameters: Hyperparameters,
    z: Float[Array, "N Z"],
    residual: Float[Array, " N"],
    mask: Bool[Array, " N"],
) -> Float[Array, ""]:
    """As `blocked.log_likelihood`, without the gradient."""
    _, K = masked_covariance(hyperparameters, z, mask)
    return _log_evidence(jax.lax.linalg.cholesky(K, symmetrize_input=False), residual, mask)[0]


def jax_likelihood(z: np.ndarray, residual: np.ndarray, kernel: Kernel = SQUARED_EXPONENTIAL) -> ValueAndGradient:
    """The likelihood of data z [n, Z], residual [n] on JAX's default device, padded to one of few sizes."""
    n = len(z)
    size = padded_size(n) if n < LARGE else LARGE // 4 * -(-n // (LARGE // 4))  # the cube of the size is what it costs
    points, values = jnp.asarray(pad_rows(z, size)), jnp.asarray(pad_rows(residual, size))
    mask = jnp.arange(size) < n

    def value_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        at = KERNELS[kernel.name](jnp.asarray(theta[:-2]), jnp.asarray(theta[-2]), jnp.asarray(theta[-1]))
        value, gradient = jax.device_get(log_likelihood(at, points, values, mask))
        vector = np.concatenate([gradient.log_lengths, [gradient.log_signal, gradient.log_noise]])
        if not (np.isfinite(value) and np.all(np.isfinite(vector))):
            return -math.inf, np.zeros_like(theta)
        return float(value), vector

    return value_and_gradient
