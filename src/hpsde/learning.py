"""The loop of Algorithm 1 closed over a task: ask, evaluate, tell, until the rollouts are spent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from hpsde.base.checks import check_count, check_tolerance
from hpsde.base.draws import fold_in, make_key, with_key
from hpsde.base.progress import doubts_marker, progress_bar
from hpsde.errors import InputError
from hpsde.learners.ask_tell import Info, Learner
from hpsde.methods import DEFAULT_METHOD, make_learner
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.steps.bounds import FROM_INITIAL, are_initial
from hpsde.steps.rollouts import rollout_seed, seed_argument
from hpsde.tasks.solutions import coverage_and_surplus
from hpsde.tasks.task import TaskExtras, check_task, task_extras, task_from_function, task_measures

TOLERANCE = 1e-10
BATCH, FEWEST_PARTS, MOST_PARTS = 50, 20, 40
PARTS_OF_POINTS = 50  # without a context every rollout decides where the next one goes


@dataclass(frozen=True)
class Iteration:
    """One round of rollouts and the policy after it."""

    iteration: int
    rollouts: int
    returns: np.ndarray
    learner_seconds: float
    task_seconds: float
    info: Info


class _Clock:
    """Adds up the seconds spent inside `with`."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._start


def sample_contexts(task: Any, seed: int, iteration: int, n: int) -> np.ndarray:
    """The contexts [n, S] of an iteration. A stream of its own: it does not depend on what the learner draws."""
    key = fold_in(fold_in(make_key(seed), 1_000_003), iteration)
    return _as_rows(with_key(task.sample_contexts, key, n))


def _as_rows(contexts: Any) -> np.ndarray:
    """Contexts of any shape with all numbers of one in a row [n, S]."""
    array = np.asarray(contexts, dtype=float)
    return array.reshape(len(array), -1) if array.ndim > 2 else array


@runtime_checkable
class Rounds(Protocol):
    """A run as the loop of Algorithm 1 sees it, in memory or stored (`hpsde.runs.driver`)."""

    def check_interrupt(self) -> None:
        """Raise where the loop is to end now."""

    def has_open(self) -> bool:
        """Whether rollouts were proposed that were not evaluated."""

    def evaluate(self) -> None:
        """Evaluate what is open."""

    def has_new(self) -> bool:
        """Whether there is something to learn from since the last learning step."""

    def learn(self) -> Any:
        """A learning step, and what there is to say of it."""

    def next_count(self) -> int:
        """How many rollouts to propose next; 0: the run is done."""

    def propose(self, count: int) -> None:
        """Propose so many rollouts."""


def drive_rounds(run: Rounds) -> Iterator[Any]:
    """The loop of Algorithm 1: propose, evaluate, learn, until the run is done. One item per learning step."""
    while True:
        run.check_interrupt()
        if run.has_open():
            run.evaluate()
        elif run.has_new():
            yield run.learn()
        elif count := run.next_count():
            run.propose(count)
        else:
            return


def count_next(done: int, first: int, batch: int, total: int, added: int = 0) -> int:
    """How many rollouts to propose after `done`: first the initial ones, then `batch` each time, `total` in all.

    Of those done, `added` were made elsewhere: they stand in for initial ones, and do not count among all.
    """
    initial = first - done if done == added else 0
    return max(0, min(initial if initial > 0 else batch, total + added - done))


