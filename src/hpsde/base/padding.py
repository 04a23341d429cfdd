"""Few array sizes for a growing data set, so that compiled functions are compiled few times."""

from __future__ import annotations

import numpy as np

BLOCK = 64


def padded_size(n: int, expected: int = 0) -> int:
    """The smallest of 64, 96, 128, 192, 256, 384, ... (2^k and 3 * 2^(k-1)) that holds `n`.

    Where `expected` rows are expected in the end, it is their number rounded up to a multiple of 64, until more come.
    """
    if expected > 0 and n <= expected:
        return BLOCK * -(-expected // BLOCK)
    size = BLOCK
    while size < n:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size


def pad_rows(array: np.ndarray, size: int, fill: float = 0.0) -> np.ndarray:
    """`array` with rows of `fill` added until it has `size` rows."""
    missing = size - array.shape[0]
    if missing <= 0:
        return array
    tail = np.full((missing, *array.shape[1:]), fill, dtype=array.dtype)
    return np.concatenate([array, tail])
