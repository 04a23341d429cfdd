"""The compass task: the best actions swing with the direction in which a point lies.

A context is a point around the origin, no nearer than 0.4 and no farther than 1. With its direction theta, the best
actions are two waves, and the return falls off with the distance d from the nearer one:

    a = +-1.2 + 0.6 sin(4 theta),     R = exp(-1/2 (d / 0.16)^2)

Both are equally good everywhere. The waves are no line and no quadratic of the point's coordinates, and too steep near
the origin for squared exponentials as far apart as the learner has them; a small network can follow them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from hpsde.base.distributions import Uniform
from hpsde.base.shapes import Array, Float
from hpsde.tasks.solutions import solution_at
from hpsde.tasks.task import FunctionTask, task_from_function

__all__ = ["Ring", "compass_returns", "compass_task"]

NEAREST = 0.4
MIDDLES = {"upper wave": 1.2, "lower wave": -1.2}
SWING, WAVES, WIDTH = 0.6, 4, 0.16
HIGHEST = 2.2
TOLERANCE = 0.08
"""How far from a wave an option that follows it may be: there the return is 0.88."""
RADII, DIRECTIONS = 8, 40


@dataclass(frozen=True)
class Ring:
    """Points that are uniform between two circles around the origin."""

    inner: float
    outer: float

    size = 2
    has_density = True
    bounds = None

    def sample(self, key: Array, n: int) -> Float[np.ndarray, "n 2"]:
        """`n` points."""
        drawn = Uniform([self.inner**2, -np.pi], [self.outer**2, np.pi]).sample(key, n)
        return _points(np.sqrt(drawn[:, 0]), drawn[:, 1])

    def log_prob(self, x: Float[np.ndarray, "N 2"]) -> Float[np.ndarray, " N"]:
        """Log density."""
        radius = np.hypot(x[:, 0], x[:, 1])
        within = (radius >= self.inner) & (radius <= self.outer)
        return np.where(within, -np.log(np.pi * (self.outer**2 - self.inner**2)), -np.inf)


def compass_task() -> FunctionTask:
    """Two waves of best actions over the directions: R = exp(-1/2 (min_k d_k / 0.16)^2), at best 1."""
    return task_from_function(
        compass_returns,
        contexts=Ring(NEAREST, 1.0),
        initial=Uniform(-HIGHEST, HIGHEST),
        batched=True,
        name="compass",
        evaluation=_even_points(),
        max_options=10,
        initial_rollouts=1714,
        rollouts=3000,
        description="two waves of best actions over the direction of a point: options are best neural",
        solutions=tuple(
            solution_at(name, partial(_wave, middle=middle), tolerance=TOLERANCE) for name, middle in MIDDLES.items()
        ),
    )


def compass_returns(contexts: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """R of contexts [N, 2], actions [N, 1]: [N]."""
    distance = np.min([np.abs(actions - _wave(contexts, middle)) for middle in MIDDLES.values()], axis=0)[:, 0]
    return np.exp(-0.5 * (distance / WIDTH) ** 2)


def _wave(contexts: np.ndarray, middle: float) -> np.ndarray:
    return middle + SWING * np.sin(WAVES * np.arctan2(contexts[:, 1:], contexts[:, :1]))


def _points(radius: np.ndarray, direction: np.ndarray) -> np.ndarray:
    return np.stack([radius * np.cos(direction), radius * np.sin(direction)], axis=1)


def _even_points() -> np.ndarray:
    """Points at even distances and directions, each of which stands for as much of the ring."""
    share = (np.arange(RADII) + 0.5) / RADII
    radius = np.sqrt(NEAREST**2 + share * (1.0 - NEAREST**2))
    direction = -np.pi + 2.0 * np.pi * (np.arange(DIRECTIONS) + 0.5) / DIRECTIONS
    return _points(np.repeat(radius, DIRECTIONS), np.tile(direction, RADII))
