"""The tables of a run's database, and whether a file has them. docs/run_folder.md describes them.

Every row has a checksum of its values (checksums.py). The table `totals` has one row: what would otherwise have to be
counted, so that a call costs the same however long the run is. It is written in the transaction that changes the rows.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hpsde.errors import FileFormatError

APPLICATION_ID = 0x48505344  # "HPSD": what the tool `file` and SQLite know the database by
VERSION = 4
READABLE = (1, 2, 3, VERSION)

OPEN = "status = 'asked'"
"""Which rollouts are open. An index has these alone."""
NEW = "status != 'asked' AND step IS NULL"
"""Which rollouts were told, and used by no learning step yet. An index has these alone."""

TABLES: dict[str, dict[str, str]] = {
    "rollouts": {
        "id": "INTEGER PRIMARY KEY",
        "ask": "INTEGER NOT NULL",
        "status": "TEXT NOT NULL CHECK (status IN ('asked', 'done', 'failed'))",
        "context": "BLOB NOT NULL",
        "parameters": "BLOB NOT NULL",
        "executed": "BLOB",
        "option": "INTEGER NOT NULL",
        "log_density": "REAL",
        "return": "REAL",
        "reason": "TEXT",
        "seed": "INTEGER NOT NULL",
        "policy": "INTEGER NOT NULL",
        "step": "INTEGER",
        "asked_at": "TEXT NOT NULL",
        "told_at": "TEXT",
    },
    "steps": {
        "step": "INTEGER PRIMARY KEY",
        "rollouts": "INTEGER NOT NULL",
        "record": "TEXT NOT NULL",
        "ended_at": "TEXT NOT NULL",
    },
    "events": {
        "event": "INTEGER PRIMARY KEY",
        "at": "TEXT NOT NULL",
        "kind": "TEXT NOT NULL",
        "content": "TEXT NOT NULL",
    },
    "totals": {
        "totals": "INTEGER PRIMARY KEY CHECK (totals = 1)",
        "asked": "INTEGER NOT NULL",
        "done": "INTEGER NOT NULL",
        "failed": "INTEGER NOT NULL",
        "new_done": "INTEGER NOT NULL",
        "new_failed": "INTEGER NOT NULL",
        "asks": "INTEGER NOT NULL",
        "steps": "INTEGER NOT NULL",
        "events": "INTEGER NOT NULL",
        "lowest": "REAL",
        "highest": "REAL",
    },
}
"""Columns by table, less the checksum, which each of them has last."""

COLUMNS = tuple(TABLES["rollouts"])


def quoted(names: tuple[str, ...] | list[str]) -> str:
    """Names of columns as a query has them; `return` alone would be a word of SQL's own."""
    return ", ".join(f'"{name}"' for name in names)


def _table(name: str) -> str:
    columns = TABLES[name] | {"checksum": "INTEGER NOT NULL"}
    return f"CREATE TABLE {name} (" + ", ".join(f'"{column}" {kind}' for column, kind in columns.items()) + ") STRICT"


STATEMENTS = (
    *(_table(name) for name in TABLES),
    f"CREATE INDEX rollouts_open ON rollouts (id) WHERE {OPEN}",
    f"CREATE INDEX rollouts_new ON rollouts (id) WHERE {NEW}",
)
"""What makes the tables of this version."""


def check_schema(path: Path, connection: sqlite3.Connection) -> int:
    """The version of a database that is one of a run's; FileFormatError where it is none that can be read."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if application != APPLICATION_ID:
        raise FileFormatError(f"{path} is not the database of a run")
    if version not in READABLE:
        known = ", ".join(map(str, READABLE))
        raise FileFormatError(f"{path} has version {version}; this hpsde reads versions {known}")
    check_tables(path, connection, STATEMENTS if version == VERSION else ())
    return version


def check_tables(path: Path, connection: sqlite3.Connection, statements: tuple[str, ...]) -> None:
    """FileFormatError unless the database has what these statements make, and no triggers."""
    found = connection.execute("SELECT type, sql FROM sqlite_master").fetchall()
    if not set(statements) <= {sql for _, sql in found} or "trigger" in {kind for kind, _ in found}:
        raise FileFormatError(f"{path} is damaged: its tables are not those of a run")
