"""What regions know (regions.py): the rollouts, and what is remembered of each region."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

IN_VAIN = 5  # hops one after another that gain nothing, and no more follow
NOBODY, LINE, SLOPES, BETWEEN = -1, -2, -3, -4  # whose a rollout is that is no region's


class Terrain(NamedTuple):
    """Rollouts x [N, D] with returns y [N], their typical return and bounds [D] of x."""

    x: np.ndarray
    y: np.ndarray
    typical: float
    low: np.ndarray
    high: np.ndarray

    @property
    def scale(self) -> float:
        """How far the best return is above the typical one."""
        return max(float(self.y.max()) - self.typical, 1e-300)


class Regions(NamedTuple):
    """What is remembered of the regions, R of them, and what they have asked for.

    begun: rollouts when the search began. owner [N]: the region of each rollout. start [R]: 0, or the direction + 1
    with its sign. held, ended [R]: whether the far coordinate is held, whether it is over. top, centre [R]: rows of the
    settled top and of the best rollout of the present climb; -1: none yet. length [R]; wins, tried [R]: successes one
    after another, rollouts since the last one; vain [R]: hops that gained nothing since one did, -1 before the first.
    asked [n, D] of whom [n]. waited [2]: learning steps for places on the line and slopes, see WAITED.
    """

    begun: int
    owner: np.ndarray
    start: np.ndarray
    held: np.ndarray
    ended: np.ndarray
    top: np.ndarray
    centre: np.ndarray
    length: np.ndarray
    wins: np.ndarray
    tried: np.ndarray
    vain: np.ndarray
    asked: np.ndarray
    asked_of: np.ndarray
    waited: np.ndarray


def begin(x: np.ndarray) -> Regions:
    """Before the first region."""
    none, flags = np.zeros(0, dtype=int), np.zeros(0, dtype=bool)
    asked = np.zeros((0, x.shape[1]))
    owner = np.full(len(x), NOBODY)
    return Regions(
        len(x),
        owner,
        none,
        flags,
        flags,
        none,
        none,
        np.zeros(0),
        none,
        none,
        none,
        asked,
        none,
        np.zeros(2, dtype=int),
    )


def best_rows(ground: Terrain, regions: Regions) -> np.ndarray:
    """The row of the best rollout of each region [R], its start included; that of all, where it has none yet."""
    best = []
    for region, known in enumerate(zip(regions.top, regions.centre, strict=True)):
        rows = np.append(np.flatnonzero(regions.owner == region), [row for row in known if row >= 0]).astype(int)
        best.append(rows[np.argmax(ground.y[rows])] if len(rows) else np.argmax(ground.y))
    return np.array(best, dtype=int)


def are_busy(regions: Regions) -> np.ndarray:
    """Which regions climb or hop still [R]."""
    return ~regions.ended & (regions.vain < IN_VAIN)
