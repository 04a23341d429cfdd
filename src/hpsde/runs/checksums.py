"""A checksum for every row of the database: SQLite has none, and a flipped bit may leave a number that looks right.

The checksum is the CRC-32 of the row's values, 8 bytes each in the order of the columns, lowest byte first: whole
numbers as they are, real ones as their IEEE 754 bits, texts (in UTF-8) and blobs by their own CRC-32, and NULL as
-2^63. CRC-32 finds every single bit that is flipped, and all but one in four billion of other changes.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hpsde.runs.schema import TABLES, VERSION, columns_of

NULL = -(2**63)
_ERRORS = (TypeError, ValueError, OverflowError, AttributeError)


def checksums(table: str, columns: Mapping[str, Sequence[Any]], version: int = VERSION) -> list[int]:
    """The checksum that each of N rows has in that version; their columns [N] are given by name."""
    words = [_words(column.type, columns[name]) for name, column in columns_of(table, version).items()]
    width = 8 * len(words)
    content = memoryview(np.ascontiguousarray(np.stack(words, axis=1), dtype="<i8").tobytes())
    return [zlib.crc32(content[place : place + width]) for place in range(0, len(content), width)]


def checksum(table: str, row: Mapping[str, Any], version: int = VERSION) -> int:
    """The checksum of one row."""
    return checksums(table, {name: [value] for name, value in row.items()}, version)[0]


def write_columns(
    connection: sqlite3.Connection, table: str, columns: Mapping[str, Sequence[Any]], replace: bool = False
) -> None:
    """N rows, whose columns [N] are given by name, with their checksums; with `replace` in place of those of the same
    number.
    """
    insert_columns(connection, table, columns, checksums(table, columns), replace)


def insert_columns(
    connection: sqlite3.Connection,
    table: str,
    columns: Mapping[str, Sequence[Any]],
    sums: Sequence[int],
    replace: bool = False,
) -> None:
    """As `write_columns`, with these checksums [N]."""
    values = [columns[name] for name in TABLES[table]]
    connection.executemany(
        f"INSERT {'OR REPLACE ' if replace else ''}INTO main.{table} VALUES ({', '.join('?' * (len(values) + 1))})",
        zip(*values, sums, strict=True),
    )


def write_row(connection: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    """A row, new or in place of the one of its number, with its checksum."""
    write_columns(connection, table, {name: [value] for name, value in row.items()}, replace=True)


def wrong_rows(table: str, columns: Mapping[str, Sequence[Any]], version: int = VERSION) -> list[int]:
    """The places of the rows, among N, whose checksum is not the one stored with them in the column `checksum`."""
    stored = columns["checksum"]
    try:
        found = checksums(table, columns, version)
        return [] if found == stored else [i for i in range(len(stored)) if found[i] != stored[i]]
    except _ERRORS:  # a value that its column cannot have
        return [
            i for i in range(len(stored)) if _is_wrong(table, {name: columns[name][i] for name in columns}, version)
        ]


def _is_wrong(table: str, row: Mapping[str, Any], version: int) -> bool:
    try:
        return checksum(table, row, version) != row["checksum"]
    except _ERRORS:
        return True


def _words(kind: str, values: Sequence[Any]) -> np.ndarray:
    """One column [N] as whole numbers of 64 bits. Zero has no sign: SQLite keeps none."""
    if kind == "REAL":
        bits = np.array([0.0 if value is None else value for value in values], dtype=float)
        return np.where([value is None for value in values], NULL, (bits + 0.0).view(np.int64))
    if kind == "TEXT":
        known = {value: NULL if value is None else zlib.crc32(value.encode()) for value in set(values)}
        return np.array([known[value] for value in values], dtype=np.int64)
    if kind == "BLOB":
        return np.array([NULL if value is None else zlib.crc32(value) for value in values], dtype=np.int64)
    return np.array([NULL if value is None else value for value in values], dtype=np.int64)
