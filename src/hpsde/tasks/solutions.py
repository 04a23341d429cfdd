"""How well a policy's options cover the solutions that a task is known to have.

A solution is a rule that says, context by context, whether given parameters belong to it. An option *follows*
a solution when its mean does so in a large enough share of the contexts where it could. Then *coverage* is the
share of the required solutions that some option follows, and *surplus* is the number of options that follow none.

Which contexts, and what share, is the solution's to say. On the toys it is 80 % of the contexts where the
solution is the best or equal to the best. On the puddle it is a tenth of all contexts: options share a gap, no
gap is good everywhere, and one that is never the best is a solution all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpsde.errors import InputError

__all__ = ["FOLLOW_SHARE", "TOLERANCE", "Coverage", "Solution", "coverage_and_surplus", "solution_at"]

FOLLOW_SHARE = 0.8
"""The share of a solution's valid contexts in which an option must follow it, unless the solution says otherwise."""

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
    valid: contexts [C, S] -> bool [C], where an option could follow it: on the toys, where this solution is the
        best or equal to it; None: everywhere.
    parameters: contexts [C, S] -> [C, D], parameters that belong to it, the best where these are known (for
        pictures).
    share: of the valid contexts, in how many an option must follow this solution.
    required: False for a clearly lower optimum, which need not be found; an option that follows it is no surplus.
    """

    name: str
    follows: Callable[[np.ndarray, np.ndarray], np.ndarray]
    valid: Callable[[np.ndarray], np.ndarray] | None = None
    parameters: Callable[[np.ndarray], np.ndarray] | None = None
    share: float = FOLLOW_SHARE
    required: bool = True

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise InputError(f"share: expected more than 0 and at most 1, got {self.share!r}")


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

    coverage: share of the required solutions that some option follows; 1 where none is required.
    surplus: how many options follow no solution, required or not.
    table [O, K]: the share of solution k's valid contexts in which option o follows it (NaN: none is valid).
    followed [O, K]: whether that share is large enough for option o to follow solution k.
    names: the K solutions.
    found: the names of those that some option follows.
    """

    coverage: float
    surplus: int
    table: np.ndarray
    followed: np.ndarray
    names: tuple[str, ...]
    found: tuple[str, ...]


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
    # 4 of 5 are a share of 0.8, in spite of rounding. NaN is no share.
    followed = table >= np.array([solution.share for solution in solutions]) - 1e-12
    found = np.any(followed, axis=0)
    asked = judged & np.array([solution.required for solution in solutions])
    names = tuple(solution.name for solution in solutions)
    return Coverage(
        coverage=float(np.mean(found[asked])) if np.any(asked) else 1.0,
        surplus=int(np.sum(~np.any(followed, axis=1))),
        table=table,
        followed=followed,
        names=names,
        found=tuple(name for name, of_some in zip(names, found, strict=True) if of_some),
    )


def _valid(solution: Solution, contexts: np.ndarray) -> np.ndarray:
    if solution.valid is None:
        return np.ones(len(contexts), dtype=bool)
    return np.asarray(solution.valid(contexts), dtype=bool)
