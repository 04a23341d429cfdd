"""The search for the best mixture: many starts climbed together, then merges of options while that pays.

A start is the sums of w_i eta_io t(x_i) for O options, and which of them take part. An option that takes no part has no
responsibility for any point, which only narrows the variational family: the bound stays a bound, and
the bounds of different numbers of options compare.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hpsde._shapes import Array, Bool, Float, Int
from hpsde.mixture import Mixture, inverse_and_log_determinant, log_determinant, natural_parameters


class Method(NamedTuple):
    """What a method of estimation brings. The bound is sum(option_bounds) + constant + entropy."""

    estimate: Callable[[Array], Mixture]  # statistics -> mixture: the M-step
    option_bounds: Callable[[Mixture, Array], Array]  # mixture, log |K^-1| -> each option's part of the bound
    constant: Array  # the part that all mixtures of these data share
    price: Callable[[Array], Array]  # number of options -> nats taken off the bound when mixtures are compared


class Climb(NamedTuple):
    """One start on its way up."""

    statistics: Float[Array, "O P"]
    natural: Float[Array, "O P"]
    active: Bool[Array, " O"]
    bound: Float[Array, ""]
    change: Float[Array, ""]
    iterations: Int[Array, ""]


class Points(NamedTuple):
    """The data of a climb."""

    t: Float[Array, "P N"]
    weights: Float[Array, " N"]


def expectation(
    natural: Float[Array, "O P"], active: Bool[Array, " O"], t: Float[Array, "P N"]
) -> tuple[Float[Array, "O N"], Float[Array, " N"]]:
    """VB-E step: responsibilities eta_io, and log sum_o rho_io."""
    rho = jnp.where(active[:, None], natural @ t, -jnp.inf)
    peak = jnp.max(rho, axis=0)
    share = jnp.exp(rho - peak)
    total = jnp.sum(share, axis=0)
    return share / total, peak + jnp.log(total)


def climb(
    method: Method,
    points: Points,
    iterations: int,
    tolerance: Float[Array, ""] | float,
    statistics: Float[Array, "O P"],
    active: Bool[Array, " O"],
) -> Climb:
    """EM from one start until the bound rises by no more than `tolerance`."""

    def maximise(statistics: Array) -> tuple[Array, Array]:
        mixture = method.estimate(statistics)
        K, log_det = inverse_and_log_determinant(mixture.K_inverse)
        return natural_parameters(mixture, K, log_det), jnp.sum(method.option_bounds(mixture, log_det))

    def step(state: Climb) -> Climb:
        eta, normaliser = expectation(state.natural, state.active, points.t)
        statistics = (eta * points.weights) @ points.t.T
        # sum_io w_i eta_io log rho_io is an inner product of natural parameters and sums
        expected = jnp.sum(jnp.where(state.active[:, None], state.natural * statistics, 0.0))
        entropy = points.weights @ normaliser - expected
        natural, bound = maximise(statistics)
        bound = bound + method.constant + entropy
        return Climb(statistics, natural, state.active, bound, bound - state.bound, state.iterations + 1)

    infinity = jnp.asarray(jnp.inf, points.t.dtype)
    natural, _ = maximise(statistics)
    return jax.lax.while_loop(
        lambda state: (state.change > tolerance) & (state.iterations < iterations),
        step,
        Climb(statistics, natural, active, -infinity, infinity, jnp.zeros((), int)),
    )


def merges(
    method: Method, points: Points, count: int, state: Climb
) -> tuple[Float[Array, "B O P"], Bool[Array, "B O"]]:
    """Starts in which two options of a climb have become one (in place of the first): the `count` best pairs.

    Sums add, so what a merge does to the bound before any further climbing costs one M-step per pair.
    """
    options = state.active.shape[0]
    first, second = np.triu_indices(options, 1)
    eta, _ = expectation(state.natural, state.active, points.t)

    def entropy(row: Float[Array, " N"]) -> Float[Array, " O"]:
        both = eta + row
        return -jnp.where(both > 0, both * jnp.log(jnp.where(both > 0, both, 1.0)), 0.0) @ points.weights

    def parts(statistics: Array) -> Array:
        mixture = method.estimate(statistics)
        return method.option_bounds(mixture, log_determinant(mixture.K_inverse))

    joined = state.statistics[first] + state.statistics[second]
    alone = parts(state.statistics) + entropy(jnp.zeros_like(points.weights))
    gain = parts(joined) + jax.lax.map(entropy, eta)[first, second] - alone[first] - alone[second]
    both = state.active[first] & state.active[second]
    _, best = jax.lax.top_k(jnp.where(both, gain, -jnp.inf), min(count, len(first)))

    def start(pair: Int[Array, ""]) -> tuple[Array, Array]:
        i, j = jnp.asarray(first)[pair], jnp.asarray(second)[pair]
        merged = state.statistics.at[i].set(joined[pair]).at[j].set(0.0)
        return (
            jnp.where(both[pair], merged, state.statistics),
            jnp.where(both[pair], state.active.at[j].set(False), state.active),
        )

    return jax.vmap(start)(best)
