"""Contextual REPS with one Gaussian policy: HiREPS that has a single option, and so averages over the solutions."""

from __future__ import annotations

from typing import Any

from hpsde.learners.hireps import HiREPS


class CREPS(HiREPS):
    """Contextual relative entropy policy search, by ask and tell: `HiREPS` with one option, whatever `max_options`."""

    def __init__(self, context_size: int | tuple[int, ...], parameter_size: int, **arguments: Any):
        super().__init__(context_size, parameter_size, **(arguments | {"max_options": 1, "min_options": 1}))
