"""Mean and variance of the return of an option: a Gaussian process under a Gaussian input, in closed form.

With xi ~ N(mu_o(s), Sigma_o) and s fixed, the moments of f(xi, s) are integrals of Gaussians (Girard et al.
2002, Candela et al. 2002). Take coordinates divided by the kernel's lengths and turned onto the eigenvectors
of Sigma_o, with eigenvalues e_d >= 0 (e_d = 0 for the contexts), and v_i = z_i - [mu_o(s), s]:

    q_i  = E[k_i]     = signal^2 prod_d (1 + e_d)^-1/2 exp(-1/2 sum_d v_id^2 / (1 + e_d))
    Q_ij = E[k_i k_j] = prod_d (1 + 2 e_d)^-1/2 g_i g_j E_ij
    g_i  = signal^2 exp(-1/2 sum_d v_id^2 / (1 + 2 e_d))
    E_ij = exp(-1/2 sum_d (z_id - z_jd)^2 e_d / (1 + 2 e_d))

Of a sum of squared exponentials (kernel.py), q is the sum of w_j q_j with e_d / tau_j, and Q the sum over pairs of
its parts of w_j w_k Q_jk. With s = tau_j and t = tau_k the product of two parts is a Gaussian in xi again, and

    Q_jk = prod_d (1 + e_d (s + t) / (s t))^-1/2 g_i g'_l E_il
    g_i  = signal^2 exp(-1/2 sum_d v_id^2 / (s + e_d (s + t) / t)),    g'_l the same with s and t exchanged
    E_il = exp(-1/2 sum_d (z_id - z_ld)^2 e_d / (s t + e_d (s + t))).

The context enters g alone, so that one N x N matrix per option and pair serves all contexts. No exponent is positive:
nothing overflows, whatever the covariance, and what underflows is nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hpsde.base.shapes import Array, Bool, Float
from hpsde.gp.kernel import scaled, total
from hpsde.gp.model import GP, squared_distances


class OptionMoments(NamedTuple):
    """Moments of the latent return of each option in each context; a rollout's return adds noise^2.

    mean: E[f].
    variance: of f over the posterior and over xi, E[Var f] + Var[E f] (Girard's).
    variance_of_mean: of the expected return E_xi[f] over the posterior alone, the part that more data remove.
    """

    mean: Float[Array, "O C"]
    variance: Float[Array, "O C"]
    variance_of_mean: Float[Array, "O C"]


class _Turned(NamedTuple):
    """Data and queries divided by the lengths, parameters turned onto the eigenvectors of the covariance."""

    e: Float[Array, " D"]
    x: Float[Array, "N D"]
    mu: Float[Array, "C D"]
    context_distances: Float[Array, "C N"]


def _turn(
    gp: GP, means: Float[Array, "C D"], covariance: Float[Array, "D D"], contexts: Float[Array, "C S"]
) -> _Turned:
    D = means.shape[1]
    lengths = jnp.exp(gp.hyperparameters.log_lengths)
    e, U = jnp.linalg.eigh(covariance / (lengths[:D, None] * lengths[None, :D]))
    z = gp.z / lengths[None, :]
    query = (jnp.concatenate([means, contexts], axis=1) - gp.centre[None, :]) / lengths[None, :]
    context_distances = squared_distances(query[:, D:], z[:, D:])
    return _Turned(jnp.maximum(e, 0.0), z[:, :D] @ U, query[:, :D] @ U, context_distances)


def _kernel_expectation(turned: _Turned, tau: float, widening: Float[Array, " D"]) -> Float[Array, "C N"]:
    """exp(-1/2 sum_d v_id^2 / widening_d), the contexts' part with their widening tau."""
    root = jnp.sqrt(widening)[None, :]
    distances = squared_distances(turned.mu / root, turned.x / root)
    return jnp.exp(-0.5 * (distances + scaled(1.0 / tau, turned.context_distances)))


def _expectations(gp: GP, turned: _Turned) -> Float[Array, "C N"]:
    """q = sum_j w_j q_j."""
    signal_variance = jnp.exp(2.0 * gp.hyperparameters.log_signal)

    def expectation(tau: float, w: float) -> Array:
        height = scaled(w, signal_variance) * jnp.prod(1.0 + scaled(1.0 / tau, turned.e)) ** -0.5
        return height * _kernel_expectation(turned, tau, tau + turned.e)

    return total(expectation(*part) for part in gp.hyperparameters.kernel.parts)


def mean_under(gp: GP, means: Float[Array, "C D"], covariance: Float[Array, "D D"]) -> Float[Array, " C"]:
    """E[f] where the points are N(means, covariance): m + q' beta, without K^-1; in single precision, too."""
    turned = _turn(gp, means, covariance, jnp.zeros((means.shape[0], 0), means.dtype))
    return gp.mean + _expectations(gp, turned) @ gp.beta


def _moments_of_option(
    gp: GP, means: Float[Array, "C D"], covariance: Float[Array, "D D"], contexts: Float[Array, "C S"]
) -> tuple[Float[Array, " C"], Float[Array, " C"], Float[Array, " C"]]:
    turned = _turn(gp, means, covariance, contexts)
    e, parts = turned.e, gp.hyperparameters.kernel.parts
    signal_variance = jnp.exp(2.0 * gp.hyperparameters.log_signal)
    both = gp.mask[:, None] & gp.mask[None, :]

    def pair(s: float, t: float) -> Array:
        """sum_il (K^-1 - beta beta')_il Q_jk,il."""
        determinant = jnp.prod(1.0 + (s + t) / (s * t) * e) ** -0.5
        g = signal_variance * _kernel_expectation(turned, s, s + (s + t) / t * e)
        other = g if s == t else signal_variance * _kernel_expectation(turned, t, t + (s + t) / s * e)
        shrunk = turned.x * jnp.sqrt(e / (s * t + (s + t) * e))[None, :]
        E = jnp.exp(-0.5 * squared_distances(shrunk, shrunk))
        # The select changes no value (K_inverse and beta are zero outside the mask); it keeps XLA on a CPU from
        # drawing the exponential into the matrix product below, which is ten times slower.
        M = jnp.where(both, (gp.K_inverse - gp.beta[:, None] * gp.beta[None, :]) * E, 0.0)
        return determinant * jnp.sum((g @ M) * other, axis=1)

    q = _expectations(gp, turned)
    q_beta = q @ gp.beta
    pairs = [
        scaled(w * v * (1.0 if j == k else 2.0), pair(s, t))  # Q_kj is Q_jk transposed
        for j, (s, w) in enumerate(parts)
        for k, (t, v) in enumerate(parts[: j + 1])
    ]
    variance = signal_variance - total(pairs) - q_beta**2
    prior = signal_variance * total(scaled(w, jnp.prod(1.0 + 2.0 / tau * e) ** -0.5) for tau, w in parts)
    variance_of_mean = prior - jnp.sum((q @ gp.K_inverse) * q, axis=1)
    return gp.mean + q_beta, jnp.maximum(variance, 0.0), jnp.maximum(variance_of_mean, 0.0)


@jax.jit
def option_moments(
    gp: GP,
    mean_parameters: Float[Array, "O C D"],
    covariance: Float[Array, "O D D"],
    contexts: Float[Array, "C S"],
    active: Bool[Array, " O"] | None = None,
) -> OptionMoments:
    """Moments of the return when option o draws xi ~ N(mean_parameters[o, c], covariance[o]) in context c.

    mean             = m + q' beta
    variance         = signal^2 - sum_ij (K^-1 - beta beta')_ij Q_ij - (q' beta)^2
    variance_of_mean = signal^2 sum_j w_j prod_d (1 + 2 e_d / tau_j)^-1/2 - q' K^-1 q

    Options are taken one after the other, so that one N x N matrix is alive at a time. Options that `active`
    marks false cost nothing and get the prior's moments. Inside a compiled caller that leaves one of the
    variances unused, that variance costs nothing.
    """
    C = contexts.shape[0]
    if active is None:
        active = jnp.ones(mean_parameters.shape[0], dtype=bool)

    def prior(means: Array, covariance: Array) -> tuple[Array, Array, Array]:
        signal_variance = jnp.full(C, jnp.exp(2.0 * gp.hyperparameters.log_signal), dtype=gp.z.dtype)
        return jnp.full(C, gp.mean, dtype=gp.z.dtype), signal_variance, signal_variance

    def posterior(means: Array, covariance: Array) -> tuple[Array, Array, Array]:
        return _moments_of_option(gp, means, covariance, contexts)

    def one(option: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        return jax.lax.cond(option[0], posterior, prior, option[1], option[2])

    return OptionMoments(*jax.lax.map(one, (active, mean_parameters, covariance)))
