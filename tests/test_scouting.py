"""Scouts: whom they look at by a known model, where they go when rollouts have left a hole, and what they count as."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import hpsde
import remembered
import small
from hpsde import gp
from hpsde.base.compilations import count_compilations
from hpsde.gp.kernel import JITTER
from hpsde.gp.warp import Warp
from hpsde.learners.ask_tell import made_by
from hpsde.steps import discovery, scouting, surface
from hpsde.steps.landscape import Landscape, View
from hpsde.steps.rollouts import INITIAL
from hpsde.steps.scouting import Scouts, choose, likeliest

pytestmark = pytest.mark.usefixtures("remembered")

LENGTH, SIGNAL, NOISE = 0.5, 1.0, 0.05
HOLE, FIRST = 0.3, 64  # from where on no rollout has been, and how many there are at first

# ---------------------------------------------------------------- the choice, by a known model


class Model:
    """A landscape and its process, which knows scores at points z = [xi, s]; and scikit-learn's of the same kernel."""

    def __init__(self, z, scores, size, temperature=0.3, mean=0.0, axes=None):
        A, rows = np.eye(z.shape[1]) if axes is None else axes, len(z) + 10
        kernel = gp.Hyperparameters(np.log(np.full(len(A), LENGTH)), np.log(SIGNAL), np.log(NOISE))
        view, warp = View(np.eye(size), np.eye(size)), Warp(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
        self.landscape = Landscape(
            kernel, None if axes is None else np.asarray(A), view, surface.Start(), len(z), warp, temperature, False
        )
        points = np.concatenate([z @ A.T, np.full((10, len(A)), 9.0)])
        padded = np.concatenate([scores + mean, np.zeros(10)])
        self.process = gp.posterior(kernel, points, padded, np.arange(rows) < len(z), mean)
        self.other = GaussianProcessRegressor(
            ConstantKernel(SIGNAL**2) * RBF(LENGTH), alpha=NOISE**2 + JITTER * SIGNAL**2, optimizer=None
        ).fit(z, scores)

    def choose(self, contexts, drawn, options):
        found = choose(self.landscape, self.process, contexts, drawn, options)
        assert isinstance(found, Scouts)
        return found

    def truth(self, context, parameters):
        """Means and deviations in one context."""
        z = np.hstack([parameters, np.tile(context, (len(parameters), 1))])
        return self.other.predict(z, return_std=True)


def least_of(best, temperature):
    """The least score of a solution where the typical score is 0."""
    return best - min(3.0 * temperature, 0.5 * max(best, 0.0))


def bump(z, centre=(-0.8, 0.0)):
    return np.exp(-0.5 * np.sum((z[:, :2] - np.asarray(centre)) ** 2, axis=1) / 0.4**2)


def cloud(size=3, **changes):
    """Two parameters, and a context where there is one: hundreds of rollouts on a high bump, and beside it."""
    z = np.random.default_rng(0).uniform(-1.5, 1.5, (100 * size, size))
    return Model(z, 2.8 * bump(z), 2, **({"temperature": 0.2} | changes))


@pytest.fixture(scope="module")
def two():
    return cloud()


@pytest.fixture(scope="module")
def asked():
    """Contexts, parameters drawn in them, and two options' means there."""
    rng = np.random.default_rng(1)
    contexts, drawn = rng.uniform(-1.5, 1.5, (12, 1)), rng.uniform(-1.5, 1.5, (12, 6, 2))
    return contexts, drawn, np.tile([[[-0.6, 0.2]], [[0.9, 0.9]]], (1, 12, 1))


def highest_of(mean, deviation, least):
    """The score that a place may have, by four deviations; -inf where it is known to be good, or cannot be."""
    highest = mean + 4.0 * deviation
    return np.where((mean < least) & (highest >= least), highest, -np.inf)


def test_a_scout_takes_the_one_that_may_be_best_of_those_not_known_to_be_good(two, asked):
    """scikit-learn says what is known."""
    contexts, drawn, options = asked
    found = two.choose(contexts, drawn, options)
    known, unknown = 0, 0
    for i, context in enumerate(contexts):
        best = max(two.truth(context, each[i : i + 1])[0][0] for each in options)
        mean, deviation = two.truth(context, drawn[i])
        highest = highest_of(mean, deviation, least_of(best, 0.2))
        assert found.worth[i] == np.isfinite(highest).any()
        if found.worth[i]:
            assert found.chosen[i] == np.argmax(highest)
            known += np.argmax(highest) != np.argmax(mean + 4.0 * deviation)
            unknown += np.argmax(highest) != np.argmax(deviation)
    assert 0 < found.worth.sum() < 12
    assert known > 0  # somewhere the one that may be best of all is known to be good
    assert unknown > 0  # and somewhere the least known is another


def line(places):
    """Places on a line in the context 0, as drawn parameters [1, P, 1]."""
    return np.asarray(places, dtype=float)[None, :, None]


def on_a_line(known, scores=None, **changes):
    """A model of one parameter and one context, with rollouts at these places: a bump of height 1 at -0.8."""
    z = np.stack([known, np.zeros(len(known))], axis=1)
    return Model(z, bump(z) if scores is None else scores, 1, **changes)


NOWHERE = np.zeros((1, 1))
OPTION = np.array([[[-0.8]]])
KNOWN = np.linspace(-1.5, 1.5, 61)
GRID = np.linspace(0.0, 1.5, 16)  # where the score is typical, if at all


HILL = np.array([1.0, 0.5])


def hill(x):
    return np.exp(-0.5 * np.sum((x - HILL) ** 2, axis=1) / 0.4**2)


def test_the_likeliest_places_are_those_of_the_hill_that_rollouts_show_from_afar():
    """And none is near a rollout, another place of this round, or what is under way."""
    rng = np.random.default_rng(2)
    x, drawn = rng.uniform(-2.0, 2.0, (60, 2)), rng.uniform(-2.0, 2.0, (400, 2))
    x = x[np.linalg.norm(x - HILL, axis=1) > 0.5]
    chosen = drawn[likeliest(x, hill(x), drawn, np.zeros((0, 2)), 0.8, 0.2, 5)]
    assert_allclose(chosen[0], HILL, atol=0.3)
    assert np.linalg.norm(chosen[:, None] - x, axis=2).min() >= 0.2
    assert min(np.linalg.norm(chosen[i] - chosen[j]) for i in range(5) for j in range(i)) >= 0.2
    taken = drawn[likeliest(x, hill(x), drawn, chosen[:1], 0.8, 0.2, 5)]
    assert np.linalg.norm(taken - chosen[0], axis=1).min() >= 0.2
    shifted = likeliest(x + 5.0, 3.0 * hill(x) - 7.0, drawn + 5.0, np.zeros((0, 2)), 3.0 * 0.8 - 7.0, 0.2, 5)
    assert_allclose(drawn[shifted], chosen)


def test_where_all_places_are_near_rollouts_the_farthest_is_taken():
    rng = np.random.default_rng(3)
    x, drawn = rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
    known = x
    for choice in likeliest(x, hill(x[:, :2]), drawn, np.zeros((0, 3)), 0.5, 100.0, 4):
        nearest = [min(np.linalg.norm(place - other) for other in known) for place in drawn]
        assert choice == np.argmax(nearest)
        known = np.concatenate([known, drawn[choice][None]])
    assert len(likeliest(x, hill(x[:, :2]), drawn, np.zeros((0, 3)), 0.5, 100.0, 0)) == 0


def test_where_all_that_is_drawn_is_known_to_be_bad_nothing_is_worth_a_scout():
    assert not on_a_line(KNOWN).choose(NOWHERE, line(GRID), OPTION).worth[0]
    # Only a hole makes it worth one, and the scout goes into it.
    hole = on_a_line(KNOWN[(KNOWN < 0.3) | (KNOWN > 1.3)])
    found = hole.choose(NOWHERE, line(GRID), OPTION)
    assert found.worth[0]
    assert_allclose(GRID[found.chosen[0]], 0.8, atol=1e-9)


def test_a_small_hole_is_no_doubt():
    """Over less than a kernel length the model knows what lies between."""
    hole = on_a_line(KNOWN[(KNOWN < 0.7) | (KNOWN > 0.9)])
    assert not hole.choose(NOWHERE, line(GRID), OPTION).worth[0]


def test_each_context_is_looked_at_by_itself():
    """Of three contexts the second has a hole, and the third two places that are known to be good: no need to look."""
    every = np.stack([*map(np.ravel, np.meshgrid(KNOWN[::3], np.linspace(-3.0, 3.0, 25)))], axis=1)
    hole = (np.abs(every[:, 1]) < 1.1) & (np.abs(every[:, 0] - 0.8) < 0.6)
    model = Model(every[~hole], np.exp(-0.5 * (every[~hole, 0] + 0.8) ** 2 / 0.4**2), 1)
    contexts = np.array([[2.5], [0.0], [-2.5]])
    good = np.where(np.arange(16) == 7, -0.75, np.where(np.arange(16) == 9, -0.6, GRID))
    drawn = np.stack([GRID, GRID, good])
    found = model.choose(contexts, drawn[:, :, None], np.full((1, 3, 1), -0.8))
    assert_array_equal(found.worth, [False, True, False])
    assert abs(GRID[found.chosen[1]] - 0.8) < 0.6
    # Good places beside the hole change nothing either: the scout goes into it.
    found = model.choose(contexts[1:2], good[None, :, None], np.full((1, 1, 1), -0.8))
    assert found.worth[0]
    assert abs(good[found.chosen[0]] - 0.8) < 0.6


@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_what_is_good_is_measured_by_the_best_option(temperature):
    """In a hole between an option of height 1 and one of 3 some places are known to be as good as the lower alone."""
    beside = np.array([-1.8, -1.65, -1.5, 1.5, 1.65, 1.8])
    model = on_a_line(beside, scores=np.interp(beside, [-1.5, 1.5], [1.0, 3.0]), temperature=temperature)
    low, high = np.array([[[-1.5]]]), np.array([[[1.5]]])
    places = np.linspace(-1.5, 1.5, 33)
    mean, deviation = model.truth(np.zeros(1), places[:, None])
    found = []
    for options in (low, high, np.concatenate([low, high])):
        best = model.truth(np.zeros(1), options[:, 0])[0].max()
        worth = np.array([model.choose(NOWHERE, line([place]), options).worth[0] for place in places])
        assert_array_equal(worth, np.isfinite(highest_of(mean, deviation, least_of(best, temperature))))
        assert 0 < worth.sum() < len(places)
        found.append(worth)
    assert np.any(found[1] & ~found[0])
    assert_array_equal(found[1], found[2])


def test_what_is_known_is_worth_no_scout_however_good_it_is():
    """Of a slope up to the option, all but where it is about as high as a solution must be."""
    model = on_a_line(KNOWN, scores=np.interp(KNOWN, [-0.8, 0.8], [1.0, 3.0]))
    mean, deviation = model.truth(np.zeros(1), KNOWN[:, None])
    clear = np.abs(mean - least_of(3.0, 0.3)) > 4.0 * deviation.max() + 0.1
    assert np.any(clear & (mean > 2.5))
    assert not model.choose(NOWHERE, line(KNOWN[clear]), -OPTION).worth[0]


def test_what_is_typical_is_the_mean_that_the_process_expects(two, asked):
    """Scores that are all higher by 5, as the process knows: the same scouts."""
    for one, other in zip(two.choose(*asked), cloud(mean=5.0).choose(*asked), strict=True):
        assert_array_equal(one, other)


def test_the_landscapes_axes_are_the_models(two, asked):
    """Axes turned about, with one length for all: distances are the same."""
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]
    for one, other in zip(two.choose(*asked), cloud(axes=turn).choose(*asked), strict=True):
        assert_array_equal(one, other)


