"""The posterior of the Gaussian process as a function that JAX compiles, for any device; see model.py."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

from hpsde.base.shapes import Array, Bool, Float
from hpsde.gp.kernel import JITTER, correlation
from hpsde.gp.model import GP, Hyperparameters, centred, squared_distances


def masked_covariance(
    hyperparameters: Hyperparameters, z: Float[Array, "N Z"], mask: Bool[Array, " N"]
) -> tuple[Float[Array, "N N"], Float[Array, "N N"]]:
    """K_f, zero outside the mask, and K = K_f + (noise^2 + jitter signal^2) I, the identity outside it."""
    signal_variance = jnp.exp(2.0 * hyperparameters.log_signal)
    scaled = z / jnp.exp(hyperparameters.log_lengths)[None, :]
    both = mask[:, None] & mask[None, :]
    k = correlation(hyperparameters.kernel, squared_distances(scaled, scaled))
    K_f = jnp.where(both, signal_variance * k, 0.0)
    diagonal = jnp.where(mask, jnp.exp(2.0 * hyperparameters.log_noise) + JITTER * signal_variance, 1.0)
    return K_f, K_f + jnp.diag(diagonal)


def _lower_inverse(L: Float[Array, "N N"], smallest: int) -> Float[Array, "N N"]:
    """L^-1 of a lower triangular matrix, by halves: matrix products are faster than triangular solves."""
    n = L.shape[0]
    if n <= smallest:
        identity = jnp.eye(n, dtype=L.dtype)
        return jax.lax.linalg.triangular_solve(L, identity, left_side=True, lower=True)
    half = n // 2
    A = _lower_inverse(L[:half, :half], smallest)
    C = _lower_inverse(L[half:, half:], smallest)
    B = -C @ (L[half:, :half] @ A)
    return jnp.block([[A, jnp.zeros((half, n - half), L.dtype)], [B, C]])


def _gram_of_lower(W: Float[Array, "N N"], smallest: int) -> Float[Array, "N N"]:
    """W'W of a lower triangular matrix, by halves, leaving out the products with the zeros."""
    n = W.shape[0]
    if n <= smallest:
        return W.T @ W
    half = n // 2
    A, B, C = W[:half, :half], W[half:, :half], W[half:, half:]
    corner = B.T @ C
    first, last = _gram_of_lower(A, smallest) + B.T @ B, _gram_of_lower(C, smallest)
    return jnp.block([[first, corner], [corner.T, last]])


def inverse_from_cholesky(L: Float[Array, "N N"]) -> Float[Array, "N N"]:
    """(L L')^-1 in 4/3 N^3 operations, nearly all of them in matrix products."""
    smallest = max(64, L.shape[0] // 4)
    return _gram_of_lower(_lower_inverse(L, smallest), smallest)


@jax.jit
def condition(
    hyperparameters: Hyperparameters,
    z: Float[Array, "N Z"],
    y: Float[Array, " N"],
    mask: Bool[Array, " N"],
    mean: Float[Array, ""] | float = 0.0,
    centre: Float[Array, " Z"] | None = None,
) -> GP:
    """The posterior given the returns y at the points z: beta = K^-1 (y - mean), and K^-1.

    z [N, Z], y [N], mask [N]: false for rows to leave out, which may hold anything finite or not. centre [Z]: what
    to measure the points from, by default their average.
    """
    points, centre = centred(z, mask, centre)
    _, K = masked_covariance(hyperparameters, points, mask)
    L = jax.lax.linalg.cholesky(K, symmetrize_input=False)
    residual = jnp.where(mask, y - mean, 0.0)
    K_inverse = jnp.where(mask[:, None] & mask[None, :], inverse_from_cholesky(L), 0.0)
    mean = jnp.asarray(mean, dtype=points.dtype)
    return GP(hyperparameters, points, mask, cho_solve((L, True), residual), K_inverse, mean, centre)
