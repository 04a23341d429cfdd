"""The contract of all tasks; tasks from functions; tasks of one's own."""

import math
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hpsde.base.distributions import Gaussian, Samples, Uniform
from hpsde.errors import InputError, UnknownNameError
from hpsde.learning import budget
from hpsde.tasks import (
    Task,
    TaskExtras,
    check_task,
    make_task,
    task_extras,
    task_from_function,
    task_measures,
    task_names,
)


@pytest.fixture(params=task_names())
def task(request):
    return make_task(request.param)


# The contract of every named task


def test_every_task_keeps_the_contract(task):
    assert isinstance(task, Task)
    assert check_task(task) is task
    keys = jax.random.split(jax.random.key(0), 2)
    contexts = task.sample_contexts(keys[0], 30)
    parameters = task.sample_initial(keys[1], contexts)
    assert contexts.shape == (30, task.context_size)
    assert parameters.shape == (30, task.parameter_size)
    returns, densities = task.evaluate(contexts, parameters), task.log_initial(contexts, parameters)
    assert returns.shape == densities.shape == (30,)
    for array in (contexts, parameters, returns, densities, task.evaluation_contexts()):
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float64
        assert np.all(np.isfinite(array))
    np.testing.assert_array_equal(contexts, task.sample_contexts(keys[0], 30))
    np.testing.assert_array_equal(parameters, task.sample_initial(keys[1], contexts))


def test_returns_of_a_batch_are_those_of_its_rows(task):
    contexts = task.sample_contexts(jax.random.key(1), 12)
    parameters = task.sample_initial(jax.random.key(2), contexts)
    returns = task.evaluate(contexts, parameters)
    single = [task.evaluate(contexts[i : i + 1], parameters[i : i + 1])[0] for i in range(12)]
    np.testing.assert_allclose(returns, single, rtol=1e-14)
    np.testing.assert_array_equal(task.evaluate(jnp.asarray(contexts), jnp.asarray(parameters)), returns)
    assert task.evaluate(contexts[:0], parameters[:0]).shape == (0,)


def test_results_are_numpys_of_64_bit_whatever_the_users_setting(task):
    contexts = task.sample_contexts(jax.random.key(1), 12)
    parameters = task.sample_initial(jax.random.key(2), contexts)
    with jax.enable_x64(False):
        np.testing.assert_array_equal(task.sample_contexts(jax.random.key(1), 12), contexts)
        np.testing.assert_array_equal(task.sample_initial(jax.random.key(2), contexts), parameters)
        returns = task.evaluate(contexts, parameters)
        assert np.mean(returns).dtype == np.float64
        assert task.log_initial(contexts, parameters).dtype == np.float64
    np.testing.assert_array_equal(returns, task.evaluate(contexts, parameters))


def test_evaluation_contexts_are_fixed(task):
    contexts = task.evaluation_contexts()
    assert contexts.shape[1] == task.context_size
    np.testing.assert_array_equal(contexts, make_task(task.name).evaluation_contexts())


def test_arrays_of_other_shapes_are_refused(task):
    s, d = task.context_size, task.parameter_size
    with pytest.raises(InputError, match="contexts"):
        task.evaluate(np.zeros((4, s + 1)), np.zeros((4, d)))
    with pytest.raises(InputError, match="parameters"):
        task.evaluate(np.zeros((4, s)), np.zeros((4, d + 1)))
    with pytest.raises(InputError, match="parameters"):
        task.evaluate(np.zeros((4, s)), np.zeros((3, d)))


def test_solutions_are_as_good_as_it_gets_where_they_are_valid(task):
    contexts = task.evaluation_contexts()
    rng = np.random.default_rng(0)
    low, high = task.parameter_bounds
    # To read a picture takes long; that a rollout is that of what is behind it is tested in tests/test_puddle_image.py.
    world, places = (task.behind, task.true_contexts(contexts)) if hasattr(task, "behind") else (task, contexts)
    tried = [world.evaluate(places, rng.uniform(low, high, (len(contexts), len(low)))) for _ in range(200)]
    for solution in task.solutions:
        valid = np.ones(len(contexts), bool) if solution.valid is None else solution.valid(contexts)
        best = solution.parameters(contexts)[valid]
        assert solution.follows(contexts[valid], best).all()
        returns = task.evaluate(contexts[valid], best)
        assert np.all(returns >= np.max(tried, axis=0)[valid] - 1e-12)
        assert np.all((best >= low) & (best <= high))


def test_unknown_task_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"unknown task 'toy-quadruple'; valid are: .*toy-double.*toy-curve"):
        make_task("toy-quadruple")
    assert {"toy-double", "toy-triple", "toy-curve"} <= set(task_names())


# Tasks from functions


