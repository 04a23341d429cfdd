"""A drone flies round three buildings to a goal that moves: ten to sixty parameters, eight routes.

The drone starts at the origin and flies 10 m ahead in 10 s. Its route is y(x) = (straight line to where the goal will
be) + sum_k a_k B_k(x), with cubic B-splines B_k at even knots that are 0 at both ends. The parameters are a. The
context is (s, v): the goal is at (10, s) when the drone starts, and moves aside at v m/s: it is met at (10, s + 10 v).

Buildings are rectangles. The drone should keep MARGIN away from their sides. With the depth p(x) by which it is closer,
    R = -(length of the route - 10) - WEIGHT integral p(x)^2 dx.
A route is named by the side of each building on which it passes: "LRL" on the left, the right, the left. All eight are
solutions: an option follows one where it is on the right sides and touches no building.
"""

from __future__ import annotations

from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np

from hpsde.base.checks import check_count, check_rows
from hpsde.base.distributions import Gaussian, Uniform
from hpsde.base.later import Later
from hpsde.base.shapes import Array, Float
from hpsde.errors import InputError
from hpsde.tasks.gauntlet.movement import MovementTask
from hpsde.tasks.solutions import Solution

interpolate = Later("scipy.interpolate")
optimize = Later("scipy.optimize")


__all__ = ["Drone"]

AHEAD, SECONDS = 10.0, 10.0
BUILDINGS = np.array([[2.0, 2.8, -0.6, 0.4], [4.6, 5.4, -0.4, 0.6], [7.2, 8.0, -0.6, 0.4]])
"""Of each: where it begins and ends in x, and in y."""
MARGIN, WEIGHT = 0.2, 20.0
PLACES, SPEEDS = (-0.8, 0.8), (-0.06, 0.06)
SAMPLES = 101
SPREAD, SMOOTH = 1.2, 1.2
"""Standard deviation of the first routes, in m, and the length in x over which they bend."""
REACH = 4.0
"""To either side, in m: of pictures."""
GOALS = np.linspace(-1.5, 1.5, 7)
"""For which shortest routes are computed; those to goals between are between."""
EVALUATION, EVALUATION_KEY = 201, 314_159_265
FEWEST, MOST = 10, 60

_X = np.linspace(0.0, AHEAD, SAMPLES)
_STEP = _X[1] - _X[0]
_OVER = (BUILDINGS[:, :1] <= _X) & (BUILDINGS[:, 1:2] >= _X)
"""Which points of a route are beside each building, [3, SAMPLES]."""


