"""What a learner remembers, in a file and back to the bit; whatever else the file holds is refused."""

import json
import pickle
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import small
from handmade import DOUBTS, binary_gate, by_hand, fields, rewrite
from hpsde import FileFormatError
from hpsde.base.tree import build, flatten
from hpsde.mixture.estimation import Mixture
from hpsde.runs.state import CLASSES, VERSION, _digest, load_state, save_state
from hpsde.steps.initial import EstimatedDensity


class Pair(NamedTuple):
    left: object
    right: object


@dataclass
class Box:
    content: object = None


KNOWN = {"Pair": Pair, "Box": Box}


def there_and_back(value):
    arrays = {}
    outline = json.loads(json.dumps(flatten(value, arrays)))
    return build(outline, arrays, KNOWN)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
NUMBERED = st.integers() | st.text()
TREES = st.recursive(
    PLAIN,
    lambda parts: (
        st.lists(parts)
        | st.lists(parts).map(tuple)
        | st.dictionaries(NUMBERED, parts)
        | st.builds(Pair, parts, parts)
        | st.builds(Box, parts)
    ),
    max_leaves=10,
)


@settings(derandomize=True, deadline=None, max_examples=100, database=None)
@given(value=TREES)
def test_trees_come_back(value):
    assert there_and_back(value) == value


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_arrays_come_back_to_the_bit_and_as_what_they_were(kind):
    values = [np.array([np.nan, -0.0, 1e-310, np.inf]), np.arange(6).reshape(2, 3), np.array(True), np.zeros((0, 2))]
    back = there_and_back({1: [Pair(kind(value), Box(kind(value))) for value in values]})[1]
    for pair, value in zip(back, values, strict=True):
        for found in (pair.left, pair.right.content):
            assert isinstance(found, np.ndarray)
            assert (found.dtype, found.shape) == (value.dtype, value.shape)
            assert np.asarray(found).tobytes() == value.tobytes()


def test_numbers_of_numpy_become_plain():
    assert there_and_back([np.float64(0.1), np.int64(3), np.bool_(True)]) == [0.1, 3, True]


def test_other_objects_are_not_stored():
    with pytest.raises(TypeError, match="set is neither a dataclass nor a named tuple"):
        flatten({1, 2}, {})


JSON = st.recursive(
    PLAIN,
    lambda parts: (
        st.lists(parts) | st.dictionaries(st.sampled_from(["class", "fields", "pairs", "tuple", "jax"]), parts)
    ),
)


@settings(derandomize=True, deadline=None, max_examples=150, database=None)
@given(outline=JSON)
def test_outlines_of_anything_make_nothing_but_plain_values(outline):
    try:
        value = build(outline, {}, KNOWN)
    except (KeyError, TypeError, ValueError, AttributeError):
        return
    assert isinstance(value, None | bool | int | float | str | list | tuple | dict)


@pytest.mark.parametrize(
    "outline",
    [
        {"class": "Popen", "fields": {"args": "true"}},
        {"class": "Pair", "fields": {"left": 1}},
        {"class": "Pair", "fields": {"right": 1, "left": 2}},
        {"class": ["Pair"], "fields": {}},
        {"jax": "array9"},
        {"jax": []},
        {"numpy": "array0", "more": 1},
        {"tuple": "text"},
        {"tuple": [], "more": 1},
        {},
    ],
)
def test_only_known_classes_with_their_own_fields_are_made(outline):
    with pytest.raises((ValueError, TypeError)):
        build(outline, {"array0": np.zeros(2)}, KNOWN)


# The learner's state


@pytest.fixture(scope="module")
def learner():
    """One that has learned twice, and whose policies have proposed."""
    return small.run(small.make(seed=7), rounds=(128, 32))


@pytest.fixture(scope="module")
def saved(learner, tmp_path_factory):
    learner.policy  # noqa: B018 - learns
    path = tmp_path_factory.mktemp("state") / "learner.npz"
    save_state(learner, path, "this run")
    return path.read_bytes()


@pytest.fixture
def path(saved, tmp_path):
    (tmp_path / "learner.npz").write_bytes(saved)
    return tmp_path / "learner.npz"


def test_a_learner_with_the_state_goes_on_to_the_same_bits(learner, path):
    other = small.make(seed=7)
    load_state(other, path, "this run")
    other.rollouts = learner.rollouts
    small.assert_same_bits(other.policy, learner.policy)
    assert (other.info, other.proposals) == (learner.info, learner.proposals)
    contexts = small.draw_contexts(5, 32, 1)
    try:
        one, two = learner.ask(contexts), other.ask(contexts)
    finally:
        learner.forget_asked()
    for part, wanted in zip(two, one, strict=True):
        np.testing.assert_array_equal(part, wanted)


def test_landscape_axes_and_temperature_are_remembered_to_the_bit(tmp_path):
    """With turned axes the next estimate starts from all of them."""
    learner, other = (small.make(seed=7, gp_axes="turned") for _ in range(2))
    small.run(learner, rounds=(128,)).policy  # noqa: B018 - learns
    assert learner._state.landscape.view.V.shape[0] == 1
    assert learner._state.surface.axes.shape == (2, 2)
    save_state(learner, tmp_path / "learner.npz", "this run")
    load_state(other, tmp_path / "learner.npz", "this run")
    other.rollouts = deepcopy(learner.rollouts)
    small.assert_same_bits(other.policy, learner.policy)
    for each in (learner, other):
        small.run(each, rounds=(32,))
    small.assert_same_bits(other.policy, learner.policy)
    assert other.info == learner.info
    assert other._state.temperature == learner._state.temperature == learner.info.temperature


