"""The weighted mixture against closed forms, scipy and scikit-learn; weights as counts; its search."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gammaln, multigammaln
from scipy.stats import multivariate_normal, multivariate_t
from sklearn.mixture import GaussianMixture

from hpsde.errors import UnknownNameError
from hpsde.mixture import em as mixture_em
from hpsde.mixture import estimation as density
from hpsde.mixture.estimation import DENSITY_METHODS, Mixture, MixturePrior
from hpsde.mixture.posterior import (
    inverse_and_log_determinant,
    log_determinant,
    natural_parameters,
    sufficient_statistics,
)
from hpsde.mixture.search import CHUNK, collect, make_points
from hpsde.mixture.start import pick, seed_responsibilities, start_sizes

ROWS, OPTIONS = 384, 8  # one shape for most fits, so that they are compiled once
e_step = jax.jit(density.e_step)
default_prior = jax.jit(density.default_prior, static_argnames="max_components")
log_responsibilities, log_density = map(jax.jit, (density.log_responsibilities, density.log_density))


@jax.jit
def m_step(x, weights, responsibilities, prior):
    """The posterior given the responsibilities [N, O] of the weighted points, computed about h_0 as by `fit`."""
    statistics = (responsibilities * weights[:, None]).T @ sufficient_statistics(x - prior.h_0[None]).T
    shifted = density.posterior(statistics, prior._replace(h_0=jnp.zeros_like(prior.h_0)))
    return shifted._replace(h=shifted.h + prior.h_0[None])


@jax.jit
def lower_bound(mixture, prior, weights, log_eta):
    """Lower bound on the log evidence of the weighted data, with all its terms, for the m_step of exp(log_eta)."""
    eta = jnp.exp(log_eta)
    entropy = -weights @ jnp.sum(jnp.where(eta > 0, eta * log_eta, 0.0), axis=1)
    parts = density.option_bounds(mixture, log_determinant(mixture.K_inverse), prior)
    return jnp.sum(parts) + density.constant(prior, parts.shape[0], weights.sum()) + entropy


def two_lines(seed, n=300, total=120.0):
    """Two strips, uniform along s and with Laplace noise across: nothing Gaussian about them."""
    random = np.random.default_rng(seed)
    s, label = random.uniform(0, 2, n), random.integers(2, size=n)
    a = np.where(label == 0, 0.2 * s + 1.2, -0.3 * s + 0.9) + random.laplace(0, 0.05, n)
    return np.stack([s, a], axis=1), np.full(n, total / n), label


def three_segments(seed, n=300, total=120.0):
    random = np.random.default_rng(seed)
    s = random.uniform(0, 2, n)
    label = (s > 0.7).astype(int) + (s > 1.4)
    a = np.choose(label, [2.4 - 0.3 * s, 0.8 + 0.2 * s, 3.5 - 0.2 * s]) + random.laplace(0, 0.05, n)
    return np.stack([s, a], axis=1), np.full(n, total / n), label


def one_blob(seed, n=300, total=150.0):
    random = np.random.default_rng(seed)
    x = 50 + random.normal(size=(n, 2)) @ random.normal(size=(2, 2))
    return x, np.full(n, total / n), np.zeros(n, int)


def uneven(weights, seed):
    """Weights of the same sum, exponentially distributed."""
    share = np.random.default_rng(seed).exponential(size=len(weights))
    return weights.sum() * share / share.sum()


def fit(x, weights, seed=0, prior=None, rows=ROWS, **settings):
    """A fit with rows of weight 0 added, far away."""
    missing = rows - len(x)
    x = jnp.asarray(np.concatenate([x, np.full((missing, x.shape[1]), 1e3)]))
    weights = jnp.asarray(np.concatenate([weights, np.zeros(missing)]))
    settings = {"max_components": OPTIONS, **settings}
    prior = default_prior(x, weights, settings["max_components"]) if prior is None else prior
    return density.fit(jax.random.key(seed), x, weights, prior, **settings)


def kept(mixture, share=0.03):
    mass = np.asarray(mixture.mass)
    return np.flatnonzero((mass > 0.0) & (mass >= share * mass.sum()))


def random_problem(seed, n=40, Z=3, O=4):
    """Points, weights, responsibilities and a prior with nothing special about them."""
    random = np.random.default_rng(seed)
    x = 5 + random.normal(size=(n, Z)) * [1, 10, 0.1][:Z]
    eta = random.dirichlet(np.ones(O), size=n)
    scale = random.normal(size=(Z, Z + 2)) * np.array([1, 10, 0.1])[:Z, None]
    prior = MixturePrior(*map(jnp.asarray, (0.7, 0.4, Z + 1.3, x.mean(axis=0) + 0.3, scale @ scale.T)))
    return jnp.asarray(x), jnp.asarray(random.exponential(size=n)), jnp.asarray(eta), prior


def assert_same(one, other, rtol=1e-8):
    for name in Mixture._fields:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, atol=rtol * 1e-2, err_msg=name)


# ---------------------------------------------------------------- steps and bound against closed forms


def test_m_step_is_the_appendix():
    x, w, eta, prior = random_problem(0)
    mixture = m_step(x, w, eta, prior)
    X, W, E = np.asarray(x), np.asarray(w), np.asarray(eta)
    for o in range(E.shape[1]):
        r = W * E[:, o]
        gamma, c = r.sum(), r @ X / r.sum()
        beta = prior.beta_0 + gamma
        d = c - np.asarray(prior.h_0)
        scatter = (r * (X - c).T) @ (X - c)
        K_inverse = prior.K_0_inverse + scatter + prior.beta_0 * gamma / beta * np.outer(d, d)
        np.testing.assert_allclose(mixture.K_inverse[o], K_inverse, rtol=1e-10)
        np.testing.assert_allclose(mixture.h[o], (prior.beta_0 * prior.h_0 + gamma * c) / beta, rtol=1e-12)
        np.testing.assert_allclose(
            [mixture.alpha[o], mixture.beta[o], mixture.nu[o], mixture.mass[o]],
            np.array([prior.alpha_0, prior.beta_0, prior.nu_0, 0.0]) + gamma,
            rtol=1e-12,
        )


def expected_logs(mixture):
    """E[log k_o] and E[log |S_o|]."""
    alpha, nu, K_inverse = map(np.asarray, (mixture.alpha, mixture.nu, mixture.K_inverse))
    Z = K_inverse.shape[1]
    log_det = digamma((nu[:, None] - np.arange(Z)) / 2).sum(axis=1) + Z * np.log(2)
    return digamma(alpha) - digamma(alpha.sum()), log_det - np.linalg.slogdet(K_inverse)[1]


def log_rho(mixture, x):
    """The appendix's log rho_io, option by option, with the constant of the Gaussian."""
    log_k, log_det = expected_logs(mixture)
    Z = x.shape[1]
    columns = []
    for o in range(len(log_k)):
        d = x - np.asarray(mixture.h[o])
        K = np.linalg.inv(mixture.K_inverse[o])
        square = Z / mixture.beta[o] + mixture.nu[o] * np.einsum("ni,ij,nj->n", d, K, d)
        columns.append(log_k[o] + 0.5 * (log_det[o] - Z * np.log(2 * np.pi) - square))
    return np.stack(columns, axis=1)


