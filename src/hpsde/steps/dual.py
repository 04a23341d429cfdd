"""Contextual softmax weights: the dual problem shared by the return weights and by REPS.

For a temperature T the weights are

    d_i = b_i exp((R_i - V(s_i)) / T) / Z,     V(s) = v^T phi(s),

with v chosen so that the weighted features keep their mean, sum_i d_i phi_i = phi_hat. Z absorbs the
normalisation, so a constant feature changes nothing. T itself is the root of a scalar condition: a bound on
the KL divergence (REPS) or a wanted effective sample size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from hpsde.base.shapes import Array, Float

FEATURE_RIDGE = 1e-3
NEWTON_STEPS = 30
LENGTHS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 0.001, 0.0)  # of a Newton step on trial
BISECTION_STEPS = 40
ROUNDING = 1e-12  # returns that differ by less than this share of their size are equal
LOG_TEMPERATURE_RANGE = (-30.0, 14.0)  # relative to the spread of the returns, which one crash can blow up


class Tilt(NamedTuple):
    """Weights tilted towards high returns: log d_i (normalised), u = v / T and T."""

    log_weights: Float[Array, " N"]
    u: Float[Array, " F"]
    temperature: Float[Array, ""]


def effective_sample_size(log_weights: Float[Array, " N"]) -> Float[Array, ""]:
    """ESS = (sum w)^2 / sum w^2 of weights given by their logarithms."""
    return jnp.exp(2.0 * logsumexp(log_weights) - logsumexp(2.0 * log_weights))


def log_normalised(weights: Float[Array, " N"]) -> Float[Array, " N"]:
    """Logarithms of weights >= 0 scaled to sum 1; minus infinity where a weight is 0."""
    present = weights > 0.0
    return jnp.where(present, jnp.log(jnp.where(present, weights, 1.0)), -jnp.inf) - jnp.log(jnp.sum(weights))


def kl_divergence(log_p: Float[Array, " N"], log_q: Float[Array, " N"]) -> Float[Array, ""]:
    """KL(p || q) of normalised weights given by their logarithms; entries with p = 0 count nothing."""
    present = jnp.isfinite(log_p)
    difference = jnp.where(present, log_p, 0.0) - jnp.where(present, log_q, 0.0)
    return jnp.sum(jnp.where(present, jnp.exp(log_p) * difference, 0.0))


def standardise_features(features: Float[Array, "N F"], log_base: Float[Array, " N"]) -> Float[Array, "N F"]:
    """Features with mean 0 and standard deviation 1 under the base weights; a constant feature becomes 0."""
    base = jnp.exp(log_base - logsumexp(log_base))
    centred = features - (base @ features)[None, :]
    deviation = jnp.sqrt(base @ centred**2)
    usable = deviation > 1e-9 * (1.0 + jnp.max(jnp.abs(features), axis=0))
    return jnp.where(usable[None, :], centred / jnp.where(usable, deviation, 1.0)[None, :], 0.0)


def match_features(
    log_tilted: Float[Array, " N"], features: Float[Array, "N F"], start: Float[Array, " F"]
) -> tuple[Float[Array, " N"], Float[Array, " F"]]:
    """Weights proportional to exp(log_tilted - phi^T u) whose mean feature is 0, by damped Newton steps.

    Minimises the convex  log sum_i exp(log_tilted_i - phi_i^T u) + ridge / 2 |u|^2. The small ridge bounds u
    where no weights can keep the mean exactly (the samples lie on one side of it).
    """
    if features.shape[1] == 0:
        return jax.nn.log_softmax(log_tilted), start
    identity = jnp.eye(features.shape[1])
    lengths = jnp.array(LENGTHS)

    def objective(u: Array) -> Array:
        return logsumexp(log_tilted - features @ u) + 0.5 * FEATURE_RIDGE * jnp.sum(u**2)

    def step(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        u, _, count = carry
        weights = jax.nn.softmax(log_tilted - features @ u)
        mean = weights @ features
        gradient = FEATURE_RIDGE * u - mean
        curvature = (features.T * weights[None, :]) @ features - jnp.outer(mean, mean) + FEATURE_RIDGE * identity
        direction = jnp.linalg.solve(curvature, gradient)
        values = jax.vmap(lambda length: objective(u - length * direction))(lengths)
        moved = lengths[jnp.argmin(values)] * direction
        return u - moved, jnp.max(jnp.abs(moved)), count + 1

    def unfinished(carry: tuple[Array, Array, Array]) -> Array:
        _, moved, count = carry
        return (moved > 1e-10) & (count < NEWTON_STEPS)

    u, _, _ = jax.lax.while_loop(unfinished, step, (start, jnp.array(jnp.inf), jnp.array(0)))
    return jax.nn.log_softmax(log_tilted - features @ u), u


def tilt(
    returns: Float[Array, " N"],
    features: Float[Array, "N F"],
    log_base: Float[Array, " N"],
    temperature: Float[Array, ""],
    start: Float[Array, " F"],
) -> Tilt:
    """Feature-matched softmax weights at a given temperature. `features` have mean 0 under phi_hat."""
    # The highest return counts as 0: at low temperatures log_base would be lost beside a large R / T.
    log_tilted = log_base + (returns - jnp.max(returns)) / temperature
    log_weights, u = match_features(log_tilted, features, start)
    return Tilt(log_weights, u, temperature)


def solve_temperature(
    returns: Float[Array, " N"],
    features: Float[Array, "N F"],
    log_base: Float[Array, " N"],
    excess: Callable[[Array], Array],
) -> Tilt:
    """Weights at the temperature where `excess(log_weights)` crosses zero from below as T grows.

    `excess` is negative while the weights are too sharp and positive while they are too flat. T comes down from the
    hot end in factors of e until the weights are too sharp, then by bisection, so that every u starts from that of a
    temperature nearby (v = T u changes little). Where no temperature in the range satisfies the condition, the end
    nearest to it is taken.
    """
    spread = return_spread(returns, log_base)
    centred = returns - jnp.max(returns)
    returns = jnp.where(jnp.abs(centred) > ROUNDING * jnp.max(jnp.abs(returns)), centred, 0.0)
    coldest, hottest = LOG_TEMPERATURE_RANGE

    def at(log_temperature: Array, near: Tilt) -> Tilt:
        temperature = spread * jnp.exp(log_temperature)
        return tilt(returns, features, log_base, temperature, near.u * near.temperature / temperature)

    def descend(carry: tuple[Array, Tilt, Array]) -> tuple[Array, Tilt, Array]:
        log_temperature, flat, _ = carry
        tilted = at(log_temperature - 1.0, flat)
        too_sharp = excess(tilted.log_weights) < 0.0
        kept = jax.tree.map(lambda old, new: jnp.where(too_sharp, old, new), flat, tilted)
        return jnp.where(too_sharp, log_temperature, log_temperature - 1.0), kept, too_sharp

    def bisect(_: Array | int, carry: tuple[Array, Array, Tilt]) -> tuple[Array, Array, Tilt]:
        low, high, flat = carry
        middle = 0.5 * (low + high)
        tilted = at(middle, flat)
        too_sharp = excess(tilted.log_weights) < 0.0
        kept = jax.tree.map(lambda old, new: jnp.where(too_sharp, old, new), flat, tilted)
        return jnp.where(too_sharp, middle, low), jnp.where(too_sharp, high, middle), kept

    zero = jnp.zeros(features.shape[1])
    start = tilt(returns, features, log_base, spread * jnp.exp(jnp.asarray(hottest)), zero)
    high, flat, found = jax.lax.while_loop(
        lambda carry: ~carry[2] & (carry[0] > coldest),
        descend,
        (jnp.asarray(hottest), start, jnp.asarray(False)),
    )
    low = jnp.where(found, high - 1.0, high)
    return jax.lax.fori_loop(0, BISECTION_STEPS, bisect, (low, high, flat))[2]


def return_spread(returns: Float[Array, " N"], log_base: Float[Array, " N"]) -> Float[Array, ""]:
    """Standard deviation of the returns under the base weights; 1 where all returns are equal."""
    base = jnp.exp(log_base - logsumexp(log_base))
    deviation = jnp.sqrt(base @ (returns - base @ returns) ** 2)
    return jnp.where(deviation > ROUNDING * jnp.max(jnp.abs(returns)), deviation, 1.0)
