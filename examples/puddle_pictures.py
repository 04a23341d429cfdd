"""Four pictures of the puddle world, as a learner with eyes would see it; and how many are drawn in a second.

python examples/puddle_pictures.py puddle-image.png
"""

from __future__ import annotations

import sys
import time

import jax
from matplotlib.figure import Figure

from hpsde.tasks import make_task


def main(path: str) -> None:
    """Draw them."""
    task = make_task("puddle-image-moving")
    pictures = task.sample_contexts(jax.random.key(3), 4).reshape(4, *task.context_shape)
    figure = Figure(figsize=(9.0, 2.5), dpi=120, layout="constrained")
    for panel, picture in zip(figure.subplots(1, 4), pictures, strict=True):
        panel.imshow(picture, origin="lower", cmap="gray", vmin=0.0, vmax=1.0)
        panel.set_axis_off()
    figure.savefig(path)
    begin = time.process_time()
    for number in range(5):
        task.sample_contexts(jax.random.key(number), 1000)
    print(f"{5000 / (time.process_time() - begin):,.0f} pictures for each second of a processor core")


if __name__ == "__main__":
    main(*sys.argv[1:])
