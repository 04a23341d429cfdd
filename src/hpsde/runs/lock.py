"""One process at a time: a lock on the run's folder that is let go when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hpsde.base.plain_files import open_plain, same_file
from hpsde.errors import FileFormatError, RunLockedError, StorageError

WAIT_SECONDS = 60.0
PATIENCE_SECONDS = 1.0  # whoever only looks who holds the lock has it for a moment
PAUSES = (0.001, 0.05)  # the first between two tries, and the longest


class RunLock:
    """The file `lock` of a run's folder. Who holds it has said in it who they are.

    It belongs to this process alone: a child that the user's function forks closes it, so that one that outlives this
    process does not keep it.
    """

    def __init__(self, path: Path):
        self.path = path
        self._descriptor: int | None = None  # while it is held
        self._turn = threading.RLock()  # of the threads of this process
        self._purpose = ""  # while it is held

    @contextmanager
    def hold(self, purpose: str, *, wait: float = 0.0) -> Iterator[None]:
        """Hold the lock; if another process or thread has it, wait that many seconds, unless it is running the
        rollouts. The thread that holds it may do so again.
        """
        end_turn = self._take_turn(wait)
        try:
            if self._descriptor is not None:
                yield
                return
            self._descriptor, self._purpose = self._acquire(wait), purpose
            _held.add(self)
            try:
                self._sign(self._descriptor, purpose)
                yield
            finally:
                _held.discard(self)
                self._release()
        finally:
            end_turn()

    def _take_turn(self, wait: float) -> Callable[[], None]:
        """As `_acquire`, among the threads that share this lock; what to call in the end."""
        end, turn = time.monotonic() + max(wait, PATIENCE_SECONDS), self._turn
        while not turn.acquire(timeout=0.05):
            if self._purpose == "run" or time.monotonic() > end:
                raise RunLockedError(self._refusal(self.holder()))
        return turn.release

    def _release(self) -> None:
        descriptor, self._descriptor, self._purpose = self._descriptor, None, ""
        if descriptor is not None:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def leave_to_the_parent(self) -> None:
        """In a child: the lock stays the parent's."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._turn = threading.RLock()  # who had it may be a thread that the child has not

    def _sign(self, descriptor: int, purpose: str) -> None:
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(_holder(purpose)).encode(), 0)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}") from error

    def _acquire(self, wait: float) -> int:
        end, (pause, longest) = time.monotonic() + max(wait, PATIENCE_SECONDS), PAUSES
        while True:
            descriptor = self._open()
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current(descriptor):
                    return descriptor
                # Who held it has removed it: whoever comes next would lock another file.
            os.close(descriptor)
            holder = self.holder()
            if holder.get("purpose") == "run" or time.monotonic() > end:
                raise RunLockedError(self._refusal(holder))
            time.sleep(pause)
            pause = min(2.0 * pause, longest)

    def _open(self) -> int:
        try:
            return open_plain(self.path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}") from error

    def _is_current(self, descriptor: int) -> bool:
        try:
            return same_file(os.fstat(descriptor), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def holder(self) -> dict[str, Any]:
        """Who holds the lock now: purpose, process, host, since; empty if nobody does, or it is not known."""
        try:
            with open(open_plain(self.path), "rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    return {}
                except BlockingIOError:
                    found = json.loads(file.read(1000) or b"{}")
        except (OSError, ValueError, FileFormatError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def running(self) -> bool:
        """Whether some other process is running this run's rollouts."""
        return self._descriptor is None and self.holder().get("purpose") == "run"

    def _refusal(self, holder: dict[str, Any]) -> str:
        doing = "running its rollouts" if holder.get("purpose") == "run" else "working on it"
        who = f"process {holder.get('process', '?')} on {holder.get('host', '?')}"
        return (
            f"{self.path.parent} is in use: {who} has been {doing} since {holder.get('since', '?')}. "
            "Wait for it to end, or stop it (Ctrl-C there)"
        )


_held: set[RunLock] = set()


def _leave_all_to_the_parent() -> None:
    while _held:
        _held.pop().leave_to_the_parent()


os.register_at_fork(after_in_child=_leave_all_to_the_parent)


def _holder(purpose: str) -> dict[str, Any]:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"purpose": purpose, "process": os.getpid(), "host": socket.gethostname(), "since": since}
