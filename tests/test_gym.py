"""Environments of Gymnasium as tasks, and the controllers that run in them."""

import re
import subprocess
import sys
import threading
from pathlib import Path

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from hpsde.base.distributions import Gaussian, Samples, Uniform
from hpsde.errors import InputError
from hpsde.tasks import Task, check_task, task_extras
from hpsde.tasks import gym as gym_module
from hpsde.tasks.controllers import (
    BasisFunctions,
    Controller,
    FunctionController,
    LinearFeedback,
    PositionReference,
    Spaces,
    as_controller,
)
from hpsde.tasks.gym import GymTask
from patience import LONG

EXAMPLES = Path(__file__).parent.parent / "examples"
SPACES = Spaces(Box(-1.0, 1.0, (3,)), Box(-2.0, 2.0, (2,)))
NONE = np.zeros(0)


class Walk(gymnasium.Env):
    """A position that moves by the action and by noise of the reset's seed; a step earns minus its distance from 0."""

    made = 0

    def __init__(self, limit=5):
        Walk.made += 1
        self.observation_space, self.action_space = Box(-np.inf, np.inf, (1,)), Box(-1.0, 1.0, (1,))
        self.limit, self.closed, self.steps_ever = limit, False, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = np.array([(options or {}).get("start", 0.0)]) + self.np_random.normal(0.0, 0.1, 1)
        self.steps = 0
        return self.position.copy(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.position = self.position + action + self.np_random.normal(0.0, 0.1, 1)
        self.steps += 1
        self.steps_ever += 1
        ended = self.steps >= self.limit
        return self.position.copy(), -abs(float(self.position[0])), bool(self.position[0] > 50), ended, {}

    def close(self):
        self.closed = True


def steer(parameters, context, observation, time):
    return parameters[0] * (context[0] - observation)


def make(environment=Walk, controller=steer, **changes):
    given = {"initial": Uniform(0.0, 1.0), "contexts": Uniform(-1.0, 1.0), "max_steps": 9}
    return GymTask(environment, controller, **(given | changes))


# The task


def test_it_is_a_task_that_takes_seeds():
    task = make(description="walk", max_options=3)
    assert isinstance(task, Task)
    assert check_task(task) is task
    assert (task.name, task.context_size, task.parameter_size) == ("Walk", 1, 1)
    assert task_extras(task).takes_seeds
    assert task_extras(task).max_options == 3


def test_return_depends_on_context_parameters_and_seed_alone():
    contexts, parameters = np.linspace(-1, 1, 6)[:, None], np.linspace(0, 1, 6)[:, None]
    seeds = np.array([3, 1, 4, 1, 5, 9])
    task = make()
    returns = task.evaluate(contexts, parameters, seeds=seeds)
    assert len(set(returns)) == 6
    order = np.array([5, 2, 0, 3, 1, 4])
    np.testing.assert_array_equal(task.evaluate(contexts[order], parameters[order], seeds=seeds[order]), returns[order])
    np.testing.assert_array_equal(make().evaluate(contexts[2:], parameters[2:], seeds=seeds[2:]), returns[2:])
    assert task.evaluate(contexts[:1], parameters[:1], seeds=[7])[0] != returns[0]
    by_row = task.evaluate(contexts, parameters, seeds=np.arange(6))
    np.testing.assert_array_equal(task.evaluate(contexts, parameters), by_row)


def test_return_is_the_same_in_another_process(tmp_path):
    task = make()
    contexts, parameters, seeds = [[0.5], [-0.5]], [[0.3], [0.9]], [11, 2**62]
    returns = task.evaluate(contexts, parameters, seeds=seeds)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        (tmp_path / "task").write_bytes(cloudpickle.dumps(task))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    code = (
        "import cloudpickle, sys; task = cloudpickle.load(open(sys.argv[1], 'rb'));"
        f"print(*(x.hex() for x in task.evaluate({contexts}, {parameters}, seeds={seeds}).tolist()))"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "task")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [value.hex() for value in returns.tolist()]


def test_return_is_the_sum_of_what_the_steps_earn():
    task = make(score=None)
    episode = task.episode([0.4], [0.5], seed=8)
    observed = np.array(episode.observations)
    assert observed.shape == (6, 1)
    np.testing.assert_allclose(episode.rewards, -np.abs(observed[1:, 0]))
    np.testing.assert_allclose(episode.actions, 0.5 * (0.4 - observed[:-1]), rtol=1e-6)
    np.testing.assert_array_equal(task.evaluate([[0.4]], [[0.5]], seeds=[8]), [episode.total])
    np.testing.assert_allclose(episode.total, np.sum(episode.rewards))
    assert (episode.terminated, episode.truncated, episode.seed) == (False, True, 8)


def test_score_may_be_any_function_of_the_episode():
    task = make(score=lambda episode: episode.observations[-1][0] if episode.context[0] > 0 else np.nan)
    last = task.episode([0.4], [0.5], seed=8).observations[-1][0]
    np.testing.assert_array_equal(task.evaluate([[0.4], [-0.4]], [[0.5], [0.5]], seeds=[8, 8]), [last, np.nan])
    with pytest.raises(InputError, match="one number for a rollout, got NoneType"):
        make(score=lambda episode: None).evaluate([[0.0]], [[0.0]])


def test_episodes_end_by_step_limit_truncation_or_termination():
    assert len(make(max_steps=3).episode([0.0], [0.0]).actions) == 3
    assert len(make(max_steps=50).episode([0.0], [0.0]).actions) == 5
    task = make(reset_options=lambda context: {"start": 51.0})
    ended = task.episode([0.0], [0.0])
    assert (len(ended.actions), ended.terminated, ended.truncated) == (1, True, False)


def test_context_goes_into_the_reset():
    class Recorder(Walk):
        def reset(self, *, seed=None, options=None):
            resets.append((seed, options))
            return super().reset(seed=seed, options=options)

    resets = []
    make(environment=Recorder, reset_options=lambda context: {"start": context[0]}).evaluate(
        [[0.5]], [[0.0]], seeds=[6]
    )
    make(environment=Recorder, context_as_seed=True, contexts=Samples([[3.0], [4.0]])).evaluate(
        [[4.0]], [[0.0]], seeds=[6]
    )
    assert resets == [(6, {"start": 0.5}), (4, None)]
    with pytest.raises(InputError, match="expected whole numbers from 0 on as contexts, got"):
        make(context_as_seed=True).evaluate([[0.5]], [[0.0]])
    with pytest.raises(InputError, match="context_as_seed: expected contexts of one whole number"):
        make(context_as_seed=True, contexts=None)


def test_context_may_be_set_after_the_reset():
    def place(environment, context):
        environment.position = np.array([context[0]])
        return environment.position.copy()

    assert make(set_context=place).episode([0.7], [0.0]).observations[0] == 0.7
    untouched = make(set_context=lambda environment, context: None).episode([0.7], [0.0], seed=3)
    np.testing.assert_array_equal(untouched.observations[0], make().episode([0.7], [0.0], seed=3).observations[0])


def test_task_without_contexts():
    task = make(contexts=None, controller=BasisFunctions(2, 5), initial=Gaussian([0.0, 0.0], 1.0))
    assert task.evaluate(np.zeros((3, 0)), np.zeros((3, 2))).shape == (3,)
    assert task.episode([], [1.0, 1.0]).context.shape == (0,)


def test_environment_is_made_once_per_process_and_thread_and_closed():
    before = Walk.made
    with make() as task:
        task.evaluate(np.zeros((4, 1)), np.zeros((4, 1)))
        task.episode([0.0], [0.0])
        assert Walk.made == before + 1
        thread = threading.Thread(target=task.evaluate, args=(np.zeros((2, 1)), np.zeros((2, 1))))
        thread.start()
        thread.join()
        assert Walk.made == before + 2
        environments = list(task.function.environments._made.values())
        assert not any(environment.closed for environment in environments)
    assert all(environment.closed for environment in environments)
    task.evaluate([[0.0]], [[0.0]])
    assert Walk.made == before + 3


def test_environment_that_raised_is_not_used_again():
    class Fragile(Walk):
        def step(self, action):
            if self.steps_ever == 7:
                raise RuntimeError("the simulator broke")
            return super().step(action)

    task = make(environment=Fragile)
    first = task.evaluate([[0.0]], [[0.0]])
    with pytest.raises(RuntimeError, match="the simulator broke"):
        task.evaluate([[0.0]], [[0.0]])
    np.testing.assert_array_equal(task.evaluate([[0.0]], [[0.0]]), first)


def test_observations_are_kept_also_of_environments_that_reuse_their_array():
    class Reusing(Walk):
        def reset(self, *, seed=None, options=None):
            self.array, info = super().reset(seed=seed, options=options)
            return self.array, info

        def step(self, action):
            observation, *others = super().step(action)
            self.array[:] = observation
            return self.array, *others

    plain = make().episode([0.5], [0.5], seed=1)
    np.testing.assert_array_equal(
        make(environment=Reusing).episode([0.5], [0.5], seed=1).observations, plain.observations
    )


def test_registered_environment_by_its_name():
    """Against Gymnasium used by hand."""
    task = GymTask("CartPole-v1", LinearFeedback(), initial=Uniform(-np.ones(10), 1.0))
    gains = np.array([0, 0, 0, 0, 0, 0.1, 0.5, 5.0, 1.0, 0.0])  # push right when the pole leans right
    by_hand = gymnasium.make("CartPole-v1")
    observation, _ = by_hand.reset(seed=5)
    total, done = 0.0, False
    while not done:
        observation, reward, terminated, truncated, _ = by_hand.step(int(gains[5:9] @ observation > 0))
        total, done = total + reward, terminated or truncated
    by_hand.close()
    assert task.evaluate(np.zeros((1, 0)), [gains], seeds=[5]) == [total] == [500.0]
    assert task.name == "CartPole-v1"
    task.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"environment": "Nothing-v7"}, "environment 'Nothing-v7' cannot be made"),
        ({"controller": 3}, "controller: expected an object with size and start, or a function .* got int"),
        ({"controller": LinearFeedback()}, "initial: expected 2 parameters, which LinearFeedback has .* got 1"),
        ({"max_steps": None}, "max_steps: expected a number, because this environment has no limit"),
        ({"max_steps": 0}, "max_steps must be a whole number of at least 1"),
        ({"arguments": {"limit": 3}}, "arguments: expected none with a function"),
        ({"initial": (0, 1)}, "initial: .*hpsde.Uniform"),
        ({"evaluation": [[0.0, 1.0]]}, r"evaluation must have shape \[N, 1\]"),
        ({"max_option": 3}, "unknown arguments max_option; .*max_options"),
    ],
)
def test_unfit_descriptions_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        make(**changes)


