"""The folder of a run: five files, each of them whole or absent.

config.json     what was asked for, and the versions it ran with
iterations.csv  one line per iteration: rollouts so far, returns, options, ESS, temperature, seconds
rollouts.npz    contexts [N, S], parameters [N, D]; returns, failed, option (-1: initial), iteration [N]
policy.npz      the learned policy (hpsde.load_policy)
result.json     the result, as `hpsde run --json` prints it; absent unless the run reached its end
"""

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

from hpsde.errors import FileFormatError, InputError

CONFIG, ITERATIONS, ROLLOUTS, POLICY, RESULT = FILES = (
    "config.json",
    "iterations.csv",
    "rollouts.npz",
    "policy.npz",
    "result.json",
)


def prepare_folder(folder: Path, force: bool) -> None:
    """Make `folder`, or take over an old run's with `force`: only files that a run writes are removed."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must be a folder; {folder} is a file")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise InputError(f"{folder} is not empty; give another --out, or --force to overwrite the run in it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"--out {folder} cannot be written: {error.strerror}") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; takes the name `path` in one step when the block ends well, else is removed."""
    unfinished = path.with_name(f".unfinished-{os.getpid()}-{path.name}")
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """`data` as indented JSON."""
    with replacing(path) as unfinished:
        unfinished.write_text(json.dumps(json_ready(data), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """`rows` under a header, numbers alone (true is 1); all rows have the keys of the first."""
    with replacing(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: value + 0 for name, value in row.items()} for row in rows)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """`arrays` by name, compressed. `path` must end in .npz."""
    with replacing(path) as unfinished:
        np.savez_compressed(unfinished, allow_pickle=False, **arrays)


def json_ready(value: Any) -> Any:
    """`value` in JSON's own types. A number that is not finite has no JSON form and becomes null."""
    if isinstance(value, Mapping):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [json_ready(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file `path`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{path} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise FileFormatError(f"{path} should hold one JSON object, not a {type(data).__name__}")
    return data


def read_csv(path: Path) -> dict[str, np.ndarray]:
    """The columns of the file `path`; empty fields are NaN."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    try:
        return {name: np.array([float(row[name] or "nan") for row in rows]) for name in reader.fieldnames or ()}
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{path} should hold numbers under a header: {error}") from error


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays in the file `path`. Loads numbers only, runs nothing."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, EOFError, KeyError) as error:
        raise FileFormatError(f"{path} should hold NumPy arrays: {error}") from error
