"""Maps of two numbers, a context and a parameter or two parameters: returns, rollouts and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpsde.plots.style import GREY, apart, colour_of, marker_of, option_colours, write_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID_POINTS = 241
MARGIN = 0.03  # of the range, around numbers without bounds


class ReturnMap(NamedTuple):
    """A grid over two numbers, x [X] and y [Y], with their labels, and the returns [Y, X]; None: they are not known."""

    x: np.ndarray
    y: np.ndarray
    returns: np.ndarray | None
    labels: tuple[str, str] = ("context $s$", r"parameter $\xi$")


def number_labels(context_size: int, parameter_size: int) -> list[str]:
    """What contexts and parameters are called in figures, in their order."""

    def named(word: str, letter: str, size: int) -> list[str]:
        return [f"{word} ${letter}_{{{j + 1}}}$" if size > 1 else f"{word} ${letter}$" for j in range(size)]

    return named("context", "s", context_size) + named("parameter", r"\xi", parameter_size)


def number_ranges(policy: Any, rollouts: Mapping[str, np.ndarray]) -> np.ndarray:
    """Lowest and highest of every number [2, S + D]: the bounds, or a little more than the rollouts have had.

    Where there are no contexts, so that an option is one point, all options lie between them.
    """
    points = numbers_of(rollouts)
    if policy.context_size == 0:
        points = np.concatenate([points, policy.option_means()[:, 0]])
    low, high = points.min(axis=0), points.max(axis=0)
    spare = np.where(high > low, MARGIN * (high - low), 0.5)
    low, high = low - spare, high + spare
    free = np.full(policy.context_size, np.inf)
    least = np.concatenate([-free, policy.units.parameter_low])
    most = np.concatenate([free, policy.units.parameter_high])
    return np.stack([np.where(np.isfinite(least), least, low), np.where(np.isfinite(most), most, high)])


def numbers_of(rollouts: Mapping[str, np.ndarray]) -> np.ndarray:
    """Contexts and parameters of all rollouts, side by side [N, S + D]."""
    return np.hstack([rollouts["contexts"], rollouts["parameters"]])


def return_map(task: Any, seen: np.ndarray) -> ReturnMap:
    """The returns of a task of two numbers, one parameter at least; without bounds, over what was `seen` [N, D]."""
    low, high = (seen.min(axis=0), seen.max(axis=0)) if task.parameter_bounds is None else task.parameter_bounds
    grids = [np.linspace(*ends, GRID_POINTS) for ends in zip(np.ravel(low), np.ravel(high), strict=True)]
    if task.context_size:
        evaluation = np.asarray(task.evaluation_contexts())
        grids.insert(0, np.linspace(evaluation.min(), evaluation.max(), GRID_POINTS))
    numbers = np.stack([grid.ravel() for grid in np.meshgrid(*grids)], axis=1)
    returns = np.asarray(task.evaluate(numbers[:, : task.context_size], numbers[:, task.context_size :]))
    labels = number_labels(task.context_size, task.parameter_size)
    return ReturnMap(grids[0], grids[1], returns.reshape(GRID_POINTS, GRID_POINTS), (labels[0], labels[1]))


def unknown_map(policy: Any, rollouts: Mapping[str, np.ndarray]) -> ReturnMap:
    """The map of a run whose returns nobody can look up."""
    low, high = number_ranges(policy, rollouts)
    labels = number_labels(policy.context_size, policy.parameter_size)
    x, y = (np.linspace(low[i], high[i], GRID_POINTS) for i in range(2))
    return ReturnMap(x, y, None, (labels[0], labels[1]))


def draw_surface(axes: Axes, returns: ReturnMap) -> None:
    """The return over both numbers, where it is known."""
    values = np.asarray(returns.returns)
    image = axes.pcolormesh(returns.x, returns.y, values, cmap="cividis", shading="nearest", rasterized=True)
    _add_bar(axes, image)
    _label_map(axes, "returns", returns)


def draw_known_returns(axes: Axes, returns: ReturnMap, rollouts: Mapping[str, np.ndarray]) -> None:
    """The rollouts, coloured by their returns, the best on top."""
    done = np.flatnonzero(~rollouts["failed"])
    done = done[np.argsort(rollouts["returns"][done], kind="stable")]
    x, y = numbers_of(rollouts)[done, :2].T
    image = axes.scatter(x, y, c=rollouts["returns"][done], cmap="cividis", s=12, linewidths=0, rasterized=True)
    _add_bar(axes, image)
    _label_map(axes, "rollouts, by return", returns)


def _add_bar(axes: Axes, image: Any) -> None:
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02, aspect=30)
    bar.outline.set_visible(False)


def rollout_options(policy: Any, rollouts: Mapping[str, np.ndarray]) -> np.ndarray:
    """The option of every rollout [N] by place: the one that drew it, -1 where that has died.

    A rollout of the initial policy, and all where nobody counted options, belong to the option whose mean is nearest.
    Not to the likeliest one: an option that has become narrow would lose its own early rollouts to a wide one.
    """
    spread = np.ptp(rollouts["parameters"], axis=0)
    differences = (policy.option_means(rollouts["contexts"]) - rollouts["parameters"]) / np.where(spread, spread, 1.0)
    options = np.argmin(np.linalg.norm(differences, axis=2), axis=0)
    if not _counted(policy, rollouts):
        return options
    drew = rollouts["number"][:, None] == policy.option_numbers
    return np.where(rollouts["option"] < 0, options, np.where(drew.any(axis=1), drew.argmax(axis=1), -1))


def _counted(policy: Any, rollouts: Mapping[str, np.ndarray]) -> bool:
    return policy.numbers is not None and "number" in rollouts


def scatter_rollouts(
    axes: Axes, x: np.ndarray, y: np.ndarray, policy: Any, rollouts: Mapping[str, np.ndarray], strength: float = 1.0
) -> None:
    """Rollouts at x, y [N] in the colour of their option, grey where it has died; pale those of the initial policy."""
    options, initial, colours = rollout_options(policy, rollouts), rollouts["option"] < 0, option_colours(policy)
    for option in range(-1 if np.any(options < 0) else 0, len(policy.options)):
        for chosen, size, alpha in ((initial, 4.0, 0.35), (~initial, 9.0, 0.9)):
            shown = chosen & (options == option) & ~rollouts["failed"]
            axes.scatter(
                x[shown],
                y[shown],
                s=size,
                alpha=strength * alpha,
                color=colours[option] if option >= 0 else GREY,
                marker=marker_of(int(policy.option_numbers[option])) if option >= 0 else "+",
                linewidths=0 if option >= 0 else 0.7,
                rasterized=True,
            )


def draw_samples(axes: Axes, returns: ReturnMap, policy: Any, rollouts: Mapping[str, np.ndarray]) -> None:
    """All rollouts by option, as `scatter_rollouts` has them."""
    _pale_surface(axes, returns)
    x, y = numbers_of(rollouts)[:, :2].T
    scatter_rollouts(axes, x, y, policy, rollouts)
    dead = "; +: of one that died" if np.any(rollout_options(policy, rollouts) < 0) else ""
    counted = _counted(policy, rollouts)
    _label_map(axes, f"rollouts, by option{dead}" if counted else "rollouts, by nearest option", returns)


def draw_options(axes: Axes, returns: ReturnMap, policy: Any) -> None:
    """The mean of every option: a thick line where the gate chooses it, a thin one elsewhere.

    Where there is no context it is a point, filled if the gate chooses it, in the ellipse of one standard deviation.
    """
    _pale_surface(axes, returns)
    if getattr(policy, "context_size", 1) == 0:
        draw_option_points(axes, policy, np.zeros(0), (0, 1), np.array([returns.x[[0, -1]], returns.y[[0, -1]]]).T)
        _label_map(axes, "options, filled if preferred", returns)
        return
    contexts = returns.x[:, None]
    means, chosen = policy.option_means(contexts)[:, :, 0], policy.choose(contexts)
    draw_option_lines(axes, returns.x, means, chosen, policy, (float(returns.y[0]), float(returns.y[-1])))
    _label_map(axes, "options, thick where preferred", returns)


def draw_option_lines(
    axes: Axes, x: np.ndarray, means: np.ndarray, chosen: np.ndarray, policy: Any, limits: tuple[float, float]
) -> None:
    """Lines [O, C] over x [C], thick where the option is chosen [C], with their numbers between the limits."""
    for option, mean in enumerate(means):
        rules, number = chosen == option, int(policy.option_numbers[option])
        axes.plot(x, mean, color=colour_of(number), linewidth=0.9, alpha=0.6)
        thick = np.where(rules, mean, np.nan)
        axes.plot(x, thick, color=colour_of(number), linewidth=3.2, solid_capstyle="butt")
        inside = np.flatnonzero((mean > limits[0]) & (mean < limits[1]) & (rules if rules.any() else True))
        if inside.size:
            # In the middle of the longest part where it is chosen, else near where it leaves the map.
            parts = np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1)
            longest = max(parts, key=len)
            place = longest[longest.size // 2] if rules.any() else inside[max(inside.size - 8, 0)]
            write_number(axes, x[place], mean[place], number, bool(rules.any()))


def draw_option_points(axes: Axes, policy: Any, context: np.ndarray, pair: tuple[int, int], limits: np.ndarray) -> None:
    """Means of a pair of parameters in a context [S], in ellipses of one standard deviation; limits [2, 2] of both."""
    from matplotlib.patches import Ellipse

    means, chosen = policy.option_means(context[None])[:, 0], int(policy.choose(context[None])[0])
    shown = means[:, list(pair)]
    offsets = apart((shown - limits[0]) / (limits[1] - limits[0]))
    for option, (x, y) in enumerate(shown):
        number, covariance = int(policy.option_numbers[option]), policy.options[option].covariance
        values, vectors = np.linalg.eigh(covariance[np.ix_(pair, pair)])
        width, height = 2.0 * np.sqrt(np.maximum(values, 0.0))
        angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
        axes.add_patch(
            Ellipse((x, y), width, height, angle=angle, fill=False, edgecolor=colour_of(number), linewidth=1.0)
        )
        face = colour_of(number) if option == chosen else "white"
        axes.plot(x, y, marker_of(number), color=colour_of(number), markerfacecolor=face, markersize=5)
        write_number(axes, x, y, number, option == chosen, offsets[option])


def draw_solutions(axes: Axes, task: Any, returns: ReturnMap) -> None:
    """The solutions that the task is known to have: dashed lines over the context, crosses where there is none."""
    known = [(each.parameters, each.valid) for each in getattr(task, "solutions", ()) if each.parameters is not None]
    contexts = returns.x[:, None] if task.context_size else np.zeros((1, 0))
    for parameters, valid in known:
        best = np.array(parameters(contexts), dtype=float)
        if valid is not None:
            best[~np.asarray(valid(contexts))] = np.nan
        if task.context_size:
            axes.plot(returns.x, best[:, 0], color="black", linewidth=0.9, linestyle=(0, (3, 3)), zorder=4)
        else:
            axes.plot(*best[0, :2], marker="x", color="black", markersize=7, linestyle="none", zorder=2)
    if known:
        axes.set_title(f"{axes.get_title(loc='left')}; {'dashed' if task.context_size else 'x'}: solutions")


def _pale_surface(axes: Axes, returns: ReturnMap) -> None:
    if returns.returns is None:
        return
    low, high = returns.returns.min(), returns.returns.max()
    # The scale ends far above the highest return, so that the map stays a light grey under the colours.
    shades: dict[str, Any] = {"cmap": "Greys", "vmin": low, "vmax": low + 3.5 * (high - low)}
    axes.pcolormesh(returns.x, returns.y, returns.returns, shading="nearest", rasterized=True, **shades)


def _label_map(axes: Axes, title: str, returns: ReturnMap) -> None:
    axes.set(title=title, xlabel=returns.labels[0], ylabel=returns.labels[1])
    axes.set(xlim=returns.x[[0, -1]], ylim=returns.y[[0, -1]])
