"""Move the arm to the postures that a run has learned, in MuJoCo, and say how that went, option by option.

    hpsde run reach --out runs/reach
    python examples/reach_movements.py runs/reach                        # all evaluation goals: a minute
    python examples/reach_movements.py runs/reach --every 5              # every fifth
    python examples/reach_movements.py runs/reach --csv movements.csv    # also as a table

Needs the extra `sim`. For an arm other than the KUKA LWR 4+, call `movement_report` with your own `homes`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import hpsde
from hpsde.runs.ledger import Ledger
from hpsde.runs.making import stored_problem
from hpsde.tasks.movement_report import as_csv, as_text, movement_report
from hpsde.tasks.reach import ReachTask


def task_of(folder: Path) -> ReachTask:
    """The task of the run in a folder."""
    with Ledger.open(folder) as run:
        problem = stored_problem(run.config)
    task = problem.make_task() if problem is not None and problem.runnable else None
    if not isinstance(task, ReachTask):
        raise SystemExit(f"{folder}: expected the run of an arm, such as the task reach")
    return task


def main(arguments: list[str] | None = None) -> None:
    """Read the run, move the arm, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of the run")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every n-th evaluation goal")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long a movement takes")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the table there")
    given = parser.parse_args(arguments)
    policy = hpsde.load_policy(given.folder / "policy.npz")
    rows = movement_report(task_of(given.folder), policy, every=given.every, seconds=given.seconds)
    print(as_text(rows))
    if given.csv is not None:
        given.csv.write_text(as_csv(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
