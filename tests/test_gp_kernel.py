"""Matérn's kernel: against its own formula, scikit-learn, finite differences, quadrature and Monte Carlo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from hpsde import gp
from hpsde.base.arrays import as_numpy
from hpsde.base.precision import single
from hpsde.base.tree import build, flatten
from hpsde.errors import UnknownNameError
from hpsde.gp.axes import mean_gradients, turned_axes
from hpsde.gp.kernel import JITTER, KINDS, MATERN, SQUARED_EXPONENTIAL, correlation, slope
from hpsde.gp.lapack import lapack_likelihood, noise_free_covariance
from hpsde.gp.likelihood import jax_likelihood
from hpsde.runs.state import CLASSES
from hpsde.steps import valleys

LIKELIHOODS = {"lapack": lapack_likelihood, "jax": jax_likelihood}
N, S, D = 60, 1, 2
SIGNAL, NOISE, MEAN = 1.3, 0.2, 0.4
LENGTHS = np.array([0.7, 1.5, 1.1])


def make_data(n=N, Z=S + D):
    rng = np.random.default_rng(1)
    z = rng.uniform(-2.0, 2.0, size=(n, Z))
    return z, np.abs(z[:, 0] - 0.5 * z[:, -1]) - 0.8 + NOISE * rng.normal(size=n)


def hyperparameters(kernel="matern", lengths=LENGTHS):
    given = gp.Hyperparameters(jnp.log(jnp.asarray(lengths)), jnp.log(SIGNAL), jnp.log(NOISE))
    return gp.with_kernel(given, kernel)


@pytest.fixture(scope="module")
def process():
    z, y = make_data()
    return as_numpy(gp.condition(hyperparameters(), z, y, np.ones(N, dtype=bool), MEAN))


def exact(r):
    return (1.0 + np.sqrt(5.0) * r + 5.0 / 3.0 * r**2) * np.exp(-np.sqrt(5.0) * r)


def by_hand(process, points, others):
    """Mean at points, covariance of f between points and others, in plain numpy."""

    def kernel(a, b):
        d2 = np.sum(((a[:, None] - b[None]) / LENGTHS) ** 2, axis=2)
        return SIGNAL**2 * sum(w * np.exp(-0.5 * d2 / tau) for tau, w in MATERN.parts)

    data = np.asarray(process.z) + np.asarray(process.centre)
    K = kernel(data, data) + (NOISE**2 + JITTER * SIGNAL**2) * np.eye(len(data))
    cross = kernel(points, data)
    covariance = kernel(points, others) - cross @ np.linalg.solve(K, kernel(data, others))
    return process.mean + cross @ process.beta, covariance


# ---------------------------------------------------------------- the kernel itself


def test_the_sum_is_materns_formula_to_a_thousandth():
    r = np.concatenate([np.linspace(0.0, 12.0, 4001), [30.0, 1e3]])
    error = np.abs(correlation(MATERN, r**2) - exact(r))
    assert np.max(error) < 1e-3
    assert_allclose(sum(MATERN.w), 1.0, atol=1e-15)
    assert len(MATERN.tau) == 3


@pytest.mark.parametrize("kernel", KINDS.values(), ids=KINDS)
def test_values_and_slopes_in_numpy_and_jax(kernel):
    d2 = np.random.default_rng(0).uniform(0.0, 9.0, size=(4, 5))
    for function in (correlation, slope):
        assert_allclose(function(kernel, jnp.asarray(d2)), function(kernel, d2), rtol=1e-12)
        assert_allclose(function(kernel, d2, 0.7), np.exp(0.7) * function(kernel, d2), rtol=1e-12)
    step = 1e-5
    change = (correlation(kernel, d2 + step) - correlation(kernel, d2 - step)) / (2.0 * step)
    assert_allclose(slope(kernel, d2), -2.0 * change, rtol=1e-6)
    assert_allclose(slope(kernel, np.zeros(1)), kernel.curvature)


def test_the_squared_exponential_is_the_sum_of_one():
    d2 = np.linspace(0.0, 9.0, 50)
    assert SQUARED_EXPONENTIAL.parts == ((1.0, 1.0),)
    for function in (correlation, slope):
        assert_array_equal(function(SQUARED_EXPONENTIAL, d2), np.exp(-0.5 * d2))


def test_the_kernel_is_part_of_the_tree():
    """What maps over numbers leaves it, and so do `_replace` and a file of a learner's state."""
    given = hyperparameters()
    arrays = {}
    outline = flatten(given, arrays)
    for other in (jax.tree.map(lambda x: x + 1.0, given), single(given), given._replace(log_noise=jnp.zeros(()))):
        assert type(other) is gp.KERNELS["matern"]
    assert type(build(outline, arrays, CLASSES)) is gp.KERNELS["matern"]
    assert jax.tree.structure(given) != jax.tree.structure(hyperparameters("se"))
    assert gp.with_kernel(given, "matern") is given
    assert type(gp.with_kernel(given, "se")) is gp.Hyperparameters
    with pytest.raises(UnknownNameError, match="kernel"):
        gp.with_kernel(given, "cubic")