def test_there_need_be_no_contexts():
    """Of two pools one has places beside the bump, some of which may be good, and the other one place that is bad."""
    model, rng = cloud(size=2), np.random.default_rng(3)
    drawn = np.stack([rng.uniform([-1.2, -0.4], [-0.4, 0.4], (20, 2)), np.full((20, 2), [1.0, 1.0])])
    found = model.choose(np.zeros((2, 0)), drawn, np.full((1, 2, 2), [-0.8, 0.0]))
    assert_array_equal(found.worth, [True, False])
    (best,), _ = model.truth(np.zeros(0), np.array([[-0.8, 0.0]]))
    mean, deviation = model.truth(np.zeros(0), drawn[0])
    highest = highest_of(mean, deviation, least_of(best, 0.2))
    assert 0 < np.isfinite(highest).sum() < 20
    assert found.chosen[0] == np.argmax(highest)


# ---------------------------------------------------------------- a learner whose first rollouts have a hole


@pytest.fixture(autouse=True)
def however_little_is_unknown(monkeypatch):
    """Scouts go where first rollouts are as near to one another as here; one test says when they do not."""
    monkeypatch.setattr(scouting, "UNSEEN", 0.01)


def first_rollouts(count=FIRST, size=2):
    """Contexts, parameters of the initial policy but for the hole, and returns of two ridges, one of them in it."""
    contexts, rng = small.draw_contexts(0, count, 1), np.random.default_rng(0)
    parameters = rng.uniform(-1.0, 1.0, (40 * count, size))
    parameters = parameters[~in_the_hole(parameters)][:count]
    return contexts, parameters, small.two_ridges(contexts, parameters) + 0.01 * rng.normal(size=count)


