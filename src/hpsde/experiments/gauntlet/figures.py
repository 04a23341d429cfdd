"""Pictures of the gauntlet: single runs with their true solutions, and bars over the cells of a family.

Matplotlib is imported when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpsde import plots
from hpsde.experiments.figures import _save
from hpsde.experiments.gauntlet.rows import Row, by_cell, by_family, key, run_name
from hpsde.experiments.gauntlet.runner import picture_contexts
from hpsde.experiments.gauntlet.targets import exact_share, regret
from hpsde.runs.files import replacing
from hpsde.tasks.gauntlet import CELLS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GRID_POINTS = 161
PANEL_COLUMNS = (6, 5, 4)
MOST_PANELS = 24
MOST_BARS = 30
"""With more cells the overview has two columns."""
LEAST_REGRET, MOST_REGRET = 1e-5, 1.0
"""Regrets are drawn within these, on a scale of logarithms; an error is drawn at the upper end."""
PANEL_FAMILIES = ("ridges", "bumps")
"""Families that are drawn run by run."""


def options_file(rows_file: Path) -> Path:
    """Where the means of the options lie that pictures are drawn from."""
    return rows_file.with_name(f"{rows_file.stem}_options.npz")


def read_means(path: Path) -> dict[str, np.ndarray]:
    """`rows.run_name` -> the means of the options [O, C, D] at `picture_contexts`; empty where there is no file."""
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def keep_means(path: Path, name: str, means: np.ndarray) -> None:
    """Add the means of the options of a run to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = read_means(path) | {name: np.asarray(means, dtype=np.float32)}
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **{each: kept[each] for each in sorted(kept)})


def draw_all(rows: Sequence[Row], options: Path, images: Path) -> dict[str, Path]:
    """Write the overview and a picture of every family: what each shows -> its path."""
    images.mkdir(parents=True, exist_ok=True)
    means, paths = read_means(options), {}
    shown = "The share of the runs in which exactly the right options are found, for every cell"
    paths[shown] = _save(overview_figure(rows), images / "gauntlet.png")
    for family, runs in by_family(rows).items():
        path = images / f"gauntlet-{family}.png"
        drawn = drawn_runs(runs, means) if family in PANEL_FAMILIES else []
        if drawn:
            shown = (
                f"The family {family}, the first run of every cell that fits on paper: the true return (blue), its "
                "solutions (black) and the options found (orange); an orange title is a run that is not exact"
            )
            paths[shown] = _save(panels_figure(drawn, means), path)
        else:
            shown = f"The family {family}: the share of exact runs, and the regrets"
            paths[shown] = _save(bars_figure(runs), path)
    return paths


def drawn_runs(rows: Sequence[Row], means: Mapping[str, np.ndarray]) -> list[Row]:
    """The first run of every cell whose options are kept."""
    first: dict[str, Row] = {}
    for row in rows:
        if run_name(key(row)) in means:
            first.setdefault(row["cell"], row)
    return list(first.values())[:MOST_PANELS]


def panels_figure(rows: Sequence[Row], means: Mapping[str, np.ndarray]) -> Figure:
    """One panel for every run: the true return, its solutions, the options found; coloured titles: not exact."""
    with plots._style():
        from matplotlib.figure import Figure

        columns = min(len(rows), min(PANEL_COLUMNS, key=lambda wide: -len(rows) % wide))
        lines = -(-len(rows) // columns)
        figure = Figure(figsize=(2.4 * columns, 2.35 * lines + 0.4), dpi=110, layout="constrained")
        panels: Any = figure.subplots(lines, columns, squeeze=False)
        for axes in panels.flat[len(rows) :]:
            axes.set_visible(False)
        for place, (row, axes) in enumerate(zip(rows, panels.flat[: len(rows)], strict=True)):
            task = CELLS[row["cell"]].make(row["seed"])
            draw = _draw_plane if task.context_size == 0 else _draw_map
            draw(axes, task, means[run_name(key(row))])
            found = f"found {row['found']} of {row['solutions']}, surplus {row['surplus']}"
            colour = "black" if row["exact"] else plots.COLOURS[1]
            axes.set_title(f"{row['cell']}: {found}", fontsize=8, color=colour)
            if place % columns:
                axes.set_ylabel("")
            if place + columns < len(rows):
                axes.set_xlabel("")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, handlelength=3.0)
        return figure


def _draw_map(axes: Axes, task: Any, means: np.ndarray) -> None:
    """True return over context and parameter, dashed true curves, solid means of options [O, C, 1]."""
    contexts = picture_contexts(task)
    low, high = (float(np.squeeze(end)) for end in task.parameter_bounds)
    grid = np.linspace(contexts[0, 0], contexts[-1, 0], GRID_POINTS), np.linspace(low, high, GRID_POINTS)
    s, xi = (axis.reshape(-1, 1) for axis in np.meshgrid(*grid))
    _background(axes, grid, task.true_returns(s, xi))
    for number, mean in enumerate(means[:, :, 0]):
        axes.plot(contexts[:, 0], mean, color=plots.COLOURS[1], linewidth=2.8, label="" if number else "option")
    for number, solution in enumerate(_required(task)):
        valid = np.ones(len(contexts), bool) if solution.valid is None else solution.valid(contexts)
        curve = np.where(valid, solution.parameters(contexts)[:, 0], np.nan)
        label = "" if number else "true solution"
        axes.plot(contexts[:, 0], curve, color="black", linewidth=0.9, linestyle=(0, (5, 4)), label=label)
    axes.set(xlim=grid[0][[0, -1]], ylim=(low, high), xticks=[], yticks=[])
    axes.set(xlabel="context", ylabel="parameter")


