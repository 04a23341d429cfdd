"""Tasks whose solutions and best returns are known, and the cells of the gauntlet that draw them by seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np

from hpsde.base.distributions import as_distribution
from hpsde.base.draws import make_key
from hpsde.base.shapes import Float
from hpsde.tasks.task import FunctionTask, Task, check_seeds, first_by_default

__all__ = ["Cell", "KnownTask", "generator", "known_task", "uniforms"]

BLIND_ROLLOUTS = 20_000
_BLIND_KEY = 577_215_664


@dataclass(frozen=True)
class Cell:
    """A named family of random tasks: `make(seed)` draws one.

    family: "ridges", "bumps", "hard", "many", "budgets" or "movements".
    hopeless: True where nothing can be learned; a learner should then express doubt.
    """

    name: str
    family: str
    make: Callable[[int], Task]
    description: str
    hopeless: bool = False


@dataclass(frozen=True, eq=False)
class KnownTask(FunctionTask):
    """A task that knows its true and its best returns. `known_task` makes it.

    function: (contexts [N, S], parameters [N, D]) -> true returns [N], also where S = 0.
    best: contexts [N, S] -> the best possible true return in each, [N].
    observe: (true returns [N], seeds [N]) -> the returns a learner is told, [N]; None: the true ones.
    """

    best: Callable[[np.ndarray], np.ndarray] | None = None
    observe: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    def true_returns(self, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """The returns without noise, outliers and failures; of a random success, its probability."""
        s, xi = self._checked(contexts, parameters)
        return np.asarray(self.function(s, xi), dtype=float)

    def evaluate(self, contexts: Any, parameters: Any, seeds: Any = None) -> Float[np.ndarray, " N"]:
        """The returns as a learner is told them. What is random in a rollout comes from its seed alone."""
        returns = self.true_returns(contexts, parameters)
        numbers = check_seeds(seeds, len(returns))
        return returns if self.observe is None else np.asarray(self.observe(returns, numbers), dtype=float)

    def best_returns(self, contexts: Any) -> Float[np.ndarray, " N"]:
        """The best possible true return in each context."""
        rows = np.asarray(contexts, dtype=float)
        return np.full(len(rows), np.nan) if self.best is None else np.asarray(self.best(rows), dtype=float)

    def blind_return(self) -> float:
        """Mean true return of the initial distribution over the evaluation contexts (Monte Carlo, fixed seed)."""
        return self._blind

    @cached_property
    def _blind(self) -> float:
        contexts = self.evaluation_contexts()
        rows = np.repeat(contexts, -(-BLIND_ROLLOUTS // len(contexts)), axis=0)
        return float(np.mean(self.true_returns(rows, self.sample_initial(make_key(_BLIND_KEY), rows))))


def known_task(
    name: str,
    returns: Callable[[np.ndarray, np.ndarray], np.ndarray],
    best: Callable[[np.ndarray], np.ndarray],
    *,
    initial: Any,
    contexts: Any = None,
    observe: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    evaluation: np.ndarray | None = None,
    **extras: Any,
) -> KnownTask:
    """A `KnownTask` with true returns `returns`; extras as for `task_from_function`, and `solutions`."""
    initial = as_distribution(initial, "initial")
    contexts = None if contexts is None else as_distribution(contexts, "contexts")
    extras = {"initial_rollouts": first_by_default(contexts, initial)} | extras
    return KnownTask(
        function=returns,
        contexts=contexts,
        initial=initial,
        name=name,
        batched=True,
        takes_seeds=observe is not None,
        evaluation=evaluation,
        best=best,
        observe=observe,
        **extras,
    )


def generator(name: str, seed: int) -> np.random.Generator:
    """The random numbers that the task of a cell is drawn with: others for every name and every seed."""
    return np.random.default_rng(np.random.SeedSequence([seed, crc32(name.encode())]))


def uniforms(name: str, seeds: np.ndarray, n: int) -> Float[np.ndarray, "N n"]:
    """`n` numbers in (0, 1) for each rollout seed, which depend on nothing but the cell's name and that seed."""
    draws = [generator(name, seed).random(n) for seed in seeds.tolist()]
    return np.clip(np.array(draws).reshape(len(draws), n), 1e-16, 1.0 - 1e-16)
