"""Picture the rover's obstacles and three of its seventy ways that differ: python examples/rover_ways.py FILE.png."""

import sys

import numpy as np
from matplotlib.figure import Figure

from hpsde.plots import rover as plot_rover
from hpsde.tasks import make_task

task = make_task("rover")
ways = np.concatenate([solution.parameters(np.zeros((1, 0))) for solution in task.solutions])
none = np.zeros((len(ways), 0))
figure = Figure(figsize=(5.0, 3.6), dpi=130, layout="constrained")
axes = figure.subplots()
plot_rover.draw_best_rollouts(axes, task, none, ways)
for route in task.routes(none, ways):
    axes.plot(*route.T, color="grey", linewidth=0.5, alpha=0.25, zorder=0.9)
axes.set_title("70 ways (grey), three that differ")
figure.savefig(sys.argv[1])
print(len(ways), "ways")
