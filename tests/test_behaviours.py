"""The density of all past behaviours: quadrature, hand-made mixtures, Monte Carlo, and no work done twice."""

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import simpson

from hpsde.steps import behaviours
from hpsde.steps.behaviours import (
    AllBehaviours,
    Behaviour,
    History,
    OwnBehaviour,
    log_gate,
    log_mixture,
    make_behaviour,
)
from hpsde.steps.behaviours import log_density as density_of
from hpsde.steps.gaussian import LinearGaussian

F = D = 1
SLOTS = 3  # of which a gate may never choose some


def make_options(seed=0):
    rng = np.random.default_rng(seed)
    return LinearGaussian(
        np.asarray(rng.normal(size=(SLOTS, D))),
        np.asarray(rng.normal(size=(SLOTS, F, D))),
        np.asarray(rng.uniform(0.05, 0.5, size=(SLOTS, D, D))),
    )


def draw_behaviour(seed, count=20, size=1):
    """A behaviour whose gate takes option 0 left of 0.3 and option 1 right of it, and never option 2."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(count, size))
    chosen = (contexts[:, 0] > 0.3).astype(int) if size else rng.integers(0, 2, size=count)
    return make_behaviour(make_options(seed), contexts, chosen), contexts, chosen


def smoothed_share(contexts, chosen, at, bandwidth):
    """rho(o | s) by the definition: the share of kernel mass of the decisions for each option."""
    kernel = np.exp(-0.5 * np.sum((at[None] - contexts) ** 2, axis=1) / bandwidth**2)
    return np.array([kernel[chosen == o].sum() for o in range(SLOTS)]) / kernel.sum()


def direct_density(options, share, context, parameter):
    """sum_o rho(o | s) N(xi | b_o + w_o s, Sigma_o) for one number of each."""
    b, w, Sigma = (np.asarray(part).reshape(SLOTS) for part in options[:3])
    return float(share @ scipy.stats.norm(b + w * context, np.sqrt(Sigma)).pdf(parameter))


def log_density(behaviour, contexts, parameters):
    """log pi_b; the features are the contexts."""
    return density_of(behaviour, contexts, contexts, parameters)


# ---------------------------------------------------------------- one behaviour


def test_the_density_is_the_smoothed_mixture_by_hand():
    behaviour, contexts, chosen = draw_behaviour(0)
    rng = np.random.default_rng(1)
    s, xi = rng.normal(size=(64, 1)), rng.normal(size=(64, 1))
    bandwidth = 20.0 ** (-1.0 / 5.0)
    values = log_density(behaviour, s, xi)
    for i in range(64):
        share = smoothed_share(contexts, chosen, s[i], bandwidth)
        truth = direct_density(behaviour.options, share, s[i, 0], xi[i, 0])
        assert_allclose(values[i], np.log(truth), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("context", [-2.0, 0.3, 30.0])
def test_the_density_integrates_to_1_in_every_context(context):
    behaviour, _, _ = draw_behaviour(2)
    centre = np.asarray(behaviour.options.b + behaviour.options.w[:, 0] * context)[:2]
    xi = np.linspace(centre.min() - 6.0, centre.max() + 6.0, 4096)[:, None]
    density = np.exp(log_density(behaviour, np.full((4096, 1), context), xi))
    assert_allclose(simpson(density, x=xi[:, 0]), 1.0, rtol=1e-6)


def test_the_gates_shares_sum_to_1_even_far_from_its_contexts():
    behaviour, _, _ = draw_behaviour(3)
    shares = np.exp(log_gate(behaviour, np.asarray([[-1e3], [-1.0], [0.3], [1.0], [1e3]]), np.arange(SLOTS)))
    assert_allclose(shares.sum(axis=0), 1.0, rtol=1e-9)
    assert_array_equal(shares[2], 0.0)
    assert np.all(np.diff(shares[1]) >= 0.0)  # from option 0 on the left to option 1 on the right
    assert_allclose(shares[:2, 0], [1.0, 0.0], atol=1e-9)
    assert_allclose(shares[:2, 4], [0.0, 1.0], atol=1e-9)


def test_without_contexts_the_shares_are_frequencies():
    behaviour, _, chosen = draw_behaviour(4, size=0)
    shares = np.exp(log_gate(behaviour, np.zeros((2, 0)), np.arange(SLOTS)))
    truth = np.bincount(chosen, minlength=SLOTS) / len(chosen)
    assert_allclose(shares, np.stack([truth, truth], axis=1), rtol=1e-9)


def test_smoothing_between_the_nearest_decision_and_plain_frequencies():
    behaviour, contexts, chosen = draw_behaviour(5)
    at = np.asarray(np.linspace(-1.5, 1.5, 7)[:, None])
    nearest = chosen[np.argmin(np.abs(np.asarray(at) - contexts.T), axis=1)]
    sharp = np.exp(log_gate(behaviour._replace(bandwidth=np.asarray(1e-4)), at, np.arange(SLOTS)))
    assert_allclose(sharp, np.arange(SLOTS)[:, None] == nearest, atol=1e-9)
    flat = np.exp(log_gate(behaviour._replace(bandwidth=np.asarray(1e6)), at, np.arange(SLOTS)))
    truth = np.bincount(chosen, minlength=SLOTS) / len(chosen)
    assert_allclose(flat, np.broadcast_to(truth[:, None], (SLOTS, 7)), rtol=1e-6)


def test_the_bandwidth_shrinks_with_the_decisions():
    assert isinstance(draw_behaviour(0)[0], Behaviour)
    for count, size in ((20, 1), (50, 1), (50, 3)):
        bandwidth = draw_behaviour(0, count, size)[0].bandwidth
        assert_allclose(bandwidth, count ** (-1.0 / (size + 4.0)), rtol=1e-12)


# ---------------------------------------------------------------- many behaviours


def test_the_mixture_weighs_behaviours_by_their_rollouts():
    log_densities = np.array([[-1.0, -2000.0], [0.5, -1990.0], [3.0, -np.inf]])
    counts = np.array([30.0, 10.0, 0.0])
    truth = [np.log(0.75 * np.exp(-1.0) + 0.25 * np.exp(0.5)), -1990.0 + np.log(0.75 * np.exp(-10.0) + 0.25)]
    assert_allclose(log_mixture(log_densities, counts), truth, rtol=1e-12)


def test_the_balance_heuristic_estimates_a_known_integral_without_bias():
    """The mean of f / pi_old over the samples of two behaviours is the integral of f."""
    rng = np.random.default_rng(6)
    wide, narrow, estimates = scipy.stats.norm(0.0, 2.0), scipy.stats.norm(1.0, 0.3), []
    for _ in range(400):
        xi = np.concatenate([wide.rvs(30, random_state=rng), narrow.rvs(10, random_state=rng)])
        log_old = log_mixture(np.stack([wide.logpdf(xi), narrow.logpdf(xi)]), np.array([30.0, 10.0]))
        estimates.append(np.mean(np.exp(-0.5 * xi**2 - log_old)))
    error, truth = np.std(estimates) / np.sqrt(len(estimates)), np.sqrt(2.0 * np.pi)
    assert abs(np.mean(estimates) - truth) < 4.0 * error
    assert error < 0.02 * truth


def make_rollouts(rng, n):
    return rng.normal(size=(n, 1)), rng.normal(size=(n, 1)), rng.normal(-1.0, 0.1, size=n)


def count_densities(monkeypatch):
    """A list that grows by what is computed: an option's offset, which tells behaviours apart, and the sample."""
    asked, original = [], behaviours.log_density

    def counted(behaviour, contexts, features, parameters, *more):
        name = tuple(np.asarray(behaviour.options.b)[0])
        asked.extend((name, tuple(row)) for row in np.hstack([contexts, parameters]))
        return original(behaviour, contexts, features, parameters, *more)

    monkeypatch.setattr(behaviours, "log_density", counted)
    return asked


