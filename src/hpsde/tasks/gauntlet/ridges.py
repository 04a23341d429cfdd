"""Ridges: curves of best parameters over the contexts, which keep apart unless they cross.

R(s, xi) = max_k h_k g_k(s) p(d_k / w_k), d_k the distance of xi from curve k in that context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hpsde.tasks.gauntlet.draws import APART, apart, round_peaks, spaced, until
from hpsde.tasks.gauntlet.known import Cell
from hpsde.tasks.gauntlet.peaks import Peak, context_grid, peak_cell

__all__ = ["CELLS", "lines", "lines_with_widths"]

ROOM = 0.55
"""The share of the parameter's range that lines and the gaps between them need at least to fill."""

MARGIN = 0.08
Curve = Callable[[np.ndarray], np.ndarray]


def lines_with_widths(rng: np.random.Generator, widths: np.ndarray) -> list[Peak]:
    """Lines of these widths, in random order, which neither meet nor come close in any context."""
    order = rng.permutation(widths)
    left, right = (spaced(rng, order, MARGIN, 1.0 - MARGIN) for _ in range(2))
    return round_peaks([_line(a, b) for a, b in zip(left, right, strict=True)], order, size=1)


def lines(count: int, rng: np.random.Generator) -> list[Peak]:
    """`count` random lines, about as wide as leaves room for all of them, at most 0.05 of the range."""
    width = min(0.05, ROOM / (APART * count))
    return lines_with_widths(rng, width * rng.uniform(0.85, 1.15, count))


def _line(left: float, right: float) -> Curve:
    """xi = left at s = -1, right at s = 1."""
    return lambda contexts: left + (right - left) * 0.5 * (contexts + 1.0)


def _bent(left: float, right: float, amplitude: float, frequency: float, phase: float) -> Curve:
    line = _line(left, right)
    return lambda contexts: line(contexts) + amplitude * np.sin(np.pi * frequency * contexts + phase)


def curves(count: int, rng: np.random.Generator) -> list[Peak]:
    """Lines with a sine on top, up to one and a half periods of it."""
    widths = np.full(count, min(0.045, 0.4 / (APART * count)))

    def draw() -> list[Peak]:
        left, right = (spaced(rng, widths, MARGIN, 1.0 - MARGIN) for _ in range(2))
        amplitude, frequency = rng.uniform(0.06, 0.14, count), rng.uniform(0.6, 1.5, count)
        phase = rng.uniform(0.0, 2.0 * np.pi) + rng.uniform(-0.5, 0.5, count)
        numbers = zip(left, right, amplitude, frequency, phase, strict=True)
        return round_peaks([_bent(*each) for each in numbers], widths, size=1)

    return until(draw, partial(apart, context_size=1, margin=MARGIN))


def crossing(count: int, rng: np.random.Generator) -> list[Peak]:
    """Lines that all cross one another, in the middle half of the contexts, and lie apart at both ends."""
    widths = np.full(count, 0.03)
    grid = context_grid(1)
    middle = np.abs(grid[:, 0]) <= 0.5

    def draw() -> list[Peak]:
        left, right = (spaced(rng, widths, MARGIN, 1.0 - MARGIN) for _ in range(2))
        return round_peaks([_line(a, b) for a, b in zip(left, right[::-1], strict=True)], widths, size=1)

    def fits(peaks: Sequence[Peak]) -> bool:
        """Whether neighbours come closer than 4.5 widths in the middle half of the contexts alone."""
        places = np.sort([peak.curve(grid)[:, 0] for peak in peaks], axis=0)
        return bool(np.all(np.diff(places, axis=0)[:, ~middle] >= APART * widths[0]))

    return until(draw, fits)


def with_heights(heights: Callable[[np.random.Generator], np.ndarray], rng: np.random.Generator) -> list[Peak]:
    """Four lines of these heights in random order; below 0.6 of the best a line need not be found."""
    drawn = rng.permutation(heights(rng)).tolist()
    peaks = lines(len(drawn), rng)
    return [replace(peak, height=h, required=h > 0.6) for peak, h in zip(peaks, drawn, strict=True)]


def partial_lines(count: int, rng: np.random.Generator) -> list[Peak]:
    """Lines that exist in 40 to 75 % of the contexts, with smooth ends; in every context there is at least one."""
    grid = context_grid(1)

    def draw() -> list[Peak]:
        lengths = rng.uniform(0.9, 1.5, count)
        starts = rng.uniform(-1.0 - 0.3, 1.0 - lengths + 0.3)
        ends = zip(starts, starts + lengths, strict=True)
        return [replace(peak, strength=_between(*each)) for peak, each in zip(lines(count, rng), ends, strict=True)]

    def fits(peaks: Sequence[Peak]) -> bool:
        strengths = np.array([peak.heights(grid) for peak in peaks])
        shares = np.mean(strengths >= 0.8, axis=1)
        return bool(np.all(np.max(strengths, axis=0) >= 0.95) and np.all((shares >= 0.4) & (shares <= 0.75)))

    return until(draw, fits)


