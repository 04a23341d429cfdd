"""HiREPS: its dual against finite differences, scipy and REPS; its updates; the learner by ask and tell."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp
from scipy.stats import multivariate_normal

import hpsde
import small
from hpsde.learners import hireps, hireps_dual
from hpsde.learners.creps import CREPS
from hpsde.learners.hireps import HiREPS, HiREPSSettings
from hpsde.methods import TUNED
from hpsde.steps import reps
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.softmax import SoftmaxGate
from hpsde.tasks import task_names

EPSILON = 0.8


def random_problem(seed=0, rows=200, options=4, features=2):
    """A problem with uneven base weights; contexts matter for the returns."""
    generator = np.random.default_rng(seed)
    phi = generator.normal(3.0, 2.0, (rows, features))
    returns = 50.0 + 4.0 * generator.normal(size=rows) + phi.sum(axis=1)
    log_base = generator.normal(0.0, 0.5, rows)
    return returns, phi, log_base, log_softmax(2.0 * generator.normal(size=(options, rows)), axis=0)


def solved(arguments, share=0.8, epsilon=EPSILON):
    problem = hireps_dual.make_problem(*arguments)
    return problem, hireps_dual.solve(problem, epsilon=epsilon, kappa=share * hireps_dual.overlap(problem))


def random_points(count, features=2, seed=1):
    """(eta, zeta, v) in the range where the optimum lies."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        yield np.concatenate([generator.uniform([1.0, 0.1], [8.0, 5.0]), generator.normal(0.0, 2.0, features)])


def objective(problem, epsilon, kappa, eta, zeta, v):
    """g(eta, zeta, v) as hireps_dual.py states it, and its gradient [2 + F]."""
    delta = problem.returns - problem.features @ v
    exponent = zeta * problem.log_responsibilities + delta
    logs = problem.log_base + problem.log_responsibilities + exponent / eta
    log_sum = logsumexp(logs)
    p = np.exp(logs - log_sum)
    value = eta * epsilon + zeta * kappa + eta * log_sum
    d_eta = epsilon + log_sum - np.sum(p * exponent) / eta
    d_zeta = kappa + np.sum(p * problem.log_responsibilities)
    return float(value), np.concatenate([[d_eta, d_zeta], -p.sum(axis=0) @ problem.features])


def test_gradient_of_the_dual_agrees_with_finite_differences():
    problem = hireps_dual.make_problem(*random_problem())
    for point in random_points(10):
        _, gradient = objective(problem, EPSILON, 0.4, point[0], point[1], point[2:])
        numbers = []
        for direction in np.eye(len(point)):
            ends = [point + step * direction for step in (1e-5, -1e-5)]
            high, low = (objective(problem, EPSILON, 0.4, x[0], x[1], x[2:])[0] for x in ends)
            numbers.append((high - low) / 2e-5)
        np.testing.assert_allclose(gradient, numbers, rtol=1e-6, atol=1e-7)


def test_dual_is_convex():
    problem = hireps_dual.make_problem(*random_problem())

    def g(x):
        return objective(problem, EPSILON, 0.4, x[0], x[1], x[2:])[0]

    for one, other in itertools.combinations(random_points(12), 2):
        assert g(0.5 * (one + other)) <= 0.5 * (g(one) + g(other)) + 1e-9


@pytest.mark.parametrize(("options", "features", "epsilon"), [(4, 2, 0.8), (2, 0, 0.3), (12, 1, 2.0)])
def test_both_bounds_hold_with_equality_and_features_are_matched(options, features, epsilon):
    problem, solution = solved(random_problem(options=options, features=features), epsilon=epsilon)
    p = np.exp(solution.log_weights)
    log_old = problem.log_responsibilities
    assert solution.zeta > 0.0
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.sum(p * (np.log(p) - problem.log_base - log_old)) == pytest.approx(epsilon, abs=1e-8)
    assert -np.sum(p * log_old) == pytest.approx(0.8 * hireps_dual.overlap(problem), abs=1e-8)
    assert (solution.divergence, solution.overlap) == pytest.approx((epsilon, solution.kappa), abs=1e-8)
    # phi_hat is 0; the ridge leaves a thousandth of v / eta.
    np.testing.assert_allclose(p.sum(axis=0) @ problem.features, 1e-3 * solution.v / solution.eta, atol=1e-8)


