"""What a run gives away that ends where nothing is left to gain: random tasks at that point, and with all rollouts.

    python benchmarks/early.py [--cells ridges-4 ...] [--first-seed 0] [--seeds 1] [--out FILE]

By default all cells of ridges and bumps of the gauntlet and those with hard returns. One line for each run: how many
rollouts were needed (empty: all), whether exactly the solutions were found and what was lost, then and at the end.
Choices are made on seeds below 1,000.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from hpsde.base import kept_programs

kept_programs.keep_all()  # before jax is imported, which reads once where to keep it

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.learning import TOLERANCE, budget, iterate
from hpsde.methods import DEFAULT_METHOD, make_learner
from hpsde.tasks.gauntlet import CELLS
from hpsde.tasks.gauntlet.score import score
from hpsde.tasks.task import task_extras

RESULTS = Path(__file__).parent / "results" / "early.csv"
FAMILIES = ("ridges", "bumps", "hard")
LEFT_OUT = ("cec-f6", "cec-f7", "cec-f8", "cec-f9")  # more solutions than 1,050 rollouts can show

Line = dict[str, Any]


def measured(cell: str, seed: int) -> Line:
    """One run with all rollouts, looked at where it would have ended."""
    task = CELLS[cell].make(seed)
    first, total = budget(task_extras(task), None, None)
    learner = make_learner(DEFAULT_METHOD, task, seed=seed, initial_rollouts=first, expected_rollouts=total)
    needed, then = None, {}
    for each in iterate(task, learner, rollouts=total):
        if needed is None and each.info.to_gain <= TOLERANCE and each.rollouts < total:
            needed, then = each.rollouts, score(task, learner.policy)
    last = score(task, learner.policy)
    line: Line = {"cell": cell, "seed": seed, "initial": first, "rollouts": total, "needed": needed}
    for name, scores in (("then", then or last), ("last", last)):
        line |= {f"{each}_{name}": scores[each] for each in ("exact", "regret")}
    return line


def report(lines: Sequence[Line]) -> str:
    """How many runs ended early, what they needed, and what they gave away."""
    early = [line for line in lines if line["needed"]]
    if not early:
        return f"none of {len(lines)} runs ended early"
    needed = np.median([line["needed"] for line in early])
    spared = [1.0 - (line["needed"] - line["initial"]) / (line["rollouts"] - line["initial"]) for line in early]
    more = [line["regret_then"] - line["regret_last"] for line in early]
    later = [f"{line['cell']}@{line['seed']}" for line in early if line["exact_last"] and not line["exact_then"]]
    return "\n".join(
        [
            f"{len(early)} of {len(lines)} runs ended early, after {needed:.0f} rollouts in the median, which "
            f"spares {np.median(spared):.0%} of those after the first",
            f"exact then {sum(e['exact_then'] for e in early)}, with all rollouts {sum(e['exact_last'] for e in early)}"
            + (f"; exact only later: {' '.join(later)}" if later else ""),
            f"regret given away: median {np.median(more):.2g}, most {max(more):.2g}",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, write a line after every run, report."""
    default = [name for name, cell in CELLS.items() if cell.family in FAMILIES and name not in LEFT_OUT]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=default, choices=CELLS, metavar="NAME")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    lines: list[Line] = []
    with given.out.open("w", newline="") as file:
        writer = None
        for seed in range(given.first_seed, given.first_seed + given.seeds):
            for cell in given.cells:
                lines.append(measured(cell, seed))
                writer = writer or csv.DictWriter(file, list(lines[0]), lineterminator="\n")
                if len(lines) == 1:
                    writer.writeheader()
                writer.writerow(lines[-1])
                file.flush()
                print(*lines[-1].values(), flush=True)
    print(report(lines))


if __name__ == "__main__":
    main()
