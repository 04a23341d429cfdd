"""Compiled programs are kept in the user's cache folder, so that the next process need not compile them again.

Only what hpsde itself compiles: the settings by which JAX keeps programs are those of hpsde while a learner computes,
and the user's again after it. Nothing is done where the user has settings of their own, a folder
(JAX_COMPILATION_CACHE_DIR or `jax_compilation_cache_dir`) or none at all (`jax_enable_compilation_cache`), nor with
HPSDE_KEEP_COMPILED=0.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SWITCH = "HPSDE_KEEP_COMPILED"
LEAST_SECONDS = 0.1  # what is compiled in less is not kept: reading it would take as long
OFF = ("0", "no", "off", "false")

_lock = threading.Lock()
_state: dict[str, Any] = {"depth": 0, "before": None}


@functools.cache
def cache_folder() -> Path | None:
    """The folder, made where it is not there; None where it cannot be written, or nothing is to be kept.

    There is one for each kind of processor: a home may be shared by machines that cannot run each other's programs.
    """
    if os.environ.get(SWITCH, "").lower() in OFF:
        return None
    features = " ".join(platform.uname()[4:])
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        features += " ".join(line for line in file if line.startswith(("flags", "Features", "model name")))
    kind = hashlib.sha256(features.encode()).hexdigest()[:12]
    with suppress(OSError, RuntimeError):
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = base / "hpsde" / f"compiled-{kind}"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    return None


def keep_all() -> None:
    """Keep what any part of this process compiles; to be called before JAX is loaded, by whoever owns the process."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and (folder := cache_folder()) is not None:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(LEAST_SECONDS))


@contextmanager
def keeping() -> Iterator[None]:
    """Inside, compiled programs are kept. Blocks may be nested, and threads may be in them at once."""
    with _lock:
        _state["depth"] += 1
        if not _state["before"]:  # or JAX was not loaded yet where the outer block began
            _state["before"] = _begin()
    try:
        yield
    finally:
        with _lock:
            _state["depth"] -= 1
            if _state["depth"] == 0:
                _apply(_state["before"] or {})
                _state["before"] = None


def keeps_programs(function: Callable[P, T]) -> Callable[P, T]:
    """The function, what it compiles is kept."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with keeping():
            return function(*args, **kwargs)

    return wrapped


def _begin() -> dict[str, Any]:
    """Change the settings; those that were changed, as they were before. Nothing is compiled without JAX."""
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "config"):
        return {}
    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None or not config.jax_enable_compilation_cache:
        return {}
    folder = cache_folder()
    if folder is None:
        return {}
    before: dict[str, Any] = {"jax_compilation_cache_dir": None}
    settings: dict[str, Any] = {"jax_compilation_cache_dir": str(folder)}
    least = "jax_persistent_cache_min_compile_time_secs"
    if least.upper() not in os.environ and getattr(config, least) > LEAST_SECONDS:
        before[least], settings[least] = getattr(config, least), LEAST_SECONDS
    _apply(settings)
    return before


def _apply(settings: dict[str, Any]) -> None:
    if not settings:
        return
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()  # JAX looks at the folder once, until it is told to look again
