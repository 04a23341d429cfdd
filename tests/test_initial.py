"""Where the first parameters come from, and the density that is known of them or estimated."""

import jax
import numpy as np
import pytest
import scipy.stats

import hpsde
import small
from hpsde import InputError
from hpsde.steps.initial import EstimatedDensity, InitialPolicy, kernel_log_density, make_initial
from hpsde.tasks import make_task

KEY = jax.random.key(4)


@pytest.fixture(scope="module")
def correlated():
    """Contexts and parameters, jointly Gaussian: xi | s is N(0.8 s, 0.36)."""
    generator = np.random.default_rng(0)
    s = generator.normal(size=(128, 1))
    xi = 0.8 * s + 0.6 * generator.normal(size=(128, 1))
    return s, xi


@pytest.fixture(scope="module")
def estimated(correlated):
    return EstimatedDensity.fit(KEY, *correlated)


@pytest.mark.parametrize(
    ("initial", "log_density"),
    [
        (hpsde.Uniform(-1.0, 3.0), lambda xi: np.full(len(xi), np.log(0.25))),
        (hpsde.Gaussian(5.0, 2.0), lambda xi: scipy.stats.norm(5.0, 2.0).logpdf(xi[:, 0])),
        (make_task("toy-triple"), lambda xi: np.full(len(xi), np.log(0.25))),
    ],
    ids=["uniform", "gaussian", "task"],
)
def test_known_densities(initial, log_density):
    policy = make_initial(initial, 1)
    assert isinstance(policy, InitialPolicy)
    contexts = np.full((30, 1), 0.5)
    parameters = policy.sample(KEY, contexts)
    assert parameters.shape == (30, 1)
    np.testing.assert_array_equal(parameters, policy.sample(KEY, contexts))
    np.testing.assert_allclose(policy.log_density(contexts, parameters), log_density(parameters), rtol=1e-12)


@pytest.mark.parametrize("values", [[[1.0], [2.0]], np.array([[1.0], [2.0]]), hpsde.Samples([[1.0], [2.0]])])
def test_samples_have_no_known_density(values):
    policy = make_initial(values, 1)
    drawn = policy.sample(KEY, np.zeros((40, 0)))
    assert set(drawn[:, 0]) == {1.0, 2.0}
    assert policy.log_density(np.zeros((40, 0)), drawn) is None


def test_a_task_without_a_known_density():
    task = hpsde.tasks.task_from_function(lambda xi: 0.0, initial=[[1.0], [2.0]])
    assert make_initial(task, 1).log_density(np.zeros((3, 0)), np.ones((3, 1))) is None


def test_estimated_density_integrates_to_one_in_every_context(estimated):
    grid = np.linspace(-9.0, 9.0, 128)
    for s in (-1.5, 0.0, 2.0):
        density = np.exp(estimated.log_density(np.full((128, 1), s), grid[:, None]))
        assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-4)


def test_estimated_density_matches_a_known_gaussian(correlated, estimated):
    s, xi = correlated
    truth = scipy.stats.norm(0.8 * s[:, 0], 0.6).logpdf(xi[:, 0])
    error = estimated.log_density(s, xi) - truth
    # Mean and covariance of 128 draws are uncertain by 9 %, and so is the density in the bulk.
    assert np.mean(error) == pytest.approx(0.0, abs=0.05)
    assert np.quantile(np.abs(error), 0.9) < 0.3


def test_estimated_density_without_contexts():
    generator = np.random.default_rng(1)
    xi = np.where(generator.uniform(size=(128, 1)) < 0.5, -1.0, 1.0) + 0.2 * generator.normal(size=(128, 2))
    estimated = EstimatedDensity.fit(KEY, np.zeros((128, 0)), xi)
    modes = [scipy.stats.multivariate_normal([m, m], 0.04 * np.eye(2)) for m in (-1.0, 1.0)]
    truth = np.log(0.5 * sum(mode.pdf(xi) for mode in modes))
    error = estimated.log_density(np.zeros((128, 0)), xi) - truth
    assert np.mean(error) == pytest.approx(0.0, abs=0.1)
    assert np.quantile(np.abs(error), 0.9) < 0.5


