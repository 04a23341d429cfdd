"""Where what is computed: learners on the CPU, and on an accelerator what is large enough to gain by it.

A learning step is hundreds of small programs. On a graphics processor each of them takes longer to compile and no less
to run than on the CPU beside it. So learners compute on the CPU even where JAX's default device is another one. Large
Gaussian processes go to the accelerator by themselves (`large_on`). A default device of the user's own
(`jax_default_device`) is left as it is, and HPSDE_DEVICE=default leaves everything on JAX's default device.
"""

from __future__ import annotations

import functools
import os
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
    import jax

    return nullcontext() if device is None else jax.default_device(device)


def small_steps(function: Callable[P, T]) -> Callable[P, T]:
    """The function, computed on the CPU unless the user wants it elsewhere."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        import jax

        config: Any = jax.config
        wanted = config.jax_default_device is not None or os.environ.get(SWITCH, "") == "default"
        with on_device(None if wanted or accelerator() is None else jax.devices("cpu")[0]):
            return function(*args, **kwargs)

    return wrapped
