"""Refinement of every option by a local model of the return around its mean.

Beside its optimum the return of an option, or where it is a distance the square of what it lacks, is nearly quadratic
in the parameters, whatever it is elsewhere. With
x = C^-1 (xi - mu_o(s)), Sigma_o = C C' and phi~(s) = [1, standardised phi(s)], the rollouts nearest to the option are
regressed on

    R(x, s) = phi~(s)' l + phi~(s)' G x - 1/2 x' M x + noise.

Where M has a direction e of curvature m > 0, the optimum lies at d(s) = phi~(s)' G e / m along it: a policy that is
linear in the features again, with a variance that the regression knows. The option is the prior: d(s) = phi~(s)' A with
a variance of 1 in the mean over all contexts. Along directions and in contexts of which the rollouts say nothing it
stays as it is. The posterior of the optimum is where the option explores next: the better it is known, the narrower.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde.steps import discovery, distances, gaussian
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.local_models import (
    FAR,
    FEWEST,
    NEAREST,
    NOISE_SHARE,
    RESOLUTION,
    Coefficients,
    LocalModel,
    Modelled,
    local_models,
    regress,
    upper,
)

ROUNDS, NEARER = 10, 1e-3  # looks at most, as long as log |K| falls by so much
SIGNIFICANT = 4.0  # standard errors that a curvature must have
VANISHING = 0.25  # of the mean squared distance of the nearest rollouts, that is left at most where distances vanish
WIDTH = 2.0  # of the exploration, in deviations of the optimum
SMALL = 0.3  # deviations of the first rollouts: a wider option is not put on a bound
NEAR, NARROWER = 2.0, 0.3  # deviations to a bound, and how much narrower an option is on it
NARROWEST = 1e-7  # exploration, in deviations of the first rollouts


class Optimum(NamedTuple):
    """Where the optimum is, in units of the option: at x = phi~' X [F + 1, D], with covariance K [D, D].

    W [D, D]: covariance of a way on which the return changes by a share of its noise.
    """

    X: np.ndarray
    K: np.ndarray
    W: np.ndarray

    @property
    def volume(self) -> float:
        """log |K|."""
        return float(np.linalg.slogdet(self.K)[1])


class LocalRollouts(NamedTuple):
    """x [N, D] in units of the option, phi~ [N, F + 1] (design), returns [N], which of them are the option's own [N],
    and the prior's precision Q [F + 1, F + 1].
    """

    design: np.ndarray
    x: np.ndarray
    returns: np.ndarray
    own: np.ndarray
    Q: np.ndarray


class Information(NamedTuple):
    """What a local model says of its optimum phi~' d: along each of its directions e, the columns of E [D, D], the
    precision J [D, F + 1, F + 1] of d e (0: it says nothing) and J d e as the columns of target [F + 1, D].

    W [D, D]: covariance of a way on which what is modelled falls by 1.
    """

    E: np.ndarray
    J: np.ndarray
    target: np.ndarray
    W: np.ndarray


def refine(
    options: LinearGaussian,
    last: LinearGaussian | None,
    kept: np.ndarray,
    old: np.ndarray,
    belongs: np.ndarray,
    good: np.ndarray,
    features: np.ndarray,
    parameters: np.ndarray,
    returns: np.ndarray,
    everywhere: np.ndarray,
    bends: int = 0,
) -> LinearGaussian:
    """The options refined by the rollouts that belong to them [O, N], in contexts in which they are good [O, N].

    last: the options as they were before, those `old` [O]. everywhere [M, F]: features of all contexts. bends: how many
    features, the last ones, an option has only where its optimum is known better with them.

    It is b and w that move: what an option's mean adds to them, h, is taken off the parameters.
    """
    b, w, Sigma = (np.array(each) for each in options[:3])
    h, h_everywhere = (gaussian.added(options, each) for each in (features, everywhere))
    h_last = None if last is None else gaussian.added(last, everywhere)
    for o in np.flatnonzero(kept & np.any(belongs & good, axis=1)).tolist():
        rows = np.flatnonzero(good[o])
        before = None
        if last is not None and h_last is not None and old[o]:
            before = _with_added(_one(last, o), everywhere, h_last[o] - h_everywhere[o])
        arrays = features[rows], parameters[rows] - h[o, rows], returns[rows], belongs[o, rows], everywhere
        one = refine_one(_one(options, o), before, *arrays, bends)
        if options.low is not None and options.high is not None:
            low, high = (np.asarray(each)[o] for each in (options.low, options.high))
            one = to_bounds(one, low, high, *arrays, h[o, rows], h_everywhere[o])
        b[o], w[o], Sigma[o], *_ = one
    return options._replace(b=b, w=w, Sigma=Sigma)


def _one(options: LinearGaussian, o: int) -> LinearGaussian:
    return LinearGaussian(*(np.asarray(part)[o] for part in options[:3]))


def _with_added(option: LinearGaussian, features: np.ndarray, more: np.ndarray) -> LinearGaussian:
    """The option with what is nearest to `more` [M, D] in contexts of these features [M, F] added to its mean."""
    if not np.any(more):
        return option
    design = np.concatenate([np.ones((len(features), 1)), features], axis=1)
    slopes = np.linalg.lstsq(design, more, rcond=None)[0]
    return option._replace(b=option.b + slopes[0], w=option.w + slopes[1:])


def refine_one(
    option: LinearGaussian,
    last: LinearGaussian | None,
    phi: np.ndarray,
    parameters: np.ndarray,
    returns: np.ndarray,
    own: np.ndarray,
    everywhere: np.ndarray,
    bends: int = 0,
) -> LinearGaussian:
    """An option at the optimum that its own rollouts show, looked for around itself and around where it was `last`.

    The rollouts of others, too, can deny an optimum. With features that bend it is looked for once more, also around
    the optimum without them; the one that is known better is taken.
    """
    features = discovery.fit_features(phi[own])
    C = np.linalg.cholesky(option.Sigma)

    def in_units(differences: np.ndarray) -> np.ndarray:
        return np.linalg.solve(C, differences.T).T

    x, design, wide = in_units(parameters - option.b - phi @ option.w), features(phi), features(everywhere)
    starts = []
    if last is not None:
        b, w = last.b - option.b, last.w - option.w
        X = in_units(np.concatenate([(b + features.centre @ w)[None], w * features.scale[:, None]]))
        B = np.linalg.solve(C, np.linalg.cholesky(last.Sigma)) / WIDTH
        starts.append(Optimum(X, B @ B.T, np.zeros_like(B)))

    def look(count: int, starts: list[Optimum]) -> Optimum:
        """The optimum that is known best, as a policy of the first `count` of phi~."""
        Q = prior_precision(wide[:, :count])
        given = LocalRollouts(design[:, :count], x, returns, own, Q)
        return min((locate(given, start) for start in [unknown(count, len(C)), *starts]), key=lambda each: each.volume)

    count = design.shape[1]
    found = look(count - bends, [_nearest(start, wide, count - bends) for start in starts])
    if bends:
        plain = found._replace(X=np.pad(found.X, ((0, bends), (0, 0))))
        found = min((plain, look(count, [plain, *starts])), key=lambda each: each.volume)
    given = LocalRollouts(design, x, returns, own, prior_precision(wide))
    found = by_distance(given, found, starts, count - bends)
    change, slopes = (part[0] for part in features.raw((found.X @ C.T)[None]))
    variance, turn = np.linalg.eigh(WIDTH**2 * found.K + found.W)
    Sigma = C @ (turn * np.clip(variance, 0.0, 1.0)) @ turn.T @ C.T + NARROWEST**2 * np.eye(len(C))
    return LinearGaussian(option.b + change, option.w + slopes, Sigma)


def _nearest(start: Optimum, design: np.ndarray, count: int) -> Optimum:
    """The policy of the first `count` of phi~ that is nearest to this one."""
    if count == design.shape[1]:
        return start
    return start._replace(X=np.linalg.lstsq(design[:, :count], design @ start.X, rcond=None)[0])


def to_bounds(
    option: LinearGaussian,
    low: np.ndarray,
    high: np.ndarray,
    phi: np.ndarray,
    parameters: np.ndarray,
    returns: np.ndarray,
    own: np.ndarray,
    everywhere: np.ndarray,
    h: np.ndarray,
    h_everywhere: np.ndarray,
) -> LinearGaussian:
    """The option on those of its bounds [D] that are near and towards which its own nearest rollouts grow better, where
    it is small enough for a slope to tell.

    h [N, D], h_everywhere [M, D]: what its mean adds to its linear part, and what was taken off the parameters.

    There the optimum is no place at which the slope vanishes. On the bound the option is narrower: that the slope is as
    it was, its next rollouts must show.
    """
    features = discovery.fit_features(phi[own])
    deviation = np.sqrt(np.diagonal(option.Sigma))
    x = parameters[own] + h[own] - np.clip(option.b + phi[own] @ option.w + h[own], low, high)
    x = x / deviation
    A = np.concatenate([features(phi[own]), x], axis=1)
    count = int(2.0 * FEWEST * A.shape[1]) + 2
    if len(A) < count:
        return option
    nearest = np.argsort(np.max(np.abs(x), axis=1), kind="stable")[:count]
    fit = regress(A[nearest], returns[own][nearest], Modelled())
    slope, error = (each[-len(low) :] for each in (fit.coefficients, np.sqrt(fit.variance * np.diagonal(fit.inverse))))
    bound = np.where(slope > 0.0, high, low)
    mean = np.clip(option.b + everywhere @ option.w + h_everywhere, low, high)
    near = (deviation <= SMALL) & np.all(np.abs(bound - mean) <= NEAR * deviation, axis=0)
    there = near & (np.abs(slope) > SIGNIFICANT * error)
    narrower = np.where(there, NARROWER, 1.0)
    Sigma = option.Sigma * narrower[:, None] * narrower[None] + NARROWEST**2 * np.eye(len(low))
    # Beyond the bound by all that h takes back: the mean is clipped.
    beyond = bound + np.sign(slope) * np.max(np.abs(h_everywhere), axis=0)
    b, w = np.where(there, beyond, option.b), np.where(there, 0.0, option.w)
    return LinearGaussian(b, w, Sigma)


def unknown(count: int, size: int) -> Optimum:
    """Nothing is known but the prior."""
    return Optimum(np.zeros((count, size)), np.eye(size), np.zeros((size, size)))


def prior_precision(design: np.ndarray) -> np.ndarray:
    """Q [F + 1, F + 1] such that phi~' a with a ~ N(0, Q^-1) has the variance 1 in the mean over the contexts."""
    count = design.shape[1]
    moments = design.T @ design / len(design)
    return count * (moments + RESOLUTION * np.trace(moments) * np.eye(count))