@pytest.mark.parametrize("lengths", [0.1, 1.0, 30.0])
def test_covariances_are_positive_definite(lengths):
    z, _ = make_data(150)
    given = hyperparameters(lengths=np.full(S + D, lengths))
    K = noise_free_covariance(given, z - z.mean(axis=0))
    assert_array_equal(K, K.T)
    assert np.min(np.linalg.eigvalsh(K)) > 0.5 * JITTER * SIGNAL**2
    assert_allclose(np.diagonal(K), SIGNAL**2 * (1.0 + JITTER), rtol=1e-12)


# ---------------------------------------------------------------- posterior


def test_the_posterior_is_scikit_learns_to_the_error_of_the_sum(process):
    z, y = make_data()
    new = np.random.default_rng(2).uniform(-3.0, 3.0, size=(5, S + D))
    kernel = ConstantKernel(SIGNAL**2) * Matern(LENGTHS, nu=2.5)
    alpha = NOISE**2 + JITTER * SIGNAL**2
    theirs = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(z, y - MEAN)
    their_mean, their_deviation = theirs.predict(new, return_std=True)
    mean, variance = gp.predict(process, new)
    assert_allclose(mean, their_mean + MEAN, atol=5e-3)
    assert_allclose(variance, their_deviation**2, atol=5e-3)
    smooth = gp.condition(hyperparameters("se"), z, y, np.ones(N, dtype=bool), MEAN)
    assert np.max(np.abs(gp.predict(smooth, new)[0] - their_mean - MEAN)) > 0.02


def test_predictions_are_those_of_the_sum(process):
    new = np.random.default_rng(2).uniform(-3.0, 3.0, size=(5, S + D))
    mean, covariance = by_hand(process, new, new)
    ours = gp.predict(process, new)
    assert_allclose(ours[0], mean, atol=1e-9)
    assert_allclose(ours[1], np.diagonal(covariance), atol=1e-9)
    assert_allclose(gp.predict_mean(process, jnp.asarray(new)), mean, atol=1e-9)
    lean = single(process)
    assert gp.predict_mean(lean, single(new)).dtype == jnp.float32
    assert_allclose(gp.predict_mean(lean, single(new)), mean, atol=1e-3)


@pytest.mark.parametrize("n", [0, 1, 60, 300])
def test_lapack_gives_the_same_posterior(n):
    z, y = make_data(301)
    mask = np.random.default_rng(37).permutation(301) < n
    truth = gp.condition(hyperparameters(), z, y, mask, 0.4)
    ours = gp.condition_by_lapack(hyperparameters(), z, y, mask, 0.4)
    assert type(ours.hyperparameters) is gp.KERNELS["matern"]
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(truth), strict=True):
        assert a.dtype == b.dtype
        assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_a_stored_process_gets_the_inverse_of_its_own_kernel():
    z, y = make_data()
    whole = gp.posterior(hyperparameters(), z, y, np.arange(N) < 50, MEAN)
    again = gp.with_inverse(whole._replace(K_inverse=jnp.zeros((0, 0))), jnp.asarray(y))
    assert_array_equal(again.K_inverse, whole.K_inverse)


