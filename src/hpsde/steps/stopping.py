"""When nothing is left to gain, so that a run can end before its rollouts are spent.

Three things may still gain. An option's mean: it is known to width / WIDTH (refinement.py), and the return of a kernel
of length 1 falls by half the square of a small way, so that 1/2 (width / WIDTH)^2 of the signal is lost at most. A
solution not seen yet: once all options are narrow, half of the rollouts look where one may lie (scouting.py); if QUIET
rollouts in a row have changed nothing, the next are unlikely to. And the gate: in a context s the options' returns are
N(m_o, d_o^2) by what is known, and knowing them would gain

    sum_o E[max(R_o - R_b, 0)] = sum_o d (pdf(x) + x cdf(x)),    x = (m_o - m_b) / d,    d^2 = d_o^2 + d_b^2,

at most, b being the best. Where two options are as good as one another d alone is left of it, hence UNSURE.
"""

from __future__ import annotations

import numpy as np

from hpsde.base.later import Later
from hpsde.steps.refinement import WIDTH

special = Later("scipy.special")


QUIET = 100  # rollouts since the options are narrow and their number is the same
UNSURE = 0.01  # of the signal, that knowing all options' returns would gain in the mean over contexts,
CONTEXTS = 64  # of which so many are looked at
FAR = 30.0  # deviations: what is so far behind gains nothing


def left_of_options(width: float) -> float:
    """Share of the signal that the widest option loses against its optimum."""
    return 0.5 * (width / WIDTH) ** 2


def left_of_gate(mean: np.ndarray, deviation: np.ndarray) -> float:
    """What a gate gains at most, in the mean over contexts, by knowing the returns of options [O, C]."""
    if len(mean) < 2:
        return 0.0
    best, places = np.argmax(mean, axis=0), np.arange(mean.shape[1])
    d = np.sqrt(deviation**2 + deviation[best, places] ** 2)
    x = np.maximum((mean - mean[best, places]) / np.maximum(d, 1e-300), -FAR)
    gain = d * (np.exp(-(x**2) / 2.0) / np.sqrt(2.0 * np.pi) + x * special.ndtr(x))
    gain[best, places] = 0.0
    return float(gain.sum(axis=0).mean())
