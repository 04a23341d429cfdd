"""Gaussian process regression of returns on joint points z = [xi, s]: model, posterior, predictions.

    R = m + f(z) + noise,    f ~ GP(0, k),    k(z, z') = signal^2 exp(-1/2 sum_d (z_d - z'_d)^2 / length_d^2)

or a sum of such kernels, for Matérn's (kernel.py).

Rows that a mask leaves out are rows of the identity in K with residual 0, so they change nothing. Predictions are by
numpy or by JAX, as the arrays of the process are: those of lapack.py and compiled.py.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from hpsde.base.arrays import at_least_zero, namespace
from hpsde.base.shapes import Array, Bool, Float
from hpsde.errors import UnknownNameError
from hpsde.gp.kernel import KINDS, SQUARED_EXPONENTIAL, Kernel, correlation, slope


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


def without_inverse(process: GP) -> GP:
    """The process without K^-1: what tells its mean."""
    return process._replace(K_inverse=process.K_inverse[:0, :0])


def squared_distances(a: Float[Array, "A Z"], b: Float[Array, "B Z"]) -> Float[Array, "A B"]:
    """|a_i - b_j|^2 by one matrix product, [a, |a|^2, 1] . [-2 b, 1, |b|^2]. Both should be centred: it cancels."""
    xp = namespace(a, b)
    squares_a, squares_b = (xp.sum(each**2, axis=1, keepdims=True) for each in (a, b))
    left = xp.concatenate([a, squares_a, xp.ones_like(squares_a)], axis=1)
    right = xp.concatenate([-2.0 * b, xp.ones_like(squares_b), squares_b], axis=1)
    return at_least_zero(left @ right.T)


def centred(
    z: Float[Array, "N Z"], mask: Bool[Array, " N"], centre: Float[Array, " Z"] | None = None
) -> tuple[Float[Array, "N Z"], Float[Array, " Z"]]:
    """The points less the centre, by default their average; zeros where the mask is false. And the centre."""
    xp = namespace(z, mask)
    if centre is None:
        count = xp.maximum(xp.sum(mask), 1)
        centre = xp.sum(xp.where(mask[:, None], z, 0.0), axis=0) / count
    return xp.where(mask[:, None], z - centre[None, :], 0.0), centre


def predict(gp: GP, z_new: Float[Array, "C Z"]) -> tuple[Float[Array, " C"], Float[Array, " C"]]:
    """Mean and variance of the latent f (plus the prior mean) at new points; a return adds noise^2.

    mean = m + k' beta,  variance = signal^2 - k' K^-1 k,  k_i = k(z_new, z_i).
    """
    xp = namespace(gp.z, z_new)
    k = _covariances(gp, z_new)
    variance = xp.exp(2.0 * gp.hyperparameters.log_signal) - xp.sum((k @ gp.K_inverse) * k, axis=1)
    return gp.mean + k @ gp.beta, at_least_zero(variance)


def predict_mean(gp: GP, z_new: Float[Array, "C Z"]) -> Float[Array, " C"]:
    """The mean alone, m + k' beta, without K^-1; of processes in single precision, too."""
    return gp.mean + _covariances(gp, z_new) @ gp.beta


def predict_gradient(gp: GP, z_new: Float[Array, "C Z"]) -> Float[Array, "C Z"]:
    """The gradient of the mean, sum_j k_j beta_j (z_j - z) / length^2, k_j the kernel's slope (kernel.py)."""
    xp = namespace(gp.z, z_new)
    at, points, lengths = _in_lengths(gp, z_new)
    pull = slope(gp.hyperparameters.kernel, squared_distances(at, points), 2.0 * gp.hyperparameters.log_signal)
    pull *= gp.beta[None, :]
    return (pull @ points - xp.sum(pull, axis=1)[:, None] * at) / lengths


def _in_lengths(
    gp: GP, z_new: Float[Array, "C Z"]
) -> tuple[Float[Array, "C Z"], Float[Array, "N Z"], Float[Array, "1 Z"]]:
    """New points and those of the process in kernel lengths, and the lengths."""
    lengths = namespace(gp.z, z_new).exp(gp.hyperparameters.log_lengths)[None, :]
    return (z_new - gp.centre[None, :]) / lengths, gp.z / lengths, lengths


def _covariances(gp: GP, z_new: Float[Array, "C Z"]) -> Float[Array, "C N"]:
    """k(z_new, z_i)."""
    at, points, _ = _in_lengths(gp, z_new)
    return correlation(gp.hyperparameters.kernel, squared_distances(at, points), 2.0 * gp.hyperparameters.log_signal)
