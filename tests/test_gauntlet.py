"""The gauntlet's analytic tasks: their contract, their known solutions, their noise, and the score."""

from functools import cache

import jax
import numpy as np
import pytest

from handmade import by_hand
from hpsde.base.distributions import Uniform
from hpsde.errors import InputError, UnknownNameError
from hpsde.tasks import Solution, Task, TaskExtras, make_task, task_extras
from hpsde.tasks.gauntlet import CELLS, niching
from hpsde.tasks.gauntlet.known import generator, known_task
from hpsde.tasks.gauntlet.score import score

ANALYTIC = [name for name, cell in CELLS.items() if cell.family != "movements"]
NAMED_FUNCTIONS = [name for name in ANALYTIC if name.startswith("cec-")]
LARGE = ("bumps-3d", "bumps-4d", "bumps-5d", "parameters3", "many", "cec-f8", "cec-f9")  # three parameters or more
SEEDS = (1, 20)
FAMILIES = {"ridges": 26, "bumps": 20, "hard": 19, "many": 6, "budgets": 9}


@cache
def make(name, seed):
    """The task, drawn once for all tests."""
    return CELLS[name].make(seed)


def tasks(names=ANALYTIC, seeds=SEEDS):
    return [pytest.param(name, seed, id=f"{name}@{seed}") for name in names for seed in seeds]


def rollouts(task, n, seed=0):
    keys = jax.random.split(jax.random.key(seed))
    contexts = task.sample_contexts(keys[0], n)
    return contexts, task.sample_initial(keys[1], contexts)


class Fixed:
    """A policy with these option means [O, C, D] that uses the given option everywhere."""

    def __init__(self, means, used=0):
        self.means, self.used = np.asarray(means), used

    def option_means(self, contexts=None):
        return self.means

    def act(self, contexts=None):
        return self.means[self.used]


def perfect(task, *others):
    """An option for every required solution, and others besides; the best of them is used."""
    contexts = task.evaluation_contexts()
    best = task.best_returns(contexts)
    means = [solution.parameters(contexts) for solution in task.solutions if solution.required]
    returns = [np.mean(best - task.true_returns(contexts, mean)) for mean in means]
    return Fixed(np.stack([*means, *others]), used=int(np.argmin(returns)))


# Names


def test_there_are_cells_of_every_family():
    counted = {family: sum(CELLS[name].family == family for name in ANALYTIC) for family in FAMILIES}
    assert counted == FAMILIES
    assert [name for name in ANALYTIC if CELLS[name].hopeless] == ["constant-noise"]
    assert all(name == cell.name and cell.description for name, cell in CELLS.items())


def test_a_task_is_named_by_its_cell_and_its_seed():
    task = make_task("ridges-4@17")
    assert task.name == make_task("ridges-4", seed=17).name == "ridges-4@17"
    assert make_task("ridges-4").name == "ridges-4@0"
    contexts, parameters = rollouts(task, 40)
    np.testing.assert_array_equal(
        task.evaluate(contexts, parameters), make_task("ridges-4", seed=17).evaluate(contexts, parameters)
    )


@pytest.mark.parametrize("name", ["ridges-7", "ridges-7@1", "toy-double@1", "@1"])
def test_unknown_cells_are_unknown_names(name):
    with pytest.raises(UnknownNameError, match=r"toy-double.*cell@seed of the gauntlet"):
        make_task(name)


def test_seeds_that_are_none_are_refused():
    for name in ("ridges-4@", "ridges-4@x", "ridges-4@-1", "ridges-4@1.5"):
        with pytest.raises(InputError, match="whole number"):
            make_task(name)
    with pytest.raises(InputError, match="seed"):
        make_task("ridges-4", seed=-1)
    with pytest.raises(InputError, match="seed: expected once"):
        make_task("ridges-4@1", seed=2)
    with pytest.raises(InputError, match="cell of the gauntlet only"):
        make_task("toy-double", seed=2)


# The contract


