"""Hard bounds of the parameters: what is proposed never leaves them.

An option policy is a Gaussian that is cut off at the bounds (gaussian.py); here are the bounds themselves, and an
initial policy that keeps them.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np

from hpsde.base.draws import fold_in, make_key, split, with_key
from hpsde.base.shapes import Array
from hpsde.errors import InputError
from hpsde.steps.initial import InitialPolicy

FROM_INITIAL, NONE = "initial", "none"
ROUNDS = 100  # of drawing what lay outside again
DRAWS = 4096  # by which the share of the initial policy within the bounds is known

Limits = tuple[np.ndarray, np.ndarray]


def make_bounds(bounds: Any, initial: Any, size: int) -> Limits | None:
    """Lowest and highest parameters [D], those given as (low, high), or "initial": those of the initial distribution or
    of a task that is `bounded`.

    None where there are none. Infinity is a side without a bound. In words: "[low, high]" and "none".
    """
    bounds = read_bounds(bounds) if isinstance(bounds, str) else bounds
    if isinstance(bounds, str):
        is_task = hasattr(initial, "sample_initial")
        hard = not is_task or getattr(initial, "bounded", False)
        bounds = getattr(initial, "parameter_bounds" if is_task else "bounds", None) if hard else None
    if bounds is None:
        return None
    try:
        low, high = (np.broadcast_to(np.asarray(each, dtype=float), size).copy() for each in bounds)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"bounds must be (low, high), each a number or {size} numbers, one for each parameter; got {bounds!r}"
        ) from error
    if not np.all(low < high):  # NaN is not less
        raise InputError(
            f"bounds: every low must be less than its high; got low {low.tolist()} and high {high.tolist()}"
        )
    return None if np.all(np.isinf(low) & np.isinf(high)) else (low, high)


def are_initial(bounds: Any) -> bool:
    """Whether nothing else is said than that they are those of the initial policy."""
    return isinstance(bounds, str) and bounds == FROM_INITIAL


def read_bounds(text: str) -> Any:
    """What words say: "initial", None for "none", or the pair in "[low, high]"."""
    if text == FROM_INITIAL:
        return text
    if text == NONE:
        return None
    try:
        if isinstance(pair := json.loads(text), list):
            return pair
    except (ValueError, RecursionError):
        pass
    raise InputError(
        f'bounds: expected "[low, high]", such as "[0, 90]" or "[[0, -1], [90, 1]]", "{FROM_INITIAL}" or "{NONE}"; '
        f"got {text[:80]!r}"
    )


def bounds_text(bounds: Any) -> str:
    """The words that `read_bounds` reads as these bounds, to the last bit."""
    if bounds is None or isinstance(bounds, str):
        return bounds or NONE
    try:
        return json.dumps([np.asarray(each, dtype=float).tolist() for each in bounds])
    except (TypeError, ValueError) as error:
        raise InputError(f"bounds: expected (low, high), numbers for each; got {bounds!r:.80}") from error


class Within:
    """An initial policy that keeps the bounds: what lies outside is drawn again.

    Its density is that of the policy divided by the share of it that lies within, which DRAWS draws tell. What was done
    outside has the density of the nearest parameters within.
    """

    def __init__(self, initial: InitialPolicy, bounds: Limits):
        self.initial, self.bounds = initial, bounds

    def sample(self, key: Array, contexts: np.ndarray) -> np.ndarray:
        parameters = np.array(self.initial.sample(key, contexts))
        for _ in range(ROUNDS):
            outside = np.flatnonzero(self._outside(parameters))
            if not len(outside):
                return parameters
            key = fold_in(key, 1)
            parameters[outside] = self.initial.sample(key, contexts[outside])
        low, high = (each.tolist() for each in self.bounds)
        raise InputError(
            f"bounds: the initial policy hardly ever keeps them; {len(outside)} of {len(parameters)} parameters, drawn "
            f"{ROUNDS} times, such as {parameters[outside[0]].tolist()}, lie outside {low} to {high}"
        )

    def log_density(self, contexts: np.ndarray, parameters: np.ndarray) -> np.ndarray | None:
        known = self.initial.log_density(contexts, np.clip(parameters, *self.bounds))
        return None if known is None else known - self._log_share

    def _outside(self, parameters: np.ndarray) -> np.ndarray:
        low, high = self.bounds
        return np.any((parameters < low) | (parameters > high), axis=1)

    @cached_property
    def _log_share(self) -> float:
        key_contexts, key = split(make_key(0))
        task: Any = getattr(self.initial, "task", None)
        contexts = np.zeros((DRAWS, 0))
        if task is not None:
            if not hasattr(task, "sample_contexts"):  # it knows no contexts to draw parameters in
                return 0.0
            contexts = np.array(with_key(task.sample_contexts, key_contexts, DRAWS), dtype=float)
        inside = np.mean(~self._outside(self.initial.sample(key, contexts)))
        return float(np.log(max(inside, 1.0 / DRAWS)))
