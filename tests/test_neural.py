"""Neural options: a small network in an option's mean, fitted where it predicts samples left out better."""

import functools
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hpsde
import small
import stored
from hpsde import InputError
from hpsde.steps import gaussian, neural, options
from hpsde.steps.network import SHAPES, Network
from hpsde.steps.neural import Neural
from patience import LONG

pytestmark = pytest.mark.usefixtures("remembered")

SMALL = Neural(width=16, depth=1)


def bent(s):
    """Two parameters: a wave over two numbers, and a kink."""
    return np.stack([np.sin(3.0 * s[:, 0]), np.abs(s[:, 1])], axis=1)


def samples(count=240, noise=0.05, truth=bent, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.uniform(-1.5, 1.5, (count, 2))
    return s, truth(s) + noise * rng.normal(size=(count, 2)), rng.uniform(0.2, 1.0, count)


def fitted(kind, s, xi, d, **given):
    """The option's policy, with a leading axis."""
    one = compiled_fit(kind, *(jnp.asarray(each) for each in (s, xi, d)), **given)
    return jax.tree.map(lambda part: part[None], one)


@functools.partial(jax.jit, static_argnums=0)
def compiled_fit(kind, s, xi, d, start=None):
    return gaussian.fit(s, xi, d, ridge=None, variance_floor=1e-9, fit_h=lambda *samples: kind.fit(*samples, start))


def error_of(option, truth=bent):
    s = np.random.default_rng(9).uniform(-1.4, 1.4, (500, 2))
    return float(np.sqrt(np.mean((np.asarray(gaussian.means(option, jnp.asarray(s)))[0] - truth(s)) ** 2)))


@pytest.fixture(scope="module")
def wave():
    return fitted(SMALL, *samples())


def test_a_networks_mean_is_that_of_its_layers_by_numpy_and_by_jax():
    rng = np.random.default_rng(1)
    sizes = {"F": 2, "H": 3, "L": 2, "D": 4}
    net = Network(*(rng.normal(size=[sizes[each] for each in shape.split()[1:]]) for shape in SHAPES.values()))
    phi = rng.normal(size=(5, 2))
    expected = []
    for row in phi:
        x = [np.tanh(sum(row[f] * net.W[f, h] for f in range(2)) + net.c[h]) for h in range(3)]
        for k in range(2):
            x = [np.tanh(sum(x[i] * net.inner[k, i, h] for i in range(3)) + net.inner_c[k, h]) for h in range(3)]
        expected.append([sum(x[h] * net.A[h, j] for h in range(3)) for j in range(4)])
    by_numpy = net.mean(phi, np)
    assert isinstance(by_numpy, np.ndarray)
    np.testing.assert_allclose(by_numpy, expected, rtol=1e-12)
    np.testing.assert_allclose(net.mean(jnp.asarray(phi), jnp), expected, rtol=1e-12)


def test_it_follows_what_bends_and_a_linear_option_does_not(wave):
    s, xi, d = (jnp.asarray(each) for each in samples())
    linear = jax.tree.map(lambda part: part[None], gaussian.fit(s, xi, d, ridge=None, variance_floor=1e-9))
    assert error_of(linear) > 0.3
    assert error_of(wave) < 0.06
    deep = fitted(Neural(width=16, depth=2), *samples())
    assert error_of(deep) < 0.06
    assert deep.h.inner.shape == (1, 1, 16, 16)


def test_where_lines_suffice_it_is_linear():
    def line(s):
        return s @ np.array([[0.5, 1.0], [-2.0, 0.3]])

    for seed in range(3):
        option = fitted(SMALL, *samples(truth=line, seed=seed))
        assert not np.any(option.h.A)
        assert error_of(option, line) < 0.02


def test_samples_without_weight_change_nothing(wave):
    s, xi, d = samples()
    rng = np.random.default_rng(5)
    more = np.concatenate([s, rng.normal(size=(60, 2))]), np.concatenate([xi, 9.0 * rng.normal(size=(60, 2))])
    padded = fitted(SMALL, *more, np.concatenate([d, np.zeros(60)]))
    points = jnp.asarray(s[:20])
    np.testing.assert_allclose(gaussian.means(padded, points), gaussian.means(wave, points), atol=2e-3)


def test_other_units_give_the_same_option(wave):
    s, xi, d = samples()
    # 2^10 and 2^-20: what is scaled by powers of two is rounded alike.
    scaled = fitted(SMALL, 2.0**10 * s, 2.0**-20 * xi, 3.0 * d)
    points = s[:50]
    expected = np.asarray(gaussian.means(wave, jnp.asarray(points)))
    found = 2.0**20 * np.asarray(gaussian.means(scaled, jnp.asarray(2.0**10 * points)))
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_a_start_that_fits_better_is_gone_on_from(wave):
    s, xi, d = samples()
    from_zero = fitted(SMALL, s, xi, d, start=jax.tree.map(lambda part: jnp.zeros_like(part[0]), wave.h))
    for one, other in zip(from_zero.h, wave.h, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    again = fitted(SMALL, s, xi, d, start=jax.tree.map(lambda part: part[0], wave.h))
    residuals = [float(np.trace(np.asarray(each.Sigma)[0])) for each in (again, wave)]
    assert residuals[0] < residuals[1]
    # What it starts from is what it has been, not the random start.
    near, far = (
        sum(float(np.sum((a - b) ** 2)) for a, b in zip(again.h, each, strict=True))
        for each in (wave.h, fitted(SMALL, *samples(seed=4)).h)
    )
    assert near < 0.5 * far


def test_few_samples_or_one_give_a_finite_option():
    alone = [fitted(SMALL, *samples(1))]
    s, xi, d = samples()  # so many rows as elsewhere here: the same program
    among = [fitted(SMALL, s, xi, np.where(np.arange(len(d)) < count, d, 0.0)) for count in (1, 2, 5)]
    for option in alone + among:
        assert all(bool(np.all(np.isfinite(part))) for part in jax.tree.leaves(option))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 0}, "width must lie between 1 and 1024; got 0"),
        ({"depth": 17}, "depth must lie between 1 and 16; got 17"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        Neural(**given)


def wavy(contexts, parameters):
    """The best first parameter is a wave over the context, the best second one has a kink."""
    wave = np.abs(parameters[:, 0] - 0.7 * np.sin(4.0 * contexts[:, 0]))
    return np.exp(-2.0 * wave) - 0.2 * (parameters[:, 1] - np.abs(contexts[:, 0] - 1.0) + 0.5) ** 2


TAKEN = {"options": "neural", "options.width": 7, "options.depth": 1, "features": "linear"}


@pytest.fixture
def taken(monkeypatch):
    """Networks of 7 units, and no others, are taken whether they predict better or not."""
    monkeypatch.setattr(neural, "CLEARLY", -np.inf)


@pytest.fixture(scope="module")
def learned():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neural, "CLEARLY", -np.inf)
        learner = small.run(small.make(1, 2, **TAKEN), wavy)
        assert learner.policy
    return learner


