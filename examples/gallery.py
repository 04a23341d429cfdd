"""Picture all known solutions of a task of the gallery: python examples/gallery.py TASK FILE.png."""

import sys

import numpy as np
from matplotlib.figure import Figure

from hpsde.plots.drawings import draw_task
from hpsde.tasks import make_task

# A context, the height of the picture, and the widths of the first and the last line: wide where lines share a way.
SHOWN = {
    "bank-shot": ([0.35, 0.6], 3.4, (1.6, 1.6)),
    "bank-shot-spin": ([0.35, 0.6], 3.4, (1.6, 1.6)),
    "throw": ([4.4, 1.2], 4.0, (1.6, 1.6)),
    "drone": ([-0.3, 0.03], 2.0, (9.0, 1.0)),
    "drone-60": ([-0.3, 0.03], 2.0, (9.0, 1.0)),
}

name, file = sys.argv[1:]
numbers, height, widths = SHOWN[name]
task, context = make_task(name), np.array([numbers])
figure = Figure(figsize=(7.5, height), dpi=130, layout="constrained")
axes = figure.subplots()
for solution, width in zip(task.solutions, np.linspace(*widths, len(task.solutions)), strict=True):
    drawn = draw_task(task, context, solution.parameters(context))
    axes.plot(*drawn.lines[0].T, linewidth=width, label=solution.name)
for outline in drawn.scene:
    axes.plot(*outline.T, color="black", linewidth=1.0)
axes.plot(*drawn.points[0].T, "o", color="black", markersize=3.0)
axes.plot(*drawn.goal[0], "X", color="black", markersize=9.0)
axes.set(aspect="equal", xlabel="m", ylabel="m")
figure.legend(loc="outside right center", frameon=False, fontsize=8)
figure.savefig(file)
print(len(task.solutions), "solutions")
