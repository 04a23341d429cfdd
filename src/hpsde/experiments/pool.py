"""Many independent calls in processes that stay, so that what one call compiled serves the next of its group."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Generic, TypeVar

from loky import ProcessPoolExecutor

from hpsde.runs.processes import end_process, start_process

MOST_BYTES = "4e9"
"""A worker that has grown by more is replaced after its run. It should stay: what it has compiled goes with it."""

Job = TypeVar("Job")
Result = TypeVar("Result")


def in_processes(
    jobs: Sequence[Job],
    workers: int,
    execute: Callable[[Job], Result],
    lost: Callable[[Job], Result],
    group: Callable[[Job], Hashable],
) -> Generator[tuple[Job, Result], None, None]:
    """Every job with what came of it, as they are done: in so many processes, or with 0 in this one.

    execute: does a job. lost: what becomes of one whose process died. group: jobs of the same group compile the same.
    """
    if workers == 0:
        yield from ((job, execute(job)) for job in jobs)
        return
    queue, lanes = Queue(jobs, group), [_Lane(execute, lost) for _ in range(min(workers, len(jobs)))]
    try:
        while True:
            for lane in lanes:
                if lane.future is None and (job := queue.next(lane.group)) is not None:
                    lane.start(job, group(job))
            busy = {lane.future for lane in lanes if lane.future is not None}
            if not busy:
                return
            wait(busy, return_when=FIRST_COMPLETED)
            for lane in lanes:
                if lane.future is not None and lane.future.done():
                    yield lane.finish()
    finally:
        for lane in lanes:
            lane.kill()


class Queue(Generic[Job]):
    """The jobs that wait, by group: a worker stays with a group, whose functions it has compiled."""

    def __init__(self, jobs: Iterable[Job], group: Callable[[Job], Hashable]):
        self._groups: dict[Hashable, deque[Job]] = {}
        for job in jobs:
            self._groups.setdefault(group(job), deque()).append(job)
        self._fresh = deque(self._groups)

    def next(self, group: Hashable | None) -> Job | None:
        """The next job for a worker that did `group` last: of the same, of one not begun, of the longest."""
        if group is None or not self._groups[group]:
            if self._fresh:
                group = self._fresh.popleft()
            else:
                group = max(self._groups, key=lambda name: len(self._groups[name]), default=None)
        waiting = self._groups[group] if group is not None else deque[Job]()
        return waiting.popleft() if waiting else None


class _Lane(Generic[Job, Result]):
    """One worker process, which does one job at a time."""

    def __init__(self, execute: Callable[[Job], Result], lost: Callable[[Job], Result]) -> None:
        self._execute, self._lost = execute, lost
        self.group: Hashable | None = None
        self.future: Future[Result] | None = None
        self._job: Job | None = None
        self._pool: ProcessPoolExecutor | None = None

    def start(self, job: Job, group: Hashable) -> None:
        """Hand the job to the worker."""
        if self._pool is None:
            environment = {"JAX_PLATFORMS": "cpu", "LOKY_MAX_MEMORY_LEAK_SIZE": MOST_BYTES}
            self._pool, _ = start_process(os.getpid, environment=environment)
        self._job, self.group = job, group
        self.future = self._pool.submit(self._execute, job)

    def finish(self) -> tuple[Job, Result]:
        """The job that is done, and what came of it."""
        job, future = self._job, self.future
        self._job = self.future = None
        if job is None or future is None:
            raise RuntimeError("the worker has no job")
        try:
            return job, future.result()
        except BrokenProcessPool:
            self.kill()
            return job, self._lost(job)

    def kill(self) -> None:
        """End the process."""
        pool, self._pool = self._pool, None
        end_process(pool)