def test_e_step_is_the_appendix():
    x, w, eta, prior = random_problem(1)
    mixture = m_step(x, w, eta, prior)
    log_eta, normaliser = e_step(mixture, x)
    rho = log_rho(mixture, np.asarray(x))
    np.testing.assert_allclose(log_eta + normaliser[:, None], rho, rtol=1e-9)
    np.testing.assert_allclose(np.exp(log_eta).sum(axis=1), 1.0, rtol=1e-12)


def log_wishart_norm(K_inverse, nu):
    Z = len(K_inverse)
    log_det = np.linalg.slogdet(K_inverse)[1]
    return 0.5 * nu * log_det - 0.5 * nu * Z * np.log(2) - multigammaln(nu / 2, Z)


def textbook_bound(mixture, prior, x, weights, eta):
    """Bishop 10.71 to 10.77 with sample weights, term by term."""
    log_k, log_det = expected_logs(mixture)
    alpha, beta, nu = map(np.asarray, (mixture.alpha, mixture.beta, mixture.nu))
    O, Z = np.shape(mixture.h)
    r = weights[:, None] * eta
    likelihood = np.sum(r * (log_rho(mixture, x) - log_k))
    labels = np.sum(r * log_k)
    entropy = -np.sum(r * np.log(eta))

    def log_dirichlet(a):
        return gammaln(a.sum()) - gammaln(a).sum()

    a0 = np.full(O, float(prior.alpha_0))
    p_k = log_dirichlet(a0) + np.sum((a0 - 1) * log_k)
    q_k = log_dirichlet(alpha) + np.sum((alpha - 1) * log_k)
    p_theta = q_theta = 0.0
    for o in range(O):
        K = np.linalg.inv(mixture.K_inverse[o])
        d = np.asarray(mixture.h[o] - prior.h_0)
        p_theta += 0.5 * (Z * np.log(prior.beta_0 / (2 * np.pi)) + log_det[o] - Z * prior.beta_0 / beta[o])
        p_theta += -0.5 * prior.beta_0 * nu[o] * d @ K @ d + log_wishart_norm(prior.K_0_inverse, prior.nu_0)
        p_theta += 0.5 * (prior.nu_0 - Z - 1) * log_det[o] - 0.5 * nu[o] * np.sum(prior.K_0_inverse * K)
        wishart_entropy = (
            -log_wishart_norm(mixture.K_inverse[o], nu[o]) - 0.5 * (nu[o] - Z - 1) * log_det[o] + nu[o] * Z / 2
        )
        q_theta += 0.5 * log_det[o] + 0.5 * Z * (np.log(beta[o] / (2 * np.pi)) - 1) - wishart_entropy
    return likelihood + labels + entropy + p_k - q_k + p_theta - q_theta


