"""Climbs in many dimensions: slopes, starts far out, tops of two hills, and rollouts that never come."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde.steps import region_models, region_ways, regions, slopes
from hpsde.steps.climbing import SIDE
from hpsde.steps.region_state import LINE, NOBODY, SLOPES, Terrain, are_busy

SIZE, HALF = 6, SIDE / 2.0
LOW, HIGH = np.full(SIZE, -HALF), np.full(SIZE, HALF)
CENTRES = np.array([np.full(SIZE, 0.8), np.full(SIZE, -0.8)])
CENTRES[:, 0] = 0.3


def hills(x):
    """Two hills, the second a little lower."""
    squares = np.sum((x[:, None] - CENTRES) ** 2, axis=2) / SIZE
    return np.max(np.array([1.0, 0.97]) - squares, axis=1)


def one_hill(x):
    return -np.sum((x - 0.4) ** 2, axis=1)


def cloud(count=60, seed=0):
    return np.random.default_rng(seed).uniform(-HALF, HALF, (count, SIZE))


def ground_of(function, x):
    y = function(x)
    return Terrain(x, y, float(np.median(function(cloud()))), LOW, HIGH)


def searched(function, budget, batch=10):
    """The rollouts and the regions after so many."""
    x, state = cloud(), None
    while len(x) < budget:
        state = regions.advance(ground_of(function, x), state)
        if not len(state.asked):
            break
        x = np.concatenate([x, state.asked[:batch]])
    ground = ground_of(function, x)
    return ground, regions.advance(ground, state)


@pytest.fixture(scope="module")
def two_hills():
    return searched(hills, 420)


# ---------------------------------------------------------------- slopes


def test_directions_are_the_singular_vectors_of_the_true_gradients():
    axes = np.linalg.qr(np.random.default_rng(1).normal(size=(SIZE, 2)))[0].T

    def function(x):  # gradients lie in the span of the axes, and are the larger along the first
        return 5.0 * (x @ axes[0]) + np.sin(x @ axes[1])

    asked = slopes.places(np.full(SIZE, 0.1), LOW, HIGH)
    x = asked.reshape(-1, SIZE)
    found = slopes.directions(asked, np.arange(len(x)), function(x))
    assert_allclose(np.abs(found[0] @ axes[0]), 1.0, atol=0.05)
    assert_allclose(np.linalg.norm(found[1] @ axes.T), 1.0, atol=0.05)


def test_a_slope_that_was_not_measured_counts_as_none():
    asked = slopes.places(np.zeros(SIZE), LOW, HIGH)
    x = asked.reshape(-1, SIZE)
    rows = np.arange(len(x)).reshape(len(asked), 1 + SIZE)
    rows[:, 4] = -1  # the fourth parameter's
    found = slopes.directions(asked, rows.ravel(), x @ np.arange(1.0, 1.0 + SIZE))
    wanted = np.where(np.arange(SIZE) == 3, 0.0, np.arange(1.0, 1.0 + SIZE))
    assert_allclose(np.abs(found[0]), wanted / np.linalg.norm(wanted), atol=1e-9)


def test_slopes_are_measured_within_the_bounds():
    asked = slopes.places(np.where(np.arange(SIZE) % 2, LOW, HIGH), LOW, HIGH)
    assert np.all((asked >= LOW) & (asked <= HIGH))
    steps = np.einsum("kdd->kd", asked[:, 1:] - asked[:, :1])
    assert_allclose(np.abs(steps), slopes.DIFFERENCE)


def test_the_line_leads_uphill_on_a_plane():
    slope = np.arange(1.0, 1.0 + SIZE)
    x = cloud(400)
    places = slopes.line(x, 3.0 + x @ slope, LOW, HIGH)
    assert np.all(np.diff(places @ slope) > 0.0)
    away = places[0] - x.mean(axis=0)
    assert_allclose(away @ slope / np.linalg.norm(away) / np.linalg.norm(slope), 1.0, atol=0.01)


# ---------------------------------------------------------------- the local model


def test_a_process_predicts_the_gradients_of_a_smooth_function():
    x = 0.5 * cloud(200)
    process = region_models.fit(x, one_hill(x), np.zeros(SIZE))
    some = x[:5] * 0.5
    assert_allclose(process.unit * process.gradients(some), -2.0 * (some - 0.4), atol=0.02)


def test_the_first_place_of_a_region_is_the_top_within_it():
    x = 0.5 * cloud(200)
    x = x[np.argsort(np.linalg.norm(x, axis=1))]
    rng = np.random.default_rng(0)
    found = region_models.next_places(x, one_hill(x), np.zeros(SIZE), 1.0, (LOW, HIGH), 6, rng)
    assert found.shape == (6, SIZE)
    assert_allclose(found[0], 0.4, atol=0.01)
    narrow = region_models.next_places(x, one_hill(x), np.zeros(SIZE), 0.2, (LOW, HIGH), 6, rng)
    assert_allclose(narrow[0], 0.2, atol=1e-6)
    assert np.all(found[2:] != found[0])


def test_no_place_leaves_the_bounds():
    x = cloud(100)
    centre = np.full(SIZE, HALF - 0.01)
    found = region_models.next_places(x, x.sum(axis=1), centre, 1.0, (LOW, HIGH), 20, np.random.default_rng(0))
    assert np.all((found >= LOW) & (found <= HIGH))


# ---------------------------------------------------------------- the regions


def test_first_the_line_is_asked_for_then_slopes_beside_the_first_region():
    x = cloud()
    state = regions.advance(ground_of(hills, x), None)
    assert_array_equal(state.asked_of, LINE)
    x = np.concatenate([x, state.asked])
    state = regions.advance(ground_of(hills, x), state)
    assert set(state.asked_of.tolist()) == {0, SLOPES}
    assert np.sum(state.asked_of == SLOPES) == slopes.PLACES * (1 + SIZE) - 1  # where it begins there is a rollout


def test_both_hills_are_climbed_and_known_and_no_third(two_hills):
    ground, state = two_hills
    known, _ = region_ways.apart(ground, state)
    distance = np.linalg.norm(ground.x[known][:, None] - CENTRES, axis=2) / np.sqrt(SIZE)
    assert len(known) == 2
    assert_array_equal(np.sort(distance.argmin(axis=1)), [0, 1])
    assert np.all(distance.min(axis=1) < 0.05)


def test_of_one_hill_one_region_is_left_with_a_known_top():
    ground, state = searched(one_hill, 640)
    known, _ = region_ways.apart(ground, state)
    assert len(known) == 1
    assert ground.y[known[0]] > -1e-3


def test_the_same_rollouts_lead_to_the_same_places(two_hills):
    state = two_hills[1]
    again = searched(hills, 420)[1]
    assert_array_equal(again.asked, state.asked)
    assert_array_equal(again.owner, state.owner)


def test_rollouts_that_nobody_asked_for_are_nobodys():
    x = cloud()
    state = regions.advance(ground_of(hills, x), None)
    x = np.concatenate([x, cloud(5, seed=9), state.asked[:3]])
    state = regions.advance(ground_of(hills, x), state)
    assert_array_equal(state.owner[-8:], [NOBODY] * 5 + [LINE] * 3)


def test_what_never_comes_is_not_waited_for():
    x, state = cloud(), None
    for seed in range(regions.WAITED + 1):
        state = regions.advance(ground_of(hills, x), state)
        x = np.concatenate([x, cloud(3, seed=seed + 20)])
    assert LINE not in state.asked_of
    assert_array_equal(state.asked_of[:1], 0)
    # Nor is it asked for again once others have come.
    x = np.concatenate([x, state.asked[:2]])
    assert LINE not in regions.advance(ground_of(hills, x), state).asked_of


def test_nothing_but_the_range_of_the_returns_matters():
    x = cloud()
    asked = []
    for scale, shift in ((1.0, 0.0), (1e4, -3e4)):
        state, rows = None, x
        for _ in range(12):
            ground = ground_of(lambda x, scale=scale, shift=shift: scale * hills(x) + shift, rows)
            state = regions.advance(ground, state)
            rows = np.concatenate([rows, state.asked[:10]])
        asked.append(rows)
    assert_allclose(asked[1], asked[0], atol=1e-3)


def test_regions_end_on_a_plateau_where_no_slope_shows_a_direction():
    def plateau(x):
        return np.minimum(one_hill(x), -8.0)

    ground, state = searched(plateau, 900)
    wanted = slopes.places(ground.x[np.argmax(ground.y)], LOW, HIGH)
    assert not len(slopes.directions(wanted, slopes.known(ground.x, wanted.reshape(-1, SIZE)), ground.y))
    assert len(ground.y) < 900
    assert not np.any(are_busy(state))


def test_rollouts_that_differ_in_one_parameter_give_finite_axes():
    x = np.zeros((40, SIZE))
    x[:, 0] = 1e-5 * np.linspace(0.0, 1.0, 40)
    assert np.all(np.isfinite(region_models.fit(x, np.sin(4e5 * x[:, 0]), x[0]).A))
