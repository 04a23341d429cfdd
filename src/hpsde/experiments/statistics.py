"""Statistics over seeds: interquartile means, bootstrap intervals, and the rule by which a claim is judged.

A comparison of two methods is paired by seed: both see the same contexts. Its estimate is the interquartile mean of the
differences, its interval the percentile bootstrap over the seeds. It holds where the whole interval lies on
the claimed side. A claim needs all its comparisons, so that no correction for their number is due (an
intersection-union test); between claims none is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from hpsde.errors import InputError

RESAMPLES = 10_000
CONFIDENCE = 0.95
LEAST_SEEDS = 6
"""With fewer, even differences that all have the same sign are no evidence at 5 % (two-sided: 2 / 2^5 > 0.05)."""

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"


class Interval(NamedTuple):
    """A value with its interval, from so many seeds."""

    value: float
    low: float
    high: float
    seeds: int


def interquartile_weights(count: int) -> np.ndarray:
    """Weights [n] of the sorted values: the middle half counts, values on its edges with the part that lies inside."""
    edges = np.arange(count + 1) / count
    inside = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None)
    return inside / inside.sum()


def interquartile_mean(values: np.ndarray) -> float:
    """The mean of the middle half of the values [n]."""
    values = _checked(values)
    return float(np.sort(values) @ interquartile_weights(len(values)))


def estimate(values: np.ndarray, seed: int = 0) -> Interval:
    """Interquartile mean of values [n], one for each seed, with its 95 % percentile bootstrap interval."""
    values = _checked(values)
    generator = np.random.default_rng(seed)
    resampled = np.sort(values[generator.integers(len(values), size=(RESAMPLES, len(values)))], axis=1)
    means = resampled @ interquartile_weights(len(values))
    low, high = np.quantile(means, [0.5 - 0.5 * CONFIDENCE, 0.5 + 0.5 * CONFIDENCE])
    return Interval(interquartile_mean(values), float(low), float(high), len(values))


def judge(difference: Interval, side: int, margin: float = 0.0) -> str:
    """Whether a difference lies on the claimed side: +1 above 0, -1 below 0, 0 within +-margin.

    holds:          the whole interval lies there;
    does not hold:  the whole interval lies elsewhere;
    undecided:      neither, or fewer than six seeds.
    """
    if side not in (-1, 0, 1):
        raise InputError(f"side must be -1, 0 or 1; got {side}")
    if difference.seeds < LEAST_SEEDS:
        return UNDECIDED
    low, high = difference.low, difference.high
    if side == 0:
        within, outside = -margin <= low and high <= margin, low > margin or high < -margin
    else:
        within, outside = (low > 0.0, high < 0.0) if side > 0 else (high < 0.0, low > 0.0)
    return HOLDS if within else FAILS if outside else UNDECIDED


def overall(verdicts: Iterable[str]) -> str:
    """The verdict on a claim from those on its comparisons: it holds only if all of them do."""
    found = set(verdicts)
    return FAILS if FAILS in found else HOLDS if found == {HOLDS} else UNDECIDED


def _checked(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or len(values) == 0 or not np.all(np.isfinite(values)):
        raise InputError(f"values: expected one finite number for each seed, got {values!r}")
    return values
