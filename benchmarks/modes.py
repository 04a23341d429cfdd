"""Functions without context that have several maxima: how many of them the defaults find.

    python benchmarks/modes.py [--seeds 5] [--settings '{"kl_bound": 2.5}']

Prints and writes (benchmarks/results/modes.csv) one row per function: the maxima, how many some option lies within 0.3
of, the options kept, and the best return.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import json
from pathlib import Path

import numpy as np

import hpsde

FOUR = np.array([[1.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [-1.0, 1.0, 0.5]])
HIMMELBLAU = np.array([[3.0, 2.0], [-2.805118, 3.131312], [-3.779310, -3.283186], [3.584428, -1.848126]])
BUMPS = np.array([[1.0, 1.0], [-1.0, -1.0]])


def bumps(xi: np.ndarray) -> float:
    """Two narrow bumps on a plain."""
    return float(np.sum(np.exp(-8.0 * np.sum((xi - BUMPS) ** 2, axis=1))))


def four(xi: np.ndarray) -> float:
    """Four equal paraboloids in three dimensions."""
    return -float(np.min(np.sum((xi - FOUR) ** 2, axis=1)))


def himmelblau(xi: np.ndarray) -> float:
    """Himmelblau's function, upside down."""
    return -float((xi[0] ** 2 + xi[1] - 11.0) ** 2 + (xi[0] + xi[1] ** 2 - 7.0) ** 2)


FUNCTIONS = {
    "two bumps, 2-D": (bumps, hpsde.Gaussian([0, 0], 1.0), BUMPS, 400),
    "four paraboloids, 3-D": (four, hpsde.Gaussian([0, 0, 0], 1.0), FOUR, 600),
    "Himmelblau, 2-D": (himmelblau, hpsde.Uniform([-5, -5], [5, 5]), HIMMELBLAU, 600),
}


def main() -> None:
    """Learn each function over the seeds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--settings", type=json.loads, default={}, help="settings other than the defaults, as JSON")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "modes.csv")
    arguments = parser.parse_args()
    rows = []
    for name, (function, initial, maxima, rollouts) in FUNCTIONS.items():
        found, kept, best = [], [], []
        for seed in range(arguments.seeds):
            policy = hpsde.learn(
                function,
                initial=initial,
                rollouts=rollouts,
                initial_rollouts=200,
                seed=seed,
                progress=False,
                **arguments.settings,
            )
            means = policy.option_means(np.zeros((1, 0)))[:, 0]
            distances = np.linalg.norm(means[:, None] - maxima[None], axis=-1)
            found.append(int(np.sum(distances.min(axis=0) < 0.3)))
            kept.append(len(means))
            best.append(function(policy.act()))
        row = {
            "function": name,
            "rollouts": rollouts,
            "seeds": arguments.seeds,
            "maxima": len(maxima),
            "mean_found": round(float(np.mean(found)), 2),
            "mean_options": round(float(np.mean(kept)), 2),
            "median_return": round(float(np.median(best)), 4),
            "worst_return": round(float(np.min(best)), 4),
        }
        rows.append(row)
        print(row, flush=True)
    with open(arguments.out, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
