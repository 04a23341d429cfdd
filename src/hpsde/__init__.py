"""Hierarchical policy search by return-weighted density estimation.

How many solutions a task has, one option policy for each, and a gate that picks the best for a context:

    policy = hpsde.learn(my_return, contexts=hpsde.Uniform(0, 2), initial=hpsde.Uniform(0, 4))
    policy.act(0.3)
"""

from hpsde.distributions import Gaussian, Samples, Uniform
from hpsde.errors import AskTellError, FileFormatError, HpsdeError, InputError, UnknownNameError
from hpsde.learner import HPSDE, Proposal
from hpsde.learning import learn
from hpsde.policy import HierarchicalPolicy, Option
from hpsde.policy_file import load_policy
from hpsde.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "HPSDE",
    "AskTellError",
    "FileFormatError",
    "Gaussian",
    "HierarchicalPolicy",
    "HpsdeError",
    "InputError",
    "Option",
    "Proposal",
    "Samples",
    "Settings",
    "Uniform",
    "UnknownNameError",
    "learn",
    "load_policy",
]