def test_weights_have_the_form_of_the_optimum():
    problem, solution = solved(random_problem())
    delta = problem.returns - problem.features @ solution.v
    power = 1.0 + solution.zeta / solution.eta
    logs = problem.log_base + power * problem.log_responsibilities + delta / solution.eta
    np.testing.assert_allclose(solution.log_weights - logs, (solution.log_weights - logs)[0, 0], atol=1e-9)


def test_solution_is_scipys_minimum_of_the_dual():
    problem, solution = solved(random_problem(features=1))

    def g(x):
        return objective(problem, EPSILON, solution.kappa, x[0], x[1], x[2:])

    found = minimize(g, [5.0, 1.0, 0.0], jac=True, bounds=[(1e-3, None), (0.0, None), (None, None)])
    assert g(np.array([solution.eta, solution.zeta, *solution.v]))[0] == pytest.approx(found.fun, abs=1e-4)
    np.testing.assert_allclose([solution.eta, solution.zeta, *solution.v], found.x, rtol=0.02)


def test_no_weights_within_the_bounds_have_a_higher_return():
    """The primal problem itself, by scipy, on few rollouts."""
    problem, solution = solved(random_problem(seed=5, rows=7, options=2, features=1), epsilon=0.3)
    shape, log_old = (2, 7), problem.log_responsibilities
    log_joint = problem.log_base + log_old

    def divergence(x):
        p = x.reshape(shape)
        return np.sum(p * (np.log(p) - log_joint))

    constraints = [
        {"type": "eq", "fun": lambda x: x.sum() - 1.0},
        {"type": "eq", "fun": lambda x: x.reshape(shape).sum(axis=0) @ problem.features[:, 0]},
        {"type": "ineq", "fun": lambda x: 0.3 - divergence(x)},
        {"type": "ineq", "fun": lambda x: solution.kappa + np.sum(x.reshape(shape) * log_old)},
    ]
    best = minimize(
        lambda x: -np.sum(x.reshape(shape) * problem.returns),
        np.exp(log_joint).ravel(),
        constraints=constraints,
        bounds=[(1e-9, 1.0)] * 14,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert best.success
    np.testing.assert_allclose(np.exp(solution.log_weights), best.x.reshape(shape), atol=2e-3)


def test_a_bound_that_does_not_bind_has_no_price():
    problem, solution = solved(random_problem(), share=5.0)
    assert solution.zeta == 0.0
    assert solution.overlap < solution.kappa
    assert solution.divergence == pytest.approx(EPSILON, abs=1e-8)
    # Then the options keep their responsibilities in every rollout.
    shares = np.exp(solution.log_weights) / np.exp(solution.log_weights).sum(axis=0)
    np.testing.assert_allclose(shares, np.exp(problem.log_responsibilities), atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_an_overlap_out_of_reach_leaves_half_of_the_divergence_to_the_returns(share):
    problem, solution = solved(random_problem(), share=share)
    _, free = solved(random_problem(), share=5.0)
    assert solution.divergence == pytest.approx(EPSILON, abs=1e-8)
    assert share * hireps_dual.overlap(problem) < solution.kappa < free.overlap
    assert solution.overlap == pytest.approx(solution.kappa, abs=1e-6)
    mean = np.exp(solution.log_weights).sum(axis=0) @ problem.returns
    assert mean > np.exp(problem.log_base) @ problem.returns


def test_options_that_are_all_alike_cannot_be_parted():
    returns, phi, log_base, log_old = random_problem(options=3)
    _, solution = solved((returns, phi, log_base, np.full_like(log_old, -np.log(3.0))))
    p = np.exp(solution.log_weights)
    assert solution.divergence == pytest.approx(EPSILON, abs=1e-8)
    assert solution.overlap == pytest.approx(np.log(3.0))
    np.testing.assert_allclose(p, np.broadcast_to(p[0], p.shape), atol=1e-12)


def test_one_option_is_contextual_reps():
    returns, phi, log_base, log_old = random_problem(rows=64, options=1)
    _, solution = solved((returns, phi, log_base, log_old))
    base = np.exp(np.asarray(log_base))
    expected = reps.solve(np.asarray(returns), np.asarray(phi), base, base, EPSILON)
    np.testing.assert_allclose(solution.log_weights[0], expected.log_weights, atol=1e-6)
    assert solution.eta == pytest.approx(expected.temperature, rel=1e-6)


def test_units_and_order_do_not_matter():
    returns, phi, log_base, log_old = random_problem()
    _, solution = solved((returns, phi, log_base, log_old))
    _, scaled = solved((-1e4 + 300.0 * returns, 5.0 - 0.01 * phi, log_base + 3.0, log_old))
    np.testing.assert_allclose(scaled.log_weights, solution.log_weights, atol=1e-6)
    assert scaled.eta == pytest.approx(300.0 * solution.eta)
    rows, options = np.random.default_rng(2).permutation(len(returns)), [2, 0, 3, 1]
    _, permuted = solved((returns[rows], phi[rows], log_base[rows], log_old[options][:, rows]))
    np.testing.assert_allclose(permuted.log_weights, solution.log_weights[options][:, rows], atol=1e-6)


def test_a_double_weight_is_two_rollouts():
    returns, phi, log_base, log_old = random_problem()
    _, solution = solved((returns, phi, log_base, log_old))
    twice = np.repeat(np.arange(len(returns)), 2)
    _, doubled = solved((returns[twice], phi[twice], log_base[twice], log_old[:, twice]))
    np.testing.assert_allclose(doubled.log_weights[:, ::2], solution.log_weights - np.log(2.0), atol=1e-6)


def test_equal_returns_leave_sound_weights():
    returns, phi, log_base, log_old = random_problem()
    problem, solution = solved((np.full_like(returns, 7.0), phi, log_base, log_old))
    assert np.all(np.isfinite(solution.log_weights))
    assert solution.overlap == pytest.approx(0.8 * hireps_dual.overlap(problem), abs=1e-6)


@pytest.mark.parametrize("rows", [2, 3, 40])
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 100.0])
def test_hard_returns_leave_sound_weights_within_the_bound(rows, epsilon):
    returns, phi, log_base, log_old = random_problem(seed=3, rows=rows, options=5)
    sharp = np.maximum(log_softmax(200.0 * log_old, axis=0), -700.0)
    crash = np.where(np.arange(rows) == 0, -1e6, returns)
    steps = np.arange(rows) % 2.0
    for values, features in ((crash, phi), (steps, phi), (1e90 * returns, phi), (returns, returns[:, None])):
        _, solution = solved((values, features, log_base, sharp), epsilon=epsilon)
        assert np.exp(solution.log_weights).sum() == pytest.approx(1.0, abs=1e-9)
        assert solution.divergence <= epsilon


