"""Single processes of this machine, by loky: the keyboard does not reach them, and they end with who started them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from loky import ProcessPoolExecutor

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Set to 1 where the user did not set them: threaded small matrices are slow on few cores."""
_OF_THE_DRIVER = {signal.SIGINT, signal.SIGHUP} if hasattr(signal, "SIGHUP") else {signal.SIGINT}
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h


def start_process(
    first: Callable[..., Any], *arguments: Any, environment: Mapping[str, str] | None = None
) -> tuple[ProcessPoolExecutor, Any]:
    """A pool of one new process, and the future of the call `first(*arguments)`, which it begins with.

    A pool for each process, so that it is known which call a death belongs to. The variables of `environment` are set
    in it where the user did not set them.
    """
    wanted = dict.fromkeys(_THREADS, "1") | dict(environment or {})
    # Ctrl-C and a closed terminal reach all its processes, and are the driver's: blocked also while one starts.
    with _blocked_interrupt():
        pool = ProcessPoolExecutor(
            max_workers=1,
            initializer=_begin,
            initargs=(os.getpid(),),
            env={name: os.environ.get(name, value) for name, value in wanted.items()},
        )
        return pool, pool.submit(first, *arguments)


def end_process(pool: ProcessPoolExecutor | None) -> None:
    """Kill the process, whatever it is doing."""
    if pool is not None:
        pool.shutdown(kill_workers=True)


@contextlib.contextmanager
def _blocked_interrupt() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_THE_DRIVER)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(driver: int) -> None:
    """Runs first in a new process."""
    for number in _OF_THE_DRIVER:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _OF_THE_DRIVER)
    _be_killed_with_the_driver()
    threading.Thread(target=_end_with, args=(driver,), daemon=True).start()


def _be_killed_with_the_driver() -> None:
    """On Linux by the kernel, also while the user's code keeps all threads of Python waiting."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _end_with(driver: int) -> None:
    """End this process when the driver is gone, however it went: an orphan would wait for work for ever."""
    while os.getppid() == driver:
        time.sleep(1.0)
    os._exit(1)
