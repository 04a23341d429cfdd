"""Data that carry little or come in odd units: the policy is always finite, and units never matter."""

import numpy as np
import pytest

import hpsde
import small

COPIES = hpsde.Samples([[0.6], [-0.55]])


def equal(contexts, parameters):
    return np.full(len(parameters), -3.7)


def constant(round_number, count, context_size):
    return np.full((count, context_size), 1.3)


@pytest.mark.parametrize("gate", ["gp", "softmax", "marginal"])
@pytest.mark.parametrize("update", ["reps", "rwr"])
def test_all_returns_equal(gate, update):
    learner = small.run(small.make(gate=gate, update=update), equal)
    small.assert_sound(learner.policy)
    np.testing.assert_allclose(learner.policy.expected_returns([[1.0]]), -3.7)
    # Nothing was learned: the policy stays as wide as the initial one, whose deviation is 0.577.
    widest = max(option.covariance.item() for option in learner.policy.options)
    assert 0.1 < np.sqrt(widest) < 1.5


@pytest.mark.parametrize("gate", ["gp", "softmax", "marginal"])
def test_constant_contexts(gate):
    learner = small.run(small.make(gate=gate), contexts=constant)
    small.assert_sound(learner.policy, np.full((5, 1), 1.3))
    assert small.two_ridges(np.full((1, 1), 1.3), learner.policy.act([[1.3]]))[0] > 0.8
    assert "s 1.3" in learner.policy.summary()


@pytest.mark.parametrize("gate", ["gp", "softmax", "marginal"])
def test_contexts_and_parameters_that_repeat(gate):
    """Two parameters and one context, again and again: nothing varies between rollouts of the same option."""
    learner = small.run(small.make(gate=gate, initial=COPIES), contexts=constant)
    small.assert_sound(learner.policy, np.full((5, 1), 1.3))
    assert learner.policy.act([1.3])[0] == pytest.approx(-0.55, abs=0.1)


def test_every_rollout_twice():
    contexts = small.draw_contexts(0, 64, 1)
    parameters = np.random.default_rng(1).uniform(-1.0, 1.0, (64, 1))
    learner = small.make()
    for _ in range(2):
        learner.tell(contexts, parameters, small.two_ridges(contexts, parameters))
    small.assert_sound(learner.policy)
    assert len(learner.policy.options) == 2


def test_a_single_parameter_and_nothing_else():
    learner = small.make(initial=hpsde.Samples([[0.25]]))
    small.run(learner, rounds=(128,))
    small.assert_sound(learner.policy)
    np.testing.assert_allclose(learner.policy.act([[0.5]]), 0.25, atol=0.2)


@pytest.mark.parametrize("rounds", [(2, 1, 1), (3, 3, 3)])
def test_fewer_rollouts_than_dimensions(rounds):
    """Two or three rollouts of six parameters."""
    learner = small.run(small.make(0, 6, initial_rollouts=rounds[0]), rounds=rounds)
    assert np.all(learner.rollouts.option[rounds[0] :] >= 0)
    small.assert_sound(learner.policy)
    assert learner.policy.act().shape == (6,)


# Units. The learner sees the same numbers in other units and must do the same.


@pytest.fixture(scope="module")
def reference():
    return small.run(small.make())


@pytest.mark.parametrize(("scale", "shift"), [(1e9, 1e6), (1e-9, 0.0), (1.0, -1e6), (3.0, 50.0)])
def test_units_of_returns_do_not_matter(reference, scale, shift):
    learner = small.run(small.make(), lambda s, xi: scale * small.two_ridges(s, xi) + shift)
    contexts = small.draw_contexts(7, 25, 1)
    one, other = reference.policy, learner.policy
    assert len(one.options) == len(other.options)
    np.testing.assert_allclose(learner.rollouts.parameters, reference.rollouts.parameters, atol=1e-5)
    np.testing.assert_allclose(other.act(contexts), one.act(contexts), atol=1e-5)
    np.testing.assert_allclose(
        other.expected_returns(contexts), scale * one.expected_returns(contexts) + shift, atol=1e-5 * scale
    )
    assert learner.info.temperature == pytest.approx(scale * reference.info.temperature, rel=1e-4)
    assert learner.info.ess == pytest.approx(reference.info.ess, rel=1e-4)


@pytest.mark.parametrize(("scale", "shift"), [(1e-6, 0.0), (1.0, 1e4), (1e9, -1e9), (1e-6, 1e2)])
def test_units_of_parameters_do_not_matter(reference, scale, shift):
    initial = hpsde.Uniform(shift - scale, shift + scale)
    learner = small.run(small.make(initial=initial), lambda s, xi: small.two_ridges(s, (xi - shift) / scale))
    contexts = small.draw_contexts(7, 25, 1)
    one, other = reference.policy, learner.policy
    assert len(one.options) == len(other.options)
    np.testing.assert_allclose((other.act(contexts) - shift) / scale, one.act(contexts), atol=1e-5)
    for mine, theirs in zip(one.options, other.options, strict=True):
        np.testing.assert_allclose(theirs.covariance / scale**2, mine.covariance, rtol=1e-3)
    grid = np.linspace(-1.0, 1.0, 25)[:, None]
    np.testing.assert_allclose(
        other.log_prob(contexts, grid * scale + shift) + np.log(scale),
        one.log_prob(contexts, grid),
        rtol=1e-3,
    )


@pytest.mark.parametrize(("scale", "shift"), [(1e-6, 0.0), (1.0, 1e4), (1e9, 5e9)])
def test_units_of_contexts_do_not_matter(reference, scale, shift):
    def contexts(round_number, count, context_size):
        return scale * small.draw_contexts(round_number, count, context_size) + shift

    learner = small.run(small.make(), lambda s, xi: small.two_ridges((s - shift) / scale, xi), contexts=contexts)
    some = small.draw_contexts(7, 25, 1)
    np.testing.assert_allclose(learner.policy.act(scale * some + shift), reference.policy.act(some), atol=1e-5)
    np.testing.assert_array_equal(learner.policy.choose(scale * some + shift), reference.policy.choose(some))


def test_order_of_the_first_rollouts_does_not_matter():
    contexts = small.draw_contexts(0, 128, 1)
    parameters = np.random.default_rng(1).uniform(-1.0, 1.0, (128, 1))
    returns = small.two_ridges(contexts, parameters)
    policies = []
    for order in (np.arange(128), np.random.default_rng(2).permutation(128)):
        learner = small.make()
        learner.tell(contexts[order], parameters[order], returns[order])
        policies.append(learner.policy)
    grid = np.linspace(0.0, 2.0, 20)[:, None]
    best = [small.two_ridges(grid, policy.act(grid)).mean() for policy in policies]
    assert [len(policy.options) for policy in policies] == [2, 2]
    assert best[0] == pytest.approx(best[1], abs=0.02)