def own_density(*given):
    return old_density(OwnBehaviour(), *given)


def mixture_density(*given):
    return old_density(AllBehaviours(), *given)


def old_density(kind, history, contexts, features, parameters, log_initial, made_by, P=None):
    """log pi_old of rollouts that all count."""
    table = history.log_densities(contexts, features, parameters, log_initial, P)
    return kind.log_density(table, history.rows_of(made_by), np.ones(len(contexts), dtype=bool))


def test_the_history_grows_with_rollouts_and_behaviours_and_computes_nothing_twice(monkeypatch):
    rng = np.random.default_rng(7)
    history, made = History(), [draw_behaviour(seed)[0] for seed in (10, 11, 12)]
    asked = count_densities(monkeypatch)
    s, xi, log_initial = make_rollouts(rng, 30)
    made_by = np.zeros(30, dtype=int)
    assert_allclose(mixture_density(history, s, s, xi, log_initial, made_by), log_initial, rtol=1e-12)
    for index, behaviour in enumerate(made, start=1):
        rows = np.asarray(behaviour.chosen) >= 0
        decisions = np.asarray(behaviour.contexts)[rows], np.asarray(behaviour.chosen)[rows]
        history.add(3 * index, behaviour.options, *decisions)
        more = make_rollouts(rng, 10)
        s, xi, log_initial = (np.concatenate(pair) for pair in zip((s, xi, log_initial), more, strict=True))
        made_by = np.concatenate([made_by, np.full(10, 3 * index)])
        result = mixture_density(history, s, s, xi, log_initial, made_by)
        table = np.stack([log_initial, *(log_density(each, s, xi) for each in made[:index])])
        counts = np.array([30.0] + [10.0] * index)
        truth = np.log((counts / counts.sum()) @ np.exp(table))
        assert_allclose(result, truth, rtol=1e-9)
        assert_allclose(history.table, table, rtol=1e-9)
    assert len(asked) == 3 * 60
    assert len(set(asked)) == len(asked)
    # Asked again with nothing new, it computes nothing.
    assert_allclose(mixture_density(history, s, s, xi, log_initial, made_by), truth, rtol=1e-9)
    assert len(asked) == 3 * 60


