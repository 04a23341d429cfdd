"""Rollouts that were made elsewhere: told to a learner, given to a run, read from tables; and many told at once."""

import json
import sys
from io import StringIO

import numpy as np
import pandas
import pytest

import hpsde
import small
import stored
from hpsde.cli import main
from hpsde.runs.export import export
from hpsde.runs.tables import read_table, read_told


def demonstrations(count=128):
    """Near both ridges, and some beyond what the initial distribution can do; with their returns."""
    generator = np.random.default_rng(5)
    contexts = generator.uniform(0.0, 2.0, (count, 1))
    parameters = np.where(np.arange(count)[:, None] % 2, -0.6, 0.6) + generator.normal(0.0, 0.4, (count, 1))
    assert np.any(np.abs(parameters) > 1.0)
    return contexts, parameters, small.two_ridges(contexts, parameters)


@pytest.fixture
def run(tmp_path):
    with stored.create(tmp_path / "run") as run:
        yield run


# Learners


def test_data_from_elsewhere_start_a_learner():
    """In place of initial rollouts, also where the initial distribution cannot have made them."""
    learner = small.make(seed=3)
    learner.add(*demonstrations())
    assert set(learner.rollouts.behaviour) == {-1}
    proposal = learner.ask(small.draw_contexts(1, 32, 1))
    assert np.any(proposal.option >= 0)
    assert np.all(np.isfinite(proposal.log_density))
    small.assert_sound(learner.policy)
    means = sorted(float(option.mean([[1.0]])[0, 0]) for option in learner.policy.options)
    np.testing.assert_allclose([means[0], means[-1]], [-0.5, 0.7], atol=0.15)


def test_data_from_elsewhere_are_weighed_by_their_own_density():
    """Not by that of the initial policy, which may be 0 there: by the mixture of both, each with its share."""
    learner = small.make(seed=3)
    contexts, parameters, returns = demonstrations(100)
    learner.add(contexts, parameters, returns)
    own = small.own_data(60)
    learner.tell(*own, small.two_ridges(*own))
    usable = np.full(160, True)
    frame = learner._make_frame(usable)
    found = learner._log_behaviour(frame, usable, None)
    assert np.all(np.isfinite(found))
    joint = [frame.units.contexts(learner.rollouts.contexts), frame.units.parameters(learner.rollouts.parameters)]
    initial = np.where(np.abs(learner.rollouts.parameters[:, 0]) <= 1.0, np.log(0.5), -np.inf) + frame.units.log_volume
    elsewhere = learner._estimated(1, np.arange(160) < 100, *joint, None)
    np.testing.assert_allclose(found, np.logaddexp(initial + np.log(60 / 160), elsewhere + np.log(100 / 160)))


def test_what_cannot_be_added_says_why_and_changes_nothing():
    learner = small.make()
    for arguments, message in (
        (([[1.0]], [[1.0]], [np.nan]), "returns must be finite"),
        (([[1.0]], [[1.0, 2.0]], [1.0]), r"parameters must have shape \[N, 1\]"),
        ((None, [[1.0]], [1.0]), "add needs contexts"),
        (([], [], []), "add needs at least one rollout"),
    ):
        with pytest.raises(hpsde.InputError, match=message):
            learner.add(*arguments)
    assert len(learner.rollouts) == 0


# Runs


def test_a_run_started_by_data_from_elsewhere_is_the_same_however_it_is_opened(tmp_path):
    seen = []
    for how in ("keep", "reopen", "delete"):
        run = stored.create(tmp_path / how)
        assert run.add(*demonstrations(), source="old log") == range(1, 129)
        asked = run.ask(small.draw_contexts(1, 32, 1))
        assert any(each.option >= 0 for each in asked)
        stored.tell(run, asked)
        if how != "keep":
            run.close()
            if how == "delete":
                (tmp_path / how / "learner.npz").unlink()
            run = hpsde.Run.open(tmp_path / how)
        run.policy  # noqa: B018 - learns
        rows, status = run.rollouts(), run.status()
        assert set(rows.behaviour[:128]) == {-1}
        assert (status.added, status.done, status.rollouts) == (128, 160, 192)
        assert (status.events[0]["kind"], status.events[0]["source"]) == ("added", "old log")
        seen.append((tmp_path / how / "policy.npz").read_bytes())
        run.close()
    assert seen[0] == seen[1] == seen[2]


