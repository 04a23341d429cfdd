"""Bank shots: a cue ball is to hit an object ball straight, or by way of one, two or three cushions.

The table is 2 m long and 1 m wide, measured where the middle of a ball can be. The cue ball lies at (0, c). The object
ball touches the foot cushion, its middle at (2, o). The context is (c, o). The parameters are the angle of the shot in
degrees, upwards from the length of the table, and its speed. `bank-shot-spin` adds side spin, the speed of the ball's
equator as a share of that of its middle, positive where it turns counterclockwise.

- A ball rolls along a line and loses ROLLING of speed a second; its spin falls with its speed.
- A cushion turns the speed v_n across it into -RESTITUTION v_n. With friction it also pulls at the surface of the ball,
  which slides along it with u = v_t - r w_z (lower cushion: v_t + r w_z). It takes 2/7 u from v_t, which ends the
  sliding, but at most friction (1 + RESTITUTION) |v_n|. `bank-shot` has no friction: the speed along a cushion stays.
- A shot ends at the foot cushion, where the ball stops, and at the head cushion.

With the place p where it ends, the speed v there, and d = |p - (2, o)|,
    R = exp(-d^2 / 2 MISS^2) exp(-(v - 1)^2 / 2 SPEED^2),
so that a full hit at 1 m/s earns 1, the best return.

Without friction all paths are straight lines to mirror images of the object ball: across every cushion that is met the
table is mirrored, and stretched by 1 / RESTITUTION. So there is one best shot for each sequence of cushions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hpsde.base.distributions import Uniform
from hpsde.base.shapes import Float, Int
from hpsde.tasks.gauntlet.known import KnownTask
from hpsde.tasks.solutions import Solution

__all__ = ["BankShot", "Shots", "bank_shot", "bank_shot_spin", "image_angles", "shoot"]

LENGTH, WIDTH, RADIUS = 2.0, 1.0, 0.03
RESTITUTION, ROLLING, FRICTION = 0.85, 0.1, 0.2
WANTED_SPEED, MISS, SPEED = 1.0, 0.15, 0.5
PLACES = (0.3, 0.7)
"""Between which both balls lie across the table."""
ANGLES, SPEEDS, SPINS = (-67.0, 67.0), (0.5, 4.0), (-0.8, 0.8)
BOUNCES = 6
"""More cushions end a shot; no angle between the bounds meets so many without spin."""
HALVINGS = 60
NAMES = {
    0: "direct",
    1: "upper",
    -1: "lower",
    2: "upper-lower",
    -2: "lower-upper",
    3: "upper-lower-upper",
    -3: "lower-upper-lower",
}
"""By the number of cushions, negative where the lower one is met first."""


class Shots(NamedTuple):
    """Where N shots lead. path [N, BOUNCES + 2, 2]: corners, the last one repeated. cushions [N]: how many are met,
    negative where the lower one is met first. speed [N]: at the end.
    """

    path: np.ndarray
    cushions: np.ndarray
    speed: np.ndarray


def shoot(
    cue: Float[np.ndarray, " N"],
    angle: Float[np.ndarray, " N"],
    speed: Float[np.ndarray, " N"],
    spin: Float[np.ndarray, " N"],
    friction: float,
) -> Shots:
    """Shots from (0, cue), angles in degrees, one straight piece after the other."""
    place = np.stack([np.zeros_like(cue), cue], axis=1)
    velocity = speed[:, None] * np.stack([np.cos(np.radians(angle)), np.sin(np.radians(angle))], axis=1)
    turning, moving = spin * speed, np.ones(len(cue), dtype=bool)
    path, cushions, upwards = [place], np.zeros(len(cue), dtype=int), velocity[:, 1] >= 0.0
    for _ in range(BOUNCES + 1):
        ahead, at_side = _piece(place, velocity)
        place = place + np.where(moving, ahead, 0.0)[:, None] * _direction(velocity)
        kept = np.where(moving, _kept(velocity, ahead), 1.0)
        velocity, turning = kept[:, None] * velocity, kept * turning
        moving &= at_side
        cushions += moving
        bounced, turned = _bounce(velocity, turning, friction)
        velocity, turning = np.where(moving[:, None], bounced, velocity), np.where(moving, turned, turning)
        path.append(place)
    return Shots(np.stack(path, axis=1), np.where(upwards, cushions, -cushions), np.linalg.norm(velocity, axis=1))


def _direction(velocity: np.ndarray) -> np.ndarray:
    return velocity / np.maximum(np.linalg.norm(velocity, axis=1, keepdims=True), 1e-300)


def _piece(place: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far balls go until something happens, [N], and whether that is a cushion along the table."""
    (x, y), (right, up) = place.T, _direction(velocity).T
    with np.errstate(divide="ignore", invalid="ignore"):
        end = np.where(right == 0.0, np.inf, np.where(right > 0.0, LENGTH - x, -x) / right)
        side = np.where(up == 0.0, np.inf, np.where(up > 0.0, WIDTH - y, -y) / up)
    stop = np.sum(velocity**2, axis=1) / (2.0 * ROLLING)
    return np.minimum(np.minimum(end, side), stop), side < np.minimum(end, stop)


