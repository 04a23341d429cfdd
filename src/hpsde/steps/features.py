"""Context features phi(s) of the option policies: linear, quadratic, squared exponential, or any callable.

The constant is not among them: every option has its own offset (gaussian.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hpsde.base.groups import Group, setting
from hpsde.errors import InputError, UnknownNameError

COUNTS = (10, 16, 27)  # squared exponentials for contexts of one, two, and three or more numbers
FEATURE_NAMES = ("automatic", "linear", "quadratic", "squared-exponential")
LOW = 1.0 / 30.0  # so that the ridge weighs bumps 900 times as much as the line


@dataclass(frozen=True)
class Linear:
    """phi(s) = (s - centre) / scale; with the options' offset this is the paper's [s, 1]."""

    centre: np.ndarray
    scale: np.ndarray
    kind: str = "linear"

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        """Features [N, S] of contexts [N, S]."""
        return (contexts - self.centre) / self.scale


@dataclass(frozen=True)
class Quadratic(Linear):
    """phi(s) = [u, u_j u_k for j <= k], u = (s - centre) / scale."""

    kind: str = "quadratic"

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        """Features [N, S + S (S + 1) / 2] of contexts [N, S]."""
        u = super().__call__(contexts)
        j, k = np.triu_indices(u.shape[1])
        return np.concatenate([u, u[:, j] * u[:, k]], axis=1)


@dataclass(frozen=True)
class Cubic(Quadratic):
    """phi(s) = [u, u_j u_k for j <= k, u_i u_j u_k for i <= j <= k], u = (s - centre) / scale."""

    kind: str = "cubic"

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        """Features [N, (S + 3 over 3) - 1] of contexts [N, S]."""
        phi = super().__call__(contexts)
        size = contexts.shape[1]
        triples = [
            (i, place) for place, (j, _) in enumerate(zip(*np.triu_indices(size), strict=True)) for i in range(j + 1)
        ]
        i, pair = np.array(triples, dtype=int).reshape(-1, 2).T
        return np.concatenate([phi, phi[:, i] * phi[:, size + pair]], axis=1)


@dataclass(frozen=True)
class SquaredExponential:
    """phi_j(s) = exp(-(s - s_j)^T Lambda (s - s_j)), Lambda = diag(1 / (2 bandwidth^2)).

    With a `trend` [S] above 0 the features trend (s - mean s_j) follow, and the exponentials are LOW times as high: an
    option is a line, which the ridge hardly sees, with bumps, which it sees well. Away from its contexts it goes on
    along the line instead of falling back to its offset, and with few samples it is little more than the line.
    """

    centres: np.ndarray
    bandwidth: np.ndarray
    trend: np.ndarray
    kind: str = "squared-exponential"

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        """Features [N, F] of contexts [N, S]."""
        difference = (contexts[:, None, :] - self.centres[None, :, :]) / self.bandwidth
        bumps = np.exp(-0.5 * np.sum(difference**2, axis=-1))
        if not np.any(self.trend):
            return bumps
        return np.concatenate([LOW * bumps, self.trend * (contexts - self.centres.mean(axis=0))], axis=1)


@dataclass(frozen=True)
class Custom:
    """Features by the user's own function [N, S] -> [N, F]."""

    function: Callable[[np.ndarray], np.ndarray]
    kind: str = "custom"

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        """Features [N, F] of contexts [N, S]."""
        values = np.asarray(self.function(contexts), dtype=float)
        if values.ndim != 2 or values.shape[0] != contexts.shape[0] or not np.all(np.isfinite(values)):
            raise InputError(
                f"features must map contexts {contexts.shape} to finite numbers [{contexts.shape[0]}, F]; "
                f"got shape {values.shape}"
            )
        return values


POLYNOMIALS = {"linear": Linear, "quadratic": Quadratic, "cubic": Cubic}

FeatureMap = Linear | Quadratic | Cubic | SquaredExponential | Custom


@dataclass(frozen=True)
class ContextFeatures(Group):
    """The context features of the options."""

    family = "features"
    shorthand = "kind"
    kind: str | Callable[[np.ndarray], np.ndarray] = setting(
        "automatic",
        "Which functions of the context, or a function [N, S] -> [N, F]; automatic: the likeliest of the three for the "
        "solutions that the first rollouts show.",
        choices=FEATURE_NAMES,
        common=True,
    )
    count: int | None = setting(
        None,
        "Number of squared exponentials; by default 10 for one context number, 16 for two, 27 for three or more.",
        low=1,
        high=10_000,
        common=True,
    )
    trend: bool = setting(
        True,
        "Squared exponentials have the context itself beside them: options go on along lines where they have no "
        "rollouts. False is the paper's.",
    )

    def make(self, contexts: np.ndarray) -> FeatureMap:
        """The feature map for contexts like the given ones."""
        return make_features(self.kind, contexts, self.count, trend=self.trend)


def make_features(
    features: str | Callable[[np.ndarray], np.ndarray],
    contexts: np.ndarray,
    count: int | None = None,
    *,
    trend: bool = False,
) -> FeatureMap:
    """The feature map for contexts like the given ones; `count` is the number of squared exponentials.

    `trend` adds the contexts themselves, in units of their deviation, to the squared exponentials. "automatic" is
    linear: a learner that can tell may choose others (latent.py).
    """
    if isinstance(features, FeatureMap):
        return features
    if callable(features):
        return Custom(features)
    centre, scale = contexts.mean(axis=0), contexts.std(axis=0)
    scale = np.where(scale > 1e-13 * np.max(np.abs(contexts), axis=0, initial=0.0), scale, 1.0)
    if features in ("automatic", "linear") or (features in FEATURE_NAMES and contexts.shape[1] == 0):
        return Linear(centre, scale)
    if features == "quadratic":
        return Quadratic(centre, scale)
    if features == "squared-exponential":
        unit = (contexts - centre) / scale
        chosen = spread_points(unit, count or default_count(contexts.shape[1]))
        gaps = np.sqrt(np.sum((chosen[:, None] - chosen[None]) ** 2, axis=-1))
        nearest = np.sort(gaps, axis=1)[:, 1] if len(chosen) > 1 else np.ones(1)
        bandwidth = max(float(np.mean(nearest)), 1e-6)
        slope = 1.0 / scale if trend else np.zeros_like(scale)
        return SquaredExponential(centre + scale * chosen, scale * bandwidth, slope)
    raise UnknownNameError("features", str(features), FEATURE_NAMES)


def bent(features: FeatureMap) -> FeatureMap:
    """These features with the products of the context's numbers by one degree higher behind them, where they are
    polynomials.
    """
    if not isinstance(features, Linear) or isinstance(features, Cubic):
        return features
    higher = Cubic if isinstance(features, Quadratic) else Quadratic
    return higher(features.centre, features.scale)


def default_count(context_size: int) -> int:
    """Squared exponentials for a context of this size: 10 on a line, a few tens in space."""
    return COUNTS[min(context_size, len(COUNTS)) - 1]


def spread_points(points: np.ndarray, count: int) -> np.ndarray:
    """At most `count` of the points, spread evenly: farthest-point traversal from the one nearest the mean."""
    chosen = [int(np.argmin(np.sum((points - points.mean(axis=0)) ** 2, axis=1)))]
    distance = np.sum((points - points[chosen[0]]) ** 2, axis=1)
    while len(chosen) < count and distance.max() > 1e-12:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
    return points[np.sort(chosen)]
