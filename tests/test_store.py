"""The database of a run: what it holds, what it refuses, and that nothing told is ever lost."""

import resource
import sqlite3
from contextlib import closing, contextmanager, suppress
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stored
from hpsde import AskTellError, FileFormatError, StorageError
from hpsde.learners.ask_tell import Proposal
from hpsde.runs import database_errors
from hpsde.runs.checksums import checksum
from hpsde.runs.export import table
from hpsde.runs.schema import COLUMNS, STATEMENTS, TABLES, quoted
from hpsde.runs.store import Store
from hpsde.runs.totals import count_totals


def add(store, count=5, seed=0, policy=0):
    """Rollouts of one policy with contexts [2] and parameters [3]; what was stored."""
    generator = np.random.default_rng(seed)
    last, asks, _ = store.position()
    contexts = generator.normal(size=(count, 2)) * 10.0 ** generator.integers(-90, 90, (count, 2))
    option = np.full(count, -1) if policy == 0 else generator.integers(0, 3, count)
    proposal = Proposal(generator.normal(size=(count, 3)), option, generator.normal(size=count))
    seeds = generator.integers(0, 2**32, count).tolist()
    made = np.full(count, policy)
    store.add_asked(ask=asks + 1, contexts=contexts, proposal=proposal, seeds=seeds, first_id=last + 1, policy=made)
    return contexts, proposal, seeds


def tell(store, ids, value=1.5):
    store.tell((number, value, None, None) for number in ids)


@pytest.fixture
def path(tmp_path):
    Store.create(tmp_path / "rollouts.sqlite")
    return tmp_path / "rollouts.sqlite"


@pytest.fixture
def store(path):
    with closing(Store(path, 2, 3)) as store:
        yield store


@pytest.fixture
def filled(store):
    """120 rollouts, of which 60 are done, 10 failed; a learning step after the first 40."""
    add(store, 60)
    tell(store, range(1, 41))
    store.add_step(1, np.arange(1, 41), {"rollouts": 40, "ess": 12.5, "warm": False, "coverage": None})
    add(store, 60, policy=1)
    tell(store, range(41, 61))
    store.tell((number, None, "motor fault", None) for number in range(61, 71))
    store.correct(60, 2.5, None, "typed 1.5")
    return store


def test_database_is_durable_and_says_what_it_is(path, store):
    settings = {
        name: store._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2}
    assert stored.look(path.parent, "PRAGMA user_version") == [(4,)]
    assert path.read_bytes()[68:72] == b"HPSD"


def test_what_was_asked_is_there_for_others_to_the_bit(path, store):
    contexts, proposal, seeds = add(store)
    with closing(Store(path, 2, 3)) as other:
        rows = other.rows()
    np.testing.assert_array_equal(rows.contexts, contexts)
    np.testing.assert_array_equal(rows.parameters, proposal.parameters)
    np.testing.assert_array_equal(rows.log_density, proposal.log_density)
    assert rows.seed.tolist() == seeds
    assert rows.id.tolist() == [1, 2, 3, 4, 5]
    assert set(rows.status) == {"asked"}
    assert np.all(np.isnan(rows.returns))


@settings(derandomize=True, deadline=None, max_examples=25, database=None)
@given(value=st.floats(-1e100, 1e100))
def test_numbers_come_back_to_the_bit(value, tmp_path_factory):
    path = tmp_path_factory.mktemp("bits") / "rollouts.sqlite"
    Store.create(path)
    with closing(Store(path, 1, 1)) as store:
        proposal = Proposal(np.array([[value]]), np.array([-1]), np.array([value]))
        made = np.zeros(1, dtype=int)
        store.add_asked(ask=1, contexts=np.array([[value]]), proposal=proposal, seeds=[1], first_id=1, policy=made)
        tell(store, [1], value)
        rows = store.rows()
    assert rows.contexts.tobytes() == rows.parameters.tobytes() == np.array([value]).tobytes()
    assert rows.returns == rows.log_density == value  # SQLite keeps no sign of zero


