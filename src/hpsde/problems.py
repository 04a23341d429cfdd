"""What a run is about, in words that fit in a JSON or TOML file: a task by name, or a function of the user's own.

Reading, holding and writing a `Problem` imports and runs nothing. `Problem.make_task` alone does.
docs/own_function.md describes the words and the file.
"""

from __future__ import annotations

import inspect
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hpsde.base.checks import check_count
from hpsde.base.distributions import Distribution
from hpsde.base.user_code import load_object
from hpsde.base.words import distribution_text, parse_distribution, shortened
from hpsde.errors import FileFormatError, HpsdeError, InputError, UnknownNameError
from hpsde.steps.bounds import read_bounds
from hpsde.steps.features import FEATURE_NAMES
from hpsde.tasks import (
    GAUNTLET_FORM,
    Task,
    TaskExtras,
    check_task,
    is_task_name,
    make_task,
    task_extras,
    task_from_function,
    task_names,
)
from hpsde.tasks.task import default_extras

__all__ = ["Problem", "distribution_text", "parse_distribution", "problem_from_words", "read_problem"]

LARGEST_FILE = 8 * 2**20
DEEPEST = 2  # groups within groups of settings: weights.f.NAME
FUNCTION_FORM = "module:function"
FILE_FORM = "a file that ends in .toml"

_FUNCTION = re.compile(r"(?:[^\W\d]\w*(?:\.[^\W\d]\w*)*|.+\.py):[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_KINDS: dict[str, type] = {
    **dict.fromkeys(("task", "function", "folder", "contexts", "initial", "bounds"), str),
    **dict.fromkeys(("name", "description", "features"), str),
    **dict.fromkeys(("context_size", "parameter_size", "max_options", "initial_rollouts", "rollouts"), int),
    "batched": bool,
    "settings": dict,
}
_KIND_NAMES = {str: "text", int: "a whole number", bool: "true or false", dict: "a table of names and values"}
_EXTRAS = ("description", "features", "max_options", "initial_rollouts", "rollouts")


