"""What the authors' public code does where it differs from the paper; the method `authors` is made of these parts.

docs/deviations.md lists them, and what of that code they do not copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hpsde.steps import gaussian
from hpsde.steps.gate import Optimism
from hpsde.steps.gating import GaussianProcess
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.option_policies import OptionPolicies
from hpsde.steps.return_functions import ReturnFunction
from hpsde.steps.rollouts import Data

CLUSTERING = 150  # rollouts from one clustering to the next: three updates of 50
WORST = 0.1  # of the rollouts, left out of every clustering
DRAWS = 5  # of every option, by which the gate judges it
LEAST_VARIANCE = 1e-6  # of an option, in units of the first rollouts' variance
ALPHA, BETA, NU = 1.0, 1.0, 10.0  # alpha_0, beta_0 and nu_0 of the mixture's prior; h_0 = 0, K_0 = I


class Standardised(ReturnFunction, name="standardised"):
    """exp of the returns less their mean, in units of their standard deviation."""

    temperature = 1.0

    def log(self, returns: np.ndarray) -> np.ndarray:
        """(R - mean) / deviation."""
        return (returns - returns.mean()) / max(float(returns.std()), 1e-300)


def prior(size: int) -> Any:
    """The mixture's prior over points of so many numbers; nu_0 is at least their number."""
    import jax.numpy as jnp

    from hpsde.mixture.posterior import MixturePrior

    alpha, beta, nu = (jnp.asarray(each) for each in (ALPHA, BETA, max(NU, float(size))))
    return MixturePrior(alpha, beta, nu, h_0=jnp.zeros(size), K_0_inverse=jnp.eye(size))


def used(data: Data) -> np.ndarray:
    """The rollouts [N] that a clustering sees: all but the worst."""
    return data.mask & (data.returns >= np.quantile(data.returns[data.mask], WORST))


def coordinates(data: Data, mask: np.ndarray, dimensions: int) -> np.ndarray:
    """The eigenmap [N, E] of unscaled points, with the constant solution as the first coordinate."""
    if not dimensions:
        return data.joint
    from hpsde.mixture.eigenmaps import LaplacianEigenmaps

    ones = np.ones((len(data.mask), 1))
    if dimensions == 1:
        return ones
    return np.hstack([ones, LaplacianEigenmaps(dimensions - 1, scaled=False).fit(data.joint, mask).coordinates])


@dataclass(frozen=True)
class SquaredOptions(OptionPolicies, name="squared"):
    """Linear means; the covariance has the squared weights of samples, of which the largest is 1.

    Sigma = sum_i d_i^2 e_i e_i^T / Z,   Z = ((sum d)^2 - sum d^2) / sum d,   max d = 1.
    """

    def with_covariances(
        self, policies: LinearGaussian, features: np.ndarray, parameters: np.ndarray, weights: np.ndarray
    ) -> LinearGaussian:
        """As described, of every option that has weights [O, N]."""
        some = weights.max(axis=1) > 0.0
        d = weights[some] / weights[some].max(axis=1, keepdims=True)
        error = parameters[None] - gaussian.means(policies, features)[some]
        total, squares = d.sum(axis=1), np.sum(d**2, axis=1)
        Z = np.maximum((total**2 - squares) / total, 1e-3)
        Sigma = np.array(policies.Sigma)
        Sigma[some] = np.einsum("on,ond,one->ode", d**2, error, error) / Z[:, None, None]
        Sigma[some] += LEAST_VARIANCE * np.eye(parameters.shape[1])
        return policies._replace(Sigma=Sigma)


@dataclass(frozen=True)
class DrawnProcess(GaussianProcess, name="gp-draws"):
    """As `gp`, but while learning, what it expects of an option comes from five draws of it."""

    @property
    def optimism(self) -> Optimism:
        """Upper confidence bounds, by draws."""
        return super().optimism._replace(draws=DRAWS)
