"""The toy tasks against their formulas, written out one by one, and against their known solutions."""

import math

import jax
import numpy as np
import pytest
import scipy.integrate

from hpsde.tasks import make_task, task_extras

TOYS = ("toy-double", "toy-triple", "toy-curve")


def double(s, a):
    d1 = abs(0.2 * s - a + 1.2) / math.sqrt(1.04)
    d2 = abs(-0.3 * s - a + 0.9) / math.sqrt(1.09)
    return math.exp(-min(d1, d2) / 10)


def triple(s, a):
    if s < 0.7:
        d = abs(-0.3 * s - a + 2.4) / math.sqrt(1.09)
    elif s < 1.4:
        d = abs(0.2 * s - a + 0.8) / math.sqrt(1.04)
    else:
        d = abs(-0.2 * s - a + 3.5) / math.sqrt(1.04)
    return max(100 * math.exp(-d / 100), 99.5)


def curve(s, a):
    theta1, theta2 = 0.3 * math.pi, 0.15 * math.pi
    d1 = abs((a + math.cos(theta1)) ** 2 + (s - 1) ** 2 - 1 / math.sin(theta1))
    d2 = abs((a - 1 + math.cos(theta2)) ** 2 + (s - 1) ** 2 - 1 / math.sin(theta2))
    return math.exp(-min(d1, d2) / 10)


FORMULAS = {"toy-double": double, "toy-triple": triple, "toy-curve": curve}
HIGHEST = {"toy-double": 2.0, "toy-triple": 4.0, "toy-curve": 2.0}


def column(values):
    return np.asarray(values, dtype=float)[:, None]


@pytest.mark.parametrize("name", TOYS)
def test_toy_returns_are_those_of_the_formula(name):
    s, a = np.meshgrid(np.linspace(-0.5, 2.5, 61), np.linspace(-1.0, 5.0, 87))
    returns = make_task(name).evaluate(column(s.ravel()), column(a.ravel()))
    truth = [FORMULAS[name](*point) for point in zip(s.ravel(), a.ravel(), strict=True)]
    np.testing.assert_allclose(returns, truth, rtol=1e-14)


@pytest.mark.parametrize(("s", "a"), [(0.7, 0.94), (np.nextafter(0.7, 0), 2.19), (1.4, 3.22), (1.3999, 1.08)])
def test_toy_triple_intervals_include_their_start(s, a):
    np.testing.assert_allclose(make_task("toy-triple").evaluate([[s]], [[a]]), 100.0, atol=1e-4)


def mean_of_triple():
    """In closed form: each line lies so far inside that the ridge along it, of half width d, is whole."""
    d = -100 * math.log(0.995)
    ridge = 2 * (100 * 100 * (1 - math.exp(-d / 100)) - 99.5 * d) / 4.0
    return 99.5 + ridge * (0.35 * math.sqrt(1.09) + 0.65 * math.sqrt(1.04))


@pytest.mark.parametrize(("name", "mean"), [("toy-double", 0.9733), ("toy-triple", mean_of_triple())])
def test_mean_return_of_the_uniform_policy(name, mean):
    task = make_task(name)
    s, a = np.meshgrid((np.arange(1000) + 0.5) / 500, (np.arange(1000) + 0.5) / 1000 * HIGHEST[name])
    returns = task.evaluate(column(s.ravel()), column(a.ravel()))
    assert np.mean(returns) == pytest.approx(mean, abs=5e-5)
    assert np.max(returns) == pytest.approx({"toy-double": 1.0, "toy-triple": 100.0}[name], rel=1e-3)


def test_lines_of_toy_double_meet_outside_the_contexts():
    upper, lower = (solution.parameters for solution in make_task("toy-double").solutions)
    np.testing.assert_allclose(upper(np.array([[-0.6]])), lower(np.array([[-0.6]])), rtol=1e-12)
    contexts = np.linspace(0.0, 2.0, 50)[:, None]
    assert np.min(upper(contexts) - lower(contexts)) == pytest.approx(0.3)


