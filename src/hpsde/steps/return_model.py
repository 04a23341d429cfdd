"""The return function as approximated from all rollouts (Algorithm 1, "approximate the return function").

Two processes share its work. The *surface* follows the policy: the gate and the options' steps ask it.
The *landscape* (landscape.py) keeps the view of the first rollouts: solutions are sought in it.
"""

from __future__ import annotations

import numpy as np

from hpsde import gp
from hpsde.base.padding import pad_rows
from hpsde.base.precision import single
from hpsde.base.shapes import Array
from hpsde.gp.warp import FINEST, Warp, clip_depth
from hpsde.steps import landscape, outliers, residuals, surface
from hpsde.steps.configuration import ReturnModelSettings
from hpsde.steps.landscape import Landscape
from hpsde.steps.rollouts import Data
from hpsde.steps.surface import Surface
from hpsde.steps.weighing import compute_weights, weigh

AT_ONCE = 4096  # rollouts whose returns are predicted at once


def approximate_return(
    key: Array,
    data: Data,
    spreads: np.ndarray,
    start: surface.Start,
    distrusted: np.ndarray,
    settings: ReturnModelSettings,
) -> tuple[Surface | None, Data]:
    """The Gaussian process that approximates the return function, and the rollouts without those it cannot be true of.

    It comes first, and not after the options as in Algorithm 1: options are sought in it. `spreads` [D + S]: how much
    the numbers [xi, s] vary beside one another; see `rollouts.Units.spreads`. `distrusted` are rollouts that were left
    out the last time.
    """
    if not surface.is_needed(settings):
        return None, data
    every, sure = data, outliers.confirmed(data.joint, data.advantages, data.mask)
    data = data._replace(mask=data.mask & (sure | ~pad_rows(distrusted, len(data.mask))))
    found = _fit(key, data, spreads, start, settings)
    while settings.return_model.warp == "clip" and (bad := _suspects(found, data) & ~sure).any():
        fewer = data._replace(mask=data.mask & ~bad)
        if outliers.are_too_many(every.mask & ~fewer.mask, every.mask):
            return (found if data is every else _fit(key, every, spreads, start, settings)), every
        again = _fit(key, fewer, spreads, start, settings)
        if residuals.evidence(again) - residuals.evidence(found) < outliers.GAIN:
            break
        found, data = again, fewer
    return found, data


def _suspects(found: Surface, data: Data) -> np.ndarray:
    """Which rollouts have returns far too high [N]."""
    bad = np.zeros(len(data.mask), dtype=bool)
    if not found.binary:
        known = residuals.residuals(found)
        bad[found.rows] = outliers.suspects(known.beta, known.precision, known.scores)
    return bad


def _fit(key: Array, data: Data, spreads: np.ndarray, start: surface.Start, settings: ReturnModelSettings) -> Surface:
    # Which returns are good, for the warp; pi_old is not known yet, and not needed for that.
    share = np.asarray(compute_weights(data, None, settings).weights)
    size = data.contexts.shape[1]
    given = data.joint, size, data.advantages, share, data.mask, spreads, start, settings
    return surface.fit(key, *given, least_depth=least_depth(data, settings))


def least_depth(data: Data, settings: ReturnModelSettings) -> float:
    """How far under the good returns others are told apart: a share of how far the first rollouts are.

    The good returns of a policy that has converged differ by next to nothing. Clipped that closely, all that is not
    exactly right is equally bad, and the gate takes a spike round each option for the return.
    """
    first = data.mask & data.initial
    if settings.return_model.warp != "clip" or not first.any() or np.array_equal(first, data.mask):
        return 0.0
    share = np.asarray(compute_weights(data._replace(mask=first), None, settings).weights)
    return FINEST * clip_depth(data.advantages[first], share[first])


def survey(
    key: Array,
    data: Data,
    approximated: Surface | None,
    spreads: np.ndarray,
    last: Landscape | None,
    settings: ReturnModelSettings,
) -> Landscape | None:
    """The landscape in which options are sought: the last one, or one whose kernel these rollouts have been fitted to.

    The first is the surface itself, with a smooth kernel: a rough one shows hills that are none. None where it explains
    nothing, or where nobody asks for one.
    """
    count, size = int(data.mask.sum()), data.parameters.shape[1]
    if approximated is None or settings.density.kind != "options":
        return None

    def smooth(scores: np.ndarray, warp: Warp, binary: bool, mask: np.ndarray, start: surface.Start) -> Surface:
        given = data.joint, data.contexts.shape[1], scores, warp, binary, mask, spreads, start, settings
        return surface.fit_scores(key, *given, smooth=True)

    if last is None:
        if not residuals.explains(approximated):
            return None
        warp, start = approximated.warp, approximated.start
        if start.kernel != "se":
            scores = np.interp(data.advantages, warp.returns, warp.scores)
            approximated = smooth(scores, warp, approximated.binary, data.mask, start)
        T = float(weigh(modelled_scores(data, approximated), data, None, True, settings).temperature)
        return landscape.make(approximated, size, count, T)
    if not landscape.is_old(last, count):
        return last
    part = np.isin(np.arange(len(data.mask)), landscape.choose(data.initial, data.mask))
    found = smooth(landscape.scores_of(last, data.advantages), last.warp, last.binary, part, last.start)
    return landscape.make(found, size, count, last.temperature)


def modelled_scores(data: Data, approximated: Surface) -> np.ndarray:
    """The mean of the process at the rollouts [N]; those outside the mask have the lowest.

    At its own points the process knows it without its kernel: y = m + noise^2 beta, and the log odds of success where
    it is one of success or failure.
    """
    scores = np.full(len(data.mask), np.nan)
    scores[approximated.rows] = residuals.fitted_scores(approximated)
    others = np.flatnonzero(data.mask & np.isnan(scores))
    if len(others):
        scores[others] = predict(approximated, data.parameters[others], data.contexts[others])
    return np.where(data.mask, scores, scores[data.mask].min())


def predict(approximated: Surface, parameters: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """The mean of the process [N] at parameters [N, D] in contexts [N, S], in single precision."""
    z = np.concatenate([parameters, contexts], axis=1)
    z = z if approximated.axes is None else z @ np.asarray(approximated.axes).T
    process, z = single((gp.without_inverse(approximated.process), z))
    parts = (gp.predict_mean(process, z[start : start + AT_ONCE]) for start in range(0, len(z), AT_ONCE))
    return np.concatenate([np.zeros(0), *parts])


def smoothed(data: Data, approximated: Surface | None) -> Data:
    """The rollouts with their modelled returns: what noise and luck have added is gone. As they are without a model."""
    if approximated is None:
        return data
    advantages = approximated.warp.inverse(modelled_scores(data, approximated))
    return data._replace(returns=advantages + data.level)
