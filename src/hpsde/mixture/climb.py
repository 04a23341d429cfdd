"""One climb of the variational mixture with a fixed number of options, from a start that is given."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hpsde.base.shapes import Array, Bool, Float, Int
from hpsde.mixture import estimation as density
from hpsde.mixture.posterior import (
    Mixture,
    MixturePrior,
    inverse_and_log_determinant,
    natural_parameters,
    sufficient_statistics,
)
from hpsde.mixture.search import Climb, EstimationMethod, Points, begin, climb, collect, make_points


class ClimbControl(NamedTuple):
    """What is added to the covariances' diagonals, and when a climb ends."""

    regularisation: float
    iterations: int
    tolerance: float


class Result(NamedTuple):
    """A mixture, its bound (full where nothing was added to the covariances), and how the climb ended."""

    mixture: Mixture
    bound: Float[Array, ""]
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]


@jax.jit
def from_responsibilities(
    x: Float[Array, "N Z"],
    weights: Float[Array, " N"],
    prior: MixturePrior,
    eta: Float[Array, "N O"],
    control: ClimbControl,
) -> Result:
    """Climb from responsibilities; `iterations` counts the M-step that makes a mixture of them."""
    origin = _origin(x, weights)
    t = sufficient_statistics(x - origin[None])
    statistics = (eta * weights[:, None]).T @ t.T
    state = begin(statistics, jnp.ones(eta.shape[1], bool))
    return _run(origin, make_points(t, weights), prior, state, control)


@jax.jit
def from_mixture(
    x: Float[Array, "N Z"],
    weights: Float[Array, " N"],
    prior: MixturePrior,
    mixture: Mixture,
    bound: Float[Array, ""] | float,
    control: ClimbControl,
) -> Result:
    """Climb from a mixture whose bound is known."""
    origin = _origin(x, weights)
    points = make_points(sufficient_statistics(x - origin[None]), weights)
    moved = mixture._replace(h=mixture.h - origin[None])
    active = jnp.ones(len(mixture.mass), bool)
    natural = natural_parameters(moved, *inverse_and_log_determinant(moved.K_inverse))
    ahead, entropy = collect(natural, active, points)
    state = begin(ahead, active)._replace(bound=jnp.asarray(bound, x.dtype), entropy=entropy)
    return _run(origin, points, prior, state, control)


def _origin(x: Float[Array, "N Z"], weights: Float[Array, " N"]) -> Float[Array, " Z"]:
    return weights @ x / weights.sum()


def _run(origin: Array, points: Points, prior: MixturePrior, state: Climb, control: ClimbControl) -> Result:
    here = prior._replace(h_0=prior.h_0 - origin)
    total = points.weights.sum()
    posterior = functools.partial(density.posterior, prior=here, regularisation=control.regularisation)
    method = EstimationMethod(
        estimate=posterior,
        option_bounds=lambda mixture, log_det: density.option_bounds(mixture, log_det, here),
        constant=density.constant(here, state.active.shape[0], total),
        price=lambda options: jnp.zeros((), total.dtype),
    )
    end = climb(method, points, state, control.iterations, control.tolerance)
    mixture = posterior(end.statistics)
    converged = jnp.abs(end.change) < control.tolerance
    return Result(mixture._replace(h=mixture.h + origin[None]), end.bound, converged, end.iterations)
