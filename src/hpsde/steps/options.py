"""One policy search step for every option (the inner loop of Algorithm 1).

An update maps (returns, features, base, target, epsilon, least) to sample weights d [N]: `base` q_i is how much each
sample belongs to the option, `target` how much it counts for the option's contexts, `least` how many effective samples
to leave. A new update is a file and a line here.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from hpsde.base.shapes import Array, Bool, Float
from hpsde.steps import gaussian, reps, rwr
from hpsde.steps.gaussian import LinearGaussian

UPDATES: dict[str, Callable[..., Array]] = {"reps": reps.sample_weights, "rwr": rwr.sample_weights}


def fit_options(
    returns: Float[Array, " N"],
    features: Float[Array, "N F"],
    matched: Float[Array, "N M"],
    parameters: Float[Array, "N D"],
    base: Float[Array, "O N"],
    target: Float[Array, "O N"],
    kept: Bool[Array, " O"],
    *,
    update: str,
    epsilon: float,
    support: float,
    ridge: float | None,
    variance_floor: float,
) -> LinearGaussian:
    """The policy of every kept option; the others are standard Gaussians that nobody asks for.

    REPS keeps the mean of `matched`: the features, and what else of the contexts must not change. An option's mean has
    F + 1 numbers for every parameter: its search leaves `support` effective samples for each.
    """
    size, count = parameters.shape[1], features.shape[1]

    def train(q: Array, t: Array) -> LinearGaussian:
        d = UPDATES[update](returns, matched, q, t, epsilon=epsilon, least=support * (count + 1))
        return gaussian.fit(features, parameters, d, ridge=ridge, variance_floor=variance_floor)

    def skip(q: Array, t: Array) -> LinearGaussian:
        return LinearGaussian(jnp.zeros(size), jnp.zeros((count, size)), jnp.eye(size))

    return jax.lax.map(lambda option: jax.lax.cond(option[0], train, skip, option[1], option[2]), (kept, base, target))