def test_contexts_of_too_many_numbers_are_left_out_of_the_density():
    generator = np.random.default_rng(2)
    pictures, xi = generator.uniform(size=(150, 400)), generator.normal(size=(150, 2))
    alone = EstimatedDensity.fit(KEY, pictures[:, :0], xi)
    found = EstimatedDensity.fit(KEY, pictures, xi)
    np.testing.assert_array_equal(found.log_density(pictures, xi), alone.log_density(pictures[:, :0], xi))


def test_estimated_density_is_deterministic_and_finite_far_away(correlated, estimated):
    again = EstimatedDensity.fit(KEY, *correlated)
    far = np.array([[30.0], [-500.0], [0.0]]), np.array([[1e3], [0.0], [-40.0]])
    values = estimated.log_density(*far)
    np.testing.assert_array_equal(values, again.log_density(*far))
    assert np.all(np.isfinite(values))
    assert np.all(values < -20.0)


# Kernels


def test_kernel_density_integrates_to_one_in_every_context(correlated):
    grid = np.linspace(-8.0, 8.0, 1024)
    for s in (-1.5, 0.0, 30.0):
        density = np.exp(kernel_log_density(correlated, np.full((1024, 1), s), grid[:, None]))
        assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-6)


def test_kernel_density_is_that_of_scipy_without_contexts():
    """Two numbers that do not vary together, so that scipy's kernels have axes as ours; scipy divides by n - 1."""
    generator = np.random.default_rng(2)
    grid = scipy.stats.norm.ppf((np.arange(12) + 0.5) / 12)
    known = np.stack(np.meshgrid(3.0 * grid - 5.0, 0.2 * grid), axis=-1).reshape(-1, 2)
    asked = generator.normal([-5.0, 0.0], [3.0, 0.2], size=(40, 2))
    kernels = scipy.stats.gaussian_kde(known.T, bw_method=len(known) ** (-1 / 6) * np.sqrt(1.0 - 1.0 / len(known)))
    found = kernel_log_density((np.zeros((len(known), 0)), known), np.zeros((40, 0)), asked)
    np.testing.assert_allclose(found, kernels.logpdf(asked.T), rtol=1e-9)


def test_kernel_density_is_close_to_a_known_gaussian():
    generator = np.random.default_rng(3)
    s = generator.normal(size=(2000, 1))
    xi = 0.8 * s + 0.6 * generator.normal(size=(2000, 1))
    asked = generator.normal(size=(300, 1))
    there = 0.8 * asked + 0.6 * generator.normal(size=(300, 1))
    error = kernel_log_density((s, xi), asked, there) - scipy.stats.norm(0.8 * asked[:, 0], 0.6).logpdf(there[:, 0])
    assert np.quantile(np.abs(error), 0.9) < 0.3


def test_kernel_density_follows_units_and_neither_order_nor_company(correlated):
    s, xi = correlated
    plain = kernel_log_density(correlated, s, xi)
    order = np.random.default_rng(4).permutation(128)
    np.testing.assert_allclose(kernel_log_density((s[order], xi[order]), s, xi), plain, rtol=1e-9)
    np.testing.assert_allclose(kernel_log_density(correlated, s[:5], xi[:5]), plain[:5], rtol=1e-9)
    scaled = kernel_log_density((7.0 - 2.0 * s, 9.0 + 30.0 * xi), 7.0 - 2.0 * s, 9.0 + 30.0 * xi)
    np.testing.assert_allclose(scaled, plain - np.log(30.0), rtol=1e-9)


