"""`hpsde export`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class Command:
    """Write all rollouts of a run as a table: one line each, one column per number. Prints where.

    Rollouts that are damaged are left out, with a line on standard error.

    examples:
      hpsde export runs/robot --to csv
      hpsde export runs/robot --to parquet --out robot.parquet

    exit codes: 0 done, 1 it cannot be written, 2 wrong usage or input.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    to: Literal["csv", "parquet"] = "csv"
    """The format; parquet needs the extra `parquet`."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: RUN/rollouts.csv)")] = None
    """The file to write."""

    def __call__(self) -> None:
        """Write it."""
        from hpsde.runs.export import export
        from hpsde.runs.ledger import Ledger

        target = self.out or self.folder / f"rollouts.{self.to}"
        with Ledger.open(self.folder) as run:
            damaged = export(run.store, target, self.to)
        print(target)
        if damaged:
            named = ", ".join(map(str, damaged[:20])) + (", ..." if len(damaged) > 20 else "")
            print(f"hpsde: {len(damaged)} damaged rollouts were left out: {named}", file=sys.stderr)
