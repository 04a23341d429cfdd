"""Algorithm 1 of the paper: one re-estimation of the hierarchical policy from all rollouts so far."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hpsde import density, gating, gp, options, weights
from hpsde._padding import pad_rows, padded_size
from hpsde._shapes import Array, Bool, Float
from hpsde.density import Mixture
from hpsde.embedding import LaplacianEigenmaps
from hpsde.gating import Gate, GPGate
from hpsde.gaussian import LinearGaussian
from hpsde.settings import Settings
from hpsde.warp import fit_warp

OPTION_BLOCK = 4  # kept options are padded to a multiple of this, so that compiled functions see few sizes


class Data(NamedTuple):
    """Rollouts in standard units, padded to few sizes; rows outside `mask` are padding."""

    contexts: np.ndarray  # [N, S]
    parameters: np.ndarray  # [N, D]
    returns: np.ndarray  # [N]
    features: np.ndarray  # [N, F]
    log_behaviour: np.ndarray  # [N] log pi_old
    mask: np.ndarray  # [N]


class Memory(NamedTuple):
    """What one re-estimation hands to the next: starts for the mixture and for the Gaussian process."""

    mixture: Mixture | None = None
    hyperparameters: gp.Hyperparameters | None = None


class Estimate(NamedTuple):
    """The hierarchical policy in standard units."""

    options: LinearGaussian  # [P] padded
    kept: np.ndarray  # [P] which of them exist
    gate: Gate
    mean_returns: np.ndarray  # [P] return-weighted mean return of each option's samples
    responsibilities: np.ndarray  # [P, N] p(o | s_i, xi_i)


class StepInfo(NamedTuple):
    """What a plot or a test needs to know of one re-estimation."""

    ess: float
    temperature: float
    flattening: float
    options_kept: int
    lower_bound: float
    warm: bool


def reestimate(key: Array, data: Data, memory: Memory, settings: Settings) -> tuple[Estimate, Memory, StepInfo]:
    """One pass of Algorithm 1's outer loop, from the rollouts D to the options and their gate."""
    key_density, key_gate = jax.random.split(key)
    # Compute the importance of each sample W~(s_i, xi_i).
    importance = compute_weights(data, settings)
    # Estimate p(o | s_i, xi_i) through density estimation using W~.
    points = embed(data, importance.weights, settings)
    mixture, fitted = estimate_density(key_density, points, importance, data.mask, memory.mixture, settings)
    # Assign the samples to options.
    kept_mixture, responsibilities, kept = assign(mixture, points, data.mask, settings)
    # Train every option's policy.
    base = responsibilities * np.asarray(importance.weights)
    policies, mean_returns = train_options(data, base, settings)
    # Train the gate: the Gaussian process that approximates the return function.
    gate, hyperparameters = train_gate(key_gate, data, base, importance.weights, memory.hyperparameters, settings)
    estimate = Estimate(policies, kept, gate, mean_returns, responsibilities)
    info = StepInfo(
        ess=float(importance.ess),
        temperature=float(importance.temperature),
        flattening=float(importance.flattening),
        options_kept=int(kept.sum()),
        lower_bound=float(fitted.lower_bound),
        warm=memory.mixture is not None and int(fitted.chosen) == len(fitted.bounds) - 1,
    )
    return estimate, Memory(kept_mixture, hyperparameters), info


_importance_weights = functools.partial(
    jax.jit, static_argnames=("baseline", "temperature", "flattening")
)(weights.importance_weights)


def compute_weights(data: Data, settings: Settings) -> weights.ImportanceWeights:
    """W~ of every rollout; see weights.py."""
    count = int(data.mask.sum())
    log_f = np.zeros(len(data.mask))
    log_f[data.mask] = weights.log_return_function(settings.f, data.returns[data.mask])
    fixed = settings.f == "linear" or callable(settings.f)
    return _importance_weights(
        jnp.asarray(log_f),
        jnp.asarray(data.features),
        jnp.asarray(data.log_behaviour),
        jnp.asarray(data.mask),
        baseline=settings.f == "advantage",
        temperature=(settings.temperature or 1.0) if fixed else settings.temperature,
        target_ess=jnp.asarray(max(settings.target_ess * count, 1.0)),
        flattening=settings.flattening,
        ess_floor=jnp.asarray(settings.ess_floor),
    )


def embed(data: Data, importance: Float[Array, " N"], settings: Settings) -> np.ndarray:
    """The points that are clustered: [s, xi], or their Laplacian eigenmap."""
    joint = np.concatenate([data.contexts, data.parameters], axis=1)
    if settings.embedding_dimensions == 0:
        return joint
    points = joint[data.mask]
    fitted = LaplacianEigenmaps(dimensions=settings.embedding_dimensions).fit(points)
    return pad_rows(np.asarray(fitted.coordinates), len(data.mask))


