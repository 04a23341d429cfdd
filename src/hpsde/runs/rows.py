"""Rows of the database, read with their checksums and written with them; the totals follow. Within a transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpsde.errors import FileFormatError
from hpsde.runs.checksums import checksums, write_columns, wrong_rows
from hpsde.runs.schema import CHANGING, COLUMNS, TABLES, quoted
from hpsde.runs.totals import count_totals, read_totals, write_totals

Row = dict[str, Any]
Columns = dict[str, list[Any]]
NAMES = {"rollouts": "rollout", "steps": "learning step", "events": "event"}
_CHUNK = 500  # rows that are taken from SQLite at a time: many small tuples at once are slow


def blob(values: Any) -> bytes:
    """Numbers as the database has them: 8 bytes each, IEEE 754, lowest byte first."""
    return np.asarray(values, dtype="<f8").tobytes()


def read_columns(
    connection: sqlite3.Connection, table: str, where: str = "1", values: Sequence[Any] = (), order: str | None = None
) -> Columns:
    """The rows of a query by column, checked; in the order of their numbers unless another is given."""
    columns = read_unchecked(connection, table, where, values, order)
    if wrong := wrong_rows(table, columns):
        raise FileFormatError(damage(table, next(iter(columns.values()))[wrong[0]]))
    return columns


def read_unchecked(
    connection: sqlite3.Connection, table: str, where: str = "1", values: Sequence[Any] = (), order: str | None = None
) -> Columns:
    """As `read_columns`, whatever the checksums say."""
    names = (*TABLES[table], "checksum")
    query = f"SELECT {quoted(names)} FROM {table} WHERE {where} ORDER BY {order or names[0]}"
    cursor = connection.execute(query, values)
    columns: list[list[Any]] = [[] for _ in names]
    while found := cursor.fetchmany(_CHUNK):
        for column, part in zip(columns, zip(*found, strict=True), strict=True):
            column += part
    return dict(zip(names, columns, strict=True))


def damage(table: str, number: Any) -> str:
    """What is said of a row whose checksum is wrong, and what to do."""
    drop = f", or take this rollout out: hpsde correct RUN {number} --drop" if table == "rollouts" else ""
    return (
        f"{NAMES[table]} {number} does not fit its checksum. Restore the backup; `hpsde check RUN` lists all damaged "
        f"rows. Without a backup, go on with what can be read (hpsde export, and hpsde import into a new run){drop}"
    )


def check_numbered(table: str, numbers: Sequence[int], count: int) -> None:
    """FileFormatError unless the rows are numbered from 1 to `count`."""
    if list(numbers) != list(range(1, count + 1)):
        raise FileFormatError(f"{table} are not numbered from 1 to {count}. Restore the backup")


def check_complete(table: str, found: int, wanted: int) -> None:
    """FileFormatError unless an index has led to as many rows as there are."""
    if found != wanted:
        raise FileFormatError(f"{found} {table} were found where there are {wanted}. Restore the backup")


OF_THESE = "id IN (SELECT value FROM json_each(?))"
"""Which rollouts have one of the numbers in a JSON array."""


def read_rows(connection: sqlite3.Connection, ids: Sequence[int]) -> dict[int, Row]:
    """The rollouts of these numbers, as far as there are such, checked."""
    columns = read_columns(connection, "rollouts", OF_THESE, [json.dumps(list(ids))])
    values = zip(*(columns[name] for name in COLUMNS), strict=True)
    return {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in values}


def insert_rows(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """New rollouts. What they do not say is NULL."""
    totals, whole = read_totals(connection), [dict.fromkeys(COLUMNS) | row for row in rows]
    write_columns(connection, "rollouts", {name: [row[name] for row in whole] for name in COLUMNS})
    write_totals(connection, totals.moved([], whole))


def update_rows(
    connection: sqlite3.Connection, before: Sequence[Row], after: Sequence[Row], recount: bool = False
) -> None:
    """Rollouts that were read become others, in what may change of them. `recount`: what was read may be wrong."""
    totals = read_totals(connection)
    sums = checksums("rollouts", {name: [row[name] for row in after] for name in COLUMNS})
    changes = ", ".join(f'"{name}" = ?' for name in CHANGING)
    connection.executemany(
        f"UPDATE rollouts SET {changes}, checksum = ? WHERE id = ?",
        [(*(row[name] for name in CHANGING), value, row["id"]) for row, value in zip(after, sums, strict=True)],
    )
    gone = any(old["return"] not in (None, new["return"]) for old, new in zip(before, after, strict=True))
    write_totals(connection, count_totals(connection) if gone or recount else totals.moved(before, after))
