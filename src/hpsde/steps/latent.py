"""Latent options: p(o | s, xi) through density estimation (paper, "Return-Weighted Density Estimation").

By default the density is that of samples of the modelled return, and its mixture one of option policies (discovery.py).
The paper's own form estimates a mixture of joint Gaussians over [s, xi], or over its Laplacian eigenmap, from the
rollouts weighted by W~ (mixture/estimation.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np

from hpsde import gp
from hpsde.base.arrays import as_numpy
from hpsde.base.draws import generator, jax_key
from hpsde.base.groups import Group, setting
from hpsde.base.joint import parameters_first
from hpsde.base.shapes import Array
from hpsde.base.with_jax import with_jax
from hpsde.mixture.model import DENSITY_METHODS, Mixture
from hpsde.steps import authors, discovery, gaussian, valleys, weights
from hpsde.steps import landscape as landscapes
from hpsde.steps.configuration import LatentSettings
from hpsde.steps.discovery import Found, Last
from hpsde.steps.landscape import Landscape
from hpsde.steps.rollouts import Data
from hpsde.steps.weighing import weigh

PER_NUMBER = 15  # rollouts for each number of an option and parameter, or features are not considered
SLIGHT = 50.0  # nats
RESTARTS = 8  # of the mixture of joint Gaussians, besides the last one


@dataclass(frozen=True)
class Density(Group):
    """The density estimation that finds the options, and the rollouts that look for more of them."""

    family = "density"
    shorthand = "kind"
    kind: str = setting(
        "options",
        "A mixture of option policies on samples of the modelled return (options), or the paper's mixture of joint "
        "Gaussians on weighted rollouts, by variational Bayes (vb), as in the authors' code (authors), or by maximum "
        "likelihood (em); or, without a context and without noise, climbs in regions that start far from one another "
        "(regions).",
        choices=("options", *DENSITY_METHODS, "authors", "regions"),
    )
    weight_sum: str = setting(
        "ess",
        "What the weights of rollouts sum to for joint Gaussians: their effective number, their number, or one (the "
        "paper's appendix).",
        choices=("ess", "n", "one"),
    )
    embedding_dimensions: int = setting(
        0,
        "Dimensions of the Laplacian eigenmaps before joint Gaussians are estimated; 0: no eigenmaps.",
        low=0,
        high=1_000,
    )
    scouts: float = setting(
        0.5,
        "Rollouts that go where the model knows little and a solution may lie: at most this share of what is asked at "
        "once, and 50 in all until the options are narrow. 0: none.",
        low=0.0,
        high=1.0,
        common=True,
    )


class Latent(NamedTuple):
    """Which options exist [O], and p(o | s_i, xi_i) [O, N]; with the mixture that says so, and its bound."""

    kept: np.ndarray
    responsibilities: np.ndarray
    bound: float = 0.0
    warm: bool = False
    found: Found | None = None
    mixture: Mixture | None = None
    new: bool = True  # sought by this very step


def nothing_known(data: Data, settings: LatentSettings) -> Latent:
    """One option that has all rollouts."""
    kept = np.arange(settings.max_options) == 0
    return Latent(kept, kept[:, None] * data.mask[None].astype(float))


class Shown(NamedTuple):
    """The landscape given the rollouts: its model of the return, and the numbers of the rollouts that it sees."""

    model: valleys.Model
    chosen: np.ndarray


@overload
def show(data: Data, landscape: Landscape) -> Shown: ...
@overload
def show(data: Data, landscape: Landscape | None) -> Shown | None: ...
def show(data: Data, landscape: Landscape | None) -> Shown | None:
    """The landscape given these rollouts, where there is one."""
    if landscape is None:
        return None
    process, chosen = conditioned(data, landscape)
    axes = landscapes.axes_of(landscape, data.joint.shape[1])
    highest = float(landscapes.scores_of(landscape, data.advantages[chosen]).max())
    if landscape.binary:  # n rollouts cannot show higher log odds than that all of n succeed
        highest = float(np.log(len(chosen) + 1.0))
    return Shown(valleys.Model(process, axes, landscape.view.L, landscape.temperature, highest), chosen)


def find_solutions(
    key: Array,
    data: Data,
    landscape: Landscape,
    shown: Shown,
    fresh: bool,
    importance: weights.ImportanceWeights,
    last: Last | None,
    settings: LatentSettings,
) -> Latent:
    """The solutions that the landscape shows; `fresh` says that it is another than the last time."""
    process, chosen = shown.model.process, shown.chosen
    rng = generator(key)
    given, _ = _samples(key, rng, data, landscape, process, importance.weights, last, settings)
    size = data.contexts.shape[1]
    usable = np.flatnonzero(data.mask)
    anchors = usable[gp.spread_subset(len(usable), discovery.ANCHORS if size else 1)]
    found = discovery.discover(
        rng,
        given,
        (data.contexts[anchors], data.features[anchors]),
        shown.model,
        landscape.view,
        last,
        fresh,
        settings.max_options,
        settings.density.scouts > 0.0,
    )
    first = np.flatnonzero(data.initial[chosen])
    found = found._replace(
        unexplored=landscapes.unexplored(landscape, process, first),
        explained=landscapes.explained(landscape, process, data.advantages[chosen[first]], first),
    )
    return as_found(data, found)._replace(new=True)


def choose_features(
    key: Array, data: Data, landscape: Landscape, candidates: Sequence[np.ndarray], settings: LatentSettings
) -> int:
    """Model selection: which of the candidate features [N, F], the fewest first, suit the landscape's solutions.

    Candidates are compared by the evidence lower bound of a mixture of option policies on samples of the landscape, so
    that superfluous features cost more than they gain. But the samples are wider than the options will be, which hides
    a slight bend, and noise bends the landscape: the second candidate is taken unless another is better by SLIGHT nats.
    Candidates with too few rollouts for each of an option's numbers are not considered.
    """
    process, _ = conditioned(data, landscape)
    share = data.mask / data.mask.sum()
    given, rows = _samples(key, generator(key), data, landscape, process, share, None, settings)
    enough = [each.shape[1] + 1 <= data.mask.sum() / PER_NUMBER for each in candidates]
    bounds = [
        discovery.evidence(generator(key), given._replace(features=each[rows]), landscape.view, settings.max_options)
        for place, each in enumerate(candidates)
        if place == 0 or all(enough[: place + 1])
    ]
    likeliest = int(np.argmax(bounds))
    return 1 if len(bounds) > 1 and bounds[likeliest] - bounds[1] < SLIGHT else likeliest


def with_features(
    key: Array,
    data: Data,
    landscape: Landscape | None,
    candidates: Sequence[tuple[np.ndarray, int]],
    settings: LatentSettings,
) -> tuple[Data, int | None]:
    """The rollouts with the features that suit the solutions, and which these are; None: there was no choice."""
    if landscape is None or not candidates:
        return data, None
    chosen = choose_features(key, data, landscape, [_plain(*each) for each in candidates], settings)
    features, bends = candidates[chosen]
    return data._replace(features=features, bends=bends), chosen


def _plain(features: np.ndarray, bends: int) -> np.ndarray:
    return features[:, : features.shape[1] - bends]


def _samples(
    key: Array,
    rng: np.random.Generator,
    data: Data,
    landscape: Landscape,
    process: gp.GP,
    share: np.ndarray,
    last: Last | None,
    settings: LatentSettings,
) -> tuple[discovery.Given, np.ndarray]:
    """Samples of the landscape, and the rows of the rollouts whose contexts they are in."""
    size = data.contexts.shape[1]
    count = max(landscapes.SAMPLES, landscapes.PER_OPTION * settings.max_options)
    rows, starts = chain_starts(rng, data, share, last, count)
    moved, scores = landscapes.sample(
        key, landscape, process, starts, size, landscape.temperature, data.range or data.limits, data.range is not None
    )
    # Clip at the best known score, so that samples do not abandon the weaker solution.
    counts = sample_counts(data, rows, np.minimum(scores, landscape.warp.scores[-1]), landscape.temperature, settings)
    axes = landscapes.axes_of(landscape, moved.shape[1])
    lengths = np.minimum(np.exp(np.asarray(landscape.hyperparameters.log_lengths)), 1.0)
    coordinates = parameters_first(moved, size) @ axes.T / lengths
    given = discovery.Given(
        moved[:, :size], moved[:, size:], data.plain_features[rows], scores, counts, coordinates, data.features[rows]
    )
    return given, rows


def conditioned(data: Data, landscape: Landscape) -> tuple[gp.GP, np.ndarray]:
    """The landscape's process given the rollouts, and the numbers of those that it sees."""
    chosen = landscapes.choose(data.initial, data.mask)
    size = data.contexts.shape[1]
    return landscapes.condition(landscape, data.joint, size, data.advantages, chosen), chosen


