"""`hpsde.Run`: ask and tell by number, in any order, from anywhere; one at a time where it must be."""

import csv
import errno
import json
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas
import pytest

import hpsde
import small
import stored
from handmade import DOUBTS, by_hand
from hpsde.base import archive as _archive
from hpsde.runs import lock as lock_module
from hpsde.runs import making
from hpsde.runs import run as run_module
from hpsde.runs.backup import check
from hpsde.runs.export import export
from hpsde.runs.lock import RunLock
from patience import LONG

pytestmark = pytest.mark.usefixtures("remembered")

CONTEXTS = small.draw_contexts(0, 6, 1)


@pytest.fixture
def run(tmp_path):
    with stored.create(tmp_path / "run") as run:
        yield run


def test_asked_rollouts_are_on_disk_before_ask_returns(run):
    asked = run.ask(CONTEXTS)
    assert [each.id for each in asked] == [1, 2, 3, 4, 5, 6]
    assert [each.id for each in run.ask(CONTEXTS[:2])] == [7, 8]
    found = stored.look(run.folder, "SELECT ask, status, option, policy, seed, parameters FROM rollouts ORDER BY id")
    assert [row[:4] for row in found] == [(1, "asked", -1, 0)] * 6 + [(2, "asked", -1, 0)] * 2
    assert [row[4] for row in found[:6]] == [each.seed for each in asked]
    assert [row[5] for row in found[:6]] == [each.parameters.tobytes() for each in asked]
    assert len({each.seed for each in asked}) == 6


def test_a_run_learns_what_a_learner_in_memory_learns(tmp_path):
    """Told all at once and in order, a run and `hpsde.HPSDE` are the same to the bit."""
    learner = small.make(seed=7, bounds="initial")
    with stored.create(tmp_path / "run") as run:
        for number, count in enumerate(small.ROUNDS):
            contexts = small.draw_contexts(number, count, 1)
            asked, proposal = run.ask(contexts), learner.ask(contexts)
            np.testing.assert_array_equal([each.parameters for each in asked], proposal.parameters)
            np.testing.assert_array_equal([each.log_density for each in asked], proposal.log_density)
            returns = small.two_ridges(contexts, proposal.parameters)
            run.tell([each.id for each in asked], returns)
            learner.tell(contexts, proposal.parameters, returns)
        small.assert_same_bits(run.policy, learner.policy)
        small.assert_same_bits(hpsde.load_policy(run.folder / "policy.npz"), learner.policy)
        assert run.status().steps == 3


def test_options_keep_their_number_in_the_database_and_in_tables(run, tmp_path, monkeypatch):
    """Whatever their places: the second step swaps them, lets the first die and another be born."""
    names = [np.array([2, 1, 0, 0]), np.array([3, 2, 0, 0])]
    learned = fake_estimates(monkeypatch, names, [(), DOUBTS])
    stored.tell(run, run.ask(small.draw_contexts(0, 128, 1)))
    first = run.ask(small.draw_contexts(1, 32, 1))
    stored.tell(run, first)
    second = run.ask(small.draw_contexts(2, 32, 1))
    assert len(learned) == 2
    wanted = [0] * 128 + [[2, 1][each.option] for each in first] + [[3, 2][each.option] for each in second]
    assert [each.number for each in [*first, *second]] == wanted[128:]
    assert len(set(wanted)) == 4
    assert run.rollouts().number.tolist() == wanted
    assert run.learner().rollouts.number.tolist() == wanted[:160]
    with hpsde.Run.open(run.folder) as other:
        assert other.learner().rollouts.number.tolist() == wanted[:160]
    export(run.store, tmp_path / "table.csv", "csv")
    export(run.store, tmp_path / "table.parquet", "parquet")
    assert pandas.read_csv(tmp_path / "table.csv")["number"].tolist() == wanted
    assert pandas.read_parquet(tmp_path / "table.parquet")["number"].tolist() == wanted
    records = [json.loads(text) for (text,) in stored.look(run.folder, "SELECT record FROM steps ORDER BY step")]
    assert [record["numbers"] for record in records] == [[2, 1], [3, 2]]
    assert [(record["born"], record["died"]) for record in records] == [([1, 2], []), ([3], [1])]
    status = run.status().as_dict()
    assert status["options"] == (
        {"number": 1, "born": 128, "died": 160},
        {"number": 2, "born": 128, "died": None},
        {"number": 3, "born": 160, "died": None},
    )
    assert [doubt["kind"] for doubt in status["doubts"]] == ["unexplained", "wide"]
    assert records[0]["doubts"] == []
    assert records[1]["doubts"] == list(status["doubts"])


