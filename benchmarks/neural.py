"""Neural options beside those whose means are linear in features of the context, over many seeds.

    python benchmarks/neural.py [--seeds 10] [--first-seed 0] [--tasks compass toy-curve puddle] [--options ...]

Where a context enters through an angle (compass) networks should win; where lines or squared exponentials suffice
(the toys, the puddle) they should lose nothing. Options are `neural`, or the features of options without a network:
`automatic`, `linear`, `quadratic`, `squared-exponential`; `task` stands for those the task names. Each run is a row of
benchmarks/results/neural.csv at once, and one that is there is not run again.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import time
from pathlib import Path

import numpy as np

from hpsde.learning import iterate, measure
from hpsde.methods import make_learner
from hpsde.tasks import make_task, task_extras

OUT = Path(__file__).parent / "results" / "neural.csv"
KEYS = ("task", "options", "rollouts", "seed")
COLUMNS = (*KEYS, "greedy_mean_return", "options_kept", "coverage", "surplus", "features", "cpu_seconds")


def run(name: str, options: str, rollouts: int, seed: int) -> dict[str, object]:
    """One run: its measures, and the processor seconds of everything in it."""
    task, begin = make_task(name), time.process_time()
    given = {} if options in ("neural", "task") else {"features": options}
    kind = "neural" if options == "neural" else "linear"
    learner = make_learner("hpsde-reps-gp", task, seed=seed, expected_rollouts=rollouts, options=kind, **given)
    for _ in iterate(task, learner, rollouts=rollouts):
        pass
    row = {"task": name, "options": options, "rollouts": rollouts, "seed": seed} | measure(task, learner.policy)
    seconds = round(time.process_time() - begin, 1)
    return row | {"features": learner.policy.features.kind, "cpu_seconds": seconds}


def read(path: Path) -> list[dict[str, str]]:
    """The rows that there are."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def report(rows: list[dict[str, str]]) -> None:
    """A line for each task and kind of options."""
    print("| task | options | rollouts | seeds | return: median | worst | all found, none more | cpu s |")
    print("|---|---|---|---|---|---|---|---|")
    for group in sorted({(row["task"], row["options"], int(row["rollouts"])) for row in rows}):
        own = [row for row in rows if (row["task"], row["options"], int(row["rollouts"])) == group]
        returns = np.array([float(row["greedy_mean_return"]) for row in own])
        exact = sum(float(row["coverage"]) == 1.0 and int(row["surplus"]) == 0 for row in own)
        seconds = np.median([float(row["cpu_seconds"]) for row in own])
        told = f"{np.median(returns):.5f} | {returns.min():.5f} | {exact} of {len(own)} | {seconds:.0f}"
        print(f"| {group[0]} | {group[1]} | {group[2]} | {len(own)} | {told} |")


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--tasks", nargs="*", default=["compass", "toy-double", "toy-triple", "toy-curve", "puddle"])
    parser.add_argument("--options", nargs="+", default=["neural", "task"])
    parser.add_argument("--rollouts", type=int, help="by default as many as the task says")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    for name in arguments.tasks:
        rollouts = arguments.rollouts or task_extras(make_task(name)).rollouts
        for options in arguments.options:
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                rows = read(arguments.out)
                key = tuple(map(str, (name, options, rollouts, seed)))
                if any(tuple(row[each] for each in KEYS) == key for row in rows):
                    continue
                row = run(name, options, rollouts, seed)
                rows.append({each: str(row[each]) for each in COLUMNS})
                with arguments.out.open("w", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS)
                    writer.writeheader()
                    writer.writerows(rows)
    report(read(arguments.out))


if __name__ == "__main__":
    main()
