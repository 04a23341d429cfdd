"""What each departure from the paper gains on the gauntlet: one setting changed at a time, paired over cells.

    python benchmarks/ablation.py [--first-seed 300] [--seeds 1] [--variants NAME ...] [--cells NAME ...] [--workers 2]

Most cells have fewer rollouts than in the gauntlet, so that differences show. A run's loss is its regret (at most 1),
and one more where a solution is missing or an option stands for none. Every run is a row of the file
benchmarks/results/ablation.csv as soon as it is done; those that are there are not made again. Prints, for each
variant, how much more it loses than the defaults in the mean over the cells, and how many times the defaults' its
regret is in the geometric mean (below FLOOR all regrets are alike), with bootstrap intervals; ablation.md beside the
rows is the same as a page. Development seeds, below 1,000, where the table is what choices are made by.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hpsde.experiments import provenance
from hpsde.experiments.ablation import CELLS, VARIANTS, changes, changes_table, jobs_of, write_page
from hpsde.experiments.gauntlet.report import plain_table
from hpsde.experiments.gauntlet.rows import append_row, key, read_rows
from hpsde.experiments.gauntlet.runner import run_all


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=300)
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only-report", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "ablation.csv")
    given = parser.parse_args()
    if not given.only_report:
        seeds = range(given.first_seed, given.first_seed + given.seeds)
        jobs = jobs_of({cell: CELLS[cell] for cell in given.cells}, given.variants, seeds)
        known = {key(row) for row in read_rows(given.out)}
        provenance.keep(given.out)
        for done in run_all([job for job in jobs if job.key not in known], given.workers):
            append_row(given.out, done.row)
            print(done.job.name, done.job.key[3], "exact" if done.row["exact"] else "not exact", flush=True)
    rows = read_rows(given.out)
    print(plain_table(changes_table(changes(rows))))
    print(f"wrote {write_page(rows, given.out)}")


if __name__ == "__main__":
    main()
