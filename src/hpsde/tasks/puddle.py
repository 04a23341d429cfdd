"""The puddle task: a route from (0, 0) to the goal (6, s), through one of four gaps in a wall of puddles.

The goal's height s ~ U(-5, 6) is the context; the ten parameters a are those of a movement primitive in y, in
units of 1e4. x always moves alike. The return is R = -length - 50 c, with c the points of the route that lie
in a puddle.

What a reader could take in more ways than one, and what holds here (the choice of the published program):
- The position at step i is that after i Euler steps. The start itself is no point of a route, and step 301 is
  the first that can end one.
- The initial velocity is the template's first difference divided by dt = 1/299, although the template has 200
  points and not 300.
- x and y end, and are resampled, each by itself: the k-th points of both make the k-th point of the route.
- k n / 99 is never half-way between two integers, since 99 is odd: any rule of rounding does.
- A point on the edge of a puddle is not in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hpsde.base.checks import check_rows
from hpsde.base.distributions import Uniform
from hpsde.base.later import Later
from hpsde.base.shapes import Array, Float, Int
from hpsde.tasks.dmp import SteppedDMP
from hpsde.tasks.solutions import Solution

linalg = Later("scipy.linalg")
special = Later("scipy.special")


__all__ = ["GAPS", "PUDDLES", "WALL", "Puddle", "Wall"]

WALL = (1.9, 4.1)
"""The x in which puddles lie."""

PUDDLES = ((-30.2, -3.8), (-2.4, -0.8), (0.8, 2.2), (3.8, 5.4), (6.8, 33.8))
"""The puddles' y, from below."""

GAPS = {
    "lowest gap": (-3.8, -2.4),
    "lower gap": (-0.8, 0.8),
    "upper gap": (2.2, 3.8),
    "highest gap": (5.4, 6.8),
}
"""The y between the puddles, from below."""


class Wall(NamedTuple):
    """A wall of puddles.

    x: where it begins and ends. puddles: their y, from below. gaps: the y between them by name, from below.
    """

    x: tuple[float, float]
    puddles: tuple[tuple[float, float], ...]
    gaps: dict[str, tuple[float, float]]


CONTEXTS = Uniform(-5.0, 6.0)
POINTS = 100
"""Of a route: what its length and its collisions are taken over."""
PARAMETER_UNIT = 1e4
COLLISION_COST = 50.0
CHUNK = 128
"""Rollouts that are computed together: few enough for a processor's cache, and for one thread of BLAS."""

MOVING, RESTING = 160, 40
"""Points of a demonstration: on its way, then at its goal."""
SWING = 6.0
"""The initial policy's demonstrations swing out sideways by U(-SWING, SWING), with noise NOISE U(0, 1)."""
NOISE = 0.3

GAP_SHARE = 0.1
"""An option follows a gap when its mean route takes it in this share of all contexts, 1.1 of the goal's 11.

The best gap is the lowest for 15 % of the contexts, the lower for 55 %, the upper for 30 %. The highest is
never the best (benchmarks/puddle_rollouts.py --optimum), but a policy may have it as a solution.
"""
MARGIN = 0.4
"""How far from the puddles the known solutions pass."""


