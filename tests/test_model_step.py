"""A step of options uphill on the modelled return: closed forms where the return is quadratic or linear."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde import gp
from hpsde.base.precision import single
from hpsde.steps import gaussian, model_step
from hpsde.steps.gaussian import LinearGaussian

KEY = jax.random.key(0)
S, D = 1, 2
A, c = np.array([[0.5, -0.4]]), np.array([0.3, 0.2])  # the best parameters in context s are A s + c
STEEPNESS, SLOPE = 0.3, np.array([0.1, -0.05])
AXES = np.array([[1.0, 0.4, 0.0], [-0.3, 1.0, 0.2], [0.0, 0.1, 1.0]])
KEPT = np.array([True, True, False, True])
CONTEXTS = np.random.default_rng(1).normal(size=(model_step.CONTEXTS, S))  # of equal weight: each is drawn once


def quadratic(parameters, contexts):
    return -STEEPNESS * np.sum((parameters - contexts @ A - c) ** 2, axis=1)


def linear(parameters, contexts):
    return parameters @ SLOPE + 0.2 * contexts[:, 0]


def make_model(function):
    """A process over turned points, of rollouts so dense that it knows the return."""
    z = np.random.default_rng(0).uniform(-3.0, 3.0, size=(500, D + S))
    hyperparameters = gp.Hyperparameters(np.full(D + S, np.log(4.0)), np.log(10.0), np.log(1e-2))
    return gp.posterior(hyperparameters, z @ AXES.T, function(z[:, :D], z[:, D:]), np.ones(len(z), dtype=bool))


@pytest.fixture(scope="module")
def bowl():
    return make_model(quadratic)


def make_options():
    """One beside the optimum, one that turns away from it, one that is not kept, one at the optimum."""
    b = c + np.array([[0.3, -0.4], [-0.1, -0.3], [0.7, 0.8], [0.0, 0.0]])
    w = A + np.array([0.0, 0.2, 1.0, 0.0])[:, None, None]
    Sigma = np.array([[[0.2, 0.05], [0.05, 0.1]], [[0.3, -0.1], [-0.1, 0.2]], np.eye(2), 0.1 * np.eye(2)])
    return LinearGaussian(*map(np.asarray, (b, w, Sigma)))


def improve(process, options=None, kept=KEPT, contexts=CONTEXTS, weights=None, axes=AXES):
    """The options after the step; the features are the contexts."""
    weights = np.ones((len(kept), len(contexts))) if weights is None else weights
    arrays = map(np.asarray, (kept, contexts, contexts, weights))
    return model_step.improve(KEY, process, np.asarray(axes), options or make_options(), *arrays)


def means(options, contexts=CONTEXTS):
    return np.asarray(gaussian.means(options, np.asarray(contexts)))


def shifts(after, before):
    """The moves of the means in deviations of the options, C^-1 (mu' - mu) [O, N, D]."""
    C = np.linalg.cholesky(np.asarray(before.Sigma))
    return np.linalg.solve(C[:, None], (means(after) - means(before))[..., None])[..., 0]


def test_options_move_towards_the_optimum_in_every_context(bowl):
    at = np.linspace(-1.2, 1.2, 7)[:, None]
    before, after = (np.linalg.norm(means(each, at) - at @ A - c, axis=2) for each in (make_options(), improve(bowl)))
    assert before[:2].min() > 0.05
    assert np.all(after[:2] < 0.5 * before[:2])


def test_an_option_at_the_optimum_stays(bowl):
    assert np.abs(shifts(improve(bowl), make_options())[3]).max() < 0.02


def test_covariances_and_options_not_kept_are_left_to_the_bit(bowl):
    before, after = make_options(), improve(bowl)
    assert_array_equal(after.Sigma, before.Sigma)
    for part, wanted in zip(after[:3], before[:3], strict=True):
        assert_array_equal(part[~KEPT], wanted[~KEPT])
    assert np.all(np.any(after.b != before.b, axis=1) == KEPT)


def test_on_a_quadratic_return_the_step_is_that_of_the_closed_form(bowl):
    """Means and optimum are linear in s, and so is the best shift: (eta I + 2 h C'C) d = 2 h C' (A s + c - mu)."""
    options = make_options()
    found, C, h = shifts(improve(bowl), options), np.linalg.cholesky(np.asarray(options.Sigma)), STEEPNESS
    for o in (0, 1):
        gap = CONTEXTS @ A + c - means(options)[o]
        best = np.linalg.solve(model_step.ETA * np.eye(D) + 2.0 * h * C[o].T @ C[o], 2.0 * h * C[o].T @ gap.T).T
        assert np.abs(best).max() > 0.5
        assert_allclose(found[o], best, atol=0.1)


def test_on_a_linear_return_the_price_says_how_far():
    """Without the Kullback-Leibler divergence an option would go on for ever; with it d = C' slope / eta."""
    deviations = np.array([0.1, 0.2, 1.0, 0.3])
    options = make_options()._replace(Sigma=np.asarray(deviations[:, None, None] ** 2 * np.eye(D)))
    found = shifts(improve(make_model(linear), options), options)
    for o in np.flatnonzero(KEPT):
        wanted = np.tile(deviations[o] * SLOPE / model_step.ETA, (len(CONTEXTS), 1))
        assert_allclose(found[o], wanted, atol=0.1)


def test_an_option_far_off_moves_by_a_few_deviations_at_most(bowl):
    options = make_options()._replace(Sigma=np.asarray(np.tile(0.01 * np.eye(D), (4, 1, 1))))
    options = options._replace(b=options.b + np.asarray([[1.5, -1.5]]))
    moved = np.linalg.norm(shifts(improve(bowl, options), options), axis=2)[KEPT]
    assert np.all((moved > 0.5) & (moved < 4.0))


# ---------------------------------------------------------------- a cliff

CLIFF, BESIDE = 1.0, 0.5  # where it is, and the deviation of an option beside it


def cliff(parameters, contexts):
    """Rising gently along the first parameter up to a cliff; the context lifts all."""
    return np.where(parameters[:, 0] < CLIFF, 0.3 * parameters[:, 0], -1.5) + 0.2 * contexts[:, 0]


@pytest.fixture(scope="module", params=gp.KERNELS)
def edge(request):
    """A process that knows the cliff."""
    z = np.random.default_rng(3).uniform(-3.0, 3.0, size=(600, D + S))
    hyperparameters = gp.Hyperparameters(np.log(np.asarray([0.3, 10.0, 10.0])), np.log(1.0), np.log(0.05))
    returns, every = cliff(z[:, :D], z[:, D:]), np.ones(len(z), dtype=bool)
    return gp.posterior(gp.with_kernel(hyperparameters, request.param), z, returns, every)


def beside_the_cliff(process, margin, monkeypatch):
    """How far the first parameter stays off the cliff, in every context, of an option whose mean starts 0.4 off."""
    monkeypatch.setattr(model_step, "MARGIN", margin)
    options = LinearGaussian(np.asarray([[CLIFF - 0.4, 0.0]]), np.zeros((1, S, D)), BESIDE**2 * np.eye(D)[None])
    arrays = map(np.asarray, (np.ones(1, dtype=bool), CONTEXTS, CONTEXTS, np.ones((1, len(CONTEXTS)))))
    return CLIFF - means(model_step.improve(KEY, process, np.eye(D + S), options, *arrays))[0, :, 0]


def test_beside_a_cliff_an_option_keeps_a_margin(edge, monkeypatch):
    """A policy with a margin is better off there, though the return at its mean is less."""
    assert model_step.MARGIN == 0.5
    wide, narrow = (beside_the_cliff(edge, margin, monkeypatch) for margin in (0.5, 0.0))
    assert np.all(wide > narrow + 0.1)
    assert np.all(wide > 0.5 * BESIDE)
    draws = 0.5 * BESIDE * np.random.default_rng(4).normal(size=2000)
    there = [np.mean(cliff((CLIFF - off[:, None] + draws).reshape(-1, 1), np.zeros((1, 1)))) for off in (wide, narrow)]
    assert there[0] > there[1] + 0.05
    assert np.mean(wide) > np.mean(beside_the_cliff(edge, 0.25, monkeypatch)) > np.mean(narrow)


def test_the_margin_is_in_the_models_axes():
    """The same cliff, seen along turned axes with one length: the same step."""
    z = np.random.default_rng(3).uniform(-2.0, 2.0, size=(600, D + S))
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(D + S, D + S)))[0]
    hyperparameters = gp.Hyperparameters(np.log(np.full(D + S, 0.8)), np.log(1.0), np.log(0.1))
    returns, every = cliff(z[:, :D], z[:, D:]), np.ones(len(z), dtype=bool)
    results = [
        improve(gp.posterior(hyperparameters, z @ axes.T, returns, every), axes=axes) for axes in (np.eye(D + S), turn)
    ]
    for one, other in zip(*(each[:3] for each in results), strict=True):
        assert_allclose(one, other, atol=1e-3)


