"""Run an application as a server: socket, signals, an end without a request cut off."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from hpsde.errors import InputError

TOKEN = "HPSDE_TOKEN"
LEAST_TOKEN = 16
GRACE_SECONDS = 30
MOST_AT_ONCE = 1_000


class _Server(uvicorn.Server):
    """Leaves signals to `serve`: an end that was asked for is no failure."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def read_token(path: Path | None) -> str | None:
    """The token in a file, or that of the environment, or None."""
    where = str(path) if path is not None else f"${TOKEN}"
    try:
        token = os.environ.get(TOKEN) if path is None else path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--token-file {path}: expected a file with the token, got: {error}") from error
    if token is None:
        return None
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(f"the token of {where}: expected at least {LEAST_TOKEN} printable letters without a space")
    return token


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one."""
    if not 0 <= port < 2**16:
        raise InputError(f"--port: expected 0 to {2**16 - 1}, got {port}")
    listening = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        if listening is not None:
            listening.close()
        raise InputError(f"--host {host} --port {port}: cannot listen there: {error}") from error
    return listening


def address_of(listening: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(app: Any, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until Ctrl-C or the signal to end; requests under way are answered. `ready` is called when it listens."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="on",
        ws="none",
        limit_concurrency=MOST_AT_ONCE,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE_SECONDS,
        server_header=False,
        h11_max_incomplete_event_size=64 * 1024,
    )
    asyncio.run(_serve(_Server(config), listening, ready))


async def _serve(server: uvicorn.Server, listening: socket.socket, ready: Callable[[], None]) -> None:
    def stop() -> None:
        server.force_exit = server.should_exit  # the second time
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            asyncio.get_running_loop().add_signal_handler(number, stop)
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if server.started:
        ready()
    await serving
