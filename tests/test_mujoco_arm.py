"""The simulated arm: kinematics and distances against JAX's, movements that arrive or hit the pole, pictures."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import numpy as np
import pytest

from hpsde.errors import HpsdeError, InputError
from hpsde.tasks import make_task, mujoco_arm
from hpsde.tasks.kinematics import KUKA_LWR, Pole, arm_from_dh, flange_position, signed_distances
from hpsde.tasks.mujoco_arm import KUKA_HOMES, contact_sheet, mjcf, move, reach_mujoco_task, render, simulator
from hpsde.tasks.reach import FAMILIES, KUKA_POSTURES, POLE
from patience import LONG

mujoco = pytest.importorskip("mujoco")
cloudpickle = pytest.importorskip("cloudpickle")

MANY = 10_000
CENTRE = (0.6, 0.0, 0.5)
REACH, SIMULATED = make_task("reach"), make_task("reach-mujoco")
OTHER_ARM = arm_from_dh(
    [(0.0, 0.36, 0.0, -1.5), (-1.5, 0.0, 0.3, 0.1), (1.5, 0.0, 0.25, 0.0), (0.0, 0.05, 0.1, 0.5)],
    [(-2.5, 2.5)] * 4,
    bend=(1, 2, 3),
    name='four <joints> & "a half"',
)


def wide(arm, rows, seed=0):
    return np.random.default_rng(seed).uniform(-3.0, 3.0, (rows, len(arm.joints)))


def in_jax(arm, pole, q):
    """Flange [N, 3] and signed distances [N, K]."""
    both = jax.jit(lambda angles: (flange_position(arm, angles), signed_distances(arm, pole, angles)))(q)
    return tuple(np.array(columns).T for columns in both)


def nearest(model, data, obstacles):
    """The distance [K] of every body sphere from the nearest obstacle, by MuJoCo's own function."""
    distance = partial(mujoco.mj_geomDistance, model, data)
    spheres = [k for k in range(model.ngeom) if model.geom(k).name.startswith("sphere")]
    return [min(distance(k, obstacle, 5.0, None) for obstacle in obstacles) for k in spheres]


def test_flange_and_distances_are_those_of_the_kinematics():
    q = wide(KUKA_LWR, MANY)
    flange, distances = in_jax(KUKA_LWR, POLE, q)
    simulated = simulator(KUKA_LWR, POLE)
    obstacles = [simulated.model.geom(name).id for name in ("pole", "floor")]
    order = [simulated.model.geom(f"sphere{k}").id for k in range(1, 22)]
    assert order == sorted(order)
    for angles, at, sd in zip(q, flange, distances, strict=True):
        theirs, sensed = simulated.place(angles)
        assert np.max(np.abs(theirs - at)) < 1e-9
        assert np.max(np.abs(sensed - sd)) < 1e-6
        measured = nearest(simulated.model, simulated.data, obstacles)
        assert np.max(np.abs(measured - sd)) < 1e-6


def test_another_arm_is_simulated_as_well():
    pole, q = Pole(0.3, 0.1, 0.03), wide(OTHER_ARM, 200)
    flange, distances = in_jax(OTHER_ARM, pole, q)
    placed = [simulator(OTHER_ARM, pole).place(angles) for angles in q]
    np.testing.assert_allclose([at for at, _ in placed], flange, atol=1e-9)
    np.testing.assert_allclose([sd for _, sd in placed], distances, atol=1e-6)
    movement = move(OTHER_ARM, pole, [1.5, 0.0, 0.0, 0.0], [2.3, 0.1, -0.1, 0.2], seconds=1.0)
    assert movement.arrived
    assert not movement.touched


def test_model_weighs_and_bends_like_the_arm():
    model = simulator(KUKA_LWR, POLE).model
    assert model.nq == model.nu == 7
    assert sum(model.body_mass) == pytest.approx(16.0, abs=0.5)
    np.testing.assert_allclose(model.jnt_range.T, KUKA_LWR.limits)
    assert mjcf(KUKA_LWR, POLE).count("<distance") == 42


# The task


def test_returns_are_those_of_reach():
    goals = REACH.sample_contexts(jax.random.key(0), 2000)
    q = 1.5 * REACH.sample_initial(jax.random.key(1), goals)  # some beyond the limits
    returns = REACH.evaluate(goals, q)
    np.testing.assert_allclose(SIMULATED.evaluate(goals, q), returns, atol=1e-6)
    assert np.std(returns) > 0.1
    assert (SIMULATED.name, SIMULATED.rollouts, SIMULATED.features) == ("reach-mujoco", REACH.rollouts, REACH.features)
    for name, values in REACH.measures(goals, q).items():
        np.testing.assert_array_equal(SIMULATED.measures(goals, q)[name], values)


def test_another_process_makes_its_own_simulator():
    goals = REACH.evaluation_contexts()[:4]
    q = np.array(list(KUKA_POSTURES.values()))
    expected = SIMULATED.evaluate(goals, q)
    code = (
        "import pickle, sys\n"
        "task, goals, q = pickle.load(sys.stdin.buffer)\n"
        "print(*(float(value).hex() for value in task.evaluate(goals, q)))"
    )
    sent = cloudpickle.dumps((SIMULATED, goals, q))
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, timeout=LONG, check=False)
    assert done.returncode == 0, done.stderr.decode()
    np.testing.assert_array_equal([float.fromhex(value) for value in done.stdout.decode().split()], expected)


