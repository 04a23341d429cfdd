"""When nothing is left to gain: the gate's part against Monte Carlo, and runs that end early or do not."""

import numpy as np
import pytest

import hpsde
from hpsde.errors import InputError
from hpsde.learning import iterate
from hpsde.steps import stopping
from hpsde.tasks.task import task_from_function

pytestmark = pytest.mark.usefixtures("remembered")


def test_what_the_gate_gains_by_knowing_the_returns():
    rng = np.random.default_rng(3)
    mean, deviation = 5.0 + rng.normal(size=(3, 4)), rng.uniform(0.1, 1.0, size=(3, 4))
    drawn = mean + deviation * rng.normal(size=(400_000, 3, 4))
    best = np.argmax(mean, axis=0)
    chosen = drawn[:, best, np.arange(4)]
    expected = np.maximum(drawn - chosen[:, None], 0.0).sum(axis=1).mean()
    assert stopping.left_of_gate(mean, deviation) == pytest.approx(expected, rel=0.01)


def test_a_gate_that_knows_or_has_no_choice_gains_nothing():
    assert stopping.left_of_gate(np.ones((1, 5)), np.ones((1, 5))) == 0.0
    assert stopping.left_of_gate(np.array([[1.0], [0.0]]), np.zeros((2, 1))) == 0.0


def two_bumps(parameters):
    return -(((parameters**2).sum() - 1.0) ** 2) - parameters[0] ** 2


def learner_of(function, **settings):
    task = task_from_function(function, initial=hpsde.Uniform([-2.0, -2.0], [2.0, 2.0]))
    return task, hpsde.HPSDE(0, 2, initial=task, initial_rollouts=100, expected_rollouts=500, **settings)


def test_a_run_ends_where_nothing_is_left_to_gain():
    task, learner = learner_of(two_bumps)
    steps = list(iterate(task, learner, rollouts=500, batch=50, tolerance=1e-10))
    assert steps[-1].rollouts < 500
    assert learner.info.to_gain <= 1e-10
    assert all(each.info.to_gain > 1e-10 for each in steps[:-1])
    found = np.sort(learner.policy.option_means()[:, 0, 1])
    np.testing.assert_allclose(found, [-1.0, 1.0], atol=1e-4)


def test_a_run_goes_on_to_its_last_rollout_where_all_are_wanted():
    task, learner = learner_of(two_bumps)
    assert list(iterate(task, learner, rollouts=500, batch=50))[-1].rollouts == 500


def test_noise_leaves_something_to_gain():
    rng = np.random.default_rng(0)
    task, learner = learner_of(lambda xi: two_bumps(xi) + 0.3 * rng.normal())
    steps = list(iterate(task, learner, rollouts=400, batch=50, tolerance=1e-10))
    assert steps[-1].rollouts == 400
    assert all(each.info.to_gain > 1e-10 for each in steps)


@pytest.mark.parametrize("tolerance", [-1e-3, 1.0, np.nan, True])
def test_a_tolerance_that_is_none(tolerance):
    with pytest.raises(InputError, match="tolerance must be a number from 0 to below 1"):
        hpsde.learn(two_bumps, initial=hpsde.Uniform([-2.0, -2.0], [2.0, 2.0]), tolerance=tolerance, rollouts=20)


def test_a_durable_run_ends_early_says_so_and_goes_on_when_it_is_extended(tmp_path):
    task = task_from_function(two_bumps, initial=hpsde.Uniform([-2.0, -2.0], [2.0, 2.0]))
    planned = {"rollouts": 500, "initial_rollouts": 100, "batch": 50}
    with hpsde.Run.create(tmp_path / "run", task, **planned) as run:
        run.learn(progress=False)
        ended = run.status().done
        assert 200 <= ended < 500
        assert run.learn(progress=False) is not None  # nothing more is done
        assert run.status().done == ended
        run.learn(progress=False, rollouts=550)
        assert run.status().done == 550
    with hpsde.Run.create(tmp_path / "all", task, tolerance=0.0, **planned | {"rollouts": 350}) as run:
        run.learn(progress=False)
        assert run.status().done == 350
