"""The loop by ask and tell: its order, its errors, the settings it takes, seeds."""

import numpy as np
import pytest
import scipy.stats

import hpsde
import remembered
import small
from hpsde import AskTellError, InputError, UnknownNameError
from hpsde.base.compilations import count_compilations
from hpsde.steps.initial import kernel_log_density
from hpsde.steps.rollouts import INITIAL

pytestmark = pytest.mark.usefixtures("remembered")

COLUMNS = ("contexts", "parameters", "returns", "failed", "option", "behaviour", "iteration")


@pytest.fixture(scope="module")
def learned():
    """A learner after three rounds. Tests must not tell it anything."""
    return small.run(small.make())


@pytest.fixture
def asked():
    """A learner with eight rollouts asked, their contexts and their parameters."""
    learner = small.make()
    contexts = small.draw_contexts(0, 8, 1)
    return learner, contexts, learner.ask(contexts).parameters


# Ask and tell


def test_first_rollouts_come_from_the_initial_distribution(asked):
    learner, contexts, _ = asked
    learner.forget_asked()
    proposal = learner.ask(contexts)
    assert proposal.parameters.shape == (8, 1)
    assert np.all(np.abs(proposal.parameters) <= 1.0)
    np.testing.assert_array_equal(proposal.option, np.full(8, INITIAL))
    np.testing.assert_allclose(proposal.log_density, np.log(0.5))


def test_learning_finds_both_ridges(learned):
    assert learned.info.rollouts == len(learned.rollouts) == 192
    assert learned.info.failed == 0
    assert learned.info.options_kept == len(learned.policy.options) == 2
    contexts = small.draw_contexts(50, 40, 1)
    sides = [np.sign(option.mean(contexts) - 0.1 * contexts).sum() for option in learned.policy.options]
    assert sorted(sides) == [-40, 40]
    small.assert_sound(learned.policy)
    assert small.two_ridges(contexts, learned.policy.act(contexts)).mean() > 0.8
    # Uniform parameters get the mean of exp(-4 |x - 0.6|) over [0, 1], about 0.45.
    assert small.two_ridges(*small.own_data()).mean() < 0.5


def test_rollouts_are_recorded_as_they_came(learned):
    rollouts = learned.rollouts
    np.testing.assert_array_equal(rollouts.iteration, np.repeat([0, 1, 2], small.ROUNDS))
    first = rollouts.option == INITIAL  # all of the first round, and scouts later
    assert np.all(first[:128])
    assert np.sum(~first[128:]) >= (1.0 - learned.settings.density.scouts) * 64 - 2
    np.testing.assert_array_equal(rollouts.behaviour, np.where(first, 0, rollouts.iteration))
    np.testing.assert_array_equal(rollouts.number == 0, first)
    np.testing.assert_array_equal(rollouts.returns, small.two_ridges(rollouts.contexts, rollouts.parameters))


def test_density_of_a_proposal_is_that_of_the_options_it_mixes():
    """Without contexts the gate is one distribution over options: its decisions' shares."""
    learner = small.run(small.make(0, 2, scouts=0.0, refine=False), rounds=(128,))
    policy = learner.policy
    proposal = learner.ask(count=32)
    shares = np.bincount(proposal.option, minlength=len(policy.options)) / 32
    assert np.all(proposal.option >= 0)
    density = sum(
        share * scipy.stats.multivariate_normal(option.mean()[0], option.covariance).pdf(proposal.parameters)
        for share, option in zip(shares, policy.options, strict=True)
    )
    np.testing.assert_allclose(proposal.log_density, np.log(density), rtol=1e-9)
    drawn = proposal.parameters - np.stack([policy.options[o].mean()[0] for o in proposal.option])
    assert np.all(np.abs(drawn) < 6.0 * np.sqrt(np.diagonal(policy.options[0].covariance)).max())


