"""How many evaluations two solutions take, against the number of parameters: hpsde in two ways and two rivals.

    python benchmarks/dimensions.py [--sizes 2 5 10 20 40 60] [--seeds 5] [--first-seed 10000] [--workers 1]
    python benchmarks/dimensions.py --only-figure

The task is the gauntlet's `many-D-all`, for any D: two broad bumps of height 1, on nearly opposite sides, where all
parameters matter. A solution is found by the first evaluation within 1 % of its height; a run ends when both are, or
after 3,000 evaluations, all of which count. Every method starts from the same standard Gaussian.

Methods: hpsde with its defaults; regions, hpsde with density="regions" and five first rollouts for every two parameters
(at least 20); l-bfgs, scipy's L-BFGS-B restarted from draws of the Gaussian, gradients by differences; cma, CMA-ES
restarted alike (needs cma). Adds a row to benchmarks/results/dimensions.csv whenever a run is done, and draws
docs/images/dimensions.svg.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import contextlib
import csv
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import scipy.optimize

import hpsde
from hpsde.tasks.gauntlet.many import all_matter

ROOT = Path(__file__).resolve().parent.parent
BUDGET, FOUND = 3000, 0.99
FIELDS = ("method", "size", "seed", "one", "both")
WORDS = {
    "hpsde": ("hpsde, defaults", "#0072b2"),
    "regions": ('hpsde, density="regions"', "#009e73"),
    "l-bfgs": ("L-BFGS-B, restarted", "#d55e00"),
    "cma": ("CMA-ES, restarted", "#777777"),
}


class DoneError(Exception):
    """Both solutions are found, or the evaluations are spent."""


class Bumps:
    """The return, which counts its evaluations and sees when each solution is found (0: not yet)."""

    def __init__(self, size: int, seed: int) -> None:
        peaks = all_matter(size, np.random.default_rng([size, seed]))
        none = np.zeros((1, 0))
        self.centres = np.concatenate([peak.curve(none) for peak in peaks])
        self.used, self.found, self.size = 0, [0, 0], size

    def __call__(self, parameters: np.ndarray) -> float:
        if self.used >= BUDGET:
            raise DoneError
        self.used += 1
        squares = np.sum((parameters - self.centres) ** 2, axis=1)
        heights = np.exp(-squares / (2.0 * self.size * 0.7**2))
        for number, height in enumerate(heights):
            self.found[number] = self.found[number] or (self.used if height >= FOUND else 0)
        if all(self.found):
            raise DoneError
        return float(heights.max())


def by_hpsde(bumps: Bumps, seed: int, settings: dict[str, object]) -> None:
    """hpsde, with as many rollouts as there may be evaluations."""
    initial = hpsde.Gaussian(np.zeros(bumps.size), 1.0)
    hpsde.learn(bumps, initial=initial, rollouts=BUDGET, seed=seed, progress=False, **settings)


def by_regions(bumps: Bumps, seed: int) -> None:
    """hpsde by regions."""
    by_hpsde(bumps, seed, {"density": "regions", "initial_rollouts": max(20, 5 * bumps.size // 2)})


def by_l_bfgs(bumps: Bumps, seed: int) -> None:
    """L-BFGS-B, restarted."""
    rng = np.random.default_rng(seed)
    while True:
        scipy.optimize.minimize(lambda x: -bumps(x), rng.normal(size=bumps.size), method="L-BFGS-B")


def by_cma(bumps: Bumps, seed: int) -> None:
    """CMA-ES, restarted."""
    import cma

    rng = np.random.default_rng(seed)
    for restart in itertools.count(1):
        settings = {"seed": 1000 * seed + restart, "verbose": -9}
        search = cma.CMAEvolutionStrategy(rng.normal(size=bumps.size), 0.5, settings)
        while not search.stop():
            asked = search.ask()
            search.tell(asked, [-bumps(np.asarray(each)) for each in asked])


METHODS: dict[str, Callable[[Bumps, int], None]] = {
    "hpsde": lambda bumps, seed: by_hpsde(bumps, seed, {}),
    "regions": by_regions,
    "l-bfgs": by_l_bfgs,
    "cma": by_cma,
}


def run(method: str, size: int, seed: int) -> dict[str, object]:
    """After how many evaluations one solution and both were found; nothing where they were not."""
    bumps = Bumps(size, seed)
    with contextlib.suppress(DoneError):
        METHODS[method](bumps, seed)
    known = [each for each in bumps.found if each]
    both = max(known) if len(known) == 2 else ""
    return {"method": method, "size": size, "seed": seed, "one": min(known, default=""), "both": both}


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a file; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def draw(rows: Sequence[dict[str, str]], path: Path) -> None:
    """The median over seeds against the number of parameters, with a dot for each run; at the top those in vain."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "hpsde"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
    for number, (method, (words, colour)) in enumerate(WORDS.items()):
        own = [(int(row["size"]), float(row["both"] or np.inf)) for row in rows if row["method"] == method]
        sizes = sorted({size for size, _ in own})
        medians = [np.median([value for size, value in own if size == each]) for each in sizes]
        axes.plot(sizes, np.minimum(medians, BUDGET), color=colour, label=words)
        x = np.array([size for size, _ in own]) * 1.03 ** (number - 1.5)
        y = np.array([value for _, value in own])
        axes.plot(x[np.isfinite(y)], y[np.isfinite(y)], "o", color=colour, markersize=3, alpha=0.6)
        axes.plot(x[np.isinf(y)], np.full(np.isinf(y).sum(), 1.15 * BUDGET), "x", color=colour, markersize=5)
    axes.set(xscale="log", yscale="log", xlabel="parameters", ylabel="evaluations until both solutions are found")
    ticks = sorted({int(row["size"]) for row in rows})
    axes.set_xticks(ticks, [str(each) for each in ticks])
    axes.set_yticks([30, 100, 300, 1000, BUDGET, 1.15 * BUDGET], ["30", "100", "300", "1,000", "3,000", ""])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for, add the rows, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2, 5, 10, 20, 40, 60])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first-seed", type=int, default=10_000, help="the lowest seed")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only-figure", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "dimensions.csv")
    parser.add_argument("--figure", type=Path, default=ROOT / "docs" / "images" / "dimensions.svg")
    given = parser.parse_args(arguments)
    rows, seeds = read(given.out), range(given.first_seed, given.first_seed + given.seeds)
    done = {(row["method"], int(row["size"]), int(row["seed"])) for row in rows}
    asked = [each for each in itertools.product(given.methods, given.sizes, seeds) if each not in done]
    if asked and not given.only_figure:
        with (
            given.out.open("a", newline="", encoding="utf-8") as file,
            ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool,
        ):
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            if not rows:
                writer.writeheader()
            for future in as_completed([pool.submit(run, *each) for each in asked]):
                writer.writerow(future.result())
                file.flush()
                print(*future.result().values(), flush=True)
    draw(read(given.out), given.figure)


if __name__ == "__main__":
    main()
