"""The gallery against mirror images, another simulator, closed forms and shots by hand."""

import runpy
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import hpsde
from hpsde.experiments import gallery as runs
from hpsde.experiments.gauntlet.rows import append_row, read_rows
from hpsde.plots.drawings import draw_task
from hpsde.tasks import coverage_and_surplus, make_task
from hpsde.tasks.gallery import GALLERY, Drone, billiards, drone, throw
from hpsde.tasks.gauntlet.score import score

EXAMPLE = Path(__file__).parent.parent / "examples" / "gallery.py"
ONE = np.ones(1)


def shot(cue, angle, speed, spin=0.0, friction=0.0):
    return billiards.shoot(cue * ONE, angle * ONE, speed * ONE, spin * ONE, friction)


@pytest.fixture(params=list(GALLERY))
def task(request):
    return make_task(request.param)


class Known:
    """A policy by hand: an option on every solution, the first is used."""

    def __init__(self, task):
        self.task = task

    def option_means(self, contexts):
        rows = np.asarray(contexts)
        return np.stack([np.nan_to_num(each.parameters(rows)) for each in self.task.solutions])

    def act(self, contexts):
        return self.option_means(contexts)[1]  # a lob is never in a wall's way


# Every task


def test_known_solutions_cover_the_task_exactly(task):
    found = score(task, Known(task))
    assert found["exact"]
    assert found["found"] == len(task.solutions) == {"b": 7, "t": 3, "d": 8}[task.name[0]]
    contexts = task.evaluation_contexts()
    means = Known(task).option_means(contexts)
    twice = coverage_and_surplus(task.solutions, contexts, np.stack([means[0], means[0]]))
    assert twice.coverage == pytest.approx(1.0 / len(task.solutions))


def test_no_first_rollout_earns_more_than_the_best(task):
    contexts = task.sample_contexts(jax.random.key(1), 5000)
    parameters = task.sample_initial(jax.random.key(2), contexts)
    returns, best = task.evaluate(contexts, parameters), task.best_returns(contexts)
    assert np.all(returns <= best + 1e-12)
    assert task.blind_return() == pytest.approx(returns.mean(), rel=0.1)
    followed = np.array([each.follows(contexts, parameters) for each in task.solutions])
    assert followed.sum(axis=0).max() == 1  # none belongs to two solutions
    np.testing.assert_array_equal(followed.any(axis=0) <= (task.measures(contexts, parameters)["success"] == 1), True)


def test_a_task_is_drawn_from_its_start_to_its_goal(task):
    contexts = task.evaluation_contexts()[:9]
    for each in task.solutions:
        valid = np.ones(9, dtype=bool) if each.valid is None else each.valid(contexts)
        drawn = draw_task(task, contexts[valid], each.parameters(contexts)[valid])
        np.testing.assert_allclose(drawn.lines[:, -1], drawn.goal, atol=1e-6)
        assert np.ptp(drawn.lines[:, 0, 0]) == 0.0
        place = drawn.drag.index(max(drawn.drag))
        if task.name[:5] != "drone":  # whose goal moves on
            np.testing.assert_array_equal(drawn.goal[:, place], contexts[valid][:, max(drawn.drag)])


