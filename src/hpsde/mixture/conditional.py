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

from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve
from jax.scipy.special import digamma, gammaln, multigammaln

from hpsde.base.shapes import Array, Bool, Float

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

    y: Float[Array, "N K"]
    phi: Float[Array, "N F"]
    counts: Float[Array, " N"]
    log_background: Float[Array, " N"]


class Posterior(NamedTuple):
    """The posterior of C components; inactive ones have a false `active`."""

    M: Float[Array, "C F K"]
    Lambda: Float[Array, "C F F"]
    S: Float[Array, "C K K"]
    nu: Float[Array, " C"]
    alpha: Float[Array, " B"]  # C components and the background, which comes last
    active: Bool[Array, " C"]

    @property
    def mass(self) -> np.ndarray:
        """Counts [C] of every component."""
        return np.where(np.asarray(self.active), np.asarray(self.alpha)[:-1] - ALPHA_0, 0.0)


class _Statistics(NamedTuple):
    """Sums of counts, phi phi', phi y' and y y' of every component."""

    n: Array
    ff: Array
    fy: Array
    yy: Array


def _statistics(weighted: Float[Array, "C N"], samples: WeightedSamples) -> _Statistics:
    scaled_phi = weighted[:, :, None] * samples.phi[None]
    scaled_y = weighted[:, :, None] * samples.y[None]
    return _Statistics(
        jnp.sum(weighted, axis=1),
        jnp.einsum("cnf,ng->cfg", scaled_phi, samples.phi),
        jnp.einsum("cnf,nk->cfk", scaled_phi, samples.y),
        jnp.einsum("cnk,nl->ckl", scaled_y, samples.y),
    )


def _component(stats: _Statistics) -> tuple[tuple[Array, ...], Array]:
    """M, Lambda, S, nu of components with these statistics, and their log marginal likelihood; any leading axes."""
    F, K = stats.fy.shape[-2:]
    nu_0 = K + 2.0
    Lambda = stats.ff + jnp.broadcast_to(LAMBDA_0 * jnp.eye(F), stats.ff.shape)
    factor = jnp.linalg.cholesky(Lambda)
    M = cho_solve((factor, True), stats.fy)
    S = stats.yy - jnp.swapaxes(stats.fy, -1, -2) @ M
    S = 0.5 * (S + jnp.swapaxes(S, -1, -2)) + jnp.broadcast_to(SPREAD_0**2 * jnp.eye(K), S.shape)
    nu = nu_0 + stats.n
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    log_det_S = jnp.linalg.slogdet(S)[1]
    value = (
        -0.5 * stats.n * K * jnp.log(jnp.pi)
        + 0.5 * K * (F * jnp.log(LAMBDA_0) - log_det)
        + 0.5 * nu_0 * K * jnp.log(SPREAD_0**2)
        - 0.5 * nu * log_det_S
        + multigammaln(0.5 * nu, K)
        - multigammaln(0.5 * nu_0, K)
    )
    return (M, Lambda, S, nu), value


def _expected_log_density(posterior: Posterior, samples: WeightedSamples) -> Float[Array, "C N"]:
    """E log N(y | M' phi, Sigma) of every component and sample.

    By inverses of small matrices and products: XLA's CPU threads can block one another for good in large batches of
    triangular solves that run beside one another.
    """
    K = samples.y.shape[1]
    precision, log_det = _inverse(posterior.S)
    spread, _ = _inverse(posterior.Lambda)
    order = jnp.arange(K, dtype=posterior.nu.dtype)
    log_precision = jnp.sum(digamma(0.5 * (posterior.nu[:, None] - order[None])), axis=1) + K * jnp.log(2.0) - log_det
    error = samples.y[None] - jnp.einsum("nf,cfk->cnk", samples.phi, posterior.M)
    distance = jnp.sum(jnp.einsum("cnk,ckl->cnl", error, precision) * error, axis=-1)
    pull = jnp.sum(jnp.einsum("nf,cfg->cng", samples.phi, spread) * samples.phi[None], axis=-1)
    return 0.5 * (log_precision[:, None] - K * jnp.log(2.0 * jnp.pi) - posterior.nu[:, None] * distance - K * pull)


def _inverse(matrices: Float[Array, "C Q Q"]) -> tuple[Float[Array, "C Q Q"], Float[Array, " C"]]:
    """Inverses and log determinants of positive definite matrices."""
    factor = jnp.linalg.cholesky(matrices)
    identity = jnp.broadcast_to(jnp.eye(matrices.shape[-1], dtype=matrices.dtype), matrices.shape)
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    return cho_solve((factor, True), identity), log_det


def _log_responsibilities(posterior: Posterior, samples: WeightedSamples) -> Float[Array, "B N"]:
    """Unnormalised log r_io of the components and, last, of the background."""
    log_share = digamma(posterior.alpha) - digamma(jnp.sum(posterior.alpha))
    component = jnp.where(posterior.active[:, None], _expected_log_density(posterior, samples), -jnp.inf)
    return log_share[:, None] + jnp.concatenate([component, samples.log_background[None]])


