"""The return function and the directions in which it varies: a known ridge in seven dimensions, and who asks."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde import gp, surface
from hpsde._padding import pad_rows
from hpsde.settings import Settings
from hpsde.surface import Start, is_needed, parameter_combinations, turns

N, ROWS, S, D = 240, 256, 1, 6
DIRECTION = np.array([2.0, -1.0, 0.0, 1.0, -2.0, 0.5]) / np.sqrt(10.25)
ALONG = np.array([-0.5, *DIRECTION])  # of [s, xi]
KEY = jax.random.key(0)


def ridge(contexts, parameters):
    """Two modes apart along one slanted direction of the parameters; they move with the context."""
    return -np.abs(np.abs(parameters @ DIRECTION[: parameters.shape[1]] - 0.5 * contexts[:, 0]) - 1.0)


def make_rollouts(size=D, n=N):
    rng = np.random.default_rng(0)
    contexts, parameters = rng.normal(size=(n, S)), rng.normal(size=(n, size))
    return contexts, parameters, ridge(contexts, parameters)


def fit(size=D, n=N, rows=ROWS, start=None, **settings):
    contexts, parameters, returns = make_rollouts(size, n)
    joint = pad_rows(np.hstack([contexts, parameters]), rows, fill=7.0)
    mask = np.arange(rows) < n
    given = (pad_rows(returns, rows), mask / n, mask, np.ones(S + size), start or Start(), Settings(**settings))
    return surface.fit(KEY, joint, S, *given)


@pytest.fixture(scope="module")
def found():
    return fit()


def alignment(directions):
    """Cosine between the one direction that was found and the one that the return varies along."""
    (found,) = directions.T
    return abs(found @ ALONG) / np.linalg.norm(found) / np.linalg.norm(ALONG)


def test_the_direction_is_that_in_which_the_return_varies(found):
    assert alignment(found.directions) > 0.999
    assert_allclose(found.relevance, np.exp(-np.asarray(found.process.hyperparameters.log_lengths)).max(), rtol=1e-12)


def test_points_along_the_direction_tell_the_two_modes_apart(found):
    """Of good rollouts: distance between the modes against the spread within; in all seven numbers they overlap."""
    contexts, parameters, returns = make_rollouts()
    good = returns > -0.25
    side = (parameters @ DIRECTION - 0.5 * contexts[:, 0] > 0.0)[good]
    joint = np.hstack([contexts, parameters])[good]

    def apart(points):
        first, second = points[side], points[~side]
        within = np.sqrt(np.sum(first.var(axis=0) + second.var(axis=0)) / 2.0)
        return np.linalg.norm(first.mean(axis=0) - second.mean(axis=0)) / within

    assert good.sum() > 40
    assert apart(joint @ found.directions) > 10.0
    assert apart(joint) < 1.0


def test_the_process_is_over_the_turned_points(found):
    contexts, parameters, returns = make_rollouts()
    z = np.hstack([parameters, contexts])
    mean, _ = gp.predict(found.process, jax.numpy.asarray(z @ np.asarray(found.axes).T))
    error = found.warp.inverse(np.asarray(mean)) - returns
    assert error.std() < 0.3 * returns.std()
    # Directions are rows of the axes, for [s, xi] in place of [xi, s].
    seen = np.hstack([contexts, parameters]) @ found.directions
    every = z @ np.asarray(found.axes).T
    assert all(np.isclose(every, column[:, None]).all(axis=0).any() for column in seen.T)


def test_a_second_fit_goes_on_from_the_axes_of_the_first(found):
    again = fit(start=found.start)
    assert_array_equal(again.axes, found.start.axes)
    assert alignment(again.directions) > 0.999
    # As many rollouts: the axes stay, and the next fit starts from the lengths of this one.
    assert_array_equal(again.start.axes, again.axes)
    assert again.start.hyperparameters is again.process.hyperparameters
    assert again.start.turned == found.start.turned == N


def test_axes_are_turned_again_by_a_quarter_more_rollouts(found):
    earlier = found.start._replace(turned=int(N / surface.TURN_GROWTH))
    again = fit(start=earlier)
    assert_array_equal(again.axes, earlier.axes)
    assert again.start.turned == N
    assert np.abs(again.start.axes - again.axes).max() > 1e-6
    assert alignment(fit(start=again.start).directions) > 0.999


def test_a_fit_that_the_other_rollouts_contradict_is_not_taken():
    """Returns of the rollouts that are fitted have no noise, all others do."""
    contexts, parameters, _ = make_rollouts()
    chosen = gp.fitting_subset(N, 80)
    noise = np.random.default_rng(1).normal(size=N)
    noise[chosen] = 0.0
    joint, mask = np.hstack([contexts, parameters]), np.ones(N, dtype=bool)
    given = (KEY, joint, S, np.sin(parameters[:, 0]) + noise, mask / N, mask, np.ones(S + D))
    of_all = surface.fit(*given, Start(), Settings(gp_axes="own", gp_fit_points=N))
    of_some = Settings(gp_axes="own", gp_fit_points=80)
    misled = surface.fit(*given, Start(), of_some).start.hyperparameters
    assert misled.log_noise < of_all.start.hyperparameters.log_noise - 1.0
    kept = surface.fit(*given, of_all.start, of_some).start.hyperparameters
    assert_array_equal(kept.log_noise, of_all.start.hyperparameters.log_noise)
    assert_array_equal(kept.log_lengths, of_all.start.hyperparameters.log_lengths)


def test_what_padding_holds_does_not_matter(found):
    wider = fit(rows=ROWS + 32)
    assert_allclose(np.abs(wider.directions), np.abs(found.directions), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("changes", [{"size": 2}, {"n": 30, "rows": 64}, {"gp_axes": "own"}], ids=str)
def test_few_dimensions_few_rollouts_or_settings_leave_the_numbers_own_axes(changes):
    plain = fit(**changes)
    assert (plain.axes, plain.directions, plain.relevance, plain.start.axes) == (None, None, None, None)
    contexts, parameters, _ = make_rollouts(changes.get("size", D), changes.get("n", N))
    points = (np.asarray(plain.process.z) + np.asarray(plain.process.centre))[np.asarray(plain.process.mask)]
    assert_allclose(points, np.hstack([parameters, contexts]), atol=1e-12)


@pytest.mark.parametrize(
    "changes", [{"active_length": 0.0}, {"embedding_dimensions": 2}, {"active_length": 1e6}], ids=str
)
def test_without_a_length_with_eigenmaps_or_where_all_axes_matter_all_numbers_are_seen(changes, found):
    turned = fit(start=found.start, **changes)
    assert turned.axes is not None
    assert (turned.directions, turned.relevance) == (None, None)


@pytest.mark.parametrize(
    ("rule", "rollouts", "dimensions", "wanted"),
    [
        ("automatic", 1000, 4, False),
        ("automatic", 1000, 5, True),
        ("automatic", 24, 5, False),
        ("automatic", 25, 5, True),
        ("turned", 2, 2, True),
        ("own", 1000, 20, False),
    ],
)
def test_when_axes_are_turned(rule, rollouts, dimensions, wanted):
    assert turns(rule, rollouts, dimensions) == wanted


@pytest.mark.parametrize(
    ("changes", "dimensions", "wanted"),
    [
        ({"gate": "gp"}, 2, True),
        ({}, 2, False),
        ({"target": "modelled"}, 2, True),
        ({"target": "automatic"}, 2, True),
        ({"model_step": True}, 2, True),
        ({}, 7, True),
        ({"active_length": 0.0}, 7, False),
        ({"embedding_dimensions": 2}, 7, False),
        ({"gp_axes": "own"}, 7, False),
        ({"gate": "gp", "gp_axes": "own"}, 7, True),
    ],
)
def test_the_process_is_fitted_where_something_asks_for_it(changes, dimensions, wanted):
    nothing = {"gate": "softmax", "target": "weighted", "model_step": False}
    assert is_needed(500, dimensions, Settings(**(nothing | changes))) == wanted
    assert is_needed(500, dimensions, Settings())


def test_combinations_of_the_parameters_are_what_directions_see_of_them():
    rng = np.random.default_rng(3)
    directions = rng.normal(size=(2 + D, 3))
    P = parameter_combinations(directions, 2)
    assert P.shape == (D, 3)
    assert_allclose(P.T @ P, np.eye(3), atol=1e-12)
    assert_allclose(P @ P.T @ directions[2:], directions[2:], atol=1e-12)


def test_directions_along_the_context_or_along_one_another_add_no_combination():
    rng = np.random.default_rng(4)
    along = rng.normal(size=D)
    context = np.concatenate([[3.0, -1.0], 0.02 * rng.normal(size=D)])
    directions = np.stack([[0.5, 0.0, *along], context, [0.0, 1.0, *(-2.0 * along)]], axis=1)
    P = parameter_combinations(directions, 2)
    assert P.shape == (D, 1)
    assert_allclose(np.abs(P[:, 0] @ along), np.linalg.norm(along), rtol=1e-3)
