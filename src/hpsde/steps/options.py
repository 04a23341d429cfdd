"""One policy search step for every option (the inner loop of Algorithm 1).

An update (update.py) maps an option's samples to their weights d [N]; the option's policy is the regression with these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpsde.base.arrays import as_numpy, leaves, map_arrays
from hpsde.base.shapes import Bool, Float
from hpsde.base.with_jax import with_jax
from hpsde.steps import gaussian
from hpsde.steps.authors import SquaredOptions
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.neural import Neural
from hpsde.steps.option_policies import OptionPolicies
from hpsde.steps.reps import REPS
from hpsde.steps.rwr import RWR
from hpsde.steps.update import OptionUpdate

UPDATES = (REPS, RWR)  # a new update is a file and a line here


class Options(OptionPolicies, name="linear"):
    """Means are linear in the features, as in the paper."""


OPTIONS = (Options, Neural, SquaredOptions)  # a new kind of options is a file and a line here


def known_options() -> dict[str, type[OptionPolicies]]:
    """The kinds of options of this package and those that were defined elsewhere, by name."""
    return OptionPolicies.known


def fit_options(
    returns: Float[np.ndarray, " N"],
    features: Float[np.ndarray, "N F"],
    matched: Float[np.ndarray, "N M"],
    parameters: Float[np.ndarray, "N D"],
    base: Float[np.ndarray, "O N"],
    target: Float[np.ndarray, "O N"],
    kept: Bool[np.ndarray, " O"],
    *,
    update: OptionUpdate,
    ridge: float | None,
    variance_floor: float,
    kind: OptionPolicies | None = None,
    last_h: Any = None,
) -> LinearGaussian:
    """The policy of every kept option; the others are standard Gaussians that nobody asks for.

    An update may keep the mean of `matched`: the features, and what else of the contexts must not change. An option's
    mean has F + 1 numbers for every parameter, and `more` with h: its search leaves `update.support` effective samples
    for each. An option whose h is 0 is trained as one that has none. last_h: where `fit_h` starts from, of all options;
    None: from nothing.
    """
    kind = Options() if kind is None else kind
    more, own_fit = kind.more(features.shape[1]), None if kind.fit_h is None else _by_numpy(kind.fit_h)
    d = np.zeros_like(base)
    trained: dict[int, LinearGaussian] = {}
    for o in np.flatnonzero(kept).tolist():
        start = None if last_h is None else map_arrays(lambda part, o=o: part[o], last_h)
        fit = functools.partial(_fitted, returns, features, matched, parameters, base[o], target[o], update)
        trained[o], d[o] = fit(features.shape[1] + 1 + more, ridge, variance_floor, own_fit, start)
        if own_fit is not None and not _bends(trained[o]):
            plain, d[o] = fit(features.shape[1] + 1, ridge, variance_floor, None, None)
            trained[o] = plain._replace(h=trained[o].h)
    if not trained:
        some = features, parameters, np.ones(len(features))
        like = gaussian.fit(*some, ridge=ridge, variance_floor=variance_floor, fit_h=own_fit)
    else:
        like = next(iter(trained.values()))
    nothing = map_arrays(np.zeros_like, like)._replace(Sigma=np.eye(parameters.shape[1]))
    policies = map_arrays(lambda *parts: np.stack(parts), *(trained.get(o, nothing) for o in range(len(kept))))
    return kind.with_covariances(policies, features, parameters, d)


def _fitted(
    returns: np.ndarray,
    features: np.ndarray,
    matched: np.ndarray,
    parameters: np.ndarray,
    base: np.ndarray,
    target: np.ndarray,
    update: OptionUpdate,
    numbers: int,
    ridge: float | None,
    variance_floor: float,
    fit_h: Callable[..., Any] | None,
    start: Any,
) -> tuple[LinearGaussian, np.ndarray]:
    """One option whose mean has so many numbers for every parameter: the regression, and weights [N] by its search."""
    d = update.sample_weights(returns, matched, base, target, update.support * numbers)
    # Rows of weight 0 say nothing; what is compiled has all the same, so that there are few sizes.
    rows = slice(None) if fit_h else d > 0.0
    of_h = fit_h if start is None or fit_h is None else functools.partial(fit_h, start=start)
    given = features[rows], parameters[rows], d[rows]
    return gaussian.fit(*given, ridge=ridge, variance_floor=variance_floor, fit_h=of_h), d


def _bends(option: LinearGaussian) -> bool:
    """Whether the option has an h that is not 0."""
    return any(np.any(part != 0.0) for part in leaves(option.h))


@functools.lru_cache(maxsize=16)
def _by_numpy(fit_h: Callable[..., Any]) -> Callable[..., Any]:
    """A fit of h, which JAX compiles, from and to arrays of numpy."""
    import jax

    compiled = with_jax(jax.jit(fit_h))
    return lambda *arrays, **start: as_numpy(compiled(*arrays, **start))