def in_the_hole(parameters):
    return parameters[:, 0] > HOLE


def make(size=2, **changes):
    """A learner that has been told of them."""
    learner = small.make(1, size, **({"scouts": 0.1, "initial_rollouts": FIRST} | changes))
    learner.tell(*first_rollouts(learner.initial_rollouts, size))
    return learner


def proposals(learner, times=10, count=32):
    """What is asked for and forgotten again, time after time."""
    for number in range(times):
        yield learner.ask(small.draw_contexts(number, count, 1))
        learner.forget_asked()


def sent_by(learner, **changes):
    """The parameters of all scouts that are asked for."""
    return np.concatenate([each.parameters[each.option == INITIAL] for each in proposals(learner, **changes)])


@pytest.fixture(scope="module")
def holed():
    """Tests must not tell it anything."""
    return make()


def test_scouts_go_into_the_hole(holed):
    assert len(holed.policy.options) == 1  # the other ridge lies in the hole
    assert not in_the_hole(holed.policy.option_means([[1.0]])[0]).any()
    sent = [each.parameters[each.option == INITIAL] for each in proposals(holed)]
    assert np.all(in_the_hole(np.concatenate(sent)))
    # A tenth of what is asked at once, rounded either way.
    assert {len(each) for each in sent} == {3, 4}


