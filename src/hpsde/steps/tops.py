"""Options on the tops that regions have found (regions.py): what a learning step is where options are sought by them.

Nothing is modelled but the return beside each region, and nothing is weighed. An option stands on the best rollout of a
region whose top is known to be apart from all higher ones, and the gate takes the one with the highest return: all of
it is measured. While no top is known there is one option, on the best rollout of all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpsde.steps import climbing, gaussian, region_ways, regions
from hpsde.steps.climbing import REPEATED
from hpsde.steps.configuration import LatentSettings
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.judging import StepInfo
from hpsde.steps.numbering import Numbers
from hpsde.steps.region_state import NOBODY, Regions, Terrain, are_busy
from hpsde.steps.regions import SMALLEST
from hpsde.steps.rollouts import Data
from hpsde.steps.softmax import SoftmaxGate
from hpsde.steps.state import LONG, State

FREE = -2  # the holder of a slot without an option; NOBODY: the best rollout is no region's
BEHIND = -50.0  # what the gate thinks of a slot without an option


class Held(NamedTuple):
    """The rows of the options' rollouts [O], the region of each [O] (FREE: there is no option), and their numbers.

    known: how many tops are known to be apart.
    """

    rows: np.ndarray
    holders: np.ndarray
    numbers: Numbers
    known: int

    @property
    def kept(self) -> np.ndarray:
        """Which slots have an option [O]."""
        return self.holders != FREE


def are_sought(data: Data, settings: LatentSettings) -> bool:
    """Whether options are sought by regions: they are asked for, and returns are neither noisy nor only two.

    Noise shows where a rollout was repeated (`repeats`).
    """
    y = data.advantages[data.mask]
    if settings.density.kind != "regions" or data.contexts.shape[1] or len(np.unique(y)) <= 2:
        return False
    _, differ = climbing.repeats(np.round(data.parameters[data.mask], 9), y)
    return differ <= REPEATED * terrain_of(data).scale


def terrain_of(data: Data) -> Terrain:
    """The rollouts and the bounds, as regions see them."""
    x, y = data.parameters[data.mask], data.advantages[data.mask]
    first = data.initial[data.mask]
    low, high = data.limits or (np.full(x.shape[1], -np.inf), np.full(x.shape[1], np.inf))
    return Terrain(x, y, float(np.median(y[first] if first.any() else y)), low, high)


def climb(ground: Terrain, state: State) -> Regions:
    """The regions after these rollouts; the first rollouts that they ask for repeat others, to show noise."""
    found = regions.advance(ground, state.regions)
    again, _ = climbing.repeats(np.round(ground.x, 9), ground.y)
    return found._replace(
        asked=np.concatenate([ground.x[again], found.asked]),
        asked_of=np.concatenate([np.full(len(again), NOBODY), found.asked_of]),
    )


def hold(ground: Terrain, found: Regions, state: State, count: int) -> Held:
    """The options, at most `count`, the highest tops first; a region keeps the slot that it had."""
    rows, who = region_ways.apart(ground, found)
    known = len(rows)
    if not known:
        rows = np.array([np.argmax(ground.y)])
        who = np.maximum(found.owner[rows], NOBODY)
    rows, who = rows[:count], who[:count]
    before = _resized(state.holders, count, FREE)
    numbers = _resized(np.zeros(0, dtype=int) if state.numbers is None else state.numbers, count, 0)
    holders, at = np.full(count, FREE), np.zeros(count, dtype=int)
    stay = np.isin(who, before)
    for row, region in zip(rows[stay], who[stay], strict=True):
        slot = int(np.flatnonzero(before == region)[0])
        holders[slot], at[slot] = region, row
    for row, region in zip(rows[~stay], who[~stay], strict=True):
        slot = int(np.flatnonzero(holders == FREE)[0])
        holders[slot], at[slot] = region, row
    return Held(at, holders, _numbered(holders, before, numbers, state), known)


def _resized(values: np.ndarray, count: int, filled: int) -> np.ndarray:
    return np.concatenate([values[:count], np.full(max(count - len(values), 0), filled)]).astype(int)


def _numbered(holders: np.ndarray, before: np.ndarray, numbers: np.ndarray, state: State) -> Numbers:
    """An option keeps its number as long as its region holds it."""
    kept = holders != FREE
    new = kept & ((holders != before) | (numbers == 0))
    of_slots = np.where(kept, numbers, 0)
    of_slots[new] = state.next_number + np.arange(new.sum())
    had = np.zeros(0, dtype=int) if state.numbers is None else state.numbers
    died = had[(had > 0) & ~np.isin(had, of_slots)]
    return Numbers(of_slots, tuple(of_slots[new].tolist()), tuple(died.tolist()))


def owners(found: Regions, held: Held, ground: Terrain) -> np.ndarray:
    """The slot of the option whose region asked for each of the places [n]; what no option asked for is the best's."""
    best = int(np.argmax(np.where(held.kept, ground.y[held.rows], -np.inf)))
    slots = {int(region): slot for slot, region in enumerate(held.holders) if region >= 0}
    return np.array([slots.get(int(region), best) for region in found.asked_of], dtype=int)


def policies_on(ground: Terrain, held: Held, data: Data) -> LinearGaussian:
    """The options: on their rollouts, and as wide as a uniform distribution over a region that is done."""
    count, size = len(held.rows), ground.x.shape[1]
    b = np.where(held.kept[:, None], ground.x[held.rows], 0.0)
    w = np.zeros((count, data.features.shape[1], size))
    Sigma = np.broadcast_to(SMALLEST**2 / 3.0 * np.eye(size), (count, size, size))
    return gaussian.cut(LinearGaussian(b, w, Sigma), data.limits)


def gate_of(ground: Terrain, held: Held, data: Data) -> SoftmaxGate:
    """A gate that takes the option with the highest return: log pi(o) = (R_o - max R) / the returns' range."""
    theta = np.zeros((len(held.rows), data.features.shape[1] + 1))
    y = ground.y[held.rows]
    theta[:, -1] = np.where(held.kept, (y - y[held.kept].max()) / ground.scale, BEHIND)
    return SoftmaxGate(theta)


def judge(found: Regions, held: Held) -> StepInfo:
    """How the step went."""
    return StepInfo(
        options_kept=int(held.kept.sum()),
        born=held.numbers.born,
        died=held.numbers.died,
        maxima=held.known,
        climbing=int(np.sum(are_busy(found))),
    )


def remember(data: Data, ground: Terrain, found: Regions, held: Held, policies: LinearGaussian, state: State) -> State:
    """The state after a step that started from `state`."""
    changed = held.numbers.born or held.numbers.died
    return State(
        options=policies,
        kept=held.kept,
        distrusted=np.zeros(data.rollouts, dtype=bool),
        numbers=held.numbers.of_slots,
        next_number=state.next_number + len(held.numbers.born),
        settled=LONG if state.numbers is None else (0 if changed else state.settled + 1),
        climbs=found.asked,
        climbing=owners(found, held, ground),
        regions=found,
        holders=held.holders,
    )