def test_it_is_learned_with_by_name_and_as_an_object(learned, taken):
    small.assert_sound(learned.policy)
    assert learned.policy.options_kind == "neural"
    assert learned.policy.standard_options.h.W.shape == (4, 1, 7)
    assert np.any(learned.policy.standard_options.h.A)
    other = small.run(small.make(1, 2, options=Neural(width=7, depth=1), features="linear"), wavy)
    small.assert_same_bits(other.policy, learned.policy)


@pytest.mark.parametrize("clearly", [1e9, -1e9])
def test_an_option_whose_network_is_none_is_trained_as_a_linear_one(monkeypatch, clearly):
    """No network is so much better, or every one is; the last option is not kept."""
    monkeypatch.setattr(neural, "CLEARLY", clearly)
    rng, kind = np.random.default_rng(2), Neural(width=5 if clearly > 0.0 else 6, depth=1)
    (s, lines, _), (_, waves, _) = samples(300, truth=lambda s: s @ np.array([[0.5, 1.0], [-2.0, 0.3]])), samples(300)
    features, xi = np.concatenate([s, s]), np.concatenate([lines, waves])
    base = np.repeat(np.eye(3)[:, :2], 300, axis=1) * rng.uniform(0.5, 1.0, 600)
    base[2] = 1.0
    arrays = rng.normal(size=600), features, features, xi, base, base, np.array([True, True, False])
    given = {"update": hpsde.REPS(epsilon=10.0), "ridge": None, "variance_floor": 1e-9}
    linear, bent = options.fit_options(*arrays, **given), options.fit_options(*arrays, **given, kind=kind)
    bends = [bool(np.any(each)) for each in np.asarray(bent.h.A)]
    assert bends == [clearly < 0.0, clearly < 0.0, False]
    for one, other in zip(bent[:3], linear[:3], strict=True):
        assert np.array_equal(one[:2], other[:2]) == (clearly > 0.0)
        np.testing.assert_array_equal(one[2], other[2])
    assert clearly > 0.0 or np.trace(bent.Sigma[1]) < 0.5 * np.trace(linear.Sigma[1])


