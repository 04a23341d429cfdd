"""Algorithm 1 of the paper: one re-estimation of the hierarchical policy from all rollouts so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hpsde.base.draws import split
from hpsde.base.shapes import Array
from hpsde.settings import Settings
from hpsde.steps import tops
from hpsde.steps.climbing import Seen
from hpsde.steps.gate import TrainedGate
from hpsde.steps.gates import train_gate
from hpsde.steps.gaussian import LinearGaussian, cut
from hpsde.steps.hills import climb, hold, on_tops
from hpsde.steps.judging import StepInfo, judge
from hpsde.steps.landscape import combinations
from hpsde.steps.latent import Shown, show, with_features
from hpsde.steps.numbering import number_options
from hpsde.steps.refining import refine_options
from hpsde.steps.remembering import remember
from hpsde.steps.return_model import approximate_return, smoothed, survey
from hpsde.steps.rollouts import Data
from hpsde.steps.searching import find_options
from hpsde.steps.state import State
from hpsde.steps.training import improve_options, train_options, widen_options
from hpsde.steps.weighing import compute_weights


class Estimate(NamedTuple):
    """The hierarchical policy in standard units."""

    options: LinearGaussian  # O_max of them
    kept: np.ndarray  # [O] which of them exist
    gate: TrainedGate
    mean_returns: np.ndarray  # [O] return-weighted mean return of each option's samples
    numbers: np.ndarray  # [O] what each option is called, from its birth on; 0: there is none
    features: int | None  # which of the candidates the options' features are; None: there was no choice
    shown: Shown | None  # the landscape given these rollouts


def reestimate(
    key: Array,
    data: Data,
    spreads: np.ndarray,
    candidates: Sequence[tuple[np.ndarray, int]],
    log_behaviour: Callable[[np.ndarray | None], np.ndarray],
    state: State,
    settings: Settings,
    looks: dict[bytes, Seen],
) -> tuple[Estimate, State, StepInfo]:
    """One pass of Algorithm 1's loop, from the rollouts D to the options and their gate.

    spreads [D + S]: see `rollouts.Units.spreads`. candidates: features [N, F] of the rollouts to choose from, and how
    many of them bend (`rollouts.Data.bends`). The function log_behaviour gives log pi_old [N] of the combinations xi P
    of the parameters, of all of them for None. looks: what climbs have computed (steps/climbing.py), which is added to.
    """
    if tops.are_sought(data, settings):
        return reestimate_by_regions(data, state, settings)
    settings, state = without_regions(settings, state)
    key_density, key_surface, key_landscape = split(key, 3)
    key_features, (key_density, key_step) = key_density, split(key_density)
    # Train the GP model to approximate the return function. It comes first: options are sought in it.
    surface, data = approximate_return(key_surface, data, spreads, state.surface, state.distrusted, settings)
    landscape = survey(key_landscape, data, surface, spreads, state.landscape, settings)
    data, features = with_features(key_features, data, landscape, candidates, settings)
    # Compute the importance of each sample W~(s_i, xi_i).
    data = data._replace(log_behaviour=log_behaviour(combinations(landscape)))
    importance = compute_weights(data, state.temperature, settings)
    # Estimate p(o | s_i, xi_i) through density estimation; without contexts, also by climbing the return.
    shown = show(data, landscape)
    found = find_options(key_density, data, landscape, shown, importance, state, settings)
    climbs = climb(data, importance, landscape, settings, looks)
    found = hold(found, data, climbs, state)
    numbers = number_options(found, state)
    # Assign the samples to the options: responsibilities are 0 or 1.
    weighted = found.responsibilities * importance.weights
    # For each o, train the o-th policy.
    seen = smoothed(data, surface)
    policies = cut(train_options(data, found, weighted, state, settings), data.limits)
    policies = widen_options(policies, data, seen, found, landscape, surface)
    policies = improve_options(key_step, policies, data, found, weighted, surface, settings)
    policies = refine_options(policies, data, found, landscape, shown, state, settings)
    policies = on_tops(policies, data, found, climbs)
    # Select the option o* = argmax E[R | s, o]: train the gate.
    gate = train_gate(data, weighted, surface, settings)
    mean_returns = weighted @ np.where(data.mask, data.returns, 0.0) / np.maximum(weighted.sum(axis=1), 1e-300)
    estimate = Estimate(policies, found.kept, gate, mean_returns, numbers.of_slots, features, shown)
    info = judge(data, seen, importance, found, policies, numbers, landscape, shown, surface, state, settings)
    after = remember(data, importance, found, policies, numbers, climbs, landscape, surface, info, state, settings)
    return estimate, after, info


def reestimate_by_regions(data: Data, state: State, settings: Settings) -> tuple[Estimate, State, StepInfo]:
    """The same where options are sought by regions (steps/regions.py): from the rollouts to the options on the tops."""
    ground = tops.terrain_of(data)
    found = tops.climb(ground, state)
    held = tops.hold(ground, found, state, settings.max_options)
    policies = tops.policies_on(ground, held, data)
    returns = np.where(held.kept, data.returns[data.mask][held.rows], 0.0)
    gate = tops.gate_of(ground, held, data)
    estimate = Estimate(policies, held.kept, gate, returns, held.numbers.of_slots, None, None)
    info = tops.judge(found, held)
    return estimate, tops.remember(data, ground, found, held, policies, state), info


def without_regions(settings: Settings, state: State) -> tuple[Settings, State]:
    """Settings and state where regions are asked for but cannot climb: options are sought in the modelled return."""
    if settings.density.kind != "regions":
        return settings, state
    settings = replace(settings, density=replace(settings.density, kind="options"))
    return settings, state if state.regions is None else State(next_number=state.next_number)
