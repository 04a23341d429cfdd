"""Latent options: solutions of a known landscape, where samples start, what they weigh, and the paper's own form."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hpsde.mixture import estimation as density
from hpsde.mixture.estimation import Mixture
from hpsde.settings import Settings
from hpsde.steps import discovery, latent
from hpsde.steps.discovery import Last
from hpsde.steps.features import make_features
from hpsde.steps.gaussian import LinearGaussian, means
from hpsde.steps.latent import chain_starts, estimate_density, find_solutions, nothing_known, sample_counts, show
from hpsde.steps.return_model import approximate_return, survey
from hpsde.steps.rollouts import Data
from hpsde.steps.surface import Start
from hpsde.steps.weighing import compute_weights

KEY = jax.random.key(0)
ROWS, COUNT, S, D, O, SAMPLES = 224, 200, 1, 2, 4, 512
SETTINGS = Settings(max_options=O)


@pytest.fixture(scope="module")
def data():
    """Best where the first parameter is 1 or -1, a little higher with the context, and the second is 0."""
    rng = np.random.default_rng(0)
    mask = np.arange(ROWS) < COUNT
    contexts, parameters = rng.normal(size=(ROWS, S)), rng.normal(size=(ROWS, D))
    at = np.abs(parameters[:, 0] - 0.1 * contexts[:, 0])
    returns = np.exp(-3.0 * (at - 1.0) ** 2 - 0.5 * parameters[:, 1] ** 2)
    arrays = (contexts, parameters, returns, contexts + 5.0, np.zeros(ROWS), mask, mask & (np.arange(ROWS) < 120))
    return Data(*arrays, rollouts=COUNT)


@pytest.fixture(scope="module")
def known(data):
    """The landscape and the weights."""
    approximated, _ = approximate_return(KEY, data, np.ones(S + D), Start(), np.zeros(0, dtype=bool), SETTINGS)
    found = survey(KEY, data, approximated, np.ones(S + D), None, SETTINGS)
    return found, compute_weights(data, None, SETTINGS)


@pytest.fixture(scope="module")
def solutions(data, known):
    return find_solutions(KEY, data, known[0], show(data, known[0]), True, known[1], None, SETTINGS)


def options_at(offsets=(1.0, -1.0)):
    """Options with these first parameters; features are contexts + 5."""
    b = np.array([[offset - 0.5, 0.0] for offset in (*offsets, *[0.0] * (O - len(offsets)))])
    w = np.tile([[0.1, 0.0]], (O, 1, 1))
    policies = LinearGaussian(np.asarray(b), np.asarray(w), np.tile(0.01 * np.eye(D), (O, 1, 1)))
    return Last(policies, np.arange(O) < len(offsets), np.zeros(O, dtype=bool))


# ---------------------------------------------------------------- solutions


def test_where_nothing_is_known_one_option_has_all_rollouts(data):
    found = nothing_known(data, SETTINGS)
    assert_array_equal(found.kept, [True, False, False, False])
    assert_array_equal(found.responsibilities[0], data.mask)
    assert not found.responsibilities[1:].any()
    assert found.found is None


def test_the_two_solutions_are_found_and_rollouts_belong_to_their_side(data, solutions):
    assert solutions.kept.sum() == 2
    policies = discovery.component_policies(solutions.found, O)
    at = np.asarray(means(policies, np.asarray([[5.0]])))[solutions.kept, 0, 0]
    assert_allclose(np.sort(at), [-1.0, 1.0], atol=0.15)
    side = np.asarray(data.parameters[:, 0] > 0.1 * data.contexts[:, 0])
    near = data.mask & (np.abs(np.abs(data.parameters[:, 0] - 0.1 * data.contexts[:, 0]) - 1.0) < 0.5)
    owner = solutions.responsibilities.argmax(axis=0)
    assert np.all(solutions.kept[owner[data.mask]])
    right = np.flatnonzero(solutions.kept)[np.argmax(at)]
    assert np.mean((owner == right)[near] == side[near]) > 0.97


def test_a_rollout_is_of_one_option_and_padding_is_of_none(data, solutions):
    assert_array_equal(solutions.responsibilities.sum(axis=0), data.mask)
    assert set(np.unique(solutions.responsibilities)) == {0.0, 1.0}


@pytest.mark.parametrize("offsets", [(1.0, -1.0), (-1.0, 1.0)])
def test_options_that_were_there_keep_their_slots(data, known, offsets):
    found = find_solutions(KEY, data, known[0], show(data, known[0]), False, known[1], options_at(offsets), SETTINGS)
    assert_array_equal(found.kept, [True, True, False, False])
    assert found.warm
    assert not found.found.born.any()
    b = np.asarray(means(discovery.component_policies(found.found, O), np.asarray([[5.0]])))[:2, 0, 0]
    assert_array_equal(np.sign(b), np.sign(offsets))


def test_the_key_decides_and_ignorance_is_a_share(data, known, solutions):
    again = find_solutions(KEY, data, known[0], show(data, known[0]), True, known[1], None, SETTINGS)
    assert_array_equal(again.responsibilities, solutions.responsibilities)
    assert again.bound == solutions.bound
    assert 0.0 < solutions.found.unexplored < 1.0
    assert solutions.new


def test_solutions_that_were_found_before_are_those_that_rollouts_are_assigned_to(data, solutions):
    again = latent.as_found(data, solutions.found)
    assert not again.new
    assert_array_equal(again.responsibilities, solutions.responsibilities)
    fewer = latent.as_found(data._replace(mask=data.mask & (np.arange(ROWS) < 50)), solutions.found)
    assert_array_equal(fewer.responsibilities[:, :50], solutions.responsibilities[:, :50])
    assert not fewer.responsibilities[:, 50:].any()


def test_an_option_that_has_just_been_born_shares_the_rollouts_of_the_others_until_the_next_search(data, known):
    last = options_at((1.0,))
    first = find_solutions(KEY, data, known[0], show(data, known[0]), False, known[1], last, SETTINGS)
    assert_array_equal(first.kept, [True, True, False, False])
    assert_array_equal(first.found.born, [False, True, False, False])
    # The old option has all rollouts, as it had alone; the new one has those that are its own.
    assert_allclose(first.responsibilities[0], data.mask, atol=1e-9)
    side = np.asarray(data.parameters[:, 0] > 0.1 * data.contexts[:, 0])
    near = data.mask & (np.abs(np.abs(data.parameters[:, 0] - 0.1 * data.contexts[:, 0]) - 1.0) < 0.5)
    assert np.mean(first.responsibilities[1, near & ~side]) > 0.95
    assert np.mean(first.responsibilities[1, near & side]) < 0.05
    assert not first.responsibilities[:, ~data.mask].any()
    # No search, no change.
    assert_array_equal(latent.as_found(data, first.found).responsibilities, first.responsibilities)
    options = discovery.component_policies(first.found, O)
    none = np.zeros(O, dtype=bool)
    later = find_solutions(
        KEY, data, known[0], show(data, known[0]), False, known[1], Last(options, first.kept, none), SETTINGS
    )
    assert_array_equal(later.kept, first.kept)
    assert not later.found.born.any()
    assert_allclose(later.responsibilities.sum(axis=0), data.mask, atol=1e-9)
    assert np.mean(later.responsibilities[0, near & ~side]) < 0.05
    assert np.mean(later.responsibilities[1, near & ~side]) > 0.95


def test_where_all_options_have_just_been_born_none_shares(data, solutions):
    """As at first; an option that does not exist any more has no say."""
    assert_array_equal(solutions.found.born, solutions.kept)
    assert_array_equal(solutions.responsibilities.sum(axis=0), data.mask)
    one = np.arange(O) == np.flatnonzero(solutions.kept)[0]
    old = latent.as_found(data, solutions.found._replace(born=solutions.kept & ~one))
    assert_array_equal(old.responsibilities[one][0], data.mask)
    assert_array_equal(old.responsibilities[~one], solutions.responsibilities[~one])


# ---------------------------------------------------------------- samples


def test_the_first_samples_start_at_initial_rollouts(data):
    rows, starts = chain_starts(np.random.default_rng(0), data, np.zeros(ROWS), None, SAMPLES)
    assert len(rows) == SAMPLES
    assert set(rows) == set(range(120))
    assert_array_equal(starts, data.joint[rows])
    # Where none is left of the initial policy's, any will do.
    nobody = data._replace(initial=np.zeros(ROWS, dtype=bool))
    assert set(chain_starts(np.random.default_rng(0), nobody, np.zeros(ROWS), None, SAMPLES)[0]) == set(range(COUNT))


def test_later_some_start_at_rollouts_of_weight_and_some_at_the_options(data):
    share = np.zeros(ROWS)
    share[150:153] = 2.0
    last = options_at()
    rows, starts = chain_starts(np.random.default_rng(0), data, share, last, SAMPLES)
    half, quarter = SAMPLES // 2, SAMPLES // 4
    assert set(rows[:half]) == set(range(120))
    assert set(rows[half : half + quarter]) == {150, 151, 152}
    assert_array_equal(starts[: half + quarter], data.joint[rows[: half + quarter]])
    of_options, at = starts[half + quarter :], rows[half + quarter :]
    assert np.all(data.mask[at])
    assert_array_equal(of_options[:, :S], data.contexts[at])
    wanted = np.asarray(means(last.options, np.asarray(data.features[at])))[[0, 1]]
    nearest = np.min(np.linalg.norm(wanted - of_options[None, :, S:], axis=2), axis=0)
    assert_allclose(nearest, 0.0, atol=1e-12)
    assert_allclose(np.mean(of_options[:, S] > 0.1 * of_options[:, 0]), 0.5, atol=0.01)


def test_counts_are_advantages_over_the_context_and_sum_to_their_effective_number(data):
    """Scores that are the context's alone weigh all alike; a higher score weighs exp(difference / T) more."""
    rows = np.resize(np.arange(COUNT), 600)
    even = sample_counts(data, rows, 3.0 * data.contexts[rows, 0], 0.5, SETTINGS)
    assert_allclose(even, even.mean(), rtol=0.03)  # the baseline has a small ridge
    assert_allclose(even.sum(), min(600.0, discovery.MOST_COUNTS), rtol=1e-3)
    constant = np.zeros(600, dtype=int)
    scores = np.where(np.arange(600) % 2 == 0, 0.2, 0.0)
    counts = sample_counts(data, constant, scores, 0.5, SETTINGS)
    assert_allclose(counts[0] / counts[1], np.exp(0.4), rtol=1e-6)
    share = counts / counts.sum()
    assert_allclose(counts.sum(), min(1.0 / np.sum(share**2), discovery.MOST_COUNTS), rtol=1e-6)


