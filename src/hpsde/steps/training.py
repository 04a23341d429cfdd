"""Every option's policy: by policy search on its own rollouts, as wide as noise asks for, and by the modelled return.

options.py and model_step.py with what the learner knows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpsde.base.arrays import map_arrays
from hpsde.base.shapes import Array
from hpsde.steps import discovery, gaussian, model_step, options
from hpsde.steps.configuration import TrainingSettings
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.landscape import Landscape, signal
from hpsde.steps.latent import Latent
from hpsde.steps.option_policies import check_added
from hpsde.steps.refinement import NOISE_SHARE
from hpsde.steps.rollouts import Data
from hpsde.steps.state import State
from hpsde.steps.surface import Surface

LEAST_EFFECTIVE = 5.0  # samples that an option's policy search needs; with fewer it is as the mixture has it
WIDEST = 0.5  # exploration that noise asks for, in kernel lengths
VARIANCE_FLOOR = 1e-6  # least variance of an option, in units of the first rollouts' variance


def train_options(
    data: Data, found: Latent, weighted: np.ndarray, state: State, settings: TrainingSettings
) -> LinearGaussian:
    """Every option's policy by the chosen policy search on the samples that belong to it.

    A new solution that has hardly any rollouts yet has the policy of the mixture, an older one stays as it is; where
    nothing is known, the one option is as wide as the initial policy.
    """
    base = weighted if settings.update.base == "weighted" else found.responsibilities
    total = weighted.sum(axis=1)
    policies = options.fit_options(
        np.where(data.mask, data.advantages, 0.0),
        data.plain_features,
        settings.update.kept_means(data.plain_features, data.contexts),
        data.parameters,
        base,
        weighted,
        found.kept & (total > 1e-300),
        update=settings.update,
        ridge=settings.options.ridge,
        variance_floor=VARIANCE_FLOOR,
        kind=settings.options,
        last_h=_last_h(found, state) if settings.options.warm else None,
    )
    check_added(policies, data.plain_features)
    policies = gaussian.with_bends(policies, data.features.shape[1])
    if settings.density.kind != "options":
        return policies
    if found.found is None:
        wide = np.broadcast_to(np.eye(data.parameters.shape[1]), policies.Sigma.shape)
        nothing = LinearGaussian(np.zeros_like(policies.b), np.zeros_like(policies.w), wide)
        return gaussian.as_linear(nothing, policies)
    few = found.kept & (total**2 < LEAST_EFFECTIVE * np.sum(weighted**2, axis=1))
    few |= found.kept & ~(total > 1e-300)
    own = gaussian.as_linear(discovery.component_policies(found.found, settings.max_options), policies)
    own = gaussian.with_bends(own, data.features.shape[1])
    if state.found is not None and state.options is not None:
        own = gaussian.where(found.found.born, own, gaussian.cut(state.options, None))
    return gaussian.where(few, own, policies)


def _last_h(found: Latent, state: State) -> Any:
    """What the options' means added to their linear part after the last learning step, 0 for those that are new."""
    if state.options is None or state.kept is None:
        return None
    old = state.kept if found.found is None or not found.new else state.kept & ~found.found.born
    return map_arrays(lambda part: part * old.reshape(-1, *[1] * (part.ndim - 1)), state.options.h)


def widen_options(
    policies: LinearGaussian,
    data: Data,
    seen: Data,
    found: Latent,
    landscape: Landscape | None,
    surface: Surface | None,
) -> LinearGaussian:
    """The options, as wide as noise asks for; `seen` are the rollouts with their modelled returns."""
    if landscape is None or surface is None:
        return policies
    wider = explored(data, seen, found.responsibilities, landscape, surface)
    return policies._replace(Sigma=policies.Sigma + wider)


def explored(
    data: Data, seen: Data, responsibilities: np.ndarray, landscape: Landscape, surface: Surface
) -> np.ndarray:
    """The least covariance [O, D, D] of an option's exploration: so wide that the return changes by a share of its
    noise, at most WIDEST kernel lengths.

    Narrower exploration learns nothing. As the process may take a rough return for noise, the noise is limited to the
    residuals of the option's newest rollouts.
    """
    hyperparameters = surface.process.hyperparameters
    noise = 0.0 if surface.binary else float(np.exp(hyperparameters.log_noise - hyperparameters.log_signal))
    share = np.full(len(responsibilities), noise)
    squares = (data.returns - seen.returns) ** 2 / signal(landscape) ** 2
    for o, belongs in enumerate(responsibilities > 0.5):
        own = data.newest(belongs)
        if len(own) > 1:
            share[o] = min(noise, float(np.sqrt(np.mean(squares[own]))))
    L = landscape.view.L
    return np.minimum(WIDEST, NOISE_SHARE * share)[:, None, None] ** 2 * (L.T @ L)[None]


def improve_options(
    key: Array,
    policies: LinearGaussian,
    data: Data,
    found: Latent,
    weighted: np.ndarray,
    surface: Surface | None,
    settings: TrainingSettings,
) -> LinearGaussian:
    """The options after a step on the modelled return (model_step.py), where settings ask for it.

    One without rollouts moves in all contexts.
    """
    if surface is None or not settings.options.model_step:
        return policies
    weighted = np.where(weighted.sum(axis=1, keepdims=True) > 0.0, weighted, data.mask / data.mask.sum())
    axes = np.eye(data.joint.shape[1]) if surface.axes is None else surface.axes
    arrays = found.kept, data.contexts, data.features, weighted
    return model_step.improve(key, surface.process, axes, policies, *arrays, plain=data.features.shape[1] - data.bends)
