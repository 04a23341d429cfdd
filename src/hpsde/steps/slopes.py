"""Where to start in many dimensions: uphill on a plane, and far out along what the return sees.

First rollouts with many parameters look alike to the return: their differences average out, and climbs from them end
on neighbouring hills. Solutions that differ lie far out, along the few directions that the return is most sensitive
to. These are found by slopes: about a good place x0 the gradient of the return is measured, at PLACES places, a rollout
for each parameter. The right singular vectors of these gradients, the largest first, are the directions.
"""

from __future__ import annotations

import numpy as np

from hpsde.base.later import Later

spatial = Later("scipy.spatial")

RIDGE = 0.3  # of the plane through the first returns, in rollouts for each of them
STOPS = 12  # places uphill on it,
FAR = 0.75  # up to so far, in distances of first rollouts from their mean, sqrt(D)
PLACES = 8  # at which the slopes are measured, the best one among them,
BESIDE = 0.3  # the others so far from it in each parameter, in deviations of the first rollouts,
DIFFERENCE = 0.3  # and the difference that a slope is measured by
SAME = 1e-7  # so near a place is there already


def known(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The row of x [N, D] at each of the places [n, D]; -1: none."""
    distance, row = spatial.KDTree(x).query(places, distance_upper_bound=SAME)
    return np.where(np.isfinite(distance), row, -1)


def line(x: np.ndarray, y: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Places [STOPS, D] uphill on the plane through rollouts x [N, D] with returns y [N]."""
    size, middle = x.shape[1], x.mean(axis=0)
    away = x - middle
    slope = np.linalg.solve(away.T @ away + RIDGE * len(x) * np.eye(size), away.T @ (y - y.mean()))
    uphill = slope / max(float(np.linalg.norm(slope)), 1e-300)
    return np.clip(middle + FAR * np.sqrt(size) * np.linspace(0.0, 1.0, STOPS + 1)[1:, None] * uphill, low, high)


def places(best: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """What measures the slopes about the best place [D]: [PLACES, 1 + D, D], each place and a step in each parameter.

    A step leads away from the nearer bound.
    """
    size, rng = len(best), np.random.default_rng(0)
    beside = BESIDE * np.concatenate([np.zeros((1, size)), rng.normal(size=(PLACES - 1, size))])
    middles = np.clip(best + beside, low, high)
    steps = np.where(high - middles < middles - low, -DIFFERENCE, DIFFERENCE)
    return np.concatenate([middles[:, None], middles[:, None] + steps[:, :, None] * np.eye(size)], axis=1)


def directions(asked: np.ndarray, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The directions [K, D] that the return is most sensitive to, by the places asked for and their rows (-1: none).

    A slope that could not be measured counts as 0.
    """
    count, size = asked.shape[0], asked.shape[2]
    rows = rows.reshape(count, 1 + size)
    gained = np.where((rows[:, 1:] >= 0) & (rows[:, :1] >= 0), y[rows[:, 1:]] - y[rows[:, :1]], 0.0)
    steps = np.einsum("kdd->kd", asked[:, 1:] - asked[:, :1])
    _, strength, axes = np.linalg.svd(gained / steps, full_matrices=False)
    return axes[strength > 1e-9 * max(float(strength[0]), 1e-300)]
