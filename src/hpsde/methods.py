"""The learners by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hpsde.ask_tell import Learner
from hpsde.errors import UnknownNameError
from hpsde.learner import HPSDE
from hpsde.tasks.task import check_task, task_extras

DEFAULT_METHOD = "hpsde-reps-gp"


@dataclass(frozen=True)
class Method:
    """A learner with its settings."""

    description: str
    settings: dict[str, Any] = field(default_factory=dict)


METHODS: dict[str, Method] = {
    "hpsde-reps-gp": Method("HPSDE, options by REPS, Gaussian-process gate", {}),
    "hpsde-rwr-gp": Method("HPSDE, options by reward-weighted regression, Gaussian-process gate", {"update": "rwr"}),
    "hpsde-reps-softmax": Method("HPSDE, options by REPS, softmax gate", {"gate": "softmax"}),
    "hpsde-rwr-softmax": Method(
        "HPSDE, options by reward-weighted regression, softmax gate", {"update": "rwr", "gate": "softmax"}
    ),
    "hpsde-reps-marginal": Method("HPSDE, options by REPS, the mixture's own p(o | s) as gate", {"gate": "marginal"}),
}


def new_learner(method: str, context_size: int, parameter_size: int, **arguments: Any) -> Learner:
    """The named learner; what else it takes is given by name."""
    if method not in METHODS:
        raise UnknownNameError("method", method, METHODS)
    return HPSDE(context_size, parameter_size, **(METHODS[method].settings | arguments))


def make_learner(method: str, task: Any, seed: int = 0, **changes: Any) -> Learner:
    """The named learner for a task, which gives sizes, features and the number of options at most."""
    extras = task_extras(check_task(task))
    given = {
        "features": extras.features,
        "max_options": extras.max_options,
        "initial_rollouts": extras.initial_rollouts,
    }
    return new_learner(method, task.context_size, task.parameter_size, initial=task, seed=seed, **(given | changes))
