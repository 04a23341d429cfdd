"""A monotone map of the returns, so that a cliff in the return does not swamp the gate's Gaussian process."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde.errors import UnknownNameError

WARPS = ("none", "clip", "rank")
CLIP = 10.0
FINEST = 0.1  # of the first rollouts' clip depth: later ones are told apart at least so far down


class Warp(NamedTuple):
    """A piecewise-linear increasing map from returns to scores, given by its knots."""

    returns: np.ndarray
    scores: np.ndarray

    @property
    def unit(self) -> float:
        """Returns that a score is, from the lowest knot to the highest."""
        return float((self.returns[-1] - self.returns[0]) / (self.scores[-1] - self.scores[0]))

    def inverse(self, scores: np.ndarray) -> np.ndarray:
        """Returns with these scores. Beyond the knots the last segment goes on, so that order is kept."""
        values = np.interp(scores, self.scores, self.returns)
        for end, step in ((0, 1), (-1, -2)):
            slope = (self.returns[step] - self.returns[end]) / (self.scores[step] - self.scores[end])
            beyond = scores < self.scores[0] if end == 0 else scores > self.scores[-1]
            values = np.where(beyond, self.returns[end] + slope * (scores - self.scores[end]), values)
        return values


def clip_depth(returns: np.ndarray, weights: np.ndarray) -> float:
    """How far under the weighted mean return is as bad as any: CLIP weighted deviations."""
    share = weights / weights.sum()
    return CLIP * float(np.sqrt(share @ (returns - share @ returns) ** 2))


def fit_warp(returns: np.ndarray, weights: np.ndarray, kind: str, least: float = 0.0) -> tuple[np.ndarray, Warp]:
    """Scores of the returns, with mean 0 and deviation 1, and the map. Shifted or scaled returns have the same scores.
    Those of returns that do not differ but for rounding are 0.

    none: the returns themselves. clip: returns that lie farther under the weighted mean than the larger of their
    `clip_depth` and `least` are raised to there: bad is bad, however bad. rank: normal scores of the ranks.
    """
    if kind == "rank":
        from scipy.stats import norm, rankdata  # slow to load

        scores = norm.ppf((rankdata(returns) - 0.5) / len(returns))
    elif kind == "clip":
        mean = weights @ returns / weights.sum()
        returns = scores = np.maximum(returns, mean - max(clip_depth(returns, weights), least))
    elif kind == "none":
        scores = returns
    else:
        raise UnknownNameError("warp", kind, WARPS)
    centre, deviation = scores.mean(), scores.std()
    differ = deviation > 1e-12 * (1e-300 + abs(centre))
    scores = (scores - centre) / deviation if differ else np.zeros_like(scores)
    knots = np.unique(scores, return_index=True)[1]
    if len(knots) == 1:
        step = np.array([0.0, 1.0])
        return scores, Warp(returns[knots] + step, scores[knots] + step)
    return scores, Warp(returns[knots], scores[knots])
