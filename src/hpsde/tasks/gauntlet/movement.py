"""What all movements of the gauntlet have in common: their returns have no noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpsde.base.draws import make_key
from hpsde.base.shapes import Float
from hpsde.tasks.task import Task

__all__ = ["MovementTask"]

BLIND_ROLLOUTS = 10_000
_BLIND_KEY = 141_421_356


class MovementTask:
    """Adds the true returns and the blind return to a task whose returns have no noise."""

    def true_returns(self: Task, contexts: Any, parameters: Any) -> Float[np.ndarray, " N"]:
        """The returns, which have no noise."""
        return np.asarray(self.evaluate(contexts, parameters))

    def blind_return(self: Task) -> float:
        """Mean return of the initial policy over the evaluation contexts (Monte Carlo, fixed seed)."""
        contexts = np.asarray(self.evaluation_contexts())
        rows = np.repeat(contexts, -(-BLIND_ROLLOUTS // len(contexts)), axis=0)
        return float(np.mean(self.evaluate(rows, self.sample_initial(make_key(_BLIND_KEY), rows))))
