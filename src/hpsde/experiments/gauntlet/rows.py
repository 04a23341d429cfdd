"""One row for every run of the gauntlet, in a CSV file that grows by a line whenever a run is done."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpsde.errors import FileFormatError
from hpsde.runs.files import replacing

Row = Mapping[str, Any]
Key = tuple[str, int, str, str]

TEXTS = ("cell", "family", "method", "settings", "doubts", "error")
COUNTS = ("seed", "context_size", "parameter_size", "rollouts", "solutions", "found", "options", "surplus", "steps")
FLAGS = ("hopeless", "exact")
COLUMNS = (
    "cell",
    "family",
    "hopeless",
    "seed",
    "method",
    "settings",
    "context_size",
    "parameter_size",
    "rollouts",
    "solutions",
    "found",
    "options",
    "coverage",
    "surplus",
    "exact",
    "regret",
    "measures",
    "doubts",
    "learner_seconds",
    "steps",
    "error",
)


def settings_text(settings: Mapping[str, Any], rollouts: int | None = None) -> str:
    """The changes of a run as short JSON: the settings, and `rollouts` where fewer were done than the task says."""
    named = dict(settings) if rollouts is None else {**settings, "rollouts": rollouts}
    return json.dumps(named, sort_keys=True, separators=(",", ":"))


def key(row: Row) -> Key:
    """What tells runs apart."""
    return row["cell"], row["seed"], row["method"], row["settings"]


def run_name(of: Key) -> str:
    """A run's key as one text: 'ridges-4@17 hpsde-reps-gp {}'."""
    cell, seed, method, settings = of
    return f"{cell}@{seed} {method} {settings}"


def append_row(path: Path, row: Row) -> None:
    """Add a line to the file, under a header where there is no file yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    line = _csv_text([_text(row.get(name)) for name in COLUMNS])
    with path.open("a", newline="", encoding="utf-8") as file:
        file.write(_csv_text(COLUMNS) + line if new else line)


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """The file anew with these rows alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [_csv_text(COLUMNS), *(_csv_text([_text(row.get(name)) for name in COLUMNS]) for row in rows)]
    with replacing(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        file.writelines(lines)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file; none where there is no file. None stands for an empty field.

    A last line that is not complete, because its writer was killed, is left out.
    """
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        text = file.read()
    reader = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1]))
    if missing := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
        raise FileFormatError(f"{path} should hold the rows of the gauntlet: it has no column {missing[0]}")
    try:
        return [{name: _value(name, row[name]) for name in COLUMNS} for row in reader]
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{path} should hold the rows of the gauntlet: {error}") from error


def repair(path: Path) -> None:
    """Cut off a last line that is not complete, so that the next one does not go on with it."""
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        write_rows(path, read_rows(path))


def by_cell(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of every cell, in the order in which the cells come."""
    return _grouped(rows, "cell")


def by_family(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of every family, in the order in which the families come."""
    return _grouped(rows, "family")


def _grouped(rows: Iterable[Row], name: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[name], []).append(row)
    return groups


def _csv_text(fields: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.5g}"
    if isinstance(value, Mapping):
        return json.dumps({name: float(f"{each:.5g}") for name, each in value.items()}, separators=(",", ":"))
    return str(value)


def _value(name: str, text: str) -> Any:
    if name in TEXTS:
        return text
    if name == "measures":
        return json.loads(text or "{}")
    if text == "":
        return None
    if name in FLAGS:
        return text == "1"
    return int(text) if name in COUNTS else float(text)
