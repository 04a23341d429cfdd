"""Hierarchical policy search by return-weighted density estimation.

How many solutions a task has, one option policy for each, and a gate that picks the best for a context:

    policy = hpsde.learn(my_return, contexts=hpsde.Uniform(0, 2), initial=hpsde.Uniform(0, 4))
    policy.act(0.3)

Names are loaded when first used, so that the command `hpsde` answers at once and can set the number of BLAS
threads before numpy loads.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpsde import errors, learning, methods, tasks
    from hpsde.base.distributions import Gaussian, Samples, Uniform
    from hpsde.errors import (
        AskTellError,
        FarReturnWarning,
        FileFormatError,
        HpsdeError,
        InputError,
        LearningError,
        RolloutsFailedError,
        RunLockedError,
        StorageError,
        UnknownNameError,
    )
    from hpsde.learners.ask_tell import Proposal
    from hpsde.learners.creps import CREPS
    from hpsde.learners.hireps import HiREPS, HiREPSSettings
    from hpsde.learners.hpsde import HPSDE
    from hpsde.learning import learn
    from hpsde.policy.doubts import Doubt
    from hpsde.policy.file import load_policy
    from hpsde.policy.hierarchical import HierarchicalPolicy, Option
    from hpsde.problems import Problem
    from hpsde.runs.run import Run
    from hpsde.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "CREPS",
    "HPSDE",
    "AskTellError",
    "Doubt",
    "FarReturnWarning",
    "FileFormatError",
    "Gaussian",
    "HiREPS",
    "HiREPSSettings",
    "HierarchicalPolicy",
    "HpsdeError",
    "InputError",
    "LearningError",
    "Option",
    "Problem",
    "Proposal",
    "RolloutsFailedError",
    "Run",
    "RunLockedError",
    "Samples",
    "Settings",
    "StorageError",
    "Uniform",
    "UnknownNameError",
    "errors",
    "learn",
    "learning",
    "load_policy",
    "methods",
    "tasks",
]

_MODULE_OF = {
    "CREPS": "learners.creps",
    "HPSDE": "learners.hpsde",
    "HiREPS": "learners.hireps",
    "HiREPSSettings": "learners.hireps",
    "AskTellError": "errors",
    "Doubt": "policy.doubts",
    "FarReturnWarning": "errors",
    "FileFormatError": "errors",
    "Gaussian": "base.distributions",
    "HierarchicalPolicy": "policy.hierarchical",
    "HpsdeError": "errors",
    "InputError": "errors",
    "LearningError": "errors",
    "Option": "policy.hierarchical",
    "Problem": "problems",
    "Proposal": "learners.ask_tell",
    "RolloutsFailedError": "errors",
    "Run": "runs.run",
    "RunLockedError": "errors",
    "Samples": "base.distributions",
    "Settings": "settings",
    "StorageError": "errors",
    "Uniform": "base.distributions",
    "UnknownNameError": "errors",
    "learn": "learning",
    "load_policy": "policy.file",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'hpsde' has no attribute {name!r}")
    if name not in _MODULE_OF:
        return import_module(f"hpsde.{name}")
    value = getattr(import_module(f"hpsde.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
