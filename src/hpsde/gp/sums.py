"""The sums of a sparse process (sparse.py) over many points, on an accelerator."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hpsde.base.devices import on_device
from hpsde.base.padding import pad_rows
from hpsde.base.shapes import Array, Float, Int
from hpsde.base.with_jax import with_jax
from hpsde.gp.kernel import JITTER, Kernel, correlation
from hpsde.gp.model import squared_distances
from hpsde.gp.sparse import SparseKernel, parts_of

ON_DEVICE = 65_536  # points at once


@with_jax
def sums_on(
    device: Any, kernel: SparseKernel, L_inverse: np.ndarray, points: np.ndarray, z: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same on an accelerator, in larger blocks; points of the last one that are none have a false mask."""
    with on_device(device):
        given = jnp.asarray(L_inverse), jnp.asarray(points)
        A, b = jnp.zeros(L_inverse.shape), jnp.zeros(len(points))
        for part in parts_of(len(z), ON_DEVICE):
            count = len(y[part])
            rows = (jnp.asarray(pad_rows(each, ON_DEVICE)) for each in (kernel.scaled(z[part]), y[part]))
            more = _block_sums(kernel.kind, kernel.signal_variance, kernel.noise_variance, *given, *rows, count)
            A, b = A + more[0], b + more[1]
        return np.array(A), np.array(b)


@functools.partial(jax.jit, static_argnums=0)
def _block_sums(
    kind: Kernel,
    signal_variance: Float[Array, ""] | float,
    noise_variance: Float[Array, ""] | float,
    L_inverse: Float[Array, "M M"],
    points: Float[Array, "M Z"],
    at: Float[Array, "N Z"],
    y: Float[Array, " N"],
    count: Int[Array, ""] | int,
) -> tuple[Float[Array, "M M"], Float[Array, " M"]]:
    """A and b of the first `count` of a block of scaled points."""
    jitter = JITTER * signal_variance
    v = signal_variance * correlation(kind, squared_distances(at, points)) @ L_inverse.T
    left = jnp.maximum(signal_variance + jitter - jnp.sum(v**2, axis=1), jitter)
    root = jnp.where(jnp.arange(len(y)) < count, 1.0 / jnp.sqrt(noise_variance + left), 0.0)
    v = v * root[:, None]
    return v.T @ v, v.T @ (y * root)
