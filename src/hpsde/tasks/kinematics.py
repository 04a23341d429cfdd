"""Serial arms in batches: where the joints and the body are, how far from a pole and the floor, and which posture.

An arm is a list of revolute joints, given directly or by a Denavit-Hartenberg table. The frames of all links are
parallel to the base frame when every angle is zero; link k is what moves with the first k joints, link 0 the base.
The body is a set of spheres fixed to links. Functions are pure, and know the arm when they are compiled.

J joints, N configurations q [N, J], K body spheres. Every coordinate is an array [N] of its own, or a plain number
where it is the same for all q: products with 0 and 1 vanish before anything is compiled, and the compiler makes one
loop of the whole return, which runs many times faster than with arrays [N, K, 3] in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple

import numpy as np

from hpsde.base.arrays import namespace
from hpsde.base.shapes import Array, Float
from hpsde.errors import InputError

__all__ = [
    "KUKA_LWR",
    "Arm",
    "Capsule",
    "Joint",
    "Link",
    "Pole",
    "Sphere",
    "arm_from_dh",
    "collision_cost",
    "elbow_height",
    "flange_jacobian",
    "flange_position",
    "joint_origins",
    "limit_violation",
    "link_frames",
    "place",
    "signed_distances",
    "sphere_centres",
    "spheres_along",
    "winding",
]

Vector = tuple[float, float, float]


class Joint(NamedTuple):
    """A revolute joint: its origin in the frame of the link before, its unit axis, its limits in radians."""

    offset: Vector
    axis: Vector
    low: float
    high: float


class Sphere(NamedTuple):
    """A ball of the body, `centre` in the frame of its link."""

    link: int
    centre: Vector
    radius: float


class Capsule(NamedTuple):
    """How a link looks: a ball swept from `start` to `end`. It plays no part in distances."""

    link: int
    start: Vector
    end: Vector
    radius: float


class Pole(NamedTuple):
    """A vertical pole that stands on the floor, z = 0, and is taller than the arm can reach."""

    x: float
    y: float
    radius: float


class Link(NamedTuple):
    """Where a link is: its origin [3] and its rotation [3][3], whose entries are arrays [N] or plain numbers."""

    origin: list[Any]
    rotation: list[list[Any]]


@dataclass(frozen=True)
class Arm:
    """A serial arm.

    flange: the point that reaches, in the frame of the last link.
    bend: the joints (counted from 0) at the shoulder, the elbow and the wrist, which tell elbow up from down.
    """

    joints: tuple[Joint, ...]
    flange: Vector
    spheres: tuple[Sphere, ...]
    bend: tuple[int, int, int]
    capsules: tuple[Capsule, ...] = ()
    name: str = "arm"

    def __post_init__(self) -> None:
        if not self.joints or not self.spheres:
            raise InputError(
                f"Arm: expected joints and body spheres, got {len(self.joints)} joints and {len(self.spheres)} spheres"
            )
        for k, joint in enumerate(self.joints):
            if not (np.isclose(np.linalg.norm(joint.axis), 1.0, rtol=0.0, atol=1e-12) and joint.low < joint.high):
                raise InputError(f"Arm: joint {k} must have an axis of length 1 and low < high, got {joint}")
        parts: tuple[Sphere | Capsule, ...] = (*self.spheres, *self.capsules)
        for part in parts:
            if not (0 <= part.link <= len(self.joints) and part.radius > 0.0):
                raise InputError(f"Arm: expected a link 0 to {len(self.joints)} and a radius above 0, got {part}")
        if not 0 <= self.bend[0] < self.bend[1] < self.bend[2] < len(self.joints):
            raise InputError(f"Arm bend: expected three joints in rising order, got {self.bend}")

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest angles (low [J], high [J])."""
        return np.array([joint.low for joint in self.joints]), np.array([joint.high for joint in self.joints])

    @property
    def reach(self) -> float:
        """A height that no part of the body can exceed: the lengths of all links, and the thickest sphere."""
        lengths = [np.linalg.norm(offset) for offset in (*(joint.offset for joint in self.joints), self.flange)]
        return float(sum(lengths) + max(np.linalg.norm(ball.centre) + ball.radius for ball in self.spheres))


