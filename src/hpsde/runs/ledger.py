"""The books of a run: what was told, where it stands. Needs no learner, so the commands that use it answer at once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hpsde._checks import LARGEST, as_numbers, check_count, check_rows, usable_numbers
from hpsde._plain import open_plain
from hpsde.errors import FileFormatError, InputError, RunLockedError
from hpsde.runs.config import RunConfig, read_config
from hpsde.runs.folder import CONFIG, DATABASE, LOCK, LOG, check_files
from hpsde.runs.lock import RunLock
from hpsde.runs.store import Rows, Store

Kind = TypeVar("Kind", bound="Ledger")


@dataclass(frozen=True)
class Status:
    """Where a run stands. `open` are the numbers of rollouts that were asked for and not told yet.

    options: every option there has been, as `option_lives` says. doubts: those of the last learning step.
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

    def as_dict(self) -> dict[str, Any]:
        """The same as a dictionary."""
        return asdict(self)


class Ledger:
    """A run as one who tells it or looks at it sees it. `Run` is a ledger that can also ask and learn."""

    def __init__(self, folder: Path, config: RunConfig, task: Any = None):
        self.folder, self.config, self.task = folder, config, task
        self.lock = RunLock(folder / LOCK)
        self.store = Store(folder / DATABASE, config.context_size, config.parameter_size)

    @classmethod
    def open(cls: type[Kind], folder: str | Path, *, task: Any = None, trust: bool = False) -> Kind:
        """The run in a folder. A run of a task of your own, made with `create(folder, task)`, takes it again here.

        trust: the code that the folder names may run, where ask and tell need it: a task of your own, made by name.
        """
        folder = Path(folder)
        if not (folder / CONFIG).is_file():
            raise FileFormatError(f"{folder} is not the folder of a run: it has no {CONFIG}")
        check_files(folder)
        config = read_config(folder / CONFIG)
        if trust and task is None:
            from hpsde.runs.making import trusted_task

            task = trusted_task(config)
        return cls(folder, config, task)

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
        it is in order.
        """
        if self.lock.running:
            raise RunLockedError(
                f"{self.folder} is being run by process {self.lock.holder().get('process', '?')}, which tells its "
                "rollouts itself"
            )
        ids = _ids(id)
        many = np.ndim(id) > 0
        if (value is None) == (failed is None):
            raise InputError("tell needs a return or, if the rollout failed, the reason why: expected one of the two")
        returns = None if value is None else _returns(value if many else [value], len(ids))
        reason = None if failed is None else str(failed) or "no reason given"
        executed = None if parameters is None else self._executed(ids, parameters if many else [parameters], reason)
        self.store.tell(
            (
                number,
                None if returns is None else float(returns[i]),
                reason,
                None if executed is None else executed[i],
            )
            for i, number in enumerate(ids)
        )

    def _executed(self, ids: list[int], parameters: Any, reason: str | None) -> np.ndarray:
        """Parameters [N, D] that were run in place of those asked."""
        executed = check_rows("parameters", parameters, self.config.parameter_size, len(ids))
        asked = self.store.rows("status = 'asked'")
        if reason is None and np.all(np.isin(ids, asked.id)):
            place = np.searchsorted(asked.id, ids)  # the store answers in the order of the numbers
            from hpsde.runs.making import make_learner

            make_learner(self.config, self.task).check_possible(asked.contexts[place], executed, asked.policy[place])
        return executed

    def status(self) -> Status:
        """Where the run stands. Changes nothing, and can be asked while the run is running."""
        records = self.store.steps()
        return Status(
            folder=str(self.folder),
            name=self.config.name,
            method=self.config.method,
            rollouts=self.config.rollouts,
            **self.store.counts(),
            open=tuple(self.store.open_ids()),
            steps=len(records),
            options_kept=int(records[-1].get("options_kept") or 0) if records else 0,
            options=tuple(option_lives(records)),
            doubts=tuple(records[-1].get("doubts", [])) if records else (),
            best_return=self.store.best_return(),
            running=self.lock.holder(),
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
        for number in record.get("died", []):
            if number in lives:
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
