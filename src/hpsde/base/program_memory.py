"""Room for compiled programs: a process that learns many tasks of many sizes must not end for want of it."""

from __future__ import annotations

import sys
from pathlib import Path

MAPPED, MOST = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
FULL = 0.5  # of what a process may map; one task maps a fifteenth


def make_room(mapped: Path = MAPPED, most: Path = MOST) -> bool:
    """Forget all compiled programs where half of the room is taken; they are compiled again when they are needed.

    Linux lets a process map 65,530 pieces of memory, as it is set up. XLA maps several for every program, and where
    there is no more room the process ends with a segmentation fault. Elsewhere than on Linux nothing is done.
    """
    jax = sys.modules.get("jax")
    if jax is None:
        return False
    try:
        taken, room = mapped.read_bytes().count(b"\n"), int(most.read_text())
    except OSError:
        return False
    if taken < FULL * room:
        return False
    jax.clear_caches()
    return True
