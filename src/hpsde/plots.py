"""Figures of a run: the paper's toy figure, the learning curve, the number of options.

Matplotlib's object-oriented part alone, imported when a figure is drawn: no window, no style left behind.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours: told apart with every kind of colour vision. Option 8 has the colour of option 1;
# the numbers on the lines tell them apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
GREY = "#5F5F5F"
DOUBT = "#A32A00"

STYLE: dict[Any, Any] = {
    "axes.formatter.useoffset": False,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "legend.frameon": False,
    "legend.fontsize": 8,
}
GRID_POINTS = 241


def run_figure(
    task: Any,
    policy: Any,
    rollouts: Mapping[str, np.ndarray],
    iterations: Mapping[str, np.ndarray],
    postures: Any = None,
    lives: Sequence[Mapping[str, Any]] = (),
) -> Figure:
    """The curves of a run, under three maps where context and parameter are one number each, under routes, or under
    pictures of an arm's postures (`plot_arm.Postures`) where these were taken.

    task: None where its returns are not known but for the `returns` of the rollouts.
    lives: of every option its number, and after how many rollouts it was `born` and `died` (`ledger.option_lives`).
    """
    with _style():
        from matplotlib.figure import Figure

        sized = policy if task is None else task
        if sized.context_size == 1 and sized.parameter_size == 1:
            figure = Figure(figsize=(9.0, 5.6), dpi=160, layout="constrained")
            rows: Any = figure.subfigures(2, 1, height_ratios=(1.25, 1.0))
            top, bottom = rows
            surface, samples, options = top.subplots(1, 3, sharey=True)
            returns = seen_map(rollouts) if task is None else return_map(task, rollouts["parameters"])
            if task is None:
                draw_told(surface, returns, rollouts)
            else:
                draw_surface(surface, returns)
            draw_samples(samples, returns, policy, rollouts)
            draw_options(options, returns, policy)
            samples.set_ylabel("")
            options.set_ylabel("")
        elif hasattr(task, "routes"):
            figure = Figure(figsize=(9.0, 6.2), dpi=160, layout="constrained")
            rows = figure.subfigures(2, 1, height_ratios=(1.5, 1.0))
            top, bottom = rows
            _draw_route_panels(top, task, policy, rollouts)
        elif postures is not None:
            figure, bottom = _figure_with_postures(postures)
        else:
            figure = Figure(figsize=(9.0, 2.7), dpi=160, layout="constrained")
            bottom = figure.subfigures()
        curve, counts = bottom.subplots(1, 2)
        draw_returns(curve, iterations)
        if lives:
            draw_births_and_deaths(curve, lives)
            draw_option_lives(counts, iterations, lives)
        else:
            draw_option_count(counts, iterations)
        write_doubts(figure, policy.doubts)
        return figure


def write_doubts(figure: Figure, doubts: Sequence[Any]) -> None:
    """What the learner is not sure of, above the figure; nothing where it is sure."""
    if doubts:
        width = int(figure.get_figwidth() * 15)
        lines = [textwrap.shorten(f"{doubt.kind}: {doubt.text}", width, placeholder=" ...") for doubt in doubts]
        text = "\n".join([f"{len(doubts)} doubt{'s' if len(doubts) > 1 else ''}", *lines])
        # No formulas: a dollar sign in a text is one.
        figure.suptitle(text.replace("$", r"\$"), x=0.01, ha="left", fontsize=8, color=DOUBT)


def _draw_route_panels(figure: Any, task: Any, policy: Any, rollouts: Mapping[str, np.ndarray]) -> None:
    from hpsde import plot_routes, plot_rover

    contexts, colours = np.asarray(task.evaluation_contexts()), option_colours(policy)
    if plot_rover.is_rover(task):
        options, best = figure.subplots(1, 2)
        plot_rover.draw_option_routes(options, task, policy, contexts[::10], colours)
        done = ~rollouts["failed"]
        plot_rover.draw_best_rollouts(best, task, rollouts["contexts"][done], rollouts["parameters"][done])
        return
    options, chosen, gate = figure.subplots(1, 3)
    plot_routes.draw_option_routes(options, task, policy, contexts[::20], colours)
    plot_routes.draw_chosen_routes(chosen, task, policy, contexts[::10], colours)
    plot_routes.draw_gate(gate, task, policy, colours)


def _figure_with_postures(postures: Any) -> tuple[Figure, Any]:
    """A figure with pictures of an arm, and its lower part, for the curves."""
    from matplotlib.figure import Figure

    from hpsde import plot_arm

    rows, columns = plot_arm.panel_grid(len(postures.pictures))
    pictures, curves = rows * (9.0 / columns * plot_arm.HEIGHT / plot_arm.WIDTH + 0.5) + 0.5, 2.7
    figure = Figure(figsize=(9.0, pictures + curves), dpi=160, layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(pictures, curves))
    plot_arm.draw_postures(parts[0], postures, _colours(postures.numbers))
    return figure, parts[1]


def posture_sheet(postures: Any) -> Figure:
    """An arm's options at several goals, as in `plot_arm.sheet_figure`."""
    from hpsde import plot_arm

    with _style():
        return plot_arm.sheet_figure(postures, _colours(postures.numbers))


