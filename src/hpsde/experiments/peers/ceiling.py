"""What bins cost: the share of pairs that the nearest bin answers if every bin knows its solutions exactly."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from hpsde.experiments.gauntlet.rows import Row
from hpsde.experiments.peers.bins import Bins
from hpsde.experiments.peers.measures import answered_share, best_parameters
from hpsde.experiments.peers.methods import context_bins
from hpsde.experiments.peers.tasks import peers_task


@cache
def ceiling(name: str, seed: int, budget: int) -> float:
    """The share of pairs that bins without an error of their own answer, with the bins of this budget."""
    task = peers_task(name, seed)
    contexts = np.asarray(task.evaluation_contexts(), dtype=float)
    centres, width = context_bins(task, budget)
    solutions = [solution for solution in task.solutions if solution.required]
    exact = [np.concatenate([best_parameters(each, centre[None]) for each in solutions]) for centre in centres]
    return answered_share(task, contexts, Bins(centres, exact, width).answers(contexts))


def mean_ceiling(rows: Sequence[Row], budget: int) -> float:
    """The mean over the tasks and seeds of these rows."""
    return float(np.mean([ceiling(name, seed, budget) for name, seed in {(r["cell"], r["seed"]) for r in rows}]))
