"""The reach task: a redundant arm brings its flange to a goal behind a pole, round either side.

A context is the goal point [x, y, z], the parameters are the joint angles q at the end of the movement:

    R(q) = -d(q) - C(q) - P(q)

d is the distance from flange to goal in metres, C the obstacle cost of the body spheres (`collision_cost`). P is an
addition of hpsde: the sum, over the joints, of the radians beyond the limits. It is 0 within the limits, where R is
exactly -d - C. A penalty, and not angles cut off at the limits, because cut angles would make a plain on which every
angle beyond a limit is as good as the limit itself, and densities of such parameters would mean nothing.

Any arm, pole and goal region will do: `reach_task(arm_from_dh(rows, limits, bend=(1, 3, 5)), Pole(0.4, 0.0, 0.05))`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hpsde.base.arrays import namespace
from hpsde.base.checks import check_rows
from hpsde.base.distributions import Uniform
from hpsde.base.draws import uniform_rows
from hpsde.base.later import Later
from hpsde.base.shapes import Array, Float
from hpsde.errors import InputError
from hpsde.tasks.kinematics import (
    KUKA_LWR,
    Arm,
    Pole,
    collision_cost,
    elbow_height,
    flange_jacobian,
    flange_position,
    limit_violation,
    signed_distances,
    winding,
)
from hpsde.tasks.solutions import Solution
from hpsde.tasks.task import FunctionTask

special = Later("scipy.special")


__all__ = [
    "FAMILIES",
    "GOALS",
    "KUKA_POSTURES",
    "POLE",
    "Geometry",
    "ReachTask",
    "Returns",
    "TruncatedGaussian",
    "geometry",
    "nearest_angles",
    "postures",
    "reach_task",
]

POLE = Pole(x=0.35, y=0.0, radius=0.05)
"""The pole of the task."""

GOALS = Uniform([0.55, -0.05, 0.40], [0.65, 0.05, 0.60])
"""The goals of the task: a box behind the pole."""

MARGIN = 0.05
"""Spheres nearer to an obstacle than this, in metres, cost something."""

SUCCESS, STRICT_SUCCESS = 0.02, 0.01
"""How near the flange must come to the goal, in metres."""

INITIAL_DEVIATION = 0.8
GRID = 5

FAMILIES = {
    "left, elbow up": (1.0, 1.0),
    "left, elbow down": (1.0, -1.0),
    "right, elbow up": (-1.0, 1.0),
    "right, elbow down": (-1.0, -1.0),
}
"""The posture families: side of the pole and elbow, as `postures` gives them."""

KUKA_POSTURES = {
    "left, elbow up": (0.750, -0.981, -1.216, 1.308, -0.994, -1.208, 0.013),
    "left, elbow down": (0.632, -1.423, 1.139, -1.122, 0.586, 1.697, 0.301),
    "right, elbow up": (-0.793, -1.103, 1.385, 1.343, 1.023, -1.080, -0.386),
    "right, elbow down": (-0.645, -1.556, -1.034, -1.195, -0.368, 1.373, -0.559),
}
"""One posture of each family that brings the KUKA LWR 4+ to (0.6, 0, 0.5), the centre of the goals."""


@dataclass(frozen=True)
class TruncatedGaussian:
    """Independent N(centre, deviation^2) for each number, cut off at `low` and `high`; the centre is 0 by default.

    log p(x) = sum_j log N(x_j | c_j, d^2) - log(Phi((high_j - c_j) / d) - Phi((low_j - c_j) / d)) inside, with the
    centre c and the deviation d.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    deviation: float
    centre: tuple[float, ...] = ()
    numpy_keys: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (0 < len(self.low) == len(self.high) and np.all(np.less(self.low, self.high)) and self.deviation > 0.0):
            raise InputError(
                "TruncatedGaussian: expected as many low as high, each below its high, and a deviation above 0; "
                f"got low {self.low}, high {self.high}, deviation {self.deviation}"
            )
        if self.centre and len(self.centre) != self.size:
            raise InputError(f"TruncatedGaussian: expected a centre of {self.size} numbers, got {self.centre}")

    @property
    def size(self) -> int:
        return len(self.low)

    @property
    def has_density(self) -> bool:
        return True

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.low), np.array(self.high)

    def sample(self, key: Array, n: int) -> Float[np.ndarray, "n size"]:
        """`n` independent draws, by the inverse of the distribution function."""
        low, high = self.bounds
        share = uniform_rows(key, n, self.size)
        below, mass = self._below_and_mass()
        drawn = special.ndtri(below + share * mass)
        return np.clip(self._centre() + self.deviation * drawn, low, high)

    def log_prob(self, x: Any) -> Float[np.ndarray, " N"]:
        """Log density at each row of `x` [N, size]; minus infinity outside."""
        rows = check_rows("x", x, self.size)
        low, high = self.bounds
        _, mass = self._below_and_mass()
        constant = np.sum(np.log(mass)) + self.size * np.log(self.deviation * np.sqrt(2.0 * np.pi))
        inside = np.all((rows >= low) & (rows <= high), axis=1)
        squares = np.sum(((rows - self._centre()) / self.deviation) ** 2, axis=1)
        return np.where(inside, -0.5 * squares - constant, -np.inf)

    def _below_and_mass(self) -> tuple[np.ndarray, np.ndarray]:
        """The probabilities that a Gaussian which is not cut off lies below `low`, and inside, for each number."""
        low, high = (special.ndtr((bound - self._centre()) / self.deviation) for bound in self.bounds)
        return low, high - low

    def _centre(self) -> np.ndarray:
        return np.array(self.centre) if self.centre else np.zeros(self.size)


