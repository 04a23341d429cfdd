"""The methods that are compared, by name: learners of this library, and rivals that search in one context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from hpsde.experiments.peers.bins import Bins, bin_centres, bin_count, shares
from hpsde.experiments.peers.counter import Counter
from hpsde.experiments.peers.evolution import cma_es, cma_mae
from hpsde.experiments.peers.local import l_bfgs_b, nelder_mead
from hpsde.experiments.peers.measures import at_stake
from hpsde.experiments.peers.process import gaussian_process
from hpsde.experiments.peers.search import Rival
from hpsde.experiments.peers.tasks import CONTEXTS, POINTS
from hpsde.learning import learn
from hpsde.methods import DEFAULT_METHOD
from hpsde.tasks.gauntlet.known import KnownTask

POINT_TOLERANCE, CONTEXT_TOLERANCE = 1e-6, 1e-3
"""What rivals are told to be exact to: a tenth of the least that the measures tell apart."""


class PeerOutcome(NamedTuple):
    """What a method made of its budget.

    answers: for each of the contexts asked about, the parameters [K, D] it reports there.
    evaluated: how many evaluations it used.
    """

    answers: list[np.ndarray]
    evaluated: int


@dataclass(frozen=True)
class Peer:
    """A method of the comparison: either a learner of this library, by its name, or a rival.

    reports: which points it reports, in words.
    needs: the module it needs of those in the extra `peers`.
    """

    description: str
    reports: str
    learner: str | None = None
    rival: Rival | None = None
    needs: str | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the comparison it takes part in: the baselines are about contexts."""
        return (CONTEXTS,) if self.learner not in (None, DEFAULT_METHOD) else (POINTS, CONTEXTS)


MEANS, ENDS = "the means of its options", "the end points of its searches, those apart from one another"
PEERS: Mapping[str, Peer] = {
    "hpsde": Peer("hpsde with its defaults", MEANS, learner=DEFAULT_METHOD),
    "nelder-mead": Peer("restarted Nelder-Mead (scipy)", ENDS, rival=nelder_mead),
    "l-bfgs-b": Peer("restarted L-BFGS-B (scipy), gradients by differences", ENDS, rival=l_bfgs_b),
    "cma-es": Peer("restarted CMA-ES (pycma)", ENDS, rival=cma_es, needs="cma"),
    "cma-mae": Peer(
        "CMA-MAE (pyribs) with parameters as measures", "elites above all cells round them", rival=cma_mae, needs="ribs"
    ),
    "gp": Peer(
        "Gaussian process (scikit-learn), L-BFGS-B from the maxima of its mean",
        ENDS,
        rival=gaussian_process,
        needs="sklearn",
    ),
    "hireps": Peer("HiREPS with its defaults", MEANS, learner="hireps"),
    "creps": Peer("contextual REPS with its defaults", MEANS, learner="creps"),
}


def compete(peer: str, task: KnownTask, budget: int, seed: int, contexts: np.ndarray) -> PeerOutcome:
    """Let a method spend at most `budget` evaluations on a task, then ask for its answers in contexts [C, S]."""
    counter = Counter(task.function, budget)
    method = PEERS[peer]
    if method.rival is None:
        policy = learn(
            replace(task, function=counter), rollouts=budget, method=str(method.learner), seed=seed, progress=False
        )
        means = np.moveaxis(np.asarray(policy.option_means(contexts), dtype=float), 1, 0)
        return PeerOutcome(list(means), counter.used)
    bins = searched_bins(method.rival, task, counter, seed)
    return PeerOutcome(bins.answers(contexts), counter.used)


def searched_bins(rival: Rival, task: KnownTask, counter: Counter, seed: int) -> Bins:
    """The points a rival reports in every bin of the contexts; without contexts there is one bin.

    Rivals are told how exact they need to be. In contexts, they see returns in units of what blind parameters lose.
    """
    centres, width = context_bins(task, counter.budget)
    unit, tolerance = (1.0, POINT_TOLERANCE) if task.contexts is None else (at_stake(task), CONTEXT_TOLERANCE)
    points = []
    for number, (centre, budget) in enumerate(zip(centres, shares(counter.budget, len(centres)), strict=True)):
        returns = Counter(partial(_returns_at, task, counter, centre, unit), budget)
        found = rival(returns, task.parameter_size, 1000 * seed + number, tolerance)
        points.append(_from_cube(task, np.asarray(found, dtype=float)))
    return Bins(centres, points, width)


def context_bins(task: KnownTask, budget: int) -> tuple[np.ndarray, np.ndarray]:
    """The middles of the bins [B, S], and the width [S] of one."""
    if task.contexts is None:
        return np.zeros((1, 0)), np.zeros(0)
    if task.contexts.bounds is None:
        raise ValueError(f"{task.name}: expected contexts within bounds")
    low, high = task.contexts.bounds
    count = bin_count(budget, task.context_size)
    return bin_centres(low, high, count), (high - low) / count


def _returns_at(task: KnownTask, counter: Counter, context: np.ndarray, unit: float, points: np.ndarray) -> np.ndarray:
    """The counted returns [N] of points [N, D] in the unit cube, in one context [S]."""
    return counter(np.repeat(context[None], len(points), axis=0), _from_cube(task, points)) / unit


def _from_cube(task: KnownTask, points: np.ndarray) -> np.ndarray:
    if task.parameter_bounds is None:
        raise ValueError(f"{task.name}: expected parameters within bounds")
    low, high = task.parameter_bounds
    return low + points * (high - low)
