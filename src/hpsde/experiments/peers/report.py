"""The page of the comparison: what was done, and tables of peak ratios and of shares, with a sentence from each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hpsde.experiments.gauntlet.report import Table, markdown_table, percent, plain_table
from hpsde.experiments.gauntlet.rows import Row
from hpsde.experiments.peers.measures import ACCURACIES, accuracy_name
from hpsde.experiments.peers.methods import PEERS
from hpsde.experiments.peers.rows import common_rows, evaluations, value
from hpsde.experiments.peers.tasks import CONTEXTS, POINTS, TASKS

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
    most = max(numbers_in(rows))
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


def best_sentence(rows: Sequence[Row]) -> str:
    """Which peer is best with the fewest and with the most evaluations, and where hpsde stands."""
    numbers, texts = numbers_in(rows), []
    for number in dict.fromkeys((numbers[0], numbers[-1])):
        means = {peer: mean_value(of(rows, peer, number)) for peer in peers_in(rows)}
        best = max(means, key=lambda peer: means[peer])
        text = f"With {number:,} evaluations {best} finds most ({_share(means[best])})"
        texts.append(text + (f", hpsde {_share(means[OWN])}." if OWN in means and best != OWN else "."))
    return " ".join(texts)


def errors_text(rows: Sequence[Row]) -> str:
    """The runs that ended with an error."""
    failed = [row for row in rows if row["error"]]
    lines = [f"- {row['method']} on {row['cell']}, seed {row['seed']}: {row['error']}" for row in failed]
    return "\n".join([f"{len(failed)} runs ended with an error; they count as nothing found.", "", *lines])


def printed(rows: Sequence[Row]) -> str:
    """The tables for a terminal."""
    texts = []
    for part in (POINTS, CONTEXTS):
        if own := common_rows(rows, part):
            texts += [f"{part}: {_runs(own)}", plain_table(evaluations_table(own))]
    return "\n\n".join(texts)


def make_page(rows: Sequence[Row], rows_file: str, picture: str) -> str:
    """The page as text."""
    seeds = sorted({row["seed"] for row in rows})
    peers = [[name, PEERS[name].description, PEERS[name].reports] for name in peers_in(rows)]
    parts = [
        "# hpsde and its peers",
        f"hpsde beside other ways to find several solutions, each with as many evaluations: {len(rows)} runs, seeds "
        f"{seeds[0]} to {seeds[-1]}. Every evaluation counts, those of numerical gradients too, and a counter refuses "
        "any beyond the budget. Each method ends with a list of points, and one measure judges all lists. This page "
        f"is written by `python benchmarks/peers.py` from [its rows]({rows_file}).",
        f"![Left: the mean peak ratio at 1e-5 on the functions without context. Right: the share of the pairs of "
        f"contexts and solutions that are found]({picture})",
        markdown_table((("peer", "what it is", "what it reports"), peers)),
        *_points_text(rows),
        *_contexts_text(rows),
    ]
    if any(row["error"] for row in rows):
        parts += ["## Errors", errors_text(rows)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def write_page(page: Path, rows: Sequence[Row], rows_file: Path, picture: Path) -> None:
    """Write the page; it names rows and picture by relative paths."""
    rows_name, picture_name = (Path(os.path.relpath(path, page.parent)).as_posix() for path in (rows_file, picture))
    page.write_text(make_page(rows, rows_name, picture_name), encoding="utf-8")


def _points_text(rows: Sequence[Row]) -> list[str]:
    own = common_rows(rows, POINTS)
    if not own:
        return []
    return [
        "## Without context",
        "The functions F1 to F10 of the CEC 2013 competition on niching. The peak ratio is the share of the global "
        "optima that are found: a reported point lies within the competition's niche radius of the optimum, and loses "
        f"no more than the accuracy. At 1e-5, {_runs(own)}, by evaluations:",
        markdown_table(evaluations_table(own)),
        best_sentence(own),
        f"By accuracy, with {max(numbers_in(own)):,} evaluations:",
        markdown_table(accuracies_table(own)),
        *_by_task([row for row in rows if row["family"] == POINTS]),
    ]


def _contexts_text(rows: Sequence[Row]) -> list[str]:
    own = common_rows(rows, CONTEXTS)
    if not own:
        return []
    return [
        "## With contexts",
        "Solutions that change with the context. A rival that knows no contexts gets a grid of bins, in all about "
        "sqrt(evaluations / 10), and the budget in equal shares; in a new context the nearest bin answers. A pair of a "
        "context and a solution counts as found if an answer is nearer to that solution than to any other, and loses "
        "at most 1 % of what blind parameters lose against the solution's best return. The share of the pairs on a "
        f"grid of contexts that nobody learned from, {_runs(own)}, by evaluations:",
        markdown_table(evaluations_table(own)),
        best_sentence(own),
        *_by_task([row for row in rows if row["family"] == CONTEXTS]),
    ]


def _by_task(rows: Sequence[Row]) -> list[str]:
    """A table of all tasks for every number of evaluations, from all rows rather than the common ones."""
    texts = []
    for number in numbers_in(rows):
        some = [row for row in rows if evaluations(row) == number]
        texts += [f"All tasks with {number:,} evaluations:", markdown_table(tasks_table(some, number))]
    return texts


def _runs(rows: Sequence[Row]) -> str:
    tasks, seeds = {row["cell"] for row in rows}, {row["seed"] for row in rows}
    return f"mean over {len(tasks)} tasks and {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"


def _sizes(rows: Sequence[Row], peer: str) -> tuple[str, str]:
    """How many points a peer reports and how long it takes, with the most evaluations: medians."""
    done = [row for row in of(rows, peer, max(numbers_in(rows))) if not row["error"]]
    if not done:
        return "-", "-"
    points, seconds = (float(np.median([row[name] for row in done])) for name in ("options", "learner_seconds"))
    return f"{points:.0f}", f"{seconds:.1f}"


def _share(share: float) -> str:
    return percent(round(share, 3))
