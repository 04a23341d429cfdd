"""Copies of a run that goes on, and whether a run is whole."""

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import hpsde
import stored
from hpsde.cli import main
from hpsde.errors import InputError
from hpsde.runs.backup import backup, check
from hpsde.runs.totals import read_totals, write_totals


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    return stored.learn_once(tmp_path_factory.mktemp("learned") / "run")


def test_a_copy_of_an_open_run_goes_on_by_itself(learned, tmp_path):
    with hpsde.Run.open(learned) as run:
        backup(run, tmp_path / "copy")
        rows = run.rollouts()
    with hpsde.Run.open(tmp_path / "copy") as copy:
        for name in ("id", "contexts", "parameters", "returns", "number"):
            np.testing.assert_array_equal(getattr(copy.rollouts(), name), getattr(rows, name))
        copy.tell(129, 0.5)
        assert copy.status().done == 129
        assert copy.learner().info.updates == 1
    with hpsde.Run.open(learned) as run:
        assert run.status().done == 128


def test_what_others_tell_while_a_copy_is_open_is_in_the_next_copy(learned, tmp_path):
    with hpsde.Run.open(learned) as run:
        backup(run, tmp_path / "first")
    with hpsde.Run.open(tmp_path / "first") as here, hpsde.Run.open(tmp_path / "first") as there:
        there.tell(130, 0.25)  # in the log beside the database, which nobody has closed
        backup(here, tmp_path / "second")
    with hpsde.Run.open(tmp_path / "second") as copy:
        assert copy.rollouts().returns[129] == 0.25


def test_a_copy_overwrites_nothing(learned, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with hpsde.Run.open(learned) as run, pytest.raises(InputError, match="has something else in it"):
        backup(run, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]


def test_by_the_command_line(learned, tmp_path, capsys):
    assert main(["backup", str(learned), str(tmp_path / "copy")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'copy'}\n"
    assert main(["check", str(tmp_path / "copy")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rollouts"], found["steps"], found["events"], found["wrong"]) == (160, 1, 0, [])
    assert found["policy"] >= 1


def damaged_row(copy):
    stored.change(copy, "UPDATE rollouts SET context = x'00' WHERE id IN (7, 9)")


def damaged_step(copy):
    stored.change(copy, "UPDATE steps SET record = 'nothing'")


def damaged_totals(copy):
    with closing(sqlite3.connect(copy / "rollouts.sqlite", isolation_level=None)) as connection:
        totals = read_totals(connection)
        write_totals(connection, totals._replace(done=totals.done + 1))


def damaged_policy(copy):
    (copy / "policy.npz").write_bytes((copy / "policy.npz").read_bytes()[:-200])


def damaged_page(copy):
    path = copy / "rollouts.sqlite"
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damaged_row, "rollout 9 does not fit its checksum"),
        (damaged_step, "learning step 1 does not fit its checksum"),
        (damaged_totals, "totals says done otherwise than the rows do"),
        (damaged_policy, "policy.npz"),
        (damaged_page, "rollouts.sqlite is damaged"),
    ],
)
def test_damage_is_found(learned, tmp_path, capsys, damage, words):
    with hpsde.Run.open(learned) as run:
        backup(run, tmp_path / "copy")
    damage(tmp_path / "copy")
    assert main(["check", str(tmp_path / "copy")]) == 1
    out, err = capsys.readouterr()
    assert any(words in line for line in json.loads(out)["wrong"])
    assert "is damaged in" in err


def test_export_leaves_out_what_is_damaged(learned, tmp_path, capsys):
    with hpsde.Run.open(learned) as run:
        backup(run, tmp_path / "copy")
    damaged_row(tmp_path / "copy")
    assert main(["export", str(tmp_path / "copy"), "--out", str(tmp_path / "table.csv")]) == 0
    assert "2 damaged rollouts were left out: 7, 9" in capsys.readouterr().err
    ids = [line.split(",")[0] for line in (tmp_path / "table.csv").read_text().splitlines()[1:]]
    assert ids == [str(i) for i in range(1, 161) if i not in (7, 9)]


def test_check_names_every_damaged_row(learned, tmp_path):
    with hpsde.Run.open(learned) as run:
        backup(run, tmp_path / "copy")
    damaged_row(tmp_path / "copy")
    damaged_step(tmp_path / "copy")
    with hpsde.Run.open(tmp_path / "copy") as run:
        wrong = check(run)["wrong"]
    for name in ("rollout 7", "rollout 9", "learning step 1"):
        assert sum(f"{name} does not fit its checksum" in line for line in wrong) == 1


def test_a_whole_run_has_no_fault(learned):
    with hpsde.Run.open(learned) as run:
        assert check(run)["wrong"] == []
