"""A throw over a wall into a basket: flat, as a lob, or off the backboard.

A ball leaves the hand at (0, 1.5 m). A wall stands at x = 2 m. The rim of a basket is at the height of 1 m, its middle
at the distance d; 0.6 m behind that stands a board, 1.2 m high from the rim upwards. The context is (d, the height h of
the wall). The parameters are the angle of the throw in degrees and its speed in m/s. The ball flies without drag; the
board turns the speed v_x into -0.7 v_x.

With the place x where the ball falls through the height of the rim, and the depth p by which it is too low at the wall,
    R = exp(-(x - d)^2 / 2 MISS^2) exp(-p^2 / 2 DEPTH^2) exp(-(speed - 9)^2 / 2 EFFORT^2) :
nine metres a second is what the arm likes best. At that speed there is one angle each for a flat throw, a lob, and a
throw off the board with which all factors are 1, unless the wall is in the way. A lob falls too steeply to come off the
board into the basket: it would have to meet the board above its upper edge.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hpsde.base.distributions import Uniform
from hpsde.base.shapes import Float
from hpsde.tasks.gauntlet.known import KnownTask
from hpsde.tasks.solutions import Solution

__all__ = ["Flights", "Throw", "fly", "throw_task"]

GRAVITY = 9.81
HAND, RIM, WALL = 1.5, 1.0, 2.0
BALL, OPENING = 0.1, 0.3
"""Radii of the ball and of the rim: the middle of the ball passes within 0.2 of the rim's middle."""
BOARD, BOARD_HEIGHT, RESTITUTION = 0.6, 1.2, 0.7
MISS, DEPTH, EFFORT, WANTED_SPEED = 0.3, 0.2, 1.5, 9.0
DISTANCES, HEIGHTS = (3.5, 5.0), (0.8, 1.8)
ANGLES, SPEEDS = (0.0, 85.0), (6.0, 12.0)
POINTS = 60
"""Of a flight that is drawn."""
DOTS = 12
"""Along a wall that is drawn."""
FLAT, LOB, OFF_BOARD = "flat", "lob", "backboard"
STEEP = 50.0
"""Degrees from which a throw is a lob; between the two angles at one speed lies that of the farthest throw, 47."""


class Flights(NamedTuple):
    """N flights: the seconds until they fall through the rim's height, x there, whether they met the board before, and
    the height of the ball's lower edge at the wall, each [N].
    """

    seconds: np.ndarray
    x: np.ndarray
    off_board: np.ndarray
    at_wall: np.ndarray


def fly(distance: Float[np.ndarray, " N"], angle: Float[np.ndarray, " N"], speed: Float[np.ndarray, " N"]) -> Flights:
    """Flights at a basket at each distance, angles in degrees."""
    right, up = speed * np.cos(np.radians(angle)), speed * np.sin(np.radians(angle))
    seconds = (up + np.sqrt(up**2 + 2.0 * GRAVITY * (HAND - RIM))) / GRAVITY
    board = distance + BOARD
    meets = board / right
    at_board = _height(up, meets) - RIM
    off = (meets < seconds) & (at_board >= 0.0) & (at_board <= BOARD_HEIGHT)
    beyond = right * seconds - board
    x = np.where(off, board - RESTITUTION * beyond, board + beyond)
    at_wall = _height(up, WALL / right) - BALL
    return Flights(seconds, x, off, at_wall)