def bowl(context, parameters):
    assert context.shape == (2,)
    assert parameters.shape == (3,)
    return -np.sum((parameters - context[0]) ** 2) - context[1]


def test_function_of_one_rollout_and_of_a_batch_make_the_same_task():
    def bowls(contexts, parameters):
        return -np.sum((parameters - contexts[:, :1]) ** 2, axis=1) - contexts[:, 1]

    given = {"contexts": Gaussian([0.0, 1.0], 0.5), "initial": Uniform(-1.0, [1.0, 2.0, 3.0])}
    one, batch = task_from_function(bowl, **given), task_from_function(bowls, batched=True, **given)
    assert (one.name, one.context_size, one.parameter_size) == ("bowl", 2, 3)
    assert isinstance(one, Task)
    contexts = one.sample_contexts(jax.random.key(0), 9)
    parameters = one.sample_initial(jax.random.key(1), contexts)
    np.testing.assert_allclose(one.evaluate(contexts, parameters), batch.evaluate(contexts, parameters))
    np.testing.assert_allclose(one.log_initial(contexts, parameters), -math.log(2 * 3 * 4))
    assert one.evaluation_contexts().shape == (201, 2)
    np.testing.assert_array_equal(one.evaluation_contexts(), batch.evaluation_contexts())


@pytest.mark.parametrize("batched", [False, True])
def test_function_without_contexts_takes_the_parameters_alone(batched):
    def square(parameters):
        assert parameters.shape == ((5, 2) if batched else (2,))
        return -np.sum(parameters**2, axis=-1)

    task = task_from_function(square, initial=Gaussian([0.0, 0.0], 1.0), batched=batched)
    contexts = task.sample_contexts(jax.random.key(0), 5)
    assert (task.context_size, contexts.shape) == (0, (5, 0))
    parameters = task.sample_initial(jax.random.key(1), contexts)
    np.testing.assert_allclose(task.evaluate(contexts, parameters), -np.sum(np.asarray(parameters) ** 2, axis=1))
    assert task.evaluation_contexts().shape == (1, 0)
    assert task.parameter_bounds is None


def test_single_numbers_come_as_arrays_and_may_go_as_arrays():
    seen = []

    def slope(context, parameters):
        seen.append((type(context), context.shape, parameters.shape))
        return context * parameters

    task = task_from_function(slope, contexts=Uniform(0, 1), initial=Uniform(0, 1))
    np.testing.assert_allclose(task.evaluate([[2.0], [3.0]], [[5.0], [7.0]]), [10.0, 21.0])
    assert seen == [(np.ndarray, (1,), (1,))] * 2
    batch = task_from_function(lambda s, a: s * a, contexts=Uniform(0, 1), initial=Uniform(0, 1), batched=True)
    np.testing.assert_allclose(batch.evaluate([[2.0], [3.0]], [[5.0], [7.0]]), [10.0, 21.0])


def test_function_of_jax_arrays():
    @jax.jit
    def returns(contexts, parameters):
        return jnp.sum(parameters - contexts, axis=1)

    task = task_from_function(returns, contexts=Uniform(0, 1), initial=Uniform(0, 1), batched=True)
    np.testing.assert_allclose(task.evaluate([[1.0]], [[3.0]]), [2.0])
    assert task.name == "returns"


def test_function_cannot_change_the_callers_arrays():
    def spoil(contexts, parameters):
        contexts[:] = parameters[:] = 7.0
        return contexts[..., 0]

    for batched in (False, True):
        task = task_from_function(spoil, contexts=Uniform(0, 1), initial=Uniform(0, 1), batched=batched)
        contexts, parameters = np.zeros((3, 1)), np.ones((3, 1))
        task.evaluate(contexts, parameters)
        assert np.all(contexts == 0.0)
        assert np.all(parameters == 1.0)


def test_errors_and_missing_returns_of_the_function_pass_through():
    def broken(parameters):
        if parameters[0] > 1.0:
            raise RuntimeError("the robot fell over")
        return math.nan

    task = task_from_function(broken, initial=Uniform(0.0, 2.0))
    assert np.isnan(task.evaluate(np.zeros((1, 0)), [[0.5]])).all()
    with pytest.raises(RuntimeError, match="the robot fell over"):
        task.evaluate(np.zeros((2, 0)), [[0.5], [1.5]])


