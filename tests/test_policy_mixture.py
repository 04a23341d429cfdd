"""A mixture of option policies: its bound against scipy's densities, what joining gains, and what must not matter."""

import numpy as np
import pytest
import scipy.spatial
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln

from hpsde.base.compilations import count_compilations
from hpsde.mixture import conditional as pm
from hpsde.mixture.conditional import MixtureStart, WeightedSamples

K, F, N, B = 2, 2, 150, 6  # B components, then the background
SLOPES = np.array([[[1.0, 0.0], [0.5, -0.5]], [[-1.0, 0.5], [0.5, 0.0]], [[0.0, -2.0], [-0.5, 1.0]]])  # [C, F, K]


def make_samples(n=N, seed=0, spread=0.1):
    """Samples of three policies, one third each, with unequal counts; features are a constant and a number."""
    rng = np.random.default_rng(seed)
    phi = np.stack([np.ones(n), rng.normal(size=n)], axis=1)
    label = np.arange(n) % 3
    y = np.einsum("nf,nfk->nk", phi, SLOPES[label]) + spread * rng.normal(size=(n, K))
    log_background = scipy.stats.multivariate_normal(np.zeros(K), 4.0 * np.eye(K)).logpdf(y)
    counts = rng.uniform(0.2, 1.5, n)
    return WeightedSamples(*map(np.asarray, (y, phi, counts, log_background))), label


def some_responsibilities(n=N, seed=1):
    """Of four components, two that are inactive, and the background."""
    r = np.random.default_rng(seed).dirichlet(np.ones(B + 1), size=n).T
    active = np.arange(B) < 4
    r[:-1][~active] = 0.0
    return np.asarray(r / r.sum(axis=0)), np.asarray(active)


def bound_of(r, active, samples):
    """The bound at these responsibilities."""
    return pm.climb(r, active, samples, steps=0)[1]


def start(samples, components=B, seed=0):
    points = np.concatenate([np.asarray(samples.y), np.asarray(samples.phi)[:, 1:]], axis=1)
    rng = np.random.default_rng(seed)
    labels = pm.spread_labels(rng, points, np.asarray(samples.counts), components)
    return MixtureStart(labels, components, pm.nearest_neighbours(points))


# ---------------------------------------------------------------- the bound


def test_the_marginal_likelihood_of_a_component_is_the_product_of_its_predictive_densities():
    """Samples one by one, each predicted from those before by scipy's multivariate t."""
    samples, _ = make_samples(20, spread=0.5)
    y, phi = np.asarray(samples.y), np.asarray(samples.phi)
    Lambda, M, S, nu = pm.LAMBDA_0 * np.eye(F), np.zeros((F, K)), pm.SPREAD_0**2 * np.eye(K), K + 2.0
    total = 0.0
    for target, at in zip(y, phi, strict=True):
        degrees = nu - K + 1.0
        scale = S * (1.0 + at @ np.linalg.solve(Lambda, at)) / degrees
        total += scipy.stats.multivariate_t(M.T @ at, scale, degrees).logpdf(target)
        more = Lambda + np.outer(at, at)
        new = np.linalg.solve(more, Lambda @ M + np.outer(at, target))
        S = S + np.outer(target, target) + M.T @ Lambda @ M - new.T @ more @ new
        Lambda, M, nu = more, new, nu + 1.0
    stats = pm._statistics(np.ones((1, 20)), samples)
    found_M, found_Lambda, found_S, found_nu = pm._component(stats)
    assert_allclose(pm._log_marginal(stats)[0], total, rtol=1e-9)
    for one, other in ((found_M, M), (found_Lambda, Lambda), (found_S, S), (found_nu, nu)):
        assert_allclose(one[0], other, rtol=1e-7, atol=1e-9)


def test_a_component_without_samples_has_the_prior_and_no_likelihood():
    samples, _ = make_samples(9)
    stats = pm._statistics(np.zeros((1, 9)), samples)
    M, _, S, nu = pm._component(stats)
    assert_allclose(pm._log_marginal(stats), 0.0, atol=1e-9)
    assert_allclose(M, 0.0, atol=1e-12)
    assert_allclose(S[0], pm.SPREAD_0**2 * np.eye(K))
    assert_allclose(nu, K + 2.0)


