"""W~ with a learner's settings: whose temperature, how many effective samples, and T in units of the returns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde.settings import Settings
from hpsde.steps import weighing
from hpsde.steps.rollouts import Data
from hpsde.steps.weighing import compute_weights, return_temperature, wanted_ess, weigh

ROWS = 96


def make_data(n=80, size=2, contexts=1):
    rng = np.random.default_rng(0)
    s, xi = rng.normal(size=(ROWS, contexts)), rng.normal(size=(ROWS, size))
    mask = np.arange(ROWS) < n
    returns = 2.0 - np.abs(xi[:, 0])
    return Data(s, xi, returns, s, 0.3 * rng.normal(size=ROWS), mask, mask, rollouts=n)


@pytest.mark.parametrize(
    ("n", "size", "wanted"),
    [
        (96, 1, 9.0),  # 3 for each of two numbers and one more
        (96, 20, 24.0),  # 66, but no more than a quarter of the rollouts
        (8, 1, 2.0),
    ],
)
def test_some_effective_samples_for_every_number_but_at_most_a_quarter(n, size, wanted):
    assert_allclose(wanted_ess(make_data(n, size)), wanted)


def test_of_many_rollouts_a_share(monkeypatch):
    monkeypatch.setattr(weighing, "LEAST_ESS", 0.5)
    assert_allclose(wanted_ess(make_data(80)), 40.0)


def test_the_weights_are_those_of_the_formula():
    """exp(R / T) / pi_old^lambda, normalised; a baseline would need no T of its own."""
    data = make_data()
    found = weigh(data.returns, data, 0.4, False, Settings(flattening=0.7))
    truth = np.where(data.mask, np.exp(data.returns / 0.4 - 0.7 * data.log_behaviour), 0.0)
    assert_allclose(found.weights, truth / truth.sum(), rtol=1e-9)
    assert_allclose(found.ess, truth.sum() ** 2 / np.sum(truth**2), rtol=1e-9)


def test_with_a_baseline_what_the_context_alone_brings_does_not_count():
    data = make_data()
    moved = data.returns + 3.0 * data.contexts[:, 0]
    plain, other = (weigh(each, data, 0.4, True, Settings()).weights for each in (data.returns, moved))
    # Up to the small ridge of the baseline.
    assert np.abs(np.asarray(other) - np.asarray(plain)).sum() < 0.02
    free = weigh(moved, data, 0.4, False, Settings()).weights
    assert np.abs(np.asarray(free) - np.asarray(plain)).sum() > 0.5


@pytest.mark.parametrize(
    ("settings", "given", "wanted"),
    [
        (Settings(), 0.7, 0.7),
        (Settings(temperature=2.0), 0.7, 2.0),
        (Settings(f="linear"), 0.7, 1.0),
        (Settings(f=np.exp), None, 1.0),
        (Settings(f=np.exp, temperature=3.0), None, 3.0),
    ],
)
def test_whose_temperature_it_is(settings, given, wanted):
    data = make_data()
    data = data._replace(returns=np.exp(data.returns))  # more than 0, for the logarithm
    assert float(compute_weights(data, given, settings).temperature) == wanted


def test_rollouts_outside_the_mask_are_never_looked_at():
    data = make_data()
    returns = np.where(data.mask, data.returns, np.nan)
    found = compute_weights(data._replace(returns=returns), None, Settings())
    assert_array_equal(found.weights, compute_weights(data, None, Settings()).weights)
    assert_array_equal(np.asarray(found.weights)[~data.mask], 0.0)


def test_T_in_units_of_the_returns():
    data = make_data()
    importance = compute_weights(data, 0.3, Settings())
    assert return_temperature(data, importance, Settings()) == 0.3
    # Ranks have a T of their own: in returns it is the deviation of the weighted ones.
    importance = compute_weights(data, None, Settings(f="rank"))
    share = np.asarray(importance.weights)[data.mask]
    draws = np.random.default_rng(1).choice(data.returns[data.mask], 200_000, p=share / share.sum())
    assert_allclose(return_temperature(data, importance, Settings(f="rank")), draws.std(), rtol=0.01)
    equal = data._replace(returns=np.ones(ROWS))
    assert return_temperature(equal, importance, Settings(f="rank")) == 1.0
