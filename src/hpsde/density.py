"""Latent options by weighted density estimation: a variational-Bayes Gaussian mixture with sample weights.

Paper, appendix "VBEM with importance weights". A sample weight is a count: weight 2 is the sample twice, weight 0 is
no sample, so the sum of the weights says how much the data weigh against the prior. Maximum likelihood
(`method="em"`) has the same call; its steps are in `mixture_em`.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from hpsde._shapes import Array, Bool, Float, Int
from hpsde.errors import UnknownNameError
from hpsde import mixture_em
from hpsde.mixture import (
    LOG_2PI,
    Mixture,
    Prior,
    conditional_means,
    e_step,
    inverse_and_log_determinant,
    kept_options,
    log_densities,
    log_density,
    log_determinant,
    log_marginal_responsibilities,
    log_responsibilities,
    marginal,
    moments,
    natural_parameters,
    remove_empty,
    sample,
    select,
    sufficient_statistics,
)
from hpsde.mixture_search import Climb, Method, Points, climb, expectation, merges
from hpsde.mixture_start import seed_responsibilities, start_sizes

__all__ = [
    "DENSITY_METHODS",
    "FitInfo",
    "Mixture",
    "Prior",
    "conditional_means",
    "default_prior",
    "e_step",
    "fit",
    "kept_options",
    "log_densities",
    "log_density",
    "log_marginal_responsibilities",
    "log_responsibilities",
    "lower_bound",
    "m_step",
    "marginal",
    "remove_empty",
    "sample",
    "select",
]


DENSITY_METHODS = ("vb", "em")


class FitInfo(NamedTuple):
    """What a fit went through. Starts are the restarts in order, then the warm start where there is one."""

    lower_bound: Float[Array, ""]  # of the mixture returned
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]
    chosen: Int[Array, ""]  # index of the start that won
    bounds: Float[Array, " R"]  # of each start
    sizes: Int[Array, " R"]  # options that each start began with


def default_prior(
    x: Float[Array, "N Z"],
    weights: Float[Array, " N"],
    max_components: int,
    *,
    alpha_0: float | None = None,
    beta_0: float = 0.1,
    nu_0: float | None = None,
    spread: float = 0.1,
) -> Prior:
    """A prior in the units of the data: shifting or scaling a coordinate of the data does the same to the prior.

    h_0 is the weighted mean; K_0^-1 = nu_0 spread diag(weighted variance). A coordinate that does not vary says nothing about its
    unit: its variance is taken as 1.
    """
    Z = x.shape[1]
    total = jnp.sum(weights)
    share = weights / jnp.where(total > 0, total, 1.0)
    mean = share @ x
    variance = share @ (x - mean) ** 2
    largest = jnp.max(jnp.where(weights[:, None] > 0, jnp.abs(x), 0.0), axis=0)
    constant = variance <= (64 * jnp.finfo(x.dtype).eps * largest) ** 2
    nu = Z if nu_0 is None else nu_0
    return Prior(
        alpha_0=jnp.asarray(1.0 / max_components if alpha_0 is None else alpha_0, x.dtype),
        beta_0=jnp.asarray(beta_0, x.dtype),
        nu_0=jnp.asarray(nu, x.dtype),
        h_0=mean,
        K_0_inverse=jnp.diag(jnp.where(constant, 1.0, variance)) * nu * spread,
    )


# ---------------------------------------------------------------- maximisation step and bound


def posterior(statistics: Float[Array, "O P"], prior: Prior, regularisation: float = 0.0) -> Mixture:
    """VB-M step of the appendix, with prior mean h_0, from sums of w_i eta_io t(x_i).

    alpha = alpha_0 + gamma, beta = beta_0 + gamma, nu = nu_0 + gamma, h = (beta_0 h_0 + gamma c) / beta,
    K^-1 = K_0^-1 + scatter + beta_0 gamma / beta (c - h_0)(c - h_0)'   [+ gamma regularisation I].
    """
    mass, centre, scatter = moments(statistics, prior.h_0.shape[0])
    beta = prior.beta_0 + mass
    offset = centre - prior.h_0
    pull = prior.beta_0 * mass / beta
    K_inverse = prior.K_0_inverse + scatter + pull[:, None, None] * offset[:, :, None] * offset[:, None, :]
    return Mixture(
        alpha=prior.alpha_0 + mass,
        beta=beta,
        h=prior.h_0 + (mass / beta)[:, None] * offset,
        nu=prior.nu_0 + mass,
        K_inverse=K_inverse + (regularisation * mass)[:, None, None] * jnp.eye(offset.shape[1], dtype=offset.dtype),
        mass=mass,
    )


def m_step(
    x: Float[Array, "N Z"],
    weights: Float[Array, " N"],
    responsibilities: Float[Array, "N O"],
    prior: Prior,
    regularisation: float = 0.0,
) -> Mixture:
    """The posterior given the responsibilities eta_io of the weighted points."""
    t = sufficient_statistics(x - prior.h_0)
    statistics = (responsibilities * weights[:, None]).T @ t.T
    shifted = posterior(statistics, prior._replace(h_0=jnp.zeros_like(prior.h_0)), regularisation)
    return shifted._replace(h=shifted.h + prior.h_0)


def option_bounds(mixture: Mixture, log_det: Float[Array, " O"], prior: Prior) -> Float[Array, " O"]:
    """Each option's part of the lower bound where `mixture` is the M-step's optimum; 0 for an option without mass.

    There the expectations of log likelihood, prior and posterior collapse to ratios of normalisers:
    log Gamma(alpha_o) / Gamma(alpha_0) + log Z(beta_o, nu_o, K_o) / Z(beta_0, nu_0, K_0) - gamma_o Z/2 log(2 pi),
    with Z(beta, nu, K) that of the Gaussian-Wishart density. `log_det` is that of K_o^-1.
    """
    Z = mixture.h.shape[1]

    def log_normaliser(beta: Array, nu: Array, log_det: Array) -> Array:
        log_gamma = jnp.sum(gammaln((nu[..., None] - np.arange(Z)) / 2), axis=-1)
        return 0.5 * nu * (Z * np.log(2) - log_det) + log_gamma - 0.5 * Z * jnp.log(beta)

    before = log_normaliser(prior.beta_0, prior.nu_0, log_determinant(prior.K_0_inverse))
    after = log_normaliser(mixture.beta, mixture.nu, log_det)
    dirichlet = gammaln(mixture.alpha) - gammaln(prior.alpha_0)
    return dirichlet + after - before - 0.5 * Z * LOG_2PI * mixture.mass


def constant(prior: Prior, options: int, total: Float[Array, ""]) -> Float[Array, ""]:
    """The part of the bound that depends on the sum of weights alone: the Dirichlet's denominator."""
    return gammaln(options * prior.alpha_0) - gammaln(options * prior.alpha_0 + total)