@dataclass(frozen=True)
class Problem:
    """What is to be learned. None stands for what is not said.

    task: the name of one of hpsde's tasks, or a cell of the gauntlet and a seed, as in ridges-4@17.
    function: "module:function" or "path/to/file.py:function", a return function of the user's own, or, where
        `initial` is not given, a task of the user's own (an object, a class or a function that makes one).
    folder: where the module or file is looked for first; then in the current directory.
    context_size, parameter_size: S and D; known from `contexts` and `initial`, else None until the task is made.
    contexts, initial: the distributions of the contexts and of the first parameters, as text.
    bounds: of the parameters, "[low, high]" or "none"; those of the initial distribution where they are not said.
    batched: whether the function takes all rollouts at once.
    name, description, features, max_options, initial_rollouts, rollouts: as in `TaskExtras`.
    settings: of the learner, name -> number, text or truth value.
    """

    task: str | None = None
    function: str | None = None
    folder: str | None = None
    context_size: int | None = None
    parameter_size: int | None = None
    contexts: str | None = None
    initial: str | None = None
    bounds: str | None = None
    batched: bool = False
    name: str | None = None
    description: str | None = None
    features: str | None = None
    max_options: int | None = None
    initial_rollouts: int | None = None
    rollouts: int | None = None
    settings: dict[str, float | int | str | bool | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _KINDS:
            _check_kind(name, getattr(self, name))
        object.__setattr__(self, "settings", dict(self.settings))
        self._check_what()
        self._check_counts()
        contexts, initial = self.context_distribution, self.initial_distribution
        if self.bounds is not None:
            read_bounds(self.bounds)
        if self.is_function or not self.runnable:
            # Contexts of ask and tell may come from elsewhere: then their size is given, or there are none.
            alone = self.context_size if not self.runnable and self.context_size is not None else 0
            self._set_size("context_size", alone if contexts is None else contexts.size)
            self._set_size("parameter_size", None if initial is None else initial.size)

    @property
    def runnable(self) -> bool:
        """Whether rollouts can be run: False where there is neither task nor function, but ask and tell."""
        return self.task is not None or self.function is not None

    @property
    def is_function(self) -> bool:
        """Whether `function` is a return function, which `initial` goes with, rather than a task."""
        return self.task is None and self.function is not None and self.initial is not None

    @property
    def is_own_task(self) -> bool:
        """Whether `function` is a task of the user's own, which alone says where the first parameters come from."""
        return self.function is not None and self.initial is None

    @property
    def context_distribution(self) -> Distribution | None:
        """The distribution of the contexts, where it is given."""
        return None if self.contexts is None else parse_distribution(self.contexts, "contexts")

    @property
    def initial_distribution(self) -> Distribution | None:
        """The distribution of the first parameters, where it is given."""
        return None if self.initial is None else parse_distribution(self.initial, "initial")

    def make_task(self) -> Task:
        """The task. This imports the user's module, where there is one, and calls what makes the task."""
        if self.task is not None:
            return make_task(self.task)
        if self.function is None:
            raise InputError("this problem has neither task nor function: its rollouts are asked for and told")
        found = load_object(self.function, None if self.folder is None else Path(self.folder))
        if self.initial is None:
            return _task_of(found, self.function)
        if _is_task(found):
            raise InputError(
                f"{self.function} is a task, which has its own contexts and initial distribution, and takes batches; "
                "`contexts`, `initial` and `batched` go with a plain function only"
            )
        if not callable(found):
            raise InputError(
                f"{self.function} must be a function from parameters to a return; it is {type(found).__name__}"
            )
        return task_from_function(
            found,
            contexts=self.context_distribution,
            initial=self.initial_distribution,
            batched=self.batched,
            name=self.name,
            **self._extras(default_extras(self.context_size, self.parameter_size)),
        )

    def initial_policy(self) -> Any:
        """What `hpsde.HPSDE(initial=...)` takes: the distribution, or a task, made only if nothing else says it."""
        distribution = self.initial_distribution
        return self.make_task() if distribution is None else distribution

    def extras(self, task: Task | None) -> TaskExtras:
        """What `task`, made of this problem, says of itself, with what this problem says in its place."""
        said = default_extras(self.context_size, self.parameter_size) if task is None else task_extras(task)
        return replace(said, **self._extras(said))

    def with_words(self, **words: Any) -> Problem:
        """The same problem where nothing else is said: words go before what it says, settings one by one."""
        words["settings"] = self.settings | words.get("settings", {})
        for size, distribution in (("context_size", "contexts"), ("parameter_size", "initial")):
            if distribution in words:
                words.setdefault(size, None)
        return replace(self, **words)

    def as_dict(self) -> dict[str, Any]:
        """What is said, as numbers, text and truth values; `from_dict` makes an equal problem of it."""
        default = Problem.__dataclass_fields__
        said = {name: getattr(self, name) for name in _KINDS if getattr(self, name) is not default[name].default}
        return said | {"settings": dict(self.settings)}

    @classmethod
    def from_dict(cls, data: Any) -> Problem:
        """The problem of a dictionary from a file; FileFormatError says which key is wrong, and how."""
        try:
            if not isinstance(data, Mapping):
                raise InputError(f"expected a table of names and values, got {type(data).__name__}")
            if unknown := [name for name in data if name not in _KINDS]:
                raise UnknownNameError("key", str(unknown[0])[:80], _KINDS)
            said = {**data, "settings": _one_by_one(data.get("settings", {}))}
            for name, value in said.items():
                _check_kind(name, value)
            return cls(**said)
        except HpsdeError as error:
            raise FileFormatError(f"not the description of a problem: {error}") from None

    def _check_what(self) -> None:
        if self.task is not None:
            if self.function is not None:
                raise InputError(f"expected task or function, got both: {self.task!r} and {self.function!r}")
            if not is_task_name(self.task):
                raise UnknownNameError("task", self.task, (*task_names(), GAUNTLET_FORM))
        if self.function is not None and not _FUNCTION.fullmatch(self.function):
            raise InputError(
                f'function: expected "module:function" or "path/to/file.py:function"; got {shortened(self.function)}'
            )
        if self.initial is None and not self.runnable:
            raise InputError("initial: expected a distribution of the first parameters, or a task; got neither")
        given = [name for name in ("contexts", "initial", "batched") if getattr(self, name)]
        if given and self.runnable and not self.is_function:
            if self.function is not None:
                raise InputError(
                    f"{', '.join(given)}: expected together with `initial`, the distribution of the first parameters; "
                    f"got it with {self.function} alone, which is a task then and has its own"
                )
            raise InputError(
                f"{', '.join(given)}: expected with a return function only, and together with `initial`; got it with "
                f"{self.task}, which is a task then and has its own"
            )
        if self.features is not None and self.features not in FEATURE_NAMES:
            raise UnknownNameError("features", self.features, FEATURE_NAMES)
        if twice := sorted(name for name in self.settings.keys() & _KINDS.keys() if getattr(self, name)):
            raise InputError(f"{', '.join(twice)}: expected once, got it also among the settings")

    def _check_counts(self) -> None:
        for name, least in (("context_size", 0), ("parameter_size", 1), ("max_options", 1)):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least)
        for name in ("initial_rollouts", "rollouts"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), 2)
        if (self.initial_rollouts or 0) > (self.rollouts or math.inf):
            raise InputError(
                f"initial_rollouts: expected at most all rollouts, {self.rollouts}; got {self.initial_rollouts}"
            )

    def _set_size(self, name: str, size: int | None) -> None:
        given = getattr(self, name)
        if given is not None and given != size:
            raise InputError(f"{name}: expected {size}, as the distributions have it; got {given}")
        object.__setattr__(self, name, size)

    def _extras(self, otherwise: TaskExtras) -> dict[str, Any]:
        """What is said; of fewer rollouts in all than otherwise, the same share of them is initial."""
        said = {name: getattr(self, name) for name in _EXTRAS if getattr(self, name) is not None}
        if self.rollouts is not None and self.initial_rollouts is None:
            share = min(self.rollouts / otherwise.rollouts, 1.0)
            said["initial_rollouts"] = max(2, round(share * otherwise.initial_rollouts))
        return said


