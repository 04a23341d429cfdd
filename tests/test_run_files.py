"""The files of a run are its own: none is opened through a link or waited for, nothing is told to one that is gone."""

import os
import shutil
import subprocess
import sys

import pytest

import hpsde
import small
import stored
from handmade import by_hand
from hpsde.base.archive import read_arrays, write_arrays
from hpsde.base.plain_files import open_plain
from hpsde.base.replacing import replaced
from hpsde.cli import main
from hpsde.runs.files import read_csv, read_json
from hpsde.runs.folder import FILES
from hpsde.runs.lock import RunLock
from patience import LONG

CONTEXTS = small.draw_contexts(0, 3, 1)


@pytest.fixture
def run(tmp_path):
    with stored.create(tmp_path / "run") as run:
        run.ask(CONTEXTS)
        yield run


# Links, pipes


@pytest.mark.parametrize("name", [*FILES, "rollouts.sqlite-journal"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_plain_file_is_refused_and_left_alone(name, kind, tmp_path, capsys):
    folder, mine = tmp_path / "run", tmp_path / "mine.txt"
    stored.create(folder).close()
    path = folder / name
    if path.exists():
        shutil.copy(path, mine)
        path.unlink()
    else:
        mine.write_text("mine")
    before = mine.read_bytes()
    path.symlink_to(mine) if kind == "link" else os.mkfifo(path)
    for arguments in (["status", folder], ["tell", folder, 1, "--return", 1], ["ask", folder, "--context", 1]):
        assert main([str(each) for each in arguments]) == 2
        if not (kind == "pipe" and name in ("config.json", "rollouts.sqlite")):  # these must be files at all
            assert f"{name}: expected a plain file" in capsys.readouterr().err
    if name == "policy.npz":
        assert main(["act", str(folder), "--context", "1"]) == 2
    assert mine.read_bytes() == before


def test_a_lock_or_log_that_became_a_link_is_not_written(run, tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    for name in ("lock", "log.txt"):
        (run.folder / name).unlink()
        (run.folder / name).symlink_to(mine)
    run.log("something")
    with pytest.raises(hpsde.FileFormatError, match="lock: expected a plain file"):
        run.ask(CONTEXTS)
    assert run.lock.holder() == {}
    assert mine.read_text() == "mine"


def test_readers_follow_no_link_and_wait_for_no_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for read in (read_json, read_csv, read_arrays, open_plain):
        for name in ("pipe", "link"):
            with pytest.raises(hpsde.FileFormatError, match="expected a plain file"):
                read(tmp_path / name)
    with pytest.raises(hpsde.FileFormatError, match="expected a plain file"):
        hpsde.load_policy(tmp_path / "pipe")
    by_hand().save(tmp_path / "policy.npz")
    (tmp_path / "latest.npz").symlink_to("policy.npz")
    assert hpsde.load_policy(tmp_path / "latest.npz").parameter_size == 2  # that one the user has named


def test_unfinished_files_have_a_name_of_their_own_and_replace_a_link_not_its_target(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    (tmp_path / "policy.npz").symlink_to(mine)
    with replaced(tmp_path / "policy.npz") as one, replaced(tmp_path / "policy.npz") as other:
        assert one.is_file()
        assert one != other
        with pytest.raises(FileExistsError):
            os.open(one, os.O_CREAT | os.O_EXCL)
    write_arrays(tmp_path / "policy.npz", {})
    assert mine.read_text() == "mine"
    assert not (tmp_path / "policy.npz").is_symlink()


# The lock


def test_a_child_that_was_forked_does_not_keep_the_lock(tmp_path):
    """To the child it is another's; and the one who holds it is killed while the child lives on."""
    code = """
import os, sys, time
from pathlib import Path
from hpsde.runs.lock import RunLock
lock = RunLock(Path(sys.argv[1]))
with lock.hold("run"):
    if os.fork() == 0:
        print(lock.running, flush=True)
    time.sleep(float(sys.argv[2]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock"), str(LONG)], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout.readline() == b"True\n"
        assert RunLock(tmp_path / "lock").running
        process.kill()
        process.wait()
        with RunLock(tmp_path / "lock").hold("ask"):
            pass
    finally:
        os.killpg(process.pid, 9)
        process.stdout.close()


def test_a_lock_that_was_removed_meanwhile_is_no_lock(tmp_path):
    first, second = RunLock(tmp_path / "lock"), RunLock(tmp_path / "lock")
    with first.hold("overwrite"):
        descriptor = second._open()
        (tmp_path / "lock").unlink()
    assert not second._is_current(descriptor)
    os.close(descriptor)
    with second.hold("ask"):
        assert RunLock(tmp_path / "lock").holder()["purpose"] == "ask"


# Folders that are gone


@pytest.mark.parametrize("how", ["deleted", "moved", "overwritten"])
def test_nothing_is_told_to_a_run_that_is_gone(how, run, tmp_path):
    if how == "deleted":
        shutil.rmtree(run.folder)
    elif how == "moved":
        run.folder.rename(tmp_path / "elsewhere")
    else:
        with stored.create(run.folder, overwrite=True) as other:
            other.ask(CONTEXTS)
    with pytest.raises(hpsde.StorageError, match="is not the database that was opened"):
        run.tell(1, 1.0)
    with pytest.raises((hpsde.StorageError, hpsde.FileFormatError)):
        run.ask(CONTEXTS)
    if how == "overwritten":
        with hpsde.Run.open(run.folder) as other:
            assert (other.status().done, other.status().asked) == (0, 3)


def test_a_folder_may_be_named_through_a_link(run, tmp_path):
    (tmp_path / "link").symlink_to(run.folder)
    with hpsde.Run.open(tmp_path / "link") as other:
        other.tell(1, 1.0)
    assert run.status().done == 1
