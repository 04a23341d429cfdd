"""One process at a time: a lock on the run's folder that is let go when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hpsde.errors import RunLockedError, StorageError

WAIT_SECONDS = 60.0
PATIENCE_SECONDS = 1.0  # whoever only looks who holds the lock has it for a moment


class RunLock:
    """The file `lock` of a run's folder. Who holds it has said in it who they are."""

    def __init__(self, path: Path):
        self.path = path
        self._held = False

    @contextmanager
    def hold(self, purpose: str, *, wait: float = 0.0) -> Iterator[None]:
        """Hold the lock; if another process has it, wait that many seconds, unless it is running the rollouts."""
        if self._held:
            yield
            return
        descriptor = self._acquire(wait)
        try:
            self._held = True
            self._sign(descriptor, purpose)
            yield
        finally:
            self._held = False
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def _sign(self, descriptor: int, purpose: str) -> None:
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(_holder(purpose)).encode(), 0)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}") from error

    def _acquire(self, wait: float) -> int:
        end = time.monotonic() + max(wait, PATIENCE_SECONDS)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}") from error
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                holder = self.holder()
                if holder.get("purpose") == "run" or time.monotonic() > end:
                    os.close(descriptor)
                    raise RunLockedError(self._refusal(holder)) from None
                time.sleep(0.05)

    def holder(self) -> dict[str, Any]:
        """Who holds the lock now: purpose, process, host, since; empty if nobody does, or it is not known."""
        try:
            with open(self.path, "rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    return {}
                except BlockingIOError:
                    found = json.loads(file.read(1000) or b"{}")
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def running(self) -> bool:
        """Whether some other process is running this run's rollouts."""
        return not self._held and self.holder().get("purpose") == "run"

    def _refusal(self, holder: dict[str, Any]) -> str:
        doing = "running its rollouts" if holder.get("purpose") == "run" else "working on it"
        who = f"process {holder.get('process', '?')} on {holder.get('host', '?')}"
        return (
            f"{self.path.parent} is in use: {who} has been {doing} since {holder.get('since', '?')}. "
            "Wait for it to end, or stop it (Ctrl-C there)"
        )


def _holder(purpose: str) -> dict[str, Any]:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"purpose": purpose, "process": os.getpid(), "host": socket.gethostname(), "since": since}
