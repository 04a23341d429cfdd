"""Returns that are far too high: a sensor fault must not become a solution.

A rollout is distrusted if the process, given all others, finds its return more than FAR standard deviations too high,
and it is higher than that of every rollout which is not. With such rollouts left out, the others must be explained
better by GAIN nats each: a real peak, which its neighbours know of, does not pass. Returns that are far too low are
raised by the warp, and do no harm.

A process can be better by GAIN without some rollouts only if these are what it takes for noise: to halve the noise
variance is worth log(2) / 2 nats for each of the others. Suspects with less than SHARE of all squared residuals, in
units of their variance, are therefore not worth another fit.

A rollout that was repeated with the same return is believed; without a context climbs repeat those that are not
(climbers.py). And faults are rare. A narrow peak that a few first rollouts have missed looks like one, until rollouts
gather there: once more than a share MOST of all rollouts would be distrusted, all are believed.
"""

from __future__ import annotations

import numpy as np

FAR = 4.0
GAIN = 0.3  # nats for every rollout, that the evidence of the others must gain
MOST = 0.1  # of all rollouts
SHARE = 0.25  # of the squared residuals
SAME = 1e-9  # of the returns' range, that a repeated one may differ by
DIGITS = 9  # of standard units, in which places are the same


def suspects(beta: np.ndarray, precision: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Which of the rollouts [n] with these scores are far too high, given all others.

    The residual of rollout i is beta_i / precision_i, and its variance 1 / precision_i; of an exact process
    precision_i = (K^-1)_ii.
    """
    residual = beta / np.sqrt(np.maximum(precision, 1e-300))
    far = residual > FAR
    others = scores[~far]
    none = np.zeros(len(scores), dtype=bool)
    if not far.any() or not len(others):
        return none
    far &= scores > others.max()
    return far if np.sum(residual[far] ** 2) > SHARE * np.sum(residual**2) else none


def confirmed(points: np.ndarray, returns: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Which of the usable rollouts [N] another one has repeated with the same return; points [s, xi] [N, Z]."""
    rows = np.flatnonzero(usable)
    group = _places(points[rows])
    order = np.lexsort((returns[rows], group))
    tolerance = SAME * float(np.ptp(returns[rows])) if len(rows) else 0.0
    alike = (np.diff(group[order]) == 0) & (np.diff(returns[rows][order]) <= tolerance)
    found = np.zeros(len(usable), dtype=bool)
    found[rows[order[:-1][alike]]] = found[rows[order[1:][alike]]] = True
    return found


def alone(points: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Which of the rollouts [N] are asked about and are the only ones in their places; points [N, Z]."""
    group = _places(points)
    return asked & (np.bincount(group)[group] == 1)


def _places(points: np.ndarray) -> np.ndarray:
    """A number [N] for each place, the same for the same."""
    return np.unique(np.round(points, DIGITS), axis=0, return_inverse=True)[1].ravel()


def are_too_many(distrusted: np.ndarray, every: np.ndarray) -> bool:
    """Whether so many of the rollouts [N] are distrusted that they are no faults."""
    return bool(np.sum(distrusted) > MOST * np.sum(every))
