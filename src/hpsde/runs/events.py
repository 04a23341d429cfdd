"""What was changed about a run after the fact, in the order it happened: the table `events`.

A rollout's row says what holds; the event says what was there before, when it was changed and why. Which policies a
correction has replaced follows from the events alone, so that a run learned again is the same to the bit.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from hpsde.runs.checksums import write_row
from hpsde.runs.totals import read_totals, write_totals
from hpsde.steps.rollouts import GIVEN, REPLACED

CORRECTED, RELEARNED, ADDED, EXTENDED, SET = "corrected", "relearned", "added", "extended", "set"
# The whole numbers that the content of an event must have.
_NUMBERS: dict[str, tuple[str, ...]] = {
    CORRECTED: ("rollout", "step", "last"),
    RELEARNED: ("step",),
    ADDED: ("rollout", "last"),
    EXTENDED: ("rollouts", "before"),
    SET: ("step",),
}


@dataclass(frozen=True)
class Event:
    """One change. `content` depends on the kind; docs/run_folder.md lists it."""

    number: int
    at: str
    kind: str
    content: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.content[name]

    def as_dict(self) -> dict[str, Any]:
        """For people: without the records of learning steps that were replaced."""
        shown = {name: value for name, value in self.content.items() if name != "records"}
        return {"event": self.number, "at": self.at, "kind": self.kind, **shown}


def read_event(number: int, at: str, kind: str, text: str) -> Event:
    """An event from its row; ValueError where it is none."""
    content = json.loads(text)
    if kind not in _NUMBERS or not isinstance(content, dict):
        raise ValueError(f"{kind[:60]!r} is no kind of event, or it does not say what happened")
    for name in _NUMBERS[kind]:
        if type(content.get(name)) is not int or not 0 <= content[name] < 2**63:
            raise ValueError(f"{name}: {str(content.get(name))[:60]!r} is not a whole number")
    if kind == SET and not isinstance(content.get("settings"), dict):
        raise ValueError(f"settings: {str(content.get('settings'))[:60]!r} are not values by name")
    return Event(number, at, kind, content)


def of_kind(events: Sequence[Event], kind: str) -> list[Event]:
    """The events of that kind."""
    return [event for event in events if event.kind == kind]


def made_by(events: Sequence[Event], id: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """Who made the rollouts [N]: the learning step of the policy, 0 for the initial one, GIVEN or REPLACED.

    A correction replaces the policies of the learning steps that had used the wrong value. What they had proposed until
    then comes from policies that are no longer known.
    """
    behaviour = policy.copy()
    for event in of_kind(events, CORRECTED):
        if event["step"]:
            behaviour[(policy >= event["step"]) & (id <= event["last"])] = REPLACED
    for event in of_kind(events, ADDED):
        behaviour[(id >= event["rollout"]) & (id <= event["last"])] = GIVEN
    return behaviour


def added_count(events: Sequence[Event]) -> int:
    """How many rollouts were made elsewhere."""
    return sum(event["last"] - event["rollout"] + 1 for event in of_kind(events, ADDED))


def revision(events: Sequence[Event]) -> int:
    """How many corrections have changed what learning steps had used."""
    return sum(event["step"] > 0 for event in of_kind(events, CORRECTED))


def outdated_from(events: Sequence[Event]) -> int | None:
    """The first learning step whose record is that of a policy which a correction has replaced; None: all hold."""
    learned = max((event.number for event in of_kind(events, RELEARNED)), default=0)
    steps = [event["step"] for event in of_kind(events, CORRECTED) if event["step"] and event.number > learned]
    return min(steps, default=None)


def add_event(connection: sqlite3.Connection, kind: str, content: dict[str, Any]) -> None:
    """Write an event, within the transaction of what it tells of."""
    totals = read_totals(connection)
    row = {"event": totals.events + 1, "at": now(), "kind": kind, "content": json.dumps(content, allow_nan=False)}
    write_row(connection, "events", row)
    write_totals(connection, totals._replace(events=totals.events + 1))


def no_such_rollout(number: int, last: int) -> str:
    """What is said where a rollout of that number was never asked."""
    known = f"rollouts 1 to {last} have been asked" if last else "none has been asked"
    return f"there is no rollout {number} in this run; {known}"


def now() -> str:
    """The time, as the database has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
