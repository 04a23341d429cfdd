"""Reward-weighted regression: the option is fitted to the return-weighted samples as they are.

    d_i = W~_i p(o | s_i, xi_i)

is the episodic eRWR of the paper's section "Connection to Policy Parameter Estimation".
"""

from __future__ import annotations

import jax.numpy as jnp

from hpsde._shapes import Array, Float


def sample_weights(
    returns: Float[Array, " N"],
    features: Float[Array, "N F"],
    base: Float[Array, " N"],
    *,
    epsilon: float,
) -> Float[Array, " N"]:
    """Weights d_i of one option: its base weights, normalised. Returns act through the base alone."""
    del returns, features, epsilon
    return base / jnp.maximum(jnp.sum(base), 1e-300)
