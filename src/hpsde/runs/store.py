"""The rollouts of a run in an SQLite database: what was asked or told is on disk before the call returns.

docs/run_folder.md describes the tables. Write-ahead log and full synchronisation: a process can be killed and a
machine can lose its power at any moment, and what was committed is there.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpsde._checks import LARGEST, usable_numbers
from hpsde._doubt_entries import doubts_from
from hpsde._plain import same_file
from hpsde.errors import AskTellError, FileFormatError, StorageError
from hpsde.rollouts import REPLACED, rollout_seed
from hpsde.runs import corrections, events
from hpsde.runs.events import VERSION, Event, migrate, no_such_rollout, now
from hpsde.runs.opening import open_database

if TYPE_CHECKING:
    from hpsde.ask_tell import Proposal

APPLICATION_ID = 0x48505344  # "HPSD": what the tool `file` and SQLite know the database by
READABLE = (1, 2, 3)
BUSY_SECONDS = 30.0

SCHEMA = """
CREATE TABLE rollouts (
    id          INTEGER PRIMARY KEY,
    ask         INTEGER NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('asked', 'done', 'failed')),
    context     TEXT NOT NULL,
    parameters  TEXT NOT NULL,
    executed    TEXT,
    option      INTEGER NOT NULL,
    log_density REAL,
    "return"    REAL,
    reason      TEXT,
    seed        INTEGER NOT NULL,
    policy      INTEGER NOT NULL,
    step        INTEGER,
    asked_at    TEXT NOT NULL,
    told_at     TEXT
) STRICT;
CREATE INDEX rollouts_by_status ON rollouts (status, step);
CREATE TABLE steps (
    step     INTEGER PRIMARY KEY,
    rollouts INTEGER NOT NULL,
    record   TEXT NOT NULL,
    ended_at TEXT NOT NULL
) STRICT;
"""
COLUMNS = (
    *("id", "ask", "status", "context", "parameters", "executed", "option", "log_density", "return", "reason"),
    *("seed", "policy", "step", "asked_at", "told_at"),
)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rollouts as arrays. `parameters` are those that were run: as asked, unless others were told.

    option: place among the options of the policy that proposed it, -1 for the initial one. number: what that option is
    called in all learning steps, 0 for the initial policy. behaviour: who made it as a learner counts, the learning
    step of `policy` unless a correction has replaced that since (`events.made_by`); then its number is 0.
    """

    id: np.ndarray
    ask: np.ndarray
    status: np.ndarray
    contexts: np.ndarray
    parameters: np.ndarray
    option: np.ndarray
    number: np.ndarray
    log_density: np.ndarray
    returns: np.ndarray
    seed: np.ndarray
    policy: np.ndarray
    behaviour: np.ndarray
    step: np.ndarray  # the learning step that first used it, 0 where none has

    def __len__(self) -> int:
        return len(self.id)