@pytest.mark.parametrize("seed", range(3))
def test_bound_is_the_textbook_one(seed):
    x, w, eta, prior = random_problem(seed)
    mixture = m_step(x, w, eta, prior)
    expected = textbook_bound(mixture, prior, np.asarray(x), np.asarray(w), np.asarray(eta))
    np.testing.assert_allclose(lower_bound(mixture, prior, w, jnp.log(eta)), expected, rtol=1e-10)


def test_bound_of_one_option_is_the_log_evidence():
    """The exact evidence as a product of the Student predictive densities, sample after sample."""
    x, _, _, prior = random_problem(3)
    n, Z = x.shape
    mixture = m_step(x, jnp.ones(n), jnp.ones((n, 1)), prior)
    evidence = 0.0
    h, beta, nu, L = map(np.asarray, (prior.h_0, prior.beta_0, prior.nu_0, prior.K_0_inverse))
    for row in np.asarray(x):
        df = nu - Z + 1
        evidence += multivariate_t.logpdf(row, loc=h, shape=L * (beta + 1) / (beta * df), df=df)
        L = L + beta / (beta + 1) * np.outer(row - h, row - h)
        h, beta, nu = (beta * h + row) / (beta + 1), beta + 1, nu + 1
    bound = lower_bound(mixture, prior, jnp.ones(n), jnp.zeros((n, 1)))
    np.testing.assert_allclose(bound, evidence, rtol=1e-10)


def test_bound_never_decreases():
    x, w, eta, prior = random_problem(4, n=120)
    log_eta, bounds = jnp.log(eta), []
    for _ in range(60):
        mixture = m_step(x, w, jnp.exp(log_eta), prior)
        bounds.append(float(lower_bound(mixture, prior, w, log_eta)))
        log_eta, _ = e_step(mixture, x)
    assert np.min(np.diff(bounds)) > -1e-9
    assert bounds[-1] > bounds[0] + 1


# ---------------------------------------------------------------- maximum likelihood