def test_rollouts_are_weighed_by_all_policies_that_made_them_in_their_shares():
    """log pi_old of a rollout; what was forgotten or failed has no share."""
    learner = small.run(small.make(scouts=0.0), rounds=(128,))
    contexts = small.draw_contexts(1, 32, 1)
    learner.ask(contexts)
    learner.forget_asked()
    proposal = learner.ask(contexts)
    failed = np.arange(32) % 2 == 0
    learner.tell(contexts, proposal.parameters, np.zeros(32), failed=failed)
    usable = ~learner.rollouts.failed
    data = learner._data(learner._frame, usable)
    assert data.mask.sum() == usable.sum() == 128 + 16
    np.testing.assert_array_equal(data.initial, np.arange(len(data.mask)) < 128)
    uniform = np.where(np.abs(proposal.parameters[:, 0]) <= 1.0, 0.5, 0.0)
    mixture = (128 * uniform + 16 * np.exp(proposal.log_density)) / 144
    raw = learner._log_behaviour(learner._frame, usable, None) - learner.policy.units.log_volume
    np.testing.assert_allclose(raw[128:][~failed], np.log(mixture[~failed]), rtol=1e-9)


def test_rollouts_are_weighed_by_the_policy_that_made_them_where_settings_say_so():
    learner, mixture = (small.run(small.make(behaviour=name), rounds=(128, 32)) for name in ("own", "mixture"))
    usable = np.ones(160, dtype=bool)
    own, mixed = (each._log_behaviour(each._frame, usable, None) for each in (learner, mixture))
    np.testing.assert_array_equal(learner.rollouts.parameters, mixture.rollouts.parameters)
    table, first = learner._history.table, learner.rollouts.option == INITIAL
    np.testing.assert_array_equal(own, np.where(first, table[0], table[1]))
    n = first.sum()
    np.testing.assert_allclose(np.exp(mixed), (n * np.exp(table[0]) + (160 - n) * np.exp(table[1])) / 160, rtol=1e-9)


def test_along_directions_the_initial_density_is_estimated_from_the_rollouts_of_the_initial_policy():
    learner = small.run(small.make(), rounds=(128, 32))
    rollouts, units = learner.rollouts, learner._frame.units
    usable = np.ones(160, dtype=bool)
    learner._log_behaviour(learner._frame, usable, None)
    s, xi = units.contexts(rollouts.contexts), units.parameters(rollouts.parameters)
    first = rollouts.option == INITIAL
    initial = kernel_log_density((s[first], xi[first]), s, xi)
    by_policy = learner._history.table[1]
    mixture = (first.sum() * np.exp(initial) + (~first).sum() * np.exp(by_policy)) / 160
    # One parameter: as a combination, it is what it was but for the sign.
    for P in ([[1.0]], [[-1.0]]):
        found = learner._log_behaviour(learner._frame, usable, np.array(P))
        np.testing.assert_allclose(found, np.log(mixture), rtol=1e-9)


def test_the_temperature_is_that_of_the_first_rollouts():
    learner, found = small.make(), []
    for number, count in enumerate(small.ROUNDS):
        contexts = small.draw_contexts(number, count, 1)
        parameters = learner.ask(contexts).parameters
        learner.tell(contexts, parameters, small.two_ridges(contexts, parameters))
        learner.policy  # noqa: B018 - learns
        found.append(learner.info.temperature)
    assert len(set(found)) == 1


def test_a_landscape_lasts_until_the_rollouts_it_was_found_from_have_grown_by_a_quarter():
    learner, found = small.make(initial_rollouts=128), []
    for number, count in enumerate((128, 16, 16)):
        contexts = small.draw_contexts(number, count, 1)
        parameters = learner.ask(contexts).parameters
        learner.tell(contexts, parameters, small.two_ridges(contexts, parameters))
        learner.policy  # noqa: B018 - learns
        found.append(learner._state.landscape)
    assert [each.rollouts for each in found] == [128, 128, 160]
    assert found[0] is found[1]
    small.assert_sound(learner.policy)


def test_numbers_are_never_given_twice_also_where_no_policy_was_asked():
    """Rollouts that are told unasked change the units until a policy is asked: options are sought anew each time."""
    learner, born = small.make(seed=1), []
    for seed in (3, 4):
        contexts, parameters = small.own_data(64, seed)
        learner.tell(contexts, parameters, small.two_ridges(contexts, parameters))
        born += learner.policy.option_numbers.tolist()
        assert learner.info.born == tuple(learner.policy.option_numbers.tolist())
    assert born == list(range(1, len(born) + 1))


