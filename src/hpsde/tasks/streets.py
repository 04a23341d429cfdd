"""Which way a route takes between obstacles that stand in rows and columns, and how far apart two routes are.

The obstacles of the rover stand at the crossings of a grid. Between two rows of them runs a street. A route is named by
the streets in which it crosses each column of obstacles, from left to right: "0013" crosses the first two columns below
all obstacles, the third above one of them, and the last above three. Two routes of one name can be changed into one
another without passing over the middle of an obstacle.
"""

from __future__ import annotations

import numpy as np

from hpsde.base.later import Later
from hpsde.base.shapes import Float, Int

spatial = Later("scipy.spatial")


__all__ = ["OTHER", "best_diverse", "one_way_distance", "street_names", "streets_taken"]

OTHER = "other"
"""The name of a route that circles an obstacle, or that ends before the last column."""


def streets_taken(routes: Float[np.ndarray, "N P 2"], centres: Float[np.ndarray, " C"]) -> Int[np.ndarray, "N C"]:
    """In which street a route crosses each column x = c, counted by the obstacles' centres below; -1: in none alone.

    A street that is entered and left again does not count: crossings to the right less those to the left are 1 in the
    street that is taken, and 0 in all others.
    """
    x, y = routes[..., 0], routes[..., 1]
    taken = np.empty((len(routes), len(centres)), dtype=int)
    for column, c in enumerate(centres):
        beyond = x >= c
        row, at = np.nonzero(beyond[:, 1:] != beyond[:, :-1])
        share = (c - x[row, at]) / (x[row, at + 1] - x[row, at])
        street = np.searchsorted(centres, y[row, at] + share * (y[row, at + 1] - y[row, at]))
        counts = np.zeros((len(routes), len(centres) + 1), dtype=int)
        np.add.at(counts, (row, street), np.where(beyond[row, at + 1], 1, -1))
        alone = (np.sum(np.abs(counts), axis=1) == 1) & (counts.max(axis=1) == 1)
        taken[:, column] = np.where(alone, counts.argmax(axis=1), -1)
    return taken


def street_names(routes: Float[np.ndarray, "N P 2"], centres: Float[np.ndarray, " C"]) -> list[str]:
    """The name of each route: a digit for each column, or OTHER."""
    return [OTHER if min(row) < 0 else "".join(map(str, row)) for row in streets_taken(routes, centres).tolist()]


def one_way_distance(one: Float[np.ndarray, "P 2"], other: Float[np.ndarray, "Q 2"]) -> float:
    """The mean distance from a route's points to the nearest of the other's, meaned over both ways."""
    there, back = spatial.KDTree(other).query(one)[0], spatial.KDTree(one).query(other)[0]
    return 0.5 * float(np.mean(there) + np.mean(back))


def best_diverse(
    returns: Float[np.ndarray, " N"], routes: Float[np.ndarray, "N P 2"], count: int, distance: float
) -> list[int]:
    """Greedily the best routes that lie at least `distance` apart, best first: at most `count` of them, fewer where no
    other is left.
    """
    chosen: list[int] = []
    for number in np.argsort(-returns, kind="stable").tolist():
        if all(_apart(routes[number], routes[each], distance) for each in chosen):
            chosen.append(number)
            if len(chosen) == count:
                break
    return chosen


def _apart(one: np.ndarray, other: np.ndarray, distance: float) -> bool:
    return one_way_distance(one, other) >= distance