def test_the_ridge_in_the_hole_is_found_by_scouts_and_not_without():
    for scouts, wanted in ((0.1, 2), (0.0, 1)):
        learner = small.run(make(scouts=scouts), rounds=(32, 32, 32))
        assert len(learner.policy.options) == wanted
        assert np.any(learner.rollouts.option[FIRST:] == INITIAL) == (scouts > 0.0)
        small.assert_sound(learner.policy)


def test_without_scouts_there_are_none():
    assert len(sent_by(make(scouts=0.0))) == 0


def test_where_the_first_rollouts_leave_little_unknown_between_them_there_are_none(holed, monkeypatch):
    assert holed.policy is not None
    for share, wanted in ((0.9, True), (1.1, False)):
        monkeypatch.setattr(scouting, "UNSEEN", share * holed.info.unexplored)
        assert (len(sent_by(holed, times=3)) > 0) == wanted


def test_of_success_or_failure_nobody_knows_what_is_unknown_and_scouts_go():
    learner = small.make(1, 2, scouts=0.3, initial_rollouts=FIRST)
    contexts, parameters, returns = first_rollouts()
    learner.tell(contexts, parameters, (returns > np.quantile(returns, 0.7)).astype(float))
    sent = sent_by(learner, times=3)
    assert np.isnan(learner.info.unexplored)
    assert len(sent) > 0
    assert np.mean(in_the_hole(sent)) > 0.8


def test_where_the_model_explains_nothing_there_are_none():
    """No landscape, no scouts: one option as wide as the initial policy does their work."""
    learner = small.make(1, 2, scouts=0.5, initial_rollouts=FIRST)
    contexts, parameters, returns = first_rollouts()
    learner.tell(contexts, parameters, np.random.default_rng(4).normal(size=len(returns)))
    assert learner.policy is not None
    assert learner._state.landscape is None
    assert len(sent_by(learner, times=3)) == 0


@pytest.mark.parametrize("density", ["vb", "em"])
def test_joint_gaussians_have_none(density):
    assert len(sent_by(make(scouts=0.5, density=density), times=2)) == 0


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_asked_one_by_one_the_share_is_the_same(share):
    learner, count = make(scouts=share), 200
    sent = len(sent_by(learner, times=count, count=1)) / count
    assert abs(sent - share) < 4.0 * np.sqrt(share * (1.0 - share) / count)
    # A rollout that is a scout alone is told like any other.
    contexts = [[0.5]]
    while (proposal := learner.ask(contexts)).option[0] != INITIAL:
        learner.forget_asked()
    learner.tell(contexts, proposal.parameters, [0.3])
    assert learner.rollouts.behaviour[-1] == 0
    small.assert_sound(learner.policy)


def test_in_all_there_are_no_more_than_fifty():
    """However many initial rollouts there are, and whether they are asked for at once or not."""
    learner = make(scouts=1.0)
    (proposal,) = proposals(learner, times=1, count=64)
    assert np.sum(proposal.option == INITIAL) == scouting.MOST == 50
    learner = small.run(make(scouts=1.0), rounds=(32, 32, 32))
    sent = np.sum(learner.rollouts.option[FIRST:] == INITIAL)
    assert 32 <= sent <= 50


