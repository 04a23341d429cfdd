"""Walls and arms of the gauntlet against products of matrices, routes drawn by hand, and another solver."""

import itertools
import pickle
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from scipy.spatial.transform import Rotation

from hpsde.errors import InputError
from hpsde.tasks import Task, check_task, coverage_and_surplus, task_extras
from hpsde.tasks.gauntlet import arms, walls
from hpsde.tasks.gauntlet.arms import PANDA, SETUPS, UR5
from hpsde.tasks.gauntlet.score import score
from hpsde.tasks.gauntlet.walls import RandomWall
from hpsde.tasks.kinematics import flange_position
from hpsde.tasks.puddle import GAPS, PUDDLES, WALL, Puddle
from hpsde.tasks.reach import TruncatedGaussian, nearest_angles

CELLS = {**walls.CELLS, **arms.CELLS}
RIGHT_ANGLE = np.pi / 2


@cache
def make(name, seed):
    """The task, drawn once for all tests."""
    return CELLS[name].make(seed)


class ByHand:
    """A policy with option means [O, C, D] at the evaluation contexts, which uses the best option in each."""

    def __init__(self, task, means):
        self.task, self.means = task, means

    def option_means(self, contexts):
        return self.means

    def act(self, contexts):
        returns = [self.task.evaluate(contexts, mean) for mean in self.means]
        return self.means[np.argmax(returns, axis=0), np.arange(len(contexts))]


# The contract


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", CELLS)
def test_every_cell_keeps_the_contract(name, seed):
    cell = CELLS[name]
    assert (cell.name, cell.family, cell.hopeless) == (name, "movements", False)
    assert cell.description
    task = make(name, seed)
    assert isinstance(task, Task)
    assert check_task(task) is task
    assert task.name == f"{name}@{seed}"
    keys = jax.random.split(jax.random.key(seed), 2)
    contexts = task.sample_contexts(keys[0], 30)
    parameters = task.sample_initial(keys[1], contexts)
    assert contexts.shape == (30, task.context_size)
    assert parameters.shape == (30, task.parameter_size)
    returns, densities = task.evaluate(contexts, parameters), task.log_initial(contexts, parameters)
    best = task.best_returns(contexts)
    for array in (contexts, parameters, returns, densities, best, task.evaluation_contexts()):
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float64
        assert np.all(np.isfinite(array))
    assert returns.shape == densities.shape == best.shape == (30,)
    assert np.all(returns <= best + 0.02)
    np.testing.assert_array_equal(task.true_returns(contexts, parameters), returns)
    low, high = task.parameter_bounds
    assert np.all((low <= parameters) & (parameters <= high))
    again = cell.make(seed)
    np.testing.assert_array_equal(again.evaluate(contexts, parameters), returns)
    copy = pickle.loads(pickle.dumps(task))
    np.testing.assert_array_equal(copy.evaluate(contexts, parameters), returns)


@pytest.mark.parametrize("name", CELLS)
def test_seeds_and_cells_draw_different_tasks(name):
    scenes = [make(name, seed) for seed in range(3)]
    drawn = [task.wall if name in walls.CELLS else (task.pole, task.contexts) for task in scenes]
    assert all(one != other for one, other in itertools.combinations(drawn, 2))


@pytest.mark.parametrize("name", ["walls-4", "arm-ur"])
def test_blind_return_is_the_mean_of_the_initial_policy(name):
    task = make(name, 0)
    contexts = np.tile(task.evaluation_contexts(), (80 if name == "arm-ur" else 20, 1))
    returns = task.evaluate(contexts, task.sample_initial(jax.random.key(5), contexts))
    error = returns.std() / np.sqrt(len(returns))
    assert task.blind_return() == pytest.approx(returns.mean(), abs=4.0 * error)


# Walls


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("gaps", walls.GAP_COUNTS)
def test_walls_are_drawn_within_their_ranges(gaps, seed):
    wall = make(f"walls-{gaps}", seed).wall
    assert list(wall.gaps) == [f"gap {k}" for k in range(1, gaps + 1)]
    edges = sorted([*wall.puddles, *wall.gaps.values()])
    assert (edges[0][0], edges[-1][1]) == (-np.inf, np.inf)
    assert all(one[1] == other[0] for one, other in itertools.pairwise(edges))
    heights = np.diff(edges[1:-1], axis=1)[:, 0]
    assert np.all((heights[::2] >= 0.9 - 1e-9) & (heights[::2] <= 2.0 + 1e-9))
    assert np.all((heights[1::2] >= 1.2 - 1e-9) & (heights[1::2] <= 2.0 + 1e-9))
    assert 1.6 - 1e-9 <= wall.x[1] - wall.x[0] <= 2.4 + 1e-9
    assert edges[1][0] >= -8.5
    assert edges[-1][0] <= 8.5


