"""Which solutions there are: option policies between which the modelled return has a valley.

A mixture of option policies (mixture/conditional.py) is fitted to samples of the modelled return (landscape.py). Its
components, and the options there were before, are candidates. Candidates without a valley between them (valleys.py)
are one solution; what lies between others, or is far below the best, is none. An old option among the candidates gives
the solution its number; so an option keeps it, is born when a solution has none, and dies when the model no longer
shows a hill there, or shows one hill where there were two options.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde.mixture import conditional as policy_mixture
from hpsde.mixture.conditional import Posterior
from hpsde.steps import gaussian, valleys
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.landscape import View

LEAST = 0.1  # share of the counts that a component needs, in units of the share of an option
FRESH_STARTS = 3  # of the mixture the first time; later one, whenever the landscape is new
LOYALTY = 10.0  # nats that a fresh start must gain over the one from the last options
ANCHORS = 24  # contexts in which candidates are compared
GOOD, HALF = 3.0, 0.5  # T below the best that a solution may be in a context, and share of the way down to the mean
SHOWN = 0.25  # of the contexts in which two candidates are good: where so many show a valley, they are two
CERTAIN = 2.0  # posterior deviations by which a birth must be good, or it is a guess
BIRTH = 0.5  # the same, where one of the two is an option and the other would be a new one
REDUNDANT = 0.75  # of the contexts in which a candidate is good: where so many show no valley to another, it is none
NEIGHBOURS = 5  # nearest candidates that each is compared with
MOST_COUNTS = 400.0  # that samples of a model may weigh
COMPONENTS, OPTIONS = 24, 10  # that the mixture starts with, and that shares are of, at least
SAME = 0.3  # kernel lengths: nearer places have no valley between them


class Features(NamedTuple):
    """Standardised features with a constant: phi -> [1, (phi - centre) / scale]."""

    centre: np.ndarray
    scale: np.ndarray

    def __call__(self, phi: np.ndarray) -> np.ndarray:
        """[N, F + 1] of features [N, F]."""
        return np.concatenate([np.ones((len(phi), 1)), (phi - self.centre) / self.scale], axis=1)

    def raw(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """b [C, K] and w [C, F, K] of M [C, F + 1, K]: M' [1, standardised phi] = b + w' phi."""
        w = M[:, 1:] / self.scale[None, :, None]
        return M[:, 0] - np.einsum("f,cfk->ck", self.centre, w), w


def fit_features(phi: np.ndarray) -> Features:
    """The standardisation by mean and standard deviation of the rows."""
    deviation = phi.std(axis=0)
    return Features(phi.mean(axis=0), np.where(deviation > 1e-9, deviation, 1.0))


class Found(NamedTuple):
    """The mixture, the option slot of each component [C] (-1: none), and what became of the options.

    kept [O], born [O], died [O]: which slots hold an option, a new one, or one no more. absent [O]: which options are
    kept although this search has found no valley to another. guesses: components that may be solutions. separate: how
    many maxima the mixture had before they were limited to O_max. unexplored, explained: see landscape.py.
    """

    posterior: Posterior
    slots: np.ndarray
    features: Features
    view: View
    kept: np.ndarray
    born: np.ndarray
    died: np.ndarray
    absent: np.ndarray
    guesses: np.ndarray
    bound: float
    warm: bool
    separate: int
    unexplored: float = float("nan")
    explained: float = float("nan")


class Last(NamedTuple):
    """The options there were before, which of them existed [O], and which of these the last search missed [O]."""

    options: LinearGaussian
    kept: np.ndarray
    absent: np.ndarray


class Given(NamedTuple):
    """What is searched: samples [M] with contexts, parameters, features, scores and counts, kernel coordinates for
    seeds [M, E], and features of the options there were before, which may have more.
    """

    contexts: np.ndarray
    parameters: np.ndarray
    features: np.ndarray
    scores: np.ndarray
    counts: np.ndarray
    coordinates: np.ndarray
    last_features: np.ndarray


def discover(
    rng: np.random.Generator,
    given: Given,
    anchors: tuple[np.ndarray, np.ndarray],
    model: valleys.Model,
    view: View,
    last: Last | None,
    fresh: bool,
    max_options: int,
    tries: bool = True,
) -> Found:
    """The solutions. `anchors`: contexts [A, S] and features [A, F] of the options there were before.

    tries: births that are not known to be good are guesses, which somebody will try.
    """
    features = fit_features(given.features)
    samples = make_samples(given.parameters, given.features, given.counts, features, view)
    fitted, warm = _fit_mixture(rng, given, samples, view, last, fresh, max_options)
    contexts, phi = anchors
    new = whole_components(fitted, model, given, features)
    curves = np.einsum("af,cfk->cak", features(phi[:, : given.features.shape[1]]), np.asarray(fitted.posterior.M)[new])
    old = np.zeros(0, dtype=int)
    if last is not None:
        old = np.flatnonzero(last.kept)
        means = gaussian.means(last.options, phi)[old] @ view.V
        curves = np.concatenate([curves, means])
    groups = separate_groups(model, curves, contexts)
    guesses = np.zeros(0, dtype=int)
    while len(old) and tries and len(unknown := find_guesses(groups, len(new), model, curves, contexts)):
        # What is not known to be good does not make the others bad: they are compared without it.
        guesses, stay = np.concatenate([guesses, new[unknown]]), ~np.isin(groups.labels, unknown)
        new, curves = new[stay[: len(new)]], curves[stay]
        groups = separate_groups(model, curves, contexts)
    labels = without_doubtful_births(groups, len(new))
    numbered = _number(labels, groups.level, curves, len(new), last, max_options)
    slots = np.full(len(fitted.posterior.active), -1)
    slots[new] = numbered.of
    posterior, slots = _with_old(fitted.posterior, slots, features, view, numbered.kept, guesses, last)
    return Found(
        posterior=posterior._replace(active=slots >= 0),
        slots=slots,
        features=features,
        view=view,
        kept=numbered.kept,
        born=numbered.born,
        died=numbered.died,
        absent=numbered.absent,
        guesses=guesses,
        bound=fitted.bound,
        warm=warm,
        separate=numbered.separate,
    )


def evidence(rng: np.random.Generator, given: Given, view: View, max_options: int) -> float:
    """The bound on the samples' log density by a mixture of policies with these features, without options before."""
    samples = make_samples(given.parameters, given.features, given.counts, fit_features(given.features), view)
    return _fit_mixture(rng, given, samples, view, None, True, max_options)[0].bound