def fake_estimates(monkeypatch, names, doubts):
    """Policies made by hand for one parameter in place of learned ones, with two options of these names."""
    estimated = []

    def estimate(self, key, usable):
        step = len(estimated)
        numbers = names[step]
        before = set() if step == 0 else set(names[step - 1][numbers > 0].tolist())
        now = set(numbers[numbers > 0].tolist())
        self.info = replace(
            self.info,
            temperature=1.0,
            options_kept=2,
            born=tuple(sorted(now - before)),
            died=tuple(sorted(before - now)),
        )
        policy = by_hand("softmax", context_size=1, parameter_size=1)
        even = policy.gate._replace(theta=0.0 * policy.gate.theta)  # all options alike
        policy = replace(policy, kept=numbers > 0, gate=even, numbers=numbers, doubts=doubts[step])
        estimated.append(policy)
        return policy

    monkeypatch.setattr(hpsde.HPSDE, "_estimate", estimate)
    return estimated


def test_tells_come_in_any_order_and_from_others(run):
    run.ask(CONTEXTS)
    run.tell(5, -3.25)
    with hpsde.Run.open(run.folder) as other:
        other.tell([6, 1], [0.5, 0.25])
        other.tell(np.int64(3), failed="motor fault")
        other.tell([2, 4], failed="no power")
    status = run.status()
    assert (status.done, status.failed, status.asked, status.open) == (3, 3, 0, ())
    assert (status.best_return, status.steps, status.running) == (0.5, 0, {})
    np.testing.assert_array_equal(run.rollouts().returns, [0.25, np.nan, np.nan, np.nan, -3.25, 0.5])


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((9, 1.0), {}, hpsde.AskTellError, "no rollout 9 in this run; rollouts 1 to 6 have been asked"),
        ((6, 1.0), {}, hpsde.AskTellError, r"rollout 6 was told already, with the return 1.0, at 2\d\d\d-"),
        ((0, 1.0), {}, hpsde.InputError, "at least 1"),
        ((2**70, 1.0), {}, hpsde.InputError, r"below 2\^63"),
        (("1", 1.0), {}, hpsde.InputError, "whole number"),
        ((1.0, 1.0), {}, hpsde.InputError, "whole number"),
        ((None, 1.0), {}, hpsde.InputError, "whole number"),
        (([], []), {}, hpsde.InputError, "expected one number or different numbers"),
        (([1, 1], [1.0, 2.0]), {}, hpsde.InputError, "different numbers"),
        (([[1, 2], [3]], 1.0), {}, hpsde.InputError, "expected the number of a rollout"),
        ((1,), {}, hpsde.InputError, "one of the two"),
        ((1, 1.0), {"failed": "why"}, hpsde.InputError, "one of the two"),
        ((1, np.nan), {}, hpsde.InputError, r"finite.*tell\(id, failed="),
        ((1, np.inf), {}, hpsde.InputError, "finite"),
        ((1, 10**400), {}, hpsde.InputError, "numbers"),
        ((1, "high"), {}, hpsde.InputError, "must be numbers"),
        ((1, [1.0, 2.0]), {}, hpsde.InputError, "expected 1 numbers"),
        (([1, 2], [1.0]), {}, hpsde.InputError, "expected 2 numbers, one for each id"),
        ((1, 1.0), {"parameters": [0.1, 0.2]}, hpsde.InputError, r"parameters must have shape \[1, 1\]; got \[1, 2\]"),
        ((1, 1.0), {"parameters": [np.nan]}, hpsde.InputError, "parameters must be finite"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_says_why_and_changes_nothing(arguments, options, error, message, run):
    run.ask(CONTEXTS)
    run.tell(6, 1.0)
    before = run.store.table()
    with pytest.raises(error, match=message):
        run.tell(*arguments, **options)
    assert run.store.table() == before


def test_what_was_done_beyond_bounds_is_taken_and_where_there_are_none_it_must_be_possible(tmp_path):
    for bounds, possible in (("initial", True), (None, False)):
        with stored.create(tmp_path / str(bounds), bounds=bounds) as run:
            run.ask(CONTEXTS)
            if possible:
                run.tell(1, 1.0, parameters=[7.0])
            else:
                with pytest.raises(hpsde.InputError, match="possible under the initial policy"):
                    run.tell(1, 1.0, parameters=[7.0])
            assert run.status().done == int(possible)


@pytest.mark.parametrize(
    ("contexts", "count", "message"),
    [
        (None, None, r"ask needs contexts \[N, 1\]; got none"),
        ([[1.0, 2.0]], None, r"contexts must have shape \[N, 1\]; got \[1, 2\]"),
        ([], None, "at least one context"),
        ([np.inf], None, "finite"),
        (["x"], None, "numbers"),
        ([0.5], 2, r"shape \[2, 1\]"),
        (None, 2**65, "below"),
        (None, 10**9, "at most 1000000 rollouts at once"),
    ],
)
def test_what_cannot_be_asked_says_why_and_changes_nothing(contexts, count, message, run):
    with pytest.raises(hpsde.InputError, match=message):
        run.ask(contexts, count=count)
    assert run.store.position() == (0, 0, 0)
    assert run.ask([0.5])[0].id == 1


def test_rollouts_without_contexts(tmp_path):
    with hpsde.Run.create(tmp_path / "run", initial="gaussian([1, 2], 0.5)") as run:
        asked = run.ask(count=3)
        assert [each.context.shape for each in asked] == [(0,)] * 3
        assert run.rollouts().parameters.shape == (3, 2)
        with pytest.raises(hpsde.InputError, match="ask needs to know how many"):
            run.ask()


def test_other_parameters_than_asked_are_learned_from(run):
    asked = run.ask(CONTEXTS)
    run.tell([2, 1], [1.0, 2.0], parameters=[[0.125], [0.25]])
    run.tell(3, failed="fell", parameters=[99.0])  # it failed: what was run need not be possible
    np.testing.assert_array_equal(run.rollouts().parameters[:3, 0], [0.25, 0.125, 99.0])
    kept = stored.look(run.folder, "SELECT parameters FROM rollouts WHERE id < 3 ORDER BY id")
    assert [content for (content,) in kept] == [each.parameters.tobytes() for each in asked[:2]]


def test_a_learner_is_made_once_when_a_run_is_made_or_opened(tmp_path, monkeypatch):
    made, make = [], making.new_learner
    monkeypatch.setattr(making, "new_learner", lambda *given, **more: made.append(given) or make(*given, **more))
    sizes = {name: value for name, value in stored.SIZES.items() if name != "max_options"}
    with hpsde.Run.create(tmp_path / "run", method="creps", **stored.WORDS, **sizes) as run:
        run.learn(stored.make_task(), progress=False)
    assert len(made) == 1
    for state in ("kept", "lost"):
        if state == "lost":
            (tmp_path / "run/learner.npz").unlink()
        with hpsde.Run.open(tmp_path / "run") as run:
            run.policy  # noqa: B018
    assert len(made) == 3


def test_a_run_that_was_closed_says_so(run, tmp_path):
    run.close()
    run.close()
    calls = [
        lambda: run.ask([[1.0]]),
        lambda: run.tell(1, 0.5),
        lambda: run.policy,
        run.status,
        run.rollouts,
        lambda: run.store.copy_to(tmp_path / "copy.sqlite"),
    ]
    for call in calls:
        with pytest.raises(hpsde.StorageError, match=r"rollouts.sqlite was closed: open the run again, Run.open\("):
            call()


def test_a_policy_needs_rollouts(run):
    with pytest.raises(hpsde.AskTellError, match="at least 2 rollouts"):
        run.policy  # noqa: B018
    run.ask(CONTEXTS)
    run.tell(1, 1.0)
    with pytest.raises(hpsde.AskTellError, match="at least 2 rollouts that did not fail; 1 were told"):
        run.policy  # noqa: B018
    assert run.store.position() == (6, 1, 0)


def test_a_task_of_ones_own_is_given_again(tmp_path):
    task = stored.make_task()
    with hpsde.Run.create(tmp_path / "run", task, **stored.SIZES) as run:
        run.ask(CONTEXTS)
    with hpsde.Run.open(tmp_path / "run") as run:
        run.tell(1, 1.0)
        with pytest.raises(hpsde.InputError, match=r"a task of your own, ridges; give it again: Run.open"):
            run.ask(CONTEXTS)
        with pytest.raises(hpsde.InputError, match="has no function that could run its rollouts"):
            run.learn()
    with hpsde.Run.open(tmp_path / "run", task=task) as run:
        assert run.ask(CONTEXTS)[0].id == 7
    with pytest.raises(hpsde.InputError, match="task: expected an object with name"):
        hpsde.Run.open(tmp_path / "run", task=3)
    with pytest.raises(hpsde.InputError, match="got contexts, initial besides"):
        hpsde.Run.create(tmp_path / "other", task, **stored.WORDS)


def test_a_task_of_other_sizes_is_refused(run):
    task = hpsde.tasks.task.task_from_function(abs, initial=hpsde.Uniform([0.0, 0.0], 1.0))
    with pytest.raises(hpsde.InputError, match=r"must have 1 contexts and 1 parameters; it has \(0, 2\)"):
        run.learn(task, progress=False)


def test_folders_with_something_in_them_are_left_alone(run, tmp_path):
    run.ask(CONTEXTS)
    with pytest.raises(hpsde.InputError, match="has a run in it"):
        stored.create(run.folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes.txt").write_text("mine")
    with pytest.raises(hpsde.InputError, match="has something else in it"):
        stored.create(tmp_path / "other")
    with pytest.raises(hpsde.InputError, match="is a file"):
        stored.create(tmp_path / "other/notes.txt")
    assert run.status().asked == 6
    with stored.create(run.folder, overwrite=True) as new:
        assert new.status().asked == 0


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("config.json", "of a run, rollouts.sqlite, but no config.json, which .* backup"),
        ("rollouts.sqlite", "the config.json of a run, but no rollouts.sqlite, which .* backup"),
    ],
)
def test_what_is_no_run_is_not_opened(missing, said, run, tmp_path):
    (run.folder / missing).unlink()
    with pytest.raises(hpsde.FileFormatError, match=said):
        hpsde.Run.open(run.folder)
    with pytest.raises(hpsde.FileFormatError, match="is not the folder of a run"):
        hpsde.Run.open(tmp_path / "nothing")


