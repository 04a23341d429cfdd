"""Random places for peaks that keep a distance from one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeVar

import numpy as np

from hpsde.errors import InputError
from hpsde.tasks.gauntlet.peaks import Peak, context_grid

__all__ = ["APART", "apart", "has_room", "round_peaks", "spaced", "until"]

APART = 4.5
"""How many widths, of the mean width of both, two curves keep apart: the return between them falls below 0.08."""

TRIES = 100_000
Drawn = TypeVar("Drawn")


def until(draw: Callable[[], Drawn], fits: Callable[[Drawn], bool]) -> Drawn:
    """The first draw that fits."""
    for _ in range(TRIES):
        drawn = draw()
        if fits(drawn):
            return drawn
    raise InputError(f"no draw out of {TRIES} fits: expected peaks that have room")


def spaced(rng: np.random.Generator, widths: np.ndarray, low: float, high: float) -> np.ndarray:
    """Random ascending places [K] in [low, high], neighbours at least 4.5 mean widths apart."""
    gaps = 0.5 * APART * (widths[1:] + widths[:-1])
    free = high - low - np.sum(gaps)
    if free < 0.0:
        raise InputError(f"expected widths that fit between {low} and {high}, got {widths.tolist()}")
    return low + np.sort(rng.uniform(0.0, free, len(widths))) + np.concatenate([[0.0], np.cumsum(gaps)])


def apart(peaks: Sequence[Peak], context_size: int = 0, margin: float = 0.0) -> bool:
    """Whether all curves keep inside [margin, 1 - margin] and 4.5 widths from one another, in every context."""
    curves = [peak.curve(context_grid(context_size)) for peak in peaks]
    if np.min(curves) < margin or np.max(curves) > 1.0 - margin:
        return False
    pairs = combinations(zip(peaks, curves, strict=True), 2)
    return all(_two_apart(one.scale, other.scale, a - b) for (one, a), (other, b) in pairs)


def has_room(peak: Peak, others: Sequence[Peak]) -> bool:
    """Whether a peak without context keeps 4.5 widths from all others."""
    none = np.zeros((1, 0))
    return all(_two_apart(peak.scale, other.scale, peak.curve(none) - other.curve(none)) for other in others)


def _two_apart(one: np.ndarray, other: np.ndarray, steps: np.ndarray) -> bool:
    """Whether all `steps` [N, D] between two curves are as long as 4.5 mean widths, given the scales of both.

    In the direction u = step / |step| the width of a peak is 1 / |u W|, with W its scale.
    """
    lengths = np.maximum(np.linalg.norm(steps, axis=1), 1e-12)
    widths = [lengths / np.maximum(np.linalg.norm(steps @ scale, axis=1), 1e-12) for scale in (one, other)]
    return bool(np.all(lengths >= 0.5 * APART * sum(widths)))


def round_peaks(curves: Sequence[Callable[[np.ndarray], np.ndarray]], widths: np.ndarray, size: int) -> list[Peak]:
    """Peaks of these widths that fall off alike in all `size` parameters."""
    return [Peak(curve, np.eye(size) / width) for curve, width in zip(curves, widths, strict=True)]
