"""The return as approximated from all rollouts, and the landscape that is kept of the first."""

import functools

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde import gp
from hpsde.gp.warp import CLIP, FINEST
from hpsde.settings import Settings
from hpsde.steps import landscape, surface
from hpsde.steps.return_model import approximate_return, least_depth, modelled_scores, smoothed, survey
from hpsde.steps.rollouts import Data
from hpsde.steps.surface import Start
from hpsde.steps.weighing import compute_weights, weigh

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
    assert survey(KEY, data, None, SPREADS, None, nothing) is None


def test_what_is_bad_stays_apart_when_the_good_returns_are_all_alike():
    """Two hundred rollouts at the best return, and fifty first ones: these still have returns of their own."""
    returns = np.where(np.arange(ROWS) < 50, make_data(50).returns, 1.1 + 1e-9 * np.arange(ROWS))
    data, settings = make_data(ROWS, returns=returns), Settings()
    first = data._replace(mask=data.initial)
    share = np.asarray(compute_weights(first, None, settings).weights)[:50]
    deviation = np.sqrt(np.average((returns[:50] - np.average(returns[:50], weights=share)) ** 2, weights=share))
    assert least_depth(data, settings) == pytest.approx(FINEST * CLIP * deviation, rel=1e-9)
    assert least_depth(first, settings) == 0.0
    lowest = approximate(data).warp.returns[0]
    assert 1.1 - lowest == pytest.approx(FINEST * CLIP * deviation, rel=0.05)
    assert least_depth(data, Settings(warp="none")) == 0.0


def test_the_process_has_all_rollouts_in_the_mask(first):
    _, found = first
    assert int(np.asarray(found.process.mask).sum()) == 160
    assert_array_equal(found.rows, np.arange(160))


def test_modelled_scores_are_the_mean_of_the_process_and_padding_has_the_lowest(first):
    data, found = first
    scores = modelled_scores(data, found)
    z = np.hstack([data.parameters, data.contexts])
    assert_allclose(scores[:160], gp.predict_mean(found.process, np.asarray(z))[:160], atol=1e-9)
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
    """Where the surface's kernel is the squared exponential; another test says what of others."""
    data, found = first[0], approximate(first[0], gp_axes="own")
    assert found.start.kernel == "se"
    got = survey(KEY, data, found, SPREADS, None, Settings())
    assert got.hyperparameters is found.process.hyperparameters
    assert got.warp is found.warp
    assert (got.rollouts, got.binary) == (160, False)
    T = weigh(modelled_scores(data, found), data, None, True, Settings()).temperature
    assert_allclose(got.temperature, T, rtol=1e-9)


def test_a_landscape_is_smooth_where_the_surface_is_rough():
    """A cliff: the first landscape has the squared exponential, and so has the next."""
    rng = np.random.default_rng(1)

    def beside_a_cliff(n):
        data = make_data(n)
        side = np.where(data.parameters[:, 0] > 0.3 * data.contexts[:, 0], 1.0, -1.0)
        return data._replace(returns=side + 0.3 * data.contexts[:, 0] + noise)

    noise = 0.03 * rng.normal(size=ROWS)
    data, later = beside_a_cliff(160), beside_a_cliff(240)
    rough = approximate(data)
    assert rough.start.kernel == "matern"
    got = survey(KEY, data, rough, SPREADS, None, Settings())
    assert type(got.hyperparameters) is gp.Hyperparameters
    assert (got.start.kernel, got.rollouts, got.binary) == ("se", 160, False)
    assert got.warp is rough.warp
    # Fitted to the same scores, and T is that of the scores it models.
    points = np.hstack([data.parameters, data.contexts])[data.mask]
    known = rough.scores, np.ones(len(points), dtype=bool)
    start = gp.with_kernel(rough.process.hyperparameters, "se")
    assert gp.log_evidence(got.hyperparameters, points, *known) > gp.log_evidence(start, points, *known) + 1.0
    smooth = rough._replace(process=gp.posterior(got.hyperparameters, points, *known))
    T = weigh(modelled_scores(data, smooth), data, None, True, Settings()).temperature
    assert_allclose(got.temperature, T, rtol=1e-6)
    current = approximate(later)
    assert current.start.kernel == "matern"
    for last in (got, got._replace(start=rough.start)):
        second = survey(KEY, later, current, SPREADS, last, Settings())
        assert (type(second.hyperparameters), second.rollouts) == (gp.Hyperparameters, 240)


@pytest.mark.parametrize("density", ["vb", "em"])
def test_joint_gaussians_ask_for_no_landscape(first, density):
    data, found = first
    assert survey(KEY, data, found, SPREADS, None, Settings(density=density)) is None


def test_where_the_returns_are_noise_there_is_no_landscape():
    data = make_data(100, returns=np.random.default_rng(17).normal(size=ROWS))
    assert survey(KEY, data, approximate(data), SPREADS, None, Settings()) is None


