"""Databases of earlier versions: they become ones of this version, value for value, and the run goes on."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import hpsde
import small
import stored
from hpsde import FileFormatError
from hpsde.runs import migration
from hpsde.runs.export import table
from hpsde.runs.lock import RunLock
from hpsde.runs.schema import COLUMNS, TABLES
from hpsde.runs.store import Store
from patience import LONG

VERSION_3 = Path(__file__).with_name("database_version_3.sql")
"""What a program of version 3 had written: numbers of all sizes, failures, other parameters, events."""


@pytest.fixture(params=[1, 2, 3])
def old(request, tmp_path):
    """A database of an earlier version; those before 3 have no events."""
    path = tmp_path / "rollouts.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(VERSION_3.read_text())
        if request.param < 3:
            connection.executescript(f"DROP TABLE events; PRAGMA user_version = {request.param}")
    return path


def contents(path, tables):
    """The rows of these tables as any program reads them."""
    columns = {name: ", ".join(f'"{column}"' for column in TABLES[name]) for name in tables}
    return {name: stored.look(path.parent, f"SELECT {columns[name]} FROM {name}") for name in tables}


def as_numbers(row):
    """A row of version 3 with its JSON arrays as numbers of 8 bytes, as version 4 has them."""
    values = dict(zip(COLUMNS, row, strict=True))
    for name in ("context", "parameters", "executed"):
        if values[name] is not None:
            values[name] = np.array(json.loads(values[name])).tobytes()
    return tuple(values.values())


def test_every_value_is_kept_to_the_bit(old):
    version = stored.look(old.parent, "PRAGMA user_version")[0][0]
    tables = ("rollouts", "steps", "events")[: 2 if version < 3 else 3]
    before = contents(old, tables)
    assert before["rollouts"][0][3] == "[-0.0, 5e-324]"
    with closing(Store(old, 2, 3)) as store:
        after = contents(old, tables)
        assert after["rollouts"] == [as_numbers(row) for row in before["rollouts"]]
        assert [after[name] for name in tables[1:]] == [before[name] for name in tables[1:]]
        assert store.counts() == {"asked": 5, "done": 6, "failed": 2}
        assert store.position() == (13, 3, 1)
        assert [event.kind for event in store.events()] == ["added", "corrected", "extended"][: 0 if version < 3 else 3]
        corrected = version == 3  # which has replaced the policy that had proposed them
        assert store.rows().number.tolist() == [0] * 6 + [0 if corrected else n for n in (1, 4, 0, 4, 1, 0, 0)]
        store.tell([(5, 1.0, None, None)])
    assert stored.look(old.parent, "PRAGMA user_version") == [(4,)]
    assert stored.sound(old.parent)
    with closing(Store(old, 2, 3)) as store:
        assert store.counts()["done"] == 7


def test_a_migration_that_does_not_end_changes_nothing(old, monkeypatch):
    content = old.read_bytes()

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(migration, "count_totals", fail)
    with pytest.raises(KeyboardInterrupt):
        Store(old, 2, 3)
    assert old.read_bytes() == content
    monkeypatch.undo()
    with closing(Store(old, 2, 3)) as store:
        assert store.counts()["done"] == 6


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE rollouts SET context = '[1, NaN]' WHERE id = 7", "context of rollout 7 is damaged"),
        ("UPDATE rollouts SET parameters = '{}' WHERE id = 7", "parameters of rollout 7 is damaged"),
        (f"UPDATE rollouts SET executed = '{'[' * 99999}' WHERE id = 7", "executed of rollout 7 is damaged"),
        ("DELETE FROM rollouts WHERE id = 7", "rollouts are not numbered from 1 to 12"),
        ("DROP INDEX rollouts_by_status", "its tables are not those of a run"),
        ("CREATE TABLE totals (mine)", "has something of the name totals that is not hpsde's"),
    ],
)
def test_an_old_database_that_is_damaged_is_left_as_it_is(statement, message, old):
    stored.change(old.parent, statement)
    content = old.read_bytes()
    with pytest.raises(FileFormatError, match=message) as caught:
        Store(old, 2, 3)
    assert str(old) in str(caught.value)
    assert old.read_bytes() == content


def test_views_of_others_stay(old):
    stored.change(old.parent, "CREATE VIEW best AS SELECT max(id) AS last FROM rollouts")
    Store(old, 2, 3).close()
    assert stored.look(old.parent, "SELECT last FROM best") == [(13,)]


def test_an_old_database_that_cannot_be_written_is_read(old, monkeypatch):
    """As on a read-only medium: a copy in memory is brought to this version."""
    content = old.read_bytes()
    monkeypatch.setattr("hpsde.runs.store.is_writable", lambda _: False)
    with closing(Store(old, 2, 3)) as store:
        assert store.rows().returns[0] == 0.1
        with pytest.raises(hpsde.StorageError, match="cannot be written"):
            store.tell([(5, 1.0, None, None)])
    assert old.read_bytes() == content


# Runs


def downgrade(folder):
    """The run's database as a program of version 3 would have written it."""
    path = folder / "rollouts.sqlite"
    with closing(Store(path, 1, 1)) as store:
        _, rows = store.table()
        others = contents(path, ("steps", "events"))
    path.unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in (migration.ROLLOUTS, migration.INDEX, migration.STEPS, migration.EVENTS):
            connection.execute(statement)
        for row in rows:
            text = [json.dumps(np.frombuffer(v).tolist()) if isinstance(v, bytes) else v for v in row]
            connection.execute(f"INSERT INTO rollouts VALUES ({', '.join('?' * len(text))})", text)
        for name, found in others.items():
            for row in found:
                connection.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", row)
        connection.executescript("PRAGMA application_id = 1213223748; PRAGMA user_version = 3")


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    return stored.learn_once(tmp_path_factory.mktemp("learned") / "run")


