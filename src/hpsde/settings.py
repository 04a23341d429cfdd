"""All settings of the learner, in one group for each step.

The defaults hold for all tasks. A task gives `max_options`, `features` and, where it asks for regions, `density`.

    Settings(max_options=4, update=RWR(epsilon=1.0), gate="softmax")
    Settings(max_options=4, **{"update": "rwr", "update.epsilon": 1.0, "gate": "softmax"})   # the same
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from hpsde.base import groups
from hpsde.base.groups import Group, changed, setting
from hpsde.errors import InputError
from hpsde.steps.behaviours import OwnBehaviour
from hpsde.steps.features import ContextFeatures
from hpsde.steps.gate import Gate
from hpsde.steps.gates import GaussianProcess
from hpsde.steps.latent import Density
from hpsde.steps.option_policies import OptionPolicies
from hpsde.steps.options import Options
from hpsde.steps.reps import REPS
from hpsde.steps.return_functions import Exponential
from hpsde.steps.surface import ReturnModel
from hpsde.steps.update import OptionUpdate
from hpsde.steps.weights import Weights

OLD_NAMES = {
    "feature_count": "features.count",
    "gp_axes": "return_model.axes",
    "gp_max_points": "return_model.max_points",
}


@dataclass(frozen=True, init=False)
class MethodSettings(Group):
    """All settings of a method: groups as wholes, or single settings by name."""

    def __init__(self, **given: Any):
        for each in fields(self):
            object.__setattr__(self, each.name, given.pop(each.name, each.default))
        self.__post_init__()
        if given:
            self.__dict__.update(vars(changed_settings(type(self), self, given)))


@dataclass(frozen=True, init=False)
class Settings(MethodSettings):
    """How HPSDE learns. See docs/deviations.md for where the defaults depart from the paper.

    Groups are given whole, `update=RWR(epsilon=1.0)`; a strategy also by its name, `update="rwr"`, with those settings
    of the one before that it has; and single settings by name, `epsilon=1.0`.
    """

    max_options: int = setting(10, "O_max: the most options there can be.", low=1, high=10_000, common=True)
    features: ContextFeatures = setting(ContextFeatures(), "What of the context the options' means depend on.")
    weights: Weights = setting(Weights(), "How much each rollout counts.")
    return_model: ReturnModel = setting(ReturnModel(), "The Gaussian process that models the return.")
    density: Density = setting(Density(), "How options are found.")
    update: OptionUpdate = setting(REPS(), "Policy search of each option.", common=True)
    options: OptionPolicies = setting(Options(), "The options' policies: their means, and what happens after search.")
    gate: Gate = setting(GaussianProcess(), "Gating policy: which option in which context.", common=True)

    @classmethod
    def paper(cls) -> Settings:
        """Every choice as the paper states it; the numbers it leaves open are those of the authors' code."""
        return cls(
            features=ContextFeatures(trend=False),
            weights=Weights(f=Exponential(), temperature=1.0, flattening=1.0, behaviour=OwnBehaviour()),
            return_model=ReturnModel(warp="none", axes="isotropic"),
            density=Density("vb", weight_sum="one", embedding_dimensions=8, scouts=0.0),
            update=REPS(base="assigned", epsilon=0.3, support=0.0, match_squares=False),
            options=Options(ridge=1e-3, model_step=False, refine=False, whitening=False),
            gate=GaussianProcess(deviation="return", greedy="expected", exploration_temperature=0.0),
        )

    @classmethod
    def authors(cls) -> Settings:
        """As `paper`, with what the authors' public code does where it differs (docs/deviations.md)."""
        return changed_settings(
            cls,
            cls.paper(),
            {
                "f": "standardised",
                "density": "authors",
                "weight_sum": "n",
                "options": "squared",
                "gate": "gp-draws",
            },
        )


def full_name(settings: Group, name: str) -> str:
    """What a setting that is given by name is called in full: `gate.kappa` for kappa."""
    return groups.full_name(settings, name, OLD_NAMES)


def values_of(settings: Group, names: Iterable[str]) -> dict[str, Any]:
    """The values of settings by the names that they were given by; of a group or a strategy, of all its settings."""
    known = groups.named(settings)
    found: dict[str, Any] = {}
    for name in names:
        full = full_name(settings, name).removesuffix(f".{groups.KIND}")
        found |= {name if each == full else each: known[each] for each in known if f"{each}.".startswith(f"{full}.")}
    return found


def short_names(settings: Group) -> dict[str, Any]:
    """All settings by the shortest names that they can be given by: kappa for `gate.kappa`."""
    old = {full: name for name, full in OLD_NAMES.items()}
    return {old.get(full, full.rpartition(".")[2]): value for full, value in groups.named(settings).items()}


def changed_settings(kind: Any, settings: Any, changes: dict[str, Any]) -> Any:
    """Settings of that kind (a group), those given or the default ones, with changes by name."""
    if settings is not None and not isinstance(settings, kind):
        raise InputError(f"settings must be hpsde.{kind.__name__}, or given by name; got {type(settings).__name__}")
    return changed(settings or kind(), changes, OLD_NAMES)
