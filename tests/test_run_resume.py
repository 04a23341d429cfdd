"""Runs that are killed, interrupted, damaged and opened again end as if nothing had happened, to the bit."""

import functools
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hpsde
import stored
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.runs import run as run_module
from hpsde.runs.executors import InProcess
from hpsde.runs.signals import stopped_by_signals
from hpsde.runs.store import Store
from hpsde.steps import scouting

pytestmark = pytest.mark.usefixtures("remembered")


class KilledError(BaseException):
    """Nothing in hpsde expects it: what it leaves behind is what a process that dies leaves behind."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The policy file and the rollouts of a run that was never interrupted."""
    return stored.fresh_policy(tmp_path_factory.mktemp("whole") / "run")


def dying(function, number, after):
    """The function, but the process dies in its call of that number: before or after it does its work."""
    calls = []

    @functools.wraps(function)
    def wrapped(*arguments, **options):
        calls.append(1)
        if len(calls) == number and not after:
            raise KilledError
        value = function(*arguments, **options)
        if len(calls) == number:
            raise KilledError
        return value

    return wrapped


def noting(calls):
    """The task, with the seeds of all rollouts it evaluates."""

    def noted(contexts, parameters, seeds):
        calls.extend(seeds.tolist())
        return stored.noisy_ridges(contexts, parameters, seeds)

    return stored.make_task(noted)


def assert_same_run(folder, whole):
    policy, rows = whole
    assert (folder / "policy.npz").read_bytes() == policy
    with hpsde.Run.open(folder) as run:
        found = run.rollouts()
    for name in ("contexts", "parameters", "option", "number", "log_density", "returns", "seed", "policy", "step"):
        np.testing.assert_array_equal(getattr(found, name), getattr(rows, name))
    assert stored.sound(folder)


PLACES = [
    (Store, "add_asked", 1), (Store, "add_asked", 3),
    (Store, "tell", 1), (Store, "tell", 10),
    (Store, "add_step", 1), (Store, "add_step", 3),
    (HierarchicalPolicy, "save", 1), (HierarchicalPolicy, "save", 3),
    (run_module, "save_state", 2), (run_module, "save_state", 3),
]  # fmt: skip


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("owner", "name", "number"), PLACES, ids=[f"{name}-{n}" for _, name, n in PLACES])
def test_killed_anywhere_a_run_ends_the_same(owner, name, number, after, whole, tmp_path, monkeypatch):
    before, again = [], []
    with stored.create(tmp_path / "run") as run, monkeypatch.context() as patch:
        patch.setattr(owner, name, dying(getattr(owner, name), number, after))
        with pytest.raises(KilledError):
            run.learn(noting(before), progress=False)
    told = {seed for (seed,) in stored.look(tmp_path / "run", "SELECT seed FROM rollouts WHERE status = 'done'")}
    with hpsde.Run.open(tmp_path / "run") as run:
        run.learn(noting(again), progress=False)
    assert_same_run(tmp_path / "run", whole)
    assert not told & set(again)  # nothing told is evaluated again
    assert len(before) + len(again) - 192 == (16 if (name, after) == ("tell", False) else 0)


def test_sigkill_of_a_real_process(whole, tmp_path):
    """It kills itself within a rollout of the second batch; a process of its own goes on."""
    code = """
import os, signal, sys
import stored
def fatal(contexts, parameters, seeds):
    calls.extend(seeds.tolist())
    if len(calls) > 150:
        os.kill(os.getpid(), signal.SIGKILL)
    return stored.noisy_ridges(contexts, parameters, seeds)
calls = []
from pathlib import Path
stored.create(Path(sys.argv[1])).learn(stored.make_task(fatal), progress=False)
"""
    folder = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", code, str(folder)], cwd=Path(__file__).parent, check=False)
    assert done.returncode == -signal.SIGKILL
    with hpsde.Run.open(folder) as run:
        assert (run.status().done, run.status().running) == (144, {})
        run.learn(stored.make_task(), progress=False)
    assert_same_run(folder, whole)


def test_ctrl_c_twice_does_not_wait(tmp_path, whole, capsys):
    def interrupted(contexts, parameters, seeds):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)  # lets the second one in
        raise AssertionError("went on")

    with stored.create(tmp_path / "run") as run:
        with pytest.raises(KeyboardInterrupt):
            run.learn(stored.make_task(interrupted), progress=False)
        assert (run.status().asked, run.status().failed) == (128, 0)
        run.learn(stored.make_task(), progress=False)
    assert "Ctrl-C again" in capsys.readouterr().err
    assert_same_run(tmp_path / "run", whole)


