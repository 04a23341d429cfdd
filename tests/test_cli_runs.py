"""Runs in the shell: create, ask, tell, status, act, export, resume. JSON out, errors on the other stream."""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas
import pytest

import hpsde
import hpsde.plots
import stored
from handmade import DOUBTS
from hpsde.cli import main
from hpsde.runs.lock import RunLock
from patience import LONG


def call(capsys, *arguments):
    """Exit code, what was printed, what was complained."""
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def answer(capsys, *arguments):
    """The JSON that a command prints."""
    code, out, err = call(capsys, *arguments)
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    return json.loads(out)


@pytest.fixture
def robot(tmp_path, capsys):
    """A run for contexts of two numbers and parameters of one."""
    folder = tmp_path / "robot"
    answer(capsys, "create", folder, "--initial", "uniform(-1, 1)", "--context-size", "2", "--initial-rollouts", "60")
    return folder


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    return stored.learn_once(tmp_path_factory.mktemp("learned") / "run")


def test_plot_draws_a_run_that_is_told_by_hand(learned, tmp_path, capsys, monkeypatch):
    """Figure and title are of what was told; a run that has not learned says when there is something to draw."""
    titles = []
    monkeypatch.setattr(hpsde.plots, "write_title", lambda figure, title: titles.append(title))
    code, out, err = call(capsys, "plot", learned, "--out", tmp_path / "figure.png")
    assert (code, out, err) == (0, f"{tmp_path / 'figure.png'}\n", "")
    assert titles == ["run, hpsde-reps-gp, seed 7"]
    with stored.create(tmp_path / "new"):
        pass
    code, _, err = call(capsys, "plot", tmp_path / "new")
    assert code == 2
    assert "after 128 rollouts; 0 are done" in err


def test_create_says_where_the_run_stands(tmp_path, capsys):
    status = answer(capsys, "create", tmp_path / "new", "--initial", "gaussian([0, 0], 1)", "--rollouts", "70")
    assert (status["name"], status["rollouts"], status["done"], status["open"]) == ("new", 70, 0, [])
    config = json.loads((tmp_path / "new/config.json").read_text())
    assert (config["context_size"], config["parameter_size"], config["initial_rollouts"]) == (0, 2, 23)
    assert set(config["versions"]) >= {"hpsde", "jax", "numpy", "python"}
    code, out, err = call(capsys, "create", tmp_path / "new", "--initial", "uniform(0, 1)")
    assert (code, out) == (2, "")
    assert "has a run in it" in err
    assert "hpsde run --force" in err  # `create` has no such option


def test_create_from_a_file(tmp_path, capsys):
    (tmp_path / "robot.toml").write_text('name = "arm"\ninitial = "uniform([0, 0], [1, 2])"\ncontext_size = 3\n')
    status = answer(capsys, "create", tmp_path / "run", "--problem", tmp_path / "robot.toml", "--seed", 5)
    assert status["name"] == "arm"
    (asked,) = answer(capsys, "ask", tmp_path / "run", "--context", "1", "2", "3")
    assert np.shape(asked["parameters"]) == (2,)


def test_ask_and_tell(robot, capsys):
    asked = answer(capsys, "ask", robot, "--context", "0.3", "-1.5", "--context", "-1e-05", "2")
    assert [each["id"] for each in asked] == [1, 2]
    assert [each["context"] for each in asked] == [[0.3, -1.5], [-1e-05, 2.0]]
    assert {each["option"] for each in asked} == {-1}
    assert asked[0]["log_density"] == pytest.approx(-np.log(2.0))
    status = answer(capsys, "tell", robot, 2, "--return", "-3.2e-05")
    assert (status["done"], status["open"], status["best_return"]) == (1, [1], -3.2e-05)
    status = answer(capsys, "tell", robot, 1, "--failed", "motor fault")
    assert (status["done"], status["failed"], status["open"]) == (1, 1, [])
    assert stored.look(robot, "SELECT status, reason FROM rollouts") == [("failed", "motor fault"), ("done", None)]
    answer(capsys, "ask", robot, "--context", "0", "0")
    answer(capsys, "tell", robot, 3, "--return", "1", "--parameters", "-0.25")
    with hpsde.Run.open(robot) as run:
        assert run.rollouts().parameters[2] == -0.25
    assert answer(capsys, "status", robot)["done"] == 2


