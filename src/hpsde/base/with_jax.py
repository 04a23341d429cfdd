"""For functions that compute with JAX: loaded when it is needed, in 64 bits, and what it compiles is kept."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import ParamSpec, TypeVar

from hpsde.base.compilations import listen_to_jax
from hpsde.base.devices import small_steps
from hpsde.base.kept_programs import keeps_programs
from hpsde.base.precision import double_precision

P = ParamSpec("P")
T = TypeVar("T")


def with_jax(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which loads JAX: with 64-bit types, on the CPU unless the user wants it elsewhere."""
    computed = keeps_programs(small_steps(double_precision(function)))

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        import_module("jax")  # before all that looks whether it is there
        listen_to_jax()
        return computed(*args, **kwargs)

    return wrapped