@pytest.mark.parametrize(
    ("action", "message"),
    [(np.nan, "finite actions; got nan"), (np.zeros(3), r"actions of Box\(.*; got shape \(3,\)")],
)
def test_unfit_actions_are_refused(action, message):
    with pytest.raises(InputError, match=message):
        make(controller=lambda parameters, context, observation, time: action).evaluate([[0.0]], [[0.0]])


def test_missing_gymnasium_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(InputError, match=r"pip install 'hpsde\[gym\]'"):
        make(environment="Pendulum-v1")


# Actions and controllers


def test_actions_are_clipped_to_the_space():
    box = Box(np.array([-1.0, 0.0], dtype=np.float32), np.array([1.0, 5.0], dtype=np.float32))
    action = gym_module._fit_action([-7.0, 3], box)
    np.testing.assert_array_equal(action, [-1.0, 3.0])
    assert action.dtype == np.float32
    assert gym_module._fit_action([0.1, 0.9, 0.3], Discrete(3)) == 1
    assert gym_module._fit_action([0.1, 0.9, 0.3], Discrete(3, start=-1)) == 0
    assert gym_module._fit_action(np.int64(2), Discrete(3)) == gym_module._fit_action([2], Discrete(3)) == 2
    with pytest.raises(InputError, match=r"actions of Discrete\(3\); got shape \(2,\)"):
        gym_module._fit_action([0.1, 0.9], Discrete(3))


