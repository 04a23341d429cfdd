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
        return _checked(sqlite3.connect(path, timeout=busy_seconds, isolation_level=None))
    except sqlite3.OperationalError as error:
        if not path.is_file() or not error.sqlite_errorname.startswith(_NOT_WRITABLE):
            raise
        # "ro" follows a log whose files are there, as those of a process that is writing are.
        for how in ("mode=ro",) if _log(path).exists() else ("mode=ro", "immutable=1"):
            with suppress(sqlite3.OperationalError):
                address = f"file:{quote(str(path.resolve()))}?{how}"
                return _checked(sqlite3.connect(address, uri=True, timeout=busy_seconds, isolation_level=None))
        with suppress(OSError):
            return _copied(path)
        raise


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
        memory = sqlite3.connect(":memory:", isolation_level=None)
        with closing(sqlite3.connect(copy)) as source:
            source.backup(memory)
    memory.execute("PRAGMA query_only = ON")
    return memory


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")
