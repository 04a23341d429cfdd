"""Data that fail, carry little, or come in odd units: the policy is always finite, and units never matter."""

import numpy as np
import pytest

import hpsde
import small
from hpsde import AskTellError, InputError, LearningError
from hpsde.steps.rollouts import INITIAL

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


@pytest.mark.parametrize("contexts", [np.array([[0.0], [1.0], [2.0]]), np.eye(3)], ids=["numbers", "one of three"])
def test_contexts_of_few_values(contexts):
    """Three contexts, with best parameters that have nothing to do with one another: features are collinear there."""
    best = np.array([[-1.5, 0.5], [1.2, -0.2], [0.0, 1.6]])

    def returns(context, parameters):
        which = int(np.argmin(np.sum((contexts - context) ** 2, axis=1)))
        return float(np.exp(-0.5 * (np.min(np.abs(parameters - best[which])) / 0.2) ** 2))

    policy = hpsde.learn(
        returns, contexts=contexts, initial=hpsde.Uniform(-2.2, 2.2), rollouts=450, seed=0, progress=False
    )
    assert np.all(np.isfinite(policy.option_means(contexts)))
    found = [returns(*each) for each in zip(contexts, policy.act(contexts), strict=True)]
    assert np.min(found) > 0.9


@pytest.mark.parametrize("gate", ["gp", "softmax", "marginal"])
def test_contexts_and_parameters_that_repeat(gate):
    """Two parameters and one context, again and again: nothing varies between rollouts of the same option."""
    learner = small.run(small.make(gate=gate, initial=COPIES), contexts=constant)
    small.assert_sound(learner.policy, np.full((5, 1), 1.3))
    # Between two points the model knows a slope alone, and follows it: right, or not without a doubt.
    assert learner.policy.act([1.3])[0] == pytest.approx(-0.55, abs=0.1) or learner.policy.doubts


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


def test_two_samples_of_seven_parameters():
    """Along six axes the first rollouts vary by rounding alone, what comes later by more."""
    samples = np.random.default_rng(0).uniform(-1.0, 1.0, (2, 7))
    learner = small.run(small.make(0, 7, initial=hpsde.Samples(samples), initial_rollouts=30), rounds=(40, 40, 40))
    small.assert_sound(learner.policy)


@pytest.mark.parametrize("rounds", [(2, 1, 1), (3, 3, 3)])
def test_fewer_rollouts_than_dimensions(rounds):
    """Two or three rollouts of six parameters."""
    learner = small.run(small.make(0, 6, initial_rollouts=rounds[0]), rounds=rounds)
    assert np.all(learner.rollouts.option[rounds[0] :] >= 0)
    small.assert_sound(learner.policy)
    assert learner.policy.act().shape == (6,)


# Units. The learner sees the same numbers in other units and must do the same. Refinement chooses its rollouts one by
# one, and rounding may turn a choice: what is reached with it is compared by its return.


@pytest.fixture(scope="module")
def reference():
    return small.learned(refine=False)


def test_units_do_not_matter_for_what_is_reached():
    scale, shift, contexts = 1e-6, 1e2, small.draw_contexts(7, 25, 1)
    initial = hpsde.Uniform(shift - scale, shift + scale)
    learner = small.run(small.make(initial=initial), lambda s, xi: small.two_ridges(s, (xi - shift) / scale))
    one, other = small.learned().policy.act(contexts), (learner.policy.act(contexts) - shift) / scale
    lost = [1.0 - small.two_ridges(contexts, each).mean() for each in (one, other)]
    np.testing.assert_allclose(lost[0], lost[1], atol=5e-4)
    assert np.max(lost) < 0.005  # so few rollouts leave up to 0.002, by the seed


@pytest.mark.parametrize("scale", [2.0**320, 2.0**-300])
def test_returns_next_to_the_largest_and_smallest_are_refined(scale):
    """Squared losses are squared once more there; warnings are errors."""
    learner = small.run(small.make(), lambda s, xi: scale * small.two_ridges(s, xi))
    contexts = small.draw_contexts(7, 25, 1)
    lost = [1.0 - small.two_ridges(contexts, each.policy.act(contexts)).mean() for each in (small.learned(), learner)]
    np.testing.assert_allclose(*lost, atol=1e-6)


