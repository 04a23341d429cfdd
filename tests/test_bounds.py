"""Bounds of the parameters: never left, with the right densities, and optima on them are found."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import hpsde
import small
from hpsde import CREPS, HPSDE, HiREPS, InputError, Uniform, load_policy
from hpsde.cli import main
from hpsde.methods import make_learner
from hpsde.runs.run import Run
from hpsde.steps import gaussian
from hpsde.steps.bounds import Within, bounds_text, make_bounds, read_bounds
from hpsde.steps.gaussian import LinearGaussian, cut
from hpsde.steps.initial import FromDistribution, make_initial
from hpsde.tasks.kinematics import KUKA_LWR
from hpsde.tasks.reach import reach_task

LOW, HIGH = np.array([-1.0, -0.5]), np.array([0.8, 2.0])


def options(mean=(0.7, 1.9), Sigma=((1.0, 0.8), (0.8, 1.5))):
    """One option of two parameters that its bounds cut off."""
    free = LinearGaussian(jnp.asarray([mean]), jnp.zeros((1, 0, 2)), jnp.asarray([Sigma]))
    return cut(free, (LOW, HIGH))


def density(option, points):
    with jax.enable_x64(True):
        return np.exp(np.asarray(gaussian.log_density(option, jnp.zeros((len(points), 0)), jnp.asarray(points)))[0])


@pytest.mark.parametrize("mean", [(0.7, 1.9), (0.0, 0.0), (5.0, -9.0), (-40.0, 0.0)])
def test_the_density_integrates_to_one(mean):
    nodes, weights = np.polynomial.legendre.leggauss(200)
    x, y = (0.5 * (high + low + (high - low) * nodes) for low, high in zip(LOW, HIGH, strict=True))
    points = np.stack(np.meshgrid(x, y, indexing="ij"), -1).reshape(-1, 2)
    value = density(options(mean), points) @ np.outer(weights, weights).ravel() * np.prod(HIGH - LOW) / 4.0
    assert_allclose(value, 1.0, atol=1e-6)


def test_draws_are_within_and_have_that_density():
    option = options()
    count = 40_000
    with jax.enable_x64(True):
        drawn = gaussian.draw(jax.random.key(0), option, np.zeros((count, 0)), np.zeros(count, dtype=int))
    assert np.all((drawn >= LOW) & (drawn <= HIGH))
    edges = [np.linspace(low, high, 7) for low, high in zip(LOW, HIGH, strict=True)]
    seen, *_ = np.histogram2d(*drawn.T, bins=edges)
    fine = [np.linspace(low, high, 6 * 40 + 1) for low, high in zip(LOW, HIGH, strict=True)]
    centres = [0.5 * (each[1:] + each[:-1]) for each in fine]
    points = np.stack(np.meshgrid(*centres, indexing="ij"), -1).reshape(-1, 2)
    cell = np.prod([each[1] - each[0] for each in fine])
    expected = (density(option, points) * cell).reshape(6, 40, 6, 40).sum(axis=(1, 3)) * count
    assert stats.chisquare(seen.ravel(), expected.ravel() * seen.sum() / expected.sum()).pvalue > 1e-3


def test_one_parameter_is_a_truncated_gaussian():
    free = LinearGaussian(jnp.asarray([[0.6]]), jnp.zeros((1, 0, 1)), jnp.asarray([[[0.25]]]))
    option = cut(free, (np.array([-0.2]), np.array([0.7])))
    points = np.linspace(-0.2, 0.7, 9)[:, None]
    truth = stats.truncnorm((-0.2 - 0.6) / 0.5, (0.7 - 0.6) / 0.5, 0.6, 0.5)
    assert_allclose(density(option, points), truth.pdf(points[:, 0]), rtol=1e-9)


def test_bounds_far_away_change_nothing():
    option = options()
    points = np.random.default_rng(0).normal(size=(20, 2))
    free, far = cut(option, None), cut(option, (np.full(2, -np.inf), np.full(2, np.inf)))
    assert_array_equal(density(far, points), density(free, points))


def test_a_gaussian_far_outside_is_drawn_from():
    """The mean is kept within, and a parameter that the one before it pushes out lies on the bound."""
    option = options((0.0, 0.0), ((1.0, 0.9999), (0.9999, 1.0)))
    option = option._replace(low=jnp.asarray([[0.5, -1.0]]), high=jnp.asarray([[0.8, -0.9]]))
    with jax.enable_x64(True):
        drawn = gaussian.draw(jax.random.key(1), option, np.zeros((500, 0)), np.zeros(500, dtype=int))
    assert np.all(np.isfinite(drawn))
    assert np.all((drawn >= [0.5, -1.0]) & (drawn <= [0.8, -0.9]))


def rising(parameters):
    """Better and better, beyond the bounds."""
    return parameters[:, 0] + 0.1 * parameters[:, 1]


LEARNERS = {"hpsde": HPSDE, "hireps": HiREPS, "creps": CREPS}


def sizes(name):
    """Small sizes, those that the learner has."""
    return {each: value for each, value in small.SIZES.items() if name == "hpsde" or each != "max_options"}


def learn(function, initial, **changes):
    sizes = {"rollouts": 192, "initial_rollouts": 128, "max_options": 4}
    return hpsde.learn(function, initial=initial, batched=True, progress=False, **(sizes | changes))


@pytest.mark.parametrize("name", LEARNERS)
def test_nothing_that_is_proposed_leaves_them(name):
    learner = LEARNERS[name](0, 2, initial=Uniform([0.0, 0.0], [12.0, 3.0]), seed=1, **sizes(name))
    for count in small.ROUNDS:
        proposal = learner.ask(count=count)
        assert np.all((proposal.parameters >= 0.0) & (proposal.parameters <= [12.0, 3.0]))
        assert np.all(np.isfinite(proposal.log_density))
        learner.tell(None, proposal.parameters, rising(proposal.parameters))
    policy = learner.policy
    for parameters in (policy.act(), policy.option_means().reshape(-1, 2), policy.sample(0)):
        assert np.all((parameters >= 0.0) & (parameters <= [12.0, 3.0]))


def test_without_bounds_they_are_left():
    policy = learn(rising, Uniform([0.0, 0.0], [12.0, 3.0]), batch=32, bounds=None)
    assert policy.act()[0] > 12.0


@pytest.mark.parametrize("best", ["slope", "beyond", "kink"])
def test_an_optimum_on_a_bound_is_found(best):
    """Where the return still rises, where it would be best beyond, and where it is best exactly there."""
    functions = {
        "slope": lambda x: 0.3 * x[:, 0],
        "beyond": lambda x: -((x[:, 0] - 14.0) ** 2),
        "kink": lambda x: -np.abs(x[:, 0] - 12.0),
    }
    policy = learn(functions[best], Uniform(0.0, 12.0))
    assert len(policy.options) == 1
    assert 12.0 - policy.act()[0] <= 1e-6 * 12.0
    assert [doubt.kind for doubt in policy.doubts] == ["bound"]


def test_bounds_that_were_given_are_no_doubt():
    policy = learn(lambda x: 0.3 * x[:, 0], Uniform(0.0, 12.0), bounds=(0.0, 12.0))
    assert not policy.doubts


def test_what_was_done_outside_is_taken():
    learner = HPSDE(0, 1, initial=Uniform(0.0, 1.0), **small.SIZES)
    first = learner.ask(count=128).parameters
    first[0] = 1.3
    learner.tell(None, first, -((first[:, 0] - 0.5) ** 2))
    second = learner.ask(count=32).parameters
    second[0] = -0.2
    learner.tell(None, second, -((second[:, 0] - 0.5) ** 2))
    assert abs(learner.policy.act()[0] - 0.5) < 1e-3


def test_a_gaussian_start_keeps_them():
    learner = HPSDE(0, 1, initial=hpsde.Gaussian(0.0, 1.0), bounds=(-0.5, 2.0), initial_rollouts=40)
    proposal = learner.ask(count=200)
    assert np.all((proposal.parameters >= -0.5) & (proposal.parameters <= 2.0))
    truth = stats.truncnorm(-0.5, 2.0)
    assert_allclose(proposal.log_density, truth.logpdf(proposal.parameters[:, 0]), atol=0.03)
    assert stats.kstest(proposal.parameters[:, 0], truth.cdf).pvalue > 1e-3


def test_a_start_that_never_keeps_them_is_refused():
    outside = Within(FromDistribution(Uniform(0.0, 1.0)), (np.array([2.0]), np.array([3.0])))
    with pytest.raises(InputError, match="hardly ever"):
        outside.sample(jax.random.key(0), np.zeros((3, 0)))


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1.0, 0.0), "less than its high"),
        ((np.nan, 1.0), "less than its high"),
        (3.0, "each a number or 2 numbers"),
        ((1.0, 2.0, 3.0), "each a number or 2 numbers"),
        (([0.0] * 3, 1.0), "each a number or 2 numbers"),
        ("[0, ", 'expected "\\[low, high\\]"'),
        ("4", 'expected "\\[low, high\\]"'),
    ],
)
def test_wrong_bounds_say_so(bounds, message):
    with pytest.raises(InputError, match=message):
        HPSDE(0, 2, initial=Uniform([0, 0], [1, 1]), bounds=bounds)


def test_where_they_come_from():
    uniform = Uniform([0.0, 1.0], [2.0, 3.0])
    assert_array_equal(make_bounds("initial", uniform, 2), uniform.bounds)
    assert make_bounds("initial", hpsde.Gaussian([0.0, 0.0], 1.0), 2) is None
    assert make_bounds(None, uniform, 2) is make_bounds("none", uniform, 2) is None
    assert make_bounds((-np.inf, np.inf), uniform, 2) is None
    assert_array_equal(make_bounds((0, [1, np.inf]), uniform, 2), [[0, 0], [1, np.inf]])
    task = hpsde.tasks.make_task("toy-triple")
    assert_array_equal(make_bounds("initial", task, 1), task.parameter_bounds)
    assert make_initial(task, 1).log_density(np.zeros((1, 1)), np.full((1, 1), 1e9)) == -np.inf


@pytest.mark.parametrize("bounds", [(0.1, 0.3), ([0.1, 1e-17], [1 / 3, np.inf]), None, "initial"])
def test_words_keep_every_bit(bounds):
    again = read_bounds(bounds_text(bounds))
    if bounds is None or isinstance(bounds, str):
        assert again == bounds
    else:
        for one, other in zip(again, bounds, strict=True):
            assert_array_equal(one, other)


def test_a_file_keeps_them(tmp_path):
    learner = HPSDE(0, 2, initial=Uniform([0.0, 0.0], [12.0, 3.0]), seed=1, **small.SIZES)
    parameters = learner.ask(count=128).parameters
    learner.tell(None, parameters, rising(parameters))
    policy = learner.policy
    policy.save(tmp_path / "policy.npz")
    again = load_policy(tmp_path / "policy.npz")
    key = jax.random.key(3)
    for one, other in (
        (policy.sample(key), again.sample(key)),
        (policy.log_prob(None, parameters), again.log_prob(None, parameters)),
        (policy.option_means(), again.option_means()),
    ):
        assert_array_equal(one, other)


def test_the_command_and_a_file_take_them(tmp_path, capsys):
    assert main(["create", str(tmp_path / "run"), "--initial", "uniform(0, 90)", "--bounds", "[5, 80]"]) == 0
    (tmp_path / "robot.toml").write_text('initial = "uniform(0, 90)"\nbounds = "none"\n')
    assert main(["create", str(tmp_path / "other"), "--problem", str(tmp_path / "robot.toml")]) == 0
    for name, wanted in (("run", [[5.0], [80.0]]), ("other", None)):
        with Run.open(tmp_path / name) as run:
            assert_array_equal(run.learner().bounds, wanted)
    assert main(["create", str(tmp_path / "bad"), "--initial", "uniform(0, 90)", "--bounds", "5"]) == 2
    assert '"[low, high]"' in capsys.readouterr().err


def test_a_run_keeps_them(tmp_path):
    sizes = {"rollouts": 192, "initial_rollouts": 128, "batch": 32, "max_options": 4}
    with Run.create(tmp_path / "run", initial="gaussian(0, 1)", bounds=(-1.0, 0.5), **sizes) as run:
        for count in small.ROUNDS:
            asked = run.ask(count=count)
            parameters = np.array([each.parameters for each in asked])
            assert np.all((parameters >= -1.0) & (parameters <= 0.5))
            run.tell([each.id for each in asked], parameters[:, 0])
    with Run.open(tmp_path / "run") as run:
        assert_array_equal(run.learner().bounds, [[-1.0], [0.5]])
        assert run.policy.act()[0] <= 0.5


# Tasks


@pytest.mark.parametrize("name", ["reach", "arm-panda@3", "arm-kuka@3", "arm-ur@3", "rover", "rover-goal"])
def test_joint_limits_and_steps_of_a_rover_are_hard(name):
    task = hpsde.tasks.make_task(name)
    learner = make_learner("hpsde-reps-gp", task)
    assert_array_equal(learner.bounds, task.parameter_bounds)
    assert make_learner("hpsde-reps-gp", task, bounds=None).bounds is None
    low, high = task.parameter_bounds
    wide = np.stack([low - 1.0, high + 1.0])
    contexts = task.evaluation_contexts()[[0, 0]]
    assert np.all(np.isfinite(task.evaluate(contexts, wide)))  # what was really done is taken


@pytest.mark.parametrize("name", ["puddle", "walls-3@3"])
def test_weights_of_a_movement_have_no_hard_bounds(name):
    task = hpsde.tasks.make_task(name)
    assert task.parameter_bounds is not None
    assert make_learner("hpsde-reps-gp", task).bounds is None


def test_an_arm_never_leaves_its_joint_limits():
    """The goals ask for angles beyond the limits: without bounds half of the proposals lie outside."""
    joints = tuple(joint._replace(low=-0.3, high=0.4) for joint in KUKA_LWR.joints)
    task = reach_task(dataclasses.replace(KUKA_LWR, joints=joints))
    low, high = task.parameter_bounds
    goals = task.evaluation_contexts()
    outside = {}
    for bounds in ("initial", None):
        learner = make_learner("hpsde-reps-gp", task, bounds=bounds, **small.SIZES)
        for count in small.ROUNDS[:2]:
            contexts = np.resize(goals, (count, 3))
            proposal = learner.ask(contexts)
            learner.tell(contexts, proposal.parameters, task.evaluate(contexts, proposal.parameters))
        outside[bounds] = np.mean(np.any((proposal.parameters < low) | (proposal.parameters > high), axis=1))
        if bounds is not None:
            policy = learner._policy  # that made the last proposals
            found = policy.act(contexts), policy.sample(0, contexts), *policy.option_means(contexts)
            assert all(np.all((each >= low) & (each <= high)) for each in found)
    assert outside["initial"] == 0.0
    assert outside[None] > 0.2
