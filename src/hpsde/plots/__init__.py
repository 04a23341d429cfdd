"""The figure of a run: what it has found, the learning curve, the lives of its options."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hpsde.plots import routes, rover
from hpsde.plots.maps import (
    draw_known_returns,
    draw_options,
    draw_samples,
    draw_solutions,
    draw_surface,
    return_map,
    unknown_map,
)
from hpsde.plots.style import COLOURS, DOUBT, GREY, plain_text
from hpsde.plots.style import colour_of as _colour
from hpsde.plots.style import colours_of as _colours
from hpsde.plots.style import style as _style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panels = Callable[..., None]

FIGURES: dict[str, Panels] = {"puddle": routes.draw_panels, "rover": rover.draw_panels}
"""By the name that a task gives as its `figure`: what fills a figure, given task, figure, policy and rollouts."""
DOUBT_WIDTH = 135
"""Letters in a line above a figure."""
LINE_HEIGHT = 0.16
"""Inches that such a line takes."""
MOST_NUMBERS = 12
"""Numbers of a context that are written out."""


def run_figure(
    task: Any,
    policy: Any,
    rollouts: Mapping[str, np.ndarray],
    iterations: Mapping[str, np.ndarray],
    postures: Any = None,
    lives: Sequence[Mapping[str, Any]] = (),
    *,
    title: str = "",
    best: float | None = None,
    context: np.ndarray | None = None,
) -> Figure:
    """What a run has found, over its curves: maps, slices, routes, or pictures of an arm's postures.

    task: what the true returns and solutions are looked up in; None: they are not known, and nothing is evaluated.
    rollouts: `contexts`, `parameters`, `returns`, `option`, `number` and `failed`. iterations: one row a learning step.
    postures: `plot_arm.Postures`, where these were taken.
    lives: of every option its number, and after how many rollouts it was `born` and `died` (`ledger.option_lives`).
    best: the best possible mean return. context [S]: where slices are laid; by default that of the best rollout.
    """
    with _style():
        above = LINE_HEIGHT * (2 + len(policy.doubts)) if policy.doubts else 0.0
        draw_panels = panels_of(task)
        if draw_panels is not None:
            figure, top, bottom = _parts(3.75 + above)
            draw_panels(top, policy, rollouts)
        elif postures is not None:
            figure, top, bottom = _figure_with_postures(postures, above)
        else:
            figure, top, bottom = _parts(3.1 + above)
            _draw_options(top, task, policy, rollouts, context)
        curve, counts = bottom.subplots(1, 2)
        draw_returns(curve, iterations, best)
        if lives:
            draw_births_and_deaths(curve, lives)
            draw_option_lives(counts, iterations, lives, _earned(policy))
        else:
            draw_option_count(counts, iterations)
        _legend_above(curve)
        write_title(figure, title)
        write_doubts(top, policy.doubts)
        return figure


def panels_of(task: Any) -> Panels | None:
    """What fills a figure, given it, policy and rollouts, for a task that names its `figure`; None: maps, slices or the
    pictures of an arm do.
    """
    name = getattr(task, "figure", None)
    return partial(FIGURES[name], task) if name in FIGURES else None


def _parts(height: float, curves: float = 2.5) -> tuple[Figure, Any, Any]:
    """A figure, its upper part, so many inches high, and its lower part, for the curves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, height + curves), dpi=160, layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(height, curves))
    return figure, parts[0], parts[1]


def _draw_options(
    figure: Any, task: Any, policy: Any, rollouts: Mapping[str, np.ndarray], context: np.ndarray | None
) -> None:
    """Three maps where there are two numbers, else slices."""
    from hpsde.plots import slices as plot_slices

    if policy.context_size + policy.parameter_size != 2:
        chosen = plot_slices.best_context(rollouts) if context is None else context
        plot_slices.draw_panels(figure, policy, rollouts, chosen)
        if policy.context_size + policy.parameter_size > 2 and policy.context_size:
            numbers = ", ".join(f"{value:.4g}" for value in chosen[:MOST_NUMBERS])
            numbers += ", ..." if len(chosen) > MOST_NUMBERS else ""
            which = "the context of the best rollout" if context is None else "the given context"
            text = f"where an axis does not show the context, it is ({numbers}), {which}"
            figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color=GREY)
        return
    surface, samples, options = figure.subplots(1, 3, sharey=True)
    if task is None:
        returns = unknown_map(policy, rollouts)
        draw_known_returns(surface, returns, rollouts)
    else:
        returns = return_map(task, rollouts["parameters"])
        draw_surface(surface, returns)
        draw_solutions(surface, task, returns)
    draw_samples(samples, returns, policy, rollouts)
    draw_options(options, returns, policy)
    samples.set_ylabel("")
    options.set_ylabel("")


def write_title(figure: Figure, title: str) -> None:
    """What was learned, above all."""
    if title:
        figure.suptitle(plain_text(title), x=0.01, ha="left", fontsize=10)


