"""Likelihood and posterior in blocks of columns, against LAPACK's: the parts must join without a seam."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from hpsde import gp
from hpsde.base import devices
from hpsde.gp import blocked, conditioning, fit
from hpsde.gp.kernel import KINDS
from hpsde.gp.lapack import condition_by_lapack, lapack_likelihood

N, ROWS = 90, 128


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(ROWS, 3)) * [1.0, 3.0, 0.5] + 7.0
    return z, np.sin(z.sum(axis=1)) + 0.1 * rng.normal(size=ROWS), np.arange(ROWS) < N


@pytest.fixture(params=[32, 50, 2048])
def block(request, monkeypatch):
    """Columns at once: blocks of equal size, with a smaller last one, and all at once."""
    monkeypatch.setattr(blocked, "BLOCK", request.param)
    forget()
    yield request.param
    forget()


def forget():
    """What was traced with another size; all other programs stay."""
    for function in (blocked.log_likelihood, blocked.condition):
        function.clear_cache()


@pytest.mark.parametrize("kernel", ["se", "matern"])
def test_likelihood_and_gradient_are_those_of_lapack(kernel, data, block):
    z, y, mask = data
    theta = np.log([0.8, 2.0, 1.5, 1.3, 0.2])
    centre = z[:N].mean(axis=0)
    value, gradient = lapack_likelihood(z[:N] - centre, y[:N], KINDS[kernel])(theta)
    at = gp.KERNELS[kernel](jnp.asarray(theta[:3]), jnp.asarray(theta[3]), jnp.asarray(theta[4]))
    rows = jnp.asarray(np.where(mask[:, None], z - centre, 0.0)), jnp.asarray(np.where(mask, y, 0.0))
    ours, slopes = blocked.log_likelihood(at, *rows, jnp.asarray(mask))
    assert_allclose(ours, value, rtol=1e-10)
    assert_allclose(np.concatenate([slopes.log_lengths, [slopes.log_signal, slopes.log_noise]]), gradient, rtol=1e-8)


@pytest.mark.parametrize("kernel", ["se", "matern"])
def test_the_posterior_is_that_of_lapack(kernel, data, block):
    z, y, mask = data
    known = gp.KERNELS[kernel](jnp.log(jnp.asarray([0.8, 2.0, 1.5])), jnp.asarray(0.3), jnp.asarray(-1.5))
    wanted = condition_by_lapack(known, z, y, mask, 0.4)
    found = blocked.condition(known, jnp.asarray(z), jnp.asarray(y), jnp.asarray(mask), 0.4)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert_allclose(one, other, rtol=1e-7, atol=1e-8)


def test_many_points_go_to_an_accelerator_and_few_do_not(data, monkeypatch):
    """JAX's own device stands in for one."""
    z, y, mask = data
    monkeypatch.setattr(devices, "accelerator", lambda: jax.devices()[0])
    known = gp.Hyperparameters(jnp.zeros(3), jnp.asarray(0.0), jnp.asarray(-1.0))
    asked = []

    def spied(module, name):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: asked.append(name) or original(*given))

    spied(blocked, "condition")
    spied(conditioning, "condition_by_lapack")
    gp.posterior(known, z, y, mask)
    monkeypatch.setattr(devices, "POINTS", 64)
    gp.posterior(known, z, y, mask)
    assert asked == ["condition_by_lapack", "condition"]
    same = [fit.fit_hyperparameters(z, y, mask, backend=each)[0] for each in (None, "lapack")]
    for one, other in zip(*same, strict=True):
        assert_allclose(one, other, atol=1e-3)


def test_learners_compute_on_the_cpu_unless_the_user_says_otherwise(monkeypatch):
    where = []
    record = devices.small_steps(lambda: where.append(jax.config.jax_default_device))
    record()
    monkeypatch.setattr(devices, "accelerator", lambda: "another device")
    record()
    monkeypatch.setenv("HPSDE_DEVICE", "default")
    record()
    assert where == [None, jax.devices("cpu")[0], None]
