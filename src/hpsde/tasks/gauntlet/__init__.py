"""The gauntlet: random tasks with known solutions, drawn by the name of a cell and a seed.

A cell is a kind of task, such as "ridges-4"; its tasks are drawn by seed and named "ridges-4@17".
"""

from __future__ import annotations

from hpsde.base.checks import check_count
from hpsde.errors import InputError
from hpsde.tasks.gauntlet import arms, budgets, bumps, hard, many, niching, ridges, walls
from hpsde.tasks.gauntlet.known import Cell, KnownTask, known_task
from hpsde.tasks.task import Task

__all__ = ["CELLS", "Cell", "KnownTask", "draw_task", "is_cell", "known_task"]

CELLS: dict[str, Cell] = {
    **ridges.CELLS,
    **bumps.CELLS,
    **niching.CELLS,
    **hard.CELLS,
    **many.CELLS,
    **budgets.CELLS,
    **walls.CELLS,
    **arms.CELLS,
}


def is_cell(name: str) -> bool:
    """Whether `name` names a cell, with a seed ("ridges-4@17") or without."""
    return name.partition("@")[0] in CELLS


def draw_task(name: str, seed: int | None = None) -> Task:
    """The task of a cell and a seed: "ridges-4@17", or "ridges-4" with `seed`, which is 0 where none is given."""
    cell, at, number = name.partition("@")
    if at and seed is not None:
        raise InputError(f"seed: expected once, got {seed} with the name {name!r}")
    if at and not (number.isascii() and number.isdigit()):
        raise InputError(f"task {name!r}: expected a whole number of at least 0 after the @, such as {cell}@17")
    return CELLS[cell].make(int(number) if at else check_count("seed", 0 if seed is None else seed, 0))