def as_found(data: Data, found: Found) -> Latent:
    """The rollouts assigned to solutions that were found before.

    An option that has just been born shares the others' rollouts: it takes them away once it has been tried.
    """

    def assigned(without: np.ndarray) -> np.ndarray:
        return _assigned(discovery.assign(found, data.parameters, data.plain_features, without)) * data.mask

    responsibilities = assigned(np.zeros_like(found.born))
    if found.born.any() and np.any(found.kept & ~found.born):
        responsibilities = np.where(found.born[:, None], responsibilities, assigned(found.born))
    return Latent(found.kept, responsibilities, found.bound, found.warm, found=found, new=False)


def sample_counts(
    data: Data, rows: np.ndarray, scores: np.ndarray, temperature: float, settings: LatentSettings
) -> np.ndarray:
    """Weights exp((m - V(s)) / T) of samples with scores m in the contexts of these rows; they sum to the ESS."""
    every = np.ones(len(rows), dtype=bool)
    target = data._replace(
        contexts=data.contexts[rows],
        parameters=data.parameters[rows],
        features=data.features[rows],
        log_behaviour=np.zeros(len(rows)),
        mask=every,
        initial=every,
    )
    share = weigh(scores, target, temperature, True, settings).weights
    share, ess = weights.truncated(share, 1.0 / np.sqrt(len(rows)))
    return share * min(ess, discovery.MOST_COUNTS)


