"""`hpsde run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.commands._options import Distribution, ExecutorOptions, LearnerOptions
from hpsde.errors import InputError, RolloutsFailedError


@dataclass(frozen=True, kw_only=True)
class Command(ExecutorOptions, LearnerOptions):
    """Learn a task from rollouts, say what was found, and keep it with --out.

    TASK is the name of a task, your own return function as module:function, or a TOML file that
    describes the problem. With --out every rollout is on disk as soon as it is known: `hpsde resume
    DIR` goes on after Ctrl-C, a crash or a reboot.

    A return function takes the context and the parameters of one rollout as numpy arrays, without
    --context the parameters alone, and returns one number: more is better. A TOML file has the keys
    function = "module:function", contexts = "uniform(3, 8)", initial = "uniform(0, 90)" and, if you
    like, bounds, rollouts, initial_rollouts, max_options, batched and a table [settings].

    examples:
      hpsde run toy-triple
      hpsde run toy-triple --seed 1 --rollouts 1050 --out runs/triple
      hpsde run toy-double --json --quiet > result.json
      hpsde run toy-double --set f=exp temperature=1 flattening=1
      hpsde run throw:distance --context "uniform(3, 8)" --initial "uniform(0, 90)" --out runs/throw
      hpsde run problem.toml --workers 4 --timeout 60 --out runs/mine

    exit codes: 0 done, 1 the run failed, 2 wrong usage or input, 130 interrupted.
    """

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
    """Name of a task (`hpsde tasks` lists them), module:function, or a TOML file."""
    context: Distribution = None
    """Of your own function: where contexts come from, such as "uniform(0, 2)"."""
    initial: Distribution = None
    """Of your own function: where the first parameters come from, such as "uniform([0, 0], [1, 2])"."""
    batched: bool = False
    """Your own function takes many rollouts at once, as arrays."""
    chunk: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: 25, or 1)")] = None
    """How many rollouts are evaluated in one call of a task that takes many."""
    measure: bool = False
    """Try every policy of your own function on evaluation contexts too; costs evaluations (tasks always do)."""
    encoder: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: none)")] = None
    """Of a task whose contexts are pictures: "pictures" learns on a few numbers that are fitted to them."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: nothing is saved)")] = None
    """Folder of the run: rollouts, the learner's state, the policy, the iterations and the result."""
    force: bool = False
    """Overwrite the run that is already in DIR."""

    def __call__(self) -> None:
        """Learn, save, print."""
        from tempfile import TemporaryDirectory

        if self.out is not None:
            self._run(self.out, saved=True)
            return
        with TemporaryDirectory(prefix="hpsde-") as folder:
            self._run(Path(folder), saved=False)

    def _run(self, folder: Path, saved: bool) -> None:
        from hpsde.commands._result import learn_and_report
        from hpsde.runs.run import Run

        if self.chunk is not None and self.chunk < 1:
            raise InputError(f"--chunk must be at least 1, not {self.chunk}")
        with Run.create(
            folder,
            self.task,
            contexts=self.context,
            initial=self.initial,
            batched=self.batched or None,
            chunk=self.chunk,
            measure=self.measure or None,
            overwrite=self.force,
            encoder=self.encoder,
            **self.learner_arguments(),
        ) as run:
            try:
                learn_and_report(run, self, saved)
            except KeyboardInterrupt:
                kept = f"go on with: hpsde resume {folder}" if saved else "nothing is kept, for want of --out"
                raise KeyboardInterrupt(f"interrupted after {run.status().done} rollouts; {kept}") from None
            except RolloutsFailedError as error:
                if saved:
                    raise
                advice = "Nothing is kept, for want of --out. Mend the cause, then run it again"
                raise RolloutsFailedError(error.what, advice) from None