def make_samples(
    parameters: np.ndarray, phi: np.ndarray, counts: np.ndarray, features: Features, view: View
) -> policy_mixture.WeightedSamples:
    """Samples for the mixture: b(y) is the Gaussian of the first rollouts, whose standard deviation is 1."""
    y = parameters @ view.V
    variance = np.sum(view.V**2, axis=0)
    log_background = -0.5 * np.sum(y**2 / variance + np.log(2.0 * np.pi * variance), axis=1)
    arrays = (y, features(phi), counts, log_background)
    return policy_mixture.WeightedSamples(*(np.asarray(each, dtype=float) for each in arrays))


def _fit_mixture(
    rng: np.random.Generator,
    given: Given,
    samples: policy_mixture.WeightedSamples,
    view: View,
    last: Last | None,
    fresh: bool,
    max_options: int,
) -> tuple[policy_mixture.Fit, bool]:
    """The mixture with the highest bound, the one from the last options being preferred; and whether it is that one."""
    least, components = LEAST / max(OPTIONS, max_options), max(COMPONENTS, 2 * max_options)
    neighbours = policy_mixture.nearest_neighbours(given.coordinates)

    def start(known: np.ndarray | None) -> policy_mixture.Fit:
        labels = policy_mixture.spread_labels(rng, given.coordinates, given.counts, components, known)
        return policy_mixture.fit(samples, policy_mixture.MixtureStart(labels, components, neighbours), least)

    fits, warm = [], False
    if last is not None and last.kept.any():
        means = gaussian.means(last.options, given.last_features)[last.kept]
        known = np.sum(((given.parameters[None] - means) @ view.V) ** 2, axis=-1)
        fits.append(start(known))
        warm = True
    if fresh or not fits:
        fits += [start(None) for _ in range(1 if warm else FRESH_STARTS)]
    bounds = np.array([each.bound for each in fits])
    bounds[0] += LOYALTY if warm else 0.0
    best = int(np.argmax(bounds))
    return fits[best], warm and best == 0