@pytest.mark.parametrize("name", walls.CELLS)
def test_every_gap_is_passed_by_some_initial_routes(name):
    for seed in range(3):
        task = make(name, seed)
        contexts = task.sample_contexts(jax.random.key(seed), 1200)
        parameters = task.sample_initial(jax.random.key(seed + 1), contexts)
        taken = task.gaps(contexts, parameters)
        counts = np.bincount(taken[taken >= 0], minlength=len(task.wall.gaps))
        assert counts.min() >= 3
        np.testing.assert_array_equal(taken >= 0, task.collisions(contexts, parameters) == 0)


def fitted(task, contexts, heights):
    """Parameters of routes that come close to the given heights [N, 100], by least squares."""
    rest = task.routes(contexts, np.zeros((len(contexts), 10)))[:, :, 1]
    response = task.routes(np.zeros((11, 1)), np.concatenate([np.zeros((1, 10)), 1e-3 * np.eye(10)]))[:, :, 1]
    design = (response[1:] - response[0]).T / 1e-3
    return np.linalg.lstsq(design, (heights - rest).T, rcond=None)[0].T


def test_route_through_the_centre_of_a_gap_counts_as_through_that_gap():
    task = make("walls-5", 0)
    x = task.routes([[0.0]], np.zeros((1, 10)))[0, :, 0]
    for number, (low, high) in enumerate(task.wall.gaps.values()):
        centre = 0.5 * (low + high)
        contexts = np.array([[np.clip(centre, -5.0, 6.0)]])
        heights = np.interp(
            x, [0.0, task.wall.x[0] - 0.3, task.wall.x[1] + 0.3, 6.0], [0, centre, centre, contexts[0, 0]]
        )
        parameters = fitted(task, contexts, heights[None])
        assert task.gaps(contexts, parameters)[0] == number
        assert task.measures(contexts, parameters)["collision_free"][0] == 1.0
        route = task.routes(contexts, parameters)[0]
        length = np.sum(np.linalg.norm(np.diff(route, axis=0), axis=1))
        assert task.evaluate(contexts, parameters)[0] == pytest.approx(-length, abs=1e-12)
    # Through the middle of a puddle it collides, at 50 for each point.
    low, high = task.wall.puddles[2]
    middle = np.full((1, 100), 0.5 * (low + high)) * np.minimum(x / (task.wall.x[0] - 0.3), 1.0)
    contexts = middle[:, -1:]
    parameters = fitted(task, contexts, middle)
    route = task.routes(contexts, parameters)[0]
    inside = (route[:, 0] > task.wall.x[0]) & (route[:, 0] < task.wall.x[1])
    assert task.gaps(contexts, parameters)[0] == -1
    assert task.collisions(contexts, parameters)[0] == inside.sum() > 10


@pytest.mark.parametrize("name", walls.CELLS)
def test_known_routes_take_their_gap_in_every_context(name):
    task = make(name, 1)
    contexts = task.evaluation_contexts()
    means = np.stack([solution.parameters(contexts) for solution in task.solutions])
    result = coverage_and_surplus(task.solutions, contexts, means)
    np.testing.assert_array_equal(result.table, np.eye(len(task.wall.gaps)))
    assert {solution.share for solution in task.solutions} == {0.1}
    assert np.all(np.abs(means) <= task.parameter_bounds[1])
    # They are as good as the best that is claimed, and better than any initial route.
    returns = np.array([task.evaluate(contexts, mean) for mean in means]).max(axis=0)
    np.testing.assert_allclose(returns, task.best_returns(contexts), atol=0.03)
    judged = score(task, ByHand(task, means))
    assert judged["exact"]
    assert abs(judged["regret"]) < 1e-3
    tried = [task.evaluate(contexts, task.sample_initial(jax.random.key(k), contexts)) for k in range(20)]
    assert np.all(np.max(tried, axis=0) <= task.best_returns(contexts) + 0.03)


