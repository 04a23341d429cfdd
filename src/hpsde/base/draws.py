"""Random numbers by the row, of few array sizes: a new number of rows costs no compilation.

The first rows of a larger draw are those of a smaller one with the same key, to the bit: JAX counts through the
numbers of an array in their order (`jax_threefry_partitionable`).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from hpsde.base.padding import padded_size
from hpsde.base.shapes import Array


def uniform_rows(key: Array, n: int, *more: int) -> np.ndarray:
    """Numbers from 0 to 1 [n, *more] of 64 bits."""
    return _rows(jax.random.uniform, key, n, more)


def normal_rows(key: Array, n: int, *more: int) -> np.ndarray:
    """Standard normal numbers [n, *more] of 64 bits."""
    return _rows(jax.random.normal, key, n, more)


def _rows(draw: Callable[..., Array], key: Array, n: int, more: tuple[int, ...]) -> np.ndarray:
    return np.asarray(draw(key, (padded_size(n), *more), dtype=jnp.float64))[:n]


def permutation(key: Array, n: int) -> np.ndarray:
    """0, ..., n - 1 in random order, as `jax.random.permutation` has it: sorted by random bits, again for large n."""
    order = np.arange(n)
    for _ in range(int(np.ceil(3.0 * np.log(max(n, 1)) / np.log(2**32 - 1)))):
        key, part = jax.random.split(key)
        bits = np.asarray(jax.random.bits(part, (padded_size(n),), dtype=jnp.uint32))[:n]
        order = order[np.argsort(bits, kind="stable")]
    return order
