"""Picture how solutions are found, step by step (docs/discovery.md): python examples/discovery_steps.py FILE.png.

Left: rollouts of the initial policy. Middle: samples that have climbed on the modelled return, by option, and the
options' means. Right: the modelled return in one context, with the valleys between the options.
"""

import sys

import jax
import numpy as np
from matplotlib.figure import Figure

from hpsde import gp
from hpsde.base.precision import double_precision
from hpsde.plots import COLOURS
from hpsde.settings import Settings
from hpsde.steps import discovery, gaussian, landscape, latent, return_model, valleys
from hpsde.steps.rollouts import Data, fit_units
from hpsde.steps.surface import Start
from hpsde.steps.weighing import compute_weights
from hpsde.tasks import make_task

ROLLOUTS = 384  # initial ones; nothing else is needed to find the solutions here
CONTEXT = 0.4  # of the right panel
settings = Settings()


def first_rollouts(task):
    """Rollouts of the initial policy in standard units, and these units."""
    keys = jax.random.split(jax.random.key(0))
    contexts = np.asarray(task.sample_contexts(keys[0], ROLLOUTS))
    parameters = np.asarray(task.sample_initial(keys[1], contexts))
    units = fit_units(contexts, parameters)
    s, xi, every = units.contexts(contexts), units.parameters(parameters), np.ones(ROLLOUTS, dtype=bool)
    returns = np.asarray(task.evaluate(contexts, parameters))
    bounds = xi.min(axis=0), xi.max(axis=0)
    return Data(s, xi, returns, s, np.zeros(ROLLOUTS), every, every, bounds, ROLLOUTS), units


@double_precision
def main(path):
    """Find the solutions of a task with three of them and noisy returns, and draw the steps."""
    task = make_task("noise-10@17")
    data, units = first_rollouts(task)
    keys = jax.random.split(jax.random.key(1), 3)
    trusted = np.zeros(ROLLOUTS, dtype=bool)
    approximated, data = return_model.approximate_return(keys[0], data, units.spreads, Start(), trusted, settings)
    surveyed = return_model.survey(keys[1], data, approximated, units.spreads, None, None, settings)
    importance = compute_weights(data, None, settings)
    found = latent.find_solutions(keys[2], data, surveyed, True, importance, None, settings).found

    process = landscape.condition(surveyed, data.joint, 1, data.returns, np.arange(ROLLOUTS))
    T = surveyed.temperature
    samples, _ = landscape.sample(keys[2], surveyed, process, data.joint, 1, data.bounds, T)
    s, xi = samples[:, :1], samples[:, 1:]
    option = discovery.assign(found, xi, s, settings.max_options).argmax(axis=0)
    policies = discovery.component_policies(found, settings.max_options)
    grid = units.contexts(np.linspace(-1.0, 1.0, 50)[:, None])
    means = gaussian.means(policies, grid)[found.kept][..., 0]

    figure = Figure(figsize=(11.0, 3.4), dpi=110, layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    raw_s, raw_xi = (s * units.context_scale + units.context_centre), units.raw_parameters(xi)
    shown = left.scatter(
        data.contexts[:, 0] * units.context_scale + units.context_centre,
        units.raw_parameters(data.parameters)[:, 0],
        c=data.returns,
        s=9,
        cmap="viridis",
    )
    figure.colorbar(shown, ax=left).ax.set_title("return", fontsize="small")
    left.set(title="rollouts of the initial policy", xlabel="context s", ylabel="parameter ξ")
    for number, slot in enumerate(np.flatnonzero(found.kept)):
        mine = option == slot
        middle.scatter(raw_s[mine, 0], raw_xi[mine, 0], s=7, color=COLOURS[number], alpha=0.6)
        middle.plot(np.linspace(-1.0, 1.0, 50), units.raw_parameters(means[number][:, None])[:, 0], color="black")
    middle.set(title="samples of the modelled return, options", xlabel="context s", ylim=left.get_ylim())

    here = units.contexts(np.array([[CONTEXT]]))
    line = np.linspace(*[float(each[0]) for each in data.bounds], 200)[:, None]
    axes = np.eye(2) if surveyed.axes is None else np.asarray(surveyed.axes)
    points = np.concatenate([line, np.broadcast_to(here, line.shape)], axis=1) @ axes.T
    mean, variance = gp.predict(process, points)
    raw, deviation = units.raw_parameters(line)[:, 0], np.sqrt(variance)
    right.fill_between(raw, mean - deviation, mean + deviation, color="0.85", label="± 1 standard deviation")
    right.plot(raw, mean, color="0.3", label="modelled return m")
    ends = np.sort(gaussian.means(policies, here)[found.kept][:, 0], axis=0)
    model = valleys.Model(process, axes, surveyed.view.L, T)
    curves = ends @ surveyed.view.V
    heights = valleys.heights(model, curves[:, None], here)[:, 0]
    apart = valleys.are_separate(model, curves[:-1], curves[1:], np.repeat(here, len(ends) - 1, axis=0))
    right.plot(units.raw_parameters(ends)[:, 0], heights, "o", color="black", label="options")
    for first, second, valley in zip(range(len(ends)), range(1, len(ends)), apart, strict=False):
        between = (line[:, 0] > ends[first, 0]) & (line[:, 0] < ends[second, 0])
        lowest = np.flatnonzero(between)[np.argmin(mean[between])]
        top = min(heights[first], heights[second])
        right.annotate("", (raw[lowest], mean[lowest]), (raw[lowest], top), arrowprops={"arrowstyle": "<->"})
        right.text(
            raw[lowest], top + 0.25, f"dip\n{(top - mean[lowest]) / T:.1f} T", ha="center", va="bottom", fontsize=8
        )
        print("valley" if valley else "no valley", f"of {(top - mean[lowest]) / T:.1f} T")
    right.set(title=f"valleys at s = {CONTEXT}", xlabel="parameter ξ", ylabel="score")
    right.set_ylim(top=2.3 * heights.max())
    right.legend(fontsize=7, loc="upper left")
    figure.savefig(path)
    print(int(found.kept.sum()), "solutions")


main(sys.argv[1])