def test_options_are_called_by_their_numbers_from_birth_on():
    """Two ridges: each option keeps its ridge and its number, and rollouts say which option made them."""
    learner = small.make()
    sides = {}
    for number, count in enumerate((128, 32, 32)):
        contexts = small.draw_contexts(number, count, 1)
        proposal = learner.ask(contexts)
        learner.tell(contexts, proposal.parameters, small.two_ridges(contexts, proposal.parameters))
        policy = learner.policy
        for option, mean in zip(policy.options, policy.option_means([[1.0]])[:, 0, 0], strict=True):
            assert sides.setdefault(option.number, np.sign(mean)) == np.sign(mean)
    assert len(sides) == 2
    made = learner.rollouts.number
    np.testing.assert_array_equal(made[:128], 0)
    for number, side in sides.items():
        mine = learner.rollouts.parameters[made == number, 0]
        assert len(mine) > 0
        np.testing.assert_array_equal(np.sign(mine), side)


def test_contexts_may_be_absent():
    learner = small.make(0, 2)
    parameters = learner.ask(count=128).parameters
    learner.tell(None, parameters, small.two_ridges(np.zeros((128, 0)), parameters))
    small.run(learner, rounds=(32, 32))
    small.assert_sound(learner.policy)
    assert learner.policy.act().shape == (2,)
    assert small.two_ridges(np.zeros((1, 0)), learner.policy.act()[None])[0] > 0.8
    assert learner.ask(np.zeros((3, 0))).parameters.shape == (3, 2)
    with pytest.raises(InputError, match=r"contexts must have shape \[3, 0\]; got \[3, 1\]"):
        learner.tell(np.zeros((3, 1)), np.zeros((3, 2)), np.zeros(3))


def test_ask_twice_is_an_error_until_the_first_is_told_or_forgotten(asked):
    learner, contexts, parameters = asked
    with pytest.raises(AskTellError, match="before the 8 rollouts of the last ask were told"):
        learner.ask(contexts)
    learner.forget_asked()
    again = learner.ask(contexts).parameters
    assert not np.array_equal(again, parameters)
    learner.tell(contexts, again, np.zeros(8))
    assert learner.ask(contexts).parameters.shape == (8, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"ask needs contexts \[N, 1\]; got none"),
        ({"count": 3}, r"ask needs contexts \[N, 1\]; got none"),
        ({"contexts": np.zeros((3, 2))}, r"contexts must have shape \[N, 1\]; got \[3, 2\]"),
        ({"contexts": np.zeros((0, 1))}, "at least one context; got 0 rows"),
        ({"contexts": [[1.0], [np.nan]]}, "contexts must be finite.*row 1 is"),
        ({"contexts": [["a"]]}, "contexts must be numbers; got list"),
        ({"contexts": [[1j]]}, "contexts must be numbers"),
        ({"contexts": np.zeros((3, 1)), "count": 2}, r"contexts must have shape \[2, 1\]; got \[3, 1\]"),
    ],
)
def test_ask_says_what_is_wrong_and_stays_usable(arguments, message):
    learner = small.make()
    with pytest.raises(InputError, match=message):
        learner.ask(**arguments)
    assert learner.ask([0.5, 1.5]).parameters.shape == (2, 1)


def test_ask_without_contexts_needs_a_count():
    learner = small.make(0, 2)
    with pytest.raises(InputError, match=r"ask\(count=N\)"):
        learner.ask()
    for count in (0, True, -1):
        with pytest.raises(InputError, match="count must be a whole number of at least 1"):
            learner.ask(count=count)


BAD_TELLS = [
    (lambda s, xi, r: (s, xi[:7], r[:7]), InputError, r"parameters must have shape \[8, 1\]; got \[7, 1\]"),
    (lambda s, xi, r: (s, np.hstack([xi, xi]), r), InputError, r"parameters must have .*; got \[8, 2\]"),
    (lambda s, xi, r: (s[:7], xi, r), InputError, r"contexts must have shape \[8, 1\]; got \[7, 1\]"),
    (lambda s, xi, r: (None, xi, r), InputError, r"tell needs contexts \[N, 1\]; got none"),
    (lambda s, xi, r: (s[::-1], xi, r), AskTellError, "other contexts .* row 0 is .* in its order"),
    (lambda s, xi, r: (s + 1e-9, xi, r), AskTellError, "other contexts than the last ask"),
    (lambda s, xi, r: (s, xi, r[:, None]), InputError, r"returns must have shape \[8\]; got \[8, 1\]"),
    (lambda s, xi, r: (s, xi, r[:3]), InputError, r"returns must have shape \[8\]; got \[3\]"),
    (lambda s, xi, r: (s, xi, 0.0), InputError, r"returns must have shape \[8\]; got \[\]"),
    (lambda s, xi, r: (s, xi, r + np.inf), InputError, r"returns must be finite.*\(8 such\).*failed=mask"),
    (lambda s, xi, r: (s, xi, r + np.array([0, np.nan] * 4)), InputError, r"number 1 is nan \(4 such\)"),
    (lambda s, xi, r: (s, xi, r - 1e200), InputError, r"at most 1e\+100 in size"),
    (lambda s, xi, r: (s, xi, ["good"] * 8), InputError, "returns must be numbers; got list"),
    (lambda s, xi, r: (s, xi * np.nan, r), InputError, "parameters must be finite.*row 0"),
    (lambda s, xi, r: (s, xi + 5.0, r), InputError, "possible under the initial policy.*density 0"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "kind", "message"), BAD_TELLS)
