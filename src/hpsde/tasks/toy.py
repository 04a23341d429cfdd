"""The toy tasks: one context number s in [0, 2], one action a, returns with two or three known solutions.

The return falls off with the distance from the nearest line (or arc) of best actions, so that the best return
is the same in every context.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hpsde.base.distributions import Uniform
from hpsde.tasks.solutions import Solution, solution_at
from hpsde.tasks.task import FunctionTask, task_from_function

__all__ = ["toy_curve", "toy_double", "toy_triple"]

# a = slope * s + intercept
DOUBLE_LINES = {"upper line": (0.2, 1.2), "lower line": (-0.3, 0.9)}
# One line for each interval of s, which includes its start and excludes its end.
TRIPLE_LINES = {
    "left line": (-np.inf, 0.7, -0.3, 2.4),
    "middle line": (0.7, 1.4, 0.2, 0.8),
    "right line": (1.4, np.inf, -0.2, 3.5),
}
# (a - centre)^2 + (s - 1)^2 = r: note that r is the square of the arc's radius.
CURVE_ARCS = {
    "lower arc": (-np.cos(0.30 * np.pi), 1.0 / np.sin(0.30 * np.pi)),
    "upper arc": (1.0 - np.cos(0.15 * np.pi), 1.0 / np.sin(0.15 * np.pi)),
}


def toy_double() -> FunctionTask:
    """Two lines of best actions, equally good in every context: R = exp(-min(d1, d2) / 10), at best 1."""
    return _toy(
        "toy-double",
        double_returns,
        highest_action=2.0,
        features="linear",
        description="two lines of best actions, equally good everywhere",
        solutions=tuple(solution_at(name, _line(*line)) for name, line in DOUBLE_LINES.items()),
    )


def toy_triple() -> FunctionTask:
    """Three lines of best actions, one for each interval of contexts: R = max(100 exp(-d / 100), 99.5)."""
    return _toy(
        "toy-triple",
        triple_returns,
        highest_action=4.0,
        features="linear",
        description="three lines of best actions, each for its own contexts, in a flat plain",
        solutions=tuple(
            solution_at(name, _line(slope, intercept), _between(start, end))
            for name, (start, end, slope, intercept) in TRIPLE_LINES.items()
        ),
    )


def toy_curve() -> FunctionTask:
    """Two arcs of best actions, equally good: R = exp(-min(d1, d2) / 10), at best 1.

    Each circle has a second branch, a = centre - sqrt(r - (s - 1)^2), that never enters the actions [0, 2].
    The lower arc lies below 0, and does not count, where |s - 1| > 0.9437.
    """
    return _toy(
        "toy-curve",
        curve_returns,
        highest_action=2.0,
        features="squared-exponential",
        description="two arcs of best actions, equally good",
        solutions=tuple(_arc_solution(name, *arc, highest=2.0) for name, arc in CURVE_ARCS.items()),
    )


def double_returns(contexts: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """R = exp(-min_k d_k / 10), d_k the distance from line k. contexts [N, 1], actions [N, 1] -> [N]."""
    s, a = contexts[:, 0], actions[:, 0]
    distances = [_distance_from_line(s, a, *line) for line in DOUBLE_LINES.values()]
    return np.exp(-np.min(distances, axis=0) / 10.0)


def triple_returns(contexts: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """R = max(100 exp(-d / 100), 99.5), d the distance from the line of the context's interval."""
    s, a = contexts[:, 0], actions[:, 0]
    lines = TRIPLE_LINES.values()
    intervals = [(s >= start) & (s < end) for start, end, _, _ in lines]
    distance = np.select(intervals, [_distance_from_line(s, a, *line[2:]) for line in lines], default=np.nan)
    return np.maximum(100.0 * np.exp(-distance / 100.0), 99.5)


def curve_returns(contexts: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """R = exp(-min_k d_k / 10), d_k = |(a - centre_k)^2 + (s - 1)^2 - r_k|."""
    s, a = contexts[:, 0], actions[:, 0]
    distances = [np.abs((a - centre) ** 2 + (s - 1.0) ** 2 - r) for centre, r in CURVE_ARCS.values()]
    return np.exp(-np.min(distances, axis=0) / 10.0)


def _toy(
    name: str,
    returns: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    highest_action: float,
    features: str,
    description: str,
    solutions: tuple[Solution, ...],
) -> FunctionTask:
    """s ~ U(0, 2), start policy a ~ U(0, highest_action), 600 initial rollouts, O_max 10."""
    return task_from_function(
        returns,
        contexts=Uniform(0.0, 2.0),
        initial=Uniform(0.0, highest_action),
        batched=True,
        name=name,
        features=features,
        max_options=10,
        initial_rollouts=600,
        rollouts=1050,
        description=description,
        solutions=solutions,
    )


def _distance_from_line(s: np.ndarray, a: np.ndarray, slope: float, intercept: float) -> np.ndarray:
    return np.abs(slope * s - a + intercept) / np.sqrt(slope**2 + 1.0)


def _line(slope: float, intercept: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda contexts: slope * contexts + intercept


def _between(start: float, end: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda contexts: (contexts[:, 0] >= start) & (contexts[:, 0] < end)


def _arc_solution(name: str, centre: float, r: float, highest: float) -> Solution:
    def actions(contexts: np.ndarray) -> np.ndarray:
        return centre + np.sqrt(r - (contexts - 1.0) ** 2)

    def valid(contexts: np.ndarray) -> np.ndarray:
        a = actions(contexts)[:, 0]
        return (a >= 0.0) & (a <= highest)

    return solution_at(name, actions, valid)