def locate(given: LocalRollouts, start: Optimum) -> Optimum:
    """The posterior of the optimum given the rollouts, looking ever nearer at it."""
    best = unknown(*start.X.shape)
    for _ in range(ROUNDS):
        found = _look(given, start)
        if found.volume > best.volume - NEARER:
            break
        best = start = found
    return best


def by_distance(given: LocalRollouts, found: Optimum, starts: list[Optimum], slopes: int) -> Optimum:
    """The optimum by a model of a distance, where the returns are one and by that model less is lost than where it was
    `found`. Of phi~ the first `slopes` do not bend; the model is one around that start whose nearest rollouts are best.

    Without a context there is one place to find, which needs no such model (climbing.py).
    """
    if given.design.shape[1] == 1:
        return found
    design, x, returns = given.design[given.own], given.x[given.own], given.returns[given.own]
    count, size = found.X.shape

    def nearest(start: Optimum) -> np.ndarray:
        order = np.argsort(np.sum((x - design @ start.X) ** 2, axis=1), kind="stable")
        return order[: distances.wanted(count, slopes, size)]

    start = max([unknown(count, size), found, *starts], key=lambda each: float(np.mean(returns[nearest(each)])))
    rows = nearest(start)
    near = design[rows], x[rows] - design[rows] @ start.X
    model = distances.describe(near[0], slopes, near[1], returns[rows])
    if model is None:
        return found
    X, K, steepness = distances.optimum(model, given.Q, given.design)
    here, before = (model.expected(given.design, given.design @ each) for each in (X, found.X - start.X))
    if here > before or here > VANISHING * model.expected(*near):
        return found
    steepness = steepness + RESOLUTION * np.trace(steepness) * np.eye(size)
    return Optimum(start.X + X, K, NOISE_SHARE**2 * model.variance * np.linalg.inv(steepness))