# ---------------------------------------------------------------- joint Gaussians


def joint(**changes):
    return Settings(**({"max_options": O, "density": "vb"} | changes))


@pytest.mark.parametrize("method", ["vb", "em"])
def test_joint_gaussians_tell_the_two_sides_apart(data, known, method):
    found = estimate_density(KEY, data, known[1], None, joint(density=method))
    assert found.found is None
    owner = found.responsibilities.argmax(axis=0)
    good = np.asarray(known[1].weights) > np.quantile(np.asarray(known[1].weights)[:COUNT], 0.9)
    side = data.parameters[good, 0] > 0.0
    assert found.kept.sum() >= 2
    for o in np.flatnonzero(found.kept):
        mine = side[owner[good] == o]
        assert len(mine) == 0 or mine.all() or not mine.any()
    assert_array_equal(found.responsibilities.sum(axis=0), data.mask)


def watched_counts(monkeypatch, data, importance, last=None, mass=(20.0, 30.0, 10.0, 0.1), **changes):
    """What the density estimation is given: points, counts and the start; and what is made of its answer."""
    seen, size = {}, changes.get("embedding_dimensions", S + D)
    mass = np.array(mass)
    centres = np.random.default_rng(1).normal(size=(O, size))
    parts = (mass + 0.1, mass + 1.0, centres, mass + size, (mass + size)[:, None, None] * np.eye(size), mass)
    mixture = Mixture(*map(np.asarray, parts))

    def fit(key, x, counts, prior, *, warm, **more):
        seen.update(x=np.asarray(x), counts=np.asarray(counts), warm=warm)
        info = density.MixtureFitInfo(*map(np.asarray, (0.0, True, 1, 1, np.zeros(2), np.ones(2))))
        return mixture, info

    monkeypatch.setattr(density, "fit", fit)
    return seen, estimate_density(KEY, data, importance, last, joint(**changes))


