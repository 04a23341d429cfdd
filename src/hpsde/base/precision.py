"""Double precision for the numerics of hpsde, without touching the user's JAX settings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

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
    """The numbers of a tree in single precision: enough to climb by, and twice as fast.

    On a CPU they are numpy's: there is nothing to compile, and nothing is copied where they go.
    """
    import jax
    import jax.numpy as jnp

    on_cpu = jax.default_backend() == "cpu"

    def one(leaf: Any) -> Any:
        xp: Any = np if on_cpu and not isinstance(leaf, jax.core.Tracer) else jnp
        array = xp.asarray(leaf)
        return array if array.dtype == bool else array.astype(xp.float32)

    return jax.tree.map(one, tree)
