"""Option policies: regression, RWR and the update of all options, against numpy, scikit-learn and scipy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression, Ridge

from hpsde.steps import gaussian
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.options import UPDATES, fit_options
from hpsde.steps.reps import REPS
from hpsde.steps.rwr import RWR
from hpsde.steps.update import OptionUpdate

N, F, D = 50, 2, 3
TINY = 1e-12

fit = jax.jit(gaussian.fit, static_argnames=("ridge", "variance_floor"))


def rwr_weights(returns, features, base, target, *, epsilon, least=0.0):
    return RWR(epsilon=epsilon).sample_weights(returns, features, base, target, least)


def reps_weights(returns, features, base, target, *, epsilon, least=0.0):
    return REPS(epsilon=epsilon).sample_weights(returns, features, base, target, least)


def make_data(seed=0, n=N):
    """Features far from 0, parameters linear in them plus correlated noise, uneven weights."""
    rng = np.random.default_rng(seed)
    features = rng.normal([5.0, -3.0], [2.0, 0.5], size=(n, F))
    noise = rng.normal(size=(n, D)) @ np.array([[1.0, 0.5, 0.0], [0.0, 0.8, -0.3], [0.0, 0.0, 0.4]])
    parameters = 7.0 + features @ rng.normal(size=(F, D)) + noise
    return features, parameters, rng.uniform(0.1, 2.0, size=n)


def residuals(policy, features, parameters):
    return parameters - np.asarray(policy.b) - features @ np.asarray(policy.w)


def weighted_covariance(errors, d):
    """sum_i d_i e_i e_i' / Z, Z = ((sum d)^2 - sum d^2) / sum d."""
    Z = (d.sum() ** 2 - np.sum(d**2)) / d.sum()
    return (errors.T * d) @ errors / Z


def shrunk(covariance, d):
    """Correlations shrunk where there are fewer than 2 (D + 1) effective samples; variances as they are."""
    effective = d.sum() ** 2 / np.sum(d**2)
    trust = min(effective / (2.0 * (len(covariance) + 1.0)), 1.0)
    return trust * covariance + (1.0 - trust) * np.diag(np.diag(covariance))


# ---------------------------------------------------------------- regression


def test_without_ridge_the_mean_is_weighted_least_squares():
    features, parameters, d = make_data()
    policy = fit(features, parameters, d, ridge=TINY, variance_floor=TINY)
    truth = LinearRegression().fit(features, parameters, sample_weight=d)
    assert_allclose(policy.w, truth.coef_.T, rtol=1e-7)
    assert_allclose(policy.b, truth.intercept_, rtol=1e-7)
    design = np.column_stack([features, np.ones(N)]) * np.sqrt(d)[:, None]
    direct = np.linalg.lstsq(design, parameters * np.sqrt(d)[:, None], rcond=None)[0]
    assert_allclose(np.vstack([policy.w, policy.b[None]]), direct, rtol=1e-7)


def test_the_ridge_is_scikit_learns_with_weights_that_sum_to_the_effective_samples():
    features, parameters, d = make_data()
    policy = fit(features, parameters, d, ridge=20.0, variance_floor=TINY)
    effective = d.sum() ** 2 / np.sum(d**2)
    truth = Ridge(alpha=20.0).fit(features, parameters, sample_weight=d * effective / d.sum())
    assert_allclose(policy.w, truth.coef_.T, rtol=1e-9)
    assert_allclose(policy.b, truth.intercept_, rtol=1e-9)
    plain = fit(features, parameters, d, ridge=TINY, variance_floor=TINY)
    assert np.linalg.norm(policy.w) < np.linalg.norm(plain.w)


@pytest.mark.parametrize(("scale", "chosen"), [(3e-3, gaussian.RIDGES[-1]), (0.03, None), (30.0, None)])
def test_the_ridge_is_that_which_predicts_samples_left_out_best(scale, chosen):
    """Against scikit-learn, with every sample left out in turn."""
    features, parameters, d = make_data(seed=3)
    features = scale * features
    share = d * d.sum() / np.sum(d**2)
    errors = np.zeros((len(gaussian.RIDGES), D))
    for row, ridge in enumerate(gaussian.RIDGES):
        for i in range(N):
            rest = np.arange(N) != i
            model = Ridge(alpha=ridge).fit(features[rest], parameters[rest], sample_weight=share[rest])
            errors[row] += d[i] * (model.predict(features[[i]])[0] - parameters[i]) ** 2
    best = gaussian.RIDGES[np.argmin((errors / errors[0]).sum(axis=1))]
    assert chosen in (None, best)
    found, wanted = (fit(features, parameters, d, ridge=ridge, variance_floor=TINY) for ridge in (None, best))
    for one, other in zip(found[:3], wanted[:3], strict=True):
        assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_the_covariance_is_that_of_the_residuals():
    features, parameters, d = make_data()
    policy = fit(features, parameters, d, ridge=TINY, variance_floor=1e-3)
    covariance = weighted_covariance(residuals(policy, features, parameters), d)
    assert_allclose(policy.Sigma, covariance + 1e-3 * np.eye(D), rtol=1e-9)


