"""The steps of one re-estimation that other files have no tests for: what is clustered, and what is remembered."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde import density, surface
from hpsde.algorithm import Data, Memory, approximate_return, embed, last_mixture
from hpsde.density import Mixture
from hpsde.settings import Settings

log_responsibilities = jax.jit(density.log_responsibilities)
ROWS, COUNT, S, D, O = 96, 80, 1, 3, 3


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    mask = np.arange(ROWS) < COUNT
    parts = [rng.normal(size=(ROWS, S)), rng.normal(size=(ROWS, D)), rng.normal(size=ROWS)]
    return Data(*parts, features=parts[0], log_behaviour=np.zeros(ROWS), mask=mask)


def make_mixture(size, seed=1):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(O, size, size))
    mass = rng.uniform(10.0, 30.0, size=O)
    return Mixture(
        alpha=jnp.asarray(mass + 0.1),
        beta=jnp.asarray(mass + 1.0),
        h=jnp.asarray(rng.normal(size=(O, size))),
        nu=jnp.asarray(mass + size),
        K_inverse=jnp.asarray((factors @ factors.transpose(0, 2, 1) + 0.3 * np.eye(size)) * mass[:, None, None]),
        mass=jnp.asarray(mass),
    )


def seen(directions):
    """A surface that knows nothing but directions."""
    return surface.Surface(None, None, None, None, directions, None, surface.Start())


def test_points_are_all_numbers_or_what_the_return_sees_of_them(data):
    assert_array_equal(embed(data, None, Settings()), np.hstack([data.contexts, data.parameters]))
    assert_array_equal(embed(data, seen(None), Settings()), data.joint)
    directions = np.random.default_rng(2).normal(size=(S + D, 2))
    assert_allclose(embed(data, seen(directions), Settings()), data.joint @ directions, rtol=1e-12)
    mapped = embed(data, seen(directions), Settings(embedding_dimensions=3))
    assert mapped.shape == (ROWS, 3)


def test_a_mixture_moves_with_the_coordinates(data):
    """New coordinates that are a linear map of the old: the same responsibilities for the same rollouts."""
    rng = np.random.default_rng(3)
    directions, turn = rng.normal(size=(S + D, 2)), np.array([[1.2, -0.5], [0.4, 0.9]])
    before, points = data.joint @ directions, data.joint @ directions @ turn
    mixture = make_mixture(2)
    moved = last_mixture(data, points, Memory(mixture, directions))
    wanted = np.exp(log_responsibilities(mixture, jnp.asarray(before)))
    assert wanted[:COUNT].std(axis=0).min() > 0.05
    found = np.exp(log_responsibilities(moved, jnp.asarray(points)))
    assert_allclose(found[:COUNT], wanted[:COUNT], atol=1e-4)
    assert_allclose(moved.h, np.asarray(mixture.h) @ turn, rtol=1e-6)


def test_a_mixture_of_all_numbers_moves_to_few_and_back_to_all(data):
    directions = np.random.default_rng(4).normal(size=(S + D, 2))
    mixture, points = make_mixture(S + D), data.joint @ directions
    fewer = last_mixture(data, points, Memory(mixture))
    assert_allclose(fewer.h, np.asarray(mixture.h) @ directions, rtol=1e-6)
    covariances = directions.T @ np.asarray(mixture.covariances) @ directions
    assert_allclose(fewer.covariances, covariances, rtol=1e-3, atol=1e-4)
    # Back in all numbers it has hardly any variance in some directions, but is a mixture.
    again = last_mixture(data, data.joint, Memory(fewer, directions))
    assert again.h.shape == (O, S + D)
    assert np.linalg.eigvalsh(again.covariances).min() > 0.0
    assert np.all(np.isfinite(log_responsibilities(again, jnp.asarray(data.joint))))


def test_a_mixture_of_all_numbers_stays_as_it_is_and_none_stays_none(data):
    memory = Memory(make_mixture(S + D))
    assert last_mixture(data, data.joint, memory) is memory.mixture
    assert last_mixture(data, data.joint, Memory()) is None


def test_no_process_is_fitted_where_nothing_asks_for_it(data):
    given = (jax.random.key(0), data, np.ones(S + D), Memory())
    assert approximate_return(*given, Settings(gate="softmax")) is None
    fitted = approximate_return(*given, Settings())
    assert (fitted.axes, fitted.directions) == (None, None)
    assert int(np.asarray(fitted.process.mask).sum()) == COUNT