def arm_from_dh(
    rows: Sequence[Sequence[float]],
    limits: Sequence[tuple[float, float]],
    *,
    bend: tuple[int, int, int],
    spheres: Sequence[Sphere] | None = None,
    radius: float = 0.05,
    capsules: Sequence[Capsule] = (),
    name: str = "arm",
    modified: bool = False,
) -> Arm:
    """The arm of a Denavit-Hartenberg table with rows (theta_0, d, a, alpha), angles in radians.

    standard: T_k(q) = Rz(q + theta_0) Tz(d) Tx(a) Rx(alpha). Joint k stands at the origin of frame k - 1, with that
        frame's z axis at zero angles.
    modified: T_k(q) = Rx(alpha) Tx(a) Rz(q + theta_0) Tz(d), the a and alpha of a row being those before its joint.
        Joint k stands where Rx(alpha) Tx(a) leads from frame k - 1.

    Without `spheres` the links get spheres of `radius` along them.
    """
    if len(rows) != len(limits) or any(len(row) != 4 for row in rows):
        raise InputError(f"arm_from_dh: expected rows of 4 and as many limits, got {len(rows)} and {len(limits)}")
    frame, before, joints = np.eye(4), np.zeros(3), []
    for (theta, d, a, alpha), (low, high) in zip(rows, limits, strict=True):
        if modified:
            frame = frame @ _screw_x(a, alpha)
        joints.append(Joint(_vector(frame[:3, 3] - before), _vector(frame[:3, 2]), float(low), float(high)))
        before = frame[:3, 3]
        frame = frame @ _screw_z(d, theta)
        if not modified:
            frame = frame @ _screw_x(a, alpha)
    flange = _vector(frame[:3, 3] - before)
    body = spheres_along(joints, flange, radius) if spheres is None else tuple(spheres)
    return Arm(tuple(joints), flange, body, bend, tuple(capsules), name)


def _screw_x(shift: float, angle: float) -> np.ndarray:
    """Tx(shift) Rx(angle)."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[1.0, 0.0, 0.0, shift], [0.0, cos, -sin, 0.0], [0.0, sin, cos, 0.0], [0.0, 0.0, 0.0, 1.0]])


def _screw_z(shift: float, angle: float) -> np.ndarray:
    """Tz(shift) Rz(angle)."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[cos, -sin, 0.0, 0.0], [sin, cos, 0.0, 0.0], [0.0, 0.0, 1.0, shift], [0.0, 0.0, 0.0, 1.0]])


def spheres_along(joints: Sequence[Joint], flange: Vector, radius: float) -> tuple[Sphere, ...]:
    """Spheres from each joint to the next and to the flange, at most a radius apart.

    There are none nearer to the base than two radii: there the arm stands on the floor, whatever its angles.
    """
    found, before = [], np.zeros(3)
    for link, offset in enumerate(np.array([*(joint.offset for joint in joints), flange])):
        steps = int(np.ceil(np.linalg.norm(offset) / radius))
        centres = [offset * k / steps for k in range(1, steps + 1)]
        away = [centre for centre in centres if np.linalg.norm(before + centre) >= 2.0 * radius]
        found += [Sphere(link, _vector(centre), radius) for centre in away]
        before = before + offset
    return tuple(found)


def link_frames(arm: Arm, q: Float[Array, "N J"]) -> list[Link]:
    """Links 0 to J: o_k = o_k-1 + R_k-1 offset_k, R_k = R_k-1 Rot(axis_k, q_k)."""
    if q.ndim != 2 or q.shape[1] != len(arm.joints):
        raise InputError(f"q must have shape [N, {len(arm.joints)}]; got {list(q.shape)}")
    xp, identity = namespace(q), [[float(i == j) for j in range(3)] for i in range(3)]
    links = [Link([0.0, 0.0, 0.0], identity)]
    for joint, cos, sin in zip(arm.joints, xp.cos(q.T), xp.sin(q.T), strict=True):
        turn = _turn(joint.axis, cos, sin)
        rotation = [[_dot(row, column) for column in zip(*turn, strict=True)] for row in links[-1].rotation]
        links.append(Link(place(links[-1], joint.offset), rotation))
    return links


def place(link: Link, point: Vector) -> list[Any]:
    """The coordinates x, y, z of a point of a link in the base frame: origin + rotation point."""
    return [_dot((1.0, *row), (start, *point)) for start, row in zip(*link, strict=True)]


def flange_position(arm: Arm, q: Float[Array, "N J"]) -> list[Float[Array, " N"]]:
    """The flange's coordinates x, y, z."""
    return _columns(place(link_frames(arm, q)[-1], arm.flange), q)