# Steps on the model are in single precision; over three learning steps its rounding grows to 1e-4 of a length where
# options may bend.
@pytest.mark.parametrize(("features", "rounding"), [("linear", 1e-5), ("automatic", 3e-5)])
@pytest.mark.parametrize(("scale", "shift"), [(1e9, 1e6), (1e-9, 0.0), (1.0, -1e6), (3.0, 50.0)])
def test_units_of_returns_do_not_matter(scale, shift, features, rounding):
    reference = small.learned(features=features, refine=False)
    learner = small.run(
        small.make(features=features, refine=False), lambda s, xi: scale * small.two_ridges(s, xi) + shift
    )
    contexts = small.draw_contexts(7, 25, 1)
    one, other = reference.policy, learner.policy
    assert len(one.options) == len(other.options)
    np.testing.assert_allclose(learner.rollouts.parameters, reference.rollouts.parameters, atol=rounding)
    np.testing.assert_allclose(other.act(contexts), one.act(contexts), atol=3.0 * rounding)
    np.testing.assert_allclose(
        other.expected_returns(contexts), scale * one.expected_returns(contexts) + shift, atol=1e-4 * scale
    )
    assert learner.info.temperature == pytest.approx(scale * reference.info.temperature, rel=1e-4)
    assert learner.info.ess == pytest.approx(reference.info.ess, rel=1e-4)


@pytest.mark.parametrize(("scale", "shift"), [(1e-6, 0.0), (1.0, 1e4), (1e9, -1e9), (1e-6, 1e2)])
def test_units_of_parameters_do_not_matter(reference, scale, shift):
    initial = hpsde.Uniform(shift - scale, shift + scale)
    learner = small.run(
        small.make(initial=initial, refine=False), lambda s, xi: small.two_ridges(s, (xi - shift) / scale)
    )
    contexts = small.draw_contexts(7, 25, 1)
    one, other = reference.policy, learner.policy
    assert len(one.options) == len(other.options)
    np.testing.assert_allclose((other.act(contexts) - shift) / scale, one.act(contexts), atol=1e-5)
    for mine, theirs in zip(one.options, other.options, strict=True):
        np.testing.assert_allclose(theirs.covariance / scale**2, mine.covariance, rtol=1e-3)
    grid = np.linspace(-1.0, 1.0, 25)[:, None]
    wanted = one.log_prob(contexts, grid)
    error = np.abs(other.log_prob(contexts, grid * scale + shift) + np.log(scale) - wanted)
    # A log density may be next to 0; and beside an option a hundredth wide, 1e-5 more or less are some thousandths.
    moved = [np.abs(one.log_prob(contexts, grid + step) - wanted) for step in (-1e-5, 1e-5)]
    assert np.all(error < 1e-3 + 1e-3 * np.abs(wanted) + np.max(moved, axis=0))


@pytest.mark.parametrize(("scale", "shift"), [(1e-6, 0.0), (1.0, 1e4), (1e9, 5e9)])
def test_units_of_contexts_do_not_matter(reference, scale, shift):
    def contexts(round_number, count, context_size):
        return scale * small.draw_contexts(round_number, count, context_size) + shift

    def returns(s, xi):
        return small.two_ridges((s - shift) / scale, xi)

    learner = small.run(small.make(refine=False), returns, contexts=contexts)
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


# Failed rollouts


def test_failed_rollouts_are_recorded_and_left_out():
    contexts, parameters = small.own_data()
    returns = small.two_ridges(contexts, parameters)
    failed = np.arange(len(returns)) % 9 == 4
    broken, whole = small.make(), small.make()
    broken.tell(contexts, parameters, np.where(failed, np.nan, returns), failed=failed)
    whole.tell(contexts[~failed], parameters[~failed], returns[~failed])
    assert (broken.info.rollouts, broken.info.failed) == (128, failed.sum())
    np.testing.assert_array_equal(np.isnan(broken.rollouts.returns), failed)
    small.assert_same_bits(broken.policy, whole.policy)


