"""Axes of the gate's Gaussian process: gradients by differences, a known direction, and the gate that uses them."""

import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose

from hpsde import gp
from hpsde.gp.axes import LENGTHS, mean_gradients, turned_axes
from hpsde.gp.warp import Warp
from hpsde.steps import gates
from hpsde.steps.gate import Optimism
from hpsde.steps.gating import GPGate
from hpsde.steps.gaussian import LinearGaussian

DIRECTION = np.array([3.0, -2.0, 1.0, 0.5]) / np.sqrt(14.25)


def make_process(n=300, padding=20):
    """Returns that vary along one slanted direction of four coordinates alone."""
    z = np.random.default_rng(0).normal(size=(n + padding, 4))
    y = np.sin(2.0 * z @ DIRECTION)
    mask = np.arange(n + padding) < n
    hyperparameters, info = gp.fit_hyperparameters(z, y, mask)
    return gp.posterior(hyperparameters, z, y, mask), z, y, mask, info


def test_gradients_are_those_of_the_predicted_mean():
    process, z, _, mask, _ = make_process()
    gradients = np.asarray(mean_gradients(process))
    for d in range(4):
        step = 1e-5 * np.eye(4)[d]
        up, down = (np.asarray(gp.predict(process, jnp.asarray(z + sign * step))[0]) for sign in (1.0, -1.0))
        assert_allclose(gradients[mask, d], (up - down)[mask] / 2e-5, atol=1e-6)
    assert not gradients[~mask].any()


def test_the_first_axis_is_the_direction_in_which_the_return_varies():
    process, z, y, mask, before = make_process()
    axes, start = turned_axes(process, np.eye(4))
    assert abs(axes[0] @ DIRECTION) / np.linalg.norm(axes[0]) > 0.99
    assert_allclose((z @ axes.T)[mask].std(axis=0), 1.0, rtol=1e-9)
    lengths = np.exp(np.asarray(start.log_lengths))
    assert lengths[0] == lengths.min()
    assert np.all((lengths >= LENGTHS[0]) & (lengths <= LENGTHS[1]))
    _, after = gp.fit_hyperparameters(z @ axes.T, y, mask, start)
    assert after.objective > before.objective + 50.0


def test_what_does_not_vary_but_for_rounding_stays_as_it_is():
    process, z, y, mask, _ = make_process(60, 0)
    z = z * np.array([1.0, 1.0, 0.0, 0.0]) + np.array([0.0, 0.0, 0.0, 1e-17])
    z[::2, 3] *= 3.0  # a rounding error
    process = gp.posterior(process.hyperparameters, z, y, mask)
    axes, _ = turned_axes(process, np.eye(4))
    assert np.max(np.abs(axes)) < 10.0


def test_axes_follow_axes_that_were_turned_before():
    process, z, y, mask, _ = make_process()
    axes, start = turned_axes(process, np.eye(4))
    again = gp.posterior(gp.fit_hyperparameters(z @ axes.T, y, mask, start)[0], z @ axes.T, y, mask)
    second, _ = turned_axes(again, axes)
    assert abs(second[0] @ DIRECTION) / np.linalg.norm(second[0]) > 0.999


def test_a_gate_over_turned_points_is_the_expectation_over_the_options_parameters():
    """Monte Carlo over xi, for mean and deviation."""
    process, z, y, mask, _ = make_process()
    axes, start = turned_axes(process, np.eye(4))
    turned = gp.posterior(start, z @ axes.T, y, mask)
    warp = Warp(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    gate = GPGate(turned, jnp.asarray(y), warp, jnp.asarray(axes), cautious=False)
    rng = np.random.default_rng(1)
    root = 0.4 * rng.normal(size=(3, 3))
    options = LinearGaussian(
        jnp.zeros((1, 3)), jnp.asarray(rng.normal(size=(1, 1, 3))), jnp.asarray(root @ root.T)[None]
    )
    context = np.array([[0.7]])
    arrays = (options, jnp.ones(1, dtype=bool), jnp.asarray(context), jnp.asarray(context))
    optimism = (None, Optimism(1.0, of_return=True))
    greedy, optimistic = (float(np.asarray(gates.scores(gate, *arrays, each))[0, 0]) for each in optimism)
    xi = 0.7 * np.asarray(options.w)[0] + rng.normal(size=(20_000, 3)) @ root.T
    points = np.hstack([xi, np.full((len(xi), 1), 0.7)]) @ axes.T
    mean, variance = (np.asarray(part) for part in gp.predict(turned, jnp.asarray(points)))
    assert_allclose(greedy, mean.mean(), atol=4.0 * mean.std() / np.sqrt(len(mean)))
    assert_allclose(optimistic - greedy, np.sqrt(variance.mean() + mean.var()), rtol=0.02)
    # In use and cautious: at the mean parameters themselves.
    cautious = float(np.asarray(gates.scores(gate._replace(cautious=True), *arrays))[0, 0])
    middle = np.concatenate([0.7 * np.asarray(options.w)[0, 0], [0.7]])[None] @ axes.T
    mean, variance = (np.asarray(part) for part in gp.predict(turned, jnp.asarray(middle)))
    assert_allclose(cautious, mean[0] - np.sqrt(variance[0]), rtol=1e-6)
