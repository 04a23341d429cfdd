"""Local models of returns that are distances: R = t - |e(x, s)|, each of up to MOST components of e being quadratic.

The return of a movement that is to reach a place is minus a distance. Where an option explores widely neither R nor its
square is quadratic: if e is, |e|^2 has the fourth degree. Each component has the form of a local model,

    e_k(x, s) = phi~(s)' l_k + psi(s)' G_k x - 1/2 x' M_k x,     theta_k = (l_k, G_k, M_k),

phi~ being all features of an option with a constant, psi those that do not bend. With the losses L_i = t - R_i of the
nearest rollouts theta minimises

    sum_i (w_i / 2)^2 (|e_i|^2 - L_i^2)^2,     w_i = floor / max(L_i, floor)^2:

an error of |e| counts by its share of the loss, since far from the optimum no quadratic is near e. The search begins
with components that are linear in x: the eigenvectors of the curvature of the squared losses' own quadratic model.

Where e is known, its optimum is known for all contexts at once: the policy phi~' A that minimises

    tr(A' Q A) + (F + 1) E_s |e(phi~' A, s)|^2 / v(s),

Q being the prior's precision and v(s) the variance with which e is known there: far from all rollouts it is large, and
the prior holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hpsde.steps.local_models import (
    FAR,
    FEWEST,
    LEVERAGE,
    NEAREST,
    RESOLUTION,
    Coefficients,
    Modelled,
    regress,
    squared_losses,
    terms,
)

MOST = 3  # components: places are in space
ENOUGH = 2.5  # rollouts for each number of a model with as many components as there may be
CLEARLY = 4.0  # 1 / sqrt(rollouts), by which the errors' variance must be smaller than where |e|^2 is quadratic itself
FIRST_TOP = 0.1  # of the floor, that the top is taken to be above the best return at first
CONTEXTS, LOOKS = 128, 3  # that an optimum is sought in, about; how often, as what is known depends on where it is
STEPS, CONVERGED, SETTLED = 30, 1e-3, 1e-12  # steps of a search at most; share of its last one, and for an optimum
DAMPING, LESS, MORE, TRIES = 1e-3, 0.2, 5.0, 8  # of the first step; after a good one; after each of so many bad ones
RIDGE, SMALLEST = 1e-12, 1e-300  # by how much normalised numbers count as errors; least size of anything
ABSENT = 1e-100  # size of a term that does not vary


class DistanceModel(NamedTuple):
    """e, the variance of the errors of |e| where losses are small, and what the numbers of e are known by: their
    covariance where that variance is 1, a block for each component [K, P, P].
    """

    e: Coefficients
    variance: float
    inverse: np.ndarray

    def known(self, phi: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The variance [N] with which e is known at x [N, D], in the mean over its components."""
        A = terms(phi, x, self.e.G.shape[1])
        return self.variance * np.einsum("np,kpq,nq->n", A, self.inverse, A) / len(self.inverse)

    def expected(self, phi: np.ndarray, x: np.ndarray) -> float:
        """The mean of |e|^2 by what is known of e."""
        squares = np.sum(self.e.values(phi, x) ** 2, axis=1)
        return float(np.mean(squares + len(self.inverse) * self.known(phi, x)))


def wanted(features: int, slopes: int, size: int) -> int:
    """Rollouts that a model is fitted to, where there are so many."""
    return int(ENOUGH * MOST * _numbers(features, slopes, size))


def _numbers(features: int, slopes: int, size: int) -> int:
    """The numbers of a component."""
    return features + slopes * size + size * (size + 1) // 2


def describe(phi: np.ndarray, slopes: int, x: np.ndarray, returns: np.ndarray) -> DistanceModel | None:
    """The model of these rollouts; None where they are no distances, or too few.

    phi [N, F + 1], of which the first `slopes` do not bend; x [N, D]. It has as many components as predict rollouts
    left out best.
    """
    size, numbers = x.shape[1], _numbers(phi.shape[1], slopes, x.shape[1])
    if len(x) < FEWEST * numbers:
        return None
    plain = phi[:, :slopes]
    A = terms(plain, x)
    squares = squared_losses(A, returns)
    if squares is None or squares.top is None:
        return None
    squared = regress(A, returns, squares)
    if not squared.variance < regress(A, returns, Modelled()).variance:
        return None
    coarse = Coefficients.of(squared.coefficients[None], slopes, slopes, size)
    curvatures, directions = np.linalg.eigh(coarse.M[0])
    A, losses = terms(phi, x, slopes), squares.top - returns

    def coefficients(theta: np.ndarray) -> Coefficients:
        return Coefficients.of(theta, phi.shape[1], slopes, size)

    found = []
    for K in range(1, min(MOST, size, int(len(x) / (FEWEST * numbers))) + 1):
        if not curvatures[-K] > RESOLUTION * curvatures[-1]:
            break
        first = _linear(coarse, directions[:, -K:], curvatures[-K:], phi.shape[1])
        found.append(_fit(A, losses, squares.floor, first, coefficients))
    return min((each for each in found if each is not None), key=lambda each: each.variance, default=None)


