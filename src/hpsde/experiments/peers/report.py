"""The page of the comparison: what was done, and tables of peak ratios and of shares, with a sentence from each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hpsde.experiments.gauntlet.report import markdown_table, percent, plain_table
from hpsde.experiments.gauntlet.rows import Row
from hpsde.experiments.peers.ceiling import mean_ceiling
from hpsde.experiments.peers.methods import PEERS
from hpsde.experiments.peers.rows import common_rows, evaluations
from hpsde.experiments.peers.tables import (
    accuracies_table,
    best_sentence,
    evaluations_table,
    numbers_in,
    peers_in,
    runs_text,
    shared_numbers,
    tasks_table,
)
from hpsde.experiments.peers.tasks import CONTEXTS, POINTS
from hpsde.experiments.provenance import Made, made_text, read, seeds_text


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
            texts += [f"{part}: {runs_text(own)}", plain_table(evaluations_table(own))]
    return "\n\n".join(texts)


def make_page(rows: Sequence[Row], rows_file: str, picture: str, made: Made | None = None) -> str:
    """The page as text; `made` says what made the rows."""
    peers = [[name, PEERS[name].description, PEERS[name].reports] for name in peers_in(rows)]
    parts = [
        "# hpsde and its peers",
        f"hpsde beside other ways to find several solutions, each with as many evaluations: {len(rows)} runs, "
        f"{seeds_text(row['seed'] for row in rows)}. Every evaluation counts, those of numerical gradients too, and a "
        "counter refuses any beyond the budget. Each method ends with a list of points, and one measure judges all "
        "lists. Rivals know the box of the parameters and how exact they need to be, and have settings that were "
        "chosen for them on a few seeds below 1,000; hpsde has its defaults. Reporting too many points costs nothing. "
        "This page "
        f"is written by `python benchmarks/peers.py` from [its rows]({rows_file}). {made_text(made)}",
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
    page.write_text(make_page(rows, rows_name, picture_name, read(rows_file)), encoding="utf-8")


def _points_text(rows: Sequence[Row]) -> list[str]:
    own = common_rows(rows, POINTS)
    if not own:
        return []
    return [
        "## Without context",
        "The functions F1 to F10 of the CEC 2013 competition on niching. The peak ratio is the share of the global "
        "optima that are found: a reported point lies within the competition's niche radius of the optimum, and loses "
        "no more than the accuracy. The competition's own program does not ask for the first where a single point has "
        f"the value, and may count more where the accuracy is coarse. At 1e-5, {runs_text(own)}, by evaluations:",
        markdown_table(evaluations_table(own)),
        best_sentence(own),
        f"By accuracy, with {max(shared_numbers(own)):,} evaluations:",
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
        f"grid of contexts that nobody learned from, {runs_text(own)}, by evaluations:",
        markdown_table(evaluations_table(own)),
        best_sentence(own),
        _ceiling_sentence(own),
        *_by_task([row for row in rows if row["family"] == CONTEXTS]),
    ]


def _ceiling_sentence(rows: Sequence[Row]) -> str:
    """What the bins alone cost the rivals."""
    shares = [f"{percent(round(mean_ceiling(rows, number), 3))} with {number:,}" for number in numbers_in(rows)]
    return (
        f"Bins that knew their solutions exactly would answer {', '.join(shares)} evaluations (dashed in the picture): "
        "what lies beyond that is out of reach of any search in these bins, but for points that are a little off and "
        "by chance answer more contexts than the exact one."
    )


def _by_task(rows: Sequence[Row]) -> list[str]:
    """A table of all tasks for every number of evaluations, from all rows rather than the common ones."""
    texts = []
    for number in numbers_in(rows):
        some = [row for row in rows if evaluations(row) == number]
        texts += [f"All tasks with {number:,} evaluations:", markdown_table(tasks_table(some, number))]
    return texts
