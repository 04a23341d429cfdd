"""How much there is of everything in a run, in one row that is kept with the rows it counts. Within a transaction."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hpsde.errors import FileFormatError
from hpsde.runs.checksums import write_row, wrong_rows
from hpsde.runs.schema import NEW, TABLES, quoted

_COLUMNS = tuple(TABLES["totals"])
MOST = 2**32 - 1
"""Of anything that is counted: an ask has a stream of random numbers of its own, and there are no more of them."""


class Totals(NamedTuple):
    """Rollouts by status, those of them that were told since the last learning step, asks, learning steps, events; and
    the lowest and the highest return, None where there is none.
    """

    asked: int = 0
    done: int = 0
    failed: int = 0
    new_done: int = 0
    new_failed: int = 0
    asks: int = 0
    steps: int = 0
    events: int = 0
    lowest: float | None = None
    highest: float | None = None

    @property
    def rollouts(self) -> int:
        """All rollouts, which are numbered from 1 to this."""
        return self.asked + self.done + self.failed

    @property
    def used(self) -> int:
        """The rollouts that learning steps have used."""
        return self.done + self.failed - self.new_done - self.new_failed

    def moved(self, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Totals:
        """The totals when these rows of rollouts have become those. A return that is taken away may leave the lowest
        or highest one wrong (`count_totals` counts again).
        """
        change = Counter(name for row in after for name in _counted(row))
        change.subtract(name for row in before for name in _counted(row))
        returns = [row["return"] for row in after if row["status"] == "done"]
        known = [value for value in (self.lowest, self.highest) if value is not None]
        return self._replace(
            **{name: getattr(self, name) + count for name, count in change.items()},
            asks=max([self.asks, *(row["ask"] for row in after)]),
            lowest=min([*known, *returns], default=None),
            highest=max([*known, *returns], default=None),
        )


def _counted(row: Mapping[str, Any]) -> list[str]:
    """The totals that a rollout counts in."""
    status = row["status"]
    return [status, f"new_{status}"] if status != "asked" and row["step"] is None else [status]


def read_totals(connection: sqlite3.Connection) -> Totals:
    """What the row says. Where it is damaged, all is counted: the totals follow from the other rows."""
    return stored_totals(connection) or count_totals(connection)


def stored_totals(connection: sqlite3.Connection) -> Totals | None:
    """What the row says; None where it does not fit its checksum, or is no count."""
    found = connection.execute(f"SELECT {quoted(_COLUMNS)}, checksum FROM totals").fetchall()
    columns = dict(zip((*_COLUMNS, "checksum"), map(list, zip(*found, strict=True)), strict=bool(found)))
    if len(found) != 1 or wrong_rows("totals", columns):
        return None
    totals = Totals(*found[0][1:-1])
    return totals if all(0 <= count <= MOST for count in totals[:-2]) else None


def write_totals(connection: sqlite3.Connection, totals: Totals) -> None:
    """Put them into the row."""
    write_row(connection, "totals", dict(zip(_COLUMNS, (1, *totals), strict=True)))


def count_totals(connection: sqlite3.Connection) -> Totals:
    """The totals as the rows have them, counted one by one."""

    def one(query: str) -> Any:
        return connection.execute(query).fetchone()[0]

    by_status = dict(connection.execute("SELECT status, count(*) FROM rollouts GROUP BY status"))
    new = dict(connection.execute(f"SELECT status, count(*) FROM rollouts WHERE {NEW} GROUP BY status"))
    lowest, highest = connection.execute(
        'SELECT min("return"), max("return") FROM rollouts WHERE status = \'done\''
    ).fetchone()
    asks = one("SELECT coalesce(max(ask), 0) FROM rollouts")
    real = all(isinstance(value, float | None) for value in (lowest, highest))
    if not isinstance(asks, int) or not 0 <= asks <= MOST or not real:
        raise FileFormatError("a rollout has a value that its column cannot have. Restore the backup")
    return Totals(
        **{status: by_status.get(status, 0) for status in ("asked", "done", "failed")},
        new_done=new.get("done", 0),
        new_failed=new.get("failed", 0),
        asks=asks,
        steps=one("SELECT count(*) FROM steps"),
        events=one("SELECT count(*) FROM events"),
        lowest=lowest,
        highest=highest,
    )
