"""Options that several commands share."""

from __future__ import annotations

import ast
import json
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from hpsde.errors import InputError

Count = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: the task's own)")]
Distribution = Annotated[str | None, tyro.conf.arg(metavar="DISTRIBUTION", help_behavior_hint="")]


@dataclass(frozen=True, kw_only=True)
class LearnerOptions:
    """How to learn."""

    method: Annotated[str, tyro.conf.arg(metavar="NAME")] = "hpsde-reps-gp"
    """Name of the method; `hpsde methods` lists them."""
    seed: Annotated[int, tyro.conf.arg(metavar="K")] = 0
    """Seed of all randomness: the same seed on the same machine gives the same bits."""
    rollouts: Count = None
    """All rollouts together, the initial ones included."""
    initial_rollouts: Count = None
    """Rollouts of the initial policy, before the first learning step."""
    batch: Count = None
    """Rollouts between two learning steps; by default 50, but from a fortieth to a twentieth of all; without
    contexts a fiftieth."""
    tolerance: Annotated[float | None, tyro.conf.arg(metavar="SHARE", help_behavior_hint="(default: 1e-10)")] = None
    """End early where no more than this share of what the returns vary by is left to gain; 0: never."""
    max_options: Count = None
    """The most options (solutions) to look for."""
    bounds: Annotated[str | None, tyro.conf.arg(metavar="BOUNDS", help_behavior_hint="(default: the initial)")] = None
    """Bounds that parameters never leave: "[0, 90]", "[[0, -1], [90, 1]]", or none."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE...", help_behavior_hint="")] = ()
    """Other settings of the learner; `hpsde settings` lists them."""

    def learner_arguments(self) -> dict[str, Any]:
        """As `hpsde.Run.create` takes them."""
        for name in ("rollouts", "initial_rollouts", "batch", "max_options"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name.replace('_', '-')} must be at least 1, not {value}")
        if self.seed < 0:
            raise InputError(f"--seed must be 0 or more, not {self.seed}")
        named = {"max_options": self.max_options, "bounds": self.bounds, "tolerance": self.tolerance}
        given = {name: value for name, value in named.items() if value is not None}
        names = ("method", "seed", "rollouts", "initial_rollouts", "batch")
        return dict(map(parse_setting, self.set)) | given | {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class ExecutorOptions:
    """Where to evaluate rollouts."""

    workers: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: in this process)")] = None
    """Evaluate rollouts in N processes of this machine."""
    cluster: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help_behavior_hint="")] = None
    """Evaluate rollouts on a dask cluster: tcp://host:port, or the path of a scheduler file."""
    timeout: Annotated[float | None, tyro.conf.arg(metavar="SECONDS", help_behavior_hint="(default: none)")] = None
    """Seconds that a rollout may take; one that takes longer fails."""
    max_failures: Annotated[int, tyro.conf.arg(metavar="N")] = 20
    """Stop when so many rollouts failed one after the other."""
    json: bool = False
    """Print one JSON object with the result instead of the summary."""
    quiet: bool = False
    """No progress bar and no summary."""

    def executor_arguments(self) -> dict[str, Any]:
        """As `hpsde.Run.learn` takes them."""
        names = ("workers", "cluster", "timeout", "max_failures")
        return {name: getattr(self, name) for name in names} | {"progress": not self.quiet}


TRUTH = {"true": True, "false": False}


def parse_setting(text: str) -> tuple[str, Any]:
    """'kappa=2' as ('kappa', 2): a number, true or false in whatever case, or None where it reads as one, else text."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InputError(f"a setting is NAME=VALUE, like kappa=2; got {text!r}")
    if value.lower() in TRUTH:
        return name.replace("-", "_"), TRUTH[value.lower()]
    try:
        return name.replace("-", "_"), ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return name.replace("-", "_"), value


def print_json(data: Any) -> None:
    """Print one JSON value; numbers that are not finite become null."""
    from hpsde.runs.files import json_ready

    print(json.dumps(json_ready(data), allow_nan=False))


def check_numbers(name: str, values: tuple[float, ...]) -> None:
    """An error where a number of the command line is not finite."""
    if not all(map(math.isfinite, values)):
        raise InputError(f"--{name}: expected finite numbers, got {' '.join(map(str, values))}")


@contextmanager
def warnings_to_stderr() -> Iterator[None]:
    """What hpsde warns of becomes a line on standard error each."""
    from hpsde.errors import FarReturnWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FarReturnWarning)
        yield
    for warning in caught:
        print(f"hpsde: warning: {warning.message}", file=sys.stderr)