def test_a_configuration_of_the_same_words_stands_in_for_one_that_is_lost(run, tmp_path):
    """As the message about a database without one says."""
    run.ask(CONTEXTS)
    run.tell(1, 0.5)
    (run.folder / "config.json").unlink()
    stored.create(tmp_path / "again").close()
    (tmp_path / "again/config.json").rename(run.folder / "config.json")
    with hpsde.Run.open(run.folder) as again:
        assert (again.status().done, again.ask(CONTEXTS)[0].id) == (1, 7)


# One at a time


def test_while_a_run_is_running_others_are_refused_but_may_look(run):
    seen = []

    def busy(contexts, parameters, seeds):
        if not seen:
            with hpsde.Run.open(run.folder) as other:
                seen.append(other.status())
                tries = {
                    "ask": lambda: other.ask([0.5]),
                    "tell": lambda: other.tell(1, 1.0),
                    "policy": lambda: other.policy,
                    "learn": lambda: other.learn(stored.make_task(), progress=False),
                    "overwrite": lambda: stored.create(run.folder, overwrite=True),
                }
                for attempt in tries.values():
                    with pytest.raises(hpsde.RunLockedError, match=f"process {os.getpid()}"):
                        attempt()
            with ThreadPoolExecutor(1) as pool, pytest.raises(hpsde.RunLockedError, match="running its rollouts"):
                pool.submit(run.ask, [0.5]).result()
        return stored.noisy_ridges(contexts, parameters, seeds)

    run.learn(stored.make_task(busy), rollouts=192, progress=False)
    assert (seen[0].asked, seen[0].running["purpose"], seen[0].running["process"]) == (128, "run", os.getpid())
    assert (run.status().done, run.status().failed, run.status().running) == (192, 0, {})


