"""Learn a task, keep a record of it, and write both to a folder."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from hpsde._compilations import count_compilations
from hpsde._progress import progress_bar
from hpsde.commands import _folder as files
from hpsde.learner import HPSDE
from hpsde.learning import Iteration, iterate, measure
from hpsde.policy import HierarchicalPolicy

ROLLOUT_ARRAYS = ("contexts", "parameters", "returns", "failed", "option", "iteration")


class Record:
    """What a run has to show so far."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.measures: dict[str, Any] = {}
        self.policy: HierarchicalPolicy | None = None
        self.compilations = 0

    def add(self, task: Any, step: Iteration, policy: HierarchicalPolicy) -> None:
        """Take in one more iteration."""
        self.policy = policy
        self.measures = measure(task, policy)
        self.rows.append(
            {
                "iteration": step.iteration,
                "batch_mean_return": _mean(step.returns),
                "greedy_mean_return": self.measures["greedy_mean_return"],
                **step.info.as_dict(),
                "rollouts": step.rollouts,
                "learner_seconds": step.learner_seconds,
                "task_seconds": step.task_seconds,
            }
        )

    def result(self) -> dict[str, Any]:
        """The measures of the last policy, and what it cost."""
        last = self.rows[-1]
        costs = {name: last[name] for name in ("rollouts", "ess", "learner_seconds", "task_seconds")}
        return self.measures | costs | {"compilations": self.compilations}


def _mean(returns: np.ndarray) -> float:
    """The mean over the rollouts that did not fail."""
    finite = returns[np.isfinite(returns)]
    return float(finite.mean()) if finite.size else float("nan")


def learn(record: Record, task: Any, learner: HPSDE, rollouts: int, batch: int, show_progress: bool) -> None:
    """Learn until `rollouts` are done; `record` is up to date after every iteration, however this ends."""
    with count_compilations() as compilations, progress_bar(rollouts, enabled=show_progress) as bar:
        for step in iterate(task, learner, rollouts=rollouts, batch=batch):
            record.add(task, step, learner.policy)
            record.compilations = compilations.count
            row = record.rows[-1]
            bar.update(
                step.rollouts,
                mean_return=row["greedy_mean_return"],
                options_kept=row["options_kept"],
                ess=row["ess"],
            )


def configuration(task: Any, method: str, learner: HPSDE, rollouts: int, batch: int) -> dict[str, Any]:
    """All that decides the outcome of a run, and the versions it ran with."""
    versions = {name: version(name) for name in ("hpsde", "jax", "jaxlib", "numpy", "scipy")}
    return {
        "task": task.name,
        "method": method,
        "seed": learner.seed,
        "rollouts": rollouts,
        "initial_rollouts": learner.initial_rollouts,
        "batch": batch,
        "settings": asdict(learner.settings),
        "versions": versions | {"python": platform.python_version()},
        "machine": platform.machine(),
    }


def save(folder: Path, learner: HPSDE, record: Record) -> None:
    """Write the iterations, all rollouts, and the policy of the last whole iteration."""
    if record.policy is None:
        return
    files.write_csv(folder / files.ITERATIONS, record.rows)
    files.write_arrays(folder / files.ROLLOUTS, {name: getattr(learner.rollouts, name) for name in ROLLOUT_ARRAYS})
    with files.replacing(folder / files.POLICY) as unfinished:
        record.policy.save(unfinished)
