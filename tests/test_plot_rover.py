"""The rover's figure: what is drawn is what the task and the policy say."""

import runpy
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure

from hpsde import plots
from hpsde.plots import rover as plot_rover
from hpsde.tasks import make_task

COLOURS = ("red", "green")


class Policy:
    """Two options: known routes, one of which is taken left of s = 0.7, or without a context, and one right of it."""

    options = ("first", "second")
    option_numbers = np.array([1, 2])
    doubts = ()

    def __init__(self, task):
        self.task = task

    def option_means(self, contexts):
        return np.stack([self.task.solutions[number].parameters(contexts) for number in (0, 5)])

    def choose(self, contexts):
        return (contexts[:, 0] >= 0.7).astype(int) if contexts.shape[1] else np.zeros(len(contexts), dtype=int)


@pytest.mark.parametrize("name", ["rover", "rover-goal"])
def test_every_option_has_a_route_in_every_context_thick_where_it_is_chosen(name):
    task = make_task(name)
    policy, contexts = Policy(task), task.evaluation_contexts()[::10]
    axes = Figure().subplots()
    plot_rover.draw_option_routes(axes, task, policy, contexts, COLOURS)
    n = len(contexts)
    lines = axes.lines[2:]  # the first two mark start and goals
    assert [line.get_color() for line in lines] == ["red"] * n + ["green"] * n
    thick = np.array([line.get_linewidth() > 1.5 for line in lines]).reshape(2, n)
    np.testing.assert_array_equal(thick.argmax(axis=0), policy.choose(contexts))
    np.testing.assert_array_equal(thick.sum(axis=0), 1)
    shown = np.stack(lines[n].get_data(), axis=1)
    np.testing.assert_allclose(shown, task.routes(contexts, policy.option_means(contexts)[1])[0])
    assert len(axes.patches) == 34
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts[0] == f"1: {task.evaluate(contexts, policy.option_means(contexts)[0]).mean():.2f}"


def test_the_best_rollouts_that_differ_are_drawn():
    task = make_task("rover")
    known = {solution.name: solution.parameters(np.zeros((1, 0)))[0] for solution in task.solutions}
    first = task.sample_initial(jax.random.key(0), np.zeros((20, 0)))
    parameters = np.concatenate([first, [known["0000"], 0.999 * known["0000"], known["4444"]]])
    axes = Figure().subplots()
    plot_rover.draw_best_rollouts(axes, task, np.zeros((23, 0)), parameters)
    names = [text.get_text().split(":")[0] for text in axes.get_legend().get_texts()]
    assert sorted(names[:2]) == ["0000", "4444"]
    assert len(names) == 3


@pytest.mark.parametrize("name", ["rover", "rover-goal"])
def test_a_run_of_the_rover_has_routes_above_its_curves(name):
    task = make_task(name)
    contexts = task.sample_contexts(jax.random.key(0), 30)
    rollouts = {
        "contexts": contexts,
        "parameters": task.sample_initial(jax.random.key(1), contexts),
        "failed": np.zeros(30, dtype=bool),
    }
    iterations = {name: np.array([1.0, 2.0]) for name in ("rollouts", "batch_mean_return", "options_kept")}
    figure = plots.run_figure(task, Policy(task), rollouts, iterations)
    assert len(figure.axes) == 4


def test_the_example_draws_all_ways(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rover_ways.py", str(tmp_path / "rover.png")])
    runpy.run_path(str(Path(__file__).parent.parent / "examples" / "rover_ways.py"))
    assert (tmp_path / "rover.png").stat().st_size > 10_000
    assert capsys.readouterr().out == "70 ways\n"
