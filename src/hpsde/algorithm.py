"""Algorithm 1 of the paper: one re-estimation of the hierarchical policy from all rollouts so far."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hpsde import density, gating, landscape, model_step, modes, options, surface, weights
from hpsde._shapes import Array
from hpsde.density import Mixture
from hpsde.embedding import LaplacianEigenmaps
from hpsde.gating import Gate, GPGate
from hpsde.gaussian import LinearGaussian
from hpsde.landscape import Landscape
from hpsde.settings import Settings

LEAST_MEMBERS = 5  # rollouts of an option, where it has rollouts of its own (hard assignment)
ENOUGH_EFFECTIVE = 25.0  # rollouts for every dimension that is clustered: from so many on they show the solutions


class Data(NamedTuple):
    """Rollouts in standard units, padded to few sizes; rows outside `mask` are padding."""

    contexts: np.ndarray  # [N, S]
    parameters: np.ndarray  # [N, D]
    returns: np.ndarray  # [N]
    features: np.ndarray  # [N, F]
    log_behaviour: np.ndarray  # [N] log pi_old, up to a constant
    mask: np.ndarray  # [N]
    initial: np.ndarray  # [N] which of them are the initial policy's

    @property
    def joint(self) -> np.ndarray:
        """Points [s, xi] [N, S + D]."""
        return np.concatenate([self.contexts, self.parameters], axis=1)


class Memory(NamedTuple):
    """What one re-estimation hands to the next: starts for mixture and Gaussian process, and what was found at first.

    That is the landscape, T, and whether the density is estimated from samples of the landscape.
    """

    mixture: Mixture | None = None  # along the directions of the landscape
    landscape: Landscape | None = None
    surface: surface.Start = surface.Start()
    temperature: float | None = None
    modelled: bool | None = None


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


def approximate_return(
    key: Array, data: Data, spreads: np.ndarray, memory: Memory, settings: Settings
) -> surface.Surface | None:
    """The Gaussian process that approximates the return function, with the directions in which the return varies.

    It comes first, and not after the options as in Algorithm 1: options are sought along those directions.
    `spreads` [D + S]: how much the numbers [xi, s] vary beside one another; see `rollouts.Units.spreads`.
    """
    if not surface.is_needed(int(data.mask.sum()), data.joint.shape[1], settings):
        return None
    return _fit_surface(key, data, None, spreads, memory.surface, settings)


def _fit_surface(
    key: Array, data: Data, temperature: float | None, spreads: np.ndarray, start: surface.Start, settings: Settings
) -> surface.Surface:
    # Which returns are good, for the warp; pi_old is not known yet, and not needed for that.
    share = np.asarray(compute_weights(data, temperature, settings).weights)
    size = data.contexts.shape[1]
    return surface.fit(key, data.joint, size, data.returns, share, data.mask, spreads, start, settings)


def survey(
    key: Array,
    data: Data,
    approximated: surface.Surface | None,
    spreads: np.ndarray,
    memory: Memory,
    settings: Settings,
) -> Landscape | None:
    """The landscape in which options are sought: the last one, or one that these rollouts show.

    The first is the surface itself. Later ones see as many initial rollouts as others, and returns at the T of f: the
    surface follows the policy, and what lies between the solutions is flat for it.
    """
    last, count = memory.landscape, int(data.mask.sum())
    if approximated is None or last is None:
        return None if approximated is None else landscape.make(approximated, count)
    if not landscape.is_old(last, count):
        return last
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    part = np.isin(np.arange(len(data.mask)), landscape.choose(rng, data.initial, data.mask))
    start = surface.Start(last.hyperparameters, None if last.axes is None else np.asarray(last.axes))
    found = _fit_surface(key, data._replace(mask=part), memory.temperature, spreads, start, settings)
    return landscape.make(found, count)


def reestimate(
    key: Array,
    data: Data,
    approximated: surface.Surface | None,
    surveyed: Landscape | None,
    memory: Memory,
    settings: Settings,
) -> tuple[Estimate, Memory, StepInfo]:
    """One pass of Algorithm 1's outer loop, from the rollouts D to the options and their gate."""
    # Compute the importance of each sample W~(s_i, xi_i).
    importance = compute_weights(data, memory.temperature, settings)
    # Estimate p(o | s_i, xi_i) through density estimation using W~.
    key, key_samples, key_step = jax.random.split(key, 3)
    points = embed(data, surveyed, settings)
    # Other directions, or an embedding, are other coordinates: nothing to start from.
    start = memory.mixture if surveyed is memory.landscape and not settings.embedding_dimensions else None
    modelled = is_modelled(float(importance.ess), points.shape[1], memory, settings)
    if surveyed is not None and modelled:
        target, shares = draw_target(key_samples, data, surveyed, importance, settings)
        mixture, fitted = estimate_density(
            key, target, embed(target, surveyed, settings), shares, surveyed, start, settings
        )
    else:
        mixture, fitted = estimate_density(key, data, points, importance, surveyed, start, settings)
    # Assign the rollouts to the options with enough weight.
    mixture, kept, responsibilities = assign(mixture, points, data.mask, settings)
    weighted = responsibilities * np.asarray(importance.weights)
    kept = kept & (weighted.sum(axis=1) > 1e-300)  # where the model promises more than it should, none has any weight
    # Train every option's policy.
    policies = train_options(data, kept, responsibilities, weighted, settings)
    if settings.model_step and approximated is not None:
        policies = improve_options(key_step, data, policies, kept, weighted, approximated)
    # Train the gate.
    gate = train_gate(data, weighted, approximated, settings)
    mean_returns = weighted @ np.where(data.mask, data.returns, 0.0) / np.maximum(weighted.sum(axis=1), 1e-300)
    estimate = Estimate(policies, kept, gate, mean_returns)
    info = StepInfo(
        ess=float(importance.ess),
        temperature=return_temperature(data, importance, settings),
        flattening=float(importance.flattening),
        options_kept=int(kept.sum()),
        lower_bound=float(fitted.lower_bound),
        warm=start is not None and int(fitted.chosen) == len(fitted.bounds) - 1,
    )
    temperature = float(importance.temperature) if settings.constant_temperature else None
    begun = surface.Start() if approximated is None else approximated.start
    return estimate, Memory(mixture, surveyed, begun, temperature, modelled), info