def test_kernel_density_is_finite_far_away_and_where_nothing_varies(correlated):
    far = np.array([[30.0], [-500.0], [0.0]]), np.array([[1e3], [0.0], [-40.0]])
    values = kernel_log_density(correlated, *far)
    assert np.all(np.isfinite(values))
    assert np.all(values[[0, 2]] < -20.0)
    same = kernel_log_density((np.ones((5, 1)), np.full((5, 1), 2.0)), np.ones((1, 1)), np.full((1, 1), 2.0))
    np.testing.assert_allclose(same, scipy.stats.norm(2.0, 5 ** (-1 / 6)).logpdf(2.0), rtol=1e-9)


def test_learning_from_samples_is_as_good_as_from_their_distribution():
    values = np.random.default_rng(0).uniform(-1.0, 1.0, (500, 1))
    learner = small.run(small.make(initial=values))
    assert np.isnan(small.make(initial=values).ask([[0.5]]).log_density).all()
    assert np.isin(learner.rollouts.parameters[:128], values).all()
    own = learner.rollouts.behaviour > 0  # not of scouts, which draw from the samples
    assert own.any()
    assert not np.isin(learner.rollouts.parameters[own], values).any()
    small.assert_sound(learner.policy)
    contexts = np.linspace(0.0, 2.0, 30)[:, None]
    assert small.two_ridges(contexts, learner.policy.act(contexts)).mean() > 0.75
    assert len(learner.policy.options) >= 2


def test_learning_from_a_gaussian_and_from_a_task():
    learner = small.run(small.make(initial=hpsde.Gaussian(0.0, 0.6)))
    small.assert_sound(learner.policy)
    contexts = np.linspace(0.0, 2.0, 30)[:, None]
    assert small.two_ridges(contexts, learner.policy.act(contexts)).mean() > 0.75
    task = make_task("toy-double")
    learner = small.run(small.make(initial=task), task.evaluate)
    small.assert_sound(learner.policy)


class Own:
    """A distribution, or a task, of one's own that gives whatever it is told to."""

    size, has_density, bounds = 1, True, None

    def __init__(self, draws=None, densities=None):
        self.draws, self.densities = draws, densities

    def sample(self, key, n):
        return np.zeros((n, 1)) if self.draws is None else self.draws

    def log_prob(self, x):
        return np.zeros(len(x)) if self.densities is None else self.densities


class OwnTask(Own):
    def sample_initial(self, key, contexts):
        return self.sample(key, len(contexts))

    def log_initial(self, contexts, parameters):
        return self.log_prob(parameters)


@pytest.mark.parametrize("kind", [Own, OwnTask])
def test_what_an_object_of_ones_own_gives_is_checked(kind):
    contexts, parameters = np.zeros((3, 0)), np.zeros((3, 1))
    good = make_initial(kind(), 1)
    assert good.sample(KEY, contexts).shape == (3, 1)
    np.testing.assert_array_equal(good.log_density(contexts, parameters), np.zeros(3))
    for draws, message in (
        (np.zeros((3, 2)), r"shape \[3, 1\]; got \[3, 2\]"),
        (np.full((3, 1), np.nan), "finite"),
    ):
        with pytest.raises(InputError, match=message):
            make_initial(kind(draws=draws), 1).sample(KEY, contexts)
    for densities in (np.zeros((3, 1)), np.array([0.0, np.nan, 0.0]), np.array([0.0, np.inf, 0.0]), ["a"] * 3):
        with pytest.raises(InputError, match=r"must give 3 log densities|must be numbers"):
            make_initial(kind(densities=densities), 1).log_density(contexts, parameters)


def test_initial_of_another_size_or_kind_is_refused():
    with pytest.raises(InputError, match=r"must give 2 parameters .* it gives 1"):
        make_initial(hpsde.Uniform(0.0, 1.0), 2)
    with pytest.raises(InputError, match=r"initial: expected .*hpsde.Uniform\(low, high\)"):
        make_initial((0.0, 1.0), 2)
