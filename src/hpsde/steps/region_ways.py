"""Which tops are solutions: those between which the return falls on the straight way, by rollouts on it."""

from __future__ import annotations

import numpy as np

from hpsde.steps import slopes
from hpsde.steps.region_state import Regions, Terrain, best_rows

WAY = (0.5, 0.25, 0.75)  # places between two tops at which there may be a valley
NEARLY = 0.05  # of the returns' range from typical to best: tops that differ by more are not compared
VALLEY = 1e-3  # of it: a valley is deeper


def joined(ground: Terrain, regions: Regions) -> tuple[Regions, np.ndarray]:
    """The regions without those whose settled tops are another's, and the rollouts [n, D] that will tell of others."""
    ended, wanted = regions.ended.copy(), [np.zeros((0, ground.x.shape[1]))]
    settled = _settled(ground, regions)
    for number, region in enumerate(settled.tolist()):
        for other in settled[:number].tolist():
            if ended[other] or ended[region] or not _comparable(ground, regions, region, other):
                continue
            joined, missing = _way(ground, int(regions.top[region]), int(regions.top[other]))
            ended[region] = joined and regions.vain[region] >= 0
            wanted.append(missing)
    return regions._replace(ended=ended), np.concatenate(wanted)


def _settled(ground: Terrain, regions: Regions) -> np.ndarray:
    """The regions with a settled top, the highest first."""
    settled = np.flatnonzero((regions.top >= 0) & ~regions.ended)
    return settled[np.argsort(-ground.y[regions.top[settled]], kind="stable")]


def _comparable(ground: Terrain, regions: Regions, lower: int, higher: int) -> bool:
    """Whether the tops of two regions are nearly as high; from a low one ways lead up anyhow."""
    return bool(ground.y[regions.top[higher]] - ground.y[regions.top[lower]] <= NEARLY * ground.scale)


def _way(ground: Terrain, lower: int, higher: int) -> tuple[bool, np.ndarray]:
    """Whether two tops are one hill, and the rollout [1, D] on the way between them that will tell; [0, D]: none need.

    They are none if one of the rollouts on the straight way lies in a valley.
    """
    one, other = ground.x[lower], ground.x[higher]
    places = one + np.array(WAY)[:, None] * (other - one)
    rows = slopes.known(ground.x, places)
    missing = np.flatnonzero(rows < 0)[:1]
    valley = bool(np.any(ground.y[rows[rows >= 0]] < ground.y[lower] - VALLEY * ground.scale))
    return not valley and not len(missing), places[missing[:0] if valley else missing]


def measured(ground: Terrain, regions: Regions) -> np.ndarray:
    """Whether each region [R] has a settled top with a valley to all others that are higher."""
    done, settled = np.zeros(len(regions.top), dtype=bool), _settled(ground, regions)
    for number, region in enumerate(settled.tolist()):
        higher = settled[:number].tolist()
        ways = (_way(ground, int(regions.top[region]), int(regions.top[other])) for other in higher)
        done[region] = all(_comparable(ground, regions, region, other) for other in higher) and all(
            not joined and not len(missing) for joined, missing in ways
        )
    return done


def apart(ground: Terrain, regions: Regions) -> tuple[np.ndarray, np.ndarray]:
    """The rows [H] of the best rollouts of the regions whose tops are `measured`, the highest first, and these regions
    [H].
    """
    known = np.flatnonzero(measured(ground, regions))
    rows = best_rows(ground, regions)[known]
    order = np.argsort(-ground.y[rows], kind="stable")
    return rows[order], known[order]
