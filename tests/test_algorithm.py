"""The steps of one re-estimation that other files have no tests for: who is asked, names, widths, and what is kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde import algorithm
from hpsde.algorithm import reestimate
from hpsde.settings import Settings
from hpsde.steps import discovery, landscape, latent, refining, training
from hpsde.steps.gates import train_gate
from hpsde.steps.gating import GPGate
from hpsde.steps.gaussian import LinearGaussian, means
from hpsde.steps.judging import least_scatter, share_outside, widest
from hpsde.steps.landscape import View, combinations
from hpsde.steps.latent import Latent
from hpsde.steps.marginal import MarginalGate
from hpsde.steps.numbering import number_options
from hpsde.steps.refining import good_contexts, refine_options
from hpsde.steps.return_model import approximate_return, survey
from hpsde.steps.rollouts import Data
from hpsde.steps.searching import SEARCH_GROWTH, find_options, is_due
from hpsde.steps.softmax import SoftmaxGate
from hpsde.steps.state import State
from hpsde.steps.surface import Start
from hpsde.steps.training import LEAST_EFFECTIVE, explored, improve_options, train_options
from hpsde.steps.weighing import compute_weights

KEY = jax.random.key(0)
ROWS, COUNT, FIRST, S, D, O = 128, 120, 90, 1, 2, 3
SETTINGS = Settings(max_options=O)
NOTHING = {"gate": "softmax", "density": "vb", "model_step": False}  # that asks for a Gaussian process


@pytest.fixture(scope="module")
def data():
    """Returns that are best where the first parameter is 1 or -1 and the second 0."""
    rng = np.random.default_rng(0)
    mask = np.arange(ROWS) < COUNT
    contexts, parameters = rng.normal(size=(ROWS, S)), rng.normal(size=(ROWS, D))
    returns = 1e-3 + np.exp(-3.0 * (np.abs(parameters[:, 0]) - 1.0) ** 2 - 0.5 * parameters[:, 1] ** 2)
    initial = mask & (np.arange(ROWS) < FIRST)
    return Data(contexts, parameters, returns, contexts + 5.0, np.zeros(ROWS), mask, initial, rollouts=COUNT)


@pytest.fixture(scope="module")
def surveyed(data):
    """The surface and the landscape of these rollouts."""
    spreads = np.ones(S + D)
    approximated, _ = approximate_return(KEY, data, spreads, Start(), np.zeros(0, dtype=bool), SETTINGS)
    return approximated, survey(KEY, data, approximated, spreads, None, SETTINGS)


def estimate_with(model, data, state, settings, key=KEY):
    """One re-estimation whose surface and landscape are given; all rollouts are equally likely under pi_old."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algorithm, "approximate_return", lambda *_: (model[0], data))
        patch.setattr(algorithm, "survey", lambda *_: model[1])
        return reestimate(key, data, np.ones(S + D), (), lambda P: np.zeros(ROWS), state, settings, {})


@pytest.fixture(scope="module")
def step(data, surveyed):
    return estimate_with(surveyed, data, State(), SETTINGS)


# ---------------------------------------------------------------- one step


def test_one_step_finds_both_solutions_and_hands_them_on(data, surveyed, step):
    estimate, state, info = step
    assert estimate.kept.sum() == info.options_kept == info.maxima == 2
    at = np.asarray(means(estimate.options, jnp.asarray([[5.0]])))[estimate.kept, 0]
    assert_allclose(np.sort(at[:, 0]), [-1.0, 1.0], atol=0.15)
    assert_allclose(at[:, 1], 0.0, atol=0.3)
    assert state.landscape is surveyed[1]
    assert state.surface is surveyed[0].start
    assert state.options is estimate.options
    assert_array_equal(state.kept, estimate.kept)
    assert (state.searched, state.next_number) == (COUNT, 3)
    assert sorted(estimate.numbers[estimate.kept].tolist()) == sorted(info.born) == [1, 2]
    assert info.died == ()
    assert info.explained > 0.8
    assert info.outliers == 0
    assert not info.warm


