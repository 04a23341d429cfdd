"""Policies in use, by numpy alone: the numbers of the compiled functions, the same bits everywhere, and no JAX."""

import dataclasses
import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import digests
from handmade import binary_gate, by_hand
from hpsde import gp, load_policy
from hpsde.base.compilations import count_compilations
from hpsde.gp.binary import condition_binary
from hpsde.gp.sparse import condition_sparse
from hpsde.gp.warp import fit_warp
from hpsde.policy.process import inverse_of_lower
from hpsde.steps import gating, gaussian
from hpsde.steps.features import Cubic, Custom, Linear, Quadratic, SquaredExponential
from patience import LONG

GATES = ("gp", "softmax", "marginal")


def feature_map(kind, S):
    centre, scale = np.full(S, 20.0), np.full(S, 2.5)
    made = {
        "linear": (Linear(centre, scale), S),
        "quadratic": (Quadratic(centre, scale), S * (S + 3) // 2),
        "cubic": (Cubic(centre, scale), math.comb(S + 3, 3) - 1),
        "exponentials": (SquaredExponential(centre + np.linspace(-2.0, 2.0, 3)[:, None], scale, np.zeros(S)), 3),
        "trend": (SquaredExponential(centre + np.linspace(-2.0, 2.0, 3)[:, None], scale, scale), 3 + S),
        "custom": (Custom(lambda s: np.hstack([s, np.cos(s)])), 2 * S),
    }
    return made[kind]


def made(gate="gp", S=1, features="linear", kept=(True, False, True, False), bounded=False, **changes):
    """A policy by hand, whose gate and bounds are changed."""
    phi, size = feature_map(features, S)
    policy = by_hand(gate, context_size=S, features=phi, feature_size=size)
    if bounded:
        units = policy.units._replace(parameter_axes=np.eye(2), parameter_low=policy.units.parameter_centre - 3.0)
        policy = dataclasses.replace(
            policy, units=units, standard_options=gaussian.cut(policy.standard_options, units.limits)
        )
    if changes:
        policy = dataclasses.replace(policy, gate=policy.gate._replace(**changes))
    return dataclasses.replace(policy, kept=np.array(kept))


def matern():
    process = by_hand("gp").gate.process
    hyperparameters = gp.with_kernel(process.hyperparameters, "matern")
    z = np.asarray(process.z) + np.asarray(process.centre)
    return gp.condition_by_lapack(hyperparameters, z, by_hand("gp").gate.scores, process.mask)


def ranked():
    scores = np.asarray(by_hand("gp").gate.scores)[:12]
    return fit_warp(np.exp(scores), np.ones(12), "rank")[1]


POLICIES = {
    **{f"{gate} {features}": (gate, {"features": features}) for gate in GATES for features in ("linear", "trend")},
    **{f"gp {features}": ("gp", {"features": features}) for features in ("quadratic", "exponentials", "custom")},
    "gp cubic": ("gp", {"features": "cubic", "S": 3}),
    **{f"{gate} without context": (gate, {"S": 0}) for gate in GATES},
    **{f"{gate} with bounds": (gate, {"bounded": True, "S": 2}) for gate in GATES},
    **{f"{gate} one option": (gate, {"kept": (False, False, True, False)}) for gate in GATES},
    "gp all options": ("gp", {"kept": (True, True, True, True), "S": 2}),
    "gp expected": ("gp", {"cautious": False, "S": 2}),
    "gp expected, own axes": ("gp", {"cautious": False, "axes": None}),
    "gp expected, matern": ("gp", {"cautious": False, "process": matern}),
    "gp own axes": ("gp", {"axes": None, "bounded": True}),
    "gp matern": ("gp", {"process": matern}),
    "gp ranks": ("gp", {"warp": ranked}),
    **{f"success S={S}": ("success", {"S": S}) for S in (0, 1, 2)},
    "success, two directions": ("success", {"directions": 2}),
    "success expected": ("success", {"cautious": False}),
}


def policy_of(name):
    gate, given = POLICIES[name]
    given = {key: value() if callable(value) else value for key, value in given.items()}
    if gate != "success":
        return made(gate, **given)
    S = given.get("S", 1)
    success = binary_gate(S, 2, given.get("directions"))._replace(cautious=given.get("cautious", True))
    return dataclasses.replace(by_hand("gp", context_size=S), gate=success)


def by_jax(policy, contexts):
    """What learners say, by JAX where there is a process: scores, choice, means, expected returns and deviations."""
    if isinstance(policy.gate, gating.GPGate):
        process = jax.tree.map(jnp.asarray, policy.gate.process)
        policy = dataclasses.replace(policy, gate=policy.gate._replace(process=process))
    with jax.enable_x64(True):
        scores, means = policy.gate_scores(contexts), policy.units.raw_parameters(policy.standard_means(contexts))
        result = {"choose": np.argmax(scores, axis=0), "option_means": means}
        result["act"] = means[result["choose"], np.arange(len(contexts))]
        if isinstance(policy.gate, gating.GPGate):
            gate, options, kept = policy.gate, policy.standard_options, policy.kept
            asked = policy.features(contexts), policy.units.contexts(contexts)
            moments = gating.returns_in_use(gate, options, kept, *asked)
            if not gate.cautious:
                moments = gating.gp_moments(gate.process, options, kept, *asked, gate.axes, of_return=False)
            mean, deviation = (np.asarray(each)[policy.kept][:, : len(contexts)] for each in moments)
            inverse = policy.gate.warp.inverse
            result["expected_returns"] = inverse(mean) + policy.units.level(contexts)[None]
            result["expected_deviations"] = 0.5 * (inverse(mean + deviation) - inverse(mean - deviation))
    return scores, result


def assert_as_by_jax(policy, contexts):
    scores, expected = by_jax(policy, contexts)
    acting, features = policy.acting, policy.features(contexts)
    found = acting.gate.scores(acting.options.means(features), features, policy.units.contexts(contexts))
    np.testing.assert_allclose(found, scores, rtol=1e-9, atol=1e-9)
    for name, values in expected.items():
        np.testing.assert_allclose(getattr(policy, name)(contexts), values, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", POLICIES)
def test_numbers_are_those_of_jax(name):
    policy = policy_of(name)
    contexts = np.random.default_rng(8).normal(20.0, 4.0, (150, policy.context_size))
    assert_as_by_jax(policy, contexts)


@pytest.mark.parametrize("method", ["hpsde-reps-gp", "hpsde-reps-marginal", "paper", "hireps"])
def test_what_was_learned_acts_as_by_jax(method, tmp_path):
    policy = digests.learned(*digests.runs()[f"{method} toy-double"])
    contexts = np.linspace(-0.1, 2.1, 400)[:, None]
    scores, expected = by_jax(policy, contexts)
    # A process of a noise-free return is known to 1e-7 of its variance where K^-1 is rounded.
    clear = np.ptp(np.sort(scores, axis=0)[-2:], axis=0) > 1e-3 if len(scores) > 1 else np.full(len(contexts), True)
    assert np.mean(clear) > 0.9
    for each in ("act", "choose"):
        np.testing.assert_allclose(getattr(policy, each)(contexts)[clear], expected[each][clear], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(policy.option_means(contexts), expected["option_means"], rtol=1e-9, atol=1e-9)
    policy.save(tmp_path / "policy.npz")
    np.testing.assert_array_equal(load_policy(tmp_path / "policy.npz").act(contexts), policy.act(contexts))


def test_bounds_of_the_deviation_decide_as_the_deviation_does():
    """Many options in many contexts: the choice is that of all scores, however few deviations were computed."""
    generator, chosen = np.random.default_rng(3), []
    for seed in range(20):
        policy = by_hand("gp", seed=seed)
        process = policy.gate.process
        z = np.asarray(process.z) * generator.uniform(0.1, 1.0)
        again = gp.condition_by_lapack(process.hyperparameters, z, 3.0 * policy.gate.scores, process.mask)
        gate = policy.gate._replace(process=again, scores=3.0 * policy.gate.scores)
        policy = dataclasses.replace(policy, gate=gate, kept=np.full(4, True))
        contexts = np.random.default_rng(seed).normal(20.0, 4.0, (300, 1))
        np.testing.assert_array_equal(policy.choose(contexts), np.argmax(policy.gate_scores(contexts), axis=0))
        chosen.append(policy.choose(contexts))
    assert set(np.concatenate(chosen)) == {0, 1, 2, 3}


def many_points(kernel, points=300, known=200):
    """A policy of four options over so many points, which knows so many contexts."""
    policy, generator = made("gp", kept=(True, True, True, True)), np.random.default_rng(6)
    hyperparameters = gp.Hyperparameters(np.full(3, 0.3), np.array(0.1), np.array(-1.5))
    z = generator.normal(0.7, 1.3, (points, 3))
    scores, mask = np.sin(z @ generator.normal(size=(3, 1)))[:, 0], np.full(points, True)
    if kernel == "sparse":
        process, rows, _ = condition_sparse(hyperparameters, z, scores, 120, np.arange(points))
        scores = scores[rows]
    elif kernel == "success":
        process = condition_binary(hyperparameters, z, scores > 0.0, mask, -0.4)
        scores = (scores > 0.0).astype(float)
    else:
        process = gp.condition_by_lapack(gp.with_kernel(hyperparameters, kernel), z, scores, mask)
    gate = policy.gate._replace(process=process, scores=scores, axes=None)
    gate = gate._replace(binary=kernel == "success", sparse=kernel == "sparse")
    contexts = 20.0 + 2.5 * np.random.default_rng(1).normal(size=(known, 1))
    return dataclasses.replace(policy, gate=gate, known_contexts=contexts)


@pytest.mark.parametrize("kernel", ["se", "matern", "success", "sparse"])
@pytest.mark.parametrize("known", [40, 200])
def test_what_nodes_tell_holds_everywhere_and_is_narrow_where_contexts_are_known(kernel, known):
    policy = many_points(kernel, known=known)
    policy.prepare()
    gate, contexts = policy.acting.gate, np.linspace(0.0, 40.0, 500)[:, None]
    assert gate.spans
    means = policy.acting.options.means(policy.features(contexts))
    standard = policy.units.contexts(contexts)
    first, last = np.quantile(policy.known_contexts, [0.05, 0.95])
    inner = (contexts[:, 0] > first) & (contexts[:, 0] < last)
    for o, span in enumerate(gate.spans):
        at = gate._scaled(means[o], standard)
        k = gate.process.covariances(at)
        mean, deviation = gate.process.mean_of(k), gate.process.deviation_of(k)
        low, high, surest, widest = span.bounds(gate.process, at)
        assert np.all((low <= mean) & (mean <= high) & (surest <= deviation) & (deviation <= widest))
        assert np.max((widest - surest)[inner]) < 1e-2


@pytest.mark.parametrize("kernel", ["se", "matern", "success", "sparse"])
def test_what_nodes_tell_does_not_change_a_choice(kernel):
    policy = many_points(kernel)
    contexts = np.linspace(0.0, 40.0, 700)[:, None]
    features, standard = policy.features(contexts), policy.units.contexts(contexts)
    means = policy.acting.options.means(features)
    expected = np.argmax(policy.acting.gate.scores(means, features, standard), axis=0)
    few = np.concatenate([policy.choose(part) for part in np.array_split(contexts, 10)])
    assert policy.acting.gate.spans is None
    np.testing.assert_array_equal(few, expected)
    np.testing.assert_array_equal(policy.choose(contexts), expected)
    assert policy.acting.gate.spans
    np.testing.assert_array_equal([policy.choose(context[None])[0] for context in contexts[::10]], expected[::10])
    assert len(set(expected)) > 2


@pytest.mark.parametrize("size", [1, 2, 64, 65, 130, 333])
def test_the_inverse_of_a_triangle_is_that_of_a_triangular_solver(size):
    A = np.random.default_rng(size).normal(size=(size, size))
    L = np.linalg.cholesky(A @ A.T + size * np.eye(size))
    found = inverse_of_lower(L)
    np.testing.assert_allclose(found, scipy.linalg.solve_triangular(L, np.eye(size), lower=True), atol=1e-13)
    assert not np.triu(found, 1).any()


def test_variances_are_at_least_as_good_as_by_the_inverse():
    """Where points all but coincide, against a solution that is refined in long double."""
    generator = np.random.default_rng(0)
    z = np.concatenate([generator.normal(size=(6, 2)), 1e-4 * generator.normal(size=(6, 2))])
    hyperparameters = gp.Hyperparameters(jnp.zeros(2), jnp.array(0.0), jnp.array(-9.0))
    process = gp.condition_by_lapack(hyperparameters, np.pad(z, ((0, 4), (0, 0))), np.ones(16), np.arange(16) < 12)
    policy = dataclasses.replace(made("gp", S=0), gate=by_hand("gp", 0).gate._replace(process=process, axes=None))
    in_use, k = policy.acting.gate.process, policy.acting.gate.process.covariances(in_use_points(policy, z + 0.01))
    points = np.asarray(process.z)[:12]
    K = np.exp(-0.5 * np.sum((points[:, None] - points[None]) ** 2, axis=2)) + (np.exp(-18.0) + 1e-6) * np.eye(12)
    truth = np.sum(k.T * refined_solve(K, k.T), axis=0)
    by_inverse = np.sum((k @ np.asarray(process.K_inverse)[:12, :12]) * k, axis=1)
    assert np.max(np.abs(in_use.known(k) - truth)) <= max(np.max(np.abs(by_inverse - truth)), 1e-12)


def in_use_points(policy, z):
    return policy.acting.gate.process.scaled(z)


def refined_solve(K, k):
    """K^-1 k with the residual in long double, again and again."""
    exact, x = K.astype(np.longdouble), np.linalg.solve(K, k).astype(np.longdouble)
    for _ in range(5):
        x = x + np.linalg.solve(K, (k - exact @ x).astype(float))
    return x.astype(float)


# A stored policy


FRESH = """
import json, sys
import numpy as np
import hpsde
policies = [hpsde.load_policy(path) for path in sys.argv[2:]]
contexts = json.loads(sys.argv[1])
answers = []
for policy in policies:
    asked = np.array(contexts)[:, : policy.context_size]
    answers.append([policy.act(asked).tobytes().hex(), policy.choose(asked).tolist()])
    policy.expected_returns(asked), policy.expected_deviations(asked), policy.options[0].covariance, str(policy)
    policy.act(asked[0])
print(json.dumps([answers, [name for name in ("jax", "jaxlib", "scipy") if name in sys.modules]]))
"""


def test_a_stored_policy_acts_without_jax_and_with_the_same_bits(tmp_path):
    names = [name for name in POLICIES if "custom" not in name]
    paths = [tmp_path / f"{number}.npz" for number in range(len(names))]
    contexts = np.random.default_rng(8).normal(20.0, 4.0, (40, 3))
    expected = []
    for name, path in zip(names, paths, strict=True):
        policy = policy_of(name)
        policy.save(path)
        asked = contexts[:, : policy.context_size]
        expected.append([policy.act(asked).tobytes().hex(), policy.choose(asked).tolist()])
    command = [sys.executable, "-c", FRESH, json.dumps(contexts.tolist()), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 0, done.stderr
    answers, loaded = json.loads(done.stdout)
    assert loaded == []
    assert dict(zip(names, answers, strict=True)) == dict(zip(names, expected, strict=True))


@pytest.mark.parametrize(
    "name", ["gp linear", "gp expected, own axes", "softmax linear", "marginal linear", "success S=1"]
)
def test_threads_share_a_policy_that_nobody_has_used(name, tmp_path):
    policy_of(name).save(tmp_path / "policy.npz")
    contexts = np.random.default_rng(8).normal(20.0, 4.0, (50, 1))
    expected = load_policy(tmp_path / "policy.npz").act(contexts)
    policy = load_policy(tmp_path / "policy.npz")
    with count_compilations() as compiled, ThreadPoolExecutor(8) as pool:
        for answer in pool.map(lambda _: policy.act(contexts), range(32)):
            np.testing.assert_array_equal(answer, expected)
    assert compiled.count == 0


def test_what_learners_need_of_a_loaded_policy_is_made_when_it_is_asked_for(tmp_path):
    policy = policy_of("gp linear")
    policy.save(tmp_path / "policy.npz")
    loaded = load_policy(tmp_path / "policy.npz")
    loaded.act(20.0)
    assert not {"gate", "standard_options"} & vars(loaded).keys()
    np.testing.assert_array_equal(loaded.standard_options.b, policy.standard_options.b)
    np.testing.assert_allclose(loaded.gate.process.K_inverse, policy.gate.process.K_inverse, rtol=1e-9, atol=1e-12)
    assert {"gate", "standard_options"} <= vars(loaded).keys()
    other = dataclasses.replace(load_policy(tmp_path / "policy.npz"), tried=None)
    np.testing.assert_array_equal(other.act(20.0), policy.act(20.0))
    with pytest.raises(AttributeError, match="no attribute 'gates'"):
        loaded.gates  # noqa: B018
