"""Which solutions there are: known curves on a known return, numbers that are kept, births, deaths, and redundancy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde import gp
from hpsde.mixture.conditional import Fit, Posterior
from hpsde.steps import discovery
from hpsde.steps.discovery import (
    Given,
    Groups,
    Last,
    discover,
    fit_features,
    separate_groups,
    tolerance,
    whole_components,
)
from hpsde.steps.gaussian import LinearGaussian, means
from hpsde.steps.landscape import View
from hpsde.steps.valleys import Model

LENGTH, O = 0.5, 4
VIEW = View(np.eye(1) / LENGTH, np.eye(1) * LENGTH)
ANCHORS = np.linspace(-1.2, 1.2, 12)[:, None]
NOBODY = np.zeros(O, dtype=bool)


def lines(s):
    """The best parameters in every context [3, N]: three parallel lines."""
    return np.array([-1.5, 0.0, 1.5])[:, None] + 0.3 * s[None]


def three_lines(xi, s, heights=(1.0, 1.0, 1.0)):
    return np.asarray(heights) @ np.exp(-0.5 * ((xi[None] - lines(s)) / 0.3) ** 2)


def make_model(function=three_lines, n=600, temperature=0.3):
    z = np.random.default_rng(0).uniform([-2.5, -1.5], [2.5, 1.5], (n, 2))
    hyperparameters = gp.Hyperparameters(np.log(np.asarray([LENGTH, 1.5])), np.asarray(0.0), np.log(1e-2))
    process = gp.posterior(hyperparameters, z, function(z[:, 0], z[:, 1]), np.ones(n, dtype=bool))
    return Model(process, np.eye(2), np.asarray(VIEW.L), temperature)


@pytest.fixture(scope="module")
def model():
    return make_model()


def curves_of(*offsets, slope=0.3):
    """Curves y [C, A, 1] in kernel lengths of lines xi = offset + slope s."""
    return np.stack([(offset + slope * ANCHORS) / LENGTH for offset in offsets])


def groups_of(model, curves):
    return separate_groups(model, curves, ANCHORS).labels


def options_at(offsets, slots=O, slope=0.3, absent=()):
    """Options whose features are the context, in the first slots; the others do not exist.

    absent: the slots of those that the last search missed.
    """
    b = np.zeros((slots, 1))
    b[: len(offsets), 0] = offsets
    policies = LinearGaussian(np.asarray(b), np.full((slots, 1, 1), slope), np.full((slots, 1, 1), 0.01))
    return Last(policies, np.arange(slots) < len(offsets), np.isin(np.arange(slots), absent))


def make_given(offsets, n=240, seed=0):
    """Samples on the lines with these offsets, where each scores what the three lines say."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(-1.4, 1.4, (n, 1))
    xi = np.asarray(offsets)[np.arange(n) % len(offsets)][:, None] + 0.3 * s + 0.05 * rng.normal(size=(n, 1))
    scores = three_lines(xi[:, 0], s[:, 0])
    return Given(s, xi, s, scores, np.full(n, 0.8), np.hstack([xi / LENGTH, s / 1.5]), s)


def find(model, offsets=(-1.5, 0.0, 1.5), last=None, fresh=True, seed=0, slots=O, tries=True):
    rng = np.random.default_rng(seed)
    return discover(rng, make_given(offsets), (ANCHORS, ANCHORS), model, VIEW, last, fresh, slots, tries)


def offsets_of(found, slots=O):
    """Where each slot's policy is at s = 0."""
    b = np.asarray(discovery.component_policies(found, slots).b)[:, 0]
    return [round(float(b[o]), 1) if found.kept[o] else None for o in range(slots)]


# ---------------------------------------------------------------- groups of curves


def test_curves_on_the_same_ridge_are_one_group_and_others_are_not(model):
    labels = groups_of(model, curves_of(-1.5, 1.5, -1.42, 0.0, 1.55))
    assert labels[0] == labels[2]
    assert labels[1] == labels[4]
    assert len(set(labels)) == 3
    assert np.all(labels >= 0)


def test_the_order_of_the_candidates_does_not_matter(model):
    curves, order = curves_of(-1.5, 1.5, -1.42, 0.0, 1.55), np.array([3, 0, 4, 2, 1])
    one, other = groups_of(model, curves)[order], groups_of(model, curves[order])
    assert_array_equal(one[:, None] == one[None], other[:, None] == other[None])


