"""A mixture whose components are option policies, by variational Bayes (paper, "Return-Weighted Density Estimation").

The density to be estimated is p(s) pi*(xi | s). Contexts are given, so only the conditional part is modelled:

    pi*(y | s) = sum_o pi_o N(y | M_o^T phi(s), Sigma_o)  +  pi_0 b(y),    y what the return sees of xi,

an option policy for every component, and the density b of the first rollouts for what belongs to none. A strip over
the contexts is one such component, however long; a joint Gaussian over [s, xi] is not a strip. The priors are
conjugate, with Lambda_0, S_0 and nu_0 in kernel lengths:

    M | Sigma ~ MN(0, Lambda_0^-1, Sigma),    Sigma ~ IW(S_0, nu_0),    pi ~ Dir(alpha_0).

For counts c_i r_io the bound is the sum of three closed parts: the log marginal likelihood of every component's
statistics, that of the counts under the Dirichlet prior, and the entropy sum_i c_i H(r_i). So the change when two
components are joined is known without another pass over the data. docs/discovery.md derives it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde.base.later import Later
from hpsde.base.shapes import Bool, Float

special = Later("scipy.special")


ALPHA_0 = 0.1
LAMBDA_0 = 0.002  # of standardised features
SPREAD_0 = 0.3  # of a component about its mean, in kernel lengths
EM_STEPS = 6  # between two rounds of joining components
ROUNDS = 12
NEIGHBOURS = 8  # samples next to each, by which components are neighbours
FINAL_STEPS = 12
NEGLIGIBLE = 1e-12  # of a sample, that a component has of it
LOOSE = 0.02  # of a sample, that all components share at first: one that starts with a tight few is not locked in


class WeightedSamples(NamedTuple):
    """N weighted samples: y [N, K] in kernel lengths, features with a constant [N, F], counts [N], log b(y) [N]."""

    y: Float[np.ndarray, "N K"]
    phi: Float[np.ndarray, "N F"]
    counts: Float[np.ndarray, " N"]
    log_background: Float[np.ndarray, " N"]


class Posterior(NamedTuple):
    """The posterior of C components; inactive ones have a false `active`."""

    M: Float[np.ndarray, "C F K"]
    Lambda: Float[np.ndarray, "C F F"]
    S: Float[np.ndarray, "C K K"]
    nu: Float[np.ndarray, " C"]
    alpha: Float[np.ndarray, " B"]  # C components and the background, which comes last
    active: Bool[np.ndarray, " C"]

    @property
    def mass(self) -> np.ndarray:
        """Counts [C] of every component."""
        return np.where(self.active, self.alpha[:-1] - ALPHA_0, 0.0)


class _Statistics(NamedTuple):
    """Sums of counts, phi phi', phi y' and y y' of every component."""

    n: np.ndarray
    ff: np.ndarray
    fy: np.ndarray
    yy: np.ndarray


def _statistics(weighted: Float[np.ndarray, "C N"], samples: WeightedSamples) -> _Statistics:
    """Of all components; those without a count cost nothing."""
    some, size = weighted.any(axis=1), (len(weighted), samples.phi.shape[1], samples.y.shape[1])
    scaled_phi, scaled_y = (weighted[some, None, :] * each.T[None] for each in (samples.phi, samples.y))
    C, F, K = size
    sums = _Statistics(np.sum(weighted, axis=1), np.zeros((C, F, F)), np.zeros((C, F, K)), np.zeros((C, K, K)))
    sums.ff[some], sums.fy[some], sums.yy[some] = scaled_phi @ samples.phi, scaled_phi @ samples.y, scaled_y @ samples.y
    return sums


def _component(stats: _Statistics) -> tuple[np.ndarray, ...]:
    """M, Lambda, S, nu of components with these statistics; any leading axes."""
    F, K = stats.fy.shape[-2:]
    Lambda = stats.ff + LAMBDA_0 * np.eye(F)
    M = np.linalg.solve(Lambda, stats.fy)
    S = stats.yy - np.swapaxes(stats.fy, -1, -2) @ M
    S = 0.5 * (S + np.swapaxes(S, -1, -2)) + SPREAD_0**2 * np.eye(K)
    return M, Lambda, S, K + 2.0 + stats.n


def _log_marginal(stats: _Statistics) -> np.ndarray:
    """The log marginal likelihood of components with these statistics; any leading axes."""
    F, K = stats.fy.shape[-2:]
    nu_0 = K + 2.0
    _, Lambda, S, nu = _component(stats)
    log_det, log_det_S = np.linalg.slogdet(Lambda)[1], np.linalg.slogdet(S)[1]
    return np.asarray(
        -0.5 * stats.n * K * np.log(np.pi)
        + 0.5 * K * (F * np.log(LAMBDA_0) - log_det)
        + 0.5 * nu_0 * K * np.log(SPREAD_0**2)
        - 0.5 * nu * log_det_S
        + _log_multigamma(0.5 * nu, K)
        - _log_multigamma(np.asarray(0.5 * nu_0), K)
    )