def _between(start: float, end: float, edge: float = 0.05) -> Curve:
    """About 1 for start < s < end and 0 beyond: a product of two logistic functions."""

    def strength(contexts: np.ndarray) -> np.ndarray:
        s = contexts[:, 0]
        return 0.25 * (1.0 + np.tanh((s - start) / edge)) * (1.0 + np.tanh((end - s) / edge))

    return strength


def planes(context_size: int, size: int, count: int, width: float, rng: np.random.Generator) -> list[Peak]:
    """xi = c_k + B_k s with several context numbers or several parameters."""
    widths = np.full(count, width)

    def draw() -> list[Peak]:
        centres = rng.uniform(0.15, 0.85, (count, size))
        shared = rng.uniform(-0.2, 0.2, (context_size, size))
        slopes = (shared + rng.uniform(-0.15, 0.15, (count, context_size, size))) / context_size
        return round_peaks([_plane(*each) for each in zip(centres, slopes, strict=True)], widths, size)

    return until(draw, partial(apart, context_size=context_size, margin=MARGIN))


def _plane(centre: np.ndarray, slope: np.ndarray) -> Curve:
    return lambda contexts: centre + contexts @ slope


def bowl(rng: np.random.Generator) -> list[Peak]:
    """One line at the bottom of a bowl as wide as the range; to be followed within a tenth of the range."""
    return [replace(peak, scale=np.eye(1) / 0.5, tolerance=0.2) for peak in lines(1, rng)]


def flat_top(z: np.ndarray) -> np.ndarray:
    """min(exp(-z^2 / 2), 0.8) / 0.8: equally good up to two thirds of a width."""
    return np.minimum(np.exp(-0.5 * z**2), 0.8) / 0.8


def _rising(contexts: np.ndarray) -> np.ndarray:
    """Contexts are easy or hard, whatever the parameters are: from -5 to 5."""
    return 5.0 * contexts[:, 0]


def _cell(name: str, description: str, draw: Any, context_size: int = 1, **extras: Any) -> Cell:
    return peak_cell(name, "ridges", description, draw, context_size=context_size, **extras)


def _even_heights(rng: np.random.Generator) -> np.ndarray:
    return np.linspace(1.0, 0.75, 4)


def _low_heights(rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([[1.0, 1.0], rng.uniform(0.3, 0.5, 2)])


CELLS = {
    cell.name: cell
    for cell in (
        *(_cell(f"ridges-{k}", f"{k} random lines", partial(lines, k)) for k in (1, 2, 3, 4, 5, 6, 8)),
        *(_cell(f"curves-{k}", f"{k} bent curves", partial(curves, k), features="squared-exponential") for k in (2, 4)),
        *(
            _cell(
                f"curves-{k}-unaided",
                f"the curves of `curves-{k}`, and no features given",
                partial(curves, k),
                geometry=f"curves-{k}",
            )
            for k in (2, 4)
        ),
        *(_cell(f"crossing-{k}", f"{k} lines that cross", partial(crossing, k)) for k in (2, 3)),
        _cell(
            "widths-4",
            "4 lines of widths 1 to 6",
            partial(lines_with_widths, widths=np.geomspace(0.008, 0.048, 4)),
        ),
        _cell("heights-4", "4 lines of heights 0.75 to 1", partial(with_heights, _even_heights)),
        _cell("heights-low-4", "2 lines, and 2 of less than half their height", partial(with_heights, _low_heights)),
        _cell("partial-3", "3 lines, each in part of the contexts", partial(partial_lines, 3)),
        _cell("plateau-2", "2 lines with flat tops", partial(lines, 2), profile=flat_top),
        _cell("bowl-1", "one broad quadratic bowl", bowl, profile=lambda z: 1.0 - 0.5 * z**2),
        _cell("cauchy-3", "3 lines with long tails", partial(lines, 3), profile=lambda z: 1.0 / (1.0 + z**2)),
        _cell("levels-3", "3 lines; returns rise with the context by ten heights", partial(lines, 3), level=_rising),
        _cell(
            "levels-parameters2-3",
            "3 lines, two parameters; returns rise with the context by ten heights",
            partial(planes, 1, 2, 3, 0.08),
            level=_rising,
            geometry="parameters2-3",
        ),
        _cell("context2-3", "3 planes over two context numbers", partial(planes, 2, 1, 3, 0.035), 2),
        _cell(
            "context2-2-parameters2", "two context numbers, two parameters, 2 planes", partial(planes, 2, 2, 2, 0.09), 2
        ),
        _cell("parameters2-3", "3 lines, two parameters", partial(planes, 1, 2, 3, 0.08)),
        _cell("parameters3-2", "2 lines, three parameters", partial(planes, 1, 3, 2, 0.12)),
    )
}
