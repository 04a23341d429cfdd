"""Returns that are far too high: planted ones are found, and nothing else; a peak that others know of is none."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import hpsde
from hpsde import gp
from hpsde.settings import Settings
from hpsde.steps import outliers
from hpsde.steps.return_model import approximate_return
from hpsde.steps.rollouts import Data
from hpsde.steps.surface import Start

KEY = jax.random.key(0)
N, ROWS = 200, 224
FOUND_IN = {"gp_axes": "own"}


def make_rollouts(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, 1)), rng.normal(size=(N, 1)), rng


def smooth(contexts, parameters, rng, noise=0.05):
    return np.exp(-((parameters[:, 0] - contexts[:, 0]) ** 2)) + noise * rng.normal(size=N)


def make_data(contexts, parameters, returns):
    def pad(array):
        return np.concatenate([array, np.zeros((ROWS - N, *array.shape[1:]))])

    mask = np.arange(ROWS) < N
    return Data(*(pad(each) for each in (contexts, parameters, returns, contexts, np.zeros(N))), mask, mask, rollouts=N)


def believed(data, distrusted=None, **settings):
    """Which rollouts the return function is approximated from."""
    distrusted = np.zeros(0, dtype=bool) if distrusted is None else distrusted
    found, data = approximate_return(KEY, data, np.ones(2), Start(), distrusted, Settings(**(FOUND_IN | settings)))
    return found, data.mask[:N]


# ---------------------------------------------------------------- with a process that is given


def condition(y, noise=0.05):
    z = np.linspace(-2.0, 2.0, len(y))[:, None]
    hyperparameters = gp.Hyperparameters(np.log(np.full(1, 0.5)), np.asarray(0.0), np.log(np.asarray(noise)))
    return gp.posterior(hyperparameters, z, y, np.ones(len(y), dtype=bool))


def suspects(process, y):
    return outliers.suspects(np.asarray(process.beta), np.diagonal(np.asarray(process.K_inverse)), y)


def test_what_is_far_above_and_above_all_others_is_suspect():
    y = np.sin(2.0 * np.linspace(-2.0, 2.0, 60))
    y[[20, 41]] = 4.0, 3.5
    assert_array_equal(np.flatnonzero(suspects(condition(y), y)), [20, 41])
    # What is far too low is none, nor is one that is too high for its place, but lower than others.
    low = np.sin(2.0 * np.linspace(-2.0, 2.0, 60))
    low[20], low[np.argmin(low)] = -4.0, 0.5
    assert not suspects(condition(low), low).any()


def test_a_process_that_knows_no_better_suspects_nothing():
    y = np.sin(2.0 * np.linspace(-2.0, 2.0, 60))
    assert not suspects(condition(y), y).any()
    y[20] = 4.0
    assert not suspects(condition(y, noise=3.0), y).any()


def test_too_many_are_none():
    y = np.zeros(60)
    y[::4] = 5.0
    many = y > 0.0
    assert np.mean(many) > outliers.MOST
    assert outliers.are_too_many(many, np.ones(60, dtype=bool))
    assert not outliers.are_too_many(many & (np.arange(60) < 24), np.ones(60, dtype=bool))


# ---------------------------------------------------------------- in the return function


@pytest.mark.parametrize("seed", range(3))
def test_two_in_a_hundred_far_too_high_are_found_and_nothing_else(seed):
    contexts, parameters, rng = make_rollouts(seed)
    returns = smooth(contexts, parameters, rng)
    bad = rng.choice(N, N // 50, replace=False)
    returns[bad] = rng.uniform(8.0, 12.0, len(bad))
    _, trusted = believed(make_data(contexts, parameters, returns))
    assert_array_equal(np.flatnonzero(~trusted), np.sort(bad))


@pytest.mark.parametrize("seed", range(3))
def test_without_outliers_all_are_believed(seed):
    contexts, parameters, rng = make_rollouts(seed)
    assert believed(make_data(contexts, parameters, smooth(contexts, parameters, rng)))[1].all()


@pytest.mark.parametrize("seed", range(3))
def test_a_narrow_peak_is_no_outlier(seed):
    """Far above all others, in a twentieth of the space; its neighbours know of it."""
    contexts, parameters, rng = make_rollouts(seed)
    peak = np.exp(-0.5 * ((parameters[:, 0] - 1.0) / 0.12) ** 2)
    returns = smooth(contexts, parameters, rng) + 8.0 * peak
    assert 4 < np.sum(peak > 0.5) < 0.15 * N
    assert believed(make_data(contexts, parameters, returns))[1].all()


def test_one_that_the_others_are_hardly_better_explained_without_is_believed():
    """Far too high and the highest of all, but a small part of what the process takes for noise."""
    contexts, parameters, rng = make_rollouts()
    returns = smooth(contexts, parameters, rng, noise=0.2)
    low = np.argmin((contexts[:, 0] - 0.8) ** 2 + (parameters[:, 0] + 0.8) ** 2)  # the return is 0.08 there
    returns[low] = returns.max() + 0.1
    data = make_data(contexts, parameters, returns)
    found, trusted = believed(data)
    residual = np.asarray(found.process.beta / np.sqrt(np.diagonal(found.process.K_inverse)))[:N]
    assert residual[low] > outliers.FAR
    assert residual[low] ** 2 < outliers.SHARE * np.sum(residual**2)
    assert trusted.all()


def test_far_too_low_is_no_outlier():
    contexts, parameters, rng = make_rollouts()
    returns = smooth(contexts, parameters, rng)
    returns[::50] = -1e3
    assert believed(make_data(contexts, parameters, returns))[1].all()


def test_those_distrusted_once_stay_so_and_other_warps_believe_all():
    contexts, parameters, rng = make_rollouts()
    returns = smooth(contexts, parameters, rng)
    data = make_data(contexts, parameters, returns)
    found, trusted = believed(data, np.arange(150) == 7)
    assert_array_equal(np.flatnonzero(~trusted), [7])
    assert 7 not in found.rows
    returns[3] = 50.0
    high = make_data(contexts, parameters, returns)
    assert_array_equal(np.flatnonzero(~believed(high)[1]), [3])
    for warp in ("none", "rank"):
        assert believed(high, warp=warp)[1].all()


def test_units_of_the_returns_do_not_matter():
    contexts, parameters, rng = make_rollouts()
    returns = smooth(contexts, parameters, rng)
    returns[[4, 90, 91, 150]] = 9.0
    for scale, shift in ((1.0, 0.0), (1e6, -1e7), (1e-3, 5.0)):
        _, trusted = believed(make_data(contexts, parameters, scale * returns + shift))
        assert_array_equal(np.flatnonzero(~trusted), [4, 90, 91, 150])


@pytest.mark.parametrize(("before", "believed_all"), [(14, False), (17, True)])
def test_more_than_faults_can_be_are_believed_all(before, believed_all):
    """A peak that no first rollout was on: each new one there looks like a fault, and together they are none."""
    x, xi, rng = make_rollouts()
    y, far = smooth(x, xi, rng), rng.permutation(N)[: before + 4]
    y[far] = 9.0
    distrusted = np.isin(np.arange(N), far[:before])
    _, mask = believed(make_data(x, xi, y), distrusted)
    assert_array_equal(~mask, np.zeros(N, dtype=bool) if believed_all else np.isin(np.arange(N), far))


def test_what_was_repeated_with_the_same_return_is_believed():
    x, xi, rng = make_rollouts()
    y = smooth(x, xi, rng)
    y[[5, 60]] = 9.0, 12.0
    _, mask = believed(make_data(x, xi, y))
    assert_array_equal(np.flatnonzero(~mask), [5, 60])
    x[150], xi[150], y[150] = x[5], xi[5], y[5]  # once more, and the same
    x[151], xi[151], y[151] = x[60], xi[60], 0.3  # once more, and another return
    _, mask = believed(make_data(x, xi, y), ~mask)
    assert_array_equal(np.flatnonzero(~mask), [60])


def test_which_are_confirmed_and_which_are_alone():
    points = np.array([[0.0, 1.0], [2.0, 1.0], [0.0, 1.0 + 1e-12], [2.0, 1.0], [3.0, 1.0], [0.0, 1.0]])
    returns, usable = np.array([5.0, 1.0, 5.0, 2.0, 7.0, 6.0]), np.array([True, True, True, True, True, False])
    assert_array_equal(outliers.confirmed(points, returns, usable), [True, False, True, False, False, False])
    assert_array_equal(np.flatnonzero(outliers.alone(points, np.ones(6, dtype=bool))), [4])
    assert not outliers.alone(points, np.arange(6) < 4).any()
    none = outliers.confirmed(points[:0], returns[:0], usable[:0])
    assert none.shape == (0,)


@pytest.mark.parametrize(("rollouts", "seed"), [(60, 2), (100, 3)])
def test_a_sharp_peak_is_climbed_whatever_it_looks_like_from_the_first_rollouts(rollouts, seed):
    asked = []

    def cusp(x):
        asked.append(float(x[0]))
        return -abs(x[0] - 3.0)

    policy = hpsde.learn(cusp, initial=hpsde.Uniform(0.0, 90.0), rollouts=rollouts, seed=seed, progress=False)
    np.testing.assert_allclose(policy.option_means()[:, 0], [[3.0]], atol=1e-4)
    _, times = np.unique(asked, return_counts=True)
    assert times.max() <= 3


def test_a_narrow_peak_seen_late_is_found():
    """Of 20 first rollouts one is at the foot of the highest bump."""

    def bumps(x):
        squares = [np.sum((x - np.array(centre)) ** 2, axis=1) for centre in ((-0.5, -0.4), (0.5, 0.5))]
        return np.exp(-0.5 * np.min(squares, axis=0) / 0.25**2)

    initial = hpsde.Uniform([-1.0, -1.0], [1.0, 1.0])
    policy = hpsde.learn(bumps, initial=initial, batched=True, rollouts=60, seed=2, progress=False)
    means = policy.option_means()[:, 0]
    np.testing.assert_allclose(means[np.argsort(means[:, 0])], [[-0.5, -0.4], [0.5, 0.5]], atol=1e-3)