def _left_out(errors: np.ndarray, J: np.ndarray, inverse: np.ndarray) -> float:
    """The mean square of errors [N], each left out in turn, by how much it pulls on its own; J [N, P] is their
    Jacobian, `inverse` (J' J)^-1.
    """
    pull = np.sum((J @ inverse) * J, axis=1)
    return float(np.mean((errors / np.maximum(1.0 - pull, LEVERAGE)) ** 2))


def _linear(coarse: Coefficients, directions: np.ndarray, curvatures: np.ndarray, features: int) -> np.ndarray:
    """The numbers [K, P] of components e_k that are linear in x, so that -|e|^2 has these curvatures [K] along these
    directions [D, K] and the slopes of a model.
    """
    slopes, size = coarse.G.shape[1:]
    theta = np.zeros((len(curvatures), _numbers(features, slopes, size)))
    theta[:, :slopes] = -np.sqrt(0.5 / curvatures)[:, None] * (coarse.G[0] @ directions).T
    theta[:, features : features + size] = np.sqrt(0.5 * curvatures)[:, None] * directions.T
    return theta


def _fit(
    A: np.ndarray,
    losses: np.ndarray,
    floor: float,
    first: np.ndarray,
    coefficients: Callable[[np.ndarray], Coefficients],
) -> DistanceModel | None:
    """The model of these losses [N] by terms [N, P], found from the numbers `first` [K, P], without rollouts that are
    far off it; None where a quadratic |e|^2 predicts those left out as well.
    """
    scale = np.sqrt(np.mean(A**2, axis=0))
    scale = np.where(scale > ABSENT, scale, 1.0)
    errors = Errors(A / scale, losses, floor)
    numbers = errors.least(np.append((first * scale).ravel(), np.sqrt(FIRST_TOP * floor)))
    off = np.abs(errors(numbers)[0])
    inside = off <= FAR * 1.4826 * np.median(off)
    errors = Errors(errors.terms[inside], losses[inside] + numbers[-1] ** 2, floor)
    numbers = errors.least(np.append(numbers[:-1], 0.0))
    left, J = errors(numbers)
    K, P = first.shape
    inverse = errors.inverse(J, _turns(numbers[:-1].reshape(K, P)))
    variance = _left_out(left, J, inverse)
    if not variance < (1.0 - CLEARLY / np.sqrt(len(left))) * errors.by_quadratic():
        return None
    # What no quadratic describes does not average out as noise does.
    inverse = inverse * max(1.0, len(left) / (K * P))
    blocks = np.einsum("kpkq->kpq", inverse[:-1, :-1].reshape(K, P, K, P)) / (scale[:, None] * scale[None])
    return DistanceModel(coefficients(numbers[:-1].reshape(K, P) / scale), variance, blocks)