def whole_components(fitted: policy_mixture.Fit, model: valleys.Model, given: Given, features: Features) -> np.ndarray:
    """Numbers of the components whose mean is as good as most of the samples they stand for.

    The mean of a component that lies across a valley is worse than its samples on both sides: it is no policy.
    """
    active = np.flatnonzero(np.asarray(fitted.posterior.active))
    belongs = fitted.r[:-1].argmax(axis=0)
    means = np.einsum("nf,nfk->nk", features(given.features), np.asarray(fitted.posterior.M)[belongs])
    at = valleys.heights_at(model, means, given.contexts)
    good = at >= given.scores - tolerance(given.scores, model.temperature, float(model.process.mean))
    counts = np.bincount(belongs, given.counts, minlength=len(fitted.r))
    share = np.bincount(belongs, given.counts * good, minlength=len(fitted.r)) / np.maximum(counts, 1e-300)
    whole = active[share[active] > HALF]
    return whole if len(whole) else active


def tolerance(best: np.ndarray, temperature: float, typical: float) -> np.ndarray:
    """How far below the best scores a solution may be: GOOD T, or half the way down to the typical score."""
    return np.asarray(np.minimum(GOOD * temperature, HALF * np.maximum(best - typical, 0.0)))


class Groups(NamedTuple):
    """Solutions: the group of each candidate [C] (-1: none), named by its highest candidate.

    shares [C, C]: of the contexts in which two candidates are good, the share with a valley between them. heights
    [C, A], least [A]: how high each candidate is in each context, and how high it must be to be good there; level [C]:
    its mean height where it is.
    """

    labels: np.ndarray
    shares: np.ndarray
    heights: np.ndarray
    least: np.ndarray
    level: np.ndarray


def separate_groups(model: valleys.Model, curves: np.ndarray, contexts: np.ndarray) -> Groups:
    """Candidates y [C, A, K] in contexts [A, S], grouped where the model shows no valley between them."""
    heights = valleys.heights(model, curves, contexts)
    best = np.minimum(heights.max(axis=0), model.highest)
    least = best - tolerance(best, model.temperature, float(model.process.mean))
    good = heights >= least
    level = np.array([np.mean(h[g]) if g.any() else -np.inf for h, g in zip(heights, good, strict=True)])
    order = np.argsort(-level, kind="stable")
    valley = _valleys(model, curves, contexts, good)  # [C, C, A]: 1 valley, 0 none, NaN not known
    both = good[:, None] & good[None]
    shares = np.array([[_share(*pair) for pair in zip(*rows, strict=True)] for rows in zip(valley, both, strict=True)])
    labels = np.full(len(curves), -1)
    for place, i in enumerate(order):
        if not good[i].any():
            continue
        higher = [j for j in order[:place] if labels[j] >= 0]
        nearest = min(higher, key=lambda j: shares[i, j], default=i)
        labels[i] = labels[nearest] if nearest != i and shares[i, nearest] < SHOWN else i
    return Groups(_without_redundant(labels, order, valley, good), shares, heights, least, level)


def _share(valley: np.ndarray, both: np.ndarray) -> float:
    """Of the contexts in which two candidates are good, the share with a valley; 1 where there are none."""
    known = both & ~np.isnan(valley)
    return float(np.mean(valley[known])) if known.any() else 1.0


def _without_redundant(labels: np.ndarray, order: np.ndarray, valley: np.ndarray, good: np.ndarray) -> np.ndarray:
    """Groups whose leader has, in most of its contexts, no valley to one of the other leaders are none."""
    leaders = [i for i in order if labels[i] == i]
    for i in reversed(leaders):
        others = [j for j in leaders if j != i and labels[j] == j]
        if not others:
            continue
        joined = np.any([(valley[i, j] == 0.0) & good[j] for j in others], axis=0)
        if np.mean(joined[good[i]]) > REDUNDANT:
            nearest = others[int(np.argmax([np.sum((valley[i, j] == 0.0) & good[j] & good[i]) for j in others]))]
            labels[labels == i] = nearest
    return labels


