"""The posterior, the evidence and K^-1 in the way that suits machine and size: by LAPACK, or on an accelerator."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from hpsde.base.devices import large_on, on_device
from hpsde.base.shapes import Array
from hpsde.gp.blocked import condition
from hpsde.gp.lapack import condition_by_lapack, log_evidence_by_lapack
from hpsde.gp.likelihood import log_evidence as _log_evidence
from hpsde.gp.model import GP, Hyperparameters, centred


def posterior(hyperparameters: Hyperparameters, z: Any, y: Any, mask: Any, mean: float = 0.0, centre: Any = None) -> GP:
    """As `condition`: by LAPACK, or where there is an accelerator and the points are many, compiled there."""
    if (device := large_on(len(mask))) is None:
        return condition_by_lapack(hyperparameters, z, y, mask, mean, centre)
    with on_device(device):
        return condition(hyperparameters, *(jnp.asarray(each) for each in (z, y, mask)), mean, centre)


def log_evidence(hyperparameters: Hyperparameters, z: Any, y: Any, mask: Any) -> float:
    """log p(y) at points z [N, Z] in the mask [N], of a process with mean 0; -inf where it has none."""
    z, y, mask = np.asarray(z, dtype=float), np.asarray(y, dtype=float), np.asarray(mask, dtype=bool)
    if (device := large_on(len(mask))) is None:
        value = log_evidence_by_lapack(hyperparameters, z[mask] - np.mean(z[mask], axis=0), y[mask])
    else:
        with on_device(device):
            value = float(_log_evidence(hyperparameters, centred(z, mask)[0], np.where(mask, y, 0.0), mask))
    return -np.inf if np.isnan(value) else value


def with_inverse(process: GP, y: Array) -> GP:
    """A process that was stored without its K^-1, given the y [N] it was conditioned on: the same bits again."""
    here = np.zeros(process.z.shape[1])  # its points have been centred already
    again = posterior(process.hyperparameters, process.z, y, process.mask, float(process.mean), here)
    return process._replace(K_inverse=again.K_inverse)
