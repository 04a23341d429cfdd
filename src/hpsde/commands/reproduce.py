"""`hpsde reproduce`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from hpsde.errors import HpsdeError, InputError

if TYPE_CHECKING:
    from hpsde.experiments.plan import Experiment

ALL = "all"
LEAST_ROLLOUTS = 20
Names = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME...", help_behavior_hint="(default: all)")]


@dataclass(frozen=True)
class Command:
    """Run an experiment over many seeds and say which of its claims hold; or make everything anew.

    Runs methods x tasks x seeds in parallel, writes one row per run and iteration to
    DIR/EXPERIMENT.csv, then figures and a page with the claims, their intervals and verdicts.
    A finished run is never run twice: after an interruption, or to add seeds, give the same command
    again. A run that fails is a row, and is tried again next time.

    `all` makes every table, figure and verdict of the documentation: the experiments, the ablation, the gauntlet, the
    peers, the gallery and the README's table, from the present defaults, on seeds that had no part in any choice. It
    says before how long it takes. What it makes lies in DIR as in the source, and can be copied over it.

    examples:
      hpsde reproduce --list
      hpsde reproduce toys --seeds 2
      hpsde reproduce toys --workers 8 --out results/toys
      hpsde reproduce toys --report-only --out results/toys
      hpsde reproduce all --seeds 5
      hpsde reproduce all --seeds 1 --rollouts 40 --parts toys gallery --out runs/rehearsal

    exit codes: 0 done, 1 a run failed, 2 wrong usage or input, 130 interrupted.
    """

    experiment: Annotated[
        tyro.conf.Positional[str | None], tyro.conf.arg(metavar="EXPERIMENT", help_behavior_hint="")
    ] = None
    """Which one, or all; --list names them."""
    seeds: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: 20)")] = None
    """How many seeds."""
    tasks: Names = ()
    """Only these tasks."""
    variants: Names = ()
    """Only these methods and ablations."""
    parts: Names = ()
    """Of all: only these parts."""
    first_seed: Annotated[
        int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: 100; of all: 20000)")
    ] = None
    """The lowest seed."""
    rollouts: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: each task's own)")] = None
    """At most so many rollouts in a run: a rehearsal, no measurement."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: one for each core)")] = None
    """How many processes."""
    out: Annotated[
        Path | None,
        tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/reproduce/EXPERIMENT; of all: runs/reproduce)"),
    ] = None
    """Folder of the rows, the figures and the finished runs."""
    page: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: DIR/report.md)")] = None
    """Where to write the page."""
    list: bool = False
    """Say what there is to run and how long it takes, and run nothing."""
    report_only: bool = False
    """Draw the figures and write the page from the rows that are there, and run nothing."""
    quiet: bool = False
    """No progress bar and no summary."""

    def __call__(self) -> None:
        """Run, write, print."""
        from hpsde.experiments.plan import find_experiment

        if self.workers is not None and self.workers < 1:
            raise InputError(f"--workers must be at least 1, not {self.workers}")
        if self.seeds is not None and self.seeds < 1:
            raise InputError(f"--seeds must be at least 1, not {self.seeds}")
        if self.rollouts is not None and self.rollouts < LEAST_ROLLOUTS:
            raise InputError(f"--rollouts must be at least {LEAST_ROLLOUTS}, not {self.rollouts}")
        if self.experiment == ALL:
            self._everything()
            return
        if self.parts:
            raise InputError(f"--parts goes with `hpsde reproduce {ALL}` alone")
        if self.list:
            self._list()
            return
        if self.experiment is None:
            raise InputError("which experiment? `hpsde reproduce --list` names them")
        experiment = self._planned(find_experiment(self.experiment))
        out = self.out or Path("runs") / "reproduce" / experiment.name
        if not self.report_only:
            self._run(experiment, out)
        self._report(experiment, out)

    def _planned(self, experiment: Experiment) -> Experiment:
        first = experiment.first_seed if self.first_seed is None else self.first_seed
        rollouts = experiment.rollouts if self.rollouts is None else self.rollouts
        return replace(experiment, first_seed=first, rollouts=rollouts)

    def _everything(self) -> None:
        from hpsde.commands._everything import make_all
        from hpsde.experiments.everything import FRESH_SEED, Order

        if self.tasks or self.variants or self.page is not None:
            raise InputError(f"--tasks, --variants and --page go with one experiment, not with {ALL}")
        order = Order(
            self.out or Path("runs") / "reproduce",
            self.seeds or 20,
            FRESH_SEED if self.first_seed is None else self.first_seed,
            self._workers,
            self.rollouts,
        )
        make_all(order, self.parts, quiet=self.quiet, list_only=self.list, report_only=self.report_only)

    @property
    def _workers(self) -> int:
        return self.workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()) or 1

    def _list(self) -> None:
        from hpsde.commands._table import table
        from hpsde.experiments.plan import all_experiments, find_experiment

        chosen = all_experiments().values() if self.experiment is None else [find_experiment(self.experiment)]
        lines = []
        for each in chosen:
            runs = each.runs(self.seeds, self.tasks, self.variants)
            minutes = max(len(runs) * each.seconds / self._workers / 60.0, 1.0)
            lines.append([each.name, str(len(runs)), f"{minutes:.0f} minutes", each.description])
        header = ["experiment", "runs", f"time with {self._workers} processes", "what it is"]
        print(table(header, lines))
        others = f"every other table and figure; `hpsde reproduce {ALL} --list`"
        print(f"\n{ALL}: these but for those not in the paper, and {others}")
        for each in chosen:
            names = ", ".join(variant.name for variant in each.variants)
            ablations = ", ".join(variant.name for variant in each.ablations)
            print(f"\n{each.name}: {self.seeds or each.seeds} seeds of {', '.join(each.tasks + each.extra_tasks)}")
            print(f"  methods    {names}\n  ablations  {ablations or 'none'}")

    def _run(self, experiment: Experiment, out: Path) -> None:
        from hpsde.base.progress import progress_bar
        from hpsde.experiments.figures import example_runs
        from hpsde.experiments.provenance import keep
        from hpsde.experiments.report import rows_file
        from hpsde.experiments.rows import write_rows
        from hpsde.experiments.runner import finished_runs, run_all

        runs = experiment.runs(self.seeds, self.tasks, self.variants)
        examples = [run.name for run in example_runs(experiment)]
        try:
            with progress_bar(len(runs), enabled=not self.quiet, label="runs", learns=False) as bar:
                rows = run_all(out, runs, self._workers, bar, examples)
        except KeyboardInterrupt:
            done = len(finished_runs(out, runs))
            raise KeyboardInterrupt(
                f"interrupted after {done} of {len(runs)} runs, which are kept in {out}; "
                "go on with the same command again"
            ) from None
        keep(rows_file(experiment, out))
        write_rows(rows_file(experiment, out), rows)

    def _report(self, experiment: Experiment, out: Path) -> None:
        from hpsde.experiments.claims import judge_claims, judge_open_parameters
        from hpsde.experiments.figures import draw_all
        from hpsde.experiments.report import rows_file, write_page
        from hpsde.experiments.rows import failed, read_rows, runs_of
        from hpsde.experiments.runner import SETTINGS
        from hpsde.runs.files import read_json

        path = rows_file(experiment, out)
        if not path.is_file():
            raise InputError(f"{out} has no rows to report on: there is no {path.name}")
        rows = read_rows(path)
        page = self.page or out / "report.md"
        figures = draw_all(experiment, out, rows)
        write_page(experiment, out, page, rows)
        runs = runs_of(rows)
        lost = sum(failed(run) for run in runs.values())
        if not self.quiet:
            for each in judge_claims(experiment, rows):
                print(f"{each.claim.name}  {each.verdict:<14} {each.claim.text}")
            verdict = judge_open_parameters(read_json(out / SETTINGS), experiment.own_variants).verdict
            print(f"C7  {verdict:<14} the only open parameter is O_max")
            print(f"\nrows     {path}, {len(runs)} runs")
            print(f"figures  {out / 'figures'}, {len(figures)} files\npage     {page}")
        if lost:
            raise HpsdeError(f"{lost} of {len(runs)} runs failed; {page} names them; the same command tries them again")
