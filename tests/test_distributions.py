"""Uniform, Gaussian and Samples against scipy and their own moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from hpsde.base.distributions import Distribution, Gaussian, Samples, Uniform, as_distribution
from hpsde.errors import InputError

COVARIANCE = np.array([[2.0, 0.6], [0.6, 0.5]])
ALL = [
    Uniform(-3.0, 4.0),
    Uniform([0.0, -1.0, 5.0], [2.0, 1.0, 5.5]),
    Gaussian(2.0, 0.3),
    Gaussian([1.0, -2.0], COVARIANCE),
    Samples(np.arange(12.0).reshape(4, 3)),
]


@pytest.mark.parametrize("distribution", ALL, ids=repr)
def test_every_distribution_keeps_the_contract(distribution):
    assert isinstance(distribution, Distribution)
    draws = distribution.sample(jax.random.key(0), 7)
    assert isinstance(draws, np.ndarray)
    assert draws.shape == (7, distribution.size)
    assert draws.dtype == np.float64
    np.testing.assert_array_equal(draws, distribution.sample(jax.random.key(0), 7))
    assert not np.array_equal(draws, distribution.sample(jax.random.key(1), 7))
    assert distribution.sample(jax.random.key(0), 0).shape == (0, distribution.size)
    assert as_distribution(distribution) is distribution
    if distribution.has_density:
        assert distribution.log_prob(draws).shape == (7,)
        assert np.all(np.isfinite(distribution.log_prob(np.asarray(draws))))
    with pytest.raises(InputError, match="at least 0, got -1"):
        distribution.sample(jax.random.key(0), -1)


def test_results_are_64_bit_whatever_the_users_setting():
    with jax.enable_x64(False):
        for distribution in ALL:
            assert distribution.sample(jax.random.key(0), 3).dtype == np.float64
        assert Gaussian(0.0, 1.0).log_prob(np.zeros((2, 1))).dtype == np.float64


def test_uniform_density_and_draws():
    low, high = np.array([0.0, -1.0, 5.0]), np.array([2.0, 1.0, 5.5])
    uniform = Uniform(low, high)
    x = np.array([[1.0, 0.0, 5.2], [0.0, -1.0, 5.0], [2.0, 1.0, 5.5], [2.01, 0.0, 5.2], [1.0, 0.0, 4.9]])
    truth = scipy.stats.uniform(low, high - low).logpdf(x).sum(axis=1)
    np.testing.assert_allclose(uniform.log_prob(x), truth, rtol=1e-14)
    assert np.isneginf(truth[3:]).all()
    draws = np.asarray(uniform.sample(jax.random.key(3), 4000))
    for column in range(3):
        reference = scipy.stats.uniform(low[column], high[column] - low[column])
        assert scipy.stats.kstest(draws[:, column], reference.cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(draws.T) - np.eye(3)).max() < 0.06
    np.testing.assert_array_equal(uniform.bounds, (low, high))


@pytest.mark.parametrize(
    ("spread", "covariance"),
    [(COVARIANCE, COVARIANCE), (0.4, 0.16 * np.eye(2)), ([0.5, 2.0], np.diag([0.25, 4.0]))],
)
def test_gaussian_density_and_draws(spread, covariance):
    mean = np.array([100.0, -2.0])
    gaussian = Gaussian(mean, spread)
    reference = scipy.stats.multivariate_normal(mean, covariance)
    x = mean + np.random.default_rng(0).standard_normal((20, 2))
    np.testing.assert_allclose(gaussian.log_prob(x), reference.logpdf(x), rtol=1e-10)
    np.testing.assert_allclose(gaussian.covariance, covariance, rtol=1e-14)
    draws = np.asarray(gaussian.sample(jax.random.key(5), 20_000))
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5 * scale.max() / np.sqrt(20_000))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.05 * scale.max() ** 2)
    assert gaussian.bounds is None


def test_scalars_are_one_number_and_hold_for_every_entry_beside_an_array():
    assert Uniform(0, 2).size == Gaussian(0, 1).size == 1
    assert Uniform(0, [1, 2, 3]) == Uniform([0.0, 0.0, 0.0], np.array([1.0, 2.0, 3.0]))
    assert Gaussian(1.0, [0.5, 0.5]) == Gaussian([1.0, 1.0], 0.5)
    assert Uniform(0, 2) != Uniform(0, 3)
    assert len({Uniform(0, 2), Uniform(0.0, jnp.array(2.0)), Gaussian(0, [[1.0]])}) == 2
    assert repr(Uniform(0, 2)) == "Uniform(low=(0.0,), high=(2.0,))"
    assert Gaussian(0.0, [[4.0]]).covariance == Gaussian(0.0, 2.0).covariance


def test_samples_are_drawn_with_replacement_each_as_often():
    values = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    draws = np.asarray(Samples(values).sample(jax.random.key(0), 3000))
    np.testing.assert_array_equal(draws[:, 1], 10 * draws[:, 0])
    counts = np.unique(draws[:, 0], return_counts=True)[1]
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_samples_are_a_copy_without_a_density():
    values = np.zeros((3, 1))
    samples = Samples(values)
    values[:] = 9.0
    assert np.all(np.asarray(samples.sample(jax.random.key(0), 5)) == 0.0)
    assert not samples.has_density
    with pytest.raises(InputError, match="no log density"):
        samples.log_prob(np.zeros((1, 1)))


def test_as_distribution_takes_arrays_and_lists_of_rows():
    for thing in ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]]), jnp.array([[1.0, 2.0], [3.0, 4.0]])):
        samples = as_distribution(thing, "initial")
        assert isinstance(samples, Samples)
        np.testing.assert_array_equal(samples.values, [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        ((0.0, 2.0), r"contexts: expected .* got tuple; for a range write hpsde.Uniform\(low, high\)"),
        (3.0, "contexts: expected .* got float"),
        (None, "contexts: expected .* got NoneType"),
        (np.zeros(4), r"contexts: .*shape \(4,\).*\[M, 1\]"),
        (np.zeros((0, 2)), r"contexts: .*shape \(0, 2\)"),
        ([[1.0, np.nan]], "contexts: .*finite"),
        (["a", "b"], "contexts: expected rows of numbers"),
        ([[1.0], [2.0, 3.0]], "contexts: expected rows of numbers"),
    ],
)
def test_as_distribution_refuses_the_rest(thing, message):
    with pytest.raises(InputError, match=message):
        as_distribution(thing, "contexts")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(2.0, 2.0), r"less than its high, got low \[2.0\]"),
        (lambda: Uniform([0.0, 3.0], 2.0), "less than its high"),
        (lambda: Uniform(0.0, np.inf), "Uniform high: expected finite"),
        (lambda: Uniform(np.zeros(2), np.ones(3)), "same length, got 2 and 3"),
        (lambda: Uniform(np.zeros((2, 2)), 1.0), r"got shape \(2, 2\)"),
        (lambda: Uniform([], 1.0), r"got shape \(0,\)"),
        (lambda: Gaussian(0.0, 0.0), "positive"),
        (lambda: Gaussian([0.0, 0.0], [1.0, -1.0]), "positive"),
        (lambda: Gaussian([0.0, 0.0, 0.0], COVARIANCE), r"shape \(3, 3\), got \(2, 2\)"),
        (lambda: Gaussian([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "positive definite .* -1"),
        (lambda: Gaussian([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: Gaussian(np.nan, 1.0), "Gaussian mean: expected finite"),
        (lambda: Samples({"a": 1}), "Samples: expected rows of numbers, got {'a': 1}"),
        (lambda: Samples(b"bytes"), "Samples: expected rows of numbers, got b'bytes'"),
    ],
)
def test_meaningless_distributions_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_density_of_rows_of_another_size_is_refused():
    for distribution in (Uniform([0.0, 0.0], 1.0), Gaussian([0.0, 0.0], 1.0)):
        with pytest.raises(InputError, match=r"\[N, 2\]; got \[4, 3\]"):
            distribution.log_prob(np.zeros((4, 3)))
