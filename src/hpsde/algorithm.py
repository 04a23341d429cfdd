"""Algorithm 1 of the paper: one re-estimation of the hierarchical policy from all rollouts so far."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hpsde import density, gating, gp, options, weights
from hpsde._padding import pad_rows, padded_size
from hpsde._shapes import Array
from hpsde.density import Mixture
from hpsde.embedding import LaplacianEigenmaps
from hpsde.gating import Gate, GPGate
from hpsde.gaussian import LinearGaussian
from hpsde.settings import Settings
from hpsde.warp import fit_warp


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

    options: LinearGaussian  # O_max of them
    kept: np.ndarray  # [O] which of them exist
    gate: Gate
    mean_returns: np.ndarray  # [O] return-weighted mean return of each option's samples


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
    points = embed(data, settings)
    mixture, fitted = estimate_density(key_density, points, importance, data.mask, memory.mixture, settings)
    # Assign the samples to the options with enough weight.
    mixture, kept, responsibilities = assign(mixture, points, data.mask, settings)
    weighted = responsibilities * np.asarray(importance.weights)
    # Train every option's policy.
    policies = train_options(data, kept, responsibilities, weighted, settings)
    # Train the gate: the Gaussian process that approximates the return function.
    gate, hyperparameters = train_gate(key_gate, data, weighted, memory.hyperparameters, settings)
    mean_returns = weighted @ np.where(data.mask, data.returns, 0.0) / np.maximum(weighted.sum(axis=1), 1e-300)
    estimate = Estimate(policies, kept, gate, mean_returns)
    info = StepInfo(
        ess=float(importance.ess),
        temperature=return_temperature(data, importance, settings),
        flattening=float(importance.flattening),
        options_kept=int(kept.sum()),
        lower_bound=float(fitted.lower_bound),
        warm=memory.mixture is not None and int(fitted.chosen) == len(fitted.bounds) - 1,
    )
    return estimate, Memory(mixture, hyperparameters), info


_importance_weights = functools.partial(jax.jit, static_argnames=("baseline", "temperature", "flattening"))(
    weights.importance_weights
)


def compute_weights(data: Data, settings: Settings) -> weights.ImportanceWeights:
    """W~ of every rollout; see weights.py."""
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
        target_ess=jnp.asarray(wanted_ess(data, settings)),
        kl_bound=jnp.asarray(settings.kl_bound),
        flattening=settings.flattening,
        ess_floor=jnp.asarray(settings.ess_floor),
    )


def wanted_ess(data: Data, settings: Settings) -> float:
    """Effective samples to leave: a share of the rollouts, but where they are few some for every dimension."""
    count = float(data.mask.sum())
    dimensions = data.contexts.shape[1] + data.parameters.shape[1]
    return max(settings.target_ess * count, min(3.0 * (dimensions + 1), 0.25 * count))


def return_temperature(data: Data, importance: weights.ImportanceWeights, settings: Settings) -> float:
    """T in units of the returns: that of f, or where f has none there, the deviation of the weighted returns."""
    if settings.f in ("advantage", "exp"):
        return float(importance.temperature)
    share, returns = np.asarray(importance.weights)[data.mask], data.returns[data.mask]
    return float(np.sqrt(share @ (returns - share @ returns) ** 2)) or 1.0


def embed(data: Data, settings: Settings) -> np.ndarray:
    """The points that are clustered: [s, xi], or their Laplacian eigenmap."""
    joint = np.concatenate([data.contexts, data.parameters], axis=1)
    if settings.embedding_dimensions == 0:
        return joint
    return LaplacianEigenmaps(dimensions=settings.embedding_dimensions).fit(joint, data.mask).coordinates


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
    if settings.coarsening:
        # Coarsened posterior: n misfitting samples count as n alpha / (n + alpha) (Miller and Dunson 2019).
        alpha = settings.coarsening * (1 + points.shape[1] * (points.shape[1] + 3) // 2)
        total = total * alpha / (total + alpha)
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
        resolution=settings.resolution,
    )


def assign(
    mixture: Mixture, points: np.ndarray, mask: np.ndarray, settings: Settings
) -> tuple[Mixture, np.ndarray, np.ndarray]:
    """The mixture of the options with enough weight, which those are [O], and p(o | s_i, xi_i) [O, N] among them."""
    mass = np.asarray(mixture.mass)
    kept = mass >= settings.minimum_share * mass.sum()
    kept &= mass > 0.0
    kept[np.argmax(mass)] = True
    mixture = density.select(mixture, jnp.asarray(kept))
    responsibilities = np.exp(np.asarray(_log_responsibilities(mixture, jnp.asarray(points)))).T
    if settings.assignment == "hard":
        best = responsibilities.argmax(axis=0)
        responsibilities = (np.arange(len(kept))[:, None] == best).astype(float)
        kept = kept & np.isin(np.arange(len(kept)), best[mask])  # an option may be the likeliest of no sample
        mixture = density.select(mixture, jnp.asarray(kept))
    return mixture, kept, responsibilities * mask


_log_responsibilities = jax.jit(density.log_responsibilities)


_fit_options = functools.partial(jax.jit, static_argnames=("update", "epsilon", "ridge", "variance_floor"))(
    options.fit_options
)


def train_options(
    data: Data, kept: np.ndarray, responsibilities: np.ndarray, weighted: np.ndarray, settings: Settings
) -> LinearGaussian:
    """Every option's policy by the chosen policy search on the samples that belong to it."""
    base = weighted if settings.base == "weighted" else responsibilities
    return _fit_options(
        jnp.asarray(np.where(data.mask, data.returns, 0.0)),
        jnp.asarray(data.features),
        jnp.asarray(data.parameters),
        jnp.asarray(base),
        jnp.asarray(weighted),
        jnp.asarray(kept),
        update=settings.update,
        epsilon=settings.epsilon,
        ridge=settings.ridge,
        variance_floor=settings.variance_floor,
    )


def train_gate(
    key: Array, data: Data, weighted: np.ndarray, start: gp.Hyperparameters | None, settings: Settings
) -> tuple[Gate, gp.Hyperparameters | None]:
    """The gating policy, and the Gaussian process's hyper-parameters to start from next time."""
    if settings.gate == "softmax":
        return gating.fit_softmax(jnp.asarray(data.features), jnp.asarray(weighted)), start
    if settings.gate == "marginal":
        return gating.fit_marginal(jnp.asarray(data.contexts), jnp.asarray(weighted)), start
    rows = np.flatnonzero(data.mask)
    scores, warp = fit_warp(data.returns[rows], weighted.sum(axis=0)[rows], settings.warp)
    points = gp.choose_points(key, len(rows), settings.gp_max_points)
    z = np.concatenate([data.parameters, data.contexts], axis=1)[rows[points]]
    size = len(data.mask) if len(points) == len(rows) else padded_size(len(points))
    z, y, mask = pad_rows(z, size), pad_rows(scores[points], size), np.arange(size) < len(points)
    hyperparameters, _ = gp.fit_hyperparameters(
        z, y, mask, start, isotropic=settings.isotropic, fit_points=settings.gp_fit_points
    )
    return GPGate(gp.posterior(hyperparameters, z, y, mask), jnp.asarray(y), warp), hyperparameters
