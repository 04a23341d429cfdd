"""A policy's answers against their definitions, on policies made by hand with 0, 1 and 2 context numbers."""

import dataclasses

import jax
import numpy as np
import pytest
import scipy.stats
from scipy.spatial.distance import cdist

import handmade
from handmade import by_hand
from hpsde import InputError
from hpsde.gp.kernel import JITTER
from hpsde.policy.hierarchical import _as_key
from hpsde.steps import gating
from hpsde.steps.features import Custom

GATES = ("softmax", "marginal", "gp")
SLOTS = np.flatnonzero(handmade.KEPT)


@pytest.fixture(params=GATES)
def gate(request):
    return request.param


@pytest.fixture(params=[0, 1, 2], ids=lambda S: f"S={S}")
def policy(request, gate):
    return by_hand(gate, context_size=request.param)


def some(policy, count=25, seed=8):
    """Contexts and parameters where the policy lives."""
    generator = np.random.default_rng(seed)
    units = policy.units
    contexts = units.context_centre + units.context_scale * generator.normal(size=(count, policy.context_size))
    return contexts, units.raw_parameters(1.5 * generator.normal(size=(count, policy.parameter_size)))


def truth(policy, contexts):
    """Means [O, C, D] and covariances [O, D, D] of the options in the user's units, written out."""
    units, options = policy.units, policy.standard_options
    phi = (contexts - units.context_centre) / units.context_scale
    to_raw = units.parameter_axes @ np.diag(units.parameter_scale)
    means = [
        (np.asarray(options.b[o]) + phi @ np.asarray(options.w[o])) @ to_raw + units.parameter_centre for o in SLOTS
    ]
    return np.stack(means), np.stack([to_raw.T @ np.asarray(options.Sigma[o]) @ to_raw for o in SLOTS])


def test_sizes(policy):
    assert policy.parameter_size == 2
    assert policy.context_size == len(policy.units.context_centre)
    assert len(policy.options) == 2
    assert [option.index for option in policy.options] == [0, 1]


def test_options_are_the_kept_ones_in_the_users_units(policy):
    contexts, _ = some(policy)
    means, covariances = truth(policy, contexts)
    np.testing.assert_allclose(policy.option_means(contexts), means, rtol=1e-12)
    for o, option in enumerate(policy.options):
        np.testing.assert_allclose(option.mean(contexts), means[o], rtol=1e-12)
        np.testing.assert_allclose(option.covariance, covariances[o], rtol=1e-12)
        assert option.mean_return == policy.mean_returns[SLOTS[o]]


def test_action_is_the_mean_of_the_chosen_option(policy):
    contexts, _ = some(policy)
    chosen = policy.choose(contexts)
    assert chosen.shape == (25,)
    assert set(chosen) <= {0, 1}
    np.testing.assert_allclose(policy.act(contexts), truth(policy, contexts)[0][chosen, np.arange(25)], rtol=1e-12)


@pytest.mark.parametrize("S", [1, 2])
def test_softmax_gate_chooses_the_likeliest_kept_option(S):
    policy = by_hand("softmax", context_size=S)
    contexts, _ = some(policy)
    phi = (contexts - policy.units.context_centre) / policy.units.context_scale
    logits = np.hstack([phi, np.ones((25, 1))]) @ np.asarray(policy.gate.theta)[SLOTS].T
    np.testing.assert_array_equal(policy.choose(contexts), np.argmax(logits, axis=1))
    assert len(set(policy.choose(contexts))) == 2


@pytest.mark.parametrize("S", [1, 2])
def test_marginal_gate_chooses_by_bayes_rule(S):
    policy = by_hand("marginal", context_size=S)
    contexts, _ = some(policy)
    standard = (contexts - policy.units.context_centre) / policy.units.context_scale
    gate = policy.gate
    scores = [
        gate.log_share[o] + scipy.stats.multivariate_normal(gate.mean[o], gate.covariance[o]).logpdf(standard)
        for o in SLOTS
    ]
    np.testing.assert_array_equal(policy.choose(contexts), np.argmax(scores, axis=0))


