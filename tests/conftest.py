"""Strict settings for all tests: 64 bit, no silent broadcasting, shapes checked at run time."""

import os
from pathlib import Path

import compiled

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # What one process compiles, the others, the commands they start and the next run of the tests need not.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(compiled.usable(Path(__file__).parents[1] / ".pytest_cache/compiled"))

# Before numpy, scipy or jax are imported: they read these once.
for name, value in {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.03",
}.items():
    os.environ.setdefault(name, value)

import jax
import pytest

import shape_checks

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

shape_checks.install()

from hpsde.base.program_memory import make_room


@pytest.fixture(scope="module", autouse=True)
def room():
    """A process that runs many files compiles more programs than it has room for. Each file checks all shapes anew."""
    make_room()
    shape_checks.begin()


@pytest.fixture(scope="module")
def chromium():
    """One browser for all tests of a file; what they open in it is closed after each."""
    from browser import browser

    with browser() as running:
        yield running


@pytest.fixture
def open_tab(chromium):
    """address, width -> a page of its own, which shares nothing with another."""
    from browser import Tab

    tabs = []

    def opened(address, width=1280):
        tabs.append(Tab(chromium, address, width))
        return tabs[-1]

    yield opened
    for tab in tabs:
        tab.page.close()


@pytest.fixture(scope="module")
def remembered():
    """A file that asks for it computes no learning step twice (tests/remembered.py)."""
    import remembered as memory

    with memory.steps():
        yield
