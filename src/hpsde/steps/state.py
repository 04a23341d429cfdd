"""What one learning step hands to the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde.mixture.model import Mixture
from hpsde.steps import surface
from hpsde.steps.discovery import Found
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.landscape import Landscape
from hpsde.steps.region_state import Regions

LONG = 1000  # learning steps since nothing has changed: at first


class State(NamedTuple):
    """Where the next learning step starts from: what was found at first, and the options."""

    surface: surface.Start = surface.Start()
    landscape: Landscape | None = None
    temperature: float | None = None  # T of f, from the first rollouts
    mixture: Mixture | None = None  # of joint Gaussians
    options: LinearGaussian | None = None
    kept: np.ndarray | None = None
    distrusted: np.ndarray = np.zeros(0, dtype=bool)  # [N] rollouts whose returns are far too high
    numbers: np.ndarray | None = None  # [O] what each slot's option is called; 0: it has none
    next_number: int = 1
    found: Found | None = None  # by the last search for solutions,
    searched: int = 0  # and how many rollouts there were
    settled: int = LONG  # learning steps since the number of options last changed
    quiet: int = 0  # rollouts since all options are narrow and none was born or died
    climbs: np.ndarray = np.zeros((0, 0))  # [n, D] rollouts that climbs ask for next (steps/climbing.py),
    climbing: np.ndarray = np.zeros(0, dtype=int)  # and the slot of the option whose hill it is [n]; -1: nobody's
    least: float = float("nan")  # return that a solution must have; NaN: hills are not climbed
    regions: Regions | None = None  # where options are sought by them (steps/tops.py),
    holders: np.ndarray = np.zeros(0, dtype=int)  # and the region of each slot's option [O]
