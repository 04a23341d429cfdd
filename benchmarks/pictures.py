"""How well the true context behind pictures is a linear function of what encoders make of them, and what they cost.

python benchmarks/pictures.py [TASK...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from hpsde.base.draws import make_key
from hpsde.steps.pictures import PictureEncoder
from hpsde.tasks import make_task

TASKS = ("puddle-image-32", "puddle-image-moving-32", "puddle-image", "puddle-image-moving")
FITTED, UNSEEN, TIMED = 2000, 500, 500
COMPONENTS = (1, 5, 10, 20)


def principal_components(rows: np.ndarray, count: int) -> Callable[[np.ndarray], np.ndarray]:
    """The first components of rows [N, S]."""
    mean = rows.mean(axis=0)
    axes = np.linalg.svd(rows - mean, full_matrices=False)[2][:count]
    return lambda others: (others - mean) @ axes.T


def explained(known: np.ndarray, true: np.ndarray, unseen: np.ndarray, true_unseen: np.ndarray) -> np.ndarray:
    """The share of each true number's variance that a linear function of z predicts in pictures that are new."""
    fit = np.linalg.lstsq(np.c_[np.ones(len(known)), known], true, rcond=None)[0]
    errors = np.c_[np.ones(len(unseen)), unseen] @ fit - true_unseen
    return 1.0 - np.mean(errors**2, axis=0) / true_unseen.var(axis=0)


def main(names: list[str]) -> None:
    """Print it, task by task."""
    for name in names or TASKS:
        task = make_task(name)
        rows, unseen = (task.sample_contexts(make_key(seed), n) for seed, n in ((5, FITTED), (6, UNSEEN)))
        true, true_unseen = task.true_contexts(rows), task.true_contexts(unseen)
        start = time.perf_counter()
        encoder = PictureEncoder.fit(rows.reshape(-1, *task.context_shape))
        fitting, start = time.perf_counter() - start, time.perf_counter()
        encoder.encode(rows[:TIMED])
        encoding = (time.perf_counter() - start) / TIMED
        print(f"{name}: {encoder}; fitted in {fitting:.1f} s, a picture encoded in {1e3 * encoding:.2f} ms")
        found = explained(encoder.encode(rows), true, encoder.encode(unseen), true_unseen)
        print(f"  encoder, {encoder.size} numbers: {np.round(found, 5)}")
        for count in COMPONENTS:
            make = principal_components(rows, count)
            print(f"  {count} components: {np.round(explained(make(rows), true, make(unseen), true_unseen), 3)}")


if __name__ == "__main__":
    main(sys.argv[1:])
