"""Contexts of any shape, and encoders: what makes a few numbers of a context, on which everything is learned."""

import functools
import json
import subprocess
import sys

import numpy as np
import pytest

import hpsde
import small
import stored
from hpsde import FileFormatError, InputError
from hpsde.base.archive import read_arrays, write_arrays
from hpsde.base.draws import make_key
from hpsde.learners.creps import CREPS
from hpsde.learners.hireps import HiREPS
from hpsde.steps.encoders import Flat, OwnEncoder
from hpsde.steps.initial import FromTask, OfEncoded
from hpsde.steps.pictures import PictureEncoder
from hpsde.tasks import make_task
from hpsde.tasks.task import task_from_function

pytestmark = pytest.mark.usefixtures("remembered")

SHAPE = (6, 5)


def shown(s):
    """Pictures [N, 6, 5] in one pixel of which a number stands as it is."""
    pictures = np.zeros((len(s), *SHAPE))
    pictures[:, 2, 3], pictures[:, 0, 0] = s[:, 0], 1.0
    return pictures


def read_off(pictures):
    return pictures[:, 2, 3:4]


def contexts(number, count, _):
    return shown(small.draw_contexts(number, count, 1))


def returns(pictures, parameters):
    return small.two_ridges(read_off(pictures), parameters)


@functools.cache
def learned_from_pictures():
    """For tests that look at it, and tell it nothing."""
    return small.run(small.make(SHAPE, encoder=read_off), returns, contexts=contexts)


def bars(places, size=20, noise=0.0, width=4):
    """Pictures [N, size, size] of squares that move up and down, each in columns of its own: places [N, K] are rows."""
    edges, rng = np.arange(size + 1), np.random.default_rng(5)
    pictures = np.zeros((len(places), size, size))
    for k, low in enumerate(places.T):
        inside = np.diff(np.clip(edges[None], low[:, None], low[:, None] + 3.0), axis=1)
        pictures[:, :, 6 * k + 1 : 6 * k + 1 + width] += inside[:, :, None] * (1.0 - 0.3 * k)
    return pictures + noise * rng.normal(size=pictures.shape)


def places(count, parts=2, seed=0):
    return np.random.default_rng(seed).uniform(0.0, 16.0, (count, parts))


@functools.cache
def fitted(noise=0.0, parts=2):
    return PictureEncoder.fit(bars(places(400, parts), noise=noise))


def unexplained(encoder, make, truth):
    """The share of each true number's variance that no linear function of z predicts in pictures that it never saw."""
    known, unseen = truth(300, seed=1), truth(300, seed=2)
    z, other = (encoder.encode(make(each).reshape(len(each), -1)) for each in (known, unseen))
    fit = np.linalg.lstsq(np.c_[np.ones(len(z)), z], known, rcond=None)[0]
    return np.mean((np.c_[np.ones(len(other)), other] @ fit - unseen) ** 2, axis=0) / unseen.var(axis=0)


# Learning on what an encoder gives


def test_with_pictures_that_show_the_context_the_same_is_learned_to_the_bit():
    plain, seen = small.learned().policy, learned_from_pictures().policy
    s = small.draw_contexts(50, 20, 1)
    assert seen.context_shape == SHAPE
    assert seen.context_size == 30
    assert plain.context_shape == (1,)
    small.assert_same_bits(seen.of_encoded, plain)
    for name in ("act", "choose", "option_means", "expected_returns", "expected_deviations"):
        np.testing.assert_array_equal(getattr(seen, name)(shown(s)), getattr(plain, name)(s))
    xi = plain.act(s)
    for name in ("log_prob", "assign", "log_option_densities"):
        np.testing.assert_array_equal(getattr(seen, name)(shown(s), xi), getattr(plain, name)(s, xi))
    np.testing.assert_array_equal(seen.sample(3, shown(s)), plain.sample(3, s))
    np.testing.assert_array_equal(seen.options[0].mean(shown(s)), plain.options[0].mean(s))
    np.testing.assert_array_equal(seen.encode(shown(s)), s)
    assert seen.summary() == plain.summary()


