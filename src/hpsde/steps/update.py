"""How an option's samples are weighted for the regression of its policy (the inner loop of Algorithm 1).

A new update is a class with `sample_weights`, and is known by its name from then on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpsde.base.groups import Strategy, setting
from hpsde.base.shapes import Float


@dataclass(frozen=True)
class OptionUpdate(Strategy, family="update"):
    """Policy search of each option."""

    base: str = setting(
        "weighted",
        "What it starts from: the return weights of the option's samples, or all samples assigned to it alike (the "
        "paper's).",
        choices=("assigned", "weighted"),
    )
    epsilon: float = setting(3.0, "Bound on the KL divergence from `base`, in nats.", low=0.0, high=1e3, common=True)
    support: float = setting(
        4.0,
        "Effective samples that it must leave to an option, for each feature and one more; 0 is the paper's.",
        low=0.0,
        high=1e6,
    )

    def kept_means(self, features: np.ndarray, contexts: np.ndarray) -> np.ndarray:
        """What `sample_weights` gets as `features` [N, M]: numbers whose weighted mean it may preserve."""
        return features

    def sample_weights(
        self,
        returns: Float[np.ndarray, " N"],
        features: Float[np.ndarray, "N F"],
        base: Float[np.ndarray, " N"],
        target: Float[np.ndarray, " N"],
        least: float,
    ) -> Float[np.ndarray, " N"]:
        """Weights d_i of one option, of any sum; not all of them 0.

        base: q_i, how much each sample belongs to the option. target: how much it counts for the option's contexts.
        least: effective samples to leave.
        """
        raise NotImplementedError
