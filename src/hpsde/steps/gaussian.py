"""Gaussian option policies and their weighted regression (paper, "Experimental Results").

    pi(xi | s, o) = N(xi | mu_o(s), Sigma_o),    mu_o(s) = b_o + w_o^T phi(s) + h_o(phi(s))

The paper's mean is linear in the features: h = 0. Other kinds of options add an h of their own (option_policies.py).
All steps that move a mean (model_step.py, refinement.py, climbers.py) change b and w.

Where parameters have bounds, the mean is clipped to them, and the Gaussian is truncated at them, one parameter after
the other: with Sigma = C C', parameter j given those before it is Gaussian with the mean m_j and the standard deviation
C_jj, and is drawn from the part between the bounds. So its density is known exactly,

    log pi = log N(xi | mu, Sigma) - sum_j log(Phi(b_j) - Phi(a_j)),   a_j = (low_j - m_j) / C_jj,  b_j alike.

The offset b_o is kept apart from the weights, so that the ridge pulls an option towards its own mean and
never towards zero: shifting all parameters shifts the policy and nothing else.

All is computed by numpy, or by JAX where options are JAX's arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from hpsde.base.arrays import map_arrays, namespace, special
from hpsde.base.draws import normal_rows, uniform_rows
from hpsde.base.shapes import Array, Float

RIDGES = (1e-2, 1e-3, 1e-4, 1e-5)
"""From which the ridge is chosen, the strongest first."""


class AddedMean(Protocol):
    """What an option's mean adds to its linear part: a named tuple of arrays. With all of them 0, it adds 0."""

    @property
    def kind(self) -> str:
        """The name of the `OptionPolicies` that fits it."""

    def mean(self, features: Any, xp: Any) -> Any:
        """h(phi) [N, D] of one option, computed by xp alone: jax.numpy, or numpy where the policy is in use."""


class LinearGaussian(NamedTuple):
    """One option policy, or O of them with a leading axis: b [D], w [F, D], Sigma [D, D]; low and high [D]: the bounds
    of the parameters, where they have any; h: what the mean adds to its linear part, None where it adds nothing.
    """

    b: Float[Array, "*O D"]
    w: Float[Array, "*O F D"]
    Sigma: Float[Array, "*O D D"]
    low: Float[Array, "*O D"] | None = None
    high: Float[Array, "*O D"] | None = None
    h: Any = None


def cut(options: LinearGaussian, limits: tuple[np.ndarray, np.ndarray] | None) -> LinearGaussian:
    """The options with bounds [D] of their parameters, the same for all; None: without."""
    if limits is None:
        return options._replace(low=None, high=None)
    low, high = (np.broadcast_to(np.asarray(each), np.shape(options.b)) for each in limits)
    return options._replace(low=low, high=high)


