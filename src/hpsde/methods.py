"""The learners by name. They themselves, and JAX with them, are loaded when one is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from hpsde.base.groups import Group
from hpsde.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from hpsde.learners.ask_tell import Learner
    from hpsde.tasks.task import TaskExtras
else:
    Learner = TaskExtras = Any

DEFAULT_METHOD = "hpsde-reps-gp"
PICTURES = "pictures"


@dataclass(frozen=True)
class Method:
    """A learner with its settings.

    learner_name: of its class, in the module of the same name in small letters in learners/.
    tuned: settings by task, for a baseline that is given what serves it best.
    from_task: the settings that a task gives, where nobody says otherwise.
    preset: of `hpsde.Settings`, which the settings change.
    """

    description: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    learner_name: str = "HPSDE"
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    from_task: tuple[str, ...] = ("features", "max_options", "density")
    preset: str | None = None

    @property
    def learner(self) -> type[Learner]:
        """Its class."""
        return getattr(import_module(f"hpsde.learners.{self.learner_name.lower()}"), self.learner_name)

    @property
    def arguments(self) -> dict[str, Any]:
        """What its class is made with: its settings, and the preset as a whole."""
        if self.preset is None:
            return dict(self.settings)
        from hpsde.settings import Settings

        return {"settings": getattr(Settings, self.preset)(), **self.settings}


TUNED: dict[str, dict[str, Any]] = {
    "toy-double": {"epsilon": 2.5},
    "toy-triple": {"epsilon": 2.0},
    "toy-curve": {"epsilon": 2.0},
    "reach": {"epsilon": 1.5, "window": 1000},
}
"""HiREPS's settings by task, where others than the defaults serve it better (docs/hireps.md)."""

METHODS: dict[str, Method] = {
    "hpsde-reps-gp": Method("HPSDE, options by REPS, Gaussian-process gate"),
    "hpsde-rwr-gp": Method("HPSDE, options by reward-weighted regression, Gaussian-process gate", {"update": "rwr"}),
    "hpsde-reps-softmax": Method("HPSDE, options by REPS, softmax gate", {"gate": "softmax"}),
    "hpsde-rwr-softmax": Method(
        "HPSDE, options by reward-weighted regression, softmax gate", {"update": "rwr", "gate": "softmax"}
    ),
    "hpsde-reps-marginal": Method("HPSDE, options by REPS, the mixture's own p(o | s) as gate", {"gate": "marginal"}),
    "paper": Method(
        "HPSDE with every choice as the paper states it",
        {"bounds": None},
        from_task=("features", "max_options"),
        preset="paper",
    ),
    "authors": Method(
        "HPSDE as the authors' public code has it where it differs from the paper",
        {"bounds": None},
        from_task=("features", "max_options"),
        preset="authors",
    ),
    "hireps": Method(
        "HiREPS, the baseline: many wide options at the start, softmax gate", {}, "HiREPS", TUNED, ("features",)
    ),
    "creps": Method("contextual REPS: one option, which averages over the solutions", {}, "CREPS", {}, ("features",)),
}


def new_learner(method: str, context_size: int | tuple[int, ...], parameter_size: int, **arguments: Any) -> Learner:
    """The named learner; what else it takes is given by name."""
    found = _method(method)
    return found.learner(context_size, parameter_size, **(found.arguments | arguments))


def method_settings(method: str) -> Group:
    """The settings that the named learner has, where nobody says otherwise."""
    from hpsde.settings import changed_settings

    found = _method(method)
    own = {name: value for name, value in found.settings.items() if name != "bounds"}
    return cast(Group, changed_settings(found.learner.SETTINGS, found.arguments.get("settings"), own))


def task_settings(method: str, extras: TaskExtras, name: str) -> dict[str, Any]:
    """The settings of the named learner on the task of that name, which says `extras` of itself."""
    found = _method(method)
    given = {each: getattr(extras, each) for each in found.from_task}
    return {each: value for each, value in given.items() if value is not None} | dict(found.tuned.get(name, {}))


def make_learner(method: str, task: Any, seed: int = 0, **changes: Any) -> Learner:
    """The named learner for a task, which gives sizes, features and the number of options at most."""
    from hpsde.tasks.task import check_task, task_extras

    extras = task_extras(check_task(task))
    given = {"initial_rollouts": extras.initial_rollouts} | task_settings(method, extras, task.name)
    shape = extras.context_shape or task.context_size
    changes |= encoder_for(changes.get("encoder"), task, seed)
    return new_learner(method, shape, task.parameter_size, initial=task, seed=seed, **(given | changes))


def encoder_for(encoder: Any, task: Any, seed: int) -> dict[str, Any]:
    """What a learner of the task is given as `encoder`: by the name "pictures" one that is fitted to its contexts."""
    if encoder is None:
        return {}
    if not isinstance(encoder, str):
        from hpsde.steps.encoders import of_function

        return {"encoder": of_function(encoder, task, seed)}
    if encoder != PICTURES:
        raise UnknownNameError("encoder", encoder, (PICTURES,))
    if task is None:
        raise InputError(
            "encoder='pictures' is fitted to a task's contexts, and there is no task here: give "
            "hpsde.PictureEncoder.fit(pictures)"
        )
    from hpsde.steps.pictures import PictureEncoder

    return {"encoder": PictureEncoder.of_task(task, seed)}


def _method(name: str) -> Method:
    if name not in METHODS:
        raise UnknownNameError("method", name, METHODS)
    return METHODS[name]