def test_the_own_density_is_that_of_the_policy_that_made_the_rollout():
    history, made = History(), [draw_behaviour(seed)[0] for seed in (10, 11)]
    for number, behaviour in zip((2, 5), made, strict=True):
        rows = np.asarray(behaviour.chosen) >= 0
        history.add(number, behaviour.options, np.asarray(behaviour.contexts)[rows], np.asarray(behaviour.chosen)[rows])
    s, xi, log_initial = make_rollouts(np.random.default_rng(10), 30)
    made_by = np.repeat([0, 5, 2], 10)
    own = own_density(history, s, s, xi, log_initial, made_by)
    first, second = (log_density(behaviour, s, xi) for behaviour in made)
    assert_allclose(own, np.concatenate([log_initial[:10], second[10:20], first[20:]]), rtol=1e-9)
    mixture = np.logaddexp.reduce([log_initial, first, second]) - np.log(3.0)
    assert_allclose(mixture_density(history, s, s, xi, log_initial, made_by), mixture, rtol=1e-9)


def add_slanted(history, number, rng):
    """A behaviour of three parameters, added to the history; its options, and its gate's decisions."""
    factors = rng.normal(size=(SLOTS, 3, 3))
    options = LinearGaussian(
        np.asarray(rng.normal(size=(SLOTS, 3))),
        np.asarray(rng.normal(size=(SLOTS, F, 3))),
        np.asarray(factors @ factors.transpose(0, 2, 1) + 0.1 * np.eye(3)),
    )
    contexts, chosen = rng.normal(size=(20, 1)), rng.integers(0, 2, size=20)
    history.add(number, options, contexts, chosen)
    return options, contexts, chosen


def test_the_density_of_combinations_is_the_mixture_of_the_projected_options():
    """Three parameters seen along two directions, by scipy; and of all three again what it was before."""
    rng = np.random.default_rng(20)
    history, P = History(), rng.normal(size=(3, 2))
    made = [add_slanted(history, number, rng) for number in (1, 4)]
    s, xi, log_initial = rng.normal(size=(30, 1)), rng.normal(size=(30, 3)), rng.normal(-1.0, 0.1, size=30)
    made_by = np.repeat([0, 1, 4], [15, 5, 10])
    whole = mixture_density(history, s, s, xi, log_initial, made_by)
    table = np.empty((3, 30))
    table[0] = log_initial
    for row, (options, contexts, chosen) in enumerate(made, start=1):
        b, w, Sigma = map(np.asarray, options[:3])
        for i in range(30):
            share = smoothed_share(contexts, chosen, s[i], 20.0 ** (-1.0 / 5.0))
            at = [((b[o] + s[i] @ w[o]) @ P, P.T @ Sigma[o] @ P) for o in range(SLOTS)]
            densities = [scipy.stats.multivariate_normal(*moments).pdf(xi[i] @ P) for moments in at]
            table[row, i] = np.log(share @ densities)
    given = (s, s, xi, log_initial, made_by, P)
    assert_allclose(mixture_density(history, *given), np.log(np.array([15, 5, 10]) / 30 @ np.exp(table)), rtol=1e-8)
    assert_allclose(own_density(history, *given), np.choose(np.repeat([0, 1, 2], [15, 5, 10]), table), rtol=1e-8)
    assert_array_equal(mixture_density(history, *given[:5]), whole)