def test_the_next_step_keeps_slots_and_names(data, surveyed, step):
    estimate, state, _ = step
    again, after, info = estimate_with(surveyed, data, state, SETTINGS, key=jax.random.key(1))
    assert_array_equal(again.numbers, estimate.numbers)
    assert (info.born, info.died) == ((), ())
    assert info.warm
    assert after.settled == state.settled + 1
    at, before = (np.asarray(each.options.b)[estimate.kept] for each in (again, estimate))
    assert np.linalg.norm(at - before, axis=1).max() < 0.3


def test_a_mean_return_is_that_of_the_rollouts_an_option_has(data, step):
    estimate, state, _ = step
    found = latent.as_found(data, state.found)
    share = found.responsibilities * np.asarray(compute_weights(data, None, SETTINGS).weights)
    for o in np.flatnonzero(estimate.kept):
        assert_allclose(estimate.mean_returns[o], np.average(data.returns, weights=share[o]), rtol=1e-6)


def test_where_nothing_is_known_one_option_is_as_wide_as_the_initial_policy(data, surveyed):
    estimate, state, info = estimate_with((surveyed[0], None), data, State(), Settings(max_options=O, model_step=False))
    assert_array_equal(estimate.kept, [True, False, False])
    assert_array_equal(estimate.options.b[0], np.zeros(D))
    assert_array_equal(estimate.options.Sigma[0], np.eye(D))
    assert state.temperature is None  # T is that of the first rollouts that say something
    assert state.found is None
    assert np.isnan(info.unexplored)


def test_the_papers_form_needs_no_process(data):
    settings = Settings(max_options=O, **NOTHING)
    estimate, state, info = estimate_with((None, None), data, State(), settings)
    assert isinstance(estimate.gate, SoftmaxGate)
    assert state.mixture is not None
    assert state.temperature == info.temperature
    assert np.isnan(info.explained)
    assert sorted(estimate.numbers[estimate.kept].tolist()) == list(range(1, estimate.kept.sum() + 1))


def test_a_step_on_the_model_moves_the_options_means_where_settings_say_so(data, surveyed):
    plain, moved = (
        estimate_with(surveyed, data, State(), Settings(max_options=O, model_step=each, refine=False))[0]
        for each in (False, True)
    )
    assert_array_equal(plain.kept, moved.kept)
    assert_array_equal(plain.options.Sigma, moved.options.Sigma)
    assert_array_equal(np.any(plain.options.b != moved.options.b, axis=1), plain.kept)


def test_refinement_narrows_options_where_settings_say_so(data, surveyed):
    plain, refined = (
        estimate_with(surveyed, data, State(), Settings(max_options=O, refine=each))[0] for each in (False, True)
    )
    assert_array_equal(plain.kept, refined.kept)
    before, after = (np.linalg.slogdet(np.asarray(each.options.Sigma)[plain.kept])[1] for each in (plain, refined))
    assert np.all(after <= before + 1e-9)
    assert np.any(after < before - 0.1)


def test_success_or_failure_is_not_refined(data, surveyed):
    binary = surveyed[0]._replace(binary=True), surveyed[1]._replace(binary=True)
    plain, refined = (
        estimate_with(binary, data, State(), Settings(max_options=O, refine=each))[0] for each in (False, True)
    )
    assert_array_equal(plain.options.Sigma, refined.options.Sigma)


def test_contexts_count_in_which_an_option_is_about_as_good_as_anywhere(data, surveyed):
    """The second option falls behind the first beyond s = 0; the third is low everywhere; the fourth is none."""
    model = latent.show(data, surveyed[1]).model._replace(temperature=1e9)  # so that half the way down decides
    best, low = model.highest, float(model.process.mean)
    levels = (best, np.where(data.contexts[:, 0] > 0.0, low, best), best - 0.4 * (best - low), -np.inf)
    good = good_contexts(np.stack([np.full(ROWS, each) for each in levels]), data.mask, model)
    assert_array_equal(good[0], data.mask)
    assert_array_equal(good[1], data.mask & (data.contexts[:, 0] <= 0.0))
    assert_array_equal(good[2], data.mask)
    assert not good[3].any()


