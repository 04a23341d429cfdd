"""Where rollouts are evaluated: in this process, in local processes, on a cluster. The outcome is the same.

An executor is made for one task. `run` takes jobs and yields what came of them as it comes, each rollout once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from hpsde.errors import InputError
from hpsde.runs.jobs import Job, Outcome, check_timeout, evaluate_job
from hpsde.tasks.task import check_ready


@runtime_checkable
class Executor(Protocol):
    """Evaluates jobs of one task."""

    @property
    def workers(self) -> int:
        """How many jobs can be evaluated at the same time."""

    @property
    def under_way(self) -> int:
        """How many rollouts were handed to workers and have not come back."""

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """The outcomes of the jobs in the order they are ready, each rollout once.

        One outcome for each job; but a job of several rollouts that killed its workers, or could not be ended in
        time, is evaluated rollout by rollout, and so are its outcomes.
        """

    def stop(self) -> None:
        """Start no further job: `run` yields those under way, then ends. Safe to call from a signal handler."""

    def close(self) -> None:
        """Let go of processes and connections at once; what is under way is dropped."""

    def __enter__(self) -> Executor: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None: ...


class InProcess:
    """Evaluates jobs one after the other in this process."""

    workers = 1

    def __init__(self, task: Any, timeout: float | None = None):
        self._task, self._timeout = task, check_timeout(timeout)
        self._stopped = False
        self.under_way = 0

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """The outcome of each job, in their order."""
        for job in jobs:
            if self._stopped:
                return
            self.under_way = len(job)
            try:
                outcome = evaluate_job(self._task, job, self._timeout)
            finally:
                self.under_way = 0
            yield outcome

    def stop(self) -> None:
        """Start no further job."""
        self._stopped = True

    def close(self) -> None:
        """Start no further job; there is nothing to let go of."""
        self._stopped = True

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_executor(
    task: Any, *, workers: int | None = None, cluster: Any = None, timeout: float | None = None
) -> Executor:
    """The executor for a task.

    workers: evaluate in that many processes of this machine.
    cluster: evaluate on a dask cluster: "tcp://host:port", the path of a scheduler file, a `distributed.Client`,
        or a cluster object of dask. With neither, rollouts are evaluated in this process.
    timeout: seconds a rollout may take; one that takes longer fails.
    """
    if workers is not None and cluster is not None:
        raise InputError(
            f"workers and cluster exclude each other: rollouts run in local processes or on the cluster; "
            f"got workers={workers!r} and cluster={cluster!r}"
        )
    if cluster is None:
        check_ready(task)
    if workers is not None:
        from hpsde.runs.local import LocalProcesses

        return LocalProcesses(task, workers, timeout)
    if cluster is not None:
        from hpsde.runs.cluster import Cluster

        return Cluster(task, cluster, timeout)
    return InProcess(task, timeout)
