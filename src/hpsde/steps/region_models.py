"""The local model of a region in many dimensions, and where its next rollouts go.

The return is modelled by a Gaussian process on the nearest rollouts: a squared-exponential kernel with the likeliest of
a few lengths and of two noises. Its axes are turned where that is likelier: A = V diag((lambda / median)^POWER) V' with
the eigenvalues lambda of E[g g'], g being the gradient of the process' mean at these rollouts. Two rollouts go where
the mean is highest within the region and within a quarter of it. The others are Thompson's: places at which some of the
parameters are changed, shorter along axes on which the return changes quickly, and of these the highest of a draw from
the process. A share of them leap instead: few parameters are changed, and by much, as little as can be along the axes
on which the return changes quickly. So a climb leaves places where every small change is a loss.
"""

from __future__ import annotations

import numpy as np

from hpsde.base.later import Later

linalg, optimize = Later("scipy.linalg"), Later("scipy.optimize")

LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # of the kernel, in median distances of the rollouts from the centre
NOISES = (1e-8, 1e-4)  # of the kernel's variance
POWER, MOST_TURNED = 0.15, 30.0
JITTER = 1e-6  # of it, in draws: places that are known are no draws
TURNS = 2  # times that axes are turned
GRADIENTS = 120  # nearest rollouts that the gradients are taken at
CHANGED = 20  # parameters of a place that are changed
LEAPS = 0.3  # of the places, at which only
FEW = 2  # parameters are changed,
LEAP = 2.0  # by so much at most, in deviations of the first rollouts
FLAT = 6.0  # power by which leaps are shorter along axes on which the return changes quickly
CANDIDATES = 10  # for each parameter, but at least
FEWEST_CANDIDATES = 200


