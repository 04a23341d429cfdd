"""`hpsde check`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.commands._options import print_json


@dataclass(frozen=True)
class Command:
    """Read all of a run and say whether it is whole, as JSON. Changes nothing.

    rollouts, steps, events, policy: how many of each were read without fault (of the policy its
    options; null: none). wrong: what is damaged, in words.

    examples:
      hpsde check runs/robot

    exit codes: 0 it is whole, 1 something is damaged, 2 not the folder of a run.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""

    def __call__(self) -> None:
        """Read it."""
        from hpsde.errors import StorageError
        from hpsde.runs.backup import check
        from hpsde.runs.ledger import Ledger

        with Ledger.open(self.folder) as run:
            found = check(run)
        print_json(found)
        if found["wrong"]:
            raise StorageError(
                f"{self.folder} is damaged in {len(found['wrong'])} place(s): take a copy (hpsde backup), and what can "
                "be read from it (hpsde export)"
            )
