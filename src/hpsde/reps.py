"""Contextual episodic REPS: the sharpest weights within a KL bound of the option's base weights.

With base weights q_i, delta_i = R_i - phi_i^T v and phi_hat = sum_i q_i phi_i, REPS minimises the dual

    g(eta, v) = eta epsilon + phi_hat^T v + eta log sum_i q_i exp(delta_i / eta)

and weights the samples by d_i proportional to q_i exp(delta_i / eta). At the optimum KL(d || q) = epsilon and
sum_i d_i phi_i = phi_hat.
"""

from __future__ import annotations

import jax.numpy as jnp

from hpsde import dual
from hpsde._shapes import Array, Float


def solve(
    returns: Float[Array, " N"],
    features: Float[Array, "N F"],
    base: Float[Array, " N"],
    epsilon: Float[Array, ""] | float,
) -> dual.Tilt:
    """The optimum of the dual: log d, u = v / eta in standard features, and eta."""
    present = base > 0.0
    log_base = jnp.where(present, jnp.log(jnp.where(present, base, 1.0)), -jnp.inf)
    log_base = log_base - jnp.log(jnp.maximum(jnp.sum(base), 1e-300))
    standard = dual.standardise_features(features, log_base)
    safe_returns = jnp.where(present, returns, jnp.min(jnp.where(present, returns, jnp.inf)))
    return dual.solve_temperature(
        safe_returns, standard, log_base, lambda log_d: epsilon - dual.kl_divergence(log_d, log_base)
    )


def sample_weights(
    returns: Float[Array, " N"],
    features: Float[Array, "N F"],
    base: Float[Array, " N"],
    *,
    epsilon: float,
) -> Float[Array, " N"]:
    """Weights d_i of one option: REPS within KL divergence `epsilon` of its base weights."""
    return jnp.exp(solve(returns, features, base, epsilon).log_weights)
