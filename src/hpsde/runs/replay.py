"""From the stored rollouts to the learner as it was: what it remembers, and what has happened since, done again.

A learner is a function of its rollouts, of the order in which it saw them, and of what its policies proposed. The
store has all of it: rollouts are seen in the order (learning step, number).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hpsde.ask_tell import Learner
from hpsde.errors import FileFormatError, HpsdeError
from hpsde.runs.config import RunConfig
from hpsde.runs.making import make_learner
from hpsde.runs.state import load_state
from hpsde.runs.store import Rows, Store


def load_learner(store: Store, config: RunConfig, task: Any, state: Path) -> tuple[Learner, int]:
    """The learner as it was after the last learning step, and how many of the steps came from the stored state."""
    rows, (_, _, steps) = store.rows("step IS NOT NULL", order="step, id"), store.position()
    learner = make_learner(config, task)
    try:
        load_state(learner, state, config.run)
        known = learner.info.updates
        if known <= steps and learner.info.rollouts != int((rows.step <= known).sum()):
            raise FileFormatError(f"{state} does not belong to these rollouts")
    except (FileFormatError, OSError):
        learner, known = make_learner(config, task), 0
    if known > steps:
        raise FileFormatError(
            f"{store.path} is older than {state.name}: it has {steps} learning steps, the learner had made {known}. "
            f"It is an old copy, or one without {store.path.name}-wal, and rollouts are missing. Put the whole "
            f"database in its place, both files; if what is missing is lost for good, remove {state.name} to go on "
            f"from step {steps}: numbers of lost rollouts are then given again"
        )
    try:
        _go_through(learner, store, rows, known, steps)
    except HpsdeError:
        raise
    except Exception:  # whatever a state that does not fit leads to: without it all is learned again
        if known == 0:
            raise
        learner, known = make_learner(config, task), 0
        _go_through(learner, store, rows, known, steps)
    return learner, known


def _go_through(learner: Learner, store: Store, rows: Rows, known: int, steps: int) -> None:
    """All learning steps in their order: the learner sees the rollouts of each, and learns where it has not yet."""
    for step in range(1, steps + 1):
        if step > known:
            recall(learner, store, step - 1)
        observe(learner, rows, rows.step == step)
        if step > known:
            learner.update()


def catch_up(learner: Learner, store: Store) -> None:
    """What was asked since the last learning step. Not part of the stored state, or it would count twice."""
    _, asks, steps = store.position()
    recall(learner, store, steps)
    learner.proposals = asks


def observe(learner: Learner, rows: Rows, chosen: np.ndarray) -> None:
    """Tell the learner some of the rollouts."""
    if np.any(rows.policy[chosen] > learner.info.updates):
        raise FileFormatError("the rollouts are damaged: some are of a policy that was never learned")
    learner.observe(
        rows.contexts[chosen],
        rows.parameters[chosen],
        rows.returns[chosen],
        rows.status[chosen] == "failed",
        rows.option[chosen],
        rows.policy[chosen],
        rows.number[chosen],
    )


def recall(learner: Learner, store: Store, policy: int) -> None:
    """Remind the learner of what the policy of a learning step has proposed. The initial policy forgets nothing."""
    if policy:
        rows = store.rows("policy = ?", [policy])
        for ask in np.unique(rows.ask):
            try:
                learner.recall(rows.contexts[rows.ask == ask], rows.option[rows.ask == ask])
            except IndexError:
                raise FileFormatError(f"the rollouts of ask {ask} are damaged: they are of no option known") from None
