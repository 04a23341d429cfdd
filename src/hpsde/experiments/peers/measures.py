"""What the points that a method reports are worth: the same measure for all. It evaluates without counting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpsde.base.shapes import Bool, Float
from hpsde.tasks.gauntlet.known import KnownTask
from hpsde.tasks.solutions import Solution

ACCURACIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
TOLERATED = 0.01
"""How much of a solution's best return an answer may lose, as a share of what blind parameters lose."""
NO_CONTEXT = np.zeros((1, 0))


def peak_ratios(task: KnownTask, points: np.ndarray, radius: float) -> dict[str, float]:
    """The share of the global optima that are found among the points [K, D], for every accuracy.

    An optimum is found if a point lies within `radius` of it, and loses no more than the accuracy. A point is held
    against the optimum next to it alone, and each optimum counts once.
    """
    optima = np.concatenate([best_parameters(solution, NO_CONTEXT) for solution in task.solutions if solution.required])
    if not len(points):
        return {accuracy_name(accuracy): 0.0 for accuracy in ACCURACIES}
    distances = np.linalg.norm(points[:, None] - optima[None], axis=2)
    nearest = np.argmin(distances, axis=1)
    near = distances[np.arange(len(points)), nearest] <= radius
    none = np.repeat(NO_CONTEXT, len(points), axis=0)
    lost = task.best_returns(none) - task.true_returns(none, points)
    return {
        accuracy_name(accuracy): len(np.unique(nearest[near & (lost <= accuracy)])) / len(optima)
        for accuracy in ACCURACIES
    }


def accuracy_name(accuracy: float) -> str:
    """'1e-05'."""
    return f"{accuracy:.0e}"


def answered(task: KnownTask, contexts: np.ndarray, answers: Sequence[np.ndarray]) -> Bool[np.ndarray, "C K"]:
    """Which solutions are found in which contexts [C, S], by the answers [., D] in each.

    A solution is found in a context if an answer is nearer to it than to all others, and loses at most 1 % of what
    blind parameters lose against that solution's own best return. `possible` says which solutions there are.
    """
    solutions = [solution for solution in task.solutions if solution.required]
    best = np.stack([best_parameters(solution, contexts) for solution in solutions], axis=1)  # [C, K, D]
    highest = np.stack([task.true_returns(contexts, best[:, k]) for k in range(len(solutions))], axis=1)
    allowed = TOLERATED * at_stake(task)
    scale = _width(task)
    found = np.zeros(highest.shape, dtype=bool)
    for c, given in enumerate(answers):
        if len(given):
            nearest = np.argmin(np.linalg.norm((given[:, None] - best[c]) / scale, axis=2), axis=1)
            returns = task.true_returns(np.repeat(contexts[c : c + 1], len(given), axis=0), given)
            found[c, nearest[returns >= highest[c, nearest] - allowed]] = True
    return found


def possible(task: KnownTask, contexts: np.ndarray) -> Bool[np.ndarray, "C K"]:
    """In which contexts the required solutions exist."""
    everywhere = np.ones(len(contexts), dtype=bool)
    valid = [s.valid(contexts) if s.valid is not None else everywhere for s in task.solutions if s.required]
    return np.stack(valid, axis=1)


def answered_share(task: KnownTask, contexts: np.ndarray, answers: Sequence[np.ndarray]) -> float:
    """The share of the pairs of a context and a solution that exists there which are found."""
    return float(np.mean(answered(task, contexts, answers)[possible(task, contexts)]))


def at_stake(task: KnownTask) -> float:
    """What blind parameters lose: the mean best return minus that of the initial distribution."""
    return float(np.mean(task.best_returns(task.evaluation_contexts()))) - task.blind_return()


def best_parameters(solution: Solution, contexts: np.ndarray) -> Float[np.ndarray, "C D"]:
    """The best parameters of a solution in contexts [C, S]."""
    if solution.parameters is None:
        raise ValueError(f"{solution.name}: expected a solution whose best parameters are known")
    return np.asarray(solution.parameters(contexts), dtype=float)


def _width(task: KnownTask) -> np.ndarray:
    bounds = task.parameter_bounds
    return np.ones(task.parameter_size) if bounds is None else bounds[1] - bounds[0]