def em_objective(mixture, prior, x, w):
    """Penalised log likelihood by scipy."""
    sigma_0 = np.asarray(prior.K_0_inverse / prior.nu_0)
    covariances, mixing = np.asarray(mixture.covariances), np.asarray(mixture.mixing)
    parts = [k * multivariate_normal.pdf(x, h, S) for k, h, S in zip(mixing, mixture.h, covariances, strict=True)]
    value = w @ np.log(np.sum(parts, axis=0))
    for S in covariances:
        ratio = np.linalg.solve(S, sigma_0)
        value -= 0.5 * mixture_em.PSEUDO_SAMPLES * (np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(S))
    return value


def test_em_climbs_the_penalised_likelihood():
    x, w, eta, prior = random_problem(5, n=120)
    x = x - prior.h_0[None]
    t = density.sufficient_statistics(x)

    @jax.jit
    def step(log_eta):
        mixture = mixture_em.estimate((jnp.exp(log_eta) * w[:, None]).T @ t.T, prior)
        parts = mixture_em.option_bounds(mixture, log_determinant(mixture.K_inverse), prior)
        entropy = -w @ jnp.sum(jnp.exp(log_eta) * log_eta, axis=1)
        bound = parts.sum() + mixture_em.constant(w.sum()) + entropy
        return mixture, bound, density.e_step(mixture, x)[0]

    log_eta, bounds, truths = jnp.log(eta), [], []
    for _ in range(300):
        mixture, bound, log_eta = step(log_eta)
        bounds.append(float(bound))
        truths.append(em_objective(mixture, prior, np.asarray(x), np.asarray(w)))
    assert np.min(np.diff(bounds)) > -1e-9
    # the free energy lies below the likelihood, and meets it where the responsibilities have settled
    assert np.all(np.array(bounds) <= np.array(truths) + 1e-9)
    np.testing.assert_allclose(bounds[-1], truths[-1], rtol=1e-6)


def test_em_agrees_with_scikit_learn_when_data_are_many():
    x, w, label = two_lines(0, total=3e5)
    X, W = jnp.asarray(x), jnp.asarray(w)
    prior = default_prior(X, W, OPTIONS)
    truth = m_step(X, W, jnp.eye(OPTIONS)[label], prior)
    mixture, info = fit(x, w, method="em", warm=truth, stickiness=1e9, tolerance=1e-2, iterations=500)
    theirs = GaussianMixture(2, means_init=truth.h[:2], tol=1e-9, max_iter=500).fit(x)
    np.testing.assert_allclose(mixture.h[:2], theirs.means_, rtol=1e-3)
    np.testing.assert_allclose(mixture.covariances[:2], theirs.covariances_, atol=1e-4)
    np.testing.assert_allclose(info.lower_bound / w.sum(), theirs.score(x), rtol=1e-4)


# ---------------------------------------------------------------- weights are counts


@pytest.mark.parametrize("method", DENSITY_METHODS)
def test_whole_weights_are_copies_and_zero_is_absence(method):
    x, _, _ = two_lines(1, n=100)
    counts = np.random.default_rng(1).integers(0, 4, size=100)
    once, info = fit(x, counts.astype(float), method=method)
    copies = np.repeat(x, counts, axis=0)
    often, info_often = fit(copies, np.ones(len(copies)), method=method)
    assert len(kept(once)) >= 2
    assert_same(once, often)
    np.testing.assert_allclose(info.lower_bound, info_often.lower_bound, rtol=1e-10)


def test_rows_without_weight_change_nothing_wherever_they_stand():
    x, w, _ = two_lines(2, n=150)
    w = uneven(w, 2)
    plain, info = fit(x, w)
    padded_x = np.insert(x, np.arange(0, 150, 3), [np.nan, np.inf], axis=0)
    padded_w = np.insert(w, np.arange(0, 150, 3), 0.0)
    padded, info_padded = fit(padded_x, padded_w)
    assert_same(plain, padded)
    np.testing.assert_allclose(info.bounds, info_padded.bounds, rtol=1e-10)


