"""What is wrong with a run's database: every page as SQLite sees it, every row by its checksum, and the totals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hpsde.errors import FileFormatError
from hpsde.runs.checksums import wrong_rows
from hpsde.runs.reading import StoreReader
from hpsde.runs.rows import NAMES, damage, read_unchecked
from hpsde.runs.totals import Totals, count_totals, stored_totals


def faults(store: StoreReader) -> list[str]:
    """All that is wrong, in words; nothing where nothing is."""
    looks: list[Callable[[StoreReader], list[str]]] = [_of_pages, _of_totals]
    looks += [partial(_of_rows, table=table) for table in NAMES]
    found: list[str] = []
    for look in looks:
        try:
            found += [f"{store.path} is damaged: {fault}" for fault in look(store)]
        except FileFormatError as error:
            found.append(str(error))
    return found


def _of_pages(store: StoreReader) -> list[str]:
    with store.reading() as connection:
        lines = [str(line) for (line,) in connection.execute("PRAGMA integrity_check(20)")]
    return [] if lines == ["ok"] else lines


def _of_rows(store: StoreReader, table: str) -> list[str]:
    with store.reading() as connection:
        columns = read_unchecked(connection, table)
    numbers = next(iter(columns.values()))
    return [damage(table, numbers[i]) for i in wrong_rows(table, columns)]


def _of_totals(store: StoreReader) -> list[str]:
    with store.reading() as connection:
        stored, counted = stored_totals(connection), count_totals(connection)
    if stored is None:
        return ["totals does not fit its checksum. Nothing is lost: the next ask or tell counts anew"]
    differing = [name for name, one, other in zip(Totals._fields, stored, counted, strict=True) if one != other]
    return [f"totals says {name} otherwise than the rows do. Restore the backup" for name in differing]
