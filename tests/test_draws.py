"""Random numbers by the row: those of JAX, and nothing is compiled for a new number of rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hpsde.base.compilations import count_compilations
from hpsde.base.draws import normal_rows, permutation, uniform_rows
from hpsde.base.precision import double_precision

SIZES = (0, 1, 2, 3, 7, 50, 63, 64, 65, 97, 1000)


@pytest.mark.parametrize(("rows", "drawn"), [(uniform_rows, jax.random.uniform), (normal_rows, jax.random.normal)])
@pytest.mark.parametrize("more", [(), (1,), (3,)])
def test_numbers_are_those_of_jax_to_the_bit(rows, drawn, more):
    with jax.enable_x64(True):
        for n in SIZES:
            key = jax.random.key(n)
            np.testing.assert_array_equal(rows(key, n, *more), drawn(key, (n, *more), dtype=jnp.float64))


def test_a_permutation_is_that_of_jax():
    with jax.enable_x64(True):
        for n in (*SIZES, 1_700, 3_000):
            key = jax.random.key(n)
            np.testing.assert_array_equal(permutation(key, n), jax.random.permutation(key, n))


def test_a_new_number_of_rows_compiles_nothing():
    draws = [double_precision(draw) for draw in (uniform_rows, normal_rows, permutation)]
    for draw in draws:
        draw(jax.random.key(0), 40)
    with count_compilations() as compiled:
        for n in (1, 2, 3, 17, 64):
            for draw in draws:
                draw(jax.random.key(n), n)
    assert compiled.count == 0
