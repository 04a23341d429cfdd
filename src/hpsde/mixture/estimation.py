"""Latent options by weighted density estimation: a variational-Bayes Gaussian mixture with sample weights.

Paper, appendix "VBEM with importance weights". A sample weight is a count: weight 2 is the sample twice,
weight 0 is no sample, so the sum of the weights says how much the data weigh against the prior. Maximum
likelihood (`method="em"`) has the same call; its steps are in `mixture_em`.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from hpsde.base.shapes import Array, Bool, Float, Int
from hpsde.errors import UnknownNameError
from hpsde.mixture import em as mixture_em
from hpsde.mixture.model import DENSITY_METHODS, Mixture, MixturePrior
from hpsde.mixture.posterior import (
    LOG_2PI,
    Unit,
    e_step,
    log_densities,
    log_density,
    log_determinant,
    log_responsibilities,
    marginal,
    moments,
    select,
    sufficient_statistics,
)
from hpsde.mixture.search import EstimationMethod, begin, make_points, search
from hpsde.mixture.start import seed_responsibilities, start_sizes

__all__ = [
    "DENSITY_METHODS",
    "Mixture",
    "MixtureFitInfo",
    "MixturePrior",
    "default_prior",
    "e_step",
    "fit",
    "log_densities",
    "log_density",
    "log_responsibilities",
    "marginal",
    "select",
]


class MixtureFitInfo(NamedTuple):
    """What a fit went through. Its R starts are the restarts in order, then the warm start."""

    lower_bound: Float[Array, ""]  # of the mixture returned; for "em" the penalised log likelihood
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]
    chosen: Int[Array, ""]  # index of the start that the mixture came from
    bounds: Float[Array, " R"]  # of each start after the first round; minus infinity where there was none
    sizes: Int[Array, " R"]  # options that each start began with


def default_prior(
    x: Float[Array, "N Z"],
    weights: Float[Array, " N"],
    max_components: int,
) -> MixturePrior:
    """A prior in the units of the data: shift or scale a coordinate of the data, and the prior follows.

    Options are expected to have about a tenth of the variance of all the data, K_0^-1 = nu_0 / 10 diag(var), and means
    that scatter like the data: h_0 = mean, and beta_0 = 1 / 10 makes the covariance of a mean, (beta_0 S)^-1, about
    diag(var). nu_0 = Z + 2 is the least whole number with which an option's expected covariance exists. All alpha_0
    together are a tenth of a sample, so options that are not needed stay empty. The variance of a coordinate that does
    not vary is taken as 1.
    """
    total = jnp.sum(weights)
    share = weights / jnp.where(total > 0, total, 1.0)
    x = jnp.where(weights[:, None] > 0, x, 0.0)
    mean = share @ x
    variance = share @ (x - mean[None]) ** 2
    rounding = 64 * jnp.finfo(x.dtype).eps * jnp.max(jnp.abs(x), axis=0)
    variance = jnp.where(variance <= rounding**2, 1.0, variance)
    nu, spread = x.shape[1] + 2, 0.1
    return MixturePrior(
        alpha_0=jnp.asarray(0.1 / max_components, x.dtype),
        beta_0=jnp.asarray(spread, x.dtype),
        nu_0=jnp.asarray(nu, x.dtype),
        h_0=mean,
        K_0_inverse=jnp.diag(nu * spread * variance),
    )


# ---------------------------------------------------------------- maximisation step and bound


def posterior(
    statistics: Float[Array, "O P"], prior: MixturePrior, regularisation: float | Float[Array, ""] = 0.0
) -> Mixture:
    """VB-M step of the appendix, with prior mean h_0, from sums of w_i eta_io t(x_i).

    alpha = alpha_0 + gamma, beta = beta_0 + gamma, nu = nu_0 + gamma, h = (beta_0 h_0 + gamma c) / beta,
    K^-1 = K_0^-1 + scatter + beta_0 gamma / beta (c - h_0)(c - h_0)'   [+ gamma regularisation I].
    """
    mass, centre, scatter = moments(statistics, prior.h_0.shape[0])
    beta = prior.beta_0 + mass
    offset = centre - prior.h_0[None]
    pull = prior.beta_0 * mass / beta
    K_inverse = prior.K_0_inverse[None] + scatter + pull[:, None, None] * offset[:, :, None] * offset[:, None, :]
    return Mixture(
        alpha=prior.alpha_0 + mass,
        beta=beta,
        h=prior.h_0[None] + (mass / beta)[:, None] * offset,
        nu=prior.nu_0 + mass,
        K_inverse=K_inverse
        + (regularisation * mass)[:, None, None] * jnp.eye(offset.shape[1], dtype=offset.dtype)[None],
        mass=mass,
    )


def option_bounds(mixture: Mixture, log_det: Float[Array, " O"], prior: MixturePrior) -> Float[Array, " O"]:
    """Each option's part of the lower bound at the M-step's optimum; 0 for an option without mass.

    There the expectations of log likelihood, prior and posterior collapse to ratios of normalisers:
    log Gamma(alpha_o) / Gamma(alpha_0) + log c(beta_o, nu_o, K_o) / c(beta_0, nu_0, K_0)
    - gamma_o Z/2 log(2 pi), with c that of the Gaussian-Wishart density. `log_det` is that of K_o^-1.
    """
    Z = mixture.h.shape[1]
    # the prior is one more row, so that special functions are compiled once
    alpha, beta, nu, log_det = (
        jnp.append(after, before)
        for after, before in (
            (mixture.alpha, prior.alpha_0),
            (mixture.beta, prior.beta_0),
            (mixture.nu, prior.nu_0),
            (log_det, log_determinant(prior.K_0_inverse)),
        )
    )
    gammas = jnp.concatenate([alpha[:, None], (nu[:, None] - np.arange(Z)[None]) / 2], axis=1)
    log_norm = jnp.sum(gammaln(gammas), axis=1) + 0.5 * (nu * (Z * np.log(2) - log_det) - Z * jnp.log(beta))
    return log_norm[:-1] - log_norm[-1] - 0.5 * Z * LOG_2PI * mixture.mass


def constant(prior: MixturePrior, options: int, total: Float[Array, ""]) -> Float[Array, ""]:
    """The part of the bound that depends on the sum of weights alone: the Dirichlet's denominator.

    The bound is sum(option_bounds) + constant + entropy, entropy = -sum_i w_i sum_o eta_io log eta_io.
    """
    return gammaln(options * prior.alpha_0) - gammaln(options * prior.alpha_0 + total)


# ---------------------------------------------------------------- the fit


def fit(
    key: Array,
    x: Float[Array, "N Z"],
    weights: Float[Array, " N"],
    prior: MixturePrior,
    *,
    max_components: int = 10,
    restarts: int = 8,
    iterations: int | Int[Array, ""] = 200,
    tolerance: float | Float[Array, ""] = 1e-3,
    warm: Mixture | None = None,
    stickiness: float | Float[Array, ""] = 3.0,
    patience: int | Int[Array, ""] = 20,
    method: str = "vb",
) -> tuple[Mixture, MixtureFitInfo]:
    """Fit from several starts, merge options while that raises the bound, and keep the best.

    The restarts begin with different numbers of options, and an option that a start leaves out stays out of
    it, so the bound chooses the number (for "em", the bound less BIC's price). A start from `warm` keeps the
    order of its options, and only a mixture whose bound is higher by more than `stickiness` (nats) takes its
    place. Starts are compared after `patience` iterations, the best climbs on until its bound changes by less
    than `tolerance` (nats). Rows of weight 0 change nothing. A `warm` without any mass is no warm start.
    """
    if method not in DENSITY_METHODS:
        raise UnknownNameError("method", method, DENSITY_METHODS)
    if warm is None:
        warm = _nothing(max_components, x.shape[1], x.dtype)
    uniforms = _uniforms(key, restarts, max_components, x.dtype)
    control = FitControl(stickiness, iterations, patience, tolerance)
    return _fit(uniforms, x, weights, prior, warm, control, method=method)


class FitControl(NamedTuple):
    """The numbers that steer a fit; see `fit`."""

    stickiness: float | Float[Array, ""]
    iterations: int | Int[Array, ""]
    patience: int | Int[Array, ""]
    tolerance: float | Float[Array, ""]


def _nothing(options: int, size: int, dtype: np.dtype) -> Mixture:
    one = jnp.ones(options, dtype)
    eye = jnp.broadcast_to(jnp.eye(size, dtype=dtype), (options, size, size))
    return Mixture(one, one, jnp.zeros((options, size), dtype), one * (size + 1), eye, 0 * one)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _uniforms(key: Array, restarts: int, options: int, dtype: np.dtype) -> Float[Array, "R O"]:
    return jax.random.uniform(key, (restarts, options), dtype=dtype)


@functools.partial(jax.jit, static_argnames="method")
def _fit(
    uniforms: Float[Array, "R O"],
    x: Float[Array, "N Z"],
    weights: Float[Array, " N"],
    prior: MixturePrior,
    warm: Mixture,
    control: FitControl,
    method: str,
) -> tuple[Mixture, MixtureFitInfo]:
    """`fit` in coordinates where the prior has mean 0 and unit scales, so that nothing depends on units."""
    unit = Unit(prior.h_0, jnp.sqrt(jnp.diagonal(prior.K_0_inverse)))
    here = unit.prior(prior)
    y = jnp.where(weights[:, None] > 0, (x - unit.origin[None]) / unit.scale[None], 0.0)
    t = sufficient_statistics(y)
    points = make_points(t, weights)
    total = weights.sum()
    options = uniforms.shape[1]
    steps = _method(method, here, options, total)

    sizes = np.asarray(start_sizes(len(uniforms), options))
    present = warm.mass > 0
    warmed = present.any()
    last_active = jnp.where(warmed, present, np.arange(options) == 0)
    last = jnp.where(warmed, _again(unit.inwards(warm), total), last_active[:, None] * (t @ weights)[None])
    active = jnp.concatenate([np.arange(options)[None] < sizes[:, None], last_active[None]])
    statistics = jnp.concatenate([_seeds(uniforms, sizes, y, t, weights), last[None]])

    starts = jax.vmap(begin)(statistics, active)
    loyalty = jnp.where(warmed, control.stickiness, 0.0)
    found = search(steps, points, starts, loyalty, control.iterations, control.patience, control.tolerance)
    jacobian = total * jnp.sum(jnp.log(unit.scale))
    info = MixtureFitInfo(
        lower_bound=found.best.bound - jacobian,
        converged=jnp.abs(found.best.change) < control.tolerance,
        iterations=found.best.iterations - 1,
        chosen=found.chosen,
        bounds=found.bounds - jacobian,
        sizes=active.sum(axis=1),
    )
    return unit.outwards(steps.estimate(found.best.statistics)), info


def _seeds(
    uniforms: Float[Array, "R O"],
    sizes: np.ndarray,
    y: Float[Array, "N Z"],
    t: Float[Array, "P N"],
    weights: Float[Array, " N"],
) -> Float[Array, "R O P"]:
    """Sums of w_i eta_io t(y_i) of each restart, one restart at a time to spare memory."""

    def one(start: tuple[Array, Array]) -> Array:
        return (seed_responsibilities(start[0], y, weights, start[1]) * weights[None]) @ t.T

    return jax.lax.map(one, (uniforms, jnp.asarray(sizes)))


def _again(mixture: Mixture, total: Float[Array, ""]) -> Float[Array, "O P"]:
    """Sums of w_i eta_io t(x_i) of data with this total weight and the mixture's plug-in moments."""
    mass = mixture.mass * total / jnp.maximum(mixture.mass.sum(), jnp.finfo(total.dtype).tiny)
    rows, columns = np.triu_indices(mixture.h.shape[1])
    second = mixture.covariances[:, rows, columns] + mixture.h[:, rows] * mixture.h[:, columns]
    return mass[:, None] * jnp.concatenate([second, mixture.h, jnp.ones_like(mass)[:, None]], axis=1)


def _method(name: str, prior: MixturePrior, options: int, total: Float[Array, ""]) -> EstimationMethod:
    if name == "em":
        return EstimationMethod(
            estimate=lambda statistics: mixture_em.estimate(statistics, prior),
            option_bounds=lambda mixture, log_det: mixture_em.option_bounds(mixture, log_det, prior),
            constant=mixture_em.constant(total),
            price=lambda options: mixture_em.price(options, total, prior.h_0.shape[0]),
        )
    return EstimationMethod(
        estimate=lambda statistics: posterior(statistics, prior),
        option_bounds=lambda mixture, log_det: option_bounds(mixture, log_det, prior),
        constant=constant(prior, options, total),
        price=lambda options: jnp.zeros((), total.dtype),
    )


compiled_log_density = jax.jit(log_density)
compiled_log_responsibilities = jax.jit(log_responsibilities)
