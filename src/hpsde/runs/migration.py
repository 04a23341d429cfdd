"""Databases of earlier versions become ones of this version, value for value, in one transaction.

Version 1 to 3 had contexts and parameters as JSON arrays, no checksums and no totals; 1 and 2 had no events. Later ones
lack the columns that came after them (schema.py); those are NULL then.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.base.checks import LARGEST
from hpsde.errors import FileFormatError
from hpsde.runs.checksums import checksums, insert_columns, wrong_rows
from hpsde.runs.rows import blob
from hpsde.runs.schema import FIRST, STATEMENTS, TABLES, VERSION, check_tables, columns_of, quoted, statements
from hpsde.runs.totals import count_totals, write_totals

ROLLOUTS = """CREATE TABLE rollouts (
    id          INTEGER PRIMARY KEY,
    ask         INTEGER NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('asked', 'done', 'failed')),
    context     TEXT NOT NULL,
    parameters  TEXT NOT NULL,
    executed    TEXT,
    option      INTEGER NOT NULL,
    log_density REAL,
    "return"    REAL,
    reason      TEXT,
    seed        INTEGER NOT NULL,
    policy      INTEGER NOT NULL,
    step        INTEGER,
    asked_at    TEXT NOT NULL,
    told_at     TEXT
) STRICT"""
INDEX = "CREATE INDEX rollouts_by_status ON rollouts (status, step)"
STEPS = """CREATE TABLE steps (
    step     INTEGER PRIMARY KEY,
    rollouts INTEGER NOT NULL,
    record   TEXT NOT NULL,
    ended_at TEXT NOT NULL
) STRICT"""
EVENTS = """CREATE TABLE events (
    event   INTEGER PRIMARY KEY,
    at      TEXT NOT NULL,
    kind    TEXT NOT NULL,
    content TEXT NOT NULL
) STRICT"""
_CHUNK = 10_000


def migrate(path: Path, connection: sqlite3.Connection) -> None:
    """Bring the database to this version, unless another process has done so meanwhile: all of it, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version < VERSION:
            _migrate(path, connection, version)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _migrate(path: Path, connection: sqlite3.Connection, version: int) -> None:
    tables = ("rollouts", "steps", "events")[: 2 if version < 3 else 3]
    made = (ROLLOUTS, INDEX, STEPS, EVENTS)[: 3 if version < 3 else 4] if version < FIRST else statements(version)
    check_tables(path, connection, made)
    if taken := _taken(connection, {statement.split()[2] for statement in made}):
        raise FileFormatError(f"{path} has something of the name {taken[0]} that is not hpsde's; give it another name")
    for table in tables:
        _check_numbered(path, connection, table)
        connection.execute(f"CREATE TEMP TABLE old_{table} AS SELECT * FROM main.{table}")
        connection.execute(f"DROP TABLE main.{table}")
    if version >= FIRST:
        connection.execute("DROP TABLE main.totals")  # they are counted again
    for statement in STATEMENTS:
        connection.execute(statement)
    for table in tables:
        _copy(path, connection, table, version)
        connection.execute(f"DROP TABLE temp.old_{table}")
    write_totals(connection, count_totals(connection))
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _taken(connection: sqlite3.Connection, own: set[str]) -> list[str]:
    """Names that this version needs and that something of somebody else has."""
    wanted = {statement.split()[2] for statement in STATEMENTS} - own
    return [name for (name,) in connection.execute("SELECT name FROM main.sqlite_master") if name in wanted]


def _check_numbered(path: Path, connection: sqlite3.Connection, table: str) -> None:
    number = next(iter(TABLES[table]))
    query = f"SELECT count(*), coalesce(min({number}), 1), coalesce(max({number}), 0) FROM main.{table}"
    count, first, last = connection.execute(query).fetchone()
    if (first, last) != (1, count):
        raise FileFormatError(f"{path} is damaged: {table} are not numbered from 1 to {count}")


def _copy(path: Path, connection: sqlite3.Connection, table: str, version: int) -> None:
    """The old rows into the new table, with checksums. A row that did not fit its own does not fit the new one."""
    old = (*columns_of(table, version), *(["checksum"] if version >= FIRST else []))
    cursor = connection.execute(f"SELECT {quoted(old)} FROM temp.old_{table} ORDER BY {old[0]}")
    while rows := cursor.fetchmany(_CHUNK):
        columns: dict[str, list[Any]] = dict.fromkeys(TABLES[table], [None] * len(rows))
        columns |= dict(zip(old, map(list, zip(*rows, strict=True)), strict=True))
        wrong: list[int] = []
        try:
            if version >= FIRST:
                wrong = wrong_rows(table, columns, version)
            elif table == "rollouts":
                for name in ("context", "parameters", "executed"):
                    columns[name] = [_blob(name, *each) for each in zip(columns["id"], columns[name], strict=True)]
            sums = checksums(table, columns)
            for row in wrong:
                sums[row] ^= 1
            insert_columns(connection, table, columns, sums)
        except (TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:
            raise FileFormatError(f"{path} is damaged: {error}") from error


def _blob(name: str, number: int, text: str | None) -> bytes | None:
    """A JSON array as the numbers it says."""
    if text is None:
        return None
    try:
        values = np.array(json.loads(text), dtype=float)
        if values.ndim == 1 and np.all(np.abs(values) <= LARGEST):
            return blob(values)
    except (ValueError, TypeError, OverflowError, RecursionError):
        pass
    raise ValueError(f"{name} of rollout {number} is damaged: {text[:60]!r} is not an array of finite numbers")
