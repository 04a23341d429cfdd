"""Figures: what is drawn is what the run says."""

import dataclasses
import io
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import handmade
from hpsde import plots
from hpsde.plots import slices as plot_slices
from hpsde.plots import style as plot_style
from hpsde.policy.doubts import Doubt
from hpsde.tasks.solutions import solution_at


class Task:
    """Two lines of best parameters; the left half belongs to the first, the right half to the second."""

    name, context_size, parameter_size = "lines", 1, 1
    parameter_bounds = (np.array([-1.0]), np.array([5.0]))

    def evaluation_contexts(self):
        return np.linspace(10.0, 12.0, 21)[:, None]

    def evaluate(self, contexts, parameters):
        return -np.abs(parameters[:, 0] - np.where(contexts[:, 0] < 11.0, 1.0, 3.0))


class Policy:
    context_size = parameter_size = 1
    options = ("low", "high")
    numbers = np.array([4, 2])
    option_numbers = numbers
    doubts = ()

    def option_means(self, contexts):
        return np.stack([np.full((len(contexts), 1), 1.0), np.full((len(contexts), 1), 3.0)])

    def choose(self, contexts):
        return (contexts[:, 0] >= 11.0).astype(int)


def returns():
    return plots.return_map(Task(), np.zeros(0))


@pytest.fixture
def rollouts():
    generator = np.random.default_rng(5)
    n = 40
    return {
        "contexts": generator.uniform(10.0, 12.0, (n, 1)),
        "parameters": generator.uniform(-1.0, 5.0, (n, 1)),
        "returns": np.where(np.arange(n) == 7, np.nan, generator.normal(size=n)),
        "failed": np.arange(n) == 7,
        "option": np.where(np.arange(n) < 25, -1, 0),
    }


@pytest.fixture
def iterations():
    return {
        "rollouts": np.array([25.0, 30.0, 40.0]),
        "greedy_mean_return": np.array([-2.0, -1.0, -0.5]),
        "batch_mean_return": np.array([-3.0, -1.5, -1.0]),
        "options_kept": np.array([3.0, 2.0, 2.0]),
    }


def test_a_task_is_shown_by_the_figure_that_it_names_and_by_no_other_method_it_has(rollouts, iterations, monkeypatch):
    def panels(task, figure, policy, rollouts):
        figure.subplots().set_xlabel(f"{task.name}: {len(policy.options)} options, {len(rollouts['returns'])} rollouts")

    class Named(Task):
        def routes(self, contexts, parameters):
            raise AssertionError("nobody asked for routes")

    monkeypatch.setitem(plots.FIGURES, "own", panels)
    assert len(plots.run_figure(Named(), Policy(), rollouts, iterations).subfigs[0].axes) > 1
    Named.figure = "own"
    (axes,) = plots.run_figure(Named(), Policy(), rollouts, iterations).subfigs[0].axes
    assert axes.get_xlabel() == "lines: 2 options, 40 rollouts"


def test_option_is_strong_exactly_where_it_rules():
    axes = Figure().subplots()
    plots.draw_options(axes, returns(), Policy())
    strong = [line for line in axes.lines if line.get_linewidth() > 2]
    assert len(strong) == 2
    for option, line in enumerate(strong):
        contexts, mean = line.get_data()
        rules = ~np.isnan(mean)
        np.testing.assert_array_equal(rules, (contexts >= 11.0) == (option == 1))
        assert set(mean[rules]) == {(1.0, 3.0)[option]}
    assert [text.get_text() for text in axes.texts] == ["4", "2"]
    assert [line.get_color() for line in strong] == [plots.COLOURS[3], plots.COLOURS[1]]


def test_every_rollout_that_did_not_fail_is_drawn_once_in_the_nearest_options_colour(rollouts):
    axes = Figure().subplots()
    plots.draw_samples(axes, returns(), Policy(), rollouts)
    drawn = {}
    for collection in axes.collections[1:]:  # the first is the map beneath
        colour = to_hex(collection.get_facecolor()[0]) if len(collection.get_offsets()) else None
        for point in np.asarray(collection.get_offsets()):
            assert tuple(point) not in drawn
            drawn[tuple(point)] = colour
    points = np.hstack([rollouts["contexts"], rollouts["parameters"]])
    assert set(drawn) == {tuple(point) for point in points[~rollouts["failed"]]}
    for (_, parameter), colour in drawn.items():
        assert colour == plots.COLOURS[1 if parameter > 2.0 else 3].lower()