def shortest(task, s, gap):
    """The least length through a gap by scipy, among routes of 301 steps that end at their goal."""
    unit = task.routes([[s]] * 11, np.concatenate([np.zeros((1, 10)), 1e-3 * np.eye(10)]))
    x, rest, response = unit[0, :, 0], unit[0, :, 1], (unit[1:, :, 1] - unit[0, :, 1]).T / 1e-3
    rows = np.flatnonzero((x > task.wall.x[0]) & (x < task.wall.x[1]))
    low, high = task.wall.gaps[gap]

    def length(a):
        dy = np.diff(rest + response @ a)
        segments = np.hypot(np.diff(x), dy)
        return segments.sum(), (dy / segments) @ np.diff(response, axis=0)

    bounds = [
        {"type": "ineq", "fun": lambda a: rest[rows] + response[rows] @ a - low, "jac": lambda a: response[rows]},
        {"type": "ineq", "fun": lambda a: high - rest[rows] - response[rows] @ a, "jac": lambda a: -response[rows]},
        {"type": "eq", "fun": lambda a: rest[-1:] + response[-1:] @ a - s, "jac": lambda a: response[-1:]},
    ]
    start = Puddle._through(task, gap, np.array([[s]]))[0]
    found = scipy.optimize.minimize(
        length, start, jac=True, method="SLSQP", constraints=bounds, options={"maxiter": 300}
    )
    assert found.success
    return found.fun


def test_best_returns_are_those_of_another_solver():
    task = make("walls-4", 1)
    contexts = np.array([[-4.0], [-0.5], [3.0], [5.5]])  # on the grid
    expected = [-min(shortest(task, s, gap) for gap in task.wall.gaps) for (s,) in contexts]
    best = task.best_returns(contexts)
    np.testing.assert_allclose(best, expected, atol=0.03)
    assert np.all(best <= np.add(expected, 1e-6))


def test_walls_with_the_papers_wall_are_the_paper():
    paper, same = Puddle(), RandomWall("same", Puddle.wall)
    assert (paper.name, paper.wall) == ("puddle", (WALL, PUDDLES, GAPS))
    contexts = paper.sample_contexts(jax.random.key(0), 300)
    parameters = paper.sample_initial(jax.random.key(1), contexts)
    returns = paper.evaluate(contexts, parameters)
    np.testing.assert_array_equal(same.evaluate(contexts, parameters), returns)
    np.testing.assert_array_equal(same.log_initial(contexts, parameters), paper.log_initial(contexts, parameters))
    assert task_extras(same).rollouts == task_extras(paper).rollouts == 1500
    assert task_extras(same).max_options == 20
    # The optimum of the task's statement.
    assert same.best_returns(paper.evaluation_contexts()).mean() == pytest.approx(-7.15, abs=0.01)


# Arms


def modified_frame(d, a, alpha, q):
    """Craig's convention: Rx(alpha) Tx(a) Rz(q) Tz(d), the matrix written out."""
    c, s, ca, sa = np.cos(q), np.sin(q), np.cos(alpha), np.sin(alpha)
    return np.array([[c, -s, 0, a], [s * ca, c * ca, -sa, -sa * d], [s * sa, c * sa, ca, ca * d], [0.0, 0.0, 0.0, 1.0]])


def panda_frame(q):
    frame = np.eye(4)
    table = [
        (0.333, 0, 0),
        (0, 0, -RIGHT_ANGLE),
        (0.316, 0, RIGHT_ANGLE),
        (0, 0.0825, RIGHT_ANGLE),
        (0.384, -0.0825, -RIGHT_ANGLE),
        (0, 0, RIGHT_ANGLE),
        (0, 0.088, RIGHT_ANGLE),
    ]
    for (d, a, alpha), angle in zip(table, q, strict=True):
        frame = frame @ modified_frame(d, a, alpha, angle)
    return frame @ modified_frame(0.107, 0.0, 0.0, 0.0)  # the flange of the data sheet


def ur5_frame(q):
    frame = np.eye(4)
    table = [
        (0.089159, 0, 90),
        (0, -0.425, 0),
        (0, -0.39225, 0),
        (0.10915, 0, 90),
        (0.09465, 0, -90),
        (0.0823, 0, 0),
    ]
    for (d, a, alpha), angle in zip(table, q, strict=True):
        for axis, turn, shift in (("z", np.degrees(angle), (0, 0, d)), ("x", alpha, (a, 0, 0))):
            step = np.eye(4)
            step[:3, :3], step[:3, 3] = Rotation.from_euler(axis, turn, degrees=True).as_matrix(), shift
            frame = frame @ step
    return frame


@pytest.mark.parametrize(("arm", "frame", "zero"), [
    (PANDA, panda_frame, (0.088, 0.0, 0.926)),
    (UR5, ur5_frame, (-0.81725, -0.19145, -0.005491)),
])  # fmt: skip
def test_flange_is_the_product_of_the_matrices(arm, frame, zero):
    joints = len(arm.joints)
    q = np.random.default_rng(0).uniform(-3.0, 3.0, (40, joints))
    found = np.array(flange_position(arm, jnp.asarray(q))).T
    np.testing.assert_allclose(found, [frame(angles)[:3, 3] for angles in q], atol=1e-14)
    at_zero = np.array(flange_position(arm, jnp.zeros((1, joints))))[:, 0]
    np.testing.assert_allclose(at_zero, zero, atol=1e-15)
    assert all(0.05 <= ball.radius <= 0.08 for ball in arm.spheres)