@pytest.fixture
def hangup():
    """A closed terminal ends this process, also where the tests were started with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGHUP] * 2], ids=["ended", "terminal closed"])
def test_a_signal_lets_the_rollouts_under_way_end(signals, tmp_path, monkeypatch):
    """A terminal that is closed sends several, and cannot be written to."""

    def interrupted(contexts, parameters, seeds):
        while signals:
            os.kill(os.getpid(), signals.pop())
        return stored.noisy_ridges(contexts, parameters, seeds)

    with stored.create(tmp_path / "run") as run, open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(full, write_through=True))
        with pytest.raises(KeyboardInterrupt):
            run.learn(stored.make_task(interrupted), progress=False)
        assert (run.status().asked, run.status().done) == (112, 16)


def test_a_closed_terminal_that_nobody_minds_stops_nothing():
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_by_signals(InProcess(None)) as interrupted:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupted()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_more_rollouts_than_was_said_at_first(whole, tmp_path):
    """160, then 192: the same as 192 at once, but for what arrays were laid out for."""
    with stored.create(tmp_path / "run", rollouts=160) as run:
        run.learn(stored.make_task(), progress=False)
        with pytest.raises(hpsde.InputError, match="has 160; expected at least as many, got 100"):
            run.learn(stored.make_task(), rollouts=100, progress=False)
    with hpsde.Run.open(tmp_path / "run") as run:
        run.learn(stored.make_task(), rollouts=192, progress=False)
    assert_same_run(tmp_path / "run", whole)


@pytest.mark.parametrize("pages", [2, 3])
def test_a_disk_that_is_full_on_the_way(pages, whole, tmp_path):
    """When rollouts are asked for, or later when they are told: make room, and go on."""
    with stored.create(tmp_path / "run") as run:
        used = run.store._connection.execute("PRAGMA page_count").fetchone()[0]
        run.store._connection.execute(f"PRAGMA max_page_count = {used + pages}")
        with pytest.raises(hpsde.StorageError, match=r"the disk is full; nothing that was told is lost\. Make room"):
            run.learn(stored.make_task(), progress=False)
        assert run.status().asked == (0 if pages == 2 else 128 - run.status().done)
    assert stored.sound(tmp_path / "run")
    with hpsde.Run.open(tmp_path / "run") as run:
        run.learn(stored.make_task(), progress=False)
    assert_same_run(tmp_path / "run", whole)


def test_workers_give_the_same_policy(whole, tmp_path):
    with stored.create(tmp_path / "run") as run:
        run.learn(stored.make_task(), workers=2, progress=False)
    assert_same_run(tmp_path / "run", whole)


# Scouts


@pytest.fixture
def many_scouts(monkeypatch):
    """They go however little is unknown, as long as there may be any."""
    monkeypatch.setattr(scouting, "UNSEEN", 0.0)


def test_a_run_with_scouts_killed_anywhere_ends_the_same(tmp_path, many_scouts, monkeypatch):
    with stored.create(tmp_path / "whole") as run:
        run.learn(stored.make_task(), progress=False)
        rows = run.rollouts()
    later = rows.ask > 1
    scout = later & (rows.policy == 0)
    for ask in (2, 3):
        assert 0 < np.sum(scout & (rows.ask == ask)) < 16
    np.testing.assert_array_equal(scout, later & (rows.option == -1))
    np.testing.assert_array_equal(scout, later & (rows.number == 0))
    np.testing.assert_allclose(rows.log_density[scout], np.log(0.5), rtol=1e-12)
    whole = (tmp_path / "whole/policy.npz").read_bytes(), rows
    places = (("add_asked", 2, False), ("add_asked", 3, True), ("tell", 10, False), ("add_step", 2, True))
    for name, number, lost in places:  # lost: so is the learner's state
        folder = tmp_path / f"{name}-{number}"
        with stored.create(folder) as run, monkeypatch.context() as patch:
            patch.setattr(Store, name, dying(getattr(Store, name), number, True))
            with pytest.raises(KilledError):
                run.learn(stored.make_task(), progress=False)
        if lost:
            (folder / "learner.npz").unlink()
        with hpsde.Run.open(folder) as run:
            run.learn(stored.make_task(), progress=False)
        assert_same_run(folder, whole)


@pytest.mark.parametrize("how", ["reopen", "other", "delete"])
def test_scouts_that_are_under_way_are_the_same_for_a_run_that_is_opened_again(started, many_scouts, tmp_path, how):
    """Asks in contexts of 16 and of one, told in between or not."""
    seen = []
    for name in ("keep", how):
        folder = tmp_path / name / "run"
        shutil.copytree(started, folder)
        run, asked = hpsde.Run.open(folder), []
        for number, count in enumerate((16, 16, 1, 1, 16)):
            asked.append(run.ask(stored.small.draw_contexts(number, count, 1)))
            run = disturb(folder, run, name)
            if number == 1:
                stored.tell(run, asked[0])
        seen.append(
            [(each.id, each.option, each.number, *each.parameters, each.log_density) for ask in asked for each in ask]
        )
        run.policy.save(tmp_path / f"{name}.npz")
        run.close()
    assert seen[0] == seen[1]
    scouts = [option for _, option, *_ in seen[0]].count(-1)
    assert 0 < scouts < 25
    assert (tmp_path / "keep.npz").read_bytes() == (tmp_path / f"{how}.npz").read_bytes()


# Failures


def failing(contexts, parameters, seeds):
    """About one rollout in five raises, one in ten is NaN."""
    if np.any(seeds % 5 == 0):
        raise OSError("motor fault")
    return np.where(seeds % 10 == 1, np.nan, stored.noisy_ridges(contexts, parameters, seeds))


def test_failures_are_stored_with_their_reason_and_change_nothing_on_the_way(tmp_path, monkeypatch):
    with stored.create(tmp_path / "whole") as run:
        run.learn(stored.make_task(failing), progress=False)
        rows, status = run.rollouts(), run.status()
    assert (status.done + status.failed, status.asked) == (192, 0)
    np.testing.assert_array_equal(rows.status == "failed", (rows.seed % 5 == 0) | (rows.seed % 10 == 1))
    assert np.all(np.isnan(rows.returns[rows.status == "failed"]))
    reasons = stored.look(tmp_path / "whole", "SELECT seed, reason FROM rollouts WHERE status = 'failed'")
    for seed, reason in reasons:
        assert ("OSError: motor fault" in reason and "in failing" in reason) if seed % 5 == 0 else "nan" in reason
    with stored.create(tmp_path / "run") as run, monkeypatch.context() as patch:
        patch.setattr(Store, "add_step", dying(Store.add_step, 2, True))
        with pytest.raises(KilledError):
            run.learn(stored.make_task(failing), progress=False)
    (tmp_path / "run/learner.npz").unlink()
    with hpsde.Run.open(tmp_path / "run") as run:
        run.learn(stored.make_task(failing), progress=False)
    assert_same_run(tmp_path / "run", ((tmp_path / "whole/policy.npz").read_bytes(), rows))


def test_too_many_failures_stop_the_run_and_can_be_tried_again(whole, tmp_path):
    broken = True

    def sometimes(contexts, parameters, seeds):
        if broken:
            raise OSError("unplugged")
        return stored.noisy_ridges(contexts, parameters, seeds)

    with stored.create(tmp_path / "run") as run:
        with pytest.raises(hpsde.RolloutsFailedError, match=r"(?s)20 rollouts failed .*unplugged.*--retry-failed"):
            run.learn(stored.make_task(sometimes), progress=False)
        assert (run.status().failed, run.status().asked) == (32, 96)  # two chunks of 16
        assert "unplugged" in (tmp_path / "run/log.txt").read_text()
        broken = False
        run.learn(stored.make_task(sometimes), progress=False, retry_failed=True)
    assert_same_run(tmp_path / "run", whole)


def test_nothing_but_failures_is_an_error(tmp_path):
    def useless(contexts, parameters, seeds):
        return np.full(len(seeds), np.nan)

    with stored.create(tmp_path / "run") as run:
        with pytest.raises(hpsde.AskTellError, match="192 of 192 rollouts failed: nothing to learn from"):
            run.learn(stored.make_task(useless), progress=False, max_failures=1000)
        assert run.status().steps == 0


# Asks and tells in any order, opened again at any time


def disturb(folder, run, how):
    """Something that must not matter."""
    state = folder / "learner.npz"
    older = folder.parent / "older.npz"
    if how == "keep":
        return run
    if state.exists():
        if how == "delete":
            state.unlink()
        elif how == "truncate":
            state.write_bytes(state.read_bytes()[:-500])
        elif how == "outdate" and older.exists():
            shutil.copy(older, state)
        else:
            shutil.copy(state, older)
    if how == "other":
        with hpsde.Run.open(folder) as other:
            other.learner()
        return run
    run.close()
    return hpsde.Run.open(folder)


def act(run, operations, asked, after=lambda run: run):
    """Do it; all that was asked, and the run."""
    seen, waiting = [], []
    for name, number in operations:
        if name == "ask" and len(seen) < 4:
            seen.append(run.ask(stored.small.draw_contexts(len(seen), 16, 1)))
            waiting += seen[-1]
        elif name == "tell" and waiting:
            order = np.random.default_rng(number).permutation(len(waiting))[: max(1, number % 24)]
            chosen = [waiting[i] for i in order]
            waiting = [each for each in waiting if each not in chosen]
            if number % 3:
                stored.tell(run, chosen)
            else:
                run.tell([each.id for each in chosen], failed="dropped")
        elif name == "look":
            run.policy  # noqa: B018 - learns
        run = after(run)
    run.policy.save(asked)
    return seen, run


OPERATION = st.tuples(st.sampled_from(["ask", "ask", "tell", "tell", "look"]), st.integers(0, 999))
HOW = st.sampled_from(["keep", "reopen", "other", "delete", "truncate", "outdate"])


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """A run with its initial rollouts told."""
    folder = tmp_path_factory.mktemp("started") / "run"
    with stored.create(folder, batch=16) as run:
        stored.tell(run, run.ask(stored.small.draw_contexts(9, 128, 1)))
    return folder


@pytest.fixture(scope="module")
def learned(started, tmp_path_factory):
    """The same after its first learning step: what follows does not make it again."""
    folder = tmp_path_factory.mktemp("learned") / "run"
    shutil.copytree(started, folder)
    with hpsde.Run.open(folder) as run:
        run.policy  # noqa: B018 - learns
    return folder


@settings(derandomize=True, deadline=None, max_examples=12, database=None)
@given(operations=st.lists(OPERATION, max_size=9), disturbances=st.lists(HOW, min_size=9, max_size=9))
def test_any_order_and_any_disturbance_gives_the_same_bits(learned, operations, disturbances):
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch)
        for name in ("plain", "disturbed"):
            shutil.copytree(learned, base / name / "run")
        plain, run = act(hpsde.Run.open(base / "plain/run"), operations, base / "plain.npz")
        run.close()
        left = iter(disturbances)
        disturbed, run = act(
            hpsde.Run.open(base / "disturbed/run"),
            operations,
            base / "disturbed.npz",
            lambda run: disturb(base / "disturbed/run", run, next(left)),
        )
        run.close()
        assert [each.id for ask in plain for each in ask] == [each.id for ask in disturbed for each in ask]
        for name in ("parameters", "log_density"):
            one, other = ([getattr(each, name) for ask in asks for each in ask] for asks in (plain, disturbed))
            np.testing.assert_array_equal(one, other)
        assert (base / "plain.npz").read_bytes() == (base / "disturbed.npz").read_bytes()


@pytest.mark.parametrize("method", ["hpsde-rwr-softmax", "hpsde-reps-marginal"])
def test_every_gate_comes_back(method, tmp_path):
    """Opened again with and without the stored state."""
    files = []
    for how in ("keep", "reopen", "delete"):
        folder = tmp_path / how / "run"
        run = stored.create(folder, method=method)
        for number, count in enumerate((128, 32)):
            stored.tell(run, run.ask(stored.small.draw_contexts(number, count, 1)))
            run = disturb(folder, run, how)
        run.ask(stored.small.draw_contexts(5, 32, 1))
        run = disturb(folder, run, how)
        run.policy.save(tmp_path / "policy.npz")
        files.append((tmp_path / "policy.npz").read_bytes())
        run.close()
    assert files[0] == files[1] == files[2]


def test_what_was_asked_since_the_last_step_counts_once(started, tmp_path):
    """The state is written again when it was lost: without the open rollouts, which come from the store every time."""
    files = []
    for how in ("keep", "delete"):
        folder = tmp_path / how / "run"
        shutil.copytree(started, folder)
        run = hpsde.Run.open(folder)
        asked = run.ask(stored.small.draw_contexts(1, 16, 1))
        for name in (how, "keep" if how == "keep" else "reopen"):
            run = disturb(folder, run, name)
            run.learner()
        stored.tell(run, asked)
        run.policy  # noqa: B018 - learns
        run.close()
        files.append((folder / "policy.npz").read_bytes())
    assert files[0] == files[1]
