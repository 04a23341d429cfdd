"""The puddle task against its statement, loop by loop; its optimum, its start policy, its gaps."""

import itertools
import math

import jax
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import slow_puddle
from hpsde.errors import InputError
from hpsde.tasks import coverage_and_surplus, make_task, task_extras, task_measures
from hpsde.tasks.puddle import GAPS, MARGIN, PUDDLES, Puddle

TASK = Puddle()
X = np.array(slow_puddle.X)


def initial_rollouts(n, seed):
    contexts = TASK.sample_contexts(jax.random.key(seed), n)
    return contexts, TASK.sample_initial(jax.random.key(seed + 1), contexts)


def good_rollouts(n, seed):
    """Routes through all gaps, a little off."""
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-5.0, 6.0, (n, 1))
    known = np.stack([solution.parameters(contexts) for solution in TASK.solutions])
    return contexts, known[np.arange(n) % 4, np.arange(n)] + rng.normal(0.0, 0.1, (n, 10))


def wild_rollouts(n, seed):
    """Far out, so that many take more than 301 steps."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-5.0, 6.0, (n, 1)), rng.normal(0.0, 5.0, (n, 10))


@pytest.mark.parametrize("rollouts", [initial_rollouts, good_rollouts, wild_rollouts])
def test_returns_are_those_of_the_statement(rollouts):
    contexts, parameters = rollouts(1000, 0)
    slow = [slow_puddle.rollout(s, a) for (s,), a in zip(contexts.tolist(), parameters.tolist(), strict=True)]
    heights, lengths, collisions = map(np.array, zip(*slow, strict=True))
    routes = TASK.routes(contexts, parameters)
    np.testing.assert_allclose(routes[:, :, 0], np.broadcast_to(X, heights.shape), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(routes[:, :, 1], heights, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(TASK.collisions(contexts, parameters), collisions)
    np.testing.assert_allclose(TASK.evaluate(contexts, parameters), -lengths - 50 * collisions, rtol=1e-9)
    measured = task_measures(TASK, contexts, parameters)
    np.testing.assert_array_equal(measured["collision_free"], (collisions == 0).astype(float))
    np.testing.assert_allclose(measured["length"], lengths, rtol=1e-9)
    # No point is so close to an edge that rounding could have decided.
    edges = np.ravel(PUDDLES)
    inside = (routes[:, :, 0] > 1.9) & (routes[:, :, 0] < 4.1)
    assert np.min(np.abs(routes[inside][:, 1:] - edges)) > 1e-9
    assert np.min(np.abs(X[:, None] - [1.9, 4.1])) > 1e-3


def test_initial_parameters_are_fitted_as_stated():
    contexts, parameters = initial_rollouts(10, 7)
    unit_noise = [slow_puddle.fit([0.0] * k + [0.3] + [0.0] * (199 - k)) * 1e-4 for k in range(1, 160)]
    sine = slow_puddle.fit([math.sin(t) for t in slow_puddle.ANGLES] + [0.0] * 40) * 1e-4
    line = slow_puddle.fit([k / 159 for k in range(160)] + [1.0] * 40) * 1e-4
    # Whatever u and v were: what is left of the parameters is a mixture of the sine and of the noise of 159 points.
    design = np.stack([sine, *unit_noise], axis=1)
    low, high = np.r_[-6.0, np.zeros(159)], np.r_[6.0, np.ones(159)]
    for (s,), a in zip(contexts, parameters, strict=True):
        found = scipy.optimize.lsq_linear(design, a - s * line, (low, high), max_iter=500, tol=1e-14)
        np.testing.assert_allclose(design @ found.x, a - s * line, atol=1e-6)


def test_statistics_of_the_initial_policy():
    contexts, parameters = initial_rollouts(4000, 3)
    returns = TASK.evaluate(contexts, parameters)
    assert returns.mean() == pytest.approx(-536.4, abs=15.0)
    assert returns.min() == pytest.approx(-966.0, abs=10.0)
    assert -7.0 < returns.max() < -6.28
    shares = np.bincount(TASK.gaps(contexts, parameters) + 1) / 4000
    np.testing.assert_allclose(shares, [0.752, 0.059, 0.087, 0.079, 0.023], atol=0.02)
    assert contexts.min() >= -5.0
    assert contexts.max() <= 6.0
    assert contexts.mean() == pytest.approx(0.5, abs=0.15)


def test_log_initial_is_the_density_of_a_gaussian_with_a_swing_integrated_out():
    contexts, parameters = initial_rollouts(4000, 5)
    mean, of_goal, of_swing, covariance = TASK._initial_moments
    swings = np.linspace(-6.0, 6.0, 20_001)
    for s, a in zip(contexts[:3], parameters[:3], strict=True):
        at = a - mean - s * of_goal - swings[:, None] * of_swing
        truth = np.mean(scipy.stats.multivariate_normal(np.zeros(10), covariance).pdf(at)[:-1])
        assert TASK.log_initial(s[None], a[None])[0] == pytest.approx(math.log(truth), abs=1e-3)
    # The moments are those of the draws: the sine's direction aside, a chi-squared number of 9 degrees.
    noise = parameters - mean - contexts * of_goal
    precision = np.linalg.inv(covariance)
    along = noise @ precision @ of_swing / (of_swing @ precision @ of_swing)
    across = noise - along[:, None] * of_swing
    assert np.mean(np.sum(across @ precision * across, axis=1)) == pytest.approx(9.0, abs=0.2)
    assert along.std() == pytest.approx(12 / math.sqrt(12), rel=0.03)
    # Far out it is small, and still a number.
    assert -np.inf < TASK.log_initial([[0.0]], [[50.0] * 10])[0] < -1e4
    assert not task_extras(TASK).has_initial_density


def best_route(s, gap):
    """The shortest route through a gap among those of 301 steps: a convex problem, whose minimum is the minimum."""
    unit = TASK.routes([[s]] * 11, np.concatenate([np.zeros((1, 10)), 1e-3 * np.eye(10)]))[:, :, 1]
    rest, response = unit[0], (unit[1:] - unit[0]).T / 1e-3
    rows = np.flatnonzero((X > 1.9) & (X < 4.1))
    rows = np.append(rows, 99)
    low, high = GAPS[gap]
    lower, upper = np.full(len(rows), low + 1e-6), np.full(len(rows), high - 1e-6)
    lower[-1], upper[-1] = s - 0.00999, s + 0.00999

    def length(a):
        dy = np.diff(rest + response @ a)
        segments = np.hypot(np.diff(X), dy)
        return segments.sum(), (dy / segments) @ np.diff(response, axis=0)

    bounds = [
        {"type": "ineq", "fun": lambda a: rest[rows] + response[rows] @ a - lower, "jac": lambda a: response[rows]},
        {"type": "ineq", "fun": lambda a: upper - rest[rows] - response[rows] @ a, "jac": lambda a: -response[rows]},
    ]
    start = next(x for x in TASK.solutions if x.name == gap).parameters(np.array([[s]]))[0]
    found = scipy.optimize.minimize(
        length, start, jac=True, method="SLSQP", constraints=bounds, options={"maxiter": 300}
    )
    return found.x


def test_the_best_return_of_a_context():
    """Shortest routes in a few contexts: better than any search, no better than taut strings but for cut corners."""
    contexts = np.linspace(-5.0, 6.0, 12)[:, None]
    best = np.array([[TASK.evaluate([s], [best_route(s[0], gap)])[0] for gap in GAPS] for s in contexts])
    assert best.max(axis=1).mean() == pytest.approx(-7.253, abs=0.002)
    assert best.max() == pytest.approx(-6.30, abs=0.01)
    # The lowest gap is best on the left, then the lower, then the upper; the highest never is.
    np.testing.assert_array_equal(best.argmax(axis=1), [0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2])
    for (s,), returns in zip(contexts, best, strict=True):
        for (low, high), value in zip(GAPS.values(), returns, strict=True):
            entry, leave = np.meshgrid(np.linspace(low, high, 141), np.linspace(low, high, 141))
            taut = np.hypot(1.9, entry) + np.hypot(2.2, leave - entry) + np.hypot(1.9, s - leave)
            assert value < -taut.min() + 0.3
            assert value > -taut.min() - 1.2
    assert np.all(TASK.evaluate(*initial_rollouts(4000, 11)) < best.max() + 0.02)


def test_known_solutions_take_their_gap_in_every_context():
    contexts = TASK.evaluation_contexts()
    for number, (solution, (low, high)) in enumerate(zip(TASK.solutions, GAPS.values(), strict=True)):
        parameters = solution.parameters(contexts)
        np.testing.assert_array_equal(TASK.gaps(contexts, parameters), number)
        assert task_measures(TASK, contexts, parameters)["collision_free"].all()
        routes = TASK.routes(contexts, parameters)
        assert np.max(np.abs(routes[:, -1] - np.insert(contexts, 0, 6.0, axis=1))) < 0.02
        inside = routes[(routes[:, :, 0] > 1.9) & (routes[:, :, 0] < 4.1)][:, 1]
        assert inside.min() > low + 0.1 * MARGIN
        assert inside.max() < high - 0.1 * MARGIN


def test_gaps_and_puddles_share_the_wall():
    edges = sorted([*PUDDLES, *GAPS.values()])
    assert all(one[1] == other[0] for one, other in itertools.pairwise(edges))


def test_gap_of_a_route_is_none_where_it_collides_or_passes_outside():
    contexts = np.zeros((3, 1))
    around = np.full(10, 0.0)
    around[2:6] = 300.0
    through = TASK.solutions[1].parameters(contexts[:1])[0]
    parameters = np.stack([through, through + 2.0 * np.eye(10)[3], around])
    assert TASK.collisions(contexts, parameters)[1] > 0
    assert TASK.collisions(contexts, parameters)[2] == 0
    np.testing.assert_array_equal(TASK.gaps(contexts, parameters), [1, -1, -1])


def test_coverage_counts_a_gap_that_is_taken_in_a_tenth_of_the_contexts():
    contexts = TASK.evaluation_contexts()
    lowest, lower, upper, _ = (solution.parameters(contexts) for solution in TASK.solutions)
    colliding = 0.5 * (lower + upper)
    assert np.all(TASK.gaps(contexts, colliding) == -1)
    # 23 of 221 contexts are a tenth, 22 are not.
    some = np.where(np.arange(221)[:, None] < 23, lowest, colliding)
    few = np.where(np.arange(221)[:, None] < 22, upper, colliding)
    result = coverage_and_surplus(TASK.solutions, contexts, np.stack([some, few, lower, lower, colliding]))
    assert result.found == ("lowest gap", "lower gap")
    assert (result.coverage, result.surplus) == (0.5, 2)
    np.testing.assert_allclose(result.table[:2, [0, 2]], [[23 / 221, 0.0], [0.0, 22 / 221]])


def test_extras():
    extras = task_extras(make_task("puddle"))
    assert (extras.features, extras.max_options) == ("squared-exponential", 20)
    assert (extras.initial_rollouts, extras.rollouts) == (600, 1500)
    assert extras.description
    np.testing.assert_allclose(TASK.evaluation_contexts(), np.linspace(-5.0, 6.0, 221)[:, None])
    low, high = extras.parameter_bounds
    parameters = initial_rollouts(2000, 1)[1]
    assert np.all((low < parameters) & (parameters < high))


def test_large_batches_are_evaluated_in_parts_and_come_out_alike():
    contexts, parameters = wild_rollouts(300, 4)
    whole = TASK.evaluate(contexts, parameters)
    parts = [TASK.evaluate(contexts[i : i + 7], parameters[i : i + 7]) for i in range(0, 300, 7)]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-13)
    assert TASK.routes(contexts[:0], parameters[:0]).shape == (0, 100, 2)
    assert TASK.gaps(contexts[:0], parameters[:0]).shape == (0,)


def test_unfit_arguments_are_refused():
    for method in (TASK.evaluate, TASK.routes, TASK.gaps, TASK.collisions, TASK.measures, TASK.log_initial):
        with pytest.raises(InputError, match=r"parameters must have shape \[2, 10\]; got \[2, 9\]"):
            method(np.zeros((2, 1)), np.zeros((2, 9)))
        with pytest.raises(InputError, match="parameters must be finite"):
            method(np.zeros((1, 1)), np.full((1, 10), np.nan))
    with pytest.raises(InputError, match="contexts"):
        TASK.sample_initial(jax.random.key(0), np.zeros((2, 2)))
