"""All tables, figures and verdicts anew, by one command: parts that are run one after the other, and their pages.

What is made lies as in the source: rows in benchmarks/results/ and experiments/, pages there and in docs/. Written to
the source itself it replaces what is published.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpsde.base.progress import ProgressBar
from hpsde.experiments import ablation, gallery, provenance, summary
from hpsde.experiments.figures import draw_all, example_runs
from hpsde.experiments.gauntlet import figures as gauntlet_figures
from hpsde.experiments.gauntlet import report as gauntlet_report
from hpsde.experiments.gauntlet import runner as gauntlet_runner
from hpsde.experiments.gauntlet.rows import Row, append_row, key, read_rows, repair, run_name
from hpsde.experiments.gauntlet.runner import Done, GauntletJob
from hpsde.experiments.peers import figures as peers_figures
from hpsde.experiments.peers import report as peers_report
from hpsde.experiments.peers import runner as peers_runner
from hpsde.experiments.peers.methods import PEERS
from hpsde.experiments.peers.tasks import EVALUATIONS, TASKS
from hpsde.experiments.plan import DEFAULT, EXPERIMENTS, Experiment
from hpsde.experiments.report import rows_file, write_page
from hpsde.experiments.rows import failed, runs_of, write_rows
from hpsde.experiments.rows import read_rows as read_runs
from hpsde.experiments.runner import finished_runs, run_all
from hpsde.tasks.gallery import GALLERY
from hpsde.tasks.gauntlet import CELLS

FRESH_SEED = 20_000
"""Seeds from here on have had no part in any choice."""
WHOLE = 10
"""With fewer seeds the longest runs are left out: peers with many evaluations, walls and arms of the ablation."""
SHORT_EVALUATIONS = 1000
PER_SEEDS = 5
"""The gauntlet and the peers, which are many tasks each, have a seed for every so many."""

RESULTS, DOCS = Path("benchmarks") / "results", Path("docs")
PAGES = {"toys": "reproduction.md", "puddle": "reproduction_puddle.md", "reach": "reproduction_reach.md"}
WITH_TABLE = (Path("README.md"), DOCS / "results.md")
"""Pages in the source that have the table of `summary`."""


@dataclass(frozen=True)
class Order:
    """What is asked for: where, how many seeds from which on, by how many processes, and at most how many rollouts in
    a run (None: as many as each task says; fewer are a rehearsal and no measurement).
    """

    out: Path
    seeds: int = 20
    first_seed: int = FRESH_SEED
    workers: int = 2
    rollouts: int | None = None

    @property
    def results(self) -> Path:
        """The folder of rows."""
        return self.out / RESULTS

    @property
    def few(self) -> range:
        """The seeds of parts that have many tasks."""
        return range(self.first_seed, self.first_seed + math.ceil(self.seeds / PER_SEEDS))

    @property
    def many(self) -> range:
        """The seeds of the others."""
        return range(self.first_seed, self.first_seed + self.seeds)


@dataclass(frozen=True)
class Part:
    """A part of everything.

    jobs: what is to be run. left: those that are not done yet. run: does them all, and tells the bar.
    report: writes tables, figures and pages from the rows that are there; gives the page, and how many runs failed.
    rows: its file of rows. seconds: of one core for one job, on average, with all its rollouts.
    """

    name: str
    description: str
    jobs: Callable[[Order], Sequence[Any]]
    left: Callable[[Order], Sequence[Any]]
    run: Callable[[Order, ProgressBar], None]
    report: Callable[[Order], tuple[Path, int]]
    rows: Callable[[Order], Path]
    seconds: Callable[[Order], float]

    def minutes(self, order: Order) -> float:
        """By the clock, for what is left to run, with one core for every process."""
        return len(self.left(order)) * self.seconds(order) / max(order.workers, 1) / 60.0


# ---------------------------------------------------------------- the paper's experiments


def _experiment_part(name: str) -> Part:
    def planned(order: Order) -> Experiment:
        return replace(EXPERIMENTS[name], first_seed=order.first_seed, rollouts=order.rollouts)

    def folder(order: Order) -> Path:
        return order.out / "experiments" / name

    def left(order: Order) -> list[Any]:
        runs = planned(order).runs(order.seeds)
        done = {name for name, rows in finished_runs(folder(order), runs).items() if not failed(rows)}
        return [run for run in runs if run.name not in done]

    def run(order: Order, bar: ProgressBar) -> None:
        experiment, out = planned(order), folder(order)
        provenance.keep(rows_file(experiment, out))
        examples = [each.name for each in example_runs(experiment)]
        rows = run_all(out, experiment.runs(order.seeds), order.workers, bar, examples)
        write_rows(rows_file(experiment, out), rows)

    def report(order: Order) -> tuple[Path, int]:
        experiment, out = planned(order), folder(order)
        rows = read_runs(rows_file(experiment, out))
        draw_all(experiment, out, rows)
        page = order.out / DOCS / PAGES[name]
        write_page(experiment, out, page, rows)
        return page, sum(failed(run) for run in runs_of(rows).values())

    experiment = EXPERIMENTS[name]
    return Part(
        name,
        experiment.description,
        lambda order: planned(order).runs(order.seeds),
        left,
        run,
        report,
        lambda order: rows_file(experiment, folder(order)),
        lambda order: experiment.seconds,
    )


# ---------------------------------------------------------------- tables with a row for every job


@dataclass(frozen=True)
class RowTable:
    """A part whose jobs are rows of one file: how they are done, and how its page is written."""

    name: str
    jobs: Callable[[Order], Sequence[Any]]
    do: Callable[[Sequence[Any], int], Iterator[Done]]
    page: Callable[[Order, Path, Sequence[Row]], Path]

    def rows(self, order: Order) -> Path:
        """Its file."""
        return order.results / f"{self.name}.csv"

    def left(self, order: Order) -> list[Any]:
        """The jobs without a row."""
        done = {key(row) for row in read_rows(self.rows(order))}
        return [job for job in self.jobs(order) if job.key not in done]

    def run(self, order: Order, bar: ProgressBar) -> None:
        """Do what is left. The options that a picture needs come first, then the row: what has a row is complete."""
        path = self.rows(order)
        repair(path)
        provenance.keep(path)
        left, jobs = self.left(order), self.jobs(order)
        bar.update(len(jobs) - len(left))
        for number, done in enumerate(self.do(left, order.workers), start=len(jobs) - len(left) + 1):
            if done.means is not None:
                gauntlet_figures.keep_means(gauntlet_figures.options_file(path), run_name(done.job.key), done.means)
            append_row(path, done.row)
            bar.update(number, last=f"{done.job.cell} {done.job.seed}")

    def report(self, order: Order) -> tuple[Path, int]:
        """Write the page."""
        path = self.rows(order)
        rows = read_rows(path)
        return self.page(order, path, rows), sum(bool(row["error"]) for row in rows)

    def part(self, description: str, seconds: Callable[[Order], float]) -> Part:
        """The part."""
        return Part(self.name, description, self.jobs, self.left, self.run, self.report, self.rows, seconds)


def _gauntlet_jobs(order: Order) -> list[GauntletJob]:
    seeds = order.few
    return [GauntletJob(cell, seed, rollouts=order.rollouts, keep=seed == seeds[0]) for cell in CELLS for seed in seeds]


def _gauntlet_page(order: Order, path: Path, rows: Sequence[Row]) -> Path:
    places = {name: place for place, name in enumerate(CELLS)}
    rows = sorted(rows, key=lambda row: (places.get(row["cell"], len(places)), row["seed"]))
    pictures = gauntlet_figures.draw_all(rows, gauntlet_figures.options_file(path), order.out / DOCS / "images")
    gauntlet_report.write_page(path.with_suffix(".md"), rows, path, pictures)
    return path.with_suffix(".md")


def _evaluations(order: Order) -> Mapping[str, Sequence[int]]:
    if order.rollouts is not None:
        return dict.fromkeys(EVALUATIONS, (order.rollouts,))
    if order.seeds >= WHOLE:
        return EVALUATIONS
    return {part: [each for each in numbers if each <= SHORT_EVALUATIONS] for part, numbers in EVALUATIONS.items()}


def missing_peers() -> dict[str, str]:
    """Peers that cannot be run here, with the module that each needs."""
    return {name: each.needs for name, each in PEERS.items() if each.needs and not importlib.util.find_spec(each.needs)}


def _peers_jobs(order: Order) -> list[peers_runner.PeerJob]:
    peers = [name for name in PEERS if name not in missing_peers()]
    return peers_runner.chosen_jobs(TASKS, peers, order.few, _evaluations(order))


def _peers_page(order: Order, path: Path, rows: Sequence[Row]) -> Path:
    picture = peers_figures.draw(rows, order.out / DOCS / "images" / "peers.png")
    peers_report.write_page(path.with_suffix(".md"), rows, path, picture)
    return path.with_suffix(".md")


def _ablation_jobs(order: Order) -> list[GauntletJob]:
    cells = {
        name: rollouts
        for name, rollouts in ablation.CELLS.items()
        if order.seeds >= WHOLE or CELLS[name].family != "movements"
    }
    return ablation.jobs_of(cells, ablation.VARIANTS, [order.first_seed], order.rollouts)


GAUNTLET = RowTable("gauntlet", _gauntlet_jobs, gauntlet_runner.run_all, _gauntlet_page)
ABLATION = RowTable(
    "ablation", _ablation_jobs, gauntlet_runner.run_all, lambda order, path, rows: ablation.write_page(rows, path)
)
PEERS_TABLE = RowTable(
    "peers",
    _peers_jobs,
    lambda jobs, workers: gauntlet_runner.run_jobs(jobs, workers, peers_runner.execute, peers_runner.lost),
    _peers_page,
)
GALLERY_TABLE = RowTable(
    "gallery",
    lambda order: [gallery.GalleryJob(name, seed, order.rollouts) for name in GALLERY for seed in order.many],
    gallery.run_all,
    lambda order, path, rows: gallery.write_page(rows, path),
)

PARTS: Mapping[str, Part] = {
    part.name: part
    for part in (
        *(_experiment_part(name) for name in PAGES),
        ABLATION.part("one departure from the paper taken back at a time", lambda order: 4.2),
        GAUNTLET.part("88 kinds of random tasks with known solutions", lambda order: 24.0),
        PEERS_TABLE.part("other methods with as many evaluations", lambda order: 9.0 if order.seeds >= WHOLE else 4.6),
        GALLERY_TABLE.part("bank shots, throws, drones", lambda order: 40.0),
    )
}
"""In the order in which they are run. Seconds: of the published rows, learners and tasks together."""


def write_summary(order: Order) -> Path:
    """The table of the README from the rows that are there: in the pages that have it, or in one of its own."""
    rows = []
    for name in PAGES:
        path = rows_file(EXPERIMENTS[name], order.out / "experiments" / name)
        rows += read_runs(path) if path.is_file() and _is_present(path) else []
    defaults = order.results / summary.DEFAULTS
    if rows:
        provenance.keep(defaults)
        summary.write_defaults(defaults, rows, DEFAULT)
    page = order.out / "table.md"
    text = f"# Results\n\n{summary.BEGIN}\n\n{summary.END}\n"
    pages = [order.out / name for name in WITH_TABLE if (order.out / name).is_file()]
    for each in pages or [page]:
        before = each.read_text(encoding="utf-8") if each in pages else text
        each.write_text(summary.in_place(before, order.results), encoding="utf-8")
    return (pages or [page])[0]


def _is_present(path: Path) -> bool:
    made = provenance.read(path)
    return made is not None and made.is_present
