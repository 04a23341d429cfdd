"""Files made to do harm: nothing in them is run, and they take no more memory than they have bytes. And files that
several write at once.
"""

import io
import json
import pickle
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from handmade import by_hand, fields, rewrite
from hpsde import FileFormatError, load_policy
from hpsde.base.archive import read_arrays, write_arrays
from hpsde.policy import fields as _policy_fields


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The bytes of a sound file."""
    path = tmp_path_factory.mktemp("policy") / "policy.npz"
    by_hand().save(path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "policy.npz"


class Touch:
    """Unpickling it creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["header", "option_b", "known_contexts", "extra"])
def test_pickled_objects_are_refused_and_not_run(name, saved, path):
    victim = path.parent / "touched"
    array = np.empty(1, dtype=object)
    array[0] = Touch(victim)
    rewrite(path, fields(saved) | {name: array})
    with np.load(path, allow_pickle=True) as archive:
        archive[name]  # the trap works
    assert victim.exists()
    victim.unlink()
    with pytest.raises(FileFormatError, match=f"its member {name} holds object"):
        load_policy(path)
    assert not victim.exists()


def test_a_plain_pickle_is_refused_and_not_run(path):
    victim = path.parent / "touched"
    path.write_bytes(pickle.dumps(Touch(victim)))
    with pytest.raises(FileFormatError):
        load_policy(path)
    assert not victim.exists()


def test_structured_arrays_are_refused(saved, path):
    rewrite(path, fields(saved) | {"kept": np.zeros(4, dtype=[("a", "f8"), ("b", "O")])})
    with pytest.raises(FileFormatError, match="its member kept holds"):
        load_policy(path)


def test_archives_that_would_grow_are_refused(saved, path):
    with open(path, "wb") as file:
        np.savez_compressed(file, **fields(saved) | {"extra": np.zeros(10**6)})
    with pytest.raises(FileFormatError, match="more bytes than it has"):
        load_policy(path)
    with open(path, "wb") as file:
        np.savez_compressed(file, **fields(saved) | {"extra": np.random.default_rng(0).normal(size=10**5)})
    with pytest.raises(FileFormatError, match=r"compressed or encrypted|more bytes"):
        load_policy(path)


@pytest.mark.parametrize("shape", [(10**12,), (2**62, 4), (-3,), (3,), (10**30,)])
def test_arrays_that_promise_more_than_they_hold_are_refused(shape, saved, path):
    arrays = fields(saved)
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            stream = io.BytesIO()
            np.lib.format.write_array(stream, array, version=(1, 0))
            content = stream.getvalue()
            if name == "mean_returns":
                old, new = b"(4,)", str(shape).encode()
                content = content.replace(old + b", }" + b" " * (len(new) - 4), new + b", }", 1)
                assert new in content
            archive.writestr(f"{name}.npy", content)
    with pytest.raises(FileFormatError, match="which are not float64 of shape"):
        load_policy(path)


@pytest.mark.parametrize("J", [10**8, 10**15])
def test_sizes_without_numbers_behind_them_are_refused(J, saved, path):
    """Without parameters the features of an option need no bytes, however many there are."""
    arrays = fields(saved)
    features = {"features_centres": np.zeros((J, 0)), "features_bandwidth": np.zeros(0), "features_trend": np.zeros(0)}
    empty = {name: np.zeros(0) for name in arrays if name.startswith("units_")}
    empty |= {"units_parameter_axes": np.zeros((0, 0)), "units_return_level": np.zeros(1)}
    empty |= {"known_contexts": np.zeros((3, 0)), "option_b": np.zeros((4, 0)), "option_w": np.zeros((4, J, 0))}
    empty |= {"option_Sigma": np.zeros((4, 0, 0)), "gate_theta": np.zeros((4, 0))}
    header = json.loads(str(arrays["header"])) | {"features": "squared-exponential"}
    kept = {name: array for name, array in arrays.items() if not name.startswith("features_")}
    rewrite(path, kept | features | empty | {"header": json.dumps(header)})
    assert path.stat().st_size < 10_000
    with pytest.raises(FileFormatError, match="it has 0 parameters and 4 options, at least 1 of each is needed"):
        load_policy(path)


def test_gates_of_too_many_points_are_refused(path, monkeypatch):
    by_hand("gp").save(path)
    monkeypatch.setattr(_policy_fields, "LARGEST_POINTS", 15)
    with pytest.raises(FileFormatError, match="its gate has 16 points, at most 15 are possible"):
        load_policy(path)


def test_members_of_the_same_name_are_refused(saved, path):
    path.write_bytes(saved)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("kept.npy", b"")
    with pytest.raises(FileFormatError, match="two members of the same name"):
        load_policy(path)


def test_writers_of_one_file_do_not_disturb_one_another(tmp_path):
    """Whoever reads meanwhile finds the arrays of one writer, whole."""
    path = tmp_path / "arrays.npz"
    write_arrays(path, {"x": np.zeros(50_000)})

    def write(writer):
        for _ in range(20):
            write_arrays(path, {"x": np.full(50_000, float(writer))})

    with ThreadPoolExecutor(3) as threads:
        writing = [threads.submit(write, writer) for writer in range(3)]
        while not all(each.done() for each in writing):
            assert len(set(read_arrays(path)["x"])) == 1
    for each in writing:
        each.result()
    assert [each.name for each in tmp_path.iterdir()] == ["arrays.npz"]
