"""`hpsde.Run`: ask and tell that survive everything. A run is a folder; docs/run_folder.md describes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpsde.base.checks import check_count
from hpsde.errors import FileFormatError, HpsdeError, InputError, StorageError
from hpsde.learners.ask_tell import Learner, made_by
from hpsde.learning import TOLERANCE
from hpsde.methods import DEFAULT_METHOD
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.runs.config import RunConfig
from hpsde.runs.encoding import check_encoder, save_encoder
from hpsde.runs.events import SET
from hpsde.runs.files import json_ready, write_json
from hpsde.runs.folder import CONFIG, DATABASE, ENCODER, ITERATIONS, PAST, POLICY, RESULT, STATE, prepare_folder
from hpsde.runs.iterations import write_iterations
from hpsde.runs.ledger import Ledger
from hpsde.runs.lock import WAIT_SECONDS
from hpsde.runs.making import learner_of, make_config, storable_settings
from hpsde.runs.past import PastPolicies
from hpsde.runs.plans import planned
from hpsde.runs.replay import catch_up, load_learner, observe, state_origin, step_record
from hpsde.runs.state import save_state
from hpsde.runs.store import Store
from hpsde.settings import values_of
from hpsde.steps.bounds import FROM_INITIAL, are_initial
from hpsde.steps.encoders import context_shape
from hpsde.steps.rollouts import rollout_seed
from hpsde.tasks.task import check_task

LARGEST_ASK = 1_000_000


class Asked(NamedTuple):
    """A rollout to be run: its id, context [S], parameters [D], option (-1: initial policy), and seed.

    option: place among the policy's options. number: what that option is called from its birth on; 0: initial policy.
    """

    id: int
    context: np.ndarray
    parameters: np.ndarray
    option: int
    number: int
    log_density: float
    seed: int


class Run(Ledger):
    """A durable run: rollouts are asked for and told by number, in any order, from any process, after any crash.

    `Run.create` makes one, `Run.open` opens it again. What was asked and told is on disk before the call returns.
    Threads may share it: one at a time asks or learns, and all may tell.
    """

    def __init__(
        self, folder: Path, config: RunConfig, task: Any = None, learner: Learner | None = None, encoder: Any = None
    ):
        """`learner`: that of a new run, which has learned nothing yet."""
        super().__init__(folder, config, None if task is None else check_task(task), encoder)
        self._learner = learner
        self._seen_events = 0  # how many events the learner in memory knows of
        self._remembered = False  # whether the learner began with a state that was stored

    @classmethod
    def create(
        cls,
        folder: str | Path,
        what: Any = None,
        *,
        contexts: Any = None,
        initial: Any = None,
        context_size: int | tuple[int, ...] | None = None,
        batched: bool | None = None,
        bounds: Any = FROM_INITIAL,
        method: str = DEFAULT_METHOD,
        seed: int = 0,
        rollouts: int | None = None,
        initial_rollouts: int | None = None,
        batch: int | None = None,
        chunk: int | None = None,
        measure: bool | None = None,
        tolerance: float = TOLERANCE,
        encoder: Any = None,
        overwrite: bool = False,
        **settings: Any,
    ) -> Run:
        """A new run in a new or empty folder, or with `overwrite` in place of the run that is there.

        what: a task by name, "module:function", a TOML file, a `Problem` or a task; None where rollouts are asked
            for and told by hand. With None or a function go `initial` and, where there are contexts, `contexts` (their
            distribution) or `context_size`, a number or the shape of a picture.
        bounds, method, seed, rollouts, initial_rollouts, tolerance, encoder, settings: as for `hpsde.learn`. batch: how
            many rollouts are told before `ask` learns from them. chunk: how many are evaluated in one call of the task.
        """
        folder = Path(folder)
        shape, size = _shape_and_size(context_size)
        words = {"contexts": contexts, "initial": initial, "context_size": size, "batched": batched}
        config, task, learner = make_config(
            what,
            words,
            shape=shape,
            encoder=encoder,
            name=folder.name,
            method=method,
            seed=seed,
            rollouts=rollouts,
            initial_rollouts=initial_rollouts,
            batch=batch,
            chunk=chunk,
            measure=measure,
            tolerance=tolerance,
            settings=settings if are_initial(bounds) else {"bounds": bounds} | settings,
        )
        check_encoder(learner.encoder)
        prepare_folder(folder, overwrite)
        try:
            Store.create(folder / DATABASE)
            save_encoder(learner.encoder, folder / ENCODER, config.run)
            write_json(folder / CONFIG, config.as_dict())
        except OSError as error:
            raise StorageError(f"{folder} cannot be written: {error}") from error
        run = cls(folder, config, task, learner)
        run.encoder = learner.encoder
        run.log(f"created: {config.name}, {config.method}, seed {config.seed}")
        return run

    def ask(self, contexts: Any = None, *, count: int | None = None) -> list[Asked]:
        """Rollouts to run in these contexts [N, S]; without contexts (S = 0), `count` of them."""
        if count is not None and check_count("count", count, 1) > LARGEST_ASK:
            raise InputError(f"count: expected at most {LARGEST_ASK} rollouts at once, got {count}")
        with self.lock.hold("ask", wait=WAIT_SECONDS):
            learner = self.learner()
            rows = learner.check_contexts(contexts, count)
            by_policy = self.store.counts()["done"] >= self.config.initial_rollouts
            if by_policy and (not self.store.position()[2] or self.store.new_usable() >= self.config.batch):
                self.learn_step()
            return self.propose(rows, by_policy)

    def propose(self, rows: np.ndarray, by_policy: bool) -> list[Asked]:
        """Store what the learner proposes in checked contexts [N, S]. Needs the lock."""
        last, asks, _ = self.store.position()
        ids = range(last + 1, last + 1 + len(rows))
        seeds = [rollout_seed(self.config.seed, number) for number in ids]
        learner = self.learner()
        with self._forgetting():
            with self._doubting_the_state():
                learner.pending = self._pending(learner)
                proposal = learner.propose(rows, by_policy)
            self.store.add_asked(
                ask=asks + 1,
                contexts=rows,
                proposal=proposal,
                seeds=seeds,
                first_id=last + 1,
                policy=made_by(proposal.option, learner.info.updates),
            )
        return [
            Asked(
                id=ids[i],
                context=rows[i],
                parameters=proposal.parameters[i],
                option=int(proposal.option[i]),
                number=int(proposal.number[i]),
                log_density=proposal.log_density[i],
                seed=seeds[i],
            )
            for i in range(len(rows))
        ]

    def _pending(self, learner: Learner) -> np.ndarray:
        """Parameters [N, D] of the rollouts that the learner has proposed and not learned from yet; with contexts there
        are no two alike.
        """
        if learner.context_size:
            return learner.pending
        return np.concatenate([self.store.open_rows().parameters, self.store.new_rows().parameters])

    def add(self, contexts: Any, parameters: Any, returns: Any, *, source: str = "run.add") -> range:
        """Rollouts made elsewhere, such as demonstrations or old logs: contexts [N, S] (None where S = 0), parameters
        [N, D], returns [N]; their numbers. All of them are taken in, or none.

        They count among the first rollouts, so that they stand in for initial ones, but not among those that the run
        was made for (`rollouts`). The density that they came from is estimated. `source` is for the books.
        """
        learner = learner_of(self.config, self.task, self.encoder)
        rows, xi, values, _ = learner.check_told("add", contexts, parameters, returns)
        with self.lock.hold("add", wait=WAIT_SECONDS):
            self._check_age()
            ids = self.store.add_given(rows, xi, values, self.config.seed, str(source))
        self.log(f"added {len(ids)} rollouts from {source}")
        return ids

    def correct(
        self,
        id: Any,
        value: Any = None,
        *,
        failed: str | None = None,
        drop: bool = False,
        reason: str | None = None,
    ) -> None:
        """Another outcome of a rollout that was told: a return, or why it failed, or with `drop` none at all.

        What was told before stays in the database, with the time and the `reason`. What was proposed stays as it was.
        The learning steps that had used the wrong value are done anew.
        """
        with self.lock.hold("correct", wait=WAIT_SECONDS):
            if self.store.position()[2]:
                learner_of(self.made_with, self.task, self.encoder)  # where there can be none, nothing is written down
            self.note_correction(id, value, failed=failed, drop=drop, reason=reason)
            if self.store.position()[2]:
                self.learner()

    def set(self, **settings: Any) -> None:
        """Other settings of the learner, by name, from the next proposal and the next learning step on."""
        with self.lock.hold("set", wait=WAIT_SECONDS):
            learner = self.learner()
            changes = json_ready(storable_settings(settings))
            before = values_of(learner.settings, changes)
            with self._forgetting():
                learner.change_settings(changes)
                after = values_of(learner.settings, changes)
                if after != before:
                    content = {"settings": after, "before": before, "step": self.store.position()[2]}
                    self.store.add_event(SET, content)
                    self.log(f"set {', '.join(f'{name} = {value!r}' for name, value in after.items())}")

    @property
    def policy(self) -> HierarchicalPolicy:
        """The policy learned from all rollouts told so far; learns from those that are new."""
        with self.lock.hold("policy", wait=WAIT_SECONDS):
            if self.store.new_usable():
                self.learn_step()
            return self.learner().policy

    def learner(self) -> Learner:
        """The learner as it stands: from memory, or from the folder when another process has moved the run on."""
        if self._learner is None or not self._is_current(self._learner):
            self.config = planned(self.made_with, self.store.events())
            where = self.folder / STATE
            learner, stored, records = load_learner(self.store, self.made_with, self.task, where, self.encoder)
            if records:
                PastPolicies(self.folder / PAST).forget(min(records))
            if stored < learner.info.updates:
                self._save(learner)
            if records:
                self.store.replace_steps({step: json_ready(record) for step, record in records.items()})
                self._renew_tables()
            self._remembered = stored > 0
            with self._doubting_the_state():
                catch_up(learner, self.store)
            self._learner, self._seen_events = learner, len(self.store.events())
        return self._learner

    def _renew_tables(self) -> None:
        """What was written of learning steps before they were done anew holds no longer."""
        if (self.folder / ITERATIONS).exists():
            write_iterations(self)
        (self.folder / RESULT).unlink(missing_ok=True)

    def _is_current(self, learner: Learner) -> bool:
        _, asks, steps = self.store.position()
        known = learner.proposals, learner.info.updates, self._seen_events
        return known == (asks, steps, len(self.store.events()))

    def learn_step(self, more: Callable[[HierarchicalPolicy], dict[str, Any]] | None = None) -> dict[str, Any]:
        """Learn from all that was told since the last step; its record, with `more` of the policy. Needs the lock."""
        learner, started = self.learner(), time.perf_counter()
        new = self.store.new_rows()
        returns = new.returns[new.status == "done"]
        with self._forgetting():
            with self._doubting_the_state():
                observe(learner, new, np.full(len(new), True))
                policy = learner.update()
            record = step_record(learner, returns, started)
            record = json_ready(record | ({} if more is None else more(policy)))
            self.store.add_step(learner.info.updates, new.id, record)
        self._save(learner)
        return record

    def _save(self, learner: Learner) -> None:
        """The policy first: where the state is up to date, the policy is."""
        try:
            learner.policy.save(self.folder / POLICY)
            PastPolicies(self.folder / PAST).keep(learner.info.updates, (self.folder / POLICY).read_bytes())
            save_state(learner, self.folder / STATE, state_origin(self.store, self.config))
        except OSError as error:
            raise StorageError(f"{self.folder} cannot be written: {error}. No rollout is lost") from error

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """After an error the learner in memory may be ahead of the store: it is read again."""
        try:
            yield
        except BaseException:
            self._learner = None
            raise

    @contextmanager
    def _doubting_the_state(self) -> Iterator[None]:
        """What is wrong with a state that was stored may show only when it is used: then the error says what to do."""
        try:
            yield
        except HpsdeError:
            raise
        except Exception as error:
            if not self._remembered:
                raise
            raise FileFormatError(
                f"the learner failed ({type(error).__name__}: {' '.join(str(error).split())[:200]}). If {STATE} of "
                f"{self.folder} is damaged, removing it helps: all that it remembers is learned again from the rollouts"
            ) from error

    def learn(self, task: Any = None, **arguments: Any) -> HierarchicalPolicy:
        """Run the rollouts that are left and learn from them; `hpsde.runs.driver.drive` says what can be given."""
        from hpsde.runs.driver import drive

        return drive(self, task, **arguments)


def _shape_and_size(context_size: Any) -> tuple[tuple[int, ...] | None, Any]:
    """The shape of a context, where that is given, and how many numbers it has."""
    if context_size is None or np.ndim(context_size) == 0:
        return None, context_size
    shape = context_shape(context_size)
    return shape, prod(shape)
