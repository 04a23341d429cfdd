"""What the experiment on pictures compares hpsde's encoder with: the true context, principal components, few pixels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hpsde.methods import PICTURES
from hpsde.steps.encoders import contexts_of
from hpsde.steps.pictures import PICTURES as FITTED_TO

TRUE_CONTEXT, COMPONENTS, PIXELS = "true-context", "components-", "pixels-"


def resolved(changes: Mapping[str, Any], task: Any, seed: int) -> dict[str, Any]:
    """The changes of a variant, with a function in place of the name of an encoder that only experiments have."""
    name = changes.get("encoder")
    if name is None or name == PICTURES:
        return dict(changes)
    if name == TRUE_CONTEXT:
        return dict(changes) | {"encoder": lambda pictures: task.true_contexts(pictures.reshape(len(pictures), -1))}
    if str(name).startswith(PIXELS):
        return dict(changes) | {"encoder": averages(int(str(name).removeprefix(PIXELS)))}
    count = int(str(name).removeprefix(COMPONENTS))
    rows = contexts_of(task, seed, FITTED_TO).reshape(FITTED_TO, -1)
    return dict(changes) | {"encoder": principal_components(rows, count)}


def principal_components(rows: np.ndarray, count: int) -> Callable[[np.ndarray], np.ndarray]:
    """The first principal components [N, count] of pictures, fitted to pictures [M, S]; each picture by itself."""
    mean = rows.mean(axis=0)
    axes = np.linalg.svd(rows - mean, full_matrices=False)[2][:count]
    return lambda pictures: np.array([axes @ (each.ravel() - mean) for each in pictures])


def averages(side: int) -> Callable[[np.ndarray], np.ndarray]:
    """Pictures [N, P, P] of so many pixels that a row has `side`, which divides P, as rows [N, side^2]."""

    def averaged(pictures: np.ndarray) -> np.ndarray:
        count, size, _ = pictures.shape
        parts = pictures.reshape(count, side, size // side, side, size // side)
        return parts.mean(axis=(2, 4)).reshape(count, side * side)

    return averaged
