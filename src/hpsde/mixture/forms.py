"""Forms of a variational mixture: what the covariances may be, and which prior the mixing weights have.

scikit-learn's four covariance types and two priors, with sample weights. The scale of the Wishart is kept as its
inverse, the sum K^-1 = K_0^-1 + scatter; its shape is that of the covariances: [O Z Z] full, [Z Z] tied, [O Z] diag,
[O] spherical. Only full covariances with a Dirichlet prior are a posterior in the strict sense. The other types keep
of the scatter what their form can hold, as scikit-learn does, and climb the same function of it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln, digamma, gammaln
from scipy.linalg import solve_triangular

from hpsde.base.shapes import Array, Float
from hpsde.mixture.posterior import (
    LOG_2PI,
    inverse_and_log_determinant,
    moments,
    quadratic_parameters,
    sufficient_statistics,
)

COVARIANCES = ("full", "tied", "diag", "spherical")
WEIGHT_PRIORS = ("dirichlet_process", "dirichlet_distribution")


class Form(NamedTuple):
    """One of `COVARIANCES` and one of `WEIGHT_PRIORS`."""

    covariance: str
    weights: str

    @property
    def matrices(self) -> bool:
        """Whether numbers may depend on one another."""
        return self.covariance in ("full", "tied")


class FormedPrior(NamedTuple):
    """As `MixturePrior`, with a scale of the form's shape (that of one component)."""

    alpha_0: Float[Array, ""]
    beta_0: Float[Array, ""]
    nu_0: Float[Array, ""]
    h_0: Float[Array, " Z"]
    scale: Float[Array, ...]


class FormedMixture(NamedTuple):
    """As `Mixture`, in a form: `alpha` is [2 O] under a Dirichlet process, `nu` one number if covariances are tied."""

    alpha: Float[Array, ...]
    beta: Float[Array, " O"]
    h: Float[Array, "O Z"]
    nu: Float[Array, ...]
    scale: Float[Array, ...]


class Expectation(NamedTuple):
    """What an E-step needs, and what the bound needs of the scales."""

    natural: Float[Array, "O P"]  # natural . t(x) = log rho, as in `posterior.natural_parameters`
    log_det: Float[Array, " O"]  # of K^-1


def statistics(form: Form, x: Float[Array, "N Z"]) -> Float[Array, "P N"]:
    """t(x), one column per point: [x x' (upper triangle), x, 1], or [x^2, x, 1] where no covariance is asked for."""
    if form.matrices:
        return sufficient_statistics(x)
    return jnp.concatenate([x.T**2, x.T, jnp.ones_like(x.T[:1])])


def posterior(
    form: Form, sums: Float[Array, "O P"], prior: FormedPrior, regularisation: Float[Array, ""]
) -> FormedMixture:
    """M-step from sums of w_i eta_io t(x_i); `regularisation` is added to variances.

    With full covariances that of `estimation.posterior`. Tied ones are the mean over all components, of which each
    has the mean mass; spherical variances are the mean over all numbers.
    """
    size = prior.h_0.shape[0]
    mass, centre, scatter = moments(sums, size) if form.matrices else _variances(sums, size)
    beta = prior.beta_0 + mass
    offset = centre - prior.h_0[None]
    pull = prior.beta_0 * mass / beta
    if form.matrices:
        scatter = scatter + pull[:, None, None] * offset[:, :, None] * offset[:, None, :]
        scatter = scatter + (regularisation * mass)[:, None, None] * jnp.eye(size)[None]
    else:
        scatter = scatter + pull[:, None] * offset**2 + (regularisation * mass)[:, None]
    held = mass
    if form.covariance == "tied":
        scatter, held = scatter.mean(axis=0), mass.mean()
    if form.covariance == "spherical":
        scatter = scatter.mean(axis=1)
    return FormedMixture(
        alpha=_concentration(form, mass, prior.alpha_0),
        beta=beta,
        h=prior.h_0[None] + (mass / beta)[:, None] * offset,
        nu=prior.nu_0 + held,
        scale=(prior.scale if form.covariance == "tied" else prior.scale[None]) + scatter,
    )


def expectation(form: Form, mixture: FormedMixture) -> Expectation:
    """Natural parameters of log rho_io = E[log k_o] + E[log N(x_i | mu_o, S_o^-1)]."""
    O, Z = mixture.h.shape
    nu = jnp.broadcast_to(mixture.nu, (O,))
    K, log_det = _inverse(form, mixture.scale, O, Z)
    expected = jnp.sum(digamma(_halves(nu, Z)), axis=1) + Z * np.log(2) - log_det  # E[log |S_o|]
    constant = _log_weights(form, mixture.alpha) + 0.5 * (expected - Z * LOG_2PI - Z / mixture.beta)
    if form.matrices:
        return Expectation(quadratic_parameters(nu[:, None, None] * K, mixture.h, constant), log_det)
    precision = nu[:, None] * K
    offset = constant - 0.5 * jnp.sum(precision * mixture.h**2, axis=1)
    return Expectation(jnp.concatenate([-0.5 * precision, precision * mixture.h, offset[:, None]], axis=1), log_det)


