"""The process that asks and learns for a server, so that tells do not wait for it.

It reads requests as lines of JSON and answers each with a line. It ends with the server, however that ends: when its
standard input does. What it was doing is then undone or on disk, as after any kill of a run.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from hpsde.errors import HpsdeError
from hpsde.runs.files import json_ready
from hpsde.runs.run import Run


def answer(run: Run, request: dict[str, Any]) -> Any:
    """The result of one request: `ask` gives rollouts, `correct` nothing."""
    kind = request.pop("kind")
    if kind == "ask":
        return [rollout._asdict() for rollout in run.ask(request["contexts"], count=request["count"])]
    if kind == "correct":
        run.correct(request.pop("id"), request.pop("value"), **request)
    return None


def answer_line(run: Run, line: str) -> str:
    """The same as a line; an error is its class and what it says."""
    try:
        result = {"result": json_ready(answer(run, json.loads(line)))}
    except HpsdeError as error:
        result = {"error": type(error).__name__, "text": str(error)}
    except Exception as error:  # the server shall say what happened, not die of it
        result = {"error": "HpsdeError", "text": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    return json.dumps(result, allow_nan=False)


def _lines(source: TextIO, end: Callable[[int], Any]) -> Iterator[str]:
    """Lines as they come, read by a thread that sees the end of the input also while a request is answered."""
    found: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in source:
            found.put(line)
        end(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield found.get()


def _give_way() -> None:
    """Where they share cores, the server is woken at once; a learning step has as much of a core as anybody's."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main(folder: str, trust: bool) -> None:
    """Answer until the input ends. What code of the user's prints goes to standard error."""
    _give_way()
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with Run.open(folder, trust=trust) as run:
        for line in _lines(sys.stdin, os._exit):
            print(answer_line(run, line), file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] == ["--trust"])
