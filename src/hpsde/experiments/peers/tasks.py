"""The tasks of the comparison: points without context, and solutions that change with the context."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hpsde.base.distributions import Uniform
from hpsde.errors import UnknownNameError
from hpsde.tasks.gauntlet import CELLS
from hpsde.tasks.gauntlet.known import KnownTask, known_task
from hpsde.tasks.gauntlet.niching import HIMMELBLAU, himmelblau
from hpsde.tasks.solutions import Solution, solution_at

POINTS, CONTEXTS = "points", "contexts"
NICHE_RADII: Mapping[str, float] = {
    **dict.fromkeys(("cec-f1", "cec-f2", "cec-f3", "cec-f4", "cec-f10"), 0.01),
    **dict.fromkeys(("cec-f5", "cec-f6", "cec-f8"), 0.5),
    **dict.fromkeys(("cec-f7", "cec-f9"), 0.2),
}
"""Of the CEC 2013 competition: how near an optimum a point must be, in the units of the function."""

POINT_TASKS = tuple(f"cec-f{number}" for number in range(1, 11))
CELL_TASKS = ("ridges-2", "ridges-4", "curves-2-unaided", "parameters2-3", "parameters3-2", "context2-3")
CONTEXT_TASKS = ("throw", "moving-himmelblau", *CELL_TASKS)
TASKS = (*POINT_TASKS, *CONTEXT_TASKS)
EVALUATIONS: Mapping[str, tuple[int, ...]] = {POINTS: (500, 1000, 2000, 5000), CONTEXTS: (300, 1000, 3000)}

SPEED, GRAVITY = 10.0, 9.81


def part_of(task: str) -> str:
    """Whether a task is about points or has contexts."""
    return POINTS if task in POINT_TASKS else CONTEXTS


def peers_task(name: str, seed: int) -> KnownTask:
    """The task of this name; the seed draws the tasks of the gauntlet's cells, the others are always the same."""
    if name not in TASKS:
        raise UnknownNameError("task", name, TASKS)
    if name == "throw":
        return throw()
    if name == "moving-himmelblau":
        return moving_himmelblau()
    task = CELLS[name].make(seed)
    if not isinstance(task, KnownTask):
        raise TypeError(f"{name}: expected a task whose returns are known, got {type(task).__name__}")
    return task


def throw() -> KnownTask:
    """The README's throw: a target at 3 to 8 m, a ball at 10 m/s, one flat and one high angle that hit it."""

    def returns(contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        landing = SPEED**2 / GRAVITY * np.sin(2.0 * np.radians(parameters[:, 0]))
        return -np.abs(landing - contexts[:, 0])

    def flat(contexts: np.ndarray) -> np.ndarray:
        return np.degrees(0.5 * np.arcsin(GRAVITY * contexts / SPEED**2))

    return known_task(
        "throw",
        returns,
        lambda contexts: np.zeros(len(contexts)),
        contexts=Uniform(3.0, 8.0),
        initial=Uniform(0.0, 90.0),
        solutions=(solution_at("flat", flat), solution_at("high", lambda contexts: 90.0 - flat(contexts))),
    )


def moving_himmelblau() -> KnownTask:
    """Himmelblau's function, whose four optima move and draw apart as the context goes from -1 to 1."""
    towards = np.array([1.0, -0.5])

    def own(contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """The function's own coordinates [N, 2] of parameters."""
        return (parameters - contexts * towards) * (1.0 - 0.15 * contexts)

    return known_task(
        "moving-himmelblau",
        lambda contexts, parameters: himmelblau(own(contexts, parameters)),
        lambda contexts: np.full(len(contexts), 200.0),
        contexts=Uniform(-1.0, 1.0),
        initial=Uniform([-6.0, -6.0], [6.0, 6.0]),
        solutions=tuple(_moving(f"optimum {k}", np.array(each), towards) for k, each in enumerate(HIMMELBLAU, 1)),
    )


def _moving(name: str, optimum: np.ndarray, towards: np.ndarray) -> Solution:
    return solution_at(name, lambda contexts: optimum / (1.0 - 0.15 * contexts) + contexts * towards, tolerance=0.3)