def test_what_was_told_is_there_for_others(path, store):
    add(store)
    store.tell([(2, -3.25, None, None), (4, None, "motor fault", None), (5, 1.0, None, np.array([0.1, 0.2, 0.3]))])
    query = 'SELECT id, status, "return", reason, executed, asked_at, told_at FROM rollouts WHERE told_at NOT NULL'
    found = stored.look(path.parent, query)
    assert [row[:5] for row in found] == [
        (2, "done", -3.25, None, None),
        (4, "failed", None, "motor fault", None),
        (5, "done", 1.0, None, np.array([0.1, 0.2, 0.3]).tobytes()),
    ]
    for row in found:
        assert datetime.fromisoformat(row[5]) <= datetime.fromisoformat(row[6])
    assert store.counts() == {"asked": 2, "done": 2, "failed": 1}
    assert store.open_ids() == [1, 3]
    assert store.best_return() == 1.0
    np.testing.assert_array_equal(store.rows().parameters[4], [0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ([(1, 1.0, None, None), (99, 1.0, None, None)], "no rollout 99 in this run; rollouts 1 to 5"),
        ([(1, 1.0, None, None), (2, 1.0, None, None)], r"rollout 2 was told already, with the return 7.5, at 2"),
        ([(1, 1.0, None, None), (3, None, "why", None)], "rollout 3 was told already, as failed"),
        ([(1, 1.0, None, None), (1, 1.0, None, None)], "rollout 1 was told already"),
    ],
)
def test_a_tell_is_taken_in_whole_or_not_at_all(told, message, store):
    add(store)
    store.tell([(2, 7.5, None, None), (3, None, "fault", None)])
    with pytest.raises(AskTellError, match=message):
        store.tell(told)
    assert store.open_ids() == [1, 4, 5]
    tell(store, [1])


def test_reasons_may_hold_anything(path, store):
    add(store, 3)
    reasons = ["Traceback\n\tline 2", "'; DROP TABLE rollouts; --", "null \0, half a pair \ud800"]
    store.tell((i + 1, None, reason, None) for i, reason in enumerate(reasons))
    found = [reason for (reason,) in stored.look(path.parent, "SELECT reason FROM rollouts ORDER BY id")]
    assert found == [*reasons[:2], "null \0, half a pair \\ud800"]


def test_steps_and_what_is_new(filled):
    assert filled.position() == (120, 2, 1)
    assert filled.new_usable() == 20
    assert filled.steps() == [{"rollouts": 40, "ess": 12.5, "warm": False, "coverage": None}]
    assert filled.rows("step = 1").id.tolist() == list(range(1, 41))


def test_rollouts_have_the_number_of_their_option(path, store):
    """An option's place among the options changes from step to step; its number does not."""
    add(store, 4)
    tell(store, range(1, 5))
    store.add_step(1, np.arange(1, 5), {"numbers": [1, 4, 2], "born": [1, 2, 4], "died": [], "doubts": []})
    _, first, _ = add(store, 30, policy=1)
    store.add_step(2, np.zeros(0, dtype=int), {"numbers": [4, 1, 9], "born": [9], "died": [2]})
    _, second, _ = add(store, 30, policy=2, seed=1)
    wanted = [0] * 4 + [[1, 4, 2][o] for o in first.option] + [[4, 1, 9][o] for o in second.option]
    assert store.rows().number.tolist() == wanted
    assert store.rows("policy = 2").number.tolist() == wanted[34:]
    columns, _ = table(store)
    assert columns["number"] == wanted
    assert columns["option"] == [-1] * 4 + [*first.option, *second.option]
    assert list(columns).index("number") == list(columns).index("option") + 1


def test_rollouts_of_one_ask_may_be_of_several_policies(store):
    """Some of the policy's own and some of the initial one, in any order."""
    add(store, 4)
    store.add_step(1, np.zeros(0, dtype=int), {"numbers": [3, 7]})
    made, option = np.array([1, 0, 1, 0, 1]), np.array([1, -1, 0, -1, 1])
    proposal = Proposal(np.zeros((5, 3)), option, np.array([-1.0, np.nan, -2.0, -3.0, -4.0]))
    store.add_asked(ask=2, contexts=np.zeros((5, 2)), proposal=proposal, seeds=range(5), first_id=5, policy=made)
    rows = store.rows("ask = 2")
    np.testing.assert_array_equal(rows.policy, made)
    np.testing.assert_array_equal(rows.option, option)
    np.testing.assert_array_equal(rows.number, [7, 0, 3, 0, 7])
    np.testing.assert_array_equal(rows.log_density, proposal.log_density)
    assert store.rows("policy = 1").id.tolist() == [5, 7, 9]


