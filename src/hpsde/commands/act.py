"""`hpsde act`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from hpsde.commands._options import check_numbers, print_json

if TYPE_CHECKING:
    import numpy as np

MARGIN = 0.05  # of the known contexts' range


@dataclass(frozen=True)
class Command:
    """Use what was learned: the best known parameters for a context, and those of every option, as JSON.

    Reads the policy of a run's last learning step, or any policy file. Nothing is asked or learned.
    Of every option: the return that the model expects in this context, its standard deviation, and
    the mean return of the newest rollouts that it has made, 20 at most, in whatever context.
    What the learner is not sure of goes to standard error, one line for each doubt; and a warning where
    the context lies outside of those that were learned from.

    examples:
      hpsde act runs/robot --context 0.3
      hpsde act throw.npz --context 5

    exit codes: 0 done, 2 wrong usage or input.
    """

    where: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a run, or a policy file."""
    context: Annotated[tuple[float, ...], tyro.conf.arg(metavar="S...", help_behavior_hint="")] = ()
    """The numbers of the context; none where the task has no context."""

    def __call__(self) -> None:
        """Print it."""
        import numpy as np

        from hpsde import load_policy
        from hpsde.errors import InputError
        from hpsde.policy.answers import answers
        from hpsde.runs.folder import POLICY, check_files

        check_numbers("context", self.context)
        if self.where.is_dir():
            check_files(self.where)
        path = self.where / POLICY if self.where.is_dir() else self.where
        if not path.is_file():
            raise InputError(f"{self.where} has no policy: expected a run that has learned, or a policy file")
        policy = load_policy(path)
        if len(self.context) != policy.context_size:
            raise InputError(f"--context: expected {policy.context_size} numbers, got {len(self.context)}")
        for doubt in policy.doubts:
            print(f"hpsde: doubt ({doubt.kind}): {doubt.text}", file=sys.stderr)
        context = np.array([self.context], dtype=float).reshape(1, -1)
        for text in () if policy.encoder else outside(context[0], policy.known_contexts):
            print(f"hpsde: {text}", file=sys.stderr)
        print_json(answers(policy, context)[0])


def outside(context: np.ndarray, known: np.ndarray) -> Iterator[str]:
    """What to say of the numbers of a context [S] that lie MARGIN or more outside of the known ones [N, S]."""
    for number, (value, column) in enumerate(zip(context, known.T, strict=True), start=1):
        low, high = float(column.min()), float(column.max())
        if not low - MARGIN * (high - low) <= value <= high + MARGIN * (high - low):
            yield (
                f"number {number} of the context, {value:g}, lies outside of {low:.4g} to {high:.4g}, from which the "
                "policy was learned: what it says there is a guess"
            )
