"""The Gaussian process of the gating policy: returns regressed on z = [xi, s], and moments under an option.

    hyperparameters, info = fit_hyperparameters(z, y, mask)
    gp = condition(hyperparameters, z, y, mask, mean)
    moments = option_moments(gp, mean_parameters, covariance, contexts)

The parts live in gp_model (posterior, prediction), gp_moments, gp_likelihood and gp_fit (hyper-parameters),
and gp_lapack (likelihood and posterior on a CPU, without compilation).
"""

from hpsde.gp_fit import (
    DEFAULT_BOUNDS,
    WEAK_PRIOR,
    Bounds,
    FitInfo,
    Prior,
    choose_points,
    fit_hyperparameters,
    spread_subset,
)
from hpsde.gp_lapack import condition_by_lapack
from hpsde.gp_model import GP, Hyperparameters, condition, predict
from hpsde.gp_moments import OptionMoments, option_moments

__all__ = [
    "DEFAULT_BOUNDS",
    "GP",
    "WEAK_PRIOR",
    "Bounds",
    "FitInfo",
    "Hyperparameters",
    "OptionMoments",
    "Prior",
    "choose_points",
    "condition",
    "condition_by_lapack",
    "fit_hyperparameters",
    "option_moments",
    "predict",
    "spread_subset",
]
