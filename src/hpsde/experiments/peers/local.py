"""Rivals that restart a local search of scipy's."""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.optimize

from hpsde.experiments.peers.counter import Counter
from hpsde.experiments.peers.search import Ascent, restarted

STEP = 0.05
"""The edge of the first simplex, in the unit cube."""


def by_nelder_mead(tolerance: float, step: float, ascent: Ascent, start: np.ndarray, number: int) -> None:
    """One search by Nelder-Mead, whose first simplex points into the cube.

    It ends when the simplex is as small as a tolerance t is near the top of 1 - x^2, sqrt(t), and as flat as t.
    """
    edges = np.where(start > 0.5, -step, step)
    options = {
        "initial_simplex": np.vstack([start, start + np.diag(edges)]),
        "xatol": np.sqrt(tolerance),
        "fatol": tolerance,
        "maxfev": np.inf,
        "maxiter": np.inf,
    }
    bounds = [(0.0, 1.0)] * len(start)
    scipy.optimize.minimize(ascent.cost, start, method="Nelder-Mead", bounds=bounds, options=options)


def by_gradient(tolerance: float, ascent: Ascent, start: np.ndarray, number: int) -> None:
    """One search by L-BFGS-B; its gradients are differences of returns, all of which are counted.

    Its tolerance is a share of the return, which is up to some thousands.
    """
    bounds = [(0.0, 1.0)] * len(start)
    scipy.optimize.minimize(ascent.cost, start, method="L-BFGS-B", bounds=bounds, options={"ftol": 0.01 * tolerance})


def nelder_mead(returns: Counter, size: int, seed: int, tolerance: float) -> np.ndarray:
    """Restarted Nelder-Mead; reports the distinct end points."""
    return restarted(partial(by_nelder_mead, tolerance, STEP), returns, size, seed)


def l_bfgs_b(returns: Counter, size: int, seed: int, tolerance: float) -> np.ndarray:
    """Restarted L-BFGS-B; reports the distinct end points."""
    return restarted(partial(by_gradient, tolerance), returns, size, seed)
