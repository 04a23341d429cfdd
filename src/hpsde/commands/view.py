"""`hpsde view`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hpsde.errors import InputError


@dataclass(frozen=True)
class Command:
    """Look at a run in a browser, also while it goes on, or at several side by side (extra serve).

    Move the context and see what every option would do there, what return it would earn and which
    the gate chooses; look at all rollouts, filter them, correct what was told wrongly; replay the
    learning. The page is for this machine alone: its address has a token in it, and it loads nothing
    from elsewhere.

    Pictures are drawn of the tasks that come with hpsde; of a task of your own with --trust, if it
    has a method `draw`.

    examples:
      hpsde view runs/triple
      hpsde view runs/first runs/second --no-browser

    exit codes: 0 ended by Ctrl-C or the signal to end, 1 failed, 2 wrong usage or input.
    """

    folders: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN...")]
    """The folders of the runs."""
    port: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """The port; 0 takes a free one."""
    no_browser: bool = False
    """Print the address, and open no browser."""
    trust: bool = False
    """A task of your own that the folder names may run, to draw itself and to correct."""

    def __call__(self) -> None:
        """Serve the page until asked to end."""
        import secrets
        import webbrowser

        try:
            from hpsde.serve.guard import Guard, Limits
            from hpsde.serve.server import address_of, bound_socket, serve
            from hpsde.serve.viewing import Viewer, make_view
        except ImportError as error:
            raise InputError("hpsde view needs FastAPI and uvicorn: pip install 'hpsde[serve]'") from error
        if not self.folders:
            raise InputError("expected the folder of a run, or several")
        token = secrets.token_urlsafe(24)
        with bound_socket("127.0.0.1", self.port) as listening:
            app = make_view(Viewer(self.folders, self.trust), token)
            address = f"{address_of(listening)}/?token={token}"

            def ready() -> None:
                print(f"hpsde: look at {address} (Ctrl-C ends it)", flush=True)
                if not self.no_browser:
                    webbrowser.open(address)

            serve(Guard(app, Limits(token, 2**20, 2000.0, True), ("/",)), listening, ready)