class ReturnMap(NamedTuple):
    """Returns [P, C] over a grid of parameters [P] and contexts [C]; NaN where they are not known."""

    contexts: np.ndarray
    parameters: np.ndarray
    returns: np.ndarray


def return_map(task: Any, seen: np.ndarray) -> ReturnMap:
    """The returns of a task with one context and one parameter; without bounds, over what was `seen`."""
    evaluation = np.asarray(task.evaluation_contexts())
    contexts = np.linspace(evaluation.min(), evaluation.max(), GRID_POINTS)
    low, high = (seen.min(), seen.max()) if task.parameter_bounds is None else task.parameter_bounds
    parameters = np.linspace(float(np.squeeze(low)), float(np.squeeze(high)), GRID_POINTS)
    grid = np.meshgrid(contexts, parameters)
    returns = np.asarray(task.evaluate(grid[0].reshape(-1, 1), grid[1].reshape(-1, 1)))
    return ReturnMap(contexts, parameters, returns.reshape(GRID_POINTS, GRID_POINTS))


def seen_map(rollouts: Mapping[str, np.ndarray]) -> ReturnMap:
    """A map without returns, over the contexts and parameters of the rollouts."""
    contexts, parameters = (
        np.linspace(values.min(), values.max(), GRID_POINTS) if len(values) else np.linspace(0.0, 1.0, GRID_POINTS)
        for values in (rollouts["contexts"], rollouts["parameters"])
    )
    return ReturnMap(contexts, parameters, np.full((GRID_POINTS, GRID_POINTS), np.nan))


def draw_told(axes: Axes, returns: ReturnMap, rollouts: Mapping[str, np.ndarray]) -> None:
    """The returns of the rollouts that did not fail, each at its context and parameter."""
    shown = ~rollouts["failed"]
    points = rollouts["contexts"][shown, 0], rollouts["parameters"][shown, 0]
    image = axes.scatter(*points, c=rollouts["returns"][shown], s=9.0, cmap="cividis", linewidths=0, rasterized=True)
    _add_scale(axes, image)
    _label_map(axes, "returns of the rollouts", returns)


def draw_surface(axes: Axes, returns: ReturnMap) -> None:
    """The return over context and parameter."""
    image = axes.pcolormesh(*returns, cmap="cividis", shading="nearest", rasterized=True)
    _add_scale(axes, image)
    _label_map(axes, "returns", returns)


def draw_samples(axes: Axes, returns: ReturnMap, policy: Any, rollouts: Mapping[str, np.ndarray]) -> None:
    """All rollouts, coloured by the option that drew them, grey where it has died. Pale: those of the initial policy.

    These, and all where nobody counted options, are coloured by the option whose mean is nearest. Not by the likeliest
    one: an option that has become narrow would lose its own early rollouts to a wide one.
    """
    _pale_surface(axes, returns)
    distances = np.abs(policy.option_means(rollouts["contexts"]) - rollouts["parameters"])
    options = np.argmin(distances[:, :, 0], axis=0)
    initial, counted = rollouts["option"] < 0, policy.numbers is not None and "number" in rollouts
    if counted:
        drew = rollouts["number"][:, None] == policy.option_numbers
        options = np.where(initial, options, np.where(drew.any(axis=1), drew.argmax(axis=1), -1))
    colours = option_colours(policy)
    for option in range(-1 if counted else 0, len(policy.options)):
        for chosen, size, alpha in ((initial, 4.0, 0.35), (~initial, 9.0, 0.9)):
            shown = chosen & (options == option) & ~rollouts["failed"]
            axes.scatter(
                rollouts["contexts"][shown, 0],
                rollouts["parameters"][shown, 0],
                s=size,
                alpha=alpha,
                color=colours[option] if option >= 0 else GREY,
                marker=MARKERS[(policy.option_numbers[option] - 1) % len(MARKERS)] if option >= 0 else "+",
                linewidths=0 if option >= 0 else 0.7,
                rasterized=True,
            )
    dead = "; +: of one that died" if np.any(options < 0) else ""
    _label_map(axes, f"rollouts, by option{dead}" if counted else "rollouts, by nearest option", returns)