def _log_multigamma(a: np.ndarray, K: int) -> np.ndarray:
    """log Gamma_K(a) of any number of a's."""
    constant = 0.25 * K * (K - 1) * np.log(np.pi)
    return np.asarray(constant + np.sum(special.gammaln(a[..., None] - 0.5 * np.arange(K)), axis=-1))


def _expected_log_density(posterior: Posterior, samples: WeightedSamples) -> Float[np.ndarray, "A N"]:
    """E log N(y | M' phi, Sigma) of every active component and sample."""
    K, on = samples.y.shape[1], posterior.active
    S, nu = posterior.S[on], posterior.nu[on]
    precision, spread = np.linalg.inv(S), np.linalg.inv(posterior.Lambda[on])
    log_det = np.linalg.slogdet(S)[1]
    log_precision = (
        np.sum(special.digamma(0.5 * (nu[:, None] - np.arange(K)[None])), axis=1) + K * np.log(2.0) - log_det
    )
    error = samples.y[None] - samples.phi[None] @ posterior.M[on]
    distance = np.sum((error @ precision) * error, axis=-1)
    pull = np.sum((samples.phi[None] @ spread) * samples.phi[None], axis=-1)
    return 0.5 * (log_precision[:, None] - K * np.log(2.0 * np.pi) - nu[:, None] * distance - K * pull)


def _log_responsibilities(posterior: Posterior, samples: WeightedSamples) -> Float[np.ndarray, "B N"]:
    """Unnormalised log r_io of the components and, last, of the background."""
    log_share = special.digamma(posterior.alpha) - special.digamma(np.sum(posterior.alpha))
    logs = np.full((len(posterior.alpha), len(samples.y)), -np.inf)
    logs[:-1][posterior.active] = _expected_log_density(posterior, samples)
    logs[-1] = samples.log_background
    return log_share[:, None] + logs


def posterior_of(r: Float[np.ndarray, "B N"], active: Bool[np.ndarray, " C"], samples: WeightedSamples) -> Posterior:
    """The posterior given responsibilities."""
    weighted = r * samples.counts[None]
    M, Lambda, S, nu = _component(_statistics(weighted[:-1], samples))
    return Posterior(M, Lambda, S, nu, ALPHA_0 + np.sum(weighted, axis=1), active)


def _bound(r: Float[np.ndarray, "B N"], active: np.ndarray, samples: WeightedSamples) -> float:
    """The evidence lower bound at responsibilities and the posterior given them."""
    weighted = r * samples.counts[None]
    n = np.sum(weighted, axis=1)
    bound = (
        np.sum(_log_marginal(_statistics(weighted[:-1][active], samples)))
        + weighted[-1] @ samples.log_background
        + np.sum(special.gammaln(ALPHA_0 + n) - special.gammaln(ALPHA_0))
        + special.gammaln(ALPHA_0 * len(n))
        - special.gammaln(ALPHA_0 * len(n) + np.sum(n))
    )
    return float(bound) - float(np.sum(special.xlogy(r, r) @ samples.counts))


def climb(
    r: Float[np.ndarray, "B N"], active: Bool[np.ndarray, " C"], samples: WeightedSamples, *, steps: int
) -> tuple[Float[np.ndarray, "B N"], float]:
    """Responsibilities after some steps of variational EM, and their bound.

    Components that are not active have no share: the steps are of the others alone.
    """
    rows = np.append(active, True)
    some, every = r[rows], np.ones(int(active.sum()), dtype=bool)
    for _ in range(steps):
        some = special.softmax(_log_responsibilities(posterior_of(some, every, samples), samples), axis=0)
    r = np.zeros_like(r)
    r[rows] = some
    return r, _bound(r, active, samples)


def join_gains(
    r: Float[np.ndarray, "B N"], active: Bool[np.ndarray, " C"], samples: WeightedSamples
) -> Float[np.ndarray, "C C"]:
    """How much the bound changes when two components become one; minus infinity where there are not two."""
    gains, shares, counts = _gains_apart(r, active, samples), r[:-1], samples.counts
    for one in np.flatnonzero(active):
        # A sample of which one of the two has nothing has the same entropy before and after.
        mine = np.flatnonzero(shares[one] > NEGLIGIBLE)
        apart, own = shares[:, mine], shares[one, mine]
        gains[one] -= (
            special.xlogy(apart + own, apart + own) - special.xlogy(apart, apart) - special.xlogy(own, own)
        ) @ counts[mine]
    return gains


def _gains_apart(
    r: Float[np.ndarray, "B N"], active: Bool[np.ndarray, " C"], samples: WeightedSamples
) -> Float[np.ndarray, "C C"]:
    """`join_gains` of components that share no sample."""
    on = np.flatnonzero(active)
    stats = _statistics(r[on] * samples.counts[None], samples)
    single = _log_marginal(stats)
    double = _log_marginal(_Statistics(*(part[:, None] + part[None] for part in stats)))
    single += special.gammaln(ALPHA_0 + stats.n) - special.gammaln(ALPHA_0)
    double += special.gammaln(ALPHA_0 + stats.n[:, None] + stats.n[None]) - special.gammaln(ALPHA_0)
    gains = np.full((len(active), len(active)), -np.inf)
    gains[np.ix_(on, on)] = double - single[:, None] - single[None]
    np.fill_diagonal(gains, -np.inf)
    return gains


