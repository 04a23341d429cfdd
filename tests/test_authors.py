"""The parts of the method `authors`: what the authors' code does, against closed forms and by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import small
from hpsde.mixture.eigenmaps import LaplacianEigenmaps
from hpsde.settings import Settings, short_names
from hpsde.steps import authors, gaussian, latent
from hpsde.steps.gate import Optimism
from hpsde.steps.gates import explorer_of
from hpsde.steps.gating import GaussianProcess
from hpsde.steps.rollouts import Data
from test_gating import CONTEXTS, KEPT, make_gp_gate, make_options, score

N = 200


def make_data(scale=1.0):
    """Rollouts along two strips, of which some are padding."""
    rng = np.random.default_rng(4)
    contexts = rng.uniform(-1.0, 1.0, (N, 1))
    parameters = np.where(np.arange(N) % 2, 1.0, -1.0)[:, None] + 0.1 * rng.normal(size=(N, 1))
    return Data(
        contexts=contexts,
        parameters=scale * parameters,
        returns=rng.normal(size=N),
        features=contexts,
        log_behaviour=np.zeros(N),
        mask=np.arange(N) < N - 8,
        initial=np.ones(N, dtype=bool),
    )


def test_the_method_differs_from_the_papers_form_in_these_settings_alone():
    paper, own = short_names(Settings.paper()), short_names(Settings.authors())
    changed = {name: own[name] for name in own if own[name] != paper.get(name)}
    assert changed == {
        "f": "standardised", "density": "authors", "weight_sum": "n", "options": "squared", "gate": "gp-draws"
    }  # fmt: skip
    assert (own["kappa"], own["epsilon"], own["ridge"], own["embedding_dimensions"]) == (1.0, 0.3, 1e-3, 8)


def test_f_is_the_same_in_every_unit_of_the_returns():
    returns = np.random.default_rng(0).normal(size=50)
    f = authors.Standardised()
    assert f.temperature == 1.0
    assert_allclose(f.log(3.0 * returns - 7.0), f.log(returns))
    assert_allclose([f.log(returns).mean(), f.log(returns).std()], [0.0, 1.0], atol=1e-12)
    assert_array_equal(f.log(np.ones(4)), 0.0)


def test_the_prior_has_the_authors_numbers():
    prior = authors.prior(8)
    assert [float(each) for each in prior[:3]] == [1.0, 1.0, 10.0]
    assert_array_equal(prior.h_0, np.zeros(8))
    assert_array_equal(prior.K_0_inverse, np.eye(8))
    assert float(authors.prior(12).nu_0) == 12.0  # below the number of coordinates there is no such distribution


def test_the_worst_tenth_is_left_out():
    data = make_data()
    used = authors.used(data)
    assert used.sum() == pytest.approx(0.9 * data.mask.sum(), abs=1)
    assert not used[~data.mask].any()
    assert data.returns[used].min() > data.returns[data.mask & ~used].max()


def test_coordinates_are_the_constant_and_an_eigenmap_of_unscaled_points():
    data = make_data()
    found = authors.coordinates(data, data.mask, 4)
    assert_array_equal(found[:, 0], 1.0)
    same = LaplacianEigenmaps(3, scaled=False).fit(data.joint, data.mask)
    assert_array_equal(found[:, 1:], same.coordinates)
    assert_array_equal(same.points, np.unique(data.joint[data.mask], axis=0))
    assert not np.allclose(authors.coordinates(make_data(scale=9.0), data.mask, 4), found)
    assert_array_equal(authors.coordinates(data, data.mask, 0), data.joint)
    assert authors.coordinates(data, data.mask, 1).shape == (N, 1)


def test_covariances_have_squared_weights():
    data, rng = make_data(), np.random.default_rng(1)
    weights = np.stack([rng.uniform(size=N), np.zeros(N)])
    b, w = np.array([[0.3], [0.0]]), np.array([[[0.5]], [[0.0]]])
    policies = gaussian.LinearGaussian(jnp.asarray(b), jnp.asarray(w), jnp.ones((2, 1, 1)))
    found = authors.SquaredOptions().with_covariances(policies, data.features, data.parameters, weights)
    d = weights[0] / weights[0].max()
    error = data.parameters[:, 0] - 0.3 - 0.5 * data.features[:, 0]
    Z = (d.sum() ** 2 - np.sum(d**2)) / d.sum()
    assert_allclose(found.Sigma[0, 0, 0], np.sum(d**2 * error**2) / Z + authors.LEAST_VARIANCE)
    assert_array_equal(found.Sigma[1], 1.0)  # nobody asks for it
    assert_array_equal(found.b, b)
    again = authors.SquaredOptions().with_covariances(policies, data.features, data.parameters, 5.0 * weights)
    assert_allclose(again.Sigma, found.Sigma)


def test_many_draws_tell_what_the_closed_form_says():
    gate = make_gp_gate()
    exact, drawn = (score(gate, Optimism(1.0, True, draws)) for draws in (0, 4000))
    kept = np.asarray(KEPT)
    assert_allclose(drawn[kept], exact[kept], atol=0.05)
    assert np.all(np.isneginf(drawn[~kept]))
    few = score(gate, Optimism(1.0, True, authors.DRAWS))
    assert np.ptp(few[kept] - exact[kept]) > 0.0
    assert_array_equal(few, score(gate, Optimism(1.0, True, authors.DRAWS)))


def test_the_gate_draws_while_learning_and_is_that_of_gp_in_use():
    gate, wanted = make_gp_gate(), authors.DrawnProcess(deviation="return", exploration_temperature=0.0)
    assert explorer_of(gate, wanted) is wanted
    assert wanted.optimism == Optimism(1.0, True, 5)
    assert explorer_of(gate, GaussianProcess(kappa=2.0)).optimism == Optimism(2.0)
    assert len(CONTEXTS) == score(gate, options=make_options()).shape[1]


def test_solutions_are_sought_every_150_rollouts(monkeypatch):
    """In between rollouts belong to the option whose policy they are likeliest of."""
    sought, estimate = [], latent.estimate_density

    def noted(key, data, *others):
        sought.append(int(data.mask.sum()))
        return estimate(key, data, *others)

    monkeypatch.setattr(latent, "estimate_density", noted)
    learner = small.make(settings=Settings.authors(), max_options=4, expected_rollouts=350)
    small.run(learner, rounds=(128, 64, 64, 64, 30))
    assert sought == [128, 320]
    small.assert_sound(learner.policy)


def test_between_two_clusterings_rollouts_belong_to_their_likeliest_policy():
    data = make_data()
    b = jnp.asarray([[1.0], [0.0], [-1.0]])
    options = gaussian.LinearGaussian(b, jnp.zeros((3, 1, 1)), 0.01 * jnp.ones((3, 1, 1)))
    found = latent.by_policies(data, options, np.array([True, False, True]), None)
    used = authors.used(data)
    assert_array_equal(found.responsibilities[0] > 0.5, used & (data.parameters[:, 0] > 0.0))
    assert_array_equal(found.responsibilities[2] > 0.5, used & (data.parameters[:, 0] < 0.0))
    assert_array_equal(found.kept, [True, False, True])
    assert not found.new