@pytest.mark.parametrize(("name", "total"), [("ess", None), ("n", COUNT), ("one", 1.0)])
def test_weights_sum_to_what_settings_say(monkeypatch, data, known, name, total):
    seen, _ = watched_counts(monkeypatch, data, known[1], weight_sum=name)
    share = np.asarray(known[1].weights)
    total = share.sum() ** 2 / np.sum(share**2) if total is None else total
    assert_allclose(seen["counts"], share * total, rtol=1e-6)
    assert_array_equal(seen["x"], data.joint)


def test_the_last_mixture_is_a_start_but_not_of_an_embedding(monkeypatch, data, known):
    last = Mixture(*(np.ones(1) for _ in range(6)))
    seen, found = watched_counts(monkeypatch, data, known[1], last)
    assert seen["warm"] is last
    assert found.warm
    seen, found = watched_counts(monkeypatch, data, known[1], last, embedding_dimensions=2)
    assert seen["warm"] is None
    assert not found.warm
    assert seen["x"].shape == (ROWS, 2)


@pytest.mark.parametrize("mass", [(20.0, 30.0, 10.0, 0.1), (20.0, 0.0, 1e-9, 0.0), (0.0, 0.0, 7.0, 0.0)])
def test_a_gaussian_without_mass_is_no_option(monkeypatch, data, known, mass):
    _, found = watched_counts(monkeypatch, data, known[1], mass=mass)
    assert_array_equal(np.asarray(found.mixture.mass) > 0.0, np.array(mass) > 0.0)
    assert found.kept[np.argmax(mass)]
    assert not found.kept[np.array(mass) == 0.0].any()
    assert not found.responsibilities[~found.kept].any()
    assert_allclose(found.responsibilities.sum(axis=0), data.mask, atol=1e-9)


