"""The search for the best mixture: many starts climbed together, then merges of options while that pays.

A start is the sums of w_i eta_io t(x_i) for O options, and which of them take part. An option that takes no
part has no responsibility for any point, which only narrows the variational family: the bound stays a bound,
and the bounds of different numbers of options compare.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from hpsde.base.shapes import Array, Bool, Float, Int
from hpsde.mixture.posterior import Mixture, inverse_and_log_determinant, log_determinant, natural_parameters

CHUNK = 4096  # points passed over at a time: their statistics stay in a core's cache
TIE = 1e-6  # of its size, by which a bound must be higher to count as higher
T = TypeVar("T")


class EstimationMethod(NamedTuple):
    """What a method of estimation brings. Its bound is sum(option_bounds) + constant + entropy."""

    estimate: Callable[[Array], Mixture]  # statistics -> mixture: the M-step
    option_bounds: Callable[[Mixture, Array], Array]  # mixture, log |K^-1| -> each option's part of the bound
    constant: Float[Array, ""]  # the part that all mixtures of these data share
    price: Callable[[Array], Array]  # number of options -> nats taken off the bound when mixtures are compared


class Points(NamedTuple):
    """Weighted points as their statistics t(x), in C chunks of n."""

    t: Float[Array, "C P n"]
    weights: Float[Array, "C n"]


class Climb(NamedTuple):
    """A mixture on its way up: `statistics` is what the bound belongs to, `ahead` the next."""

    statistics: Float[Array, "O P"]
    natural: Float[Array, "O P"]
    bound: Float[Array, ""]
    change: Float[Array, ""]
    iterations: Int[Array, ""]
    active: Bool[Array, " O"]
    ahead: Float[Array, "O P"]
    entropy: Float[Array, ""]  # of the responsibilities behind `ahead`


class SearchResult(NamedTuple):
    """The result of a search."""

    best: Climb
    chosen: Int[Array, ""]  # the start that the best came from
    bounds: Float[Array, " B"]  # of every start, after the first round
    rounds: Int[Array, ""]
    loyalty: Float[Array, ""]  # what another mixture must gain to replace the best


# ---------------------------------------------------------------- passes over the points


def make_points(t: Float[Array, "P N"], weights: Float[Array, " N"]) -> Points:
    """Points by their statistics, in chunks; weight 0 fills the last one."""
    chunks = max(1, -(-t.shape[1] // CHUNK))
    missing = -t.shape[1] % chunks
    t = jnp.pad(t, ((0, 0), (0, missing)))
    weights = jnp.pad(weights, (0, missing)).reshape(chunks, -1)
    return Points(jnp.swapaxes(t.reshape(t.shape[0], chunks, -1), 0, 1), weights)


def summed(function: Callable[[Array, Array], T], points: Points) -> T:
    """Sum of function(t, weights) over the chunks."""
    first = function(points.t[0], points.weights[0])
    if points.t.shape[0] == 1:
        return first
    rest = jax.tree.map(lambda leaf: leaf[1:], points)
    return jax.lax.scan(lambda total, chunk: (jax.tree.map(jnp.add, total, function(*chunk)), None), first, rest)[0]


def expectation(
    natural: Float[Array, "O P"], active: Bool[Array, " O"], t: Float[Array, "P N"]
) -> tuple[Float[Array, "O N"], Float[Array, " N"]]:
    """VB-E step: responsibilities eta_io, and log sum_o rho_io."""
    rho = jnp.where(active[:, None], natural @ t, -jnp.inf)
    peak = jnp.max(rho, axis=0)
    share = jnp.exp(rho - peak[None])
    total = jnp.sum(share, axis=0)
    return share / total[None], peak + jnp.log(total)


def collect(
    natural: Float[Array, "O P"], active: Bool[Array, " O"], points: Points
) -> tuple[Float[Array, "O P"], Float[Array, ""]]:
    """E-step over all points: sums of w_i eta_io t(x_i), and the entropy -sum_io w_i eta_io log eta_io."""

    def one(t: Array, weights: Array) -> tuple[Array, Array]:
        eta, normaliser = expectation(natural, active, t)
        return (eta * weights[None]) @ t.T, weights @ normaliser

    statistics, total = summed(one, points)
    # sum_io w_i eta_io log rho_io is an inner product of natural parameters and sums
    expected = jnp.sum(jnp.where(active[:, None], natural * statistics, 0.0))
    return statistics, total - expected


# ---------------------------------------------------------------- one climb


def begin(statistics: Float[Array, "O P"], active: Bool[Array, " O"]) -> Climb:
    """The foot of a climb; its first bound counts as minus infinity, since the entropy is not known."""
    infinity = jnp.full((), jnp.inf, statistics.dtype)
    return Climb(
        statistics=statistics,
        natural=jnp.zeros_like(statistics),
        bound=-infinity,
        change=infinity,
        iterations=jnp.zeros((), int),
        active=active,
        ahead=statistics,
        entropy=-infinity,
    )


def climb(
    method: EstimationMethod,
    points: Points,
    state: Climb,
    iterations: Int[Array, ""] | int,
    tolerance: Float[Array, ""] | float,
) -> Climb:
    """EM until the bound changes by less than `tolerance`, or `iterations` in all."""

    def step(state: Climb) -> Climb:
        mixture = method.estimate(state.ahead)
        K, log_det = inverse_and_log_determinant(mixture.K_inverse)
        bound = jnp.sum(method.option_bounds(mixture, log_det)) + method.constant + state.entropy
        natural = natural_parameters(mixture, K, log_det)
        ahead, entropy = collect(natural, state.active, points)
        change = jnp.where(jnp.isneginf(state.bound), jnp.inf, bound - state.bound)
        return Climb(state.ahead, natural, bound, change, state.iterations + 1, state.active, ahead, entropy)

    return jax.lax.while_loop(
        lambda state: (jnp.abs(state.change) >= tolerance) & (state.iterations < iterations), step, state
    )


# ---------------------------------------------------------------- merges


def merges(method: EstimationMethod, points: Points, count: int, state: Climb) -> Climb:
    """`count` climbs begun where two options of a climb have become one, in place of the first of the two.

    Sums add, so what a merge does to the bound before any further climbing costs one M-step per pair: the
    pairs with the highest gain are taken. Where there are too few pairs, the climb itself goes on instead.
    """
    options = state.active.shape[0]
    if options == 1:
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), state)
    first, second = (jnp.asarray(index) for index in np.triu_indices(options, 1))
    gain = jnp.where(state.active[first] & state.active[second], merge_gains(method, points, state), -jnp.inf)
    gain = jnp.pad(gain, (0, count), constant_values=-jnp.inf)
    best_gain, best = jax.lax.top_k(gain, count)

    def start(pair: Int[Array, ""], possible: Bool[Array, ""]) -> Climb:
        into = jnp.arange(options) == first[pair]
        gone = jnp.arange(options) == second[pair]
        kept = jnp.where(gone[:, None], 0.0, state.statistics)
        moved = jnp.where(into[:, None], gone @ state.statistics, 0.0)
        begun = begin(kept + moved, state.active & ~gone)._replace(iterations=state.iterations)
        return jax.tree.map(lambda new, old: jnp.where(possible, new, old), begun, state)

    return jax.vmap(start)(best, ~jnp.isneginf(best_gain))


def merge_gains(method: EstimationMethod, points: Points, state: Climb) -> Float[Array, " Q"]:
    """Change of the bound when two options become one, for every pair first < second."""
    options = state.active.shape[0]
    first, second = np.triu_indices(options, 1)

    def entropies(t: Array, weights: Array) -> Float[Array, "R O"]:
        eta, _ = expectation(state.natural, state.active, t)

        def with_all(row: Float[Array, " N"]) -> Float[Array, " O"]:
            both = eta + row[None]
            return -jnp.where(both > 0, both * jnp.log(jnp.where(both > 0, both, 1.0)), 0.0) @ weights

        return jax.lax.map(with_all, jnp.concatenate([jnp.zeros_like(eta[:1]), eta]))

    joined = state.statistics[first] + state.statistics[second]
    mixture = method.estimate(jnp.concatenate([state.statistics, joined]))
    parts = method.option_bounds(mixture, log_determinant(mixture.K_inverse))
    entropy = summed(entropies, points)
    alone = parts[:options] + entropy[0]
    return parts[options:] + entropy[1:][first, second] - alone[first] - alone[second]


# ---------------------------------------------------------------- the search


def search(
    method: EstimationMethod,
    points: Points,
    starts: Climb,
    loyalty: Float[Array, ""],
    iterations: Int[Array, ""] | int,
    patience: Int[Array, ""] | int,
    tolerance: Float[Array, ""] | float,
) -> SearchResult:
    """Climb all starts for a round, then again and again the best and its merges, until nothing gains.

    A round is `patience` iterations. Mixtures are compared by bound - price; to replace the last of the
    starts takes a gain of more than `loyalty`.
    """
    count = starts.bound.shape[0]

    def one_round(carry: tuple[Climb, SearchResult, Array]) -> tuple[Climb, SearchResult, Array]:
        states, found, _ = carry
        first = found.rounds == 0
        limit = jnp.minimum((found.rounds + 1) * patience, iterations) + 1  # the foot of a climb is no step
        states = jax.vmap(lambda state: climb(method, points, state, limit, tolerance))(states)
        merits = states.bound - jax.vmap(lambda active: method.price(active.sum()))(states.active)
        favoured = jnp.where(first, count - 1, 0)
        merits = merits + found.loyalty * (jnp.arange(count) == favoured)
        # Of starts that end alike but for rounding, the first: the order of the options must not hang on the last bit.
        index = jnp.argmax(merits >= jnp.max(merits) - TIE * (1.0 + jnp.abs(jnp.max(merits))))
        best = jax.tree.map(lambda leaf: leaf[index], states)
        now = SearchResult(
            best=best,
            chosen=jnp.where(first, index, found.chosen),
            bounds=jnp.where(first, states.bound, found.bounds),
            rounds=found.rounds + 1,
            loyalty=jnp.where(index == favoured, found.loyalty, 0.0),
        )
        settled = ~first & (index == 0) & ~(jnp.abs(best.change) >= tolerance)
        lanes = merges(method, points, count - 1, best)
        states = jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), best, lanes)
        return states, now, settled | (best.iterations > iterations)

    zero = jnp.zeros((), int)
    nothing = SearchResult(jax.tree.map(lambda leaf: leaf[0], starts), zero, starts.bound, zero, loyalty)
    carry = (starts, nothing, jnp.zeros((), bool))
    return jax.lax.while_loop(lambda carry: ~carry[2], one_round, carry)[1]
