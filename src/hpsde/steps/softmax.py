"""The softmax gate: a distribution over the options that is learned from their weighted rollouts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hpsde.base.arrays import namespace
from hpsde.base.later import Later
from hpsde.base.shapes import Array, Bool, Float
from hpsde.steps.gate import Gate, Optimism
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.marginal import log_softmax
from hpsde.steps.rollouts import Data
from hpsde.steps.surface import Surface

optimize = Later("scipy.optimize")


class SoftmaxGate(NamedTuple):
    """pi(o | s) proportional to exp(theta_o^T [phi(s), 1]): the gate of HiREPS."""

    theta: Float[Array, "O G"]

    @property
    def kind(self) -> str:
        """The gate's name."""
        return "softmax"

    def values(
        self,
        options: LinearGaussian,
        kept: Bool[Array, " O"],
        features: Float[Array, "C F"],
        contexts: Float[Array, "C S"],
        optimism: Optimism | None = None,
    ) -> Float[Array, "O C"]:
        """log pi(o | s)."""
        return softmax_log_probabilities(self, features)


class Softmax(Gate, name="softmax"):
    """Options are drawn by pi(o | s), and the likeliest is taken in use."""

    trained = SoftmaxGate

    def train(self, data: Data, weighted: np.ndarray, surface: Surface | None) -> SoftmaxGate:
        """By weighted maximum likelihood."""
        return fit_softmax(data.features, weighted)


def softmax_log_probabilities(gate: SoftmaxGate, features: Float[Array, "C F"]) -> Float[Array, "O C"]:
    """log pi(o | s) of the softmax gate."""
    return log_softmax(gate.theta @ _design(features).T)


def _design(features: Float[Array, "N F"]) -> Float[Array, "N G"]:
    """[phi, 1]."""
    xp = namespace(features)
    return xp.concatenate([features, xp.ones((features.shape[0], 1))], axis=1)


def softmax_loss(
    theta: Float[np.ndarray, "O G"], design: Float[np.ndarray, "N G"], targets: Float[np.ndarray, "O N"], ridge: float
) -> tuple[float, Float[np.ndarray, "O G"]]:
    """ridge |theta|^2 - sum_oi P_oi log pi(o | s_i), and its gradient."""
    log_p = log_softmax(theta @ design.T)
    left = np.sum(targets, axis=0) * np.exp(log_p) - targets
    return float(ridge * np.sum(theta**2) - np.sum(targets * log_p)), left @ design + 2.0 * ridge * theta


def fit_softmax(features: Any, targets: Any, ridge: float = 1e-3) -> SoftmaxGate:
    """Softmax regression of the option weights P_oi [O, N] on the features [N, F], by weighted maximum likelihood."""
    design, targets = _design(np.asarray(features)), np.asarray(targets)
    targets = targets / max(float(np.sum(targets)), 1e-300)
    shape = (targets.shape[0], design.shape[1])

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = softmax_loss(flat.reshape(shape), design, targets, ridge)
        return value, gradient.ravel()

    result = optimize.minimize(objective, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B")
    return SoftmaxGate(result.x.reshape(shape))