# ---------------------------------------------------------------- likelihood


def test_both_backends_have_the_same_likelihood():
    z, y = make_data(150)
    theta = np.log([*LENGTHS, SIGNAL, NOISE])
    ours, theirs = (likelihood(z - z.mean(axis=0), y, MATERN)(theta) for likelihood in LIKELIHOODS.values())
    assert ours[0] == pytest.approx(theirs[0], rel=1e-10)
    assert_allclose(ours[1], theirs[1], rtol=1e-7, atol=1e-7)
    small = lapack_likelihood(z - z.mean(axis=0), y, MATERN, block=7)(theta)
    assert small[0] == pytest.approx(ours[0], rel=1e-12)
    assert_allclose(small[1], ours[1], rtol=1e-9)
    assert gp.log_evidence(hyperparameters(), z, y, np.ones(150, dtype=bool)) == pytest.approx(ours[0], rel=1e-10)


def test_the_likelihood_is_scikit_learns_to_the_error_of_the_sum():
    z, y = make_data()
    kernel = ConstantKernel(SIGNAL**2) * Matern(LENGTHS, nu=2.5)
    theirs = GaussianProcessRegressor(kernel, alpha=NOISE**2 + JITTER * SIGNAL**2, optimizer=None).fit(z, y)
    truth = theirs.log_marginal_likelihood_value_
    assert lapack_likelihood(z, y, MATERN)(np.log([*LENGTHS, SIGNAL, NOISE]))[0] == pytest.approx(truth, abs=0.1)
    assert abs(lapack_likelihood(z, y)(np.log([*LENGTHS, SIGNAL, NOISE]))[0] - truth) > 1.0


@pytest.mark.parametrize("backend", LIKELIHOODS)
@pytest.mark.parametrize("theta", [[0.5, 3.0, 1.0, 2.0, 0.02], [0.5, 3.0, 1.0, 0.3, 0.5]], ids=str)
def test_gradient_matches_finite_differences(backend, theta):
    z, y = make_data()
    likelihood = LIKELIHOODS[backend](z - z.mean(axis=0), y, MATERN)
    theta = np.log(theta)
    step = 1e-5 * np.eye(len(theta))
    differences = [(likelihood(theta + h)[0] - likelihood(theta - h)[0]) / 2e-5 for h in step]
    assert_allclose(likelihood(theta)[1], differences, rtol=1e-6, atol=1e-5)


def test_a_fit_has_the_kernel_asked_for_or_that_of_its_start():
    z, y = make_data()
    plain, _ = gp.fit_hyperparameters(z, y)
    assert type(plain) is gp.Hyperparameters
    fits = [gp.fit_hyperparameters(z, y, kernel="matern", backend=backend) for backend in LIKELIHOODS]
    for (found, info), (other, _) in ((fits[0], fits[1]), (fits[1], fits[0])):
        assert type(found) is gp.KERNELS["matern"]
        assert info.converged
        for a, b in zip(found, other, strict=True):
            assert_allclose(a, b, atol=1e-3)
    again, _ = gp.fit_hyperparameters(z, y, start=fits[0][0])
    assert type(again) is gp.KERNELS["matern"]
    assert type(gp.fit_hyperparameters(z, y, start=again, kernel="se")[0]) is gp.Hyperparameters
    with pytest.raises(UnknownNameError, match="kernel"):
        gp.fit_hyperparameters(z, y, kernel="cubic")


