"""Small files of a run's folder, each of them whole or absent: JSON, CSV."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.base.plain_files import open_plain
from hpsde.base.replacing import replaced
from hpsde.errors import FileFormatError, StorageError

LARGEST_FILE = 64 * 2**20


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """As `replaced`; what the disk does not do is a StorageError."""
    try:
        with replaced(path) as unfinished:
            yield unfinished
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """`data` as indented JSON, on disk when this returns."""
    text = json.dumps(json_ready(data), indent=2, allow_nan=False) + "\n"
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """`rows` under a header, numbers alone (true is 1, None is empty); the header has the keys of all rows."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: None if value is None else value + 0 for name, value in row.items()} for row in rows)


def json_ready(value: Any) -> Any:
    """`value` in JSON's own types. A number that is not finite has no JSON form and becomes null."""
    if isinstance(value, Mapping):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if isinstance(value, list | tuple | np.ndarray):
        return [json_ready(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file `path`."""
    try:
        with open(open_plain(path), "rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise FileFormatError(f"{path} has more than {LARGEST_FILE} bytes")
        data = json.loads(content.decode("utf-8"))
    except FileFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise FileFormatError(f"{path} should hold one JSON object, not a {type(data).__name__}")
    return data


def read_csv(path: Path) -> dict[str, np.ndarray]:
    """The columns of the file `path`; empty fields are NaN."""
    try:
        with open(open_plain(path), newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
        return {name: np.array([float(row[name] or "nan") for row in rows]) for name in reader.fieldnames or ()}
    except FileFormatError:
        raise
    except (TypeError, ValueError, csv.Error) as error:
        raise FileFormatError(f"{path} should hold numbers under a header: {error}") from error
