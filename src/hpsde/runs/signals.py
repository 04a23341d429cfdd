"""Ctrl-C, the signal to end and a closed terminal, while a run goes on; and children that the user's function forks."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hpsde.runs.executors import Executor

_handlers_before: dict[int, Any] = {}  # while a run has its own
_forking = threading.local()


@contextmanager
def stopped_by_signals(executor: Executor) -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, the process was asked to end or its terminal was closed: the first time, what is
    under way may finish.
    """
    received: list[int] = []

    def handle(number: int, _: object) -> None:
        if received and number == signal.SIGHUP:
            return  # a terminal that is closed sends several
        if received:
            raise KeyboardInterrupt
        received.append(number)
        executor.stop()
        with suppress(OSError, ValueError):  # the terminal may be gone
            print("hpsde: waiting for the rollouts under way; Ctrl-C again stops at once", file=sys.stderr)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue  # nohup
        _handlers_before[number] = signal.signal(number, handle)
    try:
        yield lambda: bool(received)
    finally:
        _restore_handlers()


def _restore_handlers() -> None:
    """What happens to a signal as before the run."""
    while _handlers_before:
        number, handler = _handlers_before.popitem()
        signal.signal(number, handler)


def _hold_signals() -> None:
    _forking.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, set(_handlers_before))


def _release_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.blocked)


def _begin_as_a_child() -> None:
    """In a child signals do what they did before the run: pools end their children by one. A signal that comes earlier
    waits until then.
    """
    _restore_handlers()
    _release_signals()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_signals, after_in_parent=_release_signals, after_in_child=_begin_as_a_child)
