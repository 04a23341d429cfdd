"""The softmax gate: a distribution over the options that is learned from their weighted rollouts."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from hpsde.base.shapes import Array, Bool, Float
from hpsde.steps.gate import Gate, Optimism
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.rollouts import Data
from hpsde.steps.surface import Surface


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
        return fit_softmax(jnp.asarray(data.features), jnp.asarray(weighted))


@jax.jit
def softmax_log_probabilities(gate: SoftmaxGate, features: Float[Array, "C F"]) -> Float[Array, "O C"]:
    """log pi(o | s) of the softmax gate."""
    design = jnp.concatenate([features, jnp.ones((features.shape[0], 1))], axis=1)
    return jax.nn.log_softmax(gate.theta @ design.T, axis=0)


@jax.jit
def _softmax_loss(
    theta: Float[Array, "O G"],
    design: Float[Array, "N G"],
    targets: Float[Array, "O N"],
    ridge: float | Array,
) -> tuple[Float[Array, ""], Float[Array, "O G"]]:
    def loss(theta: Array) -> Array:
        return -jnp.sum(targets * jax.nn.log_softmax(theta @ design.T, axis=0)) + ridge * jnp.sum(theta**2)

    return jax.value_and_grad(loss)(theta)


def fit_softmax(features: Float[Array, "N F"], targets: Float[Array, "O N"], ridge: float = 1e-3) -> SoftmaxGate:
    """Softmax regression of the option weights P_oi on the features, by weighted maximum likelihood."""
    design = jnp.concatenate([features, jnp.ones((features.shape[0], 1))], axis=1)
    targets = targets / jnp.maximum(jnp.sum(targets), 1e-300)
    shape = (targets.shape[0], design.shape[1])

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _softmax_loss(jnp.asarray(flat.reshape(shape)), design, targets, ridge)
        return float(value), np.asarray(gradient, dtype=float).ravel()

    result = minimize(objective, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B")
    return SoftmaxGate(jnp.asarray(result.x.reshape(shape)))
