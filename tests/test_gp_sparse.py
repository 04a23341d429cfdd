"""The sparse process: what many points say by way of few, against the exact process and against its own definition."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde import gp
from hpsde.gp import sparse, sums
from hpsde.gp.kernel import JITTER, correlation

N, SIZE = 700, 256


def hyperparameters(lengths=(0.7, 0.9), noise=0.1, kernel="se"):
    values = (np.log(np.asarray(each)) for each in (np.array(lengths), 1.5, noise))
    return gp.with_kernel(gp.Hyperparameters(*values), kernel)


def make_points(n=N, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2)) * [1.0, 2.0] + [5.0, -3.0]
    return z, np.sin(z[:, 0]) * np.cos(0.5 * z[:, 1]) + 0.1 * rng.normal(size=n)


def condition(known, z, y, most=SIZE, looked=None):
    looked = np.arange(len(z)) if looked is None else looked
    return sparse.condition_sparse(known, z, y, most, looked)


def covariance(known, a, b):
    lengths, signal = np.exp(known.log_lengths), float(np.exp(2.0 * known.log_signal))
    d2 = np.sum(((a[:, None] - b[None]) / lengths) ** 2, axis=2)
    return signal * np.asarray(correlation(known.kernel, d2))


@pytest.mark.parametrize("kernel", ["se", "matern"])
def test_it_is_the_process_whose_points_tell_of_the_chosen_ones_alone(kernel):
    """Against the definition: data covariance Q + Lambda, Q = K_nm K_mm^-1 K_mn, inverted as it stands."""
    known, (z, y) = hyperparameters(kernel=kernel), make_points(300)
    process, chosen, missed = condition(known, z, y, most=60)
    assert np.asarray(process.mask).sum() == len(chosen) == 60
    new = np.random.default_rng(1).normal((5.0, -3.0), size=(40, 2))
    variance, noise = float(np.exp(2.0 * known.log_signal)), float(np.exp(2.0 * known.log_noise))
    K_mm = covariance(known, z[chosen], z[chosen]) + JITTER * variance * np.eye(60)
    K_nm, K_tm = covariance(known, z, z[chosen]), covariance(known, new, z[chosen])
    Q, Q_t = K_nm @ np.linalg.solve(K_mm, K_nm.T), K_tm @ np.linalg.solve(K_mm, K_nm.T)
    left = np.maximum(variance * (1.0 + JITTER) - np.diagonal(Q), JITTER * variance)
    precision = np.linalg.inv(Q + np.diag(left + noise))
    mean, deviation = gp.predict(process, np.asarray(new))
    assert_allclose(mean, Q_t @ precision @ y, atol=1e-6)
    assert_allclose(deviation, variance - np.sum((Q_t @ precision) * Q_t, axis=1), atol=1e-6)
    assert_allclose(missed.precision, np.diagonal(precision), rtol=1e-4)
    assert_allclose(missed.beta, precision @ y, atol=1e-4 * np.abs(precision @ y).max())
    assert_allclose(y - missed.noise * missed.beta, Q @ precision @ y, atol=1e-6)


def test_with_as_many_points_as_it_needs_it_is_the_exact_process():
    known, (z, y) = hyperparameters(), make_points()
    process, chosen, missed = condition(known, z, y)
    exact = gp.posterior(known, z, y, np.ones(N, dtype=bool))
    assert len(chosen) < SIZE  # points that the others know are passed over
    new = np.asarray(make_points(200, seed=3)[0])
    (mean, variance), (true_mean, true_variance) = gp.predict(process, new), gp.predict(exact, new)
    deviation = np.sqrt(true_variance)
    assert np.all(np.abs(mean - true_mean) < 0.01 + 0.5 * deviation)
    assert np.mean(np.abs(mean - true_mean)) < 0.1 * np.mean(deviation)
    assert_allclose(np.sqrt(variance), deviation, atol=0.03, rtol=0.2)
    left_out = np.asarray(exact.beta) / np.diagonal(np.asarray(exact.K_inverse))
    assert np.sqrt(np.mean((missed.beta / missed.precision - left_out) ** 2)) < 0.1 * np.std(left_out)
    middle = make_points(30, seed=6)[0] * 0.5 + [2.5, -1.5]
    covariances = np.asarray(np.stack([0.1 * np.eye(2)]))
    means = np.asarray(middle[None])
    moments = [gp.option_moments(each, means, covariances, np.zeros((30, 0))) for each in (process, exact)]
    for one, other in zip(*moments, strict=True):
        assert_allclose(one, other, atol=0.02)


def test_all_points_count_not_only_the_chosen_ones():
    """The error is less than that of the exact process of as many points, and blocks change nothing."""
    known, (z, y) = hyperparameters(noise=0.5), make_points(4000, seed=2)
    y = y + 0.5 * np.random.default_rng(4).normal(size=len(y))
    new = make_points(300, seed=5)[0]
    truth = np.sin(new[:, 0]) * np.cos(0.5 * new[:, 1])
    process, chosen, _ = condition(known, z, y, most=100)
    few = gp.posterior(known, z[chosen], y[chosen], np.ones(len(chosen), dtype=bool))
    means = [np.asarray(gp.predict(each, np.asarray(new))[0]) for each in (process, few)]
    errors = [np.sqrt(np.mean((mean - truth) ** 2)) for mean in means]
    assert errors[0] < 0.5 * errors[1]


def test_memory_is_a_block_of_points_at_a_time(monkeypatch):
    known, (z, y) = hyperparameters(), make_points()
    whole = condition(known, z, y)
    monkeypatch.setattr(sparse, "BLOCK", 64)
    parts = condition(known, z, y)
    assert_array_equal(whole[1], parts[1])
    assert_allclose(whole[0].beta, parts[0].beta, rtol=1e-6, atol=1e-6)
    assert_allclose(whole[2].precision, parts[2].precision, rtol=1e-6)


def test_an_accelerator_adds_up_the_same(monkeypatch):
    """JAX's own device stands in for one; the last block is not full."""
    known, (z, y) = hyperparameters(kernel="matern"), make_points()
    here = condition(known, z, y)
    monkeypatch.setattr(sparse, "LARGE", 0)
    monkeypatch.setattr(sums, "ON_DEVICE", 256)
    monkeypatch.setattr(sparse, "accelerator", lambda: jax.devices()[0])
    there = condition(known, z, y)
    assert_array_equal(here[1], there[1])
    assert_allclose(here[0].beta, there[0].beta, rtol=1e-6, atol=1e-6)
    assert_allclose(here[0].K_inverse, there[0].K_inverse, rtol=1e-6, atol=1e-4)


def test_the_best_point_is_chosen_and_most_are_new():
    known, (z, y) = hyperparameters(lengths=(0.05, 0.05)), make_points(3000)
    y[7] = 9.0
    chosen = condition(known, z, y, most=100)[1]
    assert len(chosen) == 100
    assert 7 in chosen
    assert np.sum(chosen >= 3000 - sparse.AT_ONCE) > 70


def test_rows_that_are_looked_at_are_the_newest_some_older_and_the_best():
    y = np.zeros(20_000)
    y[[3, 9_999]] = 1.0
    looked = sparse.looked_at(y)
    assert {3, 9_999} <= set(looked.tolist())
    assert len(looked) < 1_200
    assert_array_equal(looked[-512:], np.arange(19_488, 20_000))
    assert_array_equal(sparse.looked_at(y[:50]), np.arange(50))
