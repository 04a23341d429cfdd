"""`hpsde plot`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hpsde.commands._options import check_numbers

if TYPE_CHECKING:
    import numpy as np

    from hpsde.problems import Problem
    from hpsde.runs.config import RunConfig


@dataclass(frozen=True)
class Command:
    """Draw a run: one that `hpsde run --out DIR` has kept, or one that you ask and tell.

    The options by number, among the rollouts. Two numbers in all, context and parameter or two
    parameters, make a map; more make pairs of numbers and parallel coordinates, in the context of
    the best rollout or in --context. Lines are thick, and points filled, where the gate prefers the
    option. Below: the return against rollouts, and when options were born and died. Doubts of the
    learner stand above the figure.

    True returns and solutions are drawn for the tasks that come with hpsde (`hpsde tasks`). A return
    function of your own is not called: what was told is drawn.

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
        tuple[float, ...], tyro.conf.arg(metavar="S...", help_behavior_hint="(default: of the best rollout)")
    ] = ()
    """The context that is pictured, where the figure is of one alone; of an arm the goal x y z."""
    trust: bool = False
    """A task of your own that the folder names may run; a return function is not called even so."""

    def __call__(self) -> None:
        """Read the run, draw it, write the figure and say where."""
        from hpsde import load_policy, plots
        from hpsde.errors import InputError
        from hpsde.runs.folder import POLICY
        from hpsde.runs.ledger import Ledger, option_lives
        from hpsde.runs.making import stored_problem

        targets = self.out or (self.folder / "figure.png",)
        for target in targets:
            if target.suffix not in (".png", ".pdf", ".svg"):
                raise InputError(f"--out must end in .png, .pdf or .svg, not {target.name!r}")
        check_numbers("context", self.context)
        with Ledger.open(self.folder) as run:
            rollouts, records, config = run.rollouts(), run.store.steps(), run.config
        if not records or not (self.folder / POLICY).is_file():
            done, first = int((rollouts.status == "done").sum()), config.initial_rollouts
            raise InputError(
                f"{self.folder} has nothing to draw yet: it has no {POLICY}, which the first learning step makes. "
                f"That comes with the next ask, or while running, after {first} rollouts; {done} are done"
            )
        problem, policy = stored_problem(config), load_policy(self.folder / POLICY)
        task = None if problem is None else _drawn_task(problem, self.trust)
        context = self._context(task, config)
        postures = _take_pictures(task, policy, context)
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
            _columns(records),
            postures,
            option_lives(records),
            title=f"{config.name}, {config.method}, seed {config.seed}",
            best=None if problem is None or problem.task is None else best_possible(task),
            context=context,
        )
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(figure.savefig, target)
        _write_postures(self.folder, postures)

    def _context(self, task: Any, config: RunConfig) -> np.ndarray | None:
        """The context that the figure is of; None where none is given."""
        import numpy as np

        from hpsde.errors import InputError
        from hpsde.plots import panels_of
        from hpsde.plots.arm import is_arm

        if not self.context:
            return None
        numbers = config.context_size + config.parameter_size
        if not is_arm(task) and (panels_of(task) is not None or numbers <= 2):
            raise InputError(
                f"--context: expected where a figure is of one context; that of {config.name} shows all there are"
            )
        if len(self.context) != config.context_size:
            raise InputError(f"--context: expected {config.context_size} numbers, got {len(self.context)}")
        return np.array(self.context)


def _drawn_task(problem: Problem, trust: bool) -> Any:
    """What true returns, routes or postures are drawn of; None where that would call the user's return function, or run
    code that the folder names without trust.
    """
    from hpsde.tasks.task import task_extras

    if problem.task is None and not (trust and problem.is_own_task):
        return None
    task = problem.make_task()
    return task if problem.task is not None or task_extras(task).figure is not None else None


def best_possible(task: Any) -> float | None:
    """The best possible mean return on a task's evaluation contexts; None where it is not known."""
    import numpy as np

    from hpsde.experiments.plan import EXPERIMENTS

    if hasattr(task, "best_returns"):
        best = float(np.mean(task.best_returns(task.evaluation_contexts())))
        return best if np.isfinite(best) else None
    known = [each.best[task.name] for each in EXPERIMENTS.values() if task.name in each.best]
    return known[0] if known else None


def _columns(records: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """What the curves show of the learning steps, by name; NaN where a step does not say it."""
    import numpy as np

    names = ["rollouts", "batch_mean_return", "options_kept"]
    if any(record.get("greedy_mean_return") is not None for record in records):
        names.append("greedy_mean_return")
    return {name: np.array([record.get(name) for record in records], dtype=float) for name in names}


def _take_pictures(task: Any, policy: Any, goal: np.ndarray | None) -> Any:
    """Of an arm the postures at the goal, by default one in the middle, and at some others; else None.

    None, too, and a line on stderr, where MuJoCo or OpenGL is missing.
    """
    from hpsde.errors import HpsdeError
    from hpsde.plots import arm as plot_arm

    if not plot_arm.is_arm(task):
        return None
    try:
        goals = plot_arm.with_others(task, plot_arm.middle_goal(task) if goal is None else goal)
        return plot_arm.take_pictures(task, policy, goals)
    except (ImportError, HpsdeError) as error:
        print(f"hpsde: drawn without pictures: {' '.join(str(error).split())}", file=sys.stderr)
        return None


def _write_postures(folder: Path, postures: Any) -> None:
    """The pictures of an arm, where there are any."""
    from matplotlib.image import imsave

    from hpsde import plots

    if postures is not None:
        _write(plots.posture_sheet(postures).savefig, folder / "postures.png")
        for number, picture in zip(postures.numbers, postures.pictures[:, 0], strict=True):
            _write(partial(imsave, arr=picture), folder / f"option-{number}.png")


def _write(save: Callable[[Path], Any], target: Path) -> None:
    """The file, whole or not at all; says where it is."""
    from hpsde.runs.files import replacing

    with replacing(target) as unfinished:
        save(unfinished)
    print(target)
