"""Double precision for the numerics of hpsde, without touching the user's JAX settings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def double_precision(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` with 64-bit JAX types. The setting holds for this thread and this call alone."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        import jax

        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return wrapped


def single(tree: T) -> T:
    """The numbers of a tree in single precision: enough to climb by, and twice as fast."""
    import jax
    import jax.numpy as jnp

    arrays = jax.tree.map(jnp.asarray, tree)
    return jax.tree.map(lambda array: array if array.dtype == bool else array.astype(jnp.float32), arrays)
