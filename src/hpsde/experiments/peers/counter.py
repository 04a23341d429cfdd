"""Evaluations, counted: nobody gets more than the budget, whatever a library does inside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hpsde.errors import HpsdeError

Returns = Callable[..., np.ndarray]
"""Arrays with one row for each evaluation, the parameters [N, D] last -> returns [N]."""


class BudgetSpentError(HpsdeError):
    """More evaluations were asked for than are left."""


class Counter:
    """A return function that counts its evaluations, and refuses those beyond the budget.

    A batch that does not fit as a whole is refused as a whole: none of it is evaluated or counted.
    """

    def __init__(self, returns: Returns, budget: int) -> None:
        self._returns = returns
        self.budget = budget
        self.used = 0

    @property
    def left(self) -> int:
        """How many evaluations there are still."""
        return self.budget - self.used

    def __call__(self, *rows: np.ndarray) -> np.ndarray:
        """The returns [N] of N rows."""
        n = len(rows[-1])
        if n > self.left:
            raise BudgetSpentError(f"evaluations: expected at most {self.left} more of {self.budget}, got {n}")
        self.used += n
        return np.asarray(self._returns(*rows), dtype=float)
