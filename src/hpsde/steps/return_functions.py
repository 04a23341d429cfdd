"""f(R), by which a rollout's return becomes its weight (paper, "Return-Weighted Density Estimation").

A new one is a class with `log`, and is known by its name from then on. f(R) = exp(log(R) / T): the temperature T is
found from the first rollouts, where neither the settings nor f itself name one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hpsde.base.groups import Strategy
from hpsde.errors import InputError


@dataclass(frozen=True)
class ReturnFunction(Strategy, family="return function"):
    """f(R) of the importance weights.

    temperature: T where the settings name none; None: found. baseline: R counts against V(s), what returns are in its
    context. in_returns: T is in units of the returns.
    """

    temperature: ClassVar[float | None] = None
    baseline: ClassVar[bool] = False
    in_returns: ClassVar[bool] = False

    def log(self, returns: np.ndarray) -> np.ndarray:
        """T log f(R) [N] of returns [N]; -inf where f is 0."""
        raise NotImplementedError

    def of(self, value: Any) -> Any:
        """A function of returns [N] is an f, too."""
        return OwnFunction(value) if callable(value) and not isinstance(value, type) else super().of(value)


class Advantage(ReturnFunction, name="advantage"):
    """exp((R - V(s)) / T)."""

    baseline = True
    in_returns = True

    def log(self, returns: np.ndarray) -> np.ndarray:
        """R."""
        return returns


class Exponential(ReturnFunction, name="exp"):
    """exp(R / T), the paper's."""

    in_returns = True

    def log(self, returns: np.ndarray) -> np.ndarray:
        """R."""
        return returns


class Proportional(ReturnFunction, name="linear"):
    """R itself, where all are positive."""

    temperature = 1.0

    def log(self, returns: np.ndarray) -> np.ndarray:
        """log R."""
        if not np.all(returns > 0.0):
            raise InputError(f'f="linear" needs returns > 0; the smallest is {returns.min()}')
        return np.log(returns)


class Ranked(ReturnFunction, name="rank"):
    """exp(rank / T): the order of the returns alone counts."""

    def log(self, returns: np.ndarray) -> np.ndarray:
        """The rank as a share: 1 for the best."""
        from scipy.stats import rankdata  # slow to load

        return rankdata(returns) / len(returns)


@dataclass(frozen=True)
class OwnFunction(ReturnFunction, name="function", listed=False):
    """A function of the user's: returns [N] -> f(R) [N], not negative."""

    function: Callable[[np.ndarray], np.ndarray] | None = None
    temperature = 1.0

    def log(self, returns: np.ndarray) -> np.ndarray:
        """log f(R)."""
        if self.function is None:
            raise InputError("f: expected a function of the returns itself, not its name alone")
        values = np.asarray(self.function(returns), dtype=float)
        if values.shape != returns.shape or not np.all(values >= 0.0) or not np.any(values > 0.0):
            raise InputError(
                "the return function f must give one non-negative number per return, not all zero; "
                f"got shape {values.shape} for {returns.shape}, smallest value {np.min(values, initial=0.0)}"
            )
        with np.errstate(divide="ignore"):
            return np.log(values)


def log_return_function(f: ReturnFunction, returns: np.ndarray) -> np.ndarray:
    """T log f(R) [N], checked: below infinity, and finite for one return at least."""
    values = np.asarray(f.log(returns), dtype=float)
    if values.shape != returns.shape or not np.all(values < np.inf) or not np.any(np.isfinite(values)):
        raise InputError(
            f"the return function {f.name!r} must give one number below infinity per return, not all -inf; "
            f"got shape {values.shape} for {returns.shape}, largest value {np.max(values, initial=-np.inf)}"
        )
    return values
