"""One policy search step for every option (the inner loop of Algorithm 1).

An update (update.py) maps an option's samples to their weights d [N]; the option's policy is the regression with these.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from hpsde.base.groups import Group, setting
from hpsde.base.shapes import Array, Bool, Float
from hpsde.steps import gaussian
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.reps import REPS
from hpsde.steps.rwr import RWR
from hpsde.steps.update import OptionUpdate

UPDATES = (REPS, RWR)  # a new update is a file and a line here


@dataclass(frozen=True)
class Options(Group):
    """The options' policies, after their policy search."""

    ridge: float | None = setting(
        None,
        "Ridge of the options' regression; by default that with which samples left out are predicted best.",
        low=1e-12,
        high=1e6,
    )
    model_step: bool = setting(
        True, "After its policy search an option's mean moves uphill on the modelled return; False is the paper's."
    )
    refine: bool = setting(
        True,
        "At last an option moves to the optimum of a local model of the return, and explores where that may be; False "
        "is the paper's.",
    )
    whitening: bool = setting(
        True,
        "Parameters that are nearly combinations of one another in the first rollouts are learned along their "
        "principal axes, each in units of its standard deviation; parameters that are not are scaled alone.",
    )


def fit_options(
    returns: Float[Array, " N"],
    features: Float[Array, "N F"],
    matched: Float[Array, "N M"],
    parameters: Float[Array, "N D"],
    base: Float[Array, "O N"],
    target: Float[Array, "O N"],
    kept: Bool[Array, " O"],
    *,
    update: OptionUpdate,
    ridge: float | None,
    variance_floor: float,
) -> LinearGaussian:
    """The policy of every kept option; the others are standard Gaussians that nobody asks for.

    An update may keep the mean of `matched`: the features, and what else of the contexts must not change. An option's
    mean has F + 1 numbers for every parameter: its search leaves `update.support` effective samples for each.
    """
    size, count = parameters.shape[1], features.shape[1]

    def train(q: Array, t: Array) -> LinearGaussian:
        d = update.sample_weights(returns, matched, q, t, update.support * (count + 1))
        return gaussian.fit(features, parameters, d, ridge=ridge, variance_floor=variance_floor)

    def skip(q: Array, t: Array) -> LinearGaussian:
        return LinearGaussian(jnp.zeros(size), jnp.zeros((count, size)), jnp.eye(size))

    return jax.lax.map(lambda option: jax.lax.cond(option[0], train, skip, option[1], option[2]), (kept, base, target))