class _InMemory:
    """A learner and its task, evaluated here. `learn` gives an Iteration."""

    def __init__(self, task: Any, learner: Learner, first: int, batch: int, total: int, tolerance: float):
        self._task, self._learner = task, learner
        self._first, self._batch, self._total, self._tolerance = first, batch, total, tolerance
        self._learning, self._evaluating = _Clock(), _Clock()
        self._iteration = 0
        self._open: tuple[np.ndarray, np.ndarray] | None = None
        self._new: np.ndarray | None = None

    def check_interrupt(self) -> None:
        """What interrupts has raised already."""

    def has_open(self) -> bool:
        return self._open is not None

    def evaluate(self) -> None:
        if self._open is None:
            raise RuntimeError("nothing was proposed")
        (contexts, parameters), learner = self._open, self._learner
        with self._evaluating:
            numbers = range(len(learner.rollouts) + 1, len(learner.rollouts) + 1 + len(parameters))
            seeds = seed_argument(self._task, [rollout_seed(learner.seed, number) for number in numbers])
            returns = np.asarray(self._task.evaluate(contexts, parameters, **seeds), dtype=float)
        with self._learning:
            learner.tell(contexts, parameters, returns, failed=~np.isfinite(returns))
        self._open, self._new = None, returns

    def has_new(self) -> bool:
        return self._new is not None

    def learn(self) -> Iteration:
        if self._new is None:
            raise RuntimeError("nothing is new")
        learner, returns, self._new = self._learner, self._new, None
        with self._learning:
            learner.policy  # noqa: B018 - re-estimates, so that its time and its info belong to this round
        seconds = self._learning.seconds, self._evaluating.seconds
        return Iteration(self._iteration, len(learner.rollouts), returns, *seconds, learner.info)

    def next_count(self) -> int:
        if not self._learner.info.to_gain > self._tolerance:
            return 0
        return count_next(len(self._learner.rollouts), self._first, self._batch, self._total)

    def propose(self, count: int) -> None:
        self._iteration = self._learner.rollouts.next_iteration
        with self._evaluating:
            contexts = sample_contexts(self._task, self._learner.seed, self._iteration, count)
        with self._learning:
            self._open = contexts, self._learner.ask(contexts).parameters


def iterate(
    task: Any,
    learner: Learner,
    *,
    rollouts: int,
    batch: int | None = None,
    tolerance: float = 0.0,
) -> Iterator[Iteration]:
    """Learn `task` until `rollouts` have been done in all, the initial ones included. One item per round.

    It ends before where no more than `tolerance` is left to gain (`learner.info.to_gain`); 0: never.

    The first round has the learner's `initial_rollouts`, the others `batch` (by default as `batch_size` says). A
    learner that has rollouts already goes on from there.
    """
    batch = batch_size(rollouts, batch, learner.context_size)
    yield from drive_rounds(_InMemory(task, learner, learner.initial_rollouts, batch, rollouts, tolerance))


def measure(task: Any, policy: HierarchicalPolicy) -> dict[str, Any]:
    """How good the greedy policy is on the task's evaluation contexts, and what its options cover."""
    contexts = _as_rows(task.evaluation_contexts())
    chosen = policy.choose(contexts)
    means = policy.option_means(contexts)
    parameters = means[chosen, np.arange(len(chosen))]
    returns = np.asarray(task.evaluate(contexts, parameters), dtype=float)
    result: dict[str, Any] = {
        "greedy_mean_return": float(returns.mean()),
        "greedy_median_return": float(np.median(returns)),
        "options_kept": len(means),
        "options_used": len(np.unique(chosen)),
        "coverage": None,
        "surplus": None,
    }
    solutions = task_extras(task).solutions
    if solutions:
        covered = coverage_and_surplus(solutions, contexts, means)
        result.update(coverage=covered.coverage, surplus=covered.surplus)
    measures = task_measures(task, contexts, parameters)
    return result | {name: float(np.mean(values)) for name, values in measures.items()}


