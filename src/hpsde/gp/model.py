"""Gaussian process regression of returns on joint points z = [xi, s]: model, posterior, predictions.

    R = m + f(z) + noise,    f ~ GP(0, k),    k(z, z') = signal^2 exp(-1/2 sum_d (z_d - z'_d)^2 / length_d^2)

or a sum of such kernels, for Matérn's (kernel.py).

Rows that a mask leaves out are rows of the identity in K with residual 0, so they change nothing.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

from hpsde.base.shapes import Array, Bool, Float
from hpsde.errors import UnknownNameError
from hpsde.gp.kernel import JITTER, KINDS, SQUARED_EXPONENTIAL, Kernel, correlation, slope


class Hyperparameters(NamedTuple):
    """Logarithms of the kernel's lengths and of the standard deviations of signal and noise.

    The kernel is the squared exponential; of other kernels there are classes of their own (`hyperparameters_of`).
    Compiled functions tell classes apart, as they do shapes.
    """

    log_lengths: Float[Array, " Z"]
    log_signal: Float[Array, ""]
    log_noise: Float[Array, ""]

    @property
    def kernel(self) -> Kernel:
        """The kernel that they are of."""
        return SQUARED_EXPONENTIAL


@functools.cache
def hyperparameters_of(kernel: Kernel) -> type[Hyperparameters]:
    """The class of the hyper-parameters of that kernel."""
    if kernel == SQUARED_EXPONENTIAL:
        return Hyperparameters
    return type(f"{kernel.name.capitalize()}Hyperparameters", (Hyperparameters,), {"__slots__": (), "kernel": kernel})


KERNELS: dict[str, type[Hyperparameters]] = {name: hyperparameters_of(kernel) for name, kernel in KINDS.items()}


def with_kernel(hyperparameters: Hyperparameters, kernel: str) -> Hyperparameters:
    """The same lengths, signal and noise for the kernel of that name."""
    if kernel not in KERNELS:
        raise UnknownNameError("kernel", kernel, KERNELS)
    same = hyperparameters.kernel.name == kernel
    return hyperparameters if same else KERNELS[kernel](*hyperparameters)


class GP(NamedTuple):
    """A Gaussian process conditioned on data. Rows outside the mask hold zeros in every field.

    hyperparameters: of the kernel and the noise.
    z: the data's points less `centre` [N, Z].  mask: which rows are data [N].
    beta: K^-1 (y - mean) [N].  K_inverse: (K_f + noise^2 I)^-1 [N, N].
    mean: the constant prior mean [].  centre: the average point [Z].
    """

    hyperparameters: Hyperparameters
    z: Float[Array, "N Z"]
    mask: Bool[Array, " N"]
    beta: Float[Array, " N"]
    K_inverse: Float[Array, "N N"]
    mean: Float[Array, ""]
    centre: Float[Array, " Z"]


def squared_distances(a: Float[Array, "A Z"], b: Float[Array, "B Z"]) -> Float[Array, "A B"]:
    """|a_i - b_j|^2 by one matrix product. Both should be centred: |a|^2 + |b|^2 - 2 a'b cancels."""
    products = a @ b.T
    return jnp.maximum(jnp.sum(a**2, axis=1)[:, None] + jnp.sum(b**2, axis=1)[None, :] - 2.0 * products, 0.0)


def centred(
    z: Float[Array, "N Z"], mask: Bool[Array, " N"], centre: Float[Array, " Z"] | None = None
) -> tuple[Float[Array, "N Z"], Float[Array, " Z"]]:
    """The points less the centre, by default their average; zeros where the mask is false. And the centre."""
    if centre is None:
        count = jnp.maximum(jnp.sum(mask), 1)
        centre = jnp.sum(jnp.where(mask[:, None], z, 0.0), axis=0) / count
    return jnp.where(mask[:, None], z - centre[None, :], 0.0), centre


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


@jax.jit
def predict(gp: GP, z_new: Float[Array, "C Z"]) -> tuple[Float[Array, " C"], Float[Array, " C"]]:
    """Mean and variance of the latent f (plus the prior mean) at new points; a return adds noise^2.

    mean = m + k' beta,  variance = signal^2 - k' K^-1 k,  k_i = k(z_new, z_i).
    """
    lengths = jnp.exp(gp.hyperparameters.log_lengths)[None, :]
    signal_variance = jnp.exp(2.0 * gp.hyperparameters.log_signal)
    distances = squared_distances((z_new - gp.centre[None, :]) / lengths, gp.z / lengths)
    k = signal_variance * correlation(gp.hyperparameters.kernel, distances)
    variance = signal_variance - jnp.sum((k @ gp.K_inverse) * k, axis=1)
    return gp.mean + k @ gp.beta, jnp.maximum(variance, 0.0)


def predict_mean(gp: GP, z_new: Float[Array, "C Z"]) -> Float[Array, " C"]:
    """The mean alone, m + k' beta, without K^-1; of processes in single precision, too."""
    lengths = jnp.exp(gp.hyperparameters.log_lengths)[None, :]
    distances = squared_distances((z_new - gp.centre[None, :]) / lengths, gp.z / lengths)
    k = correlation(gp.hyperparameters.kernel, distances, 2.0 * gp.hyperparameters.log_signal)
    return gp.mean + k @ gp.beta


def predict_gradient(gp: GP, z_new: Float[Array, "C Z"]) -> Float[Array, "C Z"]:
    """The gradient of the mean, sum_j k_j beta_j (z_j - z) / length^2, k_j the kernel's slope (kernel.py)."""
    lengths = jnp.exp(gp.hyperparameters.log_lengths)[None, :]
    at, points = (z_new - gp.centre[None, :]) / lengths, gp.z / lengths
    k = slope(gp.hyperparameters.kernel, squared_distances(at, points), 2.0 * gp.hyperparameters.log_signal)
    pull = k * gp.beta[None, :]
    return (pull @ points - jnp.sum(pull, axis=1)[:, None] * at) / lengths
