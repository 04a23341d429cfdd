"""SQLite's errors in words, and as ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpsde.errors import FileFormatError, StorageError

BUSY_SECONDS = 30.0
"""How long another process may be writing before this one gives up."""


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """What SQLite or a row says is wrong, with the name of the file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith("SQLITE_FULL"):
            message = "the disk is full; nothing that was told is lost. Make room, then go on"
        elif name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            message = "it cannot be written; nothing that was told is lost. Allow writing in its folder, then go on"
        elif name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            message = f"another process has been writing to it for {BUSY_SECONDS:g} seconds; try again"
        elif name.startswith("SQLITE_IOERR"):
            message = "the disk reports an error; what it says it has stored before is not lost"
        elif isinstance(error, sqlite3.ProgrammingError):
            raise
        else:
            raise FileFormatError(f"{path} is damaged: {error}. Restore the backup") from error
        raise StorageError(f"{path}: {message} ({error})") from error
    except UnicodeDecodeError as error:  # SQLite's message has the broken text in it
        raise FileFormatError(f"{path} is damaged: it has text that is not UTF-8. Restore the backup") from error
    except FileFormatError as error:
        if str(path) in str(error):
            raise
        raise FileFormatError(f"{path} is damaged: {error}") from error