@pytest.mark.parametrize("S", [0, 1, 2])
def test_gp_gate_chooses_by_expected_return(S):
    """The expectation by Monte Carlo over the option's parameters, through the process's own mean."""
    policy = by_hand("gp", context_size=S)
    policy = dataclasses.replace(policy, gate=policy.gate._replace(cautious=False))
    contexts, _ = some(policy, count=3)
    expected = policy.expected_returns(contexts)
    np.testing.assert_array_equal(policy.choose(contexts), np.argmax(expected, axis=0))
    means, covariances = truth(policy, contexts)
    generator = np.random.default_rng(0)
    for o in range(2):
        for c in range(3):
            draws = policy.units.parameters(generator.multivariate_normal(means[o, c], covariances[o], 20_000))
            here = np.repeat(policy.units.contexts(contexts[[c]]), len(draws), axis=0)
            score = process_mean(policy.gate, np.hstack([draws, here])).mean()
            # By hand, a return is 100 + 7 times the score.
            assert 100.0 + 7.0 * score == pytest.approx(expected[o, c], abs=0.15)


@pytest.mark.parametrize("S", [0, 1, 2])
def test_a_cautious_gp_gate_chooses_by_the_return_of_the_mean_parameters_less_its_deviation(S):
    policy = by_hand("gp", context_size=S)
    assert policy.gate.cautious
    contexts, _ = some(policy)
    standard, scores, deviations = policy.units.contexts(contexts), [], []
    for means in truth(policy, contexts)[0]:
        z = np.hstack([policy.units.parameters(means), standard])
        scores.append(process_mean(policy.gate, z))
        deviations.append(process_deviation(policy.gate, z))
    np.testing.assert_allclose(policy.expected_returns(contexts), 100.0 + 7.0 * np.array(scores), rtol=1e-9)
    cautious = np.array(scores) - np.array(deviations)
    np.testing.assert_allclose(policy.gate_scores(contexts), cautious, atol=1e-6)
    np.testing.assert_array_equal(policy.choose(contexts), np.argmax(cautious, axis=0))


def process_kernel(gate, z):
    """k(A z, z_i) [N, P] of the rows in the mask."""
    process = gate.process
    log_lengths, log_signal, _ = map(np.asarray, process.hyperparameters)
    difference = (z @ np.asarray(gate.axes).T - np.asarray(process.centre))[:, None] - points_of(process)[None]
    return np.exp(2.0 * log_signal - 0.5 * np.sum((difference / np.exp(log_lengths)) ** 2, axis=-1))


def points_of(process):
    return np.asarray(process.z)[process.mask]


def process_mean(gate, z):
    """m + sum_i beta_i k(A z, z_i)."""
    return float(gate.process.mean) + process_kernel(gate, z) @ np.asarray(gate.process.beta)[gate.process.mask]


def process_deviation(gate, z):
    """sqrt(signal^2 - k' (K + noise^2 I)^-1 k)."""
    log_lengths, log_signal, log_noise = map(np.asarray, gate.process.hyperparameters)
    points = points_of(gate.process)
    K = np.exp(2.0 * log_signal - 0.5 * cdist(points / np.exp(log_lengths), points / np.exp(log_lengths)) ** 2)
    K += (np.exp(2.0 * log_noise) + JITTER * np.exp(2.0 * log_signal)) * np.eye(len(points))
    kernel = process_kernel(gate, z)
    return np.sqrt(np.exp(2.0 * log_signal) - np.sum(kernel * np.linalg.solve(K, kernel.T).T, axis=1))


def test_an_option_that_was_never_tried_is_taken_only_where_none_was(policy):
    contexts, _ = some(policy)
    free = policy.choose(contexts)
    for tried, wanted in (
        ([True, False, False, True], np.zeros(25)),  # the second and the last slot hold no option
        ([False, True, True, True], np.ones(25)),
        ([True, True, True, True], free),
        ([False, True, False, True], free),
    ):
        chosen = dataclasses.replace(policy, tried=np.array(tried))
        np.testing.assert_array_equal(chosen.choose(contexts), wanted)
        means, _ = truth(policy, contexts)
        np.testing.assert_allclose(chosen.act(contexts), means[chosen.choose(contexts), np.arange(25)], rtol=1e-12)


def test_expected_returns_of_other_gates_are_those_of_the_options():
    for gate in ("softmax", "marginal"):
        policy = by_hand(gate)
        expected = policy.expected_returns([[20.0], [21.0]])
        np.testing.assert_array_equal(expected, np.repeat(policy.mean_returns[SLOTS][:, None], 2, axis=1))