def test_a_bad_tell_says_what_is_wrong_and_changes_nothing(asked, spoil, kind, message):
    learner, contexts, parameters = asked
    returns = small.two_ridges(contexts, parameters)
    before = learner.info
    with pytest.raises(kind, match=message):
        learner.tell(*spoil(contexts, parameters, returns))
    assert len(learner.rollouts) == 0
    assert learner.info == before
    with pytest.raises(AskTellError):
        learner.ask(contexts)  # still waits for the rollouts asked
    learner.tell(contexts, parameters, returns)
    np.testing.assert_array_equal(learner.rollouts.parameters, parameters)


@pytest.mark.parametrize("failed", [np.zeros(7, bool), np.zeros(8), [0] * 8, True, np.zeros((8, 1), bool)])
def test_failed_must_be_a_truth_value_for_each_rollout(asked, failed):
    learner, contexts, parameters = asked
    with pytest.raises(InputError, match="failed must be 8 booleans; got shape"):
        learner.tell(contexts, parameters, np.zeros(8), failed=failed)


def test_bad_calls_leave_no_trace_in_the_policy(learned):
    learner = small.make()
    for number, count in enumerate(small.ROUNDS):
        contexts = small.draw_contexts(number, count, 1)
        with pytest.raises(InputError):
            learner.ask(contexts * np.nan)
        parameters = learner.ask(contexts).parameters
        with pytest.raises(InputError):
            learner.tell(contexts, parameters, np.full(count, np.nan))
        learner.tell(contexts, parameters, small.two_ridges(contexts, parameters))
    small.assert_same_bits(learner.policy, learned.policy)


def test_learner_keeps_copies_of_what_it_is_given(asked):
    learner, contexts, parameters = asked
    returns = np.arange(8.0)
    copies = contexts.copy(), parameters.copy(), returns.copy()
    learner.tell(contexts, parameters, returns)
    for array in (contexts, parameters, returns):
        array[:] = 77.0
    for name, copy in zip(("contexts", "parameters", "returns"), copies, strict=True):
        np.testing.assert_array_equal(getattr(learner.rollouts, name), copy)


def test_parameters_told_may_differ_from_those_asked(asked):
    learner, contexts, parameters = asked
    done = np.clip(parameters, -0.5, 0.5)
    learner.tell(contexts, done, small.two_ridges(contexts, done))
    np.testing.assert_array_equal(learner.rollouts.parameters, done)


def test_policy_is_learned_once_for_the_same_rollouts(learned):
    policy, updates = learned.policy, learned.info.updates
    assert learned.policy is policy
    assert learned.info.updates == updates == 3


# Randomness


def test_same_seed_same_bits_other_seed_other_bits(learned):
    with remembered.nothing():
        same, other = small.run(small.make()), small.run(small.make(seed=1))
        policies = same.policy, other.policy
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(same.rollouts, name), getattr(learned.rollouts, name))
    small.assert_same_bits(policies[0], learned.policy)
    assert same.info == learned.info
    assert not np.array_equal(other.rollouts.parameters, learned.rollouts.parameters)
    contexts = small.draw_contexts(9, 5, 1)
    assert not np.array_equal(policies[1].act(contexts), learned.policy.act(contexts))


def test_a_second_learner_of_the_same_sizes_compiles_nothing():
    """Neither sends scouts, which one may do and the other not."""
    small.run(small.make(scouts=0.0)).policy.act(small.draw_contexts(0, 5, 1))
    with count_compilations() as compilations:
        small.run(small.make(seed=7, scouts=0.0)).policy.act(small.draw_contexts(0, 5, 1))
    assert compilations.count == 0


