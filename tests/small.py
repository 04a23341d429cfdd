"""Learners so small that a test can have many. All share their array sizes, so that they compile once."""

import functools

import numpy as np

import hpsde

SIZES = {"initial_rollouts": 128, "expected_rollouts": 192, "max_options": 4}
ROUNDS = (128, 32, 32)


def two_ridges(contexts, parameters):
    """Two lines of best parameters, equally good: the first number is 0.6 or -0.6, a little higher with s."""
    line = 0.1 * contexts.sum(axis=1) if contexts.shape[1] else 0.0
    distance = np.abs(np.abs(parameters[:, 0] - line) - 0.6)
    return np.exp(-4.0 * distance) - 0.2 * np.sum(parameters[:, 1:] ** 2, axis=1)


def make(context_size=1, parameter_size=1, **changes):
    """A learner for parameters that start in [-1, 1]; tests/test_bounds.py has those that never leave it."""
    given = {"initial": hpsde.Uniform(-np.ones(parameter_size), 1.0), "bounds": None, **SIZES, **changes}
    return hpsde.HPSDE(context_size, parameter_size, **given)


def draw_contexts(round_number, count, context_size):
    return np.random.default_rng(round_number).uniform(0.0, 2.0, (count, context_size))


def own_data(count=128, seed=3):
    """Contexts and parameters that nobody asked for, as the initial distribution gives them."""
    contexts = draw_contexts(seed, count, 1)
    return contexts, np.random.default_rng(1000 + seed).uniform(-1.0, 1.0, (count, 1))


def run(learner, returns=two_ridges, rounds=ROUNDS, contexts=draw_contexts):
    """Ask, evaluate and tell in rounds; the learner."""
    for number, count in enumerate(rounds):
        s = contexts(number, count, learner.context_size)
        xi = learner.ask(s).parameters
        learner.tell(s, xi, returns(s, xi))
    return learner


@functools.cache
def learned(**changes):
    """The learner of `make` and `run` with these settings: for tests that look at it, and tell it nothing."""
    return run(make(**changes))


def assert_sound(policy, contexts=None):
    """All that the policy says is finite, and its covariances are covariances."""
    contexts = draw_contexts(99, 20, policy.context_size) if contexts is None else contexts
    parameters = policy.act(contexts)
    assert parameters.shape == (len(contexts), policy.parameter_size)
    told = (
        parameters,
        policy.sample(0, contexts),
        policy.log_prob(contexts, parameters),
        policy.expected_returns(contexts),
        policy.option_means(contexts),
        policy.mean_returns[policy.kept],
    )
    for values in told:
        assert np.all(np.isfinite(values))
    assert len(policy.options) >= 1
    for option in policy.options:
        assert np.all(np.linalg.eigvalsh(option.covariance) > 0.0)
    assert "nan" not in policy.summary()


def assert_same_bits(one, other):
    """Two policies give the same bits for all that can be asked of them."""
    contexts = one.known_contexts[:30]
    parameters = np.random.default_rng(97).uniform(-1.0, 1.0, (len(contexts), one.parameter_size))
    parameters = one.units.raw_parameters(parameters)
    for name in ("act", "choose", "expected_returns", "option_means"):
        np.testing.assert_array_equal(getattr(one, name)(contexts), getattr(other, name)(contexts))
    np.testing.assert_array_equal(one.log_prob(contexts, parameters), other.log_prob(contexts, parameters))
    np.testing.assert_array_equal(one.sample(5, contexts), other.sample(5, contexts))
    assert one.summary() == other.summary()
