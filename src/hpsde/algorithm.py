"""Algorithm 1 of the paper: one re-estimation of the hierarchical policy from all rollouts so far."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hpsde import gp
from hpsde.base.shapes import Array
from hpsde.mixture.estimation import Mixture
from hpsde.settings import Settings
from hpsde.steps import (
    climbers,
    discovery,
    gating,
    gaussian,
    landscape,
    latent,
    model_step,
    options,
    refinement,
    return_model,
    surface,
    valleys,
)
from hpsde.steps.climbing import Seen
from hpsde.steps.discovery import Found
from hpsde.steps.gating import Gate, GPGate
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.landscape import Landscape, View
from hpsde.steps.latent import Latent, Shown
from hpsde.steps.refinement import NOISE_SHARE
from hpsde.steps.rollouts import Data
from hpsde.steps.scouting import NARROW
from hpsde.steps.surface import Surface
from hpsde.steps.weighing import compute_weights, return_temperature
from hpsde.steps.weights import ImportanceWeights

LEAST_EFFECTIVE = 5.0  # samples that an option's policy search needs; with fewer it is as the mixture has it
SEARCH_GROWTH = 1.1  # of the number of rollouts before solutions are sought again
WIDEST = 0.5  # exploration that noise asks for, in kernel lengths
NEWEST = 50  # rollouts of the policy that say how it is doing
JUDGED = 17  # contexts of first rollouts in which the policy is compared with them:
BEST = 0.9  # its return should come up to this quantile of theirs,
GAINED = 0.9  # or at least so much of the way there from their median
AGAINST = 0.005  # of the range: so near a bound is against it
LONG = 1000  # learning steps since nothing has changed: at first
VARIANCE_FLOOR = 1e-6  # least variance of an option, in units of the first rollouts' variance


class Memory(NamedTuple):
    """What one re-estimation hands to the next: where to start from, what was found at first, and the options."""

    surface: surface.Start = surface.Start()
    landscape: Landscape | None = None
    temperature: float | None = None  # T of f, from the first rollouts
    mixture: Mixture | None = None  # of joint Gaussians
    options: LinearGaussian | None = None
    kept: np.ndarray | None = None
    distrusted: np.ndarray = np.zeros(0, dtype=bool)  # [N] rollouts whose returns are far too high
    numbers: np.ndarray | None = None  # [O] what each slot's option is called; 0: it has none
    next_number: int = 1
    found: Found | None = None  # by the last search for solutions,
    searched: int = 0  # and how many rollouts there were
    settled: int = LONG  # learning steps since the number of options last changed
    quiet: int = 0  # rollouts since all options are narrow and none was born or died
    climbs: np.ndarray = np.zeros((0, 0))  # [n, D] rollouts that climbs ask for next (steps/climbing.py),
    climbing: np.ndarray = np.zeros(0, dtype=int)  # and the slot of the option whose hill it is [n]; -1: nobody's


def with_slots(memory: Memory, count: int) -> Memory:
    """The memory for another number of slots of options, O_max. Options keep theirs where there are more; where there
    are fewer, all solutions are sought anew.
    """
    if memory.numbers is None or len(memory.numbers) == count:
        return memory
    searched = memory._replace(searched=0, mixture=None)
    more = count - len(memory.numbers)
    if more < 0 or memory.found is None or memory.options is None or memory.kept is None:
        return searched._replace(found=None, options=None, kept=None)
    found, free = memory.found, (0, more)
    return searched._replace(
        options=jax.tree.map(lambda part: jnp.concatenate([part, jnp.repeat(part[:1], more, axis=0)]), memory.options),
        kept=np.pad(memory.kept, free),
        numbers=np.pad(memory.numbers, free),
        found=found._replace(
            kept=np.pad(found.kept, free),
            born=np.pad(found.born, free),
            died=np.pad(found.died, free),
            absent=np.pad(found.absent, free),
        ),
    )


class Estimate(NamedTuple):
    """The hierarchical policy in standard units."""

    options: LinearGaussian  # O_max of them
    kept: np.ndarray  # [O] which of them exist
    gate: Gate
    mean_returns: np.ndarray  # [O] return-weighted mean return of each option's samples
    numbers: np.ndarray  # [O] what each option is called, from its birth on; 0: there is none


class StepInfo(NamedTuple):
    """What a plot, a test or a doubt needs to know of one re-estimation.

    explained: R^2 of the first rollouts, each predicted from all others. unexplored: share of the variance that is left
    between the first rollouts. maxima: solutions that the model shows. width: of the widest option, in kernel lengths.
    best_first: see `best_of_first`. outliers: rollouts whose returns are not believed. quiet: rollouts since all
    options are narrow and none was born or died.
    """

    ess: float
    temperature: float
    flattening: float
    options_kept: int
    lower_bound: float
    warm: bool
    born: tuple[int, ...] = ()
    died: tuple[int, ...] = ()
    explained: float = float("nan")
    maxima: int = 0
    width: float = float("nan")
    unexplored: float = float("nan")
    best_first: float = float("nan")
    outliers: int = 0
    quiet: int = 0


def reestimate(
    key: Array,
    data: Data,
    approximated: Surface | None,
    surveyed: Landscape | None,
    memory: Memory,
    settings: Settings,
    looks: dict[bytes, Seen] | None = None,
) -> tuple[Estimate, Memory, StepInfo]:
    """One pass of Algorithm 1's outer loop, from the rollouts D to the options and their gate.

    looks: what climbs have computed before (steps/climbing.py), to be kept for the next pass.
    """
    key_density, key_step = jax.random.split(key)
    # Compute the importance of each sample W~(s_i, xi_i).
    importance = compute_weights(data, memory.temperature, settings)
    # Estimate p(o | s_i, xi_i) through density estimation using W~.
    shown = None if surveyed is None else latent.show(data, surveyed)
    found = find_options(key_density, data, surveyed, shown, importance, memory, settings)
    climbs = climb(data, return_temperature(data, importance, settings), surveyed, settings, looks)
    if climbs is not None:
        found = climbers.hold(found, data, climbs, memory.kept, option_places(data, memory))
    weighted = found.responsibilities * np.asarray(importance.weights)
    # Train every option's policy.
    policies = gaussian.cut(train_options(data, found, weighted, memory, settings), data.limits)
    seen = data if approximated is None else return_model.smoothed(data, approximated)
    if surveyed is not None and approximated is not None:
        wider = explored(data, seen, found.responsibilities, surveyed, approximated)
        policies = policies._replace(Sigma=policies.Sigma + wider)
    if settings.model_step and approximated is not None:
        policies = improve_options(key_step, data, policies, found.kept, weighted, approximated)
    if settings.refine and surveyed is not None and shown is not None and not surveyed.binary:
        policies = refine_options(data, policies, found, memory, surveyed, shown.model)
    if climbs is not None:
        policies = climbers.on_tops(policies, data, found, climbs)
    # Train the gate.
    gate = train_gate(data, weighted, approximated, settings)
    mean_returns = weighted @ np.where(data.mask, data.returns, 0.0) / np.maximum(weighted.sum(axis=1), 1e-300)
    numbers, born, died = number_options(found, memory)
    estimate = Estimate(policies, found.kept, gate, mean_returns, numbers)
    width = widest(policies, found, surveyed)
    still = width < NARROW and not born and not died
    quiet = memory.quiet + data.rollouts - len(memory.distrusted) if still else 0
    info = StepInfo(
        ess=float(importance.ess),
        temperature=return_temperature(data, importance, settings),
        flattening=float(importance.flattening),
        options_kept=int(found.kept.sum()),
        lower_bound=found.bound,
        warm=found.warm,
        born=born,
        died=died,
        explained=explained(approximated, found),
        maxima=0 if found.found is None else found.found.separate,
        width=width,
        unexplored=float("nan") if found.found is None else found.found.unexplored,
        best_first=best_of_first(data, seen),
        outliers=data.rollouts - int(data.mask.sum()),
        quiet=quiet,
    )
    after = Memory(
        surface=surface.Start() if approximated is None else approximated.start,
        landscape=surveyed,
        temperature=None if surveyed is None and settings.density == "options" else float(importance.temperature),
        mixture=found.mixture,
        options=policies,
        kept=found.kept,
        distrusted=~data.mask[: data.rollouts],
        numbers=numbers,
        next_number=memory.next_number + len(born),
        found=found.found,
        searched=int(data.mask.sum()) if found.new else memory.searched,
        settled=LONG if memory.numbers is None else (0 if born or died else memory.settled + 1),
        quiet=quiet,
        climbs=np.zeros((0, 0)) if climbs is None else climbs.places,
        climbing=np.zeros(0, dtype=int) if climbs is None else climbers.owners(found, data, climbs),
    )
    return estimate, after, info


def climb(
    data: Data, temperature: float, surveyed: Landscape | None, settings: Settings, looks: dict[bytes, Seen] | None
) -> climbers.Climbs | None:
    """The climbs, where options are refined and returns are more than success or failure; None: there are none."""
    if not settings.refine or settings.density != "options" or (surveyed is not None and surveyed.binary):
        return None
    return climbers.survey(data, temperature, {} if looks is None else looks)


def option_places(data: Data, memory: Memory) -> np.ndarray:
    """Where the last options are, in the one context there is [O, D]."""
    if memory.options is None:
        return np.zeros((0, data.parameters.shape[1]))
    return np.asarray(gaussian.means(memory.options, jnp.asarray(data.features[:1])))[:, 0]


def find_options(
    key: Array,
    data: Data,
    surveyed: Landscape | None,
    shown: Shown | None,
    importance: ImportanceWeights,
    memory: Memory,
    settings: Settings,
) -> Latent:
    """p(o | s_i, xi_i) by the chosen density estimation; where nothing is known, one option has all rollouts."""
    if settings.density != "options":
        return latent.estimate_density(key, data, importance, memory.mixture, settings)
    if surveyed is None or shown is None:
        return latent.nothing_known(data, settings)
    fresh = surveyed is not memory.landscape
    if memory.found is not None and not fresh and not is_due(data, memory.found, memory.searched):
        return latent.as_found(data, memory.found)
    last = None
    if memory.found is not None and memory.options is not None and memory.kept is not None:
        last = discovery.Last(memory.options, memory.kept, memory.found.absent)
    return latent.find_solutions(key, data, surveyed, shown, fresh, importance, last, settings)


def is_due(data: Data, found: Found, searched: int) -> bool:
    """Whether solutions are to be sought again: there are more rollouts, or the last search has changed something."""
    return bool(np.any(found.born | found.died | found.absent)) or int(data.mask.sum()) >= SEARCH_GROWTH * searched


def number_options(found: Latent, memory: Memory) -> tuple[np.ndarray, tuple[int, ...], tuple[int, ...]]:
    """What each slot's option is called [O], and the names of those born and of those that died.

    A slot keeps its name as long as its option is the same; joint Gaussians have no memory but their slot. Where there
    are other slots than before, all options are new.
    """
    kept = found.kept
    before = np.zeros(len(kept), dtype=int) if memory.numbers is None else memory.numbers
    if len(before) != len(kept):
        numbers = np.where(kept, memory.next_number + np.cumsum(kept) - 1, 0)
        return numbers, tuple(numbers[kept].tolist()), tuple(before[before > 0].tolist())
    new = kept & (before == 0)
    if found.found is not None and found.new:
        new |= found.found.born & kept
    numbers = np.where(kept, before, 0)
    numbers[new] = memory.next_number + np.arange(new.sum())
    died = before[(before > 0) & ~np.isin(before, numbers)]
    return numbers, tuple(numbers[new].tolist()), tuple(died.tolist())


def combinations(surveyed: Landscape | None) -> np.ndarray | None:
    """Orthonormal combinations P [D, K] of the parameters that the return sees; None where these are all."""
    if surveyed is None or surveyed.view.V.shape[1] == len(surveyed.view.V):
        return None
    return surveyed.view.V / np.linalg.norm(surveyed.view.V, axis=0)


def explored(
    data: Data, seen: Data, responsibilities: np.ndarray, surveyed: Landscape, approximated: Surface
) -> np.ndarray:
    """Covariance [O, D, D] that an option explores with at least: over a way on which the return changes by a share of
    its noise, up to WIDEST kernel lengths.

    Over a much shorter way nothing is learned. What the process takes for noise may be a rough return: noise is no more
    than what an option's newest rollouts differ from the model by.
    """
    hyperparameters = approximated.process.hyperparameters
    noise = 0.0 if approximated.binary else float(jnp.exp(hyperparameters.log_noise - hyperparameters.log_signal))
    share = np.full(len(responsibilities), noise)
    squares = (data.returns - seen.returns) ** 2 / landscape.signal(surveyed) ** 2
    for o, belongs in enumerate(responsibilities > 0.5):
        own = np.flatnonzero(data.mask & ~data.initial & belongs)[-NEWEST:]
        if len(own) > 1:
            share[o] = min(noise, float(np.sqrt(np.mean(squares[own]))))
    L = surveyed.view.L
    return np.minimum(WIDEST, NOISE_SHARE * share)[:, None, None] ** 2 * (L.T @ L)[None]


def explained(approximated: Surface | None, found: Latent) -> float:
    """R^2 of the first rollouts, each predicted from all others by the landscape; where there is none, or returns are
    success or failure, what the surface explains.
    """
    if found.found is not None and np.isfinite(found.found.explained):
        return found.found.explained
    return float("nan") if approximated is None else surface.explained(approximated)


def judged(data: Data) -> np.ndarray:
    """Numbers of a few first rollouts, in whose contexts the policy is compared with them."""
    first = np.flatnonzero(data.mask & data.initial)
    return first[gp.spread_subset(len(first), JUDGED)]


def best_of_first(data: Data, seen: Data) -> float:
    """A return that a policy which has gained anything exceeds in the mean over the `judged` contexts: nearly the
    modelled one that a tenth of the first rollouts exceed, after what the context alone adds.

    It is somewhat less: no policy exceeds a success that many first rollouts have.
    """
    first = data.mask & data.initial
    if not first.any():
        return float("nan")
    typical, best = np.median(data.advantages[first]), np.quantile(seen.advantages[first], BEST)
    level = np.mean(np.broadcast_to(data.level, first.shape)[judged(data)])
    return float(level + typical + GAINED * (best - typical))


def share_outside(data: Data) -> float:
    """Share of the policy's newest rollouts that lie against or beyond the bounds of a uniform initial policy."""
    own = np.flatnonzero(data.mask & ~data.initial)[-NEWEST:]
    if data.range is None or not len(own):
        return float("nan")
    low, high = data.range
    near = AGAINST * (high - low)
    return float(np.mean(np.any((data.parameters[own] < low + near) | (data.parameters[own] > high - near), axis=1)))