def test_ask_waits_for_one_who_asks(run, monkeypatch):
    held, waits, sleep = threading.Event(), threading.Event(), time.sleep

    def hold():
        with RunLock(run.folder / "lock").hold("ask"):
            held.set()
            waits.wait(LONG)

    monkeypatch.setattr(time, "sleep", lambda seconds: waits.set() or sleep(seconds))  # between two looks at the lock
    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(LONG)
    assert run.lock.holder()["purpose"] == "ask"
    assert run.ask(CONTEXTS)[0].id == 1
    assert waits.is_set()
    thread.join()


def test_threads_share_a_run(run):
    """They ask and tell as they like: no number is given twice, and nothing told is lost."""
    told = {}

    def work(thread):
        for number in range(6):
            asked = run.ask(CONTEXTS[: 1 + number % 3])
            run.status()
            for each in asked:
                value = float(100 * thread + number)
                run.tell(each.id, value)
                assert told.setdefault(each.id, value) == value

    with warnings.catch_warnings(), ThreadPoolExecutor(4) as pool:
        warnings.simplefilter("ignore", hpsde.FarReturnWarning)
        list(pool.map(work, range(4)))
    rows = run.rollouts()
    assert sorted(told) == rows.id.tolist() == list(range(1, 49))
    assert dict(zip(rows.id.tolist(), rows.returns.tolist(), strict=True)) == told
    assert run.store.position() == (48, 24, 0)
    assert check(run)["wrong"] == []