# ---------------------------------------------------------------- options and contexts


def test_the_order_of_the_options_does_not_matter(bowl):
    order, plain = np.array([3, 0, 2, 1]), improve(bowl)
    permuted = LinearGaussian(*(part[order] for part in make_options()[:3]))
    for part, wanted in zip(improve(bowl, permuted, KEPT[order])[:3], plain[:3], strict=True):
        assert_allclose(part, wanted[order], rtol=1e-6, atol=1e-6)


def test_contexts_of_other_options_and_padding_do_not_matter(bowl):
    """Rows of weight 0 hold contexts where the model knows nothing."""
    contexts = np.insert(CONTEXTS, [0, 7, 7, 30, 48], 1e3, axis=0)
    weights = np.tile(contexts[:, 0] < 1e3, (4, 1)).astype(float)
    for part, wanted in zip(improve(bowl, contexts=contexts, weights=weights)[:3], improve(bowl)[:3], strict=True):
        assert_allclose(part, wanted, rtol=1e-6, atol=1e-6)


def test_contexts_count_by_their_weights(bowl):
    """An option that is right where its weight is stays as it is, however wrong it is elsewhere."""
    b, w = np.tile(c, (4, 1)), np.tile(A + np.array([[0.5, -0.5]]), (4, 1, 1))
    options = make_options()._replace(b=np.asarray(b), w=np.asarray(w))
    at = np.repeat([[0.0], [2.0]], 40, axis=0)
    weights = np.tile(np.repeat([1.0, 1e-9], 40), (4, 1))
    stays = improve(bowl, options, contexts=at, weights=weights)
    assert_allclose(means(stays, at[:1]), means(options, at[:1]), atol=0.02)
    moves = improve(bowl, options, contexts=at, weights=weights[:, ::-1])
    errors = [means(each, at[-1:])[KEPT, 0] - at[-1] @ A - c for each in (options, moves)]
    before, after = np.linalg.norm(errors, axis=2)
    assert np.all(after < 0.8 * before)


