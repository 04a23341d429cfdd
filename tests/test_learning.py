"""One call for the impatient: functions and tasks, failures, budgets, and no bar where none is wanted."""

import numpy as np
import pytest

import hpsde
import small
from hpsde import AskTellError, InputError, UnknownNameError
from hpsde.learning import batch_size, iterate, measure
from hpsde.methods import make_learner
from hpsde.tasks import make_task, task_from_function

pytestmark = pytest.mark.usefixtures("remembered")

# Sizes that are compiled for other tests, too.
SMALL = {"rollouts": 192, "batch": 32, "progress": False, "max_options": 4}
PLACES = {"contexts": hpsde.Uniform(0.0, 2.0), "initial": hpsde.Uniform(-1.0, 1.0)}
GRID = np.linspace(0.0, 2.0, 30)[:, None]


def one(context, parameters):
    return small.two_ridges(context[None], parameters[None])[0]


def learn(function=small.two_ridges, **changes):
    given = PLACES | {"batched": function is not one, "initial_rollouts": 128} | SMALL | changes
    return hpsde.learn(function, **given)


@pytest.fixture(scope="module")
def policy():
    return learn()


def test_a_function_of_a_batch_is_learned(policy):
    small.assert_sound(policy)
    assert small.two_ridges(GRID, policy.act(GRID)).mean() > 0.75


def test_a_function_of_one_rollout_gives_the_same(policy):
    small.assert_same_bits(learn(one), policy)


def test_a_task_gives_the_same_as_its_function(policy):
    task = task_from_function(small.two_ridges, batched=True, **PLACES)
    small.assert_same_bits(hpsde.learn(task, initial_rollouts=128, **SMALL), policy)


def test_seed_decides(policy):
    assert not np.array_equal(learn(seed=1).act(GRID), policy.act(GRID))


def test_method_and_settings_by_name():
    assert learn(method="hpsde-rwr-softmax").gate.kind == "softmax"
    assert learn(gate="marginal").gate.kind == "marginal"
    assert len(learn(density="vb", weight_sum="one").options) == 1
    with pytest.raises(UnknownNameError, match="unknown method 'magic'; valid are: hpsde-reps-gp"):
        learn(method="magic")
    with pytest.raises(
        UnknownNameError, match=r"unknown setting 'kapa'; valid are: .*kappa.*Did you mean 'gate.kappa'\?$"
    ):
        learn(kapa=2.0)


def test_a_function_without_contexts():
    def bowl(parameters):
        assert parameters.shape == (2,)
        return -np.sum((parameters - 0.3) ** 2)

    policy = hpsde.learn(bowl, initial=hpsde.Uniform([-1, -1], 1), initial_rollouts=128, **SMALL)
    assert policy.context_size == 0
    np.testing.assert_allclose(policy.act(), 0.3, atol=0.2)


def test_returns_that_are_not_finite_are_failed_rollouts(policy):
    def sometimes(contexts, parameters):
        returns = small.two_ridges(contexts, parameters)
        return np.where(parameters[:, 0] > 0.9, np.nan, np.where(parameters[:, 0] < -0.9, -np.inf, returns))

    task = task_from_function(sometimes, batched=True, **PLACES)
    learner = make_learner("hpsde-reps-gp", task, **small.SIZES)
    steps = list(iterate(task, learner, rollouts=192, batch=32))
    outside = np.abs(learner.rollouts.parameters[:, 0]) > 0.9
    np.testing.assert_array_equal(learner.rollouts.failed, outside)
    assert learner.info.failed == outside.sum() > 5
    assert steps[-1].rollouts == len(learner.rollouts) == 192
    small.assert_sound(learner.policy)
    small.assert_sound(learn(sometimes))


def test_a_function_that_always_fails():
    with pytest.raises(AskTellError, match="128 were told, 128 of them failed"):
        learn(lambda s, xi: np.full(len(xi), np.nan))


def test_what_the_function_raises_passes_through():
    def fall(context, parameters):
        raise RuntimeError("the robot fell over")

    with pytest.raises(RuntimeError, match="the robot fell over"):
        learn(fall, batched=False)
    with pytest.raises(InputError, match="must give one number for a rollout"):
        learn(lambda s, xi: xi.repeat(2), batched=False)


@pytest.mark.parametrize(
    ("rollouts", "initial_rollouts", "rounds"),
    [
        (140, 128, [128, 140]),
        (128, 128, [128]),
        (192, 150, [150, 182, 192]),
        (175, None, [100, 132, 164, 175]),  # 600 of 1050 are initial: 4 of 7
        (3, None, [2, 3]),
    ],
)
def test_rollouts_are_spent_to_the_last(rollouts, initial_rollouts, rounds):
    counts = []

    def count(contexts, parameters):
        counts.append(len(parameters))
        return small.two_ridges(contexts, parameters)

    # No number of rollouts of its own to expect, so that the sizes of the others are met.
    learn(count, rollouts=rollouts, initial_rollouts=initial_rollouts, expected_rollouts=192)
    np.testing.assert_array_equal(np.cumsum(counts), rounds)


@pytest.mark.parametrize(
    ("rollouts", "batch", "wanted"),
    [
        (1, None, 1),
        (39, None, 1),
        (40, None, 2),
        (175, None, 8),
        (999, None, 49),
        (1000, None, 50),
        (2000, None, 50),
        (2040, None, 51),
        (40_000, None, 1000),
        (40_000, 7, 7),
        (10, 60, 60),
    ],
)
def test_a_learning_step_comes_after_50_rollouts_a_twentieth_or_a_fortieth_of_all_or_as_many_as_given(
    rollouts, batch, wanted
):
    assert batch_size(rollouts, batch) == wanted


