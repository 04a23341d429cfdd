"""Numbers of the options, from their birth to their death."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde.steps.latent import Latent
from hpsde.steps.state import State


class Numbers(NamedTuple):
    """The number of each slot's option [O] (0: none), and the numbers of the options that were born and that died."""

    of_slots: np.ndarray
    born: tuple[int, ...]
    died: tuple[int, ...]


def number_options(found: Latent, state: State) -> Numbers:
    """The options' numbers.

    A slot keeps its number as long as its option is the same; joint Gaussians have no memory but their slot. Where
    there are other slots than before, all options are new.
    """
    kept = found.kept
    before = np.zeros(len(kept), dtype=int) if state.numbers is None else state.numbers
    if len(before) != len(kept):
        numbers = np.where(kept, state.next_number + np.cumsum(kept) - 1, 0)
        return Numbers(numbers, tuple(numbers[kept].tolist()), tuple(before[before > 0].tolist()))
    new = kept & (before == 0)
    if found.found is not None and found.new:
        new |= found.found.born & kept
    numbers = np.where(kept, before, 0)
    numbers[new] = state.next_number + np.arange(new.sum())
    died = before[(before > 0) & ~np.isin(before, numbers)]
    return Numbers(numbers, tuple(numbers[new].tolist()), tuple(died.tolist()))
