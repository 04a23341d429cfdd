"""One line that tells a waiting person how far a run is. Never more than a help: without rich, no bar."""

from __future__ import annotations

import sys
import time
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
def progress_bar(
    total: int, enabled: bool = True, label: str = "rollouts", learns: bool = True
) -> Iterator[ProgressBar]:
    """A bar on standard error, up to `total`, with the time left; `learns`: what is counted is learned from in steps.

    Shows nothing when `enabled` is False, standard error is not a terminal, or rich is not installed.
    """
    bar = _rich_bar(total, label, learns) if enabled and sys.stderr is not None and sys.stderr.isatty() else None
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


class TimeLeft:
    """How much longer it takes: of a run that learns, from what it took between learning steps, two of them at least.

    Rollouts come in bursts between learning steps that take far longer, so that the speed of a burst says nothing.
    """

    def __init__(self, total: int, learns: bool):
        self._total, self._learns = total, learns
        self._learned: float | None = None
        self._marks: list[tuple[float, int]] = []  # time and how many were done at the first mark and at the newest

    def update(self, now: float, done: int, learned: float | None) -> None:
        """`done` at the time `now`; `learned` is a number that every learning step changes, None before the first."""
        if not self._learns or (learned is not None and learned != self._learned):
            self._marks = [*self._marks[:1], (now, done)]
            self._learned = learned

    def seconds(self, now: float) -> float | None:
        """Seconds left; None where that is not known yet."""
        if len(self._marks) < 2:
            return None
        (start, first), (then, done) = self._marks
        if done <= first:
            return None
        return max((then - start) / (done - first) * (self._total - done) - (now - then), 0.0)


def clock_text(seconds: float | None) -> str:
    """'0:01:07'."""
    if seconds is None:
        return "-:--:--"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def _short(value: float | int | str) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _rich_bar(total: int, label: str, learns: bool) -> _RichBar | None:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
        from rich.table import Column
        from rich.text import Text
    except ImportError:
        return None
    left = TimeLeft(total, learns)

    class LeftColumn(ProgressColumn):
        """The time left."""

        def render(self, task: Task) -> Text:
            return Text(clock_text(left.seconds(time.monotonic())), style="cyan")

    # Where the line is too long for the terminal, the text gives way and not the numbers.
    progress = Progress(
        BarColumn(bar_width=16),
        MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=2 * len(str(total)) + 1)),
        TextColumn(label, table_column=Column(no_wrap=True, min_width=len(label))),
        TextColumn("[cyan]{task.fields[text]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
        LeftColumn(table_column=Column(no_wrap=True, min_width=7)),
        TextColumn("left", table_column=Column(no_wrap=True, min_width=4)),
        console=Console(stderr=True),
        transient=True,
        expand=True,
    )
    return _RichBar(progress, total, left)


class _RichBar:
    """A rich progress display with one task."""

    def __init__(self, progress: Any, total: int, left: TimeLeft):
        self._progress, self._left = progress, left
        self._task = self._progress.add_task("", total=total, text="")

    def __enter__(self) -> _RichBar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a terminal that was closed stops no run
            self._progress.stop()

    def update(self, done: int, **fields: Value) -> None:
        ess = fields.get("ess")
        self._left.update(time.monotonic(), done, ess if isinstance(ess, float) else None)
        with suppress(OSError):
            self._progress.update(self._task, completed=done, text=describe(**fields))