def test_where_the_return_has_a_crease_it_is_likelier():
    z, _ = make_data(200)
    y = np.abs(z[:, 0]) - 1.0 + 0.02 * np.random.default_rng(9).normal(size=200)
    likelihoods = [gp.fit_hyperparameters(z, y, kernel=kernel)[1].log_likelihood for kernel in KINDS]
    assert likelihoods[1] > likelihoods[0] + 1.0


# ---------------------------------------------------------------- moments


def test_moments_match_quadrature(process):
    """By the trapezoidal rule over xi, which is nearly exact for Gaussians."""
    rng = np.random.default_rng(5)
    A, mu, contexts = rng.normal(size=(2, D, D)), rng.normal(size=(2, 5, D)), rng.normal(size=(5, S))
    covariance = 0.4 * A @ A.transpose(0, 2, 1) + 0.01 * np.eye(D)
    moments = gp.option_moments(process, mu, covariance, contexts)
    x = np.linspace(-6.0, 6.0, 41)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, D)
    weight = np.exp(-0.5 * np.sum(grid**2, axis=1))
    weight = weight / weight.sum()
    for o in range(2):
        for c in (0, 3):
            xi = mu[o, c] + grid @ np.linalg.cholesky(covariance[o]).T
            points = np.concatenate([xi, np.tile(contexts[c], (len(xi), 1))], axis=1)
            mean, posterior = by_hand(process, points, points)
            expected = weight @ mean
            assert_allclose(moments.mean[o, c], expected, atol=1e-5)
            total = weight @ (np.diagonal(posterior) + mean**2) - expected**2
            assert_allclose(moments.variance[o, c], total, atol=1e-5)
            assert_allclose(moments.variance_of_mean[o, c], weight @ posterior @ weight, atol=1e-5)


def test_moments_match_monte_carlo(process):
    rng = np.random.default_rng(6)
    mu, covariance, contexts = np.array([[[0.3, -0.5]]]), np.array([[[0.5, 0.2], [0.2, 0.3]]]), np.array([[0.4]])
    moments = gp.option_moments(process, mu, covariance, contexts)
    xi = rng.multivariate_normal(mu[0, 0], covariance[0], size=100_000)
    mean, variance = gp.predict(process, np.concatenate([xi, np.tile(contexts, (len(xi), 1))], axis=1))
    error = 5.0 / np.sqrt(len(xi))
    assert_allclose(moments.mean[0, 0], np.mean(mean), atol=error * np.std(mean))
    assert_allclose(moments.variance[0, 0], np.mean(variance) + np.var(mean), rtol=error)


def test_moments_of_a_policy_without_spread_are_the_predictions(process):
    mu, contexts = np.random.default_rng(7).normal(size=(1, 5, D)), np.linspace(-1.0, 1.0, 5)[:, None]
    moments = gp.option_moments(process, mu, np.zeros((1, D, D)), contexts)
    mean, variance = gp.predict(process, np.concatenate([mu[0], contexts], axis=1))
    assert_allclose(moments.mean[0], mean, atol=1e-9)
    assert_allclose(moments.variance[0], variance, atol=1e-8)
    assert_allclose(moments.variance_of_mean[0], variance, atol=1e-8)


@pytest.mark.parametrize("kernel", KINDS)
def test_the_mean_under_gaussian_points_matches_monte_carlo(kernel):
    """Contexts may vary like parameters; one covariance serves all means."""
    z, y = make_data()
    given = gp.condition(hyperparameters(kernel), z + 3.0, y, np.arange(N) < 50, MEAN)
    rng = np.random.default_rng(10)
    root, centres = 0.5 * rng.normal(size=(S + D, S + D)), 3.0 + rng.normal(size=(4, S + D))
    covariance = root @ root.T
    found = gp.mean_under(given, jnp.asarray(centres), jnp.asarray(covariance))
    points = centres[:, None] + rng.normal(size=(50_000, S + D)) @ root.T
    values = np.stack([gp.predict_mean(given, jnp.asarray(each)) for each in points])
    assert np.all(np.abs(found - values.mean(axis=1)) < 4.0 * values.std(axis=1) / np.sqrt(50_000))
    assert np.all(np.abs(found - gp.predict_mean(given, jnp.asarray(centres))) > 0.02)
    lean = gp.mean_under(*single((given._replace(K_inverse=jnp.zeros((0, 0))), centres, covariance)))
    assert lean.dtype == jnp.float32
    assert_allclose(lean, found, atol=1e-3)


