"""How well the surface explains the returns it was fitted to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde import gp
from hpsde.steps.surface import Surface

MORE = 5.0  # nats


class Residuals(NamedTuple):
    """What the process misses of the rollouts `rows` [n] of the surface, each predicted from all others: a residual is
    beta / precision, its variance 1 / precision.
    """

    scores: np.ndarray
    beta: np.ndarray
    precision: np.ndarray


def residuals(found: Surface) -> Residuals:
    """Those of a surface."""
    if found.sparse is not None:
        missed = found.sparse.missed
        return Residuals(found.sparse.scores, missed.beta, missed.precision)
    n, process = len(found.rows), found.process
    precision = np.diagonal(np.asarray(process.K_inverse))[:n]
    return Residuals(np.asarray(found.scores)[:n], np.asarray(process.beta)[:n], precision)


def fitted_scores(found: Surface) -> np.ndarray:
    """The mean of the process at the rollouts `rows` [n] of the surface: y - (noise^2 + jitter) beta, and by the noise
    that a sparse process adds; log odds by p = y - beta.
    """
    y, beta, _ = residuals(found)
    if found.binary:
        p = np.clip(y - beta, 1e-12, 1.0 - 1e-12)
        return np.log(p) - np.log1p(-p)
    if found.sparse is not None:
        return y - found.sparse.missed.noise * beta
    known = found.process.hyperparameters
    noise = np.exp(2.0 * float(known.log_noise)) + gp.JITTER * np.exp(2.0 * float(known.log_signal))
    return y - noise * beta


def explained(found: Surface) -> float:
    """R^2 of the returns' scores, each predicted from all others: 1 - sum (beta_i / (K^-1)_ii)^2 / sum y_i^2.

    For success or failure it is the share of the deviance that the odds explain.
    """
    if not found.binary:
        known = residuals(found)
        return _share(known.beta, known.precision, known.scores)
    mask = np.asarray(found.process.mask)
    y, beta = np.asarray(found.scores)[mask], np.asarray(found.process.beta)[mask]
    p, rate = np.clip(y - beta, 1e-12, 1.0 - 1e-12), np.clip(y.mean(), 1e-12, 1.0 - 1e-12)
    deviance, nothing = (-np.sum(np.log(np.where(y > 0.5, each, 1.0 - each))) for each in (p, rate))
    return float(1.0 - deviance / max(nothing, 1e-12))


def left_out_share(process: gp.GP, y: np.ndarray, points: np.ndarray) -> float:
    """R^2 of some of the points of a process, whose scores are y, each predicted from all others."""
    return _share(np.asarray(process.beta)[points], np.diagonal(np.asarray(process.K_inverse))[points], y)


def _share(beta: np.ndarray, precision: np.ndarray, y: np.ndarray) -> float:
    residual = beta / np.maximum(precision, 1e-300)
    return float(1.0 - np.mean(residual**2) / max(float(np.var(y)), 1e-300))


def _fitted_to(found: Surface) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points [N, E], scores [N] and mask [N] that evidence is about: of a sparse process those of its fit."""
    if found.sparse is not None:
        return found.sparse.z, found.sparse.y, np.ones(len(found.sparse.y), dtype=bool)
    return np.asarray(found.process.z), np.asarray(found.scores), np.asarray(found.process.mask)


def evidence(found: Surface) -> float:
    """log p of the returns for each rollout, in units that do not depend on the scores' own."""
    points, scores, known = _fitted_to(found)
    value = gp.log_evidence(found.process.hyperparameters, points, scores, known)
    return value / known.sum() - float(np.log(found.unit))


def explains(found: Surface) -> bool:
    """Whether the process explains more than noise: by MORE nats and one for each of its numbers, and where rollouts
    were left out, some of their variance.
    """
    if found.binary:
        return True
    points, given, known = _fitted_to(found)
    y = given[known]
    if y.std() < 1e-9:  # equal returns
        return False
    y = (y - y.mean()) / y.std()
    hyperparameters = found.process.hyperparameters
    scores = np.zeros(len(known))
    scores[known] = y
    value = gp.log_evidence(hyperparameters, points, scores, known)
    nothing = -0.5 * known.sum() * (1.0 + np.log(2.0 * np.pi))
    numbers = len(hyperparameters.log_lengths) + 2
    predicts = found.start.held_out is None or found.start.held_out > 0.0
    return bool(value - nothing > MORE + numbers) and predicts
