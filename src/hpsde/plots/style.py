"""What all figures share: colours, markers, fonts, and how options look in them.

Matplotlib's object-oriented part alone, imported when a figure is drawn: no window, no style left behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours: told apart with every kind of colour vision. Option 8 has the colour of option 1;
# the numbers on the lines tell them apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
GREY = "#5F5F5F"
DOUBT = "#A32A00"

STYLE: dict[Any, Any] = {
    "axes.formatter.useoffset": False,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "legend.frameon": False,
    "legend.fontsize": 8,
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in the style of hpsde; afterwards matplotlib's settings are as they were."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def colour_of(number: int) -> str:
    """The colour of the option of that number, from 1 on."""
    return COLOURS[(number - 1) % len(COLOURS)]


def marker_of(number: int) -> str:
    """The marker of the option of that number, from 1 on."""
    return MARKERS[(number - 1) % len(MARKERS)]


def colours_of(numbers: np.ndarray) -> tuple[str, ...]:
    """The colours of the options of these numbers."""
    return tuple(colour_of(int(number)) for number in numbers)


def option_colours(policy: Any) -> tuple[str, ...]:
    """The colours of the policy's options, in their order: an option keeps its colour as it keeps its number."""
    return colours_of(policy.option_numbers)


def plain_text(text: str) -> str:
    """The text with no formula in it: a dollar sign begins one."""
    return text.replace("$", r"\$")


def write_number(
    axes: Axes,
    x: float,
    y: float,
    number: int,
    strong: bool,
    offset: tuple[float, float] = (0, 0),
    coordinates: Any = "data",
) -> None:
    """An option's number in a circle of its colour at (x, y), moved by `offset` points."""
    axes.annotate(
        str(number),
        (x, y),
        xycoords=coordinates,
        xytext=offset,
        textcoords="offset points",
        annotation_clip=True,
        color=colour_of(number),
        fontsize=8,
        fontweight="bold" if strong else "normal",
        ha="center",
        va="center",
        zorder=5,
        bbox={
            "boxstyle": "circle,pad=0.15",
            "facecolor": "white",
            "edgecolor": colour_of(number),
            "linewidth": 0.8,
        },
    )


def apart(places: np.ndarray, step: float = 13.0) -> list[tuple[float, float]]:
    """Offsets in points for labels at places [O, 2] in [0, 1] of a panel, so that none lies on another.

    A label that is free stays above its place; others take the first free place round about.
    """
    panel = 200.0  # points: the size of a panel, nearly
    directions = [
        (0, 1),
        (1, 0),
        (-1, 0),
        (0, -1),
        (1, 1),
        (-1, 1),
        (1, -1),
        (-1, -1),
        (0, 2),
        (2, 0),
        (-2, 0),
        (0, -2),
    ]
    taken: list[np.ndarray] = []
    offsets: list[tuple[float, float]] = []
    for place in panel * np.asarray(places):
        moves = [np.array(direction) * step for direction in directions]
        free = [m for m in moves if all(np.linalg.norm(place + m - other) > 0.99 * step for other in taken)]
        move = free[0] if free else moves[0]
        taken.append(place + move)
        offsets.append((float(move[0]), float(move[1])))
    return offsets
