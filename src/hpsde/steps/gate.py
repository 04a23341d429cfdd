"""What a gate is: how it is trained, what it says of the options in a context, and how it explores with that.

A new one is two classes: what is learned, a named tuple of arrays with `kind` and `values`, and a `Gate`, which trains
it, and is known by its name from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from hpsde.base.archive import Field
from hpsde.base.draws import uniform_rows
from hpsde.base.groups import Strategy
from hpsde.base.shapes import Array, Bool, Float, Int
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.rollouts import Data
from hpsde.steps.surface import Surface

Shapes = Mapping[str, str | Field]


class Optimism(NamedTuple):
    """Exploration of a gate that knows its uncertainty: by mean + kappa standard deviations.

    of_return: the deviation is that of the return, not of its mean. draws: of every option, by which mean and
    deviation are estimated; 0: in closed form.
    """

    kappa: float
    of_return: bool = False
    draws: int = 0


@runtime_checkable
class TrainedGate(Protocol):
    """What is learned of a gate: a named tuple of arrays."""

    @property
    def kind(self) -> str:
        """The name of the `Gate` that trained it."""

    def values(
        self,
        options: LinearGaussian,
        kept: Bool[Array, " O"],
        features: Float[Array, "C F"],
        contexts: Float[Array, "C S"],
        optimism: Optimism | None = None,
    ) -> Float[Array, "O C"]:
        """The value of each option in each context, in use or while learning; log pi(o | s) of a probability."""


@dataclass(frozen=True)
class Gate(Strategy, family="gate"):
    """The gating policy pi(o | s)."""

    # The class of what it trains, and its arrays in a policy file: shapes in the letters of base/shapes.py. Those of
    # hpsde's first three gates are in policy/fields.py, where a policy in use finds them without JAX.
    trained: ClassVar[Any]
    shapes: ClassVar[Shapes]
    # Whether it asks for the Gaussian process that models the return.
    needs_surface: ClassVar[bool] = False

    def train(self, data: Data, weighted: np.ndarray, surface: Surface | None) -> Any:
        """What is learned from the rollouts, by how much each belongs to each option [O, N]."""
        raise NotImplementedError

    @property
    def optimism(self) -> Optimism | None:
        """Its optimism while learning; None: the values of use."""
        return None

    def choose(self, key: Array, gate: Any, values: np.ndarray, temperature: float) -> Int[np.ndarray, " C"]:
        """The option for every context while learning, by its values [O, C] then; T is that of f."""
        return draw_by_share(key, values)

    @classmethod
    def arrays(cls, gate: Any) -> dict[str, Any]:
        """What a file needs to hold of a trained gate, by name."""
        return dict(gate._asdict())

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> Any:
        """The trained gate of those arrays."""
        return cls.trained(**arrays)


def draw_by_share(key: Array, values: Float[np.ndarray, "O C"] | Array) -> Int[np.ndarray, " C"]:
    """Options drawn in proportion to exp(values)."""
    # By one uniform number per context: nothing to compile when there are more or fewer options.
    values = np.asarray(values)
    shares = np.exp(values - values.max(axis=0))
    cumulative = np.cumsum(shares, axis=0)
    drawn = uniform_rows(key, shares.shape[1]) * cumulative[-1]
    return np.argmax(cumulative > drawn, axis=0)
