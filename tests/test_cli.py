"""The command `hpsde`, as a newcomer and as a script meet it: run, plot, help, errors."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hpsde
import stored
from hpsde.base.groups import named
from hpsde.cli import COMMANDS, main
from hpsde.commands._options import LearnerOptions, parse_setting
from hpsde.learners.hireps import HiREPSSettings
from hpsde.runs import driver
from hpsde.runs.files import json_ready, replacing, write_json
from hpsde.runs.folder import FILES
from hpsde.settings import Settings, short_names
from patience import LONG
from stored import FUNCTION, SHORT, SIZES

KEYS = {
    "greedy_mean_return", "greedy_median_return", "options_kept", "options_used", "coverage", "surplus",
    "rollouts", "learner_seconds", "task_seconds", "compilations", "seed", "task", "method", "best_return", "failed",
}  # fmt: skip
# Present while a database is open, and removed when the last one who uses it closes it.
OPEN_ONLY = {"rollouts.sqlite-wal", "rollouts.sqlite-shm"}
OF_PICTURES = {"encoder.npz"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One short run: its folder."""
    folder = tmp_path_factory.mktemp("runs") / "new" / "toy"
    assert main(["run", "toy-double", "--seed", "3", "--out", str(folder), "--quiet", *SHORT]) == 0
    return folder


def test_run_writes_its_files_and_nothing_else(finished):
    assert {path.name for path in finished.iterdir()} == set(FILES) - OPEN_ONLY - OF_PICTURES


def test_result_has_the_promised_keys(finished):
    result = json.loads((finished / "result.json").read_text())
    assert set(result) >= KEYS
    assert (result["task"], result["seed"], result["rollouts"], result["failed"]) == ("toy-double", 3, 192, 0)
    assert 0.9 < result["greedy_mean_return"] <= 1.0
    assert 1 <= result["options_used"] <= result["options_kept"] <= 4


def test_stored_rollouts_are_the_tasks_own(finished):
    with hpsde.Run.open(finished) as run:
        rows = run.rollouts()
    task = hpsde.tasks.make_task("toy-double")
    np.testing.assert_allclose(rows.returns, task.evaluate(rows.contexts, rows.parameters), rtol=1e-12)
    assert np.all(rows.option[:128] < 0)
    assert set(rows.status) == {"done"}


def test_iterations_end_with_the_result(finished):
    with (finished / "iterations.csv").open() as file:
        rows = list(csv.DictReader(file))
    result = json.loads((finished / "result.json").read_text())
    assert [int(row["rollouts"]) for row in rows] == [128, 160, 192]
    assert float(rows[-1]["greedy_mean_return"]) == result["greedy_mean_return"]
    assert int(rows[-1]["options_kept"]) == result["options_kept"]
    seconds = [float(row["learner_seconds"]) for row in rows]
    assert seconds == sorted(seconds)


def test_result_and_status_say_what_options_have_earned(finished, capsys):
    """By number: the mean return of the newest rollouts, beside what the model expects."""
    options = {each["number"]: each for each in json.loads((finished / "result.json").read_text())["options"]}
    assert main(["status", str(finished)]) == 0
    stood = {each["number"]: each for each in json.loads(capsys.readouterr().out)["options"]}
    policy = hpsde.load_policy(finished / "policy.npz")
    with hpsde.Run.open(finished) as run:
        rows = run.rollouts()
    for option in policy.options:
        own = rows.returns[rows.number == option.number][-20:]
        said = options[option.number]
        earned = own.mean() if len(own) else None, len(own)
        assert (said["measured_return"], said["measured_rollouts"]) == earned
        assert (stood[option.number]["measured_return"], stood[option.number]["measured_rollouts"]) == earned
        assert said["expected_deviation"] > 0.0
        chosen = policy.choose(policy.known_contexts) == option.index
        where = chosen if chosen.any() else ~chosen
        expected = policy.expected_returns(policy.known_contexts)[option.index, where].mean()
        assert said["expected_return"] == pytest.approx(expected)


def test_saved_policy_has_the_return_in_the_result(finished):
    policy = hpsde.load_policy(finished / "policy.npz")
    task = hpsde.tasks.make_task("toy-double")
    contexts = task.evaluation_contexts()
    mean = np.mean(task.evaluate(contexts, policy.act(contexts)))
    assert mean == pytest.approx(json.loads((finished / "result.json").read_text())["greedy_mean_return"], abs=1e-9)