def test_a_learner_holds_what_was_encoded():
    learner = learned_from_pictures()
    assert learner.context_size == 1
    assert learner.rollouts.contexts.shape == (len(learner.rollouts), 1)
    np.testing.assert_array_equal(learner.rollouts.contexts, small.learned().rollouts.contexts)


def test_a_single_picture_and_rows_of_pixels_are_understood():
    policy = learned_from_pictures().policy
    pictures = shown(small.draw_contexts(51, 4, 1))
    np.testing.assert_array_equal(policy.act(pictures[0]), policy.act(pictures[:1])[0])
    np.testing.assert_array_equal(policy.act(pictures[0].ravel()), policy.act(pictures[0]))
    np.testing.assert_array_equal(policy.act(pictures.reshape(4, 30)), policy.act(pictures))


def test_without_an_encoder_a_shape_is_all_its_numbers():
    def rows(number, count, _):
        return small.draw_contexts(number, count, 2)

    def pairs(number, count, _):
        return rows(number, count, _)[:, None, :]

    one = small.run(small.make(2), contexts=rows).policy
    other = small.run(
        small.make((1, 2)), lambda s, xi: small.two_ridges(s.reshape(len(s), 2), xi), contexts=pairs
    ).policy
    assert isinstance(other.encoder, Flat)
    small.assert_same_bits(other.of_encoded, one)
    s = rows(7, 5, 2)
    np.testing.assert_array_equal(other.act(s[:, None, :]), one.act(s))


@pytest.mark.parametrize("kind", [HiREPS, CREPS])
def test_the_baselines_learn_on_it_too(kind):
    arguments = {"initial": hpsde.Uniform(-1.0, 1.0), "initial_rollouts": 128, "expected_rollouts": 192}
    one = small.run(kind(1, 1, **arguments))
    other = small.run(kind(SHAPE, 1, encoder=read_off, **arguments), returns, contexts=contexts)
    small.assert_same_bits(other.policy.of_encoded, one.policy)


def test_a_function_gets_pictures_in_their_shape_and_the_learner_rows():
    shapes = set()

    def one(picture, parameters):
        shapes.add(picture.shape)
        return small.two_ridges(picture[2:3, 3:4], parameters[None])[0]

    samples = shown(small.draw_contexts(3, 50, 1))
    task = task_from_function(one, contexts=samples, initial=hpsde.Uniform(-1.0, 1.0))
    assert task.context_size == 30
    assert task.context_shape == SHAPE
    drawn = task.sample_contexts(make_key(1), 7)
    assert drawn.shape == (7, 30)
    assert task.evaluation_contexts().shape == (50, 30)
    xi = np.zeros((7, 1))
    np.testing.assert_array_equal(task.evaluate(drawn, xi), task.evaluate(drawn.reshape(7, *SHAPE), xi))
    policy = hpsde.learn(
        task, encoder=read_off, rollouts=192, initial_rollouts=128, batch=32, max_options=4, progress=False
    )
    assert shapes == {SHAPE}
    assert policy.act(samples).shape == (50, 1)


def test_a_tasks_own_initial_policy_gets_the_context_behind_z():
    class Start:
        name = "start"

        def sample_initial(self, key, contexts):
            return contexts[:, 13:14] + 1.0

        def log_initial(self, contexts, parameters):
            return -np.abs(parameters[:, 0] - contexts[:, 13])

    rows = shown(small.draw_contexts(1, 6, 1)).reshape(6, 30)
    z = 2.0 * rows[:, 13:14]
    initial = OfEncoded(FromTask(Start(), 1))
    initial.remember(z, rows)
    np.testing.assert_array_equal(initial.sample(make_key(0), z[[4, 1]]), rows[[4, 1], 13:14] + 1.0)
    np.testing.assert_allclose(initial.log_density(z, rows[:, 13:14] + 1.0), -np.ones(6), rtol=1e-12)