def widest(policies: LinearGaussian, found: Latent, surveyed: Landscape | None) -> float:
    """The largest standard deviation of an option along what the return sees, in kernel lengths."""
    if surveyed is None:
        return float("nan")
    V = surveyed.view.V
    variance = np.einsum("dk,ode,ek->ok", V, np.asarray(policies.Sigma)[found.kept], V)
    return float(np.sqrt(variance.max()))


_fit_options = functools.partial(jax.jit, static_argnames=("update", "epsilon", "support", "ridge", "variance_floor"))(
    options.fit_options
)


def train_options(
    data: Data, found: Latent, weighted: np.ndarray, memory: Memory, settings: Settings
) -> LinearGaussian:
    """Every option's policy by the chosen policy search on the samples that belong to it.

    A new solution that has hardly any rollouts yet has the policy of the mixture, an older one stays as it is; where
    nothing is known, the one option is as wide as the initial policy.
    """
    base = weighted if settings.base == "weighted" else found.responsibilities
    # Options are worse at the edge of the contexts: that REPS keeps the mean alone would draw them to the middle.
    squares = data.contexts**2 if settings.match_squares else data.contexts[:, :0]
    total = weighted.sum(axis=1)
    policies = _fit_options(
        jnp.asarray(np.where(data.mask, data.advantages, 0.0)),
        jnp.asarray(data.features),
        jnp.asarray(np.hstack([data.features, squares])),
        jnp.asarray(data.parameters),
        jnp.asarray(base),
        jnp.asarray(weighted),
        jnp.asarray(found.kept & (total > 1e-300)),
        update=settings.update,
        epsilon=settings.epsilon,
        support=settings.support,
        ridge=settings.ridge,
        variance_floor=VARIANCE_FLOOR,
    )
    if settings.density != "options":
        return policies
    if found.found is None:
        wide = jnp.broadcast_to(jnp.eye(data.parameters.shape[1]), policies.Sigma.shape)
        return LinearGaussian(jnp.zeros_like(policies.b), jnp.zeros_like(policies.w), wide)
    few = found.kept & (total**2 < LEAST_EFFECTIVE * np.sum(weighted**2, axis=1))
    few |= found.kept & ~(total > 1e-300)
    own = discovery.component_policies(found.found, settings.max_options)
    if memory.found is not None and memory.options is not None:
        own = _where(found.found.born, own, gaussian.cut(memory.options, None))
    return _where(few, own, policies)


