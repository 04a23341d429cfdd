"""The tables of a run's database, and whether a file has them. docs/run_folder.md describes them.

Every row has a checksum of its values (checksums.py). The table `totals` has one row: what would otherwise have to be
counted, so that a call costs the same however long the run is. It is written in the transaction that changes the rows.

Rows, checksums, exports and the migration of earlier databases follow from TABLES. A new column is a line there, with
`since` the version after this one, and what store.py writes to it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NamedTuple

from hpsde.errors import FileFormatError

APPLICATION_ID = 0x48505344  # "HPSD": what the tool `file` and SQLite know the database by
FIRST = 4
"""The first version with checksums and totals, and with contexts and parameters as numbers of 8 bytes."""

OPEN = "status = 'asked'"
"""Which rollouts are open. An index has these alone."""
NEW = "status != 'asked' AND step IS NULL"
"""Which rollouts were told, and used by no learning step yet. An index has these alone."""


class Column(NamedTuple):
    """A column: its type as SQLite has it; whether it may change of a rollout that was asked; and the version since
    which it is there. One that came later may be NULL: so it is in the rows of before.
    """

    kind: str
    changes: bool = False
    since: int = FIRST

    @property
    def type(self) -> str:
        """INTEGER, REAL, TEXT or BLOB."""
        return self.kind.split()[0]


TABLES: dict[str, dict[str, Column]] = {
    "rollouts": {
        "id": Column("INTEGER PRIMARY KEY"),
        "ask": Column("INTEGER NOT NULL"),
        "status": Column("TEXT NOT NULL CHECK (status IN ('asked', 'done', 'failed'))", changes=True),
        "context": Column("BLOB NOT NULL"),
        "parameters": Column("BLOB NOT NULL"),
        "executed": Column("BLOB", changes=True),
        "option": Column("INTEGER NOT NULL"),
        "log_density": Column("REAL"),
        "return": Column("REAL", changes=True),
        "reason": Column("TEXT", changes=True),
        "seed": Column("INTEGER NOT NULL"),
        "policy": Column("INTEGER NOT NULL"),
        "step": Column("INTEGER", changes=True),
        "asked_at": Column("TEXT NOT NULL"),
        "told_at": Column("TEXT", changes=True),
    },
    "steps": {
        "step": Column("INTEGER PRIMARY KEY"),
        "rollouts": Column("INTEGER NOT NULL"),
        "record": Column("TEXT NOT NULL"),
        "ended_at": Column("TEXT NOT NULL"),
    },
    "events": {
        "event": Column("INTEGER PRIMARY KEY"),
        "at": Column("TEXT NOT NULL"),
        "kind": Column("TEXT NOT NULL"),
        "content": Column("TEXT NOT NULL"),
    },
    "totals": {
        "totals": Column("INTEGER PRIMARY KEY CHECK (totals = 1)"),
        "asked": Column("INTEGER NOT NULL"),
        "done": Column("INTEGER NOT NULL"),
        "failed": Column("INTEGER NOT NULL"),
        "new_done": Column("INTEGER NOT NULL"),
        "new_failed": Column("INTEGER NOT NULL"),
        "asks": Column("INTEGER NOT NULL"),
        "steps": Column("INTEGER NOT NULL"),
        "events": Column("INTEGER NOT NULL"),
        "lowest": Column("REAL"),
        "highest": Column("REAL"),
    },
}
"""Columns by table, less the checksum, which each of them has last."""

COLUMNS = tuple(TABLES["rollouts"])
CHANGING = tuple(name for name, column in TABLES["rollouts"].items() if column.changes)
"""What may change of a rollout that was asked."""

VERSION = max(column.since for columns in TABLES.values() for column in columns.values())
READABLE = tuple(range(1, VERSION + 1))


def columns_of(table: str, version: int = VERSION) -> dict[str, Column]:
    """The columns that a table has in that version, less the checksum. Those before FIRST had the same names."""
    return {name: column for name, column in TABLES[table].items() if column.since <= max(version, FIRST)}


def quoted(names: tuple[str, ...] | list[str]) -> str:
    """Names of columns as a query has them; `return` alone would be a word of SQL's own."""
    return ", ".join(f'"{name}"' for name in names)


def _table(name: str, version: int) -> str:
    columns = columns_of(name, version) | {"checksum": Column("INTEGER NOT NULL")}
    return (
        f"CREATE TABLE {name} (" + ", ".join(f'"{each}" {column.kind}' for each, column in columns.items()) + ") STRICT"
    )


def statements(version: int) -> tuple[str, ...]:
    """What makes the tables of that version, from FIRST on."""
    return (
        *(_table(name, version) for name in TABLES),
        f"CREATE INDEX rollouts_open ON rollouts (id) WHERE {OPEN}",
        f"CREATE INDEX rollouts_new ON rollouts (id) WHERE {NEW}",
    )


STATEMENTS = statements(VERSION)


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


def check_tables(path: Path, connection: sqlite3.Connection, wanted: tuple[str, ...]) -> None:
    """FileFormatError unless the database has what these statements make, and no triggers."""
    found = connection.execute("SELECT type, sql FROM sqlite_master").fetchall()
    if not set(wanted) <= {sql for _, sql in found} or "trigger" in {kind for kind, _ in found}:
        raise FileFormatError(f"{path} is damaged: its tables are not those of a run")
