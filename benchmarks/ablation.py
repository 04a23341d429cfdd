"""What each departure from the paper gains on the gauntlet: one setting changed at a time, paired over cells.

    python benchmarks/ablation.py [--first-seed 300] [--seeds 1] [--variants NAME ...] [--cells NAME ...] [--workers 2]

Most cells have fewer rollouts than in the gauntlet, so that differences show. A run's loss is its regret (at most 1),
and one more where a solution is missing or an option stands for none. Every run is a row of the file
benchmarks/results/ablation.csv as soon as it is done; those that are there are not made again. Prints, for each
variant, how much more it loses than the defaults in the mean over the cells, and how many times the defaults' its
regret is in the geometric mean (below FLOOR all regrets are alike), with bootstrap intervals. Development seeds, below
1,000, since the table is what choices are made by.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.experiments.gauntlet.rows import Row, append_row, key, read_rows
from hpsde.experiments.gauntlet.runner import GauntletJob, run_all

SHORT, LONG, FULL, LONGER = 420, 900, 1050, 1500  # rollouts in all; routes and curves need more, and arms still more
CELLS = {
    "ridges-3": SHORT,
    "ridges-6": SHORT,
    "curves-2": FULL,
    "curves-4": FULL,
    "crossing-2": SHORT,
    "widths-4": SHORT,
    "heights-4": SHORT,
    "partial-3": SHORT,
    "plateau-2": SHORT,
    "cauchy-3": SHORT,
    "context2-3": SHORT,
    "context2-2-parameters2": SHORT,
    "parameters2-3": SHORT,
    "parameters3-2": SHORT,
    "bumps-2d-4": SHORT,
    "bumps-2d-9": SHORT,
    "bumps-4d-3": SHORT,
    "cec-f4": SHORT,
    "noise-30": SHORT,
    "outliers-both": SHORT,
    "binary-10": SHORT,
    "integers": SHORT,
    "many-10-three": SHORT,
    "bumps-2d-3-at-100": SHORT,
    "levels-3": SHORT,
    "levels-parameters2-3": SHORT,
    "walls-2": LONG,
    "walls-3": LONG,
    "walls-4": LONG,
    "walls-6": LONG,
    "arm-kuka": LONGER,
    "arm-panda": LONGER,
}

DEFAULT = "default"
VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "joint Gaussians on weighted rollouts": {"density": "vb"},
    "no baseline over the context": {"f": "exp"},
    "options start from all assigned samples alike": {"base": "assigned"},
    "no least support of an option": {"support": 0.0},
    "REPS keeps the mean context alone": {"match_squares": False},
    "no step on the modelled return": {"model_step": False},
    "no refinement by local models": {"refine": False},
    "learning gate takes the best (UCB argmax)": {"exploration_temperature": 0.0},
    "optimism by the return's deviation": {"deviation": "return"},
    "best expected return in use": {"greedy": "expected"},
    "returns not warped": {"warp": "none"},
    "parameters scaled alone": {"whitening": False},
    "bumps without a trend": {"trend": False},
    "pi_old of the rollout's own policy": {"behaviour": "own"},
    "KL bound of the paper's code": {"epsilon": 0.3},
    "pi_old as it is": {"flattening": 1.0},
    "fixed ridge": {"ridge": 1e-3},
    "own axes, squared exponential": {"gp_axes": "own"},
    "one length in the kernel": {"gp_axes": "isotropic"},
    "reward-weighted regression": {"update": "rwr"},
    "softmax gate": {"gate": "softmax"},
    "no scouts": {"scouts": 0.0},
}
GONE: dict[str, dict[str, Any]] = {"soft assignment": {"assignment": "soft"}}
"""What there is no setting for any more; rows of that time are in the table."""
FLOOR = 1e-6  # of the regret

Losses = tuple[float, float]  # a run's loss, and the log10 of its regret


def losses_of(row: Row) -> Losses:
    """The loss and the log10 of the regret of a row; a run that raised an error has lost everything."""
    regret = 1.0 if row["error"] else float(np.clip(row["regret"], FLOOR, 1.0))
    return regret + (0.0 if row["exact"] else 1.0), float(np.log10(regret))


def interval(differences: np.ndarray, resamples: int = 10_000) -> tuple[float, float]:
    """Bootstrap interval (95 %) of the mean."""
    generator = np.random.default_rng(0)
    means = differences[generator.integers(len(differences), size=(resamples, len(differences)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def report(rows: Iterable[Row]) -> None:
    """Print the table."""
    named = {json.dumps(settings): name for name, settings in (VARIANTS | GONE).items()}
    found = {}
    for row in rows:
        settings = json.loads(row["settings"])
        task = row["cell"], row["seed"], settings.pop("rollouts")
        found[named.get(json.dumps(settings)), task] = losses_of(row)
    print(f"\n{'variant':46s} {'runs':>4s} {'more loss':>9s}   95 % interval       {'regret':>6s}   95 % interval")
    for variant in VARIANTS | GONE:
        pairs = [
            (losses, found[DEFAULT, task])
            for (name, task), losses in found.items()
            if name == variant != DEFAULT and (DEFAULT, task) in found
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
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "ablation.csv")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    jobs = [
        GauntletJob(cell, seed, settings=VARIANTS[variant], rollouts=CELLS[cell])
        for cell in arguments.cells
        for variant in dict.fromkeys([DEFAULT, *arguments.variants])
        for seed in seeds
    ]
    known = {key(row) for row in read_rows(arguments.out)}
    for done in run_all([job for job in jobs if job.key not in known], arguments.workers):
        append_row(arguments.out, done.row)
        print(done.job.name, done.job.key[3], "exact" if done.row["exact"] else "not exact", flush=True)
    report(read_rows(arguments.out))


if __name__ == "__main__":
    main()
