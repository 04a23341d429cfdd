"""Rollouts that are evaluated together, and what came of them. Nothing the task does escapes as an error."""

from __future__ import annotations

import ctypes
import math
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.base.checks import as_numbers, usable_numbers
from hpsde.errors import InputError
from hpsde.steps.rollouts import seed_argument

SHORT_SECONDS = 0.1
"""Who did a shorter job gets its next one in advance, so that it need not wait for the driver."""
_WRAPPER = str(Path(__file__).parent.parent / "tasks" / "task.py")
_LONGEST_REASON = 10_000
_UNWIND_SECONDS = 0.5
"""How long a thread that ran out of time may take to end before it is left to itself."""


@dataclass(frozen=True, eq=False)
class Job:
    """Rollouts that are evaluated together, in one call of the task.

    ids [n]: the rollouts' numbers in their run. contexts [n, S], parameters [n, D]: what to evaluate.
    seeds [n]: one per rollout, for tasks that draw random numbers; the same whenever the rollout is evaluated.
    """

    ids: tuple[int, ...]
    contexts: np.ndarray
    parameters: np.ndarray
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        n = len(self.ids)
        shapes = [np.shape(self.contexts), np.shape(self.parameters)]
        if n == 0 or len(self.seeds) != n or any(len(shape) != 2 or shape[0] != n for shape in shapes):
            raise InputError(
                "a job needs at least one rollout, and for n of them n ids and seeds, contexts [n, S] and parameters "
                f"[n, D]; got {n} ids, {len(self.seeds)} seeds, shapes {list(shapes[0])} and {list(shapes[1])}"
            )
        if wrong := [seed for seed in self.seeds if not 0 <= seed < 2**63]:
            raise InputError(f"seeds must be at least 0 and below 2^63; got {wrong[0]}")

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a job.

    returns [n]: NaN where the rollout failed. reasons [n]: why it failed, or None where it did not.
    seconds: how long the evaluation took by the clock.
    """

    ids: tuple[int, ...]
    returns: np.ndarray
    reasons: tuple[str | None, ...]
    seconds: float


def failed_outcome(job: Job, reason: str, seconds: float = 0.0) -> Outcome:
    """The outcome of a job of which every rollout failed for the same reason."""
    return Outcome(job.ids, np.full(len(job), np.nan), (reason,) * len(job), seconds)


def single_jobs(job: Job) -> list[Job]:
    """The rollouts of a job as jobs of their own."""
    return [
        Job((job.ids[i],), job.contexts[i : i + 1], job.parameters[i : i + 1], (job.seeds[i],)) for i in range(len(job))
    ]


def check_timeout(timeout: Any) -> float | None:
    """A time limit in seconds for one rollout, or None for none."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
        raise InputError(f"timeout must be a positive number of seconds, or None; got {timeout!r}")
    return float(timeout)


def timeout_reason(timeout: float) -> str:
    """What is said of a rollout that took longer than `timeout` seconds."""
    return f"timed out after {timeout:g} s"


def evaluate_job(task: Any, job: Job, timeout: float | None = None) -> Outcome:
    """The outcome of a job: one call of `task.evaluate` for all its rollouts.

    timeout: seconds for one rollout; n rollouts together have n times as long.

    A rollout fails when the task raises, takes too long, or returns something that is no usable number. Where
    the call for several rollouts raises or takes too long, each is evaluated again by itself, so that only the
    culprits fail. A task with a true attribute `takes_seeds` gets the seeds as well, `seeds=` int64 [n].
    """
    start = time.perf_counter()
    outcome = _evaluate_together(task, job, timeout)
    if outcome is None:
        singles = [evaluate_job(task, single, timeout) for single in single_jobs(job)]
        returns = np.concatenate([single.returns for single in singles])
        outcome = Outcome(job.ids, returns, tuple(single.reasons[0] for single in singles), 0.0)
    return replace(outcome, seconds=time.perf_counter() - start)


