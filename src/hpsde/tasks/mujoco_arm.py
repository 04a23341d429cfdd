"""The reach task in MuJoCo (extra `sim`): the same returns, movements under the simulator's dynamics, and pictures.

The model is written from an `Arm`, so that any arm will do. The body spheres carry the mass and the contacts, and their
distances from pole and floor are sensors; capsules are for looks alone. MuJoCo is loaded when first used.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from hpsde.base.checks import check_rows
from hpsde.errors import HpsdeError, InputError
from hpsde.tasks.kinematics import KUKA_LWR, Arm, Pole
from hpsde.tasks.reach import GOALS, MARGIN, POLE, ReachTask, reach_task

__all__ = ["KUKA_HOMES", "Movement", "MujocoReturns", "contact_sheet", "mjcf", "move", "reach_mujoco_task", "render"]

DENSITY = 540.0
"""Of the body spheres, kg/m^3: the KUKA LWR 4+ then weighs about 16 kg, as it does."""

STIFFNESS, ARMATURE, TIME_STEP = 2000.0, 0.1, 0.002
"""Of the position servos in N m/rad, of the joints in kg m^2, and of the simulation in seconds."""

SETTLING = 0.5
"""Seconds that a movement is given to come to rest."""

ARRIVED = 0.01
"""An arm has arrived when no joint is further than this from its goal, in radians."""

KUKA_HOMES = {1.0: (np.pi / 2, -0.5, 0.0, 0.6, 0.0, 0.0, 0.0), -1.0: (-np.pi / 2, -0.5, 0.0, 0.6, 0.0, 0.0, 0.0)}
"""From where the KUKA LWR 4+ gets round the pole on the left (1) and the right (-1): turned to that side, half up."""

FAR = 10.0
"""Sensors do not look further than this, in metres."""

PICTURE = """
  <visual>
    <global offwidth="1920" offheight="1440"/>
    <quality shadowsize="4096" offsamples="8"/>
    <headlight ambient=".45 .45 .45" diffuse=".3 .3 .3" specular="0 0 0"/>
    <map znear=".02"/>
  </visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="1 1 1" rgb2=".85 .89 .93" width="64" height="384"/>
    <texture name="tiles" type="2d" builtin="checker" rgb1=".96 .96 .96" rgb2=".88 .89 .90" width="512" height="512"/>
    <material name="tiles" texture="tiles" texrepeat="16 16" specular="0"/>
    <material name="odd" rgba=".95 .45 .08 1" specular=".4" shininess=".6"/>
    <material name="even" rgba=".86 .87 .88 1" specular=".4" shininess=".6"/>
    <material name="base" rgba=".25 .27 .30 1" specular=".3"/>
    <material name="pole" rgba=".30 .45 .62 1" specular=".6" shininess=".7"/>
    <material name="goal" rgba=".05 .70 .25 .55" emission=".4"/>
  </asset>
