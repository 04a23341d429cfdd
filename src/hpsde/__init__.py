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
    from hpsde.base.groups import setting
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
    from hpsde.steps.behaviours import BehaviourDensity
    from hpsde.steps.features import ContextFeatures
    from hpsde.steps.gate import Gate
    from hpsde.steps.gating import GaussianProcess
    from hpsde.steps.latent import Density
    from hpsde.steps.marginal import Marginal
    from hpsde.steps.neural import Neural
    from hpsde.steps.option_policies import OptionPolicies
    from hpsde.steps.options import Options
    from hpsde.steps.pictures import PictureEncoder
    from hpsde.steps.reps import REPS
    from hpsde.steps.return_functions import ReturnFunction
    from hpsde.steps.rwr import RWR
    from hpsde.steps.softmax import Softmax
    from hpsde.steps.surface import ReturnModel
    from hpsde.steps.update import OptionUpdate
    from hpsde.steps.weights import Weights

__version__ = "0.3.0"

__all__ = [
    "CREPS",
    "HPSDE",
    "REPS",
    "RWR",
    "AskTellError",
    "BehaviourDensity",
    "ContextFeatures",
    "Density",
    "Doubt",
    "FarReturnWarning",
    "FileFormatError",
    "Gate",
    "Gaussian",
    "GaussianProcess",
    "HiREPS",
    "HiREPSSettings",
    "HierarchicalPolicy",
    "HpsdeError",
    "InputError",
    "LearningError",
    "Marginal",
    "Neural",
    "Option",
    "OptionPolicies",
    "OptionUpdate",
    "Options",
    "PictureEncoder",
    "Problem",
    "Proposal",
    "ReturnFunction",
    "ReturnModel",
    "RolloutsFailedError",
    "Run",
    "RunLockedError",
    "Samples",
    "Settings",
    "Softmax",
    "StorageError",
    "Uniform",
    "UnknownNameError",
    "Weights",
    "errors",
    "learn",
    "learning",
    "load_policy",
    "methods",
    "setting",
    "tasks",
]

_MODULE_OF = {
    "BehaviourDensity": "steps.behaviours",
    "ContextFeatures": "steps.features",
    "Density": "steps.latent",
    "Gate": "steps.gate",
    "GaussianProcess": "steps.gating",
    "Marginal": "steps.marginal",
    "Neural": "steps.neural",
    "OptionPolicies": "steps.option_policies",
    "OptionUpdate": "steps.update",
    "Options": "steps.options",
    "PictureEncoder": "steps.pictures",
    "REPS": "steps.reps",
    "RWR": "steps.rwr",
    "ReturnFunction": "steps.return_functions",
    "ReturnModel": "steps.surface",
    "Softmax": "steps.softmax",
    "Weights": "steps.weights",
    "setting": "base.groups",
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