def test_a_group_is_named_by_its_highest_curve_whose_height_it_has(model):
    found = separate_groups(model, curves_of(-1.42, -1.5, 1.5), ANCHORS)
    assert isinstance(found, Groups)
    assert_array_equal(found.labels, [1, 1, 2])
    assert_allclose(found.level[1:], 1.0, atol=0.03)
    assert_allclose(found.level[0], np.exp(-0.5 * (0.08 / 0.3) ** 2), atol=0.03)


def test_a_curve_in_a_valley_is_no_solution(model):
    assert groups_of(model, curves_of(-1.5, 0.75, 1.5))[1] == -1


def test_a_ridge_far_below_the_best_is_no_solution():
    """Half of the way down to the mean, or GOOD T, whichever is less, may be missing."""
    for height, wanted in ((0.8, 3), (0.2, 2)):
        low = make_model(lambda xi, s, h=height: three_lines(xi, s, (1.0, h, 1.0)))
        assert len(set(groups_of(low, curves_of(-1.5, 0.0, 1.5))) - {-1}) == wanted


def test_what_no_rollout_has_reached_is_no_measure_for_the_others(model):
    """A phantom that the process believes to be three times as high as all it has seen."""
    high = make_model(lambda xi, s: three_lines(xi, s, (1.0, 1.0, 3.0)))
    curves = curves_of(-1.5, 0.0, 1.5)
    assert_array_equal(groups_of(high, curves), [-1, -1, 2])
    assert_array_equal(groups_of(high._replace(highest=1.0), curves), [0, 1, 2])
    assert_array_equal(groups_of(model._replace(highest=1.1), curves), groups_of(model, curves))


def test_lines_that_cross_are_two_solutions():
    cross = make_model(lambda xi, s: np.exp(-0.5 * ((np.abs(xi) - np.abs(s)) / 0.3) ** 2), temperature=0.2)
    curves = np.concatenate([curves_of(0.0, slope=1.0), curves_of(0.0, slope=-1.0)])
    assert len(set(groups_of(cross, curves))) == 2
    # One that turns round at the crossing is made of both: in every context one of them is as good, and no valley away.
    bent = np.concatenate([curves, np.abs(ANCHORS)[None] / LENGTH])
    labels = groups_of(cross, bent)
    assert labels[2] in (labels[0], labels[1])
    assert len(set(labels)) == 2


# ---------------------------------------------------------------- discovery


def test_the_three_lines_are_found(model):
    found = find(model)
    assert found.separate == found.kept.sum() == 3
    assert sorted(each for each in offsets_of(found) if each is not None) == [-1.5, 0.0, 1.5]
    assert_array_equal(found.born, found.kept)
    assert not found.died.any()
    assert not found.warm


def test_the_policies_of_components_are_the_lines(model):
    found = find(model)
    policies = discovery.component_policies(found, O)
    s = np.linspace(-1.0, 1.0, 5)
    curves = np.asarray(means(policies, np.asarray(s[:, None])))[found.kept, :, 0]
    assert_allclose(np.sort(curves, axis=0), lines(s), atol=0.08)
    assert np.all(np.asarray(policies.Sigma)[found.kept] > 0.0)


def test_rollouts_belong_to_the_line_they_are_on(model):
    found = find(model)
    s = np.zeros((3, 1))
    r = discovery.assign(found, np.array([[-1.5], [0.0], [1.5]]), s, NOBODY)
    assert_allclose(r.sum(axis=0), 1.0, rtol=1e-9)
    assert_allclose(r.max(axis=0), 1.0, atol=1e-3)
    assert [offsets_of(found)[o] for o in r.argmax(axis=0)] == [-1.5, 0.0, 1.5]


def test_rollouts_of_options_left_out_belong_to_the_others(model):
    """As if these options did not exist; one that does not is left out anyway."""
    found = find(model)
    at = np.linspace(-1.8, 1.8, 37)[:, None]
    every = discovery.assign(found, at, np.zeros((37, 1)), NOBODY)
    for o in np.flatnonzero(found.kept):
        without = np.arange(O) == o
        r = discovery.assign(found, at, np.zeros((37, 1)), without)
        assert_array_equal(r[o], 0.0)
        assert_allclose(r.sum(axis=0), 1.0, rtol=1e-9)
        gone = found._replace(slots=np.where(found.slots == o, -1, found.slots), kept=found.kept & ~without)
        assert_allclose(r, discovery.assign(gone, at, np.zeros((37, 1)), NOBODY), rtol=1e-9, atol=1e-12)
        # What the others have of a rollout they have in the same proportion.
        mine = every[o] < 0.999
        assert_allclose(r[:, mine] * (1.0 - every[o, mine])[None], every[:, mine] * ~without[:, None], atol=1e-9)
    assert_array_equal(discovery.assign(found, at, np.zeros((37, 1)), ~found.kept), every)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("moved", [0.0, 0.06, -0.06])
