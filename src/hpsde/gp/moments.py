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

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hpsde.base.arrays import at_least_zero, exponential, namespace
from hpsde.base.shapes import Array, Bool, Float
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
    context_distances: Float[Array, "C N"] | None  # None: there is no context
    U: Float[Array, "D D"]


def _turn(
    gp: GP, means: Float[Array, "C D"], covariance: Float[Array, "D D"], contexts: Float[Array, "C S"]
) -> _Turned:
    xp, D = namespace(gp.z, means), means.shape[1]
    lengths = xp.exp(gp.hyperparameters.log_lengths)
    e, U = xp.linalg.eigh(covariance / (lengths[:D, None] * lengths[None, :D]))
    z = gp.z / lengths[None, :]
    query = (xp.concatenate([means, contexts], axis=1) - gp.centre[None, :]) / lengths[None, :]
    beside = squared_distances(query[:, D:], z[:, D:]) if contexts.shape[1] else None
    return _Turned(xp.maximum(e, 0.0), z[:, :D] @ U, query[:, :D] @ U, beside, U)


def _shrunk(widening: Float[Array, " D"]) -> Any:
    """prod_d widening_d^-1/2; 0 where the product is too large."""
    with np.errstate(over="ignore"):
        return namespace(widening).prod(widening) ** -0.5


def _kernel_expectation(turned: _Turned, tau: float, widening: Float[Array, " D"]) -> Float[Array, "C N"]:
    """exp(-1/2 sum_d v_id^2 / widening_d), the contexts' part with their widening tau."""
    root = namespace(widening).sqrt(widening)[None, :]
    distances = squared_distances(turned.mu / root, turned.x / root)
    if turned.context_distances is not None:
        distances += turned.context_distances / tau
    distances *= -0.5
    return exponential(distances)


def _expectations(gp: GP, turned: _Turned) -> Float[Array, "C N"]:
    """q = sum_j w_j q_j."""
    xp = namespace(turned.x)
    signal_variance = xp.exp(2.0 * gp.hyperparameters.log_signal)
    q: Any = 0.0
    for tau, w in gp.hyperparameters.kernel.parts:
        height = w * signal_variance * _shrunk(1.0 + turned.e / tau)
        q = q + height * _kernel_expectation(turned, tau, tau + turned.e)
    return q


def mean_under(gp: GP, means: Float[Array, "C D"], covariance: Float[Array, "D D"]) -> Float[Array, " C"]:
    """E[f] where the points are N(means, covariance): m + q' beta, without K^-1; in single precision, too."""
    return gp.mean + _expectations(gp, _turn(gp, means, covariance, means[:, :0])) @ gp.beta


def gradient_under(gp: GP, covariance: Float[Array, "Z Z"]) -> Callable[[Float[Array, "C Z"]], Float[Array, "C Z"]]:
    """A function of means, the gradient of `mean_under` by them: sum_j w_j sum_i q_ji beta_i (z_i - z) / (tau_j + e),
    turned back. What does not change with the means is computed once.
    """
    xp, centre = namespace(gp.z), gp.centre[None]
    turned = _turn(gp, centre, covariance, centre[:, :0])
    signal_variance = xp.exp(2.0 * gp.hyperparameters.log_signal)
    turn = turned.U / xp.exp(gp.hyperparameters.log_lengths)[:, None]
    parts = []
    for tau, w in gp.hyperparameters.kernel.parts:
        root = xp.sqrt(tau + turned.e)[None]
        at = turned.x / root
        squares = -0.5 * xp.sum(at**2, axis=1, keepdims=True)
        pull = w * signal_variance * _shrunk(1.0 + turned.e / tau) * gp.beta[:, None]
        given = xp.concatenate([at, xp.ones_like(squares), squares], axis=1)
        parts.append((root, given, pull * xp.concatenate([at, xp.ones_like(squares)], axis=1), turn / root))

    def gradient(means: Array) -> Array:
        mu, found = (means - centre) @ turn, 0.0
        for root, given, pulls, back in parts:
            v = mu / root
            squares = -0.5 * xp.sum(v**2, axis=1, keepdims=True)
            q = exponential(xp.concatenate([v, squares, xp.ones_like(squares)], axis=1) @ given.T)
            pull = q @ pulls
            found = found + (pull[:, :-1] - pull[:, -1:] * v) @ back.T
        return found

    return gradient


