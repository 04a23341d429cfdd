"""Picture the options of several runs, each in one context: python examples/options_found.py FILE.png FOLDER ...

The runs are of tasks that draw themselves: bank-shot, throw, drone, puddle.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import hpsde
from hpsde.plots.drawings import draw_task
from hpsde.plots.style import GREY, colour_of, style
from hpsde.tasks import make_task

CONTEXTS = {"throw": [4.4, 1.2], "bank-shot": [0.35, 0.6], "puddle": [0.5], "drone": [-0.3, 0.03]}
WORDS = {
    "throw": "Throw over a wall into a basket",
    "bank-shot": "Hit the ball, by any cushions",
    "puddle": "Through a wall of puddles",
    "drone": "Round three buildings",
}


def draw(axes, folder):
    """All options of a run in its task's context; the one that the gate takes is drawn thick."""
    name = folder.name
    task, policy, context = make_task(name), hpsde.load_policy(folder / "policy.npz"), np.array([CONTEXTS[name]])
    taken = int(policy.choose(context)[0])
    for option in policy.options:
        drawn = draw_task(task, context, option.mean(context))
        width = 2.6 if option.index == taken else 1.2
        axes.plot(*drawn.lines[0].T, color=colour_of(option.number), linewidth=width)
    for outline in drawn.scene:
        axes.plot(*outline.T, color="black", linewidth=1.0)
    axes.plot(*drawn.points[0].T, "o", color="black", markersize=2.0)
    axes.plot(*drawn.goal[0], "X", color="black", markersize=8.0)
    axes.set_title(f"{WORDS[name]}: {len(policy.options)} options")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    print(f"{name}: {len(policy.options)} options")


def main(file, folders):
    """Draw a row of runs, and write the file."""
    with style():
        figure = Figure(figsize=(11.0, 3.2), dpi=130, layout="constrained")
        figure.get_layout_engine().set(wspace=0.05)
        for axes, folder in zip(figure.subplots(1, len(folders)), folders, strict=True):
            draw(axes, folder)
        figure.text(0.5, 0.0, "thick: what the gate takes here", ha="center", va="bottom", color=GREY, fontsize=8)
        figure.savefig(file)


if __name__ == "__main__":
    main(sys.argv[1], [Path(each) for each in sys.argv[2:]])
