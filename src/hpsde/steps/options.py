"""One policy search step for every option (the inner loop of Algorithm 1).

An update (update.py) maps an option's samples to their weights d [N]; the option's policy is the regression with these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from hpsde.base.shapes import Array, Bool, Float
from hpsde.steps import gaussian
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.option_policies import OptionPolicies
from hpsde.steps.reps import REPS
from hpsde.steps.rwr import RWR
from hpsde.steps.update import OptionUpdate

UPDATES = (REPS, RWR)  # a new update is a file and a line here


class Options(OptionPolicies, name="linear"):
    """Means are linear in the features, as in the paper."""


OPTIONS = (Options,)  # a new kind of options is a file and a line here


def known_options() -> dict[str, type[OptionPolicies]]:
    """The kinds of options of this package and those that were defined elsewhere, by name."""
    return OptionPolicies.known


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
    fit_h: Callable[..., Any] | None = None,
) -> LinearGaussian:
    """The policy of every kept option; the others are standard Gaussians that nobody asks for.

    An update may keep the mean of `matched`: the features, and what else of the contexts must not change. An option's
    mean has F + 1 numbers for every parameter: its search leaves `update.support` effective samples for each.
    """
    size, count = parameters.shape[1], features.shape[1]

    def train(q: Array, t: Array) -> LinearGaussian:
        d = update.sample_weights(returns, matched, q, t, update.support * (count + 1))
        return gaussian.fit(features, parameters, d, ridge=ridge, variance_floor=variance_floor, fit_h=fit_h)

    def skip(q: Array, t: Array) -> LinearGaussian:
        nothing = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), jax.eval_shape(train, q, t))
        return nothing._replace(Sigma=jnp.eye(size))

    return jax.lax.map(lambda option: jax.lax.cond(option[0], train, skip, option[1], option[2]), (kept, base, target))
