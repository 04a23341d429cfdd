"""Arms: three arms that reach goals behind a pole, the pole and the goals drawn from the seed.

The return is that of the reach task, R = -distance - collision cost - radians beyond the joint limits. The goals lie in
a box behind the pole, as seen from the base. A solution is a side of the pole: an option follows it when its mean
succeeds at 80 % of the goals with the arm on that side, whatever the elbow does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hpsde.base.checks import check_rows
from hpsde.base.distributions import Uniform
from hpsde.base.shapes import Float
from hpsde.tasks.gauntlet.known import Cell, generator
from hpsde.tasks.gauntlet.movement import MovementTask
from hpsde.tasks.kinematics import KUKA_LWR, Arm, Pole, arm_from_dh
from hpsde.tasks.reach import ReachTask, TruncatedGaussian, measures, reach_task
from hpsde.tasks.solutions import Solution

__all__ = ["CELLS", "PANDA", "SETUPS", "SIDES", "UR5", "ArmTask", "Setup", "arm_task"]

SIDES = {"left": 1.0, "right": -1.0}
"""The solutions, and the side that `measures` gives for each."""

Range = tuple[float, float]


def _panda() -> Arm:
    """The Franka Panda: modified Denavit-Hartenberg parameters and limits of its data sheet, the flange at its end."""
    d = (0.333, 0.0, 0.316, 0.0, 0.384, 0.0, 0.107)
    a = (0.0, 0.0, 0.0, 0.0825, -0.0825, 0.0, 0.088)
    alpha = np.radians([0.0, -90.0, 90.0, 90.0, -90.0, 90.0, 90.0]).tolist()
    turn = (-2.8973, 2.8973)
    limits = (turn, (-1.7628, 1.7628), turn, (-3.0718, -0.0698), turn, (-0.0175, 3.7525), turn)
    rows = list(zip([0.0] * 7, d, a, alpha, strict=True))
    return arm_from_dh(rows, limits, bend=(1, 3, 5), radius=0.06, name="Franka Panda", modified=True)


def _ur5() -> Arm:
    """The Universal Robots UR5, its links as straight as its Denavit-Hartenberg table has them."""
    right_angle = 0.5 * np.pi
    rows = [
        (0.0, 0.089159, 0.0, right_angle),
        (0.0, 0.0, -0.425, 0.0),
        (0.0, 0.0, -0.39225, 0.0),
        (0.0, 0.10915, 0.0, right_angle),
        (0.0, 0.09465, 0.0, -right_angle),
        (0.0, 0.0823, 0.0, 0.0),
    ]
    limits = [(-2.0 * np.pi, 2.0 * np.pi)] * 6
    return arm_from_dh(rows, limits, bend=(1, 2, 3), radius=0.05, name="UR5")


PANDA = _panda()
UR5 = _ur5()


class Setup(NamedTuple):
    """An arm, and the ranges that its pole and goals are drawn from.

    home, deviation: the initial policy, N(home, deviation^2) within the joint limits.
    x, y, radius: of the pole. behind: how far the centre of the goals lies behind its axis. height: of that centre.
    box: the edges of the box of goals.
    """

    arm: Arm
    home: tuple[float, ...]
    deviation: float
    x: Range
    y: Range
    radius: Range
    behind: Range
    height: Range
    box: tuple[float, float, float] = (0.1, 0.1, 0.2)


_PI = float(np.pi)
SETUPS: Mapping[str, Setup] = {
    "arm-kuka": Setup(
        arm=KUKA_LWR,
        home=(0.0,) * 7,
        deviation=0.8,
        x=(0.30, 0.40),
        y=(-0.03, 0.03),
        radius=(0.03, 0.06),
        behind=(0.21, 0.25),
        height=(0.45, 0.52),
    ),
    "arm-panda": Setup(
        arm=PANDA,
        home=(0.0, -_PI / 4, 0.0, -3 * _PI / 4, 0.0, _PI / 2, _PI / 4),
        deviation=0.7,
        x=(0.33, 0.43),
        y=(-0.03, 0.03),
        radius=(0.03, 0.06),
        behind=(0.22, 0.27),
        height=(0.45, 0.55),
    ),
    # The UR5 lies in a plane, to one side of which its hand is. To pass the pole on the other side it turns its base by
    # about 140 degrees and bends over backwards; upright and turned by 90 degrees is half-way between both.
    "arm-ur": Setup(
        arm=UR5,
        home=(_PI / 2, -_PI / 2, 0.0, -_PI / 2, 0.0, 0.0),
        deviation=0.8,
        x=(0.34, 0.42),
        y=(-0.03, 0.03),
        radius=(0.025, 0.035),
        behind=(0.16, 0.19),
        height=(0.35, 0.45),
        box=(0.08, 0.06, 0.2),
    ),
}


class ArmTask(MovementTask, ReachTask):
    """A reach task with two solutions, the sides of the pole; `arm_task` draws one."""

    def best_returns(self, contexts: Any) -> Float[np.ndarray, " N"]:
        """0: the flange is at the goal, and all of the body 5 cm or more from pole and floor.

        Gradient ascent from 36 starts at each of 27 goals comes within 0.002 of it at the median goal on either side of
        the pole, in the tasks of ten seeds. At the worst corner of a box it falls short by 0.035 (KUKA) or 0.02 (UR5).
        """
        return np.zeros(len(check_rows("contexts", contexts, self.context_size)))


def arm_task(name: str, seed: int) -> ArmTask:
    """The task of a cell and a seed."""
    setup = SETUPS[name]
    pole, goals = draw_scene(generator(name, seed), setup)
    description = f"a {setup.arm.name} reaches a goal behind a pole, round either side"
    plain = reach_task(setup.arm, pole, goals, name=f"{name}@{seed}", description=description)
    low, high = setup.arm.limits
    changed = {
        "initial": TruncatedGaussian(tuple(low.tolist()), tuple(high.tolist()), setup.deviation, setup.home),
        "solutions": tuple(_solution(setup.arm, pole, side) for side in SIDES),
    }
    return ArmTask(**(vars(plain) | changed))


def draw_scene(rng: np.random.Generator, setup: Setup) -> tuple[Pole, Uniform]:
    """A pole, and the box of goals behind it in the direction from the base to the pole."""
    pole = Pole(rng.uniform(*setup.x), rng.uniform(*setup.y), rng.uniform(*setup.radius))
    distance = np.hypot(pole.x, pole.y)
    further = 1.0 + rng.uniform(*setup.behind) / distance
    centre = np.array([further * pole.x, further * pole.y, rng.uniform(*setup.height)])
    half = 0.5 * np.array(setup.box)
    return pole, Uniform(centre - half, centre + half)


def _solution(arm: Arm, pole: Pole, side: str) -> Solution:
    return Solution(side, partial(_follows, arm, pole, SIDES[side]))


def _follows(arm: Arm, pole: Pole, side: float, contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """Where the parameters [N, J] succeed, and pass the pole on that side."""
    found = measures(arm, pole, contexts, parameters)
    return found["success"] & (found["side"] == side)


def _cell(name: str, setup: Setup) -> Cell:
    return Cell(
        name=name,
        family="movements",
        make=partial(arm_task, name),
        description=f"{setup.arm.name}: goals behind a random pole, {len(setup.arm.joints)} joints",
    )


CELLS: dict[str, Cell] = {name: _cell(name, setup) for name, setup in SETUPS.items()}
