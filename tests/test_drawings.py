"""Pictures of tasks: lines, points and goals."""

import jax.numpy as jnp
import numpy as np
import pytest

import hpsde
from hpsde import tasks
from hpsde.plots.drawings import draw_task
from hpsde.tasks.kinematics import KUKA_LWR, flange_position


def test_an_arm_is_drawn_from_its_foot_to_its_flange():
    task = tasks.make_task("reach")
    q = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 7))
    goals = np.array([[0.6, 0.0, 0.5]] * 3)
    drawing = draw_task(task, goals, q)
    assert drawing.lines.shape == (3, 9, 3)
    assert np.all(drawing.lines[:, 0] == 0.0)
    flange = np.stack([np.asarray(x) for x in flange_position(KUKA_LWR, jnp.asarray(q))], axis=1)
    np.testing.assert_allclose(drawing.lines[:, -1], flange, atol=1e-6)
    assert drawing.drag == (0, 1, 2)
    np.testing.assert_array_equal(drawing.goal, goals)


def test_a_route_ends_at_its_goal_which_is_the_context():
    task = tasks.make_task("puddle")
    contexts = np.array([[-3.0], [2.0]])
    drawing = draw_task(task, contexts, np.zeros((2, 10)))
    np.testing.assert_allclose(drawing.goal, [[6.0, -3.0], [6.0, 2.0]])
    np.testing.assert_allclose(drawing.lines[:, -1], drawing.goal, atol=0.3)
    assert len(drawing.scene) == 5
    assert drawing.drag == (-1, 0)


class Own:
    """A task that draws itself."""

    def __init__(self, **found):
        self.found = found

    def draw(self, contexts, parameters):
        return self.found


def test_a_task_of_ones_own_draws_itself():
    lines = np.zeros((2, 4, 2))
    drawing = draw_task(Own(lines=lines, goal=np.ones((2, 2)), drag=(0, -1)), np.zeros((2, 1)), np.zeros((2, 3)))
    assert drawing.points.shape == (2, 0, 2)
    assert drawing.drag == (0, -1)
    assert draw_task(object(), np.zeros((2, 1)), np.zeros((2, 3))) is None


@pytest.mark.parametrize(
    "found",
    [
        *({}, {"line": np.zeros((2, 4, 2))}, {"lines": np.zeros((1, 4, 2))}, {"lines": np.zeros((2, 4, 5))}),
        *({"lines": np.full((2, 4, 2), np.nan)}, {"lines": np.zeros((2, 4, 2)), "goal": np.zeros((2, 3))}),
        *({"lines": np.zeros((2, 4, 2)), "points": np.zeros((2, 2))}, {"lines": np.zeros((2, 4, 2)), "drag": (1,)}),
        {"lines": np.zeros((2, 4, 2)), "scene": [np.zeros((3, 3))]},
    ],
)
def test_what_is_no_drawing_is_refused(found):
    with pytest.raises(hpsde.InputError, match="draw: "):
        draw_task(Own(**found), np.zeros((2, 1)), np.zeros((2, 3)))
