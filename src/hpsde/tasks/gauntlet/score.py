"""How well a policy solves a task whose solutions and best returns are known."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from hpsde.base.later import Later
from hpsde.tasks.solutions import Solution, coverage_and_surplus

sparse = Later("scipy.sparse")
csgraph = Later("scipy.sparse.csgraph")


__all__ = ["Policy", "score"]


@runtime_checkable
class Policy(Protocol):
    """What is judged, such as `hpsde.policy.hierarchical.HierarchicalPolicy`."""

    def act(self, context: Any = None) -> Any:
        """The best known parameters [C, D] in contexts [C, S]."""

    def option_means(self, contexts: Any = None) -> Any:
        """The mean parameters [O, C, D] of every option."""


def score(task: Any, policy: Policy) -> dict[str, Any]:
    """What a policy found, and what its greedy choice loses, on the task's evaluation contexts.

    solutions: required solutions that are valid in some context.
    found: of these, how many some option follows.
    options: how many options there are.
    coverage: found / solutions; NaN where there are none.
    surplus: options that are left over when each is matched with a solution, required or not, that it follows
        and no other is matched with, so that as many as possible are matched: options that follow nothing, doubles.
    exact: whether coverage is 1 and surplus 0.
    regret: mean(best return - true return of act) / (mean best return - blind return), the share of what the
        initial distribution loses: 0 is perfect, 1 as bad as blind; NaN where nothing can be lost.
    """
    contexts = np.asarray(task.evaluation_contexts(), dtype=float)
    means = np.asarray(policy.option_means(contexts), dtype=float)
    solutions = [solution for solution in task.solutions if _is_valid_somewhere(solution, contexts)]
    required = np.array([solution.required for solution in solutions], dtype=bool)
    followed = np.zeros((len(means), len(solutions)), dtype=bool)
    if solutions:
        followed = coverage_and_surplus(solutions, contexts, means).followed
    asked, found = int(required.sum()), int(np.any(followed[:, required], axis=0).sum())
    surplus = len(means) - _matched(followed)
    return {
        "solutions": asked,
        "found": found,
        "options": len(means),
        "coverage": found / asked if asked else float("nan"),
        "surplus": surplus,
        "exact": asked > 0 and found == asked and surplus == 0,
        "regret": regret(task, contexts, policy.act(contexts)),
    }


def regret(task: Any, contexts: np.ndarray, parameters: Any) -> float:
    """(mean best return - mean true return of `parameters` [C, D]) / (mean best return - blind return)."""
    best = float(np.mean(task.best_returns(contexts)))
    at_stake = best - task.blind_return()
    lost = best - float(np.mean(task.true_returns(contexts, parameters)))
    return lost / at_stake if at_stake > 0.0 else float("nan")


def _matched(followed: np.ndarray) -> int:
    """The size of a largest one-to-one matching between options and solutions [O, K]."""
    if not followed.size:
        return 0
    partner = csgraph.maximum_bipartite_matching(sparse.csr_array(followed), perm_type="column")
    return int(np.sum(partner >= 0))


def _is_valid_somewhere(solution: Solution, contexts: np.ndarray) -> bool:
    return solution.valid is None or bool(np.any(solution.valid(contexts)))
