"""A Gaussian process for success or failure: logit likelihood, Laplace approximation (Rasmussen and Williams 2006,
3.4).

    y_i ~ Bernoulli(sigmoid(f_i)),    f ~ GP(m, k)

At the mode of p(f | y), found by Newton steps, the posterior is that of a regression with noise variance
1 / (p_i (1 - p_i)) at point i and targets f_i + (y_i - p_i) / (p_i (1 - p_i)). So the process has the form of all
others here, with beta = y - p and K_inverse = (K + W^-1)^-1, and everything that asks a process for f can ask it. f is
the logarithm of the odds: on a plateau where every rollout succeeds it stays smooth, where a regression on 0 and 1
ripples. Its kernel is fitted as a squared exponential.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hpsde.base.later import Later
from hpsde.base.shapes import Array
from hpsde.gp.fit import WEAK_PRIOR, fitting_subset
from hpsde.gp.lapack import as_floats, noise_free_covariance
from hpsde.gp.model import GP, Hyperparameters
from hpsde.gp.warp import Warp

optimize = Later("scipy.optimize")

linalg = Later("scipy.linalg")
special = Later("scipy.special")


SIGNAL = 3.0  # typical standard deviation of the log odds
NOISE = 1e-3  # that the hyper-parameters name: there is none
SHORTEST, LONGEST = 2e-2, 1e2  # lengths, in deviations of the points
LEAST_POINTS = 20  # different points, for two returns to be success and failure
PLATEAU = 0.99  # of the weight for good returns, on returns that are equal
NEWTON_STEPS = 40
LARGEST_STEP = 3.0
ITERATIONS = 25
TOLERANCE = 1e-4  # of f
KNOTS = 129
FARTHEST = 8.0  # log odds of the last knots


def is_binary(returns: np.ndarray, share: np.ndarray, z: np.ndarray) -> bool:
    """Whether returns are success or failure: there are two of them, or nearly all of the good ones are equal.

    `share` is that of weight for good returns: on a plateau, returns that cannot be exceeded, it says nothing of how
    far below it others are bad. Two returns because there are hardly more different points z are no success.
    """
    best = returns == returns.max()
    equal = len(np.unique(returns)) == 2 or share[best].sum() > PLATEAU * share.sum()
    return bool(equal and not best.all()) and len(np.unique(z, axis=0)) >= LEAST_POINTS


def odds_warp(returns: np.ndarray) -> Warp:
    """The map between log odds and expected returns; the highest is success, and failures have their median return."""
    high = float(np.max(returns))
    low = float(np.median(returns[returns < high]))
    scores = np.linspace(-FARTHEST, FARTHEST, KNOTS)
    return Warp(low + (high - low) * special.expit(scores), scores)


def base_rate(returns: np.ndarray) -> float:
    """Log odds of success over the given returns, one of each kind added."""
    success = returns == returns.max()
    return float(special.logit((success.sum() + 1.0) / (len(returns) + 2.0)))


class _Mode(NamedTuple):
    """The mode f [n], p = sigmoid(f), and R = (K + W^-1)^-1 with log |I + K W|, W = p (1 - p)."""

    f: np.ndarray
    p: np.ndarray
    R: np.ndarray
    log_determinant: float


def _factor(K: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W^1/2 [n] and the Cholesky factor of I + W^1/2 K W^1/2."""
    root = np.sqrt(np.maximum(p * (1.0 - p), 1e-10))
    return root, linalg.cho_factor(np.eye(len(p)) + root[:, None] * K * root[None], lower=True)[0]


