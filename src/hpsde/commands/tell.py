"""`hpsde tell`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.commands._options import check_numbers, print_json


@dataclass(frozen=True)
class Command:
    """Tell a run what came of a rollout: its return, or why it failed. Prints the run's status as JSON.

    What was told is on disk when the command ends. It may come in any order, at any time.

    examples:
      hpsde tell runs/robot 7 --return -3.2
      hpsde tell runs/robot 8 --failed "motor fault"
      hpsde tell runs/robot 9 --return -2.9 --parameters 41.5 0.02

    exit codes: 0 done, 1 told already or cannot be written, 2 wrong usage or input.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    id: Annotated[tyro.conf.Positional[int], tyro.conf.arg(metavar="ID")]
    """The rollout's number, as `hpsde ask` gave it."""
    value: Annotated[float | None, tyro.conf.arg(name="return", metavar="R", help_behavior_hint="")] = None
    """Its return."""
    failed: Annotated[str | None, tyro.conf.arg(metavar="REASON", help_behavior_hint="")] = None
    """Why it gave no return."""
    parameters: Annotated[tuple[float, ...], tyro.conf.arg(metavar="P...", help_behavior_hint="")] = ()
    """The parameters that were run, where they are not those that were asked."""
    trust: bool = False
    """The code that the folder names may run: --parameters needs it for a run of a task of your own."""

    def __call__(self) -> None:
        """Tell, and say where the run stands."""
        from hpsde.errors import InputError
        from hpsde.runs.ledger import Ledger

        if (self.value is None) == (self.failed is None):
            raise InputError("expected --return R or --failed REASON, one of the two")
        check_numbers("parameters", self.parameters)
        with Ledger.open(self.folder, trust=self.trust) as run:
            run.tell(self.id, self.value, failed=self.failed, parameters=list(self.parameters) or None)
            print_json(run.status().as_dict())