def test_only_failures_that_nothing_was_learned_since_are_opened_again(filled):
    filled.add_step(2, np.arange(41, 66), {})
    assert filled.reopen_failed() == 5
    assert filled.counts() == {"asked": 55, "done": 60, "failed": 5}
    tell(filled, range(66, 71))


# Disks that are full, slow or not ours to write


@contextmanager
def full(store):
    """No page more for the database; then room again."""
    count = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {count}")
    yield
    store._connection.execute("PRAGMA max_page_count = 1000000")


@contextmanager
def small_files(path):
    """No file may grow beyond what the log has now; then room again."""
    size = path.with_name(path.name + "-wal").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_an_error_that_loses_nothing(path, filled):
    before = filled.table()
    with (
        full(filled),
        pytest.raises(StorageError, match="the disk is full; nothing that was told is lost"),
    ):
        add(filled, 500)
    with small_files(path), pytest.raises(StorageError, match="the disk reports an error"):
        add(filled, 500)
    with small_files(path), pytest.raises(StorageError, match="the disk reports an error"):
        tell(filled, range(71, 121))
    assert filled.table() == before
    assert stored.sound(path.parent)
    tell(filled, range(71, 121))
    add(filled, 500)
    assert filled.counts() == {"asked": 500, "done": 110, "failed": 10}


def test_a_database_that_cannot_be_written_is_an_error(filled):
    before = filled.table()
    filled._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(StorageError, match="cannot be written; nothing that was told is lost"):
        tell(filled, [71])
    filled._connection.execute("PRAGMA query_only = OFF")
    assert filled.table() == before


def test_another_writer_that_does_not_end_is_an_error(path, monkeypatch):
    monkeypatch.setattr(database_errors, "BUSY_SECONDS", 0.05)
    with closing(Store(path, 2, 3)) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match=r"another process has been writing to it for 0.05 seconds"):
            add(store)
        other.execute("ROLLBACK")
        add(store)


# Damage


def read_all(path):
    """All that can be read of a database."""
    with closing(Store(path, 2, 3)) as store:
        rows = [vars(rows) for rows in (store.rows(), store.open_rows(), store.new_rows(), store.used_rows())]
        told = store.steps(), store.last_step(), store.events(), store.totals(), store.open_ids(), store.first_ids([1])
        return [{name: array.tobytes() for name, array in each.items()} for each in rows], told, store.table()


@pytest.fixture
def closed(filled, path):
    """The filled database, all of it in one file."""
    filled.close()
    return path


NOT_STRICT = STATEMENTS[0].replace("STRICT", "").replace("CHECK (status IN ('asked', 'done', 'failed'))", "")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("PRAGMA user_version = 5", "has version 5; this hpsde reads versions 1, 2, 3, 4"),
        ("DROP TABLE events", "its tables are not those of a run"),
        ("PRAGMA application_id = 1", "is not the database of a run"),
        ("DROP TABLE steps", "its tables are not those of a run"),
        ("ALTER TABLE rollouts RENAME COLUMN seed TO seeds", "its tables are not those"),
        ("DROP INDEX rollouts_open", "its tables are not those"),
        (f"DROP TABLE rollouts; {NOT_STRICT}", "its tables are not those"),
        (
            "CREATE TRIGGER t AFTER UPDATE ON rollouts BEGIN DELETE FROM rollouts; END",
            "its tables are not those of a run",
        ),
        ("DELETE FROM rollouts WHERE id = 7", "119 rollouts were found where there are 120. Restore the backup"),
        ("DELETE FROM events", "events are not numbered from 1 to 1"),
        ("DELETE FROM steps", "steps are not numbered from 1 to 1"),
    ],
)
def test_a_database_that_is_none_of_a_run_is_refused(statement, message, closed):
    stored.change(closed.parent, statement)
    refuse(closed, message)


