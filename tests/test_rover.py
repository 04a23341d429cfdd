"""The rover against scipy's splines, sums by hand and paths by hand."""

import itertools
import math

import jax
import numpy as np
import pytest
import scipy.interpolate

from hpsde.errors import InputError
from hpsde.tasks import coverage_and_surplus, make_task, task_measures
from hpsde.tasks.rover import COLUMNS, DIVERSE, OBSTACLES, START, Rover, RoverGoal, is_blocked
from hpsde.tasks.splines import curves_through
from hpsde.tasks.streets import OTHER, best_diverse, one_way_distance, street_names, streets_taken

TASK, GOAL_TASK = Rover(), RoverGoal()


def none(n):
    return np.zeros((n, 0))


def first_steps(n, seed):
    return TASK.sample_initial(jax.random.key(seed), none(n))


def good_steps():
    """A route along every known way."""
    return np.concatenate([solution.parameters(none(1)) for solution in TASK.solutions])


def reference_curve(points, samples):
    """The curve of the statement, by FITPACK, and as an explicit B-spline."""
    knots, _ = scipy.interpolate.splprep(points.T, k=3, s=0)
    curve = scipy.interpolate.BSpline(knots[0], np.transpose(knots[1]), 3)
    return curve(np.linspace(0.0, 1.0, samples))


def slow_return(steps, goal):
    """The statement, point by point."""
    route = reference_curve(np.vstack([START, steps.reshape(30, 2)]).cumsum(axis=0), 1000)
    costs = []
    for x, y in route:
        hit = any(cx - 0.05 <= x < cx + 0.05 and cy - 0.05 <= y < cy + 0.05 for cx, cy in OBSTACLES)
        hit |= not (0.0 <= x < 1.0 and 0.0 <= y < 1.0)
        costs.append(0.05 + 20.0 * hit)
    total = sum(
        0.5 * (one + other) * math.dist(p, q)
        for (one, other), (p, q) in zip(itertools.pairwise(costs), itertools.pairwise(route), strict=True)
    )
    return 5.0 - total - 100.0 * (abs(route[-1][0] - goal[0]) + abs(route[-1][1] - goal[1]))


# Splines


@pytest.mark.parametrize("count", [4, 5, 31])
def test_curves_are_those_of_scipy(count):
    points = np.random.default_rng(count).normal(3.0, 0.7, (20, count, 2))
    curves = curves_through(points, 77)
    for given, curve in zip(points, curves, strict=True):
        np.testing.assert_allclose(curve, reference_curve(given, 77), atol=1e-11)


def test_uneven_chords_and_large_units():
    rng = np.random.default_rng(2)
    points = np.cumsum(rng.normal(0.0, 1.0, (10, 12, 2)) * 10.0 ** rng.uniform(-3.0, 0.0, (10, 12, 1)), axis=1)
    for unit in (1.0, 1e-6, 1e50):
        curves = curves_through(unit * points, 50) / unit
        for given, curve in zip(points, curves, strict=True):
            np.testing.assert_allclose(curve, reference_curve(given, 50), atol=1e-8)


def test_repeated_points_are_left_out():
    points = np.random.default_rng(0).normal(size=(9, 2))
    rests = points[[0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 8]]
    np.testing.assert_allclose(curves_through(rests[None], 60), curves_through(points[None], 60), atol=1e-12)


def test_few_distinct_points_have_a_parabola_a_line_or_a_point():
    three = np.repeat([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]], 3, axis=0)
    curve = curves_through(three[None], 5)[0]
    np.testing.assert_allclose(curve, [[0.0, 0.0], [0.5, 0.75], [1.0, 1.0], [1.5, 0.75], [2.0, 0.0]], atol=1e-12)
    line = curves_through(np.repeat([[[1.0, 2.0], [3.0, 6.0]]], 4, axis=1), 3)[0]
    np.testing.assert_allclose(line, [[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]], atol=1e-12)
    np.testing.assert_array_equal(curves_through(np.full((1, 6, 2), 0.4), 4), np.full((1, 4, 2), 0.4))


