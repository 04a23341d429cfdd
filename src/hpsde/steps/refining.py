"""Refinement of the options (refinement.py): in which contexts, and only where the modelled return does not fall."""

from __future__ import annotations

import numpy as np

from hpsde.steps import discovery, gaussian, refinement, valleys
from hpsde.steps.configuration import TrainingSettings
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.landscape import Landscape, View
from hpsde.steps.latent import Latent, Shown
from hpsde.steps.rollouts import Data
from hpsde.steps.state import State

MODERATE = 200  # power of 2 up to which returns are taken as they are


def refine_options(
    policies: LinearGaussian,
    data: Data,
    found: Latent,
    landscape: Landscape | None,
    shown: Shown | None,
    state: State,
    settings: TrainingSettings,
) -> LinearGaussian:
    """The options at the optima that local models of the return show, where settings ask for it.

    Success or failure has no optimum beside which it is nearly quadratic.
    """
    if not settings.options.refine or landscape is None or shown is None or landscape.binary:
        return policies
    model = shown.model
    heights = option_heights(data, policies, found.kept, landscape.view, model)
    good = good_contexts(heights, data.mask, model)
    old = np.zeros_like(found.kept) if state.found is None or state.kept is None else state.kept.copy()
    if found.found is not None and found.new:
        old &= ~found.found.born
    belongs = found.responsibilities > 0.5
    arrays = data.features, data.parameters, moderate(data.advantages)
    refined = refinement.refine(
        policies, state.options, found.kept, old, belongs, good, *arrays, data.features[data.mask], data.bends
    )
    # A local model can be of something else than the solution: an option does not fall by the depth of a valley.
    after = option_heights(data, refined, found.kept, landscape.view, model)
    before, after = (np.where(good, np.minimum(each, landscape.warp.scores[-1]), 0.0) for each in (heights, after))
    fallen = np.sum(before - after, axis=1) > valleys.DEPTH * model.temperature * good.sum(axis=1)
    return gaussian.where(fallen, policies, refined)


def moderate(returns: np.ndarray) -> np.ndarray:
    """The returns [N], in a unit in which the squares of their squares neither overflow nor vanish: a power of 2."""
    exponent = int(np.frexp(np.max(np.abs(returns), initial=0.0))[1])
    return returns if abs(exponent) < MODERATE else np.ldexp(returns, -exponent)


def option_heights(
    data: Data, policies: LinearGaussian, kept: np.ndarray, view: View, model: valleys.Model
) -> np.ndarray:
    """Scores of the options' means in the landscape, in the rollouts' contexts [O, N]; -inf: there is no option."""
    some = slice(None) if data.contexts.shape[1] else slice(1)  # without a context all rollouts have the same
    y = gaussian.means(policies, data.features[some])[kept] @ view.V
    heights = np.full((len(kept), len(data.mask)), -np.inf)
    heights[kept] = valleys.heights(model, y, data.contexts[some])
    return heights


def good_contexts(heights: np.ndarray, mask: np.ndarray, model: valleys.Model) -> np.ndarray:
    """The rollouts' contexts [O, N] in which an option lags behind the best one hardly more than in its best context.

    The landscape decides, as its scale stays that of the first rollouts. The gate's process resolves the best returns
    ever more finely, and would take every option that can still improve for a bad one.
    """
    best = np.minimum(heights.max(axis=0), model.highest)
    tolerance = discovery.tolerance(best, model.temperature, float(model.process.mean))
    behind = (best - heights) / np.maximum(tolerance, 1e-300)
    least = np.maximum(behind[:, mask].min(axis=1, keepdims=True), 0.0)
    return (behind <= least + 1.0) & mask & np.isfinite(behind)
