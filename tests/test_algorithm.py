"""The steps of one re-estimation that other files have no tests for: what is clustered, by whom, and what is kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde import algorithm, density, landscape
from hpsde.algorithm import (
    ENOUGH_EFFECTIVE,
    LEAST_MEMBERS,
    Data,
    Memory,
    approximate_return,
    assign,
    compute_weights,
    draw_target,
    embed,
    is_modelled,
    reestimate,
    survey,
)
from hpsde.density import Mixture
from hpsde.landscape import Landscape
from hpsde.settings import Settings

KEY = jax.random.key(0)
ROWS, COUNT, S, D, O = 96, 80, 1, 3, 3
NOTHING = {"gate": "softmax", "target": "weighted", "model_step": False}  # that asks for a Gaussian process


@pytest.fixture(scope="module")
def data():
    """Returns that are best where the first parameter is 1 or -1, and always more than 0."""
    rng = np.random.default_rng(0)
    mask = np.arange(ROWS) < COUNT
    contexts, parameters = rng.normal(size=(ROWS, S)), rng.normal(size=(ROWS, D))
    returns = 1e-3 + np.exp(-3.0 * (np.abs(parameters[:, 0]) - 1.0) ** 2 - np.sum(parameters[:, 1:] ** 2, axis=1))
    return Data(contexts, parameters, returns, contexts + 5.0, np.zeros(ROWS), mask, mask & (np.arange(ROWS) < 50))


FITTED = density.FitInfo(
    *map(jnp.asarray, (0.0, True, 1, 1, np.zeros(2), np.ones(2)))
)  # the last of two starts was best


def make_mixture(means):
    """Gaussians of unit covariance and unequal mass."""
    mass, size = np.array([20.0, 30.0, 10.0]), means.shape[1]
    parts = (mass + 0.1, mass + 1.0, means, mass + size, (mass + size)[:, None, None] * np.eye(size), mass)
    return Mixture(*map(jnp.asarray, parts))


def seen(directions):
    """A landscape that knows nothing but directions."""
    return Landscape(None, None, None, directions, None, COUNT)


def test_points_are_all_numbers_or_what_the_return_sees_of_them(data):
    assert_array_equal(embed(data, None, Settings()), np.hstack([data.contexts, data.parameters]))
    assert_array_equal(embed(data, seen(None), Settings()), data.joint)
    directions = np.random.default_rng(2).normal(size=(S + D, 2))
    assert_allclose(embed(data, seen(directions), Settings()), data.joint @ directions, rtol=1e-12)
    mapped = embed(data, seen(directions), Settings(embedding_dimensions=3))
    assert mapped.shape == (ROWS, 3)


def test_no_process_is_fitted_where_nothing_asks_for_it(data):
    given = (KEY, data, np.ones(S + D), Memory())
    assert approximate_return(*given, Settings(**NOTHING)) is None
    fitted = approximate_return(*given, Settings())
    assert (fitted.axes, fitted.directions) == (None, None)
    assert int(np.asarray(fitted.process.mask).sum()) == COUNT


# ---------------------------------------------------------------- the density to be estimated


@pytest.fixture(scope="module")
def surveyed(data):
    """The surface and the landscape of these rollouts."""
    spreads = np.ones(S + D)
    approximated = approximate_return(KEY, data, spreads, Memory(), Settings())
    return approximated, survey(KEY, data, approximated, spreads, Memory(), Settings())


@pytest.mark.parametrize(
    ("changes", "ess", "modelled"),
    [
        ({}, 4 * ENOUGH_EFFECTIVE, False),
        ({}, 3.9 * ENOUGH_EFFECTIVE, True),
        ({"target": "modelled"}, 1000.0, True),
        ({"target": "weighted"}, 1.0, False),
        ({"target": "modelled", "embedding_dimensions": 2}, 1.0, False),  # an eigenmap is one of the rollouts
        ({"embedding_dimensions": 2}, 1.0, False),
    ],
)
def test_samples_are_drawn_where_few_rollouts_have_weight(changes, ess, modelled):
    assert is_modelled(ess, 4, Memory(), Settings(**changes)) is modelled


def test_once_chosen_the_target_stays():
    for modelled in (True, False):
        for ess in (1.0, 1000.0):
            assert is_modelled(ess, 4, Memory(modelled=modelled), Settings()) is modelled


@pytest.mark.parametrize("modelled", [True, False])
def test_a_step_says_which_target_the_next_one_has(monkeypatch, data, surveyed, modelled):
    monkeypatch.setattr(algorithm, "ENOUGH_EFFECTIVE", 1000.0 if modelled else 0.0)
    monkeypatch.setattr(density, "fit", lambda *_, **__: (make_mixture(data.joint[:O]), FITTED))
    drawn = []
    monkeypatch.setattr(algorithm, "draw_target", lambda *given: drawn.append(1) or draw_target(*given))
    _, memory, _ = reestimate(KEY, data, *surveyed, Memory(), Settings(max_options=O))
    assert memory.modelled is modelled
    assert len(drawn) == int(modelled)


def test_the_target_is_samples_of_the_landscape_weighted_as_rollouts_are(data, surveyed):
    importance = compute_weights(data, None, Settings())
    target, shares = draw_target(KEY, data, surveyed[1], importance, Settings())
    assert len(target.mask) == landscape.SAMPLES
    assert np.all(target.mask)
    # In the contexts of rollouts, and so with their features.
    assert np.all(np.min(np.abs(target.contexts - data.contexts[:COUNT].T), axis=1) < 1e-6)
    assert_allclose(target.features, target.contexts + 5.0, atol=1e-6)
    assert float(shares.temperature) == float(importance.temperature)
    assert_array_equal(shares.weights, compute_weights(target, float(importance.temperature), Settings()).weights)
    # Twice as near to the best parameters as the weighted rollouts.
    errors = [np.abs(np.abs(each.parameters[:, 0]) - 1.0) for each in (target, data)]
    assert shares.weights @ errors[0] < 0.5 * importance.weights @ errors[1]


@pytest.mark.parametrize("f", ["linear", np.sqrt, lambda returns: 1.0 - returns], ids=["linear", "sqrt", "falling"])
def test_a_function_f_is_asked_only_about_returns_that_rollouts_have(data, f):
    """Modelled returns may be less than 0 where all returns are more, or better than the best."""
    steep, settings = data._replace(returns=1e-3 + 0.9 * data.returns**4), Settings(f=f)
    approximated = approximate_return(KEY, steep, np.ones(S + D), Memory(), settings)
    importance = compute_weights(steep, None, settings)
    target, shares = draw_target(KEY, steep, landscape.make(approximated, COUNT), importance, settings)
    known = steep.returns[steep.mask]
    assert known.min() <= target.returns.min() < target.returns.max() <= known.max()
    assert_allclose(np.sum(shares.weights), 1.0, rtol=1e-9)


def start_of(monkeypatch, data, approximated, surveyed, memory, **changes):
    """What the density estimation starts from, and whether it says so where the last of its starts was the best."""
    starts, size = [], changes.get("embedding_dimensions", S + D)

    def fit(*given, warm, **more):
        starts.append(warm)
        return make_mixture(np.zeros((O, size))), FITTED

    monkeypatch.setattr(density, "fit", fit)
    _, after, info = reestimate(KEY, data, approximated, surveyed, memory, Settings(max_options=O, **changes))
    assert after.landscape is surveyed
    assert info.warm == (starts[0] is not None)
    return starts[0]


@pytest.mark.parametrize("target", ["modelled", "weighted"])
def test_the_last_mixture_is_a_start_as_long_as_its_landscape_lasts(monkeypatch, data, surveyed, target):
    mixture, (approximated, found) = make_mixture(np.zeros((O, S + D))), surveyed
    assert start_of(monkeypatch, data, approximated, found, Memory(), target=target) is None
    memory = Memory(mixture, found)
    assert start_of(monkeypatch, data, approximated, found, memory, target=target) is mixture
    other = found._replace(rollouts=2 * COUNT)
    assert start_of(monkeypatch, data, approximated, other, memory, target=target) is None


def test_without_a_landscape_the_last_mixture_is_a_start_but_not_of_an_embedding(monkeypatch, data):
    memory = Memory(make_mixture(np.zeros((O, S + D))))
    assert start_of(monkeypatch, data, None, None, memory, **NOTHING) is memory.mixture
    assert start_of(monkeypatch, data, None, None, memory, embedding_dimensions=2, **NOTHING) is None


@pytest.mark.parametrize("truncation", [True, False])
def test_one_rollout_of_large_weight_makes_the_others_few_only_without_truncation(monkeypatch, data, truncation):
    counts = []

    def fit(key, x, given, *_, **__):
        counts.append(np.asarray(given))
        return make_mixture(np.zeros((O, S + D))), FITTED

    monkeypatch.setattr(density, "fit", fit)
    share = np.where(data.mask, 0.5 / (COUNT - 1), 0.0)
    share[0] = 0.5
    importance = compute_weights(data, None, Settings())._replace(weights=jnp.asarray(share), ess=jnp.asarray(4.0))
    settings = Settings(max_options=O, coarsening=0.0, truncation=truncation)
    algorithm.estimate_density(KEY, data, data.joint, importance, None, None, settings)
    (found,) = counts
    assert np.all(found[~data.mask] == 0.0)
    assert bool(found.sum() > 20.0) is truncation


def test_a_step_on_the_model_moves_the_options_means_where_settings_say_so(monkeypatch, data, surveyed):
    monkeypatch.setattr(density, "fit", lambda *_, **__: (make_mixture(data.joint[:O]), FITTED))
    plain, moved = (
        reestimate(KEY, data, *surveyed, Memory(), Settings(max_options=O, model_step=step))[0]
        for step in (False, True)
    )
    assert_array_equal(plain.kept, moved.kept)
    assert_array_equal(plain.options.Sigma, moved.options.Sigma)
    assert_array_equal(np.any(plain.options.b != moved.options.b, axis=1), plain.kept)


# ---------------------------------------------------------------- whose rollouts they are


def three_gaussians():
    """Far apart along the first parameter; the last two are nearer to one another."""
    return make_mixture(np.array([-20.0, 5.0, 20.0])[:, None] * np.eye(S + D)[S])


def points_of(members, padding=0):
    """That many points at each Gaussian, then padding at the last."""
    place = np.concatenate([np.repeat(np.arange(O), members), np.full(padding, O - 1)]).astype(int)
    points = np.asarray(three_gaussians().h)[place] + np.random.default_rng(0).normal(size=(len(place), S + D))
    return points, place, np.arange(len(place)) < sum(members)


@pytest.mark.parametrize("padding", [0, 9])
@pytest.mark.parametrize(
    ("members", "kept"),
    [
        ((30, 30, LEAST_MEMBERS), [0, 1, 2]),
        ((30, 30, LEAST_MEMBERS - 1), [0, 1]),
        ((30, 30, 0), [0, 1]),
        ((LEAST_MEMBERS - 1, 30, 1), [1]),
        ((3, 3, 2), [0, 1]),
        ((1, 2, 1), [1]),
    ],
)
def test_an_option_with_few_rollouts_of_its_own_is_none(members, kept, padding):
    """Where no option has enough, those with the most remain. Padding is no rollout."""
    points, place, mask = points_of(members, padding)
    mixture, found, responsibilities = assign(three_gaussians(), points, mask, Settings())
    assert_array_equal(np.flatnonzero(found), kept)
    assert_array_equal(np.asarray(mixture.mass) > 0.0, found)
    own = np.isin(place, kept) & mask
    assert_array_equal(responsibilities[:, own].argmax(axis=0), place[own])
    assert_array_equal(responsibilities.sum(axis=0), mask)
    assert_array_equal(responsibilities[~found], 0.0)
    # Those of the third go to the second, which is nearer than the first.
    if members[2] and kept == [0, 1]:
        assert np.all(responsibilities[1, (place == 2) & mask] == 1.0)


def test_soft_responsibilities_need_no_rollouts_of_ones_own():
    points, place, mask = points_of((30, 30, 1), 3)
    _, kept, responsibilities = assign(three_gaussians(), points, mask, Settings(assignment="soft"))
    assert np.all(kept)
    assert_allclose(responsibilities, (np.arange(O)[:, None] == place) * mask, atol=1e-6)


def test_an_option_whose_rollouts_have_no_weight_is_none(monkeypatch):
    """A model may promise much where all rollouts were so bad that their weights are 0."""
    points, place, mask = points_of((20, 20, 20), ROWS - 60)
    contexts, returns = points[:, :S], np.where(place == 2, -1e6, 1.0)
    data = Data(contexts, points[:, S:], returns, contexts, np.zeros(ROWS), mask, mask)
    monkeypatch.setattr(algorithm, "estimate_density", lambda *given: (three_gaussians(), FITTED))
    settings = Settings(max_options=O, temperature=1.0, **NOTHING)
    estimate, _, info = reestimate(KEY, data, None, None, Memory(), settings)
    assert_array_equal(estimate.kept, [True, True, False])
    assert info.options_kept == 2
    assert all(np.all(np.isfinite(part)) for part in (*estimate.options, estimate.mean_returns))
