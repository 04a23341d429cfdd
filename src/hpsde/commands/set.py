"""`hpsde set`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.commands._options import parse_setting, print_json


@dataclass(frozen=True)
class Command:
    """Change settings of a run's learner, from its next learning step on. Prints the run's status as JSON.

    `hpsde settings` lists them. The change is in the run's books, with the time: a run that is
    learned again uses the old settings up to there. Those of the features and of whitening are
    decided by the first learning step and can be changed only before it.

    examples:
      hpsde set runs/robot max_options=6
      hpsde set runs/robot max_options=6 kappa=2

    exit codes: 0 done, 1 the run is in use or cannot be written, 2 wrong usage or input.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    settings: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="NAME=VALUE...")]
    """Settings and their new values."""
    trust: bool = False
    """The code that the folder names may run: only a run of a task of your own needs it."""

    def __call__(self) -> None:
        """Write it down, and say where the run stands."""
        from hpsde.errors import InputError
        from hpsde.runs.run import Run

        if not self.settings:
            raise InputError("expected settings as NAME=VALUE, like max_options=6; got none")
        with Run.open(self.folder, trust=self.trust) as run:
            run.set(**dict(map(parse_setting, self.settings)))
            print_json(run.status().as_dict())
