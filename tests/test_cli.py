"""The command `hpsde`, as a newcomer and as a script meet it."""

import csv
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import hpsde
from hpsde.cli import main
from hpsde.commands import _folder as files
from hpsde.commands import _runner
from hpsde.commands.run import Command, parse_setting
from hpsde.settings import Settings

SHORT = ["--rollouts", "200", "--initial-rollouts", "120", "--batch", "40"]
KEYS = {
    "greedy_mean_return", "greedy_median_return", "options_kept", "options_used", "coverage", "surplus",
    "rollouts", "learner_seconds", "task_seconds", "compilations", "seed", "task", "method",
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One short run: its folder."""
    folder = tmp_path_factory.mktemp("runs") / "new" / "toy"
    assert main(["run", "toy-double", "--seed", "3", "--out", str(folder), "--quiet", *SHORT]) == 0
    return folder


def test_run_writes_its_five_files_and_nothing_else(finished):
    assert sorted(path.name for path in finished.iterdir()) == sorted(files.FILES)


def test_result_has_the_promised_keys(finished):
    result = json.loads((finished / "result.json").read_text())
    assert set(result) >= KEYS
    assert result["task"] == "toy-double"
    assert result["seed"] == 3
    assert result["rollouts"] == 200
    assert 0.9 < result["greedy_mean_return"] <= 1.0
    assert 1 <= result["options_used"] <= result["options_kept"] <= 10


def test_saved_rollouts_are_the_tasks_own(finished):
    saved = files.read_arrays(finished / "rollouts.npz")
    task = hpsde.tasks.make_task("toy-double")
    np.testing.assert_allclose(saved["returns"], task.evaluate(saved["contexts"], saved["parameters"]), rtol=1e-12)
    assert (saved["option"] < 0).sum() == 120
    assert not saved["failed"].any()


def test_iterations_end_with_the_result(finished):
    with (finished / "iterations.csv").open() as file:
        rows = list(csv.DictReader(file))
    result = json.loads((finished / "result.json").read_text())
    assert [int(row["rollouts"]) for row in rows] == [120, 160, 200]
    assert float(rows[-1]["greedy_mean_return"]) == result["greedy_mean_return"]
    assert int(rows[-1]["options_kept"]) == result["options_kept"]


def test_saved_policy_has_the_return_in_the_result(finished):
    policy = hpsde.load_policy(finished / "policy.npz")
    task = hpsde.tasks.make_task("toy-double")
    contexts = task.evaluation_contexts()
    mean = np.mean(task.evaluate(contexts, policy.act(contexts)))
    assert mean == pytest.approx(json.loads((finished / "result.json").read_text())["greedy_mean_return"], abs=1e-9)


def test_json_is_one_object_alone_on_standard_output_and_seeds_repeat(finished, capsys):
    assert main(["run", "toy-double", "--seed", "3", "--json", *SHORT]) == 0
    captured = capsys.readouterr()
    result, before = json.loads(captured.out), json.loads((finished / "result.json").read_text())
    assert captured.err == ""
    same = KEYS - {"learner_seconds", "task_seconds", "compilations"}
    assert {key: result[key] for key in same} == {key: before[key] for key in same}


def test_existing_run_is_overwritten_only_by_force(finished, capsys, tmp_path):
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    assert main(["run", "toy-double", "--out", str(finished), *SHORT]) == 2
    assert "--force" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before
    (tmp_path / "mine.txt").write_text("not a run's file")
    (tmp_path / "result.json").write_text("an old result")
    assert main(["run", "toy-double", "--out", str(tmp_path), "--force", "--quiet", *SHORT]) == 0
    assert (tmp_path / "mine.txt").read_text() == "not a run's file"
    assert json.loads((tmp_path / "result.json").read_text())["task"] == "toy-double"


def test_summary_is_for_people(capsys):
    assert main(["run", "toy-double", *SHORT]) == 0
    text = capsys.readouterr().out
    assert "greedy return" in text
    assert "200 rollouts" in text


def test_plot_draws_a_saved_run(finished, tmp_path, capsys):
    targets = [tmp_path / "a.png", tmp_path / "deep" / "b.pdf"]
    assert main(["plot", str(finished), "--out", *map(str, targets)]) == 0
    assert capsys.readouterr().out.split() == [str(target) for target in targets]
    assert targets[0].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert targets[1].read_bytes()[:4] == b"%PDF"


@pytest.mark.parametrize("method", list(hpsde.methods.METHODS))
def test_methods_lists_every_method(method, capsys):
    assert main(["methods"]) == 0
    assert method in capsys.readouterr().out


def test_tasks_lists_every_task_with_its_sizes(capsys):
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["task", "contexts", "parameters"]
    assert [line.split()[:3] for line in lines[1:]] == [
        [name, str(task.context_size), str(task.parameter_size)]
        for name in hpsde.tasks.task_names()
        for task in [hpsde.tasks.make_task(name)]
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["fly"], "tasks, methods, settings, run, plot"),
        (["run", "toy-duble"], "toy-double"),
        (["run", "toy-double", "--method", "magic"], "valid are"),
        (["run", "toy-double", "--rollouts", "0"], "at least 1"),
        (["run", "toy-double", "--seed", "-1"], "0 or more"),
        (["run", "toy-double", "--rollouts", "many"], "--rollouts"),
        (["run", "toy-double", "--set", "magic=1"], "kappa"),
        (["run", "toy-double", "--set", "kappa"], "NAME=VALUE"),
        (["run", "toy-double", "--set", "kappa=-1"], "kappa must lie between"),
        (["run", "toy-double", "--rollouts", "100"], "600 initial rollouts"),
        (["run"], "TASK"),
        (["plot", "no/such/folder"], "no/such/folder"),
        (["plot", "no/such/folder", "--out", "figure.xyz"], ".png"),
    ],
)
def test_wrong_usage_says_what_is_right_and_exits_with_2(arguments, expected, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_default_method_is_the_packages():
    assert Command("toy-double").method == hpsde.methods.DEFAULT_METHOD


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kappa=2", ("kappa", 2)),
        ("weight-sum=n", ("weight_sum", "n")),
        ("isotropic=True", ("isotropic", True)),
        ("temperature=None", ("temperature", None)),
        ("ridge=1e-4", ("ridge", 1e-4)),
    ],
)
def test_settings_are_read_as_numbers_or_text(text, expected):
    assert parse_setting(text) == expected


def test_settings_reach_the_learner_and_the_configuration(tmp_path, monkeypatch):
    learners = []

    def take_note(task, learner, **_):
        learners.append(learner)
        raise KeyboardInterrupt

    monkeypatch.setattr(_runner, "iterate", take_note)
    arguments = ["--set", "update=rwr", "restarts=2", "--max-options", "3", "--out", str(tmp_path)]
    assert main(["run", "toy-double", *arguments, *SHORT]) == 130
    config = json.loads((tmp_path / "config.json").read_text())
    chosen = {"update": "rwr", "restarts": 2, "max_options": 3}
    assert {name: config["settings"][name] for name in chosen} == chosen
    assert {name: getattr(learners[0].settings, name) for name in chosen} == chosen
    assert config["initial_rollouts"] == learners[0].initial_rollouts == 120


def test_every_setting_is_listed_with_its_meaning(capsys):
    assert main(["settings"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [field.name for field in fields(Settings)]
    assert all(len(line.split()) > 3 for line in lines)


def test_unknown_task_leaves_no_folder(tmp_path, capsys):
    assert main(["run", "no-such-task", "--out", str(tmp_path / "new")]) == 2
    assert not (tmp_path / "new").exists()


def test_damaged_run_is_wrong_input(finished, tmp_path, capsys):
    for name in files.FILES:
        (tmp_path / name).write_bytes((finished / name).read_bytes()[:40])
    assert main(["plot", str(tmp_path)]) == 2
    assert "config.json" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["--help"], ["tasks", "--help"], ["run", "--help"], ["plot", "--help"]])
def test_help_has_exit_code_0(command, capsys):
    assert main(command) == 0
    assert "hpsde" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "plot"])
def test_help_shows_examples_and_exit_codes(command, capsys):
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"hpsde {command} " in text
    assert "exit codes" in text
    assert "130" in text


def test_interrupted_run_keeps_what_it_has(tmp_path, monkeypatch, capsys):
    real = _runner.iterate

    def interrupted(*args, **kwargs):
        steps = real(*args, **kwargs)
        yield next(steps)
        raise KeyboardInterrupt

    monkeypatch.setattr(_runner, "iterate", interrupted)
    assert main(["run", "toy-double", "--out", str(tmp_path / "run"), "--quiet", *SHORT]) == 130
    kept = {path.name for path in (tmp_path / "run").iterdir()}
    assert kept == set(files.FILES) - {"result.json"}
    assert len(files.read_arrays(tmp_path / "run" / "rollouts.npz")["returns"]) == 120
    assert capsys.readouterr().err == "hpsde: interrupted\n"


@pytest.mark.parametrize("start", [[sys.executable, "-m", "hpsde"], [str(Path(sys.executable).parent / "hpsde")]])
def test_both_ways_to_start(start):
    done = subprocess.run([*start, "--version"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("hpsde 0.")


@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("3", "3")])
def test_one_blas_thread_unless_the_user_says_otherwise(given, used):
    code = """
import os, sys
os.environ.pop("OPENBLAS_NUM_THREADS", None)
if sys.argv[1] != "None":
    os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[1]
import hpsde.cli
assert "numpy" not in sys.modules, "numpy was loaded before the number of threads was set"
print(os.environ["OPENBLAS_NUM_THREADS"])
"""
    done = subprocess.run([sys.executable, "-c", code, str(given)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == used, done.stderr


def test_half_written_files_never_take_the_name(tmp_path):
    target = tmp_path / "result.json"
    files.write_json(target, {"value": 1})

    def fail_half_way(path):
        path.write_text("half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"), files.replacing(target) as unfinished:
        fail_half_way(unfinished)
    assert json.loads(target.read_text()) == {"value": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_json_has_no_nan():
    data = {"a": float("nan"), "b": np.float64(1.5), "c": [np.int64(2), -np.inf], "d": {"e": None}}
    assert files.json_ready(data) == {"a": None, "b": 1.5, "c": [2, None], "d": {"e": None}}
