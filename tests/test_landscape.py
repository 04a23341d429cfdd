"""Samples drawn by the modelled return: known peaks, a known Gaussian, what must not matter, and when it is old."""

import functools

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde import landscape, surface
from hpsde._padding import pad_rows
from hpsde.algorithm import Data, Memory, approximate_return, survey
from hpsde.landscape import Landscape, choose, is_old
from hpsde.settings import Settings
from hpsde.surface import parameter_combinations

KEY = jax.random.key(0)
S, D, N = 1, 2, 400
WIDTH, T = 0.5, 0.1
SETTINGS = Settings()


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


def make(contexts, parameters, returns, **settings):
    """The landscape of these rollouts, and what `sample` takes of them, in rows of which some are padding."""
    n, rows = len(returns), len(returns) + 48
    mask = np.arange(rows) < n
    joint, returns = pad_rows(np.hstack([contexts, parameters]), rows, fill=7.0), pad_rows(returns, rows, fill=9.0)
    spreads = np.ones(joint.shape[1])
    given = (joint, S, returns, mask / n, mask, spreads, surface.Start(), Settings(**settings))
    return landscape.make(surface.fit(KEY, *given), n), (joint, S, returns, mask / n, mask, mask)


@pytest.fixture(scope="module")
def two():
    contexts, parameters = make_rollouts()
    return make(contexts, parameters, two_peaks(contexts, parameters))


def draw(known, temperature=T, key=KEY):
    found, rollouts = known
    return landscape.sample(key, found, *rollouts, temperature)


def nearest(samples):
    """Which peak each sample is nearest to, and how far off it is."""
    distances = np.linalg.norm(samples.joint[None, :, S:] - peaks(samples.joint[:, :S]), axis=2)
    return distances.argmin(axis=0), distances.min(axis=0)


# ---------------------------------------------------------------- samples


def test_samples_lie_at_both_peaks_and_know_their_returns(two):
    samples = draw(two)
    which, distance = nearest(samples)
    assert len(which) == landscape.SAMPLES
    assert np.quantile(distance, 0.97) < WIDTH
    assert_allclose(np.mean(which), 0.5, atol=0.1)
    error = samples.returns - two_peaks(samples.joint[:, :S], samples.joint[:, S:])
    assert np.quantile(np.abs(error), 0.97) < 0.1
    # Of the rollouts themselves few are as good.
    assert np.median(samples.returns) > np.quantile(two[1][2][two[1][4]], 0.9)


def test_every_sample_stays_in_the_context_of_a_rollout(two):
    samples, (joint, _, _, _, _, mask) = draw(two), two[1]
    assert np.all(mask[samples.rows])
    assert_allclose(samples.joint[:, :S], joint[samples.rows, :S], rtol=1e-6)
    assert np.mean(np.any(samples.joint[:, S:] != joint[samples.rows, S:].astype(np.float32), axis=1)) > 0.9


def test_the_key_decides(two):
    samples, other = draw(two), draw(two, key=jax.random.key(1))
    for part, wanted in zip(draw(two), samples, strict=True):
        assert_array_equal(part, wanted)
    assert not np.array_equal(other.rows, samples.rows)
    assert not np.array_equal(other.joint, samples.joint)


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 2.0**20), (-900.0, 37.0)])
def test_units_of_the_returns_do_not_matter(two, shift, scale):
    contexts, parameters = make_rollouts()
    known = make(contexts, parameters, shift + scale * two_peaks(contexts, parameters))
    samples, moved = draw(two), draw(known, scale * T)
    assert_array_equal(moved.rows, samples.rows)
    if shift == 0.0:  # a power of two: no number is rounded otherwise
        assert_array_equal(moved.joint, samples.joint)
        assert_allclose(moved.returns, scale * samples.returns, rtol=1e-12)
    same = np.linalg.norm(moved.joint - samples.joint, axis=1) < 0.1
    assert np.mean(same) > 0.9
    assert_allclose(moved.returns[same], shift + scale * samples.returns[same], atol=0.05 * scale)


