"""The precision of what hpsde computes, without touching the user's JAX settings."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from hpsde.base.arrays import is_jax, map_arrays

P = ParamSpec("P")
T = TypeVar("T")

FLOAT: type[np.floating] = np.float64
"""The floating type of what compiled code computes, wherever it does not ask for `single`. This is the one place that
says so; numpy's own numbers have 64 bits whatever it is.
"""


def double_precision(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` with JAX types as wide as FLOAT, where JAX is loaded. It holds for this thread and call alone."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        jax: Any = sys.modules.get("jax")
        if jax is None or not hasattr(jax, "enable_x64"):
            return function(*args, **kwargs)
        with jax.enable_x64(FLOAT is np.float64):
            return function(*args, **kwargs)

    return wrapped


def single(tree: T) -> T:
    """The numbers of a tree in single precision: enough to climb by, and twice as fast."""

    def one(value: Any) -> Any:
        array = value if is_jax(value) else np.asarray(value)
        return array if array.dtype == bool else array.astype(np.float32)

    return map_arrays(one, tree)