_importance_weights = functools.partial(jax.jit, static_argnames=("baseline", "flattening"))(weights.importance_weights)


def compute_weights(data: Data, temperature: float | None, settings: Settings) -> weights.ImportanceWeights:
    """W~ of every rollout; see weights.py. `temperature` is that of the first rollouts, where it is known already."""
    log_f = np.zeros(len(data.mask))
    log_f[data.mask] = weights.log_return_function(settings.f, data.returns[data.mask])
    if settings.temperature is not None:
        temperature = settings.temperature
    elif settings.f == "linear" or callable(settings.f):
        temperature = 1.0
    return _importance_weights(
        jnp.asarray(log_f),
        jnp.asarray(data.features),
        jnp.asarray(data.log_behaviour),
        jnp.asarray(data.mask),
        baseline=settings.f == "advantage",
        temperature=None if temperature is None else jnp.asarray(temperature),
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


def is_modelled(ess: float, dimensions: int, memory: Memory, settings: Settings) -> bool:
    """Whether the density is estimated from samples of the landscape: by default where too few rollouts have weight.

    That is decided once. Later rollouts are where the policy is, however many: what they do not show is not gone.
    """
    if settings.embedding_dimensions:  # an eigenmap is one of rollouts
        return False
    if settings.target != "automatic":
        return settings.target == "modelled"
    return ess < ENOUGH_EFFECTIVE * dimensions if memory.modelled is None else memory.modelled


def draw_target(
    key: Array, data: Data, surveyed: Landscape, importance: weights.ImportanceWeights, settings: Settings
) -> tuple[Data, weights.ImportanceWeights]:
    """Samples of the density to be estimated, drawn by the modelled return, and their weights by f."""
    T, size = return_temperature(data, importance, settings), data.contexts.shape[1]
    share = np.asarray(importance.weights)
    drawn = landscape.sample(key, surveyed, data.joint, size, data.returns, share, data.initial, data.mask, T)
    every, returns = np.ones(len(drawn.rows), dtype=bool), drawn.returns
    if settings.f == "linear" or callable(settings.f):  # f may know no returns but those that rollouts have
        returns = np.clip(returns, data.returns[data.mask].min(), data.returns[data.mask].max())
    target = Data(
        contexts=drawn.joint[:, :size],
        parameters=drawn.joint[:, size:],
        returns=returns,
        features=data.features[drawn.rows],
        log_behaviour=np.zeros(len(every)),
        mask=every,
        initial=every,
    )
    return target, compute_weights(target, float(importance.temperature), settings)


def embed(data: Data, surveyed: Landscape | None, settings: Settings) -> np.ndarray:
    """The points that are clustered: [s, xi], what the return sees of it, or its Laplacian eigenmap."""
    if settings.embedding_dimensions:
        return LaplacianEigenmaps(dimensions=settings.embedding_dimensions).fit(data.joint, data.mask).coordinates
    if surveyed is None or surveyed.directions is None:
        return data.joint
    return data.joint @ surveyed.directions


def estimate_density(
    key: Array,
    data: Data,
    points: np.ndarray,
    importance: weights.ImportanceWeights,
    surveyed: Landscape | None,
    start: Mixture | None,
    settings: Settings,
) -> tuple[Mixture, density.FitInfo]:
    """The weighted mixture over the points. Weights are counts: what they sum to is what the data weigh."""
    n = float(data.mask.sum())
    share, ess = weights.truncated(importance.weights, 1.0 / np.sqrt(n) if settings.truncation else 1.0)
    total = {"ess": float(ess), "n": n, "one": 1.0}[settings.weight_sum]
    if settings.coarsening:
        # Coarsened posterior: n misfitting samples count as n alpha / (n + alpha) (Miller and Dunson 2019).
        size = data.joint.shape[1]
        alpha = settings.coarsening * (1 + size * (size + 3) // 2)
        total = total * alpha / (total + alpha)
    counts = share * total
    x = jnp.asarray(points)
    prior = density.default_prior(x, counts, settings.max_options)
    relevance = None if surveyed is None else surveyed.relevance
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
        emphasis=None if relevance is None else jnp.asarray(relevance),
    )


def assign(
    mixture: Mixture, points: np.ndarray, mask: np.ndarray, settings: Settings
) -> tuple[Mixture, np.ndarray, np.ndarray]:
    """The mixture of the Gaussians with enough weight, which stand for options [O], and p(o | s_i, xi_i) [O, N].

    One Gaussian stands for each mode; see modes.py.
    """
    mass = np.asarray(mixture.mass)
    kept = mass >= settings.minimum_share * mass.sum()
    kept &= mass > 0.0
    kept[np.argmax(mass)] = True
    mixture = density.select(mixture, jnp.asarray(kept))
    responsibilities = np.exp(np.asarray(_log_responsibilities(mixture, jnp.asarray(points)))).T
    mode = modes.join(mixture, kept, settings.valley)
    responsibilities = (mode[None, :] == np.arange(len(kept))[:, None]) @ responsibilities
    kept = kept & (mode == np.arange(len(kept)))
    if settings.assignment == "hard":
        best = responsibilities.argmax(axis=0)
        # An option may be the likeliest of few rollouts, or of none: these go to others.
        members = np.bincount(best[mask], minlength=len(kept))
        kept = kept & (members >= min(LEAST_MEMBERS, members.max()))
        best = np.where(kept[:, None], responsibilities, -1.0).argmax(axis=0)
        responsibilities = (np.arange(len(kept))[:, None] == best).astype(float)
        mixture = density.select(mixture, jnp.asarray(np.isin(mode, np.flatnonzero(kept))))
    return mixture, kept, responsibilities * mask


_log_responsibilities = jax.jit(density.log_responsibilities)


_fit_options = functools.partial(jax.jit, static_argnames=("update", "epsilon", "support", "ridge", "variance_floor"))(
    options.fit_options
)


def train_options(
    data: Data, kept: np.ndarray, responsibilities: np.ndarray, weighted: np.ndarray, settings: Settings
) -> LinearGaussian:
    """Every option's policy by the chosen policy search on the samples that belong to it."""
    base = weighted if settings.base == "weighted" else responsibilities
    # Options are worse at the edge of the contexts: that REPS keeps the mean alone would draw them to the middle.
    squares = data.contexts**2 if settings.match_squares else data.contexts[:, :0]
    return _fit_options(
        jnp.asarray(np.where(data.mask, data.returns, 0.0)),
        jnp.asarray(data.features),
        jnp.asarray(np.hstack([data.features, squares])),
        jnp.asarray(data.parameters),
        jnp.asarray(base),
        jnp.asarray(weighted),
        jnp.asarray(kept),
        update=settings.update,
        epsilon=settings.epsilon,
        support=settings.support,
        ridge=settings.ridge,
        variance_floor=settings.variance_floor,
    )


def improve_options(
    key: Array,
    data: Data,
    policies: LinearGaussian,
    kept: np.ndarray,
    weighted: np.ndarray,
    approximated: surface.Surface,
) -> LinearGaussian:
    """The options after a step on the modelled return; see model_step.py."""
    axes = jnp.eye(data.joint.shape[1]) if approximated.axes is None else approximated.axes
    arrays = (jnp.asarray(each) for each in (kept, data.contexts, data.features, weighted))
    return model_step.improve(key, approximated.process, axes, policies, *arrays)


def train_gate(data: Data, weighted: np.ndarray, approximated: surface.Surface | None, settings: Settings) -> Gate:
    """The gating policy: the Gaussian process itself, or what is learned from the options' samples."""
    if settings.gate == "marginal":
        return gating.fit_marginal(jnp.asarray(data.contexts), jnp.asarray(weighted))
    if settings.gate == "softmax" or approximated is None:
        return gating.fit_softmax(jnp.asarray(data.features), jnp.asarray(weighted))
    process, scores, warp, axes = approximated.process, approximated.scores, approximated.warp, approximated.axes
    return GPGate(process, scores, warp, axes, settings.greedy == "cautious")
