"""Count how often XLA compiles: the hidden cost of a run, and a tested property."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import jax.monitoring

# The event that JAX records once for each program it has XLA build.
COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"


@dataclass
class Compilations:
    """How many programs were compiled so far, and the seconds that took."""

    count: int = 0
    seconds: float = 0.0


@contextmanager
def count_compilations() -> Iterator[Compilations]:
    """Count the compilations inside a `with` block. Blocks may be nested; each counts its own."""
    compilations = Compilations()

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event == COMPILE_EVENT:
            compilations.count += 1
            compilations.seconds += duration_secs

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield compilations
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
