"""Rollouts on a dask cluster. A job whose worker dies is run again by dask on another one.

The task travels as bytes that dask keeps as the result of a task of its own: fetched once by each worker, and made
again should all workers that hold it be lost. Jobs are the same whenever they run, so running one twice is harmless.

A worker does what it was given, whatever becomes of the driver's wishes. So the cluster is given no more jobs than it
has threads, and twice as many where jobs are short: after `stop` no thread starts another job that takes time.
"""

from __future__ import annotations

import contextlib
import queue
import time
import uuid
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hpsde.errors import HpsdeError, InputError
from hpsde.runs.jobs import SHORT_SECONDS, Job, Outcome, check_timeout, evaluate_job, failed_outcome, single_jobs
from hpsde.runs.shipping import packed_task, unpacked_task

CONNECT_SECONDS = 10.0
_POLL_SECONDS = 0.2
"""How often `run` looks whether it was stopped."""
_COUNT_SECONDS = 1.0
"""How often `run` looks how many threads the workers have: they come and go."""
_WITHOUT_RESULT = ("error", "cancelled")
"""What dask calls futures that come to no result. Others do; one that is "lost" is being computed again."""


class Cluster:
    """Evaluates jobs on a dask cluster.

    cluster: "tcp://host:port", the path of a scheduler file, a `distributed.Client`, or a cluster object of dask.

    A job whose workers died more often than the scheduler allows is tried once more with no other job beside it,
    since dask blames all jobs of a worker for its death; then it fails. Where it has several rollouts, each is
    evaluated by itself before it fails.
    """

    def __init__(self, task: Any, cluster: Any, timeout: float | None = None):
        self._timeout = check_timeout(timeout)
        self._packed = packed_task(task, with_modules=True)
        self._client, self._owned = _connected(cluster)
        self._task: Any = None
        self._pending: dict[str, tuple[Job, Any]] = {}
        self._done: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._stopped = False
        self._depth = 1
        self._counted = 0.0
        self.under_way = 0
        self.workers = max(self._threads(), 1)

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """The outcomes of the jobs in the order they are ready, each rollout once."""
        threads = self._threads()
        self.workers = max(threads, 1)
        if threads == 0:
            warnings.warn("the cluster has no workers; rollouts wait until one joins", stacklevel=2)
        killed: list[Job] = []
        try:
            yield from self._evaluated([] if self._stopped else jobs, killed)
            while killed and not self._stopped:
                again: list[Job] = []
                job = killed.pop()
                yield from self._evaluated([job], again)
                if again and len(job) > 1:
                    killed += single_jobs(job)
                elif again:
                    yield failed_outcome(job, "the worker processes that ran it died (out of memory?)")
        finally:
            self._cancel(list(self._pending))

    def stop(self) -> None:
        """Start no further job: `run` yields those under way, then ends."""
        self._stopped = True

    def close(self) -> None:
        """Cancel what is under way, and close the connection if it was made here."""
        self._stopped = True
        self._cancel(list(self._pending))
        self._task = None
        if self._owned:
            self._client.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _evaluated(self, jobs: Sequence[Job], killed: list[Job]) -> Iterator[Outcome]:
        """The outcomes of the jobs but for those that are added to `killed`."""
        waiting, trimmed = deque(jobs), False
        while self._pending or (waiting and not self._stopped):
            self._fill(waiting)
            if self._stopped and not trimmed:
                self._cancel(self._not_started())
                trimmed = True
            done = self._next_done()
            outcomes = self._gather(done)
            self._fill(waiting)
            yield from outcomes
            killed += [self._killed_job(key) for key in done if key in self._pending]

    def _fill(self, waiting: deque[Job]) -> None:
        """Hand out waiting jobs: one to every thread, then one in advance where jobs are short."""
        if waiting and time.monotonic() - self._counted > _COUNT_SECONDS:
            self.workers, self._counted = max(self._threads(), 1), time.monotonic()
        while waiting and not self._stopped and len(self._pending) < self.workers * self._depth:
            self._submit(waiting.popleft())

    def _submit(self, job: Job) -> None:
        with self._scheduler_errors():
            if self._task is None or self._task.status in _WITHOUT_RESULT:
                self._task = self._client.submit(bytes, self._packed, key=f"hpsde-task-{uuid.uuid4().hex}")
            key = f"hpsde-job-{uuid.uuid4().hex}"
            future = self._client.submit(_evaluate, self._task, job, self._timeout, key=key)
        self._pending[key] = (job, future)
        self.under_way += len(job)
        future.add_done_callback(lambda future: self._done.put(future.key))

    def _next_done(self) -> list[str]:
        """The keys of the jobs that are done, after a short wait if there are none."""
        done: list[str] = []
        with contextlib.suppress(queue.Empty):
            done.append(self._done.get(timeout=_POLL_SECONDS))
            while True:
                done.append(self._done.get_nowait())
        return [key for key in done if key in self._pending]

    def _gather(self, keys: list[str]) -> list[Outcome]:
        """The outcomes of jobs that are done. One whose outcome was lost with its worker is waited for again."""
        keys = [key for key in keys if self._pending[key][1].status not in _WITHOUT_RESULT]
        with self._scheduler_errors():
            outcomes = self._client.gather([self._pending[key][1] for key in keys], errors="skip") if keys else []
        if outcomes:
            self._depth = 2 if outcomes[-1].seconds < SHORT_SECONDS else 1
        arrived = {outcome.ids for outcome in outcomes}
        for key in keys:
            if self._pending[key][0].ids in arrived:
                self._drop(key)
        return outcomes

    def _killed_job(self, key: str) -> Job:
        """The job of a future that came to no result, if that was because its workers died; else an error."""
        from distributed import KilledWorker

        job, future = self._pending[key]
        if future.status != "error":
            raise self._lost()
        with self._scheduler_errors():
            error = future.exception()
        if isinstance(error, InputError):
            raise error
        if not isinstance(error, KilledWorker):
            raise HpsdeError(
                f"a worker of the cluster could not evaluate a job: {type(error).__name__}: {error}. hpsde, in this "
                "version, and what the task imports must be installed on the workers"
            ) from error
        self._drop(key)
        return job

    def _not_started(self) -> list[str]:
        with self._scheduler_errors():
            started = {key for keys in self._client.processing().values() for key in keys}
        return [key for key, (_, future) in self._pending.items() if key not in started and future.status == "pending"]

    def _cancel(self, keys: list[str]) -> None:
        """Give up jobs. What is being evaluated goes on to its end, and its outcome is dropped."""
        if keys and self._client.status == "running":
            with contextlib.suppress(Exception):  # the scheduler may be gone, and so are they then
                self._client.cancel([self._pending[key][1] for key in keys])
        for key in keys:
            self._drop(key)

    def _drop(self, key: str) -> None:
        job, _ = self._pending.pop(key)
        self.under_way -= len(job)

    def _threads(self) -> int:
        """How many threads the workers have; a job takes one."""
        with self._scheduler_errors():
            return sum(self._client.nthreads().values())

    @contextlib.contextmanager
    def _scheduler_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise self._lost(error) from error

    def _lost(self, why: object = "jobs were cancelled") -> HpsdeError:
        return HpsdeError(f"the dask scheduler is lost ({why}); the rollouts that were under way gave no return")


