"""Local models of returns that are distances: against closed forms, finite differences and scipy."""

import numpy as np
import pytest
from scipy import optimize

from hpsde.steps import distances, refinement
from hpsde.steps.distances import DistanceModel, Errors
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.local_models import Coefficients, terms

GRID = np.linspace(-1.0, 1.0, 9)[:, None]


def flange(xi: np.ndarray) -> np.ndarray:
    """Where an arm of three links in the plane ends."""
    angle = np.cumsum(xi, axis=1)
    return np.stack([np.cos(angle).sum(axis=1), np.sin(angle).sum(axis=1)], axis=1)


def goal(s: np.ndarray) -> np.ndarray:
    return flange(np.array([[0.4, 0.5, 0.6]])) + 0.15 * np.concatenate([s, s**2], axis=1)


def reach(s: np.ndarray, xi: np.ndarray) -> np.ndarray:
    return -np.linalg.norm(flange(xi) - goal(s), axis=1)


def rollouts(seed: int, count: int, width: float = 0.3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Around a posture that is off by a fifth of a link, returns last."""
    rng = np.random.default_rng(seed)
    s, xi = rng.uniform(-1.0, 1.0, (count, 1)), np.array([0.3, 0.6, 0.6]) + width * rng.normal(size=(count, 3))
    return s, xi, reach(s, xi)


def refined(s, xi, returns, width=0.3):
    """The option refined, with s and s^2 as features, the second of which bends."""
    phi = np.concatenate([s, s**2], axis=1)
    option = LinearGaussian(np.array([0.3, 0.6, 0.6]), np.zeros((2, 3)), width**2 * np.eye(3))
    return refinement.refine_one(option, None, phi, xi, returns, np.ones(len(s), dtype=bool), phi, bends=1)


def missed(option: LinearGaussian) -> np.ndarray:
    """Distances from the goals."""
    phi = np.concatenate([GRID, GRID**2], axis=1)
    return -reach(GRID, option.b + phi @ option.w)


def test_an_arm_meets_its_goals_after_one_look_at_wide_exploration(monkeypatch):
    s, xi, returns = rollouts(0, 150, 0.5)
    found = refined(s, xi, returns, 0.5)
    assert np.quantile(-returns, 0.05) > 0.3  # hardly a rollout comes near
    assert missed(found).max() < 0.03
    monkeypatch.setattr(distances, "describe", lambda *arrays: None)
    assert missed(refined(s, xi, returns, 0.5)).max() > 0.1


def test_it_is_not_taken_where_it_leads_farther_than_it_knows():
    # Hardly a rollout of the option is within a link of some goals: what quadratics say is better there.
    s, xi, returns = rollouts(0, 100, 0.15)
    assert missed(refined(s, xi, returns, 0.15)).max() < 0.06


def test_units_and_what_is_added_to_returns_do_not_matter():
    s, xi, returns = rollouts(0, 150)
    expected = refined(s, xi, returns)
    found = refined(s, xi, 7.0 - 300.0 * np.abs(returns))
    np.testing.assert_allclose(found.b, expected.b, atol=1e-6)
    np.testing.assert_allclose(found.w, expected.w, atol=1e-6)
    np.testing.assert_allclose(found.Sigma, expected.Sigma, atol=1e-6)


def described(x, returns, phi=None, slopes=None):
    phi = np.ones((len(x), 1)) if phi is None else phi
    return distances.describe(phi, phi.shape[1] if slopes is None else slopes, x, returns)


def test_distances_in_two_and_three_dimensions_are_predicted():
    rng = np.random.default_rng(2)
    x, new = rng.normal(size=(400, 4)), rng.normal(size=(50, 4))
    J, m = rng.normal(size=(3, 4)), np.array([0.8, -0.5, 1.1])
    for K in (2, 3):

        def lost(x: np.ndarray, K: int = K) -> np.ndarray:
            return np.linalg.norm(x @ J[:K].T - m[:K] + 0.2 * x[:, :1] * x[:, 1:2], axis=1)

        model = described(x, -lost(x))
        assert len(model.e.l) >= K
        found = np.linalg.norm(model.e.values(np.ones((50, 1)), new), axis=1)
        np.testing.assert_allclose(found, lost(new), atol=0.03)


@pytest.mark.parametrize("kind", ["noise", "a smooth hill", "too few", "all alike"])
def test_what_is_no_distance_has_no_model(kind):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(20 if kind == "too few" else 300, 3))
    returns = {
        "noise": rng.normal(size=len(x)),
        "a smooth hill": -np.sum((x - 0.3) ** 2, axis=1),
        "too few": -np.linalg.norm(x - 0.5, axis=1),
        "all alike": np.zeros(len(x)),
    }[kind]
    assert described(x, returns) is None


def test_noise_is_not_described_in_forty_draws():
    rng = np.random.default_rng(4)
    models = [described(rng.normal(size=(80, 2)), rng.normal(size=80)) for _ in range(40)]
    assert sum(model is not None for model in models) <= 2


def test_what_is_known_of_e_is_the_spread_of_e_where_its_numbers_are_drawn():
    rng = np.random.default_rng(9)
    phi, x = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    roots = rng.normal(size=(2, 10, 10))
    inverse, theta = roots @ np.swapaxes(roots, 1, 2), rng.normal(size=(2, 10))
    model = DistanceModel(Coefficients.of(theta, 3, 2, 2), 0.09, inverse)
    drawn = theta + 0.3 * np.einsum("kpq,mkq->mkp", roots, rng.normal(size=(20000, 2, 10)))
    e = np.array([Coefficients.of(each, 3, 2, 2).values(phi, x) for each in drawn])
    np.testing.assert_allclose(model.known(phi, x), e.var(axis=0).mean(axis=1), rtol=0.05)
    np.testing.assert_allclose(model.expected(phi, x), np.mean(np.sum(e**2, axis=2)), rtol=0.05)


def test_slopes_of_errors_are_their_differences():
    rng = np.random.default_rng(5)
    A, losses, theta = rng.normal(size=(30, 4)), rng.uniform(0.0, 2.0, 30), rng.normal(size=9)
    errors = Errors(A, losses, 0.3)
    found = optimize.approx_fprime(theta, lambda each: errors(each)[0], 1e-7)
    np.testing.assert_allclose(errors(theta)[1], found, atol=1e-5)
    model = Coefficients.of(rng.normal(size=(2, 3 + 2 * 2 + 3)), 3, 2, 2)
    phi, x = rng.normal(size=(1, 3)), rng.normal(size=2)
    found = optimize.approx_fprime(x, lambda each: model.values(phi, each[None])[0], 1e-7)
    np.testing.assert_allclose(model.slopes(phi, x[None])[0], found, atol=1e-5)


def test_terms_times_numbers_are_values():
    rng = np.random.default_rng(6)
    phi, x, numbers = rng.normal(size=(20, 4)), rng.normal(size=(20, 3)), rng.normal(size=(2, 4 + 2 * 3 + 6))
    values = Coefficients.of(numbers, 4, 2, 3).values(phi, x)
    np.testing.assert_allclose(terms(phi, x, 2) @ numbers.T, values, atol=1e-12)


def test_least_squares_are_scipys():
    rng = np.random.default_rng(7)
    t, Q = np.linspace(0.0, 2.0, 40), np.diag([0.1, 0.2])
    y = 1.5 * np.exp(-0.7 * t) + 0.05 * rng.normal(size=40)

    def function(x):
        value = np.exp(-x[1] * t)
        return x[0] * value - y, np.stack([value, -x[0] * t * value], axis=1)

    start = np.array([0.5, 0.1])
    expected = optimize.least_squares(lambda x: np.concatenate([function(x)[0], np.sqrt(np.diag(Q)) * x]), start).x
    np.testing.assert_allclose(distances.least_squares(function, start, Q, 1e-12), expected, atol=1e-6)


def test_the_optimum_of_linear_components_is_the_posterior_of_a_regression(monkeypatch):
    rng = np.random.default_rng(8)
    phi = np.concatenate([np.ones((60, 1)), rng.normal(size=(60, 2))], axis=1)
    J, l, known = rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), 0.04
    monkeypatch.setattr(DistanceModel, "known", lambda self, phi, x: np.full(len(phi), known))
    e = Coefficients(l, np.concatenate([J[:, None, :], np.zeros((2, 2, 3))], axis=1), np.zeros((2, 3, 3)))
    Q = 3.0 * phi.T @ phi / len(phi)
    X, K, steepness = distances.optimum(DistanceModel(e, 1.0, np.zeros((2, 0, 0))), Q, phi)
    rows = [np.sqrt(3.0 / (known * len(phi))) * np.kron(each, J) for each in phi]
    A = np.concatenate(rows)
    target = -np.sqrt(3.0 / (known * len(phi))) * (phi @ l.T).ravel()
    total = A.T @ A + np.kron(Q, np.eye(3))
    np.testing.assert_allclose(X.ravel(), np.linalg.solve(total, A.T @ target), atol=1e-8)
    covariance = np.linalg.inv(total).reshape(3, 3, 3, 3)
    expected = np.mean([np.einsum("a,b,ajbk->jk", each, each, covariance) for each in phi], axis=0)
    np.testing.assert_allclose(K, expected, atol=1e-10)
    np.testing.assert_allclose(steepness, J.T @ J, atol=1e-10)
