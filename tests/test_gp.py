"""The Gaussian process: against scikit-learn, finite differences, quadrature and Monte Carlo."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from hpsde.base.arrays import as_numpy
from hpsde.base.padding import pad_rows
from hpsde.errors import InputError, UnknownNameError
from hpsde.gp import (
    Bounds,
    Hyperparameters,
    Prior,
    choose_points,
    condition,
    fit_hyperparameters,
    fitting_subset,
    log_evidence,
    option_moments,
    predict,
    spread_subset,
)
from hpsde.gp.compiled import inverse_from_cholesky
from hpsde.gp.kernel import JITTER
from hpsde.gp.lapack import condition_by_lapack, lapack_likelihood
from hpsde.gp.likelihood import jax_likelihood
from hpsde.gp.likelihood import log_evidence as compiled_log_evidence

LIKELIHOODS = {"lapack": lapack_likelihood, "jax": jax_likelihood}


def make_data(seed, n, Z, shift=0.0):
    rng = np.random.default_rng(seed)
    z = rng.uniform(-2.0, 2.0, size=(n, Z))
    y = np.sin(2.0 * z[:, 0]) + 0.3 * z[:, -1] ** 2 - 0.5 + 0.1 * rng.normal(size=n)
    return z + shift, y


def make_hyperparameters(lengths, signal, noise):
    return Hyperparameters(jnp.log(jnp.asarray(lengths)), jnp.log(signal), jnp.log(noise))


def posterior(z, y, lengths, signal, noise, mean):
    """In arrays of numpy, as policies have them; that JAX says the same is in tests/test_acting.py, too."""
    return as_numpy(condition(make_hyperparameters(lengths, signal, noise), z, y, np.ones(len(y), bool), mean))


def make_process(seed, lengths, signal=1.3, noise=0.1, mean=0.2, shift=0.0):
    """A posterior given 60 points. Most tests ask it about 5 contexts, so that few sizes are compiled."""
    z, y = make_data(seed, 60, len(lengths), shift)
    return posterior(z, y, lengths, signal, noise, mean)


def sklearn_process(z, y, lengths, signal, noise, bounds=None, optimizer=None):
    bounds = bounds or ("fixed",) * 3
    kernel = ConstantKernel(signal**2, bounds[0]) * RBF(lengths, bounds[1]) + WhiteKernel(noise**2, bounds[2])
    process = GaussianProcessRegressor(kernel, alpha=JITTER * signal**2, optimizer=optimizer)
    return process.fit(z, y)


def posterior_by_hand(gp, points, others):
    """Mean at points, covariance of f between points and others, in plain numpy."""
    lengths = np.exp(gp.hyperparameters.log_lengths)
    signal, noise = np.exp(gp.hyperparameters.log_signal), np.exp(gp.hyperparameters.log_noise)

    def kernel(a, b):
        return signal**2 * np.exp(-0.5 * np.sum(((a[:, None] - b[None]) / lengths) ** 2, axis=2))

    data = np.asarray(gp.z) + np.asarray(gp.centre)
    K = kernel(data, data) + (noise**2 + JITTER * signal**2) * np.eye(len(data))
    cross = kernel(points, data)
    covariance = kernel(points, others) - cross @ np.linalg.solve(K, kernel(data, others))
    return gp.mean + cross @ gp.beta, covariance


def moments_by_quadrature(gp, mu, covariance, context, nodes):
    """E[f], Var[f], Var[E_xi f] by the trapezoidal rule over xi, which is nearly exact for Gaussians."""
    D = len(mu)
    x = np.linspace(-7.5, 7.5, nodes)
    grid = np.stack(np.meshgrid(*[x] * D, indexing="ij"), axis=-1).reshape(-1, D)
    weight = np.exp(-0.5 * np.sum(grid**2, axis=1))
    weight = weight / weight.sum()
    e, U = np.linalg.eigh(covariance)
    xi = mu + (grid * np.sqrt(np.maximum(e, 0.0))) @ U.T
    points = np.concatenate([xi, np.tile(context, (len(xi), 1))], axis=1)
    mean, posterior = posterior_by_hand(gp, points, points)
    expected = weight @ mean
    total = weight @ (np.diag(posterior) + mean**2) - expected**2
    return expected, total, weight @ posterior @ weight


# ---- posterior and prediction


@pytest.mark.parametrize(("n", "Z", "shift"), [(60, 3, 0.0), (60, 3, 1e3), (150, 5, 0.0)])
def test_predict_matches_scikit_learn(n, Z, shift):
    z, y = make_data(0, n, Z, shift)
    lengths, signal, noise, mean = np.linspace(0.8, 2.0, Z), 1.5, 0.2, 0.7
    gp = posterior(z, y, lengths, signal, noise, mean)
    new = np.random.default_rng(1).uniform(-3.0, 3.0, size=(5, Z)) + shift
    ours_mean, ours_variance = predict(gp, new)
    theirs = sklearn_process(z, y - mean, lengths, signal, noise)
    their_mean, their_deviation = theirs.predict(new, return_std=True)
    assert_allclose(ours_mean, their_mean + mean, atol=1e-9)
    assert_allclose(ours_variance, their_deviation**2 - noise**2, atol=1e-9)


@pytest.mark.parametrize("n", [1, 301])
def test_inverse_from_cholesky(n):
    A = np.random.default_rng(n).normal(size=(n, n + 3))
    K = A @ A.T / n + 0.1 * np.eye(n)
    ours = jax.jit(inverse_from_cholesky)(np.linalg.cholesky(K))
    assert_allclose(ours, np.linalg.inv(K), rtol=1e-8, atol=1e-8)


def test_rows_outside_the_mask_change_nothing():
    z, y = make_data(2, 60, 3)
    plain = posterior(z, y, [0.7, 1.0, 2.0], 1.0, 0.05, 0.1)
    order = np.random.default_rng(3).permutation(72)
    padded_z, padded_y = np.full((72, 3), np.nan), np.full(72, np.inf)
    padded_z[order[:60]], padded_y[order[:60]] = z, y
    padded = condition(plain.hyperparameters, padded_z, padded_y, np.isfinite(padded_y), 0.1)
    for ours, truth in zip(predict(padded, z[:5] + 0.3), predict(plain, z[:5] + 0.3), strict=True):
        assert_allclose(ours, truth, atol=1e-10)
    query = (np.zeros((2, 5, 2)), np.stack([np.eye(2), 0.1 * np.eye(2)]), z[:5, 2:])
    for ours, truth in zip(option_moments(padded, *query), option_moments(plain, *query), strict=True):
        assert_allclose(ours, truth, atol=1e-10)


@pytest.mark.parametrize("n", [0, 1, 60, 300])
def test_lapack_gives_the_same_posterior(n):
    z, y = make_data(36, 301, 3, shift=50.0)
    mask = np.random.default_rng(37).permutation(301) < n
    hyperparameters = make_hyperparameters([0.7, 1.0, 2.0], 1.3, 0.1)
    truth = condition(hyperparameters, z, y, mask, 0.4)
    ours = condition_by_lapack(hyperparameters, z, y, mask, 0.4)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(truth), strict=True):
        assert a.dtype == b.dtype
        assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_one_compilation_per_padded_size():
    hyperparameters = make_hyperparameters([1.0, 1.0, 1.0], 1.0, 0.1)
    z, y = make_data(4, 72, 3)
    condition(hyperparameters, z, y, np.arange(72) < 40, 0.0)
    before = condition._cache_size()
    condition(hyperparameters, z + 1.0, 2.0 * y, np.arange(72) < 70, 3.0)
    assert condition._cache_size() == before


# ---- likelihood


@pytest.mark.parametrize("backend", LIKELIHOODS)
@pytest.mark.parametrize(("n", "Z"), [(1, 2), (40, 2), (100, 4)])
def test_likelihood_and_gradient_match_scikit_learn(backend, n, Z):
    z, y = make_data(5, n, Z)
    lengths, signal, noise = np.linspace(0.6, 1.5, Z), 1.4, 0.3
    free = ((1e-9, 1e9),) * 3
    theirs = sklearn_process(z, y, lengths, signal, noise, free)
    value, gradient = theirs.log_marginal_likelihood(theirs.kernel_.theta, eval_gradient=True)
    theta = np.log([*lengths, signal, noise])
    ours, ours_gradient = LIKELIHOODS[backend](z - z.mean(axis=0), y)(theta)
    assert ours == pytest.approx(value, rel=1e-9)
    # Theirs are [log signal^2, log lengths, log noise^2].
    assert_allclose(ours_gradient[:-2], gradient[1:-1], rtol=1e-6, atol=1e-6)
    # In ours the jitter grows with the signal.
    assert_allclose(ours_gradient[-2:], 2.0 * gradient[[0, -1]], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", LIKELIHOODS)
def test_gradient_matches_finite_differences(backend):
    z, y = make_data(6, 60, 2)
    likelihood = LIKELIHOODS[backend](z, y)
    theta = np.log([0.5, 3.0, 2.0, 0.02])
    step = 1e-5 * np.eye(4)
    differences = [(likelihood(theta + h)[0] - likelihood(theta - h)[0]) / 2e-5 for h in step]
    assert_allclose(likelihood(theta)[1], differences, rtol=1e-6, atol=1e-5)


def test_lapack_likelihood_does_not_depend_on_its_blocks():
    z, y = make_data(7, 50, 2)
    theta = np.log([0.5, 1.0, 2.0, 0.1])
    value, gradient = lapack_likelihood(z, y, block=128)(theta)
    small_value, small_gradient = lapack_likelihood(z, y, block=7)(theta)
    assert small_value == pytest.approx(value, rel=1e-12)
    assert_allclose(small_gradient, gradient, rtol=1e-9)


# ---- fit


@pytest.mark.parametrize("isotropic", [False, True])
def test_fit_reaches_the_optimum_of_scikit_learn(isotropic):
    z, y = make_data(8, 120, 3)
    hyperparameters, info = fit_hyperparameters(
        z,
        y,
        prior=None,
        isotropic=isotropic,
        bounds=Bounds(length=(1e-3, 1e3)),
        tolerance=1e-12,
    )
    bounds = ((1e-6, 1e6), (1e-3, 1e3), (1e-6, 1e2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound
        start = 1.0 if isotropic else np.ones(3)
        theirs = sklearn_process(z, y, start, 1.0, 0.3, bounds, "fmin_l_bfgs_b")
    assert info.log_likelihood == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-2)
    assert np.exp(hyperparameters.log_noise) == pytest.approx(theirs.kernel_.k2.noise_level**0.5, rel=1e-2)
    assert (np.ptp(hyperparameters.log_lengths) < 1e-12) == isotropic


def test_both_backends_find_the_same_optimum():
    z, y = make_data(9, 60, 2)
    fits = [fit_hyperparameters(z, y, backend=backend)[0] for backend in LIKELIHOODS]
    for a, b in zip(*fits, strict=True):
        assert_allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("isotropic", [False, True])
def test_fit_follows_shift_and_scale(isotropic):
    z, y = make_data(10, 100, 2)
    scale = np.array([1e3, 1e3]) if isotropic else np.array([1e-6, 1e3])
    plain, plain_info = fit_hyperparameters(z, y, isotropic=isotropic)
    moved, info = fit_hyperparameters(z * scale + 7.0 * scale, 50.0 * y + 3.0, mean=3.0, isotropic=isotropic)
    assert_allclose(moved.log_lengths, plain.log_lengths + np.log(scale), atol=1e-3)
    assert_allclose(moved.log_signal, plain.log_signal + np.log(50.0), atol=1e-3)
    assert_allclose(moved.log_noise, plain.log_noise + np.log(50.0), atol=1e-3)
    assert info.log_likelihood == pytest.approx(plain_info.log_likelihood - 100 * np.log(50.0), abs=1e-3)


def test_fit_leaves_masked_rows_out():
    z, y = make_data(11, 60, 2)
    mask = np.random.default_rng(12).random(60) < 0.7
    z[~mask], y[~mask] = np.nan, np.nan
    masked, info = fit_hyperparameters(z, y, mask)
    absent, _ = fit_hyperparameters(z[mask], y[mask])
    assert_array_equal(masked.log_lengths, absent.log_lengths)
    assert info.points == mask.sum()


def test_log_evidence_is_the_likelihood_without_its_gradient():
    z, y = make_data(15, 40, 2)
    mask = np.random.default_rng(15).random(40) < 0.7
    z[~mask], y[~mask] = np.nan, np.nan
    at = make_hyperparameters([0.7, 1.5], 1.1, 0.2)
    theta = np.concatenate([np.ravel(np.asarray(part)) for part in at])
    centred = z[mask] - z[mask].mean(axis=0)
    found = log_evidence(at, z, y, mask)
    for likelihood in LIKELIHOODS.values():
        assert_allclose(found, likelihood(centred, y[mask])(theta)[0], rtol=1e-10)
    padded = pad_rows(centred, 32), pad_rows(y[mask], 32), np.arange(32) < mask.sum()
    assert_allclose(found, compiled_log_evidence(at, *padded), rtol=1e-10)
    assert log_evidence(at._replace(log_noise=np.nan), z, y, mask) == -np.inf


def test_fit_on_a_subset_of_the_points():
    z, y = make_data(13, 300, 2)
    subset = fitting_subset(300, 100)
    thinned, info = fit_hyperparameters(z, y, fit_points=100)
    direct, _ = fit_hyperparameters(z[subset], y[subset])
    assert info.points == 100
    assert_array_equal(thinned.log_lengths, direct.log_lengths)


def test_warm_start_needs_fewer_evaluations_and_restarts_never_hurt():
    z, y = make_data(14, 100, 2)
    first, cold = fit_hyperparameters(z, y)
    _, warm = fit_hyperparameters(z, y, start=first)
    assert warm.evaluations < cold.evaluations / 2
    assert warm.objective >= cold.objective - 1e-6 * abs(cold.objective)
    rough = make_hyperparameters([1e2, 1e2], 1.0, 1.0)
    _, stuck = fit_hyperparameters(z, y, start=rough)
    _, restarted = fit_hyperparameters(z, y, start=rough, restarts=3)
    assert restarted.objective >= stuck.objective
    assert restarted.objective == pytest.approx(cold.objective, abs=1e-2)


def test_prior_decides_without_data_and_yields_to_data():
    prior = Prior(length=(2.0, 0.5), signal=(3.0, 0.5), noise=(0.2, 0.5))
    one, _ = fit_hyperparameters(np.zeros((1, 2)), np.ones(1), prior=prior, mean=1.0)
    assert_allclose(one.log_lengths, np.log([2.0, 2.0]), atol=1e-4)
    z, y = make_data(15, 400, 2)
    free, _ = fit_hyperparameters(z, y, prior=None)
    weak, info = fit_hyperparameters(z, y)
    theta = np.concatenate([weak.log_lengths, [weak.log_signal, weak.log_noise]])
    assert info.log_likelihood == pytest.approx(lapack_likelihood(z - z.mean(axis=0), y)(theta)[0], rel=1e-10)
    assert_allclose(weak.log_noise, free.log_noise, atol=0.02)
    assert_allclose(weak.log_lengths, free.log_lengths, atol=0.2)


DEGENERATE = {
    "one point": (np.ones((1, 2)), np.array([3.0])),
    "two points": (np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([1.0, 2.0])),
    "equal returns": (make_data(16, 50, 2)[0], np.full(50, 4.0)),
    "zero returns": (make_data(16, 50, 2)[0], np.zeros(50)),
    "all points equal": (np.full((50, 2), 1e3), make_data(16, 50, 2)[1]),
    "duplicated points": tuple(np.repeat(part, 3, axis=0) for part in make_data(17, 20, 2)),
    "constant coordinate": (make_data(18, 50, 2)[0] * [1.0, 0.0] + [0.0, 0.1], make_data(18, 50, 2)[1]),
    "one wild return": (make_data(19, 50, 2)[0], np.where(np.arange(50) == 7, -1e6, 0.0)),
    "tiny scale": (1e-9 * make_data(20, 50, 2)[0], 1e-9 * make_data(20, 50, 2)[1]),
}


@pytest.mark.parametrize("prior", [None, Prior()])
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_data_give_finite_results(case, prior):
    z, y = DEGENERATE[case]
    hyperparameters, _ = fit_hyperparameters(z, y, prior=prior)
    rows = 60  # of one size, for one compilation
    gp = condition(hyperparameters, np.resize(z, (rows, 2)), np.resize(y, rows), np.arange(rows) < len(y), 0.0)
    query = np.resize(z, (5, 2))
    mean, variance = predict(gp, query)
    moments = option_moments(gp, query[None, :, :1], np.ones((1, 1, 1)), query[:, 1:])
    for values in (*hyperparameters, mean, variance, *moments):
        assert np.all(np.isfinite(values))
    assert np.max(np.abs(mean)) <= 2.0 * np.max(np.abs(y))


def test_no_noise_and_coinciding_points_still_have_a_posterior():
    hyperparameters = make_hyperparameters([1.0], 10.0, 1e-12)
    gp = condition(hyperparameters, np.zeros((600, 1)), np.full(600, 2.0), np.ones(600, bool), 0.0)
    mean, variance = predict(gp, np.zeros((1, 1)))
    assert_allclose(mean, 2.0, rtol=1e-5)
    assert 0.0 <= variance[0] < 1e-5 * 10.0**2


def test_wrong_input_is_named():
    z, y = make_data(21, 10, 2)
    with pytest.raises(InputError, match=r"z must be \[N, Z\]"):
        fit_hyperparameters(z, y[:5])
    with pytest.raises(InputError, match="mask must be"):
        fit_hyperparameters(z, y, np.ones(9))
    with pytest.raises(InputError, match="at least one point"):
        fit_hyperparameters(z, y, np.zeros(10))
    with pytest.raises(InputError, match="finite"):
        fit_hyperparameters(z, np.where(y > 0, np.nan, y))
    with pytest.raises(InputError, match="2 lengths"):
        fit_hyperparameters(z, y, start=make_hyperparameters([1.0], 1.0, 1.0))
    with pytest.raises(InputError, match="fit_points"):
        fit_hyperparameters(z, y, fit_points=0)
    with pytest.raises(InputError, match="restarts"):
        fit_hyperparameters(z, y, restarts=100)
    with pytest.raises(UnknownNameError, match="lapack, jax"):
        fit_hyperparameters(z, y, backend="abacus")


# ---- moments


@pytest.mark.parametrize("deviation", [1e-3, 0.1, 0.7, 3.0])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_moments_match_quadrature_in_one_dimension(deviation, shift):
    gp = make_process(22, [0.9, 1.5], shift=shift)
    mu, contexts = np.linspace(-2.0, 2.5, 5)[:, None] + shift, np.linspace(-2.0, 3.0, 5)[:, None] + shift
    moments = option_moments(gp, mu[None], np.full((1, 1, 1), deviation**2), contexts)
    for c in range(5):
        truth = moments_by_quadrature(gp, mu[c], np.array([[deviation**2]]), contexts[c], 300)
        assert_allclose([m[0, c] for m in moments], truth, rtol=1e-7, atol=1e-9)


def test_moments_match_quadrature_with_correlated_parameters():
    gp = make_process(23, [0.9, 1.2, 1.5])
    root = np.array([[0.4, 0.0], [0.3, 0.2]])
    covariance = np.stack([root @ root.T, np.outer([0.5, -0.3], [0.5, -0.3])])
    mu = np.random.default_rng(24).uniform(-1.5, 1.5, size=(2, 5, 2))
    contexts = np.linspace(-1.5, 1.5, 5)[:, None]
    moments = option_moments(gp, mu, covariance, contexts)
    for o in range(2):
        for c in range(5):
            truth = moments_by_quadrature(gp, mu[o, c], covariance[o], contexts[c], 36)
            assert_allclose([m[o, c] for m in moments], truth, rtol=1e-6, atol=1e-9)


def test_moments_match_monte_carlo_without_contexts():
    gp = make_process(25, [1.0, 2.0, 1.5, 3.0])
    rng = np.random.default_rng(26)
    root = 0.4 * rng.normal(size=(4, 4))
    mu = rng.uniform(-1.0, 1.0, size=4)
    moments = option_moments(gp, mu[None, None], (root @ root.T)[None], np.zeros((1, 0)))
    mean, variance = (np.asarray(part) for part in predict(gp, mu + rng.normal(size=(400_000, 4)) @ root.T))
    error = np.sqrt(np.var(mean) / len(mean))
    assert abs(moments.mean[0, 0] - mean.mean()) < 4.0 * error
    assert moments.variance[0, 0] == pytest.approx(np.mean(variance) + np.var(mean), rel=0.01)


@pytest.mark.parametrize("covariance", [np.zeros((2, 2)), 1e-14 * np.eye(2), 1e-14 * np.ones((2, 2))])
def test_vanishing_covariance_is_a_prediction(covariance):
    gp = make_process(27, [0.5, 1.0, 1.5], noise=0.01, shift=1e3)
    z = make_data(28, 5, 3, 1e3)[0]
    mean, variance = predict(gp, z)
    twice = np.stack([z[:, :2], z[:, :2]])
    moments = option_moments(gp, twice, np.stack([covariance, covariance]), z[:, 2:])
    for o in range(2):
        assert_allclose(moments.mean[o], mean, atol=1e-8)
        assert_allclose(moments.variance[o], variance, atol=1e-8)
        assert_allclose(moments.variance_of_mean[o], variance, atol=1e-8)


@pytest.mark.parametrize("lengths", [[1e-3, 1e-3], [1.0, 1.0], [1e3, 1e3], [1e-3, 1e3]])
@pytest.mark.parametrize("variance", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("distance", [0.0, 1e6])
def test_nothing_overflows(lengths, variance, distance):
    gp = make_process(29, lengths, signal=20.0, noise=1e-3)
    query = np.linspace(-2.0, 2.0, 5)[:, None]
    moments = option_moments(gp, query[None] + distance, np.full((1, 1, 1), variance), query)
    assert all(np.all(np.isfinite(part)) for part in moments)
    assert np.all(moments.variance >= 0.0)


def test_wide_options_and_far_options_return_to_the_prior():
    gp = make_process(30, [1.0, 1.0])
    contexts = np.zeros((5, 1))
    wide = option_moments(gp, np.zeros((1, 5, 1)), np.full((1, 1, 1), 1e16), contexts)
    far = option_moments(gp, np.full((1, 5, 1), 1e4), np.ones((1, 1, 1)), contexts)
    for moments in (wide, far):
        assert_allclose(moments.mean, 0.2, atol=1e-6)
        assert_allclose(moments.variance, 1.69, atol=1e-6)
    assert_allclose(wide.variance_of_mean, 0.0, atol=1e-6)
    assert_allclose(far.variance_of_mean, 1.69 / np.sqrt(3.0), atol=1e-6)


def test_variance_of_the_mean_is_part_of_the_variance():
    gp = make_process(31, [0.6, 1.0, 1.0])
    mu = np.random.default_rng(32).uniform(-3.0, 3.0, size=(2, 5, 2))
    for small, large in ((1e-4, 10.0), (0.1, 20.0)):
        covariance = np.stack([small * np.eye(2), large * np.eye(2)])
        moments = option_moments(gp, mu, covariance, np.linspace(-2.0, 2.0, 5)[:, None])
        assert np.all(moments.variance_of_mean <= moments.variance + 1e-9)
        assert np.all(moments.variance_of_mean[1] < 0.5 * moments.variance[1])


def test_moments_do_not_depend_on_order_or_units():
    z, y = make_data(33, 60, 3)
    rng = np.random.default_rng(34)
    mu, contexts = rng.normal(size=(2, 5, 2)), rng.normal(size=(5, 1))
    root = rng.normal(size=(2, 2, 2))
    covariance = 0.1 * root @ np.swapaxes(root, 1, 2)
    lengths = np.array([0.8, 1.0, 1.3])
    scale, shift = np.array([10.0, 1e-3, 5.0]), np.array([1e3, -2.0, 40.0])
    plain = posterior(z, y, lengths, 1.3, 0.1, 0.5)
    truth = option_moments(plain, mu, covariance, contexts)

    order = rng.permutation(60)
    moved_z = z[order] * scale + shift
    moved = posterior(moved_z, 2.0 * y[order], lengths * scale, 2.6, 0.2, 1.0)
    moved_covariance = covariance * scale[:2, None] * scale[None, :2]
    ours = option_moments(moved, mu * scale[:2] + shift[:2], moved_covariance, contexts * scale[2] + shift[2])
    assert_allclose(ours.mean, 2.0 * truth.mean, atol=1e-7)
    assert_allclose(ours.variance, 4.0 * truth.variance, atol=1e-7)
    assert_allclose(ours.variance_of_mean, 4.0 * truth.variance_of_mean, atol=1e-7)


def test_inactive_options_get_the_prior_and_leave_the_others_alone():
    gp = make_process(35, [1.0, 1.0])
    mu, contexts = np.zeros((3, 5, 1)), np.linspace(-1.0, 1.0, 5)[:, None]
    covariance = np.array([0.1, np.nan, 0.5])[:, None, None]
    moments = option_moments(gp, mu, covariance, contexts, np.array([True, False, True]))
    for o in (0, 2):
        alone = option_moments(gp, mu[o : o + 1], covariance[o : o + 1], contexts)
        for ours, truth in zip(moments, alone, strict=True):
            assert_allclose(ours[o], truth[0], atol=1e-12)
    assert_allclose(moments.mean[1], 0.2)
    assert_allclose(moments.variance[1], 1.69)


# ---- subsets


def test_spread_subset_is_even_and_steady():
    subset = spread_subset(10_000, 1000)
    assert len(np.unique(subset)) == 1000
    counts = np.histogram(subset, bins=10, range=(0, 10_000))[0]
    assert np.ptp(counts) <= 4
    for period in (2, 7, 50, 64):
        assert np.ptp(np.bincount(subset % period, minlength=period)) <= 0.3 * 1000 / period + 4
    assert len(np.intersect1d(subset, spread_subset(10_050, 1000))) >= 990
    assert_array_equal(spread_subset(5, 8), np.arange(5))


def test_fitting_subset_has_the_newest_half_and_a_spread_of_the_older():
    subset = fitting_subset(1000, 101)
    assert len(np.unique(subset)) == 101
    assert_array_equal(subset[-50:], np.arange(950, 1000))
    assert np.ptp(np.histogram(subset[:-50], bins=5, range=(0, 950))[0]) <= 3
    assert_array_equal(fitting_subset(7, 7), np.arange(7))
    assert_array_equal(fitting_subset(7, 1), [0])


def test_choose_points_keeps_the_newest_and_draws_by_weight():
    key = jax.random.key(0)
    assert_array_equal(choose_points(key, 5, 5), np.arange(5))
    chosen = choose_points(key, 1000, 101)
    assert len(np.unique(chosen)) == 101
    assert_array_equal(chosen[-75:], np.arange(925, 1000))
    assert chosen[-76] < 925
    assert_array_equal(chosen, choose_points(key, 1000, 101))
    weights = np.zeros(1000)
    weights[[3, 17, 400]] = 1.0
    assert {3, 17, 400} <= set(choose_points(key, 1000, 10, weights).tolist())
    draws = [choose_points(k, 3, 1, np.array([3.0, 1.0, 1.0]))[0] for k in jax.random.split(key, 80)]
    assert abs(np.mean(np.array(draws) == 0) - 0.6) < 4.0 * np.sqrt(0.6 * 0.4 / 80)


def test_choose_points_refuses_nonsense():
    with pytest.raises(InputError, match="max_points"):
        choose_points(jax.random.key(0), 10, 0)
    with pytest.raises(InputError, match="weights"):
        choose_points(jax.random.key(0), 10, 5, np.ones(9))
