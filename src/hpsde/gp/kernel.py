"""Kernels of the Gaussian process: the squared exponential, and Matérn 5/2 for returns with edges and creases.

Both are functions of the squared distance in kernel lengths, d2, and both are sums of squared exponentials:

    k = signal^2 sum_j w_j exp(-d2 / (2 tau_j)),    sum_j w_j = 1.

The squared exponential is the sum of one, with tau = 1. A Matérn kernel of smoothness nu is the average of squared
exponentials over tau ~ Gamma(nu, rate nu). Three of them, with the tau_j and w_j of the least largest error, are within
0.001 of Matérn 5/2, (1 + sqrt(5) r + 5/3 r^2) exp(-sqrt(5) r) with r^2 = d2, at all distances; Gauss-Laguerre
quadrature needs more than eight. What is known in closed form of a squared exponential is known of the sum, too.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

from hpsde.base.arrays import exponential

# Added to the diagonal of K as a share of signal^2: the noise is never less than a thousandth of the signal.
# So K has a Cholesky factor wherever the points lie, and variances by way of K^-1 are good to 1e-7 signal^2.
JITTER = 1e-6


class Kernel(NamedTuple):
    """A sum of squared exponentials with the squares tau of their widths, in kernel lengths, and the weights w."""

    name: str
    tau: tuple[float, ...]
    w: tuple[float, ...]

    @property
    def parts(self) -> tuple[tuple[float, float], ...]:
        """(tau_j, w_j) of each."""
        return tuple(zip(self.tau, self.w, strict=True))

    @property
    def is_sum(self) -> bool:
        """Whether there are several."""
        return len(self.tau) > 1

    @property
    def curvature(self) -> float:
        """sum_j w_j / tau_j: minus twice the derivative by d2 at 0, in units of signal^2."""
        return math.fsum(w / tau for tau, w in self.parts)


SQUARED_EXPONENTIAL = Kernel("se", (1.0,), (1.0,))
MATERN = Kernel("matern", (0.18606, 0.68811, 1.83473), (0.11523, 0.56617, 0.31860))
KINDS = {kernel.name: kernel for kernel in (SQUARED_EXPONENTIAL, MATERN)}
"""All that a process may choose from, by left-out rollouts. A kernel more is a sum of squared exponentials here."""


def kernel_of(tau: Iterable[float], w: Iterable[float]) -> Kernel:
    """The kernel with these numbers; one that is not known has no name."""
    numbers = tuple(map(float, tau)), tuple(map(float, w))
    return next((kernel for kernel in KINDS.values() if kernel[1:] == numbers), Kernel("", *numbers))


def correlation(kernel: Kernel, d2: Any, log_scale: Any = None) -> Any:
    """sum_j w_j exp(log scale - d2 / (2 tau_j)) of squared distances d2, by numpy or JAX as these are."""
    return _sum(kernel.parts, d2, log_scale)


def slope(kernel: Kernel, d2: Any, log_scale: Any = None) -> Any:
    """sum_j w_j / tau_j exp(log scale - d2 / (2 tau_j)), by which derivatives of the kernel go:

    dk / d log length_d = slope (z_d - z'_d)^2 / length_d^2,    dk / dz_d = -slope (z_d - z'_d) / length_d^2.
    """
    return _sum(tuple((tau, w / tau) for tau, w in kernel.parts), d2, log_scale)


def _sum(parts: tuple[tuple[float, float], ...], d2: Any, log_scale: Any) -> Any:
    def one(tau: float, weight: float) -> Any:
        exponent = (-0.5 / tau) * d2
        if log_scale is None:
            return scaled(weight, exponential(exponent))
        exponent += log_scale + math.log(weight)
        return exponential(exponent)

    return total(one(*part) for part in parts)


def total(terms: Iterable[Any]) -> Any:
    """The sum of arrays, without the 0 that `sum` begins with."""
    return functools.reduce(operator.iadd, terms)


def scaled(factor: Any, value: Any) -> Any:
    """factor * value, without a product where the factor is 1; by numpy in place of the value."""
    if isinstance(factor, float) and factor == 1.0:
        return value
    value *= factor
    return value
