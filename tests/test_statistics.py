"""Interquartile means, bootstrap intervals and verdicts: closed forms, scipy, and coverage by simulation."""

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from hpsde import InputError
from hpsde.experiments import statistics
from hpsde.experiments.statistics import FAILS, HOLDS, UNDECIDED, Interval, estimate, interquartile_mean, judge, overall

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("count", [4, 8, 20, 40])
def test_in_whole_quarters_it_is_the_trimmed_mean(count):
    values = 50.0 + 7.0 * np.random.default_rng(count).normal(size=count)
    assert_allclose(interquartile_mean(values), scipy.stats.trim_mean(values, 0.25), rtol=1e-12)


def test_values_on_the_edges_count_with_the_part_inside():
    # Of five values the middle half is 2.5: the third whole, the second and fourth three quarters each.
    assert_allclose(interquartile_mean(np.array([-100.0, 1.0, 3.0, 6.0, 900.0])), (0.75 * 1 + 3 + 0.75 * 6) / 2.5)
    assert_allclose(interquartile_mean(np.array([2.0, 9.0, 4.0])), (0.25 * 2 + 4 + 0.25 * 9) / 1.5)
    assert interquartile_mean(np.array([3.25])) == 3.25
    assert_allclose(interquartile_mean(np.array([1.0, 4.0])), 2.5)


@pytest.mark.parametrize("count", [3, 5, 6, 20])
def test_repeating_every_value_shuffling_shifting_and_scaling(count):
    values = np.random.default_rng(count).exponential(size=count)
    wanted = interquartile_mean(values)
    assert_allclose(interquartile_mean(np.repeat(values, 3)), wanted, rtol=1e-12)
    assert_allclose(interquartile_mean(values[::-1]), wanted, rtol=1e-12)
    moved, still = estimate(5.0 - 2.0 * values), estimate(values)
    assert_allclose(moved.value, 5.0 - 2.0 * wanted, rtol=1e-12)
    assert_allclose((moved.low, moved.high), (5.0 - 2.0 * still.high, 5.0 - 2.0 * still.low), rtol=1e-12)


def test_the_interval_is_scipys_bootstrap():
    values = RNG.normal(3.0, 2.0, size=20)
    ours = estimate(values)
    other = scipy.stats.bootstrap(
        (values,), lambda x, axis: scipy.stats.trim_mean(x, 0.25, axis=axis), method="percentile", random_state=1
    ).confidence_interval
    assert_allclose((ours.low, ours.high), other, atol=0.1)
    assert ours.low < ours.value < ours.high
    assert ours.seeds == 20


@pytest.mark.parametrize("draw", ["normal", "exponential"])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(draw, monkeypatch):
    """20 seeds, 400 repetitions: a percentile interval of 95 % covers in 88 to 98 % of them."""
    monkeypatch.setattr(statistics, "RESAMPLES", 400)
    quantiles = {"normal": scipy.stats.norm, "exponential": scipy.stats.expon}[draw].ppf(
        np.linspace(0.25, 0.75, 20_001)
    )
    truth, generator = np.mean(quantiles), np.random.default_rng(2)
    covered = [
        found.low <= truth <= found.high for found in (estimate(getattr(generator, draw)(size=20)) for _ in range(400))
    ]
    assert 0.88 <= np.mean(covered) <= 0.98


def test_the_same_values_give_the_same_interval_and_equal_ones_a_point():
    values = RNG.normal(size=20)
    assert estimate(values) == estimate(values)
    assert estimate(values) != estimate(values, seed=1)
    assert estimate(np.full(20, 0.5)) == Interval(0.5, 0.5, 0.5, 20)


@pytest.mark.parametrize("values", [[], [1.0, np.nan], [[1.0, 2.0]]])
def test_values_that_are_none_are_refused(values):
    with pytest.raises(InputError, match="one finite number for each seed"):
        estimate(np.array(values))


@pytest.mark.parametrize(
    ("low", "high", "higher", "lower", "alike"),
    [
        (0.2, 0.4, HOLDS, FAILS, HOLDS),
        (-0.4, -0.2, FAILS, HOLDS, HOLDS),
        (-0.1, 0.4, UNDECIDED, UNDECIDED, HOLDS),
        (0.0, 0.4, UNDECIDED, UNDECIDED, HOLDS),
        (0.4, 0.6, HOLDS, FAILS, UNDECIDED),
        (-0.6, 0.6, UNDECIDED, UNDECIDED, UNDECIDED),
        (0.6, 0.8, HOLDS, FAILS, FAILS),
        (-0.8, -0.6, FAILS, HOLDS, FAILS),
    ],
)
def test_verdicts_follow_from_where_the_interval_lies(low, high, higher, lower, alike):
    difference = Interval(0.5 * (low + high), low, high, 20)
    assert judge(difference, +1) == higher
    assert judge(difference, -1) == lower
    assert judge(difference, 0, margin=0.5) == alike
    assert judge(difference._replace(seeds=statistics.LEAST_SEEDS - 1), +1) == UNDECIDED


def test_fewer_seeds_than_needed_could_be_chance():
    """The exact sign test: so many equal signs in a row are no evidence at 5 %, one more is."""
    least = statistics.LEAST_SEEDS
    assert scipy.stats.binomtest(least - 1, least - 1).pvalue > 0.05
    assert scipy.stats.binomtest(least, least).pvalue < 0.05
    with pytest.raises(InputError, match="side must be"):
        judge(Interval(1.0, 0.5, 2.0, 20), 2)


def test_a_claim_holds_only_if_every_comparison_does():
    assert overall([HOLDS, HOLDS]) == HOLDS
    assert overall([HOLDS, UNDECIDED]) == UNDECIDED
    assert overall([HOLDS, UNDECIDED, FAILS]) == FAILS
    assert overall([]) == UNDECIDED
