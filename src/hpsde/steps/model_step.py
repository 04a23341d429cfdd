"""A step of every option's mean parameters uphill on the modelled return.

Policy search sees the rollouts near an option one by one. The gate's Gaussian process knows what they say together, and
where its mean still rises the option moves on. For option o with covariance Sigma = C C', in the contexts s of its
samples,

    maximise  mean_s E m(mu_o(s) + C (d(s) + MARGIN e), s) - eta / 2 mean_s |d(s)|^2
    over      d(s) = x_0 + x' (phi(s) - mean phi),    e ~ N(0, I),

m the mean of the process. The second part is the Kullback-Leibler divergence from the option as it was: the step of
REPS on the model, at temperature eta. Sigma stays. What counts is the expected return of a policy half as wide as the
option is: it narrows on, and its mean keeps off cliffs that the rollouts beside it show.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from hpsde import gp
from hpsde.base.precision import single
from hpsde.base.shapes import Array, Bool, Float
from hpsde.steps import gaussian
from hpsde.steps.gaussian import LinearGaussian

ETA = 0.05  # in deviations of the scores, which all rollouts together have 1 of
CONTEXTS = 48
MARGIN = 0.5  # deviations
STEPS = 20
RATE = 0.1  # of the first step, in deviations of the option
MOMENTUM, SCALE = 0.8, 0.95  # Adam's beta_1 and beta_2


@jax.jit
def improve(
    key: Array,
    process: gp.GP,
    axes: Float[Array, "E Z"],
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    contexts: Float[Array, "N S"],
    features: Float[Array, "N F"],
    weights: Float[Array, "O N"],
) -> LinearGaussian:
    """The options, those kept moved uphill. `weights` say how much a context belongs to an option."""
    model, turn = single((process._replace(K_inverse=jnp.zeros((0, 0))), axes))

    def move(given: tuple[Array, LinearGaussian, Array]) -> LinearGaussian:
        key, option, share = given
        # Systematic draw of contexts by their share.
        total = jnp.cumsum(share)
        places = (jnp.arange(CONTEXTS) + jax.random.uniform(key)) / CONTEXTS * total[-1]
        at = jnp.minimum(jnp.searchsorted(total, places), len(share) - 1)
        phi = features[at]
        middle = jnp.mean(phi, axis=0)
        C = jnp.linalg.cholesky(option.Sigma)
        means = gaussian.means(jax.tree.map(lambda part: part[None], option._replace(low=None, high=None)), phi)[0]
        centred, mu, s, factor, low, high = single(
            (phi - middle[None, :], means, contexts[at], C, option.low, option.high)
        )
        edge = MARGIN * turn[:, : mu.shape[1]] @ factor
        around = edge @ edge.T

        def loss(x: Array) -> Array:
            d = x[:1] + centred @ x[1:]
            xi = mu + d @ factor.T
            xi = xi if low is None or high is None else jnp.clip(xi, low[None], high[None])
            z = jnp.concatenate([xi, s], axis=1)
            return 0.5 * ETA * jnp.mean(jnp.sum(d**2, axis=1)) - jnp.mean(gp.mean_under(model, z @ turn.T, around))

        x = _minimise(loss, jnp.zeros((1 + phi.shape[1], mu.shape[1]), mu.dtype)).astype(option.b.dtype)
        change = x[1:] @ C.T
        return option._replace(b=option.b + C @ x[0] - middle @ change, w=option.w + change)

    def stay(given: tuple[Array, LinearGaussian, Array]) -> LinearGaussian:
        return given[1]

    every = (kept, (jax.random.split(key, kept.shape[0]), options, weights))
    return jax.lax.map(lambda each: jax.lax.cond(each[0], move, stay, each[1]), every)


def _minimise(loss: Callable[[Array], Array], start: Float[Array, "P D"]) -> Float[Array, "P D"]:
    """Adam with steps that shrink to nothing: parts of x may be flat, or matter a hundred times more than others."""
    gradient = jax.grad(loss)

    def step(t: Array | int, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, first, second = state
        g = gradient(x)
        first = MOMENTUM * first + (1.0 - MOMENTUM) * g
        second = SCALE * second + (1.0 - SCALE) * g**2
        mean, size = first / (1.0 - MOMENTUM ** (t + 1.0)), jnp.sqrt(second / (1.0 - SCALE ** (t + 1.0)))
        return x - RATE * (1.0 - t / STEPS) * mean / (size + 1e-8), first, second

    nothing = jnp.zeros_like(start)
    return jax.lax.fori_loop(0, STEPS, step, (start, nothing, nothing))[0]
