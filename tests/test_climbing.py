"""Climbs by local models: scikit-learn's predictions, tops and hills of known functions, units that do not matter."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial import KDTree
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from hpsde.steps import climbing
from hpsde.steps.climbing import (
    DOUBT,
    ENOUGH,
    JITTER,
    JOINED,
    KNOWN,
    LENGTHS,
    LIKELIER,
    LOW,
    NARROW,
    NEW,
    SIDE,
    UNSURE,
    Ground,
    Local,
    find_hills,
    lead_to,
    repeats,
    spacing_of,
    spread,
)

HALF = SIDE / 2.0  # of the cube that first rollouts fill

# ---------------------------------------------------------------- the local model


def smooth(u):
    """Highest at [0.3, -0.2], with the value 7."""
    away = u - np.array([0.3, -0.2])
    return 7.0 - 0.5 * np.einsum("ni,ij,nj->n", away, np.array([[3.0, 1.0], [1.0, 2.0]]), away)


@pytest.fixture(scope="module")
def local():
    """A model of two parameters whose returns are far from 0, and its rollouts."""
    u = np.random.default_rng(0).uniform(-1.5, 1.5, (18, 2))
    y = 1000.0 + 40.0 * np.sin(2.0 * u[:, 0]) * np.cos(u[:, 1])
    return Local(u, y), u, y


def same_kernel(model, u, y, length):
    """scikit-learn's process with the same kernel, mean and signal, its returns in the model's units."""
    kernel = ConstantKernel(1.0, "fixed") * RBF(length, "fixed")
    other = GaussianProcessRegressor(kernel, alpha=JITTER, optimizer=None)
    return other.fit(u, (y - y.mean()) / y.std() - model.mean)


def test_a_local_model_passes_through_its_rollouts(local):
    model, u, y = local
    assert_allclose(model.heights(u), y, atol=1e-5)
    assert max(model.deviation(each) for each in u) < 1e-3
    assert model.deviation(np.array([4.0, 4.0])) > 10.0


def test_heights_and_deviations_are_those_of_scikit_learn(local):
    model, u, y = local
    other = same_kernel(model, u, y, model.lengths)
    places = np.random.default_rng(1).uniform(-2.0, 2.0, (40, 2))
    mean, deviation = other.predict(places, return_std=True)
    assert_allclose(model.heights(places), y.mean() + y.std() * (model.mean + mean), rtol=1e-7)
    wanted = y.std() * np.sqrt(model.variance) * deviation
    assert_allclose([model.deviation(each) for each in places], wanted, rtol=1e-3, atol=1e-4)
    assert wanted.max() > 1.0


def test_length_mean_and_signal_are_the_likeliest(local):
    """scikit-learn's likelihood of the returns is no higher with another of the lengths, a mean or a signal beside."""
    model, u, y = local
    z = (y - y.mean()) / y.std()

    def likelihood(length, mean, variance):
        kernel = ConstantKernel(variance, "fixed") * RBF(length, "fixed")
        other = GaussianProcessRegressor(kernel, alpha=JITTER * variance, optimizer=None).fit(u, z - mean)
        return other.log_marginal_likelihood_value_

    best = likelihood(model.lengths, model.mean, model.variance)
    for mean, variance in ((0.05, 1.0), (-0.05, 1.0), (0.0, 1.05), (0.0, 0.95)):
        assert likelihood(model.lengths, model.mean + mean, model.variance * variance) < best
    # Of other lengths with a mean and a signal of their own: those of both numbers, or of one alone.
    for length in LENGTHS:
        assert likelihood(length, *likeliest(u, z, np.full(2, length))) < best
    for factors in ((0.5, 1.0), (2.0, 1.0), (1.0, 0.5), (1.0, 2.0)):
        lengths = model.lengths * factors
        assert likelihood(lengths, *likeliest(u, z, lengths)) < best + LIKELIER
    # The return changes twice as fast along the first number.
    assert_allclose(model.lengths[1] / model.lengths[0], 2.0)


