"""One contract for every method on every task: ask and tell, act, densities, samples, files."""

import functools

import numpy as np
import pytest
import scipy.stats

import hpsde
import remembered
import small
from hpsde.learning import iterate, measure
from hpsde.methods import DEFAULT_METHOD, METHODS, make_learner
from hpsde.settings import Settings, short_names
from hpsde.steps.rollouts import INITIAL
from hpsde.tasks import make_task, task_extras, task_names

pytestmark = pytest.mark.usefixtures("remembered")

EASY = "toy-double"  # what every method learns; every task is learned by the default one
# Pictures have thousands of numbers: what learners make of the task behind them is what these tests can ask.
OTHERS = [task for task in task_names() if task != EASY and "image" not in task]
PAIRS = [(method, EASY) for method in METHODS] + [(DEFAULT_METHOD, task) for task in OTHERS]
# One squared exponential where the task asks for these: as many features as linear ones, the same compilations.
FEW = small.SIZES | {"feature_count": 1}


def few(method):
    """Small sizes, and of the settings those that the method has."""
    known = set(short_names(make_learner(method, make_task(EASY)).settings))
    sizes = {"initial_rollouts", "expected_rollouts"}
    return {name: value for name, value in FEW.items() if name in known | sizes}


class Learned:
    """A method's learner and policy on a task, after a few rounds."""

    def __init__(self, method, name):
        # One option averages over the solutions. One feature cannot learn the puddle nor follow a wave, 192 rollouts
        # not 60 parameters whose best values change with the context.
        hard = ("puddle", "puddle-moving", "compass", "drone-60")
        self.expected_to_learn = method not in ("paper", "creps") and name not in hard
        self.task = make_task(name)
        # Densities are compared with whole Gaussians; those that are cut off are in tests/test_bounds.py.
        self.learner = make_learner(method, self.task, seed=2, bounds=None, **few(method))
        self.steps = list(iterate(self.task, self.learner, rollouts=192, batch=32))
        self.policy = self.learner.policy
        self.contexts = self.task.evaluation_contexts()[::7]
        self.context = self.contexts[:4][-1]  # some of them, or the only one


learned_before = functools.cache(Learned)


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def learned(request):
    return learned_before(*request.param)


def test_rounds_are_asked_and_told(learned):
    rollouts, task = learned.learner.rollouts, learned.task
    assert [step.rollouts for step in learned.steps] == [128, 160, 192]
    assert rollouts.contexts.shape == (192, task.context_size)
    assert rollouts.parameters.shape == (192, task.parameter_size)
    np.testing.assert_allclose(rollouts.returns, task.evaluate(rollouts.contexts, rollouts.parameters))
    # Besides the first, some may have gone where the model knows little.
    assert np.all(rollouts.option[:128] == INITIAL)
    # Regions weigh no rollouts, and what they ask for may belong to no option.
    regions = getattr(getattr(learned.learner.settings, "density", None), "kind", "") == "regions"
    for asked in (rollouts.option[128:160], rollouts.option[160:]):
        assert regions or np.sum(asked == INITIAL) <= Settings().density.scouts * len(asked) + 1
    np.testing.assert_array_equal(rollouts.behaviour == 0, rollouts.option == INITIAL)
    info = learned.learner.info
    assert (info.rollouts, info.failed, info.updates) == (192, 0, 3)
    assert 1 <= info.options_kept <= 4
    assert np.isnan(info.ess) if regions else 1.0 <= info.ess <= 192.0


def test_the_policy_is_sound_and_better_than_chance(learned):
    small.assert_sound(learned.policy, learned.contexts)
    assert learned.policy.act(learned.contexts[0]).shape == (learned.task.parameter_size,)
    measured = measure(learned.task, learned.policy)
    if learned.expected_to_learn:
        assert measured["greedy_mean_return"] > learned.steps[0].returns.mean()
    assert measured["options_kept"] == learned.learner.info.options_kept
    assert 1 <= measured["options_used"] <= measured["options_kept"]
    assert 0.0 <= measured["coverage"] <= 1.0
    assert 0 <= measured["surplus"] <= measured["options_kept"]


