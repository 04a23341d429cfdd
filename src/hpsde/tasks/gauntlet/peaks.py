"""Returns that are the highest of several peaks, each round a curve of best parameters: the gauntlet's common form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpsde.base.distributions import Uniform
from hpsde.base.shapes import Float
from hpsde.tasks.gauntlet.known import Cell, KnownTask, generator, known_task
from hpsde.tasks.solutions import Solution

__all__ = ["CONTEXT_RANGE", "Peak", "Profile", "bell", "context_grid", "peak_cell", "peak_returns", "peak_task"]

CONTEXT_RANGE = (-1.0, 1.0)
VALID_STRENGTH = 0.8
"""A peak that exists in part of the contexts is a solution where it has at least this share of its height."""

Profile = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Peak:
    """One peak of a return: h g(s) p(z), with z = |(xi - c(s)) W| the distance from its curve in widths.

    curve: c, contexts [N, S] -> its best parameters [N, D].
    scale: W [D, M], one over the width in each direction that matters.
    height: h.
    strength: g, contexts [N, S] -> [N] in [0, 1], where the peak exists; None: everywhere.
    required: whether a learner must find it.
    tolerance: up to what z parameters follow it.
    """

    curve: Callable[[np.ndarray], np.ndarray]
    scale: np.ndarray
    height: float = 1.0
    strength: Callable[[np.ndarray], np.ndarray] | None = None
    required: bool = True
    tolerance: float = 1.0

    def distances(self, contexts: np.ndarray, parameters: np.ndarray) -> Float[np.ndarray, " N"]:
        """z, the distances from the curve in widths."""
        return np.linalg.norm((parameters - self.curve(contexts)) @ self.scale, axis=1)

    def heights(self, contexts: np.ndarray) -> Float[np.ndarray, " N"]:
        """h g(s), the height in each context."""
        return self.height * (np.ones(len(contexts)) if self.strength is None else self.strength(contexts))

    def solution(self, name: str) -> Solution:
        """The solution to keep on this peak's curve, within its tolerance."""
        strength = self.strength
        return Solution(
            name,
            follows=lambda contexts, parameters: self.distances(contexts, parameters) <= self.tolerance,
            valid=None if strength is None else lambda contexts: strength(contexts) >= VALID_STRENGTH,
            parameters=self.curve,
            required=self.required,
        )


def bell(z: np.ndarray) -> np.ndarray:
    """The profile exp(-z^2 / 2)."""
    return np.exp(-0.5 * z**2)


def peak_returns(peaks: Sequence[Peak], profile: Profile) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """R(s, xi) = max_k h_k g_k(s) p(z_k)."""

    def returns(contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.max([k.heights(contexts) * profile(k.distances(contexts, parameters)) for k in peaks], axis=0)

    return returns


def peak_task(
    name: str,
    peaks: Sequence[Peak],
    *,
    context_size: int = 0,
    initial: Any = None,
    profile: Profile = bell,
    level: Callable[[np.ndarray], np.ndarray] = lambda contexts: np.zeros(len(contexts)),
    **extras: Any,
) -> KnownTask:
    """The task of finding all `peaks`: contexts uniform in [-1, 1]^S, first parameters in [0, 1]^D unless given.

    The best return, max_k h_k g_k(s) p(0), is reached on the curve of the highest peak. To all returns in contexts
    [N, S] the `level` [N] there is added.
    """
    highest = float(profile(np.zeros(1))[0])
    above = peak_returns(peaks, profile)
    low, high = (np.full(context_size, end) for end in CONTEXT_RANGE)
    size = len(peaks[0].scale)
    return known_task(
        name,
        lambda contexts, parameters: level(contexts) + above(contexts, parameters),
        lambda contexts: level(contexts) + highest * np.max([peak.heights(contexts) for peak in peaks], axis=0),
        contexts=Uniform(low, high) if context_size else None,
        initial=Uniform(np.zeros(size), np.ones(size)) if initial is None else initial,
        solutions=tuple(peak.solution(f"peak {k + 1}") for k, peak in enumerate(peaks)),
        **extras,
    )


def peak_cell(
    name: str,
    family: str,
    description: str,
    draw: Callable[[np.random.Generator], Sequence[Peak]],
    *,
    geometry: str | None = None,
    **extras: Any,
) -> Cell:
    """The cell whose tasks have the peaks that `draw` draws; cells of one `geometry` have the same ones."""

    def make(seed: int) -> KnownTask:
        peaks = draw(generator(geometry or name, seed))
        return peak_task(f"{name}@{seed}", peaks, description=description, **extras)

    return Cell(name, family, make, description)


def context_grid(context_size: int) -> Float[np.ndarray, "C S"]:
    """An even grid over the contexts, their corners included; the one empty context where S = 0."""
    if context_size == 0:
        return np.zeros((1, 0))
    axes = [np.linspace(*CONTEXT_RANGE, 101 if context_size == 1 else 11)] * context_size
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, context_size)
