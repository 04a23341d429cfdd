"""Requests that wait are done together: fifty clients that tell at once wait for the disk once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
MOST = 200
"""So many requests are done together, at most."""


class Gatherer(Generic[Item, Result]):
    """Hands all requests that have come while the last ones were done to `together`, in the order they came.

    `together` answers with one result for each, or an exception in its place. One call of it is under way at a time.
    """

    def __init__(self, together: Callable[[list[Item]], Awaitable[list[Result | Exception]]]):
        self._together = together
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._working: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Result:
        """The result of this one. Whoever waits may go away: what was begun is done all the same."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await answer

    async def finished(self) -> None:
        """Wait until nothing is under way."""
        while self._working is not None:
            await self._working

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                _answer([answer for _, answer in batch], await self._results([item for item, _ in batch]))
        finally:
            self._working = None

    async def _results(self, items: list[Item]) -> list[Result | Exception]:
        try:
            return await self._together(items)
        except Exception as error:
            return [error] * len(items)


def _answer(waiting: list[asyncio.Future[Result]], results: list[Result | Exception]) -> None:
    for answer, result in zip(waiting, results, strict=True):
        if answer.done():  # who asked has gone
            continue
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)
