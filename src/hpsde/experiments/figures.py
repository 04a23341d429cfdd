"""Figures of an experiment: the paper's maps or routes of single runs, and the learning curves of all methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpsde import plots
from hpsde.experiments.plan import Experiment, PlannedRun
from hpsde.experiments.rows import Row, failed, runs_of
from hpsde.experiments.runner import RUNS
from hpsde.plots import routes as plot_routes
from hpsde.plots.style import option_colours
from hpsde.policy.file import load_policy
from hpsde.runs.files import read_csv, replacing
from hpsde.tasks import Task, make_task, task_extras

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURES = "figures"
LINES = ("-", "--", ":", "-.")
LEGEND_COLUMNS = 4
PANEL_COLUMNS = 3
PANELS = {
    "return": ("greedy return", "greedy_mean_return"),
    "lacking": ("best return less greedy return", "greedy_mean_return"),
    "options": ("options kept", "options_kept"),
    "collision-free": ("share of routes that touch no puddle", "collision_free"),
    "gaps": ("gaps that an option takes", "solutions_found"),
    "success": ("success within 0.02 m", "success"),
    "strict success": ("success within 0.01 m", "strict_success"),
    "both sides": ("goals that options reach on both sides", "both_sides"),
    "families": ("posture families of the options", "solutions_found"),
}
"""Panels of the curves, by the names that a plan gives: title, and column of the rows."""
LEAST_LACKING = 1e-9
"""What is drawn, on a scale of logarithms, where nothing is lacking."""
COUNTED = ("options", "gaps", "families")
MAPS, ROUTES = "maps", "routes"


def example_runs(experiment: Experiment) -> list[PlannedRun]:
    """The runs that are drawn: of each task, the first by every variant that is drawn and learns it."""
    return [run for run in experiment.runs(seeds=1) if run.variant.name in experiment.drawn]


def picture_of(task: Task) -> str | None:
    """What is drawn of the runs of a task: maps, routes or nothing."""
    if task.context_size == task.parameter_size == 1:
        return MAPS
    return ROUTES if task_extras(task).figure == "puddle" else None


def picture_name(task: str, picture: str) -> str:
    """The file of a task's picture."""
    return f"{task}-{picture}.png"


def draw_all(experiment: Experiment, out: Path, rows: Sequence[Row]) -> list[Path]:
    """Write all figures that the rows, and the examples that are there, allow; their paths."""
    (out / FIGURES).mkdir(parents=True, exist_ok=True)
    written = []
    for name in experiment.tasks + experiment.extra_tasks:
        task, examples = make_task(name), _examples(experiment, out, name)
        picture = picture_of(task) if examples else None
        if picture is not None:
            figure = maps_figure(task, *examples.values()) if picture == MAPS else routes_figure(task, examples)
            written.append(_save(figure, out / FIGURES / picture_name(name, picture)))
        variants = [variant.name for variant in experiment.variants]
        if curves := curves_of(rows, name, variants, experiment.panels):
            figure = curves_figure(curves, experiment.panels, experiment.best[name])
            written.append(_save(figure, out / FIGURES / f"{name}-curves.png"))
    return written


def _examples(experiment: Experiment, out: Path, task: str) -> dict[str, Path]:
    """Variant -> where the policy and the rollouts of its example on the task are kept, without suffix."""
    found = {run.variant.name: out / RUNS / run.name for run in example_runs(experiment) if run.task == task}
    return {name: path for name, path in found.items() if path.with_suffix(".npz").is_file()}


def maps_figure(task: Task, example: Path) -> Figure:
    """The paper's figure: the return surface, the rollouts and the options of one run."""
    policy, rollouts = load_policy(example.with_suffix(".npz")), read_csv(example.with_suffix(".csv"))
    with plots._style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.0, 3.0), dpi=110, layout="constrained")
        surface, samples, options = figure.subplots(1, 3, sharey=True)
        returns = plots.return_map(task, rollouts["parameter_0"])
        plots.draw_surface(surface, returns)
        columns = {
            "contexts": rollouts["context_0"][:, None],
            "parameters": rollouts["parameter_0"][:, None],
            "failed": rollouts["failed"] != 0.0,
        }
        columns |= {name: rollouts[name] for name in ("option", "number") if name in rollouts}
        plots.draw_samples(samples, returns, policy, columns)
        plots.draw_options(options, returns, policy)
        samples.set_ylabel("")
        options.set_ylabel("")
        return figure


