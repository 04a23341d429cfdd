"""The folder of compiled programs that is kept between runs: damaged ones are compiled again."""

import subprocess
import sys

import pytest

import compiled
from patience import LONG

PROGRAM = "import jax, jax.numpy as jnp; print(jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((3, 3))).sum())"
ZLIB = b"\x78"  # the first byte
KEEP_ALL = {"JAX_PLATFORMS": "cpu", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


def run(folder):
    """What the program prints; a warning is an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=KEEP_ALL | {"JAX_COMPILATION_CACHE_DIR": str(folder)},
        capture_output=True, text=True, timeout=LONG, check=False,
    )  # fmt: skip
    return done.stdout


def test_what_was_cut_off_is_compiled_again(tmp_path):
    folder = compiled.usable(tmp_path / "kept" / "compiled")
    printed = run(folder)
    names = {file.name for file in folder.iterdir()}
    assert printed
    if not all(file.read_bytes().startswith(ZLIB) for file in folder.iterdir()):
        pytest.skip("JAX compresses with zstandard here, and nothing is kept")
    assert names
    assert {file.name for file in compiled.usable(folder).iterdir()} == names
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[:-20])
    assert run(folder) == ""
    assert list(compiled.usable(folder).iterdir()) == []
    assert run(folder) == printed
    assert {file.name for file in folder.iterdir()} == names


def test_a_folder_that_has_become_large_is_emptied(tmp_path, monkeypatch):
    (tmp_path / "one").write_bytes(b"12345")
    monkeypatch.setattr(compiled, "MOST_BYTES", 4)
    assert list(compiled.usable(tmp_path).iterdir()) == []