class Store:
    """The database of one run. Every method that changes it is one transaction: all of it happens, or nothing."""

    def __init__(self, path: Path, context_size: int, parameter_size: int):
        self.path, self.context_size, self.parameter_size = path, context_size, parameter_size
        if not path.is_file():
            raise FileFormatError(f"{path.parent} is not the folder of a run: it has no {path.name}")
        self._opened = path.stat()
        with _storage_errors(path):
            self._connection = _connect(path)
            try:
                _check_schema(path, self._connection)
            except BaseException:
                self._connection.close()
                raise

    @staticmethod
    def create(path: Path) -> None:
        """Make an empty database."""
        with _storage_errors(path):
            connection = _connect(path)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                pragmas = f"PRAGMA application_id = {APPLICATION_ID};PRAGMA user_version = {VERSION};"
                connection.executescript(f"BEGIN;{SCHEMA}{events.SCHEMA}{pragmas}COMMIT;")
            finally:
                connection.close()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction."""
        with _storage_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
                self._check_place()
            except BaseException:
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

    def _select(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with _storage_errors(self.path):
            return self._connection.execute(query, values).fetchall()

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
            (
                first_id + i,
                ask,
                "asked",
                _text(contexts[i]),
                _text(proposal.parameters[i]),
                int(proposal.option[i]),
                None if np.isnan(densities[i]) else float(densities[i]),
                seeds[i],
                int(policy[i]),
                at,
            )
            for i in range(len(contexts))
        ]
        with self._writing() as connection:
            connection.executemany(
                "INSERT INTO rollouts (id, ask, status, context, parameters, option, log_density, seed, policy, "
                f"asked_at) VALUES ({', '.join('?' * 10)})",
                rows,
            )

    def tell(self, told: Iterable[tuple[int, float | None, str | None, Any]]) -> None:
        """(id, return, reason, executed) of each: a return, or else the reason why it failed."""
        at = now()
        with self._writing() as connection:
            for number, value, reason, executed in told:
                found = connection.execute(
                    'SELECT status, "return", told_at FROM rollouts WHERE id = ?', (number,)
                ).fetchone()
                _check_open(number, found, self._last_id())
                connection.execute(
                    'UPDATE rollouts SET status = ?, "return" = ?, reason = ?, executed = ?, told_at = ? WHERE id = ?',
                    (
                        "done" if reason is None else "failed",
                        value,
                        storable_text(reason),
                        None if executed is None else _text(executed),
                        at,
                        number,
                    ),
                )

    def add_given(
        self, contexts: np.ndarray, parameters: np.ndarray, returns: np.ndarray, seed: int, source: str
    ) -> range:
        """Rollouts that were made elsewhere, as an ask of their own; their numbers."""
        at, (last, asks, _) = now(), self.position()
        ids = range(last + 1, last + 1 + len(returns))
        with self._writing() as connection:
            migrate(connection)
            connection.executemany(
                'INSERT INTO rollouts (id, ask, status, context, parameters, option, "return", seed, policy, asked_at, '
                "told_at) VALUES (?, ?, 'done', ?, ?, -1, ?, ?, 0, ?, ?)",
                [
                    (number, asks + 1, _text(s), _text(xi), float(value), rollout_seed(seed, number), at, at)
                    for number, s, xi, value in zip(ids, contexts, parameters, returns, strict=True)
                ],
            )
            content = {"rollout": ids[0], "last": ids[-1], "source": storable_text(source)}
            events.add_event(connection, events.ADDED, content)
        return ids

    def reopen_failed(self) -> int:
        """Rollouts that failed, and that nothing was learned since, are asked for again, unless somebody has corrected
        them; how many.
        """
        corrected = [str(event["rollout"]) for event in events.of_kind(self.events(), events.CORRECTED)]
        with self._writing() as connection:
            changed = connection.execute(
                "UPDATE rollouts SET status = 'asked', reason = NULL, executed = NULL, told_at = NULL "
                f"WHERE status = 'failed' AND step IS NULL AND id NOT IN ({', '.join(corrected)})"
            )
            return changed.rowcount

    def correct(self, number: int, value: float | None, reason: str | None, why: str | None) -> None:
        """Another outcome of a rollout that was told (`corrections.correct`)."""
        with self._writing() as connection:
            migrate(connection)
            corrections.correct(connection, number, value, storable_text(reason), storable_text(why))

    def replace_steps(self, records: dict[int, dict[str, Any]]) -> None:
        """The records of learning steps that were done anew; the old ones go into an event."""
        with self._writing() as connection:
            migrate(connection)
            corrections.replace_steps(connection, records)

    def events(self) -> list[Event]:
        """All that was changed about the run after the fact. Databases of version 1 and 2 have no such table."""
        if self._select("PRAGMA user_version")[0][0] < VERSION:
            return []
        try:
            rows = self._select("SELECT event, at, kind, content FROM events ORDER BY event")
            return [events.read_event(*row) for row in rows]
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise FileFormatError(f"{self.path}: an event is damaged: {error}") from error

    def add_event(self, kind: str, content: dict[str, Any]) -> None:
        """Something that changes no rollout."""
        with self._writing() as connection:
            migrate(connection)
            events.add_event(connection, kind, content)

    def add_step(self, step: int, ids: np.ndarray, record: dict[str, Any]) -> None:
        """A learning step, and the rollouts it was the first to use."""
        with self._writing() as connection:
            connection.executemany("UPDATE rollouts SET step = ? WHERE id = ?", [(step, int(i)) for i in ids])
            connection.execute(
                "INSERT INTO steps (step, rollouts, record, ended_at) VALUES (?, ?, ?, ?)",
                (step, len(ids), json.dumps(record), now()),
            )
            migrate(connection)

    def rows(self, where: str = "1", values: Sequence[Any] = (), order: str = "id") -> Rows:
        """The rollouts of a query, checked."""
        query = f"SELECT {', '.join(_quoted(COLUMNS))} FROM rollouts WHERE {where} ORDER BY {order}"
        selected = self._select(query, values)
        found = {name: [row[i] for row in selected] for i, name in enumerate(COLUMNS)}

        def numbers(name: str) -> np.ndarray:
            return np.array([np.nan if value is None else value for value in found[name]], dtype=float)

        def whole(name: str) -> np.ndarray:
            return np.array([0 if value is None else value for value in found[name]], dtype=np.int64)

        run = [
            asked if executed is None else executed
            for asked, executed in zip(found["parameters"], found["executed"], strict=True)
        ]
        try:
            behaviour = events.made_by(self.events(), whole("id"), whole("policy"))
            number = self.option_numbers(found["policy"], found["option"])
            rows = Rows(
                id=whole("id"),
                ask=whole("ask"),
                status=np.array(found["status"], dtype="U6"),
                contexts=self._numbers("context", found["id"], found["context"], self.context_size),
                parameters=self._numbers("parameters", found["id"], run, self.parameter_size),
                option=whole("option"),
                number=np.where(behaviour == REPLACED, 0, number),
                log_density=numbers("log_density"),
                returns=numbers("return"),
                seed=whole("seed"),
                policy=whole("policy"),
                behaviour=behaviour,
                step=whole("step"),
            )
        except FileFormatError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise FileFormatError(f"{self.path} is damaged: {error}") from error
        return self._checked(rows)

    def _checked(self, rows: Rows) -> Rows:
        """The rows, if they can be those of a run."""
        wrong = ~np.isin(rows.status, ("asked", "done", "failed"))
        wrong |= (rows.status == "done") & ~usable_numbers(rows.returns)
        wrong |= (rows.policy < 0) | (rows.option < -1) | ((rows.option == -1) != (rows.policy == 0))
        wrong |= (rows.ask < 1) | (rows.seed < 0) | (rows.step < 0)
        if np.any(wrong):
            raise FileFormatError(f"{self.path}: rollout {rows.id[wrong][0]} is damaged")
        return rows

    def _numbers(self, name: str, ids: list[int], texts: list[str], size: int) -> np.ndarray:
        """JSON arrays as rows [N, size]."""
        rows = np.zeros((len(texts), size))
        for i, text in enumerate(texts):
            try:
                values = np.array(json.loads(text), dtype=float)
                if values.shape != (size,) or not np.all(np.abs(values) <= LARGEST):
                    raise ValueError(f"{text[:60]!r} is not an array of {size} finite numbers")
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                raise FileFormatError(f"{self.path}: {name} of rollout {ids[i]} is damaged: {error}") from error
            rows[i] = values
        return rows

    def option_numbers(self, policy: Sequence[int], option: Sequence[int]) -> np.ndarray:
        """What the options are called that rollouts of these policies and places [N] came from; 0: no option.

        Where the record of the step has no numbers, an option is called by its place, from 1 on.
        """
        names = {i + 1: record.get("numbers", []) for i, record in enumerate(self.steps())}
        numbers = np.array(option, dtype=np.int64) + 1
        for i, (of, place) in enumerate(zip(policy, option, strict=True)):
            known = names.get(of, [])
            if 0 <= place < len(known):
                numbers[i] = known[place]
        return numbers

    def counts(self) -> dict[str, int]:
        """How many rollouts there are of each status."""
        found = dict(self._select("SELECT status, count(*) FROM rollouts GROUP BY status"))
        return {status: found.get(status, 0) for status in ("asked", "done", "failed")}

    def open_ids(self) -> list[int]:
        """The rollouts that were asked for and not told yet."""
        return [number for (number,) in self._select("SELECT id FROM rollouts WHERE status = 'asked' ORDER BY id")]

    def first_ids(self) -> dict[int, int]:
        """The number of the first rollout of every ask."""
        return dict(self._select("SELECT ask, min(id) FROM rollouts GROUP BY ask"))

    def extent(self) -> tuple[int, float, float]:
        """How many returns were told so far, the lowest and the highest of them."""
        query = 'SELECT count(*), min("return"), max("return") FROM rollouts WHERE status = \'done\''
        count, low, high = self._select(query)[0]
        return int(count), float(low or 0.0), float(high or 0.0)

    def returns(self) -> np.ndarray:
        """All returns told so far."""
        found = self._select("SELECT \"return\" FROM rollouts WHERE status = 'done'")
        return np.array([value for (value,) in found], dtype=float)

    def best_return(self) -> float | None:
        """The highest return so far."""
        found = self._select("SELECT max(\"return\") FROM rollouts WHERE status = 'done'")[0][0]
        return None if found is None else float(found)

    def new_usable(self) -> int:
        """How many rollouts were told, and did not fail, since the last learning step."""
        return int(self._select("SELECT count(*) FROM rollouts WHERE status = 'done' AND step IS NULL")[0][0])

    def _last_id(self) -> int:
        return int(self._select("SELECT coalesce(max(id), 0) FROM rollouts")[0][0])

    def position(self) -> tuple[int, int, int]:
        """How many rollouts, asks and learning steps there have been."""
        asks = self._select("SELECT coalesce(max(ask), 0) FROM rollouts")[0][0]
        steps = self._select("SELECT coalesce(max(step), 0) FROM steps")[0][0]
        return self._last_id(), int(asks), int(steps)

    def steps(self) -> list[dict[str, Any]]:
        """The records of all learning steps."""
        try:
            return [_record(text) for (text,) in self._select("SELECT record FROM steps ORDER BY step")]
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise FileFormatError(f"{self.path}: the record of a learning step is damaged: {error}") from error

    def copy_to(self, path: Path) -> None:
        """A whole copy of the database as it is now, whoever else is writing to it."""
        with _storage_errors(path), closing(sqlite3.connect(path)) as copy:
            self._connection.backup(copy)

    def faults(self) -> list[str]:
        """What SQLite finds wrong with the database, page by page; where nothing is, nothing."""
        try:
            found = [str(line) for (line,) in self._select("PRAGMA integrity_check(20)")]
        except FileFormatError as error:
            return [str(error)]
        return [] if found == ["ok"] else [f"{self.path} is damaged: {line}" for line in found]

    def table(self) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Names and rows of all columns of the table `rollouts`, for export."""
        return COLUMNS, self._select(f"SELECT {', '.join(_quoted(COLUMNS))} FROM rollouts ORDER BY id")


