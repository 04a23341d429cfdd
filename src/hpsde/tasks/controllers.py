"""Controllers with parameters: what a rollout's parameters do while an episode of an environment runs.

A controller is immutable. `start(parameters, context, spaces)` gives the function act(observation, time) ->
action of one episode, so that nothing of one episode can reach another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from hpsde.base.checks import check_count
from hpsde.errors import InputError

__all__ = [
    "BasisFunctions",
    "Controller",
    "FunctionController",
    "LinearFeedback",
    "PositionReference",
    "Spaces",
    "as_controller",
]

Act = Callable[[Any, float], Any]


class Spaces(NamedTuple):
    """The observation space and the action space of an environment, as Gymnasium describes them."""

    observation: Any
    action: Any


@runtime_checkable
class Controller(Protocol):
    """What a task of an environment needs of a controller; an object of your own with these will do."""

    def size(self, spaces: Spaces) -> int | None:
        """D, the number of parameters in these spaces; None where any number will do."""

    def start(self, parameters: np.ndarray, context: np.ndarray, spaces: Spaces) -> Act:
        """act(observation, time) -> action of one episode; `time` counts steps from 0."""


def as_controller(thing: Any) -> Controller:
    """`thing` itself where it is a controller, or `FunctionController` of a function."""
    if isinstance(thing, Controller):
        return thing
    if callable(thing):
        return FunctionController(thing)
    raise InputError(
        "controller: expected an object with size and start, or a function (parameters, context, observation, time) "
        f"-> action; got {type(thing).__name__}"
    )


@dataclass(frozen=True)
class FunctionController:
    """Any function (parameters [D], context [S], observation, time) -> action."""

    function: Callable[[np.ndarray, np.ndarray, Any, float], Any]

    def size(self, spaces: Spaces) -> int | None:
        """Not known."""
        return None

    def start(self, parameters: np.ndarray, context: np.ndarray, spaces: Spaces) -> Act:
        """The function with the parameters and the context filled in."""
        return lambda observation, time: self.function(parameters, context, observation, time)


@dataclass(frozen=True)
class LinearFeedback:
    """action = W o + b with the observation o [O], or o = observe(observation): D = A (O + 1).

    The parameters are the rows of [W, b], one after the other, one row for each of the A numbers of an action.
    Of discrete actions the one with the largest number is taken.
    """

    observe: Callable[[Any], Any] | None = None

    def size(self, spaces: Spaces) -> int:
        """A (O + 1)."""
        observed = self._observed(np.zeros(_shape(spaces.observation), dtype=float))
        return action_size(spaces.action) * (len(observed) + 1)

    def start(self, parameters: np.ndarray, context: np.ndarray, spaces: Spaces) -> Act:
        """Feedback with the gains W and the offset b."""
        rows = parameters.reshape(action_size(spaces.action), -1)
        gains, offset = rows[:, :-1], rows[:, -1]
        return lambda observation, time: gains @ self._observed(observation) + offset

    def _observed(self, observation: Any) -> np.ndarray:
        return np.ravel(np.asarray(observation if self.observe is None else self.observe(observation), dtype=float))


@dataclass(frozen=True)
class BasisFunctions:
    """An open-loop action that changes smoothly with time: D = A K.

    action_a(t) = sum_k w_ak phi_k(t) / sum_k phi_k(t),  phi_k(t) = exp(-(t - c_k)^2 / (2 h^2)), with `count` = K
    centres c_k spread evenly over `steps` steps and h half their distance. After `steps` the last action is
    held. The parameters are w_11 ... w_1K, w_21 ... w_AK: what the action is near each centre.
    """

    count: int
    steps: int

    def __post_init__(self) -> None:
        check_count("count", self.count, 1)
        check_count("steps", self.steps, 1)

    def size(self, spaces: Spaces) -> int:
        """A K."""
        return action_size(spaces.action) * self.count

    def start(self, parameters: np.ndarray, context: np.ndarray, spaces: Spaces) -> Act:
        """The action of each step, whatever is observed."""
        weights = parameters.reshape(-1, self.count)
        return lambda observation, time: weights @ self.basis(time)

    def basis(self, time: float) -> np.ndarray:
        """phi_k(t) / sum_j phi_j(t), [K]: not negative, in sum 1."""
        centres, distance = np.linspace(0.0, 1.0, self.count), 1.0 / max(self.count - 1, 1)
        exponent = -0.5 * ((min(time / self.steps, 1.0) - centres) / (0.5 * distance)) ** 2
        phi = np.exp(exponent - exponent.max())
        return phi / phi.sum()


@dataclass(frozen=True)
class PositionReference:
    """A movement as a reference y(t) of the positions q, held by feedback: D = A K.

    action = stiffness (y(t) - q) - damping dq/dt, where y(t) is made of `movement` as its action would be,
    q = position(observation) [A] and dq/dt = velocity(observation) [A].
    """

    movement: BasisFunctions
    position: Callable[[Any], Any]
    velocity: Callable[[Any], Any]
    stiffness: float
    damping: float

    def size(self, spaces: Spaces) -> int:
        """A K."""
        return self.movement.size(spaces)

    def start(self, parameters: np.ndarray, context: np.ndarray, spaces: Spaces) -> Act:
        """Feedback towards the reference of the parameters."""
        reference = self.movement.start(parameters, context, spaces)

        def act(observation: Any, time: float) -> np.ndarray:
            deviation = reference(observation, time) - np.asarray(self.position(observation))
            return self.stiffness * deviation - self.damping * np.asarray(self.velocity(observation))

        return act


def action_size(space: Any) -> int:
    """A: how many numbers a controller gives for an action, one for each choice where actions are discrete."""
    return int(space.n) if is_discrete(space) else int(np.prod(_shape(space)))


def is_discrete(space: Any) -> bool:
    """Whether a space is Gymnasium's Discrete: one of n choices, counted from `start`."""
    return hasattr(space, "n") and hasattr(space, "start")


def _shape(space: Any) -> tuple[int, ...]:
    shape = getattr(space, "shape", None)
    if shape is None:
        raise InputError(f"this controller needs a space of numbers; got {type(space).__name__}: write a function")
    return tuple(shape)
