"""Refinement by local models: exact on quadratics, calibrated under noise, still where nothing is known."""

import numpy as np
import pytest

import hpsde
from hpsde.steps import refinement
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.refinement import WIDTH, refine
from hpsde.tasks import make_task
from hpsde.tasks.gauntlet.score import score

CURVATURE = np.array([[3.0, 1.0], [1.0, 2.0]])


def optimum(s: np.ndarray) -> np.ndarray:
    """Where the return is best [N, 2] in contexts [N, 1]."""
    return np.array([0.3, -0.2]) + s * np.array([0.5, 1.0])


def quadratic(s: np.ndarray, xi: np.ndarray) -> np.ndarray:
    away = xi - optimum(s)
    return 5.0 + s[:, 0] - 0.5 * np.einsum("ni,ij,nj->n", away, CURVATURE, away)


def rollouts(seed: int, count: int, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    s, xi = rng.uniform(-1.0, 1.0, (count, 1)), rng.normal(size=(count, 2))
    return s, xi, quadratic(s, xi) + noise * rng.normal(size=count)


def wide(size: int = 2, features: int = 1) -> LinearGaussian:
    return LinearGaussian(np.zeros(size), np.zeros((features, size)), np.eye(size))


def refine_one(
    option: LinearGaussian, last: LinearGaussian | None, phi: np.ndarray, xi: np.ndarray, returns: np.ndarray
) -> LinearGaussian:
    """With rollouts in all contexts, all of them the option's own."""
    return refinement.refine_one(option, last, phi, xi, returns, np.ones(len(phi), dtype=bool), phi)


def mean_of(option: LinearGaussian, s: np.ndarray) -> np.ndarray:
    return np.asarray(option.b) + s @ np.asarray(option.w)


GRID = np.linspace(-1.0, 1.0, 21)[:, None]


def test_a_quadratic_return_is_solved_at_once():
    found = refine_one(wide(), None, *rollouts(0, 40))
    np.testing.assert_allclose(mean_of(found, GRID), optimum(GRID), atol=1e-6)
    assert np.all(np.linalg.eigvalsh(found.Sigma) < 1e-8)


def test_without_contexts():
    s, xi, _ = rollouts(1, 30)
    returns = quadratic(np.zeros_like(s), xi)
    found = refine_one(wide(features=0), None, s[:, :0], xi, returns)
    np.testing.assert_allclose(found.b, optimum(np.zeros((1, 1)))[0], atol=1e-6)


def test_a_direction_that_rounding_makes_negative_has_a_width_all_the_same(monkeypatch):
    """A covariance of an optimum that is nearly singular may have an eigenvalue below 0."""
    locate = refinement.locate

    def rounded(given, start):
        found = locate(given, start)
        return found._replace(K=np.diag([1.0, -1e-7]), W=np.zeros((2, 2)))

    monkeypatch.setattr(refinement, "locate", rounded)
    Sigma = refine_one(wide(), None, *rollouts(0, 40)).Sigma
    assert np.linalg.eigvalsh(Sigma).min() > 0.0


def test_the_posterior_is_calibrated_under_noise():
    """In deviations of its own covariance the optimum is off by about one number of chi, and never much more."""
    squares = []
    for seed in range(60):
        found = refine_one(wide(), None, *rollouts(seed, 200, noise=0.3))
        away = mean_of(found, GRID) - optimum(GRID)
        K = np.asarray(found.Sigma)  # WIDTH^2 K + W: at least WIDTH^2 K
        squares.append(np.mean(np.einsum("ni,ij,nj->n", away, np.linalg.inv(K), away)))
    assert np.quantile(squares, 0.9) < 2.0 / WIDTH**2 * 4.0
    assert np.max(squares) < 9.0


def test_noise_leaves_a_wide_exploration():
    """Over the exploration the return changes by a share of the noise, not by next to nothing."""
    found = refine_one(wide(), None, *rollouts(3, 400, noise=0.5))
    change = 0.5 * np.trace(CURVATURE @ found.Sigma)
    assert 0.1 < change < 1.5


def test_flat_directions_stay_as_they_are():
    s, xi, _ = rollouts(4, 60)
    found = refine_one(wide(), None, s, xi, -((xi[:, 0] - 0.4) ** 2))
    np.testing.assert_allclose(mean_of(found, GRID)[:, 0], 0.4, atol=1e-6)
    np.testing.assert_allclose(mean_of(found, GRID)[:, 1], 0.0, atol=1e-6)
    assert found.Sigma[0, 0] < 1e-8
    assert found.Sigma[1, 1] == pytest.approx(1.0, abs=1e-3)


def test_pure_noise_teaches_nothing():
    moved = []
    for seed in range(40):
        s, xi, _ = rollouts(seed, 60)
        found = refine_one(wide(), None, s, xi, np.random.default_rng(1000 + seed).normal(size=60))
        moved.append(np.abs(found.Sigma - np.eye(2)).max() > 1e-6)
    assert np.mean(moved) <= 0.1


def test_too_few_rollouts_teach_nothing():
    found = refine_one(wide(), None, *rollouts(5, 10))
    np.testing.assert_array_equal(found.b, np.zeros(2))
    np.testing.assert_allclose(found.Sigma, np.eye(2), atol=1e-9)


def test_a_cliff_and_wild_returns_do_not_move_the_optimum():
    s, xi, returns = rollouts(6, 120)
    returns[xi[:, 0] > 1.3] = -200.0
    returns[[3, 40]] = 50.0, -50.0
    found = refine_one(wide(), None, s, xi, returns)
    np.testing.assert_allclose(mean_of(found, GRID), optimum(GRID), atol=1e-5)


@pytest.mark.parametrize("others", [False, True])
def test_an_optimum_beyond_a_cliff_is_denied_by_the_rollouts_there(others):
    """The best of the smooth part lies where every rollout, the option's own or others', has hit something."""
    rng = np.random.default_rng(10)
    xi = rng.uniform(-2.0, 2.0, (200, 2))
    inside = np.linalg.norm(xi, axis=1) < 0.8
    returns = np.where(inside, -5.0, -np.sum(xi**2, axis=1))
    option = LinearGaussian(np.array([1.0, 0.0]), np.zeros((0, 2)), np.eye(2))
    phi, own = np.zeros((len(xi), 0)), ~inside if others else np.ones(len(xi), dtype=bool)
    found = refinement.refine_one(option, None, phi, xi, returns, own, phi)
    assert np.linalg.norm(found.b) > 0.8
    smooth = refinement.refine_one(option, None, phi, xi, -np.sum(xi**2, axis=1), own, phi)
    np.testing.assert_allclose(smooth.b, 0.0, atol=1e-6)


def test_a_crest_is_approached_step_by_step():
    """Of R = -|x| no scale looks like a quadratic; rollouts drawn where the optimum may be narrow it down anyway."""
    rng = np.random.default_rng(7)
    option, xi = None, rng.normal(size=(20, 1))
    for _ in range(12):
        option = refine_one(wide(1, 0), option, np.zeros((len(xi), 0)), xi, -np.abs(xi[:, 0] - 0.3))
        xi = np.concatenate([xi, option.b + rng.normal(size=(8, 1)) * np.sqrt(option.Sigma[0, 0])])
    assert abs(option.b[0] - 0.3) < 1e-3


def cone(s: np.ndarray, xi: np.ndarray, bend: float = 0.0) -> np.ndarray:
    """Minus a distance of two numbers by three parameters, to a place that follows the context."""
    J = np.array([[1.0, 0.5, 0.0], [0.2, -1.0, 0.7]])
    place = np.array([0.3, -0.2]) + s * np.array([0.5, 0.1]) + bend * s**2
    return 7.0 - 3.0 * np.linalg.norm(xi @ J.T - place, axis=1)


@pytest.mark.parametrize("top", [0.0, -300.0])
def test_a_return_that_is_a_distance_is_solved_at_once(top):
    """No rollout is at the top of the cone, nor is it known how high it is."""
    rng = np.random.default_rng(3)
    s, xi = rng.uniform(-1.0, 1.0, (120, 1)), rng.normal(size=(120, 3))
    found = refine_one(wide(3), None, s, xi, cone(s, xi) + top)
    assert cone(s, xi).max() < 6.95
    np.testing.assert_allclose(cone(GRID, mean_of(found, GRID)), 7.0, atol=1e-5)


def test_an_option_bends_where_its_optimum_does_and_only_there():
    """Of an optimum that is quadratic in the context a mean that is linear in it leaves the bend."""
    rng = np.random.default_rng(4)
    s, xi = rng.uniform(-1.0, 1.0, (200, 1)), rng.normal(size=(200, 3))
    phi, grid = np.concatenate([s, s**2], axis=1), np.concatenate([GRID, GRID**2], axis=1)
    own = np.ones(len(s), dtype=bool)
    for bend in (0.0, 0.4):
        returns = cone(s, xi, bend) + 0.003 * rng.normal(size=len(s))
        found = refinement.refine_one(wide(3, 2), None, phi, xi, returns, own, phi, bends=1)
        loss = 7.0 - cone(GRID, mean_of(found, grid), bend)
        assert loss.max() < 0.02
        assert (np.abs(found.w[1]).max() > 0.1) == (bend > 0.0)
        straight = refinement.refine_one(wide(3), None, s, xi, returns, own, s)
        assert (7.0 - cone(GRID, mean_of(straight, GRID), bend)).max() > 0.3 or not bend


def test_a_posterior_much_narrower_in_one_direction_than_in_another_is_still_one():
    """Precisions of 1e12 and of nothing: their sum has no inverse in double precision, yet there is a posterior."""
    rng = np.random.default_rng(5)
    xi = rng.normal(size=(80, 3))
    returns = -(1e6 * (xi[:, 0] - 0.1) ** 2)
    option = None
    for _ in range(4):
        option = refine_one(wide(3, 0), option, np.zeros((len(xi), 0)), xi, returns)
    assert abs(option.b[0] - 0.1) < 1e-9
    np.testing.assert_allclose(np.diagonal(option.Sigma)[1:], 1.0, atol=1e-3)


def test_contexts_without_rollouts_keep_what_was_there():
    """Eight powers of the context bend freely where no rollout holds them; the prior of the option does."""
    rng = np.random.default_rng(11)

    def powers(s: np.ndarray) -> np.ndarray:
        return s ** np.arange(1, 9)

    s, xi = rng.uniform(-1.0, 0.2, (120, 1)), rng.normal(size=(120, 1))
    returns = -((xi[:, 0] - 0.3 * np.cos(4.0 * s[:, 0])) ** 2) + 0.01 * rng.normal(size=120)
    everywhere, own = powers(rng.uniform(-1.0, 1.0, (300, 1))), np.ones(len(s), dtype=bool)
    found = refinement.refine_one(wide(1, 8), None, powers(s), xi, returns, own, everywhere)
    inside, outside = np.linspace(-0.95, 0.15, 20)[:, None], np.linspace(0.6, 1.0, 9)[:, None]
    np.testing.assert_allclose(mean_of(found, powers(inside)), 0.3 * np.cos(4.0 * inside), atol=5e-2)
    assert np.abs(mean_of(found, powers(outside))).max() < 2.0  # deviations of the option as it was
    alone = refine_one(wide(1, 8), None, powers(s), xi, returns)
    assert np.abs(mean_of(alone, powers(outside))).max() > 2.0


@pytest.mark.parametrize("change", ["scaled", "shifted", "permuted", "turned"])
def test_what_must_not_matter_does_not(change):
    s, xi, returns = rollouts(8, 90, noise=0.05)
    option, turn, offset = wide(), np.eye(2), np.zeros(2)
    expected = refine_one(option, None, s, xi, returns)
    if change == "scaled":
        returns = 1e4 * returns
    elif change == "shifted":
        returns = returns + 300.0
    elif change == "permuted":
        order = np.random.default_rng(0).permutation(len(s))
        s, xi, returns = s[order], xi[order], returns[order]
    else:
        turn, offset = np.array([[2.0, 0.3], [-0.4, 0.1]]), np.array([3.0, -1.0])
        option = LinearGaussian(offset, np.zeros((1, 2)), turn @ turn.T)
    found = refine_one(option, None, s, xi @ turn.T + offset, returns)
    np.testing.assert_allclose(mean_of(found, GRID), mean_of(expected, GRID) @ turn.T + offset, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.Sigma, turn @ expected.Sigma @ turn.T, rtol=1e-3, atol=1e-8)


def test_options_are_refined_by_their_own_rollouts_alone():
    s, xi, returns = rollouts(9, 80)
    xi, returns = np.concatenate([xi, xi + 20.0]), np.concatenate([returns, returns - 3.0])
    belongs = np.repeat(np.eye(3, dtype=bool)[:, :2], 80, axis=1)
    options = LinearGaussian(
        np.array([[0.0, 0.0], [20.0, 20.0], [0.0, 0.0]]), np.zeros((3, 1, 2)), np.stack([np.eye(2)] * 3)
    )
    kept = np.array([True, True, False])
    found = refine(options, None, kept, kept, belongs, np.ones_like(belongs), np.tile(s, (2, 1)), xi, returns, s)
    np.testing.assert_allclose(found.b[1] - 20.0, found.b[0], atol=1e-6)
    np.testing.assert_array_equal(found.Sigma[2], np.eye(2))


def test_an_obstacle_where_the_cost_would_be_best_is_passed():
    """All that hits nothing says that the middle is best, and the middle is where the obstacle is."""
    task = make_task("obstacle-2@3")
    policy = hpsde.learn(task, rollouts=600, initial_rollouts=400, seed=0, progress=False)
    contexts = task.evaluation_contexts()
    assert score(task, policy)["found"] == 2
    assert np.mean(task.true_returns(contexts, policy.act(contexts)) < -0.9) <= 0.02


def test_himmelblau_to_six_digits():
    maxima = np.array([[3.0, 2.0], [-2.805118, 3.131312], [-3.779310, -3.283186], [3.584428, -1.848126]])

    def himmelblau(x: np.ndarray) -> float:
        return -((x[0] ** 2 + x[1] - 11.0) ** 2) - (x[0] + x[1] ** 2 - 7.0) ** 2

    policy = hpsde.learn(
        himmelblau, initial=hpsde.Uniform([-5.0, -5.0], [5.0, 5.0]), rollouts=700, progress=False, seed=1
    )
    means = np.asarray(policy.option_means())[:, 0]
    assert len(means) == 4
    distance = np.linalg.norm(means[:, None] - maxima[None], axis=-1).min(axis=1)
    assert np.all(distance < 2e-6)  # the maxima themselves are known to 1e-6
