"""One formula for numpy and for JAX: the library of an array, and its functions that have another name there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def is_jax(array: Any) -> bool:
    """Whether it is an array of JAX, or stands for one in a function that is compiled. This loads no JAX."""
    kind = getattr(sys.modules.get("jax"), "Array", None)  # another thread may be loading it
    return kind is not None and isinstance(array, kind)


def namespace(*arrays: Any) -> Any:
    """jax.numpy where one of the arrays is JAX's, and numpy elsewhere."""
    return sys.modules["jax"].numpy if any(map(is_jax, arrays)) else np


def special(xp: Any) -> Any:
    """Special functions for arrays of that library."""
    if xp is np:
        import scipy.special

        return scipy.special
    import jax.scipy.special

    return jax.scipy.special


def exponential(exponent: Any) -> Any:
    """exp, which takes the place of an exponent by numpy: the caller has made it, and needs it no more."""
    if isinstance(exponent, np.ndarray):
        return np.exp(exponent, out=exponent)
    return namespace(exponent).exp(exponent)


def at_least_zero(values: Any) -> Any:
    """max(values, 0), which takes the place of the values by numpy: the caller has made them."""
    if isinstance(values, np.ndarray):
        return np.maximum(values, 0.0, out=values)
    return namespace(values).maximum(values, 0.0)


def map_arrays(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The tree with its arrays and numbers replaced by what the function says of them and of those at the same places
    in the others. Trees are tuples, named tuples and dictionaries; None stays None.
    """
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {name: map_arrays(function, part, *(each[name] for each in others)) for name, part in tree.items()}
    if not isinstance(tree, tuple):
        return function(tree, *others)
    parts = [map_arrays(function, *each) for each in zip(tree, *others, strict=True)]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def leaves(tree: Any) -> list[Any]:
    """The arrays and numbers of a tree."""
    found: list[Any] = []
    map_arrays(found.append, tree)
    return found


def as_numpy(tree: Any) -> Any:
    """The tree with its arrays as numpy's."""
    return map_arrays(np.asarray, tree)
