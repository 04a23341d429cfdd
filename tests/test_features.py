"""Context features: against their formulas, and what they do with odd contexts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from hpsde.errors import InputError, UnknownNameError
from hpsde.steps.features import (
    LOW,
    Cubic,
    Custom,
    Linear,
    Quadratic,
    SquaredExponential,
    bent,
    default_count,
    make_features,
    spread_points,
)


def make_contexts(seed=0, n=60, size=2):
    return np.random.default_rng(seed).normal([40.0, -0.2][:size], [7.0, 0.01][:size], size=(n, size))


def test_linear_features_are_the_standardised_contexts():
    contexts = make_contexts()
    features = make_features("linear", contexts)
    assert isinstance(features, Linear)
    assert_allclose(features(contexts), (contexts - contexts.mean(axis=0)) / contexts.std(axis=0), rtol=1e-12)
    # The map is that of the contexts it was made for; others are put through it as they are.
    assert_allclose(features(contexts[:1] + 7.0), features(contexts[:1]) + 7.0 / contexts.std(axis=0), rtol=1e-12)


def test_quadratic_features_are_the_linear_ones_and_their_products():
    contexts = make_contexts()
    features = make_features("quadratic", contexts)
    assert isinstance(features, Quadratic)
    one, two = make_features("linear", contexts)(contexts).T
    assert_allclose(features(contexts), np.column_stack([one, two, one**2, one * two, two**2]), rtol=1e-12)
    # Any quadratic function of the context is a combination of them and a constant.
    target = 3.0 - contexts[:, 0] * contexts[:, 1] + 0.2 * contexts[:, 0] ** 2
    design = np.column_stack([np.ones(60), features(contexts)])
    assert_allclose(design @ np.linalg.lstsq(design, target, rcond=None)[0], target, rtol=1e-9)


def test_what_may_bend_an_option_comes_behind_its_features_and_is_one_degree_higher():
    contexts = make_contexts()
    linear = make_features("linear", contexts)
    quadratic = make_features("quadratic", contexts)
    assert_allclose(bent(linear)(contexts), quadratic(contexts))
    cubic = bent(quadratic)
    assert_allclose(cubic(contexts)[:, :5], quadratic(contexts))
    one, two = linear(contexts).T
    products = np.column_stack([one**3, one**2 * two, one * two**2, two**3])
    assert_allclose(cubic(contexts)[:, 5:], products, rtol=1e-12)
    assert Cubic(np.zeros(3), np.ones(3))(np.ones((2, 3))).shape == (2, 19)
    for other in (cubic, make_features("squared-exponential", contexts, 6), Custom(np.atleast_2d)):
        assert bent(other) is other


def test_automatic_features_are_linear_until_a_learner_chooses():
    assert isinstance(make_features("automatic", make_contexts()), Linear)


def test_squared_exponential_features_are_their_formula():
    contexts = make_contexts()
    features = make_features("squared-exponential", contexts, 6)
    assert isinstance(features, SquaredExponential)
    values = features(contexts)
    assert values.shape == (60, 6)
    precision = np.diag(1.0 / (2.0 * features.bandwidth**2))
    for i in range(0, 60, 7):
        for j in range(6):
            offset = contexts[i] - features.centres[j]
            assert_allclose(values[i, j], np.exp(-offset @ precision @ offset), rtol=1e-10)
    assert_allclose(features(features.centres).diagonal(), 1.0, rtol=1e-12)
    # A feature reaches its neighbours, so that nowhere all of them vanish.
    assert values.max(axis=1).min() > 0.1


def test_squared_exponentials_follow_the_units_of_the_contexts():
    contexts = make_contexts()
    scale, shift = np.array([1e-3, 50.0]), np.array([9.0, -2.0])
    values = make_features("squared-exponential", contexts, 6)(contexts)
    changed = shift + scale * contexts
    assert_allclose(make_features("squared-exponential", changed, 6)(changed), values, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("size", "count"), [(1, 10), (2, 16), (3, 27), (5, 27)])
def test_how_many_squared_exponentials(size, count):
    assert default_count(size) == count
    contexts = np.random.default_rng(0).uniform(size=(100, size))
    assert make_features("squared-exponential", contexts)(contexts).shape == (100, count)
    assert make_features("squared-exponential", contexts, 3)(contexts).shape == (100, 3)
    assert make_features("squared-exponential", contexts[:4], 50)(contexts).shape == (100, 4)


def test_spread_points_cover_the_line():
    points = np.random.default_rng(1).uniform(0.0, 1.0, size=(500, 1)) ** 3  # most of them near 0
    chosen = np.sort(spread_points(points, 9)[:, 0])
    assert_array_equal(chosen[[0, -1]], [points.min(), points.max()])
    assert np.diff(chosen).max() < 3.0 * np.diff(chosen).min()
    assert np.isin(chosen, points[:, 0]).all()


@pytest.mark.parametrize("name", ["linear", "quadratic", "squared-exponential"])
def test_contexts_that_never_vary(name):
    contexts = np.full((20, 2), [3.0, -1e6])
    values = make_features(name, contexts)(contexts)
    assert np.isfinite(values).all()
    assert_array_equal(values, np.broadcast_to(values[0], values.shape))
    # One number that varies beside one that does not.
    contexts[:, 0] = np.arange(20.0)
    values = make_features(name, contexts)(contexts)
    assert np.isfinite(values).all()
    assert len(np.unique(values, axis=0)) == 20


@pytest.mark.parametrize("name", ["linear", "quadratic", "squared-exponential"])
def test_without_contexts_there_are_no_features(name):
    assert make_features(name, np.zeros((8, 0)))(np.zeros((5, 0))).shape == (5, 0)


def test_features_of_ones_own():
    contexts = make_contexts()
    features = make_features(lambda s: [[row[0], row[1] ** 2, 1] for row in s], contexts)
    assert isinstance(features, Custom)
    truth = np.column_stack([contexts[:, 0], contexts[:, 1] ** 2, np.ones(60)])
    assert_array_equal(features(contexts), truth)
    # A map that is made already stays as it is.
    for made in (features, make_features("linear", contexts), make_features("squared-exponential", contexts)):
        assert make_features(made, contexts + 1.0) is made


@pytest.mark.parametrize(
    "function",
    [lambda s: s[:, 0], lambda s: s[:-1], lambda s: np.where(s > 40.0, np.nan, s), lambda s: 3.0],
    ids=["flat", "a row too few", "not finite", "a number"],
)
def test_bad_features_are_named(function):
    features = make_features(function, make_contexts())
    with pytest.raises(InputError, match=r"features must map contexts \(60, 2\) to finite numbers \[60, F\]"):
        features(make_contexts())


def test_unknown_features_list_the_known():
    with pytest.raises(
        UnknownNameError, match="unknown features 'cubic'; valid are: automatic, linear, quadratic, squared-expo"
    ):
        make_features("cubic", make_contexts())
    with pytest.raises(UnknownNameError):
        make_features("cubic", np.zeros((4, 0)))


def test_a_trend_adds_the_standardised_contexts():
    contexts = make_contexts()
    plain, sloped = (make_features("squared-exponential", contexts, 6, trend=trend) for trend in (False, True))
    values = sloped(contexts)
    assert_allclose(values[:, :6], LOW * plain(contexts), rtol=1e-12)
    offset = contexts - sloped.centres.mean(axis=0)
    assert_allclose(values[:, 6:], offset / contexts.std(axis=0), rtol=1e-12)
    assert make_features("squared-exponential", np.zeros((8, 0)), trend=True)(np.zeros((5, 0))).shape == (5, 0)


def test_with_a_trend_few_samples_give_a_line_that_goes_on_and_many_give_a_curve():
    """The ridge weighs bumps more than the line: what a fit becomes beyond its contexts, and within them."""
    contexts = np.linspace(0.0, 2.0, 200)[:, None]
    maps = [make_features("squared-exponential", contexts, 6, trend=trend) for trend in (True, False)]
    line = 3.0 + 2.0 * contexts[:, 0]
    few = np.arange(90, 110, 4)  # five contexts in the middle
    ahead, flat = (Ridge(alpha=1e-3).fit(each(contexts[few]), line[few]).predict(each(contexts)) for each in maps)
    assert np.abs(ahead - line).max() < 0.05
    assert np.abs(flat - line).max() > 1.0
    curve = np.sin(4.0 * contexts[:, 0])
    bent = Ridge(alpha=1e-3).fit(maps[0](contexts), curve).predict(maps[0](contexts))
    straight = np.polyval(np.polyfit(contexts[:, 0], curve, 1), contexts[:, 0])
    assert np.abs(bent - curve).mean() < 0.2 * np.abs(straight - curve).mean()
