"""Gating policies pi(o | s) (paper, "Selection of the Option Policy").

Three gates answer one question: `scores(...)`, how good each option is in each context [O, C], for learning
(optimistic) and for use (greedy). The GP gate is the paper's; softmax and marginal are those it is compared with.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from hpsde import gp
from hpsde.base.shapes import Array, Bool, Float, Int
from hpsde.gp import binary as gp_binary
from hpsde.gp.warp import Warp
from hpsde.steps import gaussian
from hpsde.steps.configuration import GateSettings
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.rollouts import Data
from hpsde.steps.surface import Surface

GATES = ("gp", "softmax", "marginal")


class GPGate(NamedTuple):
    """Expected return of each option by a Gaussian process over z = [xi, s]."""

    process: gp.GP
    scores: Float[Array, " N"]  # warped returns at the process's points, kept so that a saved gate can be rebuilt
    warp: Warp
    axes: Float[Array, "E Z"] | None = None  # A, where the process is over A z; None: over z itself (gp/axes.py)
    cautious: bool = True  # in use: the return of an option's mean parameters less its deviation; or the expected one
    binary: bool = False  # the process is one of success (score 1) or failure (0), and its values are log odds

    @property
    def kind(self) -> str:
        """The gate's name."""
        return "gp"


class SoftmaxGate(NamedTuple):
    """pi(o | s) proportional to exp(theta_o^T [phi(s), 1]): the gate of HiREPS."""

    theta: Float[Array, "O G"]

    @property
    def kind(self) -> str:
        """The gate's name."""
        return "softmax"


class MarginalGate(NamedTuple):
    """p(o | s) of the density estimate: one weighted Gaussian over the context per option."""

    log_share: Float[Array, " O"]
    mean: Float[Array, "O S"]
    covariance: Float[Array, "O S S"]

    @property
    def kind(self) -> str:
        """The gate's name."""
        return "marginal"


Gate = GPGate | SoftmaxGate | MarginalGate


def without_inverse(gate: Gate) -> Gate:
    """The gate less the largest part of its Gaussian process, which follows from the rest."""
    if not isinstance(gate, GPGate):
        return gate
    return gate._replace(process=gate.process._replace(K_inverse=jnp.zeros((0, 0))))


def with_inverse(gate: Gate) -> Gate:
    """The gate of `without_inverse`, whole again, to the same bits."""
    if not isinstance(gate, GPGate):
        return gate
    computed = gp_binary.with_inverse if gate.binary else gp.with_inverse
    return gate._replace(process=computed(gate.process, gate.scores))


def _option_moments(
    process: gp.GP,
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
    axes: Float[Array, "E Z"] | None,
) -> gp.OptionMoments:
    """Moments of the process's mean under every option. A z is Gaussian, too, with covariance A_xi Sigma A_xi'."""
    means = gaussian.means(options, features)
    if axes is None:
        return gp.option_moments(process, means, options.Sigma, contexts, kept)
    of_parameters = axes[:, : means.shape[-1]]
    covariance = of_parameters[None] @ options.Sigma @ of_parameters.T[None]
    nothing = jnp.zeros((contexts.shape[0], 0), contexts.dtype)
    return gp.option_moments(process, _joint(means, contexts) @ axes.T, covariance, nothing, kept)


def _joint(parameters: Float[Array, "*O C D"], contexts: Float[Array, "C S"]) -> Float[Array, "*O C Z"]:
    """Points z = [xi, s]."""
    repeated = jnp.broadcast_to(contexts, (*parameters.shape[:-1], contexts.shape[1]))
    return jnp.concatenate([parameters, repeated], axis=-1)


@functools.partial(jax.jit, static_argnames="of_return")
def gp_moments(
    process: gp.GP,
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
    axes: Float[Array, "E Z"] | None = None,
    *,
    of_return: bool = True,
) -> tuple[Float[Array, "O C"], Float[Array, "O C"]]:
    """Mean and deviation of the return of every kept option in every context, in warped units (Girard 2002).

    The deviation is that of the mean return, for what is not known of it, or with `of_return` that of the return.
    """
    moments = _option_moments(process, options, kept, features, contexts, axes)
    return moments.mean, jnp.sqrt(moments.variance if of_return else moments.variance_of_mean)


@jax.jit
def gp_means(
    process: gp.GP,
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
    axes: Float[Array, "E Z"] | None = None,
) -> Float[Array, "O C"]:
    """The mean alone: without the variance it costs N instead of N^2 per option and context."""
    return _option_moments(process, options, kept, features, contexts, axes).mean


@jax.jit
def returns_of_means(
    process: gp.GP,
    options: LinearGaussian,
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
    axes: Float[Array, "E Z"] | None = None,
) -> tuple[Float[Array, "O C"], Float[Array, "O C"]]:
    """Mean and deviation, by what is known, of the return of every option's mean parameters, in warped units."""
    points = _joint(gaussian.means(options, features), contexts)
    points = points if axes is None else points @ axes.T
    mean, variance = gp.predict(process, points.reshape(-1, points.shape[-1]))
    return mean.reshape(points.shape[:2]), jnp.sqrt(variance).reshape(points.shape[:2])


@jax.jit
def softmax_log_probabilities(gate: SoftmaxGate, features: Float[Array, "C F"]) -> Float[Array, "O C"]:
    """log pi(o | s) of the softmax gate."""
    design = jnp.concatenate([features, jnp.ones((features.shape[0], 1))], axis=1)
    return jax.nn.log_softmax(gate.theta @ design.T, axis=0)