@pytest.mark.parametrize(("name", "best"), [("toy-double", 1.0), ("toy-triple", 100.0), ("toy-curve", 1.0)])
def test_known_solutions_reach_the_best_return(name, best):
    task = make_task(name)
    contexts = task.evaluation_contexts()
    covered = np.zeros(len(contexts), dtype=bool)
    for solution in task.solutions:
        valid = np.ones(len(contexts), bool) if solution.valid is None else solution.valid(contexts)
        returns = task.evaluate(contexts[valid], solution.parameters(contexts)[valid])
        np.testing.assert_allclose(returns, best, rtol=1e-14)
        covered |= valid
    assert covered.all()


@pytest.mark.parametrize(("name", "number"), [("toy-double", 2), ("toy-triple", 1), ("toy-curve", 2)])
def test_no_solution_is_missing(name, number):
    """Every action on a fine grid that is as good as the best lies on one of the known solutions."""
    task = make_task(name)
    best = 100.0 if name == "toy-triple" else 1.0
    for s in (0.3, 0.9, 1.6):
        actions = np.linspace(0.0, HIGHEST[name], 40_001)[:, None]
        contexts = np.full_like(actions, s)
        good = task.evaluate(contexts, actions) > best * (1 - 1e-3 * (1.0 if best == 1.0 else 0.1))
        follows = np.array([solution.follows(contexts, actions) for solution in task.solutions])
        valid = np.array([x.valid is None or x.valid(contexts[:1])[0] for x in task.solutions])
        assert valid.sum() == number
        assert np.all(np.any(follows[valid][:, good], axis=0))
        assert np.all(np.any(follows[valid][:, good], axis=1))


def test_arcs_of_toy_curve_count_only_where_they_are_actions():
    lower, upper = make_task("toy-curve").solutions
    contexts = np.linspace(0.0, 2.0, 2001)[:, None]
    assert upper.valid(contexts).all()
    inside = contexts[lower.valid(contexts), 0]
    reach = math.sqrt(1 / math.sin(0.3 * math.pi) - math.cos(0.3 * math.pi) ** 2)
    assert reach == pytest.approx(0.9437, abs=1e-4)
    assert (inside.min(), inside.max()) == pytest.approx((1 - reach, 1 + reach), abs=1.1e-3)
    for theta, centre in ((0.3, -math.cos(0.3 * math.pi)), (0.15, 1 - math.cos(0.15 * math.pi))):
        other_branch = centre - np.sqrt(1 / math.sin(theta * math.pi) - (contexts - 1) ** 2)
        assert np.all(other_branch < 0)


@pytest.mark.parametrize("name", TOYS)
def test_toy_distributions(name):
    task = make_task(name)
    high = HIGHEST[name]
    contexts = task.sample_contexts(jax.random.key(0), 2000)
    actions = task.sample_initial(jax.random.key(1), contexts)
    for values, end in ((contexts, 2.0), (actions, high)):
        assert values.min() >= 0.0
        assert values.max() <= end
        assert values.mean() == pytest.approx(end / 2, abs=0.1)
        assert values.std() == pytest.approx(end / math.sqrt(12), rel=0.05)
    some = np.array([[-0.01], [0.0], [high / 3], [high], [high + 0.01]])
    densities = task.log_initial(np.zeros((5, 1)), some)
    np.testing.assert_allclose(np.exp(densities), np.array([0.0, 1.0, 1.0, 1.0, 0.0]) / high)
    integral, _ = scipy.integrate.quad(
        lambda a: float(np.exp(task.log_initial([[1.0]], [[a]])[0])), -1, 5, points=[0, high]
    )
    assert integral == pytest.approx(1.0)
    np.testing.assert_allclose(task.evaluation_contexts(), np.linspace(0, 2, 201)[:, None], atol=1e-15)
    np.testing.assert_array_equal(task.parameter_bounds, ([0.0], [high]))


@pytest.mark.parametrize("name", TOYS)
def test_toy_extras(name):
    extras = task_extras(make_task(name))
    features = "squared-exponential" if name == "toy-curve" else "linear"
    assert (extras.features, extras.max_options, extras.initial_rollouts) == (features, 10, 600)
    assert extras.rollouts == 1050
    assert extras.has_initial_density
    assert extras.description
    assert len(extras.solutions) == (3 if name == "toy-triple" else 2)
