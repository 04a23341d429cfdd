"""How often XLA compiles: never for what learners do by default, and as often as there are new sizes elsewhere."""

import jax
import jax.numpy as jnp
import pytest

from hpsde.base.compilations import count_compilations
from hpsde.base.padding import padded_size
from hpsde.learning import iterate
from hpsde.methods import make_learner
from hpsde.tasks.toy import toy_double

BATCH = 7
SIZES = {"max_options": 3}
MOST = 40  # programs of a first run with joint Gaussians


def rounds_of(initial, rollouts, expected=0, method="hpsde-reps-gp", **settings):
    """Rollouts, options kept and programs compiled in every round of a toy run."""
    task = toy_double()
    given = {"initial_rollouts": initial, "expected_rollouts": expected, **settings}
    learner = make_learner(method, task, seed=0, **given)
    rounds, result = iterate(task, learner, rollouts=rollouts, batch=BATCH), []
    while len(learner.rollouts) < rollouts:
        with count_compilations() as compiled:
            each = next(rounds)
        result.append((each.rollouts, each.info.options_kept, compiled.count))
    return result


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


@pytest.mark.parametrize("method", ["hpsde-reps-gp", "hpsde-rwr-softmax", "hpsde-reps-marginal", "hireps", "creps"])
def test_learners_compile_nothing(method):
    """However the rollouts grow, and whatever number of options there is."""
    settings = {} if method in ("hireps", "creps") else SIZES
    assert [count for _, _, count in rounds_of(86, 114, method=method, **settings)] == [0] * 5


def test_joint_gaussians_are_compiled_for_new_sizes_only():
    """With the hint all arrays have 128 rows from the start; without it as many as there are rollouts, padded."""
    with_hint = {"expected": 114, "density": "vb", "weight_sum": "one", **SIZES}
    first = [count for _, _, count in rounds_of(86, 114, **with_hint)]
    assert 0 < first[0] <= MOST
    assert first[1:] == [0] * 4
    assert [count for _, _, count in rounds_of(86, 114, **with_hint)] == [0] * 5
    sizes = [padded_size(rollouts) for rollouts, _, _ in rounds_of(100, 128, density="vb", **SIZES)]
    assert sizes == [128] * 5
    counts = [count for _, _, count in rounds_of(100, 128, density="vb", **SIZES)]
    assert counts == [0] * 5