def _turns(theta: np.ndarray) -> np.ndarray | None:
    """Directions of the numbers [T, K P + 1] that turn e, components theta [K, P], and change no |e|."""
    K = len(theta)
    turns = np.zeros((K * (K - 1) // 2, *theta.shape))
    for turn, j, k in zip(turns, *np.triu_indices(K, 1), strict=True):
        turn[j], turn[k] = theta[k], -theta[j]
    return np.pad(turns.reshape(len(turns), -1), ((0, 0), (0, 1))) if K > 1 else None


class Errors(NamedTuple):
    """Errors of |e| [N] as functions of the numbers theta [K P] and alpha, alpha^2 being how far the top is above the
    best return, of normalised terms [N, P].
    """

    terms: np.ndarray
    losses: np.ndarray
    floor: float

    @property
    def weights(self) -> np.ndarray:
        """w_i / 2 [N]."""
        return 0.5 * self.floor / np.maximum(self.losses, self.floor) ** 2

    def __call__(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The errors [N] and their Jacobian [N, K P + 1]."""
        theta, alpha = numbers[:-1].reshape(-1, self.terms.shape[1]), numbers[-1]
        e, losses = self.terms @ theta.T, self.losses + alpha**2
        slopes = (2.0 * self.weights[:, None] * e)[:, :, None] * self.terms[:, None, :]
        by_alpha = -4.0 * alpha * self.weights * losses
        J = np.concatenate([slopes.reshape(len(e), -1), by_alpha[:, None]], axis=1)
        return (np.sum(e**2, axis=1) - losses**2) * self.weights, J

    @property
    def ridge(self) -> float:
        """What the square of a number counts beside squared errors."""
        return RIDGE * len(self.losses)

    def least(self, theta: np.ndarray) -> np.ndarray:
        """The numbers at the minimum of the squares, found from these."""
        return least_squares(self.__call__, theta, self.ridge * np.eye(len(theta)), CONVERGED)

    def inverse(self, J: np.ndarray, turns: np.ndarray | None = None) -> np.ndarray:
        """The covariance of the numbers, where that of the errors is 1; directions `turns` [T, ...] are held."""
        normal = J.T @ J
        normal += (RIDGE * np.trace(normal) / len(normal) + SMALLEST) * np.eye(len(normal))
        if turns is not None:
            held = np.linalg.qr(turns.T)[0]
            normal += np.trace(normal) / len(normal) * held @ held.T
        return np.linalg.inv(normal)

    def by_quadratic(self) -> float:
        """The variance of the errors where |e|^2 is quadratic itself: linear in the terms."""
        J, target = self.terms * self.weights[:, None], self.losses**2 * self.weights
        inverse = self.inverse(J)
        return _left_out(target - J @ (inverse @ (J.T @ target)), J, inverse)


def least_squares(
    function: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], x: np.ndarray, Q: np.ndarray, converged: float
) -> np.ndarray:
    """The minimum of |f(x)|^2 + x' Q x, found from x by damped Gauss-Newton steps (Levenberg and Marquardt).

    `function` gives f and its Jacobian. The search ends where a step lowers the sum by no more than the share
    `converged`.
    """
    f, J = function(x)
    total, damping = float(f @ f + x @ Q @ x), DAMPING
    for _ in range(STEPS):
        normal, gradient = J.T @ J + Q, J.T @ f + Q @ x
        for _ in range(TRIES):
            step = np.linalg.solve(normal + damping * np.diag(np.diagonal(normal)), -gradient)
            f, J = function(x + step)
            found = float(f @ f + (x + step) @ Q @ (x + step))
            if found < total:
                break
            damping *= MORE
        else:
            return x
        x, total, fallen, damping = x + step, found, 1.0 - found / total, damping * LESS
        if fallen < converged:
            break
    return x


def optimum(model: DistanceModel, Q: np.ndarray, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The policy phi~' A [F + 1, D] at the optimum in contexts with phi~ [N, F + 1], given the prior that it is 0 with
    the precision Q; its covariance in the mean over these contexts; and the mean of (de/dx)' de/dx there, both [D, D].
    """
    phi = phi[:: max(1, len(phi) // CONTEXTS)]
    count, size = phi.shape[1], model.e.M.shape[1]
    prior, X = np.kron(Q, np.eye(size)), np.zeros((count, size))
    for _ in range(LOOKS):
        steepness = np.sum(model.e.slopes(phi, phi @ X) ** 2)
        known = np.maximum(model.known(phi, phi @ X), NEAREST**2 * steepness / len(phi) + SMALLEST)
        weights = np.sqrt(count / (known * len(phi)))

        def errors(A: np.ndarray, weights: np.ndarray = weights) -> tuple[np.ndarray, np.ndarray]:
            x = phi @ A.reshape(count, size)
            by_A = (weights[:, None, None] * model.e.slopes(phi, x))[:, :, None, :] * phi[:, None, :, None]
            return (weights[:, None] * model.e.values(phi, x)).ravel(), by_A.reshape(-1, count * size)

        X = least_squares(errors, X.ravel(), prior, SETTLED).reshape(count, size)
    J = errors(X.ravel())[1]
    covariance = np.linalg.inv(J.T @ J + prior).reshape(count, size, count, size)
    moments, slopes = phi.T @ phi / len(phi), model.e.slopes(phi, phi @ X)
    return X, np.einsum("ab,ajbk->jk", moments, covariance), np.einsum("nkd,nke->de", slopes, slopes) / len(phi)
