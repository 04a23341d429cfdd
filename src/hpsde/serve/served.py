"""A run that many clients use at once: each kind of request has a thread or a process of its own.

Tells have one thread and one connection to the database; looking has another; asking and learning have a process. So a
tell waits for the disk, and for nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hpsde.errors import AskTellError, HpsdeError, InputError
from hpsde.policy.answers import answers, option_entries
from hpsde.policy.doubt_entries import doubt_entries
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.runs.files import json_ready
from hpsde.runs.ledger import Ledger, Told
from hpsde.serve.gathering import Gatherer
from hpsde.serve.learner import LearnerProcess
from hpsde.serve.newest import NewestPolicy
from hpsde.serve.telling import Taken, check_known, tell_together

Result = TypeVar("Result")
CLOSE_SECONDS = 20.0
"""A learning step under way at the end has so long to finish; then it is given up, and done by the next process."""


class ServedRun:
    """The calls behind the service. What `ask`, `tell` and `correct` answer is on disk."""

    def __init__(self, folder: Path, trust: bool = False):
        self._teller = Ledger.open(folder, trust=trust)
        self._reader = Ledger.open(folder)
        self.folder, self.config = folder, self._reader.config
        self._learner = LearnerProcess(folder, trust)
        self._telling, self._reading, self._acting = (
            ThreadPoolExecutor(1, thread_name_prefix=name) for name in ("tell", "read", "act")
        )
        self._tells: Gatherer[list[Told], Taken] = Gatherer(self._tell_together)
        self._asks: Gatherer[list[list[float]] | int, list[dict[str, Any]]] = Gatherer(self._ask_together)
        self._newest = NewestPolicy(folder)

    # Asking

    async def ask(self, contexts: list[list[float]] | None, count: int | None) -> list[dict[str, Any]]:
        """Rollouts to run, as `Run.ask` gives them."""
        size = self.config.context_size
        if size == 0:
            if contexts is not None:
                raise InputError("contexts: expected none, for this run has no context; say `count` instead")
            return await self._asks.submit(1 if count is None else count)
        if contexts is None or count is not None:
            raise InputError(f"contexts: expected a list of contexts of {size} numbers each, and no `count`")
        wrong = [len(row) for row in contexts if len(row) != size]
        if wrong:
            raise InputError(f"contexts: expected {size} numbers in each, got {wrong[0]}")
        return await self._asks.submit(contexts)

    async def _ask_together(self, wanted: list[Any]) -> list[list[dict[str, Any]] | Exception]:
        """All that wait in one ask; where that fails, each by itself."""
        sizes = [each if isinstance(each, int) else len(each) for each in wanted]
        try:
            rollouts = await self._ask(wanted)
        except HpsdeError as error:
            if len(wanted) == 1:
                return [error]
            return [(await self._ask_together([each]))[0] for each in wanted]
        ends = np.cumsum(sizes).tolist()
        return [rollouts[end - size : end] for size, end in zip(sizes, ends, strict=True)]

    async def _ask(self, wanted: list[Any]) -> list[dict[str, Any]]:
        if self.config.context_size == 0:
            return await self._learner.request("ask", contexts=None, count=sum(wanted))
        return await self._learner.request("ask", contexts=[row for rows in wanted for row in rows], count=None)

    # Telling

    async def tell(self, told: list[Told]) -> Taken:
        """Take in what came of rollouts: all of these or none."""
        return await self._tells.submit(told)

    async def _tell_together(self, requests: list[list[Told]]) -> list[Taken | Exception]:
        return await self._in(self._telling, lambda: tell_together(self._teller, requests))

    async def correct(self, number: int, value: float | None, **words: Any) -> None:
        """As `Run.correct`."""
        if (value is not None) + (words["failed"] is not None) + words["drop"] != 1:
            raise InputError("a correction needs a return, the reason of a failure, or drop: expected one of the three")
        await self._in(self._reading, lambda: check_known(self._reader, [number]))
        await asyncio.shield(asyncio.ensure_future(self._learner.request("correct", id=number, value=value, **words)))

    # Looking

    async def status(self) -> dict[str, Any]:
        """As `hpsde status` has it, but for measured returns, which `options` gives."""
        return await self._in(self._reading, lambda: json_ready(self._reader.status().as_dict()))

    async def open_rollouts(self) -> list[dict[str, Any]]:
        """Rollouts that were asked for and not told yet."""
        return await self._in(self._reading, self._open)

    def _open(self) -> list[dict[str, Any]]:
        rows = self._reader.store.open_rows()
        columns = (rows.id, rows.contexts, rows.parameters, rows.option, rows.number, rows.log_density, rows.seed)
        names = ("id", "context", "parameters", "option", "number", "log_density", "seed")
        return json_ready([dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)])

    async def act(self, contexts: list[list[float]] | None) -> dict[str, Any]:
        """The best known parameters in these contexts, and those of every option."""
        return await self._in(self._acting, lambda: self._act(contexts))

    def _act(self, contexts: list[list[float]] | None) -> dict[str, Any]:
        policy = self._policy()
        rows = [[]] if contexts is None else contexts
        wrong = [len(row) for row in rows if len(row) != policy.context_size]
        if wrong:
            raise InputError(f"context: expected {policy.context_size} numbers, got {wrong[0]}")
        array = np.array(rows, dtype=float).reshape(len(rows), policy.context_size)
        return json_ready({"acts": answers(policy, array), "doubts": doubt_entries(policy.doubts)})

    async def options(self) -> dict[str, Any]:
        """Every option there is."""
        return await self._in(self._acting, self._options)

    def _options(self) -> dict[str, Any]:
        policy = self._policy()
        return json_ready({"options": option_entries(policy), "doubts": doubt_entries(policy.doubts)})

    def _policy(self) -> HierarchicalPolicy:
        policy = self._newest.read()
        if policy is None:
            raise AskTellError(
                f"nothing has been learned yet: that comes with the next ask after {self.config.initial_rollouts} "
                "rollouts were told"
            )
        return policy

    async def _in(self, thread: ThreadPoolExecutor, call: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(thread, call)

    async def close(self) -> None:
        """End when what is under way is done: tells always, a learning step if that takes not too long."""
        await self._tells.finished()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._asks.finished(), CLOSE_SECONDS)
        await self._learner.close(1.0)
        for thread in (self._telling, self._reading, self._acting):
            thread.shutdown()
        self._teller.close()
        self._reader.close()
