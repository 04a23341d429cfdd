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

from hpsde.density import DENSITY_METHODS
from hpsde.errors import InputError, UnknownNameError
from hpsde.features import FEATURE_NAMES
from hpsde.gating import GATES, GP_MOMENTS
from hpsde.options import UPDATES
from hpsde.warp import WARPS
from hpsde.weights import RETURN_FUNCTIONS

WEIGHT_SUMS = ("ess", "n", "one")
ASSIGNMENTS = ("soft", "hard")
GP_AXES = ("automatic", "turned", "own")
EXPLORATIONS = ("softmax", "argmax")
GREEDY = ("cautious", "expected")
DEVIATIONS = ("mean", "return")
TARGETS = ("automatic", "modelled", "weighted")
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
    features: str | Callable[[np.ndarray], np.ndarray] = "linear"
    """Context features of the options: linear, squared-exponential, or a function [N, S] -> [N, F]."""
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
    """T; by default the lowest that `target_ess` and `kl_bound` allow."""
    constant_temperature: bool = True
    """T is found once, from the first rollouts, so that f stays one function; False finds it anew every time."""
    target_ess: float = 0.05
    """Effective samples that the return weighting must leave, as a share of all rollouts; at least three for every
    dimension and three more, but never more than a quarter of the rollouts."""
    kl_bound: float = 1.5
    """How far the return weighting may go from the plain importance weights, in nats of KL divergence."""
    behaviour: str = "mixture"
    """pi_old of a rollout: the mixture of all policies that made rollouts, or the one that made it alone (own)."""
    flattening: float | None = None
    """lambda, the power of the behaviour density; by default the largest that keeps `ess_floor`."""
    ess_floor: float = 0.3
    """Effective samples that importance weighting alone must leave, as a share of all rollouts."""

    target: str = "automatic"
    """What the density estimation sees: the rollouts with their importance weights (weighted, the paper's), samples
    drawn by the modelled return (modelled), or automatic: samples where few of the first rollouts have weight."""
    density: str = "vb"
    """Density estimation: vb (variational Bayes) or em (maximum likelihood)."""
    weight_sum: str = "ess"
    """What the sample weights sum to in the density estimation: ess, n or one (the paper's appendix)."""
    truncation: bool = True
    """No sample has more than 1 / sqrt(N) of the weight of N in the density estimation; False is the paper's."""
    coarsening: float = 30.0
    """However many samples, the mixture believes at most this many per free number of an option: strips and arcs are
    not Gaussian, and enough samples would prove it by splitting them. 0 believes all."""
    resolution: float = 0.05
    """Solutions closer than this, in units of the first rollouts' deviation, count as one; 0 is the paper's."""
    restarts: int = 8
    """Starts of the density estimation, besides the last iteration's result."""
    active_length: float = 3.0
    """The density estimation, and pi_old with it, see only those axes of the Gaussian process along which the return
    changes within this many deviations of the rollouts; 0 is all of context and parameters."""
    embedding_dimensions: int = 0
    """Dimensions of the Laplacian eigenmaps before the density estimation, in place of the axes; 0: no eigenmaps."""
    minimum_share: float = 0.03
    """An option that holds less than this share of the weights is removed."""
    valley: float = 0.3
    """Gaussians between which the density falls to no less than this share of the lower peak are one option: a bent or
    heavy-tailed mode takes several to describe. 1 is the paper's: every Gaussian is an option."""
    assignment: str = "hard"
    """Samples belong to the likeliest option alone (hard) or to options by responsibility (soft)."""

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
    ridge: float | None = None
    """Ridge of the options' regression; by default that with which samples left out are predicted best."""
    variance_floor: float = 1e-6
    """Least variance of an option, in units of the first rollouts' variance."""

    gate: str = "gp"
    """Gating policy: gp, softmax or marginal."""
    kappa: float = 1.0
    """Optimism of the GP gate while learning: mean + kappa deviation."""
    deviation: str = "mean"
    """That deviation: of an option's mean return, how little it is known (mean), or of its return, which also varies as
    the option explores (return, the paper's)."""
    greedy: str = "cautious"
    """What the GP gate takes in use: the option whose mean parameters have the best return less one deviation
    (cautious), or the option of the best expected return (expected, the paper's)."""
    exploration: str = "softmax"
    """The GP gate while learning draws options by exp(optimistic return / (c T)), with the T of f (softmax), or takes
    the best (argmax, the paper's)."""
    exploration_temperature: float = 4.0
    """That c: at 1 options are drawn as the optimal policy would; the more, the more evenly."""
    gp_moments: str = "analytic"
    """Mean and deviation of an option's return by the GP gate while learning: analytic, or sampled, from five draws of
    the option in every context (the authors'), whose deviation is always that of the return."""
    warp: str = "clip"
    """Map of the returns before the Gaussian process: none, clip or rank."""
    isotropic: bool = False
    """One length for all dimensions of the Gaussian process (the paper's) instead of one each."""
    gp_axes: str = "automatic"
    """Axes of the Gaussian process: own (one length for each context number and parameter), turned (one for each of
    the directions in which the return varies), or automatic: turned where these numbers are more than four."""
    gp_fit_points: int = 512
    """Most rollouts that the marginal likelihood of the Gaussian process looks at."""
    gp_max_points: int = 1536
    """Most rollouts that the Gaussian process is conditioned on; beyond it the newest, and a quarter of older ones."""

    def __post_init__(self) -> None:
        for each in fields(self):
            check_type(each.name, each.type, getattr(self, each.name))
        for kind, name, valid in (
            ("target", self.target, TARGETS),
            ("density", self.density, DENSITY_METHODS),
            ("weight sum", self.weight_sum, WEIGHT_SUMS),
            ("assignment", self.assignment, ASSIGNMENTS),
            ("base", self.base, BASES),
            ("behaviour", self.behaviour, BEHAVIOURS),
            ("update", self.update, tuple(UPDATES)),
            ("gate", self.gate, GATES),
            ("exploration", self.exploration, EXPLORATIONS),
            ("deviation", self.deviation, DEVIATIONS),
            ("greedy choice", self.greedy, GREEDY),
            ("moments", self.gp_moments, GP_MOMENTS),
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
            ("target_ess", 1e-6, 1.0),
            ("kl_bound", 1e-6, 1e3),
            ("ess_floor", 0.0, 1.0),
            ("coarsening", 0.0, 1e6),
            ("resolution", 0.0, 1e3),
            ("restarts", 1, 1_000),
            ("minimum_share", 0.0, 1.0),
            ("active_length", 0.0, 1e6),
            ("valley", 0.0, 1.0),
            ("embedding_dimensions", 0, 1_000),
            ("epsilon", 0.0, 1e3),
            ("support", 0.0, 1e6),
            ("variance_floor", 1e-12, 1e6),
            ("kappa", 0.0, 1e3),
            ("exploration_temperature", 1e-6, 1e6),
            ("gp_fit_points", 2, 100_000),
            ("gp_max_points", 2, 100_000),
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
