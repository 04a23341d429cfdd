"""Budgets: lines and bumps, as in the cells ridges-K and bumps-2d-K, with fewer or more rollouts."""

from __future__ import annotations

from functools import partial

from hpsde.tasks.gauntlet.bumps import bumps
from hpsde.tasks.gauntlet.known import Cell
from hpsde.tasks.gauntlet.peaks import peak_cell
from hpsde.tasks.gauntlet.ridges import lines

__all__ = ["CELLS"]


def _cell(kind: str, count: int, rollouts: int) -> Cell:
    """The tasks of `kind`-`count` with `rollouts` in all, of which 4 of 7 are initial."""
    ridges = kind == "ridges"
    return peak_cell(
        f"{kind}-{count}-at-{rollouts}",
        "budgets",
        f"{count} {'random lines' if ridges else 'random bumps in 2 parameters'}, {rollouts} rollouts in all",
        partial(lines, count) if ridges else partial(bumps, 2, count),
        geometry=f"{kind}-{count}",
        context_size=1 if ridges else 0,
        initial_rollouts=round(rollouts * 4 / 7),
        rollouts=rollouts,
    )


SIZES = (
    ("ridges", 2, 60),
    ("ridges", 2, 100),
    ("ridges", 3, 100),
    ("ridges", 3, 300),
    ("ridges", 5, 300),
    ("ridges", 4, 3000),
    ("bumps-2d", 3, 100),
    ("bumps-2d", 4, 300),
    ("bumps-2d", 9, 3000),
)
CELLS = {cell.name: cell for cell in (_cell(*each) for each in SIZES)}