def test_run_and_learn_give_the_same_policy(finished, tmp_path):
    options = {name: SIZES[name] for name in ("rollouts", "initial_rollouts", "batch", "max_options")}
    policy = hpsde.learn(hpsde.tasks.make_task("toy-double"), seed=3, progress=False, **options)
    policy.save(tmp_path / "policy.npz")
    assert (tmp_path / "policy.npz").read_bytes() == (finished / "policy.npz").read_bytes()


def test_json_is_one_object_alone_on_standard_output_and_seeds_repeat(finished, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["run", "toy-double", "--seed", "3", "--json", *SHORT]) == 0
    captured = capsys.readouterr()
    result, before = json.loads(captured.out), json.loads((finished / "result.json").read_text())
    assert captured.err == ""
    same = KEYS - {"learner_seconds", "task_seconds", "compilations"}
    assert {key: result[key] for key in same} == {key: before[key] for key in same}
    assert list(tmp_path.iterdir()) == []  # without --out nothing is left behind


def test_existing_run_is_overwritten_only_by_force(finished, capsys, tmp_path):
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    assert main(["run", "toy-double", "--out", str(finished), *SHORT]) == 2
    assert "--force" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before
    (tmp_path / "mine.txt").write_text("not a run's file")
    (tmp_path / "result.json").write_text("an old result")
    (tmp_path / "rollouts.sqlite").write_bytes((finished / "rollouts.sqlite").read_bytes())
    assert main(["run", "toy-double", "--out", str(tmp_path), "--force", *SHORT]) == 0
    assert (tmp_path / "mine.txt").read_text() == "not a run's file"
    assert json.loads((tmp_path / "result.json").read_text())["rollouts"] == 192
    text = capsys.readouterr().out
    assert "greedy return" in text
    assert "192 rollouts" in text
    assert f"hpsde plot {tmp_path}" in text


def test_plot_draws_a_saved_run(finished, tmp_path, capsys):
    targets = [tmp_path / "a.png", tmp_path / "deep" / "b.pdf"]
    assert main(["plot", str(finished), "--out", *map(str, targets)]) == 0
    assert capsys.readouterr().out.split() == [str(target) for target in targets]
    assert targets[0].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert targets[1].read_bytes()[:4] == b"%PDF"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("policy.npz", b"PK damaged", "policy.npz"),
        ("config.json", b"{", "config.json"),
        ("rollouts.sqlite", b"SQLite format 3\0" + bytes(200), "rollouts.sqlite"),
    ],
)
def test_plot_of_a_damaged_run_names_the_file(name, content, expected, finished, tmp_path, capsys):
    for path in finished.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).write_bytes(content)
    assert main(["plot", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert not (tmp_path / "figure.png").exists()


@pytest.mark.parametrize("method", list(hpsde.methods.METHODS))
def test_methods_lists_every_method(method, capsys):
    assert main(["methods"]) == 0
    assert method in capsys.readouterr().out


def test_tasks_lists_every_task_with_its_sizes(capsys):
    assert main(["tasks"]) == 0
    *lines, empty, gauntlet = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["task", "contexts", "parameters"]
    assert not empty
    assert "ridges-4@17 (ridges, bumps, hard, many, budgets, movements)" in gauntlet
    assert [line.split()[:3] for line in lines[1:]] == [
        [name, str(task.context_size), str(task.parameter_size)]
        for name in hpsde.tasks.task_names()
        for task in [hpsde.tasks.make_task(name)]
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["fly"], "tasks, methods, settings, run"),
        (["run", "toy-duble"], "toy-double"),
        (["run", "toy-double", "--method", "magic"], "valid are"),
        (["run", "toy-double", "--rollouts", "0"], "at least 1"),
        (["run", "toy-double", "--seed", "-1"], "0 or more"),
        (["run", "toy-double", "--seed", "9" * 30], "below 2^63"),
        (["run", "toy-double", "--rollouts", "many"], "--rollouts"),
        (["run", "toy-double", "--set", "magic=1"], "gate.kappa"),
        (["run", "toy-double", "--set", "kappa"], "NAME=VALUE"),
        (["run", "toy-double", "--set", "kappa=-1"], "kappa must lie between"),
        (["run", "toy-double", "--rollouts", "100", "--initial-rollouts", "600"], "at most all rollouts, 100"),
        (["run", "toy-double", "--chunk", "0"], "--chunk must be at least 1"),
        (["run", "toy-double", "--context", "uniform(0, 1)"], "return function only"),
        (["run", "toy-double", "--workers", "0"], "workers"),
        (["run", "toy-double", "--timeout", "-1"], "timeout"),
        (["run", "toy-double", "--max-failures", "0"], "max_failures"),
        (["run", "no_such_module:value", "--initial", "uniform(0, 1)"], "no module 'no_such_module'"),
        (["run", "json:dumps"], "json:dumps"),
        (["run", "no/such.toml"], "no/such.toml"),
        (["run", "os:getpid", "--initial", "uniform(0, 1"], "initial"),
        (["run"], "TASK"),
        (["plot", "no/such/folder"], "no/such/folder"),
        (["plot", "no/such/folder", "--out", "figure.xyz"], ".png"),
    ],
)
def test_wrong_usage_says_what_is_right_and_exits_with_2(arguments, expected, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["rnu"], "run"),
        (["run", "toy-duble"], "toy-double"),
        (["run", "toy-double", "--method", "hpsde-rep-gp"], "hpsde-reps-gp"),
        (["run", "toy-double", "--set", "kapa=1"], "gate.kappa"),
        (["run", "task.toml"], "toy-double"),
        (["run", "key.toml"], "contexts"),
        (["run", "setting.toml"], "gate.kappa"),
    ],
)
def test_what_is_misspelt_is_named_as_it_was_meant(arguments, meant, tmp_path, monkeypatch, capsys):
    (tmp_path / "task.toml").write_text('task = "toy-duble"\n')
    (tmp_path / "key.toml").write_text('function = "json:dumps"\ncontexs = "uniform(0, 1)"\n')
    (tmp_path / "setting.toml").write_text('task = "toy-double"\n[settings]\nkapa = 2.0\n')
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert f"Did you mean {meant!r}?" in capsys.readouterr().err