@pytest.mark.parametrize(("name", "seed"), tasks())
def test_every_task_keeps_the_contract(name, seed):
    task = make(name, seed)
    assert isinstance(task, Task)
    assert isinstance(task_extras(task), TaskExtras)
    contexts, parameters = rollouts(task, 40)
    seeds = np.arange(100, 140)
    returns = task.evaluate(contexts, parameters, seeds=seeds)
    truth, densities = task.true_returns(contexts, parameters), task.log_initial(contexts, parameters)
    assert contexts.shape == (40, task.context_size)
    assert parameters.shape == (40, task.parameter_size)
    for array in (returns, truth, densities, task.best_returns(contexts)):
        assert array.shape == (40,)
        assert array.dtype == np.float64
    assert np.all(np.isfinite(truth))
    assert np.all(np.isfinite(densities))
    assert np.all(np.isfinite(returns) | (name == "failures"))
    assert np.all(truth <= task.best_returns(contexts) + 1e-9 * np.abs(truth))
    # A rollout depends on its context, its parameters and its seed alone, and on the seed only if it says so.
    turned = task.evaluate(contexts[::-1], parameters[::-1], seeds=seeds[::-1])
    np.testing.assert_array_equal(turned[::-1], returns)
    if not task.takes_seeds:
        np.testing.assert_array_equal(task.evaluate(contexts, parameters), truth)
    assert task.evaluate(contexts[:0], parameters[:0]).shape == (0,)
    assert 2 <= task.initial_rollouts <= task.rollouts


@pytest.mark.parametrize("name", ANALYTIC)
def test_the_seed_makes_the_task(name):
    one, same, other = make(name, 1), CELLS[name].make(1), make(name, 20)
    contexts, parameters = rollouts(one, 40)
    seeds = np.arange(40)
    returns = [task.evaluate(contexts, parameters, seeds=seeds) for task in (one, same, other)]
    np.testing.assert_array_equal(returns[0], returns[1])
    assert np.array_equal(returns[0], returns[2], equal_nan=True) == (name in NAMED_FUNCTIONS)


# What is known


@pytest.mark.parametrize(("name", "seed"), tasks())
def test_solutions_reach_the_best_returns_and_follow_themselves(name, seed):
    task = make(name, seed)
    contexts = task.evaluation_contexts()
    best, reached = task.best_returns(contexts), np.full(len(contexts), -np.inf)
    for solution in task.solutions:
        valid = np.ones(len(contexts), bool) if solution.valid is None else solution.valid(contexts)
        own = solution.parameters(contexts)
        assert np.mean(valid) >= 0.4
        assert np.all(solution.follows(contexts, own))
        if task.parameter_bounds is not None:
            low, high = task.parameter_bounds
            assert np.all((own >= low) & (own <= high))
        reached = np.maximum(reached, task.true_returns(contexts, own))
        others = [other for other in task.solutions if other is not solution]
        if not name.startswith("crossing"):
            assert not any(np.any(other.follows(contexts, own)) for other in others[:20])
    if task.solutions:
        np.testing.assert_allclose(reached, best, rtol=1e-9)


@pytest.mark.parametrize(("name", "seed"), tasks([name for name in ANALYTIC if not name.startswith(LARGE)], (1,)))
def test_no_point_of_a_dense_grid_beats_the_best_return(name, seed):
    task = make(name, seed)
    low, high = task.parameter_bounds
    count = 4001 if task.parameter_size == 1 else 401
    axes = [np.linspace(a, b, count) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(low))
    contexts = task.evaluation_contexts()[::50]
    best = task.best_returns(contexts)
    at_stake = best.mean() - task.blind_return()
    for context, most in zip(contexts, best, strict=True):
        highest = task.true_returns(np.repeat(context[None], len(grid), axis=0), grid).max()
        assert highest <= most + 1e-9 * abs(most)
        assert highest >= most - 0.02 * at_stake


