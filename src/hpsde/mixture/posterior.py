"""A Gaussian mixture as a posterior over its parameters, and the questions it answers.

Symbols (paper, appendix): alpha, beta, nu, h, K of each of O options over points x of Z numbers,

    q(k) = Dir(alpha),   q(mu_o, S_o) = N(mu_o | h_o, (beta_o S_o)^-1) Wishart(S_o | K_o, nu_o).

A log density that is quadratic in x is one inner product of natural parameters with the statistics
t(x) = [x x' (upper triangle), x, 1] (P = Z (Z + 1) / 2 + Z + 1 numbers), so an expectation step over all
points and options is one matrix product, and so is the collection of all moments. Both cancel digits when the
points lie far from the origin: callers shift them first.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import digamma, logsumexp

from hpsde.base.shapes import Array, Bool, Float
from hpsde.mixture.model import Mixture, MixturePrior

LOG_2PI = float(np.log(2 * np.pi))


class Unit(NamedTuple):
    """Other coordinates y = (x - origin) / scale."""

    origin: Float[Array, " Z"]
    scale: Float[Array, " Z"]

    def inwards(self, mixture: Mixture) -> Mixture:
        """The mixture of y for a mixture of x."""
        h = (mixture.h - self.origin[None]) / self.scale[None]
        return mixture._replace(h=h, K_inverse=mixture.K_inverse / self._outer[None])

    def outwards(self, mixture: Mixture) -> Mixture:
        """The mixture of x for a mixture of y."""
        h = mixture.h * self.scale[None] + self.origin[None]
        return mixture._replace(h=h, K_inverse=mixture.K_inverse * self._outer[None])

    @property
    def _outer(self) -> Float[Array, "Z Z"]:
        return self.scale[:, None] * self.scale[None, :]

    def prior(self, prior: MixturePrior) -> MixturePrior:
        """The prior of y for a prior of x."""
        h_0 = (prior.h_0 - self.origin) / self.scale
        return prior._replace(h_0=h_0, K_0_inverse=prior.K_0_inverse / self._outer)


# ---------------------------------------------------------------- the quadratic form as one inner product


def sufficient_statistics(x: Float[Array, "N Z"]) -> Float[Array, "P N"]:
    """t(x) = [x x' (upper triangle), x, 1], one column per point."""
    rows, columns = np.triu_indices(x.shape[1])
    points = x.T
    return jnp.concatenate([points[rows] * points[columns], points, jnp.ones_like(points[:1])])


def moments(
    statistics: Float[Array, "O P"], size: int
) -> tuple[Float[Array, " O"], Float[Array, "O Z"], Float[Array, "O Z Z"]]:
    """Mass, centre c and scatter sum_i w_i eta_io (x_i - c)(x_i - c)' from summed t(x)."""
    pairs = size * (size + 1) // 2
    mass, total = statistics[:, -1], statistics[:, pairs:-1]
    safe_mass = jnp.where(mass > 0, mass, 1.0)
    centre = total / safe_mass[:, None]
    scatter = _symmetric(statistics[:, :pairs], size) - total[:, :, None] * centre[:, None, :]
    return mass, centre, scatter


def _symmetric(upper: Float[Array, "O Q"], size: int) -> Float[Array, "O Z Z"]:
    rows, columns = np.triu_indices(size)
    place = np.zeros((size, size), dtype=int)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    return upper[:, place]


def quadratic_parameters(
    precision: Float[Array, "O Z Z"], mean: Float[Array, "O Z"], constant: Float[Array, " O"]
) -> Float[Array, "O P"]:
    """The vector v_o with v_o . t(x) = constant_o - (x - mean_o)' precision_o (x - mean_o) / 2."""
    rows, columns = np.triu_indices(mean.shape[1])
    twice = np.where(rows == columns, 0.5, 1.0)[None]
    linear = jnp.einsum("oij,oj->oi", precision, mean)
    offset = constant - 0.5 * jnp.sum(linear * mean, axis=1)
    return jnp.concatenate([-twice * precision[:, rows, columns], linear, offset[:, None]], axis=1)


def inverse_and_log_determinant(
    matrices: Float[Array, "O Z Z"],
) -> tuple[Float[Array, "O Z Z"], Float[Array, " O"]]:
    """Inverse and log determinant of positive definite matrices, by one Cholesky factor each."""
    factor = jnp.linalg.cholesky(matrices)
    identity = jnp.broadcast_to(jnp.eye(matrices.shape[-1], dtype=matrices.dtype), matrices.shape)
    half = solve_triangular(factor, identity, lower=True)
    return jnp.einsum("oki,okj->oij", half, half), _log_determinant(factor)


def log_determinant(matrices: Float[Array, "*O Z Z"]) -> Float[Array, "*O"]:
    """Log determinant of positive definite matrices."""
    return _log_determinant(jnp.linalg.cholesky(matrices))


def _log_determinant(factor: Float[Array, "*O Z Z"]) -> Float[Array, "*O"]:
    return 2 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)


