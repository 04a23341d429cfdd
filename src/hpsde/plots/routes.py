"""The paper's puddle figure: routes of every option, and those that the gate chooses, past the puddles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hpsde.plots.style import option_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WATER = "#C9DDEB"
LOW, HIGH = -6.2, 8.2
"""What is shown of y."""


def draw_panels(task: Any, figure: Any, policy: Any, rollouts: Mapping[str, np.ndarray]) -> None:
    """The routes of all options, those that are chosen, and the gate, side by side."""
    contexts, colours = np.asarray(task.evaluation_contexts()), option_colours(policy)
    options, chosen, gate = figure.subplots(1, 3)
    draw_option_routes(options, task, policy, contexts[::20], colours)
    draw_chosen_routes(chosen, task, policy, contexts[::10], colours)
    draw_gate(gate, task, policy, colours)


def draw_option_routes(axes: Axes, task: Any, policy: Any, contexts: np.ndarray, colours: tuple[str, ...]) -> None:
    """The mean route of every option in every context, drawn strong where it touches no puddle."""
    _draw_puddles(axes, task)
    for option, means in enumerate(policy.option_means(contexts)):
        routes, free = task.routes(contexts, means), task.collisions(contexts, means) == 0
        for route, good in zip(routes, free, strict=True):
            axes.plot(*route.T, color=colours[option % len(colours)], linewidth=0.9, alpha=0.9 if good else 0.15)
    _label(axes, "all options; pale: touches a puddle")


def draw_chosen_routes(axes: Axes, task: Any, policy: Any, contexts: np.ndarray, colours: tuple[str, ...]) -> None:
    """The route that is taken in every context, coloured by option; dashed where it touches a puddle."""
    _draw_puddles(axes, task)
    chosen, parameters = policy.choose(contexts), policy.act(contexts)
    routes, free = task.routes(contexts, parameters), task.collisions(contexts, parameters) == 0
    for option, route, good in zip(chosen, routes, free, strict=True):
        colour = colours[option % len(colours)]
        axes.plot(*route.T, color=colour, linewidth=1.1, linestyle="-" if good else (0, (2, 2)))
        axes.plot(*route[-1], marker="o", markersize=2.5, color=colour)
    _label(axes, "chosen routes; dashed: touches a puddle")


def draw_gate(axes: Axes, task: Any, policy: Any, colours: tuple[str, ...]) -> None:
    """What the chosen option is expected to earn in every evaluation context, and what it earns."""
    contexts = task.evaluation_contexts()
    chosen = policy.choose(contexts)
    expected = policy.expected_returns(contexts)[chosen, np.arange(len(chosen))]
    earned = task.evaluate(contexts, policy.act(contexts))
    axes.plot(contexts[:, 0], expected, color="black", linewidth=0.9, label="expected")
    for option in np.unique(chosen):
        rules = chosen == option
        axes.scatter(
            contexts[rules, 0], earned[rules], s=6, color=colours[option % len(colours)], linewidths=0, zorder=3
        )
    axes.scatter([], [], s=6, color="grey", label="earned, by option")
    if min(expected.min(), earned.min()) < -20.0:  # a route in a puddle costs hundreds
        axes.set_yscale("symlog", linthresh=20.0)
    axes.set(title="the gate", xlabel="goal height $s$", ylabel="return")
    axes.legend(loc="lower right")


def _draw_puddles(axes: Axes, task: Any) -> None:
    from matplotlib.patches import Rectangle

    (start, end), puddles, _ = task.wall
    for low, high in puddles:
        low, high = max(low, LOW), min(high, HIGH)
        axes.add_patch(Rectangle((start, low), end - start, high - low, color=WATER, linewidth=0))
    axes.plot(0.0, 0.0, marker="s", markersize=4, color="black")


def _label(axes: Axes, title: str) -> None:
    axes.set(title=title, xlabel="$x$", ylabel="$y$", xlim=(-0.2, 6.4), ylim=(LOW, HIGH))