# The encoder that is fitted to pictures


def test_what_moves_is_told_apart_and_numbers_are_linear_in_where_it_is():
    encoder = fitted()
    assert encoder.part_sizes == (1, 1)
    assert encoder.size == 2
    assert encoder.shape == (20, 20)
    assert np.all(unexplained(encoder, bars, places) < 1e-3)
    assert "size=2" in repr(encoder)


def test_noise_in_the_pixels_adds_no_numbers():
    encoder = fitted(noise=0.03)
    assert encoder.part_sizes == (1, 1)
    assert np.all(unexplained(encoder, lambda s: bars(s, noise=0.03), places) < 0.01)


def test_what_moves_in_the_plane_gives_two_numbers():
    def truth(count, seed):
        return np.random.default_rng(seed).uniform(4.0, 12.0, (count, 2))

    def blobs(s):
        y, x = np.mgrid[:16, :16]
        return np.exp(-0.5 * ((y - s[:, :1, None]) ** 2 + (x - s[:, 1:, None]) ** 2) / 2.0**2)

    encoder = PictureEncoder.fit(blobs(truth(500, 0)))
    assert encoder.part_sizes == (2,)
    assert np.all(unexplained(encoder, blobs, truth) < 0.01)


@pytest.mark.parametrize(("name", "size"), [("puddle-image-32", 1), ("puddle-image-moving-32", 5)])
def test_the_true_context_of_the_puddle_is_found(name, size):
    task = make_task(name)
    draw = {seed: task.behind.sample_contexts(make_key(seed), 400) for seed in range(3)}
    encoder = PictureEncoder.fit(task.render(draw[0]))
    assert encoder.size == size
    assert np.all(unexplained(encoder, task.render, lambda count, seed: draw[seed][:count]) < 2e-3)


def test_numbers_need_no_more_than_the_pictures_own_unit():
    """Shifted and scaled pictures give scaled numbers."""
    pictures = bars(places(400))
    one, other = fitted(), PictureEncoder.fit(7.0 * pictures - 3.0)
    z = one.encode(pictures[:50].reshape(50, -1))
    np.testing.assert_allclose(other.encode(7.0 * pictures[:50].reshape(50, -1) - 3.0), 7.0 * z, rtol=1e-5, atol=1e-4)


def test_what_a_picture_gives_does_not_depend_on_the_others():
    rows = bars(places(40)).reshape(40, -1)
    z = fitted().encode(rows)
    for some in ([3], [7, 3], list(range(39, -1, -1))):
        np.testing.assert_array_equal(fitted().encode(rows[some]), z[some])
    np.testing.assert_array_equal(fitted().encode(np.asfortranarray(rows)), z)
    assert fitted().encode(rows[:0]).shape == (0, 2)


def test_a_colour_picture_with_many_pixels_is_averaged():
    def colours(s):
        pictures = bars(s, size=40)
        return np.stack([pictures, 0.5 * pictures, 1.0 - pictures], axis=3)

    encoder = PictureEncoder.fit(colours(places(120)))
    assert encoder.shape == (40, 40, 3)
    assert encoder.part_sizes == (1, 1)
    assert np.all(unexplained(encoder, colours, places) < 0.02)


def test_a_task_gives_its_own_pictures_to_the_fit():
    task = make_task("puddle-image-32")
    one, other = (hpsde.methods.encoder_for("pictures", task, seed)["encoder"] for seed in (3, 3))
    rows = task.sample_contexts(make_key(9), 5)
    np.testing.assert_array_equal(one.encode(rows), other.encode(rows))
    assert one.size == 1