class Puddle:
    """The task; see the top of the file. Beyond what every task has: `routes`, `collisions` and `gaps`.

    A subclass may have another `wall`, and say so in `name` and `description`.

    The best return is between -8.49 and -6.29, by context, and -7.15 on average over the evaluation contexts
    (`python benchmarks/puddle_rollouts.py --optimum`).
    """

    name: str = "puddle"
    wall: Wall = Wall(WALL, PUDDLES, GAPS)
    numpy_keys: ClassVar[bool] = True
    context_size: ClassVar[int] = 1
    parameter_size: ClassVar[int] = 10
    description: str = "a route past puddles, by a movement primitive; four gaps lead through"
    features: ClassVar[str] = "squared-exponential"
    max_options: ClassVar[int] = 20
    initial_rollouts: ClassVar[int] = 600
    rollouts: ClassVar[int] = 1500
    has_initial_density: ClassVar[bool] = False
    figure: ClassVar[str] = "puddle"
    primitive: ClassVar[SteppedDMP] = SteppedDMP()

    @property
    def parameter_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """For pictures: wide enough for the initial policy and for good routes through every gap in every context.

        The weights of a movement primitive have no limits of their own, so that the task is not `bounded`.
        """
        return np.full(10, -12.0), np.full(10, 12.0)

    @property
    def solutions(self) -> tuple[Solution, ...]:
        """The gaps. An option follows one when its mean routes take it in a tenth of all contexts."""
        return tuple(self._solution(number, name) for number, name in enumerate(self.wall.gaps))

    def sample_contexts(self, key: Array, n: int) -> Float[np.ndarray, "n 1"]:
        """`n` goals s ~ U(-5, 6)."""
        return CONTEXTS.sample(key, n)

    def sample_initial(self, key: Array, contexts: Any) -> Float[np.ndarray, "N 10"]:
        """Parameters fitted to demonstrations y = u sin(t) + line(0 to s) + 0.3 v_t, then s.

        t runs over [0, pi] in 160 points, u ~ U(-6, 6), v_t ~ U(0, 1), and y_0 = 0; s follows for 40 points.
        """
        s = check_rows("contexts", contexts, 1)
        low, high = np.zeros(1 + MOVING), np.ones(1 + MOVING)
        low[0], high[0] = -SWING, SWING
        draws = Uniform(low, high).sample(key, len(s))
        moving = draws[:, :1] * np.sin(_angles()) + s * np.linspace(0.0, 1.0, MOVING) + NOISE * draws[:, 1:]
        moving[:, 0] = 0.0
        demonstrations = np.concatenate([moving, np.repeat(s, RESTING, axis=1)], axis=1)
        return self.primitive.fit(demonstrations) / PARAMETER_UNIT

    def log_initial(self, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """An estimate of log pi_0(a | s), which has no closed form.

        a is linear in the demonstration: a = m + s b + u c + noise. The noise sums 159 independent terms and is
        taken to be Gaussian with its true covariance (it nearly is but in one direction of the ten, which v_1
        rules). u is integrated out: pi_0(a | s) = int N(a; m + s b + u c, Sigma) du / 12 over [-6, 6].
        """
        s, a = self._checked(contexts, parameters)
        mean, of_goal, of_swing, covariance = self._initial_moments
        root = np.linalg.cholesky(covariance)
        residual = linalg.solve_triangular(root, (a - mean - s * of_goal).T, lower=True)
        direction = linalg.solve_triangular(root, of_swing, lower=True)
        size = np.linalg.norm(direction)
        swing = direction @ residual / size**2
        across = np.sum((residual - direction[:, None] * swing) ** 2, axis=0)
        volume = np.sum(np.log(np.diag(root))) + np.log(size) + 0.5 * (len(root) - 1) * np.log(2.0 * np.pi)
        within = _log_normal_between(size * (-SWING - swing), size * (SWING - swing))
        return within - 0.5 * across - volume - np.log(2.0 * SWING)

    def evaluate(self, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """R = -length - 50 c."""
        return self._of_heights(
            lambda y: -self._lengths(y) - COLLISION_COST * self._collisions(y), contexts, parameters
        )

    def evaluation_contexts(self) -> Float[np.ndarray, "221 1"]:
        """An even grid on [-5, 6]."""
        return np.linspace(-5.0, 6.0, 221)[:, None]

    def measures(self, contexts: Any, parameters: Any) -> dict[str, np.ndarray]:
        """collision_free (1 or 0) and the length of each route, [N]."""
        return {
            "collision_free": (self.collisions(contexts, parameters) == 0).astype(float),
            "length": self._of_heights(self._lengths, contexts, parameters),
        }

    def routes(self, contexts: Any, parameters: Any) -> Float[np.ndarray, "N 100 2"]:
        """The 100 points (x, y) of each route."""
        y = self._of_heights(lambda y: y, contexts, parameters)
        return np.stack([np.broadcast_to(self._x, y.shape), y], axis=-1)

    def collisions(self, contexts: Any, parameters: Any) -> Int[np.ndarray, " N"]:
        """c, how many of a route's points lie in a puddle."""
        return self._of_heights(self._collisions, contexts, parameters)

    def gaps(self, contexts: Any, parameters: Any) -> Int[np.ndarray, " N"]:
        """Which of the wall's gaps a route takes with all its points in the wall, from 0; -1 for none."""
        return self._of_heights(self._gaps, contexts, parameters)

    def _of_heights(self, function: Callable[[np.ndarray], np.ndarray], contexts: Any, parameters: Any) -> np.ndarray:
        """`function` of the y of all routes' points, [n, 100], a chunk at a time."""
        s, a = self._checked(contexts, parameters)
        starts = range(0, max(len(s), 1), CHUNK)
        return np.concatenate([function(self._heights(s[i : i + CHUNK], a[i : i + CHUNK])) for i in starts])

    def _heights(self, s: np.ndarray, a: np.ndarray) -> np.ndarray:
        y, lengths = self.primitive.rollout(PARAMETER_UNIT * a, s, velocity=_y_velocity())
        return np.take_along_axis(y, self._indices[lengths - self.primitive.steps - 1], axis=1)

    def _lengths(self, y: np.ndarray) -> np.ndarray:
        return np.sum(np.sqrt(np.diff(self._x) ** 2 + np.diff(y, axis=1) ** 2), axis=1)

    def _collisions(self, y: np.ndarray) -> np.ndarray:
        inside = y[:, self._in_wall]
        return np.sum([np.sum((low < inside) & (inside < high), axis=1) for low, high in self.wall.puddles], axis=0)

    def _gaps(self, y: np.ndarray) -> np.ndarray:
        lowest, highest = y[:, self._in_wall].min(axis=1), y[:, self._in_wall].max(axis=1)
        taken = np.array([(low <= lowest) & (highest <= high) for low, high in self.wall.gaps.values()])
        return np.where(taken.any(axis=0), taken.argmax(axis=0), -1)

    @cached_property
    def _x(self) -> np.ndarray:
        """The x of every route's points, [100]: the movement primitive fitted to a template."""
        template = np.append(3.0 - 3.0 * np.cos(_angles()), np.full(RESTING, 6.0))
        velocity = (template[1] - template[0]) / self.primitive.step_length
        x, length = self.primitive.rollout(self.primitive.fit(template[None]), [6.0], velocity=velocity)
        return x[0, _resampling(length)[0]]

    @cached_property
    def _in_wall(self) -> np.ndarray:
        """Which points lie in the wall's x."""
        start, end = self.wall.x
        return np.flatnonzero((start < self._x) & (self._x < end))

    @cached_property
    def _indices(self) -> np.ndarray:
        """Where the 100 points lie in a trajectory of each length from 301 to 750: [450, 100]."""
        return _resampling(np.arange(self.primitive.steps + 1, self.primitive.most_steps + 1))

    @cached_property
    def _initial_moments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """m, b, c [10] and Sigma [10, 10] of `log_initial`."""
        unit = self.primitive.fit(np.eye(MOVING + RESTING)) / PARAMETER_UNIT
        noisy = NOISE * unit[1:MOVING]
        goal = np.append(np.linspace(0.0, 1.0, MOVING), np.ones(RESTING))
        return 0.5 * noisy.sum(axis=0), goal @ unit, np.sin(_angles()) @ unit[:MOVING], noisy.T @ noisy / 12.0

    def _solution(self, number: int, name: str) -> Solution:
        def follows(contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
            return self.gaps(contexts, parameters) == number

        return Solution(name, follows, parameters=lambda s: self._through(name, s), share=GAP_SHARE)

    def _through(self, gap: str, s: np.ndarray) -> np.ndarray:
        """Good parameters through a gap: least squares to a bent line past the nearer of its corners, at MARGIN."""
        low, high = self.wall.gaps[gap]
        return self.through(np.full_like(s, low), np.full_like(s, high), s)

    def through(self, low: np.ndarray, high: np.ndarray, s: np.ndarray) -> Float[np.ndarray, "N 10"]:
        """The same through gaps from low [N, 1] to high [N, 1], to goals s [N, 1]."""
        entry, leave = (np.clip(y, low + MARGIN, high - MARGIN) for y in (np.zeros_like(s), s))
        corners = (0.0, *self.wall.x, 6.0)
        wanted = np.array([np.interp(self._x, corners, (0.0, *heights)) for heights in np.hstack([entry, leave, s])])
        unbent, responses = self._linear_heights(s)
        importance = np.ones((POINTS, 1))
        importance[self._in_wall] = importance[-1] = 10.0
        return np.linalg.lstsq(importance * responses, importance * (wanted - unbent).T, rcond=None)[0].T

    def _linear_heights(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Unbent [N, 100] and responses [100, 10]: y = unbent + responses a in a route that ends at step 301."""
        at = self._indices[0]
        unbent, _ = self.primitive.rollout(np.zeros((len(s), 10)), s, velocity=_y_velocity())
        responses, _ = self.primitive.rollout(PARAMETER_UNIT * np.eye(10), np.zeros(10))
        return unbent[:, at], responses[:, at].T

    def _checked(self, contexts: Any, parameters: Any) -> tuple[np.ndarray, np.ndarray]:
        s = check_rows("contexts", contexts, 1)
        return s, check_rows("parameters", parameters, 10, rows=len(s))


def _angles() -> np.ndarray:
    return np.linspace(0.0, np.pi, MOVING)


def _y_velocity() -> float:
    """The velocity with which every route starts: the first difference of the template 8 sin(t)."""
    return float(8.0 * np.sin(_angles()[1]) / Puddle.primitive.step_length)


def _resampling(lengths: np.ndarray) -> np.ndarray:
    """Where the 100 points lie in trajectories of given lengths n: round(k n / 99), from 1, the first at 1."""
    wanted = np.floor(np.arange(POINTS) * lengths[:, None] / (POINTS - 1) + 0.5).astype(int)
    return np.maximum(wanted, 1) - 1


def _log_normal_between(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """log(Phi(high) - Phi(low)), also far out in either tail."""
    low, high = np.where(low > 0.0, -high, low), np.where(low > 0.0, -low, high)
    upper, lower = special.log_ndtr(high), special.log_ndtr(low)
    return upper + np.log1p(-np.exp(lower - upper))
