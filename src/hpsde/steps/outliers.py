"""Returns that are far too high: a sensor fault must not become a solution.

A rollout is distrusted if the process, given all others, finds its return more than FAR standard deviations too high,
and it is higher than that of every rollout which is not. With such rollouts left out, the others must be explained
better by GAIN nats each: a real peak, which its neighbours know of, does not pass. Returns that are far too low are
raised by the warp, and do no harm.

A process can be better by GAIN without some rollouts only if these are what it takes for noise: to halve the noise
variance is worth log(2) / 2 nats for each of the others. Suspects with less than SHARE of all squared residuals, in
units of their variance, are therefore not worth another fit.
"""

from __future__ import annotations

import numpy as np

from hpsde.gp.model import GP

FAR = 4.0
GAIN = 0.3  # nats for every rollout, that the evidence of the others must gain
MOST = 0.1  # of all rollouts
SHARE = 0.25  # of the squared residuals


def suspects(process: GP, scores: np.ndarray) -> np.ndarray:
    """Which of the points of the process [N] are far too high, given all others (leave-one-out residuals).

    The residual of point i is beta_i / (K^-1)_ii, and its variance 1 / (K^-1)_ii.
    """
    known = np.asarray(process.mask)
    precision = np.where(known, np.diagonal(np.asarray(process.K_inverse)), 1.0)
    residual = np.where(known, np.asarray(process.beta), 0.0) / np.sqrt(np.maximum(precision, 1e-300))
    far = residual > FAR
    others = scores[known & ~far]
    none = np.zeros(len(known), dtype=bool)
    if not far.any() or not len(others) or far.sum() > MOST * known.sum():
        return none
    far &= scores > others.max()
    return far if np.sum(residual[far] ** 2) > SHARE * np.sum(residual**2) else none