def _evaluate_together(task: Any, job: Job, timeout: float | None) -> Outcome | None:
    """The outcome of one call of the task; None where the call for several rollouts raised or took too long."""
    try:
        value = _call_task(task, job, timeout)
    except _CallFailedError as failure:
        return failed_outcome(job, failure.reason) if len(job) == 1 else None
    try:
        returns = as_numbers("returns", value)
        if returns.shape != (len(job),):
            raise InputError(f"returns must have shape [{len(job)}]; got {list(returns.shape)}")
    except InputError as error:
        return failed_outcome(job, str(error))
    usable = usable_numbers(returns)
    reasons = tuple(None if good else f"the return was {value:g}" for good, value in zip(usable, returns, strict=True))
    return Outcome(job.ids, np.where(usable, returns, np.nan), reasons, 0.0)


class _CallFailedError(Exception):
    """The call of the task as a whole gave nothing."""

    def __init__(self, reason: str):
        self.reason = reason


def _call_task(task: Any, job: Job, timeout: float | None) -> Any:
    """What the task returns for copies of the job's arrays: whatever it does to them, the job stays as it is."""
    seeds = seed_argument(task, job.seeds)

    def call() -> Any:
        value = task.evaluate(np.array(job.contexts, dtype=float), np.array(job.parameters, dtype=float), **seeds)
        # Arrays of other libraries may still be under computation: wait for them here, within the time limit.
        return np.asarray(value) if hasattr(value, "__array__") else value

    try:
        return call() if timeout is None else _call_within(timeout * len(job), call)
    except KeyboardInterrupt:
        raise
    except _TimedOutError:
        raise _CallFailedError(timeout_reason(timeout or math.nan)) from None
    except BaseException as error:  # also SystemExit, and the panics of foreign languages, which are no Exception
        raise _CallFailedError(_traceback_text(error)) from None


def _traceback_text(error: BaseException) -> str:
    """The traceback of the user's frames; where the error came from the task's wrapper, that of the wrapper's."""
    frames = after_task = after_job = error.__traceback__
    while frames is not None:
        file, frames = frames.tb_frame.f_code.co_filename, frames.tb_next
        after_task = frames if file in (__file__, _WRAPPER) else after_task
        after_job = frames if file == __file__ else after_job
    text = "".join(traceback.format_exception(type(error), error, after_task or after_job)).strip()
    if len(text) > _LONGEST_REASON:
        half = _LONGEST_REASON // 2
        text = f"{text[:half]}\n[...]\n{text[-half:]}"
    return text


class _TimedOutError(BaseException):
    """Raised within the user's code when its time is up. No Exception, so that `except Exception` lets it pass."""


def _call_within(seconds: float, call: Callable[[], Any]) -> Any:
    """call(), or _TimedOutError after `seconds`."""
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        return _call_with_alarm(seconds, call)
    return _call_in_thread(seconds, call)


def _call_with_alarm(seconds: float, call: Callable[[], Any]) -> Any:
    """By the alarm signal, which only a main thread can receive. An alarm of the caller's is set again after."""
    over = False

    def interrupt(signum: int, frame: Any) -> None:
        if not over:
            raise _TimedOutError

    start = time.monotonic()
    old_handler = signal.signal(signal.SIGALRM, interrupt)
    old_seconds, old_interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    # Two levels: the alarm rings once, so even when it rings in the inner `finally`, the outer one runs whole.
    try:
        try:
            return call()
        finally:
            over = True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, old_handler)
        if old_seconds:
            left = max(old_seconds - (time.monotonic() - start), 1e-6)
            signal.setitimer(signal.ITIMER_REAL, left, old_interval)


def _call_in_thread(seconds: float, call: Callable[[], Any]) -> Any:
    """In a thread of its own. When time is up _TimedOutError is raised there; a thread that does not see it, because
    it sleeps or computes outside Python, is left to itself and ends when it next comes to a line of Python."""
    value: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            value.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True, name="hpsde-rollout")
    thread.start()
    thread.join(seconds)
    if thread.is_alive() and thread.ident is not None:
        raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
        raise_in(ctypes.c_ulong(thread.ident), ctypes.py_object(_TimedOutError))
        thread.join(_UNWIND_SECONDS)
        raise _TimedOutError
    if errors:
        raise errors[0]
    return value[0]
