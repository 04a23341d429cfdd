"""Runs an experiment: many learners in parallel processes, one file for each finished run, none run twice."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.base.groups import Group
from hpsde.base.progress import ProgressBar
from hpsde.errors import InputError
from hpsde.experiments.encoders import resolved
from hpsde.experiments.measures import option_measures
from hpsde.experiments.plan import EXPERIMENTS, PAPER_TASKS, PlannedRun
from hpsde.experiments.pool import in_processes
from hpsde.experiments.rows import DONE, FAILED, Row, failed, read_rows, write_rows
from hpsde.learners.ask_tell import Learner
from hpsde.learning import batch_size, budget, iterate, measure
from hpsde.methods import make_learner
from hpsde.runs.files import read_json, write_csv, write_json
from hpsde.settings import short_names
from hpsde.tasks import Task, make_task, task_extras

RUNS, SETTINGS = "runs", "settings.json"


def start_run(run: PlannedRun) -> tuple[Task, Learner, int]:
    """The task and the learner of a run, and how many rollouts it has in all."""
    task = make_task(run.task)
    first, total = budget(task_extras(task), None, run.rollouts)
    given = {"initial_rollouts": first, "expected_rollouts": total} | resolved(run.variant.changes, task, run.seed)
    return task, make_learner(run.variant.method, task, seed=run.seed, **given), total


def execute(run: PlannedRun, example: Path | None = None) -> list[Row]:
    """The rows of a run, one per iteration or as `run.every` says.

    What it raises becomes a row too: nothing is raised here.
    With `example`, the policy and the rollouts are kept under that name, for a figure.
    """
    same = {"task": run.task, "variant": run.variant.name, "method": run.variant.method, "seed": run.seed}
    rows: list[Row] = []
    try:
        task, learner, total = start_run(run)
        for each in iterate(task, learner, rollouts=total):
            if not _gives_row(run, each.rollouts - learner.initial_rollouts, each.rollouts == total):
                continue
            finite = each.returns[np.isfinite(each.returns)]
            rows.append(
                same
                | {
                    "iteration": each.iteration,
                    "rollouts": each.rollouts,
                    "batch_mean_return": float(finite.mean()) if len(finite) else None,
                    "ess": each.info.ess,
                    "temperature": each.info.temperature,
                    "flattening": each.info.flattening,
                    "doubts": len(learner.policy.doubts),
                    "learner_seconds": each.learner_seconds,
                    "task_seconds": each.task_seconds,
                    "status": DONE,
                }
                | _measured(task, learner)
            )
        if example is not None:
            _keep_example(example, learner)
        return rows
    except Exception as error:
        last = traceback.format_exception_only(error)[-1].strip().splitlines()[-1]
        return [*({**row, "status": FAILED} for row in rows), same | {"status": FAILED, "error": last}]


def _gives_row(run: PlannedRun, further: int, last: bool) -> bool:
    return last or run.every is None or further % run.every == 0


def _measured(task: Task, learner: Learner) -> dict[str, Any]:
    measured = measure(task, learner.policy)
    means = learner.policy.option_means(task.evaluation_contexts())
    return measured | option_measures(task, means, measured["coverage"])


def _keep_example(path: Path, learner: Learner) -> None:
    learner.policy.save(path.with_suffix(".npz"))
    rollouts = learner.rollouts
    names = [f"context_{i}" for i in range(learner.context_size)]
    names += [f"parameter_{i}" for i in range(learner.parameter_size)] + ["option", "number", "failed"]
    columns = [*rollouts.contexts.T, *rollouts.parameters.T, rollouts.option, rollouts.number, rollouts.failed]
    write_csv(path.with_suffix(".csv"), [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)])


def settings_of(runs: Iterable[PlannedRun]) -> dict[str, dict[str, dict[str, Any]]]:
    """Task -> variant -> every setting of its learner, and its numbers of rollouts."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for run in runs:
        if run.variant.name in found.setdefault(run.task, {}):
            continue
        _, learner, total = start_run(run)
        settings = getattr(learner, "settings", None)
        said = short_names(settings) if isinstance(settings, Group) else {}
        said = {name: getattr(value, "__name__", value) for name, value in said.items()}
        batch = batch_size(total, context_size=learner.context_size)
        rollouts = {"initial_rollouts": learner.initial_rollouts, "rollouts": total, "batch": batch}
        found[run.task][run.variant.name] = said | rollouts
    return found


def keep_settings(out: Path, runs: Sequence[PlannedRun]) -> None:
    """Write the settings of the runs beside them, and those that their variants have on all tasks of the paper, if they
    are of one.

    An error where `out` holds runs with other settings.
    """
    path = out / SETTINGS
    known: dict[str, dict[str, Any]] = read_json(path) if path.is_file() else {}
    of_paper = [run for run in runs if any(run.task in each.tasks + each.extra_tasks for each in EXPERIMENTS.values())]
    wanted = settings_of([*runs, *(replace(run, task=task) for run in of_paper for task in PAPER_TASKS)])
    for task, variants in wanted.items():
        for variant, settings in variants.items():
            before = known.setdefault(task, {}).setdefault(variant, settings)
            if before != settings:
                changed = [name for name in {**before, **settings} if before.get(name) != settings.get(name)]
                raise InputError(
                    f"{out} holds runs of {variant} on {task} with another {', '.join(changed)}; "
                    "give another --out, or remove that folder"
                )
    write_json(path, known)


def finished_runs(out: Path, runs: Sequence[PlannedRun]) -> dict[str, list[Row]]:
    """The rows of the runs whose files are in `out`, by the name of the run."""
    files = {run.name: out / RUNS / f"{run.name}.rows.csv" for run in runs}
    return {name: read_rows(path) for name, path in files.items() if path.is_file()}


def run_all(
    out: Path, runs: Sequence[PlannedRun], workers: int, bar: ProgressBar, examples: Sequence[str] = ()
) -> list[Row]:
    """Do what is not yet done of the runs, failed ones again; the rows of all of them.

    The runs named in `examples` also leave their policy and rollouts.
    """
    (out / RUNS).mkdir(parents=True, exist_ok=True)
    keep_settings(out, runs)
    done = {name: rows for name, rows in finished_runs(out, runs).items() if not failed(rows)}
    left = [run for run in runs if run.name not in done]
    failures = 0
    bar.update(len(done))
    do = partial(_keeping, execute, {name: out / RUNS / name for name in examples})
    with closing(in_processes(left, workers, do, _lost, group_of)) as finished:
        for run, rows in finished:
            write_rows(out / RUNS / f"{run.name}.rows.csv", rows)
            done[run.name] = rows
            failures += failed(rows)
            bar.update(len(done), last=f"{run.task} {run.variant.name}", failed=failures or None)
    return [row for run in runs for row in done[run.name]]


def _keeping(execute: Callable[..., list[Row]], examples: Mapping[str, Path], run: PlannedRun) -> list[Row]:
    return execute(run, examples.get(run.name))


def _lost(run: PlannedRun) -> list[Row]:
    """The rows of a run whose process died."""
    same = {"task": run.task, "variant": run.variant.name, "method": run.variant.method, "seed": run.seed}
    return [same | {"status": FAILED, "error": "its worker process died (out of memory?)"}]


def group_of(run: PlannedRun) -> tuple[str, str]:
    """Runs of the same task and variant compile the same functions."""
    return run.task, run.variant.name