def test_options_keep_their_slots_however_they_are_ordered_and_when_they_move(model, order, moved):
    offsets = np.array([-1.5, 0.0, 1.5])[list(order)]
    found = find(model, last=options_at(offsets + moved))
    assert offsets_of(found) == [*offsets.tolist(), None]
    assert not found.born.any()
    assert not found.died.any()


def test_a_solution_without_an_option_is_born_in_a_free_slot(model):
    last = options_at([1.5, 9.0, -1.5])
    found = find(model, last=last._replace(kept=last.kept & (np.arange(O) != 1)))
    assert offsets_of(found)[0] == 1.5
    assert offsets_of(found)[2] == -1.5
    assert_array_equal(np.flatnonzero(found.born), [1])
    assert offsets_of(found)[1] == 0.0
    assert not found.died.any()


def test_an_option_where_the_model_shows_no_hill_dies(model):
    found = find(model, last=options_at([-1.5, 0.75, 1.5]))
    assert [offsets_of(found)[o] for o in (0, 2)] == [-1.5, 1.5]
    assert found.died[1]
    assert not found.absent.any()
    # The line between is another solution, and not in the slot that has just become free while there is another.
    assert_array_equal(np.flatnonzero(found.born), [3])
    assert offsets_of(found)[3] == 0.0


def test_of_two_options_on_one_hill_one_dies_when_two_searches_have_shown_no_valley(model):
    """The one that is farther from the ridge."""
    offsets = [-1.5, -1.44, 0.0, 1.5]
    first = find(model, last=options_at(offsets))
    assert first.kept.all()
    assert_array_equal(np.flatnonzero(first.absent), [1])
    assert first.separate == 3
    second = find(model, last=options_at(offsets, absent=[1]))
    assert_array_equal(np.flatnonzero(~second.kept), [1])
    assert_array_equal(np.flatnonzero(second.died), [1])
    assert not second.absent.any()
    for found in (first, second):
        assert found.died.sum() == (~found.kept).sum()
        assert not found.born.any()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_options_on_one_hill_the_one_that_was_missed_before_goes(model, order):
    """Though it is the nearer to the ridge by now; the other stays, and is not missed."""
    first, second = np.array([-1.5, -1.44])[list(order)]
    for missed, stays in ((0, 1), (1, 0)):
        found = find(model, last=options_at([first, second, 0.0, 1.5], absent=[missed]))
        assert_array_equal(np.flatnonzero(~found.kept), [missed])
        assert_array_equal(np.flatnonzero(found.died), [missed])
        assert found.kept[stays]
        assert not (found.absent | found.born).any()
        assert abs(offsets_of(found)[stays] + 1.5) < 0.11


def test_of_three_options_on_one_hill_two_that_were_missed_go(model):
    found = find(model, last=options_at([-1.5, -1.44, -1.47, 1.5], absent=[0, 2]), offsets=(-1.5, 1.5))
    assert_array_equal(np.flatnonzero(found.died), [0, 2])
    assert found.kept[1]
    # Where all were missed the nearest stays.
    found = find(model, last=options_at([-1.4, -1.5, -1.44, 1.5], absent=[0, 1, 2]), offsets=(-1.5, 1.5))
    assert_array_equal(np.flatnonzero(found.died), [0, 2])
    assert_array_equal(np.flatnonzero(found.kept), [1, 3])


def test_an_option_that_is_missed_once_stays_as_it_was_and_has_rollouts(model):
    last = options_at([-1.5, -1.4, 0.0, 1.5])
    found = find(model, last=last)
    policies = discovery.component_policies(found, O)
    for part, wanted in ((policies.b, last.options.b), (policies.w, last.options.w)):
        assert_allclose(part[1], wanted[1], rtol=1e-9)
    r = discovery.assign(found, np.array([[-1.6], [-1.35]]), np.zeros((2, 1)), NOBODY)
    assert r[0, 0] > r[1, 0]
    assert r[1, 1] > r[0, 1]
    assert np.all(r[[0, 1]].sum(axis=0) > 0.99)


