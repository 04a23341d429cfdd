"""Policies in files: the same bits back, a clear error for anything else, and never a line of code run."""

import dataclasses
import io
import json
import os
import pickle
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hpsde
import small
from handmade import DOUBTS, KEPT, binary_gate, by_hand, fields, rewrite
from hpsde import FileFormatError, InputError, gp, load_policy
from hpsde.base import archive as _archive
from hpsde.policy.fields import (
    COMMON,
    ENCODERS,
    FEATURES,
    GATES,
    GONE_IN_VERSION,
    NEW_IN_VERSION,
    OPTIONS,
    fields_of,
    option_fields,
)
from hpsde.serve.model_data import model_data
from hpsde.steps.features import Custom, SquaredExponential
from hpsde.steps.gate import Optimism

PAGE = Path(__file__).parent.parent / "docs/policy_file.md"


def squares(contexts):
    return np.hstack([contexts, contexts**2, np.cos(contexts)])


def exponentials(S):
    centres = np.random.default_rng(5).normal(20.0, 2.0, (3, S))
    return SquaredExponential(centres, np.full(S, 1.7), np.full(S, 0.4))


def make(gate, features="linear", S=1):
    if features == "linear":
        return by_hand(gate, context_size=S)
    feature_map = Custom(squares) if features == "custom" else exponentials(S)
    return by_hand(gate, context_size=S, features=feature_map, feature_size=3 if features == "custom" else 3 + S)