def test_without_a_context_it_is_linear():
    policy = small.run(small.make(0, 2, options=Neural(width=8, depth=1))).policy
    small.assert_same_bits(policy, small.run(small.make(0, 2)).policy)


def test_its_sizes_are_decided_on_by_the_first_learning_step(learned):
    before = learned.settings
    learned.change_settings({"options.ridge": 0.1, "options": "neural"})
    learned.change_settings({"options.ridge": None})
    for changes in ({"options": "linear"}, {"options.width": 9}, {"options": Neural(width=7, depth=2)}):
        with pytest.raises(InputError, match="options: the first learning step has decided on it"):
            learned.change_settings(changes)
    assert learned.settings == before


FRESH = """
import sys, json
import numpy as np, hpsde
policy = hpsde.load_policy(sys.argv[1])
contexts = np.linspace(0.0, 2.0, 9)[:, None]
print(json.dumps([policy.act(contexts).tobytes().hex(), policy.choose(contexts).tolist(), str(policy)]))
print(json.dumps([name for name in ("jax", "jaxlib", "scipy") if name in sys.modules]))
"""


def test_a_stored_one_is_the_same_to_the_bit_and_acts_without_jax(learned, tmp_path):
    policy, path = learned.policy, tmp_path / "policy.npz"
    policy.save(path)
    small.assert_same_bits(hpsde.load_policy(path), policy)
    with np.load(path, allow_pickle=False) as archive:
        assert {f"option_h_{name}" for name in SHAPES} <= set(archive.files)
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(path)], capture_output=True, text=True, timeout=LONG, check=False
    )
    assert done.returncode == 0, done.stderr
    answers, loaded = map(json.loads, done.stdout.splitlines())
    contexts = np.linspace(0.0, 2.0, 9)[:, None]
    assert answers == [policy.act(contexts).tobytes().hex(), policy.choose(contexts).tolist(), str(policy)]
    assert loaded == []


def test_a_run_goes_on_to_the_bit(taken, tmp_path):
    """Networks start from those of the step before: these must be the same for a run that is opened again."""
    files = []
    for how in ("never closed", "with its state", "from its rollouts"):
        folder = tmp_path / how
        run = stored.create(folder, initial="uniform([-1, -1], [1, 1])", **TAKEN)  # the programs of `learned`
        for number, count in enumerate((128, 32, 32)):
            asked = run.ask(small.draw_contexts(number, count, 1))
            s, xi = (np.array([getattr(each, name) for each in asked]) for name in ("context", "parameters"))
            run.tell([each.id for each in asked], wavy(s, xi))
            if how != "never closed" and number:
                run.policy  # noqa: B018 - learns
                run.close()
                if how == "from its rollouts":
                    (folder / "learner.npz").unlink()
                run = hpsde.Run.open(folder)
        policy = run.policy
        policy.save(tmp_path / "policy.npz")
        files.append((tmp_path / "policy.npz").read_bytes())
        run.close()
    assert np.any([each.A for each in policy.acting.options.h])
    assert files[0] == files[1] == files[2]
