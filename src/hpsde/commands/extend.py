"""`hpsde extend`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.commands._options import print_json


@dataclass(frozen=True, kw_only=True)
class Command:
    """Plan more rollouts for a run than was said at first. Prints the run's status as JSON.

    The change is in the run's books, with the time. `hpsde resume` then does the rollouts, or you
    ask for them.

    examples:
      hpsde extend runs/robot --rollouts 300

    exit codes: 0 done, 1 the run is in use or cannot be written, 2 wrong usage or input.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    rollouts: Annotated[int, tyro.conf.arg(metavar="N")]
    """All rollouts together, those that were done included."""

    def __call__(self) -> None:
        """Write it down, and say where the run stands."""
        from hpsde.runs.ledger import Ledger

        with Ledger.open(self.folder) as run:
            run.extend(self.rollouts)
            print_json(run.status().as_dict())
