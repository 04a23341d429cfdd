"""The posterior, the evidence and K^-1 in the way that suits machine and size: by LAPACK, or on an accelerator."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpsde.base.arrays import as_numpy
from hpsde.base.devices import large_on, on_device
from hpsde.base.padding import pad_rows, padded_size
from hpsde.base.shapes import Array
from hpsde.base.with_jax import with_jax
from hpsde.gp.lapack import condition_by_lapack, log_evidence_by_lapack
from hpsde.gp.model import GP, Hyperparameters, centred


def posterior(hyperparameters: Hyperparameters, z: Any, y: Any, mask: Any, mean: float = 0.0, centre: Any = None) -> GP:
    """The process given y [N] at z [N, Z], of the rows in the mask [N]: by LAPACK, or where there is an accelerator and
    the points are many, compiled there.
    """
    if (device := large_on(len(mask))) is None:
        return condition_by_lapack(hyperparameters, z, y, mask, mean, centre)
    return _posterior_on(device, hyperparameters, z, y, mask, mean, centre)


@with_jax
def _posterior_on(
    device: Any, hyperparameters: Hyperparameters, z: Any, y: Any, mask: Any, mean: float, centre: Any
) -> GP:
    """The same on that device, of padded arrays; what comes back is on the CPU."""
    import jax.numpy as jnp

    from hpsde.gp.blocked import condition

    count, size = len(mask), padded_size(len(mask))
    with on_device(device):
        rows = (jnp.asarray(pad_rows(np.asarray(each), size)) for each in (z, y, mask))
        return _first_rows(as_numpy(condition(hyperparameters, *rows, mean, centre)), count)


def _first_rows(process: GP, count: int) -> GP:
    """A process without the rows after the first `count`, which are padding."""
    z, mask, beta = (each[:count] for each in (process.z, process.mask, process.beta))
    return process._replace(z=z, mask=mask, beta=beta, K_inverse=process.K_inverse[:count, :count])


def log_evidence(hyperparameters: Hyperparameters, z: Any, y: Any, mask: Any) -> float:
    """log p(y) at points z [N, Z] in the mask [N], of a process with mean 0; -inf where it has none."""
    z, y, mask = np.asarray(z, dtype=float), np.asarray(y, dtype=float), np.asarray(mask, dtype=bool)
    if (device := large_on(len(mask))) is None:
        value = log_evidence_by_lapack(hyperparameters, z[mask] - np.mean(z[mask], axis=0), y[mask])
    else:
        value = _log_evidence_on(device, hyperparameters, z, y, mask)
    return -np.inf if np.isnan(value) else value


@with_jax
def _log_evidence_on(
    device: Any, hyperparameters: Hyperparameters, z: np.ndarray, y: np.ndarray, mask: np.ndarray
) -> float:
    from hpsde.gp.likelihood import log_evidence as compiled

    size = padded_size(len(mask))
    given = centred(z, mask)[0], np.where(mask, y, 0.0), mask
    with on_device(device):
        return float(compiled(hyperparameters, *(pad_rows(each, size) for each in given)))


def with_inverse(process: GP, y: Array) -> GP:
    """A process that was stored without its K^-1, given the y [N] it was conditioned on: the same bits again."""
    here = np.zeros(process.z.shape[1])  # its points have been centred already
    again = posterior(process.hyperparameters, process.z, y, process.mask, float(process.mean), here)
    return process._replace(K_inverse=again.K_inverse)