@pytest.mark.parametrize("name", ["ridges-8", "curves-4", "widths-4", "bumps-2d-12", "parameters2-3", "context2-3"])
def test_between_two_solutions_the_return_falls(name):
    for seed in SEEDS:
        task = make(name, seed)
        contexts = task.evaluation_contexts()[::40]
        curves = np.stack([solution.parameters(contexts) for solution in task.solutions])
        one, other = np.triu_indices(len(curves), k=1)
        share = np.linspace(0.0, 1.0, 101)[:, None, None, None]
        between = curves[one] + share * (curves[other] - curves[one])
        rows = np.tile(contexts, (101 * len(one), 1))
        returns = task.true_returns(rows, between.reshape(len(rows), -1))
        assert np.all(returns.reshape(101, -1).min(axis=0) < 0.1)


def test_crossing_lines_cross_and_end_apart():
    for name, count in (("crossing-2", 1), ("crossing-3", 3)):
        for seed in range(3):
            task = make(name, seed)
            contexts = task.evaluation_contexts()
            curves = [solution.parameters(contexts)[:, 0] for solution in task.solutions]
            signs = [np.sign(a - b) for k, a in enumerate(curves) for b in curves[:k]]
            assert [np.sum(np.diff(sign[sign != 0]) != 0) for sign in signs] == [1] * count


def test_lower_lines_are_not_required():
    task = make("heights-low-4", 5)
    contexts = task.evaluation_contexts()
    heights = {s.name: task.true_returns(contexts, s.parameters(contexts)).mean() for s in task.solutions}
    assert sorted(round(heights[s.name], 9) for s in task.solutions if s.required) == [1.0, 1.0]
    assert all(0.3 <= heights[s.name] <= 0.5 for s in task.solutions if not s.required)
    assert all(solution.required for solution in make("heights-4", 5).solutions)


# The named functions, by the literature: global optima, all listed optima, best value.

LITERATURE = {
    "cec-f1": (2, 5, 200.0),
    "cec-f2": (5, 5, 1.0),
    "cec-f3": (1, 5, 1.0),
    "cec-f4": (4, 4, 200.0),
    "cec-f5": (2, 6, 4.126513),
    "cec-f6": (18, None, 186.7309088),
    "cec-f7": (36, 36, 1.0),
    "cec-f8": (81, None, 2709.093505),
    "cec-f9": (216, 216, 1.0),
    "cec-f10": (12, 12, -2.0),
}


@pytest.mark.parametrize("name", LITERATURE)
def test_named_functions_have_the_optima_of_the_literature(name):
    required, listed, value = LITERATURE[name]
    task = make(name, 0)
    assert sum(solution.required for solution in task.solutions) == required
    assert listed is None or len(task.solutions) == listed
    np.testing.assert_allclose(task.best_returns(np.zeros((1, 0))), value, rtol=1e-6)


