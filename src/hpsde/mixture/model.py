"""What a mixture of joint Gaussians is; see posterior.py for the symbols. Nothing here loads JAX."""

from __future__ import annotations

from typing import NamedTuple

from hpsde.base.arrays import namespace
from hpsde.base.shapes import Array, Float

DENSITY_METHODS = ("vb", "em")


class MixturePrior(NamedTuple):
    """Dir(alpha_0) over mixing coefficients, N(h_0, (beta_0 S)^-1) Wishart(K_0, nu_0) over each option."""

    alpha_0: Float[Array, ""]
    beta_0: Float[Array, ""]
    nu_0: Float[Array, ""]
    h_0: Float[Array, " Z"]
    K_0_inverse: Float[Array, "Z Z"]


class Mixture(NamedTuple):
    """Posterior of a mixture: always O options, those with `mass` 0 being absent.

    The scale K of the Wishart is kept as its inverse, which is a plain sum over the data, K_0^-1 + scatter.
    `beta` = infinity marks parameters known without doubt (maximum likelihood): weight alpha / sum(alpha),
    mean h, covariance K^-1 / nu.
    """

    alpha: Float[Array, " O"]
    beta: Float[Array, " O"]
    h: Float[Array, "O Z"]
    nu: Float[Array, " O"]
    K_inverse: Float[Array, "O Z Z"]
    mass: Float[Array, " O"]  # gamma hat: the sample weight that the option holds

    @property
    def mixing(self) -> Float[Array, " O"]:
        """Expected mixing coefficients alpha / sum(alpha) among the options present."""
        xp = namespace(self.alpha)
        present = xp.where(self.mass > 0, self.alpha, 0.0)
        return present / xp.maximum(present.sum(), xp.finfo(present.dtype).tiny)

    @property
    def covariances(self) -> Float[Array, "O Z Z"]:
        """Inverse of the expected precision E[S] = nu K."""
        return self.K_inverse / self.nu[:, None, None]