def test_once_all_options_are_narrow_nothing_limits_them(holed, monkeypatch):
    """Neither their number nor how little is unknown between the first rollouts."""
    assert holed.policy is not None
    monkeypatch.setattr(scouting, "UNSEEN", 2.0)
    monkeypatch.setattr(scouting, "MOST", 0)
    for narrow, wanted in ((0.9, False), (1.1, True)):
        monkeypatch.setattr(scouting, "NARROW", narrow * holed.info.width)
        assert (len(sent_by(holed, times=3)) > 0) == wanted


def test_scouts_that_have_gone_are_counted(monkeypatch):
    learner = make(scouts=0.5)
    monkeypatch.setattr(scouting, "MOST", 10)
    for wanted in (8, 2, 0):
        contexts = small.draw_contexts(wanted, 16, 1)
        proposal = learner.ask(contexts)
        assert np.sum(proposal.option == INITIAL) == wanted
        learner.tell(contexts, proposal.parameters, small.two_ridges(contexts, proposal.parameters))


def test_failed_rollouts_are_no_scouts_that_went():
    """Of the initial rollouts twenty had to be done again."""
    learner = small.make(1, 2, scouts=0.1, initial_rollouts=FIRST)
    contexts, parameters, returns = first_rollouts(FIRST + 20)
    learner.tell(contexts, parameters, returns, failed=np.isin(np.arange(FIRST + 20), np.arange(20) * 4))
    assert learner.rollouts.usable == FIRST
    assert len(sent_by(learner)) > 0


def test_a_rollout_that_is_not_believed_draws_no_scouts():
    """Its return is far too high, and its place known to be bad."""
    contexts, parameters, returns = first_rollouts()
    returns[np.argmin(np.sum(parameters**2, axis=1))] = 50.0
    learner = small.make(1, 2, scouts=0.1, initial_rollouts=FIRST)
    learner.tell(contexts, parameters, returns)
    sent = sent_by(learner)
    assert learner.info.outliers == 1
    assert len(sent) > 0
    assert np.all(in_the_hole(sent))


# ---------------------------------------------------------------- what they count as


def test_a_scout_is_a_rollout_of_the_initial_policy(holed):
    for proposal in proposals(holed):
        scout = proposal.option == INITIAL
        assert np.all(np.abs(proposal.parameters[scout]) <= 1.0)
        assert_allclose(proposal.log_density[scout], np.log(0.25), rtol=1e-12)
        assert_array_equal(proposal.number == 0, scout)
        assert_array_equal(proposal.number[~scout], holed.policy.options[0].number)
        assert np.all(np.isfinite(proposal.log_density))


def test_what_is_told_of_scouts_is_told_of_the_initial_policy():
    learner, total = make(), FIRST + 32
    contexts, newest = small.draw_contexts(1, 32, 1), slice(FIRST, FIRST + 32)
    proposal = learner.ask(contexts)
    scout = proposal.option == INITIAL
    assert 0 < scout.sum() < 32
    learner.tell(contexts, proposal.parameters, small.two_ridges(contexts, proposal.parameters))
    assert_array_equal(learner.rollouts.behaviour[newest], np.where(scout, 0, 1))
    assert_array_equal(learner.rollouts.option[newest], proposal.option)
    assert_array_equal(learner.rollouts.number[newest] == 0, scout)
    learner.policy  # noqa: B018 - learns
    data = learner._data(learner._frame, np.ones(total, dtype=bool))
    assert_array_equal(data.initial[newest], scout)
    # pi_old has the initial policy in the share of its rollouts, scouts among them.
    own = learner._history.log_density(1, *(each[newest] for each in (data.contexts, data.features, data.parameters)))
    first, volume = FIRST + scout.sum(), learner.policy.units.log_volume
    initial = np.where(np.all(np.abs(proposal.parameters) <= 1.0, axis=1), 0.25 * np.exp(volume), 0.0)
    mixture = (first * initial + (total - first) * np.exp(own)) / total
    found = learner._log_behaviour(learner._frame, np.ones(total, dtype=bool), None)
    assert_allclose(found[newest], np.log(mixture), rtol=1e-9)


def test_scouts_are_no_decisions_of_the_gate():
    learner = make()
    proposal = learner.ask(small.draw_contexts(1, 32, 1))
    (behaviour,) = learner._history.behaviours.values()
    assert np.sum(np.asarray(behaviour.chosen) >= 0) == np.sum(proposal.option >= 0) < 32