def test_scale_of_the_weights_matters():
    """Few counts cannot pay for two options, many can."""
    x, w, _ = two_lines(3)
    assert len(kept(fit(x, w / w.sum())[0])) == 1
    assert len(kept(fit(x, w)[0])) == 2


# ---------------------------------------------------------------- units and order do not matter


@pytest.mark.parametrize("method", DENSITY_METHODS)
def test_shift_and_scale_of_coordinates(method):
    x, w, _ = two_lines(4)
    shift, scale = np.array([-300.0, 0.02]), np.array([1e3, 1e-4])
    plain, info = fit(x, w, method=method)
    moved, info_moved = fit(x * scale + shift, w, method=method)
    h, K_inverse = np.asarray(plain.h), np.asarray(plain.K_inverse)
    expected = plain._replace(h=h * scale + shift, K_inverse=K_inverse * np.outer(scale, scale))
    for name in Mixture._fields:
        np.testing.assert_allclose(getattr(moved, name), getattr(expected, name), rtol=1e-6, err_msg=name)
    jacobian = w.sum() * np.sum(np.log(scale))
    np.testing.assert_allclose(info_moved.lower_bound, info.lower_bound - jacobian, rtol=1e-9)


def test_default_prior_follows_shift_and_scale():
    x, w, _ = two_lines(5)
    shift, scale = np.array([7.0, -1e4]), np.array([0.01, 20.0])
    plain = default_prior(jnp.asarray(x), jnp.asarray(w), OPTIONS)
    moved = default_prior(jnp.asarray(x * scale + shift), jnp.asarray(w), OPTIONS)
    np.testing.assert_allclose(moved.h_0, plain.h_0 * scale + shift, rtol=1e-10)
    np.testing.assert_allclose(moved.K_0_inverse, plain.K_0_inverse * np.outer(scale, scale), rtol=1e-6)
    np.testing.assert_array_equal(moved[:3], plain[:3])


def test_order_of_the_points_does_not_matter():
    x, w, _ = three_segments(6)
    order = np.random.default_rng(6).permutation(len(x))
    one, info = fit(x, w)
    other, info_other = fit(x[order], w[order])
    np.testing.assert_allclose(info.lower_bound, info_other.lower_bound, atol=1e-2)
    np.testing.assert_allclose(
        np.sort(np.asarray(one.h)[kept(one)], axis=0),
        np.sort(np.asarray(other.h)[kept(other)], axis=0),
        atol=1e-3,
    )


# ---------------------------------------------------------------- how many options


@pytest.mark.parametrize("method", DENSITY_METHODS)
@pytest.mark.parametrize(("make", "number"), [(two_lines, 2), (three_segments, 3), (one_blob, 1)])
def test_number_of_options(make, number, method):
    for seed, total in itertools.product(range(4), (60.0, 120.0)):
        x, w, label = make(seed, total=total)
        mixture, info = fit(x, uneven(w, seed), seed, method=method)
        assert len(kept(mixture)) == number
        assert bool(info.converged)
        guess = np.asarray(log_responsibilities(mixture, jnp.asarray(x))).argmax(axis=1)
        pure = sum(np.bincount(label[guess == o]).max() for o in np.unique(guess))
        assert pure >= 0.97 * len(x)


def test_number_of_options_in_eight_dimensions():
    for seed in range(3):
        random = np.random.default_rng(seed)
        label = random.integers(4, size=300)
        x = 2 * random.normal(size=(4, 8))[label] + random.normal(size=(300, 8)) * random.uniform(0.3, 1, 8)
        mixture, _ = fit(x, np.full(300, 0.5), seed)
        guess = np.asarray(log_responsibilities(mixture, jnp.asarray(x))).argmax(axis=1)
        assert len(kept(mixture)) == 4
        assert len(set(zip(label, guess, strict=True))) == 4