def test_the_bound_of_sure_responsibilities_is_the_evidence_of_labelled_samples():
    """Dirichlet-multinomial of the labels, the components' marginal likelihoods, the background's density."""
    samples, label = make_samples()
    counts = np.asarray(samples.counts)
    label = np.where(np.arange(N) % 7 == 0, B, label)  # some belong to the background, none to components 3, 4, 5
    r = np.asarray((np.arange(B + 1)[:, None] == label).astype(float))
    n = np.asarray(r) @ counts
    truth = gammaln((B + 1) * pm.ALPHA_0) - gammaln((B + 1) * pm.ALPHA_0 + n.sum())
    truth += np.sum(gammaln(pm.ALPHA_0 + n) - gammaln(pm.ALPHA_0))
    truth += counts[label == B] @ np.asarray(samples.log_background)[label == B]
    for o in range(3):
        mine = np.asarray((label == o) * counts)[None]
        truth += float(pm._log_marginal(pm._statistics(mine, samples))[0])
    assert_allclose(bound_of(r, np.arange(B) < 3, samples), truth, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_never_falls_under_a_climb(seed):
    samples, _ = make_samples()
    r, active = some_responsibilities(seed=seed)
    bounds = [float(bound_of(r, active, samples))]
    for _ in range(pm.EM_STEPS):
        r, bound = pm.climb(r, active, samples, steps=1)
        bounds.append(float(bound))
    assert np.all(np.diff(bounds) > -1e-8)
    assert bounds[-1] > bounds[0] + 10.0
    several, bound = pm.climb(some_responsibilities(seed=seed)[0], active, samples, steps=pm.EM_STEPS)
    assert_allclose(several, r, atol=1e-9)
    assert_allclose(bound, bounds[-1], rtol=1e-10)
    assert_array_equal(np.asarray(r)[4:B], 0.0)  # what is inactive stays so
    assert_allclose(np.sum(r, axis=0), 1.0, rtol=1e-12)


def test_one_program_takes_any_number_of_steps():
    samples, _ = make_samples()
    r, active = some_responsibilities()
    one, _ = pm.climb(r, active, samples, steps=1)
    two, bound = pm.climb(r, active, samples, steps=2)
    with count_compilations() as compiled:
        again, same = pm.climb(one, active, samples, steps=1)
        pm.climb(r, active, samples, steps=7)
    assert compiled.count == 0
    assert_allclose(again, two, atol=1e-12)
    assert same == pytest.approx(float(bound), rel=1e-12)


def test_what_joining_gains_is_the_difference_of_bounds_from_scratch():
    samples, _ = make_samples()
    r, active = some_responsibilities()
    gains = np.asarray(pm.join_gains(r, active, samples))
    before = float(bound_of(r, active, samples))
    for a in range(B):
        for b in range(B):
            if a == b or max(a, b) > 3:
                assert np.isneginf(gains[a, b])
                continue
            joined = np.asarray(r).copy()
            joined[a] += joined[b]
            joined[b] = 0.0
            after = float(bound_of(np.asarray(joined), active & (np.arange(B) != b), samples))
            assert_allclose(gains[a, b], after - before, rtol=1e-8, atol=1e-7)


# ---------------------------------------------------------------- the fit


def test_a_fit_finds_the_three_policies():
    samples, label = make_samples()
    found = pm.fit(samples, start(samples), 0.03)
    active = np.flatnonzero(np.asarray(found.posterior.active))
    assert len(active) == 3
    which = np.asarray(pm.responsibilities(found.posterior, samples)).argmax(axis=0)
    owner = [np.bincount(label[which == c], minlength=3).argmax() for c in active]
    assert sorted(owner) == [0, 1, 2]
    for c, o in zip(active, owner, strict=True):
        assert_allclose(np.asarray(found.posterior.M)[c], SLOPES[o], atol=0.06)
        assert np.mean(which[label == o] == c) > 0.98
        assert_allclose(found.posterior.mass[c], np.asarray(samples.counts)[label == o].sum(), rtol=0.05)
    assert_allclose(found.bound, bound_of(np.asarray(found.r), found.posterior.active, samples), rtol=1e-10)
    assert_allclose(found.posterior.mass[~np.asarray(found.posterior.active)], 0.0)


def test_one_long_strip_over_the_contexts_is_one_component():
    """A hundred times as long as wide."""
    rng = np.random.default_rng(2)
    phi = np.stack([np.ones(N), rng.normal(size=N)], axis=1)
    y = phi @ np.array([[0.0, 1.0], [10.0, -5.0]]) + 0.1 * rng.normal(size=(N, K))
    log_background = scipy.stats.norm(0.0, 10.0).logpdf(y).sum(axis=1)
    samples = WeightedSamples(*map(np.asarray, (y, phi, np.ones(N), log_background)))
    found = pm.fit(samples, start(samples), 0.03)
    assert int(np.sum(found.posterior.active)) == 1


def test_few_samples_far_from_the_others_belong_to_the_background():
    samples, _ = make_samples()
    y = np.asarray(samples.y).copy()
    y[::25] = np.random.default_rng(3).uniform(-5.0, 5.0, size=(6, K)) + 8.0
    log_background = np.where(np.arange(N) % 25 == 0, -3.0, np.asarray(samples.log_background))
    noisy = samples._replace(y=np.asarray(y), log_background=np.asarray(log_background))
    found = pm.fit(noisy, start(noisy), 0.08)
    assert int(np.sum(found.posterior.active)) == 3
    assert np.all(found.r[-1, ::25] > 0.9)
    assert np.mean(found.r[-1][np.arange(N) % 25 != 0]) < 0.1
    # Among the options alone, the background has no say.
    assert_allclose(np.sum(pm.responsibilities(found.posterior, noisy), axis=0), 1.0, rtol=1e-9)


def test_components_with_a_lesser_share_are_removed_but_never_the_last():
    samples, label = make_samples()
    rare = samples._replace(counts=np.asarray(np.where(label == 2, 0.02, 1.0)))
    assert int(np.sum(pm.fit(rare, start(rare), 0.05).posterior.active)) == 2
    assert int(np.sum(pm.fit(samples, start(samples), 0.99).posterior.active)) == 1


# ---------------------------------------------------------------- what must not matter


def climbed(samples, r, active):
    r, bound = pm.climb(r, active, samples, steps=pm.EM_STEPS)
    return np.asarray(r), float(bound), pm.posterior_of(r, active, samples)


def test_a_sample_twice_is_one_of_twice_the_count():
    samples, _ = make_samples()
    r, active = some_responsibilities()
    doubled = samples._replace(counts=2.0 * samples.counts)
    twice = WeightedSamples(*(np.concatenate([part, part]) for part in samples))
    one, bound, posterior = climbed(doubled, r, active)
    other, bound_twice, posterior_twice = climbed(twice, np.concatenate([r, r], axis=1), active)
    assert_allclose(other[:, :N], one, atol=1e-9)
    assert_allclose(bound_twice, bound, rtol=1e-10)
    for part, wanted in zip(posterior_twice, posterior, strict=True):
        assert_allclose(part, wanted, rtol=1e-8, atol=1e-9)


def test_a_count_of_zero_is_absence():
    samples, _ = make_samples()
    r, active = some_responsibilities()
    gone = np.arange(N) % 4 == 0
    absent = samples._replace(counts=np.where(gone, 0.0, samples.counts), y=np.where(gone[:, None], 50.0, samples.y))
    one, bound, posterior = climbed(absent, r, active)
    fewer = WeightedSamples(*(part[~gone] for part in samples))
    other, bound_fewer, posterior_fewer = climbed(fewer, r[:, ~gone], active)
    assert_allclose(one[:, ~gone], other, atol=1e-9)
    assert_allclose(bound, bound_fewer, rtol=1e-10)
    for part, wanted in zip(posterior, posterior_fewer, strict=True):
        assert_allclose(part, wanted, rtol=1e-8, atol=1e-9)


def test_the_order_of_samples_and_components_does_not_matter():
    samples, _ = make_samples()
    r, active = some_responsibilities()
    rows, parts = np.random.default_rng(0).permutation(N), np.array([2, 5, 0, 3, 1, 4])
    shuffled = WeightedSamples(*(part[rows] for part in samples))
    one, bound, _ = climbed(samples, r, active)
    other, bound_shuffled, _ = climbed(shuffled, r[np.asarray([*parts, B])][:, rows], active[parts])
    assert_allclose(other, one[[*parts, B]][:, rows], atol=1e-8)
    assert_allclose(bound_shuffled, bound, rtol=1e-10)


def test_a_shift_of_y_moves_the_constant_alone():
    """The constant's prior is weak: what it takes from the bound is a fraction of a nat, from responsibilities less."""
    samples, _ = make_samples()
    shift = np.array([0.5, -0.4])
    found, moved = (
        pm.fit(each, start(samples), 0.03) for each in (samples, samples._replace(y=samples.y + shift[None]))
    )
    assert_array_equal(moved.posterior.active, found.posterior.active)
    assert_allclose(moved.r, found.r, atol=1e-2)
    on = np.asarray(found.posterior.active)
    difference = np.asarray(moved.posterior.M)[on] - np.asarray(found.posterior.M)[on]
    assert_allclose(difference[:, 0], np.tile(shift, (3, 1)), atol=1e-3)
    assert_allclose(difference[:, 1:], 0.0, atol=1e-3)
    assert_allclose(moved.bound, found.bound, atol=0.5)


def test_rescaled_features_change_no_responsibility():
    samples, _ = make_samples()
    scaled = samples._replace(phi=samples.phi * np.asarray([[1.0, 0.5]]))
    found, other = (pm.fit(each, start(samples), 0.03) for each in (samples, scaled))
    assert_array_equal(other.posterior.active, found.posterior.active)
    assert_allclose(other.r, found.r, atol=1e-2)
    on = np.asarray(found.posterior.active)
    assert_allclose(np.asarray(other.posterior.M)[on, 1], 2.0 * np.asarray(found.posterior.M)[on, 1], atol=1e-2)


# ---------------------------------------------------------------- starts


def test_seeds_are_spread_and_known_components_come_first():
    rng = np.random.default_rng(0)
    label = np.arange(90) % 3
    points = 100.0 * np.eye(3)[label] + rng.normal(size=(90, 3))
    counts = np.where(np.arange(90) < 3, 0.0, 1.0)
    labels = pm.spread_labels(np.random.default_rng(1), points, counts, 3)
    assert len(set(zip(label, labels, strict=True))) == 3
    # Component 0 is known, at the third corner: it keeps its samples, the two seeds find the others.
    known = np.sum((points - 100.0 * np.eye(3)[2]) ** 2, axis=1)[None]
    labels = pm.spread_labels(np.random.default_rng(1), points, counts, 3, known)
    assert_array_equal(labels == 0, label == 2)
    assert len(set(zip(label, labels, strict=True))) == 3


def test_fewer_places_than_seeds_leave_components_empty():
    points = np.repeat([[0.0], [1.0]], 5, axis=0)
    labels = pm.spread_labels(np.random.default_rng(0), points, np.ones(10), 6)
    assert len(set(labels)) == 2
    r, active = pm._begin(MixtureStart(labels, 6, pm.nearest_neighbours(points, 3)))
    assert int(np.sum(active)) == 2
    assert_array_equal(np.asarray(r)[:-1][~np.asarray(active)], 0.0)
    assert_allclose(np.sum(r, axis=0), 1.0)


def test_neighbours_are_the_nearest_other_points_and_components_that_share_some_are_adjacent():
    """scipy's tree; components in a row on a line, of which the last is the background."""
    points = np.random.default_rng(5).normal(size=(60, 3)) + 4.0
    truth = scipy.spatial.cKDTree(points).query(points, 6)[1][:, 1:]
    assert_array_equal(np.sort(pm.nearest_neighbours(points, 5), axis=1), np.sort(truth, axis=1))
    line = np.linspace(0.0, 1.0, 40)[:, None]
    r = (np.arange(4)[:, None] == np.arange(40) // 10).astype(float)
    found = pm._adjacent(r, pm.nearest_neighbours(line, 2))
    assert_array_equal(found, np.abs(np.subtract.outer(np.arange(3), np.arange(3))) <= 1)


def test_pieces_of_two_lines_in_different_contexts_are_not_joined_to_one_across_them():
    """Any two short pieces lie on a line; neighbours are joined first, and then the long pieces do not fit."""
    rng = np.random.default_rng(3)
    s = np.concatenate([rng.uniform(-1.7, -0.6, 120), rng.uniform(0.6, 1.7, 120)])
    y = np.where(s < 0.0, -1.0 - 1.0 * s, 4.0 - 1.0 * s) + 0.1 * rng.normal(size=240)
    phi = np.stack([np.ones(240), s], axis=1)
    log_background = scipy.stats.norm(0.0, 3.0).logpdf(y)
    samples = WeightedSamples(*map(np.asarray, (y[:, None], phi, np.ones(240), log_background)))
    for seed in range(5):
        fitted = pm.fit(samples, start(samples, components=24, seed=seed), least=0.03)
        kept = np.asarray(fitted.posterior.active)
        found = np.asarray(fitted.posterior.M)[kept][:, :, 0]
        assert_allclose(found[np.argsort(found[:, 0])], [[-1.0, -1.0], [4.0, -1.0]], atol=0.15)


def test_neighbours_are_the_nearest_other_points():
    points = np.random.default_rng(0).normal(size=(40, 3))
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    expected = np.argsort(distance, axis=1)[:, 1:6]
    assert_array_equal(np.sort(pm.nearest_neighbours(points, 5), axis=1), np.sort(expected, axis=1))
