"""The posterior, the evidence and K^-1 in the way that suits the machine: by LAPACK on a CPU, compiled elsewhere."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from hpsde.base.shapes import Array
from hpsde.gp.lapack import condition_by_lapack, log_evidence_by_lapack
from hpsde.gp.likelihood import log_evidence as _log_evidence
from hpsde.gp.model import GP, Hyperparameters, centred, condition


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