def routes_figure(task: Any, examples: Mapping[str, Path]) -> Figure:
    """The paper's figure, a row for every variant: the routes of all options, and those that are chosen."""
    contexts = np.asarray(task.evaluation_contexts())
    with plots._style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.0, 3.4 * len(examples)), dpi=110, layout="constrained")
        rows: Any = figure.subplots(len(examples), 2, squeeze=False)
        for (variant, example), (options, chosen) in zip(examples.items(), rows, strict=True):
            policy = load_policy(example.with_suffix(".npz"))
            colours = option_colours(policy)
            plot_routes.draw_option_routes(options, task, policy, contexts[::20], colours)
            plot_routes.draw_chosen_routes(chosen, task, policy, contexts[::10], colours)
            for axes in (options, chosen):
                axes.set_title(f"{variant}: {axes.get_title(loc='left')}")
        return figure


Curves = dict[str, dict[str, np.ndarray]]


def curves_of(rows: Sequence[Row], task: str, variants: Sequence[str], panels: Sequence[str]) -> Curves:
    """Variant -> rollouts [I], and what the panels show of all seeds [seeds, I], by panel; failed runs left out."""
    runs, curves = runs_of(rows), {}
    for variant in variants:
        found = [run for (t, v, _), run in runs.items() if (t, v) == (task, variant) and not failed(run)]
        if found:
            curves[variant] = {"rollouts": np.array([row["rollouts"] for row in found[0]])} | {
                panel: np.array([[row[PANELS[panel][1]] for row in run] for run in found], dtype=float)
                for panel in panels
            }
    return curves


def curves_figure(curves: Curves, panels: Sequence[str], best: float) -> Figure:
    """The panels against rollouts: means over the seeds, with the middle half of the seeds as a band."""
    with plots._style():
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        columns = PANEL_COLUMNS if len(panels) % PANEL_COLUMNS == 0 else 2
        rows = -(-len(panels) // columns)
        figure = Figure(figsize=(9.0, 1.0 + 2.6 * rows), dpi=110, layout="constrained")
        all_axes: Any = figure.subplots(rows, columns, squeeze=False)
        for panel, axes in zip(panels, all_axes.flat, strict=True):
            for number, (variant, curve) in enumerate(curves.items()):
                style = {"color": plots._colour(number), "linestyle": LINES[number % len(LINES)], "label": variant}
                shown = np.maximum(best - curve[panel], LEAST_LACKING) if panel == "lacking" else curve[panel]
                _band(axes, curve["rollouts"], shown, style)
            axes.set(title=PANELS[panel][0], xlabel="rollouts")
            axes.margins(x=0.02)
            if panel == "return":
                axes.axhline(best, color=plots.GREY, linewidth=0.6)
            elif panel == "lacking":
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0.0)
            if panel in COUNTED:
                axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=2))
        handles, labels = all_axes[0, 0].get_legend_handles_labels()
        entries = min(LEGEND_COLUMNS, len(labels))
        figure.legend(handles, labels, loc="outside lower center", ncols=entries, handlelength=3.0)
        return figure


def _band(axes: Axes, rollouts: np.ndarray, seeds: np.ndarray, style: dict[str, Any]) -> None:
    low, high = np.quantile(seeds, [0.25, 0.75], axis=0)
    axes.fill_between(rollouts, low, high, color=style["color"], alpha=0.12, linewidth=0.0)
    axes.plot(rollouts, seeds.mean(axis=0), linewidth=1.4, **style)


def _save(figure: Figure, path: Path) -> Path:
    # Without the version of the drawing library, the same picture has the same bytes.
    with replacing(path) as unfinished:
        figure.savefig(unfinished, format="png", metadata={"Software": None})
    return path