def test_search_comes_as_high_as_from_the_truth():
    for make, seed in itertools.product((two_lines, three_segments), range(5)):
        x, w, label = make(seed, total=180.0)
        prior = default_prior(jnp.asarray(x), jnp.asarray(w), OPTIONS)
        truth = m_step(jnp.asarray(x), jnp.asarray(w), jnp.eye(OPTIONS)[label], prior)
        _, oracle = fit(x, w, seed, warm=truth, stickiness=1e9)
        assert int(oracle.chosen) == len(oracle.bounds) - 1
        _, info = fit(x, w, seed)
        assert float(info.lower_bound) > float(oracle.lower_bound) - 0.01


def test_merges_mend_a_start_with_too_many_options():
    """Six options on two lines, held against all other starts: merging them is the only way up."""
    x, w, label = two_lines(3)
    prior = default_prior(jnp.asarray(x), jnp.asarray(w), OPTIONS)
    thirds = 2 * (x[:, 0] * 1.5).astype(int) + label
    warm = m_step(jnp.asarray(x), jnp.asarray(w), jnp.eye(OPTIONS)[thirds], prior)
    split, _ = fit(x, w, warm=warm, stickiness=1e9, iterations=1)
    assert len(kept(split)) == 6
    merged, _ = fit(x, w, warm=split, stickiness=20.0)
    assert len(kept(merged)) == 2


def test_returned_bound_is_that_of_the_mixture():
    x, w, _ = three_segments(7)
    X, W = jnp.asarray(x), jnp.asarray(w)
    prior = default_prior(X, W, OPTIONS)
    mixture, info = fit(x, w, prior=prior, tolerance=1e-9)
    log_eta = log_responsibilities(mixture, X)
    np.testing.assert_allclose(lower_bound(mixture, prior, W, log_eta), info.lower_bound, rtol=1e-6)
    assert float(info.lower_bound) >= float(info.bounds.max()) - 1e-9


# ---------------------------------------------------------------- warm start


def test_warm_start_keeps_the_order_of_the_options():
    x, w, label = three_segments(8)
    X, W = jnp.asarray(x), jnp.asarray(w)
    prior = default_prior(X, W, OPTIONS)
    for order in itertools.permutations((5, 0, 3)):
        eta = jnp.eye(OPTIONS)[np.asarray(order)[label]]
        x_new, w_new, _ = three_segments(80)
        mixture, info = fit(x_new, w_new, warm=m_step(X, W, eta, prior))
        assert int(info.chosen) == len(info.bounds) - 1
        for segment, option in enumerate(order):
            np.testing.assert_allclose(mixture.h[option], x[label == segment].mean(axis=0), atol=0.1)


def test_stickiness_decides_between_warm_start_and_gain():
    x, w, _ = two_lines(9)
    X, W = jnp.asarray(x), jnp.asarray(w)
    prior = default_prior(X, W, OPTIONS)
    halves = (x[:, 0] > 1).astype(int)  # a local optimum: cut across both lines
    warm = m_step(X, W, jnp.eye(OPTIONS)[halves], prior)
    stayed, info = fit(x, w, warm=warm, stickiness=1e4)
    _, info_moved = fit(x, w, warm=warm, stickiness=3.0)
    assert int(info.chosen) == len(info.bounds) - 1
    assert int(info_moved.chosen) < len(info.bounds) - 1
    assert float(info_moved.lower_bound) > float(info.lower_bound) + 3.0
    assert abs(float(stayed.h[0, 0]) - float(stayed.h[1, 0])) > 0.5


def test_warm_start_without_mass_is_none():
    x, w, _ = two_lines(10)
    cold, info = fit(x, w)
    nothing, info_nothing = fit(x, w, warm=cold._replace(mass=jnp.zeros(OPTIONS)))
    assert_same(cold, nothing, rtol=0)
    assert int(info.chosen) == int(info_nothing.chosen)


def test_one_compilation_serves_cold_and_warm():
    x, w, _ = two_lines(11)
    cold, _ = fit(x, w)
    compiled = density._fit._cache_size()
    fit(x, w, warm=cold, seed=5, stickiness=1.0, iterations=50, tolerance=1e-2)
    assert density._fit._cache_size() == compiled


