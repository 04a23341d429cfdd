"""The Gaussian process of the gating policy: returns regressed on z = [xi, s], and moments under an option.

    hyperparameters, info = fit_hyperparameters(z, y, mask)
    gp = condition(hyperparameters, z, y, mask, mean)
    moments = option_moments(gp, mean_parameters, covariance, contexts)

The parts live in gp_kernel, gp_model (posterior, prediction), gp_moments, gp_likelihood and gp_fit (hyper-parameters),
and gp_lapack (likelihood and posterior on a CPU, without compilation).
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from hpsde.base.shapes import Array
from hpsde.gp.fit import (
    DEFAULT_BOUNDS,
    WEAK_PRIOR,
    Bounds,
    FitInfo,
    Prior,
    choose_points,
    fit_hyperparameters,
    fitting_subset,
    spread_subset,
)
from hpsde.gp.lapack import condition_by_lapack, log_evidence_by_lapack
from hpsde.gp.likelihood import log_evidence as _log_evidence
from hpsde.gp.model import (
    GP,
    JITTER,
    KERNELS,
    Hyperparameters,
    MaternHyperparameters,
    centred,
    condition,
    predict,
    predict_gradient,
    predict_mean,
    with_kernel,
)
from hpsde.gp.moments import OptionMoments, mean_under, option_moments

__all__ = [
    "DEFAULT_BOUNDS",
    "GP",
    "JITTER",
    "KERNELS",
    "WEAK_PRIOR",
    "Bounds",
    "FitInfo",
    "Hyperparameters",
    "MaternHyperparameters",
    "OptionMoments",
    "Prior",
    "choose_points",
    "condition",
    "condition_by_lapack",
    "fit_hyperparameters",
    "fitting_subset",
    "log_evidence",
    "mean_under",
    "option_moments",
    "posterior",
    "predict",
    "predict_gradient",
    "predict_mean",
    "spread_subset",
    "with_inverse",
    "with_kernel",
]


def posterior(hyperparameters: Hyperparameters, z: Any, y: Any, mask: Any, mean: float = 0.0, centre: Any = None) -> GP:
    """As `condition`, the way that suits the machine: by LAPACK on a CPU, compiled elsewhere."""
    method = condition_by_lapack if jax.default_backend() == "cpu" else condition
    return method(hyperparameters, z, y, mask, mean, centre)


def log_evidence(hyperparameters: Hyperparameters, z: Any, y: Any, mask: Any) -> float:
    """log p(y) at points z [N, Z] in the mask [N], of a process with mean 0; -inf where it has none."""
    z, y, mask = np.asarray(z, dtype=float), np.asarray(y, dtype=float), np.asarray(mask, dtype=bool)
    if jax.default_backend() == "cpu":
        value = log_evidence_by_lapack(hyperparameters, z[mask] - np.mean(z[mask], axis=0), y[mask])
    else:
        value = float(_log_evidence(hyperparameters, centred(z, mask)[0], np.where(mask, y, 0.0), mask))
    return -np.inf if np.isnan(value) else value


def with_inverse(process: GP, y: Array) -> GP:
    """A process that was stored without its K^-1, given the y [N] it was conditioned on: the same bits again."""
    here = np.zeros(process.z.shape[1])  # its points have been centred already
    again = posterior(process.hyperparameters, process.z, y, process.mask, float(process.mean), here)
    return process._replace(K_inverse=again.K_inverse)