def _valleys(model: valleys.Model, curves: np.ndarray, contexts: np.ndarray, good: np.ndarray) -> np.ndarray:
    """Whether there is a valley between candidates, in every context where both are good [C, C, A]."""
    count = len(curves)
    distance = np.linalg.norm(curves[:, None] - curves[None], axis=-1)  # [C, C, A]
    both = good[:, None] & good[None]
    far = np.where(both, distance, np.nan)
    typical = np.array([[np.nanmedian(row) if np.isfinite(row).any() else np.inf for row in rows] for rows in far])
    np.fill_diagonal(typical, np.inf)
    rank = np.argsort(np.argsort(typical, axis=1, kind="stable"), axis=1, kind="stable")
    asked = (rank < NEIGHBOURS) & np.isfinite(typical)
    asked = np.triu(asked | asked.T, 1)
    result = np.where(distance < SAME, 0.0, np.nan)
    i, j, a = np.nonzero(asked[:, :, None] & both & (distance >= SAME))
    if len(i):
        result[i, j, a] = valleys.are_separate(model, curves[i, a], curves[j, a], contexts[a])
    result = np.where(np.isnan(result), np.swapaxes(result, 0, 1), result)
    # Pairs that were not asked about lie apart, with others between them.
    unknown = ~(asked | asked.T | np.eye(count, dtype=bool))
    return np.where(unknown[:, :, None] & np.isnan(result), 1.0, result)


def find_guesses(
    groups: Groups, count: int, model: valleys.Model, curves: np.ndarray, contexts: np.ndarray
) -> np.ndarray:
    """Births, groups of the first `count` candidates alone, that are not known to be good; by their leaders.

    In most contexts in which it is good, a birth must be so by CERTAIN posterior deviations. A guess may be tried.
    """

    def is_known(g: int) -> bool:
        sure = groups.heights[g] - CERTAIN * valleys.deviations_at(model, curves[g], contexts) >= groups.least
        return bool(np.mean(sure[groups.heights[g] >= groups.least]) > HALF)

    births = np.setdiff1d(groups.labels[groups.labels >= 0], groups.labels[count:])
    return np.array([g for g in births.tolist() if not is_known(g)], dtype=int)


def without_doubtful_births(groups: Groups, count: int) -> np.ndarray:
    """Labels [C] of the candidates, the first `count` of them new and the others options that were there before.

    A group without an old option is a birth: it must be clearly separate from all that have one, or belongs to the
    nearest of them.
    """
    labels = groups.labels.copy()
    known = np.unique(labels[count:][labels[count:] >= 0])
    for g in np.setdiff1d(labels[labels >= 0], known):
        nearest = min(known, key=lambda h: groups.shares[g, h], default=g)
        if groups.shares[g, nearest] < BIRTH and nearest != g:
            labels[labels == g] = nearest
    return labels


class Slots(NamedTuple):
    """The slot of each new candidate [C] (-1: none); which slots hold an option [O], and `born`, `died`, `absent` [O]
    and `separate` as in Found.
    """

    of: np.ndarray
    kept: np.ndarray
    born: np.ndarray
    died: np.ndarray
    absent: np.ndarray
    separate: int


def _number(
    labels: np.ndarray, level: np.ndarray, curves: np.ndarray, count: int, last: Last | None, max_options: int
) -> Slots:
    """Slots for the groups of candidates, the first `count` of them new and the others the options there were before:
    that of an option in the group, else a free one.
    """
    nothing = np.zeros(max_options, dtype=bool)
    before, missed = (nothing, nothing) if last is None else (last.kept, last.absent)
    old = np.flatnonzero(before)
    names = sorted(np.unique(labels[labels >= 0]).tolist(), key=lambda g: -level[g])
    slot_of: dict[int, int] = {}
    for g in names:
        mine = np.flatnonzero(labels[count:] == g)
        if len(mine):
            distance = np.linalg.norm(curves[count + mine] - curves[g], axis=-1).mean(axis=1)
            # The nearest, but not one that was missed before: of two doubles it is the same that goes.
            slot_of[g] = int(old[mine[np.lexsort((distance, missed[old[mine]]))[0]]])
    # An option without a valley to another is that one's double; but a valley may be missed for once.
    absent = np.isin(np.arange(max_options), np.setdiff1d(old[labels[count:] >= 0], list(slot_of.values()))) & ~missed
    births = [g for g in names if g not in slot_of][: max_options - len(slot_of) - int(absent.sum())]
    # A slot that nobody had comes before one that has just become free.
    free = [o for o in np.argsort(before, kind="stable") if o not in slot_of.values() and not absent[o]]
    slot_of |= dict(zip(births, map(int, free), strict=False))
    born = np.isin(np.arange(max_options), [slot_of[g] for g in births])
    kept = np.isin(np.arange(max_options), list(slot_of.values())) | absent
    of = np.array([slot_of.get(g, -1) for g in labels[:count].tolist()], dtype=int)
    return Slots(of, kept, born, before & (~kept | born), absent, len(names))