# Returns


def test_returns_are_those_of_the_statement():
    parameters = np.concatenate([first_steps(12, 0), good_steps()[::14], first_steps(5, 1) * 3.0])
    truth = [slow_return(steps, (0.95, 0.95)) for steps in parameters]
    np.testing.assert_allclose(TASK.evaluate(none(len(parameters)), parameters), truth, rtol=1e-9)
    goals = np.linspace(0.5, 0.9, len(parameters))
    truth = [slow_return(steps, (0.9, s)) for steps, s in zip(parameters, goals, strict=True)]
    np.testing.assert_allclose(GOAL_TASK.evaluate(goals[:, None], parameters), truth, rtol=1e-9)


def test_a_straight_path_by_hand():
    # Along the diagonal lie the obstacles at 0.2, 0.4, 0.6 and 0.8: 0.1 sqrt(2) in each.
    straight = np.full((1, 60), 0.9 / 30)
    length, inside = 0.9 * math.sqrt(2.0), 0.4 * math.sqrt(2.0)
    # A point on either side of an edge: what lies between them counts by half.
    between = 8 * 20.0 * length / 999
    expected = 5.0 - 0.05 * length - 20.0 * inside
    assert TASK.evaluate(none(1), straight)[0] == pytest.approx(expected, abs=between)
    assert TASK.blocked(none(1), straight)[0] == pytest.approx(inside, abs=between / 20.0)
    # Up the left street, where nothing stands, and 0.9 + 0.05 short of the goal.
    up = np.tile([0.05 / 30, 0.85 / 30], 30)[None]
    short = 0.85 + 0.05
    assert TASK.evaluate(none(1), up)[0] == pytest.approx(5.0 - 0.05 * math.hypot(0.05, 0.85) - 100.0 * short)
    # Resting: all 1.8 are missed, and that is all.
    assert TASK.evaluate(none(1), np.zeros((1, 60)))[0] == pytest.approx(5.0 - 180.0)


def test_the_blocked_length_is_that_of_dense_points():
    parameters = first_steps(15, 3)
    blocked = TASK.blocked(none(15), parameters)
    assert np.mean(blocked) > 0.05
    for steps, length in zip(parameters, blocked, strict=True):
        curve = reference_curve(np.vstack([START, steps.reshape(30, 2)]).cumsum(axis=0), 20_001)
        gaps = np.linalg.norm(np.diff(curve, axis=0), axis=1)
        middle = 0.5 * (curve[1:] + curve[:-1])
        in_box = np.all(np.abs(middle[:, None] - OBSTACLES) < 0.05, axis=2).any(axis=1)
        dense = np.sum(gaps[in_box | np.any((middle < 0.0) | (middle > 1.0), axis=1)])
        crossings = np.sum(np.diff(in_box.astype(int)) != 0) + 2
        assert length == pytest.approx(dense, abs=crossings * 0.003)


def test_edges_of_obstacles_belong_to_them_below_and_on_the_left():
    low, high = 0.4 - 0.1 / 2, 0.4 + 0.1 / 2
    points = [[low, 0.4], [high, 0.4], [0.4, low], [0.4, high], [np.nextafter(low, 0.0), 0.4], [0.4, 0.4]]
    np.testing.assert_array_equal(is_blocked(np.array(points)), [1, 0, 1, 0, 0, 1])
    corners = [[0.0, 0.0], [1.0, 0.97], [0.97, 0.97], [-1e-9, 0.1], [0.0, 0.1], [0.03, 0.2], [0.97, 0.03]]
    np.testing.assert_array_equal(is_blocked(np.array(corners)), [0, 1, 0, 1, 0, 1, 1])


def test_a_path_and_its_mirror_image_earn_the_same():
    # Obstacles, start and goal are symmetric; no point of these routes lies on an edge.
    parameters = first_steps(200, 5)
    mirrored = parameters.reshape(-1, 30, 2)[:, :, ::-1].reshape(-1, 60)
    np.testing.assert_allclose(TASK.evaluate(none(200), mirrored), TASK.evaluate(none(200), parameters), rtol=1e-9)