def test_an_option_does_not_fall_when_it_is_refined(data, surveyed, step, monkeypatch):
    """A local model that leads one option away from its solution is not followed."""
    found = latent.find_solutions(
        KEY,
        data,
        surveyed[1],
        latent.show(data, surveyed[1]),
        True,
        compute_weights(data, None, SETTINGS),
        None,
        SETTINGS,
    )
    policies = step[0].options
    b = policies.b.copy()
    b[0] += 30.0
    b[1] += 1e-6
    away = policies._replace(b=b)
    monkeypatch.setattr(refining.refinement, "refine", lambda *_: away)
    shown = latent.show(data, surveyed[1])
    refined = refine_options(policies, data, found, surveyed[1], shown, State(), SETTINGS)
    assert_array_equal(refined.b[0], policies.b[0])
    assert_array_equal(refined.b[1], away.b[1])


def test_the_model_is_asked_before_the_weights_and_says_what_pi_old_is_the_density_of(data):
    """With a second parameter that changes nothing, pi_old is that of the first one; rollouts weigh by its inverse."""
    returns = 1e-3 + np.exp(-3.0 * (np.abs(data.parameters[:, 0]) - 1.0) ** 2)
    seen, asked = data._replace(returns=returns), []

    def log_behaviour(P):
        asked.append(P)
        return np.where(returns > 0.5, 3.0, 0.0)

    settings = Settings(max_options=O, flattening=1.0, temperature=1.0)
    estimate, state, _ = reestimate(KEY, seen, np.ones(S + D), (), log_behaviour, State(), settings, {})
    assert_array_equal(asked[0], combinations(state.landscape))
    assert_allclose(np.abs(asked[0]), [[1.0], [0.0]], atol=0.05)
    right = np.asarray(means(estimate.options, jnp.asarray([[5.0]])))[estimate.kept, 0, 0] > 0.0
    assert sorted(right) == [False, True]
    known, alike = (seen._replace(log_behaviour=each) for each in (log_behaviour(None), np.zeros(ROWS)))
    share, plain = (np.asarray(compute_weights(each, None, settings).weights) for each in (known, alike))
    for found, side in zip(estimate.mean_returns[estimate.kept], right, strict=True):
        own = (data.parameters[:, 0] > 0.0) == side
        assert_allclose(found, np.average(returns[own], weights=share[own]), rtol=0.05)
        assert found < np.average(returns[own], weights=plain[own]) - 0.1
    assert estimate.features is None


def test_features_are_chosen_where_there_are_some_to_choose_from(data):
    """An option that bends with the context needs its square."""
    bend = data.parameters[:, 0] - 1.5 * data.contexts[:, 0] ** 2 + 1.5
    seen = data._replace(returns=np.exp(-2.0 * bend**2 - 0.5 * data.parameters[:, 1] ** 2), initial=data.mask)
    context = seen.contexts
    candidates = ((context, 0), (np.hstack([context, context**2]), 0))
    given = np.ones(S + D), candidates, lambda P: np.zeros(ROWS), State(), SETTINGS, {}
    estimate, _, _ = reestimate(KEY, seen, *given)
    assert estimate.features == 1
    assert estimate.options.w.shape == (O, 2, D)


# ---------------------------------------------------------------- when solutions are sought


def test_solutions_are_sought_again_with_more_rollouts_another_landscape_or_after_a_change(data, step):
    found = step[1].found
    assert is_due(data, found, COUNT)  # two were born
    calm = found._replace(born=np.zeros(O, dtype=bool), died=np.zeros(O, dtype=bool))
    assert not calm.absent.any()
    assert not is_due(data, calm, COUNT)
    assert not is_due(data, calm, int(np.ceil(COUNT / SEARCH_GROWTH)) + 1)
    assert is_due(data, calm, int(COUNT / SEARCH_GROWTH))
    assert is_due(data, calm._replace(died=np.arange(O) == 2), COUNT)
    assert is_due(data, calm._replace(absent=np.arange(O) == 2), COUNT)  # it may be there again, or must go


