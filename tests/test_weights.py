"""The return-weighted importance weights: against the paper's formula, and what must not change them."""

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from hpsde.errors import InputError, UnknownNameError
from hpsde.settings import Settings
from hpsde.steps import dual, return_functions, weighing
from hpsde.steps.return_functions import Advantage, ReturnFunction
from hpsde.steps.rollouts import Data
from hpsde.steps.weighing import compute_weights as weights_at
from hpsde.steps.weights import flattened_base, truncated

ROWS, COUNT = 96, 80  # 16 rows are padding
REAL = np.arange(ROWS) < COUNT


def make_data(seed=0, spread=0.5, returns=None):
    """Rollouts whose best returns depend on the context, with a behaviour density of the given log spread."""
    rng = np.random.default_rng(seed)
    contexts, parameters = rng.uniform(-1.5, 1.5, size=(ROWS, 1)), rng.normal(size=(ROWS, 1))
    if returns is None:
        returns = 2.0 + contexts[:, 0] - np.abs(parameters - contexts)[:, 0]
    log_behaviour = spread * rng.normal(size=ROWS) - 1.3
    parts = [contexts, parameters, returns, contexts.copy(), log_behaviour]
    for part in parts:
        part[~REAL] = 0.0
    return Data(*parts, mask=REAL, initial=REAL)


def compute_weights(data, settings):
    """As of the first rollouts: no temperature is known."""
    return weights_at(data, None, settings)


def with_returns(data, returns):
    return data._replace(returns=np.where(REAL, returns, 0.0))


def log_base_of(data, power):
    """log pi_old^-lambda of the rollouts, normalised."""
    log_base = -float(power) * data.log_behaviour[REAL]
    return log_base - logsumexp(log_base)


def normalised(log_weights):
    return np.exp(log_weights - logsumexp(log_weights))


# ---------------------------------------------------------------- the forms of f


@pytest.mark.parametrize(("temperature", "power"), [(1.0, 1.0), (0.2, 0.4)])
def test_the_papers_form(temperature, power):
    """W~ is proportional to exp(R / T) / pi_old(xi | s), flattened where lambda < 1."""
    data = make_data(spread=1.5)
    result = compute_weights(data, Settings(f="exp", temperature=temperature, flattening=power))
    direct = np.exp(data.returns[REAL] / temperature) / np.exp(data.log_behaviour[REAL]) ** power
    assert_allclose(result.weights[REAL], direct / direct.sum(), rtol=1e-10)
    assert_array_equal(result.weights[~REAL], 0.0)
    assert_allclose(result.ess, direct.sum() ** 2 / np.sum(direct**2), rtol=1e-9)
    assert float(result.temperature) == temperature
    assert float(result.flattening) == power


def test_linear_weights_are_the_returns_over_the_density():
    data = with_returns(make_data(), np.random.default_rng(1).uniform(0.1, 4.0, size=ROWS))
    result = compute_weights(data, Settings(f="linear", flattening=1.0))
    direct = data.returns[REAL] / np.exp(data.log_behaviour[REAL])
    assert_allclose(result.weights[REAL], direct / direct.sum(), rtol=1e-10)


def test_a_function_of_ones_own():
    data = make_data()
    f = lambda returns: np.maximum(returns - 1.0, 0.0)  # noqa: E731 - zero for many: these get no weight
    result = compute_weights(data, Settings(f=f, flattening=1.0))
    direct = f(data.returns[REAL]) / np.exp(data.log_behaviour[REAL])
    assert 0 < np.sum(direct == 0.0) < COUNT
    assert_allclose(result.weights[REAL], direct / direct.sum(), rtol=1e-10, atol=1e-300)
    assert_array_equal(result.weights[~REAL], 0.0)


