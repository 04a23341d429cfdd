"""The reach task against its formula written out joint by joint, known postures, and scipy's truncated Gaussian."""

import pickle
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from scipy.spatial.transform import Rotation

from hpsde.base.compilations import count_compilations
from hpsde.base.distributions import Distribution, Uniform
from hpsde.errors import InputError
from hpsde.tasks import coverage_and_surplus, make_task, task_extras
from hpsde.tasks.kinematics import (
    KUKA_LWR,
    Pole,
    arm_from_dh,
    flange_jacobian,
    flange_position,
    joint_origins,
    signed_distances,
    sphere_centres,
)
from hpsde.tasks.reach import (
    FAMILIES,
    KUKA_POSTURES,
    POLE,
    TruncatedGaussian,
    geometry,
    nearest_angles,
    postures,
    reach_task,
)

CENTRE = np.array([[0.6, 0.0, 0.5]])
TASK = make_task("reach")


@cache
def drawn():
    goals = TASK.sample_contexts(jax.random.key(0), 2000)
    return goals, TASK.sample_initial(jax.random.key(1), goals)


def draw(rows):
    """Goals of the task, and angles of its start policy."""
    goals, q = drawn()
    return goals[:rows], q[:rows]


def one_return(goal, q):
    """R = -d - C - P as the specification has it, one joint and one sphere after the other."""
    turn, origin, cost = Rotation.identity(), np.zeros(3), 0.0
    for link, (joint, angle) in enumerate(zip(KUKA_LWR.joints, q, strict=True), start=1):
        origin = origin + turn.apply(joint.offset)
        turn = turn * Rotation.from_rotvec(angle * np.array(joint.axis))
        cost += max(abs(angle) - joint.high, 0.0)
        for ball in (ball for ball in KUKA_LWR.spheres if ball.link == link):
            x, y, z = origin + turn.apply(ball.centre)
            sd = min(np.hypot(x - 0.35, y) - 0.05, z) - ball.radius
            if sd < 0.0:
                cost += -sd + 0.025
            elif sd <= 0.05:
                cost += (sd - 0.05) ** 2 / 0.1
    return -np.linalg.norm(origin - goal) - cost


@pytest.mark.parametrize("spread", [1.0, 2.0])
def test_returns_are_those_of_the_formula(spread):
    goals, q = draw(60)
    q = spread * q
    expected = [one_return(goal, angles) for goal, angles in zip(goals, q, strict=True)]
    np.testing.assert_allclose(TASK.evaluate(goals, q), expected, atol=1e-13)
    clearance, within = (TASK.measures(goals, q)[name] for name in ("clearance", "within_limits"))
    assert 3 < np.sum(clearance < 0.0) < 57
    assert np.all(within) == (spread == 1.0)


def test_within_the_limits_nothing_is_added_and_beyond_them_every_radian():
    high = KUKA_LWR.limits[1]
    step = np.array([0.0, 1e-6, 0.25])
    q = np.zeros((3, 7))
    q[:, 6] = high[6] + step  # turns the flange on the spot
    returns = TASK.evaluate(np.repeat(CENTRE, 3, axis=0), q)
    np.testing.assert_allclose(returns[0] - returns, step, atol=1e-14)
    distance = np.linalg.norm([0.6, 0.0, 0.5 - 1.1785])
    assert returns[0] == pytest.approx(-distance, abs=1e-15)  # the upright arm is far from the pole


def test_numbers_of_the_task():
    extras = task_extras(TASK)
    assert (TASK.context_size, TASK.parameter_size, extras.max_options) == (3, 7, 10)
    assert (extras.initial_rollouts, extras.rollouts, extras.features) == (500, 4000, "linear")
    np.testing.assert_array_equal(extras.parameter_bounds, KUKA_LWR.limits)
    goals = TASK.evaluation_contexts()
    assert goals.shape == (125, 3)
    for k, (low, high) in enumerate([(0.55, 0.65), (-0.05, 0.05), (0.40, 0.60)]):
        np.testing.assert_allclose(np.unique(goals[:, k].round(12)), np.linspace(low, high, 5))
        values = draw(2000)[0][:, k]
        assert np.all((values >= low) & (values <= high))
        assert np.ptp(values) > 0.99 * (high - low)
    assert len(np.unique(goals, axis=0)) == 125


# The start policy


