"""hpsde beside its peers, each with as many evaluations: several optima of a function, and solutions by context.

    python benchmarks/peers.py [--peers hpsde gp ...] [--tasks cec-f4 throw ...] [--seeds 5] [--workers 2]
    python benchmarks/peers.py --quick          # seed 1, cheap functions, few evaluations: about a quarter of an hour
    python benchmarks/peers.py --report-only    # tables, page and picture from the rows that are there

Needs the extra `peers`: pip install ".[peers]". Without context: the functions F1 to F10 of CEC 2013, the peak ratio at
accuracies 1e-1 to 1e-5. With contexts: the share of the pairs of contexts and solutions that are found. A counter
refuses evaluations beyond the budget. Every run adds a row to benchmarks/results/peers.csv as soon as it is done. Runs
that are in the file already are not done again, so that a run which was killed goes on where it was. A run that raises
an error is a row too, and counts as nothing found.

Prints tables, and writes them as a page beside the rows (peers.md), with its picture in docs/images.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from hpsde.base import kept_programs

kept_programs.keep_all()  # before jax is imported, which reads once where to keep it; all workers share the folder

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hpsde.experiments import provenance
from hpsde.experiments.gauntlet.report import percent
from hpsde.experiments.gauntlet.rows import append_row, key, read_rows, repair
from hpsde.experiments.gauntlet.runner import Done, run_jobs
from hpsde.experiments.peers import figures, report
from hpsde.experiments.peers.methods import PEERS
from hpsde.experiments.peers.runner import PeerJob, chosen_jobs, execute, lost
from hpsde.experiments.peers.tasks import CONTEXT_TASKS, CONTEXTS, EVALUATIONS, POINTS, TASKS

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "benchmarks" / "results" / "peers.csv"
PICTURE = ROOT / "docs" / "images" / "peers.png"
FIRST_SEED, QUICK_SEED = 10_000, 1
QUICK_TASKS = ("cec-f1", "cec-f2", "cec-f3", "cec-f4", "cec-f5", "cec-f10", *CONTEXT_TASKS)
QUICK_EVALUATIONS = {POINTS: (500,), CONTEXTS: (300, 1000)}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=PEERS, metavar="NAME", help=", ".join(PEERS))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, metavar="NAME", help="; ".join(TASKS))
    parser.add_argument("--seeds", type=int, help="how many; by default 5, or 1 with --quick")
    parser.add_argument("--first-seed", type=int, help="by default 10,000, or 1 with --quick; below 1,000: development")
    parser.add_argument("--evaluations", nargs="+", type=int, metavar="N", help="other than those of each part")
    parser.add_argument("--workers", type=int, default=2, help="processes; 0: all runs in this one")
    parser.add_argument("--quick", action="store_true", help="a check of all peers, no measurement")
    parser.add_argument("--out", type=Path, help="the rows; with --quick by default runs/peers-quick.csv")
    parser.add_argument("--report-only", action="store_true", help="run nothing")
    given = parser.parse_args(arguments)
    lacking = {name for peer in given.peers if (name := PEERS[peer].needs) and importlib.util.find_spec(name) is None}
    if lacking and not given.report_only:
        parser.error(f'{", ".join(sorted(lacking))} not installed: pip install ".[peers]", or name --peers without')
    return given


def asked_jobs(given: argparse.Namespace) -> list[PeerJob]:
    """The runs that are asked for."""
    first = given.first_seed if given.first_seed is not None else QUICK_SEED if given.quick else FIRST_SEED
    count = given.seeds if given.seeds is not None else 1 if given.quick else 5
    numbers = QUICK_EVALUATIONS if given.quick else EVALUATIONS
    if given.evaluations:
        numbers = dict.fromkeys((POINTS, CONTEXTS), tuple(given.evaluations))
    tasks = given.tasks or (QUICK_TASKS if given.quick else TASKS)
    return chosen_jobs(tasks, given.peers, range(first, first + count), numbers)


def run(jobs: Sequence[PeerJob], out: Path, workers: int) -> None:
    """Do the jobs that have no row yet."""
    repair(out)
    provenance.keep(out)
    done = {key(row) for row in read_rows(out)}
    left = [job for job in jobs if job.key not in done]
    print(f"{len(jobs) - len(left)} of {len(jobs)} runs are in {out} already", file=sys.stderr)
    begin = time.perf_counter()
    for number, each in enumerate(run_jobs(left, workers, execute, lost), start=1):
        append_row(out, each.row)
        minutes = (time.perf_counter() - begin) / 60.0
        print(f"[{number}/{len(left)}, {minutes:.1f} min] {said(each)}", file=sys.stderr, flush=True)


def said(done: Done) -> str:
    """One line about a run."""
    row, job = done.row, done.job
    name = f"{job.peer} on {job.cell}, seed {job.seed}, {job.evaluations} evaluations"
    if row["error"]:
        return f"{name}: {row['error']}"
    return f"{name}: found {percent(row['coverage'])}, {row['learner_seconds']:.1f} s"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for and not done yet, then report."""
    given = parse(arguments)
    out = (given.out or (ROOT / "runs" / "peers-quick.csv" if given.quick else OUT)).resolve()
    if not given.report_only:
        run(asked_jobs(given), out, given.workers)
    rows = read_rows(out)
    if not rows:
        print(f"{out} has no runs")
        return
    print(report.printed(rows))
    picture = figures.draw(rows, PICTURE if out == OUT else out.with_suffix(".png"))
    report.write_page(out.with_suffix(".md"), rows, out, picture)
    print(f"\nwrote {out.with_suffix('.md')} and {picture}", file=sys.stderr)


if __name__ == "__main__":
    main()