def test_batches_in_parts_come_out_alike():
    parameters = first_steps(150, 6)
    whole = TASK.evaluate(none(150), parameters)
    parts = [TASK.evaluate(none(len(p)), p) for p in np.array_split(parameters, 11)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert TASK.routes(none(0), parameters[:0]).shape == (0, 1000, 2)
    assert TASK.names(none(0), parameters[:0]) == []


def test_first_steps_are_uniform_within_the_bounds():
    parameters = first_steps(2000, 7)
    low, high = TASK.parameter_bounds
    assert np.all((parameters >= low) & (parameters <= high))
    np.testing.assert_allclose(parameters.mean(axis=0), 1.0 / 60.0, atol=0.003)
    np.testing.assert_allclose(parameters.std(axis=0), 0.1 / math.sqrt(12.0), atol=0.001)
    np.testing.assert_allclose(TASK.log_initial(none(3), parameters[:3]), 60.0 * math.log(10.0))
    assert TASK.log_initial(none(1), [[0.2] * 60])[0] == -np.inf
    # They lead half-way to the goal, which they miss by 0.8.
    assert task_measures(TASK, none(2000), parameters)["miss"].mean() == pytest.approx(0.8, abs=0.05)


# Ways


def path(*corners):
    """A path by hand: 400 points along straight lines."""
    corners = np.array(corners)
    at = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1)))
    wanted = np.linspace(0.0, at[-1], 400)
    return np.stack([np.interp(wanted, at, numbers) for numbers in corners.T], axis=1)


@pytest.mark.parametrize(
    ("corners", "name"),
    [
        ([(0.05, 0.05), (0.9, 0.1), (0.95, 0.95)], "0000"),
        ([(0.05, 0.05), (0.1, 0.9), (0.95, 0.95)], "4444"),
        ([(0.05, 0.05), (0.1, 0.3), (0.5, 0.3), (0.5, 0.7), (0.9, 0.7), (0.95, 0.95)], "1133"),
        # Into a street and back again, and through the edge of an obstacle.
        ([(0.05, 0.05), (0.3, 0.1), (0.1, 0.1), (0.1, 0.3), (0.9, 0.3), (0.95, 0.95)], "1111"),
        ([(0.05, 0.05), (0.1, 0.24), (0.9, 0.24), (0.95, 0.95)], "1111"),
        # Down again.
        ([(0.05, 0.05), (0.1, 0.5), (0.5, 0.5), (0.5, 0.1), (0.9, 0.1), (0.95, 0.95)], "2200"),
        # Once round the obstacle at (0.4, 0.4); not as far as the last column.
        ([(0.05, 0.05), (0.5, 0.3), (0.5, 0.5), (0.3, 0.5), (0.3, 0.3), (0.5, 0.3), (0.95, 0.95)], OTHER),
        ([(0.05, 0.05), (0.7, 0.1)], OTHER),
    ],
)
def test_names_of_paths_by_hand(corners, name):
    assert street_names(path(*corners)[None], COLUMNS) == [name]


def test_the_names_of_mirror_images_belong_together():
    """What passes above an obstacle passes, mirrored, below its mirror image."""
    parameters = good_steps()
    mirrored = parameters.reshape(-1, 30, 2)[:, :, ::-1].reshape(-1, 60)
    taken = streets_taken(TASK.routes(none(70), parameters), COLUMNS)
    above = taken[:, :, None] > np.arange(4)  # way, column, obstacle of the column
    taken = streets_taken(TASK.routes(none(70), mirrored), COLUMNS)
    np.testing.assert_array_equal(taken[:, :, None] > np.arange(4), ~np.swapaxes(above, 1, 2))