def _variance(gp: GP, turned: _Turned) -> Float[Array, " C"]:
    """signal^2 - sum_ij (K^-1 - beta beta')_ij Q_ij."""
    xp, e, parts = namespace(turned.x), turned.e, gp.hyperparameters.kernel.parts
    signal_variance = xp.exp(2.0 * gp.hyperparameters.log_signal)
    gain = gp.K_inverse - gp.beta[:, None] * gp.beta[None, :]  # 0 outside the mask

    def pair(s: float, t: float) -> Array:
        """sum_il (K^-1 - beta beta')_il Q_jk,il."""
        determinant = _shrunk(1.0 + (s + t) / (s * t) * e)
        g = signal_variance * _kernel_expectation(turned, s, s + (s + t) / t * e)
        other = g if s == t else signal_variance * _kernel_expectation(turned, t, t + (s + t) / s * e)
        shrunk = turned.x * xp.sqrt(e / (s * t + (s + t) * e))[None, :]
        E = exponential(-0.5 * squared_distances(shrunk, shrunk))
        E *= gain
        return determinant * xp.sum((g @ E) * other, axis=1)

    found = signal_variance
    for j, (s, w) in enumerate(parts):
        for k, (t, v) in enumerate(parts[: j + 1]):
            found = found - w * v * (1.0 if j == k else 2.0) * pair(s, t)  # Q_kj is Q_jk transposed
    return found


def _moments_of_option(
    gp: GP,
    means: Float[Array, "C D"],
    covariance: Float[Array, "D D"],
    contexts: Float[Array, "C S"],
    of_return: bool,
    of_mean: bool,
) -> tuple[Float[Array, " C"], Float[Array, " C"], Float[Array, " C"]]:
    turned = _turn(gp, means, covariance, contexts)
    xp = namespace(turned.x)
    q = _expectations(gp, turned)
    q_beta = q @ gp.beta
    variance = variance_of_mean = xp.full_like(q_beta, xp.nan)
    if of_return:
        variance = at_least_zero(_variance(gp, turned) - q_beta**2)
    if of_mean:
        signal_variance = xp.exp(2.0 * gp.hyperparameters.log_signal)
        heights = (w * _shrunk(1.0 + 2.0 / tau * turned.e) for tau, w in gp.hyperparameters.kernel.parts)
        variance_of_mean = at_least_zero(signal_variance * sum(heights) - xp.sum((q @ gp.K_inverse) * q, axis=1))
    return gp.mean + q_beta, variance, variance_of_mean


def option_moments(
    gp: GP,
    mean_parameters: Float[Array, "O C D"],
    covariance: Float[Array, "O D D"],
    contexts: Float[Array, "C S"],
    active: Bool[Array, " O"] | None = None,
    *,
    of_return: bool = True,
    of_mean: bool = True,
) -> OptionMoments:
    """Moments of the return when option o draws xi ~ N(mean_parameters[o, c], covariance[o]) in context c.

    mean             = m + q' beta
    variance         = signal^2 - sum_ij (K^-1 - beta beta')_ij Q_ij - (q' beta)^2
    variance_of_mean = signal^2 sum_j w_j prod_d (1 + 2 e_d / tau_j)^-1/2 - q' K^-1 q

    Options are taken one after the other, so that one N x N matrix is alive at a time. Options that `active`
    marks false cost nothing and get the prior's moments. A variance that is not asked for, `of_return` the first and
    `of_mean` the second, is NaN, and costs nothing either.
    """
    xp, C = namespace(gp.z, mean_parameters), contexts.shape[0]
    found = []
    for o in range(mean_parameters.shape[0]):
        if active is None or active[o]:
            found.append(_moments_of_option(gp, mean_parameters[o], covariance[o], contexts, of_return, of_mean))
        else:
            signal_variance = xp.full(C, xp.exp(2.0 * gp.hyperparameters.log_signal), dtype=gp.z.dtype)
            found.append((xp.full(C, gp.mean, dtype=gp.z.dtype), signal_variance, signal_variance))
    return OptionMoments(*(xp.stack(each) for each in zip(*found, strict=True)))
