"""The level of the return: what the context alone adds to it, whatever the parameters are.

Some contexts are harder than others. A kernel that is a product over contexts and parameters would have to learn the
same rise over the contexts anew for all parameters. Where a quadratic in the context,

    V(s) = v_0 + sum_d v_d s_d + sum_d v_{S + d} s_d^2,

takes away half of the mean absolute deviation of the first returns from their median, the process models R - V(s). In
every context V is one number for all options: it changes no choice. Its coefficients have the least absolute error:
cliffs and outliers hardly move them.
"""

from __future__ import annotations

import numpy as np

WORTH = 0.5  # of the mean absolute deviation that may be left, or there is no level
STEPS = 30  # of iteratively reweighted least squares
SMOOTH = 1e-3  # of the mean absolute deviation: lesser errors weigh as this one does


def features(contexts: np.ndarray) -> np.ndarray:
    """[1, s, s^2] [N, 1 + 2 S] of standard contexts [N, S]."""
    return np.concatenate([np.ones((len(contexts), 1)), contexts, contexts**2], axis=1)


def none(context_size: int) -> np.ndarray:
    """The coefficients of a level of 0."""
    return np.zeros(1 + 2 * context_size)


def fit(contexts: np.ndarray, returns: np.ndarray) -> np.ndarray:
    """Coefficients [1 + 2 S] by standard contexts [N, S] and returns [N] of first rollouts.

    Returns of two values are success or failure, and have no level.
    """
    nothing = none(contexts.shape[1])
    deviation = float(np.mean(np.abs(returns - np.median(returns)))) if len(returns) else 0.0
    if contexts.shape[1] == 0 or len(returns) <= len(nothing) or len(np.unique(returns)) <= 2:
        return nothing
    phi, errors = features(contexts), np.ones(len(returns))
    for _ in range(STEPS):
        share = 1.0 / np.sqrt(np.maximum(np.abs(errors), SMOOTH * deviation))
        v = np.linalg.lstsq(phi * share[:, None], returns * share, rcond=None)[0]
        errors = returns - phi @ v
    return np.asarray(v) if np.mean(np.abs(errors)) <= WORTH * deviation else nothing