def test_there_is_a_free_route_of_every_name():
    solutions, parameters = TASK.solutions, good_steps()
    assert len({solution.name for solution in solutions}) == math.comb(8, 4)
    assert TASK.names(none(70), parameters) == [solution.name for solution in solutions]
    measured = task_measures(TASK, none(70), parameters)
    assert measured["collision_free"].all()
    assert measured["miss"].max() < 1e-9
    assert TASK.evaluate(none(70), parameters).min() > 4.91


def test_routes_to_moving_goals():
    contexts = GOAL_TASK.evaluation_contexts()
    always = 0
    for solution in GOAL_TASK.solutions:
        valid = solution.valid(contexts)
        parameters = solution.parameters(contexts)[valid]
        assert solution.follows(contexts[valid], parameters).all()
        np.testing.assert_allclose(GOAL_TASK.routes(contexts[valid], parameters)[:, -1, 1], contexts[valid, 0])
        always += valid.all()
    assert (len(GOAL_TASK.solutions), always) == (35, 15)


def test_coverage_counts_the_ways_that_are_solved():
    known = {solution.name: solution.parameters(none(1)) for solution in TASK.solutions}
    short = known["0123"] * 0.98  # misses the goal by 0.036
    assert TASK.names(none(1), short) == ["0123"]
    result = coverage_and_surplus(TASK.solutions, none(1), np.stack([known["0000"], known["1144"], short]))
    assert result.found == ("0000", "1144")
    assert (result.coverage, result.surplus) == (2 / 70, 1)


# Distances


def test_one_way_distance_by_hand():
    low, high = path((0.0, 0.0), (1.0, 0.0)), path((0.0, 0.3), (1.0, 0.3))
    assert one_way_distance(low, high) == pytest.approx(0.3)
    assert one_way_distance(low, low[::-1]) == 0.0
    # Of a segment beside its first half: nothing one way, a quarter of a half on average the other.
    half = path((0.0, 0.0), (0.5, 0.0))
    assert one_way_distance(half, low) == pytest.approx(0.5 * 0.125, abs=1e-3)
    assert one_way_distance(half, low) == pytest.approx(one_way_distance(low, half))
    moved = one_way_distance(3.0 * half + 7.0, 3.0 * low + 7.0)
    assert moved == pytest.approx(3.0 * one_way_distance(half, low))


def test_one_way_distance_is_that_of_all_pairs():
    one, other = TASK.routes(none(2), first_steps(2, 8))
    pairs = np.linalg.norm(one[:, None] - other, axis=2)
    assert one_way_distance(one, other) == pytest.approx(0.5 * (pairs.min(axis=0).mean() + pairs.min(axis=1).mean()))


def test_the_best_diverse_routes_are_chosen_greedily():
    heights = np.array([0.0, 0.1, 0.2, 0.3, 0.31, 0.5])
    routes = np.stack([path((0.0, y), (1.0, y)) for y in heights])
    returns = np.array([1.0, 5.0, 4.0, 2.0, 3.0, -1.0])
    assert best_diverse(returns, routes, 3, DIVERSE) == [1, 4, 5]
    assert best_diverse(returns, routes, 2, DIVERSE) == [1, 4]
    assert best_diverse(returns[:3], routes[:3], 3, DIVERSE) == [1]
    # The published threshold leaves three of the 70 ways.
    known = TASK.routes(none(70), good_steps())
    assert len(best_diverse(TASK.evaluate(none(70), good_steps()), known, 70, DIVERSE)) == 3


def test_extras_and_unfit_arguments():
    assert (make_task("rover").context_size, make_task("rover-goal").context_size) == (0, 1)
    assert TASK.evaluation_contexts().shape == (1, 0)
    for method in (TASK.evaluate, TASK.routes, TASK.blocked, TASK.names, TASK.measures, TASK.log_initial):
        with pytest.raises(InputError, match=r"parameters must have shape \[2, 60\]; got \[2, 59\]"):
            method(none(2), np.zeros((2, 59)))
        with pytest.raises(InputError, match="parameters must be finite"):
            method(none(1), np.full((1, 60), np.nan))
    with pytest.raises(InputError, match="contexts"):
        GOAL_TASK.goals(np.zeros((2, 2)))
