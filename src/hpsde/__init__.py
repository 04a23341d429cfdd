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
    from hpsde.ask_tell import Proposal
    from hpsde.baselines.creps import CREPS
    from hpsde.baselines.hireps import HiREPS, HiREPSSettings
    from hpsde.distributions import Gaussian, Samples, Uniform
    from hpsde.doubts import Doubt
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
    from hpsde.learner import HPSDE
    from hpsde.learning import learn
    from hpsde.policy import HierarchicalPolicy, Option
    from hpsde.policy_file import load_policy
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
    "CREPS": "baselines.creps",
    "HPSDE": "learner",
    "HiREPS": "baselines.hireps",
    "HiREPSSettings": "baselines.hireps",
    "AskTellError": "errors",
    "Doubt": "doubts",
    "FarReturnWarning": "errors",
    "FileFormatError": "errors",
    "Gaussian": "distributions",
    "HierarchicalPolicy": "policy",
    "HpsdeError": "errors",
    "InputError": "errors",
    "LearningError": "errors",
    "Option": "policy",
    "Problem": "problems",
    "Proposal": "ask_tell",
    "RolloutsFailedError": "errors",
    "Run": "runs.run",
    "RunLockedError": "errors",
    "Samples": "distributions",
    "Settings": "settings",
    "StorageError": "errors",
    "Uniform": "distributions",
    "UnknownNameError": "errors",
    "learn": "learning",
    "load_policy": "policy_file",
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
