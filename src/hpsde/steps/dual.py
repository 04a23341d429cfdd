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

import numpy as np

from hpsde.base.checks import ROUNDING
from hpsde.base.later import Later
from hpsde.base.shapes import Float

optimize = Later("scipy.optimize")


FEATURE_RIDGE = 1e-3
NEWTON_STEPS = 30
LENGTHS = (0.5, 0.25, 0.1, 0.03, 0.01, 0.001)  # of a Newton step on trial where the whole one leads up
LOG_TEMPERATURE_RANGE = (-30.0, 14.0)  # relative to the spread of the returns, which one crash can blow up


class Tilt(NamedTuple):
    """Weights tilted towards high returns: log d_i (normalised), u = v / T and T."""

    log_weights: Float[np.ndarray, " N"]
    u: Float[np.ndarray, " F"]
    temperature: float


def log_sum(logs: Float[np.ndarray, " N"]) -> float:
    """log sum_i exp(logs_i); at least one is finite."""
    most = np.max(logs)
    return float(most + np.log(np.sum(np.exp(logs - most))))


def effective_sample_size(log_weights: Float[np.ndarray, " N"]) -> float:
    """ESS = (sum w)^2 / sum w^2 of weights given by their logarithms."""
    w = np.exp(log_weights - np.max(log_weights))
    return float(np.sum(w) ** 2 / np.sum(w**2))


def log_normalised(weights: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Logarithms of weights >= 0 scaled to sum 1; minus infinity where a weight is 0."""
    present = weights > 0.0
    return np.where(present, np.log(np.where(present, weights, 1.0)), -np.inf) - np.log(np.sum(weights))


def kl_divergence(log_p: Float[np.ndarray, " N"], log_q: Float[np.ndarray, " N"]) -> float:
    """KL(p || q) of normalised weights given by their logarithms; entries with p = 0 count nothing."""
    p = np.exp(log_p)
    present = p > 0.0
    return float(np.sum(p[present] * (log_p[present] - log_q[present])))


def standardise_features(
    features: Float[np.ndarray, "N F"], log_base: Float[np.ndarray, " N"]
) -> Float[np.ndarray, "N F"]:
    """Features with mean 0 and standard deviation 1 under the base weights; a constant feature becomes 0."""
    base = np.exp(log_base - log_sum(log_base))
    centred = features - (base @ features)[None, :]
    deviation = np.sqrt(base @ centred**2)
    usable = deviation > 1e-9 * (1.0 + np.max(np.abs(features), axis=0, initial=0.0))
    return np.where(usable[None, :], centred / np.where(usable, deviation, 1.0)[None, :], 0.0)


def match_features(
    log_tilted: Float[np.ndarray, " N"], features: Float[np.ndarray, "N F"], start: Float[np.ndarray, " F"]
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " F"]]:
    """Weights proportional to exp(log_tilted - phi^T u) whose mean feature is 0, by damped Newton steps.

    Minimises the convex  log sum_i exp(log_tilted_i - phi_i^T u) + ridge / 2 |u|^2. The small ridge bounds u
    where no weights can keep the mean exactly (the samples lie on one side of it).
    """
    u, logs = start, log_tilted - features @ start
    total = log_sum(logs)
    if features.shape[1] == 0:
        return logs - total, u
    identity = np.eye(features.shape[1])
    for _ in range(NEWTON_STEPS):
        weights = np.exp(logs - total)
        mean = weights @ features
        gradient = FEATURE_RIDGE * u - mean
        curvature = (features.T * weights) @ features - np.outer(mean, mean) + FEATURE_RIDGE * identity
        direction = np.linalg.solve(curvature, gradient)
        rise, value = features @ direction, total + 0.5 * FEATURE_RIDGE * (u @ u)
        for length in (1.0, *LENGTHS):
            tried, moved = u - length * direction, logs + length * rise
            new_total = log_sum(moved)
            if new_total + 0.5 * FEATURE_RIDGE * (tried @ tried) <= value:
                break
        else:  # nothing is left to gain but rounding
            break
        u, logs, total = tried, moved, new_total
        if length * np.max(np.abs(direction)) <= 1e-10:
            break
    return logs - total, u


def tilt(
    returns: Float[np.ndarray, " N"],
    features: Float[np.ndarray, "N F"],
    log_base: Float[np.ndarray, " N"],
    temperature: float,
    start: Float[np.ndarray, " F"],
) -> Tilt:
    """Feature-matched softmax weights at a given temperature. `features` have mean 0 under phi_hat."""
    # The highest return counts as 0: at low temperatures log_base would be lost beside a large R / T.
    log_tilted = log_base + (returns - np.max(returns)) / temperature
    return Tilt(*match_features(log_tilted, features, start), float(temperature))


def solve_temperature(
    returns: Float[np.ndarray, " N"],
    features: Float[np.ndarray, "N F"],
    log_base: Float[np.ndarray, " N"],
    excess: Callable[[np.ndarray], float],
) -> Tilt:
    """Weights at the temperature where `excess(log_weights)` crosses zero from below as T grows.

    `excess` is negative while the weights are too sharp and positive while they are too flat. T comes down from the
    hot end in factors of e until the weights are too sharp, then by Brent's method, so that every u starts from that of
    a temperature nearby (v = T u changes little); the sharpest weights that are not too sharp are taken. Where no
    temperature in the range satisfies the condition, the end nearest to it is taken.
    """
    spread = return_spread(returns, log_base)
    centred = returns - np.max(returns)
    returns = np.where(np.abs(centred) > ROUNDING * np.max(np.abs(returns)), centred, 0.0)
    coldest, hottest = LOG_TEMPERATURE_RANGE
    flat = tilt(returns, features, log_base, spread * np.exp(hottest), np.zeros(features.shape[1]))
    known = {hottest: excess(flat.log_weights)}

    def at(log_temperature: float) -> float:
        nonlocal flat
        if log_temperature not in known:
            temperature = spread * np.exp(log_temperature)
            tilted = tilt(returns, features, log_base, temperature, flat.u * (flat.temperature / temperature))
            known[log_temperature] = excess(tilted.log_weights)
            if known[log_temperature] >= 0.0 and temperature < flat.temperature:
                flat = tilted
        return known[log_temperature]

    high = hottest
    while high > coldest and at(high - 1.0) >= 0.0:
        high -= 1.0
    if high > coldest and at(high) > 0.0:
        optimize.brentq(at, high - 1.0, high, xtol=1e-12, rtol=1e-12)
    return flat


def return_spread(returns: Float[np.ndarray, " N"], log_base: Float[np.ndarray, " N"]) -> float:
    """Standard deviation of the returns under the base weights; 1 where all returns are equal."""
    base = np.exp(log_base - log_sum(log_base))
    deviation = float(np.sqrt(base @ (returns - base @ returns) ** 2))
    return deviation if deviation > ROUNDING * np.max(np.abs(returns)) else 1.0
