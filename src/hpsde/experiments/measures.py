"""What an experiment measures beside what `hpsde.learning.measure` does: what options can do, whatever the gate."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpsde.tasks import Task, task_extras
from hpsde.tasks.reach import ReachTask


def option_measures(task: Task, means: np.ndarray, coverage: float | None) -> dict[str, Any]:
    """Measures of options with means [O, C, D] in the C evaluation contexts.

    best_option_return: the mean return if the best option were chosen in every context.
    solutions_found: how many of the task's known solutions some option follows; `coverage` is their share.
    both_sides: for an arm, the share of the goals that some option reaches on the left of the pole and another one on
        the right.
    """
    contexts = np.asarray(task.evaluation_contexts(), dtype=float)
    returns = np.array([task.evaluate(contexts, mean) for mean in means])
    found: dict[str, Any] = {"best_option_return": float(returns.max(axis=0).mean())}
    if coverage is not None:
        found["solutions_found"] = round(coverage * len(task_extras(task).solutions))
    if isinstance(task, ReachTask):
        found["both_sides"] = both_sides(task, contexts, means)
    return found


def both_sides(task: ReachTask, goals: np.ndarray, means: np.ndarray) -> float:
    """The share of the goals [C, 3] where of the angles [O, C, J] some succeed on either side of the pole."""
    measures = [task.measures(goals, mean) for mean in means]
    reached = [np.any([each["success"] & (each["side"] == side) for each in measures], axis=0) for side in (-1.0, 1.0)]
    return float(np.mean(reached[0] & reached[1]))
