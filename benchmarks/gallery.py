"""The gallery over 20 seeds: how many of a task's known solutions the learner finds with its defaults.

    python benchmarks/gallery.py [--tasks bank-shot throw ...] [--seeds 20] [--first-seed 10000] [--workers 2]
    python benchmarks/gallery.py --only-report      # the table of the rows that are there
    python benchmarks/gallery.py --shots            # shots of bank-shot in a second, on one core

Every run adds a row to benchmarks/results/gallery.csv as soon as it is done. Runs that are in the file already are not
done again, so that a command which was killed goes on where it was; --fresh does them again. A run that raises an error
is a row too, and has found nothing. Prints the table, and writes it as gallery.md beside the rows.

  coverage   the share of the solutions that some option follows, mean over seeds
  all found  seeds with all solutions; exact: and no option beside one for each
  surplus    options left over when each is matched with a solution of its own
  regret     (best return - return of the greedy policy) / (best return - return of the first, exploring policy)

Seeds below 1,000 are for development; those of the page have had no part in any choice.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from hpsde.base import kept_programs

kept_programs.keep_all()  # before jax is imported, which reads once where to keep it; all workers share the folder

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hpsde.experiments import provenance
from hpsde.experiments.gallery import GalleryJob, run_all, table, write_page
from hpsde.experiments.gauntlet.rows import append_row, key, read_rows, repair, write_rows
from hpsde.tasks import make_task
from hpsde.tasks.gallery import GALLERY

OUT = Path(__file__).resolve().parent / "results" / "gallery.csv"
SHOTS = 100_000


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line, checked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(GALLERY), choices=list(GALLERY))
    parser.add_argument("--seeds", type=int, default=20, help="how many for each task")
    parser.add_argument("--first-seed", type=int, default=10_000, help="the lowest seed")
    parser.add_argument("--rollouts", type=int, help="at most so many in a run, initial ones in the same proportion")
    parser.add_argument("--workers", type=int, default=2, help="processes; 0: all runs in this one")
    parser.add_argument("--out", type=Path, default=OUT, help="the rows; by default benchmarks/results/gallery.csv")
    parser.add_argument("--fresh", action="store_true", help="do the chosen runs again")
    parser.add_argument("--only-report", action="store_true", help="run nothing")
    parser.add_argument("--shots", action="store_true", help="measure the physics of bank-shot, and nothing else")
    return parser.parse_args(arguments)


def run(jobs: Sequence[GalleryJob], out: Path, workers: int) -> None:
    """Do the jobs that have no row yet."""
    repair(out)
    provenance.keep(out)
    done = {key(row) for row in read_rows(out)}
    left = [job for job in jobs if job.key not in done]
    print(f"{len(jobs) - len(left)} of {len(jobs)} runs are in {out} already", file=sys.stderr)
    begin = time.perf_counter()
    for number, each in enumerate(run_all(left, workers), start=1):
        append_row(out, each.row)
        row, minutes = each.row, (time.perf_counter() - begin) / 60.0
        said = row.get("error") or f"found {row['found']} of {row['solutions']}, surplus {row['surplus']}"
        print(f"[{number}/{len(left)}, {minutes:.1f} min] {each.job.name}: {said}", file=sys.stderr, flush=True)


def shots_per_second(name: str) -> float:
    """Of the return of a bank-shot task, in seconds of one core; the best of five measurements."""
    task, rng = make_task(name), np.random.default_rng(0)
    contexts = rng.uniform(*task.contexts.bounds, (SHOTS, 2))
    parameters = rng.uniform(*task.parameter_bounds, (SHOTS, task.parameter_size))
    seconds = []
    for _ in range(5):
        begin = time.process_time()
        task.evaluate(contexts, parameters)
        seconds.append(time.process_time() - begin)
    return SHOTS / min(seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for and not done yet, then report."""
    given = parse(arguments)
    if given.shots:
        for name in ("bank-shot", "bank-shot-spin"):
            print(f"{name}: {shots_per_second(name):,.0f} shots in a second of one core")
        return
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    jobs = [GalleryJob(name, seed, given.rollouts) for name in given.tasks for seed in seeds]
    keys = {job.key for job in jobs}
    if given.fresh and not given.only_report:
        write_rows(given.out, [row for row in read_rows(given.out) if key(row) not in keys])
    if not given.only_report:
        run(jobs, given.out, given.workers)
    rows = [row for row in read_rows(given.out) if key(row) in keys]
    if not rows:
        print(f"{given.out} has none of these runs")
        return
    print(table(rows))
    write_page(rows, given.out)


if __name__ == "__main__":
    main()
