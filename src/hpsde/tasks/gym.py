"""A task from an environment of Gymnasium and a controller: one rollout is one episode.

Gymnasium is an extra: pip install "hpsde[gym]". docs/gym.md shows how to use it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from hpsde.base.checks import check_count
from hpsde.errors import InputError
from hpsde.tasks.controllers import Controller, Spaces, as_controller, is_discrete
from hpsde.tasks.task import FunctionTask, task_from_function

__all__ = ["Episode", "GymTask"]


@dataclass(frozen=True, eq=False)
class Episode:
    """What happened in one episode of T steps.

    observations: [T + 1, ...], the first before any action; actions: [T, ...], as the environment got them.
    rewards: [T], Gymnasium's word for what each step earned; their sum is the return, unless `score` says else.
    terminated, truncated: how the episode ended, as the environment says; both False after `max_steps`.
    """

    context: np.ndarray
    parameters: np.ndarray
    seed: int
    observations: list[Any] = field(repr=False)
    actions: list[Any] = field(repr=False)
    rewards: np.ndarray = field(repr=False)
    terminated: bool
    truncated: bool

    @property
    def total(self) -> float:
        """The sum of what the steps earned."""
        return float(np.sum(self.rewards))


class GymTask(FunctionTask):
    """A task whose rollouts are episodes of a Gymnasium environment.

    environment: the id of a registered environment, or a function without arguments that makes one. In worker
        processes each makes its own.
    controller: what the parameters do, see `hpsde.tasks.controllers`; or a function (parameters, context,
        observation, time) -> action. Actions are clipped to the action space.
    initial, contexts: distributions as of `task_from_function`.
    arguments: of gymnasium.make, for an id.
    reset_options: context -> the options of the environment's reset.
    set_context: (unwrapped environment, context) -> the first observation, for environments whose reset takes no
        options; called after reset. It returns None where the reset's observation still holds.
    context_as_seed: reset with the one number of the context as seed, instead of with the rollout's own seed.
    max_steps: the most steps of an episode; without it, the environment's own limit holds.
    score: Episode -> the return; the sum of its rewards by default. NaN is a failed rollout.
    name, evaluation and extras: as of `task_from_function`.

    Every episode begins with a reset with a seed, so that a rollout's return depends on its context, parameters
    and seed alone, as far as the environment keeps to Gymnasium's rules.
    """

    def __init__(
        self,
        environment: str | Callable[[], Any],
        controller: Any,
        *,
        initial: Any,
        contexts: Any = None,
        arguments: Mapping[str, Any] | None = None,
        reset_options: Callable[[np.ndarray], dict[str, Any]] | None = None,
        set_context: Callable[[Any, np.ndarray], Any] | None = None,
        context_as_seed: bool = False,
        max_steps: int | None = None,
        score: Callable[[Episode], float] | None = None,
        name: str | None = None,
        **extras: Any,
    ):
        rollouts = _Rollouts(
            environments=_Environments(environment, dict(arguments or {})),
            controller=as_controller(controller),
            reset_options=reset_options,
            set_context=set_context,
            context_as_seed=context_as_seed,
            max_steps=None if max_steps is None else check_count("max_steps", max_steps, 1),
            score=score,
        )
        if name is None:
            name = environment if isinstance(environment, str) else getattr(environment, "__name__", "environment")
        task = task_from_function(rollouts, initial=initial, contexts=contexts, name=name, **extras)
        super().__init__(**vars(task))
        if context_as_seed and self.context_size != 1:
            raise InputError("context_as_seed: expected contexts of one whole number, which becomes the seed")
        rollouts.check(self.parameter_size)

    def episode(self, context: Any, parameters: Any, seed: int = 0) -> Episode:
        """One episode in full, with the context [S] and parameters [D]: the one that `evaluate` would score."""
        s, xi = self._checked([context], [parameters])
        return self._rollouts.episode(s[0], xi[0], check_count("seed", seed, 0))

    def close(self) -> None:
        """Close this process's environments; the next rollout makes a new one."""
        self._rollouts.environments.close()

    def __enter__(self) -> GymTask:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def _rollouts(self) -> Any:
        return self.function


