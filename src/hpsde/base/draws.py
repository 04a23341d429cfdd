"""Random numbers by numpy: those that JAX draws from the same key, and nothing is compiled for a new number of rows.

A key is two 32-bit numbers; JAX's keys hold the same two. Number i of an array comes from the key and i alone, by the
block cipher Threefry-2x32 (Salmon, Moraes, Dror and Shaw 2011), as JAX has it with `jax_threefry_partitionable`: so the
first rows of a larger draw are those of a smaller one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpsde.base.later import Later
from hpsde.base.shapes import Array
from hpsde.base.with_jax import with_jax

special = Later("scipy.special")


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def make_key(seed: int) -> np.ndarray:
    """The key of a seed, from 0 to 2^64 - 1."""
    return np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], dtype=np.uint32)


def numbers_of(key: Any) -> np.ndarray:
    """The two numbers of a key, also of one of JAX's."""
    if isinstance(key, np.ndarray):
        return key
    import jax

    return np.asarray(jax.random.key_data(key))


def jax_key(key: Any) -> Any:
    """The same key for JAX, as tasks and distributions of a user's own expect it."""
    import jax

    return jax.random.wrap_key_data(jax.numpy.asarray(key)) if isinstance(key, np.ndarray) else key


def with_key(draw: Callable[..., Any], key: Any, *arguments: Any) -> Any:
    """draw(key, ...) of a task or distribution, with a key of JAX's unless it has `numpy_keys`, as those of hpsde."""
    if getattr(getattr(draw, "__self__", None), "numpy_keys", False):  # a plain function belongs to nobody
        return draw(key, *arguments)
    return with_jax(lambda: draw(jax_key(key), *arguments))()


def _cipher(key: np.ndarray, high: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Threefry-2x32 of the counters, 32-bit numbers [n] and [n]: twenty rounds."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x, y = high + keys[0], low + keys[1]
    for block in range(5):
        for turn in _ROTATIONS[block % 2]:
            x += y
            y = (y << np.uint32(turn)) | (y >> np.uint32(32 - turn))
            y ^= x
        x += keys[(block + 1) % 3]
        y += keys[(block + 2) % 3]
        y += np.uint32(block + 1)
    return x, y


def _counted(key: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The cipher of 0, ..., count - 1."""
    numbers = np.arange(count, dtype=np.uint64)
    high, low = (numbers >> np.uint64(32)).astype(np.uint32), numbers.astype(np.uint32)
    return _cipher(numbers_of(key), high, low)


def split(key: Any, count: int = 2) -> np.ndarray:
    """New keys [count, 2], as `jax.random.split` gives."""
    return np.stack(_counted(key, count), axis=-1)


def fold_in(key: Any, number: int) -> np.ndarray:
    """A key for that number, as `jax.random.fold_in` gives."""
    high, low = np.zeros(1, dtype=np.uint32), np.array([number], dtype=np.uint32)
    return np.concatenate(_cipher(numbers_of(key), high, low))


def uniform_rows(key: Array, n: int, *more: int) -> np.ndarray:
    """Numbers from 0 to 1 [n, *more] of 64 bits, as `jax.random.uniform` gives."""
    shape = (n, *more)
    high, low = _counted(key, int(np.prod(shape)))
    bits = (high.astype(np.uint64) << np.uint64(32)) | low
    one = np.float64(1.0).view(np.uint64)
    return (((bits >> np.uint64(12)) | one).view(np.float64) - 1.0).reshape(shape)


def normal_rows(key: Array, n: int, *more: int) -> np.ndarray:
    """Standard normal numbers [n, *more] of 64 bits, as `jax.random.normal` gives but for rounding."""
    lowest = np.nextafter(-1.0, 0.0)
    share = np.maximum(lowest, uniform_rows(key, n, *more) * (1.0 - lowest) + lowest)
    return np.sqrt(2.0) * special.erfinv(share)


def permutation(key: Array, n: int) -> np.ndarray:
    """0, ..., n - 1 in random order, as `jax.random.permutation` has it: sorted by random bits, again for large n."""
    order, key = np.arange(n), numbers_of(key)
    for _ in range(int(np.ceil(3.0 * np.log(max(n, 1)) / np.log(2**32 - 1)))):
        key, part = split(key)
        high, low = _counted(part, n)
        order = order[np.argsort(high ^ low, kind="stable")]
    return order


def generator(key: Any) -> np.random.Generator:
    """Further random numbers of a key, by numpy's own generator."""
    return np.random.default_rng(numbers_of(key))
