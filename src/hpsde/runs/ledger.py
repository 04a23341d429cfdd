"""The books of a run: what was told, where it stands. Needs no learner, so the commands that use it answer at once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hpsde.base.checks import LARGEST, as_numbers, check_count, check_rows, usable_numbers
from hpsde.base.plain_files import open_plain
from hpsde.errors import FarReturnWarning, FileFormatError, InputError, RunLockedError
from hpsde.runs.age import check_age
from hpsde.runs.arrays import Rows
from hpsde.runs.config import RunConfig, read_config
from hpsde.runs.events import EXTENDED, added_count
from hpsde.runs.far_returns import LEAST, far_returns, may_be_far
from hpsde.runs.folder import CONFIG, DATABASE, ENCODER, LOCK, LOG, STATE, check_files, check_parts
from hpsde.runs.lock import WAIT_SECONDS, RunLock
from hpsde.runs.plans import planned
from hpsde.runs.store import Store
from hpsde.steps.encoders import Encoder

Kind = TypeVar("Kind", bound="Ledger")


class Told(NamedTuple):
    """What came of a rollout: its return, or why it failed, and the parameters that were run where not those asked."""

    id: Any
    value: Any = None
    failed: str | None = None
    parameters: Any = None


@dataclass(frozen=True)
class Status:
    """Where a run stands. `open` are the numbers of rollouts that were asked for and not told yet.

    added: how many of those done were made elsewhere, beside the `rollouts` that there are to be.
    options: every option there has been, as `option_lives` says. doubts: those of the last learning step. events: what
    was corrected or changed since the run was made, and when.
    """

    folder: str
    name: str
    method: str
    rollouts: int
    done: int
    failed: int
    asked: int
    open: tuple[int, ...]
    steps: int
    options_kept: int
    options: tuple[dict[str, Any], ...]
    doubts: tuple[dict[str, Any], ...]
    best_return: float | None
    running: dict[str, Any]
    added: int = 0
    events: tuple[dict[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The same as a dictionary."""
        return asdict(self)


