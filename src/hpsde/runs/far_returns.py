"""Returns that are far outside all others, such as 1000 typed for 10: taken, but not in silence.

A return is far if it is more than FACTOR times as far from the median of those told before as any of them. The median
is robust, and the farthest of many returns grows slowly. Of runs of 400 returns with exponential tails one in a hundred
is warned of falsely, of normal or bounded ones none (tests/test_corrections.py draws them). A penalty that many
rollouts have is warned of once: afterwards it is among those told.
"""

from __future__ import annotations

import numpy as np

FACTOR = 5.0
LEAST = 10  # returns that the others are compared with


def may_be_far(lowest: float | None, highest: float | None, told: np.ndarray) -> bool:
    """Whether some of the returns told [N] may be far outside those told before, by the extremes of these alone.

    Whatever the median m between the lowest a and the highest b: the farthest is at least (b - a) / 2 from it. So none
    that is within FACTOR (b - a) / 2 of both a and b is far, and returns that rise step by step cost nothing.
    """
    if lowest is None or highest is None or lowest == highest:
        return False
    reach = FACTOR * 0.5 * (highest - lowest)
    return bool(np.any((told > lowest + reach) | (told < highest - reach)))


def far_returns(before: np.ndarray, told: np.ndarray) -> np.ndarray:
    """Which of the returns told [N] are far outside those told before [M].

    Where few were told before, the farthest of all is compared with the others, those told with it included.
    """
    none = np.zeros(len(told), dtype=bool)
    if len(before) >= LEAST:
        centre = np.median(before)
        reach = np.max(np.abs(before - centre))
        return none if reach == 0.0 else np.abs(told - centre) > FACTOR * reach
    together = np.concatenate([before, told])
    if len(together) <= LEAST:
        return none
    distance = np.abs(together - np.median(together))
    reach, farthest = np.sort(distance)[-2:]
    if reach == 0.0 or farthest <= FACTOR * reach:
        return none
    return distance[len(before) :] == farthest
