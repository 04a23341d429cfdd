"""What each step reads of the settings. A step knows these alone; `hpsde.Settings` has them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np


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
