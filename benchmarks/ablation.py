"""What each departure from the paper gains: one setting changed at a time.

    python benchmarks/ablation.py [--seeds 3] [--tasks toy-double ...]

The seeds start at 1000. Prints and writes (benchmarks/results/ablation.csv) one row per variant and task: median and
worst greedy mean return, seeds in which all solutions are covered with at most one surplus option, mean number of
options.
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

from hpsde.learning import iterate, measure
from hpsde.methods import make_learner
from hpsde.tasks import make_task
from hpsde.tasks.task import task_extras

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper's weights: f = exp(R), lambda = 1": {"f": "exp", "temperature": 1.0, "flattening": 1.0},
    "no baseline over the context": {"f": "exp"},
    "T found anew every time": {"constant_temperature": False},
    "weights within 3 nats": {"kl_bound": 3.0},
    "clusters of the weighted rollouts": {"target": "weighted"},
    "clusters of the model's samples": {"target": "modelled"},
    "weights not truncated": {"truncation": False},
    "options drawn at T": {"exploration_temperature": 1.0},
    "REPS keeps the mean context alone": {"match_squares": False},
    "no step on the modelled return": {"model_step": False},
    "neither": {"target": "weighted", "model_step": False},
    "every Gaussian is an option": {"valley": 1.0},
    "weights sum to 1": {"weight_sum": "one", "coarsening": 0.0},
    "weights sum to N": {"weight_sum": "n"},
    "no coarsening": {"coarsening": 0.0},
    "no resolution": {"resolution": 0.0},
    "maximum-likelihood EM": {"density": "em"},
    "soft assignment": {"assignment": "soft"},
    "options start from all assigned samples alike": {"base": "assigned"},
    "no least support of an option": {"support": 0.0},
    "reward-weighted regression": {"update": "rwr"},
    "parameters scaled alone": {"whitening": False},
    "bumps without a trend": {"trend": False},
    "process along its own axes": {"gp_axes": "own"},
    "turned axes, but clusters in all directions": {"active_length": 0.0},
    "Laplacian eigenmaps": {"embedding_dimensions": 5},
    "learning gate takes the best (UCB argmax)": {"exploration": "argmax"},
    "optimism by the return's deviation": {"deviation": "return"},
    "best expected return in use": {"greedy": "expected"},
    "rank-warped returns in the gate": {"warp": "rank"},
    "one length in the gate's kernel": {"isotropic": True},
    "softmax gate": {"gate": "softmax"},
    "marginal gate": {"gate": "marginal"},
}


def run(name: str, seed: int, changes: dict[str, Any]) -> dict[str, Any]:
    """The measures of one run."""
    task = make_task(name)
    rollouts = task_extras(task).rollouts
    learner = make_learner("hpsde-reps-gp", task, seed=seed, expected_rollouts=rollouts, **changes)
    for _ in iterate(task, learner, rollouts=rollouts):
        pass
    return measure(task, learner.policy)


def main() -> None:
    """Run all variants and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--tasks", nargs="+", default=["toy-double", "toy-triple", "toy-curve", "puddle"])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "ablation.csv")
    arguments = parser.parse_args()
    rows = []
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    for name in arguments.tasks:
        print(f"\n{name}: median, worst greedy mean return; seeds with all solutions; options kept")
        for variant, changes in VARIANTS.items():
            runs = [run(name, seed, changes) for seed in seeds]
            returns = np.array([each["greedy_mean_return"] for each in runs])
            row = {
                "task": name,
                "variant": variant,
                "seeds": arguments.seeds,
                "median_return": round(float(np.median(returns)), 6),
                "worst_return": round(float(returns.min()), 6),
                "solved": sum(each["coverage"] == 1.0 and each["surplus"] <= 1 for each in runs),
                "mean_options": round(float(np.mean([each["options_kept"] for each in runs])), 2),
            }
            rows.append(row)
            print(
                f"  {variant:44s} {row['median_return']:10.5f} {row['worst_return']:10.5f} "
                f"{row['solved']} of {row['seeds']}  {row['mean_options']}",
                flush=True,
            )
    with open(arguments.out, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
