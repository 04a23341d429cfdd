"""All gates: the paper's, a Gaussian process, and those it is compared with. A new one is a file and a line here."""

from __future__ import annotations

from typing import cast

import numpy as np

from hpsde.base.shapes import Array, Bool, Float
from hpsde.steps.authors import DrawnProcess
from hpsde.steps.configuration import GateSettings
from hpsde.steps.gate import Gate, Optimism, TrainedGate
from hpsde.steps.gating import GaussianProcess
from hpsde.steps.gaussian import LinearGaussian
from hpsde.steps.marginal import Marginal
from hpsde.steps.rollouts import Data
from hpsde.steps.softmax import Softmax
from hpsde.steps.surface import Surface

GATES = (GaussianProcess, DrawnProcess, Softmax, Marginal)


def train_gate(data: Data, weighted: np.ndarray, surface: Surface | None, settings: GateSettings) -> TrainedGate:
    """The gating policy, from the rollouts and how much each belongs to each option [O, N].

    Softmax, where the wanted one needs a process and there is none.
    """
    lacks = surface is None and settings.gate.needs_surface
    return cast(TrainedGate, (Softmax() if lacks else settings.gate).train(data, weighted, surface))


def known_gates() -> dict[str, type[Gate]]:
    """The gates of this package and those that were defined elsewhere, by name."""
    return Gate.known


def kind_of(gate: TrainedGate) -> type[Gate]:
    """The class that trained the gate."""
    return known_gates()[gate.kind]


def explorer_of(gate: TrainedGate, wanted: Gate) -> Gate:
    """How a trained gate explores: by the wanted settings, or its kind's defaults where those are of another kind."""
    return wanted if isinstance(gate, wanted.trained) else kind_of(gate)()


def scores(
    gate: TrainedGate,
    options: LinearGaussian,
    kept: Bool[Array, " O"],
    features: Float[Array, "C F"],
    contexts: Float[Array, "C S"],
    optimism: Optimism | None = None,
) -> Float[np.ndarray, "O C"]:
    """What the gate maximises, -inf for options that are not kept: in use, or with `optimism` while learning."""
    values = np.asarray(gate.values(options, kept, features, contexts, optimism))
    return np.where(kept[:, None], values, -np.inf)
