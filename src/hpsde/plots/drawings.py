"""What a task looks like in one context with given parameters: lines, points, a goal that can be dragged.

A task of your own draws itself by a method `draw(contexts, parameters)`; routes and arms are drawn here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hpsde.base.shapes import Array
from hpsde.errors import InputError
from hpsde.tasks.kinematics import Arm, flange_position, joint_origins

ROUTE_POINTS = 50
"""Of a route that is shown."""
NAMES = ("lines", "points", "goal", "scene", "drag")


class Drawing(NamedTuple):
    """Pictures of N rollouts in a plane (P = 2) or in space (P = 3).

    lines [N, K, P]: a line through K points. points [N, M, P]: drawn as dots. goal [N, P] or None: drawn as a cross.
    scene: outlines [K, P] that are the same in all. drag: for each coordinate of the goal the place of the context
    number that it is, or -1: these can be dragged.
    """

    lines: np.ndarray
    points: np.ndarray
    goal: np.ndarray | None
    scene: tuple[np.ndarray, ...]
    drag: tuple[int, ...]


def draw_task(task: Any, contexts: np.ndarray, parameters: np.ndarray) -> Drawing | None:
    """Pictures of rollouts with parameters [N, D] in contexts [N, S]; None of a task that cannot be drawn."""
    if hasattr(task, "draw"):
        return _checked(task.draw(contexts, parameters), len(contexts))
    draw = {"postures": _arm, "puddle": _routes, "rover": _routes}.get(getattr(task, "figure", ""))
    return None if draw is None else draw(task, contexts, parameters)


def _checked(found: Any, count: int) -> Drawing:
    """What a task's own `draw` gave."""
    if not isinstance(found, Mapping) or "lines" not in found or set(found) - set(NAMES):
        raise InputError(f"draw: expected a dictionary with lines, and at most {', '.join(NAMES[1:])} beside them")
    lines = np.asarray(found["lines"], dtype=float)
    if lines.ndim != 3 or len(lines) != count or lines.shape[2] not in (2, 3):
        raise InputError(f"draw: lines must have shape [{count}, K, 2] or [{count}, K, 3]; got {list(lines.shape)}")
    size = lines.shape[2]
    points = np.asarray(found.get("points", np.zeros((count, 0, size))), dtype=float)
    goal = None if found.get("goal") is None else np.asarray(found["goal"], dtype=float)
    scene = tuple(np.asarray(outline, dtype=float) for outline in found.get("scene", ()))
    drag = tuple(int(place) for place in found.get("drag", ()))
    right = (
        points.shape[0::2] == (count, size) and points.ndim == 3 and all(each.shape[1:] == (size,) for each in scene)
    )
    right &= (goal is None or goal.shape == (count, size)) and len(drag) in (0, size)
    if not right or not all(np.all(np.isfinite(each)) for each in (lines, points, *scene)):
        raise InputError(
            f"draw: expected points [{count}, M, {size}], a goal [{count}, {size}], a scene of outlines [K, {size}] "
            f"and {size} places to drag, all of them finite"
        )
    return Drawing(lines, points, goal, scene, drag)


def _arm(task: Any, contexts: np.ndarray, parameters: np.ndarray) -> Drawing:
    """The joints of an arm from its foot to its flange, and its pole."""
    places = np.asarray(_corners(task.arm, jnp.asarray(parameters)))  # [J + 1, 3, N]
    lines = np.concatenate([np.zeros((len(contexts), 1, 3)), places.transpose(2, 0, 1)], axis=1)
    pole, height = task.pole, 1.2 * float(np.max(np.abs(task.evaluation_contexts()[:, 2])))
    angles = np.linspace(0.0, 2.0 * np.pi, 25)
    circle = np.stack([pole.x + pole.radius * np.cos(angles), pole.y + pole.radius * np.sin(angles)], axis=1)
    rings = [np.column_stack([circle, np.full(len(circle), z)]) for z in np.linspace(0.0, height, 4)]
    posts = [np.array([[*circle[i], 0.0], [*circle[i], height]]) for i in range(0, 24, 6)]
    return Drawing(lines, lines, contexts.copy(), (*rings, *posts), (0, 1, 2))


@partial(jax.jit, static_argnums=0)
def _corners(arm: Arm, q: Array) -> Array:
    """The coordinates of an arm's joints and of its flange [J + 1, 3, N]."""
    return jnp.array([*joint_origins(arm, q), flange_position(arm, q)])


def _routes(task: Any, contexts: np.ndarray, parameters: np.ndarray) -> Drawing:
    """A route in the plane, and the puddles that it is to avoid."""
    routes = np.asarray(task.routes(contexts, parameters))
    shown = routes[:, np.linspace(0, routes.shape[1] - 1, ROUTE_POINTS).round().astype(int)]
    none = np.zeros((len(shown), 0, 2))
    if not hasattr(task, "wall"):
        return Drawing(shown, none, None, (), ())
    (start, end), puddles, _ = task.wall
    low, high = float(contexts[:, 0].min(initial=-5.0)) - 1.5, float(contexts[:, 0].max(initial=6.0)) + 2.0
    boxes = [(max(a, low), min(b, high)) for a, b in puddles]
    scene = tuple(np.array([[start, a], [end, a], [end, b], [start, b], [start, a]]) for a, b in boxes)
    goal = np.column_stack([np.full(len(contexts), 6.0), contexts[:, 0]])
    return Drawing(shown, none, goal, scene, (-1, 0))
