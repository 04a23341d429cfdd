"""A Gaussian process that sees few directions of many numbers: k(z, z') = signal^2 exp(-1/2 |W (z - z')|^2), W [K, Z].

With twenty numbers and more, one length for each finds nothing in a few hundred rollouts, and axes turned by the
gradients of such a fit follow its noise. Here W itself is found by marginal likelihood. With M as in gp_likelihood,

    d log p / d W = -W (Z' diag(M 1) Z - Z' M Z),

which costs no more than the gradient of the lengths. The likelihood has local maxima: the search starts from turned
axes, whose leading directions hold most of what matters even where their process explains little.
"""

from __future__ import annotations

import numpy as np

from hpsde.base.later import Later
from hpsde.gp.lapack import projected_likelihood

optimize = Later("scipy.optimize")


SIGNAL, NOISE = 1.0, 0.3  # to start from, of standardised scores
LARGEST = 10.0  # entry of W: lengths of a tenth of a deviation
SIGNALS, NOISES = (np.log(0.05), np.log(20.0)), (np.log(0.01), np.log(5.0))
ITERATIONS = 60


def few_directions(z: np.ndarray, y: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """W [K, Z], found from `start` [K, Z], and (log signal, log noise) for points z [N, Z] with scores y [N] of mean 0.

    W has a standard Gaussian prior in units of the points' deviations: a direction that is not needed shrinks to 0.
    """
    deviation = np.where(z.std(axis=0) > 0.0, z.std(axis=0), 1.0)
    likelihood = projected_likelihood((z - z.mean(axis=0)) / deviation, y)

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        W = theta[:-2].reshape(start.shape)
        value, (slope, rest) = likelihood(W, theta[-2], theta[-1])
        return 0.5 * np.sum(W**2) - value, np.concatenate([(W - slope).ravel(), -rest])

    bounds = [(-LARGEST, LARGEST)] * start.size + [SIGNALS, NOISES]
    first = np.concatenate([(start * deviation).ravel(), np.log([SIGNAL, NOISE])])
    options = {"maxiter": ITERATIONS, "ftol": 1e-6}
    found = optimize.minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return found[:-2].reshape(start.shape) / deviation, (float(found[-2]), float(found[-1]))


def leading(axes: np.ndarray, lengths: np.ndarray, count: int) -> np.ndarray:
    """The `count` directions W [K, Z] by which a kernel with these axes [E, Z] and lengths [E] sees most."""
    _, pace, turn = np.linalg.svd(axes / lengths[:, None], full_matrices=False)
    return turn[:count] * pace[:count, None]
