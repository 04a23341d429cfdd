"""Returns that are far too high: a sensor fault must not become a solution.

A rollout is distrusted if the process, given all others, finds its return more than FAR standard deviations too high,
and it is higher than that of every rollout which is not. With such rollouts left out, the others must be explained
better by GAIN nats each: a real peak, which its neighbours know of, does not pass. Returns that are far too low are
raised by the warp, and do no harm.
"""

from __future__ import annotations

import numpy as np

from hpsde.gp_model import GP

FAR = 4.0
GAIN = 0.3  # nats for every rollout, that the evidence of the others must gain
MOST = 0.1  # of all rollouts


def suspects(process: GP, scores: np.ndarray) -> np.ndarray:
    """Which of the points of the process [N] are far too high, given all others (leave-one-out residuals).

    The residual of point i is beta_i / (K^-1)_ii, and its variance 1 / (K^-1)_ii.
    """
    known = np.asarray(process.mask)
    precision = np.where(known, np.diagonal(np.asarray(process.K_inverse)), 1.0)
    far = known & (np.asarray(process.beta) / np.sqrt(np.maximum(precision, 1e-300)) > FAR)
    others = scores[known & ~far]
    if not far.any() or not len(others) or far.sum() > MOST * known.sum():
        return np.zeros(len(known), dtype=bool)
    return far & (scores > others.max())