def test_threads_do_not_disturb_each_other():
    goals = np.repeat([CENTRE], 300, axis=0)
    batches = [wide(KUKA_LWR, 300, seed) for seed in range(4)]
    expected = [SIMULATED.evaluate(goals, q) for q in batches]
    with ThreadPoolExecutor(4) as pool:
        np.testing.assert_array_equal(list(pool.map(partial(SIMULATED.evaluate, goals), batches)), expected)


def test_without_mujoco_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    task = reach_mujoco_task(pole=Pole(0.41, 0.0, 0.05))  # never simulated before
    with pytest.raises(ImportError, match=r"pip install 'hpsde\[sim\]'"):
        task.evaluate([CENTRE], np.zeros((1, 7)))


# Movements


@pytest.mark.parametrize("family", FAMILIES)
def test_arm_gets_from_its_home_to_a_posture_without_touching(family):
    q = KUKA_POSTURES[family]
    movement = move(KUKA_LWR, POLE, KUKA_HOMES[FAMILIES[family][0]], q)
    assert movement.arrived
    assert not movement.touched
    assert movement.clearance > 0.03
    assert movement.error < 1e-3
    np.testing.assert_allclose(movement.angles[-1], q, atol=1e-3)


def test_arm_follows_the_reference_but_for_the_lag_of_its_servos():
    start, goal = np.array(KUKA_HOMES[1.0]), np.array(KUKA_POSTURES["left, elbow up"])
    movement = move(KUKA_LWR, POLE, start, goal, seconds=2.0)
    assert movement.times[-1] == pytest.approx(2.5)
    t = np.minimum(movement.times / 2.0, 1.0)[:, None]
    reference = start + (goal - start) * (10.0 * t**3 - 15.0 * t**4 + 6.0 * t**5)
    lag = np.abs(movement.angles - reference)
    assert 1e-3 < lag.max() < 0.2
    np.testing.assert_array_equal(movement.angles[0], start)
    again = move(KUKA_LWR, POLE, start, goal, seconds=2.0)
    np.testing.assert_array_equal(again.angles, movement.angles)


def test_pole_stops_the_arm():
    across = np.array([0.0, -1.4, 0.0, 0.0, 0.0, 0.0, 0.0])  # stretched forwards, right through the pole
    aside = across + np.array([1.2, 0, 0, 0, 0, 0, 0])
    movement = move(KUKA_LWR, POLE, aside, across - np.array([1.2, 0, 0, 0, 0, 0, 0]))
    assert movement.touched
    assert not movement.arrived
    assert -0.05 < movement.clearance < 0.0
    assert movement.angles[-1, 0] > 0.0
    far = move(KUKA_LWR, Pole(3.0, 0.0, 0.05), aside, across)
    assert far.arrived
    assert not far.touched


def test_movements_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="seconds"):
        move(KUKA_LWR, POLE, np.zeros(7), np.zeros(7), seconds=0.0)
    with pytest.raises(InputError, match=r"q_from and q_to must have shape \[2, 7\]"):
        move(KUKA_LWR, POLE, np.zeros(6), np.zeros(6))


# Pictures


def picture_or_skip(*arguments, **sizes):
    try:
        return render(*arguments, **sizes)
    except HpsdeError as error:
        pytest.skip(str(error))


def test_picture_shows_arm_and_goal():
    size = {"width": 160, "height": 120}
    q = KUKA_POSTURES["left, elbow up"]
    picture = picture_or_skip(KUKA_LWR, POLE, CENTRE, q, **size)
    assert (picture.shape, picture.dtype) == ((120, 160, 3), np.uint8)
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    assert np.sum((green > red + 60) & (green > blue + 60)) > 20  # the goal
    assert np.sum((red > green + 60) & (green > blue + 20)) > 100  # orange links
    goals, both = [CENTRE] * 3, [q, KUKA_POSTURES["right, elbow up"], q]
    sheet = contact_sheet(KUKA_LWR, POLE, goals, both, columns=2, **size)
    assert sheet.shape == (240, 320, 3)
    np.testing.assert_array_equal(sheet[:120, :160], picture)
    np.testing.assert_array_equal(sheet[120:, :160], picture)
    assert np.mean(sheet[:120, 160:] != picture) > 0.05
    assert np.all(sheet[120:, 160:] == 255)


def test_without_opengl_the_error_says_what_to_do(monkeypatch):
    def broken(name):
        if name == "mujoco":
            return mujoco
        raise OSError(f"no library for {name}")

    monkeypatch.setattr(mujoco_arm, "import_module", broken)
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with pytest.raises(HpsdeError, match=r"through osmesa \(no library .*MUJOCO_GL=egl .*libEGL"):
        render(KUKA_LWR, POLE, CENTRE, np.zeros(7))


def test_pictures_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="at most 1920 x 1440, got 4000 x 10"):
        render(KUKA_LWR, POLE, CENTRE, np.zeros(7), width=4000, height=10)
    with pytest.raises(InputError, match=r"goals must have shape \[1, 3\]"):
        render(KUKA_LWR, POLE, (0.0, 1.0), np.zeros(7))
