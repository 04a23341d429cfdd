"""A process that sees few directions: its gradient by finite differences, and a planted function of two of twelve."""

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from hpsde.gp.directions import few_directions, leading
from hpsde.gp.kernel import JITTER
from hpsde.gp.lapack import lapack_likelihood, projected_likelihood

Z, N = 12, 220
PLANTED = np.linalg.qr(np.random.default_rng(7).normal(size=(Z, 2)))[0].T  # orthonormal rows


def planted(z):
    """A function of two slanted directions: waves along both."""
    along = z @ PLANTED.T
    return np.sin(1.5 * along[:, 0]) + np.cos(1.5 * along[:, 1] + 0.5)


def make_points(n=N, seed=0):
    z = np.random.default_rng(seed).normal(size=(n, Z))
    y = planted(z)
    return z, (y - y.mean()) / y.std()


@pytest.fixture(scope="module")
def found():
    z, y = make_points()
    rng = np.random.default_rng(1)
    start = 0.3 * np.vstack([PLANTED + 0.3 * rng.normal(size=(2, Z)), rng.normal(size=(1, Z))])
    return few_directions(z, y, start)


def test_the_likelihood_is_the_density_of_the_scores():
    z, y = make_points(40)
    W = 0.4 * np.random.default_rng(2).normal(size=(3, Z))
    signal, noise = 1.3, 0.4
    seen = z @ W.T
    K = signal**2 * np.exp(-0.5 * np.sum((seen[:, None] - seen[None]) ** 2, axis=2))
    K += (noise**2 + JITTER * signal**2) * np.eye(40)
    value, _ = projected_likelihood(z, y)(W, np.log(signal), np.log(noise))
    assert_allclose(value, scipy.stats.multivariate_normal(np.zeros(40), K).logpdf(y), rtol=1e-8)


@pytest.mark.parametrize("block", [7, 1000])
def test_the_gradient_is_that_of_finite_differences(block):
    z, y = make_points(40)
    likelihood = projected_likelihood(z, y, block)
    W = 0.4 * np.random.default_rng(2).normal(size=(3, Z))
    _, (slope, rest) = likelihood(W, 0.2, -1.0)
    for k, d in ((0, 0), (1, 5), (2, 11), (0, 7)):
        step = np.zeros_like(W)
        step[k, d] = 1e-5
        difference = (likelihood(W + step, 0.2, -1.0)[0] - likelihood(W - step, 0.2, -1.0)[0]) / 2e-5
        assert_allclose(slope[k, d], difference, rtol=1e-5, atol=1e-6)
    at = np.array([0.2, -1.0])
    for place, step in enumerate(1e-5 * np.eye(2)):
        difference = (likelihood(W, *(at + step))[0] - likelihood(W, *(at - step))[0]) / 2e-5
        assert_allclose(rest[place], difference, rtol=1e-5)


def test_with_a_row_for_every_number_it_is_the_likelihood_of_lengths():
    z, y = make_points(40)
    lengths = np.random.default_rng(3).uniform(0.5, 4.0, Z)
    value, (slope, rest) = projected_likelihood(z, y)(np.diag(1.0 / lengths), 0.1, -0.7)
    other, gradient = lapack_likelihood(z, y)(np.array([*np.log(lengths), 0.1, -0.7]))
    assert_allclose(value, other, rtol=1e-10)
    assert_allclose(-np.diag(slope) / lengths, gradient[:Z], rtol=1e-8)
    assert_allclose(rest, gradient[Z:], rtol=1e-8)


def test_a_covariance_without_a_factor_has_no_likelihood():
    """Five equal points, and a noise that is lost in rounding even beside the jitter."""
    likelihood = projected_likelihood(np.zeros((5, 2)), np.arange(5.0))
    value, (slope, rest) = likelihood(np.ones((1, 2)), -400.0, -400.0)
    assert np.isneginf(value)
    assert not np.any(slope)
    assert not np.any(rest)


def test_the_two_directions_of_a_planted_function_are_found(found):
    """The leading two of what the kernel sees span the planted plane; a third that is not needed shrinks."""
    W, (signal, noise) = found
    assert W.shape == (3, Z)
    pace, turn = np.linalg.svd(W)[1:]
    assert_allclose(np.linalg.svd(turn[:2] @ PLANTED.T)[1], 1.0, atol=0.02)
    assert pace[2] < 0.2 * pace[1]
    assert noise < np.log(0.2) < signal


def test_new_points_are_predicted_by_the_directions_and_not_by_a_length_for_each_number(found):
    W, (signal, noise) = found
    z, y = make_points()
    fresh = np.random.default_rng(9).normal(size=(200, Z))
    truth = planted(fresh)
    truth = (truth - planted(z).mean()) / planted(z).std()

    def error(W, signal, noise):
        one, other = z @ W.T, fresh @ W.T
        K = np.exp(-0.5 * np.sum((one[:, None] - one[None]) ** 2, axis=2)) * np.exp(2.0 * signal)
        k = np.exp(-0.5 * np.sum((other[:, None] - one[None]) ** 2, axis=2)) * np.exp(2.0 * signal)
        return np.mean((k @ np.linalg.solve(K + np.exp(2.0 * noise) * np.eye(N), y) - truth) ** 2)

    assert error(W, signal, noise) < 0.1
    assert error(np.eye(Z) / 3.0, 0.0, np.log(0.1)) > 0.3


def test_units_of_the_numbers_and_their_shift_do_not_matter(found):
    z, y = make_points()
    rng = np.random.default_rng(1)
    start = 0.3 * np.vstack([PLANTED + 0.3 * rng.normal(size=(2, Z)), rng.normal(size=(1, Z))])
    scale = np.logspace(-3.0, 3.0, Z)
    W, rest = few_directions(z * scale + 5.0 * scale, y, start / scale)
    assert_allclose(W * scale, found[0], atol=1e-3)
    assert_allclose(rest, found[1], atol=1e-3)


def test_a_number_that_never_varies_is_no_trouble():
    z, y = make_points(60)
    z[:, 3] = 4.0
    W, _ = few_directions(z, y, 0.3 * PLANTED)
    assert np.all(np.isfinite(W))


def test_leading_directions_are_those_of_the_shortest_lengths():
    axes = np.linalg.qr(np.random.default_rng(4).normal(size=(Z, Z)))[0]
    lengths = np.full(Z, 50.0)
    lengths[[2, 8]] = 0.5, 2.0
    W = leading(axes, lengths, 2)
    assert_allclose(np.abs(W @ axes[[2, 8]].T), np.diag([2.0, 0.5]), atol=1e-9)
    # All of them give the kernel back.
    every = leading(axes, lengths, Z)
    assert_allclose(every.T @ every, (axes / lengths[:, None]).T @ (axes / lengths[:, None]), atol=1e-10)
