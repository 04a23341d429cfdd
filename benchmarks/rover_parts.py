"""What the parts of regions gain on the rover: other constants, on development seeds.

    python benchmarks/rover_parts.py [--seeds 8] [--first-seed 0] [--budget 10000] [--workers 1] [--out FILE]

Each variant changes constants of `hpsde.steps.regions` and `hpsde.steps.region_models` for a run of the learner. A line
is a run: the mean of the best three routes that differ (as in benchmarks/rover.py) after 3,000 evaluations and at last.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import csv
import itertools
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from hpsde.steps import region_models, regions

VARIANTS: dict[str, dict[str, float]] = {
    "default": {},
    "no-leaps": {"LEAPS": 0.0},
    "half-leaps": {"LEAPS": 0.5},
    "no-sides": {"SIDE": 0.0},
    "four-together": {"TOGETHER": 4, "SHARE": 40},
    "four-half-leaps": {"TOGETHER": 4, "SHARE": 40, "LEAPS": 0.5},
}
FIELDS = ("variant", "seed", "budget", "best_three_3000", "best_three", "best_three_means", "options")


def use(variant: str) -> None:
    """Take the variant's constants in this process."""
    for name, value in VARIANTS[variant].items():
        setattr(region_models if hasattr(region_models, name) else regions, name, value)


def measured(variant: str, seed: int, budget: int) -> dict[str, Any]:
    """A run of the variant."""
    import rover

    use(variant)
    result = rover.METHODS["hpsde"](budget, seed)
    x, y = result["parameters"], result["returns"]
    early = rover.best_three(x[:3000], y[:3000])
    known = {"variant": variant, "seed": seed, "budget": budget, "best_three_3000": early}
    return (
        known
        | {name: result[name] for name in ("best_three_means", "options")}
        | {"best_three": rover.best_three(x, y)}
    )


def shown(line: dict[str, Any]) -> dict[str, Any]:
    """A row with its numbers to four digits."""
    return {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in line.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all variants and seeds, one process for each run, and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--seeds", type=int, default=8, help="how many")
    parser.add_argument("--first-seed", type=int, default=0, help="the lowest seed")
    parser.add_argument("--budget", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "rover_parts.csv")
    given = parser.parse_args(arguments)
    runs = itertools.product(range(given.first_seed, given.first_seed + given.seeds), given.variants)
    with (
        given.out.open("w", newline="", encoding="utf-8") as file,
        ProcessPoolExecutor(given.workers, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool,
    ):
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for done in as_completed([pool.submit(measured, variant, seed, given.budget) for seed, variant in runs]):
            line = {
                name: f"{value:.4g}" if isinstance(value, float) else value for name, value in done.result().items()
            }
            writer.writerow(line)
            file.flush()
            print("  ".join(f"{name} {line[name]}" for name in FIELDS if name in line), flush=True)


if __name__ == "__main__":
    main()
