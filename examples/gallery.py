"""Picture all known solutions of a task of the gallery: python examples/gallery.py TASK FILE.png."""

import sys

import numpy as np
from matplotlib.figure import Figure

from hpsde.plots.drawings import draw_task
from hpsde.tasks import make_task

CONTEXTS = {
    "bank-shot": [0.35, 0.6],
    "bank-shot-spin": [0.35, 0.6],
    "throw": [4.4, 1.2],
    "drone": [-0.3, 0.03],
    "drone-60": [-0.3, 0.03],
}

name, file = sys.argv[1:]
task, context = make_task(name), np.array([CONTEXTS[name]])
figure = Figure(figsize=(7.5, 3.6), dpi=130, layout="constrained")
axes = figure.subplots()
for number, solution in enumerate(task.solutions):
    drawn = draw_task(task, context, solution.parameters(context))
    axes.plot(*drawn.lines[0].T, color=f"C{number}", label=solution.name)
for outline in drawn.scene:
    axes.plot(*outline.T, color="black", linewidth=1.0)
axes.plot(*drawn.points[0].T, "o", color="black", markersize=3.0)
axes.plot(*drawn.goal[0], "X", color="black", markersize=9.0)
axes.set(aspect="equal", xlabel="m", ylabel="m")
axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
figure.savefig(file)
print(len(task.solutions), "solutions")