def test_an_option_that_was_missed_and_is_shown_again_lives_on(model):
    found = find(model, last=options_at([-1.5, 0.0, 1.5], absent=[0, 1]))
    assert offsets_of(found) == [-1.5, 0.0, 1.5, None]
    assert not (found.absent | found.born | found.died).any()


def test_an_option_that_is_missed_keeps_its_slot_from_those_to_be_born(model):
    """Three slots, of which two options on one hill have two: of the two other hills one must wait."""
    found = find(model, last=options_at([-1.5, -1.44], slots=3), slots=3)
    assert found.separate == 3
    assert_array_equal(np.flatnonzero(found.absent), [1])
    assert_array_equal(np.flatnonzero(found.born), [2])
    assert found.kept.all()
    assert offsets_of(found, 3)[2] in (0.0, 1.5)
    later = find(model, last=options_at([-1.5, -1.44, 1.5], slots=3, absent=[1]), slots=3)
    assert sorted(offsets_of(later, 3)) == [-1.5, 0.0, 1.5]
    assert_array_equal(np.flatnonzero(later.died), [1])
    assert_array_equal(np.flatnonzero(later.born), [1])


def test_an_option_without_samples_lives_where_the_model_shows_its_hill(model):
    """Samples on two lines alone: the third is a solution as long as its curve is one."""
    found = find(model, offsets=(-1.5, 1.5), last=options_at([-1.5, 0.0, 1.5]))
    assert offsets_of(found) == [-1.5, 0.0, 1.5, None]
    assert np.asarray(found.posterior.active).sum() >= 3
    r = discovery.assign(found, np.array([[0.02]]), np.zeros((1, 1)), NOBODY)
    assert r[1, 0] > 0.9


def test_a_component_between_two_hills_is_dropped(model):
    """Samples of a line that goes from one ridge to the next: no context in which it is a solution of its own."""
    found = find(model, offsets=(-1.5, -0.75, 0.0, 1.5))
    assert sorted(each for each in offsets_of(found) if each is not None) == [-1.5, 0.0, 1.5]


def test_no_more_than_the_slots_and_the_old_ones_first(model):
    found = find(model, last=options_at([1.5], slots=2), slots=2)
    assert found.separate == 3
    assert found.kept.sum() == 2
    assert offsets_of(found, 2)[0] == 1.5


def test_a_start_from_the_last_options_is_taken_while_the_landscape_lasts(model):
    last = options_at([-1.5, 0.0, 1.5])
    assert find(model, last=last, fresh=False).warm
    assert not find(model, last=last._replace(kept=np.zeros(O, dtype=bool)), fresh=False).warm


# ---------------------------------------------------------------- components across a valley


def by_hand(given, lines, owner, active=None):
    """A fitted mixture whose components are lines (offset, slope), and whose samples [N] have these owners."""
    features, count = fit_features(given.features), len(lines)
    offset, slope = np.asarray(lines, dtype=float).T
    M = np.stack([offset + slope * features.centre, slope * features.scale], axis=1)[:, :, None] / LENGTH
    shapes = (np.tile(np.eye(2), (count, 1, 1)), np.full((count, 1, 1), 0.1), np.full(count, 10.0))
    active = np.ones(count, dtype=bool) if active is None else np.asarray(active)
    posterior = Posterior(*map(np.asarray, (M, *shapes, np.full(count + 1, 10.0), active)))
    return Fit(posterior, (np.arange(count + 1)[:, None] == owner).astype(float), 0.0)


def whole(model, given, lines, owner, active=None):
    return whole_components(by_hand(given, lines, owner, active), model, given, fit_features(given.features)).tolist()


def test_what_may_be_missing_is_three_T_or_half_of_the_way_down_to_the_typical_score():
    best = np.array([10.0, 2.0, 1.0, 0.5, -4.0])
    assert_allclose(tolerance(best, 0.4, 0.0), [1.2, 1.0, 0.5, 0.25, 0.0], rtol=1e-12)
    assert_allclose(tolerance(best + 7.0, 0.4, 7.0), [1.2, 1.0, 0.5, 0.25, 0.0], rtol=1e-12)