def _kept(velocity: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """The share of its speed that a ball has after a distance: v'^2 = v^2 - 2 ROLLING distance."""
    square = np.sum(velocity**2, axis=1)
    return np.sqrt(np.maximum(1.0 - 2.0 * ROLLING * distance / np.maximum(square, 1e-300), 0.0))


def _bounce(velocity: np.ndarray, turning: np.ndarray, friction: float) -> tuple[np.ndarray, np.ndarray]:
    """Velocity and turning r w_z after a cushion along the table, towards which the ball moves."""
    along, across = velocity.T
    side = np.where(across > 0.0, -1.0, 1.0)  # the surface at the upper cushion moves with v_t - r w_z
    most = friction * (1.0 + RESTITUTION) * np.abs(across)
    pull = -np.clip(2.0 / 7.0 * (along + side * turning), -most, most)
    return np.stack([along + pull, -RESTITUTION * across], axis=1), turning + 2.5 * side * pull


def image_angles(
    cue: Float[np.ndarray, " N"], target: Float[np.ndarray, " N"], cushions: int
) -> Float[np.ndarray, " N"]:
    """Angles in degrees from (0, cue) to the mirror image of (LENGTH, target) behind so many cushions, no friction.

    The ball goes a height h_0 up to the first cushion, the WIDTH between two, and h_k from the last one to the target,
    in the k-th piece at the slope RESTITUTION^k tan(angle): tan(angle) LENGTH = h_0 + ... + h_k / RESTITUTION^k.
    """
    k, sign = abs(cushions), np.sign(cushions)
    if k == 0:
        return np.degrees(np.arctan((target - cue) / LENGTH))
    first = WIDTH - cue if sign > 0 else cue
    last = WIDTH - target if (sign > 0) == (k % 2 == 1) else target  # the last cushion is the upper one
    between = sum(WIDTH / RESTITUTION**piece for piece in range(1, k))
    return np.degrees(np.arctan(sign * (first + between + last / RESTITUTION**k) / LENGTH))


@dataclass(frozen=True, eq=False)
class BankShot(KnownTask):
    """The task; see the top of the file. `friction` is that of the cushions."""

    friction: float = 0.0

    def shots(self, contexts: Any, parameters: Any) -> Shots:
        """Where shots with parameters [N, 2 or 3] lead in contexts [N, 2]."""
        s, xi = self._checked(contexts, parameters)
        return _shots(self.friction, s, xi)

    def cushions(self, contexts: Any, parameters: Any) -> Int[np.ndarray, " N"]:
        """How many cushions each shot meets, negative where the lower one comes first."""
        return self.shots(contexts, parameters).cushions

    def measures(self, contexts: Any, parameters: Any) -> dict[str, np.ndarray]:
        """`success`, 1 where the object ball is hit at the wanted speed, and the `miss` in metres."""
        miss, _ = _misses(np.asarray(contexts, dtype=float), self.shots(contexts, parameters))
        return {"success": _hits(self, contexts, parameters).astype(float), "miss": miss}

    def draw(self, contexts: Any, parameters: Any) -> dict[str, Any]:
        """The path of the cue ball, where both balls lie, and the table."""
        rows = np.asarray(contexts, dtype=float)
        objects = np.column_stack([np.full(len(rows), LENGTH), rows[:, 1]])
        cues = np.column_stack([np.zeros(len(rows)), rows[:, 0]])
        table = np.array([[0.0, 0.0], [LENGTH, 0.0], [LENGTH, WIDTH], [0.0, WIDTH], [0.0, 0.0]])
        return {
            "lines": self.shots(rows, parameters).path,
            "points": cues[:, None],
            "goal": objects,
            "scene": (table,),
            "drag": (-1, 1),
        }


def _shots(friction: float, contexts: np.ndarray, parameters: np.ndarray) -> Shots:
    angle, speed = parameters[:, 0], parameters[:, 1]
    spin = parameters[:, 2] if parameters.shape[1] == 3 else np.zeros(len(parameters))
    return shoot(contexts[:, 0], angle, speed, spin, friction)


def _misses(contexts: np.ndarray, shots: Shots) -> tuple[np.ndarray, np.ndarray]:
    """How far from the object ball's middle shots end, and how much their speeds differ from the wanted one: [N]."""
    end = shots.path[:, -1]
    return np.hypot(end[:, 0] - LENGTH, end[:, 1] - contexts[:, 1]), shots.speed - WANTED_SPEED


def _returns(friction: float, contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    miss, off = _misses(contexts, _shots(friction, contexts, parameters))
    return np.exp(-0.5 * (miss / MISS) ** 2 - 0.5 * (off / SPEED) ** 2)


def _hits(task: BankShot, contexts: Any, parameters: Any) -> np.ndarray:
    miss, off = _misses(np.asarray(contexts, dtype=float), task.shots(contexts, parameters))
    return (miss <= 2.0 * RADIUS) & (np.abs(off) <= SPEED)


def _solved(friction: float, size: int, cushions: int, contexts: np.ndarray) -> Float[np.ndarray, "N D"]:
    """The shot without spin that meets so many cushions and earns 1; NaN where there is none between the bounds."""
    cue, target = contexts.T
    if friction == 0.0:
        angle = image_angles(cue, target, cushions)
    else:
        angle = _angles(friction, cue, _unfolded(target, cushions))
    angle = np.where(np.abs(angle) <= ANGLES[1], angle, np.nan)
    # The speed at the end is v'^2 = a v^2 - b on a path, whatever v: two fast shots say a and b.
    squares = [shoot(cue, angle, np.full(len(cue), v), np.zeros(len(cue)), friction).speed ** 2 for v in (20.0, 40.0)]
    a = (squares[1] - squares[0]) / (40.0**2 - 20.0**2)
    speed = np.sqrt((WANTED_SPEED**2 + a * 20.0**2 - squares[0]) / a)
    speed = np.where((speed >= SPEEDS[0]) & (speed <= SPEEDS[1]), speed, np.nan)
    found = np.column_stack([angle, speed, np.zeros(len(cue))])[:, :size]
    return np.where(np.any(np.isnan(found), axis=1, keepdims=True), np.nan, found)


def _unfolded(height: Any, cushions: Any) -> np.ndarray:
    """The height of the mirror image of (x, height) behind so many cushions, without stretching."""
    even = np.asarray(cushions) % 2 == 0
    return np.where(even, cushions * WIDTH + height, (cushions + 1) * WIDTH - height)


def _angles(friction: float, cue: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Angles that lead to unfolded heights, by halving: these rise with the angle. NaN: none between the bounds."""

    def reached(angle: np.ndarray) -> np.ndarray:
        shots = shoot(cue, angle, np.full(len(cue), 40.0), np.zeros(len(cue)), friction)
        return _unfolded(shots.path[:, -1, 1], shots.cushions)

    low, high = (np.full(len(cue), bound) for bound in ANGLES)
    inside = (reached(low) <= wanted) & (wanted <= reached(high))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        below = reached(middle) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(inside, 0.5 * (low + high), np.nan)


def _make(name: str, friction: float, initial: Uniform, description: str, **extras: Any) -> BankShot:
    best = partial(_solved, friction, initial.size)

    def solution(cushions: int) -> Solution:
        def follows(contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray:
            return _hits(task, contexts, parameters) & (task.cushions(contexts, parameters) == cushions)

        def valid(contexts: np.ndarray) -> np.ndarray:
            return ~np.isnan(best(cushions, contexts)[:, 0])

        return Solution(NAMES[cushions], follows, valid, partial(best, cushions))

    task = BankShot(
        function=partial(_returns, friction),
        contexts=Uniform([PLACES[0]] * 2, [PLACES[1]] * 2),
        initial=initial,
        name=name,
        batched=True,
        description=description,
        best=lambda contexts: np.ones(len(contexts)),
        solutions=tuple(solution(cushions) for cushions in NAMES),
        friction=friction,
        **extras,
    )
    return task


def bank_shot() -> BankShot:
    """The task `bank-shot`: angle and speed."""
    bounds = Uniform([ANGLES[0], SPEEDS[0]], [ANGLES[1], SPEEDS[1]])
    description = "billiards: hit a ball straight or by up to three cushions; 7 ways"
    return _make("bank-shot", 0.0, bounds, description, initial_rollouts=900, rollouts=1500)


def bank_shot_spin() -> BankShot:
    """The task `bank-shot-spin`: angle, speed and side spin, on cushions with friction."""
    bounds = Uniform([ANGLES[0], SPEEDS[0], SPINS[0]], [ANGLES[1], SPEEDS[1], SPINS[1]])
    description = "the same with side spin, and cushions that have friction"
    return _make("bank-shot-spin", FRICTION, bounds, description, initial_rollouts=1500, rollouts=2400)
