"""Corrections of what was told: the row has what holds, an event what was there before. Within a transaction."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from hpsde.errors import AskTellError
from hpsde.runs.checksums import write_row, wrong_rows
from hpsde.runs.events import CORRECTED, RELEARNED, add_event, no_such_rollout, now
from hpsde.runs.rows import read_columns, read_rows, read_unchecked, update_rows
from hpsde.runs.schema import COLUMNS
from hpsde.runs.totals import read_totals


def correct(
    connection: sqlite3.Connection, number: int, value: float | None, reason: str | None, why: str | None, drop: bool
) -> None:
    """Another outcome of a rollout that was told: a return, or the reason why it counts as failed.

    `why` it was corrected goes into the event, with what was there before. One that is to `drop` may be damaged.
    """
    last = read_totals(connection).rollouts
    found = read_unchecked(connection, "rollouts", "id = ?", [number])
    damaged = drop and bool(wrong_rows("rollouts", found))
    row = {name: found[name][0] for name in COLUMNS} if damaged else read_rows(connection, [number]).get(number)
    if row is None:
        raise AskTellError(no_such_rollout(number, last))
    before = {name: row[name] for name in ("status", "return", "reason")}
    after = {"status": "done" if reason is None else "failed", "return": value, "reason": reason}
    step = int(row["step"] or 0)
    if not damaged:
        _check_correctable(number, before, after)
    if step and reason is not None:
        _check_rest(connection, number, step)
    update_rows(connection, [row], [row | after], recount=damaged)
    content = {"rollout": number, "before": before, "after": after, "reason": why, "step": step, "last": last}
    add_event(connection, CORRECTED, content)


def replace_steps(connection: sqlite3.Connection, records: dict[int, dict[str, Any]]) -> None:
    """Records of learning steps that were done anew. The old ones go into an event; what rollouts cost stays."""
    first = min(records)
    columns = read_columns(connection, "steps", "step >= ?", [first])
    steps = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    old = {row["step"]: json.loads(row["record"]) for row in steps}
    add_event(connection, RELEARNED, {"step": first, "records": old})
    for row in steps:
        spent = {name: value for name, value in old[row["step"]].items() if name == "task_seconds"}
        text = json.dumps(records[row["step"]] | spent, allow_nan=False)
        changed = {"step": row["step"], "rollouts": row["rollouts"], "record": text, "ended_at": now()}
        write_row(connection, "steps", changed)


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