@pytest.mark.parametrize("kernel", KINDS)
def test_the_mean_under_gaussian_points_is_the_mean_of_the_moments_and_of_a_point(kernel):
    z, y = make_data()
    given = gp.condition(hyperparameters(kernel), z, y, np.ones(N, dtype=bool), MEAN)
    rng = np.random.default_rng(11)
    mu, contexts, covariance = rng.normal(size=(5, D)), rng.normal(size=(5, S)), np.array([[0.5, 0.2], [0.2, 0.3]])
    at, around = jnp.asarray(np.concatenate([mu, contexts], axis=1)), np.zeros((S + D, S + D))
    assert_allclose(gp.mean_under(given, at, jnp.asarray(around)), gp.predict_mean(given, at), atol=1e-9)
    around[:D, :D] = covariance
    moments = gp.option_moments(given, mu[None], covariance[None], contexts)
    assert_allclose(gp.mean_under(given, at, jnp.asarray(around)), moments.mean[0], atol=1e-9)
    assert_allclose(gp.mean_under(given, at, jnp.eye(S + D) * 1e12), MEAN, atol=1e-6)


@pytest.mark.parametrize("kernel", gp.KERNELS)
def test_the_gradient_under_a_gaussian_is_that_of_jax(kernel):
    z, y = make_data()
    given = gp.condition(hyperparameters(kernel), z, y, np.ones(N, dtype=bool), MEAN)
    root = np.random.default_rng(3).normal(size=(S + D, S + D))
    around, at = 0.2 * root @ root.T, z[:20] + 0.3
    truth = jax.grad(lambda points: jnp.sum(gp.mean_under(given, points, jnp.asarray(around))))(jnp.asarray(at))
    assert np.abs(truth).max() > 0.1
    assert_allclose(gp.gradient_under(given, jnp.asarray(around))(jnp.asarray(at)), truth, atol=1e-9)
    assert_allclose(gp.gradient_under(as_numpy(given), around)(at), truth, atol=1e-9)
    lean = gp.gradient_under(*single((gp.without_inverse(as_numpy(given)), around)))(single(at))
    assert lean.dtype == np.float32
    assert_allclose(lean, truth, atol=2e-3)


# ---------------------------------------------------------------- what asks the process


def test_gradients_of_the_mean(process):
    points = process.z + process.centre[None]
    truth = jax.grad(lambda z: jnp.sum(gp.predict_mean(process, z)))(points)
    assert_allclose(mean_gradients(process), truth, atol=1e-6)
    axes, start = turned_axes(process, np.eye(S + D))
    assert type(start) is gp.KERNELS["matern"]
    assert axes.shape == (S + D, S + D)


def test_the_deviation_of_a_difference(process):
    rng = np.random.default_rng(8)
    y, other, s = rng.normal(size=(5, D)), rng.normal(size=(5, D)), rng.normal(size=(5, S))
    model = valleys.Model(as_numpy(process), np.eye(S + D), np.eye(D), 0.3)
    ends = np.concatenate([np.concatenate([each, s], axis=1) for each in (y, other)])
    covariance = by_hand(process, ends, ends)[1]
    change = np.concatenate([np.eye(5), -np.eye(5)], axis=1)
    truth = np.sqrt(np.diagonal(change @ covariance @ change.T))
    assert_allclose(valleys._deviation(model, y, other, s), truth, rtol=1e-6)
    assert_allclose(valleys.heights_at(model, y, s), by_hand(process, ends[:5], ends)[0], atol=1e-3)