def test_rollouts_have_the_colour_of_the_option_that_drew_them_grey_where_it_died(rollouts):
    """But those of the initial policy that of the nearest option."""
    n = np.arange(40)
    rollouts |= {"number": np.where(n < 25, 0, np.array([4, 2, 9])[n % 3])}
    axes = Figure().subplots()
    plots.draw_samples(axes, returns(), Policy(), rollouts)
    drawn = {}
    for collection in axes.collections[1:]:
        for point in np.asarray(collection.get_offsets()):
            drawn[tuple(point)] = to_hex(collection.get_edgecolor()[0])
    colours = {4: plots.COLOURS[3], 2: plots.COLOURS[1], 9: plots.GREY}
    assert len(drawn) == 39
    for i in np.flatnonzero(~rollouts["failed"]):
        place = (rollouts["contexts"][i, 0], rollouts["parameters"][i, 0])
        number = rollouts["number"][i] or (2 if place[1] > 2.0 else 4)
        assert drawn[place] == colours[number].lower()


def test_what_options_have_earned_stands_beside_their_lives(iterations):
    axes = Figure().subplots()
    policy = handmade.by_hand("softmax")
    measured = {"measured_returns": np.array([0.25, 9.0, 0.5, 9.0]), "measured_rollouts": np.array([12, 0, 0, 0])}
    policy = dataclasses.replace(policy, **measured)
    plots.draw_option_lives(axes, iterations, LIVES, plots._earned(policy))
    assert [(text.get_text(), text.xy) for text in axes.texts] == [("0.25 (12)", (30, 1))]


def test_rollouts_are_counted_in_whole_numbers(iterations):
    """Matplotlib's own ticks between 40 and 60 are 42.5, 45, ..."""
    few = iterations | {"rollouts": np.array([40.0, 50.0, 60.0]), "options_kept": np.ones(3)}
    drawn = Figure().subplots(1, 3)
    plots.draw_returns(drawn[0], few)
    plots.draw_option_count(drawn[1], few)
    plots.draw_option_lives(drawn[2], few, [{"number": 1, "born": 40, "died": None}])
    assert drawn[2].get_title().startswith("1 option kept")
    for axes in drawn:
        ticks = axes.get_xticks()
        np.testing.assert_array_equal(ticks, np.round(ticks))


LIVES = [
    {"number": 1, "born": 25, "died": 30},
    {"number": 2, "born": 25, "died": None},
    {"number": 4, "born": 40, "died": None},
]


def test_births_and_deaths_are_drawn(rollouts, iterations):
    figure = plots.run_figure(Task(), Policy(), rollouts, iterations, lives=LIVES)
    curve, lives = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"][-2:]
    ticks = {line.get_label(): line.get_xdata().tolist() for line in curve.lines}
    assert (ticks["options born"], ticks["options died"]) == ([25, 40], [30])
    spans = {
        line.get_ydata()[0]: (*line.get_xdata(), line.get_color()) for line in lives.lines if len(line.get_xdata()) == 2
    }
    assert spans == {
        1: (25, 30, plots.COLOURS[0]),
        2: (25, 40, plots.COLOURS[1]),
        4: (40, 40, plots.COLOURS[3]),
    }
    figure.savefig(io.BytesIO(), format="png")


def test_doubts_stand_above_the_figure(rollouts, iterations):
    policy = Policy()
    assert plots.run_figure(Task(), policy, rollouts, iterations).subfigs[0].get_suptitle() == ""
    policy.doubts = (Doubt("wide", 3.0, "Option 2 is $wide$. " + "So long " * 50), Doubt("few", 9.0, "9 rollouts."))
    figure = plots.run_figure(Task(), policy, rollouts, iterations)
    title, wide, few = figure.subfigs[0].get_suptitle().splitlines()
    assert (title, few) == ("2 doubts", "few: 9 rollouts.")
    assert wide.startswith(r"wide: Option 2 is \$wide\$. So long")
    assert len(wide) < 150
    figure.savefig(io.BytesIO(), format="png")