@pytest.mark.parametrize("batched", [False, True])
def test_seeds_go_by_name_to_functions_that_ask_for_them(batched):
    def noisy(context, parameters, seed):
        return np.random.default_rng(seed).normal() + parameters[0]

    def noisy_batch(contexts, parameters, *, seeds):
        assert seeds.dtype == np.int64
        return [noisy(None, row, seed) for row, seed in zip(parameters, seeds, strict=True)]

    given = {"contexts": Uniform(0, 1), "initial": Uniform(0, 1)}
    task = task_from_function(noisy_batch if batched else noisy, batched=batched, **given)
    assert task_extras(task).takes_seeds
    contexts, parameters, seeds = np.zeros((3, 1)), np.ones((3, 1)), np.array([5, 2**62, 5])
    returns = task.evaluate(contexts, parameters, seeds=seeds)
    np.testing.assert_array_equal(returns, [np.random.default_rng(seed).normal() + 1.0 for seed in seeds])
    by_row = [np.random.default_rng(seed).normal() + 1.0 for seed in range(3)]
    np.testing.assert_array_equal(task.evaluate(contexts, parameters), by_row)


def test_functions_without_a_parameter_for_seeds_get_none():
    for function in (lambda s, a: 1.0, lambda s, a, **others: float(bool(others)) + 1.0, max):
        task = task_from_function(function, contexts=Uniform(0, 1), initial=Uniform(0, 1))
        assert not task_extras(task).takes_seeds
        np.testing.assert_array_equal(task.evaluate([[1.0]], [[1.0]], seeds=[3]), [1.0])


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ([1], r"seeds must be 2 whole numbers; got int64 of shape \[1\]"),
        ([1.0, 2.0], "seeds must be 2 whole numbers; got float64"),
        ([1, -2], "between 0 and"),
        (np.array([1, 2**64 - 1], dtype=np.uint64), "between 0 and"),
        ("12", "seeds must be 2 whole numbers"),
    ],
)
def test_unfit_seeds_are_refused(seeds, message):
    task = task_from_function(lambda a, seed: 0.0, initial=Uniform(0, 1))
    with pytest.raises(InputError, match=message):
        task.evaluate(np.zeros((2, 0)), np.zeros((2, 1)), seeds=seeds)


@pytest.mark.parametrize(
    ("function", "batched", "message"),
    [
        (lambda p: p, False, r"one number for a rollout, got float64 of shape \[2\]"),
        (lambda p: None, False, "one number for a rollout, got NoneType"),
        (lambda p: "good", False, "one number for a rollout"),
        (lambda p: p, True, r"shape \[4\], .* got float64 of shape \[4, 2\]"),
        (lambda p: 1.0, True, r"shape \[4\], .* got float64 of shape \[\]"),
        (lambda p: p[:, :1] - p[:, 1], True, r"got float64 of shape \[4, 4\]"),
    ],
)
def test_functions_that_give_something_else_are_refused(function, batched, message):
    task = task_from_function(function, initial=Uniform([0.0, 0.0], 1.0), batched=batched)
    with pytest.raises(InputError, match=message):
        task.evaluate(np.zeros((4, 0)), np.zeros((4, 2)))


def test_samples_as_distributions():
    contexts, initial = np.arange(6.0).reshape(3, 2), np.array([[0.1], [0.2]])
    task = task_from_function(lambda s, a: 0.0, contexts=contexts, initial=initial, name="sampled")
    assert (task.name, task.context_size, task.parameter_size) == ("sampled", 2, 1)
    assert not task_extras(task).has_initial_density
    assert set(np.asarray(task.sample_initial(jax.random.key(0), np.zeros((50, 2))))[:, 0]) == {0.1, 0.2}
    np.testing.assert_array_equal(task.evaluation_contexts(), contexts)
    with pytest.raises(InputError, match="no log density"):
        task.log_initial(contexts[:1], [[0.1]])
    many = Samples(np.random.default_rng(0).standard_normal((500, 1)))
    chosen = task_from_function(lambda s, a: 0.0, contexts=many, initial=initial).evaluation_contexts()
    assert chosen.shape == (201, 1)
    assert np.isin(np.asarray(chosen), np.asarray(many.values)).all()


def test_evaluation_contexts_and_extras_may_be_given():
    task = task_from_function(
        bowl, contexts=Uniform([0, 0], 1), initial=Uniform([0, 0, 0], 1), evaluation=[[0.5, 0.5]],
        features="squared-exponential", max_options=3, initial_rollouts=50, rollouts=80, description="a bowl",
    )  # fmt: skip
    np.testing.assert_array_equal(task.evaluation_contexts(), [[0.5, 0.5]])
    extras = task_extras(task)
    assert (extras.features, extras.max_options, extras.initial_rollouts) == ("squared-exponential", 3, 50)
    assert (extras.rollouts, extras.description) == (80, "a bowl")
    np.testing.assert_array_equal(extras.parameter_bounds, (np.zeros(3), np.ones(3)))