@pytest.mark.parametrize("name", sorted(NAMED_FUNCTIONS))
def test_listed_optima_are_local_maxima(name):
    task, none = make(name, 0), np.zeros((1, 0))
    rng = np.random.default_rng(0)
    for solution in task.solutions[:: max(1, len(task.solutions) // 40)]:
        own = solution.parameters(none)
        steps = 1e-4 * rng.normal(size=(50, task.parameter_size))
        near = task.true_returns(np.zeros((50, 0)), own + steps)
        assert np.all(near <= task.true_returns(none, own) + 1e-9)


def test_there_are_no_other_optima_of_shubert_in_the_box():
    """The inner local maxima of a dense grid, above 0, as many as are listed."""
    axis = np.linspace(-10.0, 10.0, 1201)
    values = niching.shubert(np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)).reshape(1201, 1201)
    inner = values[1:-1, 1:-1]
    around = [values[1 + i : 1200 + i, 1 + j : 1200 + j] for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    tops = np.all([inner > other for other in around], axis=0) & (inner > 1.0)
    returns = [niching.shubert(s.parameters(np.zeros((1, 0))))[0] for s in make("cec-f6", 0).solutions]
    assert abs(np.sum(tops) - np.sum(np.array(returns) > 1.0)) <= 4  # two close by may share a point of the grid
    assert np.sum(tops & (inner > 185.0)) == 18


def test_outside_the_box_the_return_falls():
    for name in NAMED_FUNCTIONS:
        task = make(name, 0)
        low, high = task.parameter_bounds
        beyond = np.stack([high + t * (high - low) for t in (0.0, 0.1, 0.2)])
        returns = task.true_returns(np.zeros((3, 0)), beyond)
        assert returns[0] > returns[1] > returns[2]
        assert returns[1] < task.blind_return()


# Hard returns


def errors_of(name):
    task = make(name, 1)
    contexts, parameters = rollouts(task, 10_000)
    return task.evaluate(contexts, parameters) - task.true_returns(contexts, parameters)


@pytest.mark.parametrize(("name", "deviation"), [("noise-1", 0.01), ("noise-30", 0.3), ("constant-noise", 1.0)])
def test_noise_has_its_standard_deviation(name, deviation):
    errors = errors_of(name)
    np.testing.assert_allclose(errors.std(), deviation, rtol=0.05)
    assert abs(errors.mean()) < 5.0 * deviation / np.sqrt(10_000)


def test_heavy_tails_have_the_quantiles_of_two_degrees_of_freedom():
    errors = errors_of("heavy-tails")
    # F^-1(p) = (2 p - 1) sqrt(2 / (4 p (1 - p)))
    for p in (0.25, 0.75, 0.95):
        assert np.quantile(errors, p) == pytest.approx(0.05 * (2 * p - 1) * np.sqrt(2 / (4 * p * (1 - p))), rel=0.1)


@pytest.mark.parametrize(("name", "up"), [("outliers-up", 1.0), ("outliers-down", 0.0), ("outliers-both", 0.5)])
def test_two_percent_are_outliers(name, up):
    errors = errors_of(name)
    off = errors[errors != 0.0]
    assert len(off) / 10_000 == pytest.approx(0.02, abs=0.006)
    np.testing.assert_allclose(np.abs(off), 10.0)
    assert np.mean(off > 0.0) == pytest.approx(up, abs=0.15)


def test_a_fifth_of_the_rollouts_fail():
    errors = errors_of("failures")
    assert np.mean(np.isnan(errors)) == pytest.approx(0.2, abs=0.02)
    assert np.all(errors[np.isfinite(errors)] == 0.0)


@pytest.mark.parametrize("share", [30, 10, 4])
def test_so_many_first_rollouts_succeed(share):
    for seed in range(3):
        task = make(f"binary-{share}", seed)
        returns = task.evaluate(*rollouts(task, 10_000))
        assert set(np.unique(returns)) == {0.0, 1.0}
        assert returns.mean() == pytest.approx(0.01 * share, abs=0.012)


def test_success_is_random_with_its_probability():
    task = make("binary-noisy-10", 1)
    contexts = np.repeat(task.evaluation_contexts()[:1], 4000, axis=0)
    inside = task.solutions[0].parameters(contexts)
    outside = np.zeros_like(inside)
    assert task.evaluate(contexts, inside).mean() == pytest.approx(0.9, abs=0.02)
    assert task.evaluate(contexts, outside).mean() == pytest.approx(0.02, abs=0.01)


def test_hard_tasks_have_the_lines_of_the_plain_ones():
    plain, noisy = make_task("ridges-3@4"), make_task("noise-30@4")
    contexts, parameters = rollouts(plain, 40)
    np.testing.assert_array_equal(plain.true_returns(contexts, parameters), noisy.true_returns(contexts, parameters))
    odd = make_task("units@4")
    raw = odd.true_returns(0.3 + 1e-3 * contexts, -7e5 + 1e4 * parameters)
    np.testing.assert_allclose((raw + 3e7) / 1e5, plain.true_returns(contexts, parameters), atol=1e-6)


def test_only_three_directions_matter():
    task = make("many-20-three", 2)
    none = np.zeros((400, 0))
    xi = np.random.default_rng(0).normal(size=(400, 20))
    steps = 1e-4 * np.eye(20)
    slopes = np.stack([task.true_returns(none, xi + e) - task.true_returns(none, xi - e) for e in steps], axis=1)
    values = np.linalg.svd(slopes / 2e-4, compute_uv=False)
    assert values[2] > 0.1
    assert values[3] < 1e-3 * values[2]


# The score


@pytest.mark.parametrize(("name", "seed"), tasks(seeds=(1,)))
def test_a_perfect_policy_is_exact(name, seed):
    task = make(name, seed)
    if not task.solutions:
        assert name == "constant-noise"
        return
    result = score(task, perfect(task))
    required = sum(solution.required for solution in task.solutions)
    assert (result["solutions"], result["found"], result["options"]) == (required,) * 3
    assert (result["coverage"], result["surplus"], result["exact"]) == (1.0, 0, True)
    assert result["regret"] == pytest.approx(0.0, abs=1e-9) or name == "partial-3"


def test_doubles_and_options_beside_are_surplus():
    task = make("ridges-2", 1)
    contexts = task.evaluation_contexts()
    first = task.solutions[0].parameters(contexts)
    beside = np.zeros_like(first)
    result = score(task, perfect(task, first + 1e-3, beside))
    assert (result["coverage"], result["surplus"], result["exact"]) == (1.0, 2, False)
    result = score(task, Fixed([first, first + 1e-3]))
    assert (result["found"], result["coverage"], result["surplus"]) == (1, 0.5, 1)
    assert result["regret"] == pytest.approx(0.0, abs=1e-3)


def test_lower_solutions_are_neither_missed_nor_surplus():
    task = make("heights-low-4", 1)
    contexts = task.evaluation_contexts()
    low = next(solution for solution in task.solutions if not solution.required).parameters(contexts)
    result = score(task, perfect(task, low))
    assert (result["solutions"], result["options"], result["surplus"], result["exact"]) == (2, 3, 0, True)
    assert score(task, perfect(task, low, low))["surplus"] == 1
    assert score(task, Fixed([low]))["coverage"] == 0.0


def test_an_option_that_follows_two_is_matched_so_that_most_are():
    """One option follows both solutions, the other one of them alone: in any order, none is left over."""
    wide, narrow = (Solution(name, lambda s, xi, end=end: xi[:, 0] < end) for name, end in (("2", 2.0), ("1", 1.0)))
    for solutions in ((wide, narrow), (narrow, wide)):
        task = known_task(
            "pair",
            lambda contexts, parameters: -(parameters[:, 0] ** 2),
            lambda contexts: np.zeros(len(contexts)),
            initial=Uniform(0.0, 1.0),
            solutions=solutions,
        )
        assert score(task, Fixed([[[0.5]], [[1.5]]]))["surplus"] == 0
        assert score(task, Fixed([[[1.5]], [[0.5]]]))["surplus"] == 0
        assert score(task, Fixed([[[1.5]], [[1.6]]]))["surplus"] == 1


def test_regret_is_a_share_of_what_blind_parameters_lose():
    task = make("ridges-3", 1)
    contexts = task.evaluation_contexts()
    low, high = task.parameter_bounds
    grid = np.linspace(low, high, 2001)
    blind = np.mean([task.true_returns(np.repeat(s[None], 2001, axis=0), grid).mean() for s in contexts[::5]])
    assert task.blind_return() == pytest.approx(blind, abs=0.01)
    wide = np.broadcast_to(low - 1.0, (len(contexts), 1))
    assert score(task, Fixed([wide]))["regret"] == pytest.approx(1.0 / (1.0 - task.blind_return()))
    nothing = score(make("constant-noise", 0), Fixed(np.zeros((2, 201, 1))))
    assert np.isnan(nothing["coverage"])
    assert np.isnan(nothing["regret"])
    assert (nothing["solutions"], nothing["surplus"], nothing["exact"]) == (0, 2, False)


@pytest.mark.parametrize("name", ["ridges-2", "bumps-1d-3"])
def test_a_learned_policy_can_be_scored(name):
    task = make(name, 0)
    result = score(task, by_hand(context_size=task.context_size, parameter_size=1))
    assert (result["options"], result["found"], result["surplus"]) == (2, 0, 2)
    assert result["regret"] > 1.0


def test_draws_differ_by_name_and_by_seed():
    draws = [generator(name, seed).random() for name in ("a", "b") for seed in (0, 1)]
    assert len(set(draws)) == 4
    assert generator("a", 0).random() == draws[0]