def draw_options(axes: Axes, returns: ReturnMap, policy: Any) -> None:
    """The mean of every option: a thick line where the gate chooses it, a thin one elsewhere."""
    _pale_surface(axes, returns)
    contexts = returns.contexts[:, None]
    means = policy.option_means(contexts)[:, :, 0]
    ruling = policy.choose(contexts)
    for option, mean in enumerate(means):
        rules, number = ruling == option, int(policy.option_numbers[option])
        axes.plot(returns.contexts, mean, color=_colour(number), linewidth=0.9, alpha=0.6)
        axes.plot(
            returns.contexts,
            np.where(rules, mean, np.nan),
            color=_colour(number),
            linewidth=3.2,
            solid_capstyle="butt",
        )
        _number_line(axes, returns, number, mean, rules)
    _label_map(axes, "options, thick where preferred", returns)


def draw_returns(axes: Axes, iterations: Mapping[str, np.ndarray]) -> None:
    """Mean return of the greedy policy on the evaluation contexts, where measured, and of each iteration's rollouts."""
    rollouts, greedy = iterations["rollouts"], iterations.get("greedy_mean_return")
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
    axes.legend(loc="lower right")


def draw_option_count(axes: Axes, iterations: Mapping[str, np.ndarray]) -> None:
    """How many options are kept after each iteration."""
    from matplotlib.ticker import MaxNLocator

    kept = iterations["options_kept"]
    axes.step(iterations["rollouts"], kept, where="post", color=COLOURS[0], marker="o", markersize=3)
    axes.set(xlabel="rollouts", ylabel="options kept", ylim=(0, max(kept.max(initial=1.0) * 1.15, 1.5)))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=2))


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
    axes.legend(loc="best")


def draw_option_lives(axes: Axes, iterations: Mapping[str, np.ndarray], lives: Sequence[Mapping[str, Any]]) -> None:
    """A line for every option, from its birth to its death, in the colour that it has elsewhere."""
    from matplotlib.ticker import MaxNLocator

    last = float(iterations["rollouts"][-1])
    for life in lives:
        number, alive = life["number"], life["died"] is None
        end = last if alive else life["died"]
        axes.plot([life["born"], end], [number] * 2, color=_colour(number), linewidth=2.0, solid_capstyle="butt")
        axes.plot(life["born"], number, color=_colour(number), marker="o", markersize=3)
        if not alive:
            axes.plot(end, number, color=_colour(number), marker="x", markersize=5)
    kept = int(iterations["options_kept"][-1])
    axes.set(xlabel="rollouts", ylabel="option", title=f"{kept} options kept; x: died")
    axes.set_ylim(0.3, max(life["number"] for life in lives) + 0.7)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def _colour(number: int) -> str:
    """The colour of the option of that number, from 1 on."""
    return COLOURS[(number - 1) % len(COLOURS)]


def option_colours(policy: Any) -> tuple[str, ...]:
    """The colours of the policy's options, in their order: an option keeps its colour as it keeps its number."""
    return _colours(policy.option_numbers)


def _colours(numbers: np.ndarray) -> tuple[str, ...]:
    return tuple(_colour(int(number)) for number in numbers)


def _pale_surface(axes: Axes, returns: ReturnMap) -> None:
    if np.all(np.isnan(returns.returns)):
        return
    low, high = returns.returns.min(), returns.returns.max()
    # The scale ends far above the highest return, so that the map stays a light grey under the colours.
    axes.pcolormesh(*returns, cmap="Greys", vmin=low, vmax=low + 3.5 * (high - low), shading="nearest", rasterized=True)


def _add_scale(axes: Axes, image: Any) -> None:
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02, aspect=30)
    bar.outline.set_visible(False)


def _label_map(axes: Axes, title: str, returns: ReturnMap) -> None:
    axes.set(title=title, xlabel="context $s$", ylabel=r"parameter $\xi$")
    axes.set(xlim=returns.contexts[[0, -1]], ylim=returns.parameters[[0, -1]])


def _number_line(axes: Axes, returns: ReturnMap, number: int, mean: np.ndarray, rules: np.ndarray) -> None:
    """Write the option's number on its line: mid-way where it rules, else near where it leaves the map."""
    low, high = returns.parameters[[0, -1]]
    inside = np.flatnonzero((mean > low) & (mean < high) & (rules if rules.any() else True))
    if inside.size == 0:
        return
    place = inside[inside.size // 2] if rules.any() else inside[max(inside.size - 8, 0)]
    axes.text(
        returns.contexts[place],
        mean[place],
        str(number),
        color=_colour(number),
        fontsize=8,
        fontweight="bold" if rules.any() else "normal",
        ha="center",
        va="center",
        bbox={
            "boxstyle": "circle,pad=0.15",
            "facecolor": "white",
            "edgecolor": _colour(number),
            "linewidth": 0.8,
        },
    )