def test_density_is_that_of_the_chosen_option(policy):
    contexts, parameters = some(policy)
    means, covariances = truth(policy, contexts)
    densities = np.array(
        [
            scipy.stats.multivariate_normal(np.zeros(2), covariance).logpdf(parameters - mean)
            for mean, covariance in zip(means, covariances, strict=True)
        ]
    )
    np.testing.assert_allclose(policy.log_option_densities(contexts, parameters), densities, rtol=1e-10)
    chosen = policy.choose(contexts)
    np.testing.assert_allclose(policy.log_prob(contexts, parameters), densities[chosen, np.arange(25)], rtol=1e-10)
    np.testing.assert_array_equal(policy.assign(contexts, parameters), np.argmax(densities, axis=0))


@pytest.mark.parametrize("S", [0, 2])
def test_samples_have_the_moments_of_the_chosen_option(S):
    policy = by_hand(context_size=S)
    contexts = np.repeat(some(policy, count=1)[0], 20_000, axis=0)
    means, covariances = truth(policy, contexts[:1])
    chosen = policy.choose(contexts[:1])[0]
    draws = policy.sample(3, contexts)
    scale = np.sqrt(np.diagonal(covariances[chosen]))
    correlations = covariances[chosen] / np.outer(scale, scale)
    np.testing.assert_allclose((draws.mean(axis=0) - means[chosen, 0]) / scale, 0.0, atol=0.04)
    np.testing.assert_allclose(np.cov(draws.T / scale[:, None]), correlations, atol=0.05)


def test_seed_or_key_decides_the_sample(policy):
    contexts, _ = some(policy)
    draws = policy.sample(7, contexts)
    np.testing.assert_array_equal(draws, policy.sample(np.int64(7), contexts))
    np.testing.assert_array_equal(draws, policy.sample(jax.random.key(7), contexts))
    assert not np.array_equal(draws, policy.sample(8, contexts))


@pytest.mark.parametrize("key", [None, "seed", 0.5, 2**63, np.zeros(3, dtype=np.uint32), np.zeros(2), [1, 2]])
def test_what_is_neither_seed_nor_key_is_refused(key):
    with pytest.raises(InputError, match="key: expected a JAX key or a seed, a whole number below 2\\^63; got"):
        _as_key(key)


def test_keys_of_the_old_kind_will_do(policy):
    contexts, _ = some(policy)
    old = jax.random.key_data(jax.random.key(7))
    np.testing.assert_array_equal(policy.sample(old, contexts), policy.sample(7, contexts))


# Single contexts, many contexts, none


@pytest.mark.parametrize("S", [1, 2])
def test_one_context_gives_one_action(S, gate):
    policy = by_hand(gate, context_size=S)
    contexts, parameters = some(policy)
    actions = policy.act(contexts)
    assert actions.shape == (25, 2)
    np.testing.assert_array_equal(policy.act(contexts[4]), actions[4])
    np.testing.assert_array_equal(policy.act(contexts[4].tolist()), actions[4])
    assert policy.act(contexts[4:5]).shape == (1, 2)
    assert policy.sample(0, contexts[4]).shape == (2,)
    np.testing.assert_allclose(
        policy.log_prob(contexts[4], parameters),
        policy.log_prob(np.repeat(contexts[4:5], 25, axis=0), parameters),
        rtol=1e-12,
    )
    if S == 1:
        np.testing.assert_array_equal(policy.act(float(contexts[4, 0])), actions[4])
        np.testing.assert_array_equal(policy.act(contexts[:, 0]), actions)


def test_no_context_gives_one_action(gate):
    policy = by_hand(gate, context_size=0)
    assert policy.act().shape == policy.sample(0).shape == (2,)
    np.testing.assert_array_equal(policy.act(np.zeros((3, 0))), np.tile(policy.act(), (3, 1)))
    assert policy.sample(0, np.zeros((5, 0))).shape == (5, 2)
    _, parameters = some(policy)
    np.testing.assert_allclose(
        policy.log_prob(None, parameters), policy.log_prob(np.zeros((25, 0)), parameters), rtol=1e-12
    )
    assert policy.options[0].mean().shape == (1, 2)
    assert policy.choose().shape == (1,)
    assert policy.expected_returns().shape == (2, 1)