def test_a_gaussian_without_a_rollout_of_its_own_is_no_option(monkeypatch, data, known):
    _, found = watched_counts(monkeypatch, data, known[1])
    assert_array_equal(found.kept, found.responsibilities.sum(axis=1) > 0.0)
    assert latent._assigned(np.array([[0.2, 0.9], [0.8, 0.1]])).tolist() == [[0.0, 1.0], [1.0, 0.0]]


# ---------------------------------------------------------------- features


def bent(by, count=400, noise=0.0):
    """Returns that are best on two curves over the context, `by` of them bent, and a landscape of them."""
    rng = np.random.default_rng(1)
    mask = np.ones(count, dtype=bool)
    contexts, parameters = rng.uniform(-1.7, 1.7, size=(count, 1)), rng.uniform(-1.7, 1.7, size=(count, 1))
    curve = by(contexts[:, 0])
    nearest = np.min([np.abs(parameters[:, 0] - curve - offset) for offset in (0.8, -0.8)], axis=0)
    returns = np.exp(-0.5 * (nearest / 0.25) ** 2) + noise * rng.normal(size=count)
    made = Data(contexts, parameters, returns, contexts, np.zeros(count), mask, mask, rollouts=count)
    approximated, _ = approximate_return(KEY, made, np.ones(2), Start(), np.zeros(0, dtype=bool), SETTINGS)
    found = survey(KEY, made, approximated, np.ones(2), None, SETTINGS)
    names = ("linear", "quadratic", "squared-exponential")
    candidates = [make_features(name, contexts, trend=True)(contexts) for name in names]
    return names[latent.choose_features(KEY, made, found, candidates, SETTINGS)]


def test_curves_get_squared_exponentials_and_what_is_nearly_straight_a_quadratic():
    assert bent(lambda s: 0.5 * np.sin(3.0 * s)) == "squared-exponential"
    assert bent(lambda s: 0.3 * s) == "quadratic"
    assert bent(lambda s: 0.2 * s**2) == "quadratic"
    assert bent(lambda s: 0.3 * s, noise=0.3) == "quadratic"


def test_with_few_rollouts_options_are_lines(monkeypatch):
    monkeypatch.setattr(latent, "PER_NUMBER", 200)
    assert bent(lambda s: 0.5 * np.sin(3.0 * s)) == "linear"


def test_features_that_cost_far_more_than_they_gain_are_not_taken(monkeypatch):
    monkeypatch.setattr(latent, "SLIGHT", 0.0)
    assert bent(lambda s: 0.3 * s) == "linear"