def rollouts(count=128):
    generator = np.random.default_rng(11)
    contexts, parameters = generator.uniform(0.0, 2.0, (count, 1)), generator.uniform(-1.0, 1.0, (count, 1))
    return contexts, parameters, small.two_ridges(contexts, parameters)


def two_ridge_data():
    contexts, parameters, returns = rollouts(100)
    return hireps.make_data(contexts - 1.0, parameters, returns, contexts - 1.0)


def hand_made_state():
    """Four slots, one of them left out."""
    b = np.array([[-0.5], [0.0], [0.5], [0.1]])
    w = np.array([[[0.1]], [[0.0]], [[-0.1]], [[0.0]]])
    Sigma = np.array([[[0.2]], [[0.3]], [[0.1]], [[9.0]]])
    theta = np.array([[0.5, 0.0], [-0.5, 0.3], [0.0, 0.0], [2.0, 2.0]])
    options = LinearGaussian(jnp.asarray(b), jnp.asarray(w), jnp.asarray(Sigma))
    return hireps.HiREPSState(options, np.array([True, True, True, False]), SoftmaxGate(jnp.asarray(theta)))


def test_responsibilities_are_those_of_the_old_policy():
    state, data = hand_made_state(), two_ridge_data()
    rows = data.mask
    phi, xi = data.features[rows], data.parameters[rows]
    gate = log_softmax(np.asarray(state.gate.theta)[:3] @ np.concatenate([phi, np.ones((100, 1))], axis=1).T, axis=0)
    b, w, Sigma = (np.asarray(part) for part in state.options[:3])
    densities = [
        [multivariate_normal(b[o] + phi[i] @ w[o], Sigma[o]).logpdf(xi[i]) for i in range(100)] for o in range(3)
    ]
    np.testing.assert_allclose(
        hireps.log_responsibilities(state, data), log_softmax(gate + np.array(densities), axis=0), atol=1e-10
    )