def test_linear_feedback_is_gains_times_observation_plus_offset():
    controller = LinearFeedback()
    assert controller.size(SPACES) == 8
    act = controller.start(np.arange(8.0), NONE, SPACES)
    np.testing.assert_allclose(act(np.array([1.0, 10.0, 100.0]), 0), [210.0 + 3.0, 654.0 + 7.0])
    chosen = LinearFeedback(observe=lambda observation: observation[1])
    assert chosen.size(SPACES) == 4
    np.testing.assert_allclose(chosen.start(np.arange(4.0), NONE, SPACES)([0.0, 5.0, 0.0], 0), [1.0, 13.0])


def test_basis_functions_are_a_partition_of_one_and_meet_the_weights():
    controller = BasisFunctions(count=4, steps=30)
    assert controller.size(SPACES) == 8
    for time in range(0, 40, 3):
        assert controller.basis(time).min() >= 0.0
        np.testing.assert_allclose(controller.basis(time).sum(), 1.0)
    act = controller.start(np.repeat([0.7, -0.2], 4), NONE, SPACES)
    np.testing.assert_allclose([act(None, time) for time in (0, 11, 50)], [[0.7, -0.2]] * 3)
    peaked = controller.start(np.array([0.0, 1.0, 0.0, 0.0] * 2), NONE, SPACES)
    heights = [peaked(None, time)[0] for time in range(31)]
    assert int(np.argmax(heights)) == 10
    np.testing.assert_array_equal(peaked(None, 30), peaked(None, 99))
    np.testing.assert_allclose(BasisFunctions(1, 10).basis(3), [1.0])
    np.testing.assert_allclose(BasisFunctions(100, 1000).basis(333.0).sum(), 1.0)


