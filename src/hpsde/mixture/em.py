"""Maximum likelihood for the mixture: the M-step of plain EM, its bound, and the price of an option by BIC.

Mixing weights and means are the likelihood's; each covariance is kept off singularity by one pseudo-sample of
the prior's typical covariance Sigma_0 = K_0^-1 / nu_0. That is a penalty on the log likelihood, and the
penalised one is what EM climbs.
"""

from __future__ import annotations

import jax.numpy as jnp

from hpsde.base.shapes import Array, Float
from hpsde.mixture.posterior import LOG_2PI, Mixture, MixturePrior, log_determinant, moments

PSEUDO_SAMPLES = 1.0


def estimate(statistics: Float[Array, "O P"], prior: MixturePrior) -> Mixture:
    """Maximum of the penalised likelihood given sums of w_i eta_io t(x_i), as a `Mixture` without doubt.

    k_o = gamma_o / sum gamma, mu_o = c_o, Sigma_o = (scatter_o + n Sigma_0) / (gamma_o + n), n = 1.
    """
    mass, centre, scatter = moments(statistics, prior.h_0.shape[0])
    return Mixture(
        alpha=mass,
        beta=jnp.full_like(mass, jnp.inf),
        h=jnp.where(mass[:, None] > 0, centre, prior.h_0[None]),
        nu=mass + PSEUDO_SAMPLES,
        K_inverse=scatter + PSEUDO_SAMPLES * prior.K_0_inverse[None] / prior.nu_0,
        mass=mass,
    )


def option_bounds(mixture: Mixture, log_det: Float[Array, " O"], prior: MixturePrior) -> Float[Array, " O"]:
    """Each option's part of the penalised complete log likelihood at its maximum; 0 for an absent option.

    gamma log gamma - gamma Z/2 log(2 pi) - (gamma + n)/2 (log |Sigma_o| + Z) + n/2 (log |Sigma_0| + Z).
    `log_det` is that of K_o^-1. With entropy and `constant` added: sum_i w_i log p(x_i), less the penalty.
    """
    Z, n, mass = mixture.h.shape[1], PSEUDO_SAMPLES, mixture.mass
    log_det_covariance = log_det - Z * jnp.log(mixture.nu)
    log_det_0 = log_determinant(prior.K_0_inverse) - Z * jnp.log(prior.nu_0)
    gaussian = 0.5 * n * (log_det_0 + Z) - 0.5 * (mass + n) * (log_det_covariance + Z)
    count = mass * (jnp.log(jnp.where(mass > 0, mass, 1.0)) - 0.5 * Z * LOG_2PI)
    return jnp.where(mass > 0, count + gaussian, 0.0)


def constant(total: Float[Array, ""]) -> Float[Array, ""]:
    """The part of the bound that depends on the sum of weights alone: the mixing weights' denominator."""
    return -total * jnp.log(jnp.where(total > 0, total, 1.0))


def price(options: Array | int, total: Float[Array, ""], size: int) -> Float[Array, ""]:
    """BIC: log(sum of weights) / 2 for each free number of a mixture with so many options."""
    free = options * (1 + size + size * (size + 1) // 2) - 1
    return 0.5 * free * jnp.log(jnp.maximum(total, 1.0))
