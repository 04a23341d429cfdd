"""The learning steps of a run as a table for plots."""

from __future__ import annotations

from hpsde.runs.files import write_csv
from hpsde.runs.folder import ITERATIONS
from hpsde.runs.ledger import Ledger


def write_iterations(run: Ledger) -> None:
    """The learning steps as a table for plots: `iterations.csv`. Seconds are summed over the steps; of options born
    and died, and of doubts, it has how many.
    """
    rows, learning, evaluating = [], 0.0, 0.0
    for record in run.store.steps():
        learning += record.get("learner_seconds") or 0.0
        evaluating += record.get("task_seconds") or 0.0
        counted = {name: len(value) for name, value in record.items() if isinstance(value, list)}
        counted.pop("numbers", None)  # options_kept says how many
        plain = {name: value for name, value in record.items() if not isinstance(value, list)}
        rows.append(plain | counted | {"learner_seconds": learning, "task_seconds": evaluating})
    if rows:
        write_csv(run.folder / ITERATIONS, rows)
