"""From the stored rollouts to the learner as it was: what it remembers, and what has happened since, done again.

A learner is a function of its rollouts, of the order in which it saw them, and of what its policies proposed. The
store has all of it: rollouts are seen in the order (learning step, number).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpsde.errors import FileFormatError, HpsdeError
from hpsde.learners.ask_tell import Learner
from hpsde.policy.doubt_entries import doubt_entries
from hpsde.runs.age import check_age
from hpsde.runs.arrays import Rows
from hpsde.runs.config import RunConfig
from hpsde.runs.events import Event, outdated_from, revision
from hpsde.runs.making import learner_of
from hpsde.runs.plans import changes_after, planned_first
from hpsde.runs.state import load_state
from hpsde.runs.store import Store
from hpsde.settings import changed_settings
from hpsde.steps.encoders import Encoder


class Loaded(NamedTuple):
    """A learner from the store, how many of its learning steps came from the stored state, and the records of those
    that were done anew because of a correction.
    """

    learner: Learner
    known: int
    records: dict[int, dict[str, Any]]


def load_learner(store: Store, config: RunConfig, task: Any, state: Path, encoder: Encoder | None) -> Loaded:
    """The learner as it was after the last learning step; as it would have been, where rollouts were corrected.

    `config` is what was planned at first.
    """
    check_age(store, config.run, state)
    rows, (_, _, steps) = store.used_rows(), store.position()
    events = store.events()
    config = planned_first(config, events)
    learner, known = learner_of(config, task, encoder), 0
    if outdated_from(events) is None and _remembers(learner, state, state_origin(store, config)):
        known = learner.info.updates
        if known > steps or learner.info.rollouts != int((rows.step <= known).sum()):
            learner, known = learner_of(config, task, encoder), 0  # the state does not belong to these rollouts
    given = store, rows, events, steps
    try:
        return Loaded(learner, known, _go_through(learner, known, *given))
    except HpsdeError:
        raise
    except Exception:  # whatever a state that does not fit leads to: without it all is learned again
        if known == 0:
            raise
    learner = learner_of(config, task, encoder)
    return Loaded(learner, 0, _go_through(learner, 0, *given))


def _remembers(learner: Learner, state: Path, origin: str) -> bool:
    """Give a new learner the stored state; False where there is none that can be used, and the learner stays new."""
    try:
        load_state(learner, state, origin)
    except (FileFormatError, OSError):
        return False
    return True


def _go_through(
    learner: Learner, known: int, store: Store, rows: Rows, events: list[Event], steps: int
) -> dict[int, dict[str, Any]]:
    """Tell a learner that knows some of the learning steps all rollouts, and do the other steps; the records of those
    that a correction has outdated.
    """
    outdated, records = outdated_from(events), {}
    for step in range(1, steps + 1):
        if step > known:
            recall(learner, store, step - 1)
        _change_settings(learner, events, step - 1, known)
        chosen, started = rows.step == step, time.perf_counter()
        observe(learner, rows, chosen)
        if step > known:
            learner.update()
        if outdated is not None and step >= outdated:
            records[step] = step_record(learner, rows.returns[chosen & (rows.status == "done")], started)
    _change_settings(learner, events, steps, known)
    return records


def _change_settings(learner: Learner, events: list[Event], step: int, known: int) -> None:
    """What was set after a learning step. Of a state that has learned with it since, only the settings change."""
    changes = changes_after(events, step) if step else {}
    if changes and step < known:
        learner.settings = changed_settings(learner.SETTINGS, learner.settings, changes)
    elif changes:
        learner.change_settings(changes)


def state_origin(store: Store, config: RunConfig) -> str:
    """What the stored state must say it belongs to: the run, and how often its past was corrected."""
    corrected = revision(store.events())
    return f"{config.run} corrected {corrected}" if corrected else config.run


def step_record(learner: Learner, returns: np.ndarray, started: float) -> dict[str, Any]:
    """What is stored of a learning step that began at the time `started`; `returns` [N] are the new ones."""
    policy = learner.policy
    return {
        "iteration": learner.info.updates - 1,
        "batch_mean_return": float(returns.mean()) if len(returns) else None,
        **learner.info.as_dict(),
        "numbers": policy.option_numbers,
        "doubts": doubt_entries(policy.doubts),
        "learner_seconds": time.perf_counter() - started,
    }


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
        rows.behaviour[chosen],
        rows.number[chosen],
    )


def recall(learner: Learner, store: Store, policy: int) -> None:
    """Remind the learner of what the policy of a learning step has proposed. The initial policy forgets nothing."""
    if policy:
        rows = store.rows("policy = ?", [policy])
        for ask in np.unique(rows.ask[rows.behaviour == policy]):
            asked = (rows.ask == ask) & (rows.behaviour == policy)
            try:
                learner.recall(rows.contexts[asked], rows.option[asked])
            except IndexError:
                raise FileFormatError(f"the rollouts of ask {ask} are damaged: they are of no option known") from None
