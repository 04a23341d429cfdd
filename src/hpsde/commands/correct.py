"""`hpsde correct`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.commands._options import print_json


@dataclass(frozen=True)
class Command:
    """Correct what was told of a rollout: another return, or that it failed, or drop it. Prints the run's status.

    What was told before stays in the database, with the time and the reason. What was proposed
    stays as it was; the learning steps that had used the wrong value are done anew.

    examples:
      hpsde correct runs/robot 7 --return 10 --reason "typed 1000"
      hpsde correct runs/robot 8 --failed "the gripper was open"
      hpsde correct runs/robot 9 --drop --reason "somebody stood in the way"

    exit codes: 0 done, 1 not told yet or cannot be written, 2 wrong usage or input.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    id: Annotated[tyro.conf.Positional[int], tyro.conf.arg(metavar="ID")]
    """The rollout's number."""
    value: Annotated[float | None, tyro.conf.arg(name="return", metavar="R", help_behavior_hint="")] = None
    """Its return."""
    failed: Annotated[str | None, tyro.conf.arg(metavar="WHY", help_behavior_hint="")] = None
    """Why it gave no return."""
    drop: bool = False
    """Learn nothing from it."""
    reason: Annotated[str | None, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")] = None
    """Why it is corrected, for the books."""
    trust: bool = False
    """The code that the folder names may run: only a run of a task of your own needs it."""

    def __call__(self) -> None:
        """Correct it, and say where the run stands."""
        from hpsde.runs.run import Run

        with Run.open(self.folder, trust=self.trust) as run:
            run.correct(self.id, self.value, failed=self.failed, drop=self.drop, reason=self.reason)
            print_json(run.status().as_dict())
