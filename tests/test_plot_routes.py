"""The puddle's figure: what is drawn is what the task and the policy say."""

import numpy as np
from matplotlib.figure import Figure

from hpsde import plots
from hpsde.plots import routes as plot_routes
from hpsde.tasks import make_task

TASK = make_task("puddle")
COLOURS = ("red", "green")


class Policy:
    """Two options: routes of the initial policy, one of which is taken left of s = 0 and one right of it."""

    options = ("first", "second")
    option_numbers = np.array([1, 2])
    doubts = ()

    def option_means(self, contexts):
        import jax

        return np.stack([TASK.sample_initial(jax.random.key(seed), contexts) for seed in (3, 4)])

    def choose(self, contexts):
        return (contexts[:, 0] >= 0.0).astype(int)

    def act(self, contexts):
        return self.option_means(contexts)[self.choose(contexts), np.arange(len(contexts))]

    def expected_returns(self, contexts):
        return np.full((2, len(contexts)), -9.0)


CONTEXTS = np.linspace(-4.0, 5.0, 12)[:, None]


def test_every_option_has_a_route_in_every_context_pale_where_it_collides():
    axes = Figure().subplots()
    plot_routes.draw_option_routes(axes, TASK, Policy(), CONTEXTS, COLOURS)
    lines = axes.lines[1:]  # the first marks the start
    means = Policy().option_means(CONTEXTS)
    free = np.concatenate([TASK.collisions(CONTEXTS, mean) == 0 for mean in means])
    assert [line.get_color() for line in lines] == ["red"] * 12 + ["green"] * 12
    np.testing.assert_array_equal([line.get_alpha() > 0.5 for line in lines], free)
    assert 0 < free.sum() < 24
    np.testing.assert_allclose(np.stack(lines[0].get_data(), axis=1), TASK.routes(CONTEXTS, means[0])[0])


def test_chosen_routes_end_at_the_goals_in_the_colour_of_their_option():
    axes = Figure().subplots()
    plot_routes.draw_chosen_routes(axes, TASK, Policy(), CONTEXTS, COLOURS)
    routes, goals = axes.lines[1::2], axes.lines[2::2]
    assert [line.get_color() for line in routes] == [COLOURS[int(s >= 0.0)] for s in CONTEXTS[:, 0]]
    ends = np.array([goal.get_data() for goal in goals])[:, :, 0]
    np.testing.assert_allclose(ends, np.column_stack([np.full(12, 6.0), CONTEXTS[:, 0]]), atol=0.02)
    free = TASK.collisions(CONTEXTS, Policy().act(CONTEXTS)) == 0
    np.testing.assert_array_equal([line.get_linestyle() == "-" for line in routes], free)


def test_the_gate_panel_shows_what_is_earned():
    axes = Figure().subplots()
    plot_routes.draw_gate(axes, TASK, Policy(), COLOURS)
    contexts = TASK.evaluation_contexts()
    earned = TASK.evaluate(contexts, Policy().act(contexts))
    shown = np.concatenate([each.get_offsets() for each in axes.collections if len(each.get_offsets())])
    np.testing.assert_allclose(shown[np.argsort(shown[:, 0])][:, 1], earned)


def test_a_run_of_the_puddle_has_routes_above_its_curves():
    iterations = {name: np.array([1.0, 2.0]) for name in ("rollouts", "batch_mean_return", "options_kept")}
    figure = plots.run_figure(TASK, Policy(), {}, iterations)
    assert len(figure.axes) == 5