def test_who_is_asked_for_solutions(monkeypatch, data, surveyed, step):
    asked, answer = [], Latent(np.ones(O, dtype=bool), np.zeros((O, ROWS)))
    for name in ("estimate_density", "nothing_known", "as_found", "find_solutions"):
        monkeypatch.setattr(latent, name, lambda *given, name=name: asked.append((name, given)) or answer)
    importance = compute_weights(data, None, SETTINGS)
    state = step[1]
    absent = np.arange(O) == 1
    calm = state.found._replace(born=np.zeros(O, dtype=bool))
    for given, remembered, settings in (
        (surveyed[1], state, Settings(density="vb")),
        (None, State(), SETTINGS),
        (surveyed[1], State(), SETTINGS),
        (surveyed[1], state._replace(found=calm), SETTINGS),
        (surveyed[1]._replace(rollouts=9), state._replace(found=calm._replace(absent=absent)), SETTINGS),
    ):
        shown = None if given is None else latent.show(data, given)
        find_options(KEY, data, given, shown, importance, remembered, settings)
    names = ["estimate_density", "nothing_known", "find_solutions", "as_found", "find_solutions"]
    assert [name for name, _ in asked] == names
    (first, later) = (given for name, given in asked if name == "find_solutions")
    assert first[4]  # the landscape is new
    assert first[6] is None
    assert later[4]
    assert later[6].options is state.options
    assert later[6].kept is state.kept
    assert later[6].absent is absent


# ---------------------------------------------------------------- names


def named(kept, born=None, before=None, new=True, following=4):
    found = None
    if born is not None:
        nobody = np.zeros(O, dtype=bool)
        states = np.array(kept), np.array(born), nobody, nobody
        found = discovery.Found(*(None,) * 4, *states, np.zeros(0, dtype=int), 0.0, False, 0)
    remembered = State(numbers=None if before is None else np.array(before), next_number=following)
    return number_options(Latent(np.array(kept), np.zeros((O, 1)), found=found, new=new), remembered)


def test_an_option_is_called_by_its_number_from_its_birth_to_its_death():
    numbers, born, died = named([True, True, False], [True, True, False], following=1)
    assert (numbers.tolist(), born, died) == ([1, 2, 0], (1, 2), ())
    numbers, born, died = named([True, False, True], [False, False, True], [1, 2, 0], following=3)
    assert (numbers.tolist(), born, died) == ([1, 0, 3], (3,), (2,))
    # Another solution in the slot of one that died has a name of its own.
    numbers, born, died = named([True, True, False], [False, True, False], [1, 2, 0], following=3)
    assert (numbers.tolist(), born, died) == ([1, 3, 0], (3,), (2,))


def test_who_was_born_by_the_last_search_is_not_born_again():
    numbers, born, died = named([True, True, False], [False, True, False], [1, 3, 0], new=False)
    assert (numbers.tolist(), born, died) == ([1, 3, 0], (), ())


def test_joint_gaussians_are_called_by_their_slot():
    numbers, born, died = named([True, False, True], None, [1, 2, 0], following=3)
    assert (numbers.tolist(), born, died) == ([1, 0, 3], (3,), (2,))


# ---------------------------------------------------------------- what the return sees


def test_combinations_are_orthonormal_or_all(surveyed):
    found = surveyed[1]
    assert combinations(None) is None
    assert combinations(found._replace(view=View(np.eye(2), np.eye(2)))) is None
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(5, 2)))[0]
    P = combinations(found._replace(view=View(turn * [3.0, 0.5], (turn / [3.0, 0.5]).T)))
    assert_allclose(P.T @ P, np.eye(2), atol=1e-12)
    assert_allclose(P, turn, atol=1e-12)


def test_the_width_is_the_largest_deviation_in_kernel_lengths(data, surveyed):
    """Monte Carlo along what the return sees."""
    root = np.random.default_rng(4).normal(size=(O, D, D))
    Sigma = root @ root.swapaxes(1, 2)
    policies = LinearGaussian(jnp.zeros((O, D)), jnp.zeros((O, S, D)), jnp.asarray(Sigma))
    kept = np.array([True, False, True])
    view = surveyed[1].view
    draws = [np.random.default_rng(o).multivariate_normal(np.zeros(D), Sigma[o], 50_000) @ view.V for o in (0, 2)]
    found = widest(policies, Latent(kept, np.zeros((O, 1))), surveyed[1])
    assert_allclose(found, max(each.std(axis=0).max() for each in draws), rtol=0.02)
    assert np.isnan(widest(policies, Latent(kept, np.zeros((O, 1))), None))