def test_correlations_of_few_samples_are_shrunk():
    features, parameters, d = make_data()
    d[5:] = 0.0  # fewer than 2 (D + 1) = 8 effective samples
    policy = fit(features, parameters, d, ridge=TINY, variance_floor=TINY)
    covariance = weighted_covariance(residuals(policy, features, parameters), d)
    assert np.abs(shrunk(covariance, d) - covariance).max() > 0.1 * np.abs(covariance).max()
    assert_allclose(policy.Sigma, shrunk(covariance, d), atol=1e-9)


def test_integer_weights_are_duplicates():
    features, parameters, _ = make_data()
    counts = np.random.default_rng(1).integers(0, 4, size=N)
    repeated = np.repeat(np.arange(N), counts)
    weighted = fit(features, parameters, counts.astype(float), ridge=TINY, variance_floor=TINY)
    ones = np.ones(len(repeated))
    duplicated = fit(features[repeated], parameters[repeated], ones, ridge=TINY, variance_floor=TINY)
    assert_allclose(weighted.w, duplicated.w, rtol=1e-7)
    assert_allclose(weighted.b, duplicated.b, rtol=1e-7)
    # Duplicates are taken for independent samples: their Z is that of more samples.
    d = counts / counts.sum()
    Z_weighted, Z_duplicated = 1.0 - np.sum(d**2), 1.0 - 1.0 / len(repeated)
    variances = np.diag(weighted.Sigma) * Z_weighted
    assert_allclose(variances, np.diag(duplicated.Sigma) * Z_duplicated, rtol=1e-7)


def test_the_scale_of_the_weights_their_order_and_zeros_do_not_matter():
    features, parameters, d = make_data()
    plain = fit(features, parameters, d, ridge=1e-3, variance_floor=TINY)
    order = np.random.default_rng(2).permutation(N)
    changed = fit(features[order], parameters[order], 1e-8 * d[order], ridge=1e-3, variance_floor=TINY)
    for one, other in zip(plain[:3], changed[:3], strict=True):
        assert_allclose(other, one, rtol=1e-9)
    d[::2] = 0.0
    absent = fit(features, parameters, d, ridge=1e-3, variance_floor=TINY)
    features[::2], parameters[::2] = 99.0, -99.0
    for one, other in zip(absent[:3], fit(features, parameters, d, ridge=1e-3, variance_floor=TINY)[:3], strict=True):
        assert_allclose(other, one, rtol=1e-9)
    left = slice(1, None, 2)
    truth = LinearRegression().fit(features[left], parameters[left], sample_weight=d[left])
    assert_allclose(absent.w, truth.coef_.T, rtol=1e-2)


def test_shifted_and_scaled_parameters_shift_and_scale_the_policy():
    features, parameters, d = make_data()
    plain = fit(features, parameters, d, ridge=20.0, variance_floor=TINY)
    shift, scale = np.array([1e3, -20.0, 0.5]), np.array([2.0, 0.1, 30.0])
    changed = fit(features, shift + scale * parameters, d, ridge=20.0, variance_floor=TINY)
    assert_allclose(changed.b, shift + scale * np.asarray(plain.b), rtol=1e-9)
    assert_allclose(changed.w, np.asarray(plain.w) * scale, rtol=1e-9)
    assert_allclose(changed.Sigma, plain.Sigma * np.outer(scale, scale), rtol=1e-7)


def test_shifted_features_shift_the_offset_alone():
    features, parameters, d = make_data()
    plain = fit(features, parameters, d, ridge=20.0, variance_floor=TINY)
    shift = np.array([-40.0, 3.0])
    changed = fit(features + shift, parameters, d, ridge=20.0, variance_floor=TINY)
    assert_allclose(changed.w, plain.w, rtol=1e-9)
    assert_allclose(changed.b, plain.b - shift @ np.asarray(plain.w), rtol=1e-9)
    assert_allclose(changed.Sigma, plain.Sigma, rtol=1e-9)


