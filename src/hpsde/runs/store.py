"""The rollouts of a run in an SQLite database: what was asked or told is on disk before the call returns.

docs/run_folder.md describes the tables. Write-ahead log and full synchronisation: a process can be killed and a
machine can lose its power at any moment, and what was committed is there.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpsde.base.plain_files import same_file
from hpsde.errors import AskTellError, FileFormatError, StorageError
from hpsde.runs import corrections, database_errors, events
from hpsde.runs.checksums import write_row
from hpsde.runs.database_errors import storage_errors
from hpsde.runs.events import no_such_rollout, now
from hpsde.runs.lock import WAIT_SECONDS, RunLock
from hpsde.runs.migration import migrate
from hpsde.runs.opening import in_memory, is_writable, open_database
from hpsde.runs.reading import StoreReader
from hpsde.runs.rows import Row, blob, check_complete, insert_rows, read_rows, update_rows
from hpsde.runs.schema import APPLICATION_ID, STATEMENTS, VERSION, check_schema
from hpsde.runs.totals import Totals, read_totals, write_totals
from hpsde.steps.rollouts import rollout_seed

if TYPE_CHECKING:
    from hpsde.learners.ask_tell import Proposal


class Store(StoreReader):
    """The database of one run. Every method that changes it is one transaction: all of it happens, or nothing."""

    def __init__(self, path: Path, context_size: int, parameter_size: int, lock: RunLock | None = None):
        """`lock` is held where the database is of an earlier version and becomes one of this version."""
        if not path.is_file():
            raise FileFormatError(f"{path.parent} is not the folder of a run: it has no {path.name}")
        self._opened = path.stat()
        with storage_errors(path):
            super().__init__(path, _connect(path), context_size, parameter_size)
            try:
                if check_schema(path, self._connection) < VERSION:
                    self._migrate(lock)
            except BaseException:
                self._connection.close()
                raise

    @staticmethod
    def create(path: Path) -> None:
        """Make an empty database."""
        with storage_errors(path):
            connection = _connect(path)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("BEGIN IMMEDIATE")
                for statement in (*STATEMENTS, f"PRAGMA application_id = {APPLICATION_ID}"):
                    connection.execute(statement)
                write_totals(connection, Totals())
                connection.execute(f"PRAGMA user_version = {VERSION}")
                connection.execute("COMMIT")
            finally:
                connection.close()

    def _migrate(self, lock: RunLock | None) -> None:
        """Make the database one of this version; where it cannot be written, a copy of it in memory."""
        if is_writable(self._connection):
            with nullcontext() if lock is None else lock.hold("migrate", wait=WAIT_SECONDS):
                migrate(self.path, self._connection)
            return
        with closing(self._connection) as source:
            self._connection = in_memory(source)
        migrate(self.path, self._connection)
        self._connection.execute("PRAGMA query_only = ON")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction."""
        with self._turn, storage_errors(self.path):
            self._check_open()
            self._connection.execute("BEGIN IMMEDIATE")
            known = len(self._events)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
                self._check_place()
            except BaseException:
                del self._events[known:]  # those of a transaction that was taken back never were
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _check_place(self) -> None:
        """An error unless the path still names the database that is open: what is written to another is lost."""
        try:
            if same_file(self.path.stat(), self._opened):
                return
        except FileNotFoundError:
            pass
        raise StorageError(
            f"{self.path} is not the database that was opened: its folder was deleted, moved or overwritten since. "
            "What was asked or told just now is not there: open the run again where it is now, and do it again"
        )

    def add_asked(
        self,
        *,
        ask: int,
        contexts: np.ndarray,
        proposal: Proposal,
        seeds: Sequence[int],
        first_id: int,
        policy: np.ndarray,
    ) -> None:
        """Rollouts that were proposed, numbered from `first_id`."""
        at, densities = now(), proposal.log_density
        rows = [
            {
                "id": first_id + i,
                "ask": ask,
                "status": "asked",
                "context": blob(contexts[i]),
                "parameters": blob(proposal.parameters[i]),
                "option": int(proposal.option[i]),
                "log_density": None if np.isnan(densities[i]) else float(densities[i]),
                "seed": seeds[i],
                "policy": int(policy[i]),
                "asked_at": at,
            }
            for i in range(len(contexts))
        ]
        with self._writing() as connection:
            insert_rows(connection, rows)

    def tell(self, told: Iterable[tuple[int, float | None, str | None, Any]]) -> None:
        """(id, return, reason, executed) of each: a return, or else the reason why it failed."""
        at, outcomes = now(), list(told)
        with self._writing() as connection:
            before = read_rows(connection, [outcome[0] for outcome in outcomes])
            last, after = read_totals(connection).rollouts, dict(before)
            for number, value, reason, executed in outcomes:
                after[number] = _open(number, after.get(number), last) | {
                    "status": "done" if reason is None else "failed",
                    "return": value,
                    "reason": storable_text(reason),
                    "executed": None if executed is None else blob(executed),
                    "told_at": at,
                }
            update_rows(connection, list(before.values()), list(after.values()))

    def add_given(
        self, contexts: np.ndarray, parameters: np.ndarray, returns: np.ndarray, seed: int, source: str
    ) -> range:
        """Rollouts that were made elsewhere, as an ask of their own; their numbers."""
        at = now()
        with self._writing() as connection:
            totals = read_totals(connection)
            ids = range(totals.rollouts + 1, totals.rollouts + 1 + len(returns))
            fixed = {"ask": totals.asks + 1, "status": "done", "option": -1, "policy": 0, "asked_at": at, "told_at": at}
            rows = [
                fixed
                | {"id": number, "context": blob(s), "parameters": blob(xi), "return": float(value)}
                | {"seed": rollout_seed(seed, number)}
                for number, s, xi, value in zip(ids, contexts, parameters, returns, strict=True)
            ]
            insert_rows(connection, rows)
            content = {"rollout": ids[0], "last": ids[-1], "source": storable_text(source)}
            events.add_event(connection, events.ADDED, content)
        return ids

    def reopen_failed(self) -> int:
        """Retry failed rollouts, unless a learning step has happened since they failed, or somebody has corrected them;
        how many.
        """
        corrected = {event["rollout"] for event in events.of_kind(self.events(), events.CORRECTED)}
        failed = self.new_rows()
        ids = [number for number in failed.id[failed.status == "failed"].tolist() if number not in corrected]
        with self._writing() as connection:
            before = list(read_rows(connection, ids).values())
            reset = {"status": "asked", "reason": None, "executed": None, "told_at": None}
            update_rows(connection, before, [row | reset for row in before])
        return len(ids)

    def correct(
        self, number: int, value: float | None, reason: str | None, why: str | None, drop: bool = False
    ) -> None:
        """Another outcome of a rollout that was told (`corrections.correct`)."""
        with self._writing() as connection:
            corrections.correct(connection, number, value, storable_text(reason), storable_text(why), drop)
            self.rows_of([number])  # what was damaged may be more than can be dropped

    def replace_steps(self, records: dict[int, dict[str, Any]]) -> None:
        """The records of learning steps that were done anew; the old ones go into an event."""
        with self._writing() as connection:
            corrections.replace_steps(connection, records)

    def add_event(self, kind: str, content: dict[str, Any]) -> None:
        """Something that changes no rollout."""
        with self._writing() as connection:
            events.add_event(connection, kind, content)

    def add_step(self, step: int, ids: np.ndarray, record: dict[str, Any]) -> None:
        """A learning step, and the rollouts it was the first to use."""
        with self._writing() as connection:
            before = list(read_rows(connection, ids.tolist()).values())
            check_complete("rollouts", len(before), len(ids))
            update_rows(connection, before, [row | {"step": step} for row in before])
            row = {"step": step, "rollouts": len(ids), "record": json.dumps(record), "ended_at": now()}
            write_totals(connection, read_totals(connection)._replace(steps=step))
            write_row(connection, "steps", row)

    def copy_to(self, path: Path) -> None:
        """A whole copy of the database as it is now, whoever else is writing to it."""
        with self._turn, storage_errors(path), closing(sqlite3.connect(path)) as copy:
            self._check_open()
            self._connection.backup(copy)


def _connect(path: Path) -> sqlite3.Connection:
    connection = open_database(path, database_errors.BUSY_SECONDS)
    try:
        for setting in ("synchronous = FULL", "trusted_schema = OFF", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def _open(number: int, row: Row | None, last: int) -> Row:
    """The rollout, if it is open; `last` is the number of the last one there is."""
    if row is None:
        raise AskTellError(no_such_rollout(number, last))
    if row["status"] != "asked":
        what = f"with the return {row['return']!r}" if row["status"] == "done" else "as failed"
        raise AskTellError(
            f"rollout {number} was told already, {what}, at {row['told_at']}; a rollout is told once. If that was "
            f"wrong, correct it: hpsde correct RUN {number}, run.correct({number}, ...)"
        )
    return row


def storable_text(text: str | None) -> str | None:
    """The text, with what UTF-8 cannot hold written out."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode("utf-8")