# Errors


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        (np.zeros((200, 8, 8)), "must differ: 50 or more are needed; got 1 different"),
        (1.0 + 1e-14 * np.random.default_rng(0).random((200, 8, 8)), "that are all alike"),
        (bars(places(30)), "50 of them or more; got .30, 20, 20"),
        (np.zeros(200), "must have shape .N, ...."),
        (np.full((60, 4, 4), np.nan), "pictures must be finite.*number 0 has nan at .0, 0."),
        (np.full((60, 4, 4), "a"), "pictures must be numbers"),
    ],
)
def test_pictures_that_show_nothing_are_refused(pictures, message):
    with pytest.raises(InputError, match=message):
        PictureEncoder.fit(pictures)


def broken(pictures, value):
    pictures = pictures.copy()
    pictures[1, 2, 3] = value
    return pictures


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[:, :19], r"must have shape \[3, 20, 20\] or \[3, 400\]; got \[3, 19, 20\]"),
        (lambda x: x[:, :, :, None], r"must have shape .* got \[3, 20, 20, 1\]"),
        (lambda x: x[:2], r"must have shape \[3, 20, 20\]"),
        (lambda x: broken(x, np.nan), r"number 1 has nan at \[2, 3\] \(1 such\)"),
        (lambda x: broken(x, np.inf), r"number 1 has inf at \[2, 3\]"),
        (lambda x: (255 * x).astype(np.uint8), "of the type that the encoder was fitted to, from 0 to 1; number 0"),
        (lambda x: 0.0 * x + 0.5, "number 0 is nearly constant"),
        (lambda x: [["black"]] * 3, "must be numbers"),
        (lambda x: None, r"add needs contexts \[N, 20, 20\]; got none"),
    ],
)
def test_pictures_of_another_kind_are_refused_and_nothing_is_taken(change, message):
    learner = small.make((20, 20), encoder=fitted())
    pictures = bars(places(3))
    with pytest.raises(InputError, match=message):
        learner.add(change(pictures), np.zeros((3, 1)), np.zeros(3))
    assert len(learner.rollouts) == 0
    learner.add(pictures, np.zeros((3, 1)), np.zeros(3))
    assert len(learner.rollouts) == 3


@pytest.mark.parametrize(
    ("shape", "encoder", "message"),
    [
        ((6, 5), lambda x: x[:, 0, 0], r"must give shape \[2, Z\] for contexts \[2, 6, 5\]; got \[2\]"),
        ((6, 5), lambda x: x[:1, 0], r"must give shape \[2, Z\]"),
        ((6, 5), lambda x: np.full((2, 3), np.nan), "must give finite numbers; row 0"),
        ((6, 5), lambda x: "z", "must be numbers"),
        ((6, 5), "pictures", "encoder must be a function .* By its name it is made where a task gives it pictures"),
        ((6, 5), 3, "encoder must be a function"),
        ((20, 19), "fitted", r"the encoder is for contexts of shape \[20, 20\]; got \[20, 19\]"),
        (0, lambda x: x, "an encoder needs contexts; there are none"),
        ((6, 0), None, "context_size must be a whole number of at least 1"),
        ((), None, "context_size must be a number of numbers"),
        ((6, -5), None, "context_size must be a whole number of at least 1"),
        ((10**6, 10**6), None, "a shape of at most"),
    ],
)
def test_encoders_and_shapes_that_do_not_fit_are_refused(shape, encoder, message):
    with pytest.raises(InputError, match=message):
        small.make(shape, encoder=fitted() if encoder == "fitted" else encoder)


def test_an_own_encoder_that_changes_its_mind_is_refused():
    encoder = OwnEncoder(lambda x: x[:, 0] if len(x) < 5 else x[:, 0, :2], SHAPE)
    assert encoder.size == 5
    assert encoder.encode(np.zeros((0, 30))).shape == (0, 5)
    with pytest.raises(InputError, match=r"must give shape \[6, 5\]"):
        encoder.encode(np.zeros((6, 30)))