def test_a_lower_peak_keeps_its_samples_though_T_is_small():
    """At the last T one sample in a million would be at the lower peak; it is found while T is high."""
    contexts, parameters = make_rollouts()
    samples = draw(make(contexts, parameters, two_peaks(contexts, parameters, (1.0, 0.8))), 0.05)
    which, distance = nearest(samples)
    assert np.exp(-0.2 / (landscape.COLDEST * 0.05)) < 2e-6
    assert np.mean(which) > 0.25
    assert np.quantile(distance, 0.97) < WIDTH


def test_on_a_quadratic_return_the_samples_are_the_gaussian_of_the_closed_form():
    """pi_0 exp(m / T') with R = -(xi - A s - c)' H (xi - A s - c): precision I + 2 H / T', T' = COLDEST T."""
    A, c, H = np.array([[0.8, -0.3]]), np.array([0.5, -1.0]), np.array([[1.0, 0.4], [0.4, 0.6]])
    contexts, parameters = make_rollouts(n=520, spread=1.6)
    gap = parameters - contexts @ A - c
    known = make(contexts, parameters, -np.sum((gap @ H) * gap, axis=1), warp="none")
    drawn = np.concatenate([draw(known, 3.0, jax.random.key(number)).joint for number in range(6)])
    pull = 2.0 * H / (landscape.COLDEST * 3.0)
    precision = np.eye(D) + pull
    means = np.linalg.solve(precision, pull @ (drawn[:, :S] @ A + c).T).T
    white = (drawn[:, S:] - means) @ np.linalg.cholesky(precision)
    # Monte Carlo errors are 1 / sqrt(3072) = 0.018 and sqrt(2 / 3072) = 0.026; without the pull deviations were 2.
    assert_allclose(white.mean(axis=0), 0.0, atol=0.09)
    assert_allclose(white.T @ white / len(white), np.eye(D), atol=0.13)
    assert np.abs(np.corrcoef(white.T, drawn[:, 0])[2, :2]).max() < 0.09


def test_parameters_move_only_along_what_the_return_sees():
    """A return along one slanted direction of six: the rest of a sample is that of its rollout."""
    along = np.array([2.0, -1.0, 0.0, 1.0, -2.0, 0.5]) / np.sqrt(10.25)
    contexts, parameters = make_rollouts(size=6, n=240)
    returns = -np.abs(np.abs(parameters @ along - 0.5 * contexts[:, 0]) - 1.0)
    known = make(contexts, parameters, returns)
    assert known[0].directions.shape == (7, 1)
    samples, joint = draw(known, 0.2), known[1][0]
    P = parameter_combinations(known[0].directions, S)
    moved = (samples.joint - joint[samples.rows])[:, S:]
    assert_allclose(moved - moved @ P @ P.T, 0.0, atol=1e-5)
    assert np.median(np.abs(moved @ P)) > 0.1
    at = samples.joint[:, S:] @ along - 0.5 * samples.joint[:, 0]
    assert np.median(np.abs(np.abs(at) - 1.0)) < 0.15
    assert 0.3 < np.mean(at > 0.0) < 0.7


def test_samples_start_at_initial_rollouts_and_at_those_of_weight(two):
    found, (joint, size, returns, _, _, mask) = two
    initial, weights = mask & (np.arange(len(mask)) < 50), np.zeros(len(mask))
    weights[60:63] = 5.0
    samples = landscape.sample(KEY, found, joint, size, returns, weights, initial, mask, T)
    half = landscape.SAMPLES // 2
    assert set(samples.rows[:half]) <= set(range(50))
    assert len(set(samples.rows[:half])) > 40
    assert set(samples.rows[half:]) == {60, 61, 62}
    # Where none is left of the initial policy's, any will do.
    none = landscape.sample(KEY, found, joint, size, returns, weights, ~mask, mask, T)
    assert len(set(none.rows[:half])) == half
    assert np.all(mask[none.rows])


