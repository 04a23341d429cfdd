"""Tasks: `make_task(name)` gives one by its name, `task_from_function` makes one of your own."""

from __future__ import annotations

from collections.abc import Callable

from hpsde.errors import UnknownNameError
from hpsde.tasks.mujoco_arm import reach_mujoco_task
from hpsde.tasks.puddle import Puddle
from hpsde.tasks.reach import reach_task
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
    "TASKS",
    "Coverage",
    "FunctionTask",
    "Solution",
    "Task",
    "TaskExtras",
    "check_task",
    "coverage_and_surplus",
    "make_task",
    "solution_at",
    "task_extras",
    "task_from_function",
    "task_measures",
    "task_names",
]

TASKS: dict[str, Callable[[], Task]] = {
    "toy-double": toy_double,
    "toy-triple": toy_triple,
    "toy-curve": toy_curve,
    "puddle": Puddle,
    "reach": reach_task,
    "reach-mujoco": reach_mujoco_task,
}


def task_names() -> tuple[str, ...]:
    """The names that `make_task` knows."""
    return tuple(TASKS)


def make_task(name: str) -> Task:
    """The task of that name; an unknown name is an error that lists the known ones."""
    if name not in TASKS:
        raise UnknownNameError("task", name, task_names())
    return TASKS[name]()
