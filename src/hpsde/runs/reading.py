"""What is in a run's database: all of it is checked where it is read, and as much is read as is there."""

from __future__ import annotations

import json
import sqlite3
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.errors import FileFormatError, StorageError
from hpsde.runs import events
from hpsde.runs.arrays import Rows, make_rows, named_options
from hpsde.runs.checksums import wrong_rows
from hpsde.runs.database_errors import storage_errors
from hpsde.runs.events import Event
from hpsde.runs.records import read_record
from hpsde.runs.rows import OF_THESE, Columns, check_complete, check_numbered, read_columns, read_rows, read_unchecked
from hpsde.runs.schema import COLUMNS, NEW, OPEN, quoted
from hpsde.runs.totals import Totals, read_totals

_NO_NUMBERS = (ValueError, TypeError, OverflowError, RecursionError)


class StoreReader:
    """A run's database, to read. Several threads may share it: they take turns."""

    def __init__(self, path: Path, connection: sqlite3.Connection, context_size: int, parameter_size: int):
        self.path, self.context_size, self.parameter_size = path, context_size, parameter_size
        self._connection = connection
        self._turn = threading.RLock()
        self._closed = False
        self._events: list[Event] = []  # those read so far: an event never changes

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The database as it is at one moment, whoever is writing to it."""
        with self._turn, storage_errors(self.path):
            self._check_open()
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the database."""
        with self._turn:
            self._connection.close()
            self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(f"{self.path} was closed: open the run again, Run.open({str(self.path.parent)!r})")

    # Rollouts

    def rows(self, where: str | None = None, values: Sequence[Any] = ()) -> Rows:
        """All rollouts, or those of a query."""
        with self.reading() as connection:
            columns = read_columns(connection, "rollouts", where or "1", values)
            if where is None:
                check_complete("rollouts", len(columns["id"]), read_totals(connection).rollouts)
            return self._arrays(columns)

    def open_rows(self) -> Rows:
        """The rollouts that were asked for and not told yet."""
        with self.reading() as connection:
            return self._arrays(_open(connection))

    def new_rows(self) -> Rows:
        """The rollouts that were told since the last learning step."""
        with self.reading() as connection:
            columns, totals = read_columns(connection, "rollouts", NEW), read_totals(connection)
            told = zip(columns["id"], columns["status"], columns["step"], strict=True)
            new = [number for number, status, step in told if status != "asked" and step is None]
            _check_index(columns, new, totals.new_done + totals.new_failed)
            return self._arrays(columns)

    def used_rows(self) -> Rows:
        """The rollouts that learning steps have used, in the order in which they did."""
        with self.reading() as connection:
            columns = read_columns(connection, "rollouts", "step IS NOT NULL", order="step, id")
            check_complete("rollouts", len(columns["id"]), read_totals(connection).used)
            return self._arrays(columns)

    def rows_of(self, ids: Sequence[int]) -> Rows:
        """The rollouts of these numbers, as far as there are such, in the order of their numbers."""
        return self.rows(OF_THESE, [json.dumps(list(ids))])

    def _arrays(self, columns: Columns) -> Rows:
        return make_rows(columns, self.context_size, self.parameter_size, self.events(), self.option_numbers)

    def whole_rows(self) -> tuple[Columns, Rows, list[int]]:
        """All rollouts that are not damaged, as columns and as arrays, and the numbers of those that are."""
        with self.reading() as connection:
            columns = read_unchecked(connection, "rollouts")
            wrong = set(wrong_rows("rollouts", columns))
            kept = [i for i in range(len(columns["id"])) if i not in wrong]
            whole = {name: [values[i] for i in kept] for name, values in columns.items()} if wrong else columns
            return whole, self._arrays(whole), [columns["id"][i] for i in sorted(wrong)]

    def table(self) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Names and rows of all columns of the table `rollouts`, as they are in the database."""
        with self.reading() as connection:
            found = connection.execute(f"SELECT {quoted(COLUMNS)} FROM rollouts ORDER BY id")
            return COLUMNS, found.fetchall()

    def option_numbers(self, policy: np.ndarray, option: np.ndarray) -> np.ndarray:
        """What the options are called that rollouts of these policies and places [N] came from; 0: no option."""
        used = policy[policy > 0]
        if not len(used):
            return option + 1
        found = self._records("step BETWEEN ? AND ?", [int(used.min()), int(used.max())])
        return named_options({step: record.get("numbers", []) for step, record in found.items()}, policy, option)

    def open_ids(self) -> list[int]:
        """The numbers of the rollouts that were asked for and not told yet."""
        with self.reading() as connection:
            return _open(connection)["id"]

    def first_ids(self, asks: Sequence[int]) -> dict[int, int]:
        """The number of the first rollout of each of these asks. Asks are numbered in the order of their rollouts."""
        with self.reading() as connection:
            ids = range(1, read_totals(connection).rollouts + 1)

            def ask_of(number: int) -> int:
                return int(read_rows(connection, [number])[number]["ask"])

            return {ask: ids[bisect_left(ids, ask, key=ask_of)] for ask in asks}

    # Totals

    def totals(self) -> Totals:
        """How much there is of everything."""
        with self.reading() as connection:
            return read_totals(connection)

    def counts(self) -> dict[str, int]:
        """How many rollouts there are of each status."""
        totals = self.totals()
        return {"asked": totals.asked, "done": totals.done, "failed": totals.failed}

    def position(self) -> tuple[int, int, int]:
        """How many rollouts, asks and learning steps there have been."""
        totals = self.totals()
        return totals.rollouts, totals.asks, totals.steps

    def best_return(self) -> float | None:
        """The highest return so far."""
        return self.totals().highest

    def new_usable(self) -> int:
        """How many rollouts were told, and did not fail, since the last learning step."""
        return self.totals().new_done

    def returns(self) -> np.ndarray:
        """All returns told so far."""
        with self.reading() as connection:
            return np.array(read_columns(connection, "rollouts", "status = 'done'")["return"], dtype=float)

    # Learning steps and events

    def steps(self) -> list[dict[str, Any]]:
        """The records of all learning steps."""
        with self.reading() as connection:
            found = self._records("1")
            check_numbered("steps", list(found), read_totals(connection).steps)
        return list(found.values())

    def last_step(self) -> dict[str, Any] | None:
        """The record of the last learning step, None where there is none."""
        with self.reading() as connection:
            last = read_totals(connection).steps
            found = self._records("step = ?", [last])
            check_complete("steps", len(found), min(last, 1))
        return found.get(last)

    def _records(self, where: str, values: Sequence[Any] = ()) -> dict[int, dict[str, Any]]:
        with self.reading() as connection:
            columns = read_columns(connection, "steps", where, values)
        try:
            return {step: read_record(text) for step, text in zip(columns["step"], columns["record"], strict=True)}
        except _NO_NUMBERS as error:
            raise FileFormatError(f"{self.path}: the record of a learning step is damaged: {error}") from error

    def events(self) -> list[Event]:
        """All that was changed about the run after the fact."""
        with self.reading() as connection:
            known = len(self._events)
            columns = read_columns(connection, "events", "event > ?", [known])
            check_numbered("events", [*range(1, known + 1), *columns["event"]], read_totals(connection).events)
            names = ("event", "at", "kind", "content")
            try:
                self._events += [
                    events.read_event(*row) for row in zip(*(columns[name] for name in names), strict=True)
                ]
            except _NO_NUMBERS as error:
                raise FileFormatError(f"{self.path}: an event is damaged: {error}") from error
            return list(self._events)


def _open(connection: sqlite3.Connection) -> Columns:
    """The rollouts that were asked for and not told yet."""
    columns = read_columns(connection, "rollouts", OPEN)
    asked = [i for i, status in zip(columns["id"], columns["status"], strict=True) if status == "asked"]
    _check_index(columns, asked, read_totals(connection).asked)
    return columns


def _check_index(columns: Columns, right: list[int], wanted: int) -> None:
    """FileFormatError unless an index has led to as many rollouts as there are, each of them once and a right one: it
    has no checksum of its own.
    """
    check_complete("rollouts", len(set(right)), wanted)
    check_complete("rollouts", len(columns["id"]), wanted)