def test_panda_is_that_of_the_data_sheet():
    low, high = PANDA.limits
    np.testing.assert_allclose(low, [-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
    np.testing.assert_allclose(high, [2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
    # The pose in which it is delivered: 0.307 m in front and 0.59 m up, the hand (0.1034 m) not counted.
    ready = jnp.asarray([SETUPS["arm-panda"].home])
    np.testing.assert_allclose(np.array(flange_position(PANDA, ready))[:, 0], [0.30689, 0.0, 0.59028], atol=1e-5)


@pytest.mark.parametrize("name", arms.CELLS)
def test_goals_lie_behind_the_pole(name):
    setup = SETUPS[name]
    for seed in range(10):
        task = make(name, seed)
        pole, goals = task.pole, task.evaluation_contexts()
        for value, (low, high) in zip(pole, (setup.x, setup.y, setup.radius), strict=True):
            assert low <= value <= high
        centre = goals.mean(axis=0)
        assert pole.x * centre[1] == pytest.approx(pole.y * centre[0], abs=1e-12)
        assert goals[:, 0].min() > pole.x + pole.radius + 0.05
        assert len(goals) == 125
    assert (task.parameter_size, task.max_options) == (len(setup.arm.joints), 10)
    assert (task.initial_rollouts, task.rollouts) == (500, 4000)


@pytest.mark.parametrize("name", arms.CELLS)
def test_initial_policy_is_a_gaussian_round_the_home_pose(name):
    task, setup = make(name, 4), SETUPS[name]
    goals = task.sample_contexts(jax.random.key(0), 2000)
    q = task.sample_initial(jax.random.key(1), goals)
    low, high = setup.arm.limits
    home = np.array(setup.home)
    theirs = scipy.stats.truncnorm(
        (low - home) / setup.deviation, (high - home) / setup.deviation, home, setup.deviation
    )
    np.testing.assert_allclose(task.log_initial(goals, q), theirs.logpdf(q).sum(axis=1), atol=1e-10)
    np.testing.assert_allclose(q.mean(axis=0), theirs.mean(), atol=4.0 * setup.deviation / np.sqrt(2000))
    np.testing.assert_allclose(q.std(axis=0), theirs.std(), rtol=0.06)
    assert 0.6 <= setup.deviation <= 0.8


def test_centre_of_a_truncated_gaussian_is_checked():
    with pytest.raises(InputError, match="expected a centre of 2 numbers"):
        TruncatedGaussian((0.0, 0.0), (1.0, 1.0), 0.5, (0.5,))


POSTURES = {
    "arm-kuka": [
        (0.733, -1.032, -1.198, 1.358, -0.995, -1.676, 0.894),
        (-0.718, -1.158, 1.414, 1.243, 0.444, -1.878, 1.24),
    ],
    "arm-panda": [
        (-1.895, -1.02, 1.533, -1.734, -0.707, 1.929, 1.864),
        (-0.79, 0.886, 0.987, -1.303, 1.32, 0.791, 1.405),
    ],
    "arm-ur": [(0.401, -2.218, -0.966, -4.393, 0.256, -0.135), (2.896, -0.959, 1.241, -3.741, 0.499, -1.109)],
}
"""Found by gradient ascent for seed 0: left and right at the centre of the goals."""


@pytest.mark.parametrize("name", arms.CELLS)
def test_both_sides_of_the_pole_are_solutions(name):
    task = make(name, 0)
    goals = task.evaluation_contexts()
    means = np.stack([nearest_angles(task.arm, posture, goals) for posture in POSTURES[name]])
    result = coverage_and_surplus(task.solutions, goals, means)
    assert result.names == result.found == ("left", "right")
    np.testing.assert_array_equal(result.table, np.eye(2))
    if name == "arm-ur":
        judged = score(task, ByHand(task, means))
        assert judged["exact"]
        assert 0.0 <= judged["regret"] < 0.02
    measured = task.measures(goals, means[0])
    assert {"success", "strict_success", "side"} <= set(measured)
    assert measured["strict_success"].all()
    centre = goals[62:63]
    for posture in means[:, 62:63]:
        assert task.evaluate(centre, posture)[0] > -0.005
    np.testing.assert_array_equal(task.best_returns(goals), 0.0)
    # Half-way between both postures the arm is in the pole, or misses the goal.
    assert task.evaluate(centre, means[:, 62:63].mean(axis=0))[0] < -0.05
