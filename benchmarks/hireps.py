"""HiREPS and contextual REPS over many seeds: returns, options, solutions found, seconds.

    python benchmarks/hireps.py [--tasks toy-double ...] [--methods tuned defaults creps] [--seeds 10]
    python benchmarks/hireps.py --sweep [--tasks toy-double ...] [--epsilons 1 2 ...] [--windows 1000 ...]

`tuned` has the settings of `hpsde.methods.TUNED` for the task. Rollouts are as many as the task says. Writes one row
per run to benchmarks/results/hireps_runs.csv.

`--sweep` is how these settings were found: a grid, seeds 1000 and up (`--first-seed`), the greedy return on contexts
drawn anew and not on the evaluation contexts. It writes benchmarks/results/hireps_sweep.csv, one row per setting; those
of other tasks that are there stay.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hpsde.learners.creps import CREPS
from hpsde.learners.hireps import HiREPS
from hpsde.learning import Iteration, iterate, measure
from hpsde.methods import TUNED
from hpsde.tasks import make_task, task_extras

RESULTS = Path(__file__).parent / "results"
TASKS = ("toy-double", "toy-triple", "toy-curve", "puddle", "reach")
METHODS = ("tuned", "defaults", "creps")
EPSILONS, KAPPA_SHARES = (1.0, 1.5, 2.0, 2.5), (0.7, 0.9)
FIRST_SWEEP_SEED, SWEEP_SEEDS = 1000, 3


def learn(task: Any, seed: int, method: type[HiREPS], settings: dict[str, Any]) -> tuple[HiREPS, list[Iteration]]:
    """A learner after all the rollouts of the task, and its iterations."""
    extras = task_extras(task)
    given = {"initial_rollouts": extras.initial_rollouts, "expected_rollouts": extras.rollouts}
    given["features"] = extras.features
    learner = method(task.context_size, task.parameter_size, initial=task, seed=seed, **(given | settings))
    return learner, list(iterate(task, learner, rollouts=extras.rollouts))


def settled(iterations: list[Iteration]) -> int:
    """After how many rollouts the number of options no longer changed."""
    counts = [each.info.options_kept for each in iterations]
    return next(each.rollouts for n, each in enumerate(iterations) if set(counts[n:]) == {counts[-1]})


def run(name: str, method: str, seed: int) -> dict[str, Any]:
    """One run: its measures on the evaluation contexts, and its seconds."""
    task = make_task(name)
    kind = CREPS if method == "creps" else HiREPS
    learner, iterations = learn(task, seed, kind, {} if method == "defaults" else TUNED.get(name, {}))
    seconds = {"settled": settled(iterations), "learner_seconds": round(iterations[-1].learner_seconds, 2)}
    return {"task": name, "method": method, "seed": seed} | measure(task, learner.policy) | seconds


def report(name: str, method: str, rows: list[dict[str, Any]]) -> None:
    """The figures of one task and method."""
    names = ("greedy_mean_return", "options_kept", "options_used", "settled", "coverage", "surplus", "learner_seconds")
    column = {key: np.array([row[key] for row in rows], dtype=float) for key in names}
    returns, kept = column["greedy_mean_return"], column["options_kept"]
    print(
        f"{name:11s} {method:9s} return median {np.median(returns):.6f} worst {returns.min():.6f} | "
        f"options {kept.min():.0f} to {kept.max():.0f}, used {column['options_used'].mean():.1f}, settled at "
        f"{np.median(column['settled']):.0f} rollouts | coverage {column['coverage'].mean():.2f}, "
        f"surplus {column['surplus'].mean():.1f} | {np.median(column['learner_seconds']):.1f} s",
        flush=True,
    )


Grid = list[dict[str, Any]]


def sweep(name: str, grid: Grid, seeds: range) -> list[dict[str, Any]]:
    """The mean over the seeds of the greedy return in fresh contexts, for every setting of the grid."""
    task, rows = make_task(name), []
    for settings in grid:
        returns, kept = [], []
        for seed in seeds:
            learner, _ = learn(task, seed, HiREPS, settings)
            contexts = np.asarray(task.sample_contexts(jax.random.key(seed + 1_000_000), 300), dtype=float)
            returns.append(np.mean(task.evaluate(contexts, learner.policy.act(contexts))))
            kept.append(len(learner.policy.options))
        row = {"task": name, **settings}
        row |= {"mean_return": f"{np.mean(returns):.6f}", "worst_return": f"{np.min(returns):.6f}"}
        rows.append(row | {"options": round(float(np.mean(kept)), 1)})
        print(*rows[-1].values(), flush=True)
    return rows


def others(path: Path, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a file that are of none of these tasks."""
    if not path.is_file():
        return []
    with open(path, newline="") as file:
        return [row for row in csv.DictReader(file) if row["task"] not in tasks]


def write(path: Path, table: list[dict[str, Any]]) -> None:
    """The rows as a CSV file; tasks may have measures of their own."""
    names = list(dict.fromkeys(name for row in table for name in row))
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(table)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, help="how many; by default 10, or 3 of a sweep")
    parser.add_argument("--first-seed", type=int, help="the lowest seed; by default 0, or 1000 of a sweep")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS), help="of a sweep")
    parser.add_argument("--kappa-shares", nargs="+", type=float, default=list(KAPPA_SHARES), help="of a sweep")
    parser.add_argument("--windows", nargs="+", type=int, help="of a sweep; 0, the default: all rollouts")
    parser.add_argument("--out", type=Path, help="the table")
    given = parser.parse_args(arguments)
    first, count = (FIRST_SWEEP_SEED, SWEEP_SEEDS) if given.sweep else (0, 10)
    first = first if given.first_seed is None else given.first_seed
    given.seeds = range(first, first + (count if given.seeds is None else given.seeds))
    return given


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the seeds of every task and method, or the sweep."""
    given = parse(arguments)
    out = given.out or RESULTS / ("hireps_sweep.csv" if given.sweep else "hireps_runs.csv")
    table = others(out, given.tasks)
    names = ("epsilon", "kappa_share", "window")
    values = itertools.product(given.epsilons, given.kappa_shares, given.windows or (None,))
    grid = [{name: each or None for name, each in zip(names, one, strict=True)} for one in values]
    for name in given.tasks:
        if given.sweep:
            table += sweep(name, grid, given.seeds)
            continue
        for method in given.methods:
            if method == "defaults" and name not in TUNED:
                continue  # the same as tuned
            rows = [run(name, method, seed) for seed in given.seeds]
            report(name, method, rows)
            table += rows
    write(out, table)


if __name__ == "__main__":
    main()
