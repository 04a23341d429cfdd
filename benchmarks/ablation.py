"""What each departure from the paper gains on the gauntlet: one setting changed at a time, paired over cells.

    python benchmarks/ablation.py [--first-seed 300] [--seeds 1] [--variants NAME ...] [--cells NAME ...]

A run's loss is its regret (at most 1) and one more where a solution is missing or an option stands for none. Every run
is appended to benchmarks/results/ablation.csv as soon as it is done; those that are there are not made again. Prints,
for each variant, how much more it loses than the defaults in the mean over the cells, and how many times the defaults'
its regret is in the geometric mean (below FLOOR all regrets are alike), with bootstrap intervals. Development seeds,
below 1,000, since the table is what choices are made by.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.learning import iterate
from hpsde.methods import make_learner
from hpsde.tasks import make_task
from hpsde.tasks.gauntlet.score import score
from hpsde.tasks.task import task_extras

CELLS = (
    "ridges-3",
    "ridges-6",
    "curves-2",
    "crossing-2",
    "widths-4",
    "heights-4",
    "partial-3",
    "plateau-2",
    "cauchy-3",
    "context2-3",
    "parameters2-3",
    "bumps-2d-4",
    "bumps-2d-9",
    "cec-f4",
    "noise-30",
    "outliers-up",
    "binary-10",
    "units",
    "many-10-three",
    "ridges-3-at-300",
    "ridges-3-at-100",
    "bumps-2d-3-at-100",
    "walls-3",
)

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "joint Gaussians on weighted rollouts": {"density": "vb"},
    "no baseline over the context": {"f": "exp"},
    "options start from all assigned samples alike": {"base": "assigned"},
    "no least support of an option": {"support": 0.0},
    "REPS keeps the mean context alone": {"match_squares": False},
    "no step on the modelled return": {"model_step": False},
    "learning gate takes the best (UCB argmax)": {"exploration_temperature": 0.0},
    "optimism by the return's deviation": {"deviation": "return"},
    "best expected return in use": {"greedy": "expected"},
    "returns not warped": {"warp": "none"},
    "parameters scaled alone": {"whitening": False},
    "bumps without a trend": {"trend": False},
    "pi_old of the rollout's own policy": {"behaviour": "own"},
    "soft assignment": {"assignment": "soft"},
    "fixed ridge": {"ridge": 1e-3},
    "KL bound of the paper's code": {"epsilon": 0.3},
    "own axes": {"gp_axes": "own"},
    "one length in the kernel": {"gp_axes": "isotropic"},
    "reward-weighted regression": {"update": "rwr"},
    "softmax gate": {"gate": "softmax"},
    "no scouts": {"scouts": 0.0},
}
FLOOR = 1e-6  # of the regret
COLUMNS = ("variant", "cell", "seed", "exact", "regret", "loss")


def run(cell: str, seed: int, changes: dict[str, Any]) -> dict[str, Any]:
    """The measures of one run."""
    task = make_task(f"{cell}@{seed}")
    rollouts = task_extras(task).rollouts
    learner = make_learner("hpsde-reps-gp", task, seed=seed, expected_rollouts=rollouts, **changes)
    for _ in iterate(task, learner, rollouts=rollouts):
        pass
    found = score(task, learner.policy)
    loss = min(max(float(found["regret"]), 0.0), 1.0) + (0.0 if found["exact"] else 1.0)
    return {"exact": int(found["exact"]), "regret": f"{found['regret']:.6g}", "loss": f"{loss:.6g}"}


Losses = dict[tuple[str, str, int], tuple[float, float]]  # loss and log10 of the regret, by variant, cell and seed


def losses_of(row: dict[str, Any]) -> tuple[float, float]:
    """The loss and the log10 of the regret of a row."""
    return float(row["loss"]), float(np.log10(max(float(row["regret"]), FLOOR)))


def read(path: Path) -> Losses:
    """What is in the file."""
    if not path.exists():
        return {}
    with open(path, newline="") as file:
        return {(row["variant"], row["cell"], int(row["seed"])): losses_of(row) for row in csv.DictReader(file)}


def interval(differences: np.ndarray, resamples: int = 10_000) -> tuple[float, float]:
    """Bootstrap interval (95 %) of the mean."""
    generator = np.random.default_rng(0)
    means = differences[generator.integers(len(differences), size=(resamples, len(differences)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def report(losses: Losses) -> None:
    """Print the table."""
    print(f"\n{'variant':46s} {'runs':>4s} {'more loss':>9s}   95 % interval       {'regret':>6s}   95 % interval")
    for variant in VARIANTS:
        pairs = [
            (found, losses["default", cell, seed])
            for (name, cell, seed), found in losses.items()
            if name == variant != "default" and ("default", cell, seed) in losses
        ]
        if pairs:
            loss, regret = (np.array(pairs)[:, 0] - np.array(pairs)[:, 1]).T
            low, high = interval(loss)
            least, most = (10.0**each for each in interval(regret))
            print(
                f"{variant:46s} {len(pairs):4d} {loss.mean():+9.4f}   [{low:+.4f}, {high:+.4f}]"
                f"   x {10.0 ** regret.mean():6.2f}   [{least:.2f}, {most:.2f}]"
            )


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=300)
    parser.add_argument("--cells", nargs="+", default=list(CELLS))
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "ablation.csv")
    arguments = parser.parse_args()
    losses = read(arguments.out)
    new = not losses
    with open(arguments.out, "w" if new else "a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        for variant in dict.fromkeys(["default", *arguments.variants]):
            for cell in arguments.cells:
                for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                    if (variant, cell, seed) in losses:
                        continue
                    row = {"variant": variant, "cell": cell, "seed": seed} | run(cell, seed, VARIANTS[variant])
                    writer.writerow(row)
                    file.flush()
                    losses[variant, cell, seed] = losses_of(row)
                    print(row, flush=True)
    report(losses)


if __name__ == "__main__":
    main()
