"""Coverage and surplus of options made by hand."""

import numpy as np
import pytest

from hpsde.errors import InputError
from hpsde.tasks import Solution, coverage_and_surplus, make_task, solution_at

CONTEXTS = np.linspace(0.0, 2.0, 201)[:, None]
UPPER, LOWER = 0.2 * CONTEXTS + 1.2, -0.3 * CONTEXTS + 0.9


def of_double(*options):
    means = np.stack(options) if options else np.zeros((0, *CONTEXTS.shape))
    return coverage_and_surplus(make_task("toy-double").solutions, CONTEXTS, means)


def test_perfect_options_cover_all():
    result = of_double(UPPER, LOWER)
    assert (result.coverage, result.surplus) == (1.0, 0)
    np.testing.assert_array_equal(result.table, np.eye(2))
    assert result.found == result.names == ("upper line", "lower line")


def test_duplicates_cover_no_more_and_are_not_surplus():
    result = of_double(UPPER, UPPER + 0.04, UPPER - 0.04)
    assert (result.coverage, result.surplus) == (0.5, 0)
    assert result.found == ("upper line",)


def test_option_that_follows_half_of_a_line_is_surplus():
    half = np.where(CONTEXTS < 1.0, UPPER, UPPER + 1.0)
    result = of_double(half, LOWER)
    assert (result.coverage, result.surplus) == (0.5, 1)
    np.testing.assert_allclose(result.table[0], [100 / 201, 0.0])


def test_option_that_changes_lines_follows_neither():
    result = of_double(np.where(CONTEXTS < 1.0, UPPER, LOWER))
    assert (result.coverage, result.surplus) == (0.0, 1)


def test_no_option_covers_nothing():
    result = of_double()
    assert (result.coverage, result.surplus) == (0.0, 0)
    assert result.table.shape == (0, 2)


def test_option_without_a_finite_mean_follows_nothing():
    result = of_double(np.full_like(UPPER, np.nan))
    assert (result.coverage, result.surplus) == (0.0, 1)


@pytest.mark.parametrize(("followed", "coverage"), [(3, 0.0), (4, 1.0), (5, 1.0)])
def test_four_of_five_contexts_are_enough(followed, coverage):
    contexts = np.arange(5.0)[:, None]
    solution = solution_at("zero", np.zeros_like)
    mean = np.where(np.arange(5)[:, None] < followed, 0.0, 9.0)
    result = coverage_and_surplus([solution], contexts, mean[None])
    assert (result.coverage, result.surplus) == (coverage, 1 - int(coverage))
    assert result.table[0, 0] == followed / 5


def test_a_solution_may_ask_for_another_share_of_the_contexts():
    half, all_of_them = (Solution(f"{share:g}", lambda s, a: a[:, 0] > s[:, 0], share=share) for share in (0.5, 1.0))
    most = np.where(np.arange(201)[:, None] < 200, CONTEXTS + 1.0, CONTEXTS)
    less = np.where(np.arange(201)[:, None] < 100, CONTEXTS + 1.0, CONTEXTS)
    result = coverage_and_surplus([half, all_of_them], CONTEXTS, np.stack([most, less]))
    assert result.found == ("0.5",)
    assert (result.coverage, result.surplus) == (0.5, 1)
    np.testing.assert_allclose(result.table, [[200 / 201] * 2, [100 / 201] * 2])


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, np.nan])
def test_an_impossible_share_is_refused(share):
    with pytest.raises(InputError, match="share: expected more than 0 and at most 1"):
        Solution("never", lambda s, a: a[:, 0] > 0.0, share=share)


def test_tolerance_is_the_length_of_the_difference():
    contexts = np.zeros((1, 1))
    solution = solution_at("origin", lambda s: np.zeros((len(s), 2)), tolerance=0.5)
    means = np.array([[[0.3, 0.4]], [[0.31, 0.4]]])
    np.testing.assert_array_equal(coverage_and_surplus([solution], contexts, means).table, [[1.0], [0.0]])


def test_only_the_contexts_where_a_solution_is_best_count():
    task = make_task("toy-triple")
    lines = [-0.3 * CONTEXTS + 2.4, 0.2 * CONTEXTS + 0.8, -0.2 * CONTEXTS + 3.5]
    result = coverage_and_surplus(task.solutions, CONTEXTS, np.stack(lines))
    assert (result.coverage, result.surplus) == (1.0, 0)
    # One option that takes the right line in every context follows all three.
    s = CONTEXTS
    chameleon = np.where(s < 0.7, lines[0], np.where(s < 1.4, lines[1], lines[2]))
    result = coverage_and_surplus(task.solutions, CONTEXTS, chameleon[None])
    assert (result.coverage, result.surplus) == (1.0, 0)
    np.testing.assert_array_equal(result.table, [[1.0, 1.0, 1.0]])


def test_solution_that_is_valid_nowhere_is_not_judged():
    task = make_task("toy-triple")
    left = CONTEXTS[:50]
    result = coverage_and_surplus(task.solutions, left, (-0.3 * left + 2.4)[None])
    assert (result.coverage, result.surplus) == (1.0, 0)
    np.testing.assert_array_equal(result.table, [[1.0, np.nan, np.nan]])
    assert result.found == ("left line",)
    with pytest.raises(InputError, match="none of the 3 solutions"):
        coverage_and_surplus(task.solutions[:1] * 3, CONTEXTS[150:], np.zeros((1, 51, 1)))


def test_solutions_may_be_any_rule():
    rules = [
        Solution("left", lambda contexts, parameters: parameters[:, 0] < contexts[:, 0]),
        Solution("right", lambda contexts, parameters: parameters[:, 0] > contexts[:, 0]),
    ]
    result = coverage_and_surplus(rules, CONTEXTS, np.stack([CONTEXTS - 5.0, CONTEXTS - 0.1, CONTEXTS]))
    assert (result.coverage, result.surplus) == (0.5, 1)


def test_order_of_options_and_solutions_changes_only_the_table():
    solutions = make_task("toy-double").solutions
    means = np.stack([LOWER, UPPER + 0.5, LOWER + 0.01])
    result = coverage_and_surplus(solutions, CONTEXTS, means)
    turned = coverage_and_surplus(solutions[::-1], CONTEXTS, means[::-1])
    assert (result.coverage, result.surplus) == (turned.coverage, turned.surplus) == (0.5, 1)
    np.testing.assert_array_equal(turned.table, result.table[::-1, ::-1])


def test_unfit_arguments_are_refused():
    solutions = make_task("toy-double").solutions
    with pytest.raises(InputError, match="at least one known solution"):
        coverage_and_surplus((), CONTEXTS, UPPER[None])
    with pytest.raises(InputError, match=r"\[O, 201, D\], got \[201, 1\]"):
        coverage_and_surplus(solutions, CONTEXTS, UPPER)
    with pytest.raises(InputError, match=r"\[C, S\], got \[201\]"):
        coverage_and_surplus(solutions, CONTEXTS[:, 0], UPPER[None])
