"""Random numbers: those of JAX, and nothing is compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hpsde.base.compilations import count_compilations
from hpsde.base.draws import (
    fold_in,
    jax_key,
    make_key,
    normal_rows,
    numbers_of,
    permutation,
    split,
    uniform_rows,
    with_key,
)

SIZES = (0, 1, 2, 3, 7, 50, 63, 64, 65, 97, 1000)


@pytest.mark.parametrize(("more", "sizes"), [((), SIZES), ((1,), SIZES[:4]), ((3,), (0, 1, 21, 22, 97))])
def test_numbers_are_those_of_jax(more, sizes):
    """Uniform ones to the bit; normal ones but for the rounding of the inverse error function."""

    def theirs(keys):  # compiled at once
        given = [{"key": key, "shape": (n, *more), "dtype": jnp.float64} for n, key in keys.items()]
        return [(jax.random.uniform(**each), jax.random.normal(**each)) for each in given]

    with jax.enable_x64(True):
        keys = {n: jax.random.key(n) for n in sizes}
        for (n, key), (uniform, normal) in zip(keys.items(), jax.jit(theirs)(keys), strict=True):
            np.testing.assert_array_equal(uniform_rows(key, n, *more), uniform)
            np.testing.assert_allclose(normal_rows(key, n, *more), normal, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("seed", [0, 1, 7, 2**31 + 3, 2**33 + 5])
def test_keys_are_those_of_jax(seed):
    with jax.enable_x64(True):
        key, own = jax.random.key(seed), make_key(seed)
        np.testing.assert_array_equal(own, jax.random.key_data(key))
        np.testing.assert_array_equal(numbers_of(key), own)
        np.testing.assert_array_equal(jax.random.key_data(jax_key(own)), own)
        for count in (1, 2, 5):
            np.testing.assert_array_equal(split(own, count), jax.random.key_data(jax.random.split(key, count)))
        for number in (0, 3, 1_000_003):
            np.testing.assert_array_equal(fold_in(own, number), jax.random.key_data(jax.random.fold_in(key, number)))
        np.testing.assert_array_equal(uniform_rows(own, 9), uniform_rows(key, 9))


def test_whoever_draws_gets_a_key_of_jax_unless_it_takes_numbers():
    class Theirs:
        def sample(self, key, n):
            return jax.random.uniform(key, (n,))

    class Ours(Theirs):
        numpy_keys = True

        def sample(self, key, n):
            assert isinstance(key, np.ndarray)
            return uniform_rows(key, n)

    numbers = [with_key(each().sample, make_key(5), 4) for each in (Theirs, Ours)]
    np.testing.assert_array_equal(*numbers)
    assert numbers[0].dtype == np.float64
    np.testing.assert_array_equal(with_key(lambda key, n: jax.random.uniform(key, (n,)), make_key(5), 4), numbers[0])


def test_a_permutation_is_that_of_jax():
    with jax.enable_x64(True):
        keys = {n: jax.random.key(n) for n in (*SIZES, 1_700, 3_000)}
        theirs = jax.jit(lambda keys: [jax.random.permutation(key, n) for n, key in keys.items()])(keys)
        for (n, key), expected in zip(keys.items(), theirs, strict=True):
            np.testing.assert_array_equal(permutation(key, n), expected)


def test_nothing_is_compiled():
    with count_compilations() as compiled:
        for n in (1, 2, 3, 17, 64):
            for draw in (uniform_rows, normal_rows, permutation):
                draw(make_key(n), n)
            split(fold_in(make_key(n), 3), n)
    assert compiled.count == 0
