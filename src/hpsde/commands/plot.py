"""`hpsde plot`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Command:
    """Draw a run that `hpsde run --out DIR` has kept.

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
        from hpsde.errors import InputError
        from hpsde.runs.files import read_csv, replacing
        from hpsde.runs.folder import ITERATIONS, POLICY
        from hpsde.runs.ledger import Ledger
        from hpsde.runs.making import stored_problem

        targets = self.out or (self.folder / "figure.png",)
        for target in targets:
            if target.suffix not in (".png", ".pdf", ".svg"):
                raise InputError(f"--out must end in .png, .pdf or .svg, not {target.name!r}")
        with Ledger.open(self.folder) as run:
            rollouts, problem = run.rollouts(), stored_problem(run.config)
        missing = [name for name in (ITERATIONS, POLICY) if not (self.folder / name).is_file()]
        if missing:
            raise InputError(f"{self.folder} has nothing to draw yet: it has no {', '.join(missing)}")
        if problem is None or not problem.runnable:
            raise InputError(f"{self.folder} has no task whose returns could be drawn")

        figure = plots.run_figure(
            problem.make_task(),
            load_policy(self.folder / POLICY),
            {
                "contexts": rollouts.contexts,
                "parameters": rollouts.parameters,
                "option": rollouts.option,
                "failed": rollouts.status != "done",
            },
            read_csv(self.folder / ITERATIONS, needed=("rollouts", "batch_mean_return", "options_kept")),
        )
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as unfinished:
                figure.savefig(unfinished)
            print(target)
