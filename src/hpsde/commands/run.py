"""`hpsde run`."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from hpsde.errors import InputError

Number = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: the task's own)")]


@dataclass(frozen=True)
class Command:
    """Learn a task from rollouts, say what was found, and save it with --out.

    examples:
      hpsde run toy-triple
      hpsde run toy-triple --seed 1 --rollouts 1050 --out runs/triple
      hpsde run toy-double --json --quiet > result.json
      hpsde run toy-double --set f=exp temperature=1 flattening=1

    exit codes: 0 done, 1 the run failed, 2 wrong usage or input, 130 interrupted.
    """

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
    """Name of the task; `hpsde tasks` lists them."""
    method: Annotated[str, tyro.conf.arg(metavar="NAME")] = "hpsde-reps-gp"
    """Name of the method; `hpsde methods` lists them."""
    seed: Annotated[int, tyro.conf.arg(metavar="K")] = 0
    """Seed of all randomness: the same seed on the same machine gives the same bits."""
    rollouts: Number = None
    """All rollouts together, the initial ones included."""
    initial_rollouts: Number = None
    """Rollouts of the task's initial policy, before the first learning step."""
    batch: Annotated[int, tyro.conf.arg(metavar="N")] = 50
    """Rollouts between two learning steps."""
    max_options: Number = None
    """The most options (solutions) to look for."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE...", help_behavior_hint="")] = ()
    """Other settings of the learner; `hpsde settings` lists them."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: nothing is saved)")] = None
    """Folder for the configuration, all rollouts, the iterations, the policy and the result."""
    force: bool = False
    """Overwrite the run that is already in DIR."""
    json: bool = False
    """Print one JSON object with the result instead of the summary."""
    quiet: bool = False
    """No progress bar and no summary."""

    def __call__(self) -> None:
        """Learn, save, print."""
        from hpsde.commands import _folder as files
        from hpsde.commands import _runner as runner
        from hpsde.methods import make_learner
        from hpsde.tasks import make_task, task_extras

        self._check()
        task = make_task(self.task)
        rollouts = self.rollouts or task_extras(task).rollouts
        learner = make_learner(self.method, task, seed=self.seed, expected_rollouts=rollouts, **self._settings())
        if rollouts < learner.initial_rollouts:
            raise InputError(
                f"--rollouts {rollouts} leaves out some of the {learner.initial_rollouts} initial rollouts; "
                "give more, or fewer --initial-rollouts"
            )
        if self.out is not None:
            files.prepare_folder(self.out, self.force)
            configuration = runner.configuration(task, self.method, learner, rollouts, self.batch)
            files.write_json(self.out / files.CONFIG, configuration)

        record = runner.Record()
        try:
            runner.learn(record, task, learner, rollouts, self.batch, show_progress=not self.quiet)
        finally:
            # Also after Ctrl-C or a failure: rollouts are dear.
            if self.out is not None:
                runner.save(self.out, learner, record)

        result = {"task": task.name, "method": self.method, "seed": self.seed} | record.result()
        if self.out is not None:
            files.write_json(self.out / files.RESULT, result)
        if self.json:
            print(json.dumps(files.json_ready(result), allow_nan=False))
        elif not self.quiet:
            print(learner.policy.summary(), describe(result, self.out), sep="\n\n")

    def _check(self) -> None:
        for name in ("rollouts", "initial_rollouts", "batch", "max_options"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name.replace('_', '-')} must be at least 1, not {value}")
        if self.seed < 0:
            raise InputError(f"--seed must be 0 or more, not {self.seed}")

    def _settings(self) -> dict[str, Any]:
        """What the user set of the learner."""
        named = {"initial_rollouts": self.initial_rollouts, "max_options": self.max_options}
        others = dict(parse_setting(text) for text in self.set)
        return others | {name: value for name, value in named.items() if value is not None}


def parse_setting(text: str) -> tuple[str, Any]:
    """'kappa=2' as ('kappa', 2): a number, True, False or None where it reads as one, else the text."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InputError(f"--set takes NAME=VALUE, like kappa=2; got {text!r}")
    try:
        return name.replace("-", "_"), ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name.replace("-", "_"), value


def describe(result: dict[str, Any], folder: Path | None) -> str:
    """The result in a few lines for a person."""
    mean, median = result["greedy_mean_return"], result["greedy_median_return"]
    lines = [
        f"greedy return   {mean:.6g} mean, {median:.6g} median on the evaluation contexts",
        f"options         {result['options_kept']} kept, {result['options_used']} used",
    ]
    if result["coverage"] is not None:
        lines.append(
            f"solutions       {result['coverage']:.0%} of the known ones covered; "
            f"{result['surplus']} options follow none of them"
        )
    lines.append(
        f"cost            {result['rollouts']} rollouts, {result['learner_seconds']:.1f} s in the learner, "
        f"{result['task_seconds']:.1f} s in the task, {result['compilations']} compilations"
    )
    if folder is not None:
        lines.append(f"saved in        {folder} (draw it: hpsde plot {folder})")
    return "\n".join(lines)