def test_along_the_same_combinations_nothing_is_computed_twice_and_along_others_all_anew(monkeypatch):
    rng, history = np.random.default_rng(21), History()
    asked = count_densities(monkeypatch)
    P, Q = rng.normal(size=(3, 2)), rng.normal(size=(3, 1))
    every = rng.normal(size=(50, 1)), rng.normal(size=(50, 3)), rng.normal(-1.0, 0.1, size=50)
    made_by = np.repeat([0, 1, 4], [20, 20, 10])

    def computed(count, P):
        """How many densities the first rollouts ask for; the result must not depend on what was computed before."""
        s, xi, log_initial = (part[:count] for part in every)
        given = (s, s, xi, log_initial, made_by[:count], P)
        before = len(asked)
        found = mixture_density(history, *given)
        computed = len(asked) - before
        assert_allclose(
            found,
            mixture_density(History(behaviours=history.behaviours, filled=[0, 0, 0]), *given),
            rtol=1e-9,
        )
        return computed

    add_slanted(history, 1, rng)
    assert [computed(30, P), computed(30, P), computed(40, P.copy())] == [30, 0, 10]
    add_slanted(history, 4, rng)
    assert [computed(50, P), computed(50, P)] == [10 + 50, 0]
    assert [computed(50, Q), computed(50, Q)] == [2 * 50, 0]
    assert [computed(50, None), computed(50, None), computed(50, P)] == [2 * 50, 0, 2 * 50]


def test_a_behaviour_without_rollouts_counts_nothing():
    s, xi, log_initial = make_rollouts(np.random.default_rng(8), 30)
    history = History()
    behaviour = draw_behaviour(13)[0]
    history.add(1, behaviour.options, np.zeros((1, 1)), np.zeros(1, dtype=int))
    result = mixture_density(history, s, s, xi, log_initial, np.zeros(30, dtype=int))
    assert_allclose(result, log_initial, rtol=1e-12)


def test_decisions_of_the_same_policy_that_come_later_count_as_if_they_had_come_at_once():
    behaviour = draw_behaviour(14)[0]
    rows = np.asarray(behaviour.chosen) >= 0
    contexts, chosen = np.asarray(behaviour.contexts)[rows], np.asarray(behaviour.chosen)[rows]
    s, xi, log_initial = make_rollouts(np.random.default_rng(9), 30)
    made_by = np.where(np.arange(30) < 20, 0, 4)
    at_once, in_parts = History(), History()
    at_once.add(4, behaviour.options, contexts, chosen)
    in_parts.add(4, behaviour.options, contexts[:3], chosen[:3])
    early = mixture_density(in_parts, s, s, xi, log_initial, made_by)
    in_parts.add(4, behaviour.options, contexts[3:], chosen[3:])
    wanted = mixture_density(at_once, s, s, xi, log_initial, made_by)
    np.testing.assert_array_equal(mixture_density(in_parts, s, s, xi, log_initial, made_by), wanted)
    assert not np.allclose(early, wanted)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_many_samples_are_looked_at_in_parts(size, monkeypatch):
    rng = np.random.default_rng(0)
    options = LinearGaussian(
        np.asarray(rng.normal(size=(3, 2))), np.zeros((3, 0, 2)), np.asarray(np.stack([0.3 * np.eye(2)] * 3))
    )
    contexts, chosen = rng.normal(size=(200, size)), rng.integers(0, 2, 200)
    behaviour = behaviours.make_behaviour(options, contexts, chosen)
    samples = rng.normal(size=(300, size)), np.zeros((300, 0)), rng.normal(size=(300, 2))
    found = behaviours.log_density(behaviour, *samples)
    monkeypatch.setattr(behaviours, "PAIRS", 37 * 200)
    assert_allclose(behaviours.log_density(behaviour, *samples), found, rtol=1e-12)


def test_a_gate_is_remembered_by_some_of_its_decisions():
    options = LinearGaussian(np.zeros((2, 1)), np.zeros((2, 0, 1)), np.ones((2, 1, 1)))
    contexts = np.linspace(-1.0, 1.0, 5000)[:, None]
    behaviour = behaviours.make_behaviour(options, contexts, (contexts[:, 0] > 0.0).astype(int))
    assert behaviour.contexts.shape == (behaviours.DECISIONS, 1)
    rho = np.exp(log_gate(behaviour, np.asarray([[-1.0], [1.0]]), np.arange(2)))
    assert_allclose(rho, [[1.0, 0.0], [0.0, 1.0]], atol=1e-2)