def test_whatever_the_rollouts_there_are_from_20_to_40_learning_steps_where_there_can_be():
    for rollouts in (20, 57, 100, 333, 1050, 1999, 2041, 7000, 100_003):
        assert 20 <= rollouts / batch_size(rollouts) <= 41


@pytest.mark.parametrize(
    ("rollouts", "batch", "wanted"),
    [
        (1, None, 1),
        (99, None, 1),
        (100, None, 2),
        (1049, None, 20),
        (1050, None, 21),
        (40_000, None, 800),
        (10, 60, 60),
    ],
)
def test_without_contexts_a_learning_step_comes_after_a_fiftieth_of_all_rollouts_or_as_many_as_given(
    rollouts, batch, wanted
):
    assert batch_size(rollouts, batch, context_size=0) == wanted
    # One context or five: it is as many as with contexts.
    assert batch_size(rollouts, batch, context_size=5) == batch_size(rollouts, batch)


def test_without_a_batch_and_contexts_rounds_have_a_fiftieth_of_all_rollouts():
    task = task_from_function(
        lambda parameters: -np.sum(parameters**2, axis=1), initial=hpsde.Uniform([-1, -1], 1), batched=True
    )
    learner = make_learner("creps", task, initial_rollouts=60, expected_rollouts=192)
    assert [step.rollouts for step in iterate(task, learner, rollouts=192)] == [60, *range(63, 193, 3)]


def test_without_a_batch_rounds_have_the_batch_size_of_all_rollouts():
    task = task_from_function(small.two_ridges, batched=True, **PLACES)
    learner = make_learner("creps", task, initial_rollouts=60, expected_rollouts=192)
    assert [step.rollouts for step in iterate(task, learner, rollouts=192)] == [60, *range(69, 192, 9), 192]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rollouts": 100, "initial_rollouts": 101}, "initial_rollouts must be at most all rollouts, 100; got 101"),
        ({"rollouts": 1}, "rollouts must be a whole number of at least 2; got 1"),
        ({"initial_rollouts": 1}, "initial_rollouts must be a whole number of at least 2; got 1"),
        ({"batch": 0}, "batch must be a whole number of at least 1; got 0"),
        ({"initial": None}, "initial: expected hpsde.Uniform"),
        ({"contexts": (0.0, 1.0)}, r"contexts: expected .*hpsde.Uniform\(low, high\)"),
    ],
)
def test_unfit_arguments_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        learn(**changes)


def test_a_task_comes_with_its_own_places():
    for extra in (PLACES, {"batched": True}):
        with pytest.raises(InputError, match="a task has its own contexts and initial distribution"):
            hpsde.learn(make_task("toy-double"), **extra)
    with pytest.raises(InputError, match="something to call, got str"):
        hpsde.learn("toy-double", initial=hpsde.Uniform(0, 1))


def test_an_object_that_is_half_a_task_is_told_what_it_lacks():
    class Half:
        context_size = parameter_size = 1

        def evaluate(self, contexts, parameters):
            return parameters[:, 0]

    with pytest.raises(InputError, match="Half has no name, sample_contexts"):
        hpsde.learn(Half())


def test_no_bar_and_no_word_where_standard_error_is_no_terminal(capfd):
    learn(progress=True)
    assert capfd.readouterr() == ("", "")


def test_time_is_kept_apart_for_learner_and_task():
    task = make_task("toy-double")
    learner = make_learner("hpsde-reps-gp", task, **small.SIZES)
    steps = list(iterate(task, learner, rollouts=160, batch=32))
    assert [step.iteration for step in steps] == [0, 1]
    for name in ("learner_seconds", "task_seconds"):
        times = [getattr(step, name) for step in steps]
        assert 0.0 < times[0] < times[1]


def test_learning_goes_on_where_it_stopped():
    task = make_task("toy-double")
    whole, parts = (make_learner("hpsde-reps-gp", task, **small.SIZES) for _ in range(2))
    list(iterate(task, whole, rollouts=192, batch=32))
    assert len(list(iterate(task, parts, rollouts=160, batch=32))) == 2
    assert len(list(iterate(task, parts, rollouts=192, batch=32))) == 1
    assert len(parts.rollouts) == 192
    small.assert_same_bits(parts.policy, whole.policy)
    assert list(iterate(task, whole, rollouts=192)) == []


def test_measures_of_a_task_are_averaged():
    class Task:
        """A task that says how often it succeeds, and knows no solutions."""

        def __init__(self, task):
            self.task = task

        def __getattr__(self, name):
            if name == "solutions":
                raise AttributeError(name)
            return getattr(self.task, name)

        def measures(self, contexts, parameters):
            return {"success": self.task.evaluate(contexts, parameters) > 0.5}

    task = Task(task_from_function(small.two_ridges, batched=True, **PLACES))
    policy = hpsde.learn(task, initial_rollouts=128, **SMALL)
    measured = measure(task, policy)
    contexts = task.evaluation_contexts()
    returns = small.two_ridges(contexts, policy.act(contexts))
    assert measured["success"] == pytest.approx(np.mean(returns > 0.5))
    assert measured["greedy_mean_return"] == pytest.approx(returns.mean())
    assert measured["greedy_median_return"] == pytest.approx(np.median(returns))
    assert (measured["coverage"], measured["surplus"]) == (None, None)