def reach_returns(
    arm: Arm, pole: Pole, margin: float, goals: Float[Array, "N 3"], q: Float[Array, "N J"]
) -> Float[Array, " N"]:
    """R = -d - C - P. goals [N, 3], q [N, J] -> [N]."""
    squares = [(at - goal) ** 2 for at, goal in zip(flange_position(arm, q), goals.T, strict=True)]
    distance = namespace(q).sqrt(reduce(add, squares))
    return -distance - collision_cost(signed_distances(arm, pole, q), margin) - limit_violation(arm, q)


@dataclass(frozen=True)
class Returns:
    """The return as a function of goals [N, 3] and angles [N, J], for an arm, a pole and a margin."""

    arm: Arm
    pole: Pole
    margin: float = MARGIN

    def __call__(self, goals: np.ndarray, q: np.ndarray) -> np.ndarray:
        return np.asarray(reach_returns(self.arm, self.pole, self.margin, goals, q))


class Geometry(NamedTuple):
    """Where N configurations bring an arm.

    flange [N, 3]: its position. clearance [N]: the least signed distance of the body spheres from pole and floor.
    violation [N]: radians beyond the limits. winding [N], elbow_height [N]: as in `kinematics.py`.
    """

    flange: np.ndarray
    clearance: np.ndarray
    violation: np.ndarray
    winding: np.ndarray
    elbow_height: np.ndarray


def geometry(arm: Arm, pole: Pole, q: Any) -> Geometry:
    """The geometry of q [N, J]."""
    rows = check_rows("q", q, len(arm.joints))
    columns = (
        flange_position(arm, rows),
        reduce(np.minimum, signed_distances(arm, pole, rows)),
        limit_violation(arm, rows),
        winding(arm, pole, rows),
        elbow_height(arm, rows),
    )
    return Geometry(*(np.moveaxis(np.array(values), -1, 0) for values in columns))


def postures(arm: Arm, pole: Pole, q: Any) -> tuple[np.ndarray, np.ndarray]:
    """The posture family of q [N, J].

    side [N]: 1 where the arm passes the pole on the left (y > 0), -1 on the right. elbow [N]: 1 where it lies above the
    line from shoulder to wrist, -1 below.
    """
    return _families(geometry(arm, pole, q))


def _families(parts: Geometry) -> tuple[np.ndarray, np.ndarray]:
    return np.where(parts.winding < 0.0, 1.0, -1.0), np.where(parts.elbow_height > 0.0, 1.0, -1.0)


def nearest_angles(arm: Arm, start: Any, goals: Any) -> np.ndarray:
    """Angles [N, J] that bring the flange to goals [N, 3], reached from `start` [J] by the shortest steps.

    Eight steps of Gauss-Newton: q <- q + J^T (J J^T)^-1 (goal - flange(q)), J the Jacobian of the flange's position.
    """
    points = check_rows("goals", goals, 3)
    q = np.repeat(check_rows("start", [start], len(arm.joints), rows=1), len(points), axis=0)
    for _ in range(8):
        J = np.asarray(flange_jacobian(arm, q))
        gap = (points - np.stack(flange_position(arm, q), axis=1))[..., None]
        q = q + (np.swapaxes(J, 1, 2) @ np.linalg.solve(J @ np.swapaxes(J, 1, 2), gap))[..., 0]
    return q