def test_surface_is_the_tasks_return():
    axes = Figure().subplots()
    plots.draw_surface(axes, returns())
    values = axes.collections[0].get_array()
    assert values.max() == pytest.approx(0.0, abs=0.05)
    assert values.min() == pytest.approx(-4.0, abs=0.05)
    assert axes.get_xlim() == (10.0, 12.0)
    assert axes.get_ylim() == (-1.0, 5.0)


def test_curves_are_the_iterations(iterations):
    returns, options = Figure().subplots(1, 2)
    plots.draw_returns(returns, iterations)
    plots.draw_option_count(options, iterations)
    drawn = {line.get_label(): line.get_data() for line in returns.lines}
    np.testing.assert_array_equal(drawn["greedy policy"][1], iterations["greedy_mean_return"])
    np.testing.assert_array_equal(drawn["rollouts of the iteration"][1], iterations["batch_mean_return"])
    assert options.lines[0].get_ydata()[-1] == 2.0
    assert options.get_ylim()[0] == 0.0


def panels_of(figure):
    """The axes of the upper part, without colour bars."""
    return [axes for axes in figure.subfigs[0].axes if axes.get_label() != "<colorbar>"]


def by_hand(context_size, parameter_size, seed=0):
    """A policy of the options 1 and 2, and rollouts around them; the third has the highest return, the first failed."""
    policy = handmade.by_hand("softmax", context_size, parameter_size, seed=seed)
    generator, contexts = np.random.default_rng(8), policy.known_contexts
    option = np.arange(len(contexts)) % 3 - 1
    rollouts = {
        "contexts": contexts,
        "parameters": policy.act(contexts) + generator.normal(size=(len(contexts), parameter_size)),
        "returns": np.where(np.arange(len(contexts)) == 2, 9.0, np.linspace(0.0, 1.0, len(contexts))),
        "option": option,
        "number": option + 1,
        "failed": np.arange(len(contexts)) == 0,
    }
    rollouts["returns"][0] = np.nan
    return policy, rollouts


SIZES = [
    ((1, 1), 3),
    ((0, 2), 3),
    ((0, 1), 1),
    ((1, 2), 3),
    ((2, 1), 3),
    ((0, 3), 3),
    ((0, 4), 2),
    ((2, 3), 3),
    ((4, 1), 2),
]


@pytest.mark.parametrize(("sizes", "panels"), SIZES)
def test_options_are_drawn_by_number_whatever_the_sizes_and_without_a_task(sizes, panels, iterations):
    policy, rollouts = by_hand(*sizes)
    figure = plots.run_figure(None, policy, rollouts, iterations, title="arm, paper, seed 3 $")
    drawn = panels_of(figure)
    assert len(drawn) == panels
    numbers = [{text.get_text() for text in axes.texts} & {"1", "2"} for axes in drawn]
    assert {"1", "2"} in numbers
    assert figure.get_suptitle() == r"arm, paper, seed 3 \$"
    figure.savefig(io.BytesIO(), format="png")


def test_points_of_options_are_their_means_in_the_ellipse_of_one_standard_deviation():
    policy, rollouts = by_hand(1, 3)
    context, axes = policy.known_contexts[4], Figure().subplots()
    plot_slices.draw_pair(axes, (1, 3), policy, rollouts, context)
    means = policy.option_means(context[None])[:, 0]
    np.testing.assert_allclose([line.get_xydata()[0] for line in axes.lines], means[:, [0, 2]])
    filled = [line.get_markerfacecolor() != "white" for line in axes.lines]
    assert filled.index(True) == policy.choose(context[None])[0]
    assert sum(filled) == 1
    for ellipse, option in zip(axes.patches, policy.options, strict=True):
        covariance = option.covariance[np.ix_([0, 2], [0, 2])]
        edge = ellipse.get_patch_transform().transform([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]) - ellipse.center
        np.testing.assert_allclose(np.sum(edge * np.linalg.solve(covariance, edge.T).T, axis=1), 1.0)


