"""The table of the README: what the defaults reach on the paper's tasks and in the gauntlet, from rows alone."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from hpsde.errors import FileFormatError
from hpsde.experiments import provenance
from hpsde.experiments.gauntlet import targets
from hpsde.experiments.gauntlet.report import doubts_sentence, markdown_table, percent
from hpsde.experiments.gauntlet.rows import Row, read_rows
from hpsde.experiments.peers.rows import common_rows
from hpsde.experiments.peers.tables import OWN, mean_value, of, peers_in, shared_numbers
from hpsde.experiments.peers.tasks import CONTEXTS, POINTS
from hpsde.experiments.plan import PUDDLE, TOYS
from hpsde.experiments.provenance import seeds_text
from hpsde.experiments.rows import DONE
from hpsde.experiments.rows import Row as RunRow
from hpsde.runs.files import replacing
from hpsde.tasks import make_task

DEFAULTS, GAUNTLET, PEERS_FILE = "defaults.csv", "gauntlet.csv", "peers.csv"
COLUMNS = (
    "task",
    "method",
    "seed",
    "rollouts",
    "greedy_mean_return",
    "options_kept",
    "coverage",
    "surplus",
    "best_option_return",
    "collision_free",
    "solutions_found",
    "success",
    "strict_success",
    "both_sides",
    "learner_seconds",
)
"""Of the table of the last rows of the default learner on the paper's tasks."""
DRAWS = 20_000
MANY = 9  # solutions: functions with more have a line of their own
BEGIN, END = "<!-- begin of the table -->", "<!-- end of the table -->"

Line = Mapping[str, float | str]