def test_exploration_follows_the_noise_up_to_a_limit(data, surveyed):
    approximated, found = surveyed
    V = found.view.V
    hyperparameters = approximated.process.hyperparameters
    belongs = np.tile(data.mask.astype(float), (O, 1))
    for noise, wanted in ((0.1, 0.1 * training.NOISE_SHARE), (100.0, training.WIDEST)):
        log_noise = hyperparameters.log_signal + jnp.log(noise)
        process = approximated.process._replace(hyperparameters=hyperparameters._replace(log_noise=log_noise))
        unknown = data._replace(initial=data.mask)  # of the policy's own there are none
        Sigma = explored(unknown, unknown, belongs, found, approximated._replace(process=process))
        assert_allclose(V.T @ Sigma @ V, np.tile(wanted**2 * np.eye(V.shape[1]), (O, 1, 1)), atol=1e-12)
    # Success or failure has no noise; nor have rollouts of the policy that the model knows exactly.
    assert not explored(unknown, unknown, belongs, found, approximated._replace(process=process, binary=True)).any()
    assert not explored(data, data, belongs, found, approximated._replace(process=process)).any()


def test_an_option_explores_by_its_own_rollouts_alone(data, surveyed):
    """What the model has wrong about one option, such as a new one, does not widen the others."""
    approximated, found = surveyed
    own = np.flatnonzero(data.mask & ~data.initial)
    belongs = np.zeros((O, ROWS))
    belongs[0, own[::2]] = belongs[1, own[1::2]] = 1.0
    wrong = data._replace(returns=data.returns + np.isin(np.arange(ROWS), own[1::2]))
    hyperparameters = approximated.process.hyperparameters
    noisy = hyperparameters._replace(log_noise=hyperparameters.log_signal)
    process = approximated.process._replace(hyperparameters=noisy)
    Sigma = explored(data, wrong, belongs, found, approximated._replace(process=process))
    assert not Sigma[0].any()
    assert np.trace(Sigma[1]) > 0.0


def test_rollouts_against_the_bounds_are_counted(data):
    """Of the policy's 30: three beyond, two against a bound, the others well within."""
    assert np.isnan(share_outside(data))
    bounds = np.array([-1.0, -2.0]), np.array([1.0, 2.0])
    parameters = 0.5 * np.tanh(data.parameters)
    parameters[FIRST : FIRST + 5] = [[1.2, 0.0], [0.0, -2.5], [-9.0, 9.0], [0.999, 0.0], [0.0, -1.999]]
    parameters[:10] = 50.0  # of the initial policy's, nobody asks
    assert_allclose(share_outside(data._replace(parameters=parameters, range=bounds)), 5.0 / 30.0)
    assert np.isnan(share_outside(data._replace(initial=data.mask, range=bounds)))


def test_the_steadiest_option_says_how_much_returns_scatter(data):
    """One option's rollouts are half a unit beside the model, the other's a tenth; the initial ones are not asked."""
    own = np.flatnonzero(data.mask & ~data.initial)
    belongs = np.zeros((O, ROWS))
    belongs[:, data.initial] = 1.0 / O
    belongs[0, own[::2]] = belongs[1, own[1::2]] = 1.0
    off = 9.0 * data.initial + 0.5 * np.isin(np.arange(ROWS), own[::2]) - 0.1 * np.isin(np.arange(ROWS), own[1::2])
    variance = np.var(data.returns[data.mask & data.initial])
    found = Latent(np.arange(O) < 2, belongs)
    assert_allclose(least_scatter(data, data._replace(returns=data.returns + off), found), 0.01 / variance)
    assert np.isnan(least_scatter(data._replace(initial=data.mask), data, found))


# ---------------------------------------------------------------- options and gates


def train_with_few(data, state, few, count):
    """All options' policies, where one has so many heavy rollouts, and the other sixty light ones."""
    found = latent.as_found(data, state.found)
    (enough,) = np.setdiff1d(np.flatnonzero(found.kept), few)
    weighted = np.zeros((O, ROWS))
    weighted[enough, :60] = 1.0 / 60
    weighted[few, 60 : 60 + count] = 0.1
    found = found._replace(responsibilities=(weighted > 0.0).astype(float))
    return train_options(data, found, weighted, state, SETTINGS), enough


