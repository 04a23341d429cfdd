"""One climb of a variational mixture of any form with a fixed number of components, iteration by iteration."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp

from hpsde.base.shapes import Array, Float
from hpsde.mixture import forms
from hpsde.mixture.forms import Expectation, Form, FormedMixture, FormedPrior
from hpsde.mixture.search import Points, collect, make_points


@functools.partial(jax.jit, static_argnames="form")
def from_responsibilities(
    form: Form,
    x: Float[Array, "N Z"],
    weights: Float[Array, " N"],
    prior: FormedPrior,
    eta: Float[Array, "N O"],
    regularisation: Float[Array, ""] | float,
) -> FormedMixture:
    """The mixture of given responsibilities: one M-step."""
    origin = _origin(x, weights)
    sums = (eta * weights[:, None]).T @ forms.statistics(form, x - origin[None]).T
    return _moved(forms.posterior(form, sums, _prior_at(origin, prior), jnp.asarray(regularisation)), origin)


def climb(
    form: Form,
    x: Float[Array, "N Z"],
    weights: Float[Array, " N"],
    prior: FormedPrior,
    start: FormedMixture,
    regularisation: Float[Array, ""] | float,
) -> Iterator[tuple[FormedMixture, Float[Array, ""]]]:
    """The mixture and its lower bound after one iteration, two iterations, and so on without end.

    The bound is that on the log evidence where nothing is added to the covariances and these are full.
    """
    origin, points, here, at = _foot(form, x, weights, prior, start)
    while True:
        mixture, at, bound = _step(form, origin, points, here, at, regularisation)
        yield mixture, bound


@functools.partial(jax.jit, static_argnames="form")
def e_step(
    form: Form, mixture: FormedMixture, x: Float[Array, "N Z"]
) -> tuple[Float[Array, "N O"], Float[Array, " N"]]:
    """Log responsibilities log eta_io, and log sum_o rho_io of each point."""
    origin = jnp.mean(mixture.h, axis=0)
    rho = forms.expectation(form, _moved(mixture, -origin)).natural @ forms.statistics(form, x - origin[None])
    normaliser = jax.nn.logsumexp(rho, axis=0)
    return (rho - normaliser[None]).T, normaliser


@functools.partial(jax.jit, static_argnames="form")
def _foot(
    form: Form, x: Array, weights: Array, prior: FormedPrior, start: FormedMixture
) -> tuple[Array, Points, FormedPrior, Expectation]:
    """The points and the mixture around the points' mean, where sums of squares keep their digits."""
    origin = _origin(x, weights)
    points = make_points(forms.statistics(form, x - origin[None]), weights)
    return origin, points, _prior_at(origin, prior), forms.expectation(form, _moved(start, -origin))


@functools.partial(jax.jit, static_argnames="form")
def _step(
    form: Form, origin: Array, points: Points, prior: FormedPrior, at: Expectation, regularisation: Array | float
) -> tuple[FormedMixture, Expectation, Array]:
    """E-step, M-step, and the bound of what comes of them."""
    sums, entropy = collect(at.natural, jnp.ones(len(at.log_det), bool), points)
    mixture = forms.posterior(form, sums, prior, jnp.asarray(regularisation))
    now = forms.expectation(form, mixture)
    bound = forms.bound(form, mixture, now.log_det, prior, points.weights.sum()) + entropy
    return _moved(mixture, origin), now, bound


def _origin(x: Float[Array, "N Z"], weights: Float[Array, " N"]) -> Float[Array, " Z"]:
    return weights @ x / weights.sum()


def _prior_at(origin: Float[Array, " Z"], prior: FormedPrior) -> FormedPrior:
    return prior._replace(h_0=prior.h_0 - origin)


def _moved(mixture: FormedMixture, by: Float[Array, " Z"]) -> FormedMixture:
    return mixture._replace(h=mixture.h + by[None])
