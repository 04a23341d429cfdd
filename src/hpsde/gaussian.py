"""Linear-Gaussian option policies and their weighted regression (paper, "Experimental Results").

    pi(xi | s, o) = N(xi | b_o + w_o^T phi(s), Sigma_o)

The offset b_o is kept apart from the weights, so that the ridge pulls an option towards its own mean and
never towards zero: shifting all parameters shifts the policy and nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

from hpsde._shapes import Array, Float

RIDGES = (1e-2, 1e-3, 1e-4, 1e-5)
"""From which the ridge is chosen, the strongest first."""


class LinearGaussian(NamedTuple):
    """One option policy, or O of them with a leading axis: b [D], w [F, D], Sigma [D, D]."""

    b: Float[Array, "*O D"]
    w: Float[Array, "*O F D"]
    Sigma: Float[Array, "*O D D"]


def means(options: LinearGaussian, features: Float[Array, "N F"]) -> Float[Array, "O N D"]:
    """mu_o(s) = b_o + w_o^T phi(s) for every option."""
    return options.b[:, None, :] + jnp.einsum("nf,ofd->ond", features, options.w)


def draw(key: Array, options: LinearGaussian, features: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Parameters [N, D], each of one option `which` [N], with features [N, F]."""
    b, w, Sigma = (np.asarray(each) for each in options)
    noise = np.asarray(jax.random.normal(key, (len(which), b.shape[1])))
    spread = np.einsum("nij,nj->ni", np.linalg.cholesky(Sigma)[which], noise)
    return b[which] + np.einsum("nf,nfd->nd", features, w[which]) + spread


def project(options: LinearGaussian, P: Float[Array, "D K"]) -> LinearGaussian:
    """The policies of the combinations xi P of the parameters."""
    return LinearGaussian(options.b @ P, options.w @ P, P.T @ options.Sigma @ P)


def log_density(
    options: LinearGaussian, features: Float[Array, "N F"], parameters: Float[Array, "N D"]
) -> Float[Array, "O N"]:
    """log N(xi | mu_o(s), Sigma_o) for every option and sample."""

    def one(mean: Array, covariance: Array) -> Array:
        factor = jnp.linalg.cholesky(covariance)
        white = solve_triangular(factor, (parameters - mean).T, lower=True)
        log_det = jnp.sum(jnp.log(jnp.diagonal(factor)))
        constant = 0.5 * parameters.shape[1] * jnp.log(2.0 * jnp.pi)
        return -0.5 * jnp.sum(white**2, axis=0) - log_det - constant

    return jax.vmap(one)(means(options, features), options.Sigma)


def fit(
    features: Float[Array, "N F"],
    parameters: Float[Array, "N D"],
    d: Float[Array, " N"],
    *,
    ridge: float | None,
    variance_floor: float,
    pseudo_samples: float | None = None,
) -> LinearGaussian:
    """Weighted ridge regression with sample weights d_i >= 0 (their scale does not matter).

    w = (Phi^T D Phi + ridge)^-1 Phi^T D Xi on centred data, Sigma = sum_i d_i e_i e_i^T / Z,
    Z = ((sum d)^2 - sum d^2) / sum d, e_i = xi_i - mu(s_i).

    `ridge` None takes that of RIDGES whose error is least when each sample is left out in turn, e_i / (1 - h_i), h_i
    being the sample's pull on its own mean; errors of a parameter count in deviations of its own.

    With fewer than 2 (D + 1) effective samples the correlations in Sigma are shrunk towards 0, or, however many there
    are, by `pseudo_samples` without correlation; variances never fall under `variance_floor`. `parameters` are in
    standard units.
    """
    total = jnp.maximum(jnp.sum(d), 1e-300)
    d = d / total
    effective = 1.0 / jnp.maximum(jnp.sum(d**2), 1e-300)
    phi_mean, xi_mean = d @ features, d @ parameters
    phi, xi = features - phi_mean[None, :], parameters - xi_mean[None, :]
    gram, moment = effective * (phi.T * d[None, :]) @ phi, effective * (phi.T * d[None, :]) @ xi

    def regress(ridge: Array | float) -> tuple[Array, Array]:
        """w, and the squared errors [D] with each sample left out."""
        factor = jnp.linalg.cholesky(gram + ridge * jnp.eye(features.shape[1]))
        w = cho_solve((factor, True), moment)
        pull = d * (1.0 + effective * jnp.sum(solve_triangular(factor, phi.T, lower=True) ** 2, axis=0))
        left_out = (xi - phi @ w) / jnp.maximum(1.0 - pull, 1e-3)[:, None]
        return w, d @ left_out**2

    if ridge is None:
        candidates, errors = jax.lax.map(regress, jnp.asarray(RIDGES, dtype=features.dtype))
        w = candidates[jnp.argmin(jnp.sum(errors / jnp.maximum(errors[0], 1e-300)[None, :], axis=1))]
    else:
        w = regress(ridge)[0]
    error = xi - phi @ w
    # Z = 1 - sum d^2 for weights that sum to 1; a single sample has Z = 0 and no spread of its own.
    covariance = (error.T * d[None, :]) @ error / jnp.maximum(1.0 - jnp.sum(d**2), 1e-3)
    size = parameters.shape[1]
    trust = jnp.minimum(effective / (2.0 * (size + 1.0)), 1.0)
    if pseudo_samples is not None:
        trust = effective / (effective + pseudo_samples)
    diagonal = jnp.diag(jnp.diagonal(covariance))
    covariance = trust * covariance + (1.0 - trust) * diagonal + variance_floor * jnp.eye(size)
    return LinearGaussian(xi_mean - phi_mean @ w, w, covariance)
