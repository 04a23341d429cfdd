"""`hpsde ask`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.commands._options import check_numbers, print_json


@dataclass(frozen=True)
class Command:
    """Ask a run for parameters to try, in one context or in several; prints a JSON list of rollouts.

    Each has an id, to tell its return by, the context, the parameters, the option it comes from
    (-1: the initial policy), what that option is called from its birth on (0), the log density and
    a seed. What is printed is on disk.

    examples:
      hpsde ask runs/robot --context 0.3
      hpsde ask runs/robot --context 0.3 1.5 --context 0.4 1.5
      hpsde ask runs/robot --count 5

    exit codes: 0 done, 1 the run is in use or cannot be written, 2 wrong usage or input.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    context: tyro.conf.UseAppendAction[
        Annotated[tuple[tuple[float, ...], ...], tyro.conf.arg(metavar="S...", help_behavior_hint="(repeatable)")]
    ] = ()
    """The numbers of a context; again for more rollouts."""
    count: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")] = None
    """How many rollouts, where the run has no contexts."""
    trust: bool = False
    """The code that the folder names may run: only a run of a task of your own needs it."""

    def __call__(self) -> None:
        """Ask, and print what to run."""
        from hpsde.errors import InputError
        from hpsde.runs.run import Run

        for values in self.context:
            check_numbers("context", values)
        if self.context and self.count is not None:
            raise InputError("--context and --count exclude each other: there are as many rollouts as contexts")
        with Run.open(self.folder, trust=self.trust) as run:
            if self.context and len({len(values) for values in self.context}) > 1:
                raise InputError(f"--context: expected {run.config.context_size} numbers every time")
            count = 1 if self.count is None and not self.context and not run.config.context_size else self.count
            asked = run.ask([list(values) for values in self.context] or None, count=count)
        print_json([rollout._asdict() for rollout in asked])