def test_an_update_keeps_its_bounds_and_raises_the_return():
    data, settings = two_ridge_data(), HiREPSSettings(max_options=4)
    state, info = hireps.update(hand_made_state(), data, settings)
    assert info.divergence == pytest.approx(settings.epsilon, abs=1e-8)
    assert info.overlap <= info.kappa + 1e-8
    assert info.options_kept == state.kept.sum() <= 3
    assert np.all(info.mean_returns[state.kept] > data.returns[data.mask].mean())
    assert 1.0 <= info.ess <= 100.0


def test_padding_changes_nothing():
    data, settings = two_ridge_data(), HiREPSSettings(max_options=4)
    rows = len(data.mask) + 70
    generator = np.random.default_rng(4)
    longer = hireps.HiREPSData(*(_with_junk(part, rows, generator) for part in data[:-1]), np.arange(rows) < 100)
    for made in (hireps.start, lambda d, s: hireps.update(hand_made_state(), d, s)[0]):
        one, other = made(data, settings), made(longer, settings)
        np.testing.assert_array_equal(one.kept, other.kept)
        np.testing.assert_allclose(one.options.b, other.options.b, atol=1e-9)
        np.testing.assert_allclose(one.options.Sigma, other.options.Sigma, atol=1e-9)
        np.testing.assert_allclose(one.gate.theta, other.gate.theta, atol=2e-3)


def _with_junk(array, rows, generator):
    return np.concatenate([array[:100], generator.normal(size=(rows - 100, *array.shape[1:]))])


def test_options_with_little_weight_are_left_out_but_for_the_fewest_allowed():
    shares, kept = np.array([0.5, 0.004, 0.49, 0.006, 0.9]), np.array([True, True, True, True, False])
    settings = HiREPSSettings(max_options=5, minimum_share=0.01)
    assert hireps.keep_options(shares, kept, settings).tolist() == [True, False, True, False, False]
    three = HiREPSSettings(max_options=5, minimum_share=0.01, min_options=3)
    assert hireps.keep_options(shares, kept, three).tolist() == [True, False, True, True, False]
    assert hireps.keep_options(shares, kept, HiREPSSettings(max_options=5, minimum_share=1.0)).tolist()[:2] == [1, 0]


