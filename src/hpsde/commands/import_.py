"""`hpsde import`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.commands._options import print_json


@dataclass(frozen=True)
class Command:
    """Give a run rollouts that were made elsewhere: demonstrations, old logs, another run. Prints the run's status.

    FILE is a table with the columns that `hpsde export` writes: context_1, ..., parameter_1, ...
    and return; others do not matter, and rows without a return are left out. The rollouts count
    among the first ones, in place of or beside initial rollouts; the density they came from is
    estimated. All of them are taken in, or none.

    examples:
      hpsde import runs/robot demonstrations.csv
      hpsde import runs/robot old.parquet

    exit codes: 0 done, 1 the run is in use or cannot be written, 2 wrong usage or input.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """A CSV file, or with the extra `parquet` a Parquet file."""
    trust: bool = False
    """The code that the folder names may run: only a run of a task of your own needs it."""

    def __call__(self) -> None:
        """Take it in, and say where the run stands."""
        from hpsde.runs.run import Run
        from hpsde.runs.tables import read_table

        with Run.open(self.folder, trust=self.trust) as run:
            table = read_table(self.file, run.config.context_size, run.config.parameter_size)
            run.add(table.contexts, table.parameters, table.returns, source=str(self.file))
            if table.skipped:
                print(f"hpsde: {table.skipped} rows without a return were left out", file=sys.stderr)
            print_json(run.status().as_dict())