class Ledger:
    """A run that can be told and read. `Run` is a ledger that can also ask and learn."""

    def __init__(self, folder: Path, config: RunConfig, task: Any = None, encoder: Any = None):
        self._given_encoder = encoder
        self.folder, self.made_with, self.task = folder, config, task
        self.lock = RunLock(folder / LOCK)
        self.store = Store(folder / DATABASE, config.context_size, config.parameter_size, self.lock)
        self.config = planned(config, self.store.events())
        self._whole = False  # whether the database is known to be no old copy

    @classmethod
    def open(
        cls: type[Kind], folder: str | Path, *, task: Any = None, trust: bool = False, encoder: Any = None
    ) -> Kind:
        """The run in a folder. A run of a task of your own, made with `create(folder, task)`, takes it again here; so
        does one with an encoder that is a function of your own.

        trust: the code that the folder names may run, where ask and tell need it: a task of your own, made by name.
        """
        folder = Path(folder)
        check_parts(folder)
        check_files(folder)
        config = read_config(folder / CONFIG)
        if trust and task is None:
            from hpsde.runs.making import trusted_task

            task = trusted_task(config)
        return cls(folder, config, task, encoder=encoder)

    @cached_property
    def encoder(self) -> Encoder | None:
        """What makes a few numbers of the run's contexts, from its file or, a function of your own, as it was given."""
        from hpsde.runs.encoding import load_encoder

        return load_encoder(self.folder / ENCODER, self.made_with, self._given_encoder)

    def close(self) -> None:
        """Close the database."""
        self.store.close()

    def __enter__(self: Kind) -> Kind:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tell(self, id: Any, value: Any = None, *, failed: str | None = None, parameters: Any = None) -> None:
        """The return of a rollout by its number, or the reason why it failed; lists of ids and returns at once.

        parameters: those that were run, where they are not those that were asked. Nothing is taken in unless all of
        it is in order. A return that is far outside all others (far_returns.py) is taken, with a `FarReturnWarning`.
        """
        ids = _ids(id)
        many = np.ndim(id) > 0
        if (value is None) == (failed is None):
            raise InputError("tell needs a return or, if the rollout failed, the reason why: expected one of the two")
        returns = None if value is None else _returns(value if many else [value], len(ids))
        reason = None if failed is None else str(failed) or "no reason given"
        executed = None if parameters is None else self._executed(ids, parameters if many else [parameters], reason)
        values = [None] * len(ids) if returns is None else returns.tolist()
        done = [None] * len(ids) if executed is None else list(executed)
        self._take_in([(*outcome[:2], reason, outcome[2]) for outcome in zip(ids, values, done, strict=True)])

    def tell_each(self, told: Sequence[Told]) -> None:
        """Outcomes of several rollouts, returns and failures alike. All of them are taken in, or none."""
        ids = _ids([each.id for each in told])
        wrong = [each.id for each in told if (each.value is None) == (each.failed is None)]
        if wrong:
            raise InputError(f"rollout {wrong[0]}: expected a return, or the reason why it failed; one of the two")
        outcomes = []
        for number, each in zip(ids, told, strict=True):
            reason = None if each.failed is None else str(each.failed) or "no reason given"
            value = None if each.value is None else float(_returns([each.value], 1)[0])
            done = None if each.parameters is None else self._executed([number], [each.parameters], reason)[0]
            outcomes.append((number, value, reason, done))
        self._take_in(outcomes)

    def _take_in(self, outcomes: list[tuple[int, float | None, str | None, Any]]) -> None:
        """Store checked outcomes, each (id, return, reason, executed), and warn of returns far outside all others."""
        if self.lock.running:
            raise RunLockedError(
                f"{self.folder} is being run by process {self.lock.holder().get('process', '?')}, which tells its "
                "rollouts itself"
            )
        self._check_age()
        returns = {number: value for number, value, _, _ in outcomes if value is not None}
        far = self._far(list(returns), np.array(list(returns.values()))) if returns else []
        self.store.tell(outcomes)
        for message in far:
            warnings.warn(message, FarReturnWarning, stacklevel=3)

    def _far(self, ids: list[int], returns: np.ndarray) -> list[str]:
        """What is to be said of returns that are far outside all others."""
        totals = self.store.totals()
        if totals.done >= LEAST and not may_be_far(totals.lowest, totals.highest, returns):
            return []
        before, messages = self.store.returns(), []
        for i in np.flatnonzero(far_returns(before, returns)):
            others = np.concatenate([before, np.delete(returns, i)])
            messages.append(
                f"the return {returns[i]:g} of rollout {ids[i]} is far outside all others, which lie between "
                f"{others.min():g} and {others.max():g}. It was taken; if it is wrong, correct it: "
                f"hpsde correct {self.folder} {ids[i]} --return R"
            )
        return messages

    def note_correction(
        self, id: Any, value: Any = None, *, failed: str | None = None, drop: bool = False, reason: str | None = None
    ) -> None:
        """Write down what `Run.correct` says. Nothing is learned anew yet, but whoever loads the learner does so."""
        if (value is not None) + (failed is not None) + bool(drop) != 1:
            raise InputError("a correction needs a return, the reason of a failure, or drop: expected one of the three")
        (number,) = _ids([id])
        why = None if reason is None else str(reason)
        if value is not None:
            outcome: tuple[float | None, str | None] = float(_returns([value], 1)[0]), None
        else:
            outcome = None, f"dropped: {why or 'no reason given'}" if drop else str(failed) or "no reason given"
        self._check_age()
        self.store.correct(number, *outcome, why, drop)
        self.log(f"corrected rollout {number}: {outcome[1] or outcome[0]}")

    def _executed(self, ids: list[int], parameters: Any, reason: str | None) -> np.ndarray:
        """Parameters [N, D] that were run in place of those asked."""
        executed = check_rows("parameters", parameters, self.config.parameter_size, len(ids))
        asked = self.store.rows_of(ids)
        if reason is None and len(asked) == len(ids) and np.all(asked.status == "asked"):
            place = np.searchsorted(asked.id, ids)  # the store answers in the order of the numbers
            from hpsde.runs.making import learner_of

            learner = learner_of(self.config, self.task, self.encoder)
            learner.check_possible(asked.contexts[place], executed, asked.policy[place])
        return executed

    def extend(self, rollouts: int) -> None:
        """There are to be more rollouts in all than was said at first."""
        with self.lock.hold("extend", wait=WAIT_SECONDS):
            events = self.store.events()
            before = planned(self.made_with, events).rollouts
            if check_count("rollouts", rollouts, 2) < before:
                raise InputError(f"rollouts: this run has {before}; expected at least as many, got {rollouts}")
            if rollouts > before:
                self._check_age()
                self.store.add_event(EXTENDED, {"rollouts": int(rollouts), "before": before})
                self.log(f"extended from {before} to {rollouts} rollouts")
            self.config = planned(self.made_with, self.store.events())

    def _check_age(self) -> None:
        """An error where the database is an old copy: what is written to it is lost when the right one returns."""
        if not self._whole:
            check_age(self.store, self.made_with.run, self.folder / STATE)
            self._whole = True

    def status(self) -> Status:
        """Where the run stands. Changes nothing, and can be asked while the run is running."""
        records, events = self.store.steps(), self.store.events()
        return Status(
            folder=str(self.folder),
            name=self.config.name,
            method=self.config.method,
            rollouts=planned(self.made_with, events).rollouts,
            **self.store.counts(),
            open=tuple(self.store.open_ids()),
            steps=len(records),
            options_kept=int(records[-1].get("options_kept") or 0) if records else 0,
            options=tuple(option_lives(records)),
            doubts=tuple(records[-1].get("doubts", [])) if records else (),
            best_return=self.store.best_return(),
            running=self.lock.holder(),
            added=added_count(events),
            events=tuple(event.as_dict() for event in events),
        )

    def rollouts(self) -> Rows:
        """All rollouts, those under way included, as arrays."""
        return self.store.rows()

    def log(self, text: str) -> None:
        """Add a line to the log. A log that cannot be written stops nothing."""
        try:
            descriptor = open_plain(self.folder / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            with open(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"{_now()} {text}\n")
        except (OSError, FileFormatError):
            pass


def option_lives(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Number of every option of the learning steps, and after how many rollouts it was born and died (None: it lives).

    Empty where the method does not follow its options from step to step.
    """
    lives: dict[int, dict[str, Any]] = {}
    for record in records:
        for number in record.get("born", []):
            lives[number] = {"number": number, "born": record.get("rollouts"), "died": None}
        alive = {number for number, life in lives.items() if life["died"] is None}
        # One who learns anew in other units has forgotten who lived before: they are gone without having died.
        for number in alive.intersection(record.get("died", [])) | alive.difference(record.get("numbers", alive)):
            lives[number]["died"] = record.get("rollouts")
    return list(lives.values())


def _ids(id: Any) -> list[int]:
    """One number, or several different ones."""
    try:
        ids = [check_count("id", number, 1) for number in (id if np.ndim(id) else [id])]
    except InputError:
        raise
    except (TypeError, ValueError):
        raise InputError(f"id: expected the number of a rollout, got {id!r}") from None
    if not ids or len(set(ids)) < len(ids):
        raise InputError(f"id: expected one number or different numbers, got {ids[:20]}")
    return ids


def _returns(values: Any, count: int) -> np.ndarray:
    """Returns [count], finite."""
    returns = as_numbers("return", values)
    if returns.shape != (count,):
        raise InputError(f"return: expected {count} numbers, one for each id; got shape {list(returns.shape)}")
    if not np.all(usable_numbers(returns)):
        raise InputError(
            f"return: expected a finite number of at most {LARGEST:g} in size, got {str(values)[:99]}. A rollout that "
            'gave no return has failed: tell(id, failed="why")'
        )
    return returns


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
