"""Tasks: `make_task(name)` gives one by its name, `task_from_function` makes one of your own."""

from __future__ import annotations

from collections.abc import Callable

from hpsde.errors import InputError, UnknownNameError
from hpsde.tasks.gallery import GALLERY
from hpsde.tasks.gauntlet import draw_task, is_cell
from hpsde.tasks.mujoco_arm import reach_mujoco_task
from hpsde.tasks.puddle import Puddle
from hpsde.tasks.reach import reach_task
from hpsde.tasks.rover import Rover, RoverGoal
from hpsde.tasks.solutions import Coverage, Solution, coverage_and_surplus, solution_at
from hpsde.tasks.task import (
    FunctionTask,
    Task,
    TaskExtras,
    check_task,
    task_extras,
    task_from_function,
    task_measures,
)
from hpsde.tasks.toy import toy_curve, toy_double, toy_triple

__all__ = [
    "GAUNTLET_FORM",
    "TASKS",
    "Coverage",
    "FunctionTask",
    "Solution",
    "Task",
    "TaskExtras",
    "check_task",
    "coverage_and_surplus",
    "is_task_name",
    "make_task",
    "solution_at",
    "task_extras",
    "task_from_function",
    "task_measures",
    "task_names",
]

GAUNTLET_FORM = "cell@seed of the gauntlet, such as ridges-4@17"

TASKS: dict[str, Callable[[], Task]] = {
    "toy-double": toy_double,
    "toy-triple": toy_triple,
    "toy-curve": toy_curve,
    "puddle": Puddle,
    "reach": reach_task,
    "reach-mujoco": reach_mujoco_task,
    "rover": Rover,
    "rover-goal": RoverGoal,
    **GALLERY,
}


def task_names() -> tuple[str, ...]:
    """The names of the tasks that come along, without those of the gauntlet (`hpsde.tasks.gauntlet.CELLS`)."""
    return tuple(TASKS)


def is_task_name(name: str) -> bool:
    """Whether `make_task` knows the name, or the cell of the gauntlet that it begins with."""
    return name in TASKS or is_cell(name)


def make_task(name: str, seed: int | None = None) -> Task:
    """The task of that name; an unknown name is an error that lists the known ones.

    A random task of the gauntlet is named by its cell and its seed, make_task("ridges-4@17"), or given the seed
    apart, make_task("ridges-4", seed=17).
    """
    if is_cell(name):
        return draw_task(name, seed)
    if name not in TASKS:
        raise UnknownNameError("task", name, (*task_names(), GAUNTLET_FORM))
    if seed is not None:
        raise InputError(f"seed: expected with a cell of the gauntlet only, got {seed} with the task {name!r}")
    return TASKS[name]()
