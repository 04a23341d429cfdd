"""The groups of settings that each step reads; each group stands beside its step, and `hpsde.Settings` has all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from hpsde.steps.gate import Gate
    from hpsde.steps.latent import Density
    from hpsde.steps.option_policies import OptionPolicies
    from hpsde.steps.surface import ReturnModel
    from hpsde.steps.update import OptionUpdate
    from hpsde.steps.weights import Weights

LARGEST_POINTS = 24_576  # of a GP gate: a matrix of all pairs of them is computed when a policy is loaded


@runtime_checkable
class WeighingSettings(Protocol):
    """Of the importance weights W~."""

    @property
    def weights(self) -> Weights: ...


@runtime_checkable
class SurfaceSettings(Protocol):
    """Of the Gaussian process."""

    @property
    def return_model(self) -> ReturnModel: ...


@runtime_checkable
class ReturnModelSettings(WeighingSettings, SurfaceSettings, Protocol):
    """Of the model of the return, and of those who ask for it."""

    @property
    def gate(self) -> Gate: ...
    @property
    def density(self) -> Density: ...
    @property
    def options(self) -> OptionPolicies: ...


@runtime_checkable
class LatentSettings(WeighingSettings, Protocol):
    """Of the options' number and the rollouts' assignment to them."""

    @property
    def max_options(self) -> int: ...
    @property
    def density(self) -> Density: ...


@runtime_checkable
class TrainingSettings(Protocol):
    """Of the options' policies."""

    @property
    def max_options(self) -> int: ...
    @property
    def density(self) -> Density: ...
    @property
    def update(self) -> OptionUpdate: ...
    @property
    def options(self) -> OptionPolicies: ...


@runtime_checkable
class ClimbingSettings(WeighingSettings, Protocol):
    """Of the climbs."""

    @property
    def density(self) -> Density: ...
    @property
    def options(self) -> OptionPolicies: ...


@runtime_checkable
class GateSettings(Protocol):
    """Of the gating policy."""

    @property
    def gate(self) -> Gate: ...