def test_lines_over_a_context_are_slices_through_the_best_rollout():
    policy, rollouts = by_hand(2, 1)
    context = plot_slices.best_context(rollouts)
    np.testing.assert_array_equal(context, rollouts["contexts"][2])
    axes = Figure().subplots()
    plot_slices.draw_pair(axes, (1, 2), policy, rollouts, context)
    for option, line in enumerate(axes.lines[::2]):
        second, means = line.get_data()
        contexts = np.stack([np.full(len(second), context[0]), second], axis=1)
        np.testing.assert_allclose(means, policy.option_means(contexts)[option, :, 0])


def test_parallel_coordinates_are_the_options_parameters_between_their_ends():
    policy, rollouts = by_hand(0, 5)
    axes = Figure().subplots()
    plot_slices.draw_coordinates(axes, policy, rollouts, np.zeros(0))
    ends = [float(text.get_text()) for text in axes.texts if text.get_position()[1] == 1.02]
    low = [float(label.get_text().split("\n")[1]) for label in axes.get_xticklabels()]
    lines = [line for line in axes.lines if line.get_marker() == "o"]
    for option, line in zip(policy.options, lines, strict=True):
        shown = low + line.get_ydata() * (np.array(ends) - low)
        np.testing.assert_allclose(shown, option.mean()[0], rtol=0.01)


def test_territories_are_the_gates():
    policy, rollouts = by_hand(2, 1, seed=3)
    axes = Figure().subplots()
    plot_slices.draw_territories(axes, policy, rollouts)
    chosen = axes.collections[0].get_array()
    assert set(np.unique(chosen)) == {0, 1}
    for text in axes.texts:
        assert policy.option_numbers[policy.choose(np.array([text.xy]))[0]] == int(text.get_text())


def test_labels_lie_apart():
    places = np.array([[0.5, 0.5]] * 5 + [[0.9, 0.1]])
    moved = 200.0 * places + plot_style.apart(places)
    distances = np.linalg.norm(moved[:, None] - moved, axis=2)[np.triu_indices(6, 1)]
    assert distances.min() > 12.9


def test_what_the_task_knows_is_drawn(rollouts, iterations):
    task = Task()
    assert all(
        "true" not in axes.get_title("left") for axes in plots.run_figure(task, Policy(), rollouts, iterations).axes
    )
    task.solutions = (solution_at("low", lambda s: s - 10.0, lambda s: s[:, 0] < 11.0),)
    figure = plots.run_figure(task, Policy(), rollouts, iterations, best=-0.25)
    line = panels_of(figure)[0].lines[-1]
    contexts, best = line.get_data()
    np.testing.assert_allclose(best[contexts < 11.0], contexts[contexts < 11.0] - 10.0)
    assert np.all(np.isnan(best[contexts >= 11.0]))
    curve = {line.get_label(): line.get_ydata() for line in figure.subfigs[1].axes[0].lines}
    assert list(curve["best possible"]) == [-0.25, -0.25]


def test_legend_of_the_curves_is_above_them(rollouts, iterations):
    figure = plots.run_figure(Task(), Policy(), rollouts, iterations, lives=LIVES)
    figure.canvas.draw()
    curve = figure.subfigs[1].axes[0]
    assert curve.get_legend().get_window_extent().y0 >= curve.get_window_extent().y1 - 1.0


def test_task_without_bounds_takes_the_range_of_the_rollouts(rollouts, iterations):
    task = Task()
    task.parameter_bounds = None
    figure = plots.run_figure(task, Policy(), rollouts, iterations)
    low, high = panels_of(figure)[0].get_ylim()
    assert low <= rollouts["parameters"].min() < rollouts["parameters"].max() <= high


def test_matplotlib_settings_are_left_alone(rollouts, iterations):
    before = dict(matplotlib.rcParams)
    plots.run_figure(Task(), Policy(), rollouts, iterations)
    assert dict(matplotlib.rcParams) == before


def test_pyplot_is_never_loaded():
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from test_plots import Policy, Task, plots
n = np.array([1.0, 2.0])
rollouts = dict(contexts=n[:, None], parameters=n[:, None], failed=n < 0, option=n)
plots.run_figure(Task(), Policy(), rollouts, dict.fromkeys(("rollouts", *sys.argv[2:]), n))
print("matplotlib.pyplot" in sys.modules)
"""
    columns = ("greedy_mean_return", "batch_mean_return", "options_kept")
    start = [sys.executable, "-c", code, str(Path(__file__).parent), *columns]
    done = subprocess.run(start, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr
