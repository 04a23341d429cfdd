"""The server's end of the process that asks and learns (learning.py)."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from hpsde.errors import (
    AskTellError,
    FileFormatError,
    HpsdeError,
    InputError,
    LearningError,
    RunLockedError,
    StorageError,
)

LONGEST_LINE = 256 * 2**20
_ERRORS = (AskTellError, FileFormatError, InputError, LearningError, RunLockedError, StorageError)
_BY_NAME = {kind.__name__: kind for kind in _ERRORS}


class LearnerDiedError(HpsdeError, RuntimeError):
    """The process that learns has ended before it answered. What it had not stored was not done."""


class LearnerProcess:
    """Asks and corrects, one request after the other. The process starts when first needed, and again if it dies."""

    def __init__(self, folder: Path, trust: bool):
        self._words = [sys.executable, "-m", "hpsde.serve.learning", str(folder), *(["--trust"] if trust else [])]
        self._process: Process | None = None
        self._turn = asyncio.Lock()

    async def request(self, kind: str, **values: Any) -> Any:
        """The result of `learning.answer`, or the error that it raised."""
        line = json.dumps({"kind": kind, **values}).encode() + b"\n"
        async with self._turn:
            process = await self._running()
            answer = await _answer(process, line)
            if not answer:
                code = await process.wait()
                raise LearnerDiedError(f"the process that learns has ended ({code}); ask again: it starts anew")
        found = json.loads(answer)
        if "error" in found:
            raise _BY_NAME.get(found["error"], HpsdeError)(found["text"])
        return found["result"]

    async def _running(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *self._words, stdin=PIPE, stdout=PIPE, limit=LONGEST_LINE, start_new_session=True
            )
        return self._process

    async def close(self, seconds: float) -> None:
        """End the process; one that does not end by itself is killed. Every rollout it has stored is on disk."""
        if self._process is None or self._process.returncode is not None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), seconds)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


async def _answer(process: Process, line: bytes) -> bytes:
    """What the process answers; nothing where it has ended."""
    if process.stdin is None or process.stdout is None:
        return b""
    try:
        process.stdin.write(line)
        await process.stdin.drain()
        return await process.stdout.readline()
    except (BrokenPipeError, ConnectionResetError):
        return b""