# ---------------------------------------------------------------- expectation step


def natural_parameters(
    mixture: Mixture, K: Float[Array, "O Z Z"], log_det_K_inverse: Float[Array, " O"]
) -> Float[Array, "O P"]:
    """Parameters of log rho_io (appendix, equation "responsibility"), with the constant -Z/2 log(2 pi)."""
    Z = mixture.h.shape[1]
    known = jnp.isinf(mixture.beta)
    total = mixture.alpha.sum()
    halves = (mixture.nu[:, None] - np.arange(Z)[None]) / 2
    psi = digamma(jnp.concatenate([mixture.alpha, total[None], halves.ravel()]))  # compiled once
    O = len(mixture.alpha)
    share = mixture.alpha / jnp.where(total > 0, total, 1.0)
    log_share = jnp.log(jnp.maximum(share, 1e-300))  # of an option without weight: small, but a number
    log_weight = jnp.where(known, log_share, psi[:O] - psi[O])  # E[log k_o]
    doubt = jnp.sum(psi[O + 1 :].reshape(O, Z), axis=1) + Z * np.log(2)
    log_det = jnp.where(known, Z * jnp.log(mixture.nu), doubt) - log_det_K_inverse  # E[log |S_o|]
    constant = log_weight + 0.5 * (log_det - Z * LOG_2PI - Z / mixture.beta)
    return quadratic_parameters(mixture.nu[:, None, None] * K, mixture.h, constant)


def log_rho(mixture: Mixture, t: Float[Array, "P N"], active: Bool[Array, " O"] | None = None) -> Float[Array, "O N"]:
    """Unnormalised log responsibilities; minus infinity for options that are not `active`."""
    values = natural_parameters(mixture, *inverse_and_log_determinant(mixture.K_inverse)) @ t
    return values if active is None else jnp.where(active[:, None], values, -jnp.inf)


def e_step(mixture: Mixture, x: Float[Array, "N Z"]) -> tuple[Float[Array, "N O"], Float[Array, " N"]]:
    """Log responsibilities log eta_io of all options, and log sum_o rho_io of each point."""
    t, shifted = _shifted(mixture, x)
    values = log_rho(shifted, t)
    normaliser = logsumexp(values, axis=0)
    return (values - normaliser[None]).T, normaliser


def _shifted(mixture: Mixture, x: Float[Array, "N Z"]) -> tuple[Float[Array, "P N"], Mixture]:
    """Statistics of the points and the mixture, both moved so that the mixture's centre is the origin."""
    origin = jnp.mean(mixture.h, axis=0)
    return sufficient_statistics(x - origin[None]), mixture._replace(h=mixture.h - origin[None])


# ---------------------------------------------------------------- questions to a fitted mixture


def log_responsibilities(mixture: Mixture, x: Float[Array, "N Z"]) -> Float[Array, "N O"]:
    """log p(o | x) among the options present (mass > 0); if none is, all count alike."""
    t, shifted = _shifted(mixture, x)
    present = mixture.mass > 0
    return jax.nn.log_softmax(log_rho(shifted, t, present | ~present.any()), axis=0).T


def log_densities(mixture: Mixture, x: Float[Array, "N Z"]) -> Float[Array, "N O"]:
    """log N(x | h_o, K_o^-1 / nu_o): each option's Gaussian at the expected precision."""
    origin = jnp.mean(mixture.h, axis=0)
    precision, log_det_covariance = inverse_and_log_determinant(mixture.covariances)
    constant = -0.5 * (x.shape[1] * LOG_2PI + log_det_covariance)
    return (
        quadratic_parameters(precision, mixture.h - origin[None], constant) @ sufficient_statistics(x - origin[None])
    ).T


def log_density(mixture: Mixture, x: Float[Array, "N Z"]) -> Float[Array, " N"]:
    """Plug-in log density log sum_o E[k_o] N(x | h_o, E[S_o]^-1), not the posterior predictive one."""
    return logsumexp(log_densities(mixture, x) + _log(mixture.mixing)[None], axis=1)


def marginal(mixture: Mixture, dims: tuple[int, ...]) -> Mixture:
    """The mixture over some of the coordinates, with the same plug-in means and covariances there."""
    index = np.asarray(dims, dtype=int)
    return mixture._replace(h=mixture.h[:, index], K_inverse=mixture.K_inverse[:, index[:, None], index])


def select(mixture: Mixture, kept: Bool[Array, " O"]) -> Mixture:
    """The mixture with all options but `kept` marked absent; shapes and order stay."""
    return mixture._replace(mass=jnp.where(kept, mixture.mass, 0.0))


def _log(values: Float[Array, " O"]) -> Float[Array, " O"]:
    return jnp.where(values > 0, jnp.log(jnp.where(values > 0, values, 1.0)), -jnp.inf)