def test_the_density_is_that_of_the_chosen_option(learned):
    policy, context = learned.policy, learned.context
    option = policy.options[policy.choose(context)[0]]
    mean = option.mean(context[None])[0]
    # In standard units and by its factor: scipy refuses the covariance of nearly dependent parameters.
    raw = policy.units.raw_differences(np.eye(learned.task.parameter_size))
    standard = np.linalg.inv(raw)
    covariance = standard.T @ option.covariance @ standard
    factor = scipy.stats.Covariance.from_cholesky(np.linalg.cholesky(0.5 * (covariance + covariance.T)))
    normal = scipy.stats.multivariate_normal(cov=factor)
    draws = normal.rvs(50, random_state=4).reshape(50, learned.task.parameter_size)
    density = normal.logpdf(draws) - np.linalg.slogdet(raw)[1]
    rounding = 1e-6 + 1e-16 * np.linalg.cond(option.covariance) * learned.task.parameter_size
    np.testing.assert_allclose(policy.log_prob(context, mean + draws @ raw), density, rtol=rounding, atol=rounding)
    np.testing.assert_allclose(policy.act(context), mean, rtol=1e-9)


def test_mean_of_samples_is_the_action(learned):
    policy, context = learned.policy, learned.context
    draws = policy.sample(11, np.repeat(context[None], 2001, axis=0))
    deviation = np.sqrt(np.diagonal(policy.options[policy.choose(context)[0]].covariance))
    assert np.all(np.abs(draws.mean(axis=0) - policy.act(context)) < 5.0 * deviation / np.sqrt(2001))
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.1)


def test_a_saved_policy_comes_back_to_the_bit(learned, tmp_path):
    learned.policy.save(tmp_path / "policy.npz")
    small.assert_same_bits(learned.policy, hpsde.load_policy(tmp_path / "policy.npz"))


def test_the_learner_goes_on_after_the_policy_was_looked_at(learned):
    proposal = learned.learner.ask(learned.contexts)
    learned.learner.forget_asked()
    assert proposal.parameters.shape == (len(learned.contexts), learned.task.parameter_size)
    assert np.all(np.isfinite(proposal.parameters))
    assert np.all(np.isfinite(proposal.log_density))
    assert np.all((proposal.option >= INITIAL) & (proposal.option < len(learned.policy.options)))
    assert np.sum(proposal.option == INITIAL) <= Settings().density.scouts * len(proposal.option) + 1


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_same_bits_again(method):
    one = learned_before(method, EASY)
    with remembered.nothing():
        other = Learned(method, EASY)
    np.testing.assert_array_equal(one.learner.rollouts.parameters, other.learner.rollouts.parameters)
    small.assert_same_bits(one.policy, other.policy)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_goes_on_from_a_stored_run_to_the_same_bits(method, tmp_path):
    settings = {name: value for name, value in few(method).items() if name != "expected_rollouts"} | {"bounds": None}
    with hpsde.Run.create(tmp_path, EASY, method=method, seed=2, rollouts=192, batch=32, **settings) as run:
        run.learn(progress=False)
    with hpsde.Run.open(tmp_path) as again:
        small.assert_same_bits(again.policy, learned_before(method, EASY).policy)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_its_settings_and_takes_the_tasks(method):
    task = make_task("toy-curve")
    learner = make_learner(method, task)
    settings = learner.settings
    wanted = METHODS[method].arguments
    if "bounds" in wanted:
        assert learner.bounds == wanted.pop("bounds")
    whole = short_names(wanted.pop("settings", settings))
    found = short_names(settings)
    assert found["features"] == "squared-exponential"
    for name in (whole | wanted).keys() - {"features", "max_options"}:
        assert found[name] == (whole | wanted)[name]
    if "max_options" in METHODS[method].from_task:
        assert settings.max_options == task_extras(task).max_options
        assert make_learner(method, task, max_options=3).settings.max_options == 3
    assert METHODS[method].description


def test_the_default_method_is_one_and_has_the_default_settings():
    assert METHODS[DEFAULT_METHOD].settings == {}


def test_an_unknown_method_lists_the_known_ones():
    with pytest.raises(hpsde.UnknownNameError) as caught:
        make_learner("hpsde-reps-oracle", make_task("toy-double"))
    assert caught.value.valid == tuple(METHODS)


def test_something_that_is_no_task_is_refused():
    with pytest.raises(hpsde.InputError, match="object has no name, context_size"):
        make_learner(DEFAULT_METHOD, object())
