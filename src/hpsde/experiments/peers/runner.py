"""The runs of the comparison, each of which becomes a row."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpsde.experiments.gauntlet.rows import Key, settings_text
from hpsde.experiments.gauntlet.runner import Done
from hpsde.experiments.peers.measures import ACCURACIES, accuracy_name, answered_share, peak_ratios
from hpsde.experiments.peers.methods import PEERS, PeerOutcome, compete
from hpsde.experiments.peers.tasks import NICHE_RADII, POINTS, part_of, peers_task
from hpsde.tasks.gauntlet.known import KnownTask

FINEST = accuracy_name(ACCURACIES[-1])


@dataclass(frozen=True)
class PeerJob:
    """A run to do: a peer, a task, the evaluations it may use, and the seed of both."""

    cell: str
    seed: int
    peer: str
    evaluations: int

    @property
    def key(self) -> Key:
        """As the rows' `key`."""
        return self.cell, self.seed, self.peer, settings_text({}, self.evaluations)


def chosen_jobs(
    tasks: Sequence[str], peers: Sequence[str], seeds: Sequence[int], evaluations: Mapping[str, Sequence[int]]
) -> list[PeerJob]:
    """All runs, those of a peer and a task together; `evaluations` by part."""
    return [
        PeerJob(task, seed, peer, number)
        for task in tasks
        for peer in peers
        if part_of(task) in PEERS[peer].parts
        for number in evaluations[part_of(task)]
        for seed in seeds
    ]


def execute(job: PeerJob) -> Done:
    """Do a run. What it raises becomes a row too: nothing is raised here."""
    row = _known(job)
    try:
        task = peers_task(job.cell, job.seed)
        contexts = np.asarray(task.evaluation_contexts(), dtype=float)
        begin = time.perf_counter()
        outcome = compete(job.peer, task, job.evaluations, job.seed, contexts)
        row |= {"learner_seconds": time.perf_counter() - begin, "rollouts": outcome.evaluated}
        return Done(job, row | judged(job.cell, task, contexts, outcome))
    except Exception as error:
        return Done(job, row | {"error": traceback.format_exception_only(error)[-1].strip().splitlines()[-1]})


def lost(job: PeerJob) -> Done:
    """What a run is whose process died."""
    return Done(job, _known(job) | {"error": "its worker process died (out of memory?)"})


def judged(name: str, task: KnownTask, contexts: np.ndarray, outcome: PeerOutcome) -> dict[str, Any]:
    """The entries of a row that say how good the answers are."""
    row: dict[str, Any] = {
        "context_size": task.context_size,
        "parameter_size": task.parameter_size,
        "solutions": sum(solution.required for solution in task.solutions),
        "options": int(np.median([len(each) for each in outcome.answers])),
    }
    if part_of(name) == POINTS:
        ratios = peak_ratios(task, outcome.answers[0], NICHE_RADII[name])
        found = round(ratios[FINEST] * row["solutions"])
        return row | {"coverage": ratios[FINEST], "found": found, "measures": ratios}
    return row | {"coverage": answered_share(task, contexts, outcome.answers)}


def _known(job: PeerJob) -> dict[str, Any]:
    return {
        "cell": job.cell,
        "family": part_of(job.cell),
        "hopeless": False,
        "seed": job.seed,
        "method": job.peer,
        "settings": settings_text({}, job.evaluations),
        "error": "",
    }
