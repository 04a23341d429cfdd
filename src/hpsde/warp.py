"""A monotone map of the returns, so that a cliff in the return does not swamp the gate's Gaussian process."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import norm, rankdata

from hpsde.errors import UnknownNameError

WARPS = ("none", "clip", "rank")


class Warp(NamedTuple):
    """A piecewise-linear increasing map from returns to scores, given by its knots."""

    returns: np.ndarray
    scores: np.ndarray

    def inverse(self, scores: np.ndarray) -> np.ndarray:
        """Returns with these scores. Beyond the knots the last segment goes on, so that order is kept."""
        values = np.interp(scores, self.scores, self.returns)
        for end, step in ((0, 1), (-1, -2)):
            slope = (self.returns[step] - self.returns[end]) / (self.scores[step] - self.scores[end])
            beyond = scores < self.scores[0] if end == 0 else scores > self.scores[-1]
            values = np.where(beyond, self.returns[end] + slope * (scores - self.scores[end]), values)
        return values


def fit_warp(returns: np.ndarray, kind: str, weights: np.ndarray) -> tuple[np.ndarray, Warp]:
    """Scores of the returns, standardised, and the map.

    none: (R - mean) / deviation. clip: the same after raising all returns under a floor to it; the floor lies as
    far below the weighted mean return of the good rollouts as ... rank: normal scores of the ranks.
    """
    if kind == "rank":
        scores = norm.ppf((rankdata(returns) - 0.5) / len(returns))
    elif kind == "clip":
        scores = np.maximum(returns, np.quantile(returns, 0.25))
    elif kind == "none":
        scores = returns
    else:
        raise UnknownNameError("warp", kind, WARPS)
    centre, deviation = scores.mean(), scores.std()
    scale = deviation if deviation > 1e-12 * (1.0 + abs(centre)) else 1.0
    scores = (scores - centre) / scale
    order = np.unique(scores, return_index=True)[1]
    knots = Warp(returns[order], scores[order])
    if len(order) == 1:
        knots = Warp(returns[order[0]] + np.array([0.0, 1.0]), scores[order[0]] + np.array([0.0, 1.0]))
    return scores, knots