def test_the_state_leaves_out_what_follows_from_the_rest(learner, saved):
    size = learner.policy.gate.process.K_inverse.nbytes
    arrays = fields(saved)
    arrays.pop("header")
    assert max(array.nbytes for array in arrays.values()) < size


def test_doubts_numbers_and_a_gate_of_success_or_failure_are_remembered_to_the_bit(tmp_path):
    policy = replace(by_hand("gp"), gate=binary_gate(1, 2), numbers=np.array([7, 0, 3, 0]), doubts=DOUBTS)
    learner, other = (small.make(1, 2, seed=7) for _ in range(2))
    learner._policy, learner.info = policy, replace(learner.info, updates=3, born=(7,), died=(1, 2))
    save_state(learner, tmp_path / "learner.npz", "this run")
    load_state(other, tmp_path / "learner.npz", "this run")
    assert (other._policy.doubts, other._policy.option_numbers.tolist()) == (DOUBTS, [7, 3])
    assert other.info.born == (7,)
    assert other.info.died == (1, 2)
    np.testing.assert_array_equal(other._policy.gate.process.K_inverse, policy.gate.process.K_inverse)
    small.assert_same_bits(other._policy, policy)


def test_an_estimated_density_is_among_the_classes():
    generator = np.random.default_rng(0)
    shapes = {"alpha": (2,), "beta": (2,), "h": (2, 3), "nu": (2,), "K_inverse": (2, 3, 3), "mass": (2,)}
    mixture = Mixture(**{name: jnp.asarray(generator.normal(size=shape)) for name, shape in shapes.items()})
    arrays = {}
    outline = json.loads(json.dumps(flatten(EstimatedDensity(1, mixture), arrays)))
    back = build(outline, arrays, CLASSES)
    assert back.context_size == 1
    for found, wanted in zip(back.mixture, mixture, strict=True):
        np.testing.assert_array_equal(found, wanted)


def refused(path, origin="this run"):
    """The state is refused by name, and the learner is as it was."""
    learner = small.make(seed=7)
    before = {name: getattr(learner, name) for name in learner.STATE}
    with pytest.raises(FileFormatError, match=r"learner.npz is not a learner's state, or is damaged"):
        load_state(learner, path, origin)
    assert all(getattr(learner, name) is value for name, value in before.items())


def test_the_state_of_another_run_is_refused(path):
    refused(path, "another run")


def test_truncated_states_are_refused(path, saved):
    for length in range(0, len(saved), len(saved) // 23):
        path.write_bytes(saved[:length])
        refused(path)


@pytest.mark.parametrize(
    "change",
    [
        {"version": VERSION - 2},
        {"version": VERSION - 1},
        {"version": VERSION + 1},
        {"format": "hpsde-policy"},
        {"digest": "0"},
        {"state": {}},
        {"state": None},
        {"state": "[" * 5000},
    ],
)
def test_headers_of_another_kind_are_refused(change, path, saved):
    arrays = fields(saved)
    header = json.loads(str(arrays["header"])) | change
    rewrite(path, arrays | {"header": np.array(json.dumps(header))})
    refused(path)


@pytest.mark.parametrize("name", ["info", "proposals", "_history", "_state", "_policy_rollouts"])
@pytest.mark.parametrize("value", [None, "text", [1], {"class": "Units", "fields": {}}, {"pairs": [[[], 1]]}])
def test_states_of_the_wrong_kind_are_refused(name, value, path, saved):
    arrays = fields(saved)
    header = json.loads(str(arrays["header"]))
    header["state"][name] = value
    rewrite(path, arrays | {"header": np.array(json.dumps(header))})
    refused(path)


def test_exchanged_arrays_are_refused(path, saved):
    arrays = fields(saved)
    name = next(name for name, array in arrays.items() if array.dtype == float and array.size)
    rewrite(path, arrays | {name: arrays[name] + 1.0})
    refused(path)


@pytest.mark.parametrize("shape", [(10**8, 1, 0), (10**8, 0)])
def test_shapes_without_numbers_behind_them_are_refused(shape, path, saved):
    """A file of a few bytes that memory would be laid out for: more than a gigabyte, of compiled functions."""
    arrays = fields(saved)
    name = next(name for name, array in arrays.items() if array.dtype == float and array.ndim == 1)
    arrays = arrays | {name: np.zeros(shape)}
    header = json.loads(str(arrays.pop("header")))
    header["digest"] = _digest(arrays)
    rewrite(path, {"header": np.array(json.dumps(header))} | arrays)
    with pytest.raises(FileFormatError, match=f"{name} has no numbers, but the shape"):
        load_state(small.make(seed=7), path, "this run")


class Payload:
    """Would leave a file behind if it were loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_nothing_in_a_state_is_run(path, saved, tmp_path):
    arrays = fields(saved)
    hostile = np.array([Payload(tmp_path / "run")], dtype=object)
    arrays.pop("header")
    header = {
        "format": "hpsde-learner",
        "version": VERSION,
        "origin": "this run",
        "digest": _digest(arrays),
        "state": {},
    }
    with open(path, "wb") as file:
        np.savez(file, header=np.array(json.dumps(header)), hostile=hostile, **arrays)
    refused(path)
    path.write_bytes(pickle.dumps(Payload(tmp_path / "run")))
    refused(path)
    assert not (tmp_path / "run").exists()
