"""Problems in words: distributions as text, TOML files, functions by name. Nothing runs before it is asked to."""

import json
import math
import pickle
import re
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpsde.base.distributions import Gaussian, Samples, Uniform
from hpsde.errors import FileFormatError, InputError, UnknownNameError
from hpsde.problems import Problem, distribution_text, parse_distribution, problem_from_words, read_problem
from hpsde.tasks import TaskExtras, task_from_function, task_names

EXAMPLES = Path(__file__).parent.parent / "examples"
NUMBERS = st.floats(-1e100, 1e100)
QUICK = settings(derandomize=True, deadline=None, max_examples=60, database=None)
MODULE = """
import numpy as np
from hpsde.base.distributions import Uniform
from hpsde.tasks import make_task, task_from_function

def throw(context, parameters):
    return -abs(parameters[0] - context[0])

def alone(parameters):
    return float(parameters.sum())

def many(contexts, parameters, seeds):
    return np.asarray(seeds, dtype=float)

number = 3
triple = make_task("toy-triple")

def factory():
    return task_from_function(alone, initial=Uniform([0, 0], 1), name="made")

class Triple(type(triple)):
    def __init__(self):
        self.__dict__.update(vars(triple))

class Space:
    throw = staticmethod(throw)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current directory; what is imported there is forgotten again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


# Distributions as text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("uniform(0, 2)", Uniform(0, 2)),
        ("uniform([0, 0], [1, 2])", Uniform([0, 0], [1, 2])),
        ("  Uniform ( -1. , [ .5, 1e1 ] ) ", Uniform(-1.0, [0.5, 10.0])),
        ("uniform((0, 0), (1, 2))", Uniform([0, 0], [1, 2])),
        ("gaussian(0, 1)", Gaussian(0, 1)),
        ("gaussian([0, 1], [[2, +1], [1, 2]])", Gaussian([0, 1], [[2, 1], [1, 2]])),
    ],
)
def test_texts_are_read_as_the_distributions_they_name(text, expected):
    assert parse_distribution(text, "contexts") == expected


def test_samples_are_read_as_rows():
    samples = parse_distribution("samples([[1, 2], [3, 4], [5, 6]])", "initial")
    assert isinstance(samples, Samples)
    np.testing.assert_array_equal(samples.values, [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0..2", "contexts: expected a distribution such as"),
        ("normal(0, 1)", "expected a distribution such as"),
        ("uniform(0)", r"expected uniform\(low, high\), got 1 arguments"),
        ("uniform()", "got 0 arguments"),
        ("uniform(2, 0)", "contexts: Uniform: every low must be less"),
        ("uniform(0, pi)", "expected numbers and lists of numbers"),
        ("uniform(0, nan)", "expected numbers and lists"),
        ("uniform(0, 1e999)", "too large for a number"),
        ("uniform(0 1)", "do not fit together"),
        ("uniform(1 -2, 3)", "do not fit together"),
        ("uniform(0, [1, 2)", "do not fit together"),
        ("uniform([0, [1]], 2)", "contexts: "),
        ("gaussian(0, -1)", "standard deviations must be positive"),
        ("samples([1, 2])", r"\[M, 1\]"),
        ("samples([[1], [2, 3]])", "contexts: "),
        ("uniform(__import__('os').system('touch hacked'), 1)", "expected numbers and lists of numbers"),
        ("__import__('os').system('touch hacked')", "expected a distribution such as"),
        ("uniform(0, 1) or exec('1')", "expected"),
        ("uniform(" + "[" * 200_000 + "]" * 200_000 + ", 1)", "do not fit together"),
        ("uniform(" + "-" * 100_000 + "1, 2)", "expected numbers and lists of numbers"),
        ("uniform(0, " + "9" * 5_000_000 + ")", "at most 4194304 characters"),
    ],
)
def test_other_texts_are_refused_and_run_nothing(text, message, folder):
    with pytest.raises(InputError, match=message) as caught:
        parse_distribution(text, "contexts")
    assert len(str(caught.value)) < 400
    assert not list(folder.iterdir())


@QUICK
@given(st.lists(st.tuples(NUMBERS, st.floats(1e-3, 1e3)), min_size=1, max_size=4), st.booleans())
def test_text_of_a_distribution_is_read_back_to_the_last_bit(pairs, as_matrix):
    first, second = map(np.array, zip(*pairs, strict=True))
    gaussian = Gaussian(first, np.diag(second) if as_matrix else second)
    samples = Samples(np.stack([first, second]))
    assert parse_distribution(distribution_text(gaussian), "x") == gaussian
    np.testing.assert_array_equal(parse_distribution(distribution_text(samples), "x").values, samples.values)
    low = np.clip(first, -1e6, 1e6)
    uniform = Uniform(low, low + second)
    assert parse_distribution(distribution_text(uniform), "x") == uniform


@QUICK
@given(st.text(alphabet="uniformgas()[],.+-eE0123456789 _'", max_size=60) | st.text(max_size=30))
@example("uniform(\n0,\n1\n)")
def test_any_text_is_a_distribution_or_an_input_error(text):
    said = ""
    try:
        assert parse_distribution(text, "initial").size >= 1
    except InputError as error:
        said = str(error)
    assert said == "" or said.startswith("initial: ")


def test_a_distribution_of_ones_own_cannot_be_written_down():
    with pytest.raises(InputError, match=r"one of hpsde.Uniform, hpsde.Gaussian and hpsde.Samples; got Own"):
        distribution_text(type("Own", (), {})())


# Problems


def test_sizes_are_those_of_the_distributions():
    problem = Problem(function="m:f", contexts="uniform([0, 0], 1)", initial="gaussian([0, 0, 0], 1)")
    assert (problem.context_size, problem.parameter_size, problem.runnable) == (2, 3, True)
    assert Problem(function="m:f", initial="uniform(0, 1)").context_size == 0
    asked = Problem(context_size=4, initial="uniform(0, 1)")
    assert (asked.context_size, asked.parameter_size, asked.runnable) == (4, 1, False)
    own = Problem(function="m:task")
    assert (own.context_size, own.parameter_size) == (None, None)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(
            task="toy-triple", rollouts=300, settings={"kappa": 2, "f": "exp", "isotropic": True, "temperature": None}
        ),
        Problem(function="a.b:c.d", contexts="uniform(0, 2)", initial="samples([[1, 2]])", batched=True, name="x"),
        Problem(function="dir/my file.py:f", folder="/somewhere", initial="gaussian(0.1, 1e-300)", features="linear"),
        Problem(context_size=0, initial="uniform(0, 1)", description='äé "quoted"\n', max_options=3),
        Problem(function="m:task", context_size=0, parameter_size=3),
    ],
)
def test_problems_survive_json(problem):
    assert Problem.from_dict(json.loads(json.dumps(problem.as_dict(), allow_nan=False))) == problem
    assert pickle.loads(pickle.dumps(problem)) == problem


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "expected a table of names and values, got list"),
        ({"task": "toy-triple", "taks": 1}, "unknown key .*taks.*valid are: task, function"),
        ({1: 2}, "unknown key"),
        ({"task": 3}, "task: expected text, got 3"),
        ({"task": "toy-triple", "rollouts": "400"}, "rollouts: expected a whole number, got '400'"),
        ({"task": "toy-triple", "rollouts": True}, "rollouts: expected a whole number, got True"),
        ({"task": "toy-triple", "rollouts": 1}, "rollouts must be a whole number of at least 2; got 1"),
        ({"task": "toy-triple", "batched": None}, "batched: expected true or false, got None"),
        ({"task": "toy-triple", "settings": []}, "settings: expected a table"),
        ({"task": "toy-triple", "settings": {"f": [1]}}, r"settings.f: expected a finite number, .* got \[1\]"),
        ({"task": "toy-triple", "settings": {"f": math.nan}}, "settings.f: expected a finite number"),
        ({"task": "toy-triple", "max_options": 3, "settings": {"max_options": 3}}, "max_options: expected once"),
        ({"task": "toy-x"}, "unknown task 'toy-x'; valid are: toy-double"),
        ({"task": "toy-triple", "function": "m:f"}, "task or function, got both"),
        (
            {"task": "toy-triple", "initial": "uniform(0, 1)"},
            "initial: expected with a return function only, .*toy-triple, which is a task",
        ),
        (
            {"function": "m:f", "contexts": "uniform(0, 1)"},
            "contexts: expected together with `initial`, .*; got it with m:f alone",
        ),
        ({"function": "m"}, 'function: expected "module:function"'),
        ({"function": "m:f()", "initial": "uniform(0, 1)"}, 'function: expected "module:function"'),
        ({"function": "m:f", "initial": "uniform(0, 1)", "context_size": 2}, "context_size: expected 0, .*got 2"),
        ({"function": "m:f", "initial": "uniform(1, 0)"}, "initial: Uniform"),
        ({"function": "m:f", "features": "cubic"}, "unknown features 'cubic'"),
        ({"function": "m:f", "rollouts": 10, "initial_rollouts": 20}, "at most all rollouts, 10; got 20"),
        ({"context_size": 2}, "initial: expected a distribution of the first parameters"),
        ({}, "initial: expected"),
    ],
)
def test_other_dictionaries_are_refused(data, message):
    with pytest.raises(FileFormatError, match=message):
        Problem.from_dict(data)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["uniform(0, 1)"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from(
    ["task", "function", "contexts", "initial", "batched", "rollouts", "settings", "context_size", "x"]
)


@QUICK
@given(ANYTHING | st.dictionaries(KEYS, ANYTHING, max_size=4))
def test_any_data_is_a_problem_or_a_file_format_error(data):
    try:
        problem = Problem.from_dict(data)
    except FileFormatError:
        return
    assert Problem.from_dict(problem.as_dict()) == problem


# TOML files


def test_example_file_is_read_and_its_task_is_made(folder):
    problem = read_problem(EXAMPLES / "my_problem.toml")
    assert (problem.context_size, problem.parameter_size, problem.rollouts) == (1, 1, 400)
    assert problem.settings == {"weights.kl_bound": 2.0}
    assert "my_return" not in sys.modules
    task = problem.make_task()
    np.testing.assert_allclose(task.evaluate([[5.0]], [[15.0]]), -abs(100 / 9.81 * 0.5 - 5.0))
    assert np.isnan(task.evaluate([[5.0]], [[95.0]])).all()
    assert problem.extras(task).max_options == task.max_options == 4
    assert problem.extras(task).initial_rollouts == 200


def test_reading_a_file_runs_nothing(folder):
    (folder / "bomb.py").write_text("from pathlib import Path\nPath('exploded').touch()\n1 / 0\n")
    (folder / "bomb.toml").write_text('function = "bomb:f"\ninitial = "uniform(0, 1)"\n')
    problem = read_problem("bomb.toml")
    assert problem.initial_policy() == Uniform(0, 1)
    assert Problem.from_dict(problem.as_dict()) == problem
    assert not (folder / "exploded").exists()
    with pytest.raises(InputError, match="importing bomb failed: ZeroDivisionError: division by zero"):
        problem.make_task()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"function = \n", "p.toml is not a TOML file"),
        (b'task = "toy-triple"\ntask = "toy-double"\n', "p.toml is not a TOML file"),
        (b"\xff\xfe\x00", "p.toml is not a TOML file"),
        (b"x = " + b"[" * 100_000, "p.toml is not a TOML file"),
        (b'task = "toy-triple"\nrollouts = 1979-05-27\n', "p.toml: .*rollouts: expected a whole number"),
        (b'task = "toy-triple"\n[setings]\n', "p.toml: .*unknown key 'setings'"),
        (b'function = "m:f"\ninitial = "uniform(open(1), 1)"\n', "p.toml: .*initial: expected numbers"),
        (b'task = "toy-triple"\n[settings]\nkappa = inf\n', "settings.kappa: expected a finite number"),
        (b"#" * (9 * 2**20), "p.toml: expected at most 8388608 bytes"),
    ],
)
def test_other_files_are_refused(text, message, folder):
    (folder / "p.toml").write_bytes(text)
    with pytest.raises(FileFormatError, match=message) as caught:
        read_problem(folder / "p.toml")
    assert len(str(caught.value)) < 700


@QUICK
@given(data=st.data())
def test_damaged_files_are_refused_or_read(data, tmp_path_factory):
    content = bytearray((EXAMPLES / "my_problem.toml").read_bytes())
    end = data.draw(st.integers(0, len(content)))
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "p.toml"
    path.write_bytes(content[:end])
    said = str(path)
    try:
        assert isinstance(read_problem(path), Problem)
    except FileFormatError as error:
        said = str(error)
    assert said.startswith(str(path))


def test_file_that_is_not_there_is_an_os_error(folder):
    with pytest.raises(FileNotFoundError):
        read_problem("nothing.toml")


# Words of the command line


def test_words_name_a_task_a_function_or_a_file(folder):
    assert problem_from_words("toy-triple", rollouts=300, contexts=None) == Problem(task="toy-triple", rollouts=300)
    problem = problem_from_words("m:f", contexts="uniform(0, 1)", initial="uniform(0, 2)", batched=True)
    assert (problem.function, problem.batched, problem.folder) == ("m:f", True, str(folder))


def test_words_go_before_what_the_file_says():
    path = str(EXAMPLES / "my_problem.toml")
    problem = problem_from_words(path, contexts="uniform([0, 1], 2)", rollouts=500, settings={"kappa": 2.0})
    assert (problem.context_size, problem.parameter_size, problem.rollouts, problem.max_options) == (2, 1, 500, 4)
    assert problem.settings == {"weights.kl_bound": 2.0, "kappa": 2.0}
    assert problem_from_words(path) == read_problem(path)


def test_words_that_name_nothing_are_refused():
    with pytest.raises(
        UnknownNameError, match=r"unknown task 'toy-x'; valid are: .*toy-triple.*module:function.*\.toml"
    ):
        problem_from_words("toy-x")
    with pytest.raises(InputError, match="unknown words context; valid are: task"):
        problem_from_words("m:f", context="uniform(0, 1)")


# The user's own code


def test_functions_are_found_by_module_by_attribute_and_by_file(folder):
    (folder / "package").mkdir()
    (folder / "package/inner.py").write_text(MODULE)
    (folder / "own_throw.py").write_text(MODULE)
    words = {"contexts": "uniform(0, 1)", "initial": "uniform(0, 1)"}
    for what in ("own_throw:throw", "package.inner:throw", "own_throw:Space.throw", "package/inner.py:throw"):
        task = problem_from_words(what, **words).make_task()
        np.testing.assert_array_equal(task.evaluate([[1.0]], [[3.0]]), [-2.0])
        assert task.name == "throw"
        assert (task.rollouts, task.initial_rollouts) == (TaskExtras.rollouts, TaskExtras.initial_rollouts)
    alone = problem_from_words("own_throw:alone", initial="uniform([0, 0], 1)", name="sum", rollouts=210).make_task()
    np.testing.assert_array_equal(alone.evaluate(np.zeros((1, 0)), [[1.0, 2.0]]), [3.0])
    assert (alone.name, alone.rollouts, alone.initial_rollouts) == ("sum", 210, 70)


def test_function_is_found_from_another_folder_and_can_import_its_neighbours(folder, monkeypatch):
    (folder / "neighbour.py").write_text("value = 7.0\n")
    (folder / "own_late.py").write_text("def f(parameters):\n    import neighbour\n    return neighbour.value\n")
    problem = problem_from_words("own_late:f", initial="uniform(0, 1)")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    np.testing.assert_array_equal(problem.make_task().evaluate(np.zeros((1, 0)), [[0.0]]), [7.0])


def test_seeds_reach_a_function_that_asks_for_them(folder):
    (folder / "own_seeds.py").write_text(MODULE)
    words = {"contexts": "uniform(0, 1)", "initial": "uniform(0, 1)"}
    task = problem_from_words("own_seeds:many", batched=True, **words).make_task()
    assert task.takes_seeds
    np.testing.assert_array_equal(task.evaluate(np.zeros((2, 1)), np.zeros((2, 1)), seeds=[5, 9]), [5.0, 9.0])


def test_tasks_of_ones_own_come_as_object_class_or_factory(folder):
    (folder / "own_tasks.py").write_text(MODULE)
    for what, name, sizes in (
        ("triple", "toy-triple", (1, 1)),
        ("Triple", "toy-triple", (1, 1)),
        ("factory", "made", (0, 2)),
    ):
        problem = problem_from_words(f"own_tasks:{what}", rollouts=105)
        task = problem.make_task()
        assert (task.name, task.context_size, task.parameter_size) == (name, *sizes)
        assert problem.initial_policy().name == name
        first = 60 if task.context_size else 35
        assert (problem.extras(task).rollouts, problem.extras(task).initial_rollouts) == (105, first)


@pytest.mark.parametrize(
    ("what", "words", "message"),
    [
        ("nowhere:f", {}, "there is no module 'nowhere' in .*, nor is it installed"),
        ("own_bad.deeper:f", {}, "there is no module 'own_bad.deeper'"),
        ("nowhere.py:f", {}, "there is no file .*nowhere.py"),
        ("own_bad:missing", {}, r"own_bad:missing: the module 'own_bad' \(.*own_bad.py\) has no 'missing'"),
        ("own_bad:number", {"initial": "uniform(0, 1)"}, "must be a function .* it is int"),
        ("own_bad:number", {}, "own_bad:number is not a task but int; a return function needs `initial`"),
        ("own_bad:throw", {}, "is not a task but function"),
        ("own_bad:triple", {"initial": "uniform(0, 1)"}, "own_bad:triple is a task, which has its own contexts"),
        ("own_broken:f", {}, "importing own_broken failed: SyntaxError"),
        ("own_broken.py:f", {}, "importing .*own_broken.py failed: SyntaxError"),
        ("own_needy:f", {}, "importing own_needy failed: ModuleNotFoundError: No module named 'not_installed'"),
        ("own_exit:f", {}, "importing own_exit failed: SystemExit: 3"),
        ("json.py:f", {}, "json.py cannot be loaded: the module 'json' .* has the same name"),
    ],
)
def test_what_cannot_be_loaded_is_named(what, words, message, folder):
    (folder / "own_bad.py").write_text(MODULE)
    (folder / "own_broken.py").write_text("def f(:\n")
    (folder / "own_needy.py").write_text("import not_installed\n")
    (folder / "own_exit.py").write_text("raise SystemExit(3)\n")
    (folder / "json.py").write_text("f = 1\n")
    with pytest.raises(InputError, match=message):
        problem_from_words(what, **words).make_task()


def test_problem_of_ask_and_tell_has_no_task_but_an_initial_policy():
    problem = Problem(context_size=2, initial="gaussian([0, 0], 1)")
    assert problem.initial_policy() == Gaussian([0, 0], 1)
    with pytest.raises(InputError, match="neither task nor function"):
        problem.make_task()


def test_tasks_by_name_are_the_registered_ones():
    problem = Problem(task="toy-double", max_options=3)
    assert problem.make_task().name == problem.initial_policy().name == "toy-double"
    assert problem.extras(problem.make_task()).max_options == 3
    assert all(Problem(task=name).runnable for name in task_names())


def test_words_of_a_function_make_the_task_that_its_objects_make(folder):
    (folder / "own_same.py").write_text(MODULE)
    task = problem_from_words("own_same:throw", contexts="uniform(0, 1)", initial="gaussian(0, 2)").make_task()
    same = task_from_function(sys.modules["own_same"].throw, contexts=Uniform(0, 1), initial=Gaussian(0, 2))
    key = jax.random.key(0)
    np.testing.assert_array_equal(task.sample_contexts(key, 5), same.sample_contexts(key, 5))
    np.testing.assert_array_equal(
        task.sample_initial(key, np.zeros((5, 1))), same.sample_initial(key, np.zeros((5, 1)))
    )


# The page


def test_page_shows_the_examples_and_its_code_runs(folder, capsys):
    page = (EXAMPLES.parent / "docs/own_function.md").read_text(encoding="utf-8")
    assert (EXAMPLES / "my_problem.toml").read_text(encoding="utf-8") in page
    for function in (EXAMPLES / "my_return.py").read_text(encoding="utf-8").split("\n\n\n")[1:]:
        assert function.strip() in page
    names = {}
    for snippet in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(snippet, names)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("nan]")
    assert len(set(lines[1].strip("[]").split())) == 2
    assert lines[2].startswith("1 1 {'function'")
