"""Mean and variance of the return of an option: a Gaussian process under a Gaussian input, in closed form.

With xi ~ N(mu_o(s), Sigma_o) and s fixed, the moments of f(xi, s) are integrals of Gaussians (Girard et al. 2002,
Quinonero-Candela et al. 2002). In coordinates divided by the kernel's lengths and turned onto the eigenvectors of
Sigma_o (eigenvalues e_d >= 0; e_d = 0 for the contexts), with v_i = z_i - [mu_o(s), s]:

    q_i  = E[k_i]     = signal^2 prod_d (1 + e_d)^-1/2  exp(-1/2 sum_d v_id^2 / (1 + e_d))
    Q_ij = E[k_i k_j] = signal^4 prod_d (1 + 2 e_d)^-1/2  g_i g_j E_ij
    g_i  = exp(-1/2 sum_d v_id^2 / (1 + 2 e_d)),    E_ij = exp(-1/2 sum_d (z_id - z_jd)^2 e_d / (1 + 2 e_d))

Only g depends on the context, so one N x N matrix per option serves all contexts, and every factor is at most 1:
nothing can overflow, whatever the covariance.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hpsde._shapes import Array, Float
from hpsde.gp_model import GP, squared_distances


class OptionMoments(NamedTuple):
    """Moments of the latent return of each option in each context; a rollout's return adds noise^2.

    mean: E[f].  variance: of f over the posterior and over xi, E[Var f] + Var[E f] (Girard's).
    variance_of_mean: of the option's expected return E_xi[f] over the posterior alone, what more data can remove.
    """

    mean: Float[Array, "O C"]
    variance: Float[Array, "O C"]
    variance_of_mean: Float[Array, "O C"]


def _moments_of_option(
    gp: GP, means: Float[Array, "C D"], covariance: Float[Array, "D D"], contexts: Float[Array, "C S"]
) -> tuple[Float[Array, " C"], Float[Array, " C"], Float[Array, " C"]]:
    D = means.shape[1]
    lengths = jnp.exp(gp.hyperparameters.log_lengths)
    signal_variance = jnp.exp(2.0 * gp.hyperparameters.log_signal)

    e, U = jnp.linalg.eigh(covariance / (lengths[:D, None] * lengths[None, :D]))
    e = jnp.maximum(e, 0.0)
    z = gp.z / lengths
    x, s = z[:, :D] @ U, z[:, D:]
    query = (jnp.concatenate([means, contexts], axis=1) - gp.centre) / lengths
    mu, s_query = query[:, :D] @ U, query[:, D:]

    to_contexts = squared_distances(s_query, s)
    to_means_q = squared_distances(mu / jnp.sqrt(1.0 + e), x / jnp.sqrt(1.0 + e))
    to_means_g = squared_distances(mu / jnp.sqrt(1.0 + 2.0 * e), x / jnp.sqrt(1.0 + 2.0 * e))
    shrunk = x * jnp.sqrt(e / (1.0 + 2.0 * e))
    determinant_q = jnp.prod(1.0 + e) ** -0.5
    determinant_Q = jnp.prod(1.0 + 2.0 * e) ** -0.5

    q = signal_variance * determinant_q * jnp.exp(-0.5 * (to_means_q + to_contexts))
    g = signal_variance * jnp.exp(-0.5 * (to_means_g + to_contexts))
    E = jnp.exp(-0.5 * squared_distances(shrunk, shrunk))

    q_beta = q @ gp.beta
    # The select changes no value (both factors are zero outside the mask); it keeps XLA on a CPU from drawing the
    # exponential into the matrix product below, which is ten times slower.
    both = gp.mask[:, None] & gp.mask[None, :]
    M = jnp.where(both, (gp.K_inverse - gp.beta[:, None] * gp.beta[None, :]) * E, 0.0)
    variance = signal_variance - determinant_Q * jnp.sum((g @ M) * g, axis=1) - q_beta**2
    variance_of_mean = signal_variance * determinant_Q - jnp.sum((q @ gp.K_inverse) * q, axis=1)
    variance_of_mean = jnp.maximum(variance_of_mean, 0.0)
    return gp.mean + q_beta, jnp.maximum(variance, 0.0), variance_of_mean


@jax.jit
def option_moments(
    gp: GP,
    mean_parameters: Float[Array, "O C D"],
    covariance: Float[Array, "O D D"],
    contexts: Float[Array, "C S"],
) -> OptionMoments:
    """Moments of the return when option o draws xi ~ N(mean_parameters[o, c], covariance[o]) in context c.

    mean     = m + q' beta
    variance = signal^2 - sum_ij (K^-1 - beta beta')_ij Q_ij - (q' beta)^2
    variance_of_mean = signal^2 prod_d (1 + 2 e_d)^-1/2 - q' K^-1 q

    Options are taken one after the other, so that one N x N matrix is alive at a time. Inside a compiled caller
    that leaves one of the variances unused, that variance costs nothing.
    """

    def one(option: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        return _moments_of_option(gp, option[0], option[1], contexts)

    return OptionMoments(*jax.lax.map(one, (mean_parameters, covariance)))