def test_one_length_serves_both_numbers_unless_others_are_clearly_likelier():
    u = np.random.default_rng(5).uniform(-1.0, 1.0, (18, 2))
    assert len(set(Local(u, np.sin(u[:, 0]) * np.sin(u[:, 1])).lengths)) == 1


def likeliest(u, z, length):
    """The generalised least squares mean, and the mean square of what is left, for a kernel of these lengths [D]."""
    squares = np.sum(((u[:, None] - u[None]) / length) ** 2, axis=-1)
    K_inverse = np.linalg.inv(np.exp(-0.5 * squares) + JITTER * np.eye(len(u)))
    mean = K_inverse.sum(axis=0) @ z / K_inverse.sum()
    return mean, (z - mean) @ K_inverse @ (z - mean) / len(z)


def test_the_top_of_a_smooth_function_is_found_within_the_box():
    """More rollouts than a quadratic has numbers fix it; shifted and scaled, it stays where it is."""
    u = np.random.default_rng(2).uniform(-1.0, 1.0, (24, 2))
    low, high = -np.ones(2), np.ones(2)
    for model in (Local(u, smooth(u)), Local(u, 1e4 + 50.0 * smooth(u))):
        top = model.top(low, high)
        # To 1e-6 of the range; a place says no more than the square root of that.
        assert smooth(top[None])[0] > 7.0 - 1e-6 * np.ptp(smooth(u))
        assert_allclose(top, [0.3, -0.2], atol=1e-3)


def test_a_top_beyond_the_box_is_sought_on_its_edge():
    u = np.random.default_rng(3).uniform(-1.0, 1.0, (24, 2))
    low, high = np.array([-0.5, -0.6]), np.array([0.1, 0.7])
    top = Local(u, smooth(u)).top(low, high)
    # The best of the edge u_0 = 0.1: there the gradient along it is 0, u_1 = -0.2 + 0.5 * 0.2.
    assert_allclose(top, [0.1, -0.1], atol=1e-3)
    assert np.all((top >= low) & (top <= high))


def test_no_place_in_the_box_is_higher_than_the_top(local):
    model, *_ = local
    rng = np.random.default_rng(4)
    for _ in range(10):
        low, high = np.sort(rng.uniform(-1.5, 1.5, (2, 2)), axis=0)
        top = model.top(low, high)
        assert np.all((top >= low) & (top <= high))
        grid = low + (high - low) * rng.uniform(0.0, 1.0, (4000, 2))
        assert model.heights(top[None])[0] > model.heights(grid).max() - 1e-6


def test_rollouts_in_one_place_make_a_flat_model():
    """Nothing is known of the slope; the heights are the mean, and nothing fails."""
    model = Local(np.zeros((5, 2)), np.array([1.0, 1.0, 1.0, 1.0, 1.0]))
    assert_allclose(model.heights(np.array([[0.0, 0.0], [1.0, 2.0]])), 1.0)
    assert_array_equal(model.top(-np.ones(2), np.ones(2)), np.clip(model.top(-np.ones(2), np.ones(2)), -1.0, 1.0))


# ---------------------------------------------------------------- where to look


def test_places_to_look_at_are_spread_evenly_over_the_cube():
    """Every quarter has its share, in every pair of numbers; the origin, which is looked at anyway, is not among."""
    for size in (1, 2, 5):
        places = spread(size, 60)
        assert places.shape == (60, size)
        assert np.all((places > 0.0) & (places < 1.0))
        assert_allclose(places.mean(axis=0), 0.5, atol=0.06)
        assert len(np.unique(places, axis=0)) == 60
    quarters = np.bincount((spread(2, 60) > 0.5) @ [1, 2], minlength=4)
    assert quarters.min() >= 12


def test_the_spacing_is_that_of_a_grid_with_a_deviation_of_one():
    for per_axis, size in ((10, 1), (7, 2), (4, 3)):
        x = np.linspace(0.0, SIDE, per_axis, endpoint=False)
        step = spacing_of(per_axis**size, size)
        assert_allclose(step, x[1] - x[0])
    uniform = np.random.default_rng(5).uniform(-HALF, HALF, 100_000)
    assert_allclose(uniform.std(), 1.0, atol=0.01)
    # With 600 first rollouts there are climbs with up to five parameters.
    assert [size for size in range(1, 9) if spacing_of(600, size) <= 1.0] == [1, 2, 3, 4, 5]


def test_the_best_and_the_middle_rollout_are_repeated_once():
    rng = np.random.default_rng(6)
    x, y = rng.uniform(-1.0, 1.0, (31, 2)), rng.normal(size=31)
    rows, differ = repeats(x, y)
    assert set(rows.tolist()) == {np.argmax(y), np.argsort(y)[15]}
    assert differ == 0.0
    for again in rows:
        x, y = np.concatenate([x, x[again, None]]), np.append(y, y[again])
        left, differ = repeats(x, y)
        assert len(left) == max(33 - len(y), 0)
        assert differ == 0.0
    # A better one comes: nothing is repeated any more.
    assert len(repeats(np.concatenate([x, [[2.0, 2.0]]]), np.append(y, 9.0))[0]) == 0


def test_noise_shows_by_how_much_repeated_rollouts_differ():
    x, y = np.arange(10.0)[:, None], np.arange(10.0)
    x, y = x[[*range(10), 3, 3, 7]], y[[*range(10), 3, 3, 7]]
    y[[10, 11, 12]] += 0.25, -0.5, 0.5
    rows, differ = repeats(x, y)
    assert len(rows) == 0
    assert_allclose(differ, 0.75)


# ---------------------------------------------------------------- hills


def bumps(centres, heights, width):
    """The sum of round bumps."""

    def function(x):
        squares = np.sum((x[:, None] - np.asarray(centres)[None]) ** 2, axis=-1)
        return np.exp(-0.5 * squares / width**2) @ np.asarray(heights)

    return function


def ground_of(function, x, first=None, bounds=HALF):
    """Rollouts of a function, the first of them the first ones."""
    y, first = function(x), len(x) if first is None else first
    limit = np.full(x.shape[1], float(bounds))
    return Ground(x, y, spacing_of(first, x.shape[1]), float(np.median(y[:first])), -limit, limit, {})


def cloud(seed, count, size=2):
    return np.random.default_rng(seed).uniform(-HALF, HALF, (count, size))


def do_next(function, ground, least, depth=0.05, rounds=30, wanted=50, until=lambda ground: False):
    """Do what the hills ask for until they ask for nothing more; the ground and the hills."""
    hills = find_hills(ground, least, depth, wanted)
    for _ in range(rounds):
        places = [each.next for each in hills if each.next is not None]
        if not places or until(ground):
            break
        x = np.concatenate([ground.x, places])
        ground = ground._replace(x=x, y=np.append(ground.y, function(np.array(places))))
        hills = find_hills(ground, least, depth, wanted)
    return ground, hills


def solutions(ground, hills, least):
    return [each.row for each in hills if each.state == KNOWN and ground.y[each.row] >= least]


CENTRES = np.array([[-1.0, -0.9], [0.9, -1.0], [0.1, 1.0]])
THREE = bumps(CENTRES, [1.0, 0.95, 0.9], 0.35)


@pytest.fixture(scope="module")
def climbed():
    return do_next(THREE, ground_of(THREE, cloud(7, 300)), least=0.5)


def test_separate_bumps_have_one_hill_each(climbed):
    ground, hills = climbed
    rows = solutions(ground, hills, 0.5)
    distance = np.linalg.norm(ground.x[rows][:, None] - CENTRES[None], axis=2)
    assert_array_equal(distance.argmin(axis=1), [0, 1, 2])  # the highest first
    assert distance.min(axis=1).max() < 2e-3


def test_a_climb_ends_where_no_more_is_to_gain(climbed):
    ground, hills = climbed
    for row, peak in zip(solutions(ground, hills, 0.5), (1.0, 0.95, 0.9), strict=True):
        assert ground.y[row] > peak - 10.0 * ENOUGH * ground.scale
    # How far the top may be is known, too.
    assert max(each.width for each in hills if each.state == KNOWN) < 0.01


