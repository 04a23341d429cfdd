"""Reward-weighted regression: the samples of an option, weighted by their returns.

    d_i proportional to q_i f(R_i),   f(R) = exp(R / T),

with T such that the weights lie `epsilon` nats of KL divergence from q: as sharp as REPS, without its constraint on the
contexts. With epsilon = 0 the base weights stay as they are, which for q_i = W~_i p(o | s_i, xi_i) is the paper's eRWR
("Connection to Policy Parameter Estimation").
"""

from __future__ import annotations

import numpy as np

from hpsde.base.shapes import Float
from hpsde.steps import reps
from hpsde.steps.update import OptionUpdate


class RWR(OptionUpdate, name="rwr"):
    """Reward-weighted regression: as sharp as REPS, whatever that does to the contexts."""

    def sample_weights(
        self,
        returns: Float[np.ndarray, " N"],
        features: Float[np.ndarray, "N F"],
        base: Float[np.ndarray, " N"],
        target: Float[np.ndarray, " N"],
        least: float,
    ) -> Float[np.ndarray, " N"]:
        """Weights d_i of one option. The features play no part."""
        no_features = np.zeros((features.shape[0], 0))
        return np.exp(reps.solve(returns, no_features, base, target, self.epsilon, least).log_weights)
