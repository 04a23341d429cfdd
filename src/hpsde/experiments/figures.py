"""Figures of an experiment: the paper's maps of one run, and the learning curves of all methods over the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpsde import plots
from hpsde.experiments.plan import FIRST_SEED, Experiment, Run
from hpsde.experiments.rows import Row, failed, runs_of
from hpsde.experiments.runner import RUNS
from hpsde.policy_file import load_policy
from hpsde.runs.files import read_csv, replacing
from hpsde.tasks import Task, make_task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURES = "figures"
LINES = ("-", "--", ":", "-.")
LEGEND_COLUMNS = 4


def example_runs(experiment: Experiment) -> list[Run]:
    """The runs that are drawn: one of each task, by the experiment's first variant."""
    runs = experiment.runs(seeds=1, variants=(experiment.variants[0].name,))
    return [run for run in runs if run.seed == FIRST_SEED]


def draw_all(experiment: Experiment, out: Path, rows: Sequence[Row]) -> list[Path]:
    """Write all figures that the rows, and the examples that are there, allow; their paths."""
    (out / FIGURES).mkdir(parents=True, exist_ok=True)
    written = []
    for run in example_runs(experiment):
        example, task = out / RUNS / run.name, make_task(run.task)
        if task.context_size == task.parameter_size == 1 and example.with_suffix(".npz").is_file():
            written.append(_save(maps_figure(task, example), out / FIGURES / f"{run.task}-maps.png"))
    for task_name in experiment.tasks + experiment.extra_tasks:
        names = [variant.name for variant in experiment.variants]
        if curves := curves_of(rows, task_name, names):
            figure = curves_figure(curves, experiment.best[task_name])
            written.append(_save(figure, out / FIGURES / f"{task_name}-curves.png"))
    return written


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
            "option": rollouts["option"],
            "failed": rollouts["failed"] != 0.0,
        }
        plots.draw_samples(samples, returns, policy, columns)
        plots.draw_options(options, returns, policy)
        samples.set_ylabel("")
        options.set_ylabel("")
        return figure


Curves = dict[str, dict[str, np.ndarray]]


def curves_of(rows: Sequence[Row], task: str, variants: Sequence[str]) -> Curves:
    """Variant -> rollouts [I], and greedy returns and options kept of all seeds [seeds, I]; failed runs left out."""
    runs, curves = runs_of(rows), {}
    for variant in variants:
        found = [run for (t, v, _), run in runs.items() if (t, v) == (task, variant) and not failed(run)]
        if found:
            curves[variant] = {
                "rollouts": np.array([row["rollouts"] for row in found[0]]),
                "returns": np.array([[row["greedy_mean_return"] for row in run] for run in found]),
                "options": np.array([[row["options_kept"] for row in run] for run in found], dtype=float),
            }
    return curves


def curves_figure(curves: Curves, best: float) -> Figure:
    """Returns, what they lack to the best, and options against rollouts: means, with the middle half of the seeds."""
    with plots._style():
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(9.0, 3.6), dpi=110, layout="constrained")
        returns, lacking, options = figure.subplots(1, 3)
        for number, (variant, curve) in enumerate(curves.items()):
            style = {"color": plots._colour(number), "linestyle": LINES[number % len(LINES)], "label": variant}
            _band(returns, curve["rollouts"], curve["returns"], style)
            _band(lacking, curve["rollouts"], np.maximum(best - curve["returns"], 1e-9), style)
            _band(options, curve["rollouts"], curve["options"], style)
        returns.axhline(best, color=plots.GREY, linewidth=0.6)
        lacking.set_yscale("log")
        options.set_ylim(bottom=0.0)
        options.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=2))
        for axes, title in (
            (returns, "greedy return"),
            (lacking, "best return less greedy return"),
            (options, "options kept"),
        ):
            axes.set(title=title, xlabel="rollouts")
            axes.margins(x=0.02)
        handles, labels = returns.get_legend_handles_labels()
        columns = min(LEGEND_COLUMNS, len(labels))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=3.0)
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