def test_fit_can_be_part_of_compiled_code():
    x, w, _ = two_lines(11, n=ROWS)

    def outer(key, x, w, tolerance, iterations):
        prior = density.default_prior(x, w, OPTIONS)
        return density.fit(key, x, w, prior, max_components=OPTIONS, tolerance=tolerance, iterations=iterations)

    shapes, _ = jax.eval_shape(outer, jax.random.key(0), jnp.asarray(x), jnp.asarray(w), jnp.asarray(0.1), 9)
    assert shapes.K_inverse.shape == (OPTIONS, 2, 2)


def test_same_key_same_bits():
    x, w, _ = three_segments(12)
    for one, other in zip(*(jax.tree.leaves(fit(x, w)) for _ in range(2)), strict=True):
        np.testing.assert_array_equal(one, other)


# ---------------------------------------------------------------- degenerate input


DEGENERATE = {
    "no weight at all": (np.random.default_rng(0).normal(size=(50, 2)), np.zeros(50)),
    "one sample": (np.array([[3.0, -1e6]]), np.ones(1)),
    "all samples equal": (np.tile([[1e5, 0.0]], (50, 1)), np.ones(50)),
    "two places": (np.repeat([[0.0, 1.0], [5.0, 1.0]], 25, axis=0), np.ones(50)),
    "a constant coordinate": (np.stack([np.linspace(0, 1, 50), np.full(50, 0.1)], axis=1), np.ones(50)),
    "tiny weights": (np.random.default_rng(1).normal(size=(50, 2)), np.full(50, 1e-200)),
    "huge scale": (1e100 * np.random.default_rng(2).normal(size=(50, 2)), np.ones(50)),
}


@pytest.mark.parametrize("method", DENSITY_METHODS)
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_input_gives_finite_results(case, method):
    x, w = DEGENERATE[case]
    mixture, info = fit(x, w, method=method)
    fields = mixture._asdict()
    if method == "em":
        assert np.all(np.isposinf(fields.pop("beta")))
    for name, field in fields.items():
        assert np.all(np.isfinite(field)), name
    assert np.isfinite(info.lower_bound)
    assert np.all(np.isfinite(np.exp(log_responsibilities(mixture, jnp.asarray(x[:1])))))


def test_fewer_samples_than_dimensions():
    x = np.random.default_rng(0).normal(size=(3, 8))
    mixture, info = fit(x, np.ones(3))
    assert np.isfinite(info.lower_bound)
    assert len(kept(mixture)) == 1
    assert np.all(np.linalg.eigvalsh(mixture.covariances) > 0)


def test_unknown_method_lists_the_known():
    with pytest.raises(UnknownNameError, match="vb, em"):
        fit(*two_lines(0)[:2], method="kmeans")


# ---------------------------------------------------------------- questions to a mixture


@pytest.fixture(scope="module")
def asked():
    """A mixture with an absent option in the middle, and the plain numbers of the others."""
    x, w, eta, prior = random_problem(20)
    mixture = m_step(x, w, eta, prior)
    present = np.array([True, False, True, True])
    mixture = density.select(mixture, jnp.asarray(present))
    alpha = np.asarray(mixture.alpha)[present]
    plain = [
        (k, np.asarray(mixture.h[o]), np.asarray(mixture.K_inverse[o] / mixture.nu[o]))
        for k, o in zip(alpha / alpha.sum(), np.flatnonzero(present), strict=True)
    ]
    return mixture, x, present, plain


def test_log_density_is_the_plug_in_mixture(asked):
    mixture, x, _, plain = asked
    expected = np.log(sum(k * multivariate_normal.pdf(x, h, S) for k, h, S in plain))
    np.testing.assert_allclose(log_density(mixture, x), expected, rtol=1e-9)


def test_responsibilities_among_those_present(asked):
    mixture, x, present, _ = asked
    rho = np.exp(log_rho(mixture, np.asarray(x))) * present
    eta = np.exp(log_responsibilities(mixture, x))
    np.testing.assert_allclose(eta, rho / rho.sum(axis=1, keepdims=True), rtol=1e-8)
    assert np.all(eta[:, 1] == 0)