def read_problem(path: str | Path) -> Problem:
    """The problem in a TOML file. Modules are looked for beside the file. That there is none is an OSError."""
    path = Path(path)
    with open(path, "rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise FileFormatError(f"{path}: expected at most {LARGEST_FILE} bytes; it has more")
    try:
        data = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not a TOML file: {shortened(str(error), 200)}") from None
    try:
        problem = Problem.from_dict(data)
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from None
    if problem.function is None:
        return problem
    beside = path.resolve().parent
    return replace(problem, folder=str(beside / problem.folder if problem.folder else beside))


def problem_from_words(what: str, **words: Any) -> Problem:
    """The problem that a command line names: a task, "module:function" or a TOML file.

    words: what else is said, as the fields of `Problem`; None is not said. They go before what a file says.
    """
    given = {name: value for name, value in words.items() if value is not None}
    if unknown := sorted(given.keys() - _KINDS.keys()):
        raise InputError(f"unknown words {', '.join(unknown)}; valid are: {', '.join(_KINDS)}")
    if is_task_name(what):
        return Problem(task=what, **given)
    if what.endswith(".toml"):
        return read_problem(what).with_words(**given)
    if ":" in what:
        return Problem(function=what, **({"folder": str(Path.cwd())} | given))
    raise UnknownNameError("task", what, (*task_names(), GAUNTLET_FORM, FUNCTION_FORM, FILE_FORM))


def _task_of(found: Any, function: str) -> Task:
    """The task that the user's object is, or that calling it gives."""
    made = found() if callable(found) and not _is_task(found) and _needs_nothing(found) else found
    if not _is_task(made):
        raise InputError(
            f"{function} is not a task but {type(made).__name__}; a return function needs `initial`, the distribution "
            'of its first parameters, such as "uniform(0, 90)", and `contexts`, unless it has none'
        )
    return check_task(made)


def _is_task(thing: Any) -> bool:
    return hasattr(thing, "evaluate") and not isinstance(thing, type)


def _needs_nothing(function: Any) -> bool:
    """Whether it can be called without arguments."""
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def _one_by_one(settings: Any, prefix: str = "") -> Any:
    """Settings whose groups may be tables, such as `[settings.update]` or `update.epsilon = 1`, by their full names."""
    if not isinstance(settings, dict):
        return settings
    found: dict[Any, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict) and prefix.count(".") < DEEPEST:
            found |= _one_by_one(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}" if prefix else name] = value
    return found


def _check_kind(name: str, value: Any) -> None:
    kind = _KINDS[name]
    if value is None and name not in ("batched", "settings"):
        return
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InputError(f"{name}: expected {_KIND_NAMES[kind]}, got {shortened(value)}")
    settings = value if isinstance(value, dict) else {}
    for key, setting in settings.items():
        finite = not isinstance(setting, float) or math.isfinite(setting)
        if not isinstance(key, str) or not isinstance(setting, str | bool | int | float | None) or not finite:
            raise InputError(f"settings.{key}: expected a finite number, text, true or false, got {shortened(setting)}")
