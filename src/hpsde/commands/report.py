"""`hpsde report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Command:
    """Write a run as a page in one file, to be mailed or put beside a paper.

    It opens from disk in any browser, without a server or a network, and has at most 5 MB: the
    options, the map of rollouts, the learning curves, tables, and sliders over one or two context
    numbers. What it shows in a context is what Python gives there.

    Pictures are drawn of the tasks that come with hpsde; of a task of your own with --trust, if it
    has a method `draw`.

    examples:
      hpsde report runs/triple --out triple.html

    exit codes: 0 done, 1 cannot be written, 2 wrong usage or input.
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of the run."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("report.html")
    """The file to write."""
    trust: bool = False
    """A task of your own that the folder names may run, to draw itself."""

    def __call__(self) -> None:
        """Write it, and say where."""
        from hpsde.errors import InputError
        from hpsde.runs.files import replacing
        from hpsde.serve.report import report_page

        if self.out.suffix not in (".html", ".htm"):
            raise InputError(f"--out must end in .html, not {self.out.name!r}")
        page = report_page(self.folder, self.trust)
        self.out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.out) as unfinished:
            unfinished.write_text(page, encoding="utf-8")
        print(self.out)