def load(path, features="linear"):
    return load_policy(path, features=squares if features == "custom" else None)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The bytes of one file with a GP gate: the kind with the most fields."""
    path = tmp_path_factory.mktemp("policy") / "policy.npz"
    make("gp").save(path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "policy.npz"


# There and back


@pytest.mark.parametrize("features", ["linear", "squared-exponential", "custom"])
@pytest.mark.parametrize("gate", GATES)
def test_a_loaded_policy_gives_the_same_bits(gate, features, path):
    policy = make(gate, features)
    policy.save(path)
    loaded = load(path, features)
    small.assert_same_bits(policy, loaded)
    with jax.enable_x64(False):
        small.assert_same_bits(policy, load(path, features))
    contexts = 20.0 + np.linspace(-3.0, 3.0, 9)[:, None]
    for optimism in (None, Optimism(1.0)):
        scores = (each.gate_scores(contexts, optimism) for each in (loaded, policy))
        np.testing.assert_allclose(*scores, rtol=1e-9)


@pytest.mark.parametrize("cautious", [True, False])
@pytest.mark.parametrize("turned", [True, False])
def test_gates_of_every_kind_come_back(cautious, turned, path):
    policy = make("gp")
    gate = policy.gate._replace(cautious=cautious, axes=policy.gate.axes if turned else None)
    dataclasses.replace(policy, gate=gate).save(path)
    loaded = load_policy(path).gate
    assert (loaded.cautious, loaded.axes is None) == (cautious, not turned)
    small.assert_same_bits(dataclasses.replace(policy, gate=gate), load_policy(path))


def test_numbers_and_doubts_come_back(path):
    policy = dataclasses.replace(make("gp"), numbers=np.array([7, 0, 3, 0]), doubts=DOUBTS)
    policy.save(path)
    loaded = load_policy(path)
    assert loaded.doubts == DOUBTS
    assert [option.number for option in loaded.options] == [7, 3]
    assert loaded.summary() == policy.summary()
    content = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == content
    make("gp").save(path)
    assert (load_policy(path).numbers, load_policy(path).doubts) == (None, ())


def test_a_policy_is_saved_under_a_name(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for nameless in (".", Path()):
        with pytest.raises(InputError, match=r"expected the name of a file to write, got '\.'"):
            make("softmax").save(nameless)
    assert list(tmp_path.iterdir()) == []


def test_doubts_of_any_value_and_text_can_be_saved(path):
    doubts = (hpsde.Doubt("a\x1b[31m", float("inf"), "two\nlines \ud800"), hpsde.Doubt("", -1e300, ""))
    dataclasses.replace(make("gp"), doubts=doubts).save(path)
    one, two = load_policy(path).doubts
    assert (one.kind, one.text, np.isnan(one.value)) == ("a [31m", "two lines  ", True)
    assert (two.kind, two.text, np.isnan(two.value)) == ("", "", True)


@pytest.mark.parametrize("directions", [None, 3, 1])
@pytest.mark.parametrize("S", [0, 1, 2])
def test_a_gate_of_success_or_failure_comes_back_to_the_bit(S, directions, path):
    if directions is not None and directions > S + 2:
        pytest.skip("there are no more directions than numbers")
    gate = binary_gate(S, 2, directions)
    policy = dataclasses.replace(make("gp", S=S), gate=gate)
    policy.save(path)
    loaded = load_policy(path)
    assert loaded.gate.binary
    assert (loaded.gate.axes is None) == (directions is None)
    np.testing.assert_array_equal(loaded.gate.process.K_inverse, gate.process.K_inverse)
    small.assert_same_bits(policy, loaded)
    contexts = policy.known_contexts
    for optimism in (None, Optimism(1.0)):
        np.testing.assert_array_equal(loaded.gate_scores(contexts, optimism), policy.gate_scores(contexts, optimism))


def test_few_directions_come_back(path):
    policy = make("gp")
    generator = np.random.default_rng(2)
    z, scores = generator.normal(size=(16, 2)), np.sort(generator.normal(size=16))
    hyperparameters = gp.Hyperparameters(np.zeros(2) + 0.3, np.array(0.1), np.array(-1.0))
    process = gp.condition_by_lapack(hyperparameters, z, scores, np.ones(16, dtype=bool))
    gate = policy.gate._replace(process=process, scores=scores, axes=generator.normal(size=(2, 3)))
    policy = dataclasses.replace(policy, gate=gate)
    policy.save(path)
    assert fields(path.read_bytes())["gate_axes"].shape == (2, 3)
    small.assert_same_bits(policy, load_policy(path))
    np.testing.assert_array_equal(load_policy(path).gate.process.K_inverse, process.K_inverse)


@pytest.mark.parametrize("directions", [None, 2])
def test_a_matern_kernel_comes_back(directions, path):
    """With its K^-1, which is computed again with that kernel; read as version 4 it is a squared exponential."""
    generator = np.random.default_rng(3)
    E = 3 if directions is None else directions
    z, scores, mask = generator.normal(size=(16, E)), np.sort(generator.normal(size=16)), np.arange(16) < 13
    hyperparameters = gp.KERNELS["matern"](np.zeros(E) + 0.3, np.array(0.1), np.array(-1.0))
    process = gp.posterior(hyperparameters, z, scores, mask)
    axes = None if directions is None else generator.normal(size=(E, 3))
    gate = make("gp").gate._replace(process=process, scores=np.where(mask, scores, 0.0), axes=axes)
    policy = dataclasses.replace(make("gp"), gate=gate)
    policy.save(path)
    loaded = load_policy(path)
    assert isinstance(loaded.gate.process.hyperparameters, gp.KERNELS["matern"])
    small.assert_same_bits(policy, loaded)
    np.testing.assert_array_equal(loaded.gate.process.K_inverse, process.K_inverse)
    contexts = policy.known_contexts
    for optimism in (None, Optimism(1.0)):
        np.testing.assert_array_equal(loaded.gate_scores(contexts, optimism), policy.gate_scores(contexts, optimism))
    arrays = fields(path.read_bytes())
    for version, kernel in ((10, "matern"), (4, "se")):
        rewrite(path, as_version(version, arrays))
        assert load_policy(path).gate.process.hyperparameters.kernel.name == kernel


def test_a_kernel_that_is_not_known_is_read_by_its_numbers(path):
    """A file of somebody who has one more: it acts, and its process is of that sum."""
    make("gp").save(path)
    arrays = fields(path.read_bytes())
    tau, w = np.array([0.5, 2.0]), np.array([0.25, 0.75])
    rewrite(path, arrays | {"gate_kernel_tau": tau, "gate_kernel_w": w})
    loaded, contexts = load_policy(path), make("gp").known_contexts
    assert loaded.gate.process.hyperparameters.kernel[1:] == ((0.5, 2.0), (0.25, 0.75))
    z = np.random.default_rng(0).normal(size=(4, 3))
    process, known = loaded.gate.process, np.asarray(loaded.gate.process.mask)
    mean = gp.predict_mean(process, jnp.asarray(z))
    lengths = np.exp(np.asarray(process.hyperparameters.log_lengths))
    d2 = np.sum(
        ((z - np.asarray(process.centre))[:, None] - np.asarray(process.z)[known][None]) ** 2 / lengths**2, axis=2
    )
    k = np.exp(2 * float(process.hyperparameters.log_signal)) * (0.25 * np.exp(-d2) + 0.75 * np.exp(-0.25 * d2))
    np.testing.assert_allclose(mean, float(process.mean) + k @ np.asarray(process.beta)[known], rtol=1e-6)
    loaded.save(path.with_name("again.npz"))
    np.testing.assert_array_equal(load_policy(path.with_name("again.npz")).act(contexts), loaded.act(contexts))


def saved_as(version, gate, path):
    """A policy with doubts and numbers in a file of that version, and the arrays of the newest one."""
    policy = dataclasses.replace(make(gate), doubts=DOUBTS, numbers=np.array([3, 0, 5, 0]))
    policy.save(path)
    arrays = fields(path.read_bytes())
    rewrite(path, as_version(version, arrays))
    return policy, arrays


@pytest.mark.parametrize("gate", GATES)
def test_files_of_version_4_are_read(gate, path):
    """All kernels were squared exponentials."""
    policy, arrays = saved_as(4, gate, path)
    small.assert_same_bits(load_policy(path), policy)
    if gate == "gp":
        rewrite(path, arrays | {"header": as_version(4, arrays)["header"]})
        with pytest.raises(FileFormatError, match=r"the field \w+ is not known"):
            load_policy(path)


def test_which_options_were_tried_comes_back(path):
    """Of slots without an option nobody has tried any; where nobody counted, all options have been."""
    for tried, wanted in ((np.array([False, True, True, True]), [False, False, True, False]), (None, KEPT)):
        policy = dataclasses.replace(make("softmax"), tried=tried)
        policy.save(path)
        loaded = load_policy(path)
        np.testing.assert_array_equal(loaded.tried, wanted)
        small.assert_same_bits(policy, loaded)


def test_what_options_have_earned_comes_back_and_version_7_did_not_say_it(path):
    given = {"measured_returns": np.array([1.5, 9.0, -2.0, 9.0]), "measured_rollouts": np.array([20, 9, 0, 9])}
    policy = dataclasses.replace(make("gp"), **given)
    policy.save(path)
    for loaded, wanted in ((load_policy(path), [(1.5, 20), (None, 0)]), (saved_again(path, 7), [(None, 0)] * 2)):
        assert [(option.measured_return, option.measured_rollouts) for option in loaded.options] == wanted
    policy.save(path)
    arrays = fields(path.read_bytes())
    rewrite(path, arrays | {"option_measured_rollouts": -arrays["option_measured_rollouts"]})
    with pytest.raises(FileFormatError, match="option_measured_rollouts must not be negative"):
        load_policy(path)


def saved_again(path, version):
    """The policy of the file, read from one of an earlier version."""
    rewrite(path, as_version(version, fields(path.read_bytes())))
    return load_policy(path)


@pytest.mark.parametrize("gate", GATES)
def test_files_of_version_3_are_read(gate, path):
    """They did not say which options had been tried: all had."""
    policy, arrays = saved_as(3, gate, path)
    loaded = load_policy(path)
    small.assert_same_bits(loaded, policy)
    np.testing.assert_array_equal(loaded.tried, policy.kept)
    assert loaded.doubts == DOUBTS
    rewrite(path, arrays | {"header": as_version(3, arrays)["header"]})
    with pytest.raises(FileFormatError, match=r"the field \w+ is not known"):
        load_policy(path)


def test_the_level_of_the_return_comes_back_and_version_5_had_none(path):
    plain, contexts = make("gp"), np.linspace(15.0, 25.0, 7)[:, None]
    lifted = dataclasses.replace(plain, units=plain.units._replace(return_level=np.array([1.0, 2.0, 3.0])))
    lifted.save(path)
    small.assert_same_bits(load_policy(path), lifted)
    s = plain.units.contexts(contexts)[:, 0]
    np.testing.assert_allclose(
        lifted.expected_returns(contexts) - plain.expected_returns(contexts),
        np.tile(1.0 + 2.0 * s + 3.0 * s**2, (2, 1)),
        rtol=1e-9,
    )
    rewrite(path, as_version(5, fields(path.read_bytes())))
    small.assert_same_bits(load_policy(path), plain)


@pytest.mark.parametrize("gate", GATES)
def test_files_of_version_2_are_read(gate, path):
    """They had no numbers, no doubts, no gate of success or failure, and gates saw all directions."""
    policy = make(gate)
    policy.save(path)
    arrays = as_version(2, fields(path.read_bytes()))
    rewrite(path, arrays)
    small.assert_same_bits(load_policy(path), policy)
    assert (load_policy(path).numbers, load_policy(path).doubts) == (None, ())
    rewrite(path, arrays | {"option_numbers": np.zeros(4, dtype=np.int64)})
    with pytest.raises(FileFormatError, match="the field option_numbers is not known"):
        load_policy(path)


def test_few_directions_are_refused_in_version_2(path):
    dataclasses.replace(make("gp"), gate=binary_gate(1, 2, 2)).save(path)
    rewrite(path, as_version(2, fields(path.read_bytes())))
    with pytest.raises(FileFormatError, match="2 axes of a gate were found where 3 to 3 are possible"):
        load_policy(path)


def as_version(version, arrays):
    """The arrays of a file as an earlier hpsde wrote them."""
    header = json.loads(str(arrays["header"])) | {"version": version}
    if version < 3:
        del header["doubts"]
    if version < 10:
        del header["options"]
    later = {name for since, names in NEW_IN_VERSION.items() if since > version for name in names}
    matern = {"gate_matern": np.array(len(arrays["gate_kernel_tau"]) > 1)} if header["gate"] == "gp" else {}
    return (
        {name: array for name, array in arrays.items() if name not in later}
        | (matern if 5 <= version < 11 else {})
        | {"header": np.array(json.dumps(header))}
    )


@pytest.mark.parametrize("features", ["linear", "squared-exponential"])
@pytest.mark.parametrize("gate", GATES)
def test_files_of_version_1_are_read(gate, features, path):
    """They had no axes and no trend, and a Gaussian process took the best expected return."""
    exponential = SquaredExponential(exponentials(1).centres, np.full(1, 1.7), np.zeros(1))
    given = {"features": exponential, "feature_size": 3} if features == "squared-exponential" else {}
    policy = by_hand(gate, **given)
    policy = dataclasses.replace(policy, units=policy.units._replace(parameter_axes=np.eye(2)))
    if gate == "gp":
        policy = dataclasses.replace(policy, gate=policy.gate._replace(axes=None, cautious=False))
    policy.save(path)
    arrays = fields(path.read_bytes())
    old = as_version(1, arrays)
    rewrite(path, old)
    small.assert_same_bits(load_policy(path), policy)
    load_policy(path).save(path)
    assert json.loads(str(fields(path.read_bytes())["header"]))["version"] == 11
    rewrite(path, arrays | {"header": old["header"]})
    with pytest.raises(
        FileFormatError,
        match=r"the field (option_\w+|units_(parameter_(axes|low|high)|return_level)) is not known",
    ):
        load_policy(path)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("S", [0, 2])
def test_policies_without_contexts_and_with_several(gate, S, path):
    policy = make(gate, S=S)
    policy.save(path)
    small.assert_same_bits(policy, load_policy(path))


def test_the_same_policy_gives_the_same_bytes(saved, path):
    make("gp").save(path)
    assert path.read_bytes() == saved
    load_policy(path).save(path)
    assert path.read_bytes() == saved


def test_names_may_be_text_and_need_no_ending(tmp_path):
    make("softmax").save(str(tmp_path / "thrower"))
    assert os.listdir(tmp_path) == ["thrower"]
    small.assert_same_bits(load_policy(str(tmp_path / "thrower")), make("softmax"))


def test_saving_replaces_the_file_whole_or_not_at_all(saved, path, monkeypatch):
    path.write_bytes(saved)
    make("softmax").save(path)
    assert load_policy(path).gate.kind == "softmax"

    def break_off(*arguments, **options):
        raise OSError("no space left")

    monkeypatch.setattr(_archive.os, "fsync", break_off)
    with pytest.raises(OSError, match="no space left"):
        make("gp").save(path)
    assert os.listdir(path.parent) == [path.name]
    assert load_policy(path).gate.kind == "softmax"
    with pytest.raises(FileNotFoundError):
        make("gp").save(path.parent / "no such folder" / "policy.npz")


def test_features_of_ones_own_are_needed_again(path):
    make("softmax", "custom").save(path)
    with pytest.raises(InputError, match=r"features of your own: load_policy\(path, features=function\)"):
        load_policy(path)
    with pytest.raises(InputError, match="which gave 3 features; this one gives 1"):
        load_policy(path, features=lambda s: s)
    make("softmax", "linear").save(path)
    with pytest.raises(InputError, match="has linear features and takes no others"):
        load_policy(path, features=squares)


def test_any_reader_of_numpys_files_can_read_it(saved):
    arrays = fields(saved)
    header = json.loads(str(arrays.pop("header")))
    kinds = {"features": "linear", "gate": "gp"}
    assert header == {"format": "hpsde-policy", "version": 11, **kinds, "doubts": [], "options": "linear"}
    assert set(arrays) == set(fields_of("linear", "gp"))
    assert all(array.dtype in (np.float64, np.int64, bool) for array in arrays.values())


def test_the_page_names_every_field_with_its_type_and_shape():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| \[(.*?)\] \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    types = {"float64": "<f8", "int64": "<i8", "bool": "|b1"}
    written = [(name, types[kind], shape.replace(",", "")) for name, kind, shape in rows]
    known = [COMMON, *FEATURES.values(), *map(option_fields, OPTIONS), *GATES.values()]
    encoders = {tuple(kind.fields.items()): kind.fields for kind in ENCODERS.values()}
    known += [{f"encoder_{name}": field for name, field in each.items()} for each in encoders.values()]
    gone = {name for names in GONE_IN_VERSION.values() for name in names}
    shown = [(name, f.dtype, f.shape) for part in known for name, f in part.items() if name not in gone]
    assert sorted(written) == sorted(shown)


def test_code_of_the_page_runs(path, monkeypatch, capsys):
    make("gp").save(path)
    monkeypatch.chdir(path.parent)
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(snippet, {})
    assert "'option_Sigma': (4, 2, 2)" in capsys.readouterr().out


def test_what_a_sparse_gate_knows_comes_back_and_version_8_had_none(path):
    """Its matrix does not follow from its points, so it is in the file."""
    policy = make("gp")
    process, half = policy.gate.process, 0.5 * np.asarray(policy.gate.process.K_inverse)
    gate = policy.gate._replace(process=process._replace(K_inverse=half), sparse=True)
    policy = dataclasses.replace(policy, gate=gate)
    policy.save(path)
    loaded, contexts = load_policy(path), np.linspace(-1.0, 1.0, 9)[:, None]
    small.assert_same_bits(loaded, policy)
    np.testing.assert_array_equal(np.asarray(loaded.gate.process.K_inverse), half)
    rows = np.random.default_rng(0).normal(size=(9, half.shape[0])) * np.asarray(process.mask)
    known = loaded.acting.gate.process.known(rows[:, np.asarray(process.mask)])
    np.testing.assert_allclose(known, np.sum((rows @ half) * rows, axis=1), rtol=1e-9)
    np.testing.assert_array_equal(loaded.act(contexts), policy.act(contexts))
    assert model_data(make("gp")) is not None
    assert model_data(loaded) is None  # a page computes deviations from the points
    arrays = fields(path.read_bytes())
    for wrong, message in ((half[:3, :3], "what its gate knows is of 3 points"), (half[:, :3], "gate_known has shape")):
        rewrite(path, arrays | {"gate_known": wrong})
        with pytest.raises(FileFormatError, match=message):
            load_policy(path)
    rewrite(path, as_version(8, arrays))
    assert not load_policy(path).gate.sparse


# Damage


def refused(path, content, match="not a policy file|damaged"):
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=match) as caught:
        load_policy(path)
    assert str(path) in str(caught.value)


def test_truncated_files_are_refused(saved, path):
    for length in [*range(0, len(saved), 61), len(saved) - 1]:
        refused(path, saved[:length])


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"not a policy", b"\x93NUMPY", pickle.dumps([1, 2]), b"PK\x05\x06" + bytes(18)],
    ids=["empty", "zip magic", "text", "npy magic", "pickle", "empty archive"],
)
def test_other_files_are_refused(content, path):
    refused(path, content)


def test_a_single_array_is_refused(path):
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    refused(path, stream.getvalue())


@settings(derandomize=True, deadline=None, max_examples=150, database=None)
@given(data=st.data())
def test_flipped_bytes_are_found_or_harmless(saved, tmp_path_factory, data):
    """A checksum guards the arrays; what it does not guard (dates, attributes) changes nothing."""
    content = bytearray(saved)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(saved) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("flipped") / "policy.npz"
    path.write_bytes(bytes(content))
    try:
        policy = load_policy(path)
    except FileFormatError:
        return
    small.assert_same_bits(policy, make("gp"))


def test_missing_and_unknown_fields_are_named(saved, path):
    arrays = fields(saved)
    for name in arrays:
        rewrite(path, {key: value for key, value in arrays.items() if key != name})
        message = "no hpsde header" if name == "header" else f"the field {name} is missing"
        with pytest.raises(FileFormatError, match=message):
            load_policy(path)
    rewrite(path, arrays | {"extra": np.zeros(3)})
    with pytest.raises(FileFormatError, match="the field extra is not known"):
        load_policy(path)


@pytest.mark.parametrize("name", [name for name in fields_of("linear", "gp") if name != "gate_known"])
def test_fields_of_another_shape_type_or_without_numbers_are_named(name, saved, path):
    arrays = fields(saved)
    array = arrays[name]
    wrong = [array[None], array.astype(np.float32), array.astype("U9")]
    if array.dtype == float:
        wrong += [np.full_like(array, np.nan), np.full_like(array, -np.inf if name.endswith("high") else np.inf)]
    for value in wrong:
        rewrite(path, arrays | {name: value})
        with pytest.raises(FileFormatError, match=name):
            load_policy(path)


@pytest.mark.parametrize("name", sorted(set(fields_of("linear", "gp")) - {"known_contexts", "gate_known"}))
def test_fields_that_do_not_fit_each_other_are_refused(name, saved, path):
    arrays = fields(saved)
    array = arrays[name]
    longer = np.stack([array, array]) if array.ndim == 0 else np.concatenate([array, array])
    rewrite(path, arrays | {name: longer})
    refusal = r"the field \w+ has shape \[.*\], expected \[|6 numbers of the return's level were found where 3 are"
    with pytest.raises(FileFormatError, match=refusal):
        load_policy(path)


def test_features_and_gate_that_do_not_fit_the_options_are_refused(saved, path):
    arrays = fields(saved)
    wide = {name: np.concatenate([arrays[name]] * 2) for name in ("features_centre", "features_scale")}
    rewrite(path, arrays | wide | {"option_w": np.concatenate([arrays["option_w"]] * 2, axis=1)})
    with pytest.raises(FileFormatError, match="2 linear features were found for 1 context numbers"):
        load_policy(path)
    make("gp", "squared-exponential").save(path)
    bumpy = fields(path.read_bytes())
    rewrite(path, bumpy | {"features_trend": np.zeros(1)})
    with pytest.raises(FileFormatError, match="options of 4 features were found where 3 features are"):
        load_policy(path)
    wide = {name: np.concatenate([arrays[name]] * 2) for name in ("gate_log_lengths", "gate_centre")}
    wide |= {"gate_z": np.concatenate([arrays["gate_z"]] * 2, axis=1), "gate_axes": np.eye(6)}
    rewrite(path, arrays | wide)
    with pytest.raises(FileFormatError, match="6 numbers of a gate were found where 3 are needed"):
        load_policy(path)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("kept", lambda x: x & False, "no option is kept"),
        ("units_parameter_scale", lambda x: -x, "units_parameter_scale must be positive"),
        ("units_parameter_axes", lambda x: 0 * x, "units_parameter_axes holds axes that do not span the parameters"),
        ("units_context_scale", lambda x: 0 * x, "units_context_scale must be positive"),
        ("option_Sigma", lambda x: -x, "option_Sigma holds a matrix that is no covariance"),
        ("option_Sigma", lambda x: x + np.array([[0.0, 1.0], [0.0, 0.0]]), "no covariance"),
        ("option_numbers", lambda x: x + 1, "numbers that name no options"),
        ("option_numbers", lambda x: x + np.array([1, 0, 0, 0]), "numbers that name no options"),
        ("option_numbers", lambda x: x - KEPT * np.arange(1, 5), "numbers that name no options"),
        ("gate_binary", lambda x: ~x, "gate_scores must hold 0 or 1"),
        ("gate_log_lengths", lambda x: x + 1e4, "must lie within"),
        ("gate_warp_scores", lambda x: x[::-1], "do not increase"),
        ("gate_warp_returns", lambda x: x[::-1], "do not increase"),
        ("gate_kernel_tau", lambda x: -x, "must be positive"),
        ("gate_kernel_w", lambda x: 2.0 * x, "sum to 1"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(name, change, message, saved, path):
    arrays = fields(saved)
    rewrite(path, arrays | {name: change(arrays[name])})
    with pytest.raises(FileFormatError, match=message):
        load_policy(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"version": 13}, "has version 13; this hpsde reads versions 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12"),
        ({"version": 9}, "its header has the keys"),
        ({"options": "waves"}, "options 'waves' is none of linear, neural, squared: import the module that defines it"),
        ({"version": 10, "options": ["linear"]}, "options .* is none of linear, neural, squared"),
        ({"version": 2}, "its header has the keys"),
        ({"doubts": None}, "is damaged: doubts: expected a list"),
        ({"doubts": [["wide", 1.0, "text"]]}, "is damaged: doubts"),
        ({"doubts": [{"kind": "wide", "value": 1.0}]}, "is damaged: doubts"),
        ({"doubts": [{"kind": "wide", "value": "1", "text": ""}]}, "is damaged: doubts"),
        ({"doubts": [{"kind": "wide", "value": True, "text": ""}]}, "is damaged: doubts"),
        ({"doubts": [{"kind": "wide", "value": float("nan"), "text": ""}]}, "is damaged: doubts"),
        ({"doubts": [{"kind": "wide", "value": 10**400, "text": ""}]}, "is damaged: doubts"),
        ({"doubts": [{"kind": ["wide"], "value": 1.0, "text": ""}]}, "is damaged: doubts"),
        ({"doubts": [{"kind": "wide", "value": 1.0, "text": "\x1b[2J"}]}, "is damaged: doubts"),
        ({"doubts": [{"kind": "wide", "value": 1.0, "text": "\ud800"}]}, "is damaged: doubts"),
        ({"version": "2"}, "has version '2'"),
        ({"format": "hpsde-run"}, "its format is 'hpsde-run', not 'hpsde-policy'"),
        ({"gate": "oracle"}, "gate 'oracle' is none of gp, gp-draws, marginal, softmax"),
        ({"gate": ["gp"]}, "gate .* is none of"),
        ({"features": "wavelet"}, "features 'wavelet' is none of linear"),
        ({"code": "print(1)"}, "its header has the keys"),
    ],
)
def test_headers_of_another_kind_are_refused(header, message, saved, path):
    arrays = fields(saved)
    changed = json.loads(str(arrays["header"])) | header
    rewrite(path, arrays | {"header": np.array(json.dumps(changed))})
    with pytest.raises(FileFormatError, match=message):
        load_policy(path)


def test_a_gate_of_success_or_failure_has_probabilities(path):
    dataclasses.replace(make("gp"), gate=binary_gate(1, 2)).save(path)
    arrays = fields(path.read_bytes())
    for wrong in (arrays["gate_beta"] * 1e200, arrays["gate_beta"] + 1.0):
        rewrite(path, arrays | {"gate_beta": wrong})
        with pytest.raises(FileFormatError, match="gate_beta must hold scores less probabilities"):
            load_policy(path)


@pytest.mark.parametrize("directions", [0, 4])
def test_a_gate_sees_some_direction_and_no_more_than_there_are(directions, saved, path):
    arrays = fields(saved)
    shape = {"gate_log_lengths": directions, "gate_centre": directions, "gate_z": (16, directions)}
    changed = {name: np.zeros(size) for name, size in shape.items()} | {"gate_axes": np.zeros((directions, 3))}
    rewrite(path, arrays | changed)
    with pytest.raises(FileFormatError, match=f"{directions} axes of a gate were found where 1 to 3 are possible"):
        load_policy(path)


@pytest.mark.parametrize("header", ["", "{", "[1]", "1", "null", "[" * 100_000, '{"format": "hpsde-policy"}'])
def test_headers_that_are_none_are_refused(header, saved, path):
    rewrite(path, fields(saved) | {"header": np.array(header)})
    with pytest.raises(FileFormatError, match="no hpsde header"):
        load_policy(path)


def test_a_missing_file_and_a_folder_are_the_usual_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_policy(tmp_path / "nothing.npz")
    with pytest.raises(OSError, match="directory"):
        load_policy(tmp_path)


def test_loading_is_offered_by_the_package():
    assert hpsde.load_policy is load_policy
