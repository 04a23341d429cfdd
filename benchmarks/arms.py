"""How many rollouts of its own an arm's option needs before it reaches the goals round its side of the pole.

    python benchmarks/arms.py [--cell arm-panda] [--first-seed 21] [--seeds 4] [--only-draw]

Writes benchmarks/results/arms.csv, one line for every option after every fourth learning step (how many rollouts it has
had, and the share of the evaluation goals that its mean reaches round either side), and draws docs/images/arm-sides.png
from it. Development seeds, below 1,000: it shows why runs of the gauntlet miss a side.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.learning import iterate
from hpsde.methods import make_learner
from hpsde.tasks import make_task
from hpsde.tasks.gauntlet.arms import SETUPS
from hpsde.tasks.task import task_extras

RESULTS = Path(__file__).parent / "results" / "arms.csv"
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "arm-sides.png"
EVERY = 4  # learning steps
FOLLOWS = 0.8  # of the goals, that an option must reach round one side

Line = dict[str, Any]


def lines(name: str, seed: int) -> Iterator[Line]:
    """One for every option, every so many learning steps and after the last."""
    task = make_task(name)
    goals, rollouts = np.asarray(task.evaluation_contexts()), task_extras(task).rollouts
    learner = make_learner("hpsde-reps-gp", task, seed=seed, expected_rollouts=rollouts)
    for number, iteration in enumerate(iterate(task, learner, rollouts=rollouts), start=1):
        if number % EVERY and iteration.rollouts < rollouts:
            continue
        policy = learner.policy
        for option, means in zip(policy.option_numbers.tolist(), policy.option_means(goals), strict=True):
            shares = [float(np.mean(side.follows(goals, means))) for side in task.solutions]
            own = int(np.sum(learner.rollouts.number == option))
            known = {"task": name, "rollouts": len(learner.rollouts), "option": option, "own": own}
            yield known | dict(zip((side.name for side in task.solutions), shares, strict=True))


def draw(rows: Sequence[Line], path: Path) -> None:
    """A panel for every task, a curve for every option that ends with the policy."""
    import matplotlib.pyplot as plt

    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure, panels = plt.subplots(
        1, len(tasks), figsize=(3.2 * len(tasks), 3.0), sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    for panel, task in zip(panels[0], tasks, strict=True):
        mine = [row for row in rows if row["task"] == task]
        last = max(int(row["rollouts"]) for row in mine)
        for option in dict.fromkeys(row["option"] for row in mine if int(row["rollouts"]) == last):
            curve = [row for row in mine if row["option"] == option]
            side = max(("left", "right"), key=lambda name: float(curve[-1][name]))
            own, share = ([float(row[name]) for row in curve] for name in ("own", side))
            panel.plot(own, share, color="C0" if side == "left" else "C1", marker=".")
        panel.axhline(FOLLOWS, color="0.6", linewidth=0.8)
        panel.set_title(task, fontsize=9)
        panel.set_xlabel("rollouts of the option's own")
    panels[0, 0].set_ylabel("goals within 2 cm")
    for label, style in (("left", "C0-"), ("right", "C1-")):
        panels[0, -1].plot([], [], style, label=label)
    panels[0, -1].legend(fontsize=7, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run, write, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cell", choices=list(SETUPS), default="arm-panda")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=21)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--image", type=Path, default=IMAGE)
    parser.add_argument("--only-draw", action="store_true")
    arguments = parser.parse_args()
    if not arguments.only_draw:
        rows: list[Line] = []
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            rows += lines(f"{arguments.cell}@{seed}", seed)
            print(rows[-1], flush=True)
        with arguments.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    with arguments.out.open(newline="") as file:
        draw(list(csv.DictReader(file)), arguments.image)


if __name__ == "__main__":
    main()