def learn(
    task: Any,
    *,
    initial: Any = None,
    contexts: Any = None,
    rollouts: int | None = None,
    initial_rollouts: int | None = None,
    batch: int | None = None,
    batched: bool = False,
    bounds: Any = FROM_INITIAL,
    encoder: Any = None,
    tolerance: float = TOLERANCE,
    method: str = DEFAULT_METHOD,
    seed: int = 0,
    progress: bool = True,
    **settings: Any,
) -> HierarchicalPolicy:
    """Learn a task, or a plain return function, and give back the policy.

    A return function takes one rollout, f(context, parameters) -> return, or f(parameters) without contexts;
    with `batched=True` it takes arrays [N, S], [N, D] -> [N]. With it come `initial`, where to look for
    parameters, and `contexts`: each a distribution (`hpsde.Uniform`, `hpsde.Gaussian`) or an array of samples.
    `bounds` (low, high) of the parameters are never left; by default those of a uniform `initial`, or of a task that is
    `bounded`; None: there are none.
    Contexts may be of any shape: samples of pictures [M, 64, 64] or [M, 64, 64, 3], of which the function gets one.
    `encoder` makes a few numbers of each, on which all is learned: "pictures" for an `hpsde.PictureEncoder` that is
    fitted to 2,000 of the task's contexts, such an encoder, or a function of your own, [N, 64, 64, 3] -> [N, Z].
    A return that is not finite counts as a failed rollout; what the function raises passes through.

    `rollouts` is how many there are in all, 1050 unless the task says otherwise: fewer where no more than `tolerance`,
    as a share of what the returns vary by, is left to gain (0: all are done). `initial_rollouts` is how many of them,
    by default 4 of 7 (1 of 3 without contexts and with up to four parameters), are drawn from `initial`; `batch` is how
    many there are between two learning steps, by default 50, but from a fortieth to a twentieth of all, and without
    contexts a fiftieth. Settings (`hpsde.Settings`) are given by name.
    """
    if not hasattr(task, "evaluate"):
        task = task_from_function(task, initial=initial, contexts=contexts, batched=batched)
    elif initial is not None or contexts is not None or batched:
        raise InputError(
            "a task has its own contexts and initial distribution, and takes batches; `contexts`, `initial` "
            "and `batched` go with a plain function only"
        )
    first, total = budget(task_extras(check_task(task)), initial_rollouts, rollouts)
    if not are_initial(bounds):
        settings["bounds"] = bounds
    if encoder is not None:
        settings["encoder"] = encoder
    settings = {"initial_rollouts": first, "expected_rollouts": total} | settings
    learner = make_learner(method, task, seed=seed, **settings)
    with progress_bar(total, enabled=progress) as bar:
        for each in iterate(task, learner, rollouts=total, batch=batch, tolerance=check_tolerance(tolerance)):
            finite = each.returns[np.isfinite(each.returns)]
            mean_return = float(finite.mean()) if len(finite) else None
            doubts = doubts_marker([doubt.kind for doubt in learner.policy.doubts])
            shown = {"mean_return": mean_return, "options_kept": each.info.options_kept, "ess": each.info.ess}
            bar.update(each.rollouts, **shown, doubts=doubts)
    return learner.policy


def batch_size(rollouts: int, batch: int | None = None, context_size: int = 1) -> int:
    """Rollouts between two learning steps: those given, or 50, but from a fortieth to a twentieth of all; without a
    context a fiftieth.
    """
    if batch is not None:
        return check_count("batch", batch, 1)
    if not context_size:
        return max(1, rollouts // PARTS_OF_POINTS)
    return max(1, min(BATCH, rollouts // FEWEST_PARTS), rollouts // MOST_PARTS)


def budget(extras: TaskExtras, initial_rollouts: int | None, rollouts: int | None) -> tuple[int, int]:
    """Initial and all rollouts: the task's own or, where fewer are wanted in all, in the same proportion."""
    total = extras.rollouts if rollouts is None else check_count("rollouts", rollouts, 2)
    first = initial_rollouts
    if first is None:
        share = min(total / extras.rollouts, 1.0)
        first = max(2, round(share * extras.initial_rollouts))
    if check_count("initial_rollouts", first, 2) > total:
        raise InputError(f"initial_rollouts must be at most all rollouts, {total}; got {first}")
    return first, total
