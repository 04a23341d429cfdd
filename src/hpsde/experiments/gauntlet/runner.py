"""Runs of the gauntlet in processes that stay, so that what one run compiled serves the next."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hpsde.experiments.gauntlet.rows import Key, Row, settings_text
from hpsde.experiments.pool import in_processes
from hpsde.learning import budget, iterate
from hpsde.methods import DEFAULT_METHOD, make_learner
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.tasks import gauntlet
from hpsde.tasks.gauntlet.score import score
from hpsde.tasks.task import task_extras, task_measures

MOST_GRID_POINTS = 51
"""How many contexts the means of the options are kept at."""


@dataclass(frozen=True)
class GauntletJob:
    """A run to do. The seed is the task's and the learner's; `rollouts` is the most, None: as the task says.

    keep: whether the means of the options are wanted too, for a picture.
    """

    cell: str
    seed: int
    method: str = DEFAULT_METHOD
    settings: Mapping[str, Any] = field(default_factory=dict)
    rollouts: int | None = None
    keep: bool = False

    @property
    def name(self) -> str:
        """'ridges-4@17', which `make_task` knows too."""
        return f"{self.cell}@{self.seed}"

    @property
    def key(self) -> Key:
        """As `rows.key`."""
        return self.cell, self.seed, self.method, settings_text(self.settings, self.rollouts)


class Done(NamedTuple):
    """A finished run: its row, and the means of its options [O, C, D] at `picture_contexts` where they are kept."""

    job: Any
    row: Row
    means: np.ndarray | None = None


def execute(job: GauntletJob) -> Done:
    """Do a run. What it raises becomes a row too: nothing is raised here."""
    row = _known(job)
    try:
        task = gauntlet.CELLS[job.cell].make(job.seed)
        first, total = _rollouts(job, task)
        row |= {"context_size": task.context_size, "parameter_size": task.parameter_size, "rollouts": total}
        row |= {"solutions": sum(solution.required for solution in task_extras(task).solutions)}
        given = {"initial_rollouts": first, "expected_rollouts": total} | dict(job.settings)
        learner = make_learner(job.method, task, seed=job.seed, **given)
        iterations = list(iterate(task, learner, rollouts=total))
        policy = learner.policy
        row |= score(task, policy) | {
            "measures": measures(task, policy),
            "doubts": "+".join(dict.fromkeys(doubt.kind for doubt in getattr(policy, "doubts", ()))),
            "learner_seconds": iterations[-1].learner_seconds,
            "steps": len(iterations),
        }
        keep = job.keep and is_drawn(task)
        return Done(job, row, policy.option_means(picture_contexts(task)) if keep else None)
    except Exception as error:
        return _failed(job, row, traceback.format_exception_only(error)[-1].strip().splitlines()[-1])


def _known(job: GauntletJob) -> dict[str, Any]:
    cell = gauntlet.CELLS[job.cell]
    return {
        "cell": job.cell,
        "family": cell.family,
        "hopeless": cell.hopeless,
        "seed": job.seed,
        "method": job.method,
        "settings": settings_text(job.settings, job.rollouts),
    }


def _rollouts(job: GauntletJob, task: Any) -> tuple[int, int]:
    extras = task_extras(task)
    return budget(extras, None, None if job.rollouts is None else min(job.rollouts, extras.rollouts))


def _failed(job: GauntletJob, row: Row, error: str) -> Done:
    return Done(job, {**row, "found": 0, "coverage": 0.0, "exact": False, "error": error})


def measures(task: Any, policy: HierarchicalPolicy) -> dict[str, float]:
    """What the task measures besides the return, of the greedy policy, as means over the evaluation contexts."""
    if not hasattr(task, "measures"):
        return {}
    contexts = np.asarray(task.evaluation_contexts(), dtype=float)
    found = task_measures(task, contexts, policy.act(contexts))
    return {name: float(np.mean(values)) for name, values in found.items()}


def is_drawn(task: Any) -> bool:
    """Whether a run can be drawn on paper: one context and one parameter, or two parameters alone."""
    return (task.context_size, task.parameter_size) in ((1, 1), (0, 2))


def picture_contexts(task: Any) -> np.ndarray:
    """The contexts at which the means of the options are kept for a picture: an even grid, or the empty context."""
    contexts = np.asarray(task.evaluation_contexts(), dtype=float)
    if task.context_size == 0:
        return contexts[:1]
    return np.linspace(contexts.min(axis=0), contexts.max(axis=0), MOST_GRID_POINTS)


def lost(job: GauntletJob) -> Done:
    """What a run is whose process died."""
    return _failed(job, _known(job), "its worker process died (out of memory?)")


def run_all(jobs: Sequence[GauntletJob], workers: int) -> Iterator[Done]:
    """Every job with what came of it, as they are done: in so many processes, or with 0 in this one."""
    yield from run_jobs(jobs, workers, execute, lost)


def run_jobs(
    jobs: Sequence[Any], workers: int, execute: Callable[[Any], Done], lost: Callable[[Any], Done]
) -> Iterator[Done]:
    """As `run_all`, of any kind of job that has a `cell`: runs of one cell compile the same.

    execute: does a job. lost: what becomes of one whose process died.
    """
    with closing(in_processes(jobs, workers, execute, lost, lambda job: job.cell)) as finished:
        for _, done in finished:
            yield done