def _with_old(
    posterior: Posterior,
    slots: np.ndarray,
    features: Features,
    view: View,
    kept: np.ndarray,
    guesses: np.ndarray,
    last: Last | None,
) -> tuple[Posterior, np.ndarray]:
    """The mixture with a component for every kept option that has none: the old option itself."""
    missing = np.setdiff1d(np.flatnonzero(kept), slots)
    if not len(missing) or last is None:
        return posterior, slots
    b, w = (np.asarray(each) for each in last.options[:2])
    means = {int(o): (b[o] @ view.V, w[o, : len(features.centre)] @ view.V) for o in missing}
    return _with_components(posterior, slots, features, guesses, means)


def _with_components(
    posterior: Posterior,
    slots: np.ndarray,
    features: Features,
    guesses: np.ndarray,
    means: dict[int, tuple[np.ndarray, np.ndarray]],
) -> tuple[Posterior, np.ndarray]:
    """The mixture with a component for each of these slots, whose mean is b [K] + w [F, K]' phi."""
    M, S, Lambda = (np.array(each) for each in (posterior.M, posterior.S, posterior.Lambda))
    nu, alpha, slots = np.array(posterior.nu), np.array(posterior.alpha), slots.copy()
    free = np.setdiff1d(np.flatnonzero(slots < 0), guesses)
    typical = max(float(np.median(alpha[:-1][slots >= 0])) if (slots >= 0).any() else 1.0, 1.0)
    for (o, (b, w)), c in zip(means.items(), free, strict=False):
        M[c, 0], M[c, 1:] = b + features.centre @ w, w * features.scale[:, None]
        size = S.shape[-1]
        nu[c], alpha[c] = size + 2.0 + typical, typical
        S[c], Lambda[c] = policy_mixture.SPREAD_0**2 * nu[c] * np.eye(size), typical * np.eye(len(M[c]))
        slots[c] = o
    changed = {"M": M, "Lambda": Lambda, "S": S, "nu": nu, "alpha": alpha}
    return posterior._replace(**changed), slots


def with_points(found: Found, points: dict[int, np.ndarray]) -> Found:
    """The solutions with one more in each of these slots, at a point [D] whatever the context."""
    size = np.asarray(found.posterior.M).shape[1] - 1
    means = {o: (point @ found.view.V, np.zeros((size, found.view.V.shape[1]))) for o, point in points.items()}
    posterior, slots = _with_components(found.posterior, found.slots, found.features, found.guesses, means)
    return found._replace(posterior=posterior._replace(active=slots >= 0), slots=slots)


def assign(found: Found, parameters: np.ndarray, phi: np.ndarray, without: np.ndarray) -> np.ndarray:
    """p(o | s_i, xi_i) [O, N] of rollouts, by the components of every option but those `without` [O]; the background
    has no say.
    """
    samples = make_samples(parameters, phi, np.ones(len(phi)), found.features, found.view)
    belongs = (found.slots[None, :] == np.arange(len(without))[:, None]) & ~without[:, None]
    posterior = found.posterior._replace(active=belongs.any(axis=0))
    return belongs @ policy_mixture.responsibilities(posterior, samples)


def component_policies(found: Found, max_options: int) -> LinearGaussian:
    """The option policies as the mixture has them: the heaviest component of each."""
    alpha = np.asarray(found.posterior.alpha)
    heaviest = np.full(max_options, -1)
    for o in np.flatnonzero(found.kept):
        mine = np.flatnonzero(found.slots == o)
        heaviest[o] = mine[int(np.argmax(alpha[mine]))]
    return _policies_of(found, heaviest)


def guessed_policies(found: Found) -> LinearGaussian:
    """The policies of components that may be solutions."""
    return _policies_of(found, found.guesses)


def _policies_of(found: Found, components: np.ndarray) -> LinearGaussian:
    """The policies of components, as wide as at first along unseen directions; -1: a standard Gaussian."""
    D = len(found.view.V)
    b, w = found.features.raw(np.asarray(found.posterior.M)[components])
    unseen = np.eye(D) - found.view.V @ found.view.L
    S = np.asarray(found.posterior.S)[components] / np.asarray(found.posterior.nu)[components, None, None]
    Sigma = found.view.L.T @ S @ found.view.L + unseen @ unseen.T
    there = components >= 0
    values = (b @ found.view.L * there[:, None], w @ found.view.L * there[:, None, None])
    return LinearGaussian(*values, np.where(there[:, None, None], Sigma, np.eye(D)))