def refuse(path, message):
    content = path.read_bytes()
    with pytest.raises(FileFormatError, match=message) as caught:
        read_all(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE events SET event = 7", "events are not numbered from 1 to 1"),
        ("UPDATE events SET kind = 'guessed'", "an event is damaged"),
        ("UPDATE events SET content = '[]'", "an event is damaged"),
        ("UPDATE events SET content = '{\"rollout\": 3}'", "an event is damaged"),
        ("UPDATE events SET content = json_set(content, '$.last', -1)", "an event is damaged"),
        (f"UPDATE events SET content = '{'[' * 99999}'", "an event is damaged"),
        ("UPDATE steps SET step = 1000000000000", "steps are not numbered from 1 to 1"),
        ("UPDATE rollouts SET context = x'00' WHERE id = 7", "context of rollout 7 has 1 bytes, not 2 numbers"),
        (f"UPDATE rollouts SET parameters = x'{'ff' * 24}' WHERE id = 7", "parameters of rollout 7 has .* not finite"),
        (f"UPDATE rollouts SET executed = x'{'7f' * 24}' WHERE id = 7", "parameters of rollout 7 has .* not finite"),
        ('UPDATE rollouts SET "return" = NULL WHERE id = 7', "rollout 7 has values that no rollout has"),
        ('UPDATE rollouts SET "return" = 1e300 WHERE id = 7', "rollout 7 has values"),
        ("UPDATE rollouts SET option = 5 WHERE id = 7", "rollout 7 has values"),
        ("UPDATE rollouts SET option = -2 WHERE id = 77", "rollout 77 has values"),
        ("UPDATE rollouts SET policy = -1 WHERE id = 7", "rollout 7 has values"),
        ("UPDATE rollouts SET seed = -1 WHERE id = 7", "rollout 7 has values"),
        ("UPDATE steps SET record = '3'", "record of a learning step is damaged"),
        ('UPDATE steps SET record = \'{"ess": "x"}\'', "record of a learning step is damaged"),
        ("UPDATE steps SET record = '{\"options_kept\": Infinity}'", "record of a learning step is damaged"),
        ('UPDATE steps SET record = \'{"numbers": [1, "x"]}\'', "record of a learning step is damaged"),
        ("UPDATE steps SET record = '{\"numbers\": 3}'", "record of a learning step is damaged"),
        ("UPDATE steps SET record = '{\"numbers\": [0]}'", "record of a learning step is damaged"),
        (f"UPDATE steps SET record = '{{\"numbers\": [{'9' * 40}]}}'", "record of a learning step is damaged"),
        ("UPDATE steps SET record = '{\"born\": [1.5]}'", "record of a learning step is damaged"),
        ('UPDATE steps SET record = \'{"doubts": ["wide"]}\'', "record of a learning step is damaged"),
        ("UPDATE steps SET record = '{\"ess\": [1]}'", "record of a learning step is damaged"),
        ("UPDATE steps SET record = '{'", "record of a learning step is damaged"),
        (f"UPDATE steps SET record = '{'[' * 99999}'", "record of a learning step is damaged"),
    ],
)
def test_values_that_no_run_has_are_refused_whatever_the_checksums(statement, message, closed):
    stored.change(closed.parent, statement)
    stored.sign(closed.parent)
    refuse(closed, message)


CHANGED = {"INTEGER": "77", "REAL": "0.125", "TEXT": "'2'", "BLOB": "x'00'"}


@pytest.mark.parametrize(
    ("table", "column"),
    [
        (name, column)
        for name, columns in TABLES.items()
        if name != "totals"
        for column in [*columns, "checksum"]
        if column not in ("id", "step", "event", "status") or (name, column) == ("rollouts", "step")
    ],
)
def test_every_value_of_a_row_is_in_its_checksum(table, column, closed):
    kind = TABLES[table][column].type if column in TABLES[table] else "INTEGER"
    stored.change(closed.parent, f'UPDATE {table} SET "{column}" = {CHANGED[kind]} WHERE rowid = 1')
    name = {"rollouts": "rollout", "steps": "learning step", "events": "event"}[table]
    refuse(closed, rf"{name} 1 does not fit its checksum. Restore the backup; `hpsde check RUN` lists all damaged rows")


def test_damaged_totals_are_counted_anew(closed):
    before = read_all(closed)
    stored.change(closed.parent, "UPDATE totals SET done = done + 1")
    assert read_all(closed) == before
    with closing(Store(closed, 2, 3)) as store:
        tell(store, [71])
    assert stored.look(closed.parent, "SELECT done, asked FROM totals") == [(61, 49)]


@pytest.mark.parametrize("change", ["asks = 1000000000000000", "done = -1", "steps = -7"])
def test_totals_that_are_no_counts_are_counted_anew_whatever_their_checksum(change, closed):
    before = read_all(closed)
    with closing(sqlite3.connect(closed)) as connection:
        connection.execute(f"UPDATE totals SET {change}")
        rows = connection.execute(f"SELECT {quoted(list(TABLES['totals']))} FROM totals").fetchall()
        signed = checksum("totals", dict(zip(TABLES["totals"], rows[0], strict=True)))
        connection.execute("UPDATE totals SET checksum = ?", [signed])
        connection.commit()
    assert read_all(closed) == before


