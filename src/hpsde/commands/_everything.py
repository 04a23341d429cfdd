"""`hpsde reproduce all`: what there is to do and how long it takes, then one part after the other."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hpsde.base.progress import progress_bar
from hpsde.commands._table import table
from hpsde.errors import HpsdeError, InputError, UnknownNameError
from hpsde.experiments.everything import PARTS, Order, Part, missing_peers, write_summary


def make_all(
    order: Order, names: Sequence[str] = (), *, quiet: bool = False, list_only: bool = False, report_only: bool = False
) -> None:
    """Run what is left of the parts, write their pages as soon as each is done, and the table over all at the end."""
    for name in names:
        if name not in PARTS:
            raise UnknownNameError("part", name, PARTS)
    parts = [part for part in PARTS.values() if not names or part.name in names]
    if not quiet or list_only:
        print(expected(order, parts), file=sys.stdout if list_only else sys.stderr, flush=True)
    if list_only:
        return
    failures, pages = 0, []
    for part in parts:
        if not report_only:
            _run(part, order, quiet)
        elif not part.rows(order).is_file():
            continue
        page, failed = part.report(order)
        failures += failed
        pages.append(page)
    if not pages:
        raise InputError(f"{order.out} has no rows to report on")
    pages.append(write_summary(order))
    if not quiet:
        print("\n".join(f"page     {page}" for page in pages))
    if failures:
        raise HpsdeError(f"{failures} runs failed; the pages name them")


def expected(order: Order, parts: Sequence[Part]) -> str:
    """How many runs are left, and how long they take."""
    lines = []
    for part in parts:
        counts = [str(len(each(order))) for each in (part.jobs, part.left)]
        lines.append([part.name, *counts, _minutes(part.minutes(order), order), part.description])
    total = sum(part.minutes(order) for part in parts)
    header = ["part", "runs", "left", f"time with {order.workers} processes", "what it is"]
    text = (
        f"{table(header, lines)}\n\nin all {_minutes(total, order)}; seeds from {order.first_seed}, rows in {order.out}"
    )
    if missing := missing_peers():
        needed = ", ".join(sorted(set(missing.values())))
        text += f'\nwithout the peers {", ".join(missing)}: pip install ".[peers]" ({needed})'
    return text


def _minutes(minutes: float, order: Order) -> str:
    if order.rollouts is not None:
        return "unknown with so few rollouts" if minutes else "0 minutes"
    return f"{minutes:.0f} minutes" if minutes < 90.0 else f"{minutes / 60.0:.1f} hours"


def _run(part: Part, order: Order, quiet: bool) -> None:
    runs = len(part.jobs(order))
    try:
        with progress_bar(runs, enabled=not quiet, label=part.name, learns=False) as bar:
            part.run(order, bar)
    except KeyboardInterrupt:
        left = len(part.left(order))
        raise KeyboardInterrupt(
            f"interrupted in {part.name} after {runs - left} of {runs} runs, which are kept in {order.out}; "
            "go on with the same command again"
        ) from None