def test_units_of_the_return_and_shifted_parameters_change_nothing():
    x, shift = cloud(8, 200), np.array([30.0, -20.0])
    first = ground_of(THREE, x)
    wanted = find_hills(first, 0.5, 0.05, 50)
    y = 1000.0 + 40.0 * first.y
    second = first._replace(
        x=x + shift, y=y, typical=float(np.median(y)), low=first.low + shift, high=first.high + shift, looks={}
    )
    found = find_hills(second, 1000.0 + 40.0 * 0.5, 40.0 * 0.05, 50)
    assert [(each.row, each.state) for each in found] == [(each.row, each.state) for each in wanted]
    assert any(each.next is not None for each in wanted)
    for one, other in zip(found, wanted, strict=True):
        assert (one.next is None) == (other.next is None)
        if one.next is not None:
            assert_allclose(one.next - shift, other.next, atol=1e-4)
        assert_allclose(one.width, other.width, rtol=1e-3, atol=1e-4)


def test_the_order_of_rollouts_does_not_matter():
    ground = ground_of(THREE, cloud(9, 200))
    order = np.random.default_rng(10).permutation(200)
    wanted = find_hills(ground, 0.5, 0.05, 50)
    found = find_hills(ground._replace(x=ground.x[order], y=ground.y[order], looks={}), 0.5, 0.05, 50)
    assert [(int(order[each.row]), each.state) for each in found] == [(each.row, each.state) for each in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert (one.next is None) == (other.next is None)
        if one.next is not None:
            assert_allclose(one.next, other.next, atol=1e-6)


def test_what_models_have_shown_before_is_no_different(climbed):
    """With and without the memory of looks, and a memory of other rollouts does no harm."""
    ground, hills = climbed
    for looks in ({}, dict(ground.looks), dict(ground_of(THREE, cloud(11, 50)).looks)):
        found = find_hills(ground._replace(looks=looks), 0.5, 0.05, 50)
        assert [(each.row, each.state, each.width) for each in found] == [
            (each.row, each.state, each.width) for each in hills
        ]
    before = len(ground.looks)
    find_hills(ground, 0.5, 0.05, 50)
    assert len(ground.looks) == before


def test_no_more_than_the_wanted_hills_have_a_rollout_to_do_next():
    ground = ground_of(THREE, cloud(12, 200))
    every = find_hills(ground, 0.5, 0.05, 50)
    going = [each for each in every if each.next is not None]
    assert len(going) >= 3
    some = find_hills(ground, 0.5, 0.05, 2)
    assert [each.row for each in some] == [each.row for each in every[: len(some)]]
    assert [each.row for each in some if each.next is not None] == [each.row for each in going[:2]]


def test_nothing_beyond_the_bounds_is_asked_for():
    """The return rises beyond all four edges; the tops are in the corners."""

    def saddle(x):
        return x[:, 0] * x[:, 1] + 0.2 * x[:, 0]

    ground, hills = do_next(saddle, ground_of(saddle, cloud(13, 120), bounds=1.9), least=1.0, depth=0.3)
    new = ground.x[120:]
    assert len(new) > 4
    assert np.abs(new).max() == 1.9
    tops = ground.x[solutions(ground, hills, 1.0)]
    assert_allclose(tops, [[1.9, 1.9], [-1.9, -1.9]], atol=1e-9)


def test_a_plateau_is_one_hill():
    def plateau(x):
        return np.minimum(1.0, 1.6 - np.linalg.norm(x, axis=1))

    ground, hills = do_next(plateau, ground_of(plateau, cloud(14, 300)), least=0.5)
    rows = solutions(ground, hills, 0.5)
    assert len(rows) == 1
    assert ground.y[rows[0]] == 1.0
    assert sum(ground.y == 1.0) > 5


def test_a_rough_slope_leads_to_no_second_solution():
    """Ripples that are no deeper than a valley must be, on the way to one top."""

    def rough(x):
        return np.exp(-0.5 * np.sum((x - 0.4) ** 2, axis=1)) + 0.01 * np.sin(9.0 * x).sum(axis=1)

    ground, hills = do_next(rough, ground_of(rough, cloud(15, 300)), least=0.6, depth=0.1)
    rows = solutions(ground, hills, 0.6)
    assert len(rows) == 1
    assert np.linalg.norm(ground.x[rows[0]] - 0.4) < 0.4


# Two tops on a line, everything known beside them.


def around(centre, radius=0.02):
    """A top and seven rollouts close about it."""
    angle = np.linspace(0.0, 2.0 * np.pi, 7, endpoint=False)
    return centre + radius * np.concatenate([np.zeros((1, 2)), np.stack([np.cos(angle), np.sin(angle)], axis=1)])


def two_tops(between):
    """Hills of the heights 1 and 0.9 at x_0 = -1 and 1, with rollouts of these returns at these places [M, 2]."""

    def quadratic(x):
        right = x[:, 0] > 0.0
        away = np.sum((x - np.where(right[:, None], [1.0, 0.0], [-1.0, 0.0])) ** 2, axis=1)
        return np.where(right, 0.9, 1.0) - 50.0 * away

    x = np.concatenate([around(np.array([-1.0, 0.0])), around(np.array([1.0, 0.0]))])
    places, returns = (np.array(each, dtype=float) for each in zip(*between, strict=True)) if between else (x[:0], [])
    limit = np.full(2, HALF)
    x, y = np.concatenate([x, places]), np.concatenate([quadratic(x), returns])
    return Ground(x, y, 0.5, 0.0, -limit, limit, {})


def states(ground, depth=0.1):
    """Of the two tops, by their rows 0 and 8."""
    found = {each.row: each for each in find_hills(ground, 0.5, depth, 50)}
    return found[0], found[8]


def at_a_top(place):
    """Nothing is asked for, or what makes sure of one of the tops."""
    return place is None or np.linalg.norm(np.abs(place) - [1.0, 0.0]) < 0.02


def test_where_nothing_lies_between_two_tops_the_middle_is_asked_for():
    high, low = states(two_tops([]))
    assert high.state == KNOWN
    assert at_a_top(high.next)
    assert low.state == UNSURE
    assert_allclose(low.next, [0.0, 0.0], atol=1e-12)
    # Rollouts aside of the way, or at its ends, say nothing.
    for place in ([0.0, 1.2 * 2.0 * NARROW], [-0.6, 0.0], [0.6, 0.0]):
        assert_allclose(states(two_tops([(place, 0.0)]))[1].next, [0.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("place", [[0.0, 0.0], [0.3, 0.3], [-0.4, -0.2]])
def test_two_tops_are_two_where_a_rollout_between_is_lower_and_one_where_it_is_not(place):
    for value, state in ((0.75, KNOWN), (0.85, JOINED), (0.95, JOINED)):
        high, low = states(two_tops([(place, value)]))
        assert (high.state, low.state) == (KNOWN, state)
        assert at_a_top(high.next)
        assert at_a_top(low.next)
    # Another depth, another answer.
    assert states(two_tops([(place, 0.75)]), depth=0.2)[1].state == JOINED
    # One deep rollout is enough, whatever else lies between.
    assert states(two_tops([(place, 0.95), ([0.1, 0.0], 0.7)]))[1].state == KNOWN


ROUND = np.linspace(np.pi, 0.0, 17)[1:-1]  # from the one top to the other one along half a circle


def round_the_middle(returns, angles=ROUND):
    """Rollouts with these returns on that way, and a deep one half-way between the tops."""
    returns = np.broadcast_to(returns, len(angles))
    way = [([np.cos(angle), np.sin(angle)], value) for angle, value in zip(angles, returns, strict=True)]
    return two_tops([([0.0, 0.0], -5.0), *way])


def test_two_tops_are_one_where_rollouts_lead_round_the_valley_between_them():
    assert states(round_the_middle(0.88))[1].state == JOINED
    assert states(round_the_middle(0.75))[1].state == KNOWN  # they are lower
    assert states(round_the_middle(0.75), depth=0.2)[1].state == JOINED
    one_is_low = np.where(np.arange(len(ROUND)) == 7, 0.5, 0.88)
    assert states(round_the_middle(one_is_low))[1].state == KNOWN
    there = np.abs(ROUND - np.pi / 2.0) > 0.3  # a gap wider than rollouts lie apart
    assert states(round_the_middle(0.88, ROUND[there]))[1].state == KNOWN


def test_a_valley_between_two_rollouts_of_a_way_is_denied_by_the_model_about_it():
    ground = round_the_middle(0.88)
    assert lead_to(ground, 8, 0, 0.1)
    angle = ROUND[7:9].mean()
    deep = np.array([[np.cos(angle), np.sin(angle)]]) * np.array([[0.97], [1.0], [1.03]])
    cut = ground._replace(x=np.concatenate([ground.x, deep]), y=np.concatenate([ground.y, np.full(3, -5.0)]))
    assert not lead_to(cut, 8, 0, 0.1)


def beside_a_top(height):
    """Rollouts about a place a little beside a top of this height, far from one of the height 1; the low one's row."""
    centres = np.array([[-1.0, 0.0], [1.0, 0.0]])

    def quadratic(x):
        squares = np.sum((x[:, None] - centres[None]) ** 2, axis=2)
        return np.max(np.array([1.0, height]) - 5.0 * squares - 30.0 * squares**1.5, axis=1)

    x = np.concatenate([around(centres[0]), around(centres[1] + [0.03, 0.01], 0.05), [[0.0, 0.0]]])
    ground = ground_of(quadratic, x)._replace(spacing=0.5, typical=-1.0)
    return ground, 8 + int(np.argmax(ground.y[8:16]))


def hill_of(ground, row, least):
    (found,) = [each for each in find_hills(ground, least, 0.1, 50) if each.row == row]
    return found


def test_a_summit_whose_promised_top_is_no_solution_is_left():
    ground, row = beside_a_top(0.3)
    low = hill_of(ground, row, 0.5)
    assert (low.state, low.next) == (LOW, None)
    # Where it would do, it is climbed.
    climbed = hill_of(ground, row, 0.2)
    assert climbed.state != LOW
    assert np.linalg.norm(climbed.next - [1.0, 0.0]) < np.linalg.norm(ground.x[row] - [1.0, 0.0])


def test_a_promise_counts_with_its_deviation():
    """A summit is left only where even DOUBT deviations above the promised top are below `least`."""
    ground, row = beside_a_top(0.3)
    seen, *_ = climbing._see(ground, KDTree(ground.x), ground.x[row], None)
    assert not seen.goes_on
    assert seen.deviation > 1e-5
    highest = seen.height + DOUBT * seen.deviation
    assert hill_of(ground, row, highest + 1e-7).state == LOW
    assert hill_of(ground, row, highest - 1e-7).state != LOW


def test_too_few_rollouts_beside_a_summit_ask_for_others_apart_from_them():
    """Each within half the spacing, and none where one is already."""
    x = np.concatenate([[[0.0, 0.0]], cloud(18, 40) * 0.2 + [1.5, 1.5]])

    def function(x):
        return -np.linalg.norm(x, axis=1)

    ground = Ground(x, function(x), 0.5, -3.0, np.full(2, -HALF), np.full(2, HALF), {})
    asked = []
    for _ in range(3):
        hill = find_hills(ground, -0.5, 0.1, 50)[0]
        assert (hill.row, hill.state, hill.width) == (0, NEW, 0.5)
        assert np.abs(hill.next).max() <= 0.25
        asked.append(hill.next)
        # A bad one: the summit stays where it is.
        ground = ground._replace(x=np.concatenate([ground.x, hill.next[None]]), y=np.append(ground.y, -2.0))
    apart = np.linalg.norm(np.array(asked)[:, None] - np.array([[0.0, 0.0], *asked])[None], axis=2)
    assert np.sort(apart, axis=1)[:, 1].min() > 0.2
    # With size + 2 of them there is a model.
    assert find_hills(ground, -0.5, 0.1, 50)[0].width < 0.5


def test_hills_below_the_typical_return_are_none():
    ground = ground_of(THREE, cloud(19, 200))
    typical = 0.97
    best = ground.y.max()
    assert best < 1.0
    found = find_hills(ground._replace(typical=0.6), 0.5, 0.05, 50)
    assert found
    assert ground.y[[each.row for each in found]].min() >= 0.6
    assert find_hills(ground._replace(typical=max(typical, best + 1e-9)), 0.5, 0.05, 50) == []


# ---------------------------------------------------------------- the whole way


def himmelblau(x):
    """Its four maxima are 0."""
    a, b = 3.2 * x[:, 0], 3.2 * x[:, 1]
    return -((a**2 + b - 11.0) ** 2) - (a + b**2 - 7.0) ** 2


HIMMELBLAU = np.array([[3.0, 2.0], [-2.805118, 3.131312], [-3.779310, -3.283186], [3.584428, -1.848126]]) / 3.2


GRID = np.stack(np.meshgrid(*[np.arange(-1.0, 1.1)] * 2), axis=-1).reshape(-1, 2)
NINE = bumps(GRID, np.ones(9), 0.25)


@pytest.mark.parametrize("seed", [20, 22])
@pytest.mark.parametrize(
    ("function", "maxima", "first", "least", "depth"),
    [(himmelblau, HIMMELBLAU, 150, -20.0, 5.0), (NINE, GRID, 250, 0.6, 0.1)],
    ids=["himmelblau", "nine bumps"],
)
def test_all_maxima_are_found_with_a_few_rollouts_each(function, maxima, first, least, depth, seed):
    """To 1e-5 of the range, with 12 rollouts each at most; whoever goes on finds no other."""
    peaks = function(maxima)
    before = ground_of(function, cloud(seed, first))
    short = 1e-5 * (peaks.max() - before.typical)

    def reached(ground):
        near = np.linalg.norm(ground.x[:, None] - maxima[None], axis=2) < 0.2
        return np.all(np.where(near, ground.y[:, None], -np.inf).max(axis=0) > peaks - short)

    assert not reached(before)
    ground, hills = do_next(function, before, least, depth, until=reached)
    assert reached(ground)
    assert len(ground.y) - first <= 12 * len(maxima)
    ground, hills = do_next(function, ground, least, depth)
    rows = solutions(ground, hills, least)
    distance = np.linalg.norm(ground.x[rows][:, None] - maxima[None], axis=2)
    assert sorted(distance.argmin(axis=1)) == list(range(len(maxima)))
    assert distance.min(axis=1).max() < 0.01


# ---------------------------------------------------------------- climbs end

CLOUDS = [(THREE, 7, 300, len(CENTRES)), (NINE, 20, 250, len(GRID)), (NINE, 21, 250, len(GRID))]


@pytest.mark.parametrize(("function", "seed", "first", "maxima"), CLOUDS)
def test_a_place_is_asked_for_once(function, seed, first, maxima):
    """Also by a summit whose model leads farther than the spacing: what was found there is its answer."""
    ground = ground_of(function, cloud(seed, first))
    for _ in range(20):
        places = np.array([each.next for each in find_hills(ground, 0.6, 0.1, 50) if each.next is not None])
        if not len(places):
            break
        nearest = np.linalg.norm(places[:, None] - ground.x[None], axis=2).min(axis=1)
        assert nearest.min() > 1e-9
        ground = ground._replace(x=np.concatenate([ground.x, places]), y=np.append(ground.y, function(places)))


@pytest.mark.parametrize(("function", "seed", "first", "maxima"), CLOUDS)
def test_after_a_few_rollouts_for_each_maximum_nothing_is_asked_for(function, seed, first, maxima):
    ground, hills = do_next(function, ground_of(function, cloud(seed, first)), 0.6, 0.1, rounds=40)
    assert [each for each in hills if each.next is not None] == []
    assert len(ground.y) - first <= 25 * maxima