def test_ask_without_contexts(tmp_path, capsys):
    answer(capsys, "create", tmp_path / "run", "--initial", "uniform(0, 1)")
    assert len(answer(capsys, "ask", tmp_path / "run")) == 1
    assert [each["id"] for each in answer(capsys, "ask", tmp_path / "run", "--count", "3")] == [2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ask", "RUN"], 2, "ask needs contexts [N, 2]; got none"),
        (["ask", "RUN", "--context", "1"], 2, "shape [N, 2]"),
        (["ask", "RUN", "--context", "1", "2", "--context", "1"], 2, "expected 2 numbers every time"),
        (["ask", "RUN", "--context", "nan", "1"], 2, "finite numbers"),
        (["ask", "RUN", "--context", "one", "1"], 2, "--context"),
        (["ask", "RUN", "--context", "1", "2", "--count", "2"], 2, "exclude each other"),
        (["ask", "RUN", "--count", "0"], 2, "at least 1"),
        (["ask", "RUN/nothing", "--context", "1", "2"], 2, "is not the folder of a run"),
        (["tell", "RUN", "1"], 2, "--return R or --failed REASON"),
        (["tell", "RUN", "1", "--return", "1", "--failed", "x"], 2, "one of the two"),
        (["tell", "RUN", "1", "--return", "inf"], 2, "finite"),
        (["tell", "RUN", "1", "--return", "high"], 2, "--return"),
        (["tell", "RUN", "one", "--return", "1"], 2, "ID"),
        (["tell", "RUN", "9" * 30, "--return", "1"], 2, "below 2^63"),
        (["tell", "RUN", "1", "--return", "1", "--parameters", "0", "0"], 2, "shape [1, 1]"),
        (["tell", "RUN", "1", "--return", "1", "--parameters", "nan"], 2, "finite"),
        (["tell", "RUN", "7", "--return", "1"], 1, "there is no rollout 7 in this run; rollouts 1 to 2"),
        (["tell", "RUN", "2", "--return", "1"], 1, "rollout 2 was told already, with the return 0.5"),
        (["status", "RUN/nothing"], 2, "is not the folder of a run"),
        (["act", "RUN"], 2, "has no policy"),
        (["act", "RUN/nothing.npz"], 2, "has no policy"),
        (["act", "RUN/config.json"], 2, "is not a policy file"),
        (["export", "RUN", "--to", "xml"], 2, "--to"),
        (["export", "RUN", "--out", "RUN/rollouts.sqlite"], 2, "is a file of the run itself"),
        (["export", "RUN", "--out", "RUN/config.json/table.csv"], 1, "cannot be written"),
        (["plot", "RUN"], 2, "nothing to draw yet"),
        (["resume", "RUN"], 2, "has no function that could run its rollouts"),
        (["resume", "RUN", "--rollouts", "3"], 2, "no function that could run its rollouts"),
        (["resume", "RUN/nothing"], 2, "is not the folder of a run"),
        (["create", "RUN", "--initial", "uniform(0, 1)"], 2, "has a run in it"),
        (["create", "RUN/new"], 2, "initial"),
        (["create", "RUN/new", "--initial", "__import__('os').abort()"], 2, "initial"),
        (["create", "RUN/new", "--problem", "RUN/no.toml"], 2, "no.toml"),
        (["create", "RUN/new", "--problem", "RUN/config.json"], 2, "is not a TOML file"),
        (["create", "RUN/new", "--initial", "uniform(0, 1)", "--context-size", "-1"], 2, "context_size"),
        (["create", "RUN/config.json/new", "--initial", "uniform(0, 1)"], 1, "cannot be written"),
    ],
)
def test_errors_say_what_was_expected_and_change_nothing(arguments, code, message, robot, capsys):
    answer(capsys, "ask", robot, "--context", "0", "0", "--context", "1", "1")
    answer(capsys, "tell", robot, 2, "--return", "0.5")
    before = stored.look(robot, "SELECT * FROM rollouts")
    found, out, err = call(capsys, *(argument.replace("RUN", str(robot)) for argument in arguments))
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert stored.look(robot, "SELECT * FROM rollouts") == before
    assert not (robot / "new").exists()


