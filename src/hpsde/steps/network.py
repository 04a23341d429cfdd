"""What a small network adds to an option's mean, by numpy where a policy is in use: this module loads no JAX."""

from __future__ import annotations

from typing import Any, NamedTuple

from hpsde.base.shapes import Array, Float

NEURAL = "neural"


class Network(NamedTuple):
    """h(phi) = A' x_L,   x_1 = tanh(W' phi + c),   x_l+1 = tanh(W_l' x_l + c_l).

    H is the width, 1 + L the depth: the layers after the first have the weights `inner` [L, H, H]. O of them have a
    leading axis.
    """

    W: Float[Array, "*O F H"]
    c: Float[Array, "*O H"]
    inner: Float[Array, "*O L H H"]
    inner_c: Float[Array, "*O L H"]
    A: Float[Array, "*O H D"]

    @property
    def kind(self) -> str:
        """The name of the `OptionPolicies` that fits it."""
        return NEURAL

    def mean(self, features: Any, xp: Any) -> Any:
        """h(phi) [N, D] of one option."""
        return self.last(features, xp) @ self.A

    def last(self, features: Any, xp: Any) -> Any:
        """x_L [N, H] of one option."""
        x = xp.tanh(features @ self.W + self.c[None])
        for k in range(self.inner.shape[0]):
            x = xp.tanh(x @ self.inner[k] + self.inner_c[k][None])
        return x


SHAPES: dict[str, str] = {"W": "O F H", "c": "O H", "inner": "O L H H", "inner_c": "O L H", "A": "O H D"}