@pytest.mark.parametrize("dims", [(0,), (2, 0)])
def test_a_marginal_mixture_has_the_marginals_of_the_plug_in_gaussians(asked, dims):
    mixture, x, _, plain = asked
    index = list(dims)
    part = np.asarray(x)[:, index]
    truth = sum(k * multivariate_normal.pdf(part, h[index], S[np.ix_(index, index)]) for k, h, S in plain)
    np.testing.assert_allclose(
        np.exp(log_density(density.marginal(mixture, dims), jnp.asarray(part))), truth, rtol=1e-8
    )


# ---------------------------------------------------------------- starts


def test_one_option_over_one_number():
    x, w, _ = two_lines(16, n=60)
    x = x[:, :1]
    mixture, info = fit(x, w, max_components=1, restarts=1, rows=60)
    X, W = jnp.asarray(x), jnp.asarray(w)
    prior = default_prior(X, W, 1)
    assert_same(mixture, m_step(X, W, jnp.ones((60, 1)), prior))
    bound = lower_bound(mixture, prior, W, jnp.zeros((60, 1)))
    np.testing.assert_allclose(info.lower_bound, bound, rtol=1e-10)


def test_pick_follows_the_shares():
    shares = jnp.asarray([0.0, 3.0, 0.0, 1.0, 4.0, 0.0])
    uniforms = (jnp.arange(800) + 0.5) / 800
    picked = np.bincount(jax.vmap(lambda u: pick(u, shares))(uniforms), minlength=6)
    np.testing.assert_array_equal(picked, 100 * np.asarray(shares))
    assert int(pick(jnp.asarray(1.0), shares)) == 4


def test_seeds_give_each_point_to_the_nearest():
    """Far apart clusters: k-means++ finds each of them, and only points with weight are seeds."""
    random = np.random.default_rng(0)
    label = random.integers(3, size=90)
    x = 100.0 * np.eye(3)[label] + random.normal(size=(90, 3))
    x = jnp.asarray(np.concatenate([x, np.full((10, 3), 1e4)]))
    weights = jnp.asarray(np.concatenate([random.exponential(size=90), np.zeros(10)]))
    eta = np.asarray(seed_responsibilities(jnp.asarray(random.uniform(size=5)), x, weights, jnp.asarray(3)))
    np.testing.assert_array_equal(eta.sum(axis=0), 1.0)
    assert len(set(zip(label, eta[:, :90].argmax(axis=0), strict=True))) == 3
    assert not eta[3:].any()


def test_start_sizes_never_pass_the_limit():
    assert start_sizes(8, 10) == (4, 10, 2, 8, 3, 6, 4, 10)
    assert start_sizes(4, 3) == (3, 2, 3, 2)
    assert start_sizes(2, 1) == (1, 1)


def test_chunks_add_up():
    """More points than a chunk holds, and not a whole number of chunks: sums and entropy as in one piece."""
    x, w, eta, prior = random_problem(17, n=2 * CHUNK + 77)
    mixture = m_step(x, w, eta, prior)
    log_eta, _ = e_step(mixture, x)
    moved = mixture._replace(h=mixture.h - prior.h_0[None])
    natural = natural_parameters(moved, *inverse_and_log_determinant(moved.K_inverse))
    points = make_points(density.sufficient_statistics(x - prior.h_0[None]), w)
    assert points.t.shape[0] == 3
    statistics, entropy = jax.jit(collect)(natural, jnp.ones(4, bool), points)
    weighted = np.asarray(w)[:, None] * np.exp(log_eta)
    np.testing.assert_allclose(entropy, -np.sum(weighted * np.asarray(log_eta)), rtol=1e-8)
    np.testing.assert_allclose(statistics[:, -1], weighted.sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(statistics[:, -4:-1], weighted.T @ np.asarray(x - prior.h_0[None]), rtol=1e-8)
