"""Options on known hills: who holds which, where they stand, and a learner that climbs."""

from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import hpsde
from hpsde.steps import climbers
from hpsde.steps.climbers import NEAR, hold, nearest, on_tops, owners, survey
from hpsde.steps.climbing import SIDE
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.latent import Latent
from hpsde.steps.refinement import NARROWEST
from hpsde.steps.rollouts import INITIAL, Data

HALF = SIDE / 2.0
CENTRES = np.array([[-1.0, -0.9], [0.9, -1.0], [0.1, 1.0]])
HEIGHTS = np.array([1.0, 0.97, 0.94])


def bumps(x, centres=CENTRES, width=0.35):
    squares = np.sum((x[:, None] - centres[None]) ** 2, axis=-1)
    return np.exp(-0.5 * squares / width**2) @ HEIGHTS


def data_of(x, y, contexts=0, first=None, padding=5):
    """Rollouts with padding that says nonsense, the first of them the initial policy's."""
    count = len(x)
    mask = np.arange(count + padding) < count
    return Data(
        contexts=np.zeros((len(mask), contexts)),
        parameters=np.concatenate([x, np.full((padding, x.shape[1]), 0.01)]),
        returns=np.concatenate([y, np.full(padding, 1e3)]),
        features=np.zeros((len(mask), 0)),
        log_behaviour=np.zeros(len(mask)),
        mask=mask,
        initial=np.arange(len(mask)) < (count if first is None else first),
        limits=(np.full(x.shape[1], -HALF), np.full(x.shape[1], HALF)),
        rollouts=count,
    )


def cloud(count=200, size=2, seed=0):
    return np.random.default_rng(seed).uniform(-HALF, HALF, (count, size))


TEMPERATURE = 0.2


def repeated(function, x):
    """Rollouts, and those that are to be repeated; how many rollouts were the first."""
    places = survey(data_of(x, function(x)), TEMPERATURE, {}).places
    return np.concatenate([x, places]), len(x)


# ---------------------------------------------------------------- the survey