"""


def mjcf(arm: Arm, pole: Pole) -> str:
    """The MuJoCo model of an arm, a pole, the floor and a mark for the goal.

    Bodies `link1` .. `linkJ`, joints `joint1` .. `jointJ` with servos of the same names, geoms `sphere1` .. `sphereK`,
    `pole` and `floor`, site `flange`; sensors: of each sphere the distances from pole and floor.
    """
    height = arm.reach + 0.1  # and as deep below the floor, so that the nearest point is always on its side
    sensors = [
        f'    <distance geom1="sphere{k}" geom2="{obstacle}" cutoff="{FAR}"/>'
        for k in range(1, len(arm.spheres) + 1)
        for obstacle in ("pole", "floor")
    ]
    numbers = range(1, len(arm.joints) + 1)
    servos = [f'    <position name="joint{k}" joint="joint{k}" kp="{STIFFNESS}" dampratio="1"/>' for k in numbers]
    lines = [
        f"<mujoco model={quoteattr(arm.name)}>",
        '  <compiler angle="radian" boundmass="0.1" boundinertia="0.001"/>',
        f'  <option timestep="{TIME_STEP}" integrator="implicitfast"/>',
        PICTURE.strip("\n"),
        "  <default>",
        f'    <joint armature="{ARMATURE}"/>',
        f'    <default class="body"><geom density="{DENSITY}" contype="1" conaffinity="0"/></default>',
        '    <default class="looks"><geom mass="0" contype="0" conaffinity="0"/></default>',
        '    <default class="obstacle"><geom contype="0" conaffinity="1"/></default>',
        "  </default>",
        "  <worldbody>",
        '    <light pos="1 -1 3" dir="-.3 .3 -1" directional="true" diffuse=".45 .45 .45" specular=".2 .2 .2"/>',
        '    <geom name="floor" class="obstacle" type="plane" size="4 4 .1" material="tiles"/>',
        f'    <geom name="pole" class="obstacle" type="cylinder" size="{pole.radius!r}" material="pole"'
        f' fromto="{_text((pole.x, pole.y, -height, pole.x, pole.y, height))}"/>',
        '    <body name="goal" mocap="true" pos="0 0 -1">',
        '      <geom class="looks" type="sphere" size=".055" material="goal"/>',
        "    </body>",
        *_bodies(arm),
        "  </worldbody>",
        "  <actuator>",
        *servos,
        "  </actuator>",
        "  <sensor>",
        *sensors,
        "  </sensor>",
        "</mujoco>",
    ]
    return "\n".join(lines)


def _bodies(arm: Arm) -> list[str]:
    """The links, each inside the one before."""
    lines = _geoms(arm, 0)
    for k, joint in enumerate(arm.joints, start=1):
        lines += [
            f'    <body name="link{k}" pos="{_text(joint.offset)}" gravcomp="1">',
            f'      <joint name="joint{k}" axis="{_text(joint.axis)}" range="{_text((joint.low, joint.high))}"/>',
            *_geoms(arm, k),
        ]
    lines += [f'      <site name="flange" pos="{_text(arm.flange)}" size=".005" group="3"/>']
    return lines + ["    </body>"] * len(arm.joints)


def _geoms(arm: Arm, link: int) -> list[str]:
    """The spheres and capsules of a link; the spheres are hidden where the arm has capsules."""
    material = "base" if link == 0 else ("even", "odd")[link % 2]
    group = 3 if arm.capsules else 0
    lines = [
        f'      <geom name="sphere{k}" class="body" type="sphere" size="{ball.radius!r}" pos="{_text(ball.centre)}"'
        f' group="{group}" material="{material}"/>'
        for k, ball in enumerate(arm.spheres, start=1)
        if ball.link == link
    ]
    for capsule in arm.capsules:
        if capsule.link == link:
            kind = f'type="sphere" pos="{_text(capsule.start)}"'
            if capsule.start != capsule.end:
                kind = f'type="capsule" fromto="{_text((*capsule.start, *capsule.end))}"'
            radius = capsule.radius * (1.0 if link % 2 else 0.98)  # or the colours of links that overlap would mix
            lines.append(f'      <geom class="looks" {kind} size="{radius!r}" material="{material}"/>')
    return lines


def _text(numbers: tuple[float, ...]) -> str:
    return " ".join(repr(float(number)) for number in numbers)


class Simulator:
    """MuJoCo's model of an arm and a pole, and its state."""

    def __init__(self, arm: Arm, pole: Pole):
        self.mujoco = load_mujoco()
        self.model = self.mujoco.MjModel.from_xml_string(mjcf(arm, pole))
        self.data = self.mujoco.MjData(self.model)
        self._flange = self.model.site("flange").id

    def place(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The flange [3], and the distances [K] of the body spheres from the nearest of pole and floor, at q [J]."""
        self.data.qpos[:] = q
        self.mujoco.mj_kinematics(self.model, self.data)
        self.mujoco.mj_sensorPos(self.model, self.data)
        return self.data.site_xpos[self._flange].copy(), self.distances()

    def distances(self) -> np.ndarray:
        """The sensors' distances [K] at the current state."""
        return self.data.sensordata.reshape(-1, 2).min(axis=1)


def load_mujoco() -> Any:
    """The module `mujoco`, or an error that says how to get it."""
    try:
        return import_module("mujoco")
    except ImportError as error:
        raise ImportError("the simulated arm needs MuJoCo: pip install 'hpsde[sim]'") from error


_OF_THIS_THREAD = threading.local()


def simulator(arm: Arm, pole: Pole) -> Simulator:
    """The simulator of this process and thread for an arm and a pole; made once."""
    made = _OF_THIS_THREAD.__dict__.setdefault("simulators", {})
    if (arm, pole) not in made:
        made[arm, pole] = Simulator(arm, pole)
    return made[arm, pole]


@dataclass(frozen=True)
class MujocoReturns:
    """The returns R = -d - C - P [N] of goals [N, 3] and q [N, J], flange and distances being MuJoCo's."""

    arm: Arm
    pole: Pole
    margin: float = MARGIN

    def check_ready(self) -> None:
        """An InputError where MuJoCo is missing."""
        try:
            load_mujoco()
        except ImportError as error:
            raise InputError(str(error)) from error

    def __call__(self, goals: np.ndarray, q: np.ndarray) -> np.ndarray:
        simulated, (low, high) = simulator(self.arm, self.pole), self.arm.limits
        flange, sd = np.empty((len(q), 3)), np.empty((len(q), len(self.arm.spheres)))
        for row, angles in enumerate(q):
            flange[row], sd[row] = simulated.place(angles)
        near = np.clip(self.margin - sd, 0.0, self.margin) ** 2 / (2.0 * self.margin)
        cost = np.where(sd < 0.0, 0.5 * self.margin - sd, near).sum(axis=1)
        beyond = np.abs(q - np.clip(q, low, high)).sum(axis=1)
        return -np.linalg.norm(flange - goals, axis=1) - cost - beyond


def reach_mujoco_task(arm: Arm = KUKA_LWR, pole: Pole = POLE, goals: Any = GOALS, margin: float = MARGIN) -> ReachTask:
    """The task `reach`, its returns computed in MuJoCo one rollout after the other.

    A copy of it in another process makes a simulator of its own there. `measures` are those of `reach`.
    """
    return reach_task(
        arm,
        pole,
        goals,
        margin,
        returns=MujocoReturns(arm, pole, margin),
        name="reach-mujoco",
        description="reach, simulated in MuJoCo one rollout after the other (extra sim)",
    )


@dataclass(frozen=True, eq=False)
class Movement:
    """What a movement was like.

    arrived: whether every joint came to rest within 0.01 rad of its goal. touched: whether the body was ever in contact
    with pole or floor. clearance: the least distance of the body from these on the way, m. error: how far the worst
    joint is from its goal in the end, rad. times [T], angles [T, J]: the way.
    """

    arrived: bool
    touched: bool
    clearance: float
    error: float
    times: np.ndarray
    angles: np.ndarray


def move(arm: Arm, pole: Pole, q_from: Any, q_to: Any, seconds: float = 3.0) -> Movement:
    """Move the arm from rest at q_from [J] to q_to [J] under MuJoCo's dynamics.

    Every joint has a critically damped position servo that follows a minimum-jerk reference in joint space,
    q_from + (q_to - q_from) (10 t^3 - 15 t^4 + 6 t^5), t = time / seconds; the arm's weight is compensated.
    """
    if not seconds > 0.0:
        raise InputError(f"seconds: expected a time above 0, got {seconds}")
    start, goal = check_rows("q_from and q_to", [q_from, q_to], len(arm.joints), rows=2)
    simulated = simulator(arm, pole)
    mujoco, model, data = simulated.mujoco, simulated.model, simulated.data
    mujoco.mj_resetData(model, data)
    data.qpos[:] = start
    mujoco.mj_forward(model, data)
    steps = round((seconds + SETTLING) / TIME_STEP)
    angles = np.empty((steps + 1, len(start)))
    angles[0], touched, clearance = start, data.ncon > 0, simulated.distances().min()
    for step in range(steps):
        t = min(step * TIME_STEP / seconds, 1.0)
        data.ctrl[:] = start + (goal - start) * t**3 * (10.0 - 15.0 * t + 6.0 * t**2)
        mujoco.mj_step(model, data)
        angles[step + 1] = data.qpos
        touched |= data.ncon > 0
        clearance = min(clearance, simulated.distances().min())
    error = float(np.max(np.abs(angles[-1] - goal)))
    times = np.arange(steps + 1) * TIME_STEP
    return Movement(error <= ARRIVED, bool(touched), float(clearance), error, times, angles)


def render(
    arm: Arm, pole: Pole, goal: Any, q: Any, *, width: int = 960, height: int = 720, azimuth: float = 160.0
) -> np.ndarray:
    """A picture [height, width, 3] of the arm at q [J], the pole and the goal [3]; 8 bit for each colour.

    azimuth: the direction in which the camera looks, in degrees from x. Needs OpenGL but no screen: through EGL, or
    what the environment variable MUJOCO_GL names (egl, osmesa, glfw).
    """
    return _pictures(arm, pole, [goal], [q], width, height, azimuth)[0]


def contact_sheet(
    arm: Arm,
    pole: Pole,
    goals: Any,
    q: Any,
    *,
    columns: int = 4,
    width: int = 480,
    height: int = 480,
    azimuth: float = 160.0,
) -> np.ndarray:
    """The pictures of goals [N, 3] and q [N, J] in rows of `columns`, white where one is missing."""
    pictures = _pictures(arm, pole, goals, q, width, height, azimuth)
    columns = max(1, min(columns, len(pictures)))
    rows = -(-len(pictures) // columns)
    pictures += [np.full((height, width, 3), 255, dtype=np.uint8)] * (rows * columns - len(pictures))
    return np.vstack([np.hstack(pictures[row * columns : (row + 1) * columns]) for row in range(rows)])


def _pictures(arm: Arm, pole: Pole, goals: Any, q: Any, width: int, height: int, azimuth: float) -> list[np.ndarray]:
    """One picture [height, width, 3] for each goal and q."""
    angles = check_rows("q", q, len(arm.joints))
    marks = check_rows("goals", goals, 3, rows=len(angles))
    simulated = Simulator(arm, pole)
    mujoco, model, data = simulated.mujoco, simulated.model, simulated.data
    limits = model.vis.global_.offwidth, model.vis.global_.offheight
    if not (0 < width <= limits[0] and 0 < height <= limits[1]):
        raise InputError(f"width and height: expected at most {limits[0]} x {limits[1]}, got {width} x {height}")
    scene, rectangle = mujoco.MjvScene(model, maxgeom=1000), mujoco.MjrRect(0, 0, width, height)
    camera, everything = _camera(mujoco, arm, azimuth), mujoco.mjtCatBit.mjCAT_ALL.value
    pictures = np.empty((len(angles), height, width, 3), dtype=np.uint8)
    with _opengl(mujoco, width, height):
        context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, context)
        for picture, goal, angle in zip(pictures, marks, angles, strict=True):
            data.mocap_pos[0], data.qpos[:] = goal, angle
            mujoco.mj_forward(model, data)
            mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, camera, everything, scene)
            mujoco.mjr_render(rectangle, scene, context)
            mujoco.mjr_readPixels(picture, None, rectangle, context)
        context.free()
    return list(pictures[:, ::-1])


def _camera(mujoco: Any, arm: Arm, azimuth: float) -> Any:
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE.value
    camera.lookat[:] = (0.2 * arm.reach, 0.0, 0.29 * arm.reach)
    camera.distance, camera.azimuth, camera.elevation = 1.05 * arm.reach, azimuth, -30.0
    return camera


@contextmanager
def _opengl(mujoco: Any, width: int, height: int) -> Iterator[None]:
    """OpenGL for pictures that are not shown, or an error that says what is missing."""
    default = "egl" if sys.platform.startswith("linux") else ""
    backend = os.environ.get("MUJOCO_GL", "").strip().lower() or default
    try:
        named = backend in ("egl", "osmesa", "glfw")
        made = (import_module(f"mujoco.{backend}") if named else mujoco).GLContext(width, height)
        made.make_current()
    except Exception as error:  # each backend fails in its own way where its library is missing
        raise HpsdeError(
            f"no picture: OpenGL could not be started through {backend or 'the default of MuJoCo'} ({error}); "
            "set MUJOCO_GL=egl (library libEGL) or MUJOCO_GL=osmesa (library libOSMesa), and install PyOpenGL"
        ) from error
    try:
        yield
    finally:
        made.free()
