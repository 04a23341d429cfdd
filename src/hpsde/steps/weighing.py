"""W~ of a learner's rollouts: weights.py with the learner's settings."""

from __future__ import annotations

import numpy as np

from hpsde.steps import dual, weights
from hpsde.steps.configuration import WeighingSettings
from hpsde.steps.return_functions import log_return_function
from hpsde.steps.rollouts import Data

LEAST_ESS = 0.05  # effective samples that the return weighting must leave, as a share of all rollouts
LEAST_PER_NUMBER, MOST_LEAST = 3.0, 0.25  # or so many for every number and one more, but no more than that share
ESS_FLOOR = 0.3  # effective samples that importance weighting alone must leave, as a share of all rollouts


def compute_weights(data: Data, temperature: float | None, settings: WeighingSettings) -> weights.ImportanceWeights:
    """W~ of every rollout; see weights.py. `temperature` is that of the first rollouts, where it is known already."""
    f, log_f = settings.weights.f, np.zeros(len(data.mask))
    log_f[data.mask] = log_return_function(f, data.returns[data.mask])
    known = (settings.weights.temperature, f.temperature, temperature)
    temperature = next((each for each in known if each is not None), None)
    return weigh(log_f, data, temperature, f.baseline, settings)


def weigh(
    log_f: np.ndarray, data: Data, temperature: float | None, baseline: bool, settings: WeighingSettings
) -> weights.ImportanceWeights:
    """Weights by log f / T [N], less a baseline over the contexts; T is found where it is not given."""
    return weights.importance_weights(
        log_f,
        data.features,
        data.log_behaviour,
        data.mask,
        baseline=baseline,
        temperature=temperature,
        target_ess=wanted_ess(data),
        kl_bound=settings.weights.kl_bound,
        flattening=settings.weights.flattening,
        ess_floor=ESS_FLOOR,
    )


def wanted_ess(data: Data) -> float:
    """The wanted effective sample size: a share of the rollouts, but at least some for every dimension."""
    count = float(data.mask.sum())
    dimensions = data.contexts.shape[1] + data.parameters.shape[1]
    return max(LEAST_ESS * count, min(LEAST_PER_NUMBER * (dimensions + 1), MOST_LEAST * count))


def return_temperature(data: Data, importance: weights.ImportanceWeights, settings: WeighingSettings) -> float:
    """T in units of the returns: that of f, or where f has none there, the deviation of the weighted returns."""
    if settings.weights.f.in_returns:
        return importance.temperature
    share, returns = importance.weights[data.mask], data.returns[data.mask]
    return dual.return_spread(returns, dual.log_normalised(share))
