"""How often XLA compiles while the data grow: as often as there are new sizes, and no more."""

import jax
import jax.numpy as jnp
import pytest

from hpsde.base.compilations import count_compilations
from hpsde.base.padding import padded_size
from hpsde.learning import iterate
from hpsde.methods import make_learner
from hpsde.tasks.toy import toy_double

BATCH = 7
# No other test has as many options. With axes given the kernel is given, too: another one is another program.
SIZES = {"max_options": 3, "gp_axes": "own"}
ONE_OPTION = {"density": "vb", "weight_sum": "one"}  # too little to split anything
MANY_OPTIONS = {"density": "vb", "weight_sum": "n"}  # believes every strip is split


def rounds_of(initial, rollouts, expected=0, **settings):
    """Rollouts, options kept and programs compiled in every round of a toy run."""
    task = toy_double()
    given = {"initial_rollouts": initial, "expected_rollouts": expected, **SIZES, **settings}
    learner = make_learner("hpsde-reps-gp", task, seed=0, **given)
    rounds, result = iterate(task, learner, rollouts=rollouts, batch=BATCH), []
    while len(learner.rollouts) < rollouts:
        with count_compilations() as compiled:
            each = next(rounds)
        result.append((each.rollouts, each.info.options_kept, compiled.count))
    return result


@pytest.fixture(scope="module")
def first_run():
    """The first run, told that there will be 114 rollouts: all arrays have 128 rows from the start."""
    return rounds_of(86, 114, expected=114, **ONE_OPTION)


def test_the_counter_counts_programs_not_calls():
    double = jax.jit(lambda x: 2.0 * x)
    x, longer, longest = jnp.ones(3), jnp.ones(4), jnp.ones(5)
    with count_compilations() as outer:
        with count_compilations() as inner:
            for _ in range(3):
                double(x)
        assert inner.count == 1
        assert inner.seconds > 0.0
        double(longer)
    assert (inner.count, outer.count) == (1, 2)
    double(longest)
    assert outer.count == 2


def test_with_the_hint_all_is_compiled_by_the_second_round(first_run):
    assert [rollouts for rollouts, _, _ in first_run] == [86, 93, 100, 107, 114]
    assert [padded_size(rollouts) for rollouts, _, _ in first_run] == [96, 96, 128, 128, 128]
    counts = [count for _, _, count in first_run]
    assert min(counts[:2]) > 0  # the first round learns, the second asks the policy as well
    assert counts[2:] == [0, 0, 0]


def test_a_second_run_compiles_nothing(first_run):
    again = rounds_of(86, 114, expected=114, **ONE_OPTION)
    assert [row[:2] for row in again] == [row[:2] for row in first_run]
    assert [count for _, _, count in again] == [0] * 5


def test_how_many_options_there_are_compiles_nothing(first_run):
    many = rounds_of(86, 114, expected=114, **MANY_OPTIONS)
    assert {kept for _, kept, _ in first_run} == {1}
    assert max(kept for _, kept, _ in many) > 1
    assert [count for _, _, count in many] == [0] * 5


def test_without_the_hint_nothing_is_compiled_while_the_size_stays(first_run):
    result = rounds_of(100, 128, **ONE_OPTION)
    assert [padded_size(rollouts) for rollouts, _, _ in result] == [128] * 5
    assert [count for _, _, count in result][1:] == [0] * 4


def test_options_of_the_modelled_return_are_compiled_by_the_second_round_but_for_more_questions_about_valleys():
    """Valleys are asked about in arrays of 64, 128, 256, ... rows; a second run has the same sizes as the first."""
    first = rounds_of(86, 114, expected=114)
    again = rounds_of(86, 114, expected=114)
    assert [row[:2] for row in again] == [row[:2] for row in first]
    assert [count for _, _, count in again] == [0] * 5
    assert max(count for _, _, count in first[2:]) <= 6
