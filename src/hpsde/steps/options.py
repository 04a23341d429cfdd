"""One policy search step for every option (the inner loop of Algorithm 1).

An update (update.py) maps an option's samples to their weights d [N]; the option's policy is the regression with these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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
    returns: Float[np.ndarray, " N"],
    features: Float[np.ndarray, "N F"],
    matched: Float[np.ndarray, "N M"],
    parameters: Float[np.ndarray, "N D"],
    base: Float[np.ndarray, "O N"],
    target: Float[np.ndarray, "O N"],
    kept: Bool[np.ndarray, " O"],
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
    least, d = update.support * (features.shape[1] + 1), np.zeros_like(base)
    for o in np.flatnonzero(kept):
        d[o] = update.sample_weights(returns, matched, base[o], target[o], least)
    return _regressions(features, parameters, d, kept, ridge, variance_floor, fit_h)


@functools.partial(jax.jit, static_argnums=(4, 5, 6))
def _regressions(
    features: Float[Array, "N F"],
    parameters: Float[Array, "N D"],
    weights: Float[Array, "O N"],
    kept: Bool[Array, " O"],
    ridge: float | None,
    variance_floor: float,
    fit_h: Callable[..., Any] | None,
) -> LinearGaussian:
    """The regression of every kept option with its weights."""

    def train(d: Array) -> LinearGaussian:
        return gaussian.fit(features, parameters, d, ridge=ridge, variance_floor=variance_floor, fit_h=fit_h)

    def skip(d: Array) -> LinearGaussian:
        nothing = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), jax.eval_shape(train, d))
        return nothing._replace(Sigma=jnp.eye(parameters.shape[1]))

    return jax.lax.map(lambda option: jax.lax.cond(option[0], train, skip, option[1]), (kept, weights))
