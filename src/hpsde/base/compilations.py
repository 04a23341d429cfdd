"""Count how often XLA compiles: the hidden cost of a run, and a tested property."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# The event that JAX records once for each program it has XLA build.
COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"


@dataclass(eq=False)
class Compilations:
    """How many programs were compiled so far, and the seconds that took."""

    count: int = 0
    seconds: float = 0.0


_open: list[Compilations] = []
_state = {"listening": False}


def listen_to_jax() -> None:
    """Hear what JAX compiles from now on, where it is loaded; the first call counts, others change nothing."""
    monitoring: Any = sys.modules.get("jax.monitoring")
    if _state["listening"] or not hasattr(monitoring, "register_event_duration_secs_listener"):
        return
    _state["listening"] = True
    monitoring.register_event_duration_secs_listener(_hear)


def _hear(event: str, duration_secs: float, **_: str | int) -> None:
    if event == COMPILE_EVENT:
        for each in _open:
            each.count += 1
            each.seconds += duration_secs


@contextmanager
def count_compilations() -> Iterator[Compilations]:
    """Count the compilations inside a `with` block. Blocks may be nested; each counts its own. JAX is not loaded for
    it: without JAX nothing is compiled.
    """
    compilations = Compilations()
    listen_to_jax()
    _open.append(compilations)
    try:
        yield compilations
    finally:
        _open.remove(compilations)
