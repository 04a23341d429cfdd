"""Return-weighted importance weights W~ (paper, "Return-Weighted Density Estimation").

    log W_i = log f(R_i) - lambda log pi_old(xi_i | s_i),

normalised in log space. pi_old is the mixture of all behaviours that produced the data. lambda < 1 flattens
the denominator where it would leave too few effective samples. The default f subtracts a baseline over the
context, log f = (R - V(s)) / T, which is the paper's Z made to depend on the context; `f="exp"` with
`temperature=1`, `flattening=1` is the paper's own form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from hpsde.base.groups import Group, Named, setting
from hpsde.base.shapes import Array, Bool, Float
from hpsde.steps import dual
from hpsde.steps.behaviours import AllBehaviours, BehaviourDensity
from hpsde.steps.return_functions import Advantage, ReturnFunction


@dataclass(frozen=True)
class Weights(Group):
    """The importance weights W~."""

    f: Named[ReturnFunction] = setting(
        Advantage(), "How a return becomes a weight; a function of the returns is taken, too."
    )
    temperature: float | None = setting(
        None,
        "T of f; by default the lowest that `kl_bound` allows for the first rollouts and that leaves weight to enough.",
        low=1e-300,
        high=np.inf,
    )
    kl_bound: float = setting(
        1.5,
        "How far the return weighting may go from the plain importance weights, in nats of KL divergence.",
        low=1e-6,
        high=1e3,
    )
    behaviour: Named[BehaviourDensity] = setting(
        AllBehaviours(), "The density pi_old that a rollout is taken to come from."
    )
    flattening: float | None = setting(
        None,
        "lambda, the power of the behaviour density; by default the largest that leaves 3 in 10 effective.",
        low=0.0,
        high=1.0,
    )


class ImportanceWeights(NamedTuple):
    """W~ (sum 1) with its effective sample size, the temperature T and the flattening lambda."""

    weights: Float[Array, " N"]
    ess: Float[Array, ""]
    temperature: Float[Array, ""]
    flattening: Float[Array, ""]


def flattened_base(
    log_behaviour: Float[Array, " N"],
    mask: Bool[Array, " N"],
    floor: Float[Array, ""],
) -> tuple[Float[Array, " N"], Float[Array, ""]]:
    """pi_old^-lambda with the largest lambda in [0, 1] that keeps ESS >= floor * N, by bisection."""
    log_inverse = jnp.where(mask, -log_behaviour, 0.0)
    log_inverse = log_inverse - jnp.max(jnp.where(mask, log_inverse, -jnp.inf))
    wanted = floor * jnp.sum(mask)

    def base(power: Array) -> Array:
        return jnp.where(mask, power * log_inverse, -jnp.inf)

    def enough(power: Array) -> Array:
        return dual.effective_sample_size(base(power)) >= wanted

    def step(_: Array | int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        return jnp.where(enough(middle), middle, low), jnp.where(enough(middle), high, middle)

    one = jnp.ones(())
    low, _ = jax.lax.fori_loop(0, dual.BISECTION_STEPS, step, (jnp.zeros(()), one))
    power = jnp.where(enough(one), one, low)
    return base(power), power


def importance_weights(
    log_f: Float[Array, " N"],
    features: Float[Array, "N F"],
    log_behaviour: Float[Array, " N"],
    mask: Bool[Array, " N"],
    *,
    baseline: bool,
    temperature: Float[Array, ""] | None,
    target_ess: Float[Array, ""],
    kl_bound: Float[Array, ""],
    flattening: float | None,
    ess_floor: Float[Array, ""],
) -> ImportanceWeights:
    """W~ of all rollouts; those outside `mask` get 0.

    `temperature` None takes the lowest T with ESS >= target_ess (a count) and KL(W~ || pi_old^-lambda) <= kl_bound: as
    sharp as the data allow, and no sharper than a given share of the space. `flattening` None takes the largest
    lambda that keeps ESS >= ess_floor * N before the returns are looked at. `baseline` matches the context features.
    """
    if flattening is None:
        log_base, power = flattened_base(log_behaviour, mask, ess_floor)
    else:
        power = jnp.asarray(flattening, dtype=log_f.dtype)
        log_base = jnp.where(mask, -power * log_behaviour, -jnp.inf)
    log_uniform = jnp.where(mask, -jnp.log(jnp.sum(mask)), -jnp.inf)
    # phi_hat is the plain mean over the rollouts' contexts: the context distribution does not depend on the policy.
    matched = dual.standardise_features(features, log_uniform) * (1.0 if baseline else 0.0)
    log_f = jnp.where(mask, log_f, jnp.min(jnp.where(mask, log_f, jnp.inf)))
    start = jnp.zeros(features.shape[1])
    if temperature is None:
        normalised = log_base - logsumexp(log_base)

        def slack(log_weights: Array) -> Array:
            enough = dual.effective_sample_size(log_weights) / target_ess - 1.0
            return jnp.minimum(enough, kl_bound - dual.kl_divergence(log_weights, normalised))

        tilted = dual.solve_temperature(log_f, matched, log_base, slack)
    else:
        tilted = dual.tilt(log_f, matched, log_base, jnp.asarray(temperature, dtype=log_f.dtype), start)
    log_weights = tilted.log_weights - logsumexp(tilted.log_weights)
    return ImportanceWeights(jnp.exp(log_weights), dual.effective_sample_size(log_weights), tilted.temperature, power)


def truncated(weights: Float[Array, " N"], most: float) -> tuple[Float[Array, " N"], Float[Array, ""]]:
    """Weights truncated at `most` and normalised again, and their effective sample size (Ionides 2008).

    A single rollout that no policy was likely to make may have a tenth of the weight: it says little of the density and
    lowers the effective sample size.
    """
    cut = jnp.minimum(weights, most)
    share = cut / jnp.sum(cut)
    return share, 1.0 / jnp.sum(share**2)
