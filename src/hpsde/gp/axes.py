"""Axes for the gate's Gaussian process: coordinates in which the return varies along few directions.

One length per coordinate says little where the return depends on combinations of coordinates, such as the height of
a route in the middle of its way. The fitted process itself tells which combinations matter: the eigenvectors of
C = 1/N sum_i g_i g_i', g_i the gradient of its mean at point i, by falling eigenvalue (the active subspace, Constantine
2015). Points z are seen as A z, and the next fit starts from A turned onto these eigenvectors.
"""

from __future__ import annotations

import numpy as np

from hpsde.base.arrays import namespace
from hpsde.base.shapes import Array, Float
from hpsde.gp.model import GP, Hyperparameters, predict_gradient

LENGTHS = (0.05, 20.0)
"""Least and largest length to start from, in deviations of the points."""
ROUNDING = 1e-9
"""Of the largest coordinate: points that deviate by less along an axis do not, but for rounding; whitening multiplies
that by up to a million."""


def mean_gradients(process: GP) -> Float[Array, "N Z"]:
    """Gradient of the mean at every point of the process."""
    gradients = predict_gradient(process, process.z + process.centre[None, :])
    return namespace(gradients).where(process.mask[:, None], gradients, 0.0)


def turned_axes(process: GP, axes: Float[np.ndarray, "Z Z"]) -> tuple[Float[np.ndarray, "Z Z"], Hyperparameters]:
    """New axes, and hyper-parameters to start from, by the gradients of a process fitted to points A z.

    Points have deviation 1 along each new axis. A length is where the return has changed by half a signal.
    """
    mask = np.asarray(process.mask)
    gradients, points = np.asarray(mean_gradients(process))[mask], np.asarray(process.z)[mask]
    energy, directions = np.linalg.eigh(gradients.T @ gradients / len(points))
    energy, directions = energy[::-1], directions[:, ::-1]
    deviation = (points @ directions).std(axis=0)
    deviation = np.where(deviation > ROUNDING * np.max(np.abs(points)), deviation, 1.0)
    log_signal = process.hyperparameters.log_signal
    slope = np.sqrt(np.maximum(energy, 0.0)) * deviation / np.exp(float(log_signal))
    lengths = np.clip(0.5 / np.maximum(slope, 1e-12), *LENGTHS)
    start = process.hyperparameters._replace(log_lengths=np.log(lengths))
    return (directions / deviation).T @ axes, start
