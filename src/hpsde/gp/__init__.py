"""The Gaussian process of the gating policy: returns regressed on z = [xi, s], and moments under an option.

    hyperparameters, info = fit_hyperparameters(z, y, mask)
    gp = condition(hyperparameters, z, y, mask, mean)
    moments = option_moments(gp, mean_parameters, covariance, contexts)

The parts live in kernel, model (posterior, prediction), moments, likelihood and fit (hyper-parameters), and lapack
(likelihood and posterior on a CPU, without compilation).

Names are loaded when first used: whoever needs a kernel alone loads no JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        condition,
        hyperparameters_of,
        predict,
        predict_gradient,
        predict_mean,
        with_kernel,
    )
    from hpsde.gp.moments import OptionMoments, mean_under, option_moments

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
    "hyperparameters_of",
    "log_evidence",
    "mean_under",
    "option_moments",
    "posterior",
    "predict",
    "predict_gradient",
    "predict_mean",
    "spread_subset",
    "with_inverse",
    "with_kernel",
]

_NAMES_IN = {
    "fit": "DEFAULT_BOUNDS WEAK_PRIOR Bounds FitInfo Prior choose_points fit_hyperparameters fitting_subset "
    "spread_subset",
    "kernel": "JITTER",
    "lapack": "condition_by_lapack",
    "model": "GP KERNELS Hyperparameters condition hyperparameters_of predict predict_gradient predict_mean "
    "with_kernel",
    "moments": "OptionMoments mean_under option_moments",
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
