"""Open a database wherever it lies: also where nothing can be written, on a read-only medium or in another's folder.

A database with a write-ahead log needs files beside it that belong to the log, even to be read. Where they cannot be
made, the database is read as it is if there is no log, and from a copy of both otherwise: without its log it would be
an older one.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

_NOT_WRITABLE = ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")


def open_database(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """A connection to read the database by, and to write it where that is possible; makes one where there is none."""
    try:
        return _checked(_connected(path, busy_seconds))
    except sqlite3.OperationalError as error:
        if not path.is_file() or not error.sqlite_errorname.startswith(_NOT_WRITABLE):
            raise
        # "ro" follows a log whose files are there, as those of a process that is writing are.
        for how in ("mode=ro",) if _log(path).exists() else ("mode=ro", "immutable=1"):
            with suppress(sqlite3.OperationalError):
                address = f"file:{quote(str(path.resolve()))}?{how}"
                return _checked(_connected(address, busy_seconds))
        with suppress(OSError):
            return _copied(path)
        raise


def _connected(where: Path | str, busy_seconds: float) -> sqlite3.Connection:
    """A connection that threads may share; the caller makes them take turns."""
    uri = isinstance(where, str)
    return sqlite3.connect(where, uri=uri, timeout=busy_seconds, isolation_level=None, check_same_thread=False)


def _checked(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection, if it can read."""
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _copied(path: Path) -> sqlite3.Connection:
    """A copy in memory of the database and its log, which cannot be written."""
    with TemporaryDirectory(prefix="hpsde-") as folder:
        copy = Path(folder) / path.name
        shutil.copyfile(path, copy)
        if _log(path).exists():
            shutil.copyfile(_log(path), _log(copy))
        with closing(sqlite3.connect(copy)) as source:
            memory = in_memory(source)
    memory.execute("PRAGMA query_only = ON")
    return memory


def is_writable(connection: sqlite3.Connection) -> bool:
    """Whether the database can be written by this connection."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if not error.sqlite_errorname.startswith(_NOT_WRITABLE):
            raise
        return False
    return not connection.execute("PRAGMA query_only").fetchone()[0]


def in_memory(source: sqlite3.Connection) -> sqlite3.Connection:
    """A copy of a database in memory."""
    memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    source.backup(memory)
    return memory


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")