@dataclass(frozen=True, eq=False)
class ReachTask(FunctionTask):
    """A reach task; `reach_task` makes it."""

    arm: Arm = KUKA_LWR
    pole: Pole = POLE
    figure: ClassVar[str] = "postures"

    @property
    def bounded(self) -> bool:
        """True: a joint cannot leave its limits."""
        return True

    def measures(self, contexts: Any, parameters: Any) -> Mapping[str, np.ndarray]:
        """What is measured besides the return, each [N].

        distance: from flange to goal, m. clearance: the least signed distance of the body, m, negative in collision.
        success: distance at most 0.02 m, no collision, all joints within their limits; strict_success: 0.01 m.
        side, elbow: the posture family, as in `postures`.
        """
        goals, q = self._checked(contexts, parameters)
        return measures(self.arm, self.pole, goals, q)


def measures(arm: Arm, pole: Pole, goals: np.ndarray, q: np.ndarray) -> dict[str, np.ndarray]:
    """As `ReachTask.measures`. goals [N, 3], q [N, J]."""
    parts = geometry(arm, pole, q)
    distance = np.linalg.norm(parts.flange - goals, axis=1)
    within = parts.violation == 0.0
    allowed = within & (parts.clearance >= 0.0)
    side, elbow = _families(parts)
    return {
        "success": allowed & (distance <= SUCCESS),
        "strict_success": allowed & (distance <= STRICT_SUCCESS),
        "distance": distance,
        "clearance": parts.clearance,
        "within_limits": within,
        "side": side,
        "elbow": elbow,
    }


def reach_task(
    arm: Arm = KUKA_LWR,
    pole: Pole = POLE,
    goals: Uniform = GOALS,
    margin: float = MARGIN,
    *,
    returns: Callable[..., Any] | None = None,
    name: str = "reach",
    description: str = "a redundant arm reaches a goal behind a pole, round either side",
) -> ReachTask:
    """The task for an arm, a pole, a box of goals and a margin; `returns` may compute the return in another way.

    The first angles are N(0, (0.8 rad)^2) within the joint limits, 500 rollouts; a policy is judged on a grid of
    5 x 5 x 5 goals. Features are linear: over a box as small as this one the angles of a posture family change nearly
    in proportion to the goal, and 3 features need far fewer rollouts than a few tens of squared exponentials.
    """
    if goals.size != 3:
        raise InputError(f"goals: expected a box of points [x, y, z], got {goals.size} numbers")
    if not margin > 0.0:
        raise InputError(f"margin: expected a distance above 0, got {margin}")
    low, high = arm.limits
    axes = np.meshgrid(*np.linspace(*goals.bounds, GRID).T, indexing="ij")
    evaluation = np.stack(axes, axis=-1).reshape(-1, 3)
    evaluation.setflags(write=False)
    return ReachTask(
        function=Returns(arm, pole, margin) if returns is None else returns,
        contexts=goals,
        initial=TruncatedGaussian(tuple(low.tolist()), tuple(high.tolist()), INITIAL_DEVIATION),
        name=name,
        batched=True,
        evaluation=evaluation,
        description=description,
        features="linear",
        max_options=10,
        initial_rollouts=500,
        rollouts=4000,
        solutions=tuple(_solution(arm, pole, family) for family in FAMILIES),
        arm=arm,
        pole=pole,
    )


def _solution(arm: Arm, pole: Pole, family: str) -> Solution:
    """Any successful posture of the family follows it; for the KUKA LWR 4+ one such posture is known."""
    known = partial(nearest_angles, arm, KUKA_POSTURES[family]) if arm == KUKA_LWR else None
    return Solution(family, partial(_follows, arm, pole, FAMILIES[family]), parameters=known)


def _follows(
    arm: Arm, pole: Pole, posture: tuple[float, float], contexts: np.ndarray, parameters: np.ndarray
) -> np.ndarray:
    """Where the parameters [N, J] succeed, and belong to the posture family."""
    found = measures(arm, pole, contexts, parameters)
    return found["success"] & (found["side"] == posture[0]) & (found["elbow"] == posture[1])