def lower_bound(
    mixture: Mixture, prior: Prior, weights: Float[Array, " N"], log_eta: Float[Array, "N O"]
) -> Float[Array, ""]:
    """Lower bound on the log evidence of the weighted data, with all its terms.

    For responsibilities exp(log_eta) and the `mixture` that `m_step` made of them:
    sum(option_bounds) + constant + entropy, entropy = -sum_i w_i sum_o eta_io log eta_io.
    """
    eta = jnp.exp(log_eta)
    entropy = -weights @ jnp.sum(jnp.where(eta > 0, eta * log_eta, 0.0), axis=1)
    parts = option_bounds(mixture, log_determinant(mixture.K_inverse), prior)
    return jnp.sum(parts) + constant(prior, parts.shape[0], weights.sum()) + entropy


# ---------------------------------------------------------------- the fit


def fit(
    key: Array,
    x: Float[Array, "N Z"],
    weights: Float[Array, " N"],
    prior: Prior,
    *,
    max_components: int = 10,
    restarts: int = 8,
    iterations: int = 200,
    tolerance: float = 1e-3,
    warm: Mixture | None = None,
    stickiness: float = 3.0,
    method: str = "vb",
    max_merges: int = 10,
) -> tuple[Mixture, FitInfo]:
    """Fit from several starts, keep the one with the highest bound.

    The restarts begin with different numbers of options, and an option that a start leaves out stays out of it,
    so the bound chooses the number. A start from `warm`, which keeps the order of its options, wins unless another's
    bound is higher by more than `stickiness` (nats).
    """
    if method not in ("vb", "em"):
        raise UnknownNameError("method", method, ("vb", "em"))
    uniforms = _uniforms(key, restarts, max_components, x.dtype)
    return _fit(uniforms, x, weights, prior, tolerance, warm, stickiness, iterations, method, max_merges)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _uniforms(key: Array, restarts: int, max_components: int, dtype: np.dtype) -> Float[Array, "R O"]:
    return jax.random.uniform(key, (restarts, max_components), dtype=dtype)