def test_the_start_is_spread_and_knows_no_returns():
    data = two_ridge_data()
    state = hireps.start(data, HiREPSSettings(max_options=8))
    assert state.kept.all()
    means = np.asarray(state.options.b)[:, 0]
    assert means.min() < -0.4
    assert means.max() > 0.4
    assert np.sqrt(np.asarray(state.options.Sigma).min()) > 0.1
    other = hireps.start(data._replace(returns=-data.returns), HiREPSSettings(max_options=8))
    np.testing.assert_array_equal(state.options.b, other.options.b)


def test_rollouts_all_alike_start_one_option():
    data = two_ridge_data()
    alike = data._replace(contexts=np.zeros_like(data.contexts), parameters=np.zeros_like(data.parameters))
    assert hireps.start(alike, HiREPSSettings(max_options=8)).kept.sum() == 1


def make(method=HiREPS, context_size=1, parameter_size=1, **changes):
    """A learner for parameters in [-1, 1]."""
    given = {"initial": hpsde.Uniform(-np.ones(parameter_size), 1.0), "initial_rollouts": 128, "expected_rollouts": 288}
    return method(context_size, parameter_size, **(given | {"max_options": 8, "epsilon": 2.0} | changes))


ROUNDS = (128, 32, 32, 32, 32, 32)


@pytest.fixture(scope="module")
def learner():
    return small.run(make(), rounds=ROUNDS)


def test_both_ridges_are_found(learner):
    contexts = small.draw_contexts(98, 50, 1)
    distance = learner.policy.option_means(contexts)[:, :, 0] - 0.1 * contexts[:, 0]
    assert np.abs(np.abs(distance) - 0.6).max() < 0.05
    assert distance.min() < 0.0 < distance.max()
    assert small.two_ridges(contexts, learner.policy.act(contexts)).mean() > 0.9
    small.assert_sound(learner.policy)


def test_one_option_averages_the_ridges():
    policy = small.run(make(CREPS), rounds=ROUNDS).policy
    assert len(policy.options) == 1
    contexts = small.draw_contexts(98, 50, 1)
    assert small.two_ridges(contexts, policy.act(contexts)).mean() < 0.6
    small.assert_sound(policy)


def test_one_option_finds_a_single_ridge():
    policy = small.run(make(CREPS), lambda s, xi: -np.abs(xi[:, 0] - 0.3 * s[:, 0] + 0.2), rounds=ROUNDS).policy
    contexts = small.draw_contexts(98, 50, 1)
    np.testing.assert_allclose(policy.act(contexts)[:, 0], 0.3 * contexts[:, 0] - 0.2, atol=0.02)


@pytest.mark.parametrize(("context_size", "parameter_size"), [(0, 2), (2, 3)])
def test_any_sizes_will_do(context_size, parameter_size):
    policy = small.run(make(context_size=context_size, parameter_size=parameter_size), rounds=ROUNDS).policy
    contexts = small.draw_contexts(98, 50, context_size)
    assert small.two_ridges(contexts, policy.act(contexts)).mean() > 0.7
    small.assert_sound(policy)


def test_options_only_become_fewer():
    learner, counts = make(), []
    for number, count in enumerate(ROUNDS):
        contexts = small.draw_contexts(number, count, 1)
        parameters = learner.ask(contexts).parameters
        learner.tell(contexts, parameters, small.two_ridges(contexts, parameters))
        counts.append(len(learner.policy.options))
        assert learner.info.options_kept == counts[-1]
    assert counts == sorted(counts, reverse=True)
    assert 2 <= counts[-1] < counts[0] <= 8


def test_proposals_come_with_their_density(learner):
    contexts = np.repeat([[0.7]], 400, axis=0)
    proposal = learner.ask(contexts)
    learner.forget_asked()
    policy = learner.policy
    log_gate = log_softmax(policy.gate_scores(contexts[:1]), axis=0)
    means, deviations = policy.option_means(contexts[:1])[:, 0, 0], [o.covariance[0, 0] ** 0.5 for o in policy.options]
    parts = [multivariate_normal(m, d**2).pdf(proposal.parameters) for m, d in zip(means, deviations, strict=True)]
    np.testing.assert_allclose(np.exp(proposal.log_density), np.exp(log_gate[:, 0]) @ np.array(parts), rtol=1e-8)
    shares = np.bincount(proposal.option, minlength=len(means)) / 400
    np.testing.assert_allclose(shares, np.exp(log_gate[:, 0]), atol=0.1)