def estimate_density(
    key: Array,
    points: np.ndarray,
    importance: weights.ImportanceWeights,
    mask: np.ndarray,
    warm: Mixture | None,
    settings: Settings,
) -> tuple[Mixture, density.FitInfo]:
    """The weighted mixture over the points. Weights are counts: what they sum to is what the data weigh."""
    total = {"ess": float(importance.ess), "n": float(mask.sum()), "one": 1.0}[settings.weight_sum]
    counts = importance.weights * total
    x = jnp.asarray(points)
    prior = density.default_prior(x, counts, settings.max_options)
    # An embedding has new coordinates every time: nothing to start from.
    start = None if settings.embedding_dimensions else warm
    return density.fit(
        key,
        x,
        counts,
        prior,
        max_components=settings.max_options,
        restarts=settings.restarts,
        warm=start,
        method=settings.density,
    )


def assign(
    mixture: Mixture, points: np.ndarray, mask: np.ndarray, settings: Settings
) -> tuple[Mixture, np.ndarray, np.ndarray]:
    """Options with enough weight, and p(o | s_i, xi_i) [P, N] among them, padded to a multiple of a block."""
    mass = np.asarray(mixture.mass)
    enough = mass >= max(settings.minimum_share * mass.sum(), 1e-12)
    enough[np.argmax(mass)] = True
    kept_mixture = density.select(mixture, jnp.asarray(enough))
    responsibilities = np.exp(np.asarray(_log_responsibilities(kept_mixture, jnp.asarray(points)))).T[enough]
    if settings.assignment == "hard":
        best = responsibilities.argmax(axis=0)
        responsibilities = (np.arange(len(responsibilities))[:, None] == best).astype(float)
    count = len(responsibilities)
    size = OPTION_BLOCK * -(-count // OPTION_BLOCK)
    kept = np.arange(size) < count
    return kept_mixture, pad_rows(responsibilities * mask, size), kept


_log_responsibilities = jax.jit(density.log_responsibilities)


@functools.partial(jax.jit, static_argnames=("update", "epsilon", "ridge", "variance_floor"))
def _train(
    returns: Float[Array, " N"],
    features: Float[Array, "N F"],
    parameters: Float[Array, "N D"],
    base: Float[Array, "O N"],
    **settings: float | str,
) -> tuple[LinearGaussian, Float[Array, " O"]]:
    fitted, _ = options.fit_options(returns, features, parameters, base, **settings)  # type: ignore[arg-type]
    return fitted, base @ returns / jnp.maximum(jnp.sum(base, axis=1), 1e-300)


def train_options(data: Data, base: np.ndarray, settings: Settings) -> tuple[LinearGaussian, np.ndarray]:
    """Every option's policy by the chosen policy search, and the mean return of its samples."""
    fitted, mean_returns = _train(
        jnp.asarray(np.where(data.mask, data.returns, 0.0)),
        jnp.asarray(data.features),
        jnp.asarray(data.parameters),
        jnp.asarray(base),
        update=settings.update,
        epsilon=settings.epsilon,
        ridge=settings.ridge,
        variance_floor=settings.variance_floor,
    )
    return fitted, np.asarray(mean_returns)


def train_gate(
    key: Array,
    data: Data,
    base: np.ndarray,
    importance: Float[Array, " N"],
    start: gp.Hyperparameters | None,
    settings: Settings,
) -> tuple[Gate, gp.Hyperparameters | None]:
    """The gating policy, and the Gaussian process's hyper-parameters to start from next time."""
    if settings.gate == "softmax":
        return gating.fit_softmax(jnp.asarray(data.features), jnp.asarray(base)), start
    if settings.gate == "marginal":
        return gating.fit_marginal(jnp.asarray(data.contexts), jnp.asarray(base)), start
    scores = np.zeros(len(data.mask))
    scores[data.mask], warp = fit_warp(data.returns[data.mask], settings.warp, np.asarray(importance)[data.mask])
    z = np.concatenate([data.parameters, data.contexts], axis=1)
    points = gp.choose_points(key, int(data.mask.sum()), settings.gp_max_points)
    rows = padded_size(len(points))
    z, scores, mask = pad_rows(z[points], rows), pad_rows(scores[points], rows), np.arange(rows) < len(points)
    hyperparameters, _ = gp.fit_hyperparameters(
        z, scores, mask, start, isotropic=settings.isotropic, fit_points=settings.gp_fit_points
    )
    process = gp.condition(hyperparameters, jnp.asarray(z), jnp.asarray(scores), jnp.asarray(mask), 0.0)
    return GPGate(process, jnp.asarray(scores), warp), hyperparameters
