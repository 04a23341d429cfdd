"""The arm's figures: one picture of every option's posture, rendered by MuJoCo (extra `sim`).

Pictures are taken first (`take_pictures`) and then drawn, so that a machine that cannot take them still draws curves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpsde.tasks.mujoco_arm import contact_sheet
from hpsde.tasks.reach import FAMILIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 720, 800
"""Pixels of one picture."""

AZIMUTH = 35.0
"""The camera looks over the base at the goals, a little from the right: left of the pole is left in the picture."""

WIDEST = 5
"""The most pictures in a row of a run's figure."""

GREY = "#5F5F5F"


class Postures(NamedTuple):
    """The postures of O options at C goals.

    goals [C, 3]; pictures [O, C, height, width, 3]; captions [O][C]: family, distance, contact; chosen [C]: the gate's
    option at each goal; numbers [O]: what the options are called.
    """

    goals: np.ndarray
    pictures: np.ndarray
    captions: list[list[str]]
    chosen: np.ndarray
    numbers: np.ndarray


def is_arm(task: Any) -> bool:
    """Whether the task has postures that can be pictured: `reach`, `reach-mujoco` and all that `reach_task` makes."""
    return getattr(task, "figure", None) == "postures"


def middle_goal(task: Any) -> np.ndarray:
    """The evaluation goal [3] that is nearest to their mean."""
    goals = np.asarray(task.evaluation_contexts())
    return goals[np.argmin(np.linalg.norm(goals - goals.mean(axis=0), axis=1))]


def with_others(task: Any, goal: np.ndarray) -> np.ndarray:
    """The goal [3] and, after it, four spread evenly from the first evaluation goal to the last: [5, 3]."""
    goals = np.asarray(task.evaluation_contexts())
    return np.vstack([goal, goals[np.linspace(0, len(goals) - 1, 4).round().astype(int)]])


def take_pictures(task: Any, policy: Any, goals: np.ndarray) -> Postures:
    """Picture every option at every goal [C, 3]. Without MuJoCo an ImportError, without OpenGL an HpsdeError."""
    means = policy.option_means(goals)
    options, count = means.shape[:2]
    marks, q = np.tile(goals, (options, 1)), means.reshape(options * count, -1)
    # All in one column, by one call, which starts OpenGL once.
    column = contact_sheet(task.arm, task.pole, marks, q, columns=1, width=WIDTH, height=HEIGHT, azimuth=AZIMUTH)
    captions = _captions(task.measures(marks, q))
    return Postures(
        goals=goals,
        pictures=column.reshape(options, count, HEIGHT, WIDTH, 3),
        captions=[captions[option * count : (option + 1) * count] for option in range(options)],
        chosen=policy.choose(goals),
        numbers=policy.option_numbers,
    )


def _captions(measures: Any) -> list[str]:
    """'left, elbow up' and, beneath, '3 mm off, touches nothing' or what is wrong."""
    names = {signs: family for family, signs in FAMILIES.items()}
    columns = ("side", "elbow", "distance", "clearance", "within_limits")
    captions = []
    for side, elbow, distance, clearance, within in zip(*(measures[name] for name in columns), strict=True):
        faults = ["touches"] * bool(clearance < 0.0) + ["beyond limits"] * (not within)
        captions.append(f"{names[side, elbow]}\n{_length(distance)} off, {', '.join(faults) or 'touches nothing'}")
    return captions


def _length(metres: float) -> str:
    return f"{1000.0 * metres:.0f} mm" if metres < 0.1 else f"{metres:.2f} m"


def panel_grid(options: int) -> tuple[int, int]:
    """Rows and columns for the pictures of so many options."""
    rows = -(-options // WIDEST)
    return rows, max(4, -(-options // rows))


def draw_postures(figure: Any, postures: Postures, colours: tuple[str, ...]) -> None:
    """A panel for every option at the first goal; the gate's choice has a frame."""
    rows, columns = panel_grid(len(postures.pictures))
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for option, axes in enumerate(panels):
        if option < len(postures.pictures):
            _show(axes, postures, option, 0, colours)
        else:
            axes.axis("off")


def sheet_figure(postures: Postures, colours: tuple[str, ...]) -> Figure:
    """One row for every option, one column for every goal; at each goal the gate's choice has a frame."""
    from matplotlib.figure import Figure

    options, goals = postures.pictures.shape[:2]
    figure = Figure(figsize=(1.8 * goals, 2.5 * options + 0.3), dpi=160, layout="compressed")
    panels: Any = figure.subplots(options, goals, squeeze=False)
    for option, row in enumerate(panels):
        for column, axes in enumerate(row):
            _show(axes, postures, option, column, colours)
    return figure


def _show(axes: Axes, postures: Postures, option: int, column: int, colours: tuple[str, ...]) -> None:
    """The picture of an option at a goal, with its caption; in a thick frame of its colour where the gate chooses it.

    Above the first option stands the goal.
    """
    chosen = postures.chosen[column] == option
    above = "" if option else f"goal {_point(postures.goals[column])}\n\n"
    name = f"option {postures.numbers[option]}{', chosen' if chosen else ''}"
    axes.imshow(postures.pictures[option, column])
    axes.set(xticks=[], yticks=[], anchor="S")
    axes.set_title(f"{above}{name}\n{postures.captions[option][column]}", fontsize=7, loc="left")
    frame = {"color": colours[option % len(colours)], "linewidth": 3.0} if chosen else {"color": GREY, "linewidth": 0.5}
    for spine in axes.spines.values():
        spine.set(visible=True, **frame)


def _point(goal: np.ndarray) -> str:
    return "(" + ", ".join(f"{value:.2f}" for value in goal) + ")"
