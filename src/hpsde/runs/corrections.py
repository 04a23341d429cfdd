"""Corrections of what was told: the row has what holds, an event what was there before. Within a transaction."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from hpsde.errors import AskTellError
from hpsde.runs.events import CORRECTED, RELEARNED, add_event, no_such_rollout, now


def correct(
    connection: sqlite3.Connection, number: int, value: float | None, reason: str | None, why: str | None
) -> None:
    """Another outcome of a rollout that was told: a return, or the reason why it counts as failed.

    `why` it was corrected goes into the event, with what was there before.
    """
    last = int(connection.execute("SELECT coalesce(max(id), 0) FROM rollouts").fetchone()[0])
    found = connection.execute('SELECT status, "return", reason, step FROM rollouts WHERE id = ?', (number,)).fetchone()
    if found is None:
        raise AskTellError(no_such_rollout(number, last))
    before = dict(zip(("status", "return", "reason"), found, strict=False))
    after = {"status": "done" if reason is None else "failed", "return": value, "reason": reason}
    step = int(found[3] or 0)
    _check_correctable(number, before, after)
    if step and reason is not None:
        _check_rest(connection, number, step)
    connection.execute(
        'UPDATE rollouts SET status = ?, "return" = ?, reason = ? WHERE id = ?', (*after.values(), number)
    )
    content = {"rollout": number, "before": before, "after": after, "reason": why, "step": step, "last": last}
    add_event(connection, CORRECTED, content)


def replace_steps(connection: sqlite3.Connection, records: dict[int, dict[str, Any]]) -> None:
    """Records of learning steps that were done anew. The old ones go into an event; what rollouts cost stays."""
    first = min(records)
    found = connection.execute("SELECT step, record FROM steps WHERE step >= ? ORDER BY step", (first,)).fetchall()
    old = {step: json.loads(text) for step, text in found}
    add_event(connection, RELEARNED, {"step": first, "records": old})
    for step, record in records.items():
        spent = {name: value for name, value in old[step].items() if name == "task_seconds"}
        values = json.dumps(record | spent, allow_nan=False), now(), step
        connection.execute("UPDATE steps SET record = ?, ended_at = ? WHERE step = ?", values)


def _check_correctable(number: int, before: dict[str, Any], after: dict[str, Any]) -> None:
    """An error unless the rollout was told, and something else."""
    if before["status"] == "asked":
        raise AskTellError(f"rollout {number} has not been told yet, so there is nothing to correct; tell it instead")
    if before == after:
        what = f"the return {after['return']!r}" if after["reason"] is None else f"failed: {after['reason']}"
        raise AskTellError(f"rollout {number} has been told so already, {what}; there is nothing to correct")


def _check_rest(connection: sqlite3.Connection, number: int, step: int) -> None:
    """An error unless the learning step that first used the rollout can do without it."""
    query = "SELECT count(*) FROM rollouts WHERE status = 'done' AND step <= ? AND id != ?"
    left = int(connection.execute(query, (step, number)).fetchone()[0])
    if left < 2:
        raise AskTellError(
            f"without rollout {number}, learning step {step} would have {left} rollouts that did not fail, and needs "
            "at least 2; correct it to a return, or make a new run"
        )
