"""One line that tells a waiting person how far a run is. Never more than a help: without rich, no bar."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, runtime_checkable

Value = float | int | str | None

# Fields shown under another name than their own.
LABELS = {"mean_return": "return", "returns": "return", "options_kept": "options", "ess": "ESS", "doubts": ""}


@runtime_checkable
class ProgressBar(Protocol):
    """Something that can be told how far a run is."""

    def update(self, done: int, **fields: Value) -> None:
        """`done` of the total are done; `fields` are shown beside the bar (None: left out)."""


class NoBar:
    """The bar that shows nothing."""

    def update(self, done: int, **fields: Value) -> None:
        """Ignore it."""


@contextmanager
def progress_bar(total: int, enabled: bool = True, label: str = "rollouts") -> Iterator[ProgressBar]:
    """A bar on standard error, up to `total`, with the time left.

    Shows nothing when `enabled` is False, standard error is not a terminal, or rich is not installed.
    """
    bar = _rich_bar(total, label) if enabled and sys.stderr is not None and sys.stderr.isatty() else None
    if bar is None:
        yield NoBar()
        return
    with bar:
        yield bar


def describe(**fields: Value) -> str:
    """The fields as one short text: 'return 99.98  options 4  ESS 312'."""
    shown = {LABELS.get(name, name.replace("_", " ")): value for name, value in fields.items() if value is not None}
    return "  ".join(f"{name} {_short(value)}".lstrip() for name, value in shown.items())


def doubts_marker(kinds: Sequence[str]) -> str | None:
    """The field `doubts` of a bar, '2 doubts: unexplained, wide'; None where there are none."""
    return f"{len(kinds)} doubt{'s' if len(kinds) > 1 else ''}: {', '.join(kinds)}" if kinds else None


def _short(value: float | int | str) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _rich_bar(total: int, label: str) -> _RichBar | None:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column
    except ImportError:
        return None
    # Where the line is too long for the terminal, the text gives way and not the numbers.
    progress = Progress(
        BarColumn(bar_width=16),
        MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=2 * len(str(total)) + 1)),
        TextColumn(label, table_column=Column(no_wrap=True, min_width=len(label))),
        TextColumn("[cyan]{task.fields[text]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
        TimeRemainingColumn(table_column=Column(no_wrap=True, min_width=7)),
        TextColumn("left", table_column=Column(no_wrap=True, min_width=4)),
        console=Console(stderr=True),
        transient=True,
        expand=True,
    )
    return _RichBar(progress, total)


class _RichBar:
    """A rich progress display with one task."""

    def __init__(self, progress: Any, total: int):
        self._progress = progress
        self._task = self._progress.add_task("", total=total, text="")

    def __enter__(self) -> _RichBar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a terminal that was closed stops no run
            self._progress.stop()

    def update(self, done: int, **fields: Value) -> None:
        with suppress(OSError):
            self._progress.update(self._task, completed=done, text=describe(**fields))