FEW = int(LEAST_EFFECTIVE) - 1


@pytest.mark.parametrize("count", [FEW, 0])
@pytest.mark.parametrize("remembered", [True, False], ids=["later", "at first"])
def test_a_new_option_with_hardly_any_rollouts_is_as_the_mixture_has_it(data, step, count, remembered):
    """One with enough is trained, one with a few heavy ones is not, nor one with none."""
    state = step[1]
    few = np.flatnonzero(state.kept)[1]
    assert state.found.born[few]
    own = discovery.component_policies(state.found, O)
    state = state if remembered else state._replace(options=None)
    policies, enough = train_with_few(data, state, few, count)
    assert_array_equal(policies.b[few], own.b[few])
    assert_array_equal(policies.Sigma[few], own.Sigma[few])
    assert np.any(policies.b[enough] != own.b[enough])
    assert all(np.all(np.isfinite(part)) for part in policies[:3])


@pytest.mark.parametrize("count", [FEW, 0])
def test_an_old_option_with_hardly_any_rollouts_stays_as_it_is(data, step, count):
    """Unlike the mixture's, and unlike the slot beside it, which is new."""
    kept = np.flatnonzero(step[1].kept)
    shifted = step[1].options._replace(b=step[1].options.b + 0.5, w=step[1].options.w - 0.1)
    for old in kept:
        state = step[1]._replace(found=step[1].found._replace(born=step[1].kept & (np.arange(O) != old)))
        policies, enough = train_with_few(data, state._replace(options=shifted), old, count)
        for part, wanted in zip(policies[:3], shifted[:3], strict=True):
            assert_array_equal(part[old], wanted[old])
        assert np.any(policies.b[enough] != shifted.b[enough])
        # With enough rollouts it is trained like any other.
        policies, _ = train_with_few(data, state._replace(options=shifted), old, 2 * int(LEAST_EFFECTIVE))
        assert np.any(policies.b[old] != shifted.b[old])


def test_options_without_rollouts_of_weight_move_on_the_model_in_all_contexts(monkeypatch, data, surveyed, step):
    seen = []

    def improve(key, process, axes, options, kept, contexts, features, weights, *, plain):
        seen.append(np.asarray(weights))
        return options

    monkeypatch.setattr(training.model_step, "improve", improve)
    weighted = np.zeros((O, ROWS))
    weighted[0, :7] = 0.2
    improve_options(KEY, step[0].options, data, Latent(step[0].kept, weighted), weighted, surveyed[0], SETTINGS)
    assert_array_equal(seen[0][0], weighted[0])
    assert_allclose(seen[0][1:], np.tile(data.mask / COUNT, (2, 1)))


def test_the_gate_is_the_one_that_was_asked_for(data, surveyed):
    weighted = np.random.default_rng(0).uniform(size=(O, ROWS)) * data.mask
    kinds = {"gp": GPGate, "softmax": SoftmaxGate, "marginal": MarginalGate}
    for name, kind in kinds.items():
        assert isinstance(train_gate(data, weighted, surveyed[0], Settings(gate=name)), kind)
    gate = train_gate(data, weighted, surveyed[0], Settings(greedy="expected"))
    assert (gate.process, gate.cautious) == (surveyed[0].process, False)
    # Without a process there is nothing for the GP gate to ask.
    assert isinstance(train_gate(data, weighted, None, Settings()), SoftmaxGate)


def test_samples_of_the_landscape_are_as_many_as_options_ask_for(monkeypatch, data, surveyed):
    counts, original = [], landscape.sample

    def sample(key, found, process, starts, *given):
        counts.append(len(starts))
        return original(key, found, process, starts, *given)

    monkeypatch.setattr(landscape, "sample", sample)
    importance = compute_weights(data, None, SETTINGS)
    for most in (O, 20):
        shown = latent.show(data, surveyed[1])
        latent.find_solutions(KEY, data, surveyed[1], shown, True, importance, None, Settings(max_options=most))
    assert counts == [landscape.SAMPLES, max(landscape.SAMPLES, 20 * landscape.PER_OPTION)]
