"""`hpsde tell`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.commands._options import check_numbers, print_json, warnings_to_stderr


@dataclass(frozen=True)
class Command:
    """Tell a run what came of a rollout: its return, or why it failed. Prints the run's status as JSON.

    Without ID, many are read from standard input, all of them or none: JSON such as
    [{"id": 7, "return": -3.2}, {"id": 8, "failed": "motor fault"}], or CSV with the columns id and
    return, and failed where some did.

    What was told is on disk when the command ends. It may come in any order, at any time. A return
    that is far outside all others is taken, with a line on standard error.

    examples:
      hpsde tell runs/robot 7 --return -3.2
      hpsde tell runs/robot 8 --failed "motor fault"
      hpsde tell runs/robot 9 --return -2.9 --parameters 41.5 0.02
      hpsde tell runs/robot < today.csv

    exit codes: 0 done, 1 told already or cannot be written, 2 wrong usage or input.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    id: Annotated[tyro.conf.Positional[int | None], tyro.conf.arg(metavar="ID", help_behavior_hint="")] = None
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
        from hpsde.runs.ledger import Ledger, Told
        from hpsde.runs.tables import read_told

        told = [Told(*self._one())] if self.id is not None else read_told(self._many())
        with Ledger.open(self.folder, trust=self.trust) as run, warnings_to_stderr():
            run.tell_each(told)
            print_json(run.status().as_dict())

    def _one(self) -> tuple[int | None, float | None, str | None, list[float] | None]:
        from hpsde.errors import InputError

        if (self.value is None) == (self.failed is None):
            raise InputError("expected --return R or --failed REASON, one of the two")
        check_numbers("parameters", self.parameters)
        return self.id, self.value, self.failed, list(self.parameters) or None

    def _many(self) -> str:
        from hpsde.errors import InputError

        if self.value is not None or self.failed is not None or self.parameters or sys.stdin.isatty():
            raise InputError("expected the ID of a rollout; or no option, and many rollouts on standard input")
        try:
            return sys.stdin.read()
        except UnicodeDecodeError as error:
            raise InputError(f"what came on standard input is not text in UTF-8: {error}") from error