class Drone(MovementTask):
    """The task; see the top of the file. `size`: the number of parameters, 10 to 60."""

    numpy_keys = True
    context_size = 2
    description = "a flight round three buildings to a goal that moves; eight routes by the sides of the buildings"
    max_options = 10
    initial_rollouts, rollouts = 600, 1500

    def __init__(self, size: int = FEWEST) -> None:
        if check_count("size", size, FEWEST) > MOST:
            raise InputError(f"size: expected {FEWEST} to {MOST}, got {size}")
        self.parameter_size = size
        self.name = "drone" if size == FEWEST else f"drone-{size}"
        self._contexts = Uniform([PLACES[0], SPEEDS[0]], [PLACES[1], SPEEDS[1]])
        self._knots = knots = np.concatenate([np.zeros(3), np.linspace(0.0, AHEAD, size), np.full(3, AHEAD)])
        centres = np.array([knots[k + 1 : k + 4].mean() for k in range(1, size + 1)])
        apart = centres[:, None] - centres
        covariance = SPREAD**2 * np.exp(-0.5 * (apart / SMOOTH) ** 2) + 1e-4 * SPREAD**2 * np.eye(size)
        self._initial = Gaussian(np.zeros(size), covariance)

    @cached_property
    def _splines(self) -> np.ndarray:
        return np.asarray(interpolate.BSpline.design_matrix(_X, self._knots, 3).toarray()[:, 1:-1])

    @property
    def parameter_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """For pictures; routes may lead anywhere."""
        return np.full(self.parameter_size, -REACH), np.full(self.parameter_size, REACH)

    @cached_property
    def solutions(self) -> tuple[Solution, ...]:
        """The eight routes by name."""
        return tuple(self._solution("".join(sides)) for sides in product("LR", repeat=len(BUILDINGS)))

    def sample_contexts(self, key: Array, n: int) -> Float[np.ndarray, "n 2"]:
        """Places and speeds, uniform."""
        return self._contexts.sample(key, n)

    def sample_initial(self, key: Array, contexts: Any) -> Float[np.ndarray, "N D"]:
        """Smooth random routes round the straight one."""
        return self._initial.sample(key, len(check_rows("contexts", contexts, 2)))

    def log_initial(self, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """Log density of these."""
        return np.asarray(self._initial.log_prob(self._checked(contexts, parameters)[1]))

    def evaluate(self, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """R = -(length - 10) - WEIGHT integral of the squared depth."""
        y = self.heights(contexts, parameters)
        return -(_length(y) - AHEAD) - WEIGHT * _STEP * np.sum(_depths(y, MARGIN) ** 2, axis=(1, 2))

    def evaluation_contexts(self) -> Float[np.ndarray, "C 2"]:
        """201 draws, always the same."""
        rng = np.random.default_rng(EVALUATION_KEY)
        return rng.uniform(*self._contexts.bounds, (EVALUATION, 2))

    def best_returns(self, contexts: Any) -> Float[np.ndarray, " N"]:
        """The best return of the shortest routes on all sides."""
        rows = np.asarray(contexts, dtype=float)
        return np.max([self.evaluate(rows, self._shortest(each.name, rows)) for each in self.solutions], axis=0)

    def goals(self, contexts: Any) -> Float[np.ndarray, " N"]:
        """y of the goal when the drone is there."""
        rows = check_rows("contexts", contexts, 2)
        return rows[:, 0] + SECONDS * rows[:, 1]

    def heights(self, contexts: Any, parameters: Any) -> Float[np.ndarray, "N 101"]:
        """y of the routes at even steps of x."""
        s, xi = self._checked(contexts, parameters)
        # Summed row by row: a product of matrices has other last digits in another batch.
        bends = np.einsum("nd,pd->np", xi, self._splines)
        return np.multiply.outer(self.goals(s), _X / AHEAD) + bends

    def names(self, contexts: Any, parameters: Any) -> np.ndarray:
        """Each route by the sides on which it passes the middles of the buildings, [N]."""
        y = self.heights(contexts, parameters)
        middles = [np.interp(BUILDINGS[:, :2].mean(axis=1), _X, each) for each in y]
        left = np.array(middles).reshape(-1, len(BUILDINGS)) > BUILDINGS[:, 2:].mean(axis=1)
        return np.array(["".join(row) for row in np.where(left, "L", "R")], dtype="U3")

    def measures(self, contexts: Any, parameters: Any) -> dict[str, np.ndarray]:
        """`success`, 1 where no building is touched, and the `length` of the route."""
        y = self.heights(contexts, parameters)
        return {"success": _is_free(y).astype(float), "length": _length(y)}

    def draw(self, contexts: Any, parameters: Any) -> dict[str, Any]:
        """The route, the buildings, and the goal when it is met; its place at the start can be dragged."""
        y = self.heights(contexts, parameters)[:, ::2]
        lines = np.stack([np.tile(_X[::2], (len(y), 1)), y], axis=-1)
        rows = np.asarray(contexts, dtype=float)
        boxes = tuple(np.array([[a, c], [b, c], [b, d], [a, d], [a, c]]) for a, b, c, d in BUILDINGS)
        goal = np.column_stack([np.full(len(rows), AHEAD), self.goals(rows)])
        start = np.column_stack([np.full(len(rows), AHEAD), rows[:, 0]])
        return {"lines": lines, "points": start[:, None], "goal": goal, "scene": boxes, "drag": (-1, 0)}

    def _checked(self, contexts: Any, parameters: Any) -> tuple[np.ndarray, np.ndarray]:
        s = check_rows("contexts", contexts, 2)
        return s, check_rows("parameters", parameters, self.parameter_size, rows=len(s))

    def _solution(self, name: str) -> Solution:
        def follows(contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
            return _is_free(self.heights(contexts, parameters)) & (self.names(contexts, parameters) == name)

        return Solution(name, follows, parameters=partial(self._shortest, name))

    @cached_property
    def _known(self) -> dict[str, np.ndarray]:
        """Of each route that was asked for, its best parameters for `GOALS`, [7, D]."""
        return {}

    def _shortest(self, name: str, contexts: np.ndarray) -> Float[np.ndarray, "N D"]:
        """The best parameters for goals, between those for `GOALS`: routes are linear in them, so that what is between
        two routes that touch no building touches none.
        """
        if name not in self._known:
            self._known[name] = np.array([self._optimal(name, goal) for goal in GOALS])
        goals = self.goals(contexts)
        return np.stack([np.interp(goals, GOALS, numbers) for numbers in self._known[name].T], axis=1)

    def _optimal(self, name: str, goal: float) -> np.ndarray:
        """Of all routes on those sides, the best: with the sides given, the cost is convex in the parameters."""
        up = np.array([1.0 if side == "L" else -1.0 for side in name])
        edges = np.where(up > 0.0, BUILDINGS[:, 3] + MARGIN, -(BUILDINGS[:, 2] - MARGIN))
        line = goal * _X / AHEAD

        def cost(a: np.ndarray) -> tuple[float, np.ndarray]:
            y = line + self._splines @ a
            rise = np.diff(y)
            pieces = np.hypot(_STEP, rise)
            depths = np.where(_OVER, np.maximum(edges[:, None] - up[:, None] * y, 0.0), 0.0)
            slope = np.diff(rise / pieces, prepend=0.0, append=0.0)
            push = 2.0 * WEIGHT * _STEP * np.sum(up[:, None] * depths, axis=0)
            return float(pieces.sum() + WEIGHT * _STEP * np.sum(depths**2)), -self._splines.T @ (slope + push)

        start = np.zeros(self.parameter_size)
        found = optimize.minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000})
        return found.x


def _length(y: np.ndarray) -> np.ndarray:
    return np.sum(np.hypot(_STEP, np.diff(y, axis=1)), axis=1)


def _depths(y: np.ndarray, margin: float) -> np.ndarray:
    """How deep routes [N, P] are inside each building with a margin round it, to the nearer side: [N, 3, P]."""
    low, high = BUILDINGS[:, 2:3] - margin, BUILDINGS[:, 3:4] + margin
    inside = np.minimum(y[:, None] - low, high - y[:, None])
    return np.where(_OVER, np.maximum(inside, 0.0), 0.0)


def _is_free(y: np.ndarray) -> np.ndarray:
    """Whether routes touch no building."""
    return np.all(_depths(y, 0.0) == 0.0, axis=(1, 2))