def write_doubts(figure: Any, doubts: Sequence[Any]) -> None:
    """What the learner is not sure of, above this part of a figure; nothing where it is sure."""
    if doubts:
        lines = [textwrap.shorten(f"{doubt.kind}: {doubt.text}", DOUBT_WIDTH, placeholder=" ...") for doubt in doubts]
        text = "\n".join([f"{len(doubts)} doubt{'s' if len(doubts) > 1 else ''}", *lines])
        figure.suptitle(plain_text(text), x=0.01, ha="left", fontsize=8, color=DOUBT)


def _figure_with_postures(postures: Any, above: float) -> tuple[Figure, Any, Any]:
    """A figure, its upper part with pictures of an arm and `above` inches for text, and its lower part."""
    from hpsde.plots import arm as plot_arm

    rows, columns = plot_arm.panel_grid(len(postures.pictures))
    pictures = rows * (9.0 / columns * plot_arm.HEIGHT / plot_arm.WIDTH + 0.5) + 0.8
    figure, top, bottom = _parts(pictures + above, 2.7)
    plot_arm.draw_postures(top, postures, _colours(postures.numbers))
    return figure, top, bottom


def posture_sheet(postures: Any) -> Figure:
    """An arm's options at several goals, as in `plot_arm.sheet_figure`."""
    from hpsde.plots import arm as plot_arm

    with _style():
        return plot_arm.sheet_figure(postures, _colours(postures.numbers))


def draw_returns(axes: Axes, iterations: Mapping[str, np.ndarray], best: float | None = None) -> None:
    """Mean return of the greedy policy on the evaluation contexts, where measured, and of each iteration's rollouts.

    A dashed line is the best possible mean return, where it is known.
    """
    from matplotlib.ticker import MaxNLocator

    rollouts, greedy = iterations["rollouts"], iterations.get("greedy_mean_return")
    if best is not None:
        axes.axhline(best, color="black", linewidth=0.8, linestyle=(0, (4, 3)), label="best possible")
    if greedy is not None:
        axes.plot(rollouts, greedy, color=COLOURS[0], marker="o", markersize=3, label="greedy policy")
    axes.plot(
        rollouts,
        iterations["batch_mean_return"],
        color=GREY,
        marker="o",
        markersize=3,
        linestyle="none",
        label="rollouts of the iteration",
    )
    axes.set(xlabel="rollouts", ylabel="mean return")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _legend_above(axes: Axes) -> None:
    """The legend over the panel, where it hides nothing."""
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, columnspacing=1.2, handletextpad=0.4)


def draw_option_count(axes: Axes, iterations: Mapping[str, np.ndarray]) -> None:
    """How many options are kept after each iteration."""
    from matplotlib.ticker import MaxNLocator

    kept = iterations["options_kept"]
    axes.step(iterations["rollouts"], kept, where="post", color=COLOURS[0], marker="o", markersize=3)
    axes.set(xlabel="rollouts", ylabel="options kept", ylim=(0, max(kept.max(initial=1.0) * 1.15, 1.5)))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=2))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def draw_births_and_deaths(axes: Axes, lives: Sequence[Mapping[str, Any]]) -> None:
    """A tick at the foot of the curves, up where options were born and down where some died."""
    for event, marker, height in (("born", "^", 0.02), ("died", "v", 0.06)):
        places = sorted({life[event] for life in lives if life[event] is not None})
        if places:
            axes.plot(
                places,
                [height] * len(places),
                transform=axes.get_xaxis_transform(),
                color=GREY,
                marker=marker,
                markersize=4,
                linestyle="none",
                label=f"options {event}",
            )


def _earned(policy: Any) -> dict[int, str]:
    """By the number of an option, the mean return of its newest rollouts and how many those are, where it has any."""
    known = [option for option in policy.options if getattr(option, "measured_return", None) is not None]
    return {each.number: f"{each.measured_return:.4g} ({each.measured_rollouts})" for each in known}


def draw_option_lives(
    axes: Axes,
    iterations: Mapping[str, np.ndarray],
    lives: Sequence[Mapping[str, Any]],
    earned: Mapping[int, str] | None = None,
) -> None:
    """A line for every option, from its birth to its death, in the colour that it has elsewhere.

    At its right end stands what the option has `earned`, by number.
    """
    from matplotlib.ticker import MaxNLocator

    last = float(iterations["rollouts"][-1])
    for life in lives:
        number, alive = life["number"], life["died"] is None
        end = last if alive else life["died"]
        axes.plot([life["born"], end], [number] * 2, color=_colour(number), linewidth=2.0, solid_capstyle="butt")
        axes.plot(life["born"], number, color=_colour(number), marker="o", markersize=3)
        if not alive:
            axes.plot(end, number, color=_colour(number), marker="x", markersize=5)
        if earned and number in earned:
            at_the_end: dict[str, Any] = {
                "xytext": (4, 0),
                "textcoords": "offset points",
                "va": "center",
                "fontsize": 7,
            }
            axes.annotate(earned[number], (end, number), annotation_clip=False, **at_the_end)
    kept, right = int(iterations["options_kept"][-1]), "; right: mean of newest rollouts" if earned else ""
    title = f"{kept} option{'s' if kept != 1 else ''} kept; x: died{right}"
    axes.set(xlabel="rollouts", ylabel="option", title=title)
    axes.set_ylim(0.3, max(life["number"] for life in lives) + 0.7)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
