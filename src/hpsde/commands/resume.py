"""`hpsde resume`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.commands._options import ExecutorOptions


@dataclass(frozen=True, kw_only=True)
class Command(ExecutorOptions):
    """Go on with a run that was interrupted, killed or has more to learn.

    Nothing that was told is lost or evaluated again; rollouts that were under way are evaluated
    anew. The policy is the one that the run would have learned without interruption.
    This runs the function that the folder names: do it with folders that you trust.

    examples:
      hpsde resume runs/mine
      hpsde resume runs/mine --workers 4 --rollouts 2000
      hpsde resume runs/mine --retry-failed

    exit codes: 0 done, 1 the run failed, 2 wrong usage or input, 130 interrupted.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    rollouts: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: as before)")] = None
    """All rollouts together, if there are to be more than was said at first."""
    retry_failed: bool = False
    """Retry failed rollouts, unless a learning step has happened since they failed."""

    def __call__(self) -> None:
        """Learn, save, print."""
        from hpsde.commands._result import learn_and_report
        from hpsde.runs.run import Run

        with Run.open(self.folder) as run:
            try:
                learn_and_report(run, self, True, rollouts=self.rollouts, retry_failed=self.retry_failed)
            except KeyboardInterrupt:
                done = run.status().done
                message = f"interrupted after {done} rollouts; go on with: hpsde resume {self.folder}"
                raise KeyboardInterrupt(message) from None