def flange_jacobian(arm: Arm, q: Float[Array, "N J"]) -> Float[Array, "N 3 J"]:
    """The derivatives of the flange's coordinates by the angles: axis_k x (flange - origin_k) for joint k."""
    links, xp = link_frames(arm, q), namespace(q)
    flange, columns = _columns(place(links[-1], arm.flange), q), []
    for joint, link in zip(arm.joints, links[1:], strict=True):
        axis = _columns([_dot(row, joint.axis) for row in link.rotation], q)
        lever = [f - o for f, o in zip(flange, _columns(link.origin, q), strict=True)]
        columns.append(xp.cross(xp.stack(axis, axis=1), xp.stack(lever, axis=1)))
    return xp.stack(columns, axis=2)


def joint_origins(arm: Arm, q: Float[Array, "N J"]) -> list[list[Float[Array, " N"]]]:
    """The coordinates x, y, z of each joint's origin, which is that of the link it moves."""
    return [_columns(link.origin, q) for link in link_frames(arm, q)[1:]]


def sphere_centres(arm: Arm, q: Float[Array, "N J"]) -> list[list[Float[Array, " N"]]]:
    """The coordinates x, y, z of the centre of each body sphere."""
    links = link_frames(arm, q)
    return [_columns(place(links[ball.link], ball.centre), q) for ball in arm.spheres]


def signed_distances(arm: Arm, pole: Pole, q: Float[Array, "N J"]) -> list[Float[Array, " N"]]:
    """The distance of each body sphere from the nearest obstacle, negative inside.

    sd = min(hypot(x - x_pole, y - y_pole) - r_pole, z) - r, the pole being taller than the arm can reach.
    """
    xp = namespace(q)
    return [
        xp.minimum(xp.sqrt((x - pole.x) ** 2 + (y - pole.y) ** 2) - pole.radius, z) - ball.radius
        for ball, (x, y, z) in zip(arm.spheres, sphere_centres(arm, q), strict=True)
    ]


def collision_cost(distances: Sequence[Float[Array, " N"]], margin: float) -> Float[Array, " N"]:
    """The obstacle cost of CHOMP (Zucker et al. 2013), summed over the body spheres; eps is the margin.

    c = eps/2 - sd below 0, (sd - eps)^2 / (2 eps) from 0 to eps, 0 beyond.
    """
    xp = namespace(*distances)
    costs = [
        xp.where(sd < 0.0, 0.5 * margin - sd, 0.5 / margin * (xp.minimum(sd, margin) - margin) ** 2) for sd in distances
    ]
    return reduce(add, costs)


def limit_violation(arm: Arm, q: Float[Array, "N J"]) -> Float[Array, " N"]:
    """How many radians beyond the joint limits the angles are, summed over the joints; 0 within the limits."""
    xp = namespace(q)
    beyond = [
        xp.maximum(angle - joint.high, 0.0) + xp.maximum(joint.low - angle, 0.0)
        for joint, angle in zip(arm.joints, q.T, strict=True)
    ]
    return reduce(add, beyond)


def winding(arm: Arm, pole: Pole, q: Float[Array, "N J"]) -> Float[Array, " N"]:
    """The angle that the arm sweeps around the pole's axis from base to flange, seen from above.

    The sum, over the straight links p_k to p_k+1, of the angle between p_k and p_k+1 as seen from the axis. To a goal
    behind the pole it is near -pi where the arm passes on the left (y > 0, for who looks from the base) and near pi on
    the right, and changes its sign only when a link crosses the axis or the flange comes round to the near side.
    """
    base = _columns((0.0, 0.0, 0.0), q)
    seen = [(x - pole.x, y - pole.y) for x, y, _ in (base, *joint_origins(arm, q), flange_position(arm, q))]
    turns = [namespace(q).arctan2(ux * vy - uy * vx, ux * vx + uy * vy) for (ux, uy), (vx, vy) in pairwise(seen)]
    return reduce(add, turns)


def elbow_height(arm: Arm, q: Float[Array, "N J"]) -> Float[Array, " N"]:
    """How far the elbow lies above the line from shoulder to wrist: the z of the perpendicular on that line."""
    origins = joint_origins(arm, q)
    shoulder, elbow, wrist = (origins[k] for k in arm.bend)
    along = [w - s for w, s in zip(wrist, shoulder, strict=True)]
    out = [e - s for e, s in zip(elbow, shoulder, strict=True)]
    share = _dot(out, along) / namespace(q).maximum(_dot(along, along), 1e-12)
    return out[2] - share * along[2]