def _draw_plane(axes: Axes, task: Any, means: np.ndarray) -> None:
    """True return over two parameters, rings at the true solutions, crosses at the means of options [O, 1, 2]."""
    low, high = (np.asarray(end, dtype=float) for end in task.parameter_bounds)
    grid = tuple(np.linspace(low[axis], high[axis], GRID_POINTS) for axis in range(2))
    parameters = np.stack([axis.ravel() for axis in np.meshgrid(*grid)], axis=1)
    empty = np.zeros((1, 0))
    _background(axes, grid, task.true_returns(np.zeros((len(parameters), 0)), parameters))
    truth = np.concatenate([solution.parameters(empty) for solution in _required(task)])
    axes.plot(*means[:, 0].T, "x", color=plots.COLOURS[1], markersize=6, markeredgewidth=1.8, label="option")
    axes.plot(*truth.T, "o", color="black", markersize=10, markerfacecolor="none", label="true solution")
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
    axes.set(xlabel="first parameter", ylabel="second parameter")


def _background(axes: Axes, grid: tuple[np.ndarray, ...], returns: np.ndarray) -> None:
    values = returns.reshape(GRID_POINTS, GRID_POINTS)
    low, high = np.nanquantile(values, 0.01), np.nanmax(values)
    axes.pcolormesh(
        *grid, values, cmap="Blues", vmin=low, vmax=low + 1.3 * (high - low), shading="nearest", rasterized=True
    )


def _required(task: Any) -> list[Any]:
    """The solutions that a picture can show and a learner must find."""
    return [each for each in task.solutions if each.parameters is not None and each.required]


def bars_figure(rows: Sequence[Row]) -> Figure:
    """For every cell the share of exact runs, and beside it the regret of every run."""
    cells = by_cell(rows)
    with plots._style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.0, 0.9 + 0.24 * len(cells)), dpi=110, layout="constrained")
        shares, regrets = figure.subplots(1, 2, sharey=True, gridspec_kw={"wspace": 0.06})
        places = np.arange(len(cells))
        _draw_shares(shares, cells, plots.COLOURS[0])
        for place, runs in zip(places, cells.values(), strict=True):
            values = np.clip([regret(row) for row in runs if not runs[0]["hopeless"]], LEAST_REGRET, MOST_REGRET)
            if not len(values):
                continue
            regrets.plot(values, np.full(len(values), place), "o", color=plots.COLOURS[1], markersize=4, alpha=0.5)
            regrets.plot(np.median(values), place, "|", color="black", markersize=11, markeredgewidth=1.8)
        regrets.set_xscale("log")
        regrets.set(title="regret of every run, and the median (line)", xlim=(0.7 * LEAST_REGRET, 1.4 * MOST_REGRET))
        regrets.set_xticks(
            [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0], ["≤ 0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"]
        )
        regrets.grid(axis="x", color=plots.GREY, alpha=0.25, linewidth=0.6)
        regrets.tick_params(axis="y", length=0)
        return figure


def overview_figure(rows: Sequence[Row]) -> Figure:
    """The share of exact runs for every cell, coloured by family; in two columns where the cells are many."""
    families = {family: plots._colour(number) for number, family in enumerate(by_family(rows))}
    columns = _columns(by_cell(rows))
    most = max(len(cells) for cells in columns)
    with plots._style():
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch

        figure = Figure(figsize=(1.0 + 4.8 * len(columns), 1.0 + 0.2 * most), dpi=110, layout="constrained")
        for cells, axes in zip(columns, figure.subplots(1, len(columns), squeeze=False)[0], strict=True):
            _draw_shares(axes, cells, [families[runs[0]["family"]] for runs in cells.values()])
            axes.set_ylim(most - 0.4, -0.6)
        patches = [Patch(color=colour, label=family) for family, colour in families.items()]
        figure.legend(handles=patches, loc="outside lower center", ncols=len(patches))
        return figure


def _columns(cells: Mapping[str, Sequence[Row]]) -> list[dict[str, Sequence[Row]]]:
    """The cells in one column, or in two that part between two families as near to the middle as can be."""
    names = list(cells)
    families = [cells[name][0]["family"] for name in names]
    edges = [place for place in range(1, len(names)) if families[place] != families[place - 1]]
    if len(names) <= MOST_BARS or not edges:
        return [dict(cells)]
    middle = min(edges, key=lambda place: abs(place - len(names) / 2))
    return [{name: cells[name] for name in part} for part in (names[:middle], names[middle:])]


def _draw_shares(axes: Axes, cells: Mapping[str, Sequence[Row]], colour: Any) -> None:
    """A bar for every cell, the first on top, with its percentage behind it."""
    shares = [exact_share(runs) for runs in cells.values()]
    places = np.arange(len(cells))
    axes.barh(places, shares, color=colour, height=0.72)
    for place, share in enumerate(shares):
        axes.text(share + 0.01, place, f"{100.0 * share:.0f} %", va="center", fontsize=7, color=plots.GREY)
    names = [f"{cell} (hopeless)" if runs[0]["hopeless"] else cell for cell, runs in cells.items()]
    axes.set_yticks(places, names, fontsize=8)
    axes.set(ylim=(len(cells) - 0.4, -0.6), xlim=(0.0, 1.1), title="share of runs that are exact")
    axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.tick_params(axis="y", length=0)
