"""Figures: what is drawn is what the run says."""

import io
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from hpsde import plots
from hpsde.doubts import Doubt


class Task:
    """Two lines of best parameters; the left half belongs to the first, the right half to the second."""

    name, context_size, parameter_size = "lines", 1, 1
    parameter_bounds = (np.array([-1.0]), np.array([5.0]))

    def evaluation_contexts(self):
        return np.linspace(10.0, 12.0, 21)[:, None]

    def evaluate(self, contexts, parameters):
        return -np.abs(parameters[:, 0] - np.where(contexts[:, 0] < 11.0, 1.0, 3.0))


class Policy:
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
    assert plots.run_figure(Task(), policy, rollouts, iterations).get_suptitle() == ""
    policy.doubts = (Doubt("wide", 3.0, "Option 2 is $wide$. " + "So long " * 50), Doubt("few", 9.0, "9 rollouts."))
    figure = plots.run_figure(Task(), policy, rollouts, iterations)
    title, wide, few = figure.get_suptitle().splitlines()
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


@pytest.mark.parametrize(("sizes", "panels"), [((1, 1), 5), ((0, 1), 2), ((3, 7), 2)])
def test_maps_only_where_they_can_be_drawn(sizes, panels, rollouts, iterations):
    task = Task()
    task.context_size, task.parameter_size = sizes
    figure = plots.run_figure(task, Policy(), rollouts, iterations)
    assert len([axes for axes in figure.axes if axes.get_label() != "<colorbar>"]) == panels
    figure.savefig(io.BytesIO(), format="png")


def test_without_a_task_the_returns_of_the_rollouts_are_drawn(rollouts, iterations):
    policy = Policy()
    policy.context_size = policy.parameter_size = 1
    rollouts["returns"] = np.where(rollouts["failed"], np.nan, np.arange(40.0))
    figure = plots.run_figure(None, policy, rollouts, iterations)
    (drawn,) = figure.axes[0].collections
    np.testing.assert_array_equal(drawn.get_array(), np.delete(np.arange(40.0), 7))
    np.testing.assert_array_equal(drawn.get_offsets()[:, 1], np.delete(rollouts["parameters"][:, 0], 7))
    figure.savefig(io.BytesIO(), format="png")


def test_task_without_bounds_takes_the_range_of_the_rollouts(rollouts, iterations):
    task = Task()
    task.parameter_bounds = None
    figure = plots.run_figure(task, Policy(), rollouts, iterations)
    low, high = figure.axes[0].get_ylim()
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
