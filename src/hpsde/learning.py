"""The loop of Algorithm 1 closed over a task: ask, evaluate, tell, until the rollouts are spent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from hpsde._precision import double_precision
from hpsde.learner import HPSDE, Info
from hpsde.policy import HierarchicalPolicy
from hpsde.tasks.solutions import coverage_and_surplus

BATCH = 50


@dataclass(frozen=True)
class Iteration:
    """One round of rollouts and the policy after it."""

    iteration: int
    rollouts: int
    returns: np.ndarray
    learner_seconds: float
    task_seconds: float
    info: Info


class _Clock:
    """Adds up the seconds spent inside `with`."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._start


@double_precision
def _sample_contexts(task: Any, seed: int, iteration: int, n: int) -> np.ndarray:
    # A stream of its own: the learner's draws do not depend on how contexts are drawn.
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 1_000_003), iteration)
    return np.asarray(task.sample_contexts(key, n), dtype=float)


def iterate(
    task: Any, learner: HPSDE, *, rollouts: int, batch: int = BATCH, initial_rollouts: int | None = None
) -> Iterator[Iteration]:
    """Learn `task` until `rollouts` have been done in all, the initial ones included. One item per round.

    The first round has `initial_rollouts` (the learner's own number by default), the others `batch`.
    """
    learning, evaluating = _Clock(), _Clock()
    first = learner.initial_rollouts if initial_rollouts is None else initial_rollouts
    iteration = 0
    while (done := len(learner.rollouts)) < rollouts:
        n = min(first if done == 0 else batch, rollouts - done)
        with evaluating:
            contexts = _sample_contexts(task, learner.seed, iteration, n)
        with learning:
            parameters = learner.ask(contexts).parameters
        with evaluating:
            returns = np.asarray(task.evaluate(contexts, parameters), dtype=float)
        with learning:
            learner.tell(contexts, parameters, returns, failed=~np.isfinite(returns))
            learner.policy  # noqa: B018 - re-estimates, so that its time and its info belong to this round
        yield Iteration(
            iteration, len(learner.rollouts), returns, learning.seconds, evaluating.seconds, learner.info
        )
        iteration += 1


def measure(task: Any, policy: HierarchicalPolicy) -> dict[str, Any]:
    """How good the greedy policy is on the task's evaluation contexts, and what its options cover."""
    contexts = np.asarray(task.evaluation_contexts(), dtype=float)
    chosen = policy.choose(contexts)
    means = policy.option_means(contexts)
    parameters = means[chosen, np.arange(len(chosen))]
    returns = np.asarray(task.evaluate(contexts, parameters), dtype=float)
    result: dict[str, Any] = {
        "greedy_mean_return": float(returns.mean()),
        "greedy_median_return": float(np.median(returns)),
        "options_kept": len(means),
        "options_used": len(np.unique(chosen)),
        "coverage": None,
        "surplus": None,
    }
    solutions = getattr(task, "solutions", None)
    if solutions:
        covered = coverage_and_surplus(solutions, contexts, means)
        result.update(coverage=covered.coverage, surplus=covered.surplus)
    measures = getattr(task, "measures", None)
    if measures is not None:
        result.update(measures(contexts, parameters))
    return result