def test_act_uses_the_policy_and_changes_nothing(learned, capsys, tmp_path):
    before = {path.name: path.read_bytes() for path in learned.iterdir()}
    policy = hpsde.load_policy(learned / "policy.npz")
    for where in (learned, learned / "policy.npz"):
        found = answer(capsys, "act", where, "--context", "0.5")
        np.testing.assert_array_equal(found["parameters"], policy.act([[0.5]])[0])
        means = [each["parameters"] for each in found["options"]]
        np.testing.assert_array_equal(means, policy.option_means([[0.5]])[:, 0])
        assert found["options"][found["option"]]["parameters"] == found["parameters"]
    assert {path.name: path.read_bytes() for path in learned.iterdir()} == before
    code, _, err = call(capsys, "act", learned, "--context", "0.5", "1")
    assert (code, err) == (2, "hpsde: --context: expected 1 numbers, got 2\n")
    (tmp_path / "policy.npz").write_bytes((learned / "policy.npz").read_bytes()[:-9])
    code, _, err = call(capsys, "act", tmp_path, "--context", "0.5")
    assert code == 2
    assert "policy.npz is not a policy file, or is damaged" in err


def test_act_says_that_a_context_lies_outside_of_what_was_learned_from(learned, capsys):
    known = hpsde.load_policy(learned / "policy.npz").known_contexts[:, 0]
    low, high = known.min(), known.max()
    for value in (low, high, high + 0.04 * (high - low)):
        assert call(capsys, "act", learned, "--context", value)[2] == ""
    for value in (low - 0.1 * (high - low), high + 10.0):
        code, out, err = call(capsys, "act", learned, "--context", f"{value}")
        assert code == 0
        assert json.loads(out)["parameters"]
        assert "lies outside of" in err
        assert f"{value:g}" in err


def test_act_says_doubts_on_the_other_stream_and_names_options(learned, capsys, tmp_path):
    policy = hpsde.load_policy(learned / "policy.npz")
    numbers = np.where(policy.kept, 10 + np.arange(len(policy.kept)), 0)
    dataclasses.replace(policy, numbers=numbers, doubts=DOUBTS).save(tmp_path / "policy.npz")
    code, out, err = call(capsys, "act", tmp_path, "--context", "0.5")
    found = json.loads(out)
    assert code == 0
    assert err.splitlines() == [f"hpsde: doubt ({doubt.kind}): {doubt.text}" for doubt in DOUBTS]
    assert [each["number"] for each in found["options"]] == numbers[policy.kept].tolist()
    assert found["number"] == found["options"][found["option"]]["number"]


def test_export_writes_the_table_and_says_where(learned, capsys, tmp_path):
    for to, read in (("csv", pandas.read_csv), ("parquet", pandas.read_parquet)):
        target = tmp_path / "deep" / f"table.{to}"
        assert call(capsys, "export", learned, "--to", to, "--out", target) == (0, f"{target}\n", "")
        table = read(target)
        assert len(table) == 160
        assert (table["status"] == "asked").sum() == 32
        assert table["return"].notna().sum() == 128


def test_a_run_in_use_is_refused(learned, capsys):
    with RunLock(learned / "lock").hold("run"):
        for arguments in (["ask", learned, "--context", "1"], ["tell", learned, "129", "--return", "1"]):
            code, out, err = call(capsys, *arguments)
            assert (code, out) == (1, "")
            assert f"process {os.getpid()}" in err
        code, _, err = call(capsys, "resume", learned)
        assert code == 1
        assert "is in use" in err
        assert answer(capsys, "status", learned)["running"]["purpose"] == "run"
    assert answer(capsys, "status", learned)["running"] == {}


