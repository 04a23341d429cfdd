"""`hpsde plot`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Command:
    """Draw a run that `hpsde run --out DIR` saved.

    Where context and parameter are one number each: the returns, all rollouts, and the options'
    lines, strong where each rules. For every task: return and number of options against rollouts.

    examples:
      hpsde plot runs/triple
      hpsde plot runs/triple --out triple.png triple.pdf

    exit codes: 0 done, 1 drawing failed, 2 wrong usage or input, 130 interrupted.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The folder of the run."""
    out: Annotated[
        tuple[Path, ...], tyro.conf.arg(metavar="FILE...", help_behavior_hint="(default: DIR/figure.png)")
    ] = ()
    """Files to write; the ending says the format: png, pdf or svg."""

    def __call__(self) -> None:
        """Read the run, draw it, write the figure and say where."""
        from hpsde import load_policy, plots
        from hpsde.commands import _folder as files
        from hpsde.errors import InputError
        from hpsde.tasks import make_task

        targets = self.out or (self.folder / "figure.png",)
        for target in targets:
            if target.suffix not in (".png", ".pdf", ".svg"):
                raise InputError(f"--out must end in .png, .pdf or .svg, not {target.name!r}")
        needed = (files.CONFIG, files.ITERATIONS, files.ROLLOUTS, files.POLICY)
        missing = [name for name in needed if not (self.folder / name).is_file()]
        if missing:
            raise InputError(f"{self.folder} is not the folder of a run: it has no {', '.join(missing)}")

        figure = plots.run_figure(
            make_task(files.read_json(self.folder / files.CONFIG)["task"]),
            load_policy(self.folder / files.POLICY),
            files.read_arrays(self.folder / files.ROLLOUTS),
            files.read_csv(self.folder / files.ITERATIONS),
        )
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            with files.replacing(target) as unfinished:
                figure.savefig(unfinished)
            print(target)
