"""The return as approximated from all rollouts, and the landscape that is kept of the first."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde import gp, landscape, surface
from hpsde.return_model import approximate_return, modelled_scores, smoothed, survey
from hpsde.rollouts import Data
from hpsde.settings import Settings
from hpsde.surface import Start
from hpsde.weighing import weigh

KEY = jax.random.key(0)
S, D, ROWS = 1, 2, 256
SPREADS = np.ones(S + D)
NOBODY = np.zeros(0, dtype=bool)


def two_peaks(contexts, parameters):
    return np.exp(-2.0 * np.sum((np.abs(parameters) - 0.8) ** 2, axis=1)) + 0.1 * contexts[:, 0]


def make_data(n, noise=0.0, returns=None):
    """The first fifty rollouts are the initial policy's."""
    rng = np.random.default_rng(0)
    contexts, parameters = rng.normal(size=(ROWS, S)), rng.normal(size=(ROWS, D))
    mask = np.arange(ROWS) < n
    if returns is None:
        returns = two_peaks(contexts, parameters) + noise * rng.normal(size=ROWS)
    arrays = (contexts, parameters, returns, contexts, np.zeros(ROWS), mask, mask & (np.arange(ROWS) < 50))
    return Data(*arrays, rollouts=n)


def approximate(data, **settings):
    return approximate_return(KEY, data, SPREADS, Start(), NOBODY, Settings(**settings))[0]


@pytest.fixture(scope="module")
def first():
    data = make_data(160, noise=0.2)
    return data, approximate(data)


def test_no_process_is_fitted_where_nothing_asks_for_it(first):
    data, _ = first
    nothing = Settings(gate="softmax", density="vb", model_step=False)
    found, same = approximate_return(KEY, data, SPREADS, Start(), NOBODY, nothing)
    assert found is None
    assert same is data
    assert survey(KEY, data, None, SPREADS, None, None, nothing) is None


def test_the_process_has_all_rollouts_in_the_mask(first):
    _, found = first
    assert int(np.asarray(found.process.mask).sum()) == 160
    assert_array_equal(found.rows, np.arange(160))


def test_modelled_scores_are_the_mean_of_the_process_and_padding_has_the_lowest(first):
    data, found = first
    scores = modelled_scores(data, found)
    z = np.hstack([data.parameters, data.contexts])
    assert_allclose(scores[:160], gp.predict_mean(found.process, jnp.asarray(z))[:160], atol=1e-9)
    assert_array_equal(scores[160:], scores[:160].min())


def test_modelled_returns_are_nearer_to_the_truth_than_those_with_noise(first):
    data, found = first
    truth = two_peaks(data.contexts, data.parameters)[:160]
    error, noise = ((each.returns[:160] - truth).std() for each in (smoothed(data, found), data))
    assert error < 0.7 * noise
    for name, part in smoothed(data, found)._asdict().items():
        if name != "returns":
            assert part is getattr(data, name)


# ---------------------------------------------------------------- the landscape


def test_the_first_landscape_is_the_surface_at_the_T_of_its_modelled_scores(first):
    data, found = first
    got = survey(KEY, data, found, SPREADS, None, None, Settings())
    assert got.hyperparameters is found.process.hyperparameters
    assert got.warp is found.warp
    assert (got.rollouts, got.binary) == (160, False)
    T = weigh(modelled_scores(data, found), data, None, True, Settings()).temperature
    assert_allclose(got.temperature, T, rtol=1e-9)


@pytest.mark.parametrize("density", ["vb", "em"])
def test_joint_gaussians_ask_for_no_landscape(first, density):
    data, found = first
    assert survey(KEY, data, found, SPREADS, None, None, Settings(density=density)) is None


def test_where_the_returns_are_noise_there_is_no_landscape():
    data = make_data(100, returns=np.random.default_rng(17).normal(size=ROWS))
    assert survey(KEY, data, approximate(data), SPREADS, None, None, Settings()) is None


def test_a_landscape_lasts_until_the_rollouts_have_grown_and_the_next_keeps_scores_and_T(monkeypatch):
    data = make_data(160)
    last = survey(KEY, data, approximate(data), SPREADS, None, None, Settings())
    grown = int(np.ceil(landscape.GROWTH * 160))
    current = approximate(data)
    assert survey(KEY, make_data(grown - 1), current, SPREADS, last, 0.2, Settings()) is last
    seen, original = [], surface.fit

    def watched(key, joint, size, returns, share, mask, spreads, start, settings):
        seen.append((mask, start, returns))
        return original(key, joint, size, returns, share, mask, spreads, start, settings)

    monkeypatch.setattr(surface, "fit", watched)
    monkeypatch.setattr(landscape, "choose", functools.partial(landscape.choose, size=80))
    low = make_data(grown)
    low.returns[:5] = -1e6
    second = survey(KEY, low, current, SPREADS, last, 0.2, Settings())
    ((mask, start, returns),) = seen
    assert (mask.sum(), np.sum(mask & low.initial)) == (80, 40)
    assert start is last.start
    assert returns.min() == last.warp.returns[0]  # what is worse than the worst of the first is as bad as that
    assert (second.rollouts, second.temperature) == (grown, last.temperature)
    assert second.warp is last.warp
    assert second is not last
