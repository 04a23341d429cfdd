"""A step of every option's mean parameters uphill on the modelled return.

Policy search sees the rollouts near an option one by one. The gate's Gaussian process knows what they say together, and
where its mean still rises the option moves on. For option o with covariance Sigma = C C', in the contexts s of its
samples,

    maximise  mean_s E m(mu_o(s) + C (d(s) + MARGIN e), s) - eta / 2 mean_s |d(s)|^2
    over      d(s) = x_0 + x' (phi(s) - mean phi),    e ~ N(0, I),

m the mean of the process. The second part is the Kullback-Leibler divergence from the option as it was: the step of
REPS on the model, at temperature eta. Sigma stays. What counts is the expected return of a policy half as wide as the
option is: it narrows on, and its mean keeps off cliffs that the rollouts beside it show.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hpsde import gp
from hpsde.base.arrays import map_arrays
from hpsde.base.draws import split, uniform_rows
from hpsde.base.precision import single
from hpsde.base.shapes import Array, Bool, Float
from hpsde.steps import gaussian
from hpsde.steps.gaussian import LinearGaussian

ETA = 0.05  # in deviations of the scores, which all rollouts together have 1 of
CONTEXTS = 48
MARGIN = 0.5  # deviations
STEPS = 20
RATE = 0.1  # of the first step, in deviations of the option
MOMENTUM, SCALE = 0.8, 0.95  # Adam's beta_1 and beta_2


def improve(
    key: Array,
    process: gp.GP,
    axes: Float[np.ndarray, "E Z"],
    options: LinearGaussian,
    kept: Bool[np.ndarray, " O"],
    contexts: Float[np.ndarray, "N S"],
    features: Float[np.ndarray, "N F"],
    weights: Float[np.ndarray, "O N"],
    *,
    plain: int | None = None,
) -> LinearGaussian:
    """The options, those kept moved uphill, along the first `plain` features, or all. `weights` say how much a context
    belongs to an option.
    """
    plain = features.shape[1] if plain is None else plain
    model, turn = single((gp.without_inverse(process), axes))
    keys, b, w = split(key, len(kept)), np.array(options.b), np.array(options.w)
    for o in np.flatnonzero(kept):
        # Systematic draw of contexts by their share.
        total = np.cumsum(weights[o])
        places = (np.arange(CONTEXTS) + uniform_rows(keys[o], 1)) / CONTEXTS * total[-1]
        at = np.minimum(np.searchsorted(total, places), len(total) - 1)
        one = map_arrays(lambda part, o=o: part[o : o + 1], options)
        change, slopes = _move(model, turn, one, features[at], contexts[at], plain)
        b[o] += change
        w[o, :plain] += slopes
    return options._replace(b=b, w=w)


def _move(
    model: gp.GP, turn: np.ndarray, option: LinearGaussian, phi: np.ndarray, s: np.ndarray, plain: int
) -> tuple[np.ndarray, np.ndarray]:
    """What is added to b [D] and w [plain, D] of one option, by these features [C, F] and contexts [C, S]."""
    middle, C = phi[:, :plain].mean(axis=0), np.linalg.cholesky(option.Sigma[0])
    means = gaussian.means(option._replace(low=None, high=None), phi)[0]
    low, high = (end if end is None else end[0] for end in (option.low, option.high))
    centred, mu, s, factor, low, high = single((phi[:, :plain] - middle[None, :], means, s, C, low, high))
    of_parameters = turn[:, : mu.shape[1]]
    edge = MARGIN * of_parameters @ factor
    uphill_at = gp.gradient_under(model, edge @ edge.T)

    def gradient(x: np.ndarray) -> np.ndarray:
        d = x[:1] + centred @ x[1:]
        xi = mu + d @ factor.T
        within = xi if low is None or high is None else np.clip(xi, low[None], high[None])
        uphill = uphill_at(np.concatenate([within, s], axis=1) @ turn.T) @ of_parameters
        downhill = (ETA * d - np.where(within == xi, uphill, 0.0) @ factor) / len(d)
        return np.concatenate([np.sum(downhill, axis=0, keepdims=True), centred.T @ downhill])

    x = _minimise(gradient, np.zeros((1 + plain, mu.shape[1]), mu.dtype)).astype(float)
    change = x[1:] @ C.T
    return C @ x[0] - middle @ change, change


def _minimise(
    gradient: Callable[[np.ndarray], np.ndarray], start: Float[np.ndarray, "P D"]
) -> Float[np.ndarray, "P D"]:
    """Adam with steps that shrink to nothing: parts of x may be flat, or matter a hundred times more than others."""
    x, first, second = start, np.zeros_like(start), np.zeros_like(start)
    for t in range(STEPS):
        g = gradient(x)
        first = MOMENTUM * first + (1.0 - MOMENTUM) * g
        second = SCALE * second + (1.0 - SCALE) * g**2
        mean, size = first / (1.0 - MOMENTUM ** (t + 1.0)), np.sqrt(second / (1.0 - SCALE ** (t + 1.0)))
        x = x - RATE * (1.0 - t / STEPS) * mean / (size + 1e-8)
    return x
