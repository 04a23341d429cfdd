"""The dual behind return weights and REPS: against scipy's optimisers on the problem written out in numpy."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from hpsde.steps import dual, reps

N, F, EPSILON = 40, 2, 0.7
solve = reps.solve


def make_data(seed=0, shift=3.0, scale=5.0):
    """Returns that depend on the features; features far from 0, of unequal size; uneven base and target."""
    rng = np.random.default_rng(seed)
    features = rng.normal([10.0, -2.0], [3.0, 0.1], size=(N, F))
    returns = shift + scale * (0.3 * (features[:, 0] - 10.0) + rng.normal(size=N))
    base, target = rng.uniform(0.2, 2.0, size=N), rng.uniform(0.5, 1.5, size=N)
    return returns, features, base, target


def wanted_feature(features, target):
    return target @ features / target.sum()


def unstandardised(tilted, features, target):
    """eta and v for the features as given, from u = v / eta for the standardised ones."""
    share = target / target.sum()
    deviation = np.sqrt(share @ (features - share @ features) ** 2)
    eta = float(tilted.temperature)
    return eta, eta * np.asarray(tilted.u) / deviation


def dual_function(eta, v, returns, features, base, target, epsilon):
    """g(eta, v) = eta epsilon + phi_hat'v + eta log sum_i q_i exp((R_i - phi_i'v) / eta)."""
    log_q = np.log(base / base.sum())
    constraint = wanted_feature(features, target) @ v
    return eta * epsilon + constraint + eta * logsumexp(log_q + (returns - features @ v) / eta)


@pytest.fixture
def no_ridge(monkeypatch):
    """`solve` with a ridge so small that the feature constraint holds to rounding."""
    monkeypatch.setattr(dual, "FEATURE_RIDGE", 1e-10)
    return reps.solve


# ---------------------------------------------------------------- parts


def test_effective_sample_size_counts_equal_weights_and_ignores_zeros():
    w = np.array([0.2, 1.7, 0.4, 3.0])
    assert_allclose(dual.effective_sample_size(np.log(w)), w.sum() ** 2 / np.sum(w**2), rtol=1e-12)
    with_zeros = np.concatenate([np.log(w), np.full(3, -np.inf)])
    assert_allclose(dual.effective_sample_size(with_zeros), w.sum() ** 2 / np.sum(w**2), rtol=1e-12)
    assert_allclose(dual.effective_sample_size(np.full(17, -1234.5)), 17.0, rtol=1e-10)
    assert_allclose(dual.effective_sample_size(np.array([0.0, -800.0])), 1.0, rtol=1e-12)


def test_kl_divergence_is_scipys_relative_entropy():
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(9)), rng.dirichlet(np.ones(9))
    p[[2, 5]] = 0.0
    p /= p.sum()
    log_p, log_q = dual.log_normalised(np.asarray(p)), dual.log_normalised(np.asarray(q))
    assert_allclose(dual.kl_divergence(log_p, log_q), scipy.stats.entropy(p, q), rtol=1e-12)
    q[2] = 0.0  # where both are 0 there is nothing to compare
    log_q = dual.log_normalised(np.asarray(q))
    assert_allclose(dual.kl_divergence(log_p, log_q), scipy.stats.entropy(p, q / q.sum()), rtol=1e-12)


def test_log_normalised():
    weights = np.array([3.0, 0.0, 1e-200, 5.0])
    logs = np.asarray(dual.log_normalised(np.asarray(weights)))
    assert_allclose(np.exp(logs), weights / 8.0, rtol=1e-12)
    assert_allclose(logs[2], np.log(1e-200) - np.log(8.0), rtol=1e-12)
    assert np.isneginf(logs[1])


def test_standardised_features_have_mean_0_and_deviation_1_under_the_weights():
    _, features, base, _ = make_data()
    constant = np.column_stack([features, np.full(N, 7.1)])
    standard = np.asarray(dual.standardise_features(np.asarray(constant), np.log(base)))
    assert_allclose(np.average(standard[:, :F], axis=0, weights=base), 0.0, atol=1e-12)
    assert_allclose(np.average(standard[:, :F] ** 2, axis=0, weights=base), 1.0, rtol=1e-12)
    assert_allclose(np.corrcoef(standard[:, 0], features[:, 0])[0, 1], 1.0, rtol=1e-12)
    assert_array_equal(standard[:, F], 0.0)


def test_return_spread_is_the_weighted_deviation_and_1_for_equal_returns():
    returns, _, base, _ = make_data()
    mean = np.average(returns, weights=base)
    truth = np.sqrt(np.average((returns - mean) ** 2, weights=base))
    assert_allclose(dual.return_spread(np.asarray(returns), np.log(base)), truth, rtol=1e-12)
    assert_allclose(dual.return_spread(np.full(N, 0.1), np.log(base)), 1.0)


def test_matched_features_minimise_the_stated_objective():
    returns, features, base, _ = make_data(2)
    standard = np.asarray(dual.standardise_features(np.asarray(features), np.zeros(N)))
    log_tilted = np.log(base) + returns / 4.0

    def objective(u):
        return logsumexp(log_tilted - standard @ u) + 0.5 * dual.FEATURE_RIDGE * u @ u

    truth = scipy.optimize.minimize(objective, np.ones(F), method="BFGS", options={"gtol": 1e-10}).x
    match = dual.match_features
    log_d, u = match(log_tilted, standard, np.zeros(F))
    assert_allclose(u, truth, rtol=1e-5)
    assert_allclose(np.exp(log_d).sum(), 1.0, rtol=1e-12)
    # A start far away leads to the same weights: the objective is convex.
    far, _ = match(log_tilted, standard, np.array([8.0, -8.0]))
    assert_allclose(np.exp(far), np.exp(log_d), rtol=1e-6, atol=1e-12)


def test_a_mean_out_of_reach_leaves_finite_weights():
    one_sided = np.asarray(np.random.default_rng(3).uniform(0.5, 2.0, size=(N, 1)))
    log_d, u = dual.match_features(np.zeros(N), one_sided, np.zeros(1))
    assert np.isfinite(u).all()
    assert_allclose(np.exp(log_d).sum(), 1.0, rtol=1e-12)
    # As near to the mean as can be: nearly all weight on the smallest feature.
    assert np.exp(log_d) @ np.asarray(one_sided[:, 0]) < float(one_sided.min()) + 0.02


# ---------------------------------------------------------------- the optimum of REPS


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 2.0])
def test_the_kl_bound_holds_with_equality(epsilon):
    returns, features, base, target = make_data()
    d = np.exp(solve(returns, features, base, target, epsilon).log_weights)
    assert_allclose(d.sum(), 1.0, rtol=1e-12)
    assert_allclose(scipy.stats.entropy(d, base), epsilon, rtol=1e-6)


def test_features_keep_their_mean_up_to_the_ridge():
    returns, features, base, target = make_data()
    tilted = solve(returns, features, base, target, EPSILON)
    share = target / target.sum()
    standard = (features - share @ features) / np.sqrt(share @ (features - share @ features) ** 2)
    mismatch = np.exp(tilted.log_weights) @ standard
    assert_allclose(mismatch, dual.FEATURE_RIDGE * np.asarray(tilted.u), rtol=1e-5)
    assert np.abs(mismatch).max() < 0.01
    # Without the constraint the weights would have left the mean by far.
    free = np.exp(solve(returns, np.zeros((N, 0)), base, target, EPSILON).log_weights)
    assert np.abs(free @ standard).max() > 0.2


def test_the_optimum_is_that_of_scipy(no_ridge):
    data = make_data()
    epsilon = EPSILON

    def objective(x):
        return dual_function(np.exp(x[0]), x[1:], *data, epsilon)

    eta, v = unstandardised(no_ridge(*data, epsilon), data[1], data[3])
    start = np.concatenate([[np.log(data[0].std())], np.zeros(F)])
    truth = scipy.optimize.minimize(
        objective, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 10_000}
    )
    assert_allclose(eta, np.exp(truth.x[0]), rtol=1e-4)
    assert_allclose(v, truth.x[1:], rtol=1e-4)
    assert_allclose(objective(np.concatenate([[np.log(eta)], v])), truth.fun, rtol=1e-10)


def test_the_gradient_of_the_dual_vanishes_at_the_optimum_and_grows_away_from_it(no_ridge):
    data = make_data(4)
    eta, v = unstandardised(no_ridge(*data, EPSILON), data[1], data[3])
    optimum = np.concatenate([[eta], v])

    def g(x):
        return dual_function(x[0], x[1:], *data, EPSILON)

    step = 1e-4 * np.abs(optimum)
    for axis in range(1 + F):
        e = np.zeros(1 + F)
        e[axis] = step[axis]
        slope = (g(optimum + e) - g(optimum - e)) / (2.0 * step[axis])
        assert abs(slope) * abs(optimum[axis]) < 1e-5 * abs(g(optimum))
    rng = np.random.default_rng(0)
    for _ in range(20):
        direction = 0.1 * optimum * rng.normal(size=1 + F)
        along = [g(optimum + t * direction) for t in np.linspace(-1.0, 1.0, 21)]
        assert min(along) >= g(optimum) - 1e-12
        assert np.diff(along, 2).min() > 0.0  # convex


def test_the_weights_solve_the_primal_problem(no_ridge):
    """max sum_i d_i R_i  with  KL(d || q) <= epsilon,  sum_i d_i phi_i = phi_hat,  sum_i d_i = 1, by SLSQP.

    SLSQP sees the 12 samples that have weight, the dual sees all of them.
    """
    returns, features, base, target = make_data(5)
    base[12:] = target[12:] = 0.0
    R, phi, q, phi_hat = returns[:12], features[:12], base[:12] / base.sum(), wanted_feature(features, target)
    constraints = [
        {"type": "eq", "fun": lambda d: d.sum() - 1.0},
        {"type": "eq", "fun": lambda d: d @ phi - phi_hat},
        {"type": "ineq", "fun": lambda d: 0.4 - np.sum(d * np.log(d / q))},
    ]
    options = {"maxiter": 500, "ftol": 1e-12}
    truth = scipy.optimize.minimize(
        lambda d: -(d @ R),
        q,
        method="SLSQP",
        constraints=constraints,
        bounds=[(1e-9, 1.0)] * 12,
        options=options,
    )
    assert truth.success
    tilted = no_ridge(returns, features, base, target, 0.4)
    d = np.exp(tilted.log_weights)
    assert_allclose(d[:12], truth.x, atol=1e-4)
    assert_array_equal(d[12:], 0.0)
    # Strong duality: the dual's least value is the primal's highest.
    eta, v = unstandardised(tilted, features, target)
    assert_allclose(dual_function(eta, v, R, phi, base[:12], target[:12], 0.4), -truth.fun, rtol=1e-6)


# ---------------------------------------------------------------- what must not matter


@pytest.mark.parametrize(("shift", "scale"), [(-1e4, 1.0), (0.0, 1e-6), (5e3, 1e5)])
def test_shifted_and_scaled_returns_have_the_same_weights(shift, scale):
    returns, features, base, target = make_data()
    plain = solve(returns, features, base, target, EPSILON)
    changed = solve(shift + scale * returns, features, base, target, EPSILON)
    assert_allclose(changed.log_weights, plain.log_weights, rtol=1e-6)
    assert_allclose(changed.temperature, scale * plain.temperature, rtol=1e-6)


def test_shifted_and_scaled_features_and_weights_have_the_same_result():
    returns, features, base, target = make_data()
    plain = solve(returns, features, base, target, EPSILON)
    changed = solve(returns, 1e3 - features * np.array([1e-4, 50.0]), 12.0 * base, 0.01 * target, EPSILON)
    assert_allclose(changed.log_weights, plain.log_weights, rtol=1e-6)


def test_the_order_of_the_samples_does_not_matter():
    data = make_data()
    order = np.random.default_rng(0).permutation(N)
    plain = solve(*data, EPSILON).log_weights
    assert_allclose(solve(*(part[order] for part in data), EPSILON).log_weights, plain[order], rtol=1e-6)


def test_what_a_sample_of_weight_zero_holds_does_not_matter():
    returns, features, base, target = make_data()
    gone = np.arange(N) % 3 == 0
    base[gone] = target[gone] = 0.0
    d = np.exp(solve(returns, features, base, target, EPSILON).log_weights)
    returns[gone], features[gone] = 1e3, -50.0
    changed = np.exp(solve(returns, features, base, target, EPSILON).log_weights)
    assert_array_equal(changed[gone], 0.0)
    assert_allclose(changed, d, rtol=1e-6)


def test_two_parts_of_a_sample_share_its_weight():
    returns, features, base, target = make_data()
    base[5:10] = target[5:10] = 0.0
    d = np.exp(solve(returns, features, base, target, EPSILON).log_weights)
    for part in (returns, features, base, target):
        part[5:10] = part[:5]
    for part in (base, target):
        part[:5] *= 0.25
        part[5:10] *= 0.75
    split = np.exp(solve(returns, features, base, target, EPSILON).log_weights)
    assert_allclose(split[:5], 0.25 * d[:5], rtol=1e-6)
    assert_allclose(split[5:10], 0.75 * d[:5], rtol=1e-6)
    assert_allclose(split[10:], d[10:], rtol=1e-6)


# ---------------------------------------------------------------- ends of the range


@pytest.mark.parametrize("value", [0.0, -3.7, 1e6])
def test_equal_returns_leave_the_base_weights(value):
    _, features, base, _ = make_data()
    d = np.exp(solve(np.full(N, value), features, base, base, EPSILON).log_weights)
    assert_allclose(d, base / base.sum(), rtol=1e-6)


def test_without_features_the_weights_are_a_softmax():
    returns, _, base, target = make_data()
    tilted = solve(returns, np.zeros((N, 0)), base, target, EPSILON)
    direct = base * np.exp((returns - returns.max()) / float(tilted.temperature))
    assert_allclose(np.exp(tilted.log_weights), direct / direct.sum(), rtol=1e-9)
    constant = solve(returns, np.full((N, F), 4.2), base, target, EPSILON)
    assert_allclose(constant.log_weights, tilted.log_weights, rtol=1e-6)


def test_a_bound_out_of_reach_takes_the_best_samples_alone():
    returns, _, base, target = make_data()
    best = np.argsort(returns)[-10:]
    returns[best] = returns.max()
    d = np.exp(solve(returns, np.zeros((N, 0)), base, target, 50.0).log_weights)
    assert_allclose(d[best], base[best] / base[best].sum(), rtol=1e-6)
    assert_allclose(d[best].sum(), 1.0, rtol=1e-12)


def test_features_are_kept_where_the_base_is_biased():
    """The base weights prefer high features; the weights must come back to the target's mean."""
    returns, features, _, target = make_data(6)
    base = np.exp(features[:, 0] / 6.0)
    d = np.exp(solve(returns, features, base, target, EPSILON).log_weights)
    wanted = wanted_feature(features, target)
    assert abs(base @ features[:, 0] / base.sum() - wanted[0]) > 1.0
    assert_allclose(d @ features, wanted, atol=0.02 * features.std(axis=0).max())