def test_the_library_names_what_was_meant_too():
    task = hpsde.tasks.make_task("toy-double")
    for call in (
        lambda: hpsde.tasks.make_task("toy-doubel"),
        lambda: hpsde.learn(task, method="hpsde-rep-gp"),
        lambda: hpsde.learn(task, kapa=1.0),
    ):
        with pytest.raises(hpsde.UnknownNameError, match=r"Did you mean '(toy-double|hpsde-reps-gp|gate.kappa)'\?"):
            call()


def test_help_names_no_file_that_an_installed_package_does_not_have(capsys):
    for command in (
        ["tasks"],
        ["methods"],
        ["settings"],
        *([name, "--help"] for name in COMMANDS),
        ["run", "toy-duble"],
    ):
        main(command)
        said = capsys.readouterr()
        assert "docs/" not in said.out + said.err


def test_a_missing_extra_is_named_before_any_rollout(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    assert main(["run", "reach-mujoco", "--out", str(tmp_path / "run"), *SHORT]) == 2
    errors = capsys.readouterr().err
    assert "pip install 'hpsde[sim]'" in errors
    assert "failed" not in errors
    with hpsde.Run.open(tmp_path / "run") as run:
        assert len(run.rollouts()) == 0


def test_default_method_is_the_packages():
    assert LearnerOptions().method == hpsde.methods.DEFAULT_METHOD


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kappa=2", ("kappa", 2)),
        ("weight-sum=n", ("weight_sum", "n")),
        ("whitening=False", ("whitening", False)),
        ("whitening=true", ("whitening", True)),
        ("refine=false", ("refine", False)),
        ("warp=none", ("warp", "none")),
        ("temperature=None", ("temperature", None)),
        ("ridge=1e-4", ("ridge", 1e-4)),
        ("ridge=" + "(" * 9999, ("ridge", "(" * 9999)),
    ],
)
def test_settings_are_read_as_numbers_or_text(text, expected):
    assert parse_setting(text) == expected


