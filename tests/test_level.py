"""What the context alone adds to the return: found in any unit, not moved by outliers, none where it is slight."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import small
from hpsde.steps import level

N = 300


@pytest.fixture(scope="module")
def contexts():
    return np.random.default_rng(0).normal(size=(N, 2))


def quadratic(contexts):
    return 3.0 + contexts @ [5.0, -2.0] + contexts**2 @ [0.5, 0.0]


def peaks(seed=1):
    """Returns that depend on parameters alone: mostly 0, and up to 1."""
    return np.exp(-8.0 * np.random.default_rng(seed).uniform(size=N))


def test_a_quadratic_is_found(contexts):
    v = level.fit(contexts, quadratic(contexts))
    assert_allclose(level.features(contexts) @ v, quadratic(contexts), atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_peaks_cliffs_and_outliers_hardly_move_it(contexts, seed):
    rng = np.random.default_rng(seed)
    odd = rng.choice([0.0, 100.0, -100.0], p=[0.98, 0.01, 0.01], size=N)
    returns = 10.0 * quadratic(contexts) + peaks(seed) + odd
    found = level.features(contexts) @ level.fit(contexts, returns)
    assert np.max(np.abs(found - 10.0 * quadratic(contexts) - 0.02)) < 0.5


def test_units_of_the_return_do_not_matter(contexts):
    returns = quadratic(contexts) + peaks()
    v = level.fit(contexts, returns)
    scaled = level.fit(contexts, 1e5 * returns - 7e6)
    assert_allclose(scaled - 1e5 * v, [-7e6, 0.0, 0.0, 0.0, 0.0], atol=1.0)


@pytest.mark.parametrize(
    "returns",
    [
        peaks(),
        peaks() + 0.01 * np.arange(N) / N,
        np.zeros(N),
        (np.arange(N) > 150).astype(float),
    ],
    ids=["no level", "a slight one", "equal returns", "success or failure"],
)
def test_there_is_none_where_it_would_explain_little(contexts, returns):
    first = np.sort(contexts[:, :1], axis=0)
    assert_array_equal(level.fit(first, returns), np.zeros(3))


def test_without_a_context_or_with_hardly_any_rollouts_there_is_none(contexts):
    assert_array_equal(level.fit(contexts[:, :0], quadratic(contexts)), [0.0])
    assert_array_equal(level.fit(contexts[:4], quadratic(contexts[:4])), np.zeros(5))
    assert_array_equal(level.fit(contexts[:0], np.zeros(0)), np.zeros(5))


def test_a_learner_finds_the_same_solutions_and_knows_the_returns():
    def returns(contexts, parameters):
        return small.two_ridges(contexts, parameters) + 30.0 * contexts[:, 0]

    plain, lifted = small.learned(), small.run(small.make(), returns=returns)
    contexts = small.draw_contexts(99, 20, 1)
    assert len(plain.policy.options) == len(lifted.policy.options) == 2
    assert_allclose(lifted.policy.units.level(contexts), 30.0 * contexts[:, 0], atol=0.7)
    expected = lifted.policy.expected_returns(contexts)
    assert_allclose(expected.max(axis=0), 30.0 * contexts[:, 0] + 1.0, atol=0.4)


def test_returns_that_are_not_warped_have_no_level():
    learner = small.run(small.make(warp="none"), returns=lambda s, xi: small.two_ridges(s, xi) + 30.0 * s[:, 0])
    assert not learner.policy.units.return_level.any()
