"""The rover: a path of 30 steps from a corner of the unit square to the other, past 34 obstacles; sixty parameters.

The problem is from Wang et al. (2018), "Batched Large-scale Bayesian Optimization in High-dimensional Spaces", in the
form of Maus et al. (2022), "Discovering Many Diverse Solutions with Bayesian Optimization" (ROBOT): there the
obstacles stand in rows, so that many quite different paths are nearly as good as the best. All numbers are those of
ROBOT's published program.

- The parameters are 30 steps (dx, dy). The rover starts at (0.05, 0.05); the spline of splines.py leads through the 31
  points, and 1,000 points of it are the route.
- Obstacles are squares of side 0.1 round the points (0.2 i, 0.2 j), i and j from 0 to 5, but for the corners (0, 0) and
  (1, 1). A square has its lower and left edge, not its upper and right ones; so has the unit square.
- A route costs 0.05 for its length, 20 more for its length in obstacles or outside the unit square (by the trapezoidal
  rule), and 100 for the distance |dx| + |dy| of its end from the goal. R = 5 - cost.
- The first steps are uniform on [-1/30, 1/15]: on average they lead half-way to the goal.

`rover-goal` is ours: the goal is (0.9, s), and the context s is uniform on [0.5, 0.9].
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from hpsde.base.checks import check_rows
from hpsde.base.distributions import Uniform
from hpsde.base.shapes import Array, Float
from hpsde.tasks.solutions import Solution
from hpsde.tasks.splines import curves_through
from hpsde.tasks.streets import street_names

__all__ = ["COLUMNS", "DIVERSE", "OBSTACLES", "START", "Rover", "RoverGoal"]

START, GOAL = np.array([0.05, 0.05]), np.array([0.95, 0.95])
STEPS, SAMPLES = 30, 1000
STEP_BOUNDS = -1.0 / 30.0, 1.0 / 15.0
SIDE, GRID = 0.1, np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
OBSTACLES = np.array(list(itertools.product(GRID, GRID)))[1:-1]
"""The middles of the obstacles, [34, 2]."""
COLUMNS = GRID[1:-1]
"""The x, and the y, of those that stand free: between them lead five streets either way."""
BEST, LENGTH_COST, OBSTACLE_COST, MISS_COST = 5.0, 0.05, 20.0, 100.0
DIVERSE = 0.15
"""Two routes are different for ROBOT when their `one_way_distance` is at least this."""
SOLVED = 4.0
"""A route that earns so much follows a solution; the best earns 4.935."""
CHUNK = 64
"""Rollouts that are computed together: few enough for a processor's cache."""

_EDGES = np.unique(np.concatenate([GRID - SIDE / 2, GRID + SIDE / 2, [0.0, 1.0]]))