def test_scouts_change_nothing_for_the_others():
    """The same random numbers: the policy's own rollouts are as they were without scouts."""
    some, none = (list(proposals(make(scouts=share), times=3)) for share in (0.15, 0.0))
    for one, other in zip(some, none, strict=True):
        others = one.option >= 0
        assert 0 < others.sum() < 32
        assert_array_equal(one.parameters[others], other.parameters[others])
        assert_array_equal(one.option[others], other.option[others])


def test_where_the_initial_density_is_not_known_nor_is_that_of_scouts():
    learner = make(initial=np.random.default_rng(8).uniform(-1.0, 1.0, (300, 2)))
    for proposal in proposals(learner, times=3):
        scout = proposal.option == INITIAL
        assert scout.any()
        assert np.all(in_the_hole(proposal.parameters[scout]))
        assert_array_equal(np.isnan(proposal.log_density), scout)


def test_the_seed_decides_where_scouts_go():
    one = next(proposals(make(seed=0)))
    with remembered.nothing():
        same, other = [next(proposals(make(seed=seed))) for seed in (0, 1)]
    assert_array_equal(one.parameters, same.parameters)
    assert_array_equal(one.option, same.option)
    assert not np.array_equal(one.parameters[one.option == INITIAL], other.parameters[other.option == INITIAL])


def test_a_second_learner_that_sends_as_many_scouts_compiles_nothing():
    for seed, allowed in ((1, np.inf), (2, 0)):
        learner = make(seed=seed)
        with count_compilations() as compilations:
            counts = {int(np.sum(each.option == INITIAL)) for each in proposals(learner, times=12)}
        assert counts == {3, 4}
        assert compilations.count <= allowed


def test_the_initial_policy_made_what_has_no_option():
    assert_array_equal(made_by(np.array([2, INITIAL, 0, INITIAL]), 7), [7, 0, 7, 0])
    assert_array_equal(made_by(np.full(3, INITIAL), 0), [0, 0, 0])


def test_all_rollouts_may_be_scouts():
    (proposal,) = proposals(make(scouts=1.0), times=1, count=12)
    assert np.all(proposal.option == INITIAL)
    assert np.all(in_the_hole(proposal.parameters))


def test_scouts_are_a_share():
    assert 0.0 < hpsde.Settings().density.scouts <= 0.5
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(hpsde.InputError, match="scouts must lie between 0"):
            hpsde.Settings(scouts=share)


# ---------------------------------------------------------------- guesses


def with_guess(**changes):
    """A learner that knows of no hole, and whose one option is a guess, too."""
    learner = make(**changes)
    assert learner.policy is not None
    found = learner._state.found
    (component,) = np.flatnonzero(found.slots >= 0)[:1]
    learner._state = learner._state._replace(found=found._replace(guesses=np.array([component])))
    return learner


def test_a_guess_is_tried_a_few_times_as_its_component_says(monkeypatch):
    monkeypatch.setattr(scouting, "UNSEEN", 1.0)  # no other scouts
    learner = with_guess(scouts=0.5)
    sent = [(each.parameters, each.option == INITIAL) for each in proposals(learner)]
    assert {int(scouts.sum()) for _, scouts in sent} == {scouting.TRIES}
    tried = np.concatenate([parameters[scouts] for parameters, scouts in sent])
    policies = discovery.guessed_policies(learner._state.found)
    standard = learner._frame.units.parameters(tried)
    (first,) = np.sqrt(np.asarray(policies.Sigma)[:, 0, 0])
    assert np.all(np.abs(standard[:, 0] - np.asarray(policies.b)[0, 0]) < 5.0 * first + 2.0 * np.abs(policies.w).max())
    assert np.all(np.abs(tried) <= 1.0)  # what the initial policy cannot do is not tried


def test_guesses_are_no_more_than_a_share_of_what_is_asked_and_of_all_rollouts(monkeypatch):
    monkeypatch.setattr(scouting, "UNSEEN", 1.0)
    assert {int(np.sum(each.option == INITIAL)) for each in proposals(with_guess(scouts=0.1))} <= {3, 4}
    monkeypatch.setattr(scouting, "MOST_TRIED", 2.5 / FIRST)
    assert {int(np.sum(each.option == INITIAL)) for each in proposals(with_guess(scouts=0.5))} <= {1, 2}
    assert len(sent_by(with_guess(scouts=0.0))) == 0
