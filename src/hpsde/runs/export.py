"""All rollouts of a run as a table in one file: CSV or Parquet."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from hpsde.errors import InputError, StorageError
from hpsde.runs.files import replacing
from hpsde.runs.folder import FILES
from hpsde.runs.schema import COLUMNS, columns_of
from hpsde.runs.store import Store

FORMATS = ("csv", "parquet")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export(store: Store, path: Path, to: str) -> list[int]:
    """Write the table to `path`, whole or not at all; `to` is one of FORMATS. The numbers of rollouts that were left
    out because they are damaged.
    """
    if path.name in FILES and path.parent.resolve() == store.path.parent.resolve():
        raise InputError(f"{path} is a file of the run itself; give another name")
    columns, damaged = table(store)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error
    with replacing(path) as unfinished:
        if to == "csv":
            _write_csv(unfinished, columns)
        else:
            _write_parquet(unfinished, columns)
    return damaged


def table(store: Store) -> tuple[dict[str, list[Any]], list[int]]:
    """Columns by name, and the numbers of damaged rollouts, which are left out. A context of two numbers is context_1
    and context_2; parameters are those that were run.

    Beside `option`, its place in the policy of then, stands `number`, what it is called from its birth on.
    """
    found, rows, damaged = store.whole_rows()
    columns: dict[str, list[Any]] = {}
    for name in COLUMNS:
        if name in ("context", "parameters"):
            values = rows.contexts if name == "context" else rows.parameters
            columns |= {f"{name.removesuffix('s')}_{j + 1}": column.tolist() for j, column in enumerate(values.T)}
        elif name == "executed":
            columns["as_asked"] = [value is None for value in found[name]]
        else:
            columns[name] = found[name]
        if name == "option":
            columns["number"] = rows.number.tolist()
    return columns, damaged


def _write_csv(path: Path, columns: dict[str, list[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_as_text(value) for value in row] for row in zip(*columns.values(), strict=True))


def _as_text(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula begins with an apostrophe; numbers stay as they are.

    A carriage return, which a reader would take for the end of the row, becomes a new line, which is quoted.
    """
    if not isinstance(value, str):
        return value
    text = f"'{value}" if value.startswith(_FORMULA) else value
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _write_parquet(path: Path, columns: dict[str, list[Any]]) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError("parquet needs pyarrow: pip install 'hpsde[parquet]'") from error
    known = {"INTEGER": pyarrow.int64(), "REAL": pyarrow.float64(), "TEXT": pyarrow.string(), "BLOB": pyarrow.binary()}
    types = dict.fromkeys(columns, known["REAL"])  # context_1, ..., parameter_1, ...
    types |= {name: known[column.type] for name, column in columns_of("rollouts").items()}
    types |= {"number": known["INTEGER"], "as_asked": pyarrow.bool_()}
    arrays = [pyarrow.array(values, type=types[name]) for name, values in columns.items()]
    parquet.write_table(pyarrow.Table.from_arrays(arrays, names=list(columns)), path)
