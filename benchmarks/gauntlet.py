"""The gauntlet: random tasks whose solutions are known, and how often the learner finds exactly these.

    python benchmarks/gauntlet.py [--cells ridges-4 ...] [--families hard ...] [--seeds 3] [--workers 2]
    python benchmarks/gauntlet.py --quick           # 20 cheap cells over all families, about ten minutes
    python benchmarks/gauntlet.py --only-report     # tables, page and pictures from the rows that are there

A cell is a kind of task; with a seed it is a task, `make_task("ridges-4@10000")`. The seed of a row is that of the task
and of the learner. Every run adds a row to benchmarks/results/gauntlet.csv as soon as it is done. Runs that are in the
file already (same cell, seed, method and settings) are not done again, so that a run which was killed goes on where it
was; --fresh does them again. A run that raises an error is a row too, and counts as wrong.

Prints tables of cells, families, doubts and targets. With the default method and settings, or with an --out of their
own, they are also written as a page beside the rows (gauntlet.md), with the pictures in docs/images.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from hpsde.base import kept_programs

kept_programs.keep_all()  # before jax is imported, which reads once where to keep it; all workers share the folder

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hpsde.experiments import provenance
from hpsde.experiments.gauntlet import figures, report
from hpsde.experiments.gauntlet.rows import Row, append_row, key, read_rows, repair, run_name, settings_text, write_rows
from hpsde.experiments.gauntlet.runner import Done, GauntletJob, run_all
from hpsde.methods import DEFAULT_METHOD, METHODS
from hpsde.tasks.gauntlet import CELLS

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "benchmarks" / "results" / "gauntlet.csv"
IMAGES = ROOT / "docs" / "images"
FIRST_SEED = 10_000
QUICK_SEEDS = 2
FAMILIES = tuple(dict.fromkeys(cell.family for cell in CELLS.values()))
QUICK = (
    *("walls-2", "ridges-2", "ridges-4", "ridges-6", "curves-2", "crossing-2", "parameters2-3"),
    *("bumps-1d-3", "bumps-2d-4", "bumps-2d-9", "bumps-3d-4"),
    *("noise-10", "outliers-up", "binary-10", "failures", "constant-noise"),
    *("many-10-three", "ridges-2-at-60", "ridges-3-at-100", "bumps-2d-4-at-300"),
)
"""Cheap cells of all families, the longest first so that no worker is left alone with it."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line, checked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=[], metavar="NAME", help="these cells; all of them if not given")
    parser.add_argument("--families", nargs="+", default=[], choices=FAMILIES, help="the cells of these families")
    parser.add_argument("--seeds", type=int, default=3, help="how many for each cell")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help="the lowest seed")
    parser.add_argument("--settings", type=json.loads, default={}, help="other than the method's, as JSON")
    parser.add_argument("--method", default=DEFAULT_METHOD, choices=METHODS)
    parser.add_argument("--workers", type=int, default=2, help="processes; 0: all runs in this one")
    parser.add_argument("--rollouts", type=int, help="at most so many in a run, initial ones in the same proportion")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SEEDS} seeds of {len(QUICK)} cheap cells")
    parser.add_argument(
        "--out",
        type=Path,
        help="the rows; by default benchmarks/results/gauntlet.csv, or runs/gauntlet-quick.csv with --quick",
    )
    parser.add_argument("--fresh", action="store_true", help="do the chosen runs again")
    parser.add_argument("--only-report", action="store_true", help="run nothing")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.cells if name not in CELLS]:
        parser.error(f"unknown cells {', '.join(unknown)}; valid are: {', '.join(CELLS)}")
    return given


def chosen_cells(given: argparse.Namespace) -> list[str]:
    """The cells to run, in the order of `CELLS` or of `QUICK`."""
    if given.quick:
        return list(QUICK)
    wanted = set(given.cells) | {name for name, cell in CELLS.items() if cell.family in given.families}
    return [name for name in CELLS if name in wanted or not wanted]


def chosen_jobs(given: argparse.Namespace) -> list[GauntletJob]:
    """The runs that are asked for, those of a cell together; the first of each keeps its options for the picture."""
    seeds = range(given.first_seed, given.first_seed + (QUICK_SEEDS if given.quick else given.seeds))
    return [
        GauntletJob(cell, seed, given.method, given.settings, given.rollouts, keep=seed == seeds[0])
        for cell in chosen_cells(given)
        for seed in seeds
    ]


def run(jobs: Sequence[GauntletJob], out: Path, workers: int, keep: bool) -> None:
    """Do the jobs that have no row yet. The options come first, then the row: what has a row is complete."""
    repair(out)
    provenance.keep(out)
    done = {key(row) for row in read_rows(out)}
    left = [job for job in jobs if job.key not in done]
    if len(left) < len(jobs):
        print(f"{len(jobs) - len(left)} of {len(jobs)} runs are in {out} already", file=sys.stderr)
    begin = time.perf_counter()
    for number, each in enumerate(run_all(left, workers), start=1):
        if keep and each.means is not None:
            figures.keep_means(figures.options_file(out), run_name(each.job.key), each.means)
        append_row(out, each.row)
        minutes = (time.perf_counter() - begin) / 60.0
        print(f"[{number}/{len(left)}, {minutes:.1f} min] {said(each)}", file=sys.stderr, flush=True)


def said(done: Done) -> str:
    """One line about a run."""
    row = done.row
    if row.get("error"):
        return f"{done.job.name}: {row['error']}"
    doubts = f", doubts: {row['doubts']}" if row["doubts"] else ""
    return (
        f"{done.job.name}: found {row['found']} of {row['solutions']}, surplus {row['surplus']}, "
        f"regret {report.percent(row['regret'])}, {row['learner_seconds']:.1f} s{doubts}"
    )


def publish(rows: Sequence[Row], out: Path) -> None:
    """The page and the pictures of these rows: in the documentation, or beside rows that lie elsewhere."""
    images = IMAGES if out == OUT else out.parent / "images"
    pictures = figures.draw_all(rows, figures.options_file(out), images)
    report.write_page(out.with_suffix(".md"), rows, out, pictures)
    print(f"\nwrote {out.with_suffix('.md')} and {len(pictures)} pictures in {images}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for and not done yet, then report."""
    given = parse(arguments)
    out = (given.out or (ROOT / "runs" / "gauntlet-quick.csv" if given.quick else OUT)).resolve()
    jobs = chosen_jobs(given)
    changes = settings_text(given.settings, given.rollouts)
    published = out != OUT or (given.method == DEFAULT_METHOD and changes == settings_text({}))
    if given.fresh and not given.only_report:
        again = {job.key for job in jobs}
        write_rows(out, [row for row in read_rows(out) if key(row) not in again])
    if not given.only_report:
        run(jobs, out, given.workers, published)
    order = {name: place for place, name in enumerate(CELLS)}
    found = [row for row in read_rows(out) if (row["method"], row["settings"]) == (given.method, changes)]
    found.sort(key=lambda row: (order.get(row["cell"], len(order)), row["seed"]))
    if not found:
        print(f"{out} has no runs of {given.method} with settings {changes}")
        return
    print(report.printed(found))
    if published:
        publish(found, out)


if __name__ == "__main__":
    main()