def _connected(cluster: Any) -> tuple[Any, bool]:
    """A client of the cluster, and whether it was made here."""
    try:
        import distributed
    except ImportError as error:
        raise InputError("rollouts on a cluster need dask: pip install 'hpsde[cluster]'") from error
    if isinstance(cluster, distributed.Client):
        if cluster.asynchronous or cluster.status != "running":
            kind = "an asynchronous one" if cluster.asynchronous else f"one that is {cluster.status}"
            raise InputError(f"cluster: expected a running synchronous distributed.Client; got {kind}")
        return cluster, False
    if isinstance(cluster, (str, Path)) and "://" not in str(cluster):
        if not Path(cluster).is_file():
            raise InputError(
                "cluster: expected an address such as tcp://host:8786 or the path of a scheduler file; "
                f"got {str(cluster)!r}, and there is no such file"
            )
        source: dict[str, Any] = {"scheduler_file": str(cluster)}
    elif isinstance(cluster, (str, distributed.deploy.Cluster)):
        source = {"address": cluster}
    else:
        raise InputError(
            "cluster: expected an address such as tcp://host:8786, the path of a scheduler file, a distributed.Client "
            f"or a cluster of dask; got {type(cluster).__name__}"
        )
    try:
        return distributed.Client(**source, timeout=CONNECT_SECONDS, set_as_default=False), True
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"no dask scheduler answers at {cluster}: {error}") from error


def _evaluate(packed: bytes, job: Job, timeout: float | None) -> Outcome:
    return evaluate_job(unpacked_task(packed), job, timeout)
