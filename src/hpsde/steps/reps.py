"""Contextual episodic REPS: the sharpest weights within a KL bound of the option's base weights.

With base weights q_i, delta_i = R_i - phi_i^T v and the wanted mean feature phi_hat, REPS minimises the dual

    g(eta, v) = eta epsilon + phi_hat^T v + eta log sum_i q_i exp(delta_i / eta)

and weights the samples by d_i proportional to q_i exp(delta_i / eta). At the optimum KL(d || q) = epsilon and
sum_i d_i phi_i = phi_hat. Where that would leave too few effective samples for the option's regression, eta is raised
until there are enough. phi_hat is the mean feature of the option's contexts, those where it is any good: the
samples weighted by `target`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpsde.base.groups import setting
from hpsde.base.shapes import Float
from hpsde.steps import dual
from hpsde.steps.update import OptionUpdate

MOST = 0.9  # of the base's effective samples, that can be asked for


def solve(
    returns: Float[np.ndarray, " N"],
    features: Float[np.ndarray, "N F"],
    base: Float[np.ndarray, " N"],
    target: Float[np.ndarray, " N"],
    epsilon: float,
    least: float = 0.0,
) -> dual.Tilt:
    """The optimum of the dual: log d, u = v / eta for the standardised features, and eta.

    Samples outside the option, whose base is 0, have weight 0, whatever their return.
    """
    own = base > 0.0
    log_base = dual.log_normalised(base[own])
    standard = dual.standardise_features(features, dual.log_normalised(target))[own]
    # More samples than the base has cannot be left.
    wanted = min(least, MOST * dual.effective_sample_size(log_base))

    def slack(log_d: np.ndarray) -> float:
        within = epsilon - dual.kl_divergence(log_d, log_base)
        enough = dual.effective_sample_size(log_d) / max(wanted, 1.0) - 1.0
        return min(within, enough) if least else within

    tilted = dual.solve_temperature(returns[own], standard, log_base, slack)
    log_weights = np.full(len(returns), -np.inf)
    log_weights[own] = tilted.log_weights
    return tilted._replace(log_weights=log_weights)


@dataclass(frozen=True)
class REPS(OptionUpdate, name="reps"):
    """Relative entropy policy search: the highest return within the bound, in the option's contexts as they are."""

    match_squares: bool = setting(
        True, "It keeps the mean of the contexts' squares beside that of the features; False is the paper's."
    )

    def kept_means(self, features: np.ndarray, contexts: np.ndarray) -> np.ndarray:
        """Options are worse at the edge of the contexts: to keep the mean alone would draw them to the middle."""
        return np.hstack([features, contexts**2]) if self.match_squares else features

    def sample_weights(
        self,
        returns: Float[np.ndarray, " N"],
        features: Float[np.ndarray, "N F"],
        base: Float[np.ndarray, " N"],
        target: Float[np.ndarray, " N"],
        least: float,
    ) -> Float[np.ndarray, " N"]:
        """Weights d_i (sum 1) within KL divergence `epsilon` of the base weights.

        At least `least` effective samples are left, or nearly as many as the base has.
        """
        return np.exp(solve(returns, features, base, target, self.epsilon, least).log_weights)