def test_the_covariance_is_unbiased():
    """Mean over 4,000 data sets of 8 uneven samples; without features, only their mean is estimated."""
    rng = np.random.default_rng(3)
    truth = np.array([[2.0, 0.6], [0.6, 0.5]])
    d = rng.uniform(0.1, 1.0, size=8)
    samples = 4.0 + rng.normal(size=(4000, 8, 2)) @ np.linalg.cholesky(truth).T
    no_features = np.zeros((4000, 8, 0))
    one = functools.partial(gaussian.fit, ridge=1e-3, variance_floor=TINY)
    estimates = np.asarray(jax.jit(jax.vmap(one, (0, 0, None)))(no_features, samples, d).Sigma)
    error = estimates.std(axis=0) / np.sqrt(len(estimates))
    assert np.all(np.abs(estimates.mean(axis=0) - shrunk(truth, d)) < 4.0 * error)
    # The correction is more than the error: Sigma over sum d would have been noticed.
    biased = shrunk(truth, d) * (1.0 - np.sum(d**2) / d.sum() ** 2)
    assert np.all(np.abs(estimates.mean(axis=0) - biased) > 4.0 * error)


@pytest.mark.parametrize("used", [0, 1, 2, 3])
def test_fewer_samples_than_dimensions_give_a_proper_policy(used):
    features, parameters, d = make_data()
    d[used:] = 0.0
    policy = fit(features, parameters, d, ridge=1e-3, variance_floor=1e-6)
    assert all(np.isfinite(part).all() for part in policy[:3])
    assert np.linalg.eigvalsh(policy.Sigma).min() >= 0.99e-6
    if used:
        mean = policy.b + d @ features / d.sum() @ np.asarray(policy.w)
        assert_allclose(mean, d @ parameters / d.sum(), rtol=1e-9)
    if used == 1:
        assert_allclose(policy.Sigma, 1e-6 * np.eye(D), atol=1e-15)


def test_means_and_log_density_are_those_of_scipy():
    rng = np.random.default_rng(4)
    features, parameters, _ = make_data(n=7)
    factors = rng.normal(size=(2, D, D))
    options = LinearGaussian(
        jnp.asarray(rng.normal(size=(2, D))),
        jnp.asarray(rng.normal(size=(2, F, D))),
        jnp.asarray(factors @ factors.transpose(0, 2, 1) + 0.1 * np.eye(D)),
    )
    means = np.asarray(gaussian.means(options, jnp.asarray(features)))
    values = np.asarray(gaussian.log_density(options, jnp.asarray(features), jnp.asarray(parameters)))
    for o in range(2):
        for i in range(7):
            mean = np.asarray(options.b)[o] + np.asarray(options.w)[o].T @ features[i]
            assert_allclose(means[o, i], mean, rtol=1e-12)
            truth = scipy.stats.multivariate_normal(mean, np.asarray(options.Sigma)[o]).logpdf(parameters[i])
            assert_allclose(values[o, i], truth, rtol=1e-10)


# ---------------------------------------------------------------- reward-weighted regression


def make_returns(seed=5):
    rng = np.random.default_rng(seed)
    return rng.normal(-200.0, 30.0, size=N), rng.uniform(0.1, 1.0, size=N)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_rwr_weights_are_exponential_in_the_return_and_keep_the_bound(epsilon):
    features, _, target = make_data()
    returns, base = make_returns()
    d = np.asarray(rwr_weights(returns, features, base, target, epsilon=epsilon))
    assert_allclose(d.sum(), 1.0, rtol=1e-9)
    assert_allclose(scipy.stats.entropy(d, base), epsilon, rtol=1e-6)
    slope, offset = np.polyfit(returns, np.log(d / base), 1)  # log (d / q) = R / T - log Z
    assert slope > 0.0
    assert_allclose(np.log(d / base), slope * returns + offset, atol=1e-8)


def test_rwr_ignores_features_and_target():
    returns, base = make_returns()
    features, _, target = make_data()
    d = rwr_weights(returns, features, base, target, epsilon=1.0)
    assert_allclose(rwr_weights(returns, 1e3 * features**2, base, target[::-1], epsilon=1.0), d, rtol=1e-12)


def test_rwr_within_no_distance_leaves_the_base_weights():
    returns, base = make_returns()
    features, _, target = make_data()
    d = rwr_weights(returns, features, base, target, epsilon=0.0)
    assert_allclose(d, base / base.sum(), rtol=1e-5)


# ---------------------------------------------------------------- support


# Nine tenths of the base's effective samples are the most that can be left.
@pytest.mark.parametrize(
    ("weigh", "least", "active"),
    [
        (reps_weights, 25.0, "support"),
        (rwr_weights, 25.0, "support"),
        (rwr_weights, 2.0, "kl"),
        (rwr_weights, 1e6, "all"),
    ],
)
def test_the_search_leaves_enough_effective_samples(weigh, least, active):
    features, _, target = make_data()
    returns, base = make_returns()
    d = np.asarray(weigh(returns, features, base, target, epsilon=1.0, least=least))
    effective, kl = 1.0 / np.sum(d**2), scipy.stats.entropy(d, base)
    assert d @ returns > base @ returns / base.sum()
    if active == "kl":
        assert_allclose(kl, 1.0, rtol=1e-6)
        assert effective > 1.1 * least
    else:
        there = base.sum() ** 2 / np.sum(base**2)
        assert_allclose(effective, min(least, 0.9 * there), rtol=1e-6)
        assert kl < 0.9


