"""Rollouts in processes of this machine, by loky. A worker that dies or hangs is replaced; its job is tried again.

Every worker has a pool of its own, so that it is known which job a death belongs to and the others go on.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from loky import ProcessPoolExecutor

from hpsde.base.checks import check_count
from hpsde.errors import HpsdeError
from hpsde.runs.jobs import (
    SHORT_SECONDS,
    Job,
    Outcome,
    check_timeout,
    evaluate_job,
    failed_outcome,
    single_jobs,
    timeout_reason,
)
from hpsde.runs.processes import end_process, start_process
from hpsde.runs.shipping import packed_task, unpacked_task

GRACE_SECONDS = 5.0
"""How much longer than its time limit allows a job may take before its worker is killed."""
_DEATHS = 2
_FAILED_STARTS = 3


class LocalProcesses:
    """Evaluates jobs in `workers` processes of this machine, which start when first needed.

    A job whose worker was killed is tried again; when that happens a second time it fails. When a job is far past
    its time limit, in code that no signal interrupts, its worker is killed and it fails. Where such a job has several
    rollouts, each is evaluated by itself before it fails.
    """

    def __init__(self, task: Any, workers: int, timeout: float | None = None):
        self.workers = check_count("workers", workers, 1)
        self.under_way = 0
        self._timeout = check_timeout(timeout)
        packed = packed_task(task)
        self._lanes = [_Lane(packed, self._timeout) for _ in range(self.workers)]
        self._stopped = False

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """The outcomes of the jobs in the order they are ready, each rollout once."""
        waiting, deaths = deque(jobs), Counter[tuple[int, ...]]()
        try:
            self._fill(waiting)
            while any(lane.jobs for lane in self._lanes):
                self._wait()
                ready: list[Outcome] = []
                for lane in self._lanes:
                    ready += lane.take_ready()
                    ready += self._recover(lane, waiting, deaths)
                self._fill(waiting)
                for outcome in ready:
                    self.under_way -= len(outcome.ids)
                    yield outcome
        finally:
            # Only where the caller gave up or a worker could not start is anything left here.
            for lane in self._lanes:
                if lane.jobs:
                    lane.kill()
            self.under_way = 0

    def stop(self) -> None:
        """Start no further job: `run` yields those under way, then ends."""
        self._stopped = True

    def close(self) -> None:
        """Kill the workers."""
        self._stopped = True
        for lane in self._lanes:
            lane.kill()

    def __enter__(self) -> LocalProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self, waiting: deque[Job]) -> None:
        """Hand out waiting jobs: one to every idle worker, then one in advance to those whose jobs are short."""
        for depth in (1, 2):
            for lane in self._lanes:
                wanted = waiting and not self._stopped and len(lane.jobs) < min(depth, lane.depth)
                if wanted and lane.submit(waiting[0]):
                    self.under_way += len(waiting.popleft())

    def _wait(self) -> None:
        """Until a job is done, a worker is up or dead, or a job is past its time."""
        futures = [future for lane in self._lanes for future in lane.futures()]
        deadlines = [lane.deadline for lane in self._lanes if lane.deadline is not None]
        seconds = max(min(deadlines) - time.monotonic(), 0.0) if deadlines else None
        wait(futures, timeout=seconds, return_when=FIRST_COMPLETED)

    def _recover(self, lane: _Lane, waiting: deque[Job], deaths: Counter[tuple[int, ...]]) -> list[Outcome]:
        """Replace a worker that died or hangs: the job it was at is to blame, one in advance waits again."""
        hangs = lane.deadline is not None and time.monotonic() > lane.deadline
        if not lane.jobs or not (lane.broken or hangs):
            return []
        (blamed, *others), was_up, seconds = lane.jobs, lane.up, lane.seconds
        lane.kill()
        for job in reversed(others):
            self._put_back(job, waiting)
        if hangs and self._timeout is not None:
            return self._given_up(blamed, timeout_reason(self._timeout), seconds, waiting)
        lane.failed_starts = 0 if was_up else lane.failed_starts + 1
        if lane.failed_starts == _FAILED_STARTS:
            raise HpsdeError(
                f"a worker process died {_FAILED_STARTS} times while it started or loaded the task; "
                "what it printed says why"
            )
        deaths[blamed.ids] += was_up
        if deaths[blamed.ids] == _DEATHS:
            reason = "its worker process was killed twice (out of memory?)"
            return self._given_up(blamed, reason, seconds, waiting)
        self._put_back(blamed, waiting)
        return []

    def _given_up(self, job: Job, reason: str, seconds: float, waiting: deque[Job]) -> list[Outcome]:
        """A job that failed with its worker: its outcome, or its rollouts put back one by one."""
        if len(job) == 1:
            return [failed_outcome(job, reason, seconds)]
        for single in reversed(single_jobs(job)):
            self._put_back(single, waiting)
        return []

    def _put_back(self, job: Job, waiting: deque[Job]) -> None:
        self.under_way -= len(job)
        waiting.appendleft(job)


class _Lane:
    """One worker process and the jobs it was given, which it does in their order."""

    def __init__(self, packed: bytes, timeout: float | None):
        self.failed_starts = 0
        self.depth = 1
        self._packed, self._timeout = packed, timeout
        self._pool: ProcessPoolExecutor | None = None
        self._start: Future[None] | None = None
        self._given: deque[tuple[Job, Future[Outcome]]] = deque()
        self._since: float | None = None

    @property
    def jobs(self) -> list[Job]:
        """The job that is being evaluated, and the one given in advance."""
        return [job for job, _ in self._given]

    @property
    def up(self) -> bool:
        """Whether the process has started and loaded the task."""
        return self._start is not None and self._start.done() and self._start.exception() is None

    @property
    def broken(self) -> bool:
        """Whether the process died."""
        return any(_died(future) for future in self.futures())

    @property
    def seconds(self) -> float:
        """How long the first job has been under evaluation."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    @property
    def deadline(self) -> float | None:
        """When the first job must be over, also if its rollouts are evaluated twice: together, then one by one."""
        if self._since is None or self._timeout is None:
            return None
        n = len(self._given[0][0])
        return self._since + self._timeout * (2 * n if n > 1 else 1) + GRACE_SECONDS

    def futures(self) -> list[Future[Any]]:
        """What there is to wait for."""
        start = [] if self._start is None or self.up else [self._start]
        return [*start, *(future for _, future in self._given)]

    def submit(self, job: Job) -> bool:
        """Give the worker a job, in a new process where there is none or it died while idle.

        False where it died at another job, which must be seen to first.
        """
        if self._pool is not None:
            try:
                self._add(self._pool, job)
                return True
            except BrokenProcessPool:
                if self._given:
                    return False
                self.kill()
        self._pool, self._start = start_process(_load_task, self._packed)
        self._add(self._pool, job)
        return True

    def take_ready(self) -> list[Outcome]:
        """The outcomes that are there. What a worker raises, other than by dying, is raised here."""
        ready: list[Outcome] = []
        if self._start is not None and self._start.done() and not _died(self._start):
            self._start.result()
        while self._given and self._given[0][1].done() and not _died(self._given[0][1]):
            ready.append(self._given.popleft()[1].result())
            self._since = None
        if ready:
            self.depth = 2 if ready[-1].seconds < SHORT_SECONDS else 1
        self._set_clock()
        return ready

    def kill(self) -> None:
        """Kill the process and forget its jobs."""
        self._given.clear()
        self._since, self._start = None, None
        pool, self._pool = self._pool, None
        end_process(pool)

    def _add(self, pool: ProcessPoolExecutor, job: Job) -> None:
        self._given.append((job, pool.submit(_evaluate, job, self._timeout)))
        self._set_clock()

    def _set_clock(self) -> None:
        if self._since is None and self._given and self.up:
            self._since = time.monotonic()


def _died(future: Future[Any]) -> bool:
    return future.done() and isinstance(future.exception(), BrokenProcessPool)


_packed = b""
"""In a worker process: its task."""


def _load_task(packed: bytes) -> None:
    """Runs first in a new worker process."""
    global _packed
    _packed = packed
    unpacked_task(packed)


def _evaluate(job: Job, timeout: float | None) -> Outcome:
    return evaluate_job(unpacked_task(_packed), job, timeout)
