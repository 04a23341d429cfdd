"""The three gates and the warp of the returns: scikit-learn, Bayes' rule, Monte Carlo, and properties."""

import jax
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax, softmax
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression

from hpsde import gp
from hpsde.errors import UnknownNameError
from hpsde.gp.kernel import JITTER
from hpsde.gp.warp import CLIP, WARPS, Warp, fit_warp
from hpsde.steps import gating
from hpsde.steps.gate import Optimism
from hpsde.steps.gates import GATES, kind_of, scores
from hpsde.steps.gating import GaussianProcess, GPGate
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.marginal import MarginalGate, fit_marginal, marginal_log_probabilities
from hpsde.steps.softmax import SoftmaxGate, fit_softmax, softmax_log_probabilities

O, N, F = 3, 90, 2
IDENTITY = Warp(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
KEY = jax.random.key(0)


def make_targets(seed=0):
    """Features around three centres, and each sample's weight for each option."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 1.0], [1.0, -1.0], [-1.5, 0.0]])
    option = np.arange(N) % O
    features = centres[option] + 0.8 * rng.normal(size=(N, F))
    targets = rng.dirichlet(np.ones(O), size=N).T * 0.3
    targets[option, np.arange(N)] += rng.uniform(0.2, 2.0, size=N)
    return features, targets


def make_options(D=1):
    rng = np.random.default_rng(1)
    return LinearGaussian(
        np.asarray(rng.normal(size=(O, D))),
        np.asarray(rng.normal(size=(O, F, D))),
        np.full((O, D, D), 0.2),
    )


def choose_options(key, gate, values, temperature):
    """What the gate's kind chooses; a Gaussian process at this temperature."""
    kind = kind_of(gate)
    given = {"exploration_temperature": 1.0} if isinstance(gate, GPGate) else {}
    return kind(**given).choose(key, gate, np.asarray(values), temperature)


# ---------------------------------------------------------------- softmax gate


def test_softmax_regression_is_scikit_learns():
    features, targets = make_targets()
    ridge = 1e-3
    gate = fit_softmax(np.asarray(features), np.asarray(targets), ridge)
    # One row per sample and option. scikit-learn's penalty is |theta|^2 / 2 beside C times the loss.
    design = np.tile(np.column_stack([features, np.ones(N)]), (O, 1))
    model = LogisticRegression(C=1.0 / (2.0 * ridge), fit_intercept=False, tol=1e-10, max_iter=10_000)
    model.fit(design, np.repeat(np.arange(O), N), sample_weight=(targets / targets.sum()).ravel())
    assert_allclose(gate.theta, model.coef_, atol=2e-3)
    probabilities = np.exp(softmax_log_probabilities(gate, np.asarray(features)))
    assert_allclose(probabilities.T, model.predict_proba(design[:N]), atol=1e-4)


def test_softmax_regression_finds_the_optimum_of_its_loss():
    features, targets = make_targets(2)
    design, share = np.column_stack([features, np.ones(N)]), targets / targets.sum()

    def loss(theta):
        theta = theta.reshape(O, F + 1)
        return -np.sum(share * log_softmax(theta @ design.T, axis=0)) + 0.1 * np.sum(theta**2)

    gate = fit_softmax(np.asarray(features), np.asarray(targets), 0.1)
    truth = scipy.optimize.minimize(loss, np.ones(O * (F + 1)), method="BFGS", options={"gtol": 1e-6})
    assert_allclose(gate.theta.ravel(), truth.x, atol=1e-3)
    assert_allclose(loss(np.asarray(gate.theta).ravel()), truth.fun, rtol=1e-7)


def test_softmax_weights_zero_are_absence_and_their_scale_does_not_matter():
    features, targets = make_targets()
    targets[:, ::3] = 0.0
    plain = fit_softmax(np.asarray(features), np.asarray(targets)).theta
    features[::3] = 50.0
    changed = fit_softmax(np.asarray(features), np.asarray(1e4 * targets)).theta
    assert_allclose(changed, plain, atol=2e-3)


def test_softmax_without_features_is_the_share_of_the_weights():
    _, targets = make_targets()
    gate = fit_softmax(np.zeros((N, 0)), np.asarray(targets), 1e-6)
    shares = np.exp(softmax_log_probabilities(gate, np.zeros((4, 0))))
    truth = targets.sum(axis=1) / targets.sum()
    assert_allclose(shares, np.repeat(truth[:, None], 4, axis=1), atol=1e-4)


# ---------------------------------------------------------------- marginal gate


def test_the_marginal_gate_is_bayes_rule():
    contexts, targets = make_targets()
    gate = fit_marginal(np.asarray(contexts), np.asarray(targets))
    likelihood = []
    for weights in targets:
        mean = np.average(contexts, axis=0, weights=weights)
        covariance = np.cov(contexts.T, aweights=weights, ddof=0)
        effective = weights.sum() ** 2 / np.sum(weights**2)
        covariance = (effective * covariance + np.eye(F)) / (effective + 1.0)
        likelihood.append(weights.sum() * scipy.stats.multivariate_normal(mean, covariance).pdf(contexts))
    truth = np.array(likelihood) / np.sum(likelihood, axis=0)
    assert_allclose(np.exp(marginal_log_probabilities(gate, np.asarray(contexts))), truth, rtol=1e-8)


def test_the_marginal_gate_recovers_a_known_mixture():
    """p(o | s) of two Gaussians with known shares, from weights that are the true responsibilities."""
    rng = np.random.default_rng(3)
    option = rng.random(20_000) < 0.3
    contexts = np.where(option, rng.normal(2.0, 0.5, 20_000), rng.normal(-1.0, 1.5, 20_000))
    likelihood = np.array(
        [0.7 * scipy.stats.norm(-1.0, 1.5).pdf(contexts), 0.3 * scipy.stats.norm(2.0, 0.5).pdf(contexts)]
    )
    truth = likelihood / likelihood.sum(axis=0)
    gate = fit_marginal(np.asarray(contexts[:, None]), np.asarray(truth))
    assert_allclose(np.exp(gate.log_share), [0.7, 0.3], atol=0.02)
    assert_allclose(gate.mean[:, 0], [-1.0, 2.0], atol=0.05)
    assert_allclose(gate.covariance[:, 0, 0], [1.5**2, 0.5**2], rtol=0.05)
    found = np.exp(marginal_log_probabilities(gate, np.asarray(contexts[:, None])))
    assert np.abs(found - truth).mean() < 0.01


def test_an_option_of_one_sample_or_none_leaves_the_marginal_gate_proper():
    contexts, targets = make_targets()
    targets[1] = 0.0
    targets[2, 1:] = 0.0
    gate = fit_marginal(np.asarray(contexts), np.asarray(targets))
    assert all(np.isfinite(part).all() for part in gate)
    assert_allclose(gate.mean[2], contexts[0], rtol=1e-12)
    assert_allclose(gate.covariance[2], np.eye(F) / 2.0, atol=1e-12)
    values = np.exp(marginal_log_probabilities(gate, np.asarray(contexts)))
    assert_allclose(values.sum(axis=0), 1.0, rtol=1e-9)
    assert_allclose(values[1], 0.0, atol=1e-100)


def test_without_contexts_the_marginal_gate_is_the_share_of_the_weights():
    _, targets = make_targets()
    gate = fit_marginal(np.zeros((N, 0)), np.asarray(targets))
    values = np.exp(marginal_log_probabilities(gate, np.zeros((2, 0))))
    truth = targets.sum(axis=1) / targets.sum()
    assert_allclose(values, np.stack([truth, truth], axis=1), rtol=1e-9)


# ---------------------------------------------------------------- scores of the gates


def make_points():
    """Points z = [xi, s], S = 2, D = 1, and their scores."""
    rng = np.random.default_rng(4)
    return rng.uniform(-2.0, 2.0, size=(40, 3)), rng.normal(size=40)


def make_gp_gate(warp=IDENTITY, cautious=False):
    """A process of unit lengths and signal and noise 0.1."""
    z, y = make_points()
    hyperparameters = gp.Hyperparameters(np.zeros(3), np.asarray(0.0), np.log(0.1))
    process = gp.condition(hyperparameters, np.asarray(z), np.asarray(y), np.ones(40, dtype=bool))
    return GPGate(process, np.asarray(y), warp, cautious=cautious)


CONTEXTS = np.random.default_rng(5).uniform(-1.0, 1.0, size=(6, F))
KEPT = np.array([True, False, True])


def score(gate, optimism=None, options=None, kept=KEPT):
    arrays = (np.asarray(part) for part in (kept, CONTEXTS, CONTEXTS))
    return np.asarray(scores(gate, make_options() if options is None else options, *arrays, optimism))


def test_in_use_the_score_is_the_mean_of_the_process():
    gate, options = make_gp_gate(), make_options()
    narrow = options._replace(Sigma=np.full((O, 1, 1), 1e-12))
    values = score(gate, options=narrow)
    for o in np.flatnonzero(KEPT):
        parameters = np.asarray(options.b)[o] + CONTEXTS @ np.asarray(options.w)[o]
        mean, _ = gp.predict(gate.process, np.asarray(np.hstack([parameters, CONTEXTS])))
        assert_allclose(values[o], mean, atol=1e-8)


def test_the_score_is_the_expectation_over_the_options_parameters_plus_kappa_deviations():
    """Monte Carlo over xi and over the process: mean and deviation of f(xi, s)."""
    gate, options = make_gp_gate(), make_options()
    greedy, optimistic, wild = (score(gate, Optimism(kappa, of_return=True)) for kappa in (0.0, 1.0, 2.5))
    assert_allclose(score(gate), greedy, rtol=1e-9)
    noise = np.random.default_rng(6).normal(size=(20_000, 1))
    for o in np.flatnonzero(KEPT):
        parameters = np.asarray(options.b)[o] + CONTEXTS[0] @ np.asarray(options.w)[o] + np.sqrt(0.2) * noise
        z = np.hstack([parameters, np.repeat(CONTEXTS[:1], len(noise), axis=0)])
        mean, variance = (np.asarray(part) for part in gp.predict(gate.process, np.asarray(z)))
        assert_allclose(greedy[o, 0], mean.mean(), atol=4.0 * mean.std() / np.sqrt(len(noise)))
        deviation = np.sqrt(variance.mean() + mean.var())
        assert_allclose(optimistic[o, 0] - greedy[o, 0], deviation, rtol=0.02)
    greedy, optimistic, wild = (values[KEPT] for values in (greedy, optimistic, wild))
    assert_allclose(wild - greedy, 2.5 * (optimistic - greedy), rtol=1e-6)


def test_the_deviation_of_the_mean_return_is_that_of_the_integral_over_the_options_parameters():
    """By quadrature: Var E_xi[f] = sum_ij w_i w_j cov(f(xi_i), f(xi_j)). It leaves out how f varies with xi."""
    gate, options = make_gp_gate(), make_options()
    everything = np.ones(O, dtype=bool)
    mean, optimistic, wild = (
        score(gate, optimism, kept=everything)
        for optimism in (Optimism(0.0), Optimism(1.0), Optimism(1.0, of_return=True))
    )
    found = optimistic - mean
    nodes, share = np.polynomial.hermite_e.hermegauss(40)
    share = share / share.sum()
    model = known_process()
    for o in range(O):
        for c, context in enumerate(CONTEXTS):
            parameters = np.asarray(options.b)[o] + context @ np.asarray(options.w)[o] + np.sqrt(0.2) * nodes[:, None]
            _, covariance = model.predict(np.hstack([parameters, np.tile(context, (40, 1))]), return_cov=True)
            assert_allclose(found[o, c], np.sqrt(share @ covariance @ share), rtol=1e-4)
    assert np.all(wild > optimistic)


def known_process():
    """The same process by scikit-learn."""
    model = GaussianProcessRegressor(RBF(1.0), alpha=0.1**2 + JITTER, optimizer=None)
    return model.fit(*make_points())


def test_a_cautious_gate_takes_the_return_of_the_mean_parameters_less_its_deviation():
    gate, options = make_gp_gate(cautious=True), make_options()
    values, model = score(gate), known_process()
    expected = np.asarray(
        gating.returns_in_use(gate, options, np.ones(len(options.b), dtype=bool), CONTEXTS, CONTEXTS)[0]
    )
    for o in np.flatnonzero(KEPT):
        parameters = np.asarray(options.b)[o] + CONTEXTS @ np.asarray(options.w)[o]
        mean, deviation = model.predict(np.hstack([parameters, CONTEXTS]), return_std=True)
        assert_allclose(expected[o], mean, atol=1e-6)
        assert_allclose(values[o], mean - deviation, atol=1e-5)
    assert_allclose(score(gate, Optimism(1.0)), score(make_gp_gate(), Optimism(1.0)), rtol=1e-12)


def test_a_cautious_gate_leaves_what_is_not_known():
    """Option 0 is where returns were a little bad; of option 1, far from all points, nothing is known."""
    z = np.linspace(-1.0, 1.0, 20)[:, None]
    hyperparameters = gp.Hyperparameters(np.zeros(1), np.asarray(0.0), np.log(0.1))
    process = gp.condition(hyperparameters, np.asarray(z), np.full(20, -0.2), np.ones(20, dtype=bool))
    options = LinearGaussian(np.asarray([[0.0], [9.0]]), np.zeros((2, 0, 1)), np.full((2, 1, 1), 0.01))
    arrays = (np.ones(2, dtype=bool), np.zeros((1, 0)), np.zeros((1, 0)))
    for cautious, best in ((True, 0), (False, 1)):
        gate = GPGate(process, np.full(20, -0.2), IDENTITY, cautious=cautious)
        assert np.argmax(scores(gate, options, *arrays)) == best


def test_no_more_is_expected_than_a_rollout_has_had():
    """Returns rise towards the last rollout, which has 1; beyond it, where option 1 is, the process expects more."""
    z = np.linspace(-1.0, 1.0, 20)[:, None]
    hyperparameters = gp.Hyperparameters(np.zeros(1), np.asarray(0.0), np.log(0.01))
    process = gp.condition(hyperparameters, np.asarray(z), np.asarray(z[:, 0]), np.ones(20, dtype=bool))
    options = LinearGaussian(np.asarray([[0.99], [1.5]]), np.zeros((2, 0, 1)), np.full((2, 1, 1), 0.01))
    mean, variance = gp.predict(process, options.b)
    assert (mean - np.sqrt(variance))[1] > 1.0
    gate = GPGate(process, np.asarray(z[:, 0]), IDENTITY)
    arrays = (np.ones(2, dtype=bool), np.zeros((1, 0)), np.zeros((1, 0)))
    assert np.argmax(scores(gate, options, *arrays)) == 0
    assert_allclose(gating.returns_in_use(gate, options, *arrays)[0][:, 0], [mean[0], 1.0], rtol=1e-12)
    # Log odds have no limit.
    odds = gate._replace(binary=True)
    assert_allclose(gating.returns_in_use(odds, options, *arrays)[0][:, 0], mean, rtol=1e-12)


def test_a_gate_of_its_arrays_is_the_same_to_the_bit():
    def restored(gate):
        kind = kind_of(gate)
        return kind.restored({name: np.asarray(value) for name, value in kind.arrays(gate).items()})

    # Once by LAPACK, as a learner's gate has it.
    for gate in (restored(make_gp_gate()), SoftmaxGate(np.zeros((O, 1)))):
        for one, other in zip(jax.tree.leaves(restored(gate)), jax.tree.leaves(gate), strict=True):
            assert_array_equal(one, other)
    assert "K_inverse" not in GaussianProcess.arrays(make_gp_gate())


@pytest.mark.parametrize("kind", [each.name for each in GATES])
def test_options_that_are_not_kept_score_minus_infinity(kind):
    features, targets = make_targets()
    gates = {
        "gp": make_gp_gate,
        "gp-draws": make_gp_gate,  # only how it explores is its own
        "softmax": lambda: fit_softmax(np.asarray(features), np.asarray(targets)),
        "marginal": lambda: fit_marginal(np.asarray(features), np.asarray(targets)),
    }
    gate = gates[kind]()
    assert gate.kind == kind.removesuffix("-draws")
    for optimism in (None, Optimism(1.0), Optimism(1.0, True, draws=5)):
        values = score(gate, optimism)
        assert np.isneginf(values[1]).all()
        assert np.isfinite(values[KEPT]).all()
        for temperature in (0.5, 0.0):
            many = np.asarray(np.tile(values, 200))
            chosen = np.asarray(choose_options(KEY, gate, many, temperature))
            assert set(np.unique(chosen)) <= {0, 2}


def test_softmax_and_marginal_scores_are_log_probabilities():
    features, targets = make_targets()
    everything = np.ones(O, dtype=bool)
    for fit in (fit_softmax, fit_marginal):
        values = score(fit(np.asarray(features), np.asarray(targets)), Optimism(1.0), kept=everything)
        assert_allclose(np.exp(values).sum(axis=0), 1.0, rtol=1e-9)


# ---------------------------------------------------------------- drawing options


def assert_frequencies(chosen, probabilities):
    counts = np.bincount(chosen, minlength=len(probabilities))
    assert scipy.stats.chisquare(counts, probabilities * len(chosen)).pvalue > 1e-3


def repeated(values):
    return np.asarray(np.repeat(np.asarray(values)[:, None], 5000, axis=1))


def test_the_gp_gate_draws_by_the_return_over_the_temperature():
    warp = Warp(np.array([-10.0, 30.0]), np.array([-1.0, 1.0]))  # R = 10 + 20 score
    gate, values, temperature = make_gp_gate(warp), np.array([0.3, -0.1, 0.25]), 7.0
    chosen = np.asarray(choose_options(KEY, gate, repeated(values), temperature))
    assert_frequencies(chosen, softmax((10.0 + 20.0 * values) / temperature))
    assert_array_equal(chosen, choose_options(KEY, gate, repeated(values), temperature))
    half = GaussianProcess(exploration_temperature=2.0)  # in units of T
    assert_array_equal(chosen, half.choose(KEY, gate, np.asarray(repeated(values)), temperature / 2.0))
    assert np.any(chosen != choose_options(jax.random.key(1), gate, repeated(values), temperature))


def test_at_temperature_zero_the_gp_gate_takes_the_best():
    values = np.random.default_rng(7).normal(size=(O, 50))
    chosen = choose_options(KEY, make_gp_gate(), np.asarray(values), 0.0)
    assert_array_equal(chosen, values.argmax(axis=0))


@pytest.mark.parametrize("temperature", [0.01, 0.0])
def test_the_other_gates_draw_from_their_probabilities(temperature):
    probabilities = np.array([0.6, 0.1, 0.3])
    softmax_gate = SoftmaxGate(np.log(probabilities)[:, None])
    marginal_gate = MarginalGate(np.log(probabilities), np.zeros((O, 1)), np.ones((O, 1, 1)))
    for gate in (softmax_gate, marginal_gate):
        chosen = choose_options(KEY, gate, repeated(np.log(probabilities)), temperature)
        assert_frequencies(np.asarray(chosen), probabilities)


# ---------------------------------------------------------------- warp


def make_returns(seed=8, n=60):
    """Returns of two kinds: good ones near -7, and a cliff to hundreds below; weights for the good ones."""
    rng = np.random.default_rng(seed)
    returns = np.where(np.arange(n) % 3 == 0, rng.uniform(-900.0, -200.0, size=n), rng.normal(-7.0, 1.0, size=n))
    return returns, np.where(returns > -100.0, rng.uniform(0.5, 1.5, size=n), 1e-9)


@pytest.mark.parametrize("kind", WARPS)
def test_scores_are_standardised_and_in_the_order_of_the_returns(kind):
    returns, weights = make_returns()
    found, warp = fit_warp(returns, weights, kind)
    assert_allclose(found.mean(), 0.0, atol=1e-12)
    assert_allclose(found.std(), 1.0, rtol=1e-12)
    order = np.argsort(returns)
    assert np.all(np.diff(found[order]) >= 0.0)
    assert np.all(np.diff(warp.returns) > 0.0)
    assert np.all(np.diff(warp.scores) > 0.0)


@pytest.mark.parametrize("kind", WARPS)
def test_returns_that_differ_by_rounding_alone_have_the_score_0(kind):
    returns = np.full(76, 0.1)
    assert returns.mean() != 0.1
    assert_array_equal(fit_warp(returns, np.ones(76), kind)[0], 0.0)


@pytest.mark.parametrize("kind", WARPS)
def test_the_inverse_gives_the_returns_back(kind):
    returns, weights = make_returns()
    found, warp = fit_warp(returns, weights, kind)
    apart = found > found.min() + 1e-9  # what was clipped is gone for good
    assert apart.sum() >= 40
    assert_allclose(warp.inverse(found)[apart], returns[apart], rtol=1e-9)


@pytest.mark.parametrize("kind", WARPS)
def test_the_inverse_keeps_the_order_within_and_beyond_the_knots(kind):
    _, warp = fit_warp(*make_returns(), kind)
    at = np.linspace(-50.0, 50.0, 4001)
    values = warp.inverse(at)
    assert np.all(np.diff(values) > 0.0)
    assert_array_equal(warp.inverse(at[:4000].reshape(4, 1000)).ravel(), values[:4000])
    assert np.isneginf(warp.inverse(np.array([-np.inf]))).all()


@pytest.mark.parametrize("kind", WARPS)
def test_shifted_and_scaled_returns_have_the_same_scores(kind):
    returns, weights = make_returns()
    found, warp = fit_warp(returns, weights, kind)
    for shift, scale in ((1e4, 1.0), (-3.0, 1e-6), (0.0, 1e8)):
        changed, other = fit_warp(shift + scale * returns, weights, kind)
        assert_allclose(changed, found, atol=1e-7)
        at = np.linspace(-4.0, 4.0, 9)
        assert_allclose(other.inverse(at), shift + scale * warp.inverse(at), rtol=1e-5)


def test_clip_raises_what_lies_far_below_the_weighted_mean():
    returns, weights = make_returns()
    found, _ = fit_warp(returns, weights, "clip")
    mean = np.average(returns, weights=weights)
    lowest = mean - CLIP * np.sqrt(np.average((returns - mean) ** 2, weights=weights))
    assert -100.0 < lowest < -10.0
    raised = np.maximum(returns, lowest)
    assert_allclose(found, (raised - raised.mean()) / raised.std(), rtol=1e-10)
    assert len(np.unique(found)) == 41  # 40 good ones, and bad is bad
    deeper, _ = fit_warp(returns, weights, "clip", 2.0 * (mean - lowest))
    raised = np.maximum(returns, mean - 2.0 * (mean - lowest))
    assert_allclose(deeper, (raised - raised.mean()) / raised.std(), rtol=1e-10)
    assert_array_equal(fit_warp(returns, weights, "clip", 0.5 * (mean - lowest))[0], found)


@pytest.mark.parametrize("kind", WARPS)
def test_the_order_of_the_rollouts_does_not_matter_to_the_warp(kind):
    returns, weights = make_returns()
    found, warp = fit_warp(returns, weights, kind)
    backwards, other = fit_warp(returns[::-1], weights[::-1], kind)
    assert_allclose(backwards[::-1], found, rtol=1e-9)
    at = np.linspace(-4.0, 4.0, 33)
    assert_allclose(other.inverse(at), warp.inverse(at), rtol=1e-6)


def test_rank_scores_are_normal_and_share_ties():
    returns = np.array([3.0, -100.0, 3.0, 7.0])
    found, _ = fit_warp(returns, np.ones(4), "rank")
    normal = scipy.stats.norm.ppf((np.array([2.5, 1.0, 2.5, 4.0]) - 0.5) / 4.0)
    assert_allclose(found, (normal - normal.mean()) / normal.std(), rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9])
@pytest.mark.parametrize("kind", WARPS)
def test_equal_returns(kind, value):
    found, warp = fit_warp(np.full(7, value), np.ones(7), kind)
    assert_allclose(found, 0.0, atol=1e-9)
    assert_allclose(warp.inverse(np.array([0.0])), value, rtol=1e-12)
    assert np.all(np.diff(warp.inverse(np.linspace(-2.0, 2.0, 9))) > 0.0)


def test_an_unknown_warp():
    with pytest.raises(UnknownNameError, match="unknown warp 'log'; valid are: none, clip, rank"):
        fit_warp(np.arange(3.0), np.ones(3), "log")