def chain_starts(
    rng: np.random.Generator, data: Data, share: np.ndarray, last: Last | None, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose contexts `count` samples are in, and where they start [M, S + D].

    At first from initial rollouts; later half of them, a quarter from rollouts by their weight, a quarter from the
    options' means.
    """
    first = np.flatnonzero(data.mask & data.initial)
    first = first if len(first) else np.flatnonzero(data.mask)
    if last is None:
        rows = np.resize(rng.permutation(first), count)
        return rows, data.joint[rows]
    at_random = np.resize(rng.permutation(first), count // 2)
    by_weight = rng.choice(len(share), count // 4, p=share / share.sum())
    of_options = rng.choice(np.flatnonzero(data.mask), count - count // 2 - count // 4)
    rows = np.concatenate([at_random, by_weight, of_options])
    starts = data.joint[rows]
    means = gaussian.means(last.options, data.features[of_options])[last.kept]
    places = np.arange(len(of_options))
    starts[-len(of_options) :, data.contexts.shape[1] :] = means[places % len(means), places]
    return rows, starts


@with_jax
def estimate_density(
    key: Array, data: Data, importance: weights.ImportanceWeights, last: Mixture | None, settings: LatentSettings
) -> Latent:
    """The paper's form: joint Gaussians over the weighted rollouts, or over their Laplacian eigenmap.

    Weights are counts: their sum is the sample size that the prior is weighed against.
    """
    import jax.numpy as jnp

    from hpsde.mixture import estimation as density
    from hpsde.mixture.eigenmaps import LaplacianEigenmaps

    as_authors, points, mask = settings.density.kind == "authors", data.joint, data.mask
    share = importance.weights
    if as_authors:
        mask, last = authors.used(data), None
        points = authors.coordinates(data, mask, settings.density.embedding_dimensions)
        share = np.where(mask, share, 0.0) / share[mask].sum()
    elif settings.density.embedding_dimensions:
        # An embedding is new every time: there is nothing to start from.
        eigenmaps, last = LaplacianEigenmaps(settings.density.embedding_dimensions), None
        points = eigenmaps.fit(data.joint, mask).coordinates
    total = {"ess": importance.ess, "n": float(mask.sum()), "one": 1.0}[settings.density.weight_sum]
    x, counts = jnp.asarray(points), jnp.asarray(share * total)
    mixture, fitted = density.fit(
        jax_key(key),
        x,
        counts,
        authors.prior(x.shape[1]) if as_authors else density.default_prior(x, counts, settings.max_options),
        max_components=settings.max_options,
        restarts=RESTARTS,
        warm=last,
        method="vb" if as_authors else settings.density.kind,
    )
    warm = last is not None and int(fitted.chosen) == len(fitted.bounds) - 1
    kept = np.asarray(mixture.mass) > 0.0
    mixture = density.select(mixture, jnp.asarray(kept))
    responsibilities = np.exp(np.asarray(density.compiled_log_responsibilities(mixture, jnp.asarray(points)))).T
    responsibilities = _assigned(responsibilities) * mask
    kept = kept & (responsibilities.sum(axis=1) > 0.0)
    return Latent(kept, responsibilities, float(fitted.lower_bound), warm, mixture=as_numpy(mixture))


def by_policies(data: Data, options: gaussian.LinearGaussian, kept: np.ndarray, mixture: Mixture | None) -> Latent:
    """Every rollout assigned to the option whose policy it is likeliest of: between two estimations of the density."""
    log_density = gaussian.log_density(options, data.features, data.parameters)
    log_density = np.where(kept[:, None], log_density, -np.inf)
    responsibilities = _assigned(log_density) * authors.used(data)
    kept = kept & (responsibilities.sum(axis=1) > 0.0)
    return Latent(kept, responsibilities, mixture=mixture, new=False)


def _assigned(responsibilities: np.ndarray) -> np.ndarray:
    """Hard assignment [O, N]: 1 for the likeliest option of each sample, 0 for the others."""
    return (np.arange(len(responsibilities))[:, None] == responsibilities.argmax(axis=0)).astype(float)