@functools.partial(jax.jit, static_argnames=("iterations", "method"))
def _fit(uniforms, x, weights, prior, tolerance, warm, stickiness, iterations, method, max_merges):
    restarts, options = uniforms.shape
    scale = jnp.sqrt(jnp.diagonal(prior.K_0_inverse))
    y = jnp.where(weights[:, None] > 0, (x - prior.h_0) / scale, 0.0)
    here = prior._replace(
        h_0=jnp.zeros_like(prior.h_0), K_0_inverse=prior.K_0_inverse / scale[:, None] / scale[None, :]
    )
    points = Points(sufficient_statistics(y), weights)
    total = weights.sum()
    if method == "vb":
        steps = Method(
            estimate=lambda statistics: posterior(statistics, here),
            option_bounds=lambda mixture, log_det: option_bounds(mixture, log_det, here),
            constant=constant(here, options, total),
            price=lambda options: jnp.zeros((), x.dtype),
        )
    else:
        steps = Method(
            estimate=lambda statistics: mixture_em.estimate(statistics, here),
            option_bounds=lambda mixture, log_det: mixture_em.option_bounds(mixture, log_det, here),
            constant=mixture_em.constant(total),
            price=lambda options: mixture_em.price(options, total, x.shape[1]),
        )

    sizes = np.asarray(start_sizes(restarts, options))
    eta = jax.vmap(seed_responsibilities, in_axes=(0, None, None, 0))(uniforms, y, weights, jnp.asarray(sizes))
    statistics = (eta * weights) @ points.t.T
    active = jnp.asarray(np.arange(options) < sizes[:, None])
    if warm is not None:
        moved = warm._replace(h=(warm.h - prior.h_0) / scale, K_inverse=warm.K_inverse / scale[:, None] / scale)
        present = warm.mass > 0
        present = present | ~present.any()
        natural = natural_parameters(moved, *inverse_and_log_determinant(moved.K_inverse))
        eta, _ = expectation(natural, present, points.t)
        statistics = jnp.concatenate([statistics, ((eta * weights) @ points.t.T)[None]])
        active = jnp.concatenate([active, present[None]])
    climb_all = jax.vmap(lambda s, a: climb(steps, points, iterations, tolerance, s, a))
    merit_of = jax.vmap(lambda state: state.bound - steps.price(state.active.sum()))
    bonus = jnp.zeros(len(active)).at[-1].add(0.0 if warm is None else stickiness)

    def body(carry):
        round, statistics, active, best, merit, chosen, bounds, _ = carry
        final = climb_all(statistics, active)
        merits = merit_of(final) + jnp.where(round == 0, bonus, 0.0)
        index = merits.shape[0] - 1 - jnp.argmax(merits[::-1])
        better = merits[index] > merit + tolerance
        best = jax.tree.map(lambda a, b: jnp.where(better, a[index], b), final, best)
        merit = jnp.where(better, merits[index], merit)
        chosen = jnp.where(round == 0, index, chosen)
        bounds = jnp.where(round == 0, final.bound, bounds)
        s, a = merges(steps, points, len(active), best)
        s=jnp.concatenate([s,jnp.broadcast_to(best.statistics,(len(active)-len(s),*s.shape[1:]))]); a=jnp.concatenate([a,jnp.broadcast_to(best.active,(len(active)-len(a),options))])
        return round + 1, s, a, best, merit, chosen, bounds, better

    first = Climb(statistics[0], statistics[0], active[0], -jnp.inf + total * 0, jnp.inf + total * 0, jnp.zeros((), int))
    carry = (0, statistics, active, first, -jnp.inf + total * 0, jnp.asarray(0), jnp.zeros(len(active)), jnp.asarray(True))
    rounds, _, _, best, merit, chosen, bounds, _ = jax.lax.while_loop(lambda c: c[-1] & (c[0] <= max_merges), body, carry)
    mixture = steps.estimate(best.statistics)
    jacobian = total * jnp.sum(jnp.log(scale))
    mixture = mixture._replace(
        h=mixture.h * scale + prior.h_0, K_inverse=mixture.K_inverse * scale[:, None] * scale
    )
    info = FitInfo(
        lower_bound=best.bound - jacobian,
        converged=best.change <= tolerance,
        iterations=best.iterations,
        chosen=chosen,
        bounds=bounds - jacobian,
        sizes=rounds,
    )
    return mixture, info