def _where(which: np.ndarray, one: LinearGaussian, other: LinearGaussian) -> LinearGaussian:
    """The options `which` [O] of one, and those of the other."""
    return jax.tree.map(lambda a, b: jnp.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b), one, other)


def improve_options(
    key: Array,
    data: Data,
    policies: LinearGaussian,
    kept: np.ndarray,
    weighted: np.ndarray,
    approximated: Surface,
) -> LinearGaussian:
    """The options after a step on the modelled return (model_step.py); one without rollouts moves in all contexts."""
    weighted = np.where(weighted.sum(axis=1, keepdims=True) > 0.0, weighted, data.mask / data.mask.sum())
    axes = jnp.eye(data.joint.shape[1]) if approximated.axes is None else approximated.axes
    arrays = (jnp.asarray(each) for each in (kept, data.contexts, data.features, weighted))
    return model_step.improve(key, approximated.process, axes, policies, *arrays)


def refine_options(
    data: Data, policies: LinearGaussian, found: Latent, memory: Memory, surveyed: Landscape, model: valleys.Model
) -> LinearGaussian:
    """The options at the optima that local models of the return show (steps/refinement.py)."""
    heights = option_heights(data, policies, found.kept, surveyed.view, model)
    good = good_contexts(heights, data.mask, model)
    old = np.zeros_like(found.kept) if memory.found is None or memory.kept is None else memory.kept.copy()
    if found.found is not None and found.new:
        old &= ~found.found.born
    belongs, arrays = found.responsibilities > 0.5, (data.features, data.parameters, data.advantages)
    refined = refinement.refine(
        policies, memory.options, found.kept, old, belongs, good, *arrays, data.features[data.mask]
    )
    # A local model can be of something else than the solution: an option does not fall by the depth of a valley.
    after = option_heights(data, refined, found.kept, surveyed.view, model)
    before, after = (np.where(good, np.minimum(each, surveyed.warp.scores[-1]), 0.0) for each in (heights, after))
    fallen = np.sum(before - after, axis=1) > valleys.DEPTH * model.temperature * good.sum(axis=1)
    return _where(fallen, policies, refined)


