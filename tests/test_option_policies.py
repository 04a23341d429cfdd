"""Options whose means add something of their own to a linear part: every step works with them as with others."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import hpsde
import small
from hpsde import InputError
from hpsde.steps import gaussian, refinement
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.option_policies import check_added


class Folds(NamedTuple):
    """|phi - 1/2| A."""

    A: jax.Array
    kind = "folded"

    def mean(self, features, xp):
        return xp.abs(features - 0.5) @ self.A


class Folded(hpsde.OptionPolicies, listed=False, name="folded"):
    """Means with a fold."""

    trained = Folds
    shapes = {"A": "O F D"}  # noqa: RUF012 - as a user writes it

    def fit(self, features, parameters, weights):
        phi = jnp.concatenate([jnp.abs(features - 0.5), features, jnp.ones((len(features), 1))], axis=1)
        moments = (phi.T * weights[None]) @ phi + 1e-6 * jnp.eye(phi.shape[1])
        A = jnp.linalg.solve(moments, (phi.T * weights[None]) @ parameters)
        return Folds(A[: features.shape[1]])


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setitem(hpsde.OptionPolicies.known, "folded", Folded)


def two_options():
    """Of two parameters, in one feature."""
    Sigma = np.array([[[0.5, 0.1], [0.1, 0.3]], [[0.2, 0.0], [0.0, 0.4]]])
    b, w = np.array([[0.3, -0.2], [1.0, 2.0]]), np.array([[[0.5, 0.0]], [[-1.0, 0.7]]])
    A = np.array([[[0.4, -0.8]], [[1.5, 0.2]]])
    return LinearGaussian(*map(jnp.asarray, (b, w, Sigma)), h=Folds(jnp.asarray(A)))


def true_means(options, phi):
    b, w, A = (np.asarray(each) for each in (options.b, options.w, options.h.A))
    return np.stack([b[o] + phi @ w[o] + np.abs(phi - 0.5) @ A[o] for o in range(2)])


PHI = np.linspace(-1.0, 2.0, 7)[:, None]


def test_means_samples_and_densities_are_those_of_the_whole_mean():
    options, phi = two_options(), jnp.asarray(PHI)
    means = true_means(options, PHI)
    np.testing.assert_allclose(gaussian.means(options, phi), means, rtol=1e-12)
    which = np.tile(np.arange(2), 4)[:7]
    drawn = gaussian.draw(jax.random.key(0), options, PHI, which)
    plain = gaussian.draw(jax.random.key(0), options._replace(h=None), PHI, which)
    h = np.abs(PHI - 0.5)[:, None] @ np.asarray(options.h.A)[which]
    np.testing.assert_allclose(drawn - plain, h[:, 0], rtol=1e-12, atol=1e-12)
    xi = np.random.default_rng(3).normal(size=(7, 2))
    expected = [
        [scipy.stats.multivariate_normal(means[o, n], options.Sigma[o]).logpdf(xi[n]) for n in range(7)]
        for o in range(2)
    ]
    np.testing.assert_allclose(gaussian.log_density(options, phi, jnp.asarray(xi)), expected, rtol=1e-10)


def test_bounds_clip_the_whole_mean_and_combinations_combine_it():
    options, limits = two_options(), (np.array([-0.5, -0.5]), np.array([0.6, 0.7]))
    clipped = gaussian.means(gaussian.cut(options, limits), jnp.asarray(PHI))
    np.testing.assert_allclose(clipped, np.clip(true_means(options, PHI), *limits), rtol=1e-12)
    P = np.array([[1.0], [-2.0]])
    projected = gaussian.means(gaussian.project(options, jnp.asarray(P)), jnp.asarray(PHI))
    np.testing.assert_allclose(projected, true_means(options, PHI) @ P, rtol=1e-12, atol=1e-12)


def test_the_regression_leaves_less_than_a_linear_one_and_its_covariance_says_so():
    rng = np.random.default_rng(0)
    phi = rng.uniform(-1.0, 2.0, (400, 1))
    xi = 0.7 * phi + 2.0 * np.abs(phi - 0.5) + 0.1 * rng.normal(size=(400, 1))
    arrays = [jnp.asarray(each) for each in (phi, xi, np.ones(400))]
    given = {"ridge": 1e-5, "variance_floor": 1e-9}
    bent = gaussian.fit(*arrays, **given, fit_h=Folded().fit)
    means = gaussian.means(jax.tree.map(lambda part: part[None], bent), arrays[0])[0]
    residual = np.asarray(xi - means)
    np.testing.assert_allclose(bent.Sigma, np.cov(residual.T)[None, None], rtol=0.02)
    np.testing.assert_allclose(bent.Sigma, 0.1**2, rtol=0.15)
    np.testing.assert_allclose(bent.h.A, 2.0, rtol=0.02)
    assert float(gaussian.fit(*arrays, **given).Sigma[0, 0]) > 0.2


def test_refinement_moves_the_linear_part_as_if_h_were_taken_off_the_parameters():
    rng = np.random.default_rng(1)
    s = rng.uniform(-1.0, 2.0, (60, 1))
    A = np.array([[[0.8]]])
    fold = np.abs(s - 0.5) @ A[0]
    left = rng.normal(size=(60, 1))
    returns = -((left[:, 0] - 0.4 - 0.2 * s[:, 0]) ** 2)
    wide = LinearGaussian(jnp.zeros((1, 1)), jnp.zeros((1, 1, 1)), jnp.ones((1, 1, 1)))
    every, all_good = np.ones(1, dtype=bool), np.ones((1, 60), dtype=bool)
    before = wide._replace(b=jnp.full((1, 1), 0.3), Sigma=jnp.full((1, 1, 1), 0.1))

    def refined(h, xi, low, last):
        options = wide._replace(h=h, low=None if low is None else jnp.full((1, 1), low), high=None)
        options = options if low is None else options._replace(high=jnp.full((1, 1), 9.0))
        return refinement.refine(options, last, every, every, all_good, all_good, s, xi, returns, s)

    h = Folds(jnp.asarray(A))
    for low, last in ((None, None), (-9.0, None), (None, before)):
        bent = refined(h, left + fold, low, None if last is None else last._replace(h=h))
        for one, other in zip(bent[:3], refined(None, left, low, last)[:3], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
        assert np.allclose(np.asarray(bent.b), 0.4, atol=1e-3)


def test_on_a_bound_the_whole_mean_is():
    rng = np.random.default_rng(2)
    s = rng.uniform(-1.0, 2.0, (80, 1))
    A, high = np.array([[[-0.02]]]), 1.0
    option = LinearGaussian(jnp.full((1, 1), 0.95), jnp.zeros((1, 1, 1)), jnp.full((1, 1, 1), 0.05**2))
    option = gaussian.cut(option._replace(h=Folds(jnp.asarray(A))), (np.array([-1.0]), np.array([high])))
    xi = np.clip(np.asarray(gaussian.means(option, jnp.asarray(s)))[0] + 0.05 * rng.normal(size=(80, 1)), -1.0, high)
    h = gaussian.added(option, s)[0]
    one, own = LinearGaussian(*(np.asarray(part)[0] for part in option[:3])), np.ones(80, dtype=bool)
    found = refinement.to_bounds(one, np.array([-1.0]), np.array([high]), s, xi - h, 3.0 * (xi - h)[:, 0], own, s, h, h)
    there = gaussian.means(option._replace(b=found.b[None], w=found.w[None]), jnp.asarray(s))
    np.testing.assert_array_equal(there, high)


FIRST = small.draw_contexts(0, 128, 1)
KINK = FIRST.mean() + 0.5 * FIRST.std()


@pytest.mark.parametrize("sizes", [(1, 1), (0, 2)], ids=["contexts", "no context"])
def test_they_are_learned_with(known, sizes, tmp_path):
    learner = small.make(*sizes, options=Folded(), features="linear")
    policy = small.run(learner, lambda s, xi: -np.sum((xi - fold(s)) ** 2, axis=1)).policy
    small.assert_sound(policy)
    contexts = np.linspace(0.0, 2.0, 9)[:, None] if sizes[0] else None
    best = fold(contexts) * np.ones(sizes[1])
    np.testing.assert_allclose(policy.act(contexts), best if sizes[0] else best[0], atol=0.03)
    policy.save(tmp_path / "policy.npz")
    small.assert_same_bits(hpsde.load_policy(tmp_path / "policy.npz"), policy)


def fold(contexts):
    """The best parameters, with a kink where the standardised context is 0.5."""
    return np.full((1, 1), 0.3) if contexts is None or not contexts.shape[1] else 0.8 * np.abs(contexts - KINK) - 0.4


class OfJax(Folds):
    def mean(self, features, xp):
        return jnp.abs(features - 0.5) @ self.A


class OneRow(Folds):
    def mean(self, features, xp):
        return xp.abs(features[:1] - 0.5) @ self.A


class NeverZero(Folds):
    def mean(self, features, xp):
        return xp.abs(features - 0.5) @ self.A + 1.0


@pytest.mark.parametrize(
    ("trained", "message"),
    [
        (OfJax, "options 'folded': mean.* must give an array of 64-bit numbers where xp is numpy; got ArrayImpl"),
        (OneRow, r"must give shape \[2, 2\] for features \[2, 1\]; got \[1, 2\]"),
        (NeverZero, "must give 0 where all its numbers are 0"),
    ],
)
def test_a_mean_that_breaks_the_protocol_is_said(trained, message):
    options = two_options()
    check_added(options, PHI)
    with pytest.raises(InputError, match=message):
        check_added(options._replace(h=trained(*options.h)), PHI)


def test_a_learner_checks_it(known):
    class Bad(Folded, listed=False, name="folded"):
        def fit(self, features, parameters, weights):
            return NeverZero(*super().fit(features, parameters, weights))

    with pytest.raises(InputError, match="must give 0 where all its numbers are 0"):
        small.run(small.make(options=Bad(), features="linear", density="vb", gate="softmax"))