def test_better_than_all_that_the_landscape_was_found_from_is_as_good_as_the_best():
    contexts, parameters = make_rollouts()
    returns = two_peaks(contexts, parameters)
    top = np.quantile(returns, 0.95)
    poor = returns <= top
    found = make(contexts[poor], parameters[poor], returns[poor])[0]
    joint, size, known, *rest = make(contexts, parameters, returns)[1]
    best = found.warp.returns.max()
    some, better, capped = (
        draw((found, (joint, size, each, *rest)))
        for each in (known, np.where(known > top, known + 3.0, known), np.minimum(known, best))
    )
    for other in (better, capped):
        assert_array_equal(other.joint, some.joint)


def test_T_counts_though_many_rollouts_are_better_than_the_landscape_knew(two):
    found, (joint, size, returns, *rest) = two
    better = np.where(returns > np.quantile(returns, 0.8), returns + 3.0, returns)
    cold, warm = (draw((found, (joint, size, better, *rest)), temperature=each) for each in (1e-9, 0.5))
    assert nearest(warm)[1].mean() > 1.2 * nearest(cold)[1].mean()


# ---------------------------------------------------------------- rollouts to see, and when to look again


@pytest.mark.parametrize(("first", "others"), [(100, 300), (300, 20), (30, 300), (0, 300), (40, 0)])
def test_half_of_the_chosen_are_initial_rollouts_and_none_comes_twice(first, others):
    initial = np.arange(500) % 7 < 3
    mask = np.zeros(500, dtype=bool)
    mask[np.flatnonzero(initial)[:first]] = mask[np.flatnonzero(~initial)[:others]] = True
    first, others = np.sum(mask & initial), np.sum(mask & ~initial)
    chosen = choose(np.random.default_rng(0), initial, mask, 120)
    assert np.all(mask[chosen])
    assert np.all(np.diff(chosen) > 0)
    assert len(chosen) == min(120, first + others)
    assert np.sum(initial[chosen]) == min(first, max(60, 120 - others))


def test_it_is_old_when_there_are_twice_as_many_rollouts(two):
    found = two[0]
    assert isinstance(found, Landscape)
    assert found.rollouts == N
    assert [is_old(found, rollouts) for rollouts in (N, 2 * N - 1, 2 * N, 5 * N)] == [False, False, True, True]


def make_data(n):
    """The first half of the rollouts are the initial policy's."""
    rows = 256
    contexts, parameters = make_rollouts(n=rows)
    mask = np.arange(rows) < n
    returns = two_peaks(contexts, parameters)
    return Data(contexts, parameters, returns, contexts, np.zeros(rows), mask, mask & (np.arange(rows) < 50))


def test_the_first_landscape_is_the_surface_and_the_next_comes_with_twice_the_rollouts(monkeypatch):
    spreads, seen = np.ones(S + D), []
    surfaces = {n: approximate_return(KEY, make_data(n), spreads, Memory(), SETTINGS) for n in (100, 199, 200)}
    assert survey(KEY, make_data(100), None, spreads, Memory(), SETTINGS) is None
    first = survey(KEY, make_data(100), surfaces[100], spreads, Memory(), SETTINGS)
    assert first.hyperparameters is surfaces[100].process.hyperparameters
    assert first[1:] == (None, surfaces[100].warp, None, None, 100)
    memory = Memory(landscape=first, temperature=0.2)
    assert survey(KEY, make_data(199), surfaces[199], spreads, memory, SETTINGS) is first

    original = surface.fit

    def watched(key, joint, size, returns, share, mask, spreads, start, settings):
        seen.append((mask, start))
        return original(key, joint, size, returns, share, mask, spreads, start, settings)

    monkeypatch.setattr(surface, "fit", watched)
    monkeypatch.setattr(landscape, "choose", functools.partial(choose, size=80))
    second = survey(KEY, make_data(200), surfaces[200], spreads, memory, SETTINGS)
    ((mask, start),) = seen
    assert second.rollouts == 200
    assert (mask.sum(), np.sum(mask & make_data(200).initial)) == (80, 40)
    assert start.hyperparameters is first.hyperparameters
    wanted, found = (np.asarray(each.hyperparameters.log_lengths) for each in (first, second))
    assert not np.array_equal(found, wanted)
    assert_allclose(found, wanted, atol=0.3)
    assert len(second.warp.returns) <= 80
