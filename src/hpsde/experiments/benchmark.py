"""A benchmark of one task: a method over many seeds, one line of CSV for each, and figures beside their targets."""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpsde.experiments import runner
from hpsde.experiments.plan import DEFAULT, PlannedRun, Variant
from hpsde.experiments.rows import Row
from hpsde.methods import METHODS
from hpsde.runs.files import replacing

Line = Mapping[str, float]
"""What one seed gave, by name."""


@dataclass(frozen=True)
class Target:
    """A figure over all seeds, and the least, or the most, that is wanted of it. NaN is a figure that is not known."""

    text: str
    figure: Callable[[Sequence[Line]], float]
    wanted: float
    at_most: bool = False

    def judged(self, lines: Sequence[Line]) -> str:
        """'median of the return  -7.4  wanted at least -8: met'."""
        figure = self.figure(lines)
        kept = figure <= self.wanted if self.at_most else figure >= self.wanted
        verdict = "not known" if math.isnan(figure) else "met" if kept else "missed"
        side = "at most" if self.at_most else "at least"
        return f"{self.text:<58} {figure:9.4g}   wanted {side} {self.wanted:g}: {verdict}"


@dataclass(frozen=True)
class Benchmark:
    """What is run and judged.

    summarise: the rows of a run -> its line.
    every: as in `plan.PlannedRun`.
    """

    task: str
    summarise: Callable[[Sequence[Row]], Line]
    targets: tuple[Target, ...]
    every: int | None = None


def median(name: str) -> Callable[[Sequence[Line]], float]:
    """The median over the seeds."""
    return lambda lines: float(np.median([line[name] for line in lines]))


def worst(name: str) -> Callable[[Sequence[Line]], float]:
    """The least over the seeds."""
    return lambda lines: min(line[name] for line in lines)


def share(name: str, least: float) -> Callable[[Sequence[Line]], float]:
    """The share of the seeds in which it is at least so much, in spite of rounding."""
    return lambda lines: float(np.mean([line[name] >= least - 1e-9 for line in lines]))


def warm_median(name: str) -> Callable[[Sequence[Line]], float]:
    """The median over all seeds but the first, in which functions are compiled; NaN where there is no other."""
    return lambda lines: float(np.median([line[name] for line in lines[1:]])) if len(lines) > 1 else float("nan")


def main(benchmark: Benchmark, description: str, results: Path, arguments: Sequence[str] | None = None) -> None:
    """Run the seeds one after the other, with a line of CSV for each as soon as it is done; then print the figures."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first-seed", type=int, default=0, help="the lowest seed")
    parser.add_argument("--method", default=DEFAULT, choices=METHODS)
    parser.add_argument("--settings", type=json.loads, default={}, help="other than the method's, as JSON; needs --out")
    parser.add_argument("--rollouts", type=int, help="in all, other than the task's; needs --out")
    parser.add_argument("--out", type=Path, help="the table of seeds")
    given = parser.parse_args(arguments)
    if (given.settings or given.rollouts) and given.out is None:
        parser.error("results with other settings or rollouts need an --out of their own")
    variant = Variant(given.method, given.method, given.settings)
    name = benchmark.task if given.method == DEFAULT else f"{benchmark.task}-{given.method}"
    lines: list[Line] = []
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        begin = time.perf_counter()
        rows = runner.execute(PlannedRun(benchmark.task, variant, seed, given.rollouts, benchmark.every))
        if rows[-1]["status"] != runner.DONE:
            sys.exit(f"seed {seed} failed: {rows[-1]['error']}")
        lines.append({"seed": seed} | dict(benchmark.summarise(rows)))
        print(f"{name} seed {seed}: {time.perf_counter() - begin:.1f} s", file=sys.stderr)
        _write(given.out or results / f"{name}.csv", lines)
    print(f"{benchmark.task} by {given.method}, {len(lines)} seeds from {given.first_seed}")
    for target in benchmark.targets if lines else ():
        print(f"  {target.judged(lines)}")


def _write(path: Path, lines: Sequence[Line]) -> None:
    with replacing(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(lines[0])
        writer.writerows([f"{value:.6g}" for value in line.values()] for line in lines)
