"""One policy search step for every option (the inner loop of Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from hpsde import gaussian, reps, rwr
from hpsde._shapes import Array, Float
from hpsde.gaussian import LinearGaussian

# An update maps (returns, features, base weights, epsilon) to sample weights d. A new one is a file and a line here.
UPDATES: dict[str, Callable[..., Array]] = {"reps": reps.sample_weights, "rwr": rwr.sample_weights}


def fit_options(
    returns: Float[Array, " N"],
    features: Float[Array, "N F"],
    parameters: Float[Array, "N D"],
    base: Float[Array, "O N"],
    *,
    update: str,
    epsilon: float,
    ridge: float,
    variance_floor: float,
) -> tuple[LinearGaussian, Float[Array, " O"]]:
    """All option policies from base weights q_oi, and the effective number of samples behind each."""

    def one(q: Array) -> tuple[LinearGaussian, Array]:
        d = UPDATES[update](returns, features, q, epsilon=epsilon)
        d = jnp.where(jnp.sum(q) > 0.0, d, 0.0)
        option = gaussian.fit(features, parameters, d, ridge=ridge, variance_floor=variance_floor)
        return option, 1.0 / jnp.maximum(jnp.sum(d**2), 1e-300) * (jnp.sum(q) > 0.0)

    return jax.vmap(one)(base)
