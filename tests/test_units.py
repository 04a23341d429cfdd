"""Standard units of contexts and parameters, and of parameters that are nearly combinations of one another."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde.steps.rollouts import TURNED, fit_units


def correlated(n=400, seed=0):
    """Contexts [n, 1] and parameters [n, 5] that follow the context and one hidden number but for noise."""
    rng = np.random.default_rng(seed)
    contexts, hidden = rng.uniform(-5.0, 6.0, (n, 1)), rng.uniform(-6.0, 6.0, (n, 1))
    load = rng.normal(size=(2, 5))
    noise = 0.01 * rng.normal(size=(n, 5))
    return contexts, 30.0 + np.hstack([contexts, hidden]) @ load + noise


def test_whitened_parameters_have_the_identity_for_covariance():
    contexts, parameters = correlated()
    units = fit_units(contexts, parameters, whitening=True)
    assert units.turned
    assert_allclose(np.cov(units.parameters(parameters).T, bias=True), np.eye(5), atol=1e-8)


def test_standard_units_lead_there_and_back():
    contexts, parameters = correlated()
    units = fit_units(contexts, parameters, whitening=True)
    standard = units.parameters(parameters)
    assert_allclose(units.raw_parameters(standard), parameters, rtol=1e-12)
    assert_allclose(units.raw_differences(standard[1:] - standard[:-1]), np.diff(parameters, axis=0), atol=1e-10)


def test_the_volume_is_the_determinant_of_the_map():
    contexts, parameters = correlated()
    units = fit_units(contexts, parameters, whitening=True)
    jacobian = units.raw_differences(np.eye(5))
    assert_allclose(units.log_volume, np.linalg.slogdet(jacobian)[1], rtol=1e-12)


@pytest.mark.parametrize("size", [1, 4])
def test_parameters_that_are_not_combinations_keep_their_own_axes(size):
    rng = np.random.default_rng(1)
    contexts, parameters = rng.normal(size=(200, 1)), rng.normal(size=(200, size))
    plain, white = fit_units(contexts, parameters), fit_units(contexts, parameters, whitening=True)
    assert not white.turned
    assert_array_equal(plain.parameters(parameters), white.parameters(parameters))
    eigenvalues = np.linalg.eigvalsh(np.atleast_2d(np.corrcoef(parameters.T)))
    assert eigenvalues[-1] < TURNED * eigenvalues[0]


def test_few_rollouts_leave_the_parameters_own_axes():
    contexts, parameters = correlated(n=14)
    assert not fit_units(contexts, parameters, whitening=True).turned


def test_spreads_are_how_much_the_standard_numbers_vary_beside_one_another():
    contexts, parameters = correlated()
    units = fit_units(contexts, parameters, whitening=True)
    scaled = (parameters - parameters.mean(axis=0)) / parameters.std(axis=0)
    deviations = np.linalg.svd(scaled, compute_uv=False) / np.sqrt(len(scaled))
    assert_allclose(units.spreads, [*deviations, 1.0], rtol=1e-9)
    assert_array_equal(fit_units(contexts, parameters).spreads, 1.0)


def test_an_exact_combination_has_an_axis_that_can_be_inverted():
    contexts, parameters = correlated()
    parameters[:, 4] = parameters[:, 0] - 2.0 * parameters[:, 1]
    units = fit_units(contexts, parameters, whitening=True)
    assert units.turned
    assert np.all(np.isfinite(units.parameters(parameters)))
    assert_allclose(units.raw_parameters(units.parameters(parameters)), parameters, rtol=1e-9)
