"""What a run's calls cost as its database grows: milliseconds of each against the number of rollouts.

    python benchmarks/store_scaling.py [--sizes 100 1000 10000 100000] [--million] [--results FILE]

A run is asked and told by hand on the disk of the repository, beside the results, and removed afterwards. Its first
learning step lies beyond all sizes, so that the store is measured and not the learner. At every size: opening it, one
`ask`, one `tell`, one `tell(parameters=)` with many rollouts open, `status()`, `rollouts()`, and the rollouts that are
open. Each figure is the least of several calls, so that a busy machine matters little. Writes a CSV.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hpsde
from hpsde.runs.ledger import Ledger

S, D, BATCH, REPEATS, MOST = 2, 5, 1000, 15, 1_000_000
OPEN = {"share": 0.3, "most": 10_000}  # of all rollouts, those that are left open


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--million", action="store_true", help="also a million rollouts")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "store_scaling.csv")
    chosen = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir=chosen.results.parent, prefix="store-scaling-") as scratch:
        folder = Path(scratch) / "run"
        words = {"initial": hpsde.Uniform(np.zeros(D), 1.0), "context_size": S}
        hpsde.Run.create(folder, rollouts=MOST, initial_rollouts=MOST, **words).close()
        for size in sorted([*chosen.sizes, *([MOST - BATCH] if chosen.million else [])]):
            fill(folder, size)
            rows.append(measure(folder, size))
            print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
            write(chosen.results, rows)
    return 0


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """The rows so far as a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def fill(folder: Path, size: int) -> None:
    """Ask and tell until there are that many rollouts, the newest of them open."""
    generator = np.random.default_rng(size)
    with hpsde.Run.open(folder) as run:
        waiting, left = list(run.status().open), min(OPEN["most"], int(OPEN["share"] * size))
        while (count := run.store.position()[0]) < size or len(waiting) > left:
            if count < size:
                waiting += [each.id for each in run.ask(generator.uniform(size=(min(BATCH, size - count), S)))]
            told, waiting = waiting[: max(len(waiting) - left, 0)], waiting[max(len(waiting) - left, 0) :]
            if told:
                run.tell(told, generator.normal(size=len(told)))


def measure(folder: Path, size: int) -> dict[str, Any]:
    """One row of the table."""
    generator = np.random.default_rng(size + 1)
    opening = milliseconds(lambda: Ledger.open(folder).close(), 3)
    with hpsde.Run.open(folder) as run:
        waiting = iter(run.status().open)
        run.ask(generator.uniform(size=(1, S)))
        parameters = generator.uniform(size=D)
        row = {
            "rollouts": size,
            "open_ms": opening,
            "ask_one_ms": milliseconds(lambda: run.ask(generator.uniform(size=(1, S)))),
            "tell_one_ms": milliseconds(lambda: run.tell(next(waiting), 0.0)),
            "tell_parameters_ms": milliseconds(lambda: run.tell(next(waiting), 0.0, parameters=parameters), 3),
            "tell_best_ms": milliseconds(lambda: run.tell(next(waiting), 1.001 * run.store.best_return()), 3),
            "status_ms": milliseconds(run.status, 3),
            "open_rollouts_ms": milliseconds(run.store.open_rows, 3),
            "rollouts_ms": milliseconds(run.rollouts, 3),
        }
    return row | {"megabytes": round((folder / "rollouts.sqlite").stat().st_size / 2**20, 2)}


def milliseconds(function: Callable[[], Any], repeats: int = REPEATS) -> float:
    """How long a call takes, the least of several."""
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        taken.append(time.perf_counter() - started)
    return round(1000.0 * min(taken), 2)


if __name__ == "__main__":
    raise SystemExit(main())