def test_asks_without_end_are_an_error(closed):
    """Each has a stream of random numbers, of which there are 2^32."""
    stored.change(closed.parent, "UPDATE rollouts SET ask = 1000000000000000 WHERE id = 7; DELETE FROM totals")
    with closing(Store(closed, 2, 3)) as store, pytest.raises(FileFormatError, match="a value that its column cannot"):
        store.totals()


def test_totals_and_a_row_that_are_damaged_are_an_error(closed):
    """What the totals would be counted from is no number, which only a table that is not strict takes."""
    schema = "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = '{}' WHERE name = 'rollouts'"
    strict = STATEMENTS[0].replace("'", "''")
    stored.change(closed.parent, schema.format(strict.replace(" STRICT", "")))
    stored.change(closed.parent, "UPDATE rollouts SET ask = 'x' WHERE id = 7; UPDATE totals SET done = done + 1")
    stored.change(closed.parent, schema.format(strict))
    with (
        closing(Store(closed, 2, 3)) as store,
        pytest.raises(FileFormatError, match="a rollout has a value that its column cannot have"),
    ):
        store.totals()


def test_totals_are_those_of_the_rows(path, filled):
    """After asking, telling, a learning step, a correction of the best return, an import, and failures tried again."""
    tell(filled, [71], 9.0)
    tell(filled, [72], -9.0)
    filled.correct(71, None, "dropped", None)
    filled.add_given(np.zeros((2, 2)), np.zeros((2, 3)), np.array([3.0, 4.0]), 0, "table.csv")
    filled.add_step(2, np.array([41, 61, 72]), {})
    filled.reopen_failed()
    with closing(sqlite3.connect(path)) as other:
        assert filled.totals() == count_totals(other)
    assert (filled.totals().lowest, filled.totals().highest) == (-9.0, 4.0)


@pytest.mark.parametrize("content", [b"", b"text", b"SQLite format 3\0", b"SQLite format 3\0" + bytes(5000)])
def test_other_files_are_refused(content, path):
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"rollouts.sqlite (is damaged|is not the database of a run)"):
        read_all(path)


def test_a_missing_database_is_an_error(tmp_path):
    with pytest.raises(FileFormatError, match=r"is not the folder of a run: it has no rollouts.sqlite"):
        Store(tmp_path / "rollouts.sqlite", 2, 3)
    assert list(tmp_path.iterdir()) == []


def test_truncated_databases_are_refused(closed):
    content = closed.read_bytes()
    for length in range(0, len(content), 1024):
        closed.write_bytes(content[:length])
        with pytest.raises(FileFormatError):
            read_all(closed)


@settings(derandomize=True, deadline=None, max_examples=100, database=None)
@given(data=st.data())
def test_flipped_bytes_end_in_our_errors_alone(whole_file, tmp_path_factory, data):
    content = bytearray(whole_file)
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("flipped") / "rollouts.sqlite"
    path.write_bytes(bytes(content))
    with suppress(FileFormatError):
        read_all(path)


def test_every_flipped_bit_is_noticed_or_changes_nothing(whole_file, tmp_path):
    path = tmp_path / "rollouts.sqlite"
    path.write_bytes(whole_file)
    before, noticed = read_all(path), 0
    for place in np.random.default_rng(0).integers(0, 8 * len(whole_file), 400).tolist():
        content = bytearray(whole_file)
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(bytes(content))
        try:
            assert read_all(path) == before, place
        except FileFormatError as error:
            assert str(path) in str(error)  # noqa: PT017 - each is one or the other
            noticed += 1
    assert noticed > 100


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "rollouts.sqlite"
    Store.create(path)
    with closing(Store(path, 2, 3)) as store:
        add(store, 60)
        tell(store, range(1, 41))
        store.tell((number, None, "motor fault", np.zeros(3)) for number in range(41, 46))
        store.add_step(1, np.arange(1, 31), {"ess": 12.5, "numbers": [1, 2, 3]})
        store.correct(40, 2.5, None, "typed 1.5")
        add(store, 20, policy=1)
    return path.read_bytes()


def test_the_columns_are_those_of_the_schema(path):
    found = stored.look(path.parent, "PRAGMA table_info(rollouts)")
    assert tuple(row[1] for row in found) == (*COLUMNS, "checksum")