def test_settings_reach_the_learner_and_the_configuration(tmp_path, monkeypatch, capsys):
    learners = []

    def take_note(loop):
        learners.append(loop.run.learner())
        raise KeyboardInterrupt

    monkeypatch.setattr(driver._Stored, "until_done", take_note)
    arguments = ["--set", "update=rwr", "kappa=2", "--max-options", "3", "--initial-rollouts", "120"]
    assert main(["run", "toy-double", *arguments, "--out", str(tmp_path)]) == 130
    assert f"hpsde resume {tmp_path}" in capsys.readouterr().err
    config = json.loads((tmp_path / "config.json").read_text())
    chosen = {"update": "rwr", "kappa": 2, "max_options": 3}
    assert {name: config["settings"][name] for name in chosen} == chosen
    found = short_names(learners[0].settings)
    assert {name: found[name] for name in chosen} == chosen
    assert config["initial_rollouts"] == learners[0].initial_rollouts == 120


@pytest.mark.parametrize(
    ("words", "settings"),
    [([], Settings()), (["--method", "paper"], Settings.paper()), (["--method", "hireps"], HiREPSSettings())],
)
def test_every_setting_is_listed_with_its_default_its_values_and_its_meaning(words, settings, capsys):
    assert main(["settings", "--all", *words]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert {line.split()[0]: line.split()[1] for line in lines} == {
        name: str(value) for name, value in named(settings).items()
    }
    assert all(len(line.split()) > 4 for line in lines)


def test_the_settings_that_users_need_are_few_and_those_of_the_method(capsys):
    for words in ([], ["--method", "hireps"]):
        assert main(["settings", "--all", *words]) == 0
        every = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()[1:]]
        assert main(["settings", *words]) == 0
        few = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()[1:]]
        assert len(few) == 8
        assert few == [line for line in every if line in few]
    assert main(["settings", "--method", "no-such"]) == 2
    assert "unknown method 'no-such'" in capsys.readouterr().err


def test_unknown_task_leaves_no_folder(tmp_path, capsys):
    assert main(["run", "no-such-task", "--out", str(tmp_path / "new")]) == 2
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("command", [[], ["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_has_exit_code_0(command, capsys):
    assert main(command) == 0
    assert "hpsde" in capsys.readouterr().out


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"tasks", "methods", "settings", "status"}))
def test_help_shows_examples_and_exit_codes(command, capsys):
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"hpsde {command} " in text
    assert "exit codes" in text


# A function of the user's own


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A folder with a return function, as the current one."""
    (tmp_path / "my_returns.py").write_text(FUNCTION)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("my_returns", None)


def test_own_functions_by_name_and_from_a_file(own_folder, capsys):
    words = ["--context", "uniform(0, 2)", "--initial", "uniform(-1, 1)"]
    more = ["--json", "--seed", "2", *SHORT, "--set", "kl_bound=2.0"]
    assert main(["run", "my_returns:ridges", *words, "--out", "named", *more]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["task"], result["rollouts"]) == ("ridges", 192)
    assert "greedy_mean_return" not in result  # it was not asked to be measured
    assert result["best_return"] > 0.9
    sys.modules.pop("my_returns")
    (own_folder / "my_returns.py").write_text(f"import pathlib\npathlib.Path('ran').touch()\n{FUNCTION}")
    for trust in ([], ["--trust"]):  # drawing calls nobody's function
        assert main(["plot", "named", *trust]) == 0
        assert capsys.readouterr().out == "named/figure.png\n"
        assert not Path("ran").exists()
    (own_folder / "problem.toml").write_text(
        'function = "my_returns:ridges"\ncontexts = "uniform(0, 2)"\ninitial = "uniform(-1, 1)"\n'
        "rollouts = 192\ninitial_rollouts = 128\nmax_options = 4\n[settings]\nkl_bound = 2.0\n"
    )
    assert main(["run", "problem.toml", "--out", "filed", "--seed", "2", "--batch", "32"]) == 0
    text = capsys.readouterr().out
    assert "192 rollouts" in text
    assert "the best of all" in text
    assert (own_folder / "named/policy.npz").read_bytes() == (own_folder / "filed/policy.npz").read_bytes()


def test_a_folder_runs_no_code_that_it_names_unless_it_is_trusted(own_folder, capsys):
    """A task of one's own alone says where the first parameters come from: ask and tell need it then."""
    module = "import pathlib, stored\npathlib.Path('ran').touch()\nmake = stored.make_task\n"
    (own_folder / "my_returns.py").write_text(module)
    hpsde.Run.create("run", "my_returns:make").close()
    for arguments in (["ask", "run", "--context", "1"], ["tell", "run", "1", "--return", "1", "--parameters", "0.5"]):
        Path("ran").unlink()
        sys.modules.pop("my_returns", None)
        assert main(arguments) == 2
        assert "give the task again, Run.open(folder, task=task), or say that you trust" in capsys.readouterr().err
        assert not Path("ran").exists()
        assert main([*arguments, "--trust"]) == 0
        assert Path("ran").exists()
    with hpsde.Run.open("run", task=stored.make_task()) as run:
        assert run.ask([[1.0]])[0].id == 2


