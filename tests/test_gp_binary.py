"""A Gaussian process for success or failure: scikit-learn's classifier, finite differences, and the mode's equation."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from hpsde import gp
from hpsde.gp import binary as gp_binary
from hpsde.gp.lapack import noise_free_covariance

LENGTHS, SIGNAL = np.array([0.7, 1.5]), 2.5
KERNEL = gp.Hyperparameters(jnp.log(jnp.asarray(LENGTHS)), jnp.log(jnp.asarray(SIGNAL)), jnp.log(jnp.asarray(1e-3)))


def make_points(n=80, seed=0):
    """Success where the first number is high, mostly; far from the origin."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    return z + np.array([5.0, -3.0]), rng.random(n) < expit(3.0 * z[:, 0] + z[:, 1])


def condition(mean=0.0, padding=8, n=80):
    z, success = make_points(n)
    mask = np.arange(n + padding) < n
    z, success = np.concatenate([z, np.full((padding, 2), 9.0)]), np.concatenate([success, np.ones(padding, bool)])
    return gp_binary.condition_binary(KERNEL, z, success, mask, mean), z, success, mask


# ---------------------------------------------------------------- the mode


@pytest.mark.parametrize("mean", [0.0, -1.3, 2.0])
def test_the_mode_is_the_prior_mean_and_k_times_what_is_unexplained(mean):
    """f = m + K (y - p), at points and anywhere else."""
    z, success = make_points()
    K, y = noise_free_covariance(KERNEL, z - z.mean(axis=0)), success.astype(float)
    mode = gp_binary._mode(K, y, mean)
    assert_allclose(mode.f, mean + K @ (y - expit(mode.f)), atol=1e-4)
    assert_allclose(mode.p, expit(mode.f), atol=1e-12)
    W = mode.p * (1.0 - mode.p)
    assert_allclose(mode.R, np.linalg.inv(K + np.diag(1.0 / W)), atol=1e-8)
    assert_allclose(mode.log_determinant, np.linalg.slogdet(np.eye(len(y)) + K * W[None])[1], rtol=1e-9)
    process, padded, _, _ = condition(mean)
    assert_allclose(gp.predict_mean(process, jnp.asarray(padded))[: len(z)], mode.f, atol=1e-3)


def test_mode_and_probabilities_are_scikit_learns():
    process, z, success, mask = condition()
    kernel = ConstantKernel(SIGNAL**2) * RBF(LENGTHS)
    model = GaussianProcessClassifier(kernel, optimizer=None).fit(z[mask] - z[mask].mean(axis=0), success[mask])
    at = make_points(30, seed=1)[0]
    shifted = at - z[mask].mean(axis=0)
    estimator = model.base_estimator_
    latent = estimator.kernel_(estimator.X_train_, shifted).T @ (estimator.y_train_ - estimator.pi_)
    mean, variance = (np.asarray(each) for each in gp.predict(process, jnp.asarray(at)))
    assert_allclose(mean, latent, atol=2e-3)
    # Variance by its own equation (3.24), and the probability averaged over it by quadrature.
    K = kernel(estimator.X_train_)
    W = estimator.pi_ * (1.0 - estimator.pi_)
    k = kernel(estimator.X_train_, shifted)
    truth = SIGNAL**2 - np.sum(k * np.linalg.solve(K + np.diag(1.0 / W), k), axis=0)
    assert_allclose(variance, truth, rtol=1e-3, atol=1e-4)
    nodes, shares = np.polynomial.hermite_e.hermegauss(40)
    probability = expit(mean[:, None] + np.sqrt(variance)[:, None] * nodes) @ shares / shares.sum()
    assert_allclose(probability, model.predict_proba(shifted)[:, 1], atol=2e-2)  # which has it by Williams' formula


def test_a_plateau_of_success_is_smooth():
    """Odds on a plateau of successes alone lie between those within reach, and rise towards its middle."""
    z = np.linspace(-3.0, 3.0, 61)[:, None]
    success = np.abs(z[:, 0]) < 1.5
    hyperparameters = gp.Hyperparameters(jnp.zeros(1), jnp.log(jnp.asarray(3.0)), jnp.log(jnp.asarray(1e-3)))
    process = gp_binary.condition_binary(hyperparameters, z, success, np.ones(61, dtype=bool), 0.0)
    values = np.asarray(gp.predict_mean(process, jnp.asarray(np.linspace(0.0, 1.4, 15)[:, None])))
    assert np.all(np.diff(values) < 0.0)
    assert np.all(values > 0.0)
    assert_allclose(process.beta[:61], success - expit(gp.predict_mean(process, jnp.asarray(z))), atol=1e-4)


def test_all_succeed_or_all_fail():
    z, _ = make_points()
    for value in (True, False):
        success = np.full(len(z), value)
        process = gp_binary.condition_binary(KERNEL, z, success, np.ones(len(z), dtype=bool), 0.0)
        odds = np.asarray(gp.predict_mean(process, jnp.asarray(z)))
        assert np.all(np.isfinite(odds))
        assert np.all((odds > 0.0) == value)


def test_far_from_all_points_the_odds_are_the_prior_mean():
    process, *_ = condition(-1.3)
    mean, variance = gp.predict(process, jnp.asarray([[500.0, 0.0]]))
    assert_allclose(mean, -1.3, atol=1e-9)
    assert_allclose(variance, SIGNAL**2, rtol=1e-4)


# ---------------------------------------------------------------- hyper-parameters