def bound(
    form: Form, mixture: FormedMixture, log_det: Float[Array, " O"], prior: FormedPrior, total: Float[Array, ""]
) -> Float[Array, ""]:
    """The lower bound at the M-step's optimum, less the entropy of the responsibilities: ratios of normalisers."""
    O, Z = mixture.h.shape
    log_det_0 = _inverse(form, prior.scale if form.covariance == "tied" else prior.scale[None], 1, Z)[1]
    nu = jnp.broadcast_to(mixture.nu, (O,))
    after = _log_norm(nu, mixture.beta, log_det, Z)
    before = _log_norm(prior.nu_0[None], prior.beta_0[None], log_det_0, Z)
    return jnp.sum(after - before) + _weights_bound(form, mixture.alpha, prior.alpha_0) - 0.5 * Z * LOG_2PI * total


# ---------------------------------------------------------------- covariances


def _variances(sums: Float[Array, "O P"], size: int) -> tuple[Array, Array, Array]:
    """Mass [O], centre [O Z] and scatter [O Z] of each number by itself."""
    mass, total = sums[:, -1], sums[:, size:-1]
    centre = total / jnp.where(mass > 0, mass, 1.0)[:, None]
    return mass, centre, sums[:, :size] - total * centre


def _inverse(form: Form, scale: Float[Array, ...], O: int, Z: int) -> tuple[Array, Array]:
    """K of O components, as matrices or diagonals, and log |K^-1| [O]."""
    if form.covariance == "full":
        return inverse_and_log_determinant(scale)
    if form.covariance == "tied":
        K, log_det = inverse_and_log_determinant(scale[None])
        return jnp.broadcast_to(K, (O, Z, Z)), jnp.broadcast_to(log_det, (O,))
    diagonal = scale if form.covariance == "diag" else jnp.broadcast_to(scale[:, None], (O, Z))
    return 1.0 / diagonal, jnp.sum(jnp.log(diagonal), axis=1)


def _halves(nu: Float[Array, " O"], Z: int) -> Float[Array, "O Z"]:
    return (nu[:, None] - np.arange(Z)[None]) / 2


def _log_norm(nu: Float[Array, " O"], beta: Float[Array, " O"], log_det: Float[Array, " O"], Z: int) -> Array:
    """Log normaliser of the Gaussian-Wishart density, less what all have."""
    return jnp.sum(gammaln(_halves(nu, Z)), axis=1) + 0.5 * (nu * (Z * np.log(2) - log_det) - Z * jnp.log(beta))


# ---------------------------------------------------------------- mixing weights


def _concentration(form: Form, mass: Float[Array, " O"], alpha_0: Float[Array, ""]) -> Array:
    """alpha [O] of Dir(alpha); or a and b [2 O] of the sticks v_o ~ Beta(a_o, b_o), k_o = v_o prod_{p<o} (1 - v_p)."""
    if form.weights == "dirichlet_distribution":
        return alpha_0 + mass
    after = jnp.append(jnp.cumsum(mass[::-1])[::-1][1:], 0.0)
    return jnp.stack([1.0 + mass, alpha_0 + after])


def _log_weights(form: Form, alpha: Float[Array, ...]) -> Float[Array, " O"]:
    """E[log k_o]."""
    if form.weights == "dirichlet_distribution":
        return digamma(alpha) - digamma(alpha.sum())
    rest = digamma(alpha[1]) - digamma(alpha.sum(axis=0))  # E[log (1 - v_o)]
    before = jnp.concatenate([jnp.zeros_like(rest[:1]), jnp.cumsum(rest)[:-1]])
    return digamma(alpha[0]) - digamma(alpha.sum(axis=0)) + before


def _weights_bound(form: Form, alpha: Float[Array, ...], alpha_0: Float[Array, ""]) -> Float[Array, ""]:
    if form.weights == "dirichlet_distribution":
        O = alpha.shape[0]
        return jnp.sum(gammaln(alpha) - gammaln(alpha_0)) + gammaln(O * alpha_0) - gammaln(alpha.sum())
    return jnp.sum(betaln(alpha[0], alpha[1]) - betaln(jnp.ones_like(alpha_0), alpha_0))


def mixing(form: Form, alpha: np.ndarray) -> np.ndarray:
    """Expected mixing weights [O]; under a Dirichlet process those of the sticks there are, together 1."""
    if form.weights == "dirichlet_distribution":
        return alpha / alpha.sum()
    stick = alpha[0] / alpha.sum(axis=0)
    weights = stick * np.append(1.0, np.cumprod(1.0 - stick)[:-1])
    return weights / weights.sum()


# ---------------------------------------------------------------- outside compiled functions


def per_component(nu: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """nu, [O] or one number, in a shape that divides or multiplies `scale`."""
    return nu.reshape(nu.shape + (1,) * (scale.ndim - 1)) if nu.ndim else nu


def precision_factors(covariances: np.ndarray, matrices: bool) -> np.ndarray | None:
    """Upper triangular factors of the precisions, or roots of these; None where a covariance is not positive."""
    if not matrices:
        return 1.0 / np.sqrt(covariances) if np.all(covariances > 0) else None
    try:
        factors = np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        return None
    identity = np.eye(covariances.shape[-1])
    inverses = [solve_triangular(L, identity, lower=True).T for L in factors.reshape(-1, *identity.shape)]
    return np.stack(inverses).reshape(covariances.shape)
