"""Padding to few sizes, and 64 bit without touching the user's setting."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import small
from hpsde.base import precision
from hpsde.base.padding import pad_rows, padded_size
from hpsde.base.precision import double_precision
from patience import LONG

# ---------------------------------------------------------------- padding


def test_sizes_are_powers_of_two_and_one_and_a_half_times_these():
    sizes = sorted({padded_size(n) for n in range(5000)})
    assert sizes == [64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144]


@pytest.mark.parametrize("expected", [0, 100, 640, 1050])
def test_the_size_holds_all_rows_and_grows_with_them(expected):
    sizes = np.array([padded_size(n, expected) for n in range(3000)])
    assert np.all(sizes >= np.arange(3000))
    assert np.all(np.diff(sizes) >= 0)
    # The size itself, and at most half as much again beyond the smallest.
    if expected == 0:
        assert all(padded_size(int(size)) == size for size in np.unique(sizes))
        assert np.all(sizes[65:] < 1.5 * np.arange(65, 3000))


def test_the_expected_rows_have_one_size_until_more_come():
    assert {padded_size(n, 160) for n in range(161)} == {192}
    assert {padded_size(n, 1050) for n in range(1051)} == {1088}
    assert padded_size(128, 128) == 128
    assert padded_size(1051, 1050) == 1536


def test_padding_adds_rows_at_the_end():
    array = np.arange(6.0).reshape(3, 2)
    padded = pad_rows(array, 5)
    assert_array_equal(padded[:3], array)
    assert_array_equal(padded[3:], 0.0)
    assert_array_equal(pad_rows(np.array([4, 5]), 4, fill=-1), [4, 5, -1, -1])
    assert pad_rows(np.array([4, 5]), 4, fill=-1).dtype == np.int64
    assert pad_rows(np.array([True]), 3).tolist() == [True, False, False]
    assert pad_rows(np.zeros((2, 0)), 6).shape == (6, 0)
    assert pad_rows(array, 3) is array
    assert pad_rows(array, 2) is array


# ---------------------------------------------------------------- precision


@double_precision
def third(x):
    """A third of x."""
    return jnp.asarray(x) / 3.0


def test_64_bit_inside_and_the_users_setting_outside():
    with jax.enable_x64(False):
        assert third(1.0).dtype == jnp.float64
        assert float(third(1.0)) == 1.0 / 3.0
        assert jnp.asarray(1.0).dtype == jnp.float32
    assert jnp.asarray(1.0).dtype == jnp.float64  # the tests' own setting


def test_single_precision_is_said_in_one_place(monkeypatch):
    monkeypatch.setattr(precision, "FLOAT", np.float32)
    assert third(1.0).dtype == jnp.float32
    policy = small.run(small.make()).policy
    assert policy.standard_options.b.dtype == np.float64  # numpy's numbers have 64 bits whatever it is
    contexts = small.draw_contexts(7, 25, 1)
    assert np.min(small.two_ridges(contexts, policy.act(contexts))) > 0.95
    small.assert_sound(policy)


def test_the_setting_comes_back_after_an_error():
    @double_precision
    def fail():
        raise KeyError("inside")

    with jax.enable_x64(False):
        with pytest.raises(KeyError, match="inside"):
            fail()
        assert jnp.zeros(1).dtype == jnp.float32


def test_calls_may_be_nested():
    @double_precision
    def outer(x):
        inner = third(x)
        return inner + jnp.asarray(1e-12)

    with jax.enable_x64(False):
        assert outer(1.0).dtype == jnp.float64
        assert float(outer(1.0)) == 1.0 / 3.0 + 1e-12


def test_name_and_arguments_stay():
    assert third.__name__ == "third"
    assert third.__doc__ == "A third of x."
    assert float(third(x=3.0)) == 1.0


def test_other_threads_keep_their_setting():
    inside, looked = threading.Event(), threading.Event()
    seen = []

    @double_precision
    def wait():
        inside.set()
        assert looked.wait(timeout=LONG)

    def look():
        with jax.enable_x64(False):
            assert inside.wait(timeout=LONG)
            seen.append(jnp.zeros(1).dtype)
            looked.set()

    thread = threading.Thread(target=look)
    thread.start()
    wait()
    thread.join()
    assert seen == [jnp.float32]
