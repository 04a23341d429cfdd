"""Tasks: `make_task(name)` gives one by its name, `task_from_function` makes one of your own.

A task's module is loaded when the task is made.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hpsde.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from hpsde.tasks.puddle_image import MovingGaps, PuddleImage
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

__all__ = [
    "GAUNTLET_FORM",
    "TASKS",
    "Coverage",
    "FunctionTask",
    "MovingGaps",
    "PuddleImage",
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

_NAMES_IN = {
    "puddle_image": "MovingGaps PuddleImage",
    "solutions": "Coverage Solution coverage_and_surplus solution_at",
    "task": "FunctionTask Task TaskExtras check_task task_extras task_from_function task_measures",
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names.split()}

GAUNTLET_FORM = "cell@seed of the gauntlet, such as ridges-4@17"


def _of(module: str, name: str, *arguments: Any) -> Callable[[], Any]:
    """What makes a task by the function or class of that name."""
    return lambda: getattr(import_module(f"hpsde.tasks.{module}"), name)(*arguments)


TASKS: dict[str, Callable[[], Any]] = {
    "toy-double": _of("toy", "toy_double"),
    "toy-triple": _of("toy", "toy_triple"),
    "toy-curve": _of("toy", "toy_curve"),
    "compass": _of("compass", "compass_task"),
    "puddle": _of("puddle", "Puddle"),
    "puddle-moving": _of("puddle_image", "MovingGaps"),
    "puddle-image": _of("puddle_image", "PuddleImage", 64, False),
    "puddle-image-32": _of("puddle_image", "PuddleImage", 32, False),
    "puddle-image-moving": _of("puddle_image", "PuddleImage", 64, True),
    "puddle-image-moving-32": _of("puddle_image", "PuddleImage", 32, True),
    "reach": _of("reach", "reach_task"),
    "reach-mujoco": _of("mujoco_arm", "reach_mujoco_task"),
    "rover": _of("rover", "Rover"),
    "rover-goal": _of("rover", "RoverGoal"),
    "bank-shot": _of("gallery.billiards", "bank_shot"),
    "bank-shot-spin": _of("gallery.billiards", "bank_shot_spin"),
    "throw": _of("gallery.throw", "throw_task"),
    "drone": _of("gallery.drone", "Drone"),
    "drone-60": _of("gallery.drone", "Drone", 60),
}


def task_names() -> tuple[str, ...]:
    """The names of the tasks that come along, without those of the gauntlet (`hpsde.tasks.gauntlet.CELLS`)."""
    return tuple(TASKS)


def is_task_name(name: str) -> bool:
    """Whether `make_task` knows the name, or the cell of the gauntlet that it begins with."""
    return name in TASKS or _is_cell(name)


def make_task(name: str, seed: int | None = None) -> Task:
    """The task of that name; an unknown name is an error that lists the known ones.

    A random task of the gauntlet is named by its cell and its seed, make_task("ridges-4@17"), or given the seed
    apart, make_task("ridges-4", seed=17).
    """
    if name not in TASKS:
        if _is_cell(name):
            from hpsde.tasks.gauntlet import draw_task

            return draw_task(name, seed)
        raise UnknownNameError("task", name, (*task_names(), GAUNTLET_FORM))
    if seed is not None:
        raise InputError(f"seed: expected with a cell of the gauntlet only, got {seed} with the task {name!r}")
    return TASKS[name]()


def _is_cell(name: str) -> bool:
    from hpsde.tasks.gauntlet import is_cell

    return is_cell(name)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hpsde.tasks' has no attribute {name!r}")
    value = getattr(import_module(f"hpsde.tasks.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