def test_the_return_of_a_failed_rollout_does_not_matter():
    learner, contexts = small.make(), small.draw_contexts(0, 8, 1)
    parameters = learner.ask(contexts).parameters
    returns = np.array([1.0, np.nan, np.inf, -np.inf, 1e300, 0.0, 0.0, 0.0])
    failed = [False, True, True, True, True, True, False, False]
    learner.tell(contexts, parameters, returns, failed=failed)
    np.testing.assert_array_equal(learner.rollouts.failed, failed)
    assert np.isnan(learner.rollouts.returns[failed]).all()


def test_all_rollouts_failed():
    learner = small.make()
    contexts = small.draw_contexts(0, 6, 1)
    for _ in range(2):
        learner.tell(contexts, learner.ask(contexts).parameters, np.full(6, np.nan), failed=np.ones(6, bool))
    with pytest.raises(AskTellError, match="at least 2 rollouts that did not fail; 12 were told, 12 of them failed"):
        learner.policy  # noqa: B018
    assert np.all(learner.ask(contexts).option == INITIAL)
    learner.forget_asked()
    small.run(learner)
    small.assert_sound(learner.policy)
    assert learner.info.failed == 12


def test_a_round_that_failed_entirely_changes_no_policy():
    learner = small.run(small.make(scouts=0.0), rounds=(128,))
    before, contexts = learner.policy, small.draw_contexts(1, 32, 1)
    proposal = learner.ask(contexts)
    assert np.all(proposal.option >= 0)
    learner.tell(contexts, proposal.parameters, np.zeros(32), failed=np.ones(32, bool))
    assert learner.policy is before
    contexts = small.draw_contexts(2, 32, 1)
    parameters = learner.ask(contexts).parameters
    learner.tell(contexts, parameters, small.two_ridges(contexts, parameters))
    small.assert_sound(learner.policy)


def test_no_policy_without_rollouts():
    learner = small.make()
    with pytest.raises(AskTellError, match=r"at least 2 rollouts .* 0 were told"):
        learner.policy  # noqa: B018
    learner.tell([[0.5]], [[0.5]], [1.0])
    with pytest.raises(AskTellError, match="1 were told"):
        learner.policy  # noqa: B018


@pytest.mark.parametrize("size", [1e36, 1e99])
def test_returns_of_two_values_of_any_size_are_learned_from_or_refused(size):
    contexts, parameters = small.own_data()
    learner = small.make()
    learner.tell(contexts, parameters, np.where(small.two_ridges(contexts, parameters) > 0.5, size, -size))
    try:
        policy = learner.policy
    except LearningError as error:
        assert "HPSDE learned no policy from 128 rollouts" in str(error)  # noqa: PT017
        assert learner.info.updates == 0
    else:
        small.assert_sound(policy)


# Own data


def test_rollouts_may_be_told_without_ask():
    contexts, parameters = small.own_data()
    learner = small.make(scouts=0.0)
    learner.tell(contexts, parameters, small.two_ridges(contexts, parameters))
    small.assert_sound(learner.policy)
    assert len(learner.policy.options) == 2
    assert np.all(learner.ask(contexts[:5]).option >= 0)


def test_told_rollouts_that_the_initial_policy_cannot_make_are_refused():
    contexts, parameters = small.own_data()
    parameters[7] = 1.5
    learner = small.make()
    with pytest.raises(InputError, match=r"row 7, \[1.5\], has density 0 \(1 such\)"):
        learner.tell(contexts, parameters, np.zeros(128))
    learner.tell(contexts, parameters, np.zeros(128), failed=np.arange(128) == 7)
    assert len(learner.rollouts) == 128


def test_looking_at_the_policy_early_leaves_no_trace_in_its_units():
    contexts, parameters = small.own_data()
    returns = small.two_ridges(contexts, parameters)
    curious, patient = small.make(), small.make()
    for part in (slice(0, 3), slice(3, 128)):
        curious.tell(contexts[part], parameters[part], returns[part])
        small.assert_sound(curious.policy)
    patient.tell(contexts, parameters, returns)
    for mine, theirs in zip(curious.policy.units, patient.policy.units, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(curious.policy.features(contexts), patient.policy.features(contexts))