def test_truncated_gaussian_is_scipys():
    low, high, deviation = (-1.0, -0.2, 0.1), (0.5, 3.0, 0.4), 0.8
    ours = TruncatedGaussian(low, high, deviation)
    assert isinstance(ours, Distribution)
    draws = ours.sample(jax.random.key(3), 4000)
    log_density = np.zeros(4000)
    for k in range(3):
        theirs = scipy.stats.truncnorm(low[k] / deviation, high[k] / deviation, scale=deviation)
        log_density += theirs.logpdf(draws[:, k])
        assert scipy.stats.kstest(draws[:, k], theirs.cdf).pvalue > 0.01
    np.testing.assert_allclose(ours.log_prob(draws), log_density, atol=1e-12)
    assert np.all((draws >= low) & (draws <= high))
    outside = np.array([[-1.01, 0.0, 0.2], [0.0, 0.0, 0.41]])
    np.testing.assert_array_equal(ours.log_prob(outside), -np.inf)
    np.testing.assert_array_equal(np.isfinite(ours.log_prob(np.array([low, high]))), True)


def test_start_policy_keeps_the_joint_limits():
    goals, q = draw(2000)
    low, high = KUKA_LWR.limits
    assert np.all((q >= low) & (q <= high))
    assert np.std(q[:, 0]) == pytest.approx(0.8, rel=0.05)
    theirs = scipy.stats.truncnorm(low / 0.8, high / 0.8, scale=0.8).logpdf(q).sum(axis=1)
    np.testing.assert_allclose(TASK.log_initial(goals, q), theirs, atol=1e-11)
    assert TASK.log_initial(CENTRE, 1.01 * high[None])[0] == -np.inf


@pytest.mark.parametrize(
    "wrong", [((), (), 1.0), ((0.0,), (1.0, 2.0), 1.0), ((1.0,), (0.0,), 1.0), ((0.0,), (1.0,), 0.0)]
)
def test_truncated_gaussians_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InputError, match="TruncatedGaussian: expected as many low as high"):
        TruncatedGaussian(*wrong)


# Postures and measures


@pytest.mark.parametrize("family", FAMILIES)
def test_known_postures_succeed_and_belong_to_their_family(family):
    q = np.array([KUKA_POSTURES[family]])
    measures = TASK.measures(CENTRE, q)
    assert measures["strict_success"].all()
    assert measures["clearance"][0] > 0.04
    assert measures["distance"][0] == pytest.approx(-one_return(CENTRE[0], q[0]), abs=1e-6)
    assert (measures["side"][0], measures["elbow"][0]) == FAMILIES[family]
    # The joint that is next to the pole, as seen from the side, lies on that side.
    joints = np.array(joint_origins(KUKA_LWR, jnp.asarray(q)))[..., 0]
    beside = joints[np.argmin(np.abs(joints[:, 0] - POLE.x))]
    assert np.sign(beside[1]) == measures["side"][0]
    np.testing.assert_array_equal(postures(KUKA_LWR, POLE, q), np.transpose([FAMILIES[family]]))


@pytest.mark.parametrize("half", [slice(None, 63), slice(63, None)])
def test_families_solve_every_goal_and_each_follows_itself_alone(half):
    goals = TASK.evaluation_contexts()[half]
    means = np.stack([solution.parameters(goals) for solution in TASK.solutions])
    covered = coverage_and_surplus(TASK.solutions, goals, means)
    np.testing.assert_array_equal(covered.table, np.eye(4))
    assert covered.names == tuple(FAMILIES)
    for q in means:
        np.testing.assert_allclose(geometry(KUKA_LWR, POLE, q).flange, goals, atol=1e-12)
    missed = coverage_and_surplus(TASK.solutions, goals, means[:1] + 0.1)
    assert (missed.coverage, missed.surplus) == (0.0, 1)


def test_success_asks_for_the_goal_the_pole_and_the_limits():
    q = np.array([KUKA_POSTURES["right, elbow up"]])
    flange = geometry(KUKA_LWR, POLE, q).flange
    away = np.array([0.0, 0.0099, 0.0101, 0.0199, 0.0201])
    measures = TASK.measures(flange + away[:, None] * np.array([[0.6, 0.0, -0.8]]), np.repeat(q, 5, axis=0))
    np.testing.assert_allclose(measures["distance"], away, atol=1e-15)
    np.testing.assert_array_equal(measures["strict_success"], [True, True, False, False, False])
    np.testing.assert_array_equal(measures["success"], [True, True, True, True, False])
    x, y, _ = np.array(sphere_centres(KUKA_LWR, jnp.asarray(q)))[12, :, 0].tolist()
    nearer = reach_task(pole=Pole(x, y, 0.01))
    hit = nearer.measures(flange, q)
    assert hit["clearance"][0] < 0.0
    assert not hit["success"].any()
    turned = q.copy()
    turned[0, 6] = 3.0  # beyond 170 degrees; the flange stays where it is
    beyond = TASK.measures(flange, turned)
    assert beyond["distance"][0] == pytest.approx(0.0, abs=1e-12)
    assert not beyond["within_limits"].any()
    assert not beyond["success"].any()


