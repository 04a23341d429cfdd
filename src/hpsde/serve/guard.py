"""Who may talk to a server, how much and how often: checked before anything of a request is read."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_SECONDS = 20.0
"""So long a client may take to send a body."""
UNREAD, UNREAD_SECONDS = 4, 2.0
"""Of a refused body so many times the largest one is read, and so long, before the connection ends."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_MOST_ADDRESSES = 10_000


class Limits(NamedTuple):
    """token: what clients show; None: nothing. largest_body: in bytes. rate: requests a second of one address, over
    some seconds. loopback: only names of this machine are taken for its own.
    """

    token: str | None
    largest_body: int
    rate: float
    loopback: bool


class Guard:
    """An ASGI application before another, which gets only what is in order; bodies reach it whole."""

    def __init__(self, app: App, limits: Limits, free: tuple[str, ...] = ()):
        """`free` are paths that need no token."""
        self._app, self._limits, self._free = app, limits, free
        self._buckets = Buckets(limits.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await self._empty(receive)
        body = refusal or await self._body(receive)
        if isinstance(body, tuple):
            await _refuse(send, *body)
        else:
            await self._app(scope, _once(body, receive), send)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Status and reason where the request is not to be read."""
        limits = self._limits
        if not self._buckets.take((scope.get("client") or ("?",))[0]):
            return 429, f"too many requests: expected at most {limits.rate:g} a second"
        host = headers.get("host", "")
        if limits.loopback and host.rpartition(":")[0 if ":" in host.rpartition("]")[2] else 2] not in LOOPBACK:
            return 421, f"host: expected one of {', '.join(LOOPBACK)}, got {host[:80]!r}"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return 403, f"origin: expected a page of this server, got {origin[:80]!r}"
        if scope["path"] not in self._free and not self._is_known(headers.get("authorization", "")):
            return 401, "authorization: expected `Bearer TOKEN` with the token that this server was started with"
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            return 400, f"content-length: expected a whole number, got {length[:40]!r}"
        if len(length) > 15 or int(length) > limits.largest_body:
            return 413, f"body: expected at most {limits.largest_body} bytes, got {length[:40]}"
        if scope["method"] == "POST" and headers.get("content-type", "").partition(";")[0].strip().lower() != (
            "application/json"
        ):
            return 415, "content-type: expected application/json"
        return None

    def _is_known(self, authorization: str) -> bool:
        if self._limits.token is None:
            return True
        kind, _, token = authorization.partition(" ")
        same = hmac.compare_digest(token.strip().encode("latin-1", "replace"), self._limits.token.encode())
        return same and kind.lower() == "bearer"

    async def _body(self, receive: Receive) -> bytes | tuple[int, str]:
        """All of the body, or the refusal of one that is too long or too slow."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self._limits.largest_body:
                        if message.get("more_body", False):
                            await self._empty(receive)
                        return 413, f"body: expected at most {self._limits.largest_body} bytes"
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            return 408, f"body: expected within {BODY_SECONDS:g} seconds"

    async def _empty(self, receive: Receive) -> None:
        """Read on for a while: who still writes does not read an answer, and loses it when the connection ends."""
        left = UNREAD * self._limits.largest_body
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(UNREAD_SECONDS):
                while left > 0:
                    message = await receive()
                    left -= len(message.get("body", b""))
                    if not message.get("more_body", False):
                        return


class Buckets:
    """A bucket for each address, which fills with `rate` requests a second and holds those of two seconds."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic):
        self._rate, self._clock = rate, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str) -> bool:
        """Whether one more request of this address may come."""
        now = self._clock()
        left, since = self._left.pop(address, (2.0 * self._rate, now))
        left = min(2.0 * self._rate, left + (now - since) * self._rate)
        self._left[address] = (left - 1.0 if left >= 1.0 else left), now
        while len(self._left) > _MOST_ADDRESSES:
            self._left.popitem(last=False)
        return left >= 1.0


def _once(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives a body that was read, and then what comes after it."""
    given = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(send: Send, status: int, reason: str) -> None:
    text = json.dumps({"error": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    headers += [(b"retry-after", b"1")] if status == 429 else []
    # What may be left of the body is not read: the connection ends with it.
    headers += [(b"connection", b"close")] if status in (408, 413) else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
