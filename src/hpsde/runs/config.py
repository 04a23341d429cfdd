"""What a run was told to do: the file `config.json` of its folder."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hpsde.base.checks import check_count, check_tolerance
from hpsde.errors import FileFormatError, HpsdeError, InputError
from hpsde.runs.files import read_json

FORMAT, VERSION = "hpsde-run", 1
_LEAST = {
    **dict.fromkeys(("context_size", "seed", "expected_rollouts"), 0),
    **dict.fromkeys(("parameter_size", "batch", "chunk"), 1),
    **dict.fromkeys(("rollouts", "initial_rollouts"), 2),
}


_MOST = {
    "context_size": 1_000_000,
    "parameter_size": 10_000,
    **dict.fromkeys(("rollouts", "initial_rollouts", "expected_rollouts", "batch", "chunk"), 1_000_000),
}
MOST_NUMBERS = 10**8
"""Contexts and parameters of all expected rollouts together, which arrays are laid out for."""


@dataclass(frozen=True)
class RunConfig:
    """All that decides the outcome of a run, and the versions it was made with.

    problem: what is learned, as `Problem.as_dict` says it; None where the program gives a task of its own every time.
    rollouts: how many there are to be in all. expected_rollouts: what arrays were laid out for, which never changes.
    batch: rollouts between two learning steps. chunk: how many are evaluated in one call of the task.
    measure: whether every policy is tried on the task's evaluation contexts, which costs evaluations.
    tolerance: the run ends before where no more is left to gain; runs that do not say it do all rollouts.
    encoder: the kind of what makes a few numbers of a context, which is in a file of its own; "" where nothing does.
    """

    run: str
    name: str
    problem: dict[str, Any] | None
    context_size: int
    parameter_size: int
    method: str
    seed: int
    rollouts: int
    initial_rollouts: int
    expected_rollouts: int
    batch: int
    chunk: int
    measure: bool
    settings: dict[str, Any]
    created: str
    versions: dict[str, str]
    tolerance: float = 0.0
    encoder: str = ""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = check_count(name, getattr(self, name), least)
            if value > _MOST.get(name, value):
                raise InputError(f"{name}: expected at most {_MOST[name]} in a run, got {value}")
        check_tolerance(self.tolerance)
        if self.expected_rollouts * (self.context_size + self.parameter_size) > MOST_NUMBERS:
            raise InputError(
                f"expected at most {MOST_NUMBERS} numbers in all contexts and parameters of a run; got "
                f"{self.expected_rollouts} rollouts of {self.context_size + self.parameter_size}"
            )

    def as_dict(self) -> dict[str, Any]:
        """In JSON's own types."""
        said = asdict(self)
        if not self.encoder:  # as before there were any
            del said["encoder"]
        return {"format": FORMAT, "version": VERSION, **said}

    @classmethod
    def from_dict(cls, data: Any) -> RunConfig:
        """What `as_dict` gave; FileFormatError says what is wrong with anything else."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise FileFormatError("it is not the configuration of a run")
        if data.get("version") != VERSION:
            raise FileFormatError(f"it has version {data.get('version')!r}; this hpsde reads version {VERSION}")
        names = [each.name for each in fields(cls)]
        values = {"tolerance": 0.0, "encoder": ""} | {
            name: data[name] for name in data if name not in ("format", "version")
        }
        if sorted(values) != sorted(names):
            wrong = sorted(set(values) ^ set(names))
            raise FileFormatError(f"expected the entries {', '.join(names)}; {', '.join(map(str, wrong))} is not right")
        kinds = {"str": str, "int": int, "bool": bool, "float": float}
        for each in fields(cls):
            kind = kinds.get(str(each.type), dict)
            value = values[each.name]
            right = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
            if not right and not (each.name == "problem" and value is None):
                raise FileFormatError(f"{each.name}: expected {kind.__name__}, got {str(value)[:80]!r}")
        return cls(**values)


def read_config(path: Path) -> RunConfig:
    """The configuration in the file."""
    data = read_json(path)
    try:
        return RunConfig.from_dict(data)
    except HpsdeError as error:
        raise FileFormatError(f"{path} is damaged: {error}") from error


def versions() -> dict[str, str]:
    """The versions that decide a result to the bit."""
    found = {name: version(name) for name in ("hpsde", "jax", "jaxlib", "numpy", "scipy")}
    return found | {"python": platform.python_version(), "machine": platform.machine()}