def test_data_from_elsewhere_cost_no_rollouts_and_stand_in_for_initial_ones(tmp_path):
    with stored.create(tmp_path / "run", method="creps", rollouts=40, initial_rollouts=40) as run:
        run.add(*demonstrations(30))
        calls = []

        def noted(contexts, parameters, seeds):
            calls.extend(seeds.tolist())
            return stored.noisy_ridges(contexts, parameters, seeds)

        run.learn(stored.make_task(noted), progress=False)
        rows = run.rollouts()
    assert len(calls) == 40
    assert np.sum(rows.ask == 2) == 10  # what 30 lack to 40
    assert len(rows) == 70


def test_adding_is_refused_while_the_run_is_running(run):
    with hpsde.Run.open(run.folder) as other, run.lock.hold("run"), pytest.raises(hpsde.RunLockedError):
        other.add(*demonstrations())
    assert run.status().done == 0


# Tables


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_the_export_of_one_run_is_imported_by_another_to_the_bit(to, run, tmp_path, capsys):
    asked = run.ask(small.draw_contexts(0, 6, 1))
    run.tell([1, 2], [0.1, -2.5e-7])
    run.tell(3, failed='the "motor",\nit broke')
    run.tell(4, 1.0, parameters=[1.0 / 3.0])
    export(run.store, tmp_path / f"table.{to}", to)
    with stored.create(tmp_path / "other") as other:
        assert main(["import", str(other.folder), str(tmp_path / f"table.{to}")]) == 0
        captured = capsys.readouterr()
        assert captured.err == "hpsde: 3 rows without a return were left out\n"
        assert (json.loads(captured.out)["added"], json.loads(captured.out)["done"]) == (3, 3)
        rows = other.rollouts()
    np.testing.assert_array_equal(rows.returns, [0.1, -2.5e-7, 1.0])
    np.testing.assert_array_equal(rows.parameters[:, 0], [*(each.parameters[0] for each in asked[:2]), 1.0 / 3.0])
    np.testing.assert_array_equal(rows.contexts, [asked[i].context for i in (0, 1, 3)])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must have the columns context_1, parameter_1, return; it has"),
        ("context_1,parameter_1\n1,2\n", "must have the columns"),
        ("context_1,parameter_1,parameter_2,return\n1,2,3,4\n", "must have the columns"),
        ("context_1,parameter_1,return\n1,x,3\n", "parameter_1 of row 1 must be a number; got 'x'"),
        ("context_1,parameter_1,return\n1,2\n", "row 1 has more or fewer fields"),
        ("context_1,parameter_1,return\n1,2,3,4\n", "row 1 has more or fewer fields"),
        ("context_1,parameter_1,return\n1,2,inf\n", "returns must be finite"),
        ("context_1,parameter_1,return\n1,1e300,1\n", "parameters must be finite"),
        ("context_1,parameter_1,return\n1,2,\n", "add needs at least one rollout"),
        ("\xff", "not a table in UTF-8"),
    ],
)
def test_tables_that_are_none_are_refused_whole(content, message, run, tmp_path, capsys):
    (tmp_path / "data.csv").write_bytes(content.encode("latin-1"))
    assert main(["import", str(run.folder), str(tmp_path / "data.csv")]) == 2
    assert message in capsys.readouterr().err
    assert run.status().done == 0


def test_other_files_are_no_tables(run, tmp_path, capsys):
    (tmp_path / "data.parquet").write_bytes(b"text")
    assert main(["import", str(run.folder), str(tmp_path / "data.parquet")]) == 2
    assert "is not a Parquet file" in capsys.readouterr().err
    (tmp_path / "data.parquet").write_bytes(b"PAR1" + b"\xff" * 40 + b"\x24\0\0\0PAR1")  # a footer of other bytes
    assert main(["import", str(run.folder), str(tmp_path / "data.parquet")]) == 2
    assert "is not a Parquet file" in capsys.readouterr().err
    assert main(["import", str(run.folder), str(tmp_path / "nothing.csv")]) == 2
    assert run.status().done == 0


