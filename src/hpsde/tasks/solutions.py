"""How well a policy's options cover the solutions that a task is known to have.

A solution is a rule that says, context by context, whether given parameters belong to it. An option *follows*
a solution when its mean does so in at least 80 % of the contexts where that solution is the best or equal to
the best. Then *coverage* is the share of the solutions that some option follows, and *surplus* is the number
of options that follow none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpsde.errors import InputError

__all__ = ["FOLLOW_SHARE", "TOLERANCE", "Coverage", "Solution", "coverage_and_surplus", "solution_at"]

FOLLOW_SHARE = 0.8
"""An option follows a solution when it does so in this share of the contexts where the solution is valid."""

TOLERANCE = 0.05
"""How far, in the unit of the parameter, an option may lie from a known best parameter and still follow it.

On the toy tasks this is 1.25 to 2.5 % of the range of the parameter, and a sixth of the smallest gap between
two solutions (0.3), so that an option can never follow two of them at once. At this distance the return is
still within 0.5 % of the best on the lines, and within 1.5 % on the arcs.
"""


@dataclass(frozen=True)
class Solution:
    """One way to solve a task.

    name: what to call it.
    follows: (contexts [C, S], parameters [C, D]) -> bool [C], whether the parameters belong to this solution.
    valid: contexts [C, S] -> bool [C], where this solution is the best or equal to it; None: everywhere.
    parameters: contexts [C, S] -> [C, D], the best parameters, where they are known (for pictures).
    """

    name: str
    follows: Callable[[np.ndarray, np.ndarray], np.ndarray]
    valid: Callable[[np.ndarray], np.ndarray] | None = None
    parameters: Callable[[np.ndarray], np.ndarray] | None = None


def solution_at(
    name: str,
    parameters: Callable[[np.ndarray], np.ndarray],
    valid: Callable[[np.ndarray], np.ndarray] | None = None,
    tolerance: float = TOLERANCE,
) -> Solution:
    """The solution whose best parameters are `parameters(contexts)`: others follow it within `tolerance`."""

    def follows(contexts: np.ndarray, given: np.ndarray) -> np.ndarray:
        return np.linalg.norm(given - parameters(contexts), axis=1) <= tolerance

    return Solution(name, follows, valid, parameters)


@dataclass(frozen=True, eq=False)
class Coverage:
    """What `coverage_and_surplus` found.

    coverage: share of the solutions that some option follows.
    surplus: how many options follow no solution.
    table [O, K]: the share of solution k's valid contexts in which option o follows it (NaN: none is valid).
    names: the K solutions.
    """

    coverage: float
    surplus: int
    table: np.ndarray
    names: tuple[str, ...]

    @property
    def found(self) -> tuple[str, ...]:
        """The names of the solutions that some option follows."""
        return tuple(name for name, shares in zip(self.names, self.table.T, strict=True) if np.any(_followed(shares)))


def coverage_and_surplus(solutions: Sequence[Solution], contexts: Any, option_means: Any) -> Coverage:
    """Coverage and surplus of options with means `option_means` [O, C, D] in `contexts` [C, S].

    A solution that is valid in none of the contexts cannot be judged and is left out of the share.
    """
    contexts, means = np.asarray(contexts, dtype=float), np.asarray(option_means, dtype=float)
    if not solutions:
        raise InputError("solutions: expected at least one known solution, got none")
    if contexts.ndim != 2:
        raise InputError(f"contexts: expected shape [C, S], got {list(contexts.shape)}")
    if means.ndim != 3 or means.shape[1] != len(contexts):
        raise InputError(f"option_means: expected shape [O, {len(contexts)}, D], got {list(means.shape)}")
    table = np.full((len(means), len(solutions)), np.nan)
    judged = np.zeros(len(solutions), dtype=bool)
    for k, solution in enumerate(solutions):
        valid = _valid(solution, contexts)
        judged[k] = np.any(valid)
        for o, mean in enumerate(means):
            if judged[k]:
                table[o, k] = np.mean(np.asarray(solution.follows(contexts[valid], mean[valid]), dtype=bool))
    if not np.any(judged):
        raise InputError(f"contexts: none of the {len(solutions)} solutions is valid in any of the contexts")
    followed = _followed(table)
    coverage = float(np.mean(np.any(followed[:, judged], axis=0)))
    surplus = int(np.sum(~np.any(followed, axis=1)))
    return Coverage(coverage, surplus, table, tuple(solution.name for solution in solutions))


def _valid(solution: Solution, contexts: np.ndarray) -> np.ndarray:
    if solution.valid is None:
        return np.ones(len(contexts), dtype=bool)
    return np.asarray(solution.valid(contexts), dtype=bool)


def _followed(shares: np.ndarray) -> np.ndarray:
    """Whether a share reaches FOLLOW_SHARE; 4 of 5 does, in spite of rounding. NaN does not."""
    return shares >= FOLLOW_SHARE - 1e-12
