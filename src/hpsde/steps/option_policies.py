"""What kind of policies options are: Gaussians whose means are linear in the features, or add something to that.

    mu_o(s) = b_o + w_o^T phi(s) + h_o(phi(s))

A new kind is two classes: what is learned of h, a named tuple of arrays with `kind` and `mean`, and an
`OptionPolicies`, which fits it, and is known by its name from then on. Everything else of an option (its covariance and
bounds, densities and samples, steps on the modelled return, refinement, files) is the same for all kinds (gaussian.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hpsde.base.archive import Field
from hpsde.base.arrays import map_arrays
from hpsde.base.groups import Strategy, setting
from hpsde.base.shapes import Array, Float
from hpsde.errors import InputError
from hpsde.steps.gaussian import LinearGaussian


@dataclass(frozen=True)
class OptionPolicies(Strategy, family="options"):
    """The options' policies: their means, and what happens to them after policy search."""

    # The class of what `fit` returns, and its arrays in a policy file: shapes in the letters of base/shapes.py, any
    # other letter for sizes of its own. None: the mean is linear in the features.
    trained: ClassVar[Any] = None
    shapes: ClassVar[Mapping[str, str | Field]] = {}
    # Whether `fit` takes a fourth argument, `start`: the h that the option had, all 0 where it had none.
    warm: ClassVar[bool] = False

    ridge: float | None = setting(
        None,
        "Ridge of the options' regression; by default that with which samples left out are predicted best.",
        low=1e-12,
        high=1e6,
    )
    model_step: bool = setting(
        True, "After its policy search an option's mean moves uphill on the modelled return; False is the paper's."
    )
    refine: bool = setting(
        True,
        "At last an option moves to the optimum of a local model of the return, and explores where that may be; False "
        "is the paper's.",
    )
    whitening: bool = setting(
        True,
        "Parameters that are nearly combinations of one another in the first rollouts are learned along their "
        "principal axes, each in units of its standard deviation; parameters that are not are scaled alone.",
    )

    def fit(self, features: Float[Array, "N F"], parameters: Float[Array, "N D"], weights: Float[Array, " N"]) -> Any:
        """h of one option, by samples whose weights sum to 1; b and w are then fitted to what h leaves.

        It is compiled: jax.numpy alone. Rows of weight 0 are padding.
        """
        raise NotImplementedError

    @property
    def form(self) -> tuple[Any, ...]:
        """What decides which arrays h has: it stays as it is from the first learning step on."""
        return (self.name,)

    def more(self, features: int) -> int:
        """Numbers that h of so many features has for each parameter; policy search leaves samples for these, too."""
        return 0

    @property
    def fit_h(self) -> Callable[..., Any] | None:
        """`fit`, or None where the mean is linear in the features."""
        return None if self.trained is None else self.fit

    def with_covariances(
        self,
        policies: LinearGaussian,
        features: Float[np.ndarray, "N F"],
        parameters: Float[np.ndarray, "N D"],
        weights: Float[np.ndarray, "O N"],
    ) -> LinearGaussian:
        """The policies with the covariances that they start to explore with; by default those of the regression."""
        return policies

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> Any:
        """h of all options, of those arrays."""
        return None if cls.trained is None else cls.trained(**arrays)


def check_added(options: LinearGaussian, features: np.ndarray) -> None:
    """An InputError unless h gives numbers of the right shape by numpy, and 0 where all its numbers are 0."""
    if options.h is None:
        return
    one, some = map_arrays(lambda part: np.asarray(part)[0], options.h), features[:2]
    value, said = one.mean(some, np), f"options {options.h.kind!r}: mean(features, xp) must"
    if not isinstance(value, np.ndarray) or value.dtype != np.float64:
        raise InputError(f"{said} give an array of 64-bit numbers where xp is numpy; got {type(value).__name__}")
    if value.shape != (len(some), options.b.shape[1]):
        wanted = [len(some), options.b.shape[1]]
        raise InputError(f"{said} give shape {wanted} for features {list(some.shape)}; got {list(value.shape)}")
    if np.any(map_arrays(np.zeros_like, one).mean(some, np) != 0.0):
        raise InputError(f"{said} give 0 where all its numbers are 0")
