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

import numpy as np

from hpsde.base.groups import Group, Named, setting
from hpsde.base.shapes import Bool, Float
from hpsde.steps import dual
from hpsde.steps.behaviours import AllBehaviours, BehaviourDensity
from hpsde.steps.return_functions import Advantage, ReturnFunction

BISECTION_STEPS = 40


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

    weights: Float[np.ndarray, " N"]
    ess: float
    temperature: float
    flattening: float


def flattened_base(log_behaviour: Float[np.ndarray, " N"], floor: float) -> tuple[Float[np.ndarray, " N"], float]:
    """pi_old^-lambda with the largest lambda in [0, 1] that keeps ESS >= floor * N, by bisection."""
    log_inverse = np.min(log_behaviour) - log_behaviour

    def enough(power: float) -> bool:
        return dual.effective_sample_size(power * log_inverse) >= floor * len(log_inverse)

    low, high = 0.0, 1.0
    if enough(high):
        return log_inverse, high
    for _ in range(BISECTION_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low * log_inverse, low


def importance_weights(
    log_f: Float[np.ndarray, " N"],
    features: Float[np.ndarray, "N F"],
    log_behaviour: Float[np.ndarray, " N"],
    mask: Bool[np.ndarray, " N"],
    *,
    baseline: bool,
    temperature: float | None,
    target_ess: float,
    kl_bound: float,
    flattening: float | None,
    ess_floor: float,
) -> ImportanceWeights:
    """W~ of all rollouts; those outside `mask` get 0.

    `temperature` None takes the lowest T with ESS >= target_ess (a count) and KL(W~ || pi_old^-lambda) <= kl_bound: as
    sharp as the data allow, and no sharper than a given share of the space. `flattening` None takes the largest
    lambda that keeps ESS >= ess_floor * N before the returns are looked at. `baseline` matches the context features.
    """
    log_f, features, log_behaviour = log_f[mask], features[mask], log_behaviour[mask]
    if flattening is None:
        log_base, power = flattened_base(log_behaviour, ess_floor)
    else:
        log_base, power = -flattening * log_behaviour, flattening
    # phi_hat is the plain mean over the rollouts' contexts: the context distribution does not depend on the policy.
    matched = dual.standardise_features(features if baseline else features[:, :0], np.zeros(len(log_f)))
    if temperature is None:
        normalised = log_base - dual.log_sum(log_base)

        def slack(log_weights: np.ndarray) -> float:
            enough = dual.effective_sample_size(log_weights) / target_ess - 1.0
            return min(enough, kl_bound - dual.kl_divergence(log_weights, normalised))

        tilted = dual.solve_temperature(log_f, matched, log_base, slack)
    else:
        tilted = dual.tilt(log_f, matched, log_base, temperature, np.zeros(matched.shape[1]))
    weights = np.zeros(len(mask))
    weights[mask] = np.exp(tilted.log_weights)
    return ImportanceWeights(weights, dual.effective_sample_size(tilted.log_weights), tilted.temperature, power)


def truncated(weights: Float[np.ndarray, " N"], most: float) -> tuple[Float[np.ndarray, " N"], float]:
    """Weights truncated at `most` and normalised again, and their effective sample size (Ionides 2008).

    A single rollout that no policy was likely to make may have a tenth of the weight: it says little of the density and
    lowers the effective sample size.
    """
    cut = np.minimum(weights, most)
    share = cut / np.sum(cut)
    return share, float(1.0 / np.sum(share**2))