def test_rank_weights_know_the_order_alone():
    data = make_data()
    settings = Settings(f="rank", temperature=1.0, flattening=1.0)
    result = compute_weights(data, settings)
    ranks = scipy.stats.rankdata(data.returns[REAL]) / COUNT
    assert_allclose(result.weights[REAL], normalised(ranks + log_base_of(data, 1.0)), rtol=1e-10)
    bent = compute_weights(with_returns(data, np.exp(3.0 * data.returns)), settings)
    assert_allclose(bent.weights, result.weights, rtol=1e-12)


def log_return_function(f, returns):
    return return_functions.log_return_function(Advantage().of(f), returns)


def test_log_return_functions():
    returns = np.array([0.5, 2.0, 2.0, 1.0])
    assert_array_equal(log_return_function("advantage", returns), returns)
    assert_array_equal(log_return_function("exp", returns), returns)
    assert_allclose(log_return_function("linear", returns), np.log(returns))
    assert_allclose(log_return_function("rank", returns), np.array([1.0, 3.5, 3.5, 2.0]) / 4.0)
    assert_allclose(log_return_function(lambda r: r - 0.5, returns), [-np.inf, *np.log([1.5, 1.5, 0.5])])


def test_log_return_function_errors():
    returns = np.array([0.5, 2.0, 0.0])
    with pytest.raises(InputError, match=r"needs returns > 0; the smallest is 0\.0"):
        log_return_function("linear", returns)
    for bad in (lambda r: r - 1.0, lambda r: r * np.nan, lambda r: 0.0 * r):
        with pytest.raises(InputError, match="one non-negative number per return, not all zero"):
            log_return_function(bad, returns)
    with pytest.raises(InputError, match=r"got shape \(2,\) for \(3,\)"):
        log_return_function(lambda r: r[:2], returns)
    with pytest.raises(UnknownNameError, match="unknown return function 'square'") as error:
        log_return_function("square", returns)
    assert all(name in str(error.value) for name in ReturnFunction.known)


# ---------------------------------------------------------------- temperature


@pytest.mark.parametrize(
    ("target_ess", "kl_bound", "active"),
    # Of 80 rollouts in two dimensions at least 9 are to count, however small the share that is asked for.
    [(0.4, 4.0, "ess"), (0.02, 0.5, "kl"), (0.02, 4.0, "floor")],
)
@pytest.mark.parametrize("f", ["advantage", "exp", "rank"])
def test_as_sharp_as_the_two_bounds_allow(monkeypatch, f, target_ess, kl_bound, active):
    data = make_data(2)
    monkeypatch.setattr(weighing, "LEAST_ESS", target_ess)
    result = compute_weights(data, Settings(f=f, kl_bound=kl_bound))
    weights = np.asarray(result.weights)[REAL]
    ess = weights.sum() ** 2 / np.sum(weights**2)
    kl = scipy.stats.entropy(weights, np.exp(log_base_of(data, result.flattening)))
    assert_allclose(weights.sum(), 1.0, rtol=1e-12)
    assert_allclose(result.ess, ess, rtol=1e-9)
    assert ess >= target_ess * COUNT * (1.0 - 1e-6)
    assert kl <= kl_bound + 1e-6
    if active == "ess":
        assert_allclose(ess, target_ess * COUNT, rtol=1e-6)
    elif active == "floor":
        assert_allclose(ess, weighing.LEAST_PER_NUMBER * (2 + 1), rtol=1e-6)
    else:
        assert_allclose(kl, kl_bound, rtol=1e-6)


def test_weights_too_few_already_are_not_sharpened(monkeypatch):
    """Where plain importance weighting leaves fewer than the wanted samples, the returns have no say."""
    data = make_data(spread=3.0)
    monkeypatch.setattr(weighing, "LEAST_ESS", 0.5)
    monkeypatch.setattr(weighing, "ESS_FLOOR", 0.0)
    result = compute_weights(data, Settings(f="exp"))
    assert float(result.ess) < 0.5 * COUNT
    assert_allclose(result.weights[REAL], np.exp(log_base_of(data, 1.0)), rtol=1e-4)


