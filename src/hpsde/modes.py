"""Modes of a mixture: options are the modes of the density, not the Gaussians that it takes to describe them.

Two Gaussians that describe one bent or heavy-tailed mode have no valley between them. The density of a pair is highest
along its ridge line (Ray and Lindsay 2005),

    x(a) = [(1 - a) S_i + a S_j]^-1 [(1 - a) S_i h_i + a S_j h_j],   0 <= a <= 1,  S the precisions,

so a valley between the two is a dip of the density there. Gaussians with a shallow valley are joined (Hennig 2010).
"""

from __future__ import annotations

import numpy as np

from hpsde.mixture import Mixture

STEPS = 65


def join(mixture: Mixture, kept: np.ndarray, depth: float) -> np.ndarray:
    """Which mode each Gaussian belongs to [O]: the number of the highest Gaussian in that mode; others keep their own.

    From the highest peak down, each Gaussian joins that one of the higher ones to which its valley is shallowest, if
    the density falls to no less than `depth` of its own peak there. A wide Gaussian under several modes joins one of
    them and bridges none.
    """
    labels = np.arange(len(kept))
    present = np.flatnonzero(kept)
    if depth >= 1.0 or len(present) < 2:
        return labels
    share, mean = np.asarray(mixture.mass)[present], np.asarray(mixture.h)[present]
    covariances = np.asarray(mixture.K_inverse) / np.asarray(mixture.nu)[:, None, None]
    precision = np.linalg.inv(covariances[present])
    _, log_det = np.linalg.slogdet(precision)
    order = np.argsort(-(np.log(share) + 0.5 * log_det), kind="stable")
    for place, i in enumerate(order[1:], start=1):
        dips = [dip(share[[i, j]], mean[[i, j]], precision[[i, j]]) for j in order[:place]]
        if max(dips) >= depth:
            labels[present[i]] = labels[present[order[int(np.argmax(dips))]]]
    return labels


def dip(share: np.ndarray, mean: np.ndarray, precision: np.ndarray) -> float:
    """The least density between two Gaussians relative to the lower peak: 1 where there is one peak alone.

    share [2], mean [2, Z], precision [2, Z, Z].
    """
    a = np.linspace(0.0, 1.0, STEPS)[:, None]
    pulls = np.einsum("kij,kj->ki", precision, mean)
    between = (1.0 - a)[:, :, None] * precision[0] + a[:, :, None] * precision[1]
    ridge = np.linalg.solve(between, ((1.0 - a) * pulls[0] + a * pulls[1])[:, :, None])[:, :, 0]
    difference = ridge[None] - mean[:, None]
    distance = np.einsum("kni,kij,knj->kn", difference, precision, difference)
    _, log_det = np.linalg.slogdet(precision)
    log_density = np.logaddexp.reduce(np.log(share)[:, None] + 0.5 * log_det[:, None] - 0.5 * distance, axis=0)
    before = np.maximum.accumulate(log_density)
    after = np.maximum.accumulate(log_density[::-1])[::-1]
    return float(np.exp(np.min(log_density - np.minimum(before, after))))