def _look(given: LocalRollouts, start: Optimum) -> Optimum:
    """The posterior by rollouts near x = phi~' X, in units of B, K = B B': by as many as say most of it."""
    variance, turn = np.linalg.eigh(start.K)
    X, B = start.X, turn * np.sqrt(np.maximum(variance, RESOLUTION * variance[-1]))
    u = np.linalg.solve(B, (given.x - given.design @ X).T).T
    moments = given.design.T @ given.design / len(given.design)
    fits = list(local_models(given.design[given.own], u[given.own], given.returns[given.own]))
    noise = min((each.variance for each in fits), default=0.0)
    found = []
    for fit in fits:
        # What the model cannot describe does not average out as noise does.
        excess = (fit.variance - noise) * fit.rollouts / len(fit.coefficients)
        known = _information(fit.coefficients, fit.inverse * (noise + excess), given.Q, u.shape[1])
        d, K = _posterior(known, given.Q, B, X, moments)
        found.append((Optimum(X + d @ B.T, B @ K @ B.T, fit.modelled.width(noise) * B @ known.W @ B.T), fit, d))
    nothing = unknown(*X.shape)
    for optimum, fit, d in sorted(found, key=lambda each: each[0].volume):
        if optimum.volume < nothing.volume and not is_denied(fit, given.design, u, given.returns, d):
            return optimum
    return nothing


