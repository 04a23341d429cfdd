"""Rollouts from files and text of others: tables as `hpsde export` writes them, and many returns told at once."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpsde.errors import InputError
from hpsde.runs.ledger import Told

NOTHING = ("", "none", "nan")
"""How tables write that there is no return."""


class Table(NamedTuple):
    """Rollouts with a return: contexts [N, S], parameters [N, D], returns [N]; and how many rows had none."""

    contexts: np.ndarray
    parameters: np.ndarray
    returns: np.ndarray
    skipped: int


def read_table(path: Path, context_size: int, parameter_size: int) -> Table:
    """The rollouts in a CSV or Parquet file with the columns context_1, ..., parameter_1, ... and return.

    Rows without a return, or whose `status` is another than done, are left out. Other columns do not matter.
    """
    names = [f"context_{i + 1}" for i in range(context_size)] + [f"parameter_{i + 1}" for i in range(parameter_size)]
    columns = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    count = len(next(iter(columns.values()), []))
    numbered = {name for name in columns if re.fullmatch(r"(context|parameter)_\d+", name)}
    if numbered != set(names) or "return" not in columns:
        raise InputError(
            f"{path} must have the columns {', '.join([*names, 'return'])}; it has {', '.join(columns) or 'none'}"
        )
    status = columns.get("status", ["done"] * count)
    kept = [i for i in range(count) if status[i] == "done" and str(columns["return"][i]).lower() not in NOTHING]
    values = np.array([[_number(path, name, i, columns[name][i]) for name in [*names, "return"]] for i in kept])
    values = values.reshape(len(kept), len(names) + 1)
    return Table(values[:, :context_size], values[:, context_size:-1], values[:, -1], count - len(kept))


def read_told(text: str) -> list[Told]:
    """Outcomes in JSON, [{"id": 1, "return": -3.2}, {"id": 2, "failed": "why"}], or CSV with the columns id and return,
    and failed where some did.
    """
    if not text.strip():
        raise InputError("expected rollouts in JSON or CSV on standard input, got nothing")
    if text.lstrip()[0] in "[{":
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"what came on standard input is no JSON: {error}") from error
        return [_told(i, entry) for i, entry in enumerate(data if isinstance(data, list) else [data])]
    columns = _columns("standard input", StringIO(text, newline=""))
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [_told(i, _from_csv(i, row)) for i, row in enumerate(rows)]


def _from_csv(place: int, row: Mapping[str, str]) -> dict[str, Any]:
    """A row of CSV as the entry that JSON would have; empty fields say nothing."""
    entry: dict[str, Any] = {name: value for name, value in row.items() if value != ""}
    try:
        entry |= {name: kind(entry[name]) for name, kind in (("id", int), ("return", float)) if name in entry}
    except ValueError as error:
        raise InputError(f"rollout {place + 1} on standard input: {error}") from error
    return entry


def _told(place: int, entry: Any) -> Told:
    known = {"id", "return", "failed", "parameters"}
    if not isinstance(entry, dict) or "id" not in entry or not set(entry) <= known:
        raise InputError(
            f"rollout {place + 1} on standard input: expected id, and return or failed, such as "
            f'{{"id": 7, "return": -3.2}}; got {str(entry)[:80]}'
        )
    return Told(entry["id"], entry.get("return"), entry.get("failed"), entry.get("parameters"))


def _read_csv(path: Path) -> dict[str, list[Any]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return _columns(str(path), file)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a table in UTF-8: {error}") from error


def _columns(where: str, lines: Iterable[str]) -> dict[str, list[Any]]:
    """The columns of CSV under its header."""
    reader = csv.DictReader(lines)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise InputError(f"{where} is no CSV: {error}") from error
    for i, row in enumerate(rows):
        if None in row or None in row.values():
            raise InputError(f"{where}: row {i + 1} has more or fewer fields than the header {reader.fieldnames}")
    return {name: [row[name] for row in rows] for name in reader.fieldnames or ()}


def _read_parquet(path: Path) -> dict[str, list[Any]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError("parquet needs pyarrow: pip install 'hpsde[parquet]'; or give a CSV file") from error
    try:
        return dict(parquet.read_table(path).to_pydict())
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:  # ValueError: text that is not UTF-8
        raise InputError(f"{path} is not a Parquet file: {error}") from error


def _number(path: Path, name: str, row: int, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{path}: {name} of row {row + 1} must be a number; got {str(value)[:60]!r}") from None