def write_defaults(path: Path, rows: Sequence[RunRow], method: str) -> None:
    """The last row of every run of that method which did not fail, each number with 12 digits."""
    last = {(row["task"], row["seed"]): row for row in rows if row["variant"] == method and row["status"] == DONE}
    with replacing(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([_text(row.get(name)) for name in COLUMNS] for row in last.values())


def _text(value: object) -> str:
    return "" if value is None else f"{value:.12g}" if isinstance(value, float) else str(value)


def read_defaults(path: Path) -> list[Line]:
    """What `write_defaults` wrote; empty fields are left out."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise FileFormatError(f"{path} should hold the last rows of the default learner: {', '.join(COLUMNS)}")
        return [
            {name: text if name in ("task", "method") else float(text) for name, text in row.items() if text}
            for row in reader
        ]


@dataclass(frozen=True)
class Entry:
    """A line of the table: what it is about, over which runs, and what the policy in use is like.

    found: the share of the runs with an option for every solution. exact: with one for each and no other; NaN where a
    task does not say what would be one too many.
    """

    text: str
    runs: int
    found: float
    exact: float
    policy: str

    @property
    def cells(self) -> list[str]:
        """As text."""
        return [self.text, str(self.runs), percent(self.found), percent(self.exact), self.policy]


def table(folder: Path) -> str:
    """The table of the rows in a folder as Markdown."""
    entries = [*_of_paper(read_defaults(folder / DEFAULTS)), *_of_gauntlet(read_rows(folder / GAUNTLET))]
    header = ("tasks, rollouts of each run", "runs", "all solutions found", "and no option besides", "policy in use")
    return markdown_table((header, [each.cells for each in entries]))


def block(folder: Path) -> str:
    """What stands between the marks of a page: the table, and a line each of peers, doubts and where all is from."""
    rows, peers = read_rows(folder / GAUNTLET), read_rows(folder / PEERS_FILE)
    lines = [f"**Doubts.** {doubts_sentence(rows)}"] if rows else []
    lines += [f"**Peers.** {peers_text(peers)}"] if peers else []
    return "\n\n".join([table(folder), "\n".join(f"- {line}" for line in [*lines, f"**Source.** {sources(folder)}"])])


def peers_text(rows: Sequence[Row]) -> str:
    """The shares that hpsde finds beside those of the best rival, by evaluations, of both parts of the comparison."""
    parts = []
    for part, words in ((CONTEXTS, "solutions in contexts"), (POINTS, "optima of functions without context")):
        own = common_rows(rows, part)
        if not own or OWN not in peers_in(own):
            continue
        numbers, rivals = shared_numbers(own), [name for name in peers_in(own) if name != OWN]
        ours = [mean_value(of(own, OWN, number)) for number in numbers]
        best = [max(mean_value(of(own, name, number)) for name in rivals) for number in numbers]
        parts.append(
            f"of {words} hpsde finds {_shares(ours)} with {_listed(f'{number:,}' for number in numbers)} evaluations, "
            f"the best of {len(rivals)} rivals {_shares(best)}"
        )
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _shares(shares: Sequence[float]) -> str:
    return f"{_listed(f'{100.0 * share:.0f}' for share in shares)} %"


def _listed(words: Iterable[str]) -> str:
    """'a, b and c'."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def sources(folder: Path) -> str:
    """Which seeds and versions the tables are of."""
    parts: dict[str, list[str]] = {}
    for name, words in ((DEFAULTS, "the paper's tasks"), (GAUNTLET, "the gauntlet"), (PEERS_FILE, "peers")):
        path = folder / name
        rows = read_defaults(path) if name == DEFAULTS else read_rows(path)
        if rows:
            seeds = seeds_text(int(row["seed"]) for row in rows)
            parts.setdefault(provenance.made_text(provenance.read(path)), []).append(f"{words} on {seeds}")
    return " ".join(f"{_listed(said).capitalize()}: {text}" for text, said in parts.items())


def in_place(text: str, folder: Path) -> str:
    """The text of a page with the table between its two marks anew."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise FileFormatError(f"expected a page with the lines {BEGIN} and {END}")
    return f"{before}{begin}\n\n{block(folder)}\n\n{end}{after}"


def _of_paper(rows: Sequence[Line]) -> list[Entry]:
    """The lines of the paper's tasks that have runs."""
    makers: tuple[tuple[tuple[str, ...], Callable[[Sequence[Line]], Entry]], ...] = (
        (("toy-double", "toy-triple", "toy-curve"), _toys),
        (("puddle",), _puddle),
        (("reach",), _reach),
    )
    chosen = [([row for row in rows if row["task"] in tasks], make) for tasks, make in makers]
    return [make(some) for some, make in chosen if some]


def _toys(rows: Sequence[Line]) -> Entry:
    names = [name for name in (*TOYS.tasks, *TOYS.extra_tasks) if any(row["task"] == name for row in rows)]
    lost = {name: TOYS.best[name] - blind_return(name) for name in names}
    regrets = [
        (TOYS.best[str(row["task"])] - float(row["greedy_mean_return"])) / lost[str(row["task"])] for row in rows
    ]
    found = [row["coverage"] == 1.0 for row in rows]
    exact = [row["coverage"] == 1.0 and row["surplus"] == 0.0 for row in rows]
    text = f"the paper's toys, 2 or 3 solutions, {_rollouts(rows)}"
    policy = f"regret {100.0 * np.median(regrets):.2g} % in the median, {100.0 * max(regrets):.2g} % at most"
    return Entry(text, len(rows), float(np.mean(found)), float(np.mean(exact)), policy)


def blind_return(name: str) -> float:
    """The mean return of parameters that are drawn from the task's initial distribution."""
    task, (key_contexts, key_parameters) = make_task(name), jax.random.split(jax.random.key(0))
    contexts = task.sample_contexts(key_contexts, DRAWS)
    return float(np.mean(np.asarray(task.evaluate(contexts, task.sample_initial(key_parameters, contexts)))))


def _puddle(rows: Sequence[Line]) -> Entry:
    returns = [float(row["greedy_mean_return"]) for row in rows]
    free = float(np.mean([row["collision_free"] == 1.0 for row in rows]))
    found = [row["solutions_found"] == 4.0 for row in rows]
    exact = [row["solutions_found"] == row["options_kept"] == 4.0 for row in rows]
    text = f"the paper's puddle, 4 gaps, 10 parameters, {_rollouts(rows)}"
    policy = (
        f"return {np.median(returns):.2f} of {PUDDLE.best['puddle']:g}; no collision in {percent(free)} of the runs"
    )
    return Entry(text, len(rows), float(np.mean(found)), float(np.mean(exact)), policy)


def _reach(rows: Sequence[Line]) -> Entry:
    success = float(np.median([float(row["success"]) for row in rows]))
    found = float(np.mean([float(row["both_sides"]) >= 0.8 - 1e-9 for row in rows]))
    text = f"the paper's arm, 2 sides of a pole, 7 joints, {_rollouts(rows)}"
    return Entry(text, len(rows), found, math.nan, f"within 2 cm of {percent(success)} of the goals")


def _rollouts(rows: Sequence[Line]) -> str:
    return f"{max(int(row['rollouts']) for row in rows):,}"


GROUPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (targets.PLAIN, "ridges and bumps, up to 9 solutions and 4 numbers, 1,050", ("regret at most 1 %",)),
    (targets.HARD, "noise, outliers, failures, success or failure, 1,050", ("regret at most 3 %",)),
    (targets.TEN, "10 parameters, 1,050", ("regret at most 1 %",)),
    (targets.MORE, "20 and 30 parameters, of which three directions matter, 1,050", ("regret at most 5 %",)),
    ("300 rollouts", "ridges and bumps, 300", ()),
    ("100 rollouts", "ridges and bumps, 100", ()),
    ("60 rollouts", "two ridges, 60", ()),
    (targets.WALLS, "walls with 2 to 6 gaps, 10 parameters, 1,500", ("collision-free, median",)),
    (targets.ARMS, "arms behind a pole, 6 and 7 joints, 4,000", ("success, median",)),
)
WORDS = {
    "collision-free, median": "no collision in {} of the contexts",
    "success, median": "within 2 cm of {} of the goals",
}


def _of_gauntlet(rows: Sequence[Row]) -> list[Entry]:
    """The lines of the gauntlet's groups that have runs, by its targets, and one of the functions with many maxima."""
    entries = []
    for name, text, figures in GROUPS:
        own = [each for each in targets.TARGETS if each.runs == name]
        some = [row for row in rows if own[0].chosen(row)]
        if not some:
            continue
        judged = {each.text: each.figure(some) for each in own}
        said = [WORDS.get(each, f"{each} in {{}}").format(percent(judged[each])) for each in figures]
        policy = said[0] if said else f"regret at most 1 % in {percent(targets.regret_share(0.01)(some))}"
        entries.append(Entry(text, len(some), targets.found_share(some), targets.exact_share(some), policy))
    many = [row for row in rows if row["family"] == "bumps" and (row["solutions"] or 0) > MANY]
    if many:
        least, most = (choose(int(row["solutions"]) for row in many) for choose in (min, max))
        policy = f"{percent(targets.mean_coverage(many))} of the maxima found"
        text = f"functions with {least} to {most} maxima, 1,050"
        entries.append(Entry(text, len(many), targets.found_share(many), targets.exact_share(many), policy))
    return entries