@dataclass(frozen=True, eq=False)
class _Rollouts:
    """(context, parameters, seed) -> return, by one episode."""

    environments: _Environments
    controller: Controller
    reset_options: Callable[[np.ndarray], dict[str, Any]] | None
    set_context: Callable[[Any, np.ndarray], Any] | None
    context_as_seed: bool
    max_steps: int | None
    score: Callable[[Episode], float] | None

    def __call__(self, *arrays: np.ndarray, seed: int) -> Any:
        context, parameters = arrays if len(arrays) == 2 else (np.zeros(0), *arrays)
        episode = self.episode(context, parameters, seed)
        return episode.total if self.score is None else self.score(episode)

    def check(self, parameter_size: int) -> None:
        """An error unless the controller has that many parameters and episodes end."""
        environment = self.environments.get()
        size = self.controller.size(Spaces(environment.observation_space, environment.action_space))
        if size is not None and size != parameter_size:
            raise InputError(
                f"initial: expected {size} parameters, which {type(self.controller).__name__} has in this "
                f"environment; got {parameter_size}"
            )
        if self.max_steps is None and getattr(getattr(environment, "spec", None), "max_episode_steps", None) is None:
            raise InputError("max_steps: expected a number, because this environment has no limit of its own")

    def episode(self, context: np.ndarray, parameters: np.ndarray, seed: int) -> Episode:
        environment = self.environments.get()
        try:
            return self._run(environment, context, parameters, seed)
        except BaseException:  # also when timed out or interrupted: who knows what state it is in
            self.environments.drop()
            raise

    def _run(self, environment: Any, context: np.ndarray, parameters: np.ndarray, seed: int) -> Episode:
        if self.context_as_seed:
            seed = _whole(context[0])
        options = None if self.reset_options is None else self.reset_options(context)
        observation, _ = environment.reset(seed=seed, options=options)
        if self.set_context is not None:
            changed = self.set_context(environment.unwrapped, context)
            observation = observation if changed is None else changed
        spaces = Spaces(environment.observation_space, environment.action_space)
        act = self.controller.start(parameters, context, spaces)
        observations, actions, rewards = [_kept(observation)], list[Any](), list[float]()
        terminated = truncated = False
        while not (terminated or truncated) and len(actions) != self.max_steps:
            action = _fit_action(act(observation, len(actions)), spaces.action)
            observation, reward, terminated, truncated, _ = environment.step(action)
            observations.append(_kept(observation))
            actions.append(action)
            rewards.append(float(reward))
        ends = {"terminated": bool(terminated), "truncated": bool(truncated)}
        return Episode(context, parameters, seed, observations, actions, np.array(rewards), **ends)


class _Environments:
    """One environment for each thread of each process, made when first needed and never pickled."""

    def __init__(self, make: str | Callable[[], Any], arguments: dict[str, Any]):
        if not isinstance(make, str) and arguments:
            raise InputError("arguments: expected none with a function that makes the environment")
        self.make, self.arguments = make, arguments
        self._made: dict[tuple[int, int], Any] = {}
        weakref.finalize(self, _close_all, self._made)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Environments, (self.make, self.arguments)

    def get(self) -> Any:
        """This thread's environment."""
        key = os.getpid(), threading.get_ident()
        if key not in self._made:
            self._made[key] = self._make()
        return self._made[key]

    def drop(self) -> None:
        """Close this thread's environment."""
        key = os.getpid(), threading.get_ident()
        _close(self._made, [key] if key in self._made else [])

    def close(self) -> None:
        """Close this process's environments."""
        _close_all(self._made)

    def _make(self) -> Any:
        if not isinstance(self.make, str):
            return self.make()
        gymnasium = _gymnasium()
        try:
            # Its checker of environments warns about those of others and costs time in every step.
            return gymnasium.make(self.make, disable_env_checker=True, **self.arguments)
        except (gymnasium.error.Error, ImportError) as error:
            raise InputError(f"environment {self.make!r} cannot be made: {error}") from error


def _close_all(made: dict[tuple[int, int], Any]) -> None:
    _close(made, [key for key in made if key[0] == os.getpid()])


def _close(made: dict[tuple[int, int], Any], keys: list[tuple[int, int]]) -> None:
    for key in keys:
        with contextlib.suppress(Exception):  # the environment is given up either way
            made.pop(key).close()


def _gymnasium() -> ModuleType:
    try:
        import gymnasium
    except ImportError as error:
        raise InputError("Gymnasium is not installed; it comes with: pip install 'hpsde[gym]'") from error
    return gymnasium


def _kept(observation: Any) -> Any:
    """A copy of an array, which some environments fill anew in every step."""
    return observation.copy() if isinstance(observation, np.ndarray) else observation


def _whole(number: float) -> int:
    if number < 0 or number != round(number):
        raise InputError(f"context_as_seed: expected whole numbers from 0 on as contexts, got {number}")
    return int(number)


def _fit_action(action: Any, space: Any) -> Any:
    """The action in the space: clipped, in its shape and kind; of discrete ones, the number or the largest's."""
    array = np.asarray(action)
    if array.dtype.kind not in "biuf":
        return action  # a space of another kind: the controller knows
    if not np.all(np.isfinite(array)):
        raise InputError(f"the controller must give finite actions; got {array.tolist()}")
    if is_discrete(space) and array.size == 1:
        return int(array.item())
    if is_discrete(space) and array.size == space.n:
        return int(np.argmax(array)) + int(space.start)
    if is_discrete(space) or (hasattr(space, "low") and array.size != np.prod(space.shape)):
        raise InputError(f"the controller must give actions of {space}; got shape {array.shape}")
    if hasattr(space, "low"):
        return np.clip(array.reshape(space.shape), space.low, space.high).astype(space.dtype)
    return action
