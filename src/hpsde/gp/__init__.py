"""The Gaussian process of the gating policy: returns regressed on z = [xi, s], and moments under an option.

    hyperparameters, info = fit_hyperparameters(z, y, mask)
    gp = condition(hyperparameters, z, y, mask, mean)
    moments = option_moments(gp, mean_parameters, covariance, contexts)

The parts live in kernel, model (prediction), moments, fit (hyper-parameters), and lapack (likelihood and posterior on a
CPU, by numpy and LAPACK). Likelihood and posterior of many points on an accelerator are compiled by JAX (likelihood,
blocked); compiled has the plain posterior.

Names are loaded when first used: whoever needs no accelerator loads no JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpsde.gp.compiled import condition
    from hpsde.gp.conditioning import log_evidence, posterior, with_inverse
    from hpsde.gp.fit import (
        DEFAULT_BOUNDS,
        WEAK_PRIOR,
        Bounds,
        FitInfo,
        Prior,
        choose_points,
        fit_hyperparameters,
        fitting_subset,
        spread_subset,
    )
    from hpsde.gp.kernel import JITTER
    from hpsde.gp.lapack import condition_by_lapack
    from hpsde.gp.model import (
        GP,
        KERNELS,
        Hyperparameters,
        hyperparameters_of,
        predict,
        predict_gradient,
        predict_mean,
        squared_distances,
        with_kernel,
        without_inverse,
    )
    from hpsde.gp.moments import OptionMoments, gradient_under, mean_under, option_moments

__all__ = [
    "DEFAULT_BOUNDS",
    "GP",
    "JITTER",
    "KERNELS",
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
    "fitting_subset",
    "gradient_under",
    "hyperparameters_of",
    "log_evidence",
    "mean_under",
    "option_moments",
    "posterior",
    "predict",
    "predict_gradient",
    "predict_mean",
    "spread_subset",
    "squared_distances",
    "with_inverse",
    "with_kernel",
    "without_inverse",
]

_NAMES_IN = {
    "compiled": "condition",
    "fit": "DEFAULT_BOUNDS WEAK_PRIOR Bounds FitInfo Prior choose_points fit_hyperparameters fitting_subset "
    "spread_subset",
    "kernel": "JITTER",
    "lapack": "condition_by_lapack",
    "model": "GP KERNELS Hyperparameters hyperparameters_of predict predict_gradient predict_mean "
    "squared_distances with_kernel without_inverse",
    "moments": "OptionMoments gradient_under mean_under option_moments",
    "conditioning": "log_evidence posterior with_inverse",
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hpsde.gp' has no attribute {name!r}")
    value = getattr(import_module(f"hpsde.gp.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
