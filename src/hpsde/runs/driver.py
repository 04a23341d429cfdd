"""A stored run as the loop of Algorithm 1 (`hpsde.learning.drive_rounds`) sees it: propose, evaluate, learn.

Every decision of the loop follows from the store, so a process that was killed at any moment and started again
goes on as if nothing had happened. Rollouts are evaluated in fixed chunks with seeds of their own, so the result
depends neither on where they are evaluated nor on how many at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hpsde.base.checks import check_count
from hpsde.base.progress import ProgressBar, doubts_marker, progress_bar
from hpsde.errors import AskTellError, InputError, RolloutsFailedError
from hpsde.learning import count_next, drive_rounds, measure, sample_contexts
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.runs.arrays import Rows
from hpsde.runs.events import added_count
from hpsde.runs.executors import Executor, make_executor
from hpsde.runs.iterations import write_iterations
from hpsde.runs.jobs import Job, Outcome
from hpsde.runs.making import stored_problem
from hpsde.runs.run import Run
from hpsde.runs.signals import stopped_by_signals
from hpsde.tasks.task import check_task

MAX_FAILURES = 20


def drive(
    run: Run,
    task: Any = None,
    *,
    rollouts: int | None = None,
    workers: int | None = None,
    cluster: Any = None,
    timeout: float | None = None,
    executor: Callable[[Any], Executor] | None = None,
    max_failures: int = MAX_FAILURES,
    retry_failed: bool = False,
    progress: bool = True,
) -> HierarchicalPolicy:
    """Run the rollouts that are left, learn from them, and give back the policy.

    task: what evaluates them, where the run was not made with a task or function that it can find itself.
    rollouts: how many there are to be in all, where it is more than was said when the run was made.
    workers, cluster, timeout: where rollouts are evaluated, and how many seconds one may take; see `make_executor`.
    executor: makes an executor of your own for the task (`runs.executors.Executor`), in place of those three.
    max_failures: so many failures one after the other stop the run.
    retry_failed: retry failed rollouts, unless a learning step has happened since they failed.

    Ctrl-C lets the rollouts under way end, then raises KeyboardInterrupt; a second one does not wait for them.
    """
    check_count("max_failures", max_failures, 1)
    where = {"workers": workers, "cluster": cluster, "timeout": timeout}
    if executor is not None and any(value is not None for value in where.values()):
        raise InputError(f"an executor of your own takes the place of {', '.join(where)}: give it alone")
    with run.lock.hold("run"):
        run.task = _task(run, task)
        if rollouts is not None:
            run.extend(rollouts)
        if retry_failed:
            run.log(f"{run.store.reopen_failed()} failed rollouts are tried again")
        with (
            make_executor(run.task, **where) if executor is None else executor(run.task) as evaluating,
            stopped_by_signals(evaluating) as interrupted,
            progress_bar(run.config.rollouts, enabled=progress) as bar,
        ):
            run.log(f"running with {evaluating.workers} worker{'s' if evaluating.workers > 1 else ''}")
            try:
                _Stored(run, evaluating, bar, max_failures, interrupted).until_done()
            finally:
                write_iterations(run)
        run.log("done")
        return run.policy


def _task(run: Run, task: Any) -> Any:
    if task is None and run.task is None:
        problem = stored_problem(run.config)
        if problem is None or not problem.runnable:
            raise InputError(
                f"{run.folder} has no function that could run its rollouts: ask for them and tell them, or give a "
                "task: Run.open(folder).learn(task)"
            )
        task = problem.make_task()
    task = check_task(run.task if task is None else task)
    sizes, wanted = (task.context_size, task.parameter_size), (run.config.context_size, run.config.parameter_size)
    if sizes != wanted:
        raise InputError(f"the task must have {wanted[0]} contexts and {wanted[1]} parameters; it has {sizes}")
    return task


class _Stored:
    """A run whose rollouts an executor evaluates, and what the loop needs to know besides what is in the store."""

    def __init__(
        self, run: Run, executor: Executor, bar: ProgressBar, max_failures: int, interrupted: Callable[[], bool]
    ):
        self.run, self.executor, self.bar = run, executor, bar
        self.max_failures, self.interrupted = max_failures, interrupted
        self.failures_in_a_row = 0
        self.task_seconds = 0.0
        self.added = added_count(run.store.events())  # rollouts made elsewhere: they cost nothing
        self.shown: dict[str, Any] = {}

    def until_done(self) -> None:
        """Whatever the store says comes next, until nothing does."""
        for record in drive_rounds(self):
            doubts = doubts_marker([doubt["kind"] for doubt in record["doubts"]])
            value = record.get("greedy_mean_return", record["batch_mean_return"])
            self.shown = {"mean_return": value, "options_kept": record["options_kept"], "ess": record["ess"]}
            self.shown |= {"doubts": doubts}
            self.run.log(_step_line(record, doubts))

    def check_interrupt(self) -> None:
        """Ctrl-C, or another signal to end."""
        if self.interrupted():
            self.run.log("interrupted")
            raise KeyboardInterrupt

    def has_open(self) -> bool:
        """Whether rollouts were asked for and not told."""
        return self.run.store.counts()["asked"] > 0

    def has_new(self) -> bool:
        """Whether rollouts were told since the last learning step that did not fail."""
        return self.run.store.counts()["done"] >= 2 and self.run.store.new_usable() > 0

    def next_count(self) -> int:
        """How many rollouts to ask for next; 0: the run is done."""
        config, counts = self.run.config, self.run.store.counts()
        asked = sum(counts.values())
        count = count_next(asked, config.initial_rollouts, config.batch, config.rollouts, self.added)
        if count and not self.is_done():
            return count
        if counts["done"] < 2:
            raise AskTellError(f"{counts['failed']} of {asked} rollouts failed: nothing to learn from")
        return 0

    def is_done(self) -> bool:
        """Whether nothing is left to gain; who wants more rollouts than were planned gets them all the same."""
        config, last = self.run.config, self.run.store.last_step()
        if last is None or config.rollouts > self.run.made_with.rollouts:
            return False
        left = last.get("to_gain")
        return isinstance(left, float) and left <= config.tolerance

    def propose(self, count: int) -> None:
        """Store the next rollouts to evaluate."""
        config, store = self.run.config, self.run.store
        contexts = sample_contexts(self.run.task, config.seed, store.position()[1], count)
        self.run.propose(contexts, by_policy=store.counts()["done"] >= config.initial_rollouts)

    def evaluate(self) -> None:
        """Have rollouts evaluated, and store every outcome as it comes."""
        rows = self.run.store.open_rows()
        counts, first_ids = self.run.store.counts(), self.run.store.first_ids(np.unique(rows.ask).tolist())
        self.show(counts, min(len(rows), self.executor.workers * self.run.config.chunk))
        for outcome in self.executor.run(_jobs(rows, first_ids, self.run.config.chunk)):
            self.run.store.tell(
                (number, None if reason else float(value), reason, None)
                for number, value, reason in zip(outcome.ids, outcome.returns, outcome.reasons, strict=True)
            )
            self.task_seconds += outcome.seconds
            counts["failed"] += sum(reason is not None for reason in outcome.reasons)
            counts["done"] += sum(reason is None for reason in outcome.reasons)
            self.show(counts, self.executor.under_way)
            self.count_failures(outcome)

    def count_failures(self, outcome: Outcome) -> None:
        """Stop when too many rollouts failed one after the other."""
        for number, reason in zip(outcome.ids, outcome.reasons, strict=True):
            self.failures_in_a_row = 0 if reason is None else self.failures_in_a_row + 1
            if reason is not None:
                self.run.log(f"rollout {number} failed: {reason.strip().splitlines()[-1]}")
            if self.failures_in_a_row >= self.max_failures:
                raise RolloutsFailedError(
                    f"{self.failures_in_a_row} rollouts failed one after the other; the last one, rollout {number}, "
                    f"because:\n{reason}",
                    "What was told is stored. Mend the cause, then go on with: "
                    f"hpsde resume {self.run.folder} --retry-failed",
                )

    def learn(self) -> dict[str, Any]:
        """A learning step, with what the policy is worth where that is measured; its record."""
        task, seconds = self.run.task, self.task_seconds

        def more(policy: HierarchicalPolicy) -> dict[str, Any]:
            measured = measure(task, policy) if self.run.config.measure else {}
            return measured | {"task_seconds": seconds}

        record = self.run.learn_step(more)
        self.task_seconds = 0.0
        return record

    def show(self, counts: dict[str, int], under_way: int) -> None:
        """Bring the progress bar up to date."""
        done, failed = counts["done"] + counts["failed"] - self.added, counts["failed"]
        self.bar.update(done, under_way=under_way, failed=failed or None, **self.shown)


def _step_line(record: Mapping[str, Any], doubts: str | None) -> str:
    """'step 3: 700 rollouts, 2 options, born 4, died 2, 1 doubt: wide'."""
    parts = [f"step {record['updates']}: {record['rollouts']} rollouts", f"{record['options_kept']} options"]
    parts += [f"{name} {' '.join(map(str, record[name]))}" for name in ("born", "died") if record[name]]
    return ", ".join([*parts, *([doubts] if doubts else [])])


def _jobs(rows: Rows, first_ids: dict[int, int], chunk: int) -> list[Job]:
    """Rollouts in the chunks of their ask: the same ones whenever they are evaluated."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i, (ask, number) in enumerate(zip(rows.ask.tolist(), rows.id.tolist(), strict=True)):
        groups.setdefault((ask, (number - first_ids[ask]) // chunk), []).append(i)
    return [
        Job(
            ids=tuple(rows.id[place].tolist()),
            contexts=rows.contexts[place],
            parameters=rows.parameters[place],
            seeds=tuple(rows.seed[place].tolist()),
        )
        for place in groups.values()
    ]