def responsibilities(posterior: Posterior, samples: WeightedSamples) -> Float[np.ndarray, "C N"]:
    """r_io of samples that belong to some component: the background has no say."""
    return special.softmax(_log_responsibilities(posterior, samples)[:-1], axis=0)


class Fit(NamedTuple):
    """A fitted mixture: posterior, responsibilities [B, N] and bound."""

    posterior: Posterior
    r: np.ndarray
    bound: float


def fit(samples: WeightedSamples, start: MixtureStart, least: float) -> Fit:
    """The mixture that climbing from `start` leads to.

    Components are joined as long as the bound does not fall: first those with samples that are neighbours, then any.
    Two short pieces always lie on some line; a long one shows whether the other lies on it. Then components with less
    than the share `least` of the counts are removed. `start` has more components than are wanted.
    """
    r, active = _begin(start)
    r, bound = climb(r, active, samples, steps=EM_STEPS)
    nearby = True
    for _ in range(ROUNDS):
        gains = join_gains(r, active, samples)
        if nearby:
            gains = np.where(_adjacent(r, start.neighbours), gains, -np.inf)
        joined, left = _join(r, active, gains)
        if joined is not None:
            active = left
            r, bound = climb(joined, active, samples, steps=EM_STEPS)
        elif nearby:
            nearby = False
        else:
            break
    rest, active = _drop(r, active, samples.counts, least)
    r, bound = climb(rest, active, samples, steps=FINAL_STEPS)
    return Fit(posterior_of(r, active, samples), r, bound)


def _adjacent(r: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """Whether two components [C, C] have samples that are neighbours: r [B, N], neighbours [N, k]."""
    labels, count = r.argmax(axis=0), len(r)
    adjacent = np.zeros((count, count), dtype=bool)
    adjacent[labels[:, None], labels[neighbours]] = True
    return (adjacent | adjacent.T)[:-1, :-1]


class MixtureStart(NamedTuple):
    """A component for every sample [N], or `components` for the background, and how many components there may be.

    neighbours [N, k]: the nearest samples of every sample.
    """

    labels: np.ndarray
    components: int
    neighbours: np.ndarray


def _begin(start: MixtureStart) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(start.components + 1)[:, None] == start.labels[None]
    r = np.where(rows, 1.0 - LOOSE, LOOSE / start.components)
    active = rows[:-1].any(axis=1)
    r[:-1][~active] = 0.0
    return r / r.sum(axis=0), active


def _join(r: np.ndarray, active: np.ndarray, gains: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """Pairs joined from the largest gain down, each component once; None where no pair gains."""
    gains, r, active = np.triu(gains, 1) + np.tril(np.full_like(gains, -np.inf)), r.copy(), active.copy()
    any_joined = False
    while True:
        a, b = np.unravel_index(np.argmax(gains), gains.shape)
        if not gains[a, b] >= 0.0:
            return (r if any_joined else None), active
        r[a] += r[b]
        r[b], active[b], any_joined = 0.0, False, True
        gains[[a, b]] = gains[:, [a, b]] = -np.inf


def _drop(r: np.ndarray, active: np.ndarray, counts: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    mass = r[:-1] @ counts
    keep = active & (mass >= least * counts.sum())
    if not keep.any():
        keep = np.arange(len(mass)) == np.argmax(mass)
    r = r.copy()
    r[:-1][~keep] = 0.0
    r[-1] += 1e-12
    return r / r.sum(axis=0), keep


def nearest_neighbours(points: np.ndarray, count: int = NEIGHBOURS) -> np.ndarray:
    """The numbers [N, k] of the nearest other points."""
    squares = np.sum(points**2, axis=1)
    distance = squares[:, None] + squares[None] - 2.0 * points @ points.T
    np.fill_diagonal(distance, np.inf)
    return np.argpartition(distance, count, axis=1)[:, :count]


def spread_labels(
    rng: np.random.Generator,
    points: np.ndarray,
    counts: np.ndarray,
    count: int,
    known: np.ndarray | None = None,
) -> np.ndarray:
    """The nearest of `count` seeds for each of the points [N, E]: weighted k-means++ (Arthur and Vassilvitskii 2007).

    `known` [O, N] are squared distances of the points from O components that are there already: they come first.
    """
    distance = np.full(len(points), np.inf)
    labels = np.zeros(len(points), dtype=int)
    first = 0
    if known is not None and len(known):
        first = len(known)
        labels, distance = known.argmin(axis=0), known.min(axis=0)
    for number in range(first, count):
        chance = counts * np.minimum(distance, 1e12) if np.isfinite(distance).any() else counts
        if not chance.sum() > 0.0:
            break
        seed = rng.choice(len(points), p=chance / chance.sum())
        away = np.sum((points - points[seed]) ** 2, axis=1)
        closer = away < distance
        labels, distance = np.where(closer, number, labels), np.minimum(distance, away)
    return labels