def option_heights(
    data: Data, policies: LinearGaussian, kept: np.ndarray, view: View, model: valleys.Model
) -> np.ndarray:
    """Scores of the options' means in the landscape, in the rollouts' contexts [O, N]; -inf: there is no option."""
    y = np.asarray(gaussian.means(policies, jnp.asarray(data.features)))[kept] @ view.V
    heights = np.full((len(kept), len(data.mask)), -np.inf)
    heights[kept] = valleys.heights(model, y, data.contexts)
    return heights


def good_contexts(heights: np.ndarray, mask: np.ndarray, model: valleys.Model) -> np.ndarray:
    """In which rollouts' contexts each option is nearly as good, beside the best, as anywhere [O, N].

    By the landscape, which keeps the view of the first rollouts. The gate's process resolves the best returns ever more
    finely: to it, what an option has still to gain looks like a context in which it is no good.
    """
    best = np.minimum(heights.max(axis=0), model.highest)
    tolerance = discovery.tolerance(best, model.temperature, float(model.process.mean))
    behind = (best - heights) / np.maximum(tolerance, 1e-300)
    least = np.maximum(behind[:, mask].min(axis=1, keepdims=True), 0.0)
    return (behind <= least + 1.0) & mask & np.isfinite(behind)


def train_gate(data: Data, weighted: np.ndarray, approximated: Surface | None, settings: Settings) -> Gate:
    """The gating policy: the Gaussian process itself, or what is learned from the options' samples."""
    if settings.gate == "marginal":
        return gating.fit_marginal(jnp.asarray(data.contexts), jnp.asarray(weighted))
    if settings.gate == "softmax" or approximated is None:
        return gating.fit_softmax(jnp.asarray(data.features), jnp.asarray(weighted))
    process, scores, warp, axes = approximated.process, approximated.scores, approximated.warp, approximated.axes
    return GPGate(process, scores, warp, axes, settings.greedy == "cautious", approximated.binary)