def _connect(path: Path) -> sqlite3.Connection:
    connection = open_database(path, BUSY_SECONDS)
    try:
        for setting in ("synchronous = FULL", "trusted_schema = OFF", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_schema(path: Path, connection: sqlite3.Connection) -> None:
    """An error unless the database is one that `create` makes, triggers and such left out."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise FileFormatError(f"{path} is not the database of a run")
    if version not in READABLE:
        known = ", ".join(map(str, READABLE))
        raise FileFormatError(f"{path} has version {version}; this hpsde reads versions {known}")
    found = connection.execute("SELECT type, sql FROM sqlite_master").fetchall()
    schema = SCHEMA if version < VERSION else SCHEMA + events.SCHEMA
    wanted = {statement.strip() for statement in schema.split(";")} - {""}
    if not wanted <= {sql for _, sql in found} or "trigger" in {kind for kind, _ in found}:
        raise FileFormatError(f"{path} is damaged: its tables are not those of a run")
    tables = [("rollouts", "id"), ("steps", "step")] + ([] if version < VERSION else [("events", "event")])
    for table, number in tables:
        query = f"SELECT count(*), coalesce(min({number}), 1), coalesce(max({number}), 0) FROM {table}"
        count, first, last = connection.execute(query).fetchone()
        if (first, last) != (1, count):
            raise FileFormatError(f"{path} is damaged: {table} are not numbered from 1 to {count}")


def _check_open(number: int, found: tuple[str, float | None, str | None] | None, last: int) -> None:
    if found is None:
        raise AskTellError(no_such_rollout(number, last))
    status, value, at = found
    if status != "asked":
        what = f"with the return {value!r}" if status == "done" else "as failed"
        raise AskTellError(
            f"rollout {number} was told already, {what}, at {at}; a rollout is told once. If that was "
            f"wrong, correct it: hpsde correct RUN {number}, run.correct({number}, ...)"
        )


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    """SQLite's errors in words, and as ours."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith("SQLITE_FULL"):
            message = "the disk is full; nothing that was told is lost. Make room, then go on"
        elif name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            message = "it cannot be written; nothing that was told is lost. Allow writing in its folder, then go on"
        elif name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            message = f"another process has been writing to it for {BUSY_SECONDS:g} seconds; try again"
        elif name.startswith("SQLITE_IOERR"):
            message = "the disk reports an error; what it says it has stored before is not lost"
        elif isinstance(error, (sqlite3.IntegrityError, sqlite3.ProgrammingError)):
            raise
        else:
            raise FileFormatError(f"{path} is damaged: {error}") from error
        raise StorageError(f"{path}: {message} ({error})") from error
    except UnicodeDecodeError as error:  # SQLite's message has the broken text in it
        raise FileFormatError(f"{path} is damaged: it has text that is not UTF-8") from error


def _record(text: str) -> dict[str, Any]:
    """The record of a learning step: numbers by name, options by number, and doubts."""
    record = json.loads(text)
    if not isinstance(record, dict):
        raise ValueError(f"{text[:60]!r} is not numbers by name")
    for name, value in record.items():
        if name in ("numbers", "born", "died"):
            right = isinstance(value, list) and all(type(item) is int and 0 < item < 2**63 for item in value)
        elif name == "doubts":
            doubts_from(value)
            right = True
        else:
            right = value is None or (isinstance(value, (int, float)) and abs(value) <= LARGEST)
        if not right:
            raise ValueError(f"{name}: {str(value)[:60]!r} is not what it should be")
    return record


def _quoted(names: Sequence[str]) -> list[str]:
    return [f'"{name}"' for name in names]


def _text(values: Any) -> str:
    """Numbers as a JSON array that reads back to the same bits."""
    return json.dumps(np.asarray(values, dtype=float).tolist(), allow_nan=False)


def storable_text(text: str | None) -> str | None:
    """The text, with what UTF-8 cannot hold written out."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode("utf-8")
