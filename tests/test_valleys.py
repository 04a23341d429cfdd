"""Valleys of a modelled return: bumps that are known, lines that cross, and the deviation of a difference."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from hpsde import gp
from hpsde.gp.kernel import JITTER
from hpsde.steps import valleys
from hpsde.steps.valleys import Model

SIGNAL, NOISE = 1.0, 0.01


def make_model(function, size, n=300, lengths=0.6, temperature=0.3, axes=None, seed=0, padding=20):
    """A process over [xi, s] that knows a function of xi [n, size] and s [n, 1] between -2 and 2."""
    z = np.random.default_rng(seed).uniform(-2.0, 2.0, (n + padding, size + 1))
    axes = np.eye(size + 1) if axes is None else axes
    hyperparameters = gp.Hyperparameters(
        np.log(np.full(len(axes), lengths)), np.log(np.asarray(SIGNAL)), np.log(np.asarray(NOISE))
    )
    y = function(z[:, :size], z[:, size])
    process = gp.posterior(hyperparameters, z @ axes.T, y, np.arange(n + padding) < n)
    return Model(process, np.asarray(axes), np.eye(size), temperature)


def bump(parameters, centre, width=0.4):
    return np.exp(-0.5 * np.sum((parameters - centre) ** 2, axis=1) / width**2)


def two_bumps(parameters, s):
    return bump(parameters, np.array([1.0])) + bump(parameters, np.array([-1.0]))


def one_bump(parameters, s):
    return bump(parameters, np.array([0.2]), 0.9)


def separate(model, first, second, s=0.0):
    """Whether there is a valley between single places."""
    first, second = (np.atleast_2d(np.asarray(each, dtype=float)) for each in (first, second))
    return valleys.are_separate(model, first, second, np.full((len(first), 1), s))


@pytest.fixture(scope="module")
def two():
    return make_model(two_bumps, 1)


@pytest.fixture(scope="module")
def crossing():
    """Best on the lines xi = s and xi = -s."""
    return make_model(lambda xi, s: np.exp(-8.0 * (np.abs(xi[:, 0]) - np.abs(s)) ** 2), 1, n=600, lengths=0.5)


# ---------------------------------------------------------------- heights and valleys


def test_heights_are_the_mean_of_the_process(two):
    curves = np.random.default_rng(1).uniform(-1.5, 1.5, (3, 5, 1))
    contexts = np.linspace(-1.0, 1.0, 5)[:, None]
    truth = [gp.predict_mean(two.process, np.asarray(np.concatenate([curve, contexts], axis=1))) for curve in curves]
    assert_allclose(valleys.heights(two, curves, contexts), truth, atol=1e-4)


def test_heights_at_places_are_each_in_its_own_context(crossing):
    """As many places as need padding, in kernel coordinates twice as large as the parameters."""
    rng = np.random.default_rng(2)
    y, contexts = rng.uniform(-3.0, 3.0, (70, 1)), rng.uniform(-1.5, 1.5, (70, 1))
    found = valleys.heights_at(crossing._replace(L=0.5 * np.eye(1)), y, contexts)
    truth = gp.predict_mean(crossing.process, np.asarray(np.hstack([0.5 * y, contexts])))
    assert found.shape == (70,)
    assert_allclose(found, truth, atol=2e-3)
    assert_allclose(found, np.exp(-8.0 * (np.abs(0.5 * y) - np.abs(contexts)) ** 2)[:, 0], atol=0.2)


def test_between_two_bumps_there_is_a_valley(two):
    assert_array_equal(separate(two, [1.0], [-1.0]), [True])
    assert_array_equal(separate(two, [-1.0], [1.0], 0.7), [True])


def test_on_the_same_bump_there_is_none(two):
    assert_array_equal(separate(two, [[0.7], [1.0], [-1.2]], [[1.2], [1.0], [-0.8]]), [False] * 3)
    model = make_model(one_bump, 1)
    assert not separate(model, [-0.5], [0.9])[0]


def test_a_place_below_the_way_is_not_across_a_valley(two):
    """From the slope of a bump to its top the return only rises."""
    assert not separate(two, [0.45], [1.0])[0]


def test_a_dip_that_is_small_beside_T_is_none(two):
    """The dip is 1 - 2 exp(-3.125), known to some hundredths."""
    dip = 1.0 - 2.0 * np.exp(-0.5 / 0.4**2)
    for temperature, wanted in ((0.9 * dip / valleys.DEPTH, True), (1.1 * dip / valleys.DEPTH, False)):
        assert separate(two._replace(temperature=temperature), [1.0], [-1.0])[0] == wanted


def test_a_dip_where_nothing_is_known_is_none():
    """Rollouts at the bumps alone: between them the model falls back to its mean, and could be wrong about it."""

    def known(n, noise):
        z = np.random.default_rng(0).normal(size=(n, 2)) * [0.05, 0.3] + [1.0, 0.0]
        z[::2, 0] -= 2.0
        hyperparameters = gp.Hyperparameters(np.log(np.full(2, 0.4)), np.asarray(0.0), np.log(np.asarray(noise)))
        return gp.posterior(hyperparameters, z, np.full(n, 0.9), np.ones(n, dtype=bool))

    model = Model(known(60, 0.01), np.eye(2), np.eye(1), 0.3)
    assert not separate(model, [1.0], [-1.0])[0]


def test_lines_that_cross_have_no_valley_at_the_crossing_only(crossing):
    s = np.linspace(-1.5, 1.5, 13)[:, None]
    found = valleys.are_separate(crossing, s, -s, s)
    apart = np.abs(s[:, 0]) > 0.6
    assert np.all(found[apart])
    assert not found[6]
    assert not np.any(found[np.abs(s[:, 0]) < 0.2])


def test_the_way_round_a_valley_counts():
    """A horseshoe: the straight way between its ends is low, but none of it is a valley across which one must go.

    In two parameters the points of the way climb across it; they find the pass beside the straight way.
    """

    def horseshoe(xi, s):
        radius = np.linalg.norm(xi, axis=1)
        return np.exp(-4.0 * (radius - 1.0) ** 2) * (1.0 / (1.0 + np.exp(-8.0 * (xi[:, 1] + 0.6))))

    def wall(xi, s):
        return bump(xi, np.array([0.9, 0.3])) + bump(xi, np.array([-0.9, 0.3]))

    ends = [0.9, 0.3], [-0.9, 0.3]
    for function, wanted in ((horseshoe, False), (wall, True)):
        model = make_model(function, 2, n=700)
        middle, end = valleys.heights(model, np.array([[[0.0, 0.3]], [ends[0]]]), np.zeros((1, 1)))[:, 0]
        assert middle < end - valleys.DEPTH * model.temperature  # the straight way alone would say so of both
        assert separate(model, *ends)[0] == wanted


# ---------------------------------------------------------------- what must not matter


def test_the_order_of_the_ends_and_other_questions_do_not_matter(two):
    rng = np.random.default_rng(3)
    first, second, s = (rng.uniform(-1.5, 1.5, (70, 1)) for _ in range(3))
    found = valleys.are_separate(two, first, second, s)
    assert 10 < found.sum() < 60
    assert_array_equal(valleys.are_separate(two, second, first, s), found)
    # Padded to another size.
    assert_array_equal(valleys.are_separate(two, first[:40], second[:40], s[:40]), found[:40])


def test_a_shift_or_a_scale_of_the_scores_does_not_matter(two):
    """With T, signal and noise in the same unit."""
    other = make_model(lambda xi, s: 8.0 * two_bumps(xi, s), 1)
    scale = np.log(np.asarray(8.0))
    known = two.process.hyperparameters
    hyperparameters = known._replace(log_signal=known.log_signal + scale, log_noise=known.log_noise + scale)
    process = gp.posterior(
        hyperparameters,
        np.asarray(two.process.z) + np.asarray(two.process.centre),
        8.0 * two_bumps(np.asarray(two.process.z + two.process.centre[None])[:, :1], None),
        np.asarray(two.process.mask),
    )
    rng = np.random.default_rng(4)
    first, second, s = (rng.uniform(-1.5, 1.5, (50, 1)) for _ in range(3))
    found = valleys.are_separate(two, first, second, s)
    scaled = other._replace(process=process, temperature=8.0 * two.temperature)
    assert_array_equal(valleys.are_separate(scaled, first, second, s), found)


# ---------------------------------------------------------------- how well a difference is known


def test_the_deviation_of_a_difference_is_that_of_draws_of_the_joint_posterior():
    """scikit-learn's covariance of both places; turned axes, few rollouts, padding."""
    axes = np.array([[1.0, 0.3], [-0.2, 0.8]])
    model = make_model(two_bumps, 1, n=12, axes=axes, lengths=0.8)
    known = np.asarray(model.process.mask)
    z = (np.asarray(model.process.z) + np.asarray(model.process.centre))[known]
    regressor = GaussianProcessRegressor(
        ConstantKernel(SIGNAL**2) * RBF(0.8), alpha=NOISE**2 + JITTER * SIGNAL**2, optimizer=None
    )
    regressor.fit(z, np.zeros(len(z)))
    rng = np.random.default_rng(5)
    y, other, s = rng.uniform(-2, 2, (6, 1)), rng.uniform(-2, 2, (6, 1)), rng.uniform(-2, 2, (6, 1))
    found = valleys._deviation(model, y, other, s)
    for i in range(6):
        places = np.array([[y[i, 0], s[i, 0]], [other[i, 0], s[i, 0]]]) @ axes.T
        _, covariance = regressor.predict(places, return_cov=True)
        draws = rng.multivariate_normal(np.zeros(2), covariance, size=20_000)
        deviation = np.std(draws[:, 0] - draws[:, 1])
        assert_allclose(found[i], deviation, rtol=4.0 / np.sqrt(2 * 20_000))
    # Of a place and itself nothing is unknown.
    assert_allclose(valleys._deviation(model, y, y, s), 0.0, atol=1e-6)
