"""Which options of a learned policy an arm can really carry out: their postures, reached by movements in MuJoCo.

A return judges a posture, not the way to it. The report moves the arm to every posture that is a success, from a home
posture on the same side of the pole, under the simulator's dynamics and contacts (`mujoco_arm.move`; extra `sim`).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpsde.base.checks import check_count, check_rows
from hpsde.errors import InputError
from hpsde.tasks.kinematics import KUKA_LWR
from hpsde.tasks.mujoco_arm import KUKA_HOMES, move
from hpsde.tasks.reach import FAMILIES, ReachTask

__all__ = ["OptionMovements", "as_csv", "as_text", "movement_report"]


class OptionMovements(NamedTuple):
    """How the movements to one option's postures went.

    goals: how many goals were looked at. successes: at how many of them the option's posture is a success; only to
    these postures the arm is moved. family: the posture family of most of them. arrived, touched: the share of the
    movements that arrive, and that touch pole or floor on the way. clearance: the least distance of the body from these
    in any movement, m. error: the furthest that any joint is from its goal in the end, rad. Without movements the
    family is empty and the numbers are NaN.
    """

    option: int
    family: str
    goals: int
    successes: int
    arrived: float
    touched: float
    clearance: float
    error: float


def movement_report(
    task: ReachTask,
    policy: Any,
    *,
    every: int = 1,
    homes: Mapping[float, Any] | None = None,
    seconds: float = 3.0,
) -> list[OptionMovements]:
    """Move the arm to the postures of every option at every n-th evaluation goal.

    policy: anything with `option_means(goals [C, 3])` -> [O, C, J]. homes: the angles [J] from which movements start,
    by the side of the posture, 1 (left) or -1 (right); for the KUKA LWR 4+ they are known. seconds: of a movement.
    """
    goals = np.asarray(task.evaluation_contexts())[:: check_count("every", every, 1)]
    starts = _homes(task, homes)
    return [_option(task, k, goals, means, starts, seconds) for k, means in enumerate(policy.option_means(goals))]


def _option(
    task: ReachTask, option: int, goals: np.ndarray, q: np.ndarray, homes: Mapping[float, np.ndarray], seconds: float
) -> OptionMovements:
    """The movements to the postures q [C, J] of one option."""
    measures = task.measures(goals, q)
    success, sides, elbows = (measures[name] for name in ("success", "side", "elbow"))
    reached = np.flatnonzero(success)
    if not len(reached):
        return OptionMovements(option, "", len(goals), 0, *[float("nan")] * 4)
    moved = [move(task.arm, task.pole, homes[sides[k]], q[k], seconds) for k in reached]
    counts = {
        family: int(np.sum(success & (sides == side) & (elbows == elbow))) for family, (side, elbow) in FAMILIES.items()
    }
    return OptionMovements(
        option=option,
        family=max(counts, key=counts.__getitem__),
        goals=len(goals),
        successes=len(reached),
        arrived=float(np.mean([each.arrived for each in moved])),
        touched=float(np.mean([each.touched for each in moved])),
        clearance=min(each.clearance for each in moved),
        error=max(each.error for each in moved),
    )


def _homes(task: ReachTask, homes: Mapping[float, Any] | None) -> dict[float, np.ndarray]:
    """The home posture [J] of either side, checked."""
    if homes is None:
        if task.arm != KUKA_LWR:
            raise InputError(
                f"homes: expected the angles to start from, for either side, as the arm is {task.arm.name}"
            )
        homes = KUKA_HOMES
    if set(homes) != {1.0, -1.0}:
        raise InputError(f"homes: expected one for the side 1 (left) and one for -1 (right), got {sorted(homes)}")
    rows = check_rows("homes", list(homes.values()), len(task.arm.joints), rows=2)
    return dict(zip(homes, rows, strict=True))


def as_text(rows: Sequence[OptionMovements]) -> str:
    """The report as a table for people, lengths in mm and angles in mrad."""
    header = ("option", "family", "successes", "arrive", "touch", "least clearance", "worst error")
    lines = [header]
    for row in rows:
        cells = (str(row.option), row.family or "none", f"{row.successes} of {row.goals}")
        measured = (f"{row.arrived:.0%}", f"{row.touched:.0%}", f"{1e3 * row.clearance:.1f} mm")
        shown = (*measured, f"{1e3 * row.error:.2f} mrad") if row.successes else ("-",) * 4
        lines.append((*cells, *shown))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def as_csv(rows: Sequence[OptionMovements]) -> str:
    """The report as CSV under a header, lengths in metres and angles in radians; NaN is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(OptionMovements._fields)
    writer.writerows(["" if value != value else value for value in row] for row in rows)
    return text.getvalue()