# What the learner is made of


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"context_size": -1}, "context_size must be a whole number of at least 0; got -1"),
        ({"parameter_size": 0}, "parameter_size must be a whole number of at least 1; got 0"),
        ({"initial_rollouts": 1}, "initial_rollouts must be a whole number of at least 2; got 1"),
        ({"expected_rollouts": -5}, "expected_rollouts must be"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"initial": hpsde.Uniform([0, 0], 1)}, r"initial must give 1 parameters .* it gives 2"),
        ({"initial": (0.0, 1.0)}, "initial: expected .*hpsde.Uniform"),
        ({"initial": None}, "initial: expected .* got NoneType"),
        ({"max_options": 0}, "max_options must lie between 1"),
    ],
)
def test_unfit_arguments_are_refused(arguments, message):
    given = {"context_size": 1, "parameter_size": 1, "initial": hpsde.Uniform(-1, 1)} | arguments
    with pytest.raises(InputError, match=message):
        hpsde.HPSDE(**given)


def test_unknown_settings_list_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"unknown setting 'max_option'; valid are: .*max_options.*kappa"):
        small.make(max_option=3)


def test_settings_come_as_a_whole_or_by_name():
    settings = hpsde.Settings(update="rwr", kappa=2.0)
    learner = hpsde.HPSDE(1, 1, initial=hpsde.Uniform(-1, 1), settings=settings, kappa=3.0)
    assert (learner.settings.update, learner.settings.gate.kappa) == (hpsde.RWR(), 3.0)
    assert settings.gate.kappa == 2.0


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_options_are_drawn_at_a_temperature_in_units_of_T(monkeypatch, temperature):
    learner, seen, choose = small.make(exploration_temperature=temperature), [], hpsde.GaussianProcess.choose

    def noted(self, key, gate, values, T):
        seen.append((self.exploration_temperature, T))
        return choose(self, key, gate, values, T)

    monkeypatch.setattr(hpsde.GaussianProcess, "choose", noted)
    small.run(learner, rounds=(128, 32))
    assert seen == [(temperature, learner.info.temperature)]


@pytest.mark.parametrize(
    "changes",
    [
        {"base": "assigned"},
        {"greedy": "expected"},
        {"deviation": "return"},
        {"exploration_temperature": 0.0},
        {"warp": "none"},
        {"warp": "rank"},
        {"exploration_temperature": 1.0},
        {"density": "vb"},
        {"density": "em"},
        {"model_step": False},
        {"refine": False},
        {"density": "vb", "weight_sum": "n"},
        {"gp_axes": "isotropic"},
        {"density": "vb", "embedding_dimensions": 2},
    ],
    ids=str,
)
def test_other_settings_learn_too(changes):
    learner = small.run(small.make(**changes))
    small.assert_sound(learner.policy)
    contexts = small.draw_contexts(50, 40, 1)
    assert small.two_ridges(contexts, learner.policy.act(contexts)).mean() > small.two_ridges(*small.own_data()).mean()


@pytest.mark.parametrize(
    "changes",
    [
        {"density": "vb", "weight_sum": "one"},
        {"f": "exp", "temperature": 1.0, "flattening": 1.0, "density": "vb", "weight_sum": "one"},
    ],
)
def test_the_papers_own_weights_give_a_sound_policy(changes):
    """Weights that sum to 1 are too little to split anything, with any f."""
    learner = small.run(small.make(**changes))
    small.assert_sound(learner.policy)
    assert len(learner.policy.options) == 1


def test_features_of_ones_own():
    learner = small.run(small.make(features=lambda s: (s - 1.0) ** 2))
    small.assert_sound(learner.policy)
    left, middle, right = learner.policy.option_means([[0.5], [1.0], [1.5]]).swapaxes(0, 1)
    np.testing.assert_allclose(left, right, rtol=1e-12)
    assert not np.allclose(left, middle, rtol=1e-6)


def test_features_that_do_not_fit_are_named_and_nothing_is_lost():
    learner = small.make(features=lambda s: s[:, 0])
    with pytest.raises(InputError, match=r"features must map contexts \(128, 1\) to .* \[128, F\]; got shape \(128,\)"):
        small.run(learner)
    assert len(learner.rollouts) == 128
