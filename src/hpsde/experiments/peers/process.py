"""A plain rival with a model: a Gaussian process of scikit-learn's, and local searches from the maxima of its mean."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.optimize
import scipy.spatial

from hpsde.experiments.peers.counter import Counter
from hpsde.experiments.peers.local import by_gradient
from hpsde.experiments.peers.search import STARTS, ascended, distinct, spread_points

DESIGN_SHARE = 0.4
MOST_DESIGN = 1000
"""The design is the first part of the budget, and no larger than the process can be fitted to in a minute."""
TRIAL_POWER, NEIGHBOURS = 11, 4
"""The mean is looked at at 2 to this power points, each beside so many neighbours for every parameter."""
FIRST_LENGTHS = (0.3, 0.05)
NEAR = 0.02
"""Maxima of the mean closer than this, in the unit cube, are one."""


def gaussian_process(returns: Counter, size: int, seed: int, tolerance: float) -> np.ndarray:
    """Fit a process to a Sobol design, then search by L-BFGS-B from the maxima of its mean, the highest first.

    What is left of the budget after that goes to searches from spread points. Reports the distinct end points.
    """
    n = max(2, min(MOST_DESIGN, int(DESIGN_SHARE * returns.left)))
    spread = spread_points(size, STARTS, seed)
    model = _fitted(spread[:n], returns(spread[:n]), seed)
    starts = np.concatenate([maxima_of_mean(model.predict, size, seed), spread[n:]])
    return ascended(partial(by_gradient, tolerance), returns, iter(starts), size)


def maxima_of_mean(mean: Callable[[np.ndarray], np.ndarray], size: int, seed: int) -> np.ndarray:
    """The local maxima [K, D] of a mean in the unit cube, the highest first. This evaluates no return.

    The mean is climbed from those of many spread points that are higher than all points near them.
    """
    trials = spread_points(size, TRIAL_POWER, seed + 1)
    values = mean(trials)
    near = scipy.spatial.KDTree(trials).query(trials, k=1 + NEIGHBOURS * size)[1]
    best = trials[values >= values[near].max(axis=1)]
    climbed = np.array([_climbed(mean, start) for start in best])
    return distinct(climbed, mean(climbed), NEAR)


def _climbed(mean: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
    bounds = [(0.0, 1.0)] * len(start)
    return scipy.optimize.minimize(lambda x: -float(mean(x[None])[0]), start, method="L-BFGS-B", bounds=bounds).x


def _fitted(design: np.ndarray, values: np.ndarray, seed: int) -> Any:
    """The likeliest of processes with a length for every parameter, fitted from several first lengths."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels

    models = []
    for length in FIRST_LENGTHS:
        lengths = kernels.RBF(np.full(design.shape[1], length), (1e-2, 1e1))
        kernel = kernels.ConstantKernel(1.0, (1e-3, 1e3)) * lengths + kernels.WhiteKernel(1e-6, (1e-10, 1e-1))
        model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a length or the noise at its bound is no failure here
            models.append(model.fit(design, values))
    return max(models, key=lambda model: model.log_marginal_likelihood_value_)
