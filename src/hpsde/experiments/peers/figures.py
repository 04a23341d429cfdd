"""The picture of the comparison: what each peer finds with how many evaluations, without and with contexts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpsde import plots
from hpsde.experiments.figures import _save
from hpsde.experiments.gauntlet.rows import Row
from hpsde.experiments.peers.ceiling import mean_ceiling
from hpsde.experiments.peers.methods import PEERS
from hpsde.experiments.peers.rows import common_rows
from hpsde.experiments.peers.tables import OWN, mean_value, numbers_in, of, peers_in
from hpsde.experiments.peers.tasks import CONTEXTS, POINTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (*plots.COLOURS, "#888888")
MARKERS = "osD^v*XP"
EXACT_BINS = "exact bins"
TITLES = {
    POINTS: ("without context", "global optima found to 1e-5, %"),
    CONTEXTS: ("with contexts", "pairs of context and solution found, %"),
}


def draw(rows: Sequence[Row], path: Path) -> Path:
    """Write the picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return _save(peers_figure(rows), path)


def peers_figure(rows: Sequence[Row]) -> Figure:
    """One panel for each part, one line for each peer: the mean over tasks and seeds by the evaluations."""
    with plots._style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.0, 4.2), dpi=110, layout="constrained")
        panels: Any = figure.subplots(1, 2)
        drawn: dict[str, Any] = {}
        for part, axes in zip((POINTS, CONTEXTS), panels, strict=True):
            drawn |= _draw_part(axes, common_rows(rows, part), part)
        order = [name for name in (*PEERS, EXACT_BINS) if name in drawn]
        figure.legend([drawn[name] for name in order], order, loc="outside right center", frameon=False)
    return figure


def _draw_part(axes: Axes, rows: Sequence[Row], part: str) -> dict[str, Any]:
    """Peer -> its line; hpsde is drawn last and thick."""
    numbers = numbers_in(rows)
    lines: dict[str, Any] = {}
    for peer in peers_in(rows):
        place, own = list(PEERS).index(peer), peer == OWN
        means = [100.0 * mean_value(of(rows, peer, number)) for number in numbers]
        (lines[peer],) = axes.plot(
            numbers,
            means,
            color=COLOURS[place],
            marker=MARKERS[place],
            markersize=6 if own else 4,
            linewidth=2.5 if own else 1.2,
            zorder=3 if own else 2,
            clip_on=False,
        )
    if part == CONTEXTS and rows:
        means = [100.0 * mean_ceiling(rows, number) for number in numbers]
        (lines[EXACT_BINS],) = axes.plot(numbers, means, color="#888888", linestyle="--", linewidth=1.2)
    title, label = TITLES[part]
    tasks = len({row["cell"] for row in rows})
    axes.set_title(f"{title}: mean over {tasks} task{'' if tasks == 1 else 's'}")
    axes.set_ylabel(label)
    axes.set_xlabel("evaluations")
    axes.set_ylim(0.0, 100.0)
    if numbers:
        axes.set_xscale("log")
        axes.set_xticks(numbers, [f"{number:,}" for number in numbers])
        axes.minorticks_off()
    return lines