@pytest.mark.parametrize(
    ("S", "context", "message"),
    [
        (1, None, "needs a context of 1 numbers; got none"),
        (2, None, "needs a context of 2 numbers; got none"),
        (2, 0.5, r"context must have shape \[N, 2\]; got \[\]"),
        (2, [1.0, 2.0, 3.0], r"context must have shape \[N, 2\]; got \[3\]"),
        (2, [[1.0], [2.0]], r"context must have shape \[N, 2\]; got \[2, 1\]"),
        (1, [np.nan], "context must be finite"),
        (1, [[0.5], [np.inf]], "context must be finite.*row 1"),
        (1, "here", "context must be numbers; got str"),
        (0, 1.0, r"context must have shape \[N, 0\]; got \[\]"),
        (0, [1.0], r"context must have shape \[N, 0\]; got \[1\]"),
    ],
)
def test_contexts_of_another_kind_are_refused(S, context, message):
    with pytest.raises(InputError, match=message):
        by_hand(context_size=S).act(context)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (np.zeros((3, 3)), r"parameters must have shape \[4, 2\]; got \[3, 3\]"),
        (np.zeros((3, 2)), r"parameters must have shape \[4, 2\]; got \[3, 2\]"),
        (np.full((4, 2), np.nan), "parameters must be finite"),
    ],
)
def test_parameters_of_another_kind_are_refused(parameters, message):
    policy = by_hand()
    with pytest.raises(InputError, match=message):
        policy.log_prob(np.zeros((4, 1)), parameters)


def test_features_of_ones_own():
    policy = by_hand(features=Custom(lambda s: np.hstack([s, s**2])), feature_size=2)
    contexts = np.array([[1.0], [2.0]])
    options, units = policy.standard_options, policy.units
    phi = np.array([[1.0, 1.0], [2.0, 4.0]])
    for o, slot in enumerate(SLOTS):
        mean = np.asarray(options.b[slot]) + phi @ np.asarray(options.w[slot])
        np.testing.assert_allclose(policy.options[o].mean(contexts), units.raw_parameters(mean), rtol=1e-12)


def test_answers_do_not_depend_on_the_other_contexts(gate):
    """Contexts are padded to few sizes; what is asked beside them changes nothing."""
    policy = by_hand(gate)
    contexts, parameters = some(policy, count=100)
    np.testing.assert_allclose(policy.act(contexts)[:7], policy.act(contexts[:7]), rtol=1e-12)
    np.testing.assert_allclose(
        policy.log_prob(contexts, parameters)[:7], policy.log_prob(contexts[:7], parameters[:7]), rtol=1e-10
    )
    np.testing.assert_allclose(
        policy.expected_returns(contexts)[:, :7], policy.expected_returns(contexts[:7]), rtol=1e-10
    )


def test_answers_are_64_bit_whatever_the_users_setting(policy):
    contexts, parameters = some(policy)
    with jax.enable_x64(False):
        action, density = policy.act(contexts), policy.log_prob(contexts, parameters)
        draws = policy.sample(0, contexts)
    np.testing.assert_array_equal(action, policy.act(contexts))
    np.testing.assert_array_equal(density, policy.log_prob(contexts, parameters))
    np.testing.assert_array_equal(draws, policy.sample(0, contexts))


# The summary


def test_summary_says_where_each_option_rules():
    policy = by_hand("softmax", context_size=1)
    text = str(policy)
    assert text == policy.summary()
    lines = text.splitlines()
    assert lines[0] == "2 options, 2 in use, gate: softmax; learned from 30 rollouts"
    contexts = policy.known_contexts
    chosen = policy.choose(contexts)
    for o, option in enumerate(policy.options):
        here = contexts[chosen == o, 0]
        share = 100 * len(here) / len(contexts)
        assert lines[1 + 3 * o] == (
            f"  option {o + 1}: best in {share:.0f} % of the contexts, s {here.min():.4g} to {here.max():.4g}"
        )
        deviation = np.sqrt(np.diagonal(option.covariance))
        assert lines[2 + 3 * o].endswith(f"deviation {deviation[0]:.3g}, {deviation[1]:.3g}")
        assert lines[3 + 3 * o] == f"    expected return {option.mean_return:.6g}"