def test_position_reference_pulls_towards_the_movement_and_brakes():
    controller = PositionReference(
        BasisFunctions(1, 10), position=lambda o: o[:2], velocity=lambda o: o[1:], stiffness=10.0, damping=2.0
    )
    assert controller.size(SPACES) == 2
    act = controller.start(np.array([1.0, 2.0]), NONE, SPACES)
    np.testing.assert_allclose(act(np.array([0.5, 1.0, 3.0]), 4), [10 * 0.5 - 2 * 1.0, 10 * 1.0 - 2 * 3.0])


def test_controllers_share_their_protocol():
    for controller in (LinearFeedback(), BasisFunctions(2, 3), FunctionController(steer)):
        assert isinstance(controller, Controller)
        assert as_controller(controller) is controller
    assert isinstance(as_controller(steer), FunctionController)
    with pytest.raises(InputError, match="count must be"):
        BasisFunctions(0, 3)
    with pytest.raises(InputError, match="needs a space of numbers; got Dict"):
        LinearFeedback().size(Spaces(gymnasium.spaces.Dict({}), SPACES.action))


# The page and the example


def test_code_of_the_page_runs(capsys):
    page = (EXAMPLES.parent / "docs/gym.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(snippet, names)
    names["task"].close()
    assert f"prints `{capsys.readouterr().out.strip()}`" in page


def test_example_finds_both_ways_to_swing_up(tmp_path):
    arguments = [sys.executable, str(EXAMPLES / "gym_pendulum.py"), "--rollouts", "350", "--plot", "p.png"]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 0, done.stderr
    assert "both ways found in 1 of 1" in done.stdout
    assert (tmp_path / "p.png").stat().st_size > 10_000
