"""`hpsde plot`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hpsde.commands._options import check_numbers

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Command:
    """Draw a run that `hpsde run --out DIR` has kept.

    Where context and parameter are one number each: the returns, all rollouts, and the options'
    lines, thick where the gate prefers them. For every task: the return against rollouts, and when
    options were born and died. Doubts of the learner stand above the figure.

    Of your own function the returns that were told are drawn; with --trust the function that the
    folder names is run, and its returns are drawn everywhere.

    For an arm (reach, reach-mujoco; a reach_task of your own with --trust): a picture of every
    option's posture, by MuJoCo (extra sim); also as DIR/option-1.png ..., and DIR/postures.png
    shows several goals.

    examples:
      hpsde plot runs/triple
      hpsde plot runs/triple --out triple.png triple.pdf
      hpsde plot runs/reach --context 0.6 0.02 0.45

    exit codes: 0 done, 1 drawing failed, 2 wrong usage or input, 130 interrupted.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The folder of the run."""
    out: Annotated[
        tuple[Path, ...], tyro.conf.arg(metavar="FILE...", help_behavior_hint="(default: DIR/figure.png)")
    ] = ()
    """Files to write; the ending says the format: png, pdf or svg."""
    context: Annotated[
        tuple[float, ...], tyro.conf.arg(metavar="S...", help_behavior_hint="(default: in the middle)")
    ] = ()
    """The context that is pictured, where the figure is of one alone: an arm's goal x y z."""
    trust: bool = False
    """The function that the folder names may run."""

    def __call__(self) -> None:
        """Read the run, draw it, write the figure and say where."""
        from matplotlib.image import imsave

        from hpsde import load_policy, plots
        from hpsde.errors import InputError
        from hpsde.runs.files import read_csv
        from hpsde.runs.folder import ITERATIONS, POLICY
        from hpsde.runs.ledger import Ledger, option_lives
        from hpsde.runs.making import stored_problem

        targets = self.out or (self.folder / "figure.png",)
        for target in targets:
            if target.suffix not in (".png", ".pdf", ".svg"):
                raise InputError(f"--out must end in .png, .pdf or .svg, not {target.name!r}")
        with Ledger.open(self.folder) as run:
            rollouts, problem = run.rollouts(), stored_problem(run.config)
            lives = option_lives(run.store.steps())
        missing = [name for name in (ITERATIONS, POLICY) if not (self.folder / name).is_file()]
        if missing:
            raise InputError(f"{self.folder} has nothing to draw yet: it has no {', '.join(missing)}")
        known = problem is not None and (problem.task is not None or (self.trust and problem.runnable))
        task, policy = problem.make_task() if problem and known else None, load_policy(self.folder / POLICY)
        goal = self._goal(task)
        iterations = read_csv(self.folder / ITERATIONS, needed=("rollouts", "batch_mean_return", "options_kept"))
        postures = None if goal is None else _take_pictures(task, policy, goal)
        figure = plots.run_figure(
            task,
            policy,
            {
                "contexts": rollouts.contexts,
                "parameters": rollouts.parameters,
                "option": rollouts.option,
                "number": rollouts.number,
                "failed": rollouts.status != "done",
                "returns": rollouts.returns,
            },
            iterations,
            postures,
            lives,
        )
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(figure.savefig, target)
        if postures is not None:
            _write(plots.posture_sheet(postures).savefig, self.folder / "postures.png")
            for number, picture in zip(postures.numbers, postures.pictures[:, 0], strict=True):
                _write(partial(imsave, arr=picture), self.folder / f"option-{number}.png")

    def _goal(self, task: Any) -> np.ndarray | None:
        """The goal at which an arm is pictured; None where the task is another one."""
        import numpy as np

        from hpsde import plot_arm
        from hpsde.errors import InputError

        check_numbers("context", self.context)
        if not plot_arm.is_arm(task):
            if self.context:
                name = "your own function, without --trust," if task is None else task.name
                raise InputError(f"--context: expected with an arm alone; the figure of {name} is of all contexts")
            return None
        if len(self.context) not in (0, task.context_size):
            raise InputError(f"--context: expected {task.context_size} numbers, got {len(self.context)}")
        return np.array(self.context) if self.context else plot_arm.middle_goal(task)


def _take_pictures(task: Any, policy: Any, goal: np.ndarray) -> Any:
    """The postures at the goal and at some others; None, and a line on stderr, where MuJoCo or OpenGL is missing."""
    from hpsde import plot_arm
    from hpsde.errors import HpsdeError

    try:
        return plot_arm.take_pictures(task, policy, plot_arm.with_others(task, goal))
    except (ImportError, HpsdeError) as error:
        print(f"hpsde: only the curves are drawn: {' '.join(str(error).split())}", file=sys.stderr)
        return None


def _write(save: Callable[[Path], Any], target: Path) -> None:
    """The file, whole or not at all; says where it is."""
    from hpsde.runs.files import replacing

    with replacing(target) as unfinished:
        save(unfinished)
    print(target)