def test_resume_of_a_task_goes_on_to_more_rollouts(tmp_path, capsys):
    sizes = ["--initial-rollouts", "128", "--batch", "32", "--max-options", "4"]
    assert main(["run", "toy-double", "--rollouts", "160", *sizes, "--out", str(tmp_path / "run"), "--quiet"]) == 0
    result = answer(capsys, "resume", tmp_path / "run", "--rollouts", "192", "--json")
    assert (result["rollouts"], result["task"]) == (192, "toy-double")
    living = [each["number"] for each in result["options"] if each["died"] is None]
    assert sorted(result["numbers"]) == living
    assert len(living) == result["options_kept"]
    assert all(set(doubt) == {"kind", "value", "text"} for doubt in result["doubts"])
    assert json.loads((tmp_path / "run/result.json").read_text()) == result
    code, out, _ = call(capsys, "resume", tmp_path / "run")  # nothing is left to do
    assert code == 0
    assert "192 rollouts" in out


# In processes of their own


def python(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=Path(__file__).parent, capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_another_process_can_tell_unless_the_run_is_running(robot, capsys):
    answer(capsys, "ask", robot, "--context", "0", "0", "--context", "1", "1")
    start = [sys.executable, "-m", "hpsde", "tell", str(robot)]
    done = subprocess.run([*start, "2", "--return", "0.125"], capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["open"]) == (0, [1])
    with RunLock(robot / "lock").hold("run"):
        done = subprocess.run([*start, "1", "--return", "0.125"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"is being run by process {os.getpid()}" in done.stderr


WITHOUT_RIGHTS = """
import os, sys
import hpsde.commands.ask, hpsde.commands.tell, hpsde.commands.create, hpsde.commands.export, hpsde.runs.driver
import hpsde.commands.status, hpsde.runs.export
from hpsde.cli import main
folder = os.open(sys.argv[1], os.O_RDONLY)
os.chdir(folder)
import tyro, typeguard, unittest.mock, email.parser  # modules that are loaded late may lie where that user cannot read
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
codes = [main(arguments.split()) for arguments in sys.argv[2:]]
print(*codes)
"""
"""As a user without rights: to the administrator, who runs some tests, nothing is forbidden."""


@contextlib.contextmanager
def read_only(folder):
    paths = [folder, *folder.iterdir()]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_folder_that_cannot_be_written_is_a_clear_error(robot, capsys):
    answer(capsys, "ask", robot, "--context", "0", "0")
    before = stored.look(robot, "SELECT * FROM rollouts")
    commands = ["tell . 1 --return 1", "ask . --context 1 1", "create ./new --initial uniform(0,1)"]
    with read_only(robot):
        found, out, err = python(WITHOUT_RIGHTS, robot, *commands)
    assert (found, out) == (0, "1 1 1\n"), err
    assert err.count("cannot be written") == 3
    assert "Traceback" not in err
    assert stored.look(robot, "SELECT * FROM rollouts") == before
    assert stored.sound(robot)
    answer(capsys, "tell", robot, 1, "--return", "1")


@pytest.mark.parametrize("left", [(), ("-wal",), ("-wal", "-shm")], ids=["closed", "with its log", "in use"])
def test_a_folder_that_cannot_be_written_can_be_looked_at(left, robot, tmp_path, capsys):
    """Nothing that was told is missing: also where it is in the log still, whose files cannot be made."""
    copy = tmp_path / "copy"
    with hpsde.Run.open(robot) as run:
        run.ask([[0.0, 0.0], [1.0, 1.0]])
        run.tell(1, 0.25)
        if left:
            shutil.copytree(robot, copy)
    if not left:
        shutil.copytree(robot, copy)
    for name in {"-wal", "-shm"} - set(left):
        (copy / f"rollouts.sqlite{name}").unlink(missing_ok=True)
    with read_only(copy), tempfile.TemporaryDirectory() as target:
        Path(target).chmod(0o777)
        commands = ["status .", f"export . --out {target}/table.csv", "tell . 2 --return 1"]
        found, out, err = python(WITHOUT_RIGHTS, copy, *commands)
        assert (found, out.splitlines()[-1]) == (0, "0 0 1"), err
        assert pandas.read_csv(f"{target}/table.csv")["return"][0] == 0.25
    assert json.loads(out.splitlines()[0])["done"] == 1
    assert err.count("cannot be written") == 1