def objective_of(monkeypatch, z, success, mean):
    """What `fit_binary` minimises, with its gradient."""
    seen = []

    def minimize(function, first, **given):
        seen.append(function)
        return scipy.optimize.OptimizeResult(x=first, fun=0.0)

    monkeypatch.setattr(gp_binary, "optimize", SimpleNamespace(minimize=minimize))
    gp_binary.fit_binary(z, success, mean, [KERNEL])
    return seen[0]


def test_the_gradient_is_that_of_finite_differences(monkeypatch):
    monkeypatch.setattr(gp_binary, "TOLERANCE", 1e-10)
    z, success = make_points()
    objective = objective_of(monkeypatch, z, success, -0.4)
    for theta in (np.log([0.7, 1.5, 2.5]), np.log([2.0, 0.4, 0.8])):
        _, gradient = objective(theta)
        for d, step in enumerate(1e-5 * np.eye(3)):
            assert_allclose(gradient[d], (objective(theta + step)[0] - objective(theta - step)[0]) / 2e-5, rtol=1e-4)


def test_the_evidence_is_scikit_learns(monkeypatch):
    """Up to the priors, which differ by a known quadratic."""
    z, success = make_points()
    objective = objective_of(monkeypatch, z, success, 0.0)
    model = GaussianProcessClassifier(ConstantKernel(SIGNAL**2) * RBF(LENGTHS), optimizer=None).fit(z, success)
    spread = np.log(z.std(axis=0))
    for lengths, signal in (((0.7, 1.5), 2.5), ((2.0, 0.4), 0.8)):
        theta = np.log([*lengths, signal])
        prior = 0.5 * np.sum(((theta[:2] - spread) / gp.WEAK_PRIOR.length[1]) ** 2)
        prior += 0.5 * (theta[2] - np.log(gp_binary.SIGNAL)) ** 2
        truth = model.log_marginal_likelihood([2.0 * theta[2], *theta[:2]])
        assert_allclose(prior - objective(theta)[0], truth, atol=1e-3)


def test_the_fit_finds_which_number_matters_and_units_do_not():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(200, 2))
    success = np.abs(z[:, 0]) < 0.7
    fits = []
    for scale in (np.ones(2), np.array([1e-3, 50.0])):
        start = gp.Hyperparameters(jnp.log(jnp.asarray(scale)), jnp.zeros(()), jnp.zeros(()))
        found = gp_binary.fit_binary(z * scale + 7.0 * scale, success, 0.0, [start])
        fits.append(np.exp(np.asarray(found.log_lengths)) / scale)
    assert 4.0 * fits[0][0] < fits[0][1]
    assert_allclose(fits[1], fits[0], rtol=0.02)


# ---------------------------------------------------------------- files, padding, words


def test_with_inverse_gives_the_same_bits():
    process, _, success, _ = condition(-0.3)
    lean = process._replace(K_inverse=jnp.zeros((0, 0)))
    again = gp_binary.with_inverse(lean, jnp.asarray(success.astype(float)))
    assert_array_equal(again.K_inverse, process.K_inverse)
    # Also where many succeed against the odds: there y - p keeps fewer digits than p.
    z, mask = make_points()[0], np.ones(80, dtype=bool)
    success = np.random.default_rng(4).random(80) < 0.2
    process = gp_binary.condition_binary(KERNEL, z, success, mask, -2.0)
    again = gp_binary.with_inverse(process, jnp.asarray(success.astype(float)))
    assert_array_equal(again.K_inverse, process.K_inverse)


def test_what_padding_holds_does_not_matter():
    process, *_ = condition(padding=8)
    other, *_ = condition(padding=30)
    at = jnp.asarray(make_points(10, seed=3)[0])
    for one, wanted in zip(gp.predict(other, at), gp.predict(process, at), strict=True):
        assert_allclose(one, wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("returns", "binary"),
    [([0.0, 1.0, 1.0], True), ([-5.0, 3.0], True), ([1.0, 1.0], False), ([0.0, 0.5, 1.0], False), ([2.0], False)],
)
def test_binary_is_two_values_exactly(returns, binary):
    values, share = np.resize(returns, 30), np.full(30, 1.0 / 30.0)
    assert gp_binary.is_binary(values, share, np.arange(30.0)[:, None]) == binary
    assert not gp_binary.is_binary(values, share, np.resize([0.0, 1.0], 30)[:, None])  # two returns of two points


def test_a_plateau_that_has_all_the_weight_is_success():
    """How far below a return is bad says nothing where the good ones are all equal."""
    returns, z = np.resize([1.0, 0.3, -7.0, 1.0, 0.9], 40), np.arange(40.0)[:, None]
    assert gp_binary.is_binary(returns, (returns == 1.0).astype(float), z)
    assert not gp_binary.is_binary(returns, (returns > 0.5).astype(float), z)
    assert not gp_binary.is_binary(np.ones(40), np.ones(40), z)  # nobody fails
    # A failure returns what the median one does.
    warp = gp_binary.odds_warp(returns)
    assert_allclose(warp.inverse(np.array([-40.0, 40.0])), [0.3, 1.0], atol=2e-2)


def test_the_map_of_odds_is_the_expected_return():
    warp = gp_binary.odds_warp(np.array([-2.0, 6.0, 6.0, -2.0]))
    for odds in (-3.0, 0.0, 1.5):
        assert_allclose(warp.inverse(np.array([odds]))[0], -2.0 + 8.0 * expit(odds), atol=2e-2)
    assert_allclose(gp_binary.base_rate(np.array([0.0, 1.0, 1.0, 1.0])), logit(4.0 / 6.0))