def _turn(axis: Vector, cos: Array, sin: Array) -> list[list[Any]]:
    """Rodrigues: Rot = cos I + (1 - cos) a a^T + sin [a]x."""
    x, y, z = axis
    cross = [[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]
    rows: list[list[Any]] = [[0.0] * 3 for _ in range(3)]
    for i in range(3):
        for j in range(3):
            outer = axis[i] * axis[j]
            even = 1.0 if i == j and outer == 1.0 else _dot((outer, float(i == j)), (1.0 - cos, cos))
            rows[i][j] = _dot((1.0, cross[i][j]), (even, sin))
    return rows


def _dot(left: Sequence[Any], right: Sequence[Any]) -> Any:
    """The scalar product, without the terms that are zero and the factors that are one."""
    total: Any = 0.0
    for a, b in zip(left, right, strict=True):
        if _is(a, 0.0) or _is(b, 0.0):
            continue
        term = b if _is(a, 1.0) else a if _is(b, 1.0) else a * b
        total = term if _is(total, 0.0) else total + term
    return total


def _is(value: Any, number: float) -> bool:
    return isinstance(value, float) and value == number


def _columns(values: Sequence[Any], q: Array) -> list[Array]:
    """Arrays [N] of what may be plain numbers."""
    xp = namespace(q)
    return [xp.broadcast_to(xp.asarray(value, dtype=q.dtype), q.shape[:1]) for value in values]


def _vector(values: np.ndarray) -> Vector:
    """Three plain numbers; what is zero but for rounding, as the cosine of a right angle, is made zero."""
    x, y, z = (0.0 if abs(value) < 1e-15 else float(value) for value in values)
    return x, y, z


def _kuka_lwr() -> Arm:
    """The KUKA LWR 4+: joints every 0.2 m along a straight line, and a body of 21 spheres."""
    up, left, right = (0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (0.0, -1.0, 0.0)
    table = [(0.11, up), (0.2005, right), (0.2, up), (0.2, left), (0.2, up), (0.19, right), (0.078, up)]
    limits = np.radians([170.0, 120.0, 170.0, 120.0, 170.0, 120.0, 170.0]).tolist()
    joints = tuple(Joint((0.0, 0.0, z), axis, -limit, limit) for (z, axis), limit in zip(table, limits, strict=True))
    # link: (y, z, radius), x = 0
    body = {
        1: [(0.0, 0.0336, 0.073), (0.0317, 0.1938, 0.073), (0.0298, 0.1158, 0.07)],
        2: [(-0.0287, 0.0061, 0.074), (-0.0015, 0.1598, 0.0686), (-0.0198, 0.0641, 0.0695), (-0.0099, 0.1045, 0.0646)],
        3: [(-0.0314, 0.1971, 0.0721), (0.0, 0.0440, 0.0721), (-0.0281, 0.1449, 0.0648), (-0.0112, 0.0976, 0.0648)],
        4: [(0.0326, 0.0039, 0.0729), (0.0, 0.1616, 0.0690), (0.0250, 0.0532, 0.0668), (0.0115, 0.1019, 0.0668)],
        5: [(0.0262, 0.1877, 0.0741), (0.0, 0.0451, 0.0698), (0.0118, 0.0879, 0.0644), (0.0240, 0.1425, 0.0694)],
        6: [(-0.0056, 0.0, 0.0806)],
        7: [(0.0, 0.0, 0.04)],
    }
    spheres = tuple(Sphere(link, (0.0, y, z), radius) for link, balls in body.items() for y, z, radius in balls)
    # link: from (y, z), to (y, z), radius
    looks = {
        0: (0.0, 0.03, 0.0, 0.11, 0.07),
        1: (0.0, 0.0, 0.06, 0.2, 0.07),
        2: (-0.06, 0.0, 0.0, 0.2, 0.07),
        3: (0.0, 0.0, -0.06, 0.2, 0.07),
        4: (0.06, 0.0, 0.0, 0.2, 0.07),
        5: (0.0, 0.0, 0.04, 0.19, 0.07),
        6: (-0.01, 0.0, -0.01, 0.0, 0.08),
        7: (0.0, -0.05, 0.0, 0.0, 0.04),
    }
    capsules = tuple(
        Capsule(link, (0.0, y, z), (0.0, to_y, to_z), radius) for link, (y, z, to_y, to_z, radius) in looks.items()
    )
    return Arm(joints, (0.0, 0.0, 0.0), spheres, bend=(1, 3, 5), capsules=capsules, name="KUKA LWR 4+")


KUKA_LWR = _kuka_lwr()
"""The KUKA LWR 4+; the flange is the origin of its last link."""
