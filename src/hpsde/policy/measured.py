"""What options have really earned: the returns of the rollouts that each has made."""

from __future__ import annotations

import numpy as np

NEWEST = 20
"""So many of an option's rollouts are looked at. Older ones were drawn when the option was another, mostly wider."""


def measured_returns(
    numbers: np.ndarray, drew: np.ndarray, returns: np.ndarray, failed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean return [O] of the newest rollouts of the options of these numbers [O], and how many those are [O].

    drew, returns, failed [N]: of all rollouts, the oldest first, the number of the option that made it (0: none), its
    return, and whether it gave none. At most NEWEST are taken of each option; the mean of none is 0.
    """
    means, counts = np.zeros(len(numbers)), np.zeros(len(numbers), dtype=np.int64)
    for place, number in enumerate(numbers):
        newest = returns[(drew == number) & (number > 0) & ~failed][-NEWEST:]
        if len(newest):
            means[place], counts[place] = newest.mean(), len(newest)
    return means, counts