@pytest.mark.parametrize(("contexts", "size", "first"), [(None, 1, 350), (None, 4, 350), (None, 5, 600), (1, 1, 600)])
def test_without_contexts_few_parameters_need_fewer_first_rollouts(contexts, size, first):
    given = None if contexts is None else Uniform(0.0, 1.0)
    call = (lambda s, xi: 0.0) if contexts else (lambda xi: 0.0)
    initial = Uniform(np.zeros(size), np.ones(size))
    task = task_from_function(call, contexts=given, initial=initial)
    assert task_extras(task).initial_rollouts == first
    assert budget(task_extras(task), None, 105) == (first // 10, 105)
    said = task_from_function(call, contexts=given, initial=initial, initial_rollouts=77)
    assert task_extras(said).initial_rollouts == 77


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"initial": (0.0, 1.0)}, "initial: .*hpsde.Uniform"),
        ({"initial": Uniform(0, 1), "contexts": 3}, "contexts: .*got int"),
        ({"initial": Uniform(0, 1), "evaluation": [[0.0]]}, "evaluation"),
        ({"initial": Uniform(0, 1), "max_option": 3}, "unknown arguments max_option; .*max_options"),
    ],
)
def test_unfit_descriptions_of_a_task_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        task_from_function(lambda p: 0.0, **given)


@pytest.mark.parametrize(
    ("function", "contexts", "message"),
    [
        (lambda context, parameters: 0.0, None, r"takes \(context, parameters\), and is called with parameters alone"),
        (lambda parameters: 0.0, Uniform(0.0, 1.0), r"takes \(parameters\), and is called with a context and"),
        (lambda parameters, load: 0.0, None, "with parameters alone"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_at_once(function, contexts, message):
    with pytest.raises(InputError, match=message):
        task_from_function(function, initial=Uniform(0.0, 1.0), contexts=contexts)


@pytest.mark.parametrize(
    "function", [lambda parameters, load=2.0: 0.0, lambda *given: 0.0, lambda xi, *, seed: 0.0, max]
)
def test_functions_with_more_to_give_or_that_do_not_say_are_taken(function):
    assert task_from_function(function, initial=Uniform(0.0, 1.0)).parameter_size == 1


def test_something_that_is_no_function_is_refused():
    with pytest.raises(InputError, match="something to call, got float"):
        task_from_function(1.0, initial=Uniform(0, 1))


# Tasks of one's own


class OwnTask:
    name = "own"
    context_size = 1
    parameter_size = 1
    max_options = 4

    def sample_contexts(self, key, n):
        return jax.random.uniform(key, (n, 1))

    def sample_initial(self, key, contexts):
        return contexts + jax.random.normal(key, contexts.shape)

    def log_initial(self, contexts, parameters):
        return -0.5 * ((parameters - contexts)[:, 0] ** 2 + math.log(2 * math.pi))

    def evaluate(self, contexts, parameters):
        return -np.abs(parameters - contexts)[:, 0]

    def evaluation_contexts(self):
        return np.linspace(0.0, 1.0, 5)[:, None]

    def measures(self, contexts, parameters):
        return {"success": np.abs(parameters - contexts)[:, 0] < 0.1}


def test_any_object_with_the_methods_is_a_task():
    task = OwnTask()
    assert isinstance(task, Task)
    assert check_task(task) is task
    assert task_extras(task) == TaskExtras(max_options=4)
    assert task_measures(task, np.zeros((1, 1)), np.zeros((1, 1)))["success"].all()
    assert task_measures(make_task("toy-double"), np.zeros((1, 1)), np.zeros((1, 1))) == {}


def test_what_an_object_lacks_is_named():
    class Half:
        name = "half"
        context_size = parameter_size = 1

        def evaluate(self, contexts, parameters):
            return parameters[:, 0]

    message = "Half has no sample_contexts, sample_initial, log_initial, evaluation_contexts"
    with pytest.raises(InputError, match=message):
        check_task(Half())


def test_code_of_the_page_on_tasks_runs(capsys):
    page = Path(__file__).parent.parent / "docs/tasks.md"
    snippets = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(snippets) == 6
    names = [{}, {}, {}, {}, {}, {}]
    for snippet, space in zip(snippets, names, strict=True):
        exec(snippet, space)
    rover = "['0000', '4444'] [4.91 4.91]\n0.38\n"
    assert capsys.readouterr().out.startswith(f"(5, 64, 64)\n{rover}0.5 1 ('upper line',)\n1.0 1 False 0.0\n[")
    for space in names[2:]:
        task = space["task"]
        contexts = task.sample_contexts(jax.random.key(0), 8)
        parameters = task.sample_initial(jax.random.key(1), contexts)
        assert np.all(np.isfinite(task.evaluate(contexts, parameters)))
        assert np.all(np.isfinite(task.log_initial(contexts, parameters)))
