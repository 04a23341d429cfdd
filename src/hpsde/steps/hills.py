"""Climbs, where there is no context (climbing.py, climbers.py); where there are none, an option stays as it is."""

from __future__ import annotations

import numpy as np

from hpsde.steps import climbers, gaussian
from hpsde.steps.climbers import Climbs
from hpsde.steps.climbing import Seen
from hpsde.steps.configuration import ClimbingSettings
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.landscape import Landscape
from hpsde.steps.latent import Latent
from hpsde.steps.rollouts import Data
from hpsde.steps.state import State
from hpsde.steps.weighing import return_temperature
from hpsde.steps.weights import ImportanceWeights


def climb(
    data: Data,
    importance: ImportanceWeights,
    landscape: Landscape | None,
    settings: ClimbingSettings,
    looks: dict[bytes, Seen],
) -> Climbs:
    """The climbs, where options are refined and returns are more than success or failure; or none.

    looks: what climbs have computed before; what they compute now is added.
    """
    climbs = None
    if (
        settings.options.refine
        and settings.density.kind == "options"
        and not (landscape is not None and landscape.binary)
    ):
        climbs = climbers.survey(data, return_temperature(data, importance, settings), looks)
    nothing = np.zeros(0, dtype=int)
    none, places = np.zeros(0), np.zeros((0, data.parameters.shape[1]))
    return climbs or Climbs(nothing, nothing > 0, none, none, places, nothing, np.nan)


def hold(found: Latent, data: Data, climbs: Climbs, state: State) -> Latent:
    """The options with one for every known hill, as far as there are slots."""
    return climbers.hold(found, data, climbs, state.kept, option_places(data, state)) if len(climbs.rows) else found


def on_tops(policies: LinearGaussian, data: Data, found: Latent, climbs: Climbs) -> LinearGaussian:
    """The options on the tops of their hills."""
    return climbers.on_tops(policies, data, found, climbs) if len(climbs.rows) else policies


def option_places(data: Data, state: State) -> np.ndarray:
    """Where the last options are, in the one context there is [O, D]."""
    if state.options is None:
        return np.zeros((0, data.parameters.shape[1]))
    return gaussian.means(state.options, data.features[:1])[:, 0]
