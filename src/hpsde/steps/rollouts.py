"""The rollouts told to a learner, and their standard units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hpsde.base.checks import ROUNDING
from hpsde.steps import level

TURNED = 100.0  # largest condition number of the correlations that leaves the parameters' own axes
NEWEST = 50  # rollouts of the policy that say how it is doing
INITIAL = -1  # the "option" of a rollout of the initial policy
# The "behaviour" of rollouts whose density nobody knows: data from elsewhere, which count among the first, and what a
# policy proposed that was learned from a wrong return.
GIVEN, REPLACED = -1, -2


class Units(NamedTuple):
    """Centre and scale of contexts and parameters. Learning is in standard units: (x - centre) / scale.

    `return_level` [1 + 2 S]: coefficients of the level of the return, see level.py.

    Parameters that are nearly combinations of one another are turned, too: `parameter_axes` [D, D] has the principal
    axes of the scaled parameters in its rows, each as long as their deviation along it, standard = scaled axes^-1.
    Where parameters are not so correlated, the axes are the identity.

    `parameter_low`, `parameter_high` [D]: bounds in the user's units, infinite where there are none. Nothing that is
    given back in the user's units leaves them.
    """

    context_centre: np.ndarray
    context_scale: np.ndarray
    parameter_centre: np.ndarray
    parameter_scale: np.ndarray
    parameter_axes: np.ndarray
    return_level: np.ndarray
    parameter_low: np.ndarray
    parameter_high: np.ndarray

    def level(self, contexts: np.ndarray) -> np.ndarray:
        """What the context alone adds to the return [N]."""
        return level.features(self.contexts(contexts)) @ self.return_level

    def contexts(self, contexts: np.ndarray) -> np.ndarray:
        """Contexts in standard units."""
        return (contexts - self.context_centre) / self.context_scale

    def parameters(self, parameters: np.ndarray) -> np.ndarray:
        """Parameters in standard units."""
        scaled = (parameters - self.parameter_centre) / self.parameter_scale
        return np.linalg.solve(self.parameter_axes.T, scaled.T).T if self.turned else scaled

    def raw_parameters(self, standard: np.ndarray) -> np.ndarray:
        """Parameters in the user's units, within the bounds."""
        raw = self.raw_differences(standard) + self.parameter_centre
        return np.clip(raw, self.parameter_low, self.parameter_high)

    def raw_differences(self, standard: np.ndarray) -> np.ndarray:
        """Differences of parameters in the user's units."""
        return (standard @ self.parameter_axes if self.turned else standard) * self.parameter_scale

    @property
    def turned(self) -> bool:
        """Whether the axes are others than the parameters' own."""
        return not np.array_equal(self.parameter_axes, np.eye(len(self.parameter_axes)))

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The bounds in standard units, where there are any and they lie along the axes."""
        if self.turned or not np.any(np.isfinite([self.parameter_low, self.parameter_high])):
            return None
        low, high = self.parameters(np.stack([self.parameter_low, self.parameter_high]))
        return low, high

    @property
    def spreads(self) -> np.ndarray:
        """How much each standard number [xi, s] [D + S] varies beside the others, in the scaled units."""
        return np.concatenate([np.linalg.norm(self.parameter_axes, axis=1), np.ones(len(self.context_scale))])

    @property
    def log_volume(self) -> float:
        """log |d raw / d standard| of the parameters: log density in standard units less that in raw ones."""
        return float(np.sum(np.log(self.parameter_scale)) + np.linalg.slogdet(self.parameter_axes)[1])


def fit_units(
    contexts: np.ndarray,
    parameters: np.ndarray,
    *,
    whitening: bool = False,
    bounds: tuple[np.ndarray, np.ndarray] | None = None,
) -> Units:
    """Mean and deviation of the given rollouts; a number that varies by rounding alone keeps its own unit.

    With `whitening`, parameters whose correlation matrix has a condition number beyond TURNED get units along its
    principal axes.
    """

    def centre_and_scale(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        centre, deviation = values.mean(axis=0), values.std(axis=0)
        rounding = 1e-13 * np.max(np.abs(values), axis=0)
        return centre, np.where(deviation > rounding, deviation, 1.0)

    centre, scale = centre_and_scale(parameters)
    axes = principal_axes((parameters - centre) / scale) if whitening else np.eye(len(centre))
    low, high = bounds or (np.full(len(centre), -np.inf), np.full(len(centre), np.inf))
    return Units(*centre_and_scale(contexts), centre, scale, axes, level.none(contexts.shape[1]), low, high)


def principal_axes(scaled: np.ndarray) -> np.ndarray:
    """Principal axes [D, D] of scaled parameters [N, D], in rows as long as the deviation along each.

    The identity where the condition number is within TURNED or there are too few rows to tell.
    """
    size = scaled.shape[1]
    variance, axes = np.linalg.eigh(scaled.T @ scaled / max(len(scaled), 1))
    if size < 2 or len(scaled) < 3 * size or variance[-1] <= TURNED * variance[0]:
        return np.eye(size)
    # Beyond 1e12 an axis has no variance but rounding.
    return (axes * np.sqrt(np.maximum(variance, 1e-12 * variance[-1])))[:, ::-1].T


@dataclass
class Rollouts:
    """All rollouts in the order told. A failed one keeps its row, with return NaN; nothing learns from it."""

    context_size: int
    parameter_size: int
    contexts: np.ndarray = field(init=False)
    parameters: np.ndarray = field(init=False)
    returns: np.ndarray = field(init=False)
    failed: np.ndarray = field(init=False)
    option: np.ndarray = field(init=False)  # place of the option that made it; INITIAL for the initial policy
    number: np.ndarray = field(init=False)  # what that option is called from its birth on; 0: the initial policy
    behaviour: np.ndarray = field(init=False)  # which policy made it: 0 the initial one, 1, 2, ..., GIVEN, REPLACED
    iteration: np.ndarray = field(init=False)  # which call of tell brought it

    def __post_init__(self) -> None:
        self.contexts = np.zeros((0, self.context_size))
        self.parameters = np.zeros((0, self.parameter_size))
        self.returns = np.zeros(0)
        self.failed = np.zeros(0, dtype=bool)
        self.option = np.zeros(0, dtype=np.int64)
        self.number = np.zeros(0, dtype=np.int64)
        self.behaviour = np.zeros(0, dtype=np.int64)
        self.iteration = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.returns)

    @property
    def usable(self) -> int:
        """How many did not fail."""
        return int((~self.failed).sum())

    @property
    def next_iteration(self) -> int:
        """The number of the next call of tell."""
        return int(self.iteration.max(initial=-1)) + 1

    def append(self, **columns: np.ndarray) -> None:
        """Add rows; every column must be given."""
        for name, values in columns.items():
            setattr(self, name, np.concatenate([getattr(self, name), values]))


class Data(NamedTuple):
    """Rollouts in standard units, padded to few sizes; rows outside `mask` are padding."""

    contexts: np.ndarray  # [N, S]
    parameters: np.ndarray  # [N, D]
    returns: np.ndarray  # [N]
    features: np.ndarray  # [N, F]
    log_behaviour: np.ndarray  # [N] log pi_old, up to a constant
    mask: np.ndarray  # [N]
    initial: np.ndarray  # [N] which of them are the initial policy's
    limits: tuple[np.ndarray, np.ndarray] | None = None  # bounds [D] each, that options keep
    range: tuple[np.ndarray, np.ndarray] | None = None  # [D] each, of the initial policy where it is uniform
    rollouts: int = 0  # how many there are, those that are not trusted included
    level: np.ndarray | float = 0.0  # [N] what the contexts alone add to the returns
    bends: int = 0  # how many features, the last ones, are there only for refinement to bend means by

    def newest(self, belongs: np.ndarray | bool = True) -> np.ndarray:
        """Numbers of the policies' newest rollouts, of those that `belongs` [N] marks."""
        return np.flatnonzero(self.mask & ~self.initial & belongs)[-NEWEST:]

    @property
    def advantages(self) -> np.ndarray:
        """Returns less their level [N]: what the model of the return is a model of. Rounding errors are 0."""
        left = self.returns - self.level
        return np.where(np.abs(left) <= ROUNDING * np.max(np.abs(self.returns)), 0.0, left)

    @property
    def plain_features(self) -> np.ndarray:
        """The features that options are sought with: all but those that bend."""
        return self.features[:, : self.features.shape[1] - self.bends]

    @property
    def joint(self) -> np.ndarray:
        """Points [s, xi] [N, S + D]."""
        return np.concatenate([self.contexts, self.parameters], axis=1)


def rollout_seed(seed: int, number: int) -> int:
    """The seed of a rollout, from the learner's seed and its own number 1, 2, ...: the same wherever it runs."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint32)[0])


def seed_argument(task: Any, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """What `task.evaluate` is given besides contexts and parameters: the rollouts' seeds [N], where it takes them."""
    return {"seeds": np.array(seeds, dtype=np.int64)} if getattr(task, "takes_seeds", False) else {}
