"""Contexts for rivals that know none: a grid of bins, each with its share of the budget, the nearest one answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde.base.shapes import Float

EVALUATIONS_PER_BIN = 10.0


class Bins(NamedTuple):
    """The middles [B, S] of the bins, and the points [., D] reported in each."""

    centres: np.ndarray
    points: list[np.ndarray]
    width: np.ndarray

    def answers(self, contexts: np.ndarray) -> list[np.ndarray]:
        """For every context [C, S] the points of the bin whose middle is nearest, in units of a bin's width."""
        distances = np.linalg.norm((contexts[:, None] - self.centres[None]) / self.width, axis=2)
        return [self.points[nearest] for nearest in np.argmin(distances, axis=1)]


def bin_count(budget: int, context_size: int) -> int:
    """Bins along each context number: in all about sqrt(budget / 10), so that both bins and shares grow."""
    return max(1, round((budget / EVALUATIONS_PER_BIN) ** (0.5 / context_size)))


def bin_centres(low: np.ndarray, high: np.ndarray, count: int) -> Float[np.ndarray, "B S"]:
    """The middles of `count` bins along every context number between low [S] and high [S]."""
    axes = [a + (b - a) * (np.arange(count) + 0.5) / count for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def shares(budget: int, count: int) -> list[int]:
    """The budget split evenly; what is left over goes to the first bins."""
    each, over = divmod(budget, count)
    return [each + (number < over) for number in range(count)]
