"""Where what is computed: learners on the CPU, and on an accelerator what is large enough to gain by it.

Learning steps are small. Nearly all that learners compute is numpy's, and what JAX compiles would take longer to
compile on a graphics processor, and no less to run, than on the CPU beside it. So they compute on the CPU even where
JAX's default device is another one. Large Gaussian processes go to the accelerator by themselves (`large_on`). A
default device of the user's own (`jax_default_device`) is left as it is, and HPSDE_DEVICE=default leaves all on JAX's
default device.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SWITCH = "HPSDE_DEVICE"
POINTS = 2048  # of an exact process, from which on an accelerator is faster than LAPACK


def accelerator() -> Any | None:
    """JAX's default device where it is no CPU; None elsewhere."""
    import jax

    return None if jax.default_backend() == "cpu" else jax.devices()[0]


def large_on(points: int) -> Any | None:
    """The device for a process of so many points: an accelerator where there is one and they are enough, or None."""
    return accelerator() if points >= POINTS else None


def on_device(device: Any | None) -> AbstractContextManager[Any]:
    """Inside, JAX computes on that device; on its default one for None."""
    if device is None:
        return nullcontext()
    import jax

    return jax.default_device(device)


def small_steps(function: Callable[P, T]) -> Callable[P, T]:
    """The function, what JAX computes in it on the CPU unless the user wants it elsewhere; JAX is loaded already."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        jax = sys.modules.get("jax")
        if jax is None or not hasattr(jax, "config"):
            return function(*args, **kwargs)
        config: Any = jax.config
        wanted = config.jax_default_device is not None or os.environ.get(SWITCH, "") == "default"
        with on_device(None if wanted or accelerator() is None else jax.devices("cpu")[0]):
            return function(*args, **kwargs)

    return wrapped
