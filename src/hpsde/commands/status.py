"""`hpsde status`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.commands._options import print_json


@dataclass(frozen=True)
class Command:
    """Say where a run stands, as JSON. Changes nothing, and works while the run is running.

    rollouts: how many there are to be. done, failed, asked: how many there are of each; open: the
    numbers of those asked for and not told. steps: learning steps so far. options_kept: solutions
    found. options: every option by its number, after how many rollouts it was born and died (null:
    it lives), and the mean return of its newest rollouts, 20 at most. doubts: what the learner is
    not sure of. running: who is working on it now. added: how many of those done were made
    elsewhere. events: what was corrected, added or changed since the run was made.

    exit codes: 0 done, 2 not the folder of a run.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""

    def __call__(self) -> None:
        """Print it."""
        import numpy as np

        from hpsde.policy.measured import measured_returns
        from hpsde.runs.ledger import Ledger

        with Ledger.open(self.folder) as run:
            status, told = run.status().as_dict(), run.rollouts()
        numbers = np.array([option["number"] for option in status["options"]], dtype=np.int64)
        means, counts = measured_returns(numbers, told.number, told.returns, told.status != "done")
        for option, mean, count in zip(status["options"], means, counts, strict=True):
            option |= {"measured_return": mean if count else None, "measured_rollouts": count}
        print_json(status)
