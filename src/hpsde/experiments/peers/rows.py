"""One row for every run, in the file format and under the columns of the gauntlet's rows.

cell: the task. family: the part, "points" or "contexts". method: the peer. settings: the evaluations it may use.
rollouts: the evaluations it used. options: how many points it reports, in the median context. coverage: the peak ratio
at the finest accuracy, or the share of the pairs of contexts and solutions. measures: the peak ratio at each accuracy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from hpsde.experiments.gauntlet.rows import Row
from hpsde.experiments.peers.measures import accuracy_name


def evaluations(row: Row) -> int:
    """How many evaluations a run was allowed."""
    return int(json.loads(row["settings"])["rollouts"])


def value(row: Row, accuracy: float | None = None) -> float:
    """What a run is worth, its coverage or the peak ratio at an accuracy; 0 after an error."""
    if row["error"]:
        return 0.0
    return float(row["coverage"] if accuracy is None else row["measures"][accuracy_name(accuracy)])


def common_rows(rows: Sequence[Row], part: str) -> list[Row]:
    """The rows of a part on the tasks and seeds that every peer has done with every number of evaluations."""
    own = [row for row in rows if row["family"] == part]
    runs = {(row["method"], evaluations(row)) for row in own}
    done: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for row in own:
        done.setdefault((row["cell"], row["seed"]), set()).add((row["method"], evaluations(row)))
    return [row for row in own if done[row["cell"], row["seed"]] == runs]
