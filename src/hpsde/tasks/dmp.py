"""Dynamic movement primitives: a movement as a damped spring to its goal, bent by a learned force.

With the phase a function of time alone, a trajectory is linear in (parameters, goal, start, velocity). Its
responses to each are integrated once; a batch of trajectories is then one matrix product.

`DMP` is the standard form, in several dimensions, for tasks of one's own. `SteppedDMP` is a one-dimensional
form that is defined by its steps, as the puddle task needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hpsde.base.checks import as_numbers, check_count, check_rows
from hpsde.base.later import Later
from hpsde.base.shapes import Float, Int
from hpsde.errors import InputError

linalg = Later("scipy.linalg")


__all__ = ["DMP", "SteppedDMP"]

LEAST_INTEGRATION_STEPS = 1000


@dataclass(frozen=True)
class DMP:
    """The standard movement primitive in D dimensions, with B numbers of parameters for each.

    tau^2 y'' = alpha (beta (g - y) - tau y') + A f(z),  tau z' = -alpha_z z, z(0) = 1
    f(z) = z sum_j psi_j(z) xi_j / sum_j psi_j(z),  psi_j(z) = exp(-h_j (z - c_j)^2)

    The amplitude A is g - y_0 where `scaled`, so that a movement keeps its shape when start and goal move, and 1
    where not. Centres c_j are the phases at even times; h_j makes neighbours cross at `overlap` of each centre.

    dimensions, bases: D and B; the parameters of a rollout are D x B numbers, those of the first dimension first.
    steps: points of a trajectory, T of them at even times from 0 to tau.
    duration: tau.
    alpha, beta: of the spring; beta = alpha / 4 damps critically, and is the default.
    last_phase: z(tau) = exp(-alpha_z).
    """

    dimensions: int
    bases: int = 10
    steps: int = 100
    duration: float = 1.0
    alpha: float = 25.0
    beta: float | None = None
    last_phase: float = 0.01
    overlap: float = 0.8
    scaled: bool = True

    def __post_init__(self) -> None:
        for name, least in (("dimensions", 1), ("bases", 2), ("steps", 2)):
            check_count(name, getattr(self, name), least)
        beta = self.alpha / 4.0 if self.beta is None else self.beta
        for name, value in (("duration", self.duration), ("alpha", self.alpha), ("beta", beta)):
            _check_positive(name, value)
        for name, value in (("last_phase", self.last_phase), ("overlap", self.overlap)):
            if not 0.0 < value < 1.0:
                raise InputError(f"{name} must lie between 0 and 1; got {value!r}")

    @property
    def parameter_size(self) -> int:
        """D x B, the numbers in the parameters of a rollout."""
        return self.dimensions * self.bases

    @property
    def times(self) -> Float[np.ndarray, " T"]:
        """The times of a trajectory's points."""
        return np.linspace(0.0, self.duration, self.steps)

    def rollout(
        self, parameters: Any, *, goal: Any, start: Any = 0.0, velocity: Any = 0.0
    ) -> Float[np.ndarray, "N T D"]:
        """The trajectories of parameters [N, D B].

        goal, start, velocity (at the start): one number for all, [D], or [N, D] with a row for each rollout.
        """
        xi = check_rows("parameters", parameters, self.parameter_size)
        g, y0, v0 = (
            self._points(name, x, len(xi)) for name, x in (("goal", goal), ("start", start), ("velocity", velocity))
        )
        force = xi.reshape(-1, self.dimensions, self.bases)
        if self.scaled:
            force = force * (g - y0)[:, :, None]
        inputs = np.concatenate([force, np.stack([g, y0, self.duration * v0], axis=-1)], axis=-1)
        return np.swapaxes(inputs @ self.responses, 1, 2)

    def fit(self, demonstration: Any, *, velocity: Any = 0.0, ridge: float = 1e-6) -> Float[np.ndarray, " P"]:
        """Parameters [D B] of the trajectory closest to a demonstration [M, D] at even times.

        Start and goal are its first and last point. Least squares over the points of the trajectory, with the
        ridge in units of the mean square response.
        """
        points = as_numbers("demonstration", demonstration)
        points = points[:, None] if points.ndim == 1 else points
        if len(points) < 2:
            raise InputError(f"demonstration must have at least 2 points; got {len(points)}")
        points = check_rows("demonstration", points, self.dimensions)
        _check_positive("ridge", ridge)
        start, goal = points[0], points[-1]
        if self.scaled and np.any(still := start == goal):
            raise InputError(
                f"demonstration must end elsewhere than it starts in every dimension, but dimension "
                f"{np.flatnonzero(still)[0]} does not, and its force would be scaled by 0; use scaled=False"
            )
        resampled = _resampled(points.T, self.steps).T
        unforced = self.rollout(np.zeros((1, self.parameter_size)), goal=goal, start=start, velocity=velocity)[0]
        amplitude = goal - start if self.scaled else np.ones(self.dimensions)
        response = self.responses[: self.bases].T
        solved = _ridge_solution(response, ridge * np.mean(np.sum(response**2, axis=0)))
        return np.ravel((solved @ ((resampled - unforced) / amplitude)).T)

    @cached_property
    def responses(self) -> Float[np.ndarray, "I T"]:
        """Positions in answer to a unit of each parameter, of the goal, of the start, and of tau times the velocity.

        Over t / tau in [0, 1], where tau drops out. With the spring's x' = A x for x = (y - g, y') and a force u,
        x(t + h) = e^(A h) x(t) + int_0^h e^(A (h - r)) (0, u(t + r)) dr, the integral by Simpson's rule.
        """
        beta = self.alpha / 4.0 if self.beta is None else self.beta
        substeps = -(-LEAST_INTEGRATION_STEPS // (self.steps - 1))
        count = (self.steps - 1) * substeps
        h = 1.0 / count
        spring = np.array([[0.0, 1.0], [-self.alpha * beta, -self.alpha]])
        half = linalg.expm(0.5 * h * spring)
        whole = half @ half
        u = self._activations(np.linspace(0.0, 1.0, 2 * count + 1))
        pushes = h / 6.0 * (np.multiply.outer(whole[:, 1], u[:-2:2]) + np.multiply.outer(4.0 * half[:, 1], u[1:-1:2]))
        pushes[1] += h / 6.0 * u[2::2]
        state = np.zeros((2, self.bases + 3))
        state[0, self.bases :], state[1, -1] = (-1.0, 1.0, 0.0), 1.0
        states = [state]
        for step in range(count):
            state = whole @ state
            state[:, : self.bases] += pushes[:, step]
            states.append(state)
        positions = np.stack([each[0] for each in states[::substeps]], axis=1)
        positions[self.bases] += 1.0
        return positions

    def _activations(self, times: np.ndarray) -> np.ndarray:
        """z psi_j(z) / sum_k psi_k(z) at times t / tau: [M, B]."""
        decay = -np.log(self.last_phase)
        phase = np.exp(-decay * times)
        centres = np.exp(-decay * np.linspace(0.0, 1.0, self.bases))
        gaps = np.diff(centres)
        widths = -np.log(self.overlap) / np.append(gaps, gaps[-1]) ** 2
        return phase[:, None] * _shares(-widths * (phase[:, None] - centres) ** 2)

    def _points(self, name: str, values: Any, rows: int) -> np.ndarray:
        array, size = as_numbers(name, values), self.dimensions
        if array.shape not in ((), (size,), (rows, size)):
            raise InputError(f"{name} must have shape [], [{size}] or [{rows}, {size}]; got {list(array.shape)}")
        return check_rows(name, np.broadcast_to(array, (rows, size)), size)


@dataclass(frozen=True)
class SteppedDMP:
    """A movement primitive in one dimension, defined by its steps i = 1, 2, ... of length dt = 1 / (steps - 1).

    y_i = y_{i-1} + dt v_{i-1}
    v_i = v_{i-1} + dt (stiffness (g - y_{i-1}) - damping v_{i-1} + f_i)
    f_i = psi_i . xi exp(-5 i / steps) for i <= steps, then 0

    psi_i are B Gaussians with even centres in [0, 1], evaluated at (i - 1) / (steps - 1), and divided by their
    sum. A trajectory is y_1, ..., y_n: the start y_0 is not part of it. n is the first step after `steps` that
    ends within `tolerance` of the goal, or `most_steps`.
    """

    bases: int = 10
    steps: int = 300
    most_steps: int = 750
    stiffness: float = 1000.0
    damping: float = 100.0
    width: float = 0.05
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        check_count("bases", self.bases, 1)
        check_count("steps", self.steps, 3)
        check_count("most_steps", self.most_steps, self.steps + 1)
        for name in ("stiffness", "damping", "width", "tolerance"):
            _check_positive(name, getattr(self, name))

    @property
    def step_length(self) -> float:
        """dt."""
        return 1.0 / (self.steps - 1)

    def rollout(
        self, parameters: Any, goal: Any, *, start: float = 0.0, velocity: float = 0.0
    ) -> tuple[Float[np.ndarray, "N T"], Int[np.ndarray, " N"]]:
        """Positions and lengths n of the trajectories, for parameters [N, B] and goals [N].

        Positions run to the longest of them, T; beyond its own n a trajectory goes on without force.
        """
        xi = check_rows("parameters", parameters, self.bases)
        g = check_rows("goal", goal, 1, rows=len(xi))
        inputs = np.concatenate([xi, g, np.broadcast_to([start, velocity], (len(xi), 2))], axis=1)
        forced, last, free = self.responses
        errors = (inputs @ last) @ free
        arrived = np.abs(errors) < self.tolerance
        arrived[:, -1] = True
        lengths = self.steps + 1 + np.argmax(arrived, axis=1)
        longest = int(np.max(lengths, initial=self.steps + 1))
        positions = np.empty((len(xi), longest))
        np.matmul(inputs, forced, out=positions[:, : self.steps])
        np.add(errors[:, : longest - self.steps], g, out=positions[:, self.steps :])
        return positions, lengths

    def fit(self, demonstrations: Any, ridge: float = 1e-8) -> Float[np.ndarray, "N B"]:
        """Parameters [N, B] of demonstrations [N, M]; each runs through M points at even times.

        Resampled to `steps` points; velocities v and accelerations a by forward differences, the last repeated;
        then ridge regression of (a - stiffness (y_last - y) + damping v) / phase on the bases.
        """
        y = as_numbers("demonstrations", demonstrations)
        if y.ndim != 2 or y.shape[1] < 2:
            raise InputError(f"demonstrations must have shape [N, M], M at least 2; got {list(y.shape)}")
        y = _resampled(check_rows("demonstrations", y, y.shape[1]), self.steps)
        v = self._forward_difference(y)
        force = self._forward_difference(v) - self.stiffness * (y[:, -1:] - y) + self.damping * v
        return (force / self.phases) @ _ridge_solution(self.activations, ridge).T

    @cached_property
    def responses(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What a unit of each input, (parameters, goal, start, velocity), does.

        forced [B+3, steps]: to the positions y_1 .. y_steps.
        last [B+3, 2]: to the state after them, (y - g, v).
        free [2, most_steps - steps]: what that state does to y - g in the steps that follow, without force.
        """
        dt, count = self.step_length, self.bases + 3
        goal = np.zeros(count)
        goal[self.bases] = 1.0
        y, v = np.zeros(count), np.zeros(count)
        y[-2] = v[-1] = 1.0
        forced = []
        for activation, phase in zip(self.activations, self.phases, strict=True):
            acceleration = self.stiffness * (goal - y) - self.damping * v
            acceleration[: self.bases] += activation * phase
            y, v = y + dt * v, v + dt * acceleration
            forced.append(y)
        error, speed = np.eye(2)
        free = []
        for _ in range(self.most_steps - self.steps):
            error, speed = error + dt * speed, speed - dt * (self.stiffness * error + self.damping * speed)
            free.append(error)
        return np.stack(forced, axis=1), np.stack([y - goal, v], axis=1), np.stack(free, axis=1)

    @cached_property
    def activations(self) -> Float[np.ndarray, "T B"]:
        """psi_i at the steps 1 .. steps."""
        time = np.linspace(0.0, 1.0, self.steps)[:, None]
        return _shares(-0.5 * ((time - np.linspace(0.0, 1.0, self.bases)) / self.width) ** 2)

    @cached_property
    def phases(self) -> Float[np.ndarray, " T"]:
        """exp(-5 i / steps) at the steps 1 .. steps."""
        return np.exp(-np.arange(1, self.steps + 1) / (self.steps / 5.0))

    def _forward_difference(self, y: np.ndarray) -> np.ndarray:
        difference = np.diff(y, axis=1) / self.step_length
        return np.concatenate([difference, difference[:, -1:]], axis=1)


def _shares(logarithms: np.ndarray) -> np.ndarray:
    """exp of each row, divided by its sum."""
    values = np.exp(logarithms - np.max(logarithms, axis=1, keepdims=True))
    return values / np.sum(values, axis=1, keepdims=True)


def _resampled(rows: np.ndarray, count: int) -> np.ndarray:
    """Each row at `count` even times, linearly interpolated: [N, M] -> [N, count]."""
    at = np.linspace(0.0, rows.shape[1] - 1.0, count)
    before = np.minimum(at.astype(int), rows.shape[1] - 2)
    share = at - before
    return (1.0 - share) * rows[:, before] + share * rows[:, before + 1]


def _ridge_solution(design: np.ndarray, ridge: float) -> np.ndarray:
    """(X^T X + ridge I)^-1 X^T for a design X [T, B]: [B, T]."""
    return np.linalg.solve(design.T @ design + ridge * np.eye(design.shape[1]), design.T)


def _check_positive(name: str, value: Any) -> None:
    if not 0.0 < value < np.inf:
        raise InputError(f"{name} must be a positive number; got {value!r}")
