"""Checks of the user's arrays, once, at the boundary: name, expected, actual."""

from __future__ import annotations

from math import prod
from numbers import Real
from typing import Any

import numpy as np

from hpsde.errors import InputError

LARGEST = 1e100
"""Numbers beyond this are refused: their squares would overflow, and infinities would come out as NaN."""
ROUNDING = 1e-12
"""Returns that differ by less than this share of the largest are equal."""


def as_numbers(name: str, values: Any) -> np.ndarray:
    """`values` as a float array, or an error that says what came."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"{array.dtype} does not hold real numbers")
        return array.astype(float)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be numbers; got {type(values).__name__}: {error}") from error


def check_rows(name: str, values: Any, size: int, rows: int | None = None) -> np.ndarray:
    """An array [rows, size] of finite numbers. With size 1 a flat array [rows] is taken as a column."""
    array = as_numbers(name, values)
    if array.ndim == 1 and size == 1:
        array = array[:, None]
    wanted = f"[{'N' if rows is None else rows}, {size}]"
    if array.ndim != 2 or array.shape[1] != size or (rows is not None and array.shape[0] != rows):
        raise InputError(f"{name} must have shape {wanted}; got {list(np.shape(values))}")
    bad = np.flatnonzero(~usable_numbers(array).all(axis=1))
    if len(bad):
        raise InputError(
            f"{name} must be finite, and at most {LARGEST:g} in size; row {bad[0]} is "
            f"{array[bad[0]].tolist()} ({len(bad)} such)"
        )
    return array


def check_shaped(name: str, values: Any, shape: tuple[int, ...], rows: int | None = None) -> np.ndarray:
    """Arrays [rows, *shape] of finite numbers, or [rows, size] with all numbers of one in a row, as such rows."""
    array, size = as_numbers(name, values), prod(shape)
    if len(shape) == 1:
        return check_rows(name, array, size, rows)
    if array.shape[1:] == shape:
        array = array.reshape(len(array), size)
    if array.ndim != 2 or array.shape[1] != size or (rows is not None and len(array) != rows):
        count = "N" if rows is None else str(rows)
        raise InputError(
            f"{name} must have shape [{', '.join([count, *map(str, shape)])}] or [{count}, {size}]; got "
            f"{list(np.shape(values))}"
        )
    wrong = ~usable_numbers(array)
    if wrong.any():
        bad = int(np.flatnonzero(wrong.any(axis=1))[0])
        place = [int(each) for each in np.unravel_index(int(np.argmax(wrong[bad])), shape)]
        raise InputError(
            f"{name} must be finite, and at most {LARGEST:g} in size; number {bad} has "
            f"{array[bad, np.argmax(wrong[bad])]} at {place} ({int(wrong.any(axis=1).sum())} such)"
        )
    return array


def check_returns(returns: Any, rows: int, failed: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns [rows], finite where not failed, NaN where failed; and the failed rollouts [rows]."""
    values = as_numbers("returns", returns)
    if values.shape != (rows,):
        raise InputError(f"returns must have shape [{rows}]; got {list(values.shape)}")
    lost = np.zeros(rows, dtype=bool) if failed is None else np.asarray(failed)
    if lost.shape != (rows,) or lost.dtype != bool:
        raise InputError(f"failed must be {rows} booleans; got shape {list(lost.shape)} of {lost.dtype}")
    bad = np.flatnonzero(~usable_numbers(values) & ~lost)
    if len(bad):
        raise InputError(
            f"returns must be finite, and at most {LARGEST:g} in size; number {bad[0]} is {values[bad[0]]} "
            f"({len(bad)} such). Mark a rollout that gave no return as failed: tell(..., failed=mask)"
        )
    return np.where(lost, np.nan, values), lost


def usable_numbers(array: np.ndarray) -> np.ndarray:
    """Where an array is neither NaN, nor infinite, nor so large that its square would be."""
    with np.errstate(invalid="ignore"):
        return np.abs(array) <= LARGEST


def check_count(name: str, value: Any, least: int) -> int:
    """A whole number of at least `least`, and below 2^63, as files and compiled functions hold it."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}")
    if value >= 2**63:
        raise InputError(f"{name} must be below 2^63; got a number of {int(value).bit_length()} bits")
    return int(value)


def check_tolerance(tolerance: float) -> float:
    """The share of the returns' variation that may be left to gain, or an error where it is none."""
    if isinstance(tolerance, bool) or not isinstance(tolerance, Real) or not 0.0 <= tolerance < 1.0:
        raise InputError(f"tolerance must be a number from 0 to below 1; got {tolerance!r}")
    return float(tolerance)
