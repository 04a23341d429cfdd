"""Tables of the comparison: what each peer finds, by the evaluations, the accuracy and the task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpsde.experiments.gauntlet.report import Table, percent
from hpsde.experiments.gauntlet.rows import Row
from hpsde.experiments.peers.measures import ACCURACIES, accuracy_name
from hpsde.experiments.peers.methods import PEERS
from hpsde.experiments.peers.rows import evaluations, value
from hpsde.experiments.peers.tasks import TASKS

OWN = "hpsde"


def peers_in(rows: Sequence[Row]) -> list[str]:
    """The peers that have rows, in the order of `PEERS`."""
    found = {row["method"] for row in rows}
    return [name for name in PEERS if name in found]


def numbers_in(rows: Sequence[Row]) -> list[int]:
    """The numbers of evaluations that have rows."""
    return sorted({evaluations(row) for row in rows})


def mean_value(rows: Sequence[Row], accuracy: float | None = None) -> float:
    """The mean over the tasks of the mean over the seeds; NaN where there are no rows."""
    tasks: dict[str, list[float]] = {}
    for row in rows:
        tasks.setdefault(row["cell"], []).append(value(row, accuracy))
    return float(np.mean([np.mean(values) for values in tasks.values()])) if tasks else float("nan")


def of(rows: Sequence[Row], peer: str, number: int | None = None, task: str | None = None) -> list[Row]:
    """The rows of a peer, with so many evaluations, on a task; None: all."""
    return [
        row
        for row in rows
        if row["method"] == peer and number in (None, evaluations(row)) and task in (None, row["cell"])
    ]


def evaluations_table(rows: Sequence[Row]) -> Table:
    """A line for every peer, a column for every number of evaluations: the mean over all tasks."""
    numbers = numbers_in(rows)
    header = ("peer", *(f"{number:,}" for number in numbers), "points reported", "seconds")
    return header, [
        [peer, *(_share(mean_value(of(rows, peer, n))) for n in numbers), *_sizes(rows, peer)]
        for peer in peers_in(rows)
    ]


def accuracies_table(rows: Sequence[Row]) -> Table:
    """A line for every peer, a column for every accuracy, with the most evaluations."""
    most = max(shared_numbers(rows))
    header = ("peer", *(accuracy_name(each) for each in ACCURACIES))
    lines = [
        [peer, *(_share(mean_value(of(rows, peer, most), each)) for each in ACCURACIES)] for peer in peers_in(rows)
    ]
    return header, lines


def tasks_table(rows: Sequence[Row], number: int) -> Table:
    """A line for every task, a column for every peer, with so many evaluations."""
    peers = peers_in(rows)
    found = {row["cell"] for row in rows}
    lines = [
        [task, *(_share(mean_value(of(rows, peer, number, task))) for peer in peers)] for task in TASKS if task in found
    ]
    return ("task", *peers), lines


def shared_numbers(rows: Sequence[Row]) -> list[int]:
    """The numbers of evaluations that every peer was run with."""
    return [number for number in numbers_in(rows) if all(of(rows, peer, number) for peer in peers_in(rows))]


def best_sentence(rows: Sequence[Row]) -> str:
    """Which peer is best with the fewest and with the most evaluations, and where hpsde stands."""
    numbers, texts = shared_numbers(rows), []
    for number in dict.fromkeys(numbers[:1] + numbers[-1:]):
        means = {peer: mean_value(of(rows, peer, number)) for peer in peers_in(rows)}
        best = max(means, key=lambda peer: means[peer])
        text = f"With {number:,} evaluations {best} finds most ({_share(means[best])})"
        texts.append(text + (f", hpsde {_share(means[OWN])}." if OWN in means and best != OWN else "."))
    return " ".join(texts)


def runs_text(rows: Sequence[Row]) -> str:
    """How many tasks and seeds a mean is over."""
    tasks, seeds = {row["cell"] for row in rows}, {row["seed"] for row in rows}
    return f"mean over {len(tasks)} tasks and {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"


def _sizes(rows: Sequence[Row], peer: str) -> tuple[str, str]:
    """How many points a peer reports and how long it takes, with the most evaluations: medians."""
    done = [row for row in of(rows, peer, max(shared_numbers(rows))) if not row["error"]]
    if not done:
        return "-", "-"
    points, seconds = (float(np.median([row[name] for row in done])) for name in ("options", "learner_seconds"))
    return f"{points:.0f}", f"{seconds:.1f}"


def _share(share: float) -> str:
    return percent(round(share, 3))