def test_summary_shows_what_is_expected_beside_what_was_measured():
    policy = dataclasses.replace(
        by_hand("gp"), measured_returns=np.array([-0.109, 7.0, 2.5, 7.0]), measured_rollouts=np.array([12, 3, 1, 3])
    )
    contexts, lines = policy.known_contexts, [line for line in str(policy).splitlines() if "expected" in line]
    expected, unsure = policy.expected_returns(contexts), policy.expected_deviations(contexts)
    chosen = policy.choose(contexts)
    rollouts = ["-0.109 (mean of its newest 12 rollouts)", "2.5 (mean of its one rollout)"]
    for option, line in enumerate(lines):
        rules = chosen == option
        elsewhere = "" if rules.any() else " where it is not chosen"
        here = rules if rules.any() else np.full(len(contexts), True)
        mean, deviation = expected[option, here].mean(), unsure[option, here].mean()
        assert line == f"    expected return {mean:.4g} +- {deviation:.2g}{elsewhere}, measured {rollouts[option]}"
    measured = [(option.measured_return, option.measured_rollouts) for option in policy.options]
    assert measured == [(-0.109, 12), (2.5, 1)]
    untried = dataclasses.replace(policy, measured_rollouts=np.array([12, 3, 0, 3]))
    assert untried.options[1].measured_return is None
    assert "measured" not in str(untried).splitlines()[-1]


@pytest.mark.parametrize("cautious", [True, False])
def test_deviation_of_the_expected_return_is_the_processs_own(cautious):
    """In the user's units, where the warp is a line; without a Gaussian process nobody knows it."""
    policy = by_hand("gp")
    policy = dataclasses.replace(policy, gate=policy.gate._replace(cautious=cautious))
    contexts, gate = policy.known_contexts[:5], policy.gate
    asked = policy.standard_options, policy.kept, policy.features(contexts), policy.units.contexts(contexts)
    if cautious:
        _, deviation = gating.returns_in_use(gate, *asked)
    else:
        _, deviation = gating.gp_moments(gate.process, *asked, gate.axes, of_return=False)
    wanted = 7.0 * np.asarray(deviation)[policy.kept][:, :5]
    np.testing.assert_allclose(policy.expected_deviations(contexts), wanted, rtol=1e-9)
    assert np.all(np.isnan(by_hand("softmax").expected_deviations(contexts)))


def test_options_keep_their_number():
    policy = dataclasses.replace(by_hand("softmax"), numbers=np.array([7, 0, 3, 0]))
    assert [(option.index, option.number) for option in policy.options] == [(0, 7), (1, 3)]
    names = [line.split(":")[0] for line in policy.summary().splitlines() if line.startswith("  option")]
    assert names == ["  option 7", "  option 3"]
    assert [option.number for option in by_hand("softmax").options] == [1, 2]


def test_summary_ends_with_the_doubts():
    policy = by_hand("gp")
    assert "oubt" not in str(policy)
    doubtful = dataclasses.replace(policy, doubts=handmade.DOUBTS)
    assert str(doubtful).splitlines() == [
        *str(policy).splitlines(),
        "Doubts:",
        "  unexplained: The model explains 10 % of the returns' variance: run more rollouts. Ω",
        "  wide: Option 5 is wide.",
    ]


def test_summary_without_contexts():
    lines = by_hand("gp", context_size=0).summary().splitlines()
    assert lines[0] == "2 options, 1 in use, gate: gp; learned from 30 rollouts"
    assert sorted(line[12:] for line in lines if line.startswith("  option")) == ["not the best", "the best"]
    assert sum("where it is not chosen" in line for line in lines) == 1
    assert all(" to " not in line for line in lines)


def test_summary_with_two_context_numbers():
    text = by_hand("marginal", context_size=2).summary()
    assert "s1 " in text
    assert "s2 " in text
    assert "xi1 " in text


def test_summary_of_many_numbers_is_cut_short():
    text = by_hand("marginal", context_size=0, parameter_size=6).summary()
    assert "xi4 " in text
    assert "xi5 " not in text
    assert text.count(", ...") == 4


def test_policies_are_compared_by_identity():
    policy = by_hand()
    assert policy == policy
    assert policy != by_hand()
    assert len({policy, by_hand()}) == 2