def _maximise(r: Float[Array, "B N"], active: Array, samples: WeightedSamples) -> tuple[Posterior, Array]:
    """The posterior given responsibilities, and the bound at both."""
    weighted = r * samples.counts[None]
    n = jnp.sum(weighted, axis=1)
    stats = _statistics(weighted[:-1], samples)
    (M, Lambda, S, nu), value = _component(stats)
    posterior = Posterior(M, Lambda, S, nu, ALPHA_0 + n, active)
    bound = (
        jnp.sum(jnp.where(active, value, 0.0))
        + weighted[-1] @ samples.log_background
        + jnp.sum(gammaln(ALPHA_0 + n) - gammaln(ALPHA_0))
        + gammaln(ALPHA_0 * len(n))
        - gammaln(ALPHA_0 * len(n) + jnp.sum(n))
        + jnp.sum(samples.counts[None] * _entropy(r))
    )
    return posterior, bound


def _entropy(r: Any, xp: ModuleType = jnp) -> Any:
    return -xp.where(r > 0.0, r * xp.log(xp.where(r > 0.0, r, 1.0)), 0.0)


@jax.jit
def climb(
    r: Float[Array, "B N"], active: Bool[Array, " C"], samples: WeightedSamples, *, steps: int | Array
) -> tuple[Array, Array]:
    """Responsibilities after some steps of variational EM, and their bound."""

    def step(_: Array | int, r: Array) -> Array:
        posterior, _ = _maximise(r, active, samples)
        return jax.nn.softmax(_log_responsibilities(posterior, samples), axis=0)

    r = jax.lax.fori_loop(0, steps, step, r)
    return r, _maximise(r, active, samples)[1]


def join_gains(r: Float[Array, "B N"], active: Bool[Array, " C"], samples: WeightedSamples) -> Float[np.ndarray, "C C"]:
    """How much the bound changes when two components become one; minus infinity where there are not two."""
    gains = np.array(_gains_apart(r, active, samples))
    shares, counts = np.asarray(r)[:-1], np.asarray(samples.counts)
    for one in np.flatnonzero(np.asarray(active)):
        # A sample of which one of the two has nothing has the same entropy before and after.
        mine = np.flatnonzero(shares[one] > NEGLIGIBLE)
        apart, own = shares[:, mine], shares[one, mine]
        gains[one] += (_entropy(apart + own, np) - _entropy(apart, np) - _entropy(own, np)) @ counts[mine]
    return gains


@jax.jit
def _gains_apart(r: Float[Array, "B N"], active: Bool[Array, " C"], samples: WeightedSamples) -> Float[Array, "C C"]:
    """`join_gains` of components that share no sample."""
    stats = _statistics(r[:-1] * samples.counts[None], samples)
    _, single = _component(stats)
    _, double = jax.lax.map(
        lambda one: _component(jax.tree.map(lambda part, of_one: part + of_one[None], stats, one)), stats
    )
    single += gammaln(ALPHA_0 + stats.n) - gammaln(ALPHA_0)
    double += gammaln(ALPHA_0 + stats.n[:, None] + stats.n[None]) - gammaln(ALPHA_0)
    pair = active[:, None] & active[None] & ~jnp.eye(len(active), dtype=bool)
    return jnp.where(pair, double - single[:, None] - single[None], -jnp.inf)


@jax.jit
def posterior_of(r: Float[Array, "B N"], active: Bool[Array, " C"], samples: WeightedSamples) -> Posterior:
    """The posterior given responsibilities."""
    return _maximise(r, active, samples)[0]


@jax.jit
def responsibilities(posterior: Posterior, samples: WeightedSamples) -> Float[Array, "C N"]:
    """r_io of samples that belong to some component: the background has no say."""
    return jax.nn.softmax(_log_responsibilities(posterior, samples)[:-1], axis=0)


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
            gains = np.where(_adjacent(np.asarray(r), start.neighbours), gains, -np.inf)
        joined, left = _join(np.asarray(r), np.asarray(active), gains)
        if joined is not None:
            active = jnp.asarray(left)
            r, bound = climb(jnp.asarray(joined), active, samples, steps=EM_STEPS)
        elif nearby:
            nearby = False
        else:
            break
    rest, heavy = _drop(np.asarray(r), np.asarray(active), np.asarray(samples.counts), least)
    active = jnp.asarray(heavy)
    r, bound = climb(jnp.asarray(rest), active, samples, steps=FINAL_STEPS)
    return Fit(posterior_of(r, active, samples), np.asarray(r), float(bound))


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


def _begin(start: MixtureStart) -> tuple[Array, Array]:
    rows = np.arange(start.components + 1)[:, None] == start.labels[None]
    r = np.where(rows, 1.0 - LOOSE, LOOSE / start.components)
    active = rows[:-1].any(axis=1)
    r[:-1][~active] = 0.0
    return jnp.asarray(r / r.sum(axis=0)), jnp.asarray(active)


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