def test_one_who_does_not_let_go_is_named(run, monkeypatch):
    monkeypatch.setattr(run_module, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(lock_module, "PATIENCE_SECONDS", 0.05)
    with RunLock(run.folder / "lock").hold("ask"):
        with pytest.raises(hpsde.RunLockedError, match=rf"in use: process {os.getpid()} on .* working on it since 2"):
            run.ask(CONTEXTS)
        assert run.lock.holder()["purpose"] == "ask"
    (run.folder / "lock").write_bytes(b"\xff not JSON")
    assert run.lock.holder() == {}
    assert run.ask(CONTEXTS)[0].id == 1


# Policies that are none


def test_a_policy_that_is_not_finite_is_neither_stored_nor_given_back(run, monkeypatch):
    asked = run.ask(small.draw_contexts(0, 128, 1))
    run.tell([each.id for each in asked], np.linspace(-1e36, 1e36, 128))
    bad = by_hand("softmax", context_size=1, parameter_size=1)
    options = bad.standard_options._replace(b=np.array([[0.0], [np.nan], *bad.standard_options.b[2:]]))
    with monkeypatch.context() as patch:
        patch.setattr(hpsde.HPSDE, "_estimate", lambda self, key, usable: replace(bad, standard_options=options))
        for attempt in (lambda: run.policy, lambda: run.ask(CONTEXTS)):
            with pytest.raises(hpsde.LearningError, match=r"HPSDE learned no policy from 128 .*-1e\+36 to 1e\+36"):
                attempt()
    status = run.status()
    assert (status.done, status.asked, status.steps) == (128, 0, 0)
    assert not (run.folder / "policy.npz").exists()


# Disks that fail


def no_space(_):
    raise OSError(errno.ENOSPC, "No space left")


def test_a_disk_that_is_full_when_the_policy_is_saved(run, monkeypatch):
    stored.tell(run, run.ask(small.draw_contexts(0, 128, 1)))
    with monkeypatch.context() as patch:
        patch.setattr(_archive.os, "fsync", no_space)
        with pytest.raises(hpsde.StorageError, match=r"(?s)run cannot be written: .*No space left.*No rollout is lost"):
            run.policy  # noqa: B018
    assert stored.sound(run.folder)
    assert run.status().done == 128
    assert not (run.folder / "policy.npz").exists()
    with hpsde.Run.open(run.folder) as again:
        small.assert_same_bits(again.policy, run.policy)
        small.assert_same_bits(hpsde.load_policy(run.folder / "policy.npz"), run.policy)


def test_a_log_that_cannot_be_written_stops_nothing(run):
    (run.folder / "log.txt").unlink()
    (run.folder / "log.txt").mkdir()
    run.log("half a pair \ud800")
    assert run.ask(CONTEXTS)[0].id == 1


# Export


def test_exported_tables_hold_every_rollout(run, tmp_path):
    asked = run.ask(CONTEXTS)
    run.tell([1, 2], [0.1, -2.5])
    run.tell(3, failed='the "motor",\nit broke')
    run.tell(4, 1.0, parameters=[0.5])
    export(run.store, tmp_path / "deep/rollouts.csv", "csv")
    export(run.store, tmp_path / "rollouts.parquet", "parquet")
    tables = [pandas.read_csv(tmp_path / "deep/rollouts.csv")]
    tables.append(pandas.read_parquet(tmp_path / "rollouts.parquet"))
    for table in tables:
        assert table["id"].tolist() == [1, 2, 3, 4, 5, 6]
        assert table["status"].tolist() == ["done", "done", "failed", "done", "asked", "asked"]
        np.testing.assert_allclose(table["context_1"], CONTEXTS[:, 0], rtol=1e-15)
        wanted = [each.parameters[0] for each in asked]
        np.testing.assert_allclose(table["parameter_1"], [*wanted[:3], 0.5, *wanted[4:]], rtol=1e-15)
        np.testing.assert_array_equal(table["return"], [0.1, -2.5, np.nan, 1.0, np.nan, np.nan])
        assert table["as_asked"].tolist() == [True, True, True, False, True, True]
        assert table["reason"][2] == 'the "motor",\nit broke'
        assert table["seed"].tolist() == [each.seed for each in asked]
    assert [tables[1].dtypes[name].kind for name in ("return", "log_density", "seed")] == ["f", "f", "i"]


@pytest.mark.parametrize("reason", ['=HYPERLINK("x")', "+1", "-1", "@x", "\tx", "\rx"])
def test_exported_texts_are_no_formulas(reason, run, tmp_path):
    run.ask(CONTEXTS)
    run.tell(1, -0.5)
    run.tell(2, failed=reason)
    export(run.store, tmp_path / "table.csv", "csv")
    with (tmp_path / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[1]["reason"] == f"'{reason}".replace("\r", "\n")
    assert rows[0]["return"] == "-0.5"


def test_export_never_writes_over_the_run(run):
    run.ask(CONTEXTS)
    for name in ("rollouts.sqlite", "config.json"):
        with pytest.raises(hpsde.InputError, match="is a file of the run itself"):
            export(run.store, run.folder / ".." / run.folder.name / name, "csv")
    with pytest.raises(hpsde.StorageError, match="cannot be written"):
        export(run.store, run.folder, "csv")
    assert run.status().asked == 6


def test_an_empty_run_is_an_empty_table(run, tmp_path):
    export(run.store, tmp_path / "rollouts.parquet", "parquet")
    assert len(pandas.read_parquet(tmp_path / "rollouts.parquet")) == 0
