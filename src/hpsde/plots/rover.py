"""The rover's figure: obstacles, the options' routes, and the best rollouts that differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hpsde.plots.style import option_colours
from hpsde.tasks.rover import DIVERSE, OBSTACLES, SIDE, START
from hpsde.tasks.streets import best_diverse

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STONE = "#C8C2B8"
SHOWN, BEST_OF = 3, 200
"""Rollouts that are drawn, and among how many of the best ones they are sought."""


def draw_panels(task: Any, figure: Any, policy: Any, rollouts: Mapping[str, np.ndarray]) -> None:
    """The routes of all options, and the best rollouts that differ."""
    contexts, colours = np.asarray(task.evaluation_contexts()), option_colours(policy)
    options, best = figure.subplots(1, 2)
    draw_option_routes(options, task, policy, contexts[::10], colours)
    done = ~rollouts["failed"]
    draw_best_rollouts(best, task, rollouts["contexts"][done], rollouts["parameters"][done])


def draw_option_routes(axes: Axes, task: Any, policy: Any, contexts: np.ndarray, colours: tuple[str, ...]) -> None:
    """The mean route of every option in every context, thick where the gate prefers it, and its mean return."""
    _draw_obstacles(axes, task, contexts)
    chosen = policy.choose(contexts)
    for option, means in enumerate(policy.option_means(contexts)):
        earned = float(np.mean(task.evaluate(contexts, means)))
        for number, route in enumerate(task.routes(contexts, means)):
            axes.plot(
                *route.T,
                color=colours[option % len(colours)],
                linewidth=2.0 if chosen[number] == option else 0.9,
                label=f"{int(policy.option_numbers[option])}: {earned:.2f}" if number == 0 else None,
            )
    axes.legend(loc="lower left", bbox_to_anchor=(1.0, 0.0), title="option: return")
    _label(axes, "options, thick where preferred")


def draw_best_rollouts(axes: Axes, task: Any, contexts: np.ndarray, parameters: np.ndarray) -> None:
    """The best rollouts that lie apart, best first, with the streets that they take and what they earned."""
    returns = task.evaluate(contexts, parameters)
    best = np.argsort(-returns, kind="stable")[:BEST_OF]
    routes = task.routes(contexts[best], parameters[best])
    shown = best_diverse(returns[best], routes, SHOWN, DIVERSE)
    names = task.names(contexts[best[shown]], parameters[best[shown]])
    _draw_obstacles(axes, task, contexts[best[shown]])
    for number, name in zip(shown, names, strict=True):
        axes.plot(*routes[number].T, linewidth=1.5, label=f"{name}: {returns[best[number]]:.2f}")
    axes.legend(loc="lower left", bbox_to_anchor=(1.0, 0.0), title="streets: return")
    _label(axes, f"best rollouts, {DIVERSE:g} apart")


def _draw_obstacles(axes: Axes, task: Any, contexts: np.ndarray) -> None:
    from matplotlib.patches import Rectangle

    for corner in OBSTACLES - SIDE / 2:
        axes.add_patch(Rectangle((corner[0], corner[1]), SIDE, SIDE, color=STONE, linewidth=0))
    axes.plot(*START, marker="s", markersize=4, color="black")
    axes.plot(*task.goals(contexts).T, marker="o", markersize=3, color="black", linestyle="none")


def _label(axes: Axes, title: str) -> None:
    axes.set(title=title, xlabel="$x$", ylabel="$y$", xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
