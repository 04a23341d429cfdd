"""The rows of an experiment, one per run and iteration, as CSV; and what is computed from the rows of a run."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.errors import FileFormatError
from hpsde.runs.files import replacing

DONE, FAILED = "done", "failed"

TEXTS = ("task", "variant", "method", "status", "error")
COUNTS = ("seed", "iteration", "rollouts", "options_kept", "options_used", "surplus", "solutions_found", "doubts")
COLUMNS = (
    "task",
    "variant",
    "method",
    "seed",
    "iteration",
    "rollouts",
    "batch_mean_return",
    "greedy_mean_return",
    "greedy_median_return",
    "options_kept",
    "options_used",
    "coverage",
    "surplus",
    "ess",
    "temperature",
    "flattening",
    "learner_seconds",
    "task_seconds",
    "status",
    "error",
)
"""Columns of every experiment; what is measured besides (`measures.py`, and the task itself) comes after them."""

Row = Mapping[str, Any]
Key = tuple[str, str, int]
Runs = Mapping[Key, Sequence[Row]]


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """The rows as CSV, whole or not at all: returns with 8 digits, other numbers with 5, empty where unknown."""
    names = [*COLUMNS, *sorted({name for row in rows for name in row} - set(COLUMNS))]
    with replacing(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_text(name, row.get(name)) for name in names] for row in rows)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file that `write_rows` wrote; None where a field is empty."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if missing := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
                raise ValueError(f"it has no column {missing[0]}")
            return [{name: _value(name, text) for name, text in row.items()} for row in reader]
    except (TypeError, ValueError, csv.Error) as error:
        raise FileFormatError(f"{path} should hold the rows of an experiment: {error}") from error


def _text(name: str, value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if name in TEXTS:
        return str(value)
    if name in COUNTS:
        return str(int(value))
    return f"{value:.8g}" if name.endswith("_return") else f"{value:.5g}"


def _value(name: str, text: str) -> Any:
    if name in TEXTS:
        return text
    if text == "":
        return None
    return int(text) if name in COUNTS else float(text)


def runs_of(rows: Iterable[Row]) -> dict[Key, list[Row]]:
    """The rows of every run in their order, by (task, variant, seed)."""

    def key(row: Row) -> Key:
        return row["task"], row["variant"], row["seed"]

    return {name: list(group) for name, group in groupby(sorted(rows, key=key), key=key)}


def failed(run: Sequence[Row]) -> bool:
    """Whether a run failed."""
    return any(row["status"] != DONE for row in run)


def _final(name: str) -> Callable[[Sequence[Row]], float]:
    return lambda run: float("nan") if run[-1].get(name) is None else float(run[-1][name])


def mean_return(run: Sequence[Row]) -> float:
    """Mean greedy return over the rollouts since the first learning step: the area under the curve by its width."""
    rollouts = np.array([row["rollouts"] for row in run], dtype=float)
    returns = np.array([row["greedy_mean_return"] for row in run], dtype=float)
    if len(run) == 1:
        return float(returns[0])
    return float(np.trapezoid(returns, rollouts) / (rollouts[-1] - rollouts[0]))


def rollouts_to_settle(run: Sequence[Row]) -> float:
    """Rollouts after which the number of options never changes again; at most all."""
    kept = np.array([row["options_kept"] for row in run])
    changes = np.flatnonzero(np.diff(kept))
    return float(run[changes[-1] + 1 if len(changes) else 0]["rollouts"])


def solved(run: Sequence[Row]) -> float:
    """1 where at the end all known solutions are covered with at most one surplus option, else 0."""
    return float(run[-1]["coverage"] == 1.0 and run[-1]["surplus"] <= 1)


QUANTITIES: dict[str, Callable[[Sequence[Row]], float]] = {
    "final return": _final("greedy_mean_return"),
    "mean return": mean_return,
    "rollouts to settle": rollouts_to_settle,
    "options": _final("options_kept"),
    "ESS": _final("ess"),
    "learner seconds": _final("learner_seconds"),
    "solved": solved,
    "best option's return": _final("best_option_return"),
    "collision-free": _final("collision_free"),
    "gaps": _final("solutions_found"),
    "families": _final("solutions_found"),
    "success": _final("success"),
    "strict success": _final("strict_success"),
    "both sides": _final("both_sides"),
}
"""What is compared between runs, each one number for a run."""


def values(runs: Runs, task: str, variant: str, quantity: str) -> dict[int, float]:
    """The quantity of every run that did not fail, by seed."""
    return {
        seed: QUANTITIES[quantity](run)
        for (of_task, of_variant, seed), run in runs.items()
        if (of_task, of_variant) == (task, variant) and not failed(run)
    }


def failures(runs: Runs, task: str, variant: str) -> int:
    """How many runs of a variant failed on a task."""
    return sum(
        failed(run) for (of_task, of_variant, _), run in runs.items() if (of_task, of_variant) == (task, variant)
    )
