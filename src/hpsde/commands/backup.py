"""`hpsde backup`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Command:
    """Copy a run to a new folder, also while it is running. Prints where.

    The copy is a run like any other: ask it, tell it, resume it. Do not copy the database of a run by
    hand while something works on it: what was told last lies in another file beside it.

    examples:
      hpsde backup runs/robot /mnt/disk/robot-monday

    exit codes: 0 done, 1 it cannot be written, 2 wrong usage or input.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    to: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="TO")]
    """A new or empty folder."""

    def __call__(self) -> None:
        """Copy it."""
        from hpsde.runs.backup import backup
        from hpsde.runs.ledger import Ledger

        with Ledger.open(self.folder) as run:
            backup(run, self.to)
        print(self.to)