def test_a_known_temperature_is_kept_but_for_one_that_settings_fix():
    data = make_data(2)
    known = weights_at(data, 0.37, Settings(f="exp", flattening=1.0))
    direct = np.exp(data.returns[REAL] / 0.37 - data.log_behaviour[REAL])
    assert_allclose(known.weights[REAL], direct / direct.sum(), rtol=1e-9)
    assert float(known.temperature) == 0.37
    found = compute_weights(data, Settings())
    again = weights_at(data, float(found.temperature), Settings())
    assert_allclose(again.weights, found.weights, rtol=1e-5)
    for settings, temperature in ((Settings(temperature=2.0), 2.0), (Settings(f=np.exp), 1.0)):
        assert float(weights_at(data, 0.37, settings).temperature) == temperature


# ---------------------------------------------------------------- what must not matter


@pytest.mark.parametrize(("shift", "scale"), [(-1e5, 1.0), (0.0, 1e-9), (3.0, 1e9), (-900.0, 37.0)])
@pytest.mark.parametrize(
    "settings", [Settings(), Settings(f="exp"), Settings(f="rank")], ids=lambda s: s.weights.f.name
)
def test_shifted_and_scaled_returns_have_the_same_weights(settings, shift, scale):
    data = make_data(3)
    plain = compute_weights(data, settings)
    changed = compute_weights(with_returns(data, shift + scale * data.returns), settings)
    assert_allclose(changed.weights, plain.weights, rtol=1e-6)
    assert_allclose(changed.ess, plain.ess, rtol=1e-6)


@pytest.mark.parametrize("shift", [0.0, -7.5, 1e6])
def test_returns_of_two_kinds_weigh_by_kind(shift):
    """With ever lower temperature half of the samples stay: success or failure, whatever the numbers."""
    success = np.arange(ROWS) % 2 == 0
    data = with_returns(make_data(spread=0.1), shift + 1.0 * success)
    result = compute_weights(data, Settings(f="exp"))
    direct = np.where(success[REAL], np.exp(log_base_of(data, 1.0)), 0.0)
    assert_allclose(result.weights[REAL], direct / direct.sum(), rtol=1e-6, atol=1e-300)


@pytest.mark.parametrize("f", ["advantage", "exp", "rank"])
def test_equal_returns_leave_the_importance_weights(f):
    # All densities are equal as well: weights that vary by chance would not keep the mean context.
    data = with_returns(make_data(spread=0.0), np.full(ROWS, -42.0))
    assert_allclose(compute_weights(data, Settings(f=f)).weights[REAL], 1.0 / COUNT, rtol=1e-6)


def test_the_scale_of_the_density_does_not_matter():
    data = make_data(4)
    moved = data._replace(log_behaviour=np.where(REAL, data.log_behaviour + 750.0, 0.0))
    assert_allclose(compute_weights(moved, Settings()).weights, compute_weights(data, Settings()).weights, rtol=1e-6)


def test_what_padding_holds_does_not_matter():
    data = make_data(5)
    plain = compute_weights(data, Settings())
    parts = [np.where(REAL.reshape(-1, *[1] * (part.ndim - 1)), part, 33.0) for part in data[:5]]
    changed = compute_weights(Data(*parts, mask=REAL, initial=~REAL), Settings())
    assert_array_equal(changed.weights[~REAL], 0.0)
    assert_allclose(changed.weights, plain.weights, rtol=1e-6)


def test_the_order_of_the_rollouts_does_not_matter():
    data = make_data(6)
    order = np.random.default_rng(0).permutation(ROWS)
    changed = compute_weights(Data(*(part[order] for part in data[:7])), Settings())
    assert_allclose(changed.weights, compute_weights(data, Settings()).weights[order], rtol=1e-6)


# ---------------------------------------------------------------- the baseline over the context


