"""The page of the gauntlet: targets, families, cells and doubts as tables, each with a sentence from its figures."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from hpsde.experiments.gauntlet.rows import Row, by_cell, by_family
from hpsde.experiments.gauntlet.targets import (
    MISSED,
    REACHED,
    UNKNOWN,
    JudgedTarget,
    doubtful_share,
    exact_share,
    judge_all,
    mean_coverage,
    regret,
    went_wrong,
)
from hpsde.experiments.provenance import Made, made_text, read, seeds_text

FIGURES = ("runs", "exact", "coverage", "surplus", "regret, median", "regret, worst", "doubts", "learner seconds")
NAMED_CELLS = 3
"""How many cells a sentence names."""

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""The header and the lines of a table; the first column is text, the others are numbers or short."""


def percent(share: float) -> str:
    """'97.5 %'."""
    return "-" if math.isnan(share) else f"{100.0 * share:.3g} %"


def figures(rows: Sequence[Row]) -> list[str]:
    """The entries of a line of the tables of cells and families, as `FIGURES` names them."""
    regrets = [each for row in rows if not math.isnan(each := regret(row))] or [math.nan]
    done = [row for row in rows if not row["error"]]
    surplus = f"{np.mean([row['surplus'] for row in done]):.2f}" if done else "-"
    seconds = f"{np.median([row['learner_seconds'] for row in done]):.1f}" if done else "-"
    return [
        str(len(rows)),
        percent(exact_share(rows)),
        _number(mean_coverage(rows)),
        surplus,
        _regret_text(float(np.median(regrets))),
        _regret_text(max(regrets)),
        percent(doubtful_share(rows)),
        seconds,
    ]


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def _regret_text(value: float) -> str:
    if math.isinf(value):
        return "failed"
    return "< 0.01 %" if value < 1e-4 else percent(value)


def cells_table(rows: Sequence[Row]) -> Table:
    """A line for every cell."""
    return ("cell", *FIGURES), [[_cell_name(runs[0]), *figures(runs)] for runs in by_cell(rows).values()]


def _cell_name(row: Row) -> str:
    return f"{row['cell']} (hopeless)" if row["hopeless"] else row["cell"]


def families_table(rows: Sequence[Row]) -> Table:
    """A line for every family, without the cells that cannot be solved, and one for these."""
    hopeless = [row for row in rows if row["hopeless"]]
    groups = by_family(row for row in rows if not row["hopeless"]) | ({"hopeless": hopeless} if hopeless else {})
    return ("family", *FIGURES), [[family, *figures(runs)] for family, runs in groups.items()]


def targets_table(judged: Sequence[JudgedTarget]) -> Table:
    """A line for every target."""
    lines = []
    for each in judged:
        side = "at most" if each.target.at_most else "at least"
        wanted = f"{side} {_figure(each, each.target.wanted)}"
        figure = "-" if each.verdict == UNKNOWN else _figure(each, each.figure)
        lines.append([each.target.runs, each.target.text, wanted, figure, str(each.runs), each.verdict])
    return ("which runs", "figure", "wanted", "measured", "runs", "reached"), lines


def _figure(each: JudgedTarget, value: float) -> str:
    return f"{value:.3g}" if each.target.text == "mean coverage" else percent(value)


def doubts_table(rows: Sequence[Row]) -> Table:
    """How many of the wrong and of the right runs carry each kind of doubt."""
    groups = [[row for row in rows if went_wrong(row) == wrong] for wrong in (True, False)]
    counts = [Counter(kind for row in group for kind in row["doubts"].split("+") if kind) for group in groups]
    kinds = [kind for kind, _ in (counts[0] + counts[1]).most_common()]
    lines = [[kind, str(counts[0][kind]), str(counts[1][kind])] for kind in kinds]
    lines.append(["any", *(str(sum(bool(row["doubts"]) for row in group)) for group in groups)])
    lines.append(["runs", *(str(len(group)) for group in groups)])
    return ("doubt", "runs that went wrong", "runs that went right"), lines


def targets_sentence(judged: Sequence[JudgedTarget]) -> str:
    """How many targets are reached, and which are not."""
    verdicts = Counter(each.verdict for each in judged)
    known = len(judged) - verdicts[UNKNOWN]
    text = f"{verdicts[REACHED]} of {known} targets that have runs are reached."
    missed = [f"{each.target.runs}: {each.target.text}" for each in judged if each.verdict == MISSED]
    text += f" Missed: {'; '.join(missed)}." if missed else ""
    return text + (f" {verdicts[UNKNOWN]} targets have no runs yet." if verdicts[UNKNOWN] else "")