def _precision(root: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """R = (K + W^-1)^-1 = W^1/2 (I + W^1/2 K W^1/2)^-1 W^1/2."""
    return root[:, None] * linalg.cho_solve((factor, True), np.diag(root))


def _mode(K: np.ndarray, y: np.ndarray, mean: float, start: np.ndarray | None = None) -> _Mode:
    """Newton steps: with b = W (f - m) + y - p,  f = m + K (b - R K b)."""
    f = np.full(len(y), mean) if start is None else start
    change = np.inf
    for _ in range(NEWTON_STEPS):
        p = y - (y - special.expit(f))  # rounded so that beta = y - p gives p back to the bit
        root, factor = _factor(K, p)
        if change < TOLERANCE:
            break
        b = root**2 * (f - mean) + (y - p)
        new = mean + K @ (b - root * linalg.cho_solve((factor, True), root * (K @ b)))
        # A step of the log odds by more than a few would overshoot where p is nearly 0 or 1.
        step = np.clip(new - f, -LARGEST_STEP, LARGEST_STEP)
        change, f = np.max(np.abs(step)), f + step
    return _Mode(f, p, _precision(root, factor), 2.0 * float(np.sum(np.log(np.diagonal(factor)))))


def fit_binary(
    z: np.ndarray,
    success: np.ndarray,
    mean: float,
    starts: Sequence[Hyperparameters],
    longest: np.ndarray | float = LONGEST,
    points: int = 512,
) -> Hyperparameters:
    """Lengths and signal with the highest evidence by Laplace's approximation, times weak priors. No length is above
    `longest` [Z], in deviations of the points.

    log q(y) = sum_i log p(y_i | f_i) - 1/2 a'(f - m) - 1/2 log |I + K W|,  a = y - p. Its gradient has the form of the
    regression's, with a a' - R + u a' + a u' for beta beta' - K^-1 and u = (I - R K) s, where
    s_i = -1/2 (K - K R K)_ii d W_i.
    """
    chosen = fitting_subset(len(z), points)
    z, y = z[chosen] - z[chosen].mean(axis=0), np.asarray(success, dtype=float)[chosen]
    spread = np.log(np.maximum(z.std(axis=0), 1e-12))
    last: dict[str, np.ndarray | None] = {"f": None}

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        scaled = z * np.exp(-theta[:-1])
        here = Hyperparameters(theta[:-1], np.asarray(theta[-1]), np.asarray(np.log(NOISE)))
        K = noise_free_covariance(here, z)
        mode = _mode(K, y, mean, last["f"])
        last["f"] = mode.f
        a, p = y - mode.p, mode.p
        log_p = -np.sum(np.logaddexp(0.0, np.where(y > 0.5, -mode.f, mode.f)))
        value = log_p - 0.5 * a @ (mode.f - mean) - 0.5 * mode.log_determinant
        KR = K @ mode.R
        variance = np.diagonal(K) - np.sum(KR * K, axis=1)
        s = -0.5 * variance * p * (1.0 - p) * (1.0 - 2.0 * p)
        u = s - mode.R @ (K @ s)
        M = (np.outer(a + u, a) + np.outer(a, u) - mode.R) * K
        rows = M.sum(axis=1)
        gradient = np.append(rows @ scaled**2 - np.sum(scaled * (M @ scaled), axis=0), rows.sum())
        error = np.append((theta[:-1] - spread) / WEAK_PRIOR.length[1], (theta[-1] - np.log(SIGNAL)) / 1.0)
        scale = np.append(np.full(len(spread), WEAK_PRIOR.length[1]), 1.0)
        return 0.5 * error @ error - value, error / scale - gradient

    most = spread + np.log(np.broadcast_to(longest, spread.shape))
    bounds = [*zip(spread + np.log(SHORTEST), most, strict=True), (np.log(0.3), np.log(10.0))]
    found = []
    for start in starts:
        first = np.append(np.asarray(start.log_lengths, dtype=float), np.log(SIGNAL))
        last["f"] = None
        options = {"maxiter": ITERATIONS, "ftol": 1e-5}
        found.append(optimize.minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options))
    best = min(found, key=lambda each: each.fun).x
    return Hyperparameters(best[:-1], np.asarray(best[-1]), np.asarray(np.log(NOISE)))


def condition_binary(
    hyperparameters: Hyperparameters, z: np.ndarray, success: np.ndarray, mask: np.ndarray, mean: float
) -> GP:
    """The process of the log odds given points z [N, Z] in the mask, and whether each succeeded [N]."""
    rows, N = np.flatnonzero(mask), len(mask)
    points, y = z[rows], np.asarray(success, dtype=float)[rows]
    centre = points.mean(axis=0)
    points = points - centre
    mode = _mode(noise_free_covariance(hyperparameters, points), y, mean)
    padded_z, beta, K_inverse = np.zeros((N, points.shape[1])), np.zeros(N), np.zeros((N, N))
    padded_z[rows], beta[rows], K_inverse[np.ix_(rows, rows)] = points, y - mode.p, mode.R
    fields = (padded_z, np.asarray(mask, dtype=bool), beta, K_inverse, np.asarray(float(mean)), centre)
    return GP(as_floats(hyperparameters), *fields)


def with_inverse(process: GP, y: Array) -> GP:
    """A process that was stored without its K_inverse, given success (1) or failure (0) [N]: the same bits again."""
    rows, N = np.flatnonzero(process.mask), len(process.mask)
    K = noise_free_covariance(process.hyperparameters, np.asarray(process.z)[rows])
    p = (np.asarray(y, dtype=float) - np.asarray(process.beta))[rows]
    K_inverse = np.zeros((N, N))
    K_inverse[np.ix_(rows, rows)] = _precision(*_factor(K, p))
    return process._replace(K_inverse=K_inverse)
