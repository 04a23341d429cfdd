"""The toy tasks over many seeds with the defaults: returns, solutions found, surplus options, seconds.

    python benchmarks/toys.py [--seeds 20] [--method hpsde-reps-gp]

Every run has 600 initial and 450 further rollouts. The first run of a process compiles; the others are warm. A fresh
process per task measures the cold time. Writes one row per run to benchmarks/results/toys.csv.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from hpsde.learning import iterate, measure
from hpsde.methods import make_learner
from hpsde.tasks import make_task

TARGETS = {"toy-double": (0.9998, 2), "toy-triple": (99.985, 3), "toy-curve": (None, 2)}
ROLLOUTS = 1050


def run(name: str, method: str, seed: int) -> dict[str, object]:
    """One run of one task: its measures and its seconds."""
    task = make_task(name)
    learner = make_learner(method, task, seed=seed, expected_rollouts=ROLLOUTS)
    last = list(iterate(task, learner, rollouts=ROLLOUTS))[-1]
    seconds = {"learner_seconds": last.learner_seconds, "task_seconds": last.task_seconds}
    return {"task": name, "method": method, "seed": seed} | measure(task, learner.policy) | seconds


def cold_seconds(name: str, method: str) -> float:
    """Learner seconds of a run in a fresh process, compilation included."""
    command = [sys.executable, __file__, "--cold", name, "--method", method]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def report(name: str, rows: list[dict[str, object]], cold: float) -> None:
    """The figures of one task against their targets."""
    target, solutions = TARGETS[name]
    returns = np.array([row["greedy_mean_return"] for row in rows], dtype=float)
    found = sum(row["coverage"] == 1.0 and row["surplus"] <= 1 for row in rows)
    kept = np.bincount([int(row["options_kept"]) for row in rows])
    print(f"\n{name}: {len(rows)} seeds, {ROLLOUTS} rollouts each, {solutions} solutions")
    wanted = "" if target is None else f" (wanted {target})"
    print(f"  greedy mean return   median {np.median(returns):.6f}{wanted}, worst {returns.min():.6f}")
    print(f"  all solutions covered with at most one surplus option: {found} of {len(rows)} seeds")
    print("  options kept         " + ", ".join(f"{k}: {n} seeds" for k, n in enumerate(kept) if n))
    warm = np.array([row["learner_seconds"] for row in rows[1:]], dtype=float)
    if len(warm):
        print(f"  learner seconds      warm median {np.median(warm):.2f}, worst {warm.max():.2f}; cold {cold:.2f}")


def main() -> None:
    """Run the seeds of every toy task and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0, help="the lowest seed")
    parser.add_argument("--method", default="hpsde-reps-gp")
    parser.add_argument("--tasks", nargs="+", default=list(TARGETS))
    parser.add_argument("--cold", metavar="TASK", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "toys.csv")
    arguments = parser.parse_args()
    if arguments.cold:
        print(run(arguments.cold, arguments.method, 0)["learner_seconds"])
        return
    table: list[dict[str, object]] = []
    for name in arguments.tasks:
        cold = cold_seconds(name, arguments.method)
        rows = []
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            begin = time.perf_counter()
            rows.append(run(name, arguments.method, seed))
            print(f"{name} seed {seed}: {time.perf_counter() - begin:.1f} s", file=sys.stderr)
        report(name, rows, cold)
        table += rows
    with open(arguments.out, "w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main()