# ---------------------------------------------------------------- all options


def make_two_lines():
    """Parameters around xi = s + 1 and xi = -s - 1, spread by 0.5; the return is highest on the lines."""
    rng = np.random.default_rng(6)
    contexts, side = rng.uniform(-1.0, 1.0, size=(N, 1)), np.where(np.arange(N) % 2, 1.0, -1.0)[:, None]
    miss = 0.5 * rng.normal(size=(N, 1))
    parameters = side * (contexts + 1.0) + miss
    returns = -(miss[:, 0] ** 2)
    base = np.stack([side[:, 0] > 0, side[:, 0] < 0, np.zeros(N)]).astype(float)
    return returns, contexts, parameters, base


@pytest.mark.parametrize("update", UPDATES)
def test_every_kept_option_is_trained_on_its_own_samples(update):
    returns, contexts, parameters, base = make_two_lines()
    kept = np.array([True, True, False])
    arrays = returns, contexts, contexts, parameters, base, base, kept
    policies = fit_options(*arrays, update=update(epsilon=1.0, support=0.0), ridge=1e-3, variance_floor=1e-6)
    weigh = {REPS: reps_weights, RWR: rwr_weights}[update]
    for o, slope in enumerate((1.0, -1.0)):
        d = weigh(returns, contexts, base[o], base[o], epsilon=1.0)
        alone = fit(contexts, parameters, d, ridge=1e-3, variance_floor=1e-6)
        for part, truth in zip(policies[:3], alone[:3], strict=True):
            assert_allclose(part[o], truth, rtol=1e-6)
        assert_allclose(policies.w[o], slope, atol=0.25)
        assert_allclose(policies.b[o], slope, atol=0.1)
        assert float(policies.Sigma[o, 0, 0]) < 0.5**2 / 3.0  # sharper than the samples
    # Nobody asks for the third: a standard Gaussian.
    assert_array_equal(policies.b[2], 0.0)
    assert_array_equal(policies.w[2], 0.0)
    assert_array_equal(policies.Sigma[2], np.eye(1))


def test_support_is_for_each_feature_and_one_more_whatever_is_matched():
    asked = []

    class Noted(OptionUpdate, name="noted", listed=False):
        def sample_weights(self, returns, features, base, target, least):
            asked.append((self.epsilon, least, features.shape[1]))
            return base

    returns, contexts, parameters, base = make_two_lines()
    features = np.hstack([contexts, contexts**2])
    parts = (returns, features, features[:, :1], parameters, base, base, np.ones(3, dtype=bool))
    fit_options(*parts, update=Noted(epsilon=2.0, support=7.0), ridge=1e-3, variance_floor=1e-6)
    assert set(asked) == {(2.0, 3 * 7.0, 1)}


def test_combinations_of_the_parameters_are_gaussian_too():
    """Draws of the options, put through P, have the projected means and covariances; a square P only changes volume."""
    rng = np.random.default_rng(8)
    factors, P = rng.normal(size=(2, D, D)), rng.normal(size=(D, 2))
    options = LinearGaussian(
        jnp.asarray(rng.normal(size=(2, D))),
        jnp.asarray(rng.normal(size=(2, F, D))),
        jnp.asarray(factors @ factors.transpose(0, 2, 1)),
    )
    features = rng.normal(size=(3, F))
    projected = gaussian.project(options, jnp.asarray(P))
    means = np.asarray(gaussian.means(options, jnp.asarray(features)))
    for o in range(2):
        draws = rng.multivariate_normal(means[o, 1], np.asarray(options.Sigma)[o], size=40_000) @ P
        scale = draws.std(axis=0)
        shift = draws.mean(axis=0) - np.asarray(gaussian.means(projected, jnp.asarray(features)))[o, 1]
        assert np.all(np.abs(shift) < 4.0 * scale / 200.0)
        assert_allclose(np.asarray(projected.Sigma)[o] / np.outer(scale, scale), np.corrcoef(draws.T), atol=0.02)
    square, parameters = rng.normal(size=(D, D)), rng.normal(size=(3, D))
    there = gaussian.log_density(options, jnp.asarray(features), jnp.asarray(parameters))
    turned = gaussian.project(options, jnp.asarray(square))
    here = gaussian.log_density(turned, jnp.asarray(features), jnp.asarray(parameters @ square))
    assert_allclose(here, np.asarray(there) - np.linalg.slogdet(square)[1], rtol=1e-8)