def test_the_same_seed_gives_the_same_bits(learner):
    again = small.run(make(), rounds=ROUNDS)
    np.testing.assert_array_equal(again.rollouts.parameters, learner.rollouts.parameters)
    small.assert_same_bits(again.policy, learner.policy)


def test_a_saved_policy_comes_back_to_the_bit(learner, tmp_path):
    learner.policy.save(tmp_path / "policy.npz")
    small.assert_same_bits(learner.policy, hpsde.load_policy(tmp_path / "policy.npz"))


def test_units_of_returns_and_parameters_do_not_matter(learner):
    def other_units(contexts, parameters):
        return 40.0 - 3.0 + 1e3 * small.two_ridges(contexts, (parameters - 5.0) / 20.0)

    initial = hpsde.Uniform(5.0 - 20.0, 5.0 + 20.0)
    policy = small.run(make(initial=initial), other_units, rounds=ROUNDS).policy
    contexts = small.draw_contexts(98, 50, 1)
    assert len(policy.options) == len(learner.policy.options)
    np.testing.assert_allclose((policy.act(contexts) - 5.0) / 20.0, learner.policy.act(contexts), atol=1e-4)


def test_failed_rollouts_are_absent_and_a_look_at_the_policy_changes_nothing():
    contexts, parameters, returns = rollouts()
    one, other = make(), make()
    one.tell(contexts, parameters, returns)
    other.tell(contexts[:60], parameters[:60], returns[:60])
    assert other.policy.options
    failed = np.array([True, False, True])
    other.tell(contexts[:3], parameters[:3], np.full(3, 5.0), failed=np.ones(3, dtype=bool))
    other.tell(contexts[59:62], parameters[59:62], np.array([np.nan, returns[60], np.nan]), failed=failed)
    other.tell(contexts[61:], parameters[61:], returns[61:])
    np.testing.assert_allclose(one.policy.option_means(contexts), other.policy.option_means(contexts), atol=1e-9)


def test_a_window_forgets_the_oldest_rollouts():
    contexts, parameters, returns = rollouts(160)
    misleading = np.where(np.arange(160) < 60, 10.0, returns)
    policies = []
    for told, window in ((returns, None), (misleading, 100), (misleading, None)):
        learner = make(window=window)
        learner.tell(contexts, parameters, told)
        policies.append(learner.policy)
    far = [np.abs(np.abs(p.act(contexts)[:, 0] - 0.1 * contexts[:, 0]) - 0.6).mean() for p in policies]
    assert far[1] < 0.2 < far[2]
    assert far[0] < 0.2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must lie between"),
        ({"kappa_share": -1.0}, "kappa_share must lie between"),
        ({"max_options": 2, "min_options": 3}, "min_options must lie between 1 and 2; got 3"),
        ({"window": 1}, "window must be None or at least 2; got 1"),
        ({"features": "cubic"}, "unknown features 'cubic'"),
        ({"kl_bound": 0.1}, "unknown setting 'kl_bound'"),
    ],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(hpsde.HpsdeError, match=message):
        make(**changes)


def test_settings_can_be_given_whole():
    learner = HiREPS(1, 1, initial=hpsde.Uniform(0.0, 1.0), settings=HiREPSSettings(epsilon=0.5), window=300)
    assert (learner.settings.epsilon, learner.settings.window) == (0.5, 300)


def test_tuned_settings_are_settings_of_tasks_that_exist():
    assert set(TUNED) <= set(task_names())
    for settings in TUNED.values():
        assert HiREPSSettings(**settings) != HiREPSSettings()