@jax.jit
def marginal_log_probabilities(gate: MarginalGate, contexts: Float[Array, "C S"]) -> Float[Array, "O C"]:
    """log p(o | s) of the mixture marginal."""
    count, size = gate.mean.shape
    constant = LinearGaussian(gate.mean, jnp.zeros((count, 0, size)), gate.covariance)
    log_context = gaussian.log_density(constant, jnp.zeros((contexts.shape[0], 0)), contexts)
    return jax.nn.log_softmax(gate.log_share[:, None] + log_context, axis=0)


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


@jax.jit
def fit_marginal(contexts: Float[Array, "N S"], targets: Float[Array, "O N"]) -> MarginalGate:
    """Weighted Gaussian over the contexts of every option; one pseudo sample of unit spread keeps it proper."""
    total = jnp.sum(targets)
    share = jnp.sum(targets, axis=1) / jnp.maximum(total, 1e-300)
    size = contexts.shape[1]

    def one(weights: Array) -> tuple[Array, Array]:
        mass = jnp.sum(weights)
        weights = weights / jnp.maximum(mass, 1e-300)
        mean = weights @ contexts
        centred = contexts - mean[None, :]
        effective = 1.0 / jnp.maximum(jnp.sum(weights**2), 1e-12)
        spread = (centred.T * weights[None, :]) @ centred
        return mean, (effective * spread + jnp.eye(size)) / (effective + 1.0)

    mean, covariance = jax.vmap(one)(targets)
    return MarginalGate(jnp.log(jnp.maximum(share, 1e-300)), mean, covariance)


def train_gate(data: Data, weighted: np.ndarray, surface: Surface | None, settings: GateSettings) -> Gate:
    """The gating policy: the Gaussian process itself, or what is learned from the options' samples."""
    if settings.gate == "marginal":
        return fit_marginal(jnp.asarray(data.contexts), jnp.asarray(weighted))
    if settings.gate == "softmax" or surface is None:
        return fit_softmax(jnp.asarray(data.features), jnp.asarray(weighted))
    process, scores, warp, axes = surface.process, surface.scores, surface.warp, surface.axes
    return GPGate(process, scores, warp, axes, settings.greedy == "cautious", surface.binary)


class Optimism(NamedTuple):
    """How a GP gate looks at options while learning: by mean + kappa deviation.

    of_return: the deviation is that of the return, not of its mean.
    """

    kappa: float
    of_return: bool = False


def scores(
    gate: Gate,
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
    optimism: Optimism | None = None,
) -> Float[Array, "O C"]:
    """What the gate maximises: while learning mean + kappa deviation of the return (UCB), or log pi(o | s).

    In use, without `optimism`, a GP gate gives the cautious or the expected returns.
    """
    if isinstance(gate, GPGate):
        asked = (gate.process, options, kept, features, contexts, gate.axes)
        if optimism is None and gate.cautious:
            mean, deviation = returns_in_use(gate, options, features, contexts)
            values = mean - deviation
        elif optimism is None:
            values = gp_means(*asked)
        else:
            mean, deviation = gp_moments(*asked, of_return=optimism.of_return)
            values = mean + optimism.kappa * deviation
    elif isinstance(gate, SoftmaxGate):
        values = softmax_log_probabilities(gate, features)
    else:
        values = marginal_log_probabilities(gate, contexts)
    return jnp.where(kept[:, None], values, -jnp.inf)


def returns_in_use(
    gate: GPGate, options: LinearGaussian, features: Float[Array, "C F"], contexts: Float[Array, "C S"]
) -> tuple[Float[Array, "O C"], Float[Array, "O C"]]:
    """As `returns_of_means`, but no more than the best rollout has had: beside its points a process overshoots.

    Log odds of success have no such limit.
    """
    mean, deviation = returns_of_means(gate.process, options, features, contexts, gate.axes)
    if gate.binary:
        return mean, deviation
    return jnp.minimum(mean, np.max(np.asarray(gate.scores)[np.asarray(gate.process.mask)])), deviation


def expected_scores(
    gate: GPGate,
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
) -> Float[Array, "O C"]:
    """What the gate expects of the options in use, in warped units: of their mean parameters where it is cautious."""
    if gate.cautious:
        return returns_in_use(gate, options, features, contexts)[0]
    return gp_means(gate.process, options, kept, features, contexts, gate.axes)


def expected_moments(
    gate: GPGate,
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
) -> tuple[Float[Array, "O C"], Float[Array, "O C"]]:
    """As `expected_scores`, and the standard deviation of what is not known of it."""
    if gate.cautious:
        return returns_in_use(gate, options, features, contexts)
    return gp_moments(gate.process, options, kept, features, contexts, gate.axes, of_return=False)


def choose_options(
    key: Array, gate: Gate, values: Float[np.ndarray, "O C"] | Array, temperature: float
) -> Int[np.ndarray, " C"]:
    """The option for every context while learning.

    Softmax and marginal gates draw from pi(o | s). The GP gate draws from the optimal policy's own form,
    exp(R_o / T), at the optimistic returns, so that equally good options are all tried; or, at T = 0, takes the best.
    """
    if isinstance(gate, GPGate) and temperature == 0.0:
        return np.argmax(np.asarray(values), axis=0)
    if isinstance(gate, GPGate):
        values = gate.warp.inverse(np.asarray(values)) / temperature
    # By one uniform number per context: nothing to compile when there are more or fewer options.
    values = np.asarray(values)
    shares = np.exp(values - values.max(axis=0))
    cumulative = np.cumsum(shares, axis=0)
    drawn = np.asarray(jax.random.uniform(key, (shares.shape[1],))) * cumulative[-1]
    return np.argmax(cumulative > drawn, axis=0)
