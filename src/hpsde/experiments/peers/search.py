"""What rivals without contexts search in: the unit cube, the returns counted, and starts spread over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.stats import qmc

from hpsde.base.shapes import Float
from hpsde.experiments.peers.counter import BudgetSpentError, Counter

STARTS = 12
"""2 to this power is the most restarts there are."""
APART = 1e-3
"""End points closer than this, in the unit cube, are one; the best of them is reported."""

Ascend = Callable[["Ascent", np.ndarray, int], None]
"""(ascent, start [D], number of the start) -> None: a local search."""

Rival = Callable[[Counter, int, int, float], np.ndarray]
"""(counted returns of points [N, D] in the unit cube, D, seed, tolerance) -> the points [K, D] it reports.

It searches until the counter refuses, and takes every point it reports from those it evaluated. The tolerance is the
gain in the return for which a local search need not go on.
"""


class Ascent:
    """One local search: its returns, and the best point it has come to."""

    def __init__(self, returns: Counter) -> None:
        self._returns = returns
        self.point: np.ndarray | None = None
        self.value = -np.inf

    def values(self, points: np.ndarray) -> Float[np.ndarray, " N"]:
        """The returns of points [N, D]; those outside the unit cube are moved to its surface."""
        inside = np.clip(points, 0.0, 1.0)
        values = self._returns(inside)
        best = int(np.argmax(values))
        if values[best] > self.value:
            self.point, self.value = inside[best].copy(), float(values[best])
        return values

    def cost(self, point: np.ndarray) -> float:
        """Minus the return of one point [D], for what minimises."""
        return -float(self.values(np.asarray(point, dtype=float)[None])[0])


def spread_points(size: int, power: int, seed: int) -> Float[np.ndarray, "N D"]:
    """2^power points spread over the unit cube: a scrambled Sobol sequence."""
    return qmc.Sobol(size, rng=np.random.default_rng(seed)).random_base2(power)


def restarted(ascend: Ascend, returns: Counter, size: int, seed: int) -> np.ndarray:
    """The distinct end points [K, D] of one ascent after the other until the budget is spent."""
    return ascended(ascend, returns, iter(spread_points(size, STARTS, seed)), size)


def ascended(ascend: Ascend, returns: Counter, starts: Iterator[np.ndarray], size: int) -> np.ndarray:
    """The distinct end points [K, D] of an ascent from every start; that which the budget ends counts too."""
    ends: list[Ascent] = []
    try:
        for number, start in enumerate(starts):
            ends.append(Ascent(returns))
            ascend(ends[-1], start, number)
    except BudgetSpentError:
        pass
    known = [(each.point, each.value) for each in ends if each.point is not None]
    points = np.array([point for point, _ in known]).reshape(len(known), size)
    return distinct(points, np.array([value for _, value in known]))


def distinct(points: np.ndarray, values: np.ndarray, apart: float = APART) -> Float[np.ndarray, "K D"]:
    """The points, best first, without those closer than `apart` to a better one."""
    kept: list[int] = []
    for each in np.argsort(-values, kind="stable"):
        if not kept or np.min(np.linalg.norm(points[kept] - points[each], axis=1)) >= apart:
            kept.append(int(each))
    return points[kept]