class Rover:
    """The task; see the top of the file. Beyond what every task has: `routes`, `blocked` and `names`.

    A solution is a route up or to the right through the streets between the 16 obstacles that stand free, of which
    there are 70, of lengths that differ by little.
    """

    name: str = "rover"
    context_size: int = 0
    parameter_size: ClassVar[int] = 2 * STEPS
    numpy_keys: ClassVar[bool] = True
    description: str = "a path of 30 steps past obstacles that stand in rows; 70 ways lead through"
    max_options: ClassVar[int] = 10
    density: ClassVar[str | None] = "regions"
    initial_rollouts: ClassVar[int] = 150
    rollouts: ClassVar[int] = 3000
    bounded: ClassVar[bool] = True
    figure: ClassVar[str] = "rover"

    @property
    def parameter_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Of every step; those of the published problem, which no step leaves."""
        return np.full(self.parameter_size, STEP_BOUNDS[0]), np.full(self.parameter_size, STEP_BOUNDS[1])

    @property
    def solutions(self) -> tuple[Solution, ...]:
        """The ways that never lead down or to the left, by name; an option follows one if it earns 4 on it."""
        return tuple(self._solution(way) for way in itertools.combinations_with_replacement(range(5), 4))

    def sample_contexts(self, key: Array, n: int) -> Float[np.ndarray, "n S"]:
        """There is one context, without a number."""
        return np.zeros((n, 0))

    def sample_initial(self, key: Array, contexts: Any) -> Float[np.ndarray, "N 60"]:
        """Steps uniform on [-1/30, 1/15]."""
        return Uniform(*self.parameter_bounds).sample(key, len(check_rows("contexts", contexts, self.context_size)))

    def log_initial(self, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """60 log 10 within the bounds."""
        return np.asarray(Uniform(*self.parameter_bounds).log_prob(self._checked(contexts, parameters)[1]))

    def evaluate(self, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """R = 5 - 0.05 length - 20 blocked length - 100 miss."""
        return self._of_routes(lambda goals, routes: BEST - _costs(goals, routes), contexts, parameters)

    def evaluation_contexts(self) -> Float[np.ndarray, "C S"]:
        """The one context."""
        return np.zeros((1, 0))

    def measures(self, contexts: Any, parameters: Any) -> dict[str, np.ndarray]:
        """collision_free (1 or 0) of each route, and its miss, |dx| + |dy| from the goal, [N]."""
        goals, routes = self.goals(contexts), self.routes(contexts, parameters)
        return {
            "collision_free": (self.blocked(contexts, parameters) == 0.0).astype(float),
            "miss": np.sum(np.abs(routes[:, -1] - goals), axis=1),
        }

    def goals(self, contexts: Any) -> Float[np.ndarray, "N 2"]:
        """Where routes should end."""
        return np.tile(GOAL, (len(check_rows("contexts", contexts, self.context_size)), 1))

    def routes(self, contexts: Any, parameters: Any) -> Float[np.ndarray, "N 1000 2"]:
        """The 1,000 points of each route."""
        return self._of_routes(lambda goals, routes: routes, contexts, parameters)

    def blocked(self, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """The length of each route in obstacles or outside the unit square."""
        return self._of_routes(lambda goals, routes: _integral(routes, is_blocked(routes)), contexts, parameters)

    def names(self, contexts: Any, parameters: Any) -> list[str]:
        """Which streets each route takes (streets.py)."""
        return street_names(self.routes(contexts, parameters), COLUMNS)

    def _of_routes(
        self, function: Callable[[np.ndarray, np.ndarray], np.ndarray], contexts: Any, parameters: Any
    ) -> np.ndarray:
        """`function` of goals [n, 2] and routes [n, 1000, 2], a chunk at a time."""
        s, xi = self._checked(contexts, parameters)
        goals = self.goals(s)
        steps = np.concatenate([np.tile(START, (len(xi), 1, 1)), xi.reshape(-1, STEPS, 2)], axis=1)
        points, starts = np.cumsum(steps, axis=1), range(0, max(len(xi), 1), CHUNK)
        return np.concatenate(
            [function(goals[i : i + CHUNK], curves_through(points[i : i + CHUNK], SAMPLES)) for i in starts]
        )

    def _solution(self, way: tuple[int, ...]) -> Solution:
        name = "".join(map(str, way))

        def follows(contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
            named = np.array(self.names(contexts, parameters)) == name
            return named & (self.evaluate(contexts, parameters) >= SOLVED)

        return Solution(name, follows, self._valid(way), lambda contexts: _along(way, self.goals(contexts)))

    def _valid(self, way: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray] | None:
        """Where the way leads to the goal; None: everywhere."""
        return None

    def _checked(self, contexts: Any, parameters: Any) -> tuple[np.ndarray, np.ndarray]:
        s = check_rows("contexts", contexts, self.context_size)
        return s, check_rows("parameters", parameters, self.parameter_size, rows=len(s))


class RoverGoal(Rover):
    """The rover with a goal (0.9, s) in the last street upwards, s ~ U(0.5, 0.9)."""

    name: str = "rover-goal"
    context_size: int = 1
    density: ClassVar[str | None] = None
    initial_rollouts: ClassVar[int] = 600
    description: str = "the rover with a goal that moves up and down; 35 ways lead there, 15 of them always"
    contexts: ClassVar[Uniform] = Uniform(0.5, 0.9)

    @property
    def solutions(self) -> tuple[Solution, ...]:
        """The ways to goals below 0.9, which never lead down or to the left."""
        return tuple(self._solution(way) for way in itertools.combinations_with_replacement(range(4), 4))

    def sample_contexts(self, key: Array, n: int) -> Float[np.ndarray, "n S"]:
        """`n` goals s ~ U(0.5, 0.9)."""
        return self.contexts.sample(key, n)

    def evaluation_contexts(self) -> Float[np.ndarray, "C S"]:
        """An even grid of 41 on [0.5, 0.9]."""
        return np.linspace(0.5, 0.9, 41)[:, None]

    def goals(self, contexts: Any) -> Float[np.ndarray, "N 2"]:
        """(0.9, s)."""
        s = check_rows("contexts", contexts, self.context_size)
        return np.concatenate([np.full_like(s, 0.9), s], axis=1)

    def _valid(self, way: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray] | None:
        return lambda contexts: contexts[:, 0] >= _middle(way[-1]) - 1e-9


def is_blocked(routes: Float[np.ndarray, "*points 2"]) -> Float[np.ndarray, "*points"]:
    """1 for points in an obstacle or outside the unit square, 0 for others."""
    column, row = (np.searchsorted(_EDGES, routes[..., axis], side="right") for axis in (0, 1))
    return _BLOCKED[column, row]


def _blocked_cells() -> np.ndarray:
    """Which of the cells between the edges, and beyond them, are blocked: [E + 1, E + 1], 1 or 0."""
    inner = 0.5 * (_EDGES[:-1] + _EDGES[1:])
    middles = np.concatenate([[_EDGES[0] - 1.0], inner, [_EDGES[-1] + 1.0]])
    cells = np.stack(np.meshgrid(middles, middles, indexing="ij"), axis=-1)
    in_obstacle = np.any(np.all(np.abs(cells[:, :, None] - OBSTACLES) < SIDE / 2, axis=-1), axis=-1)
    return (in_obstacle | np.any((cells < 0.0) | (cells > 1.0), axis=-1)).astype(float)


_BLOCKED = _blocked_cells()


def _costs(goals: np.ndarray, routes: np.ndarray) -> np.ndarray:
    misses = np.sum(np.abs(routes[:, -1] - goals), axis=1)
    return _integral(routes, LENGTH_COST + OBSTACLE_COST * is_blocked(routes)) + MISS_COST * misses


def _integral(routes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The integral of values [N, P] along routes [N, P, 2] by the trapezoidal rule."""
    lengths = np.linalg.norm(np.diff(routes, axis=1), axis=2)
    return np.sum(lengths * 0.5 * (values[:, 1:] + values[:, :-1]), axis=1)


def _middle(street: int) -> float:
    """Of a street, across it."""
    return 0.1 + 0.2 * street


def _along(way: tuple[int, ...], goals: np.ndarray) -> np.ndarray:
    """Thirty equal steps along the middles of the streets of a way to goals [N, 2]."""
    lanes = enumerate(itertools.pairwise((0, *way, way[-1])))
    corners = [(_middle(lane), _middle(street)) for lane, streets in lanes for street in streets]
    return np.array([_even_steps(np.array([START, *corners, goal])) for goal in goals]).reshape(len(goals), -1)


def _even_steps(corners: np.ndarray) -> np.ndarray:
    at = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1)))
    wanted = np.linspace(0.0, at[-1], STEPS + 1)
    return np.diff(np.stack([np.interp(wanted, at, numbers) for numbers in corners.T], axis=1), axis=0).ravel()
