"""Samples drawn by the modelled return: known peaks, a known Gaussian, what must not matter, and when it is old."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from hpsde import gp
from hpsde.base.joint import parameters_first
from hpsde.base.padding import pad_rows
from hpsde.gp.kernel import JITTER
from hpsde.settings import Settings
from hpsde.steps import landscape, surface
from hpsde.steps.landscape import Landscape, choose, is_old, make_view, scores_of

KEY = jax.random.key(0)
S, D, N, SAMPLES = 1, 2, 400, 512
WIDTH, T = 0.5, 0.1


def peaks(contexts):
    """The two best parameters in every context [2, N, D]; they move with it."""
    centres = np.array([[1.0, 0.5], [-1.0, -0.5]])
    return centres[:, None] + contexts[None] * np.array([0.0, 0.4])


def two_peaks(contexts, parameters, heights=(1.0, 1.0)):
    distances = np.sum((parameters[None] - peaks(contexts)) ** 2, axis=2)
    return np.asarray(heights) @ np.exp(-0.5 * distances / WIDTH**2)


def make_rollouts(size=D, n=N, spread=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, S)), spread * rng.normal(size=(n, size))


class Known:
    """The landscape of rollouts, in rows of which some are padding, and its process."""

    def __init__(self, contexts, parameters, returns, **settings):
        n, rows = len(returns), len(returns) + 48
        mask = np.arange(rows) < n
        self.joint = pad_rows(np.hstack([contexts, parameters]), rows, fill=7.0)
        self.returns = pad_rows(returns, rows, fill=9.0)
        given = (self.joint, S, self.returns, mask / n, mask, np.ones(self.joint.shape[1]))
        self.surface = surface.fit(KEY, *given, surface.Start(), Settings(**settings))
        self.landscape = landscape.make(self.surface, parameters.shape[1], n, 1.0)
        self.process = self.condition(np.arange(n))
        self.starts = np.resize(self.joint[:n], (SAMPLES, self.joint.shape[1]))
        self.unit = self.surface.unit

    def condition(self, chosen):
        return landscape.condition(self.landscape, self.joint, S, self.returns, chosen)

    def draw(self, temperature=T, key=KEY, bounds=None):
        """Samples [s, xi] and their scores; the temperature is in returns."""
        T = temperature / self.unit
        return landscape.sample(key, self.landscape, self.process, self.starts, S, T, bounds, bounds is not None)


@pytest.fixture(scope="module")
def two():
    contexts, parameters = make_rollouts()
    return Known(contexts, parameters, two_peaks(contexts, parameters))


def nearest(joint):
    """Which peak each sample is nearest to, and how far off it is."""
    distances = np.linalg.norm(joint[None, :, S:] - peaks(joint[:, :S]), axis=2)
    return distances.argmin(axis=0), distances.min(axis=0)


# ---------------------------------------------------------------- samples


def test_samples_lie_at_both_peaks_and_know_their_scores(two):
    joint, scores = two.draw()
    which, distance = nearest(joint)
    assert len(which) == SAMPLES
    # Some stay where the model knows nothing and the return is none; f gives them no weight.
    share = np.exp(scores * two.unit / T)
    assert np.mean(distance < WIDTH) > 0.85
    assert share[distance < WIDTH].sum() > 0.97 * share.sum()
    assert_allclose(np.mean(which), 0.5, atol=0.1)
    error = two.surface.warp.inverse(scores) - two_peaks(joint[:, :S], joint[:, S:])
    assert np.quantile(np.abs(error[distance < WIDTH]), 0.97) < 0.1
    # Of the rollouts themselves few are as good.
    assert np.median(two.surface.warp.inverse(scores)) > np.quantile(two.returns[:N], 0.9)


def test_every_sample_stays_in_its_context(two):
    joint, _ = two.draw()
    assert_allclose(joint[:, :S], two.starts[:, :S], rtol=1e-6)
    assert np.mean(np.any(joint[:, S:] != two.starts[:, S:].astype(np.float32), axis=1)) > 0.9


def test_the_key_decides(two):
    for part, wanted in zip(two.draw(), two.draw(), strict=True):
        assert_array_equal(part, wanted)
    assert not np.array_equal(two.draw(key=jax.random.key(1))[0], two.draw()[0])


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 2.0**20), (-900.0, 37.0)])
def test_units_of_the_returns_do_not_matter(two, shift, scale):
    contexts, parameters = make_rollouts()
    known = Known(contexts, parameters, shift + scale * two_peaks(contexts, parameters))
    (joint, scores), (moved, others) = two.draw(), known.draw(scale * T)
    if shift == 0.0:  # a power of two: no number is rounded otherwise
        assert_array_equal(moved, joint)
    same = np.linalg.norm(moved - joint, axis=1) < 0.1
    assert np.mean(same) > 0.9
    assert_allclose(others[same], scores[same], atol=0.15)


def test_a_lower_peak_keeps_its_samples_though_T_is_small():
    """At the last T one sample in a million would be at the lower peak; it is found while T is high."""
    contexts, parameters = make_rollouts()
    known = Known(contexts, parameters, two_peaks(contexts, parameters, (1.0, 0.8)))
    which, distance = nearest(known.draw(0.05)[0])
    assert np.exp(-0.2 / (landscape.COLDEST * 0.05)) < 2e-6
    assert np.mean(which[distance < WIDTH]) > 0.25
    assert np.mean(distance < WIDTH) > 0.85


def test_on_a_quadratic_return_the_samples_are_the_gaussian_of_the_closed_form():
    """pi_0 exp(m / T') with R = -(xi - A s - c)' H (xi - A s - c): precision I + 2 H / T', T' = COLDEST T."""
    A, c, H = np.array([[0.5, -0.3]]), np.array([0.3, -0.5]), np.array([[1.0, 0.4], [0.4, 0.6]])
    contexts, parameters = make_rollouts(n=520)
    gap = parameters - contexts @ A - c
    known = Known(contexts, parameters, -np.sum((gap @ H) * gap, axis=1), warp="none", gp_axes="own")
    drawn = np.concatenate([known.draw(3.0, jax.random.key(number))[0] for number in range(6)])
    pull = 2.0 * H / (landscape.COLDEST * 3.0)
    precision = np.eye(D) + pull
    means = np.linalg.solve(precision, pull @ (drawn[:, :S] @ A + c).T).T
    white = (drawn[:, S:] - means) @ np.linalg.cholesky(precision)
    # Monte Carlo errors are 1 / sqrt(3072) = 0.018 and sqrt(2 / 3072) = 0.026; without the pull deviations were 2.
    assert_allclose(white.mean(axis=0), 0.0, atol=0.09)
    assert_allclose(white.T @ white / len(white), np.eye(D), atol=0.13)
    assert np.abs(np.corrcoef(white.T, drawn[:, 0])[2, :2]).max() < 0.09


def test_within_bounds_the_initial_density_is_flat():
    """A return that hardly matters at this T: samples stay uniform between the bounds."""
    contexts, parameters = make_rollouts()
    known = Known(contexts, parameters, two_peaks(contexts, parameters))
    low, high = np.array([-2.0, -1.0]), np.array([2.0, 1.0])
    known.starts[:, S:] = np.random.default_rng(0).uniform(low, high, (SAMPLES, D))
    xi = np.concatenate([known.draw(1e6, jax.random.key(i), (low, high))[0][:, S:] for i in range(4)])
    assert np.all(np.abs(xi) <= high)
    assert_allclose(xi.std(axis=0), high / np.sqrt(3.0), rtol=0.06)
    assert_allclose(xi.mean(axis=0), 0.0, atol=0.1)
    # A start beyond the bounds is moved onto them. Without bounds the density is a standard Gaussian.
    free = np.concatenate([known.draw(1e6, jax.random.key(i))[0][:, S:] for i in range(4)])
    assert_allclose(free.std(axis=0), 1.0, rtol=0.08)
    known.starts[:, S:] += 9.0
    assert np.all(np.abs(known.draw(1e6, jax.random.key(0), (low, high))[0][:, S:]) <= high)


def test_parameters_move_only_along_what_the_return_sees():
    """A return along one slanted direction of six: the rest of a sample is that of its start."""
    along = np.array([2.0, -1.0, 0.0, 1.0, -2.0, 0.5]) / np.sqrt(10.25)
    contexts, parameters = make_rollouts(size=6, n=240)
    returns = -np.abs(np.abs(parameters @ along - 0.5 * contexts[:, 0]) - 1.0)
    known = Known(contexts, parameters, returns)
    view = known.landscape.view
    assert view.V.shape == (6, 1)
    assert abs(view.V[:, 0] @ along) / np.linalg.norm(view.V) > 0.99
    joint, _ = known.draw(0.2)
    moved = (joint - known.starts)[:, S:]
    P = view.V / np.linalg.norm(view.V)
    assert_allclose(moved - moved @ P @ P.T, 0.0, atol=1e-5)
    assert np.median(np.abs(moved @ P)) > 0.1
    at = joint[:, S:] @ along - 0.5 * joint[:, 0]
    assert np.median(np.abs(np.abs(at) - 1.0)) < 0.15
    assert 0.3 < np.mean(at > 0.0) < 0.7


# ---------------------------------------------------------------- what the return sees


def kernel(lengths):
    return gp.Hyperparameters(np.log(np.asarray(lengths)), np.asarray(0.0), np.log(0.1))


def test_the_view_is_the_parameters_in_kernel_lengths():
    """Own axes: parameters of lengths 0.5 and 2, the second of which counts as 1, and 40, which is not seen."""
    view = make_view(kernel([0.5, 40.0, 2.0, 0.1]), None, 3)
    assert view.V.shape == (3, 2)
    assert_allclose(view.L @ view.V, np.eye(2), atol=1e-12)
    xi = np.random.default_rng(0).normal(size=(5, 3))
    assert_allclose(np.sort(np.abs(xi @ view.V)), np.sort(np.abs(xi[:, [0, 2]] * [2.0, 1.0])), rtol=1e-12)
    back = (xi @ view.V) @ view.L
    assert_allclose(back, xi * [1.0, 0.0, 1.0], atol=1e-12)


def test_the_view_of_turned_axes_keeps_kernel_distances():
    """Where all lengths are under a deviation, |y - y'| is the kernel's distance at the same context."""
    rng = np.random.default_rng(1)
    axes, lengths = rng.normal(size=(4, 4)), np.array([0.2, 0.3, 0.25, 0.4])
    view = make_view(kernel(lengths), np.asarray(axes), 3)
    one, other = rng.normal(size=(2, 3))
    assert np.linalg.svd(axes[:, :3] / lengths[:, None])[1].min() > 1.0
    truth = np.linalg.norm(axes[:, :3] @ (one - other) / lengths)
    assert_allclose(np.linalg.norm((one - other) @ view.V), truth, rtol=1e-10)


def test_where_lengths_are_long_the_longest_view_is_still_there():
    view = make_view(kernel([30.0, 50.0, 1.0]), None, 2)
    assert_allclose(np.abs(view.V), [[1.0], [0.0]], atol=1e-12)


# ---------------------------------------------------------------- scores and the process


def test_scores_are_the_first_rollouts_and_go_on_above_the_best(two):
    found, warp = two.landscape, two.landscape.warp
    assert_allclose(scores_of(found, two.returns[:N]), np.asarray(two.surface.scores)[:N], atol=1e-9)
    slope = (warp.scores[-1] - warp.scores[0]) / (warp.returns[-1] - warp.returns[0])
    best, worst = warp.returns[-1], warp.returns[0]
    assert_allclose(scores_of(found, np.array([best + 2.0]))[0], warp.scores[-1] + 2.0 * slope, rtol=1e-12)
    assert_allclose(scores_of(found, np.array([worst - 99.0]))[0], warp.scores[0], rtol=1e-12)


def test_a_landscape_of_success_has_scores_0_and_1_and_log_odds():
    contexts, parameters = make_rollouts(n=120)
    returns = np.where(parameters[:, 0] > 0.0, 3.0, -1.0)
    known = Known(contexts, parameters, returns)
    assert known.landscape.binary
    assert_array_equal(scores_of(known.landscape, returns), (returns > 0.0).astype(float))
    assert_array_equal(scores_of(known.landscape, np.array([-1e6, 2.9, 3.0, 3.1])), [0.0, 0.0, 1.0, 1.0])
    z = np.array([[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]])
    odds = np.asarray(gp.predict_mean(known.process, np.asarray(z)))
    assert odds[0] > 0.0 > odds[1]
    assert_allclose(known.process.mean, known.landscape.start.mean)
    # One rollout's success tells so little that what it leaves unknown says nothing.
    assert np.isnan(landscape.unexplored(known.landscape, known.process, np.arange(60)))


def test_the_process_is_that_of_the_chosen_rollouts_alone(two):
    """scikit-learn, with the same kernel."""
    chosen = np.arange(0, N, 7)
    process = two.condition(chosen)
    hyperparameters = two.landscape.hyperparameters
    signal, noise = (np.exp(2.0 * float(each)) for each in hyperparameters[1:])
    lengths = np.exp(np.asarray(hyperparameters.log_lengths))
    model = GaussianProcessRegressor(
        ConstantKernel(signal) * RBF(lengths), alpha=noise + JITTER * signal, optimizer=None
    )
    z = parameters_first(two.joint, S)
    model.fit(z[chosen], scores_of(two.landscape, two.returns[chosen]))
    at = z[3:40]
    assert_allclose(gp.predict_mean(process, np.asarray(at)), model.predict(at), atol=1e-6)


def test_unexplored_is_the_variance_of_rollouts_left_out(two):
    """scikit-learn's variance at a rollout, given all others, of the prior's."""
    process = two.condition(np.arange(60))
    signal, noise = (np.exp(2.0 * float(each)) for each in process.hyperparameters[1:])
    lengths = np.exp(np.asarray(process.hyperparameters.log_lengths))
    z, first = np.asarray(process.z)[:60], np.arange(0, 60, 4)
    left = []
    for i in first:
        others = np.arange(60) != i
        model = GaussianProcessRegressor(
            ConstantKernel(signal) * RBF(lengths), alpha=noise + JITTER * signal, optimizer=None
        )
        left.append(model.fit(z[others], np.zeros(59)).predict(z[i : i + 1], return_std=True)[1][0] ** 2 / signal)
    found = landscape.unexplored(two.landscape, process, first)
    assert_allclose(found, np.mean(left), rtol=1e-4, atol=2e-6)
    assert 0.0 < np.mean(left) < 1.0


# ---------------------------------------------------------------- rollouts to see, and when to look again


@pytest.mark.parametrize(("first", "others"), [(100, 300), (300, 20), (30, 300), (0, 300), (40, 0)])
def test_half_of_the_chosen_are_initial_rollouts_and_none_comes_twice(first, others):
    initial = np.arange(500) % 7 < 3
    mask = np.zeros(500, dtype=bool)
    mask[np.flatnonzero(initial)[:first]] = mask[np.flatnonzero(~initial)[:others]] = True
    first, others = np.sum(mask & initial), np.sum(mask & ~initial)
    chosen = choose(initial, mask, 120)
    assert np.all(mask[chosen])
    assert np.all(np.diff(chosen) > 0)
    assert len(chosen) == min(120, first + others)
    assert np.sum(initial[chosen]) == min(first, max(60, 120 - others))
    assert_array_equal(choose(initial, mask, 120), chosen)


def test_it_is_old_when_the_rollouts_have_grown(two):
    found = two.landscape
    assert isinstance(found, Landscape)
    assert found.rollouts == N
    grown = int(np.ceil(surface.GROWTH * N))
    assert [is_old(found, rollouts) for rollouts in (N, grown - 1, grown, 5 * N)] == [False, False, True, True]


def test_a_landscape_is_what_a_surface_says(two):
    other = landscape.make(two.surface, D, 700, 0.3)
    assert other.hyperparameters is two.surface.process.hyperparameters
    assert other.warp is two.surface.warp
    assert other.start is two.surface.start
    assert (other.rollouts, other.temperature, other.binary) == (700, 0.3, False)
