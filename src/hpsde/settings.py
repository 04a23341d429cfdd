"""All settings of the learner: one dataclass, which is also the command line's help.

The defaults hold for all tasks. A task gives `max_options` and `features`, nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from hpsde.errors import InputError, UnknownNameError
from hpsde.gp.warp import WARPS
from hpsde.mixture.estimation import DENSITY_METHODS
from hpsde.steps.configuration import LARGEST_POINTS
from hpsde.steps.features import FEATURE_NAMES
from hpsde.steps.gating import GATES
from hpsde.steps.options import UPDATES
from hpsde.steps.weights import RETURN_FUNCTIONS

DENSITIES = ("options", *DENSITY_METHODS)
WEIGHT_SUMS = ("ess", "n", "one")
GP_AXES = ("automatic", "own", "turned", "few", "isotropic")
GREEDY = ("cautious", "expected")
DEVIATIONS = ("mean", "return")
BASES = ("assigned", "weighted")
BEHAVIOURS = ("mixture", "own")


def check_type(name: str, annotation: Any, value: Any) -> None:
    """An error unless the value is of the kind that the annotation names."""
    kinds = re.sub(r"\[.*\]", "", str(annotation)).split(" | ")
    allowed = {
        "float": isinstance(value, Real) and not isinstance(value, bool),
        "int": isinstance(value, Integral) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
        "str": isinstance(value, str),
        "None": value is None,
        "Callable": callable(value),
    }
    wanted = [kind for kind in allowed if kind in kinds]
    if not any(allowed[kind] for kind in wanted):
        raise InputError(f"{name} must be {' or '.join(wanted)}; got {value!r}")


@dataclass(frozen=True)
class Settings:
    """How HPSDE learns. See docs/deviations.md for where the defaults depart from the paper."""

    max_options: int = 10
    """O_max: the most options there can be."""
    features: str | Callable[[np.ndarray], np.ndarray] = "automatic"
    """Context features of the options: linear, quadratic, squared-exponential, a function [N, S] -> [N, F], or
    automatic: of these three the likeliest for the solutions that the first rollouts show."""
    feature_count: int | None = None
    """Number of squared exponentials; by default 10 for one context number, 16 for two, 27 for three or more."""

    trend: bool = True
    """Squared-exponential features have the context itself beside them: options go on along lines where they have no
    rollouts. False is the paper's."""
    whitening: bool = True
    """Parameters that are nearly combinations of one another in the first rollouts are learned along their principal
    axes, each in units of its deviation; parameters that are not are scaled alone."""

    f: str | Callable[[np.ndarray], np.ndarray] = "advantage"
    """f(R): advantage exp((R - V(s)) / T), exp exp(R / T), linear R, rank exp(rank / T), or a function."""
    temperature: float | None = None
    """T; by default the lowest that `kl_bound` allows for the first rollouts and that leaves weight to enough."""
    kl_bound: float = 1.5
    """How far the return weighting may go from the plain importance weights, in nats of KL divergence."""
    behaviour: str = "mixture"
    """pi_old of a rollout: the mixture of all policies that made rollouts, or the one that made it alone (own)."""
    flattening: float | None = None
    """lambda, the power of the behaviour density; by default the largest that leaves 3 in 10 effective."""

    density: str = "options"
    """Density estimation: a mixture of option policies on samples of the modelled return (options), or the paper's
    mixture of joint Gaussians on weighted rollouts, by variational Bayes (vb) or maximum likelihood (em)."""
    weight_sum: str = "ess"
    """What the weights of rollouts sum to for joint Gaussians: ess, n or one (the paper's appendix)."""
    embedding_dimensions: int = 0
    """Dimensions of the Laplacian eigenmaps before joint Gaussians are estimated; 0: no eigenmaps."""

    update: str = "reps"
    """Policy search of each option: reps or rwr."""
    base: str = "weighted"
    """What an option's policy search starts from: the return weights of its samples (weighted), or all samples assigned
    to it alike (assigned, the paper's)."""
    epsilon: float = 3.0
    """KL bound of the options' policy search, against `base`."""
    support: float = 4.0
    """Effective samples that the options' policy search must leave to an option, for each feature and one more; 0 is
    the paper's."""
    match_squares: bool = True
    """REPS keeps the mean of the contexts' squares beside that of the features; False is the paper's."""
    model_step: bool = True
    """After its policy search an option's mean moves uphill on the modelled return; False is the paper's."""
    refine: bool = True
    """At last an option moves to the optimum of a local model of the return, and explores where that may be; False is
    the paper's."""
    ridge: float | None = None
    """Ridge of the options' regression; by default that with which samples left out are predicted best."""

    gate: str = "gp"
    """Gating policy: gp, softmax or marginal."""
    kappa: float = 1.0
    """Optimism of the GP gate while learning: mean + kappa deviation."""
    deviation: str = "mean"
    """That deviation: of an option's mean return, how little it is known (mean), or of its return, which also varies as
    the option explores (return, the paper's)."""
    greedy: str = "cautious"
    """What the GP gate takes in use: the option whose mean parameters have the best return, no better one than
    a rollout has had, less one deviation (cautious), or the option of the best expected return (expected, the
    paper's)."""
    exploration_temperature: float = 4.0
    """The GP gate while learning draws options by exp(optimistic return / (c T)), with the T of f, and this is c: at 1
    as the optimal policy would, the more, the more evenly; at 0 it takes the best (argmax, the paper's)."""
    scouts: float = 0.5
    """Rollouts that go where the model knows little and a solution may lie: at most this share of what is asked at
    once, and 50 in all until the options are narrow. 0: none."""
    warp: str = "clip"
    """Map of the returns before the Gaussian process: none, clip or rank."""
    gp_axes: str = "automatic"
    """Axes of the Gaussian process: own (one length for each context number and parameter), turned (one for each of
    the directions in which the return varies), few (five directions at most), isotropic (one length for all, the
    paper's), or automatic: with more than four numbers turned, or own or few where these predict left-out rollouts
    clearly better."""
    gp_max_points: int = 1536
    """Most rollouts that the Gaussian process is conditioned on; beyond it the newest, and a quarter of older ones."""

    def __post_init__(self) -> None:
        for each in fields(self):
            check_type(each.name, each.type, getattr(self, each.name))
        for kind, name, valid in (
            ("density", self.density, DENSITIES),
            ("weight sum", self.weight_sum, WEIGHT_SUMS),
            ("base", self.base, BASES),
            ("behaviour", self.behaviour, BEHAVIOURS),
            ("update", self.update, tuple(UPDATES)),
            ("gate", self.gate, GATES),
            ("deviation", self.deviation, DEVIATIONS),
            ("greedy choice", self.greedy, GREEDY),
            ("warp", self.warp, WARPS),
            ("axes", self.gp_axes, GP_AXES),
        ):
            if name not in valid:
                raise UnknownNameError(kind, name, valid)
        if isinstance(self.f, str) and self.f not in RETURN_FUNCTIONS:
            raise UnknownNameError("return function", self.f, RETURN_FUNCTIONS)
        if isinstance(self.features, str) and self.features not in FEATURE_NAMES:
            raise UnknownNameError("features", self.features, FEATURE_NAMES)
        for name, low, high in (
            ("max_options", 1, 10_000),
            ("kl_bound", 1e-6, 1e3),
            ("scouts", 0.0, 1.0),
            ("embedding_dimensions", 0, 1_000),
            ("epsilon", 0.0, 1e3),
            ("support", 0.0, 1e6),
            ("kappa", 0.0, 1e3),
            ("exploration_temperature", 0.0, 1e6),
            ("gp_max_points", 2, LARGEST_POINTS),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise InputError(f"{name} must lie between {low} and {high}; got {value}")
        for name, low, high in (
            ("temperature", 1e-300, np.inf),
            ("flattening", 0.0, 1.0),
            ("feature_count", 1, 10_000),
            ("ridge", 1e-12, 1e6),
        ):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise InputError(f"{name} must be None or lie between {low} and {high}; got {value}")


def changed_settings(kind: Any, settings: Any, changes: dict[str, Any]) -> Any:
    """Settings of that kind (a dataclass), those given or the default ones, with changes by name."""
    if settings is not None and not isinstance(settings, kind):
        raise InputError(f"settings must be hpsde.{kind.__name__}, or given by name; got {type(settings).__name__}")
    for name in changes:
        if name not in kind.__dataclass_fields__:
            raise UnknownNameError("setting", name, kind.__dataclass_fields__)
    return replace(settings or kind(), **changes)
