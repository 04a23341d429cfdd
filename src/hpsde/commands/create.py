"""`hpsde create`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.commands._options import Distribution, LearnerOptions, print_json


@dataclass(frozen=True, kw_only=True)
class Command(LearnerOptions):
    """Make a run whose rollouts you do yourself: `hpsde ask` says what to try, `hpsde tell` takes the return.

    Prints the run's status as JSON.

    examples:
      hpsde create runs/robot --initial "uniform([0, -1], [90, 1])" --context-size 1 --initial-rollouts 60
      hpsde create runs/robot --problem robot.toml --seed 3

    exit codes: 0 done, 1 it cannot be written, 2 wrong usage or input.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """A new or empty folder."""
    initial: Distribution = None
    """Where the first parameters come from: "uniform(0, 90)", "gaussian([0, 0], 1)"."""
    context_size: Annotated[int | None, tyro.conf.arg(metavar="S", help_behavior_hint="(default: 0)")] = None
    """How many numbers a context has; 0 if the task is always the same."""
    problem: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """A TOML file that describes the problem instead: initial = "uniform(0, 90)", context_size = 1, bounds, ..."""

    def __call__(self) -> None:
        """Make it, and say where it stands."""
        from hpsde.problems import read_problem
        from hpsde.runs.run import Run

        with Run.create(
            self.folder,
            None if self.problem is None else read_problem(self.problem),
            initial=self.initial,
            context_size=self.context_size,
            **self.learner_arguments(),
        ) as run:
            print_json(run.status().as_dict())
