"""Serial arms against products of matrices, scipy's rotations, and figures worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from hpsde.errors import InputError
from hpsde.tasks.kinematics import (
    KUKA_LWR,
    Arm,
    Capsule,
    Joint,
    Pole,
    Sphere,
    arm_from_dh,
    collision_cost,
    elbow_height,
    flange_position,
    joint_origins,
    limit_violation,
    link_frames,
    signed_distances,
    sphere_centres,
    winding,
)

RIGHT_ANGLE = np.pi / 2
# theta_0, d, a, alpha
KUKA_DH = [
    (0.0, 0.3105, 0.0, RIGHT_ANGLE),
    (0.0, 0.0, 0.0, -RIGHT_ANGLE),
    (0.0, 0.4, 0.0, -RIGHT_ANGLE),
    (0.0, 0.0, 0.0, RIGHT_ANGLE),
    (0.0, 0.39, 0.0, RIGHT_ANGLE),
    (0.0, 0.0, 0.0, -RIGHT_ANGLE),
    (0.0, 0.078, 0.0, 0.0),
]
# An arm of six joints with offsets, twists and angles that are no multiples of 90 degrees.
ODD_DH = [
    (0.3, 0.2, 0.05, 1.1),
    (-0.7, 0.0, 0.4, 0.2),
    (0.0, -0.1, 0.35, -0.5),
    (1.0, 0.1, 0.0, 1.5),
    (0.2, 0.09, 0.01, -1.2),
    (0.0, 0.08, 0.0, 0.4),
]
ROWS = 60
POLE = Pole(0.35, 0.0, 0.05)
PLANAR = Arm(
    tuple(Joint((0.3 if k else 0.0, 0.0, 0.0), (0.0, 0.0, 1.0), -3.0, 3.0) for k in range(4)),
    (0.3, 0.0, 0.0),
    (Sphere(4, (0.3, 0.0, 0.5), 0.1),),
    bend=(0, 1, 2),
)


def draw(joints, seed=0):
    return jnp.asarray(np.random.default_rng(seed).uniform(-3.0, 3.0, (ROWS, joints)))


def points(columns):
    """Nested lists of arrays [N] as one array with N first."""
    return np.moveaxis(np.array(columns), -1, 0)


def dh_frame(rows, angles):
    frame = np.eye(4)
    for (theta, d, a, alpha), angle in zip(rows, angles, strict=True):
        for axis, turn, shift in (("z", angle + theta, (0, 0, d)), ("x", alpha, (a, 0, 0))):
            step = np.eye(4)
            step[:3, :3], step[:3, 3] = Rotation.from_euler(axis, turn).as_matrix(), shift
            frame = frame @ step
    return frame


def dh_arm(rows, **changes):
    return arm_from_dh(rows, [(-2.0, 2.0)] * len(rows), bend=(1, 3, 5), **changes)


def test_joint_list_and_table_of_the_kuka_agree():
    q = draw(7)
    table = dh_arm(KUKA_DH)
    np.testing.assert_allclose(points(flange_position(KUKA_LWR, q)), points(flange_position(table, q)), atol=1e-14)
    ours, theirs = (np.moveaxis(np.array(link_frames(arm, q)[-1].rotation), -1, 0) for arm in (KUKA_LWR, table))
    np.testing.assert_allclose(ours, theirs, atol=1e-14)
    np.testing.assert_allclose(elbow_height(KUKA_LWR, q), elbow_height(table, q), atol=1e-12)
    np.testing.assert_allclose(winding(KUKA_LWR, POLE, q), winding(table, POLE, q), atol=1e-9)


@pytest.mark.parametrize("rows", [KUKA_DH, ODD_DH])
def test_arm_of_a_table_is_the_product_of_its_matrices(rows):
    q = draw(len(rows), seed=1)
    expected = np.array([dh_frame(rows, angles) for angles in np.array(q)])
    np.testing.assert_allclose(points(flange_position(dh_arm(rows), q)), expected[:, :3, 3], atol=1e-14)


def test_frames_are_those_of_scipy_for_joints_in_any_direction():
    rng = np.random.default_rng(2)
    axes = rng.normal(size=(5, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    offsets, balls = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    arm = Arm(
        tuple(Joint(tuple(o), tuple(a), -1.0, 1.0) for o, a in zip(offsets.tolist(), axes.tolist(), strict=True)),
        (0.1, 0.2, 0.3),
        tuple(Sphere(k, tuple(ball), 0.1) for k, ball in enumerate(balls.tolist(), start=1)),
        bend=(0, 1, 2),
    )
    q = draw(5, seed=3)
    origins, centres = points(joint_origins(arm, q)), points(sphere_centres(arm, q))
    flange = points(flange_position(arm, q))
    for n, angles in enumerate(np.array(q)):
        turn, origin = Rotation.identity(), np.zeros(3)
        for k in range(5):
            origin = origin + turn.apply(offsets[k])
            turn = turn * Rotation.from_rotvec(angles[k] * axes[k])
            np.testing.assert_allclose(origins[n, k], origin, atol=1e-13)
            np.testing.assert_allclose(centres[n, k], origin + turn.apply(balls[k]), atol=1e-13)
        np.testing.assert_allclose(flange[n], origin + turn.apply(arm.flange), atol=1e-13)


def test_kuka_in_postures_worked_out_by_hand():
    q = np.zeros((4, 7))
    q[1, 1] = RIGHT_ANGLE  # the shoulder bends backwards
    q[2, 3] = RIGHT_ANGLE  # the elbow bends forwards
    q[3, [0, 3]] = RIGHT_ANGLE  # and is turned to the left
    q = jnp.asarray(q)
    expected = [[0, 0, 1.1785], [-0.868, 0, 0.3105], [0.468, 0, 0.7105], [0, 0.468, 0.7105]]
    np.testing.assert_allclose(points(flange_position(KUKA_LWR, q)), expected, atol=1e-15)
    assert len(KUKA_LWR.spheres) == 21
    np.testing.assert_allclose(np.degrees(KUKA_LWR.limits[1]), [170, 120, 170, 120, 170, 120, 170])
    np.testing.assert_array_equal(KUKA_LWR.limits[0], -KUKA_LWR.limits[1])


def test_mirrored_angles_mirror_the_arm():
    q = draw(7, seed=4)
    mirrored = q * jnp.array([[-1, 1, -1, 1, -1, 1, -1]])
    flange, other = points(flange_position(KUKA_LWR, q)), points(flange_position(KUKA_LWR, mirrored))
    np.testing.assert_allclose(other, flange * [1, -1, 1], atol=1e-14)
    np.testing.assert_allclose(winding(KUKA_LWR, POLE, mirrored), -winding(KUKA_LWR, POLE, q), atol=1e-9)
    np.testing.assert_allclose(elbow_height(KUKA_LWR, mirrored), elbow_height(KUKA_LWR, q), atol=1e-12)


def test_distances_are_those_of_the_nearest_point_of_pole_and_floor():
    q = draw(7, seed=5)
    distances, centres = points(signed_distances(KUKA_LWR, POLE, q)), points(sphere_centres(KUKA_LWR, q))
    assert distances.shape == (ROWS, 21)
    for n in range(ROWS):
        for k, ball in enumerate(KUKA_LWR.spheres):
            x, y, z = centres[n, k]
            from_pole = np.linalg.norm([x - 0.35, y]) - 0.05
            assert distances[n, k] == pytest.approx(min(from_pole, z) - ball.radius, abs=1e-15)
    # One sphere of radius 0.1, 0.5 above the floor, 1.2 from the base and 0.85 from the axis of the pole.
    np.testing.assert_allclose(signed_distances(PLANAR, POLE, jnp.zeros((1, 4)))[0], 0.4)
    np.testing.assert_allclose(signed_distances(PLANAR, Pole(1.0, 0.1, 0.02), jnp.zeros((1, 4)))[0], 0.05**0.5 - 0.12)
    np.testing.assert_allclose(signed_distances(PLANAR, Pole(1.19, 0.0, 0.02), jnp.zeros((1, 4)))[0], -0.11)


def test_cost_is_chomps():
    margin = 0.05
    distances = jnp.array([-0.1, -1e-12, 0.0, 0.02, 0.05, 0.3])
    expected = [0.125, 0.025, 0.025, 0.03**2 / 0.1, 0.0, 0.0]
    np.testing.assert_allclose(collision_cost([distances], margin), expected, atol=1e-11)
    np.testing.assert_allclose(collision_cost([distances, distances[::-1]], margin)[0], 0.125)
    slope = jax.vmap(jax.grad(lambda sd: collision_cost([sd[None]], margin)[0]))(distances)
    np.testing.assert_allclose(slope, [-1.0, -1.0, -1.0, -0.6, 0.0, 0.0], atol=1e-11)


def test_limits_are_exceeded_by_so_many_radians():
    high = KUKA_LWR.limits[1]
    above = high + np.array([0.1, 0, 0, 0.2, 0, 0, 0])
    q = jnp.asarray([high, -high, high * 0.0, above, -high - 0.1])
    np.testing.assert_allclose(limit_violation(KUKA_LWR, q), [0.0, 0.0, 0.0, 0.3, 0.7], atol=1e-14)
    assert np.all(np.asarray(limit_violation(KUKA_LWR, q))[:3] == 0.0)


def test_winding_tells_left_from_right():
    # Four links of 0.3 in the plane around a pole at 0.6: over the left, over the right, and once round.
    left = [0.9, -0.9, -0.9, 0.9]
    q = jnp.array([left, np.negative(left), [0.3, 0.0, 0.0, 0.0]])
    turns = np.asarray(winding(PLANAR, Pole(0.6, 0.0, 0.05), q))
    flange = points(flange_position(PLANAR, q))
    assert np.all(np.abs(flange[:2, 1]) < 0.3)
    assert turns[0] < -np.pi / 2
    assert turns[1] == pytest.approx(-turns[0])
    assert -np.pi < turns[2] < 0.0


def test_winding_is_the_change_of_direction_but_for_full_turns():
    q = draw(7, seed=6)
    flange = points(flange_position(KUKA_LWR, q))
    directions = np.arctan2(flange[:, 1] - POLE.y, flange[:, 0] - POLE.x) - np.pi
    turns = (np.asarray(winding(KUKA_LWR, POLE, q)) - directions) / (2 * np.pi)
    np.testing.assert_allclose(turns, np.round(turns), atol=1e-9)


def test_elbow_is_above_or_below_the_line_from_shoulder_to_wrist():
    q = np.zeros((3, 7))
    q[0, [1, 3]] = -1.2, 0.8  # forwards and up, then bent down: the elbow is on top
    q[1, [1, 3]] = -2.0, -0.8
    heights = np.asarray(elbow_height(KUKA_LWR, jnp.asarray(q)))
    assert heights[0] > 0.1
    assert heights[1] < -0.1
    assert heights[2] == pytest.approx(0.0, abs=1e-15)
    # An isosceles triangle in the vertical plane: the elbow is straight above the middle of the line.
    even = jnp.array([[0.0, -1.0, 0.0, 2.0, 0.0, 0.0, 0.0]])
    shoulder, elbow, wrist = points(joint_origins(KUKA_LWR, even))[0, [1, 3, 5]]
    along = (wrist - shoulder) / np.linalg.norm(wrist - shoulder)
    foot = shoulder + along * np.dot(elbow - shoulder, along)
    assert elbow_height(KUKA_LWR, even)[0] == pytest.approx(elbow[2] - foot[2], abs=1e-15)


def test_spheres_of_an_arm_without_a_body_leave_no_gap():
    arm = dh_arm(ODD_DH, radius=0.06)
    centres = points(sphere_centres(arm, jnp.zeros((1, 6))))[0]
    gaps = np.linalg.norm(np.diff(centres, axis=0), axis=1)
    assert np.all(gaps <= 0.06 + 1e-12)
    np.testing.assert_allclose(centres[-1], points(flange_position(arm, jnp.zeros((1, 6))))[0], atol=1e-15)
    assert {ball.link for ball in arm.spheres} == {1, 2, 3, 4, 5, 6}
    # However the arm is turned, the floor does not count where it stands.
    turned = jnp.asarray([[angle, 0.0, 0.0, 0.0, 0.0, 0.0] for angle in (-2.0, 0.0, 1.0)])
    heights = points(sphere_centres(arm, turned))[..., 2]
    assert 0.12 <= np.linalg.norm(centres[0]) < 0.18
    assert np.min(heights[:, 0]) >= 0.12 - 0.05


def test_no_part_of_the_body_gets_higher_than_the_reach():
    heights = points(sphere_centres(KUKA_LWR, draw(7, seed=7)))[..., 2]
    assert np.max(heights + [ball.radius for ball in KUKA_LWR.spheres]) < KUKA_LWR.reach < 1.6


def test_arms_that_make_no_sense_are_refused():
    joint, ball = PLANAR.joints[0], PLANAR.spheres[0]
    good = {"joints": PLANAR.joints, "flange": (0.0, 0.0, 0.0), "spheres": PLANAR.spheres, "bend": (0, 1, 2)}
    for change, message in [
        ({"joints": ()}, "got 0 joints"),
        ({"spheres": ()}, "0 spheres"),
        ({"joints": (joint._replace(axis=(0.0, 0.0, 2.0)), *PLANAR.joints)}, "joint 0 must have an axis of length 1"),
        ({"joints": (joint, joint._replace(low=3.0), joint)}, "joint 1 .* low < high"),
        ({"spheres": (ball._replace(link=5),)}, "a link 0 to 4"),
        ({"spheres": (ball._replace(radius=0.0),)}, "radius above 0"),
        ({"capsules": (Capsule(-1, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.1),)}, "a link 0 to 4"),
        ({"bend": (0, 1, 4)}, "three joints in rising order"),
    ]:
        with pytest.raises(InputError, match=message):
            Arm(**(good | change))
    with pytest.raises(InputError, match="rows of 4 and as many limits, got 7 and 6"):
        arm_from_dh(KUKA_DH, [(-1.0, 1.0)] * 6, bend=(1, 3, 5))
    with pytest.raises(InputError, match=r"\[N, 7\]; got \[2, 6\]"):
        flange_position(KUKA_LWR, jnp.zeros((2, 6)))