def _height(up: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    return HAND + up * seconds - 0.5 * GRAVITY * seconds**2


class Throw(KnownTask):
    """The task; see the top of the file."""

    def flights(self, contexts: Any, parameters: Any) -> Flights:
        """Flights with parameters [N, 2] in contexts [N, 2]."""
        s, xi = self._checked(contexts, parameters)
        return fly(s[:, 0], xi[:, 0], xi[:, 1])

    def ways(self, contexts: Any, parameters: Any) -> np.ndarray:
        """The way each ball takes by name [N], whether or not it meets the basket."""
        flights = self.flights(contexts, parameters)
        direct = np.where(np.asarray(parameters)[:, 0] >= STEEP, LOB, FLAT)
        return np.where(flights.off_board, OFF_BOARD, direct)

    def measures(self, contexts: Any, parameters: Any) -> dict[str, np.ndarray]:
        """`success`, 1 where the ball passes the wall and falls into the basket."""
        return {"success": _is_in(self, contexts, parameters).astype(float)}

    def draw(self, contexts: Any, parameters: Any) -> dict[str, Any]:
        """The flight, the basket as a goal, and wall, board and rim as dots."""
        rows, xi = self._checked(contexts, parameters)
        flights = fly(rows[:, 0], xi[:, 0], xi[:, 1])
        right, up = (xi[:, 1] * f(np.radians(xi[:, 0])) for f in (np.cos, np.sin))
        at = np.linspace(0.0, 1.0, POINTS) * flights.seconds[:, None]
        x, board = right[:, None] * at, (rows[:, 0] + BOARD)[:, None]
        turned = flights.off_board[:, None] & (x > board)
        x = np.where(turned, board - RESTITUTION * (x - board), x)
        return {
            "lines": np.stack([x, _height(up[:, None], at)], axis=-1),
            "points": _obstacles(rows),
            "goal": np.column_stack([rows[:, 0], np.full(len(rows), RIM)]),
            "scene": (np.array([[0.0, 0.0], [DISTANCES[1] + 1.0, 0.0]]), np.array([[0.0, 0.0], [0.0, HAND]])),
            "drag": (0, -1),
        }


def _obstacles(contexts: np.ndarray) -> Float[np.ndarray, "N M 2"]:
    """Dots along the wall, along the board, and at the ends of the rim."""
    distance, share, one = contexts[:, :1], np.linspace(0.0, 1.0, DOTS), np.ones((len(contexts), DOTS))
    wall = np.stack([WALL * one, contexts[:, 1:] * share], axis=-1)
    board = np.stack([(distance + BOARD) * one, (RIM + BOARD_HEIGHT * share) * one], axis=-1)
    rim = np.stack([distance + OPENING * np.array([-1.0, 1.0]), np.full((len(contexts), 2), RIM)], axis=-1)
    return np.concatenate([wall, board, rim], axis=1)


def _misses(contexts: np.ndarray, flights: Flights) -> tuple[np.ndarray, np.ndarray]:
    """From the rim's middle, and by how much the ball is too low at the wall, [N]."""
    return flights.x - contexts[:, 0], np.maximum(contexts[:, 1] - flights.at_wall, 0.0)


def _returns(contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    miss, depth = _misses(contexts, fly(contexts[:, 0], parameters[:, 0], parameters[:, 1]))
    effort = (parameters[:, 1] - WANTED_SPEED) / EFFORT
    return np.exp(-0.5 * ((miss / MISS) ** 2 + (depth / DEPTH) ** 2 + effort**2))


def _is_in(task: Throw, contexts: Any, parameters: Any) -> np.ndarray:
    miss, depth = _misses(np.asarray(contexts, dtype=float), task.flights(contexts, parameters))
    return (np.abs(miss) <= OPENING - BALL) & (depth == 0.0)


def _angles(reach: np.ndarray, high: bool) -> Float[np.ndarray, " N"]:
    """Degrees with which a ball at the wanted speed falls through the rim's height at x = reach; NaN: with none.

    With t = tan(angle) and k = g x^2 / 2 v^2, that is k t^2 - x t + k - (HAND - RIM) = 0.
    """
    k = 0.5 * GRAVITY * (reach / WANTED_SPEED) ** 2
    root = reach**2 - 4.0 * k * (k - (HAND - RIM))
    with np.errstate(invalid="ignore"):
        return np.degrees(np.arctan((reach + (1.0 if high else -1.0) * np.sqrt(root)) / (2.0 * k)))


def _best(name: str, contexts: np.ndarray) -> Float[np.ndarray, "N 2"]:
    """The throw by that way that earns 1, if nothing is in its way. Off the board it leads as far behind that, without
    it, as the board sends it back.
    """
    behind = BOARD + BOARD / RESTITUTION if name == OFF_BOARD else 0.0
    angle = _angles(contexts[:, 0] + behind, name == LOB)
    return np.column_stack([angle, np.full(len(angle), WANTED_SPEED)])


def throw_task() -> Throw:
    """The task `throw`."""

    def solution(name: str) -> Solution:
        def follows(contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
            return _is_in(task, contexts, parameters) & (task.ways(contexts, parameters) == name)

        def valid(contexts: np.ndarray) -> np.ndarray:
            return follows(contexts, _best(name, contexts))

        return Solution(name, follows, valid, partial(_best, name))

    task = Throw(
        function=_returns,
        contexts=Uniform([DISTANCES[0], HEIGHTS[0]], [DISTANCES[1], HEIGHTS[1]]),
        initial=Uniform([ANGLES[0], SPEEDS[0]], [ANGLES[1], SPEEDS[1]]),
        name="throw",
        batched=True,
        description="over a wall into a basket: flat, as a lob, or off the backboard",
        initial_rollouts=900,
        rollouts=1500,
        best=lambda contexts: np.ones(len(contexts)),
        solutions=tuple(map(solution, (FLAT, LOB, OFF_BOARD))),
    )
    return task