def families_sentence(rows: Sequence[Row]) -> str:
    """Which family is learned best and which worst."""
    groups = by_family(row for row in rows if not row["hopeless"])
    shares = {family: exact_share(runs) for family, runs in groups.items()}
    if len(shares) < 2:
        return "".join(
            f"Exactly the right options are found in {percent(s)} of the {f} runs." for f, s in shares.items()
        )
    best, worst = max(shares, key=lambda f: shares[f]), min(shares, key=lambda f: shares[f])
    if shares[best] == shares[worst]:
        return f"Exactly the right options are found in {percent(shares[best])} of the runs of every family."
    return (
        f"Exactly the right options are found most often in {best} ({percent(shares[best])}) "
        f"and least often in {worst} ({percent(shares[worst])})."
    )


def cells_sentence(rows: Sequence[Row]) -> str:
    """In how many cells all is well, and the weakest cells."""
    shares = {cell: exact_share(runs) for cell, runs in by_cell(rows).items() if not runs[0]["hopeless"]}
    perfect = sum(share == 1.0 for share in shares.values())
    weak = sorted((cell for cell, share in shares.items() if share < 1.0), key=lambda cell: shares[cell])
    text = f"In {perfect} of {len(shares)} cells every run finds exactly the right options."
    if not weak:
        return text
    named = ", ".join(f"{cell} ({percent(shares[cell])})" for cell in weak[:NAMED_CELLS])
    return f"{text} The lowest {'shares are' if len(weak) > 1 else 'share is'} in {named}."


def doubts_sentence(rows: Sequence[Row]) -> str:
    """How well the doubts tell wrong runs from right ones."""
    parts = []
    for wrong, word in ((True, "wrong"), (False, "right")):
        group = [row for row in rows if went_wrong(row) == wrong]
        parts.append(f"{sum(bool(row['doubts']) for row in group)} of the {len(group)} runs that went {word}")
    return f"A doubt comes with {parts[0]} and with {parts[1]}."


def errors_text(rows: Iterable[Row]) -> str:
    """The runs that ended with an error."""
    failed = [row for row in rows if row["error"]]
    if not failed:
        return "No run ended with an error."
    lines = [f"- {row['cell']}@{row['seed']}: {row['error']}" for row in failed]
    return "\n".join([f"{len(failed)} runs ended with an error; they count as wrong.", "", *lines])


def plain_table(table: Table) -> str:
    """A table for a terminal."""
    header, lines = table
    widths = [max(len(line[column]) for line in (header, *lines)) for column in range(len(header))]
    left = 2 if header[0] == "which runs" else 1
    return "\n".join(
        "  ".join(
            text.ljust(width) if column < left else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (header, *lines)
    )


def markdown_table(table: Table) -> str:
    """A table for a page."""
    header, lines = table
    return "\n".join(["| " + " | ".join(line) + " |" for line in (header, ["---"] * len(header), *lines)])


def printed(rows: Sequence[Row]) -> str:
    """All tables for a terminal."""
    tables = [cells_table(rows), families_table(rows), doubts_table(rows), targets_table(judge_all(rows))]
    return "\n\n".join(plain_table(table) for table in tables)


def make_page(rows: Sequence[Row], rows_file: str, pictures: Mapping[str, str], made: Made | None = None) -> str:
    """The page as text. `pictures`: what each shows -> its path as seen from the page. `made`: what made the rows."""
    judged = judge_all(rows)
    shown = [f"{text}.\n\n![{text}]({path})" for text, path in pictures.items()]
    parts = [
        "# The gauntlet",
        f"Random tasks whose solutions are known: {len(by_cell(rows))} kinds of task (cells), {len(rows)} runs of the "
        f"method {rows[0]['method']}, {seeds_text(row['seed'] for row in rows)}, settings `{rows[0]['settings']}`. "
        f"This page is written by `python benchmarks/gauntlet.py` from [its rows]({rows_file}). {made_text(made)}",
        "A run is *exact* when every solution has one option and there is no other option. *Coverage* is the share of "
        "the solutions that an option follows, *surplus* the number of options too many. *Regret* is the loss of "
        "return against the best, as a share of what blind draws from the start distribution lose. A *doubt* is a "
        "warning that the policy itself carries. A cell is *hopeless* when nothing can be learned there: only a "
        "doubt is wanted.",
        "## Targets",
        targets_sentence(judged),
        markdown_table(targets_table(judged)),
        "## Families",
        families_sentence(rows),
        markdown_table(families_table(rows)),
        "## Doubts",
        doubts_sentence(rows),
        markdown_table(doubts_table(rows)),
        "## Errors",
        errors_text(rows),
        "## Cells",
        cells_sentence(rows),
        markdown_table(cells_table(rows)),
        "## Pictures",
        *shown,
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def write_page(page: Path, rows: Sequence[Row], rows_file: Path, pictures: Mapping[str, Path]) -> None:
    """Write the page; it names rows and pictures by relative paths."""

    def seen(path: Path) -> str:
        return Path(os.path.relpath(path, page.parent)).as_posix()

    text = make_page(rows, seen(rows_file), {title: seen(path) for title, path in pictures.items()}, read(rows_file))
    page.write_text(text, encoding="utf-8")