class Process:
    """A Gaussian process on x [n, D] and y [n] with axes A [D, D]."""

    def __init__(self, x: np.ndarray, y: np.ndarray, unit: float, A: np.ndarray) -> None:
        self.A, self.u = A, x @ A
        self.middle, self.unit = float(y.mean()), float(y.std()) + 1e-300
        z = np.stack([(y - self.middle) / self.unit, np.ones(len(y))], axis=1)
        squares, volume = _squares(self.u, self.u), np.exp(np.linalg.slogdet(A)[1] / len(A))
        self.likelihood = -np.inf
        for length in LENGTHS:
            kernel = np.exp(-0.5 * squares / (unit * volume * length) ** 2)
            for noise in NOISES:
                self._try(kernel + noise * np.eye(len(y)), unit * volume * length, z)
        if not np.isfinite(self.likelihood):
            self.length, self.L, self.mean, self.variance = unit, np.eye(len(y)), 0.0, 1.0
            self.alpha = np.zeros(len(y))

    def _try(self, K: np.ndarray, length: float, z: np.ndarray) -> None:
        """Take this kernel if it is the likeliest so far."""
        try:
            L = np.linalg.cholesky(K)
        except np.linalg.LinAlgError:
            return
        a, one = linalg.solve_triangular(L, z, lower=True).T
        mean = (one @ a) / (one @ one)
        left = a - mean * one
        variance = max(float(left @ left) / len(z), 1e-300)
        likelihood = -0.5 * len(z) * np.log(variance) - float(np.log(np.diagonal(L)).sum())
        if likelihood > self.likelihood:
            self.likelihood, self.length, self.L, self.mean, self.variance = likelihood, length, L, mean, variance
            self.alpha = linalg.solve_triangular(L.T, left, lower=False)

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """Of the mean at x [M, D], in units of the returns' deviation."""
        share = self._kernel(x) * self.alpha
        return (share @ self.u - share.sum(axis=1)[:, None] * (x @ self.A)) @ self.A / self.length**2

    def _kernel(self, x: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * _squares(x @ self.A, self.u) / self.length**2)

    def draws(self, x: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws [M, count] from the process at x [M, D], in units of the returns' deviation."""
        kernel, u = self._kernel(x), x @ self.A
        known = linalg.solve_triangular(self.L, kernel.T, lower=True)
        covariance = np.exp(-0.5 * _squares(u, u) / self.length**2) - known.T @ known
        covariance[np.diag_indices(len(x))] += JITTER
        C = np.linalg.cholesky(covariance) * np.sqrt(self.variance)
        return (self.mean + kernel @ self.alpha)[:, None] + C @ rng.normal(size=(len(x), count))

    def top(self, start: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Where the mean is highest between low [D] and high [D]."""

        def fall(place: np.ndarray) -> tuple[float, np.ndarray]:
            return -float(self._kernel(place[None])[0] @ self.alpha), -self.gradients(place[None])[0]

        bounds = list(zip(low, high, strict=True))
        return optimize.minimize(fall, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40}).x


def _squares(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Squared distances [M, N]."""
    return np.maximum(np.sum(one**2, axis=1)[:, None] + np.sum(other**2, axis=1) - 2.0 * one @ other.T, 0.0)


def fit(x: np.ndarray, y: np.ndarray, centre: np.ndarray) -> Process:
    """The likeliest process on rollouts x [n, D], the nearest to the centre first."""
    unit = max(float(np.median(np.linalg.norm(x - centre, axis=1))), 1e-12)
    process = Process(x, y, unit, np.eye(x.shape[1]))
    for _ in range(TURNS):
        g = process.gradients(x[:GRADIENTS])
        values, axes = np.linalg.eigh(g.T @ g)
        middle = max(float(np.median(values)), 1e-300)
        with np.errstate(over="ignore"):  # where the return depends on few parameters: infinite, and cut
            scales = np.clip((np.maximum(values, 0.0) / middle) ** POWER, 1.0 / MOST_TURNED, MOST_TURNED)
        turned = Process(x, y, unit, (axes * scales) @ axes.T)
        if turned.likelihood <= process.likelihood:
            break
        process = turned
    return process


def next_places(
    x: np.ndarray,
    y: np.ndarray,
    centre: np.ndarray,
    length: float,
    bounds: tuple[np.ndarray, np.ndarray],
    count: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Where `count` rollouts go in a region round the centre [D], by rollouts x [n, D], the nearest first."""
    size, (low, high) = len(centre), bounds
    process = fit(x, y, centre)
    tops = [
        process.top(centre, np.maximum(centre - reach, low), np.minimum(centre + reach, high))
        for reach in (length, 0.25 * length)
    ]
    many = max(CANDIDATES * size, FEWEST_CANDIDATES, 2 * count)
    changed = rng.random((many, size)) < min(1.0, CHANGED / size)
    changed[np.arange(many), rng.integers(0, size, many)] = True
    values, axes = np.linalg.eigh(process.A)
    shorter = (axes * np.minimum(1.0, np.median(values) / values)) @ axes.T
    from_where = np.where(np.arange(many)[:, None] < many // 2, centre, tops[0])
    drawn = np.clip(from_where + (changed * rng.uniform(-length, length, (many, size))) @ shorter, low, high)
    leaps = np.arange(count) % max(round(1.0 / LEAPS), 1) == 0 if LEAPS else np.zeros(count, dtype=bool)
    leaps[:2] = False
    near = int(np.sum(~leaps)) - 2
    heights, chosen = process.draws(drawn, max(near, 0), rng), []
    for draw in heights.T:
        chosen.append(int(np.argmax(draw)))
        heights[chosen[-1]] = -np.inf
    found = np.empty((max(count, 2), size))
    found[:2] = tops
    found[np.flatnonzero(~leaps)[2:]] = drawn[chosen]
    found[np.flatnonzero(leaps)] = np.clip(centre + _leaps(int(leaps.sum()), size, rng) @ _flat(process), low, high)
    return found[:count]


def _leaps(count: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Changes of few parameters [count, D]."""
    away = np.zeros((count, size))
    for _ in range(FEW):
        away[np.arange(count), rng.integers(0, size, count)] += rng.uniform(-LEAP, LEAP, count)
    return away


def _flat(process: Process) -> np.ndarray:
    """What is left of changes [D, D] along axes on which the return does not change quickly."""
    values, axes = np.linalg.eigh(process.A)
    return (axes * np.minimum(1.0, (np.median(values) / values) ** FLAT)) @ axes.T