def _posterior(
    known: Information, Q: np.ndarray, B: np.ndarray, X: np.ndarray, moments: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The optimum phi~' d, d [F + 1, D] in units of B, given the prior that phi~' (X + d B') is 0 with the precision Q,
    and its covariance K [D, D] in the mean over contexts with these moments of phi~ [F + 1, F + 1].

    Precisions along the directions e differ by more than a double holds: in the basis of e, and scaled by its diagonal,
    their sum can be inverted.
    """
    E, shape = known.E, X.shape
    turned = B @ E
    prior = np.einsum("ab,jk->ajbk", Q, turned.T @ turned)
    total = prior + np.einsum("jab,jk->ajbk", known.J, np.eye(shape[1]))
    total = total.reshape(X.size, X.size)
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(total), np.diagonal(prior.reshape(total.shape))))
    covariance = np.linalg.inv(total * scale[:, None] * scale[None]) * scale[:, None] * scale[None]
    d = (covariance @ (known.target - Q @ X @ B @ E).ravel()).reshape(shape)
    K = np.einsum("ab,ajbk->jk", moments, covariance.reshape(*shape, *shape))
    return d @ E.T, E @ K @ E.T


def is_denied(fit: LocalModel, design: np.ndarray, u: np.ndarray, returns: np.ndarray, d: np.ndarray) -> bool:
    """Whether the rollouts nearest to the optimum phi~' d are far worse than the model has them there: beyond a cliff.

    They may fall short of the model by all that it promises, from where the option is to the optimum, and by what it
    says that they lose against the optimum; what others it was fitted to fall short by comes on top.
    """
    optimum = design @ d
    nearest = np.argsort(np.sum((u - optimum) ** 2, axis=1), kind="stable")[: len(fit.coefficients)]
    phi, expected = design[nearest], fit(design[nearest], u[nearest])
    best, here = fit(phi, optimum[nearest]), fit(phi, np.zeros_like(u[nearest]))
    noise = np.sqrt(fit.variance) * fit.modelled.steepness(returns[nearest])
    allowed = FAR * noise + np.maximum(best - here, 0.0) + np.maximum(best - expected, 0.0)
    return float(np.mean(fit.modelled(returns[nearest]) < expected - allowed)) > 0.5


def _information(coefficients: np.ndarray, covariance: np.ndarray, Q: np.ndarray, size: int) -> Information:
    """What a local model with these coefficients, known with this covariance, says of its optimum."""
    count = len(Q)
    linear, quadratic = slice(count, count * (1 + size)), slice(count * (1 + size), None)
    i, j = upper(size)
    _, (G,), (M,) = Coefficients.of(coefficients[None], count, count, size)
    of_G = covariance[linear, linear].reshape(count, size, count, size)
    nearest = NEAREST**2 * np.linalg.inv(Q)
    curvatures, E = np.linalg.eigh(M)
    J, target, W = np.zeros((size, count, count)), np.zeros((count, size)), np.zeros((size, size))
    for place, (m, e) in enumerate(zip(curvatures, E.T, strict=True)):
        error = np.sqrt(max(float((e[i] * e[j]) @ covariance[quadratic, quadratic] @ (e[i] * e[j])), 0.0))
        if m > (SIGNIFICANT + np.sqrt(2.0 * (size - 1))) * error:
            d, V = G @ e / m, np.einsum("ajbk,j,k->ab", of_G, e, e) / m**2
            J[place] = np.linalg.inv(V + np.outer(d, d) * (error / m) ** 2 + nearest)
            target[:, place] = J[place] @ d
            W += 2.0 / m * np.outer(e, e)
    return Information(E, J, target, W)