def test_a_landscape_lasts_until_the_rollouts_have_grown_and_the_next_keeps_scores_and_T(monkeypatch):
    data = make_data(160)
    last = survey(KEY, data, approximate(data), SPREADS, None, Settings())
    grown = int(np.ceil(surface.GROWTH * 160))
    current = approximate(data)
    assert survey(KEY, make_data(grown - 1), current, SPREADS, last, Settings()) is last
    seen, original = [], surface.fit_scores

    def watched(key, joint, size, scores, warp, binary, mask, spreads, start, settings, smooth):
        assert smooth
        seen.append((scores, warp, binary, mask, start))
        return original(key, joint, size, scores, warp, binary, mask, spreads, start, settings, smooth)

    monkeypatch.setattr(surface, "fit_scores", watched)
    monkeypatch.setattr(landscape, "choose", functools.partial(landscape.choose, size=80))
    low = make_data(grown)
    low.returns[:5] = -1e6
    low.returns[5] = 9.0
    second = survey(KEY, low, current, SPREADS, last, Settings())
    ((scores, warp, binary, mask, start),) = seen
    assert (mask.sum(), np.sum(mask & low.initial)) == (80, 40)
    assert start is last.start
    assert warp is last.warp
    assert not binary
    # By the first map, which is a line: what is worse than the worst of the first is as bad as that.
    knots, values = (each[[0, -1]] for each in (last.warp.returns, last.warp.scores))
    line = np.polynomial.Polynomial.fit(knots, values, 1)
    assert_allclose(scores[mask], line(np.maximum(low.returns, knots[0]))[mask], rtol=1e-9, atol=1e-9)
    assert (second.rollouts, second.temperature) == (grown, last.temperature)
    assert second.warp is last.warp
    assert second is not last


def test_the_kernel_of_a_landscape_is_fitted_anew_though_it_sees_no_more_rollouts_than_before(monkeypatch):
    """As many as it can see, of which those of the policy are others now."""
    monkeypatch.setattr(landscape, "choose", functools.partial(landscape.choose, size=120))
    data, later = make_data(120, noise=0.2), make_data(240, noise=0.2)
    last = survey(KEY, data, approximate(data), SPREADS, None, Settings())
    found = survey(KEY, later, approximate(data), SPREADS, last, Settings())
    assert found.rollouts == 240
    assert np.any(np.asarray(found.hyperparameters.log_lengths) != np.asarray(last.hyperparameters.log_lengths))


SLOPES = {
    "narrower": (1.0, 0.1, lambda s, xi: 10.0 * np.sin(xi[:, 0]) + np.sin(s[:, 0])),
    "wider": (0.6, 1.2, lambda s, xi: 3.0 * xi[:, 0] ** 2 + np.sin(s[:, 0])),
}


@pytest.mark.parametrize("later", SLOPES)
def test_noise_stays_in_the_unit_of_the_first_scores_however_much_later_returns_vary(later):
    """Returns have a noise of 0.3. Those of all rollouts vary half as much as the first, or three times as much."""
    near, far, function = SLOPES[later]
    rng, rows, first = np.random.default_rng(0), 320, 100
    contexts, parameters = rng.normal(size=(rows, S)), rng.normal(size=(rows, D))
    parameters *= np.where(np.arange(rows) < first, near, far)[:, None]
    returns = function(contexts, parameters) + 0.3 * rng.normal(size=rows)

    def some(count):
        mask = np.arange(rows) < count
        return Data(
            contexts, parameters, returns, contexts, np.zeros(rows), mask, mask & (np.arange(rows) < first), count
        )

    line = Settings(warp="none")
    last = survey(KEY, some(first), approximate(some(first), warp="none"), SPREADS, None, line)
    found = survey(KEY, some(300), approximate(some(300), warp="none"), SPREADS, last, line)
    assert found.warp is last.warp
    assert found.temperature == last.temperature
    assert found.rollouts == 300
    ratio = returns[:300].std() / returns[:first].std()
    assert ratio < 0.7 if later == "narrower" else ratio > 2.0  # so far off would another unit be
    unit = np.ptp(last.warp.returns) / np.ptp(last.warp.scores)
    assert_allclose(np.exp(float(found.hyperparameters.log_noise)) * unit, 0.3, rtol=0.15)
    if later == "narrower":  # the same hill as at first, with the same height
        assert_allclose(landscape.signal(found), landscape.signal(last), rtol=0.2)


def test_a_landscape_of_success_stays_one_though_later_returns_have_other_values():
    succeeds = make_data(160).parameters[:, 0] > 0.2
    first = make_data(120, returns=np.where(succeeds, 5.0, -2.0))
    last = survey(KEY, first, approximate(first), SPREADS, None, Settings())
    assert last.binary
    returns = np.where(np.arange(ROWS) < 120, first.returns, np.where(succeeds, 5.0 + np.arange(ROWS) / ROWS, -3.0))
    later = make_data(200, returns=returns)
    current = approximate(later)
    assert not current.binary
    found = survey(KEY, later, current, SPREADS, last, Settings())
    assert (found.binary, found.rollouts) == (True, 200)
    assert found.start.mean == last.start.mean
    chosen = np.arange(200)
    process = landscape.condition(found, later.joint, S, returns, chosen)
    odds = np.asarray(gp.predict_mean(process, np.asarray([[1.5, 0.0, 0.0], [-1.5, 0.0, 0.0]])))
    assert odds[0] > 1.0
    assert odds[1] < -1.0
