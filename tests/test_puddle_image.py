"""The puddle world in pictures: what is drawn is what is there, and rollouts run in what is behind a picture."""

import jax
import numpy as np
import pytest

from hpsde import InputError
from hpsde.tasks import MovingGaps, PuddleImage, make_task
from hpsde.tasks.puddle import GAPS, PUDDLES, WALL, Puddle
from hpsde.tasks.puddle_image import BOTTOM, GOAL_HEIGHT, GOAL_X, HALVES, MIDDLES, TOP, WIDTH

KEYS = jax.random.split(jax.random.key(4), 3)


def moved(s):
    """The puddle task's own wall, as `MovingGaps` is told of it."""
    return np.concatenate([s, np.tile(MIDDLES, (len(s), 1))], axis=1)


def drawn_by_points(true, pixels, fine=40):
    """A picture by what lies at fine x fine points of every pixel."""
    at = (np.arange(pixels * fine) + 0.5) / (pixels * fine)
    x, y = WIDTH * at[None, :], BOTTOM + (TOP - BOTTOM) * at[:, None]
    free = np.any([np.abs(y - middle) <= half for middle, half in zip(true[1:], HALVES, strict=True)], axis=0)
    values = np.where((WALL[0] < x) & (x < WALL[1]) & ~free, 0.5, 0.0)
    goal = (GOAL_X[0] < x) & (x < GOAL_X[1]) & (np.abs(y - true[0]) < 0.5 * GOAL_HEIGHT)
    return np.where(goal, 1.0, values).reshape(pixels, fine, pixels, fine).mean(axis=(1, 3))


@pytest.mark.parametrize("pixels", [16, 32])
def test_a_pixel_has_the_mean_of_what_it_covers(pixels):
    true = MovingGaps().sample_contexts(KEYS[0], 5)
    pictures = PuddleImage(pixels, moving=True).render(true)
    for picture, each in zip(pictures, true, strict=True):
        # Points that lie 1/40 of a pixel apart say where an edge is to as much, in x and in y.
        np.testing.assert_allclose(picture, drawn_by_points(each, pixels), atol=0.03)


@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("pixels", [16, 32, 61, 64])
def test_what_is_behind_a_picture_is_read_off_it(pixels, moving):
    task = PuddleImage(pixels, moving)
    true = task.behind.sample_contexts(KEYS[0], 300)
    pictures = task.render(true)
    assert pictures.shape == (300, pixels, pixels)
    assert pictures.min() >= 0.0
    assert pictures.max() <= 1.0
    np.testing.assert_allclose(task.true_contexts(pictures), true, atol=1e-11)
    np.testing.assert_array_equal(task.sample_contexts(KEYS[0], 300), pictures.reshape(300, -1))


@pytest.mark.parametrize("moving", [False, True])
def test_rollouts_are_those_of_the_task_behind(moving):
    task = PuddleImage(32, moving)
    true = task.behind.sample_contexts(KEYS[0], 60)
    pictures, parameters = task.sample_contexts(KEYS[0], 60), task.behind.sample_initial(KEYS[1], true)
    np.testing.assert_allclose(task.sample_initial(KEYS[1], pictures), parameters, rtol=1e-9)
    for name in ("evaluate", "log_initial", "routes"):
        expected = getattr(task.behind, name)(true, parameters)
        np.testing.assert_allclose(getattr(task, name)(pictures, parameters), expected, rtol=1e-7)
    for name, values in task.measures(pictures, parameters).items():
        np.testing.assert_allclose(values, task.behind.measures(true, parameters)[name], rtol=1e-7)
    names = [solution.name for solution in task.solutions]
    assert names == list(GAPS)
    follows = [
        [each.follows(with_, parameters) for each in of.solutions]
        for of, with_ in ((task, pictures), (task.behind, true))
    ]
    np.testing.assert_array_equal(*follows)


def test_a_wall_that_has_not_moved_is_that_of_the_puddle_task():
    puddle, moving = Puddle(), MovingGaps()
    s = puddle.sample_contexts(KEYS[0], 400)
    parameters = puddle.sample_initial(KEYS[1], s)
    for name in ("evaluate", "log_initial", "collisions", "gaps"):
        np.testing.assert_array_equal(getattr(moving, name)(moved(s), parameters), getattr(puddle, name)(s, parameters))
    assert len(np.unique(puddle.gaps(s, parameters))) == 5


def test_gaps_move_and_so_do_the_routes_through_them():
    task = MovingGaps()
    contexts = task.sample_contexts(KEYS[0], 200)
    np.testing.assert_allclose(contexts[:, 1:].mean(axis=0), MIDDLES, atol=0.1)
    assert np.all(np.abs(contexts[:, 1:] - MIDDLES) <= 0.4)
    assert np.all(contexts[:, 1:].std(axis=0) > 0.2)
    for number, solution in enumerate(task.solutions):
        parameters = solution.parameters(contexts)
        np.testing.assert_array_equal(task.gaps(contexts, parameters), number)
        np.testing.assert_array_equal(task.collisions(contexts, parameters), 0)
        # Where another's gaps are it leads into puddles.
        assert np.mean(task.collisions(contexts[::-1], parameters) > 0) > 0.1
    y = task.routes(contexts, parameters)[:, 50, 1]
    assert PUDDLES[0][0] < y.min() < y.max() < PUDDLES[-1][1]


def test_a_picture_does_not_depend_on_the_others():
    task = make_task("puddle-image-moving-32")
    pictures = task.sample_contexts(KEYS[2], 20)
    true = task.true_contexts(pictures)
    for n in range(20):
        np.testing.assert_array_equal(task.render(true[n : n + 1])[0], task.render(true)[n])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p[:, :-1], r"contexts must have shape \[N, 1024\]; got \[3, 1023\]"),
        (lambda p: p.reshape(3, 16, 64), r"contexts must have shape \[N, 1024\]; got \[3, 16, 64\]"),
        (lambda p: np.where(np.arange(3)[:, None] == 1, np.nan, p), "contexts must be finite.* row 1 is"),
        (lambda p: np.full_like(p, 0.5), r"must be pictures that puddle-image-32 draws .*; row 0 is none \(3 such\)"),
        (lambda p: 255.0 * p, r"row 0 is none \(3 such\)"),
        (lambda p: p + 0.01 * (np.arange(3)[:, None] == 2), r"row 2 is none \(1 such\)"),
        (lambda p: p[:, ::-1], r"row 0 is none"),
        (lambda p: [["a"]], "contexts must be numbers"),
    ],
)
def test_other_pictures_are_refused(change, message):
    task = PuddleImage(32)
    pictures = task.sample_contexts(KEYS[0], 3)
    with pytest.raises(InputError, match=message):
        task.evaluate(change(pictures), np.zeros((3, 10)))


@pytest.mark.parametrize(
    ("pixels", "message"), [(15, "at least 16; got 15"), (2000, "at most 1024; got 2000"), (True, "whole number")]
)
def test_sizes_that_cannot_be_are_refused(pixels, message):
    with pytest.raises(InputError, match=message):
        PuddleImage(pixels)
