"""What the next learning step needs of this one, also where `max_options` changes in between."""

from __future__ import annotations

import numpy as np

from hpsde.base.arrays import map_arrays
from hpsde.steps import climbers
from hpsde.steps.climbers import Climbs
from hpsde.steps.configuration import LatentSettings
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.judging import StepInfo
from hpsde.steps.landscape import Landscape
from hpsde.steps.latent import Latent
from hpsde.steps.numbering import Numbers
from hpsde.steps.rollouts import Data
from hpsde.steps.state import LONG, State
from hpsde.steps.surface import Start, Surface
from hpsde.steps.weights import ImportanceWeights


def remember(
    data: Data,
    importance: ImportanceWeights,
    found: Latent,
    policies: LinearGaussian,
    numbers: Numbers,
    climbs: Climbs,
    landscape: Landscape | None,
    surface: Surface | None,
    info: StepInfo,
    state: State,
    settings: LatentSettings,
) -> State:
    """The state after a step that started from `state`."""
    changed = numbers.born or numbers.died
    return State(
        surface=Start() if surface is None else surface.start,
        landscape=landscape,
        # Where solutions are sought in the landscape, T is that of the first rollouts that show one.
        temperature=None if landscape is None and settings.density.kind == "options" else importance.temperature,
        mixture=found.mixture,
        options=policies,
        kept=found.kept,
        distrusted=~data.mask[: data.rollouts],
        numbers=numbers.of_slots,
        next_number=state.next_number + len(numbers.born),
        found=found.found,
        searched=int(data.mask.sum()) if found.new else state.searched,
        settled=LONG if state.numbers is None else (0 if changed else state.settled + 1),
        quiet=info.quiet,
        climbs=climbs.places,
        climbing=climbers.owners(found, data, climbs),
        least=climbs.least,
    )


def with_slots(state: State, count: int) -> State:
    """The state for another number of slots of options, O_max. Options keep theirs where there are more; where there
    are fewer, all solutions are sought anew.
    """
    if state.numbers is None or len(state.numbers) == count or state.regions is not None:
        return state  # where regions climb, the next step gives them their slots
    searched = state._replace(searched=0, mixture=None)
    more = count - len(state.numbers)
    if more < 0 or state.found is None or state.options is None or state.kept is None:
        return searched._replace(found=None, options=None, kept=None)
    found, free = state.found, (0, more)
    return searched._replace(
        options=map_arrays(lambda part: np.concatenate([part, np.repeat(part[:1], more, axis=0)]), state.options),
        kept=np.pad(state.kept, free),
        numbers=np.pad(state.numbers, free),
        found=found._replace(
            kept=np.pad(found.kept, free),
            born=np.pad(found.born, free),
            died=np.pad(found.died, free),
            absent=np.pad(found.absent, free),
        ),
    )
