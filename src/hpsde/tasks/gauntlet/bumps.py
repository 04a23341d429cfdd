"""Bumps: random peaks without a context, each of its own widths in its own directions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from hpsde.tasks.gauntlet.draws import APART, has_room, round_peaks, spaced, until
from hpsde.tasks.gauntlet.known import Cell
from hpsde.tasks.gauntlet.peaks import Peak, peak_cell

__all__ = ["CELLS", "bumps"]

WIDTHS = {2: 0.07, 3: 0.12, 4: 0.16, 5: 0.2}
"""The geometric mean of a bump's widths, as a share of the range, for each number of parameters."""

LARGEST_MARGIN = 0.15


def bumps(size: int, count: int, rng: np.random.Generator) -> list[Peak]:
    """`count` bumps in `size` parameters, the widths of each between 1 : 1 and 1 : 2, at least 4.5 widths apart."""
    if size == 1:
        return _in_a_row(count, rng)
    width = WIDTHS[size] if size > 2 else min(WIDTHS[2], 0.155 / np.sqrt(count))
    margin = min(LARGEST_MARGIN, 1.5 * width)
    scales = [_scale(size, width, rng) for _ in range(count)]

    def draw() -> list[Peak]:
        """One bump after the other, each where it has room; fewer where there is none left."""
        placed: list[Peak] = []
        for scale in scales:
            for _ in range(200):
                bump = Peak(_point(rng.uniform(margin, 1.0 - margin, size)), scale)
                if has_room(bump, placed):
                    placed.append(bump)
                    break
        return placed

    return until(draw, lambda placed: len(placed) == count)


def _in_a_row(count: int, rng: np.random.Generator) -> list[Peak]:
    """Bumps of one parameter."""
    widths = min(0.05, 0.7 / (APART * count)) * rng.uniform(0.8, 1.2, count)
    return round_peaks([_point(np.array([x])) for x in spaced(rng, widths, 0.08, 0.92)], widths, size=1)


def _scale(size: int, width: float, rng: np.random.Generator) -> np.ndarray:
    """One over the widths along random directions [D, D], the widths width * 2^(-1/2 .. 1/2)."""
    directions, _ = np.linalg.qr(rng.normal(size=(size, size)))
    return directions / (width * 2.0 ** rng.uniform(-0.5, 0.5, size))


def _point(centre: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda contexts: np.broadcast_to(centre, (len(contexts), len(centre)))


def _cell(size: int, count: int) -> Cell:
    words = f"{count} random bump{'s' if count > 1 else ''} in {size} parameter{'s' if size > 1 else ''}, no context"
    return peak_cell(
        f"bumps-{size}d-{count}", "bumps", words, partial(bumps, size, count), max_options=20 if count > 9 else 10
    )


SIZES = ((1, 3), (1, 6), (2, 1), (2, 4), (2, 6), (2, 9), (2, 12), (3, 4), (4, 3), (5, 2))
CELLS = {cell.name: cell for cell in (_cell(size, count) for size, count in SIZES)}
