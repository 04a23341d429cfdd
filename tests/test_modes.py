"""Modes of a mixture: valleys on a fine grid, what is joined, and what options become of it."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

from hpsde.algorithm import assign
from hpsde.density import Mixture
from hpsde.modes import dip, join
from hpsde.settings import Settings


def make_mixture(means, covariances, mass):
    means, covariances, mass = (np.asarray(part, dtype=float) for part in (means, covariances, mass))
    nu = 1e6 + mass
    return Mixture(
        alpha=jnp.asarray(mass),
        beta=jnp.asarray(1e6 + mass),
        h=jnp.asarray(means),
        nu=jnp.asarray(nu),
        K_inverse=jnp.asarray(covariances * nu[:, None, None]),
        mass=jnp.asarray(mass),
    )


@pytest.mark.parametrize("apart", [1.0, 1.9, 2.5, 4.0, 9.0])
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_the_dip_of_two_gaussians_over_one_number(apart, share):
    """Against the density on a fine grid: its least value between its peaks, over the lower peak."""
    x = np.linspace(-1.0, apart + 1.0, 20_001)
    density = share * scipy.stats.norm(0.0, 1.0).pdf(x) + (1.0 - share) * scipy.stats.norm(apart, 1.0).pdf(x)
    peaks = np.flatnonzero((density[1:-1] > density[:-2]) & (density[1:-1] > density[2:])) + 1
    truth = 1.0
    if len(peaks) == 2:
        truth = density[peaks[0] : peaks[1]].min() / density[peaks].min()
    found = dip(np.array([share, 1.0 - share]), np.array([[0.0], [apart]]), np.ones((2, 1, 1)))
    # The ridge line has 65 points.
    assert_allclose(found, truth, rtol=0.02)


def test_the_dip_does_not_depend_on_the_coordinates():
    rng = np.random.default_rng(0)
    means, factors, turn = (
        np.array([[0.0, 0.0, 0.0], [4.0, -3.0, 2.0]]),
        rng.normal(size=(2, 3, 3)),
        rng.normal(size=(3, 3)),
    )
    covariances = factors @ factors.transpose(0, 2, 1) + np.eye(3)
    share = np.array([0.3, 0.7])
    plain = dip(share, means, np.linalg.inv(covariances))
    turned = dip(share, means @ turn + 5.0, np.linalg.inv(turn.T @ covariances @ turn))
    assert 0.0 < plain < 1.0
    assert_allclose(turned, plain, rtol=1e-6)


def chain():
    """Three Gaussians along a bent mode, one far away, one that is not kept though it lies among the three."""
    means = [[0.0, 0.0], [1.5, 0.3], [3.0, 1.2], [20.0, 0.0], [1.0, 0.0]]
    return make_mixture(means, np.tile(np.eye(2), (5, 1, 1)), [2.0, 1.0, 3.0, 2.5, 0.01])


def test_gaussians_without_a_valley_are_one_mode_by_the_name_of_the_highest():
    kept = np.array([True, True, True, True, False])
    assert_array_equal(join(chain(), kept, 0.3), [2, 2, 2, 3, 4])
    assert_array_equal(join(chain(), kept, 1.0), np.arange(5))
    assert_array_equal(join(chain(), kept, 0.0), [2, 2, 2, 2, 4])
    assert_array_equal(join(chain(), np.arange(5) == 3, 0.3), np.arange(5))


def test_a_wide_gaussian_under_two_modes_joins_one_of_them_and_bridges_none():
    means, covariances = [[-4.0], [0.5], [4.0]], [[[0.04]], [[9.0]], [[0.05]]]
    found = join(make_mixture(means, covariances, [2.0, 2.0, 2.0]), np.ones(3, dtype=bool), 0.3)
    assert found[0] == 0
    assert found[2] == 2
    assert found[1] in (0, 1, 2)
    assert len(set(join(make_mixture(means, covariances, [2.0, 30.0, 2.0]), np.ones(3, dtype=bool), 0.0))) == 1


@pytest.mark.parametrize("assignment", ["soft", "hard"])
def test_an_option_has_the_samples_of_all_gaussians_of_its_mode(assignment):
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.normal(size=(30, 2)) + mean for mean in np.asarray(chain().h)[:4]])
    mask = np.arange(120) % 7 > 0
    settings = Settings(assignment=assignment)
    mixture, kept, responsibilities = assign(chain(), points, mask, settings)
    assert_array_equal(np.flatnonzero(kept), [2, 3])
    wanted = np.zeros((5, 120))
    wanted[2, :90] = wanted[3, 90:] = 1.0
    assert_allclose(responsibilities, wanted * mask, atol=1e-6)
    assert_array_equal(np.asarray(mixture.mass) > 0.0, [True, True, True, True, False])
    _, every, _ = assign(chain(), points, mask, Settings(assignment=assignment, valley=1.0))
    # The second is the likeliest of three samples, too few for an option that needs samples of its own.
    assert_array_equal(np.flatnonzero(every), [0, 2, 3] if assignment == "hard" else [0, 1, 2, 3])