def test_a_component_across_a_valley_is_left_out(model):
    """Its samples lie on both ridges beside it. One that is inactive is left out anyway."""
    given = make_given([-1.5, 0.0, 1.5, 1.5])  # in turn
    turn = np.arange(240) % 4
    lines = [(-1.5, 0.3), (-0.75, 0.3), (1.5, 0.3)]
    both_sides = np.where(turn == 1, 1, np.where(turn == 0, np.arange(240) // 4 % 2, 2))
    assert whole(model, given, lines, both_sides) == [0, 2]
    assert whole(model, given, lines, both_sides, [True, True, False]) == [0]
    # On its own ridge the same component is one.
    assert whole(model, given, [lines[0], (0.0, 0.3), lines[2]], np.minimum(turn, 2)) == [0, 1, 2]


def test_where_all_components_lie_across_valleys_they_are_all_there_is(model):
    given = make_given([-1.5, 0.0, 0.0, 1.5])
    lines = [(-0.75, 0.3), (0.75, 0.3), (1.5, 0.3)]
    assert whole(model, given, lines, np.arange(240) % 4 // 2, [True, True, False]) == [0, 1]


def test_a_component_that_is_no_samples_likeliest_does_no_harm(model):
    given = make_given([-1.5, 0.0])
    assert whole(model, given, [(-1.5, 0.3), (0.0, 0.3), (1.5, 0.3)], np.arange(240) % 2)[:2] == [0, 1]


def test_a_component_may_be_a_little_worse_than_its_samples():
    """Samples score 1 on the ridge: T = 0.3 allows half of that to be missing, T = 0.03 a tenth."""
    given = make_given([0.0, 1.5])
    for temperature, wanted in ((0.3, [True, True, False]), (0.03, [True, False, False])):
        model = make_model(temperature=temperature)
        for beside, accepted in zip((0.05, 0.25, 0.5), wanted, strict=True):
            found = whole(model, given, [(beside, 0.3), (1.5, 0.3)], np.arange(240) % 2)
            assert found == ([0, 1] if accepted else [1])


def test_most_of_the_samples_is_most_of_their_counts(model):
    """A third of a component's samples lie as low as its mean does; they decide where they weigh the most."""
    given = make_given([-0.75, -1.5, 0.0, 1.5])
    owner, low = np.arange(240) % 4 // 3, np.arange(240) % 4 == 0
    for weight, wanted in ((1.0, [1]), (9.0, [0, 1])):
        weighed = given._replace(counts=np.where(low, weight, 1.0))
        assert whole(model, weighed, [(-0.75, 0.3), (1.5, 0.3)], owner) == wanted


def test_a_component_across_a_valley_has_no_rollouts_of_an_option(model, monkeypatch):
    """A curve from one ridge to the next, whose samples lie on both: it is good at either end, but no policy."""
    given = make_given([-1.5, 0.0, 1.5])
    middle = np.abs(given.contexts[:, 0]) < 0.7
    owner = np.where(middle & (np.arange(240) % 3 < 2), 3, np.arange(240) % 3)
    fitted = by_hand(given, [(-1.5, 0.3), (0.0, 0.3), (1.5, 0.3), (-0.75, 0.3 + 0.75 / 1.2)], owner)
    monkeypatch.setattr(discovery, "_fit_mixture", lambda *given: (fitted, False))
    found = discover(np.random.default_rng(0), given, (ANCHORS, ANCHORS), model, VIEW, None, True, O)
    assert_array_equal(found.slots == -1, [False, False, False, True])
    assert_array_equal(np.asarray(found.posterior.active), found.slots >= 0)
    assert found.separate == found.kept.sum() == 3


# ---------------------------------------------------------------- features


def test_standardised_features_lead_back_to_raw_coefficients():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(50, 3)) * [2.0, 0.1, 0.0] + [5.0, -4.0, 7.0]
    features = fit_features(phi)
    standard = features(phi)
    assert_allclose(standard[:, 1:3].std(axis=0), 1.0, rtol=1e-9)
    assert_allclose(standard[:, 3], 0.0, atol=1e-12)  # one that never varies
    M = rng.normal(size=(2, 4, 3))
    b, w = features.raw(M)
    truth = np.einsum("nf,cfk->cnk", standard, M)
    assert_allclose(b[:, None] + np.einsum("nf,cfk->cnk", phi, w), truth, rtol=1e-9, atol=1e-9)


def test_the_background_is_the_density_of_the_first_rollouts():
    """Standard Gaussian parameters, seen along orthogonal combinations of some length."""
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0][:, :2]
    view = View(turn * [2.0, 5.0], (turn / [2.0, 5.0]).T)
    xi = np.random.default_rng(2).normal(size=(4000, 3))
    phi = np.zeros((4000, 0))
    samples = discovery.make_samples(xi, phi, np.ones(4000), fit_features(phi), view)
    truth = -0.5 * np.sum((xi @ turn) ** 2, axis=1) - np.log(2.0 * np.pi) - np.log(10.0)
    assert_allclose(samples.log_background, truth, rtol=1e-9)
    assert samples.phi.shape == (4000, 1)


def test_a_birth_is_judged_by_the_leaders_of_groups_not_by_an_option_that_strays_between_them(model):
    """Candidates: two new curves without a common context, and an old option that has no valley to either."""
    shares = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    groups = separate_groups(model, curves_of(-1.5, 0.0, 1.5), ANCHORS)._replace(labels=np.array([0, 1, 0]))
    groups = groups._replace(shares=shares)
    assert_array_equal(discovery.without_doubtful_births(groups, 2), [0, 1, 0])
    # A curve that is not clearly separate from the leader belongs to its group.
    near = groups._replace(shares=np.where(shares == 1.0, 0.4, shares))
    assert_array_equal(discovery.without_doubtful_births(near, 2), [0, 0, 0])


# ---------------------------------------------------------------- guesses


def test_a_birth_that_is_not_known_to_be_good_is_a_guess_and_an_old_option_is_none():
    """The rollouts end at xi = 0.9: the process hardly knows the line at 1.5, and knows the others."""
    z = np.random.default_rng(0).uniform([-2.5, -1.5], [0.9, 1.5], (500, 2))
    z = np.concatenate([z, [[1.5, 0.0]]])
    hyperparameters = gp.Hyperparameters(np.log(np.asarray([LENGTH, 1.5])), np.asarray(0.0), np.log(0.3))
    process = gp.posterior(hyperparameters, z, three_lines(z[:, 0], z[:, 1]), np.ones(len(z), dtype=bool))
    unsure = Model(process, np.eye(2), np.asarray(VIEW.L), 0.3)
    found = find(unsure, last=options_at([-1.5, 0.0]))
    assert offsets_of(found) == [-1.5, 0.0, None, None]
    policies = discovery.guessed_policies(found)
    assert_allclose(np.asarray(policies.b)[:, 0], [1.5], atol=0.1)
    assert_allclose(np.asarray(policies.w)[:, 0, 0], [0.3], atol=0.1)
    # The same as an old option stays, and where nothing was known before everything is new.
    assert offsets_of(find(unsure, last=options_at([-1.5, 0.0, 1.5])))[2] == 1.5
    assert not len(find(unsure).guesses)
    assert find(unsure).kept.sum() == 3
    # Nor is there a guess where nobody would try it.
    assert offsets_of(find(unsure, last=options_at([-1.5, 0.0]), tries=False))[2] == 1.5


def test_a_guess_that_may_be_far_better_does_not_make_the_options_bad():
    """One rollout beyond the others has four times their best return: what it says of its line is not known."""
    z = np.random.default_rng(0).uniform([-2.5, -1.5], [0.6, 1.5], (500, 2))
    z = np.concatenate([z, [[1.5, 0.0]]])
    returns = np.append(three_lines(z[:-1, 0], z[:-1, 1]), 4.0)
    hyperparameters = gp.Hyperparameters(np.log(np.asarray([LENGTH, 5.0])), np.asarray(0.0), np.log(0.3))
    process = gp.posterior(hyperparameters, z, returns, np.ones(len(z), dtype=bool))
    unsure = Model(process, np.eye(2), np.asarray(VIEW.L), 0.1)
    found = find(unsure, last=options_at([-1.5, 0.0]))
    assert len(found.guesses) == 1
    assert not found.died.any()
    assert offsets_of(found) == [-1.5, 0.0, None, None]


def test_a_birth_that_is_known_to_be_good_is_no_guess(model):
    found = find(model, last=options_at([-1.5, 0.0]))
    assert not len(found.guesses)
    assert offsets_of(found)[2] == 1.5
