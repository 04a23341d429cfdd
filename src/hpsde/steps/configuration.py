"""What each step reads of the settings. A step knows these alone; `hpsde.Settings` has them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

LARGEST_POINTS = 24_576  # of a GP gate: a matrix of all pairs of them is computed when a policy is loaded


@runtime_checkable
class WeighingSettings(Protocol):
    """Of the importance weights W~."""

    @property
    def f(self) -> str | Callable[[np.ndarray], np.ndarray]: ...
    @property
    def temperature(self) -> float | None: ...
    @property
    def kl_bound(self) -> float: ...
    @property
    def flattening(self) -> float | None: ...


@runtime_checkable
class SurfaceSettings(Protocol):
    """Of the Gaussian process."""

    @property
    def warp(self) -> str: ...
    @property
    def gp_axes(self) -> str: ...
    @property
    def gp_max_points(self) -> int: ...


@runtime_checkable
class ReturnModelSettings(WeighingSettings, SurfaceSettings, Protocol):
    """Of the model of the return, and of those who ask for it."""

    @property
    def gate(self) -> str: ...
    @property
    def density(self) -> str: ...
    @property
    def model_step(self) -> bool: ...


@runtime_checkable
class LatentSettings(WeighingSettings, Protocol):
    """Of the options' number and the rollouts' assignment to them."""

    @property
    def max_options(self) -> int: ...
    @property
    def scouts(self) -> float: ...
    @property
    def density(self) -> str: ...
    @property
    def embedding_dimensions(self) -> int: ...
    @property
    def weight_sum(self) -> str: ...


@runtime_checkable
class TrainingSettings(Protocol):
    """Of the options' policies."""

    @property
    def max_options(self) -> int: ...
    @property
    def density(self) -> str: ...
    @property
    def update(self) -> str: ...
    @property
    def base(self) -> str: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def support(self) -> float: ...
    @property
    def match_squares(self) -> bool: ...
    @property
    def model_step(self) -> bool: ...
    @property
    def refine(self) -> bool: ...
    @property
    def ridge(self) -> float | None: ...


@runtime_checkable
class ClimbingSettings(WeighingSettings, Protocol):
    """Of the climbs."""

    @property
    def density(self) -> str: ...
    @property
    def refine(self) -> bool: ...


@runtime_checkable
class GateSettings(Protocol):
    """Of the gating policy."""

    @property
    def gate(self) -> str: ...
    @property
    def greedy(self) -> str: ...
