"""When to search for solutions, and by which density estimation (latent.py)."""

from __future__ import annotations

import numpy as np

from hpsde.base.shapes import Array
from hpsde.steps import authors, discovery, latent
from hpsde.steps.configuration import LatentSettings
from hpsde.steps.discovery import Found
from hpsde.steps.landscape import Landscape
from hpsde.steps.latent import Latent, Shown
from hpsde.steps.rollouts import Data
from hpsde.steps.state import State
from hpsde.steps.weights import ImportanceWeights

SEARCH_GROWTH = 1.1  # of the number of rollouts before solutions are sought again


def find_options(
    key: Array,
    data: Data,
    landscape: Landscape | None,
    shown: Shown | None,
    importance: ImportanceWeights,
    state: State,
    settings: LatentSettings,
) -> Latent:
    """p(o | s_i, xi_i) by the chosen density estimation; where nothing is known, one option has all rollouts."""
    again = int(data.mask.sum()) >= state.searched + authors.CLUSTERING
    if settings.density.kind == "authors" and not again and state.options is not None and state.kept is not None:
        return latent.by_policies(data, state.options, state.kept, state.mixture)
    if settings.density.kind != "options":
        return latent.estimate_density(key, data, importance, state.mixture, settings)
    if landscape is None or shown is None:
        return latent.nothing_known(data, settings)
    fresh, found = landscape is not state.landscape, state.found
    if found is not None and np.isfinite(state.least):
        # Hills are climbed: births and deaths are theirs, and what the landscape shows is asked for now and then.
        fresh, nobody = False, np.zeros_like(found.born)
        found = found._replace(born=nobody, died=nobody, absent=np.zeros_like(found.absent))
    if found is not None and not fresh and not is_due(data, found, state.searched):
        return latent.as_found(data, found)
    last = None
    if state.found is not None and state.options is not None and state.kept is not None:
        last = discovery.Last(state.options, state.kept, state.found.absent)
    return latent.find_solutions(key, data, landscape, shown, fresh, importance, last, settings)


def is_due(data: Data, found: Found, searched: int) -> bool:
    """Whether to search for solutions again: there are more rollouts, or the last search changed something."""
    return bool(np.any(found.born | found.died | found.absent)) or int(data.mask.sum()) >= SEARCH_GROWTH * searched