def test_an_old_run_goes_on_to_the_same_bits(learned, tmp_path):
    shutil.copytree(learned, tmp_path / "old")
    shutil.copytree(learned, tmp_path / "new")
    downgrade(tmp_path / "old")
    policies = []
    for name in ("old", "new"):
        with hpsde.Run.open(tmp_path / name) as run:
            assert run.status().steps == 1
            run.tell(129, 0.5)
            asked = run.ask(small.draw_contexts(2, 3, 1))
            policies.append([each.parameters.tobytes() for each in asked])
    assert policies[0] == policies[1]


def test_a_run_that_another_process_is_running_is_not_migrated(learned, tmp_path):
    shutil.copytree(learned, tmp_path / "old")
    downgrade(tmp_path / "old")
    content = (tmp_path / "old/rollouts.sqlite").read_bytes()
    with RunLock(tmp_path / "old/lock").hold("run"), pytest.raises(hpsde.RunLockedError, match="running"):
        hpsde.Run.open(tmp_path / "old")
    assert (tmp_path / "old/rollouts.sqlite").read_bytes() == content


# A new column


NEW_COLUMN = ('"told_at": Column("TEXT", changes=True),', '"operator": Column("TEXT", changes=True, since=5),')
LATER = """
import json, sys
from pathlib import Path
from hpsde.runs.export import export, table
from hpsde.runs.schema import VERSION
from hpsde.runs.store import Store

store = Store(Path(sys.argv[1]), 1, 1)
columns, damaged = table(store)
store.tell([(3, 1.0, None, None)])
for to in ("csv", "parquet"):
    export(store, Path(sys.argv[2], "all." + to), to)
print(json.dumps([VERSION, columns, damaged, store.rows_of([3]).returns.tolist()]))
"""


def test_a_new_column_is_one_line_of_the_schema(tmp_path):
    """The next version, made by that line: a database of this version becomes one of it, damage stays damage."""
    parquet = pytest.importorskip("pyarrow.parquet")
    shutil.copytree(Path(hpsde.__file__).parent, tmp_path / "later/hpsde", ignore=shutil.ignore_patterns("__pycache__"))
    schema = tmp_path / "later/hpsde/runs/schema.py"
    text = schema.read_text(encoding="utf-8")
    assert text.count(NEW_COLUMN[0]) == 1
    schema.write_text(text.replace(NEW_COLUMN[0], "\n        ".join(NEW_COLUMN)), encoding="utf-8")
    with stored.create(tmp_path / "run", initial_rollouts=4, rollouts=8) as run:
        stored.tell(run, run.ask([[0.5]] * 4)[:2])
        before, _ = table(run.store)
    stored.change(tmp_path / "run", 'UPDATE rollouts SET "return" = 7.0 WHERE id = 2')
    done = subprocess.run(
        [sys.executable, "-c", LATER, str(tmp_path / "run/rollouts.sqlite"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "later")}, capture_output=True, text=True, check=False,
        timeout=LONG,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    version, columns, damaged, told = json.loads(done.stdout)
    assert (version, damaged, told) == (5, [2], [1.0])
    assert columns.pop("operator") == [None] * 3
    assert columns == {name: [values[i] for i in (0, 2, 3)] for name, values in before.items()}
    assert (tmp_path / "all.csv").read_text().splitlines()[0].endswith(",told_at,operator")
    assert str(parquet.read_schema(tmp_path / "all.parquet").field("operator").type) == "string"
    with pytest.raises(hpsde.FileFormatError, match=r"has version 5; this hpsde reads versions 1, 2, 3, 4"):
        hpsde.Run.open(tmp_path / "run")