def test_the_baseline_keeps_the_contexts():
    """Returns that are higher in some contexts do not draw the weights there."""
    data = make_data(7)
    contexts = data.contexts[REAL, 0]
    kept = np.asarray(compute_weights(data, Settings()).weights)[REAL]
    free = np.asarray(compute_weights(data, Settings(f="exp")).weights)[REAL]
    assert abs(kept @ contexts - contexts.mean()) < 0.02 * contexts.std()
    assert abs(free @ contexts - contexts.mean()) > 0.2 * contexts.std()


def test_the_baseline_takes_off_what_the_context_alone_is_worth(monkeypatch):
    data = make_data(8)
    changed = with_returns(data, data.returns - 3.0 * data.contexts[:, 0] + 11.0)
    monkeypatch.setattr(dual, "FEATURE_RIDGE", 1e-9)
    # A setting that no other test has, so that the function is traced anew, with this ridge.
    settings = Settings(flattening=0.9871)
    plain, shifted = compute_weights(data, settings), compute_weights(changed, settings)
    assert_allclose(shifted.weights, plain.weights, rtol=1e-4, atol=1e-9)
    assert_allclose(shifted.temperature, plain.temperature, rtol=1e-5)
    # Without a baseline this offset makes other weights.
    free = [compute_weights(each, Settings(f="exp")).weights for each in (data, changed)]
    assert np.abs(free[0] - free[1]).max() > 1e-2


def test_the_ridge_hardly_matters_to_the_baseline():
    data = make_data(8)
    changed = with_returns(data, data.returns - 3.0 * data.contexts[:, 0])
    plain = compute_weights(data, Settings()).weights
    assert np.abs(compute_weights(changed, Settings()).weights - plain).sum() < 0.1


# ---------------------------------------------------------------- flattening


def ess_at(log_behaviour, power):
    return dual.effective_sample_size(-power * log_behaviour)


@pytest.mark.parametrize("floor", [0.1, 0.3, 0.8])
def test_flattening_is_the_least_that_keeps_the_floor(floor):
    data = make_data(spread=3.0)
    log_behaviour = data.log_behaviour[REAL]
    assert ess_at(log_behaviour, 1.0) < floor * COUNT  # there is something to do
    log_base, power = flattened_base(log_behaviour, floor)
    direct = np.exp(-power * log_behaviour)
    assert direct.sum() ** 2 / np.sum(direct**2) >= floor * COUNT * (1.0 - 1e-9)
    more = np.exp(-(power + 1e-6) * log_behaviour)
    assert more.sum() ** 2 / np.sum(more**2) < floor * COUNT
    assert_allclose(normalised(log_base), direct / direct.sum(), rtol=1e-9)


def test_no_flattening_where_none_is_needed():
    data = make_data(spread=0.3)
    assert flattened_base(data.log_behaviour[REAL], 0.3)[1] == 1.0
    assert compute_weights(data, Settings()).flattening == 1.0


def test_the_floor_holds_before_the_returns_are_looked_at(monkeypatch):
    data = make_data(spread=3.0)
    monkeypatch.setattr(weighing, "ESS_FLOOR", 0.6)
    power = compute_weights(data, Settings()).flattening
    assert_allclose(ess_at(data.log_behaviour[REAL], power), 0.6 * COUNT, rtol=1e-6)


# ---------------------------------------------------------------- truncation


@pytest.mark.parametrize(("most", "largest"), [(1.0, 0.4), (0.1, 0.1 / 0.7), (1e-3, 1 / 7)])
def test_truncated_weights_sum_to_one_and_none_was_above_the_limit(most, largest):
    weights = np.array([0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    share, ess = truncated(weights, most)
    assert_allclose(np.sum(share), 1.0, rtol=1e-6)
    assert_allclose(np.max(share), largest, rtol=1e-6)
    assert_allclose(ess, 1.0 / np.sum(share**2), rtol=1e-6)


def test_one_rollout_that_nobody_was_likely_to_make_leaves_the_others_their_number():
    weights = np.full(900, 0.9 / 899)
    weights[0] = 0.1
    assert 1.0 / np.sum(weights**2) < 100
    assert truncated(weights, 1.0 / 30.0)[1] > 400