def test_the_mean_alone_is_that_of_the_prediction():
    rng = np.random.default_rng(2)
    z, y, mask = rng.normal(3.0, 2.0, size=(96, 3)), rng.normal(size=96), np.arange(96) % 5 > 0
    hyperparameters = gp.Hyperparameters(np.asarray([0.1, 0.5, -0.2]), np.asarray(0.4), np.asarray(-1.5))
    process = gp.posterior(hyperparameters, z, y, mask, mean=-0.7)
    at = np.concatenate([rng.normal(3.0, 2.0, size=(50, 3)), [[1e3, 0.0, 0.0]]])
    wanted, _ = gp.predict(process, np.asarray(at))
    assert_allclose(gp.predict_mean(process, np.asarray(at)), wanted, rtol=1e-12)
    assert_allclose(wanted[-1], -0.7, rtol=1e-12)
    found = gp.predict_mean(*single((process._replace(K_inverse=np.zeros((0, 0))), at)))
    assert found.dtype == np.float32
    assert_allclose(found, wanted, atol=1e-4)


def test_single_precision_leaves_truth_values_and_the_shape_of_the_tree():
    tree = single({"a": np.array([1.0, 1e-30]), "b": (np.array([True, False]), 3.5, None)})
    assert (tree["a"].dtype, tree["b"][0].dtype, tree["b"][1].dtype) == (np.float32, np.bool_, np.float32)
    assert_array_equal(tree["b"][0], [True, False])
    assert_allclose(tree["a"], [1.0, 1e-30], rtol=1e-6)
    assert (tree["b"][1].shape, tree["b"][2]) == ((), None)
