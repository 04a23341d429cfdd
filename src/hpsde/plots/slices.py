"""The options of a policy of one number, or of three and more: pairs of numbers, parallel coordinates, territories.

Where an option depends on contexts that an axis does not show, it is drawn in one context: a slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.ndimage import distance_transform_edt

from hpsde.plots.maps import (
    draw_option_lines,
    draw_option_points,
    number_labels,
    number_ranges,
    numbers_of,
    scatter_rollouts,
)
from hpsde.plots.style import apart, colour_of, write_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE_POINTS = 121
MOST_PANELS = 3
MOST_COORDINATES = 12


def best_context(rollouts: Mapping[str, np.ndarray]) -> np.ndarray:
    """The context [S] of the rollout with the highest return: where slices are laid unless somebody says otherwise."""
    returns = np.where(rollouts["failed"], -np.inf, rollouts["returns"])
    return rollouts["contexts"][int(np.argmax(returns))]


def draw_panels(figure: Any, policy: Any, rollouts: Mapping[str, np.ndarray], context: np.ndarray) -> None:
    """The panels for a policy of any number of contexts and parameters, in a context [S] where one must be chosen."""
    S, D = policy.context_size, policy.parameter_size
    if S + D == 1:
        draw_returns_over_parameter(figure.subplots(), policy, rollouts)
        return
    pairs = [pair for pair in combinations(range(S + D), 2) if pair[1] >= S]
    if len(pairs) <= MOST_PANELS - (S == 2):
        panels = figure.subplots(1, len(pairs) + (S == 2))
        for axes, pair in zip(panels, pairs, strict=False):
            draw_pair(axes, pair, policy, rollouts, context)
    else:
        panels = figure.subplots(1, 2 + (S == 2), width_ratios=(1.6, 1.0, 1.0)[: 2 + (S == 2)])
        draw_coordinates(panels[0], policy, rollouts, context)
        draw_pair(panels[1], telling_pair(policy, rollouts, context), policy, rollouts, context)
    if S == 2:
        draw_territories(panels[-1], policy, rollouts)


def telling_pair(policy: Any, rollouts: Mapping[str, np.ndarray], context: np.ndarray) -> tuple[int, int]:
    """The two numbers to look at: the parameters in which the options differ most, or the first context and the one."""
    S, D = policy.context_size, policy.parameter_size
    if D == 1:
        return 0, S
    low, high = number_ranges(policy, rollouts)
    means = policy.option_means(context[None])[:, 0] / (high - low)[S:]
    order = np.argsort(-np.std(means, axis=0), kind="stable")[:2]
    return S + int(min(order)), S + int(max(order))


def draw_pair(
    axes: Axes, pair: tuple[int, int], policy: Any, rollouts: Mapping[str, np.ndarray], context: np.ndarray
) -> None:
    """Options and rollouts over two of the numbers: lines over a context number, points of two parameters."""
    S, (first, second) = policy.context_size, pair
    points, ranges = numbers_of(rollouts), number_ranges(policy, rollouts)
    scatter_rollouts(axes, points[:, first], points[:, second], policy, rollouts, strength=0.45)
    if first < S:
        contexts = np.tile(context, (LINE_POINTS, 1))
        contexts[:, first] = np.linspace(ranges[0, first], ranges[1, first], LINE_POINTS)
        means, limits = policy.option_means(contexts)[:, :, second - S], (ranges[0, second], ranges[1, second])
        draw_option_lines(axes, contexts[:, first], means, policy.choose(contexts), policy, limits)
        title = "options, thick where preferred"
    else:
        draw_option_points(axes, policy, context, (first - S, second - S), ranges[:, [first, second]])
        title = "options, filled if preferred"
    labels = number_labels(S, policy.parameter_size)
    axes.set(xlabel=labels[first], ylabel=labels[second], title=title)
    axes.set(xlim=ranges[:, first], ylim=ranges[:, second])


def draw_coordinates(axes: Axes, policy: Any, rollouts: Mapping[str, np.ndarray], context: np.ndarray) -> None:
    """Parallel coordinates: the parameters of every option in a context, each between its lowest and highest value.

    The band around a line is one standard deviation. Behind them are the best tenth of the rollouts.
    """
    S, shown = policy.context_size, min(policy.parameter_size, MOST_COORDINATES)
    low, high = number_ranges(policy, rollouts)[:, S : S + shown]
    places, chosen = np.arange(1, shown + 1), int(policy.choose(context[None])[0])
    done = np.flatnonzero(~rollouts["failed"])
    best = done[np.argsort(-rollouts["returns"][done], kind="stable")[: max(1, len(done) // 10)]]
    for row in (rollouts["parameters"][best, :shown] - low) / (high - low):
        axes.plot(places, row, color="#BDBDBD", linewidth=0.5, zorder=1)
    means = (policy.option_means(context[None])[:, 0, :shown] - low) / (high - low)
    ends = apart(np.stack([np.ones(len(means)), means[:, -1]], axis=1))
    for option, mean in enumerate(means):
        number = int(policy.option_numbers[option])
        spread = np.sqrt(np.diagonal(policy.options[option].covariance))[:shown] / (high - low)
        axes.fill_between(places, mean - spread, mean + spread, color=colour_of(number), alpha=0.18, linewidth=0)
        width = 2.6 if option == chosen else 1.0
        axes.plot(places, mean, color=colour_of(number), linewidth=width, marker="o", markersize=3)
        beside = (abs(ends[option][0]) + 9.0, ends[option][1])
        write_number(axes, float(shown), float(mean[-1]), number, option == chosen, beside)
    _label_coordinates(axes, low, high, policy.parameter_size)


def _label_coordinates(axes: Axes, low: np.ndarray, high: np.ndarray, size: int) -> None:
    """Under every coordinate its name and lowest value, above it the highest."""
    shown = len(low)
    names = [rf"$\xi_{{{j + 1}}}$" + f"\n{low[j]:.3g}" for j in range(shown)]
    axes.set_xticks(np.arange(1, shown + 1), names)
    for j in range(shown):
        axes.axvline(j + 1, color="#BDBDBD", linewidth=0.8, zorder=0)
        axes.text(j + 1, 1.02, f"{high[j]:.3g}", ha="center", va="bottom", fontsize=8)
    left_out = f", first {shown} of {size} parameters" if shown < size else ""
    axes.set(
        title=f"options{left_out}, thick if preferred; grey: best tenth of the rollouts\n",
        yticks=[],
        ylim=(-0.02, 1.02),
    )
    axes.set_xlim(0.8, shown + 0.2 + 0.12 * shown)
    axes.spines[["left", "bottom"]].set_visible(False)


def draw_territories(axes: Axes, policy: Any, rollouts: Mapping[str, np.ndarray]) -> None:
    """The option that the gate prefers, over both context numbers."""
    from matplotlib.colors import ListedColormap

    ranges = number_ranges(policy, rollouts)
    x, y = (np.linspace(ranges[0, i], ranges[1, i], LINE_POINTS) for i in range(2))
    contexts = np.stack([grid.ravel() for grid in np.meshgrid(x, y)], axis=1)
    chosen = policy.choose(contexts).reshape(LINE_POINTS, LINE_POINTS)
    numbers = [int(number) for number in policy.option_numbers]
    colours = ListedColormap([colour_of(number) for number in numbers])
    limits: dict[str, Any] = {"vmin": -0.5, "vmax": len(numbers) - 0.5}
    axes.pcolormesh(x, y, chosen, cmap=colours, alpha=0.45, shading="nearest", rasterized=True, **limits)
    for option, number in enumerate(numbers):
        # The place that is farthest from all that is not its own.
        depth = distance_transform_edt(np.pad(chosen == option, 1))[1:-1, 1:-1]
        if depth.any():
            row, column = np.unravel_index(np.argmax(depth), depth.shape)
            write_number(axes, float(x[column]), float(y[row]), number, True)
    labels = number_labels(policy.context_size, policy.parameter_size)
    axes.set(xlabel=labels[0], ylabel=labels[1], title="option preferred", xlim=x[[0, -1]], ylim=y[[0, -1]])


def draw_returns_over_parameter(axes: Axes, policy: Any, rollouts: Mapping[str, np.ndarray]) -> None:
    """Of one parameter and no context: the return of every rollout, and where the options are, one deviation wide."""
    parameters, ranges = rollouts["parameters"][:, 0], number_ranges(policy, rollouts)[:, 0]
    scatter_rollouts(axes, parameters, rollouts["returns"], policy, rollouts)
    means, chosen = policy.option_means()[:, 0, 0], int(policy.choose()[0])
    offsets = apart(np.stack([(means - ranges[0]) / np.ptp(ranges), np.zeros(len(means))], axis=1))
    for option, mean in enumerate(means):
        number, deviation = int(policy.option_numbers[option]), float(np.sqrt(policy.options[option].covariance[0, 0]))
        axes.axvspan(mean - deviation, mean + deviation, color=colour_of(number), alpha=0.18, linewidth=0, zorder=0)
        width = 3.2 if option == chosen else 0.9
        axes.axvline(mean, color=colour_of(number), linewidth=width, alpha=0.6, zorder=0)
        write_number(axes, mean, 0.0, number, option == chosen, offsets[option], axes.get_xaxis_transform())
    axes.set(xlabel=number_labels(0, 1)[0], ylabel="return", xlim=ranges)
    axes.set_title("rollouts and options, a standard deviation wide; thick if preferred")