def test_tables_in_parquet_whose_text_is_none_are_refused(run, tmp_path, capsys):
    """The footer is right, and a text among the values is not UTF-8."""
    values = {"context_1": [0.5], "parameter_1": [0.5], "return": [0.5], "note": ["a note of ours"]}
    path = tmp_path / "data.parquet"
    pandas.DataFrame(values).to_parquet(path, compression=None)
    content = path.read_bytes()
    assert content.count(b"a note of ours") >= 1
    path.write_bytes(content.replace(b"a note of ours", b"a note \xff\xfe ours"))
    assert main(["import", str(run.folder), str(path)]) == 2
    assert "is not a Parquet file" in capsys.readouterr().err
    assert run.status().done == 0


def test_without_pyarrow_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(hpsde.InputError, match=r"pip install 'hpsde\[parquet\]'; or give a CSV file"):
        read_table(tmp_path / "data.parquet", 1, 1)


# Many told at once


@pytest.mark.parametrize(
    "text",
    [
        '[{"id": 2, "return": -3.25}, {"id": 1, "failed": "fell"}, {"id": 4, "return": 1, "parameters": [0.5]}]',
        "id,return,failed\n2,-3.25,\n1,,fell\n4,1.0,\n",
    ],
    ids=["json", "csv"],
)
def test_many_are_told_on_standard_input(text, run, capsys, monkeypatch):
    run.ask(small.draw_contexts(0, 4, 1))
    monkeypatch.setattr("sys.stdin", StringIO(text))
    assert main(["tell", str(run.folder)]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["done"], status["failed"], status["open"]) == (2, 1, [3])
    rows = run.rollouts()
    np.testing.assert_array_equal(rows.returns, [np.nan, -3.25, np.nan, 1.0])
    assert ("parameters" in text) == (rows.parameters[3] == 0.5)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("", 2, "got nothing"),
        ("[", 2, "is no JSON"),
        ("[3]", 2, "rollout 1 on standard input: expected id"),
        ('[{"id": 1, "return": 1}, {"return": 2}]', 2, "rollout 2 on standard input: expected id"),
        ('[{"id": 1, "return": 1}, {"id": 2, "reward": 2}]', 2, "rollout 2 on standard input"),
        ('[{"id": 1, "return": 1}, {"id": 2}]', 2, "rollout 2: expected a return"),
        ('[{"id": 1, "return": 1}, {"id": 1, "return": 2}]', 2, "different numbers"),
        ('[{"id": 1, "return": 1}, {"id": 2, "return": NaN}]', 2, "finite"),
        ('[{"id": 1, "return": 1}, {"id": 9, "return": 2}]', 1, "there is no rollout 9"),
        ('[{"id": 1, "return": 1}, {"id": 3, "return": 2}]', 1, "rollout 3 was told already"),
        ("id,return\n1,1.0\n2,high\n", 2, "rollout 2 on standard input"),
        ("id,return\n1,1.0\n2\n", 2, "row 2 has more or fewer fields"),
    ],
)  # fmt: skip
def test_many_are_told_whole_or_not_at_all(text, code, message, run, capsys, monkeypatch):
    run.ask(small.draw_contexts(0, 4, 1))
    run.tell(3, 1.0)
    monkeypatch.setattr("sys.stdin", StringIO(text))
    assert main(["tell", str(run.folder)]) == code
    assert message in capsys.readouterr().err
    assert run.status().open == (1, 2, 4)


def test_without_an_id_options_are_refused(run, capsys):
    assert main(["tell", str(run.folder), "--return", "1"]) == 2
    assert "expected the ID of a rollout" in capsys.readouterr().err


def test_entries_are_read_from_one_object_too():
    (told,) = read_told(' {"id": 3, "failed": ""} ')
    assert (told.id, told.value, told.failed) == (3, None, "")
