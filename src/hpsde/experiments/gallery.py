"""Runs of the gallery's tasks over many seeds: rows as those of the gauntlet, and a table of them."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.experiments.gauntlet.rows import Key, Row, by_cell, settings_text
from hpsde.experiments.gauntlet.runner import Done, measures, run_jobs
from hpsde.experiments.provenance import Made, made_text, read, seeds_text
from hpsde.learning import budget, iterate
from hpsde.methods import DEFAULT_METHOD, make_learner
from hpsde.tasks import make_task, task_extras
from hpsde.tasks.gallery import GALLERY
from hpsde.tasks.gauntlet.score import score

__all__ = ["GalleryJob", "execute", "make_page", "run_all", "table", "write_page"]


@dataclass(frozen=True)
class GalleryJob:
    """A run to do. The seed is the learner's; `rollouts` is the most, None: as the task says."""

    cell: str
    seed: int
    rollouts: int | None = None

    @property
    def name(self) -> str:
        """'bank-shot@17'."""
        return f"{self.cell}@{self.seed}"

    @property
    def key(self) -> Key:
        """As `rows.key`."""
        return self.cell, self.seed, DEFAULT_METHOD, settings_text({}, self.rollouts)


def execute(job: GalleryJob) -> Done:
    """Do a run. What it raises becomes a row too: nothing is raised here."""
    try:
        return Done(job, _known(job) | _learned(job))
    except Exception as error:
        return _failed(job, traceback.format_exception_only(error)[-1].strip().splitlines()[-1])


def run_all(jobs: Sequence[GalleryJob], workers: int) -> Iterator[Done]:
    """Every job with what came of it, as they are done: in so many processes, or with 0 in this one."""
    yield from run_jobs(jobs, workers, execute, lambda job: _failed(job, "its worker process died (out of memory?)"))


def table(rows: Sequence[Row]) -> str:
    """A line for each task: what was found over all seeds, as means."""
    lines = [
        "| task | seeds | rollouts | solutions | coverage | all found | exact | surplus | regret | learner, s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, group in by_cell(rows).items():
        done = [row for row in group if not row["error"]]
        if not done:
            lines.append(f"| `{name}` | {len(group)} | all failed |" + " |" * 7)
            continue
        lines.append(f"| `{name}` | {len(group)} | " + " | ".join(_figures(group, done)) + " |")
    return "\n".join(lines)


def make_page(rows: Sequence[Row], made: Made | None = None) -> str:
    """The page as text; `made`: what made the rows."""
    said = f"{len(rows)} runs, {seeds_text(row['seed'] for row in rows)}. {made_text(made)}"
    return f"# The gallery's figures\n\n{said} Written by `python benchmarks/gallery.py`.\n\n{table(rows)}\n"


def write_page(rows: Sequence[Row], rows_file: Path) -> Path:
    """Write the page beside the rows, its tasks in their order."""
    places = {name: place for place, name in enumerate(GALLERY)}
    page = rows_file.with_suffix(".md")
    ordered = sorted(rows, key=lambda row: (places.get(row["cell"], len(places)), row["seed"]))
    page.write_text(make_page(ordered, read(rows_file)), encoding="utf-8")
    return page


def _figures(group: Sequence[Row], done: Sequence[Row]) -> list[str]:
    """The other columns of a task's line. A run that failed has found nothing."""
    complete, exact = sum(row["found"] == row["solutions"] for row in done), sum(row["exact"] for row in done)
    coverage = sum(row["coverage"] for row in done) / len(group)
    surplus, regret, seconds = (np.mean([row[key] for row in done]) for key in ("surplus", "regret", "learner_seconds"))
    counts = [str(done[0][name]) for name in ("rollouts", "solutions")]
    shares = [f"{100.0 * coverage:.1f} %", str(complete), str(exact), f"{surplus:.2f}", f"{100.0 * regret:.1f} %"]
    return [*counts, *shares, f"{seconds:.0f}"]


def _learned(job: GalleryJob) -> dict[str, Any]:
    task = make_task(job.cell)
    extras = task_extras(task)
    first, total = budget(extras, None, None if job.rollouts is None else min(job.rollouts, extras.rollouts))
    given = {"initial_rollouts": first, "expected_rollouts": total}
    learner = make_learner(DEFAULT_METHOD, task, seed=job.seed, **given)
    iterations = list(iterate(task, learner, rollouts=total))
    return score(task, learner.policy) | {
        "context_size": task.context_size,
        "parameter_size": task.parameter_size,
        "rollouts": total,
        "measures": measures(task, learner.policy),
        "doubts": "+".join(dict.fromkeys(doubt.kind for doubt in learner.policy.doubts)),
        "learner_seconds": iterations[-1].learner_seconds,
        "steps": len(iterations),
    }


def _known(job: GalleryJob) -> dict[str, Any]:
    cell, seed, method, settings = job.key
    known = {"cell": cell, "family": "gallery", "hopeless": False, "seed": seed, "method": method}
    return known | {"settings": settings}


def _failed(job: GalleryJob, error: str) -> Done:
    return Done(job, {**_known(job), "found": 0, "coverage": 0.0, "exact": False, "error": error})