def test_nearest_angles_take_the_shortest_way():
    goals = draw(20)[0]
    start = np.array(KUKA_POSTURES["left, elbow up"])
    q = nearest_angles(KUKA_LWR, start, goals)
    np.testing.assert_allclose(geometry(KUKA_LWR, POLE, q).flange, goals, atol=1e-12)
    np.testing.assert_allclose(nearest_angles(KUKA_LWR, start, CENTRE)[0], start, atol=2e-3)
    # Of the last joint nothing depends.
    np.testing.assert_allclose(q[:, 6], start[6], atol=1e-14)


# Other arms, other processes, other settings


def test_another_arm_pole_and_goals_take_a_few_lines():
    rows = [
        (0.0, 0.36, 0.0, -np.pi / 2),
        (-np.pi / 2, 0.0, 0.3, 0.0),
        (np.pi / 2, 0.0, 0.25, 0.0),
        (0.0, 0.0, 0.1, 0.5),
    ]
    arm = arm_from_dh(rows, [(-2.5, 2.5)] * 4, bend=(1, 2, 3), radius=0.04)
    task = reach_task(arm, Pole(0.3, 0.1, 0.03), Uniform([0.4, -0.1, 0.2], [0.5, 0.1, 0.3]), margin=0.02)
    assert (task.context_size, task.parameter_size) == (3, 4)
    goals = task.sample_contexts(jax.random.key(0), 50)
    q = task.sample_initial(jax.random.key(1), goals)
    parts = geometry(arm, task.pole, q)
    sd = np.array(jax.jit(partial(signed_distances, arm, task.pole))(q))
    cost = np.where(sd < 0.0, 0.01 - sd, np.where(sd <= 0.02, (sd - 0.02) ** 2 / 0.04, 0.0)).sum(axis=0)
    np.testing.assert_allclose(parts.clearance, sd.min(axis=0), atol=1e-15)
    np.testing.assert_allclose(
        task.evaluate(goals, q), -np.linalg.norm(parts.flange - goals, axis=1) - cost, atol=1e-14
    )
    assert task.solutions[0].parameters is None


def test_task_can_be_sent_elsewhere():
    goals, q = draw(5)
    copy = pickle.loads(pickle.dumps(TASK))
    np.testing.assert_array_equal(copy.evaluate(goals, q), TASK.evaluate(goals, q))
    np.testing.assert_array_equal(copy.solutions[0].follows(goals, q), [False] * 5)


def test_nothing_is_compiled():
    goals, q = draw(64)
    with count_compilations() as compiled:
        TASK.evaluate(goals, q)
        TASK.measures(goals, q)
        nearest_angles(KUKA_LWR, KUKA_POSTURES[next(iter(KUKA_POSTURES))], goals[:5])
    assert compiled.count == 0


def test_the_jacobian_of_the_flange_is_that_of_jax():
    _, q = draw(5)
    with jax.enable_x64(True):
        truth = jax.vmap(jax.jacfwd(lambda one: jnp.stack(flange_position(KUKA_LWR, one[None]))[:, 0]))(jnp.asarray(q))
    np.testing.assert_allclose(flange_jacobian(KUKA_LWR, q), truth, atol=1e-14)


def test_measures_are_numpys_of_64_bit_whatever_the_users_setting():
    goals, q = draw(7)
    expected = TASK.measures(goals, q)
    with jax.enable_x64(False):
        for name, values in TASK.measures(goals, q).items():
            np.testing.assert_array_equal(values, expected[name])
            assert values.dtype == (np.bool_ if name in ("success", "strict_success", "within_limits") else np.float64)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"goals": Uniform([0.0, 0.0], 1.0)}, r"goals: expected a box of points \[x, y, z\], got 2"),
        ({"margin": 0.0}, "margin: expected a distance above 0"),
    ],
)
def test_tasks_that_make_no_sense_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        reach_task(**given)


def test_measures_refuse_arrays_of_other_shapes():
    with pytest.raises(InputError, match="parameters"):
        TASK.measures(CENTRE, np.zeros((1, 6)))
    with pytest.raises(InputError, match="contexts"):
        TASK.measures(np.zeros((1, 2)), np.zeros((1, 7)))
