"""The marginal gate: p(o | s) of the density estimate itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde.base.arrays import namespace
from hpsde.base.shapes import Array, Bool, Float
from hpsde.steps import gaussian
from hpsde.steps.gate import Gate, Optimism
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.rollouts import Data
from hpsde.steps.surface import Surface


class MarginalGate(NamedTuple):
    """p(o | s) of the density estimate: one weighted Gaussian over the context per option."""

    log_share: Float[Array, " O"]
    mean: Float[Array, "O S"]
    covariance: Float[Array, "O S S"]

    @property
    def kind(self) -> str:
        """The gate's name."""
        return "marginal"

    def values(
        self,
        options: LinearGaussian,
        kept: Bool[Array, " O"],
        features: Float[Array, "C F"],
        contexts: Float[Array, "C S"],
        optimism: Optimism | None = None,
    ) -> Float[Array, "O C"]:
        """log pi(o | s)."""
        return marginal_log_probabilities(self, contexts)


class Marginal(Gate, name="marginal"):
    """Options are drawn by p(o | s) of the density estimate, and the likeliest is taken in use."""

    trained = MarginalGate

    def train(self, data: Data, weighted: np.ndarray, surface: Surface | None) -> MarginalGate:
        """By weighted moments of the contexts."""
        return fit_marginal(data.contexts, weighted)


def marginal_log_probabilities(gate: MarginalGate, contexts: Float[Array, "C S"]) -> Float[Array, "O C"]:
    """log p(o | s) of the mixture marginal."""
    count, size = gate.mean.shape
    constant = LinearGaussian(gate.mean, np.zeros((count, 0, size)), gate.covariance)
    log_context = gaussian.log_density(constant, np.zeros((contexts.shape[0], 0)), contexts)
    return log_softmax(gate.log_share[:, None] + log_context)


def log_softmax(values: Float[Array, "O C"]) -> Float[Array, "O C"]:
    """values - log sum_o exp(values_o)."""
    xp = namespace(values)
    shifted = values - xp.max(values, axis=0, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=0, keepdims=True))


def fit_marginal(contexts: Float[np.ndarray, "N S"], targets: Float[np.ndarray, "O N"]) -> MarginalGate:
    """Weighted Gaussian over the contexts of every option; one pseudo sample of unit spread keeps it proper."""
    share = np.sum(targets, axis=1) / max(float(np.sum(targets)), 1e-300)
    size = contexts.shape[1]

    def one(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weights = weights / max(float(np.sum(weights)), 1e-300)
        mean = weights @ contexts
        centred = contexts - mean[None, :]
        effective = 1.0 / max(float(np.sum(weights**2)), 1e-12)
        spread = (centred.T * weights[None, :]) @ centred
        return mean, (effective * spread + np.eye(size)) / (effective + 1.0)

    mean, covariance = (np.stack(each) for each in zip(*map(one, targets), strict=True))
    return MarginalGate(np.log(np.maximum(share, 1e-300)), mean, covariance)