def test_ctrl_c_ends_cleanly_and_resume_completes_the_run(own_folder, capsys):
    """The interrupt comes from within the 40th rollout: that one ends, no other begins."""
    interrupting = FUNCTION + (
        "\n\ncalls = []\n\n\ndef interrupted(context, parameters, seed):\n    calls.append(seed)\n"
        "    if len(calls) == 40:\n        import os, signal\n        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return ridges(context, parameters, seed)\n"
    )
    (own_folder / "my_returns.py").write_text(interrupting)
    words = ["--context", "uniform(0, 2)", "--initial", "uniform(-1, 1)", "--quiet", "--seed", "2"]
    before = signal.getsignal(signal.SIGINT)
    assert main(["run", "my_returns:interrupted", *words, "--out", "run", *SHORT]) == 130
    errors = capsys.readouterr().err
    assert "Ctrl-C again stops at once" in errors
    assert "interrupted after 40 rollouts; go on with: hpsde resume run" in errors
    assert signal.getsignal(signal.SIGINT) is before
    assert main(["status", "run"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["done"], status["asked"], status["running"]) == (40, 88, {})
    assert main(["resume", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rollouts"] == 192
    assert len(sys.modules["my_returns"].calls) == 192  # nothing was evaluated twice
    assert main(["run", "my_returns:ridges", *words, "--out", "whole", *SHORT]) == 0
    assert (own_folder / "whole/policy.npz").read_bytes() == (own_folder / "run/policy.npz").read_bytes()


def test_failing_function_stops_the_run_with_its_traceback(own_folder, capsys):
    (own_folder / "my_returns.py").write_text("def ridges(context, parameters):\n    raise OSError('motor fault')\n")
    words = ["--context", "uniform(0, 2)", "--initial", "uniform(-1, 1)", "--max-failures", "3", "--out", "run"]
    assert main(["run", "my_returns:ridges", *words, *SHORT]) == 1
    errors = capsys.readouterr().err
    assert "3 rollouts failed one after the other" in errors
    assert "OSError: motor fault" in errors
    assert "hpsde resume run --retry-failed" in errors
    assert main(["run", "my_returns:ridges", *words[:-2], *SHORT]) == 1
    errors = capsys.readouterr().err
    assert "OSError: motor fault" in errors
    assert "Nothing is kept, for want of --out" in errors
    assert "resume" not in errors
    assert main(["plot", "run"]) == 2
    assert "nothing to draw yet" in capsys.readouterr().err


# How it starts


@pytest.mark.parametrize("start", [[sys.executable, "-m", "hpsde"], [str(Path(sys.executable).parent / "hpsde")]])
def test_both_ways_to_start(start):
    done = subprocess.run([*start, "--version"], capture_output=True, text=True, timeout=LONG, check=False)
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


# Small files


def test_half_written_files_never_take_the_name(tmp_path):
    target = tmp_path / "result.json"
    write_json(target, {"value": 1})

    def fail_half_way(path):
        path.write_text("half")
        raise OSError("no space left")

    expected = pytest.raises(hpsde.StorageError, match=r"result.json cannot be written: no space")
    with expected, replacing(target) as unfinished:
        fail_half_way(unfinished)
    assert json.loads(target.read_text()) == {"value": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_json_has_no_nan():
    data = {"a": float("nan"), "b": np.float64(1.5), "c": [np.int64(2), -np.inf], "d": {"e": None}}
    assert json_ready(data) == {"a": None, "b": 1.5, "c": [2, None], "d": {"e": None}}