def test_an_unknown_name_and_a_task_without_contexts():
    task = make_task("puddle-image-32")
    with pytest.raises(hpsde.UnknownNameError, match="pixels"):
        hpsde.learn(task, encoder="pixels", progress=False)
    with pytest.raises(InputError, match="an encoder needs contexts; the task has none"):
        hpsde.learn(make_task("rover"), encoder="pictures", progress=False)
    with pytest.raises(InputError, match="initial: expected an array"):
        hpsde.learn(lambda xi: 0.0, initial=np.zeros((5, 2, 2)), progress=False)


# Files


@functools.cache
def learned_from_bars():
    """The place of the first square is the context of the two ridges; the second square says nothing."""

    def draw(number, count, _):
        return bars(places(count, seed=100 + number))

    def told(pictures, parameters):
        s = pictures[:, :, 1].argmax(axis=1)[:, None] / 8.0
        return small.two_ridges(s, parameters)

    return small.run(small.make((20, 20), encoder=fitted()), told, contexts=draw)


def test_a_saved_policy_acts_on_pictures_without_jax(tmp_path):
    policy, pictures = learned_from_bars().policy, bars(places(9, seed=8))
    policy.save(tmp_path / "policy.npz")
    loaded = hpsde.load_policy(tmp_path / "policy.npz")
    for name in ("act", "choose", "option_means", "expected_returns"):
        np.testing.assert_array_equal(getattr(loaded, name)(pictures), getattr(policy, name)(pictures))
    np.testing.assert_array_equal(loaded.act(pictures[0]), policy.act(pictures[0]))
    assert loaded.encoder.part_sizes == (1, 1)
    loaded.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "policy.npz").read_bytes()
    np.save(tmp_path / "pictures.npy", pictures)
    code = f"""
import sys, numpy as np, hpsde
policy = hpsde.load_policy({str(tmp_path / "policy.npz")!r})
print(policy.act(np.load({str(tmp_path / "pictures.npy")!r})).tobytes().hex())
assert not {{"jax", "scipy"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == policy.act(pictures).tobytes().hex()


def test_files_without_an_encoder_are_of_the_version_before(tmp_path):
    small.learned().policy.save(tmp_path / "plain.npz")
    learned_from_bars().policy.save(tmp_path / "pictures.npz")
    headers = [json.loads(str(read_arrays(tmp_path / f"{name}.npz")["header"])) for name in ("plain", "pictures")]
    assert [each["version"] for each in headers] == [11, 12]
    assert "encoder" not in headers[0]
    assert headers[1]["encoder"] == "pictures"


def test_an_own_encoder_is_given_again_on_loading(tmp_path):
    policy = learned_from_pictures().policy
    policy.save(tmp_path / "policy.npz")
    with pytest.raises(InputError, match="an encoder of your own, which is not in the file"):
        hpsde.load_policy(tmp_path / "policy.npz")
    other = hpsde.load_policy(tmp_path / "policy.npz", encoder=lambda x: x[:, 0])
    with pytest.raises(InputError, match=r"must give shape \[6, 1\] .* got \[6, 5\]"):
        other.act(shown(small.draw_contexts(52, 6, 1)))
    with pytest.raises(InputError, match="must be a function"):
        OwnEncoder("brightness", SHAPE)
    loaded = hpsde.load_policy(tmp_path / "policy.npz", encoder=read_off)
    pictures = shown(small.draw_contexts(52, 6, 1))
    np.testing.assert_array_equal(loaded.act(pictures), policy.act(pictures))
    learned_from_bars().policy.save(tmp_path / "own.npz")
    with pytest.raises(InputError, match="has its own encoder and takes no other"):
        hpsde.load_policy(tmp_path / "own.npz", encoder=read_off)
    small.learned().policy.save(tmp_path / "none.npz")
    with pytest.raises(InputError, match="has no encoder and takes no other"):
        hpsde.load_policy(tmp_path / "none.npz", encoder=read_off)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("encoder_shape", lambda x: x * 0, "contexts are of shape"),
        ("encoder_shape", lambda x: x - 15, "pixels that pictures of shape"),
        ("encoder_shape", lambda x: x * 10**6, "contexts are of shape"),
        ("encoder_pixels", lambda x: x - 400, "pixels that pictures of shape"),
        ("encoder_weights", lambda x: x[:, :1], "encoder_weights has shape"),
        ("encoder_lengths", lambda x: -x, "lengths must be positive"),
        ("encoder_lengths", lambda x: 1e-200 * x, "lengths must be positive"),
        ("encoder_mean", lambda x: x * np.nan, "not finite"),
        ("encoder_number_part", lambda x: x + 1, "of different parts"),
        ("encoder_component_part", lambda x: x.astype(float), "encoder_component_part holds float64"),
        ("header", lambda x: np.array(str(x).replace('"pictures"', '"photos"')), "'photos' is none of"),
        ("header", lambda x: np.array(str(x).replace('"pictures"', '["flat"]')), "is none of"),
        ("header", lambda x: np.array(str(x).replace('"version": 12', '"version": 11')), "its header has the keys"),
    ],
)
def test_damaged_encoders_are_refused(tmp_path, name, change, message):
    learned_from_bars().policy.save(tmp_path / "policy.npz")
    arrays = read_arrays(tmp_path / "policy.npz")
    write_arrays(tmp_path / "policy.npz", arrays | {name: change(arrays[name])})
    with pytest.raises(FileFormatError, match=message):
        hpsde.load_policy(tmp_path / "policy.npz")


# Runs


def pictures_task():
    """Noisy ridges, seen in pictures."""

    def ridges(pictures, parameters, seeds):
        return stored.noisy_ridges(pictures[:, :, 1].argmax(axis=1)[:, None] / 8.0, parameters, seeds)

    samples = bars(places(300, 1, seed=20))
    return task_from_function(
        ridges, contexts=samples, initial=hpsde.Uniform(-1.0, 1.0), batched=True, name="seen ridges"
    )


def create(folder, encoder):
    return hpsde.Run.create(folder, pictures_task(), encoder=encoder, seed=7, chunk=16, **stored.SIZES)


@pytest.mark.parametrize("encoder", ["pictures", lambda x: np.argmax(x[:, :, 1:2], axis=1) / 8.0])
def test_a_run_that_was_interrupted_goes_on_to_the_bit(tmp_path, encoder):
    own = encoder if callable(encoder) else None
    with create(tmp_path / "whole", encoder) as run:
        whole = run.learn(progress=False)
        assert run.rollouts().contexts.shape[1] == 400
        assert whole.encoder.size == 1
    with create(tmp_path / "broken", encoder) as run:
        task = pictures_task()
        for _ in range(2):
            asked = run.ask(task.sample_contexts(make_key(1), 64))
            run.tell(
                [each.id for each in asked],
                task.evaluate(
                    np.array([each.context for each in asked]),
                    np.array([each.parameters for each in asked]),
                    np.array([each.seed for each in asked]),
                ),
            )
        before = run.policy
    with hpsde.Run.open(tmp_path / "broken", task=pictures_task(), encoder=own) as run:
        small.assert_same_bits(run.policy.of_encoded, before.of_encoded)
    (tmp_path / "broken" / "learner.npz").unlink()
    with hpsde.Run.open(tmp_path / "broken", task=pictures_task(), encoder=own) as run:
        small.assert_same_bits(run.policy.of_encoded, before.of_encoded)
        pictures = bars(places(5, 1, seed=3))
        np.testing.assert_array_equal(run.policy.act(pictures), before.act(pictures))
    with create(tmp_path / "again", encoder) as run:
        run.learn(progress=False)
    both = [(tmp_path / name / "policy.npz").read_bytes() for name in ("whole", "again")]
    assert both[0] == both[1]


def test_a_run_says_what_encodes_its_contexts_and_needs_it(tmp_path):
    with create(tmp_path / "run", fitted(parts=1)) as run:
        assert run.config.encoder == "pictures"
        run.ask(bars(places(3, 1)))
    assert json.loads((tmp_path / "run" / "config.json").read_text())["encoder"] == "pictures"
    with (
        hpsde.Run.open(tmp_path / "run", task=pictures_task(), encoder=read_off) as run,
        pytest.raises(InputError, match="this run has its own encoder and takes no other"),
    ):
        run.ask(bars(places(3, 1)))
    (tmp_path / "run" / "encoder.npz").rename(tmp_path / "kept.npz")
    with (
        hpsde.Run.open(tmp_path / "run", task=pictures_task()) as run,
        pytest.raises(FileFormatError, match=r"encoder.npz is missing"),
    ):
        run.ask(bars(places(3, 1)))
    arrays = read_arrays(tmp_path / "kept.npz")
    write_arrays(tmp_path / "run" / "encoder.npz", arrays | {"shape": np.array([4, 4])})
    with (
        hpsde.Run.open(tmp_path / "run", task=pictures_task()) as run,
        pytest.raises(FileFormatError, match=r"encoder.npz is damaged"),
    ):
        run.ask(bars(places(3, 1)))


def test_a_run_with_an_own_encoder_needs_it_again(tmp_path):
    with create(tmp_path / "run", lambda x: x[:, 0]):
        pass
    with (
        hpsde.Run.open(tmp_path / "run", task=pictures_task()) as run,
        pytest.raises(InputError, match=r"an encoder of your own.*Run.open\(folder, encoder=function\)"),
    ):
        run.ask(bars(places(3, 1)))


def test_a_run_of_ask_and_tell_takes_a_shape(tmp_path):
    arguments = {"initial": "uniform(-1, 1)", "context_size": (20, 20), "encoder": fitted(parts=1)}
    with hpsde.Run.create(tmp_path / "run", **arguments, **stored.SIZES) as run:
        assert run.ask(bars(places(3, 1)))[0].context.shape == (400,)
    with hpsde.Run.create(tmp_path / "flat", initial="uniform(-1, 1)", context_size=(2, 3), **stored.SIZES) as run:
        run.ask(np.ones((3, 2, 3)))
        with pytest.raises(InputError, match=r"must have shape \[N, 2, 3\] or \[N, 6\]; got \[3, 3, 2\]"):
            run.ask(np.ones((3, 3, 2)))
    with hpsde.Run.open(tmp_path / "flat") as run:
        run.ask(np.ones((1, 2, 3)))


def test_a_backup_has_the_encoder(tmp_path):
    from hpsde.runs.backup import backup, check

    with create(tmp_path / "run", fitted(parts=1)) as run:
        run.ask(bars(places(3, 1)))
        backup(run, tmp_path / "copy")
    with hpsde.Run.open(tmp_path / "copy", task=pictures_task()) as run:
        run.ask(bars(places(3, 1)))
        assert check(run)["wrong"] == []
    (tmp_path / "copy" / "encoder.npz").write_bytes(b"")
    with hpsde.Run.open(tmp_path / "copy", task=pictures_task()) as run:
        assert any("encoder.npz" in each for each in check(run)["wrong"])


def test_a_run_of_pictures_can_be_looked_at(tmp_path):
    from hpsde.serve.model_data import model_data
    from hpsde.serve.viewing import ViewedRun

    with create(tmp_path / "run", fitted(parts=1)) as run:
        policy = run.learn(progress=False)
        best = run.rollouts().contexts[0]
    assert model_data(policy) is None
    found = ViewedRun(tmp_path / "run", trust=False).evaluate(best.tolist(), axis=3)
    assert found["line"] is None
    places_of = [option["parameters"] for option in found["options"]]
    np.testing.assert_allclose(places_of, policy.option_means(best)[:, 0])


def test_a_plot_of_pictures_writes_out_few_of_their_numbers(tmp_path):
    from hpsde.cli import main

    name = ["puddle-image-32", "--encoder", "pictures", "--out", str(tmp_path / "run"), "--quiet"]
    assert main(["run", *name, "--rollouts", "40", "--initial-rollouts", "30", "--max-options", "4"]) == 0
    assert main(["plot", str(tmp_path / "run"), "--out", str(tmp_path / "run.png")]) == 0
    assert (tmp_path / "run.png").stat().st_size > 1000
    assert main(["resume", str(tmp_path / "run"), "--rollouts", "44", "--quiet"]) == 0
    assert main(["check", str(tmp_path / "run")]) == 0
    assert hpsde.load_policy(tmp_path / "run" / "policy.npz").encoder.size == 1


# ---------------------------------------------------------------- what users' functions do


def test_an_own_encoder_that_writes_into_its_argument_changes_nothing(tmp_path):
    def read_in_place(pictures):
        pictures *= 2.0
        return read_off(pictures / 2.0)

    pictures = shown(small.draw_contexts(3, 5, 1))
    given = {"context_size": pictures.shape[1:], "initial": "uniform(-1, 1)", "encoder": read_in_place}
    with hpsde.Run.create(tmp_path / "run", **given) as run:
        asked = run.ask(pictures)
    np.testing.assert_array_equal(np.stack([each.context for each in asked]).reshape(pictures.shape), pictures)


def test_a_picture_that_an_own_encoder_cannot_read_is_refused_before_its_rollout():
    def half_blind(pictures):
        return np.where(pictures.max(axis=(1, 2))[:, None] > 0.0, read_off(pictures), np.nan)

    pictures = shown(small.draw_contexts(3, 5, 1))
    learner = hpsde.HPSDE(pictures.shape[1:], 1, initial=hpsde.Uniform([-1.0], [1.0]), encoder=half_blind)
    pictures[3] = 0.0
    for call in (learner.ask, lambda s: learner.add(s, np.zeros((5, 1)), np.zeros(5))):
        with pytest.raises(InputError, match=r"row 3 is \[nan\]"):
            call(pictures)


def test_what_an_own_encoder_raises_is_said():
    def broken(pictures):
        raise KeyError("no block in this picture")

    with pytest.raises(InputError, match=r"encoder failed on 2 contexts: KeyError: .*no block"):
        hpsde.HPSDE((4, 4), 1, initial=hpsde.Uniform([-1.0], [1.0]), encoder=broken)


def test_what_hardly_any_picture_shows_is_left_out():
    """A corner that is lit in one picture of many, which is not among those that numbers are learned from."""
    rng = np.random.default_rng(0)
    pictures = bars(rng.uniform(0.0, 1.0, (600, 1)))
    for lit in range(1, 12):
        some = pictures.copy()
        some[lit, :2, :2] += 0.7
        assert np.all(np.isfinite(hpsde.PictureEncoder.fit(some).encode(some.reshape(600, -1)[:20])))


def test_noise_is_no_picture():
    with pytest.raises(InputError, match="change independently"):
        hpsde.PictureEncoder.fit(np.random.default_rng(0).random((400, 16, 16)))


def test_the_encoder_of_another_run_is_refused(tmp_path):
    given = {"context_size": (20, 20), "initial": "uniform(-1, 1)", "encoder": fitted()}
    for name in "ab":
        hpsde.Run.create(tmp_path / name, **given).close()
    (tmp_path / "a" / "encoder.npz").write_bytes((tmp_path / "b" / "encoder.npz").read_bytes())
    with pytest.raises(FileFormatError, match="not that of this run"), hpsde.Run.open(tmp_path / "a") as run:
        run.ask(bars(places(1)))
