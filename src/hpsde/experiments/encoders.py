"""What the experiment on pictures compares hpsde's encoder with: the true context, and principal components."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hpsde.methods import PICTURES
from hpsde.steps.encoders import contexts_of
from hpsde.steps.pictures import PICTURES as FITTED_TO

TRUE_CONTEXT, COMPONENTS = "true-context", "components-"


def resolved(changes: Mapping[str, Any], task: Any, seed: int) -> dict[str, Any]:
    """The changes of a variant, with a function in place of the name of an encoder that only experiments have."""
    name = changes.get("encoder")
    if name is None or name == PICTURES:
        return dict(changes)
    if name == TRUE_CONTEXT:
        return dict(changes) | {"encoder": lambda pictures: task.true_contexts(pictures.reshape(len(pictures), -1))}
    count = int(str(name).removeprefix(COMPONENTS))
    rows = contexts_of(task, seed, FITTED_TO).reshape(FITTED_TO, -1)
    return dict(changes) | {"encoder": principal_components(rows, count)}


def principal_components(rows: np.ndarray, count: int) -> Callable[[np.ndarray], np.ndarray]:
    """The first principal components [N, count] of pictures, fitted to pictures [M, S]; each picture by itself."""
    mean = rows.mean(axis=0)
    axes = np.linalg.svd(rows - mean, full_matrices=False)[2][:count]
    return lambda pictures: np.array([axes @ (each.ravel() - mean) for each in pictures])
