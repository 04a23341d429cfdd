"""Options on tops that regions have found: asked and told, stored, with noise, failures, bounds and contexts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import hpsde
import small
from hpsde.errors import InputError
from hpsde.runs.state import load_state, save_state
from hpsde.tasks import make_task

SIZE = 6
CENTRES = np.array([np.full(SIZE, 0.4), np.full(SIZE, -0.4)])
CENTRES[:, 0] = 0.15


def hills(parameters):
    """Two hills; the second is a little lower."""
    squares = np.sum((parameters[:, None] - CENTRES) ** 2, axis=2) / SIZE
    return np.max(np.array([1.0, 0.97]) - 4.0 * squares, axis=1)


def made(**changes):
    given = {"density": "regions", "initial": hpsde.Uniform(-np.ones(SIZE), 1.0), "bounds": None}
    return hpsde.HPSDE(0, SIZE, **{"initial_rollouts": 40, "max_options": 4, "seed": 2, **given, **changes})


def told(learner, counts, function=hills, fail=lambda x: np.zeros(len(x), dtype=bool)):
    for count in counts:
        x = learner.ask(count=count).parameters
        failed = fail(x)
        learner.tell(np.zeros((len(x), 0)), x, np.where(failed, np.nan, function(x)), failed=failed)
    return learner


@pytest.fixture(scope="module")
def learned():
    return told(made(), [40, *[20] * 22])


def test_both_hills_have_an_option_and_the_best_is_chosen(learned):
    policy = learned.policy
    means = policy.option_means()[:, 0]
    distance = np.linalg.norm(means[:, None] - CENTRES, axis=2) / np.sqrt(SIZE)
    assert len(means) == 2
    assert_array_equal(np.sort(distance.argmin(axis=1)), [0, 1])
    assert np.all(distance.min(axis=1) < 0.05)
    stands_on = np.flatnonzero(np.all(learned.rollouts.parameters == policy.act(), axis=1))
    assert len(stands_on)
    assert learned.rollouts.returns[stands_on[0]] > learned.rollouts.returns.max() - 1e-4
    small.assert_sound(policy, np.zeros((1, 0)))


def test_expected_returns_are_those_that_were_measured(learned):
    policy = learned.policy
    assert_allclose(policy.expected_returns()[:, 0], hills(policy.option_means()[:, 0]), rtol=1e-9)


def test_a_stored_learner_goes_on_to_the_bit(tmp_path, learned):
    half = told(made(), [40, *[20] * 6])
    half.policy  # noqa: B018 - learns
    save_state(half, tmp_path / "state.npz", "run")
    other = made()
    other.rollouts = half.rollouts
    load_state(other, tmp_path / "state.npz", "run")
    assert other._state.regions is not None
    assert_array_equal(other.ask(count=20).parameters, half.ask(count=20).parameters)


def test_asks_of_any_size_never_repeat_a_place():
    learner = told(made(), [40, 7, 1, 60, 3, 25])
    x = learner.rollouts.parameters
    same = len(x) - len(np.unique(np.round(x, 12), axis=0))
    assert same == 2  # to show noise, two rollouts were repeated


def test_failed_rollouts_do_not_stop_the_search():
    learner = told(made(), [40, *[20] * 8], fail=lambda x: x[:, 1] > 0.9)
    assert learner.rollouts.failed.any()
    assert hills(learner.policy.act()[None])[0] > 0.9


def test_nothing_leaves_the_bounds():
    learner = told(made(initial=hpsde.Uniform(-0.3 * np.ones(SIZE), 0.3), bounds="initial"), [40, *[20] * 4])
    assert np.all(np.abs(learner.rollouts.parameters) <= 0.3 + 1e-12)
    assert np.all(np.abs(learner.policy.option_means()) <= 0.3 + 1e-12)


def test_with_noise_solutions_are_sought_in_the_modelled_return():
    rng = np.random.default_rng(0)
    learner = told(made(), [40, 20, 20], lambda x: hills(x) + 0.1 * rng.normal(size=len(x)))
    assert learner.policy.gate_kind == "gp"
    assert learner._state.regions is None


def test_a_context_is_refused_before_anything_is_learned():
    with pytest.raises(InputError, match="without a context"):
        small.make(density="regions")
    learner = small.make()
    with pytest.raises(InputError, match="without a context"):
        learner.change_settings({"density": "regions"})
    assert learner.settings.density.kind == "options"


def test_options_keep_their_numbers_when_there_may_be_fewer(learned):
    other = told(made(), [40, *[20] * 22])
    assert_array_equal(other.policy.option_numbers, learned.policy.option_numbers)
    other.change_settings({"max_options": 1})
    assert len(other.update().options) == 1


def test_regions_that_climb_are_a_doubt():
    learner = told(made(), [40, 20, 20, 20])
    assert "climbing" in [doubt.kind for doubt in learner.policy.doubts]


def test_the_rover_is_learned_by_regions_and_its_moving_goal_is_not():
    rover, goal = (hpsde.methods.make_learner("hpsde-reps-gp", make_task(name)) for name in ("rover", "rover-goal"))
    assert (rover.settings.density.kind, goal.settings.density.kind) == ("regions", "options")
    assert hpsde.methods.make_learner("paper", make_task("rover")).settings.density.kind == "vb"