@pytest.mark.parametrize("name", ["bank-shot", "throw", "drone"])
def test_the_example_pictures_all_solutions(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gallery.py", name, str(tmp_path / "picture.png")])
    runpy.run_path(str(EXAMPLE))
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert capsys.readouterr().out == f"{len(make_task(name).solutions)} solutions\n"


# Billiards


def test_a_shot_by_hand():
    found = shot(0.5, 45.0, 2.0)
    # 0.5 up to the cushion at x = 0.5; then down at the slope 0.85, 1.275 in the other 1.5: a second cushion.
    slow = np.sqrt(2.0**2 - 0.2 * np.sqrt(0.5))
    along = across = slow / np.sqrt(2.0)
    second = 0.5 + 1.0 / 0.85
    np.testing.assert_allclose(found.path[0, :3], [[0.0, 0.5], [0.5, 1.0], [second, 0.0]], atol=1e-12)
    np.testing.assert_allclose(found.path[0, -1], [2.0, 0.85**2 * (2.0 - second)], atol=1e-12)
    assert found.cushions[0] == 2
    square = along**2 + (0.85 * across) ** 2 - 0.2 * np.hypot(1.0, 1.0 / 0.85)
    share = 1.0 / (1.0 + 0.85**2)  # of the square of the speed, along the cushion
    square = square * (share + 0.85**2 * (1.0 - share)) - 0.2 * np.hypot(1.0, 0.85**2) * (2.0 - second)
    assert found.speed[0] == pytest.approx(np.sqrt(square), abs=1e-12)


def test_a_ball_stops_where_its_speed_is_spent():
    found = shot(0.5, 0.0, 0.5)
    np.testing.assert_allclose(found.path[0, -1], [0.5**2 / 0.2, 0.5])
    assert (found.speed[0], found.cushions[0]) == (0.0, 0)


@pytest.mark.parametrize("cushions", billiards.NAMES)
def test_mirror_images_are_hit(cushions):
    rng = np.random.default_rng(3)
    cue, target = rng.uniform(0.3, 0.7, (2, 100))
    angle = billiards.image_angles(cue, target, cushions)
    found = billiards.shoot(cue, angle, np.full(100, 5.0), np.zeros(100), 0.0)
    np.testing.assert_array_equal(found.cushions, cushions)
    np.testing.assert_allclose(found.path[:, -1], np.column_stack([np.full(100, 2.0), target]), atol=1e-9)
    np.testing.assert_allclose(billiards._angles(0.0, cue, billiards._unfolded(target, cushions)), angle, atol=1e-9)


def test_a_fine_search_over_all_angles_finds_one_shot_for_each_image():
    """At the best speed of each, every angle that hits the ball's middle is that of a mirror image."""
    angles = np.linspace(*billiards.ANGLES, 20_001)
    for cue, target in [(0.31, 0.44), (0.52, 0.5), (0.68, 0.35)]:
        found = billiards.shoot(np.full(20_001, cue), angles, np.full(20_001, 5.0), np.zeros(20_001), 0.0)
        miss = np.where(found.path[:, -1, 0] > 2.0 - 1e-9, found.path[:, -1, 1] - target, np.nan)
        hits = np.flatnonzero(miss[1:] * miss[:-1] <= 0.0)
        images = sorted(billiards.image_angles(cue * ONE, target * ONE, each)[0] for each in billiards.NAMES)
        assert len(hits) == len(images) == 7
        np.testing.assert_allclose(angles[hits], images, atol=0.01)


def test_friction_ends_the_sliding_and_gives_no_energy():
    rng = np.random.default_rng(5)
    velocity, turning = rng.uniform([-1.0, 0.1], [2.0, 2.0], (200, 2)), rng.uniform(-1.0, 1.0, 200)
    after, turned = billiards._bounce(velocity, turning, 100.0)
    np.testing.assert_allclose(after[:, 0], turned, atol=1e-12)  # the upper cushion: v_t = r w_z
    np.testing.assert_allclose(after[:, 1], -0.85 * velocity[:, 1])
    for friction in (0.0, 0.2, 100.0):
        after, turned = billiards._bounce(velocity, turning, friction)
        energy = np.sum(after**2, axis=1) + 0.4 * turned**2
        assert np.all(energy <= np.sum(velocity**2, axis=1) + 0.4 * turning**2 + 1e-12)
    below, turned_below = billiards._bounce(velocity * [1.0, -1.0], -turning, 0.2)
    above, turned_above = billiards._bounce(velocity, turning, 0.2)
    np.testing.assert_allclose(below, above * [1.0, -1.0])
    np.testing.assert_allclose(turned_below, -turned_above)


def test_spin_turns_the_rebound():
    ends = [shot(0.5, 35.0, 3.0, spin, 0.2).path[0, -1, 1] for spin in (-0.8, 0.0, 0.8)]
    assert len(np.unique(np.round(ends, 3))) == 3
    assert len({shot(0.5, 35.0, 3.0, spin, 0.0).path[0, -1, 1] for spin in (-0.8, 0.0, 0.8)}) == 1


@pytest.mark.parametrize("angle", [-64.0, -48.0, -20.0, 5.0, 30.0, 60.0])
def test_pooltool_sends_the_ball_the_same_way(angle):
    """An independent simulator: cushions that keep the speed along them, a cloth without friction."""
    path = _pooltool(0.4, angle, 2.0, sliding=1e-9, rolling=False)
    found = shot(0.4, angle, 2.0)
    assert len(path) == abs(found.cushions[0]) + 1
    np.testing.assert_allclose(path[:, :2], found.path[0, 1 : len(path) + 1], atol=1e-6)


@pytest.mark.parametrize("speed", [0.8, 2.0])
def test_pooltool_slows_a_rolling_ball_as_much(speed):
    path = _pooltool(0.4, 5.0, speed, sliding=0.2, rolling=True)
    assert shot(0.4, 5.0, speed).speed[0] == pytest.approx(path[0, 2], abs=1e-9)


def _pooltool(cue, angle, speed, sliding, rolling):
    """x, y and speed at each cushion up to the foot of pooltool's table, on which lengths are along its y."""
    pt = pytest.importorskip("pooltool", reason="pooltool is not installed: pip install pooltool-billiards")
    attrs = pytest.importorskip("attrs")
    from pooltool.objects.ball.params import BallParams
    from pooltool.objects.table.specs import BilliardTableSpecs
    from pooltool.physics.engine import PhysicsEngine
    from pooltool.physics.resolve.ball_cushion.unrealistic import UnrealisticLinear
    from pooltool.physics.resolve.resolver import Resolver

    r, behind = billiards.RADIUS, 0.5
    specs = BilliardTableSpecs(l=billiards.LENGTH + 2.0 * r + behind, w=billiards.WIDTH + 2.0 * r)
    kinds = BallParams(R=r, u_s=sliding, u_r=billiards.ROLLING / 9.81, e_c=billiards.RESTITUTION, g=9.81)
    ball = attrs.evolve(pt.Ball.create("cue", xy=(cue + r, behind + r)), params=kinds)
    v = speed * np.array([np.sin(np.radians(angle)), np.cos(np.radians(angle)), 0.0])
    w = np.array([-v[1], v[0], 0.0]) / r if rolling else np.zeros(3)
    ball.state.rvw, ball.state.s = np.array([[cue + r, behind + r, r], v, w]), 3 if rolling else 2
    system = pt.System(cue=pt.Cue.default(), table=pt.Table.from_table_specs(specs), balls={"cue": ball})
    engine = PhysicsEngine(resolver=attrs.evolve(Resolver.default(), ball_linear_cushion=UnrealisticLinear()))
    pt.simulate(system, engine=engine, inplace=True, max_events=12)
    path = []
    for event in system.events:
        if "cushion" in str(event.event_type).lower():
            place, velocity, _ = event.agents[0].initial.state.rvw
            path.append((place[1] - behind - r, place[0] - r, np.linalg.norm(velocity)))
            if path[-1][0] > billiards.LENGTH - 1e-6:
                break
    return np.array(path)


# Throw


def test_a_flight_against_small_steps():
    for distance, angle, speed in [(4.4, 8.0, 9.0), (4.4, 18.0, 9.0), (4.0, 74.0, 9.2), (3.6, 40.0, 11.0)]:
        found = throw.fly(distance * ONE, angle * ONE, speed * ONE)
        x, y, dt, off, at_wall = 0.0, throw.HAND, 1e-5, False, None
        vx, vy = speed * np.cos(np.radians(angle)), speed * np.sin(np.radians(angle))
        while y > throw.RIM or vy > 0.0:
            x, y, vy = x + vx * dt, y + vy * dt, vy - 9.81 * dt
            if at_wall is None and x >= throw.WALL:
                at_wall = y - throw.BALL
            board = distance + throw.BOARD
            if not off and x >= board and x - vx * dt < board and y <= throw.RIM + throw.BOARD_HEIGHT:
                off, vx = True, -throw.RESTITUTION * vx
        assert (bool(found.off_board[0]), found.x[0]) == (off, pytest.approx(x, abs=2e-3))
        assert found.at_wall[0] == pytest.approx(at_wall, abs=2e-3)


def test_a_fine_search_over_all_angles_finds_the_three_throws_and_no_other():
    task, angles = make_task("throw"), np.linspace(*throw.ANGLES, 20_001)
    for context in ([3.6, 0.8], [4.4, 1.2], [5.0, 0.9]):
        contexts = np.tile(context, (20_001, 1))
        parameters = np.column_stack([angles, np.full(20_001, throw.WANTED_SPEED)])
        miss = task.flights(contexts, parameters).x - context[0]
        near = np.flatnonzero((miss[1:] * miss[:-1] <= 0.0) & (np.abs(miss[1:]) < 0.1))
        known = sorted(each.parameters(contexts[:1])[0, 0] for each in task.solutions)
        np.testing.assert_allclose(angles[near], known, atol=0.01)


def test_a_high_wall_is_in_the_way_of_a_flat_throw_alone():
    task, contexts = make_task("throw"), np.array([[3.6, 1.8], [3.6, 0.8]])
    valid = {each.name: each.valid(contexts).tolist() for each in task.solutions}
    assert valid == {"flat": [False, True], "lob": [True, True], "backboard": [False, True]}
    flat = task.solutions[0].parameters(contexts)
    assert task.evaluate(contexts, flat)[0] < task.evaluate(contexts, flat)[1] == 1.0


# Drone


@pytest.mark.parametrize("size", [10, 25, 60])
def test_routes_are_splines_from_the_start_to_the_moving_goal(size):
    task = Drone(size)
    contexts = task.sample_contexts(jax.random.key(1), 5)
    y = task.heights(contexts, task.sample_initial(jax.random.key(2), contexts))
    np.testing.assert_allclose(y[:, 0], 0.0, atol=1e-12)
    np.testing.assert_allclose(y[:, -1], contexts[:, 0] + 10.0 * contexts[:, 1], atol=1e-12)
    # All splines add up to 1 between their ends, so that equal parameters lift the middle of a route by as much.
    lifted = task.heights(contexts, np.full((5, size), 0.7)) - task.heights(contexts, np.zeros((5, size)))
    np.testing.assert_allclose(lifted[:, 45:56], 0.7, atol=1e-12)


def test_the_return_of_a_route_by_hand():
    task = Drone()
    straight = task.evaluate([[0.0, 0.0]], np.zeros((1, 10)))
    # Through all three buildings, 0.6, 0.6 and 0.6 deep with the margin, at 9 or 8 of the 101 points each.
    points = drone._OVER.sum()
    assert straight[0] == pytest.approx(-20.0 * 0.1 * points * 0.6**2)
    wide = task.evaluate([[0.0, 0.0]], np.full((1, 10), 3.0))[0]
    y = task.heights([[0.0, 0.0]], np.full((1, 10), 3.0))[0]
    assert wide == pytest.approx(10.0 - np.sum(np.hypot(0.1, np.diff(y))))


def test_routes_are_named_by_sides():
    task = Drone()
    found = {each.name for each in task.solutions}
    assert found == {a + b + c for a in "LR" for b in "LR" for c in "LR"}
    up, down = np.full((1, 10), 2.0), np.full((1, 10), -2.0)
    assert task.names([[0.1, 0.0]] * 2, np.concatenate([up, down])).tolist() == ["LLL", "RRR"]


def test_nothing_near_a_known_route_is_better():
    task, context = Drone(), np.array([[0.5, 0.0]])
    rng = np.random.default_rng(4)
    for each in task.solutions:
        best = each.parameters(context)
        near = best + rng.normal(0.0, 0.03, (200, 10))
        assert task.evaluate(context, best)[0] >= task.evaluate(np.tile(context, (200, 1)), near).max() - 1e-6


@pytest.mark.parametrize("size", [9, 61])
def test_sizes_of_the_drone_that_make_no_sense_are_refused(size):
    with pytest.raises(hpsde.InputError, match="size"):
        Drone(size)


# Runs over seeds


def test_a_run_is_a_row_and_a_failed_one_too(tmp_path, monkeypatch):
    good = runs.execute(runs.GalleryJob("throw", 3, rollouts=200))
    assert "error" not in good.row
    monkeypatch.setattr(runs, "_learned", lambda job: 1 / 0)
    bad = runs.execute(runs.GalleryJob("throw", 4, rollouts=200))
    for each in (good, bad):
        append_row(tmp_path / "rows.csv", each.row)
    rows = read_rows(tmp_path / "rows.csv")
    assert [(row["seed"], row["found"] > 0, row["error"]) for row in rows] == [
        (3, good.row["found"] > 0, ""),
        (4, False, "ZeroDivisionError: division by zero"),
    ]
    share = 50.0 * good.row["coverage"]
    assert f"| `throw` | 2 | 200 | 3 | {share:.1f} % |" in runs.table(rows)
    assert "all failed" in runs.table(rows[1:])