def where(which: np.ndarray, one: LinearGaussian, other: LinearGaussian) -> LinearGaussian:
    """The options `which` [O] of one, and those of the other."""

    def chosen(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return map_arrays(chosen, one, other)


def as_linear(options: LinearGaussian, like: LinearGaussian) -> LinearGaussian:
    """Options that are linear in the features, in the form of others: with an h of 0, where those have one."""
    count = len(options.b)
    return options._replace(h=map_arrays(lambda part: np.zeros((count, *part.shape[1:]), part.dtype), like.h))


def with_bends(options: LinearGaussian, features: int) -> LinearGaussian:
    """Options that do not bend, in the form of others that may: with w = 0 for the features that they lack."""
    lacking = features - options.w.shape[1]
    return options._replace(w=np.pad(options.w, ((0, 0), (0, lacking), (0, 0)))) if lacking else options


def added(options: LinearGaussian, features: np.ndarray) -> np.ndarray:
    """h_o(phi(s)) [O, N, D] for every option; where means are linear in the features, zeros that take no memory."""
    if options.h is None:
        return np.broadcast_to(0.0, (options.b.shape[0], len(features), options.b.shape[1]))
    return np.asarray(_added(options, features))


def _added(options: LinearGaussian, features: Float[Array, "N F"]) -> Float[Array, "O N D"]:
    xp = namespace(options.b, features)
    each = (map_arrays(lambda part, o=o: part[o], options.h) for o in range(options.b.shape[0]))
    return xp.stack([h.mean(features, xp) for h in each])


def means(options: LinearGaussian, features: Float[Array, "N F"]) -> Float[Array, "O N D"]:
    """mu_o(s) = b_o + w_o^T phi(s) + h_o(phi(s)) for every option, within the bounds."""
    free = options.b[:, None, :] + features[None] @ options.w
    if options.h is not None:
        free = free + _added(options, features)
    if options.low is None or options.high is None:
        return free
    return namespace(free).clip(free, options.low[:, None, :], options.high[:, None, :])


def draw(key: Array, options: LinearGaussian, features: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Parameters [N, D], each of one option `which` [N], with features [N, F]."""
    b, w, Sigma = (np.asarray(each) for each in options[:3])
    mean, C = b[which] + np.einsum("nf,nfd->nd", features, w[which]), np.linalg.cholesky(Sigma)[which]
    if options.h is not None:
        mean = mean + added(options, features)[which, np.arange(len(which))]
    if options.low is None or options.high is None:
        noise = normal_rows(key, len(which), b.shape[1])
        return mean + np.einsum("nij,nj->ni", C, noise)
    low, high = np.asarray(options.low)[which], np.asarray(options.high)[which]
    mean, share = np.clip(mean, low, high), uniform_rows(key, *mean.shape)
    noise = np.zeros_like(mean)
    for j in range(mean.shape[1]):
        at = mean[:, j] + np.einsum("ni,ni->n", C[:, j, :j], noise[:, :j])
        noise[:, j] = _draw_between((low[:, j] - at) / C[:, j, j], (high[:, j] - at) / C[:, j, j], share[:, j])
    return np.clip(mean + np.einsum("nij,nj->ni", C, noise), low, high)


def _draw_between(a: np.ndarray, b: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The quantile at `share` of a standard Gaussian truncated to [a, b]; exact also far out in the tails."""
    turned = a > 0.0
    a, b = np.where(turned, -b, a), np.where(turned, -a, b)
    share = np.where(turned, 1.0 - share, share)
    below, above = special(np).log_ndtr(a), special(np).log_ndtr(b)
    log_p = above + np.log1p(-(1.0 - share) * -np.expm1(below - above))
    x = np.clip(special(np).ndtri_exp(log_p), a, b)
    return np.where(turned, -x, x)


def project(options: LinearGaussian, P: Float[Array, "D K"]) -> LinearGaussian:
    """The policies of the combinations xi P of the parameters, which have no bounds."""
    h = None
    if options.h is not None:
        h = Projected(options.h, namespace(P).broadcast_to(P, (options.b.shape[0], *P.shape)))
    return LinearGaussian(options.b @ P, options.w @ P, P.T @ options.Sigma @ P, h=h)


class Projected(NamedTuple):
    """h_o P of the combinations xi P of the parameters."""

    h: Any
    P: Float[Array, "*O D K"]

    def mean(self, features: Any, xp: Any) -> Any:
        """h(phi) P [N, K]."""
        return self.h.mean(features, xp) @ self.P


def log_density(
    options: LinearGaussian, features: Float[Array, "N F"], parameters: Float[Array, "N D"]
) -> Float[Array, "O N"]:
    """log pi(xi | s, o) for every option and sample; beyond the bounds, that of the nearest parameters within."""
    xp, mean = namespace(options.b, features, parameters), means(options, features)
    factor = xp.linalg.cholesky(options.Sigma)
    scale = xp.diagonal(factor, axis1=1, axis2=2)  # [O, D]
    low, high = (None if end is None else end[:, None, :] for end in (options.low, options.high))
    xi = parameters[None] if low is None or high is None else xp.clip(parameters[None], low, high)
    white = xp.swapaxes(xp.linalg.solve(factor, xp.swapaxes(xi - mean, 1, 2)), 1, 2)
    constant = 0.5 * parameters.shape[1] * math.log(2.0 * math.pi)
    value = -0.5 * xp.sum(white**2, axis=2) - xp.sum(xp.log(scale), axis=1)[:, None] - constant
    if low is None or high is None:
        return value
    # m_j = xi_j - C_jj white_j
    ends = ((end - xi) / scale[:, None, :] + white for end in (low, high))
    return value - xp.sum(_log_between(*ends), axis=2)


def _log_between(a: Array, b: Array) -> Array:
    """log(Phi(b) - Phi(a)) for a < b, however far out."""
    xp = namespace(a, b)
    log_ndtr, turned = special(xp).log_ndtr, a > 0.0
    a, b = xp.where(turned, -b, a), xp.where(turned, -a, b)
    above = log_ndtr(b)
    # An infinite end has no part of it.
    less = xp.where(xp.isinf(a), -xp.inf, log_ndtr(xp.where(xp.isinf(a), -1.0, a)) - above)
    return above + xp.log(-xp.expm1(less))


def fit(
    features: Float[Array, "N F"],
    parameters: Float[Array, "N D"],
    d: Float[Array, " N"],
    *,
    ridge: float | None,
    variance_floor: float,
    pseudo_samples: float | None = None,
    fit_h: Callable[[Array, Array, Array], Any] | None = None,
) -> LinearGaussian:
    """Weighted ridge regression with sample weights d_i >= 0 (their scale does not matter).

    w = (Phi^T D Phi + ridge)^-1 Phi^T D Xi on centred data, Sigma = sum_i d_i e_i e_i^T / Z,
    Z = ((sum d)^2 - sum d^2) / sum d, e_i = xi_i - mu(s_i).

    `fit_h` gives h by features, parameters and weights that sum to 1; the regression is of what h leaves.

    `ridge` None takes that of RIDGES whose error is least when each sample is left out in turn, e_i / (1 - p_i), p_i
    being the sample's leverage on its own mean; errors of each parameter count in its own standard deviations.

    With fewer than 2 (D + 1) effective samples the correlations in Sigma are shrunk towards 0, or, however many there
    are, by `pseudo_samples` without correlation; variances never fall under `variance_floor`. `parameters` are in
    standard units.
    """
    xp = namespace(features, parameters, d)
    total = xp.maximum(xp.sum(d), 1e-300)
    d = d / total
    effective = 1.0 / xp.maximum(xp.sum(d**2), 1e-300)
    h = None if fit_h is None else fit_h(features, parameters, d)
    parameters = parameters if h is None else parameters - h.mean(features, xp)
    phi_mean, xi_mean = d @ features, d @ parameters
    phi, xi = features - phi_mean[None, :], parameters - xi_mean[None, :]
    gram, moment = effective * (phi.T * d[None, :]) @ phi, effective * (phi.T * d[None, :]) @ xi
    strength, turn = xp.linalg.eigh(gram)  # by which all ridges are solved
    turned, strength = phi @ turn, xp.maximum(strength, 0.0)

    def regress(ridge: float) -> tuple[Array, Array]:
        """w, and the squared errors [D] with each sample left out."""
        known = 1.0 / (strength + ridge)
        w = turn @ (known[:, None] * (turn.T @ moment))
        pull = d * (1.0 + effective * (turned**2 @ known))
        left_out = (xi - phi @ w) / xp.maximum(1.0 - pull, 1e-3)[:, None]
        return w, d @ left_out**2

    if ridge is None:
        candidates, errors = (xp.stack(each) for each in zip(*map(regress, RIDGES), strict=True))
        w = candidates[xp.argmin(xp.sum(errors / xp.maximum(errors[0], 1e-300)[None, :], axis=1))]
    else:
        w = regress(ridge)[0]
    error = xi - phi @ w
    # Z = 1 - sum d^2 for weights that sum to 1; a single sample has Z = 0 and no spread of its own.
    covariance = (error.T * d[None, :]) @ error / xp.maximum(1.0 - xp.sum(d**2), 1e-3)
    size = parameters.shape[1]
    trust = xp.minimum(effective / (2.0 * (size + 1.0)), 1.0)
    if pseudo_samples is not None:
        trust = effective / (effective + pseudo_samples)
    diagonal = xp.diag(xp.diagonal(covariance))
    covariance = trust * covariance + (1.0 - trust) * diagonal + variance_floor * xp.eye(size)
    return LinearGaussian(xi_mean - phi_mean @ w, w, covariance, h=h)