def test_first_of_all_two_rollouts_are_repeated():
    x = cloud()
    y = bumps(x)
    found = survey(data_of(x, y), TEMPERATURE, {})
    assert len(found.rows) == len(found.widths) == 0
    assert set(found.summits.tolist()) == {np.argmax(y), np.argsort(-y)[len(y) // 2]}
    assert_array_equal(found.places, x[found.summits])


def test_returns_that_are_the_same_are_climbed_and_noisy_ones_are_not():
    x, first = repeated(bumps, cloud())
    found = survey(data_of(x, bumps(x), first=first), TEMPERATURE, {})
    assert len(found.places) >= 3
    assert len(found.places) == len(found.summits)
    y = bumps(x)
    for noise, climbed in ((1e-12, True), (1e-6, False)):
        y[-1] = bumps(x)[-1] + noise
        assert (survey(data_of(x, y, first=first), TEMPERATURE, {}) is not None) == climbed


def test_what_is_not_believed_is_done_once_more():
    data = data_of(*(lambda x: (x, bumps(x)))(repeated(bumps, cloud())[0]), first=200)
    mask = data.mask.copy()
    mask[[7, 30]] = False
    once = survey(data._replace(mask=mask), TEMPERATURE, {})
    assert_array_equal(once.places[:2], data.parameters[[7, 30]])
    assert_array_equal(once.summits[:2], [7, 30])
    away = np.linalg.norm(once.places[2:, None] - once.places[None, :2], axis=2)
    assert away.min() > 0.0  # and by no climb besides
    parameters = data.parameters.copy()
    parameters[30] = parameters[31]  # has been
    once = survey(data._replace(mask=mask, parameters=parameters), TEMPERATURE, {})
    assert_array_equal(once.places[0], data.parameters[7])
    assert not np.any(np.all(once.places == parameters[30], axis=1))


def test_with_contexts_or_too_few_rollouts_there_are_no_climbs():
    x = cloud()
    assert survey(data_of(x, bumps(x), contexts=1), TEMPERATURE, {}) is None
    # 12 first rollouts of two parameters are a deviation apart; 11 are farther, and 12 of three.
    for count, size, climbed in ((12, 2, True), (11, 2, False), (12, 3, False), (42, 3, True), (41, 3, False)):
        x = cloud(count, size)
        assert (survey(data_of(x, x[:, 0]), TEMPERATURE, {}) is not None) == climbed
    # Rollouts of the policy do not count.
    x = cloud(200)
    assert survey(data_of(x, bumps(x), first=11), TEMPERATURE, {}) is None
    assert survey(data_of(x, bumps(x), first=0), TEMPERATURE, {}) is None


@pytest.fixture(scope="module")
def surveyed():
    """Climbed by hand until three tops are known: the data and the climbs."""
    x, first = repeated(bumps, cloud())
    looks = {}
    for _ in range(8):
        data = data_of(x, bumps(x), first=first)
        found = survey(data, TEMPERATURE, looks)
        if not len(found.places):
            break
        x = np.concatenate([x, found.places])
    data = data_of(x, bumps(x), first=first)
    return data, survey(data, TEMPERATURE, looks)


def test_known_hills_are_solutions_the_highest_first(surveyed):
    data, found = surveyed
    assert_allclose(data.parameters[found.rows], CENTRES, atol=5e-3)
    assert np.all(np.diff(data.returns[found.rows]) < 0.0)
    assert len(found.widths) == 3
    assert np.all((found.widths >= 0.0) & (found.widths < 0.05))


def test_padding_and_rollouts_that_are_not_believed_do_not_count(surveyed):
    data, found = surveyed
    row = int(found.rows[0])
    mask = data.mask.copy()
    mask[row] = False
    other = survey(data._replace(mask=mask), TEMPERATURE, {})
    assert row not in other.rows
    assert np.all(mask[other.rows])
    assert other.summits[0] == row  # which is done once more
    assert np.all(mask[other.summits[1:]])
    assert_array_equal(
        survey(data._replace(returns=np.where(data.mask, data.returns, -1e3)), TEMPERATURE, {}).rows, found.rows
    )


def test_a_hill_far_below_the_best_is_no_solution(surveyed):
    """T decides: three of them, or half the way down to the typical return."""
    data, found = surveyed
    for temperature, count in ((0.005, 1), (0.015, 2), (0.2, 3)):
        least = data.returns[found.rows[0]] - 3.0 * temperature
        assert np.sum(data.returns[found.rows] >= least) == count
        rows = survey(data, temperature, {}).rows
        assert_array_equal(rows, found.rows[:count])


# ---------------------------------------------------------------- who holds which hill


def by_nearest(data, points, slots=4):
    """Options that have the rollouts nearest to their points."""
    kept = np.isin(np.arange(slots), list(points))
    return nearest(data, kept, points)


def test_rollouts_belong_to_the_nearest_point(surveyed):
    data, _ = surveyed
    found = by_nearest(data, {2: CENTRES[0], 0: CENTRES[1]})
    assert_array_equal(found.kept, [True, False, True, False])
    distance = np.linalg.norm(data.parameters[:, None] - CENTRES[None, :2], axis=2)
    own = np.where(distance[:, 0] < distance[:, 1], 2, 0)
    for row in np.flatnonzero(data.mask):
        assert_array_equal(found.responsibilities[:, row], np.arange(4) == own[row])
    assert np.all(found.responsibilities[:, ~data.mask] == 0.0)


def nobody(data, slots=4):
    kept = np.arange(slots) == 0
    return Latent(kept, kept[:, None] * data.mask[None].astype(float))


def test_where_nothing_is_known_every_hill_has_an_option(surveyed):
    data, climbs = surveyed
    held = hold(nobody(data), data, climbs, None, np.zeros((0, 2)))
    assert held.kept.sum() == 3
    slots = held.responsibilities[:, climbs.rows].argmax(axis=0)
    assert len(set(slots.tolist())) == 3
    assert np.all(held.kept[slots])
    # The highest hills, where there are fewer slots.
    few = hold(nobody(data, 2), data, climbs, None, np.zeros((0, 2)))
    assert few.kept.all()
    assert_array_equal(few.responsibilities[:, climbs.rows[:2]].sum(axis=0), 1.0)
    assert len(set(few.responsibilities[:, climbs.rows[:2]].argmax(axis=0).tolist())) == 2


def test_an_option_on_a_hill_keeps_its_slot_whatever_the_order(surveyed):
    data, climbs = surveyed
    tops = data.parameters[climbs.rows]
    for order in ([2, 0, 1], [3, 1, 0], [1, 3, 2]):
        means = np.full((4, 2), 9.0)
        means[order] = tops + 0.5 * NEAR / np.sqrt(2.0)
        before = np.isin(np.arange(4), order)
        held = hold(nobody(data), data, climbs, before, means)
        assert_array_equal(held.kept, before)
        assert_array_equal(held.responsibilities[:, climbs.rows].argmax(axis=0), order)


def test_a_new_hill_takes_a_slot_that_nobody_had(surveyed):
    """Slot 0 held an option that is far from every top: it is the last to be taken."""
    data, climbs = surveyed
    before, means = np.array([True, False, False, False]), np.full((4, 2), 9.0)
    assert_array_equal(hold(nobody(data), data, climbs, before, means).kept, [False, True, True, True])


def test_without_known_hills_options_stay_as_they_are(surveyed):
    data, climbs = surveyed
    none = climbs._replace(
        rows=climbs.rows[:0], known=climbs.known[:0], widths=climbs.widths[:0], close=climbs.close[:0]
    )
    found = nobody(data)
    assert hold(found, data, none, None, np.zeros((0, 2))) is found


def test_a_climb_belongs_to_the_option_whose_best_rollout_is_its_summit(surveyed):
    data, climbs = surveyed
    found = by_nearest(data, {2: CENTRES[0], 0: CENTRES[1]})
    third = int(np.flatnonzero(data.mask)[np.argmax(np.where(found.responsibilities[0][data.mask] > 0.5, 0.0, -1.0))])
    summits = np.array([climbs.rows[0], climbs.rows[1], climbs.rows[2], third])
    places = data.parameters[summits]
    got = owners(found, data, climbs._replace(places=places, summits=summits))
    best = {
        o: np.argmax(np.where((found.responsibilities[o] > 0.5) & data.mask, data.returns, -np.inf)) for o in (0, 2)
    }
    for summit, slot in zip(summits.tolist(), got.tolist(), strict=True):
        holder = [o for o, row in best.items() if row == summit]
        assert slot == (holder[0] if holder else -1)
    assert_array_equal(got[:3], [2, 0, -1])


# ---------------------------------------------------------------- where options stand


def policies_at(means, deviation):
    """Four options at these means [4, 2]."""
    Sigma = np.tile(deviation**2 * np.eye(2), (len(means), 1, 1))
    return LinearGaussian(np.asarray(means), np.zeros((len(means), 0, 2)), np.asarray(Sigma))


def test_options_stand_on_the_tops_of_their_hills(surveyed):
    data, climbs = surveyed
    points = {2: CENTRES[0], 0: CENTRES[1], 3: CENTRES[2]}
    found = by_nearest(data, points)
    means = np.full((4, 2), 0.5)
    placed = on_tops(policies_at(means, 0.4), data, found, climbs)
    for o, row, width in zip((2, 0, 3), climbs.rows, climbs.widths, strict=True):
        assert_array_equal(placed.b[o], data.parameters[row])
        assert_allclose(placed.Sigma[o], max(width, NARROWEST) ** 2 * np.eye(2))
    # No option, no hill: nothing changes.
    assert_array_equal(placed.b[1], means[1])
    assert_allclose(placed.Sigma[1], 0.16 * np.eye(2))


def test_an_optimum_that_is_close_and_known_to_be_stays(surveyed):
    data, climbs = surveyed
    found = by_nearest(data, {2: CENTRES[0]})
    top, close = data.parameters[climbs.rows[0]], 0.01
    near = climbs._replace(close=np.full(3, close))
    for away, deviation, stays in (
        (0.9 * close, 0.9 * close, True),
        (1.1 * close, 0.9 * close, False),
        (0.9 * close, 1.1 * close, False),
    ):
        means = np.tile(top + np.array([away, 0.0]), (4, 1))
        placed = on_tops(policies_at(means, deviation), data, found, near)
        assert_array_equal(placed.b[2], means[2] if stays else top)


# ---------------------------------------------------------------- the learner

SIZES = {"initial_rollouts": 128, "expected_rollouts": 192, "max_options": 4}
LOWEST, HIGHEST = np.array([10.0, -3.0]), np.array([12.0, 5.0])


def returns(xi):
    """Three narrow maxima, one of them at a bound, in units of its own."""
    x = 2.0 * HALF * (xi - LOWEST) / (HIGHEST - LOWEST) - HALF
    return 500.0 + 80.0 * bumps(x, np.array([[-1.0, -0.9], [0.9, -1.0], [0.1, HALF]]), 0.25)


def make(**changes):
    return hpsde.HPSDE(0, 2, initial=hpsde.Uniform(LOWEST, HIGHEST), **(SIZES | changes))


def step(learner, count=8, function=returns):
    proposal = learner.ask(count=count)
    learner.tell(None, proposal.parameters, function(proposal.parameters))
    return proposal


class Course:
    """A learner's proposals, and after every learning step its options' means and numbers, how many rollouts climbs ask
    for, and what is left to gain.
    """

    def __init__(self, steps=7, function=returns, **changes):
        self.learner = make(**changes)
        self.asked = [step(self.learner, 128, function)]
        self.means, self.numbers, self.climbs, self.to_gain = [], [], [], []
        for _ in range(steps):
            self.asked.append(step(self.learner, 8, function))
            policy = self.learner._policy
            self.means.append(policy.option_means(np.zeros((1, 0)))[:, 0])
            self.numbers.append(policy.option_numbers)
            self.climbs.append(len(self.learner._state.climbs))
            self.to_gain.append(self.learner.info.to_gain)


@pytest.fixture(scope="module")
def course():
    return Course()


TOPS = LOWEST + (HIGHEST - LOWEST) * (np.array([[-1.0, -0.9], [0.9, -1.0], [0.1, HALF]]) / (2.0 * HALF) + 0.5)


def test_all_maxima_are_learned_with_a_few_rollouts(course):
    policy = course.learner.policy
    means = policy.option_means(np.zeros((1, 0)))[:, 0]
    away = np.linalg.norm((means[:, None] - TOPS[None]) / (HIGHEST - LOWEST), axis=2)
    assert sorted(away.argmin(axis=1).tolist()) == [0, 1, 2]
    peaks = returns(TOPS)[away.argmin(axis=1)]
    assert np.max(peaks - returns(means)) < 1e-3 * 80.0


def test_every_option_is_as_good_as_the_best_rollout_on_its_hill(course):
    told = course.learner.rollouts
    means = course.learner.policy.option_means(np.zeros((1, 0)))[:, 0]
    for mean in means:
        near = np.linalg.norm((told.parameters - mean) / (HIGHEST - LOWEST), axis=1) < 0.05
        assert near.any()
        assert returns(mean[None])[0] > told.returns[near].max() - 1e-6 * 80.0


def test_nothing_is_proposed_outside_the_bounds(course):
    for proposal in course.asked:
        assert np.all((proposal.parameters >= LOWEST) & (proposal.parameters <= HIGHEST))
        assert np.all(np.isfinite(proposal.log_density))


def test_the_first_climbs_repeat_two_rollouts(course):
    first, second = (each.parameters for each in course.asked[:2])
    again = [np.any(np.all(first == each, axis=1)) for each in second]
    best, middle = np.argsort(-returns(first), kind="stable")[[0, 64]]
    assert sum(again) == 0 or {tuple(first[best]), tuple(first[middle])} >= {tuple(each) for each in second[again]}
    near = np.linalg.norm((first[[best, middle]][:, None] - second[None]) / (HIGHEST - LOWEST), axis=2).min(axis=1)
    assert_allclose(near, 0.0, atol=1e-12)


def test_what_no_climb_asks_for_goes_where_no_rollout_is_near(course):
    """Once all hills are climbed: in place of the options' own rollouts, and as rollouts of the initial policy."""
    for scouts, spread in ((0.5, True), (0.0, False)):
        learner = deepcopy(course).learner if scouts else Course(scouts=0.0).learner
        while len(learner._state.climbs):
            step(learner)
            learner.policy  # noqa: B018 - it learns
        proposal = learner.ask(count=16)
        assert np.all(proposal.option == -1) == spread
        unit, told = HIGHEST - LOWEST, learner.rollouts
        away = np.linalg.norm((proposal.parameters[:, None] - told.parameters[None]) / unit, axis=2).min(axis=1)
        first = int(np.sum(told.behaviour == 0))
        assert np.all(away >= 0.4 * first**-0.5 * 0.99) == spread


def test_nothing_ends_while_hills_are_climbed(course):
    climbed = np.array(course.climbs) > 0
    assert climbed.sum() > 2
    assert np.all(np.array(course.to_gain)[climbed] == np.inf)


def test_an_option_keeps_its_number_while_its_hill_is_there(course):
    """Once an option stands on a top, the option on that top has the same number ever after."""
    seen = {}
    for means, numbers in zip(course.means, course.numbers, strict=True):
        away = np.linalg.norm((means[:, None] - TOPS[None]) / (HIGHEST - LOWEST), axis=2)
        now = {int(away[o].argmin()): int(numbers[o]) for o in range(len(numbers)) if away[o].min() < 0.02}
        assert {hill: now.get(hill) for hill in seen} == seen
        seen |= now
    assert len(seen) == 3
    assert len(set(seen.values())) == 3


def test_learners_of_one_seed_propose_the_same(course):
    other = Course(steps=3)
    for one, two in zip(other.asked, course.asked, strict=False):
        assert_array_equal(one.parameters, two.parameters)
        assert_array_equal(one.option, two.option)
    assert not np.array_equal(make(seed=1).ask(count=8).parameters, make(seed=0).ask(count=8).parameters)


def test_single_asks_do_not_repeat_a_climb_before_the_next_learning_step():
    """Rollouts are taken in one by one; the policy, and what climbs ask for, stay as they are."""
    learner = make()
    step(learner, 128)
    for _ in range(2):
        step(learner)
    learner.policy  # noqa: B018 - learns
    wanted = learner._frame.units.raw_parameters(learner._state.climbs)
    assert len(wanted) >= 2
    seen = []
    for _ in range(len(wanted) + 3):
        proposal = learner.propose(np.zeros((1, 0)), True)
        seen.append(proposal.parameters[0])
        none = np.zeros(1, dtype=bool)
        behaviour = np.where(proposal.option == INITIAL, 0, learner.info.updates)
        learner.observe(np.zeros((1, 0)), proposal.parameters, returns(proposal.parameters), none, proposal.option,
                        behaviour, proposal.number)  # fmt: skip
    seen = np.array(seen)
    hits = np.all(seen[:, None] == wanted[None], axis=2)
    assert_array_equal(hits.sum(axis=0), 1)  # each of them once
    assert_array_equal(hits[: len(wanted)].sum(axis=1), 1)  # and they come first


def test_noisy_returns_are_not_climbed():
    rng = np.random.default_rng(0)

    def noisy(xi):
        return returns(xi) + 8.0 * rng.normal(size=len(xi))

    learner = make()
    step(learner, 128, noisy)
    learner.policy  # noqa: B018 - learns
    assert len(learner._state.climbs) == 2
    step(learner, 8, noisy)
    learner.policy  # noqa: B018 - learns
    assert len(learner._state.climbs) == 0


def test_climbs_go_where_options_are_refined_only():
    learner = make(refine=False)
    step(learner, 128)
    learner.policy  # noqa: B018 - learns
    assert len(learner._state.climbs) == 0
    assert SIZES["max_options"] <= climbers.MOST


# ---------------------------------------------------------------- runs


def create(folder):
    return hpsde.Run.create(
        folder, initial=hpsde.Uniform(LOWEST, HIGHEST), context_size=0, rollouts=192, batch=8, seed=3,
        **{name: value for name, value in SIZES.items() if name != "expected_rollouts"},
    )  # fmt: skip


def test_a_run_that_is_opened_again_in_the_middle_of_its_climbs_goes_on_to_the_same_policy(tmp_path):
    """With its state, and without: then all is learned again from its rollouts."""
    files, asked = [], []
    for how in ("keep", "reopen", "delete"):
        folder = tmp_path / how
        run, seen = create(folder), []
        for count in (128, 8, 8, 3, 8, 8):
            rollouts = run.ask(count=count)
            xi = np.array([each.parameters for each in rollouts])
            seen.append(xi)
            run.tell([each.id for each in rollouts], returns(xi))
            if how != "keep" and count < 128:
                run.close()
                if how == "delete":
                    (folder / "learner.npz").unlink()
                run = hpsde.Run.open(folder)
        run.policy.save(tmp_path / f"{how}.npz")
        run.close()
        files.append((tmp_path / f"{how}.npz").read_bytes())
        asked.append(np.concatenate(seen))
    assert files[0] == files[1] == files[2]
    for other in asked[1:]:
        assert_array_equal(other, asked[0])


def test_a_run_that_is_asked_one_by_one_repeats_no_climb(tmp_path):
    """A run tells its learner at the next learning step: until then it says what it has asked for."""
    run = hpsde.Run.create(
        tmp_path / "run", initial=hpsde.Uniform(LOWEST, HIGHEST), initial_rollouts=128, rollouts=192, batch=32, seed=3
    )
    run.add(None, *(first := first_rollouts(128)), source="test")
    asked = []
    for _ in range(40):
        (rollout,) = run.ask(count=1)
        asked.append(rollout.parameters)
        run.tell(rollout.id, float(returns(rollout.parameters[None])[0]))
    asked = np.array(asked)
    repeated = np.any(np.all(np.abs(asked[:, None] - first[0][None]) < 1e-9, axis=2), axis=1)
    assert repeated.sum() == 2  # those show whether returns are noisy
    assert len(np.unique(asked, axis=0)) == len(asked)


def first_rollouts(count):
    """Uniform parameters and their returns."""
    parameters = np.random.default_rng(5).uniform(LOWEST, HIGHEST, (count, 2))
    return parameters, returns(parameters)


# ---------------------------------------------------------------- rollouts that fail or leave the initial policy


def test_without_bounds_a_climb_out_of_the_initial_policy_can_be_told():
    """The return rises beyond the edges of the initial policy; nobody owns most of its hills."""

    def saddle(xi):
        x = 2.0 * (xi - LOWEST) / (HIGHEST - LOWEST) - 1.0
        return x[:, 0] * x[:, 1] + 0.2 * x[:, 0]

    learner = make(bounds=None)
    outside = False
    for count in (128, 8, 8, 8, 8):
        proposal = learner.ask(count=count)
        outside |= bool(np.any((proposal.parameters < LOWEST) | (proposal.parameters > HIGHEST)))
        learner.tell(None, proposal.parameters, saddle(proposal.parameters))
    assert outside


def test_a_climb_that_fails_is_not_asked_for_again():
    """The best place of all is one where every rollout fails."""
    learner = make()
    for count in (130, *(4,) * 12):
        proposal = learner.ask(count=count)
        away = np.linalg.norm((proposal.parameters - TOPS[0]) / (HIGHEST - LOWEST), axis=1)
        told = np.where(away < 0.04, np.nan, returns(proposal.parameters))
        learner.tell(None, proposal.parameters, told, failed=np.isnan(told))
    assert learner.rollouts.failed[130:].sum() > 0
    lost = learner.rollouts.parameters[learner.rollouts.failed]
    assert len(np.unique(lost, axis=0)) == len(lost)


# ---------------------------------------------------------------- crests that bend


def rosenbrock(x):
    return -np.sum(100.0 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1.0 - x[:, :-1]) ** 2, axis=1)


def two_arcs(x):
    """Two crests along parts of circles, the one bent upwards and the other one downwards."""

    def crest(centre, side):
        away = x - centre
        angle = np.arctan2(side * away[:, 1], away[:, 0]) - np.pi / 2.0
        angle = (angle + np.pi) % (2.0 * np.pi) - np.pi
        return np.exp(-0.5 * ((np.hypot(*away.T) - 1.0) / 0.12) ** 2 - 0.5 * (angle / 0.8) ** 2)

    return np.maximum(crest([-0.5, -0.3], 1.0), crest([0.5, 0.3], -1.0))


@pytest.mark.parametrize(
    ("function", "initial", "tops"),
    [
        (rosenbrock, hpsde.Uniform([-2.0, -1.0], [2.0, 3.0]), [[1.0, 1.0]]),
        (two_arcs, hpsde.Uniform([-2.0, -2.0], [2.0, 2.0]), [[-0.5, 0.7], [0.5, -0.7]]),
    ],
    ids=["one", "two"],
)
def test_a_crest_that_bends_is_one_solution(function, initial, tops):
    policy = hpsde.learn(function, initial=initial, batched=True, rollouts=300, seed=3, progress=False)
    means = policy.option_means()[:, 0]
    assert_allclose(means[np.argsort(means[:, 0])], tops, atol=1e-3)
