"""Local models of the return around an option's mean: regressions on the nearest rollouts.

With x [N, D] in units of the option and phi~(s) = [1, standardised phi(s)] [N, F + 1], the return R, or where it is a
distance minus the square of what it lacks, is

    phi~(s)' l + psi(s)' G x - 1/2 x' M x + noise,

psi being the first of phi~, all of them unless said otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

FEWEST, MORE = 1.5, 1.6  # rollouts for each number of the model: so many at least, and by this factor more
FAR, TRIMS = 5.0, 10  # robust deviations from the model: what is farther off is no part of it; fits without it
CLEARLY = 0.25  # of the residuals' variance, at most, for squared losses to be modelled in place of returns
LEAST_LOSS = 0.1  # share of an option's rollouts whose losses are taken for equally small
LEVERAGE = 0.01  # share of a rollout's return that the others explain, at least
NEAREST = 1e-3  # of the last width, that a look may leave
NOISE_SHARE = 0.3  # of the noise, that the return changes by over the exploration at least
ROUNDING, RESOLUTION = 1e-14, 1e-12  # of the returns, and of matrices


class Coefficients(NamedTuple):
    """l [K, F + 1], G [K, P, D] and M [K, D, D] of K models that share their terms."""

    l: np.ndarray
    G: np.ndarray
    M: np.ndarray

    @classmethod
    def of(cls, numbers: np.ndarray, level: int, slopes: int, size: int) -> Coefficients:
        """From what the `terms` are multiplied with [K, ...]."""
        i, j = upper(size)
        half = np.zeros((len(numbers), size, size))
        half[:, i, j] = 0.5 * numbers[:, level + slopes * size :]
        G = numbers[:, level : level + slopes * size].reshape(len(numbers), slopes, size)
        return cls(numbers[:, :level], G, half + np.swapaxes(half, 1, 2))

    def values(self, phi: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The models [N, K] at x [N, D] in contexts with phi~ [N, F + 1]."""
        sloped = np.einsum("np,kpd,nd->nk", phi[:, : self.G.shape[1]], self.G, x)
        return phi @ self.l.T + sloped - 0.5 * np.einsum("nd,kde,ne->nk", x, self.M, x)

    def slopes(self, phi: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Their gradients [N, K, D] by x."""
        return np.einsum("np,kpd->nkd", phi[:, : self.G.shape[1]], self.G) - np.einsum("kde,ne->nkd", self.M, x)


class Modelled(NamedTuple):
    """What a local model describes of the returns: R itself, or minus the square of the loss, -(top - R)^2.

    A return that is a distance has a cone at its optimum, R = top - |x|, and the square of its loss is quadratic
    there. An error of R counts 2 (top - R) times in the square, and 2 `floor` times at least.
    """

    top: float | None = None  # None: the return itself
    floor: float = 0.0

    def __call__(self, returns: np.ndarray) -> np.ndarray:
        """What is modelled of returns [N]."""
        return returns if self.top is None else -((self.top - returns) ** 2)

    def steepness(self, returns: np.ndarray) -> np.ndarray:
        """How much it changes with the return [N]."""
        return np.ones_like(returns) if self.top is None else 2.0 * np.maximum(self.top - returns, self.floor)

    def width(self, variance: float) -> float:
        """By how much it may change for the return to change by NOISE_SHARE of its noise, around the optimum."""
        share = NOISE_SHARE * np.sqrt(variance)
        return share if self.top is None else share**2


class LocalModel(NamedTuple):
    """A local model: coefficients [P], their covariance for a residual variance of 1 [P, P], that variance, in units of
    the return, the number of rollouts, and what it is a model of.
    """

    coefficients: np.ndarray
    inverse: np.ndarray
    variance: float
    rollouts: int
    modelled: Modelled

    def __call__(self, design: np.ndarray, u: np.ndarray) -> np.ndarray:
        """What is modelled [N] at u [N, D] in contexts with phi~ [N, F + 1]."""
        return terms(design, u) @ self.coefficients


def local_models(design: np.ndarray, u: np.ndarray, returns: np.ndarray) -> Iterator[LocalModel]:
    """Fitted to the nearest rollouts, to more of them, and so on up to all: of returns, or of squared losses, where
    these leave clearly less.
    """
    order = np.argsort(np.sum(u**2, axis=1), kind="stable")
    A, y = terms(design[order], u[order]), returns[order]
    squares = squared_losses(A, y)
    count = FEWEST * A.shape[1] + 2.0
    while count <= len(order):
        rows = slice(int(count))
        plain = regress(A[rows], y[rows], Modelled())
        squared = plain if squares is None else regress(A[rows], y[rows], squares)
        yield squared if squared.variance < CLEARLY * plain.variance else plain
        count *= MORE


def squared_losses(A: np.ndarray, returns: np.ndarray) -> Modelled | None:
    """The squares of losses whose top is that of a cone through the nearest rollouts, which have the terms A [N, P].

    With the loss l against the best rollout and t from there to the top, (l + t)^2 is quadratic: t is a coefficient of
    the regression of l^2 on A and -2 l.
    """
    best = float(returns.max(initial=-np.inf))
    losses = best - returns
    floor = float(np.quantile(losses, LEAST_LOSS)) if len(losses) else 0.0
    near = slice(int(FEWEST * (A.shape[1] + 1)) + 2)
    if not floor > 0.0 or len(losses) < near.stop:
        return None
    weight = 0.5 / np.maximum(losses[near], floor)
    terms = np.concatenate([A[near], -2.0 * losses[near, None]], axis=1)
    t = float(np.linalg.lstsq(terms * weight[:, None], losses[near] ** 2 * weight, rcond=None)[0][-1])
    return Modelled(best + min(max(t, 0.0), losses[near].max()), floor)


def terms(phi: np.ndarray, x: np.ndarray, slopes: int | None = None) -> np.ndarray:
    """What the numbers [l, G, M] of a model are multiplied with [N, ...]; the first features have slopes, or all."""
    i, j = upper(x.shape[1])
    products = (phi[:, :slopes, None] * x[:, None, :]).reshape(len(x), -1)
    return np.concatenate([phi, products, -0.5 * x[:, i] * x[:, j]], axis=1)


def regress(A: np.ndarray, returns: np.ndarray, modelled: Modelled) -> LocalModel:
    """Least squares of errors in the return, without what is far off."""
    y, weight = modelled(returns), 1.0 / modelled.steepness(returns)
    middle = _middle(y)
    A, y, inside = A * weight[:, None], (y - middle) * weight, np.ones(len(returns), dtype=bool)
    norm = np.sqrt(np.add.reduce(A * A, axis=0))
    norm[norm == 0.0] = 1.0
    A = A / norm
    near_A, near_y, ridge = A, y, RESOLUTION * np.eye(len(norm))
    for _ in range(TRIMS):
        # A product of a matrix with itself is rounded otherwise.
        inverse = np.linalg.inv(near_A.T @ near_A.copy() + ridge)
        c = inverse @ (near_A.T @ near_y)
        c = c + inverse @ (near_A.T @ (near_y - near_A @ c))
        residual = y - A @ c
        pull = np.add.reduce((A @ inverse) * A, axis=1)
        rest = np.maximum(1.0 - pull, LEVERAGE)
        error = np.abs(residual / np.sqrt(np.where(inside, rest, 1.0 + pull)))
        near = error <= FAR * 1.4826 * _median(error[inside], pull[inside])
        if (near == inside).all() or np.count_nonzero(near) < len(norm) * FEWEST:
            break
        inside, near_A, near_y = near, A[near], y[near]
    left_out = residual[inside] / rest[inside]
    variance = max(float(np.add.reduce(left_out**2)) / len(left_out), (ROUNDING * float(np.abs(returns).max())) ** 2)
    c = c / norm
    c[0] += middle  # phi~ has a constant
    return LocalModel(c, inverse / norm[:, None] / norm[None, :], variance, int(inside.sum()), modelled)


@functools.cache
def upper(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the numbers of a symmetric matrix."""
    return np.triu_indices(size)


def _middle(values: np.ndarray) -> float:
    """The median."""
    half = len(values) // 2
    first = half if len(values) % 2 else half - 1
    part = np.partition(values, (first, half))
    return 0.5 * float(part[first] + part[half])


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    """The weighted median: many rollouts at one place say no more than one."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(total, 0.5 * total[-1])]])
