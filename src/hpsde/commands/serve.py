"""`hpsde serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.errors import InputError


@dataclass(frozen=True)
class Command:
    """Let robots and programs in any language ask and tell a run, over HTTP as JSON (extra serve).

    Calls: POST /ask, /tell, /correct, /act; GET /status, /options, /open, /act, /health, /docs and
    /openapi.json. What is answered is on disk. The same rollout may be told twice with the same
    return; another return is a conflict (409).

    Listens on this machine alone. With --host other machines can reach it, and then a token is
    needed, in a file or in $HPSDE_TOKEN, which clients send as `Authorization: Bearer TOKEN`. There
    is no encryption: beyond a network you trust, put a proxy with TLS before it.

    examples:
      hpsde serve runs/robot
      hpsde serve runs/robot --host 0.0.0.0 --token-file token.txt

    exit codes: 0 ended by Ctrl-C or the signal to end, 1 failed, 2 wrong usage or input.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    host: Annotated[str, tyro.conf.arg(metavar="NAME")] = "127.0.0.1"
    """Where to listen; 0.0.0.0 for all networks of this machine."""
    port: Annotated[int, tyro.conf.arg(metavar="N")] = 8477
    """The port; 0 takes a free one."""
    token_file: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: $HPSDE_TOKEN)")] = (
        None
    )
    """A file with the token that clients must show."""
    largest_body: Annotated[int, tyro.conf.arg(metavar="BYTES")] = 2**20
    """The longest request that is read."""
    rate: Annotated[float, tyro.conf.arg(metavar="N")] = 2000.0
    """Requests a second that one address may send."""
    trust: bool = False
    """The code that the folder names may run: only a run of a task of your own needs it."""

    def __call__(self) -> None:
        """Serve until asked to end."""
        try:
            import fastapi  # noqa: F401
            import uvicorn  # noqa: F401
        except ImportError as error:
            raise InputError("hpsde serve needs FastAPI and uvicorn: pip install 'hpsde[serve]'") from error
        from hpsde.serve.guard import Guard, Limits
        from hpsde.serve.served import ServedRun
        from hpsde.serve.server import address_of, bound_socket, is_loopback, read_token, serve
        from hpsde.serve.service import FREE, make_service

        if self.largest_body < 1 or not self.rate >= 1.0:
            raise InputError("--largest-body and --rate: expected at least 1")
        token, loopback = read_token(self.token_file), is_loopback(self.host)
        if token is None and not loopback:
            raise InputError(
                f"--host {self.host}: others can reach it, so a token is expected, by --token-file or $HPSDE_TOKEN"
            )
        with bound_socket(self.host, self.port) as listening:
            app = make_service(ServedRun(self.folder, self.trust))
            said = f"hpsde: {self.folder} is served at {address_of(listening)} (Ctrl-C ends it)"
            limits = Limits(token, self.largest_body, self.rate, loopback)
            serve(Guard(app, limits, FREE), listening, lambda: print(said, flush=True))
