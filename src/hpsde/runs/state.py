"""A learner's state in one file, so that a run goes on without learning everything again.

The file is a cache: all of it follows from the rollouts. A run that finds it missing, damaged or too old learns
again what is missing, to the same bits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hpsde import gp
from hpsde.base.archive import read_arrays, write_arrays
from hpsde.base.tree import build, flatten
from hpsde.errors import FileFormatError
from hpsde.gp import warp
from hpsde.learners import ask_tell
from hpsde.learners import hpsde as learner
from hpsde.learners.ask_tell import Learner
from hpsde.mixture import conditional as policy_mixture
from hpsde.mixture.model import Mixture
from hpsde.policy.file import packed, unpacked
from hpsde.steps import behaviours, discovery, features, gaussian, landscape, region_state, surface
from hpsde.steps import initial as initial_policies
from hpsde.steps import state as steps_state
from hpsde.steps.options import known_options
from hpsde.steps.rollouts import Units

FORMAT, VERSION = "hpsde-learner", 18
POLICY = "_policy"
"""What of the learner is stored as in a policy file."""
LARGEST_EMPTY = 1_000_000
"""The most rows or columns of an array without a number."""

CLASSES = {
    kind.__name__: kind
    for kind in (
        ask_tell.Info,
        behaviours.Behaviour,
        behaviours.History,
        Mixture,
        discovery.Features,
        discovery.Found,
        features.Linear,
        features.Quadratic,
        features.Cubic,
        features.SquaredExponential,
        gaussian.LinearGaussian,
        *gp.KERNELS.values(),
        initial_policies.EstimatedDensity,
        landscape.Landscape,
        landscape.View,
        learner.Frame,
        policy_mixture.Posterior,
        region_state.Regions,
        steps_state.State,
        surface.Start,
        warp.Warp,
        Units,
    )
}


def save_state(learner: Learner, path: Path, origin: str) -> None:
    """Write what the learner must remember besides its rollouts. `origin` says which run it belongs to."""
    arrays: dict[str, np.ndarray] = {}
    outline = {name: flatten(getattr(learner, name), arrays) for name in learner.STATE if name != POLICY}
    if (policy := getattr(learner, POLICY)) is not None:
        outline[POLICY], fields = packed(policy)
        arrays |= {f"{POLICY}.{name}": array for name, array in fields.items()}
    outline = {name: outline.get(name) for name in learner.STATE}
    header = {"format": FORMAT, "version": VERSION, "origin": origin, "digest": _digest(arrays), "state": outline}
    write_arrays(path, {"header": np.array(json.dumps(header)), **arrays})


def load_state(learner: Learner, path: Path, origin: str) -> None:
    """Give a new learner the state of the file, or raise FileFormatError and leave the learner as it is."""
    arrays = read_arrays(path, "a learner's state")
    try:
        header = json.loads(str(arrays.pop("header")))
        if (header["format"], header["version"], header["origin"]) != (FORMAT, VERSION, origin):
            raise ValueError("it is another run's, or another version's")
        if header["digest"] != _digest(arrays) or list(header["state"]) != list(learner.STATE):
            raise ValueError("its parts do not belong together")
        _check_empty(arrays)
        trained = {kind.trained.__name__: kind.trained for kind in known_options().values() if kind.trained is not None}
        outline = header["state"] | {POLICY: None}
        values = {name: build(part, arrays, CLASSES | trained) for name, part in outline.items()}
        if header["state"][POLICY] is not None:
            fields = {name.removeprefix(f"{POLICY}."): arrays[name] for name in arrays if name.startswith(POLICY)}
            values[POLICY] = unpacked(path, header["state"][POLICY], fields)
        for name, value in values.items():
            before = getattr(learner, name)
            if before is not None and not isinstance(value, type(before)):
                raise ValueError(f"{name} is {type(value).__name__}")
        _check_sizes(learner, values)
    except Exception as error:  # whatever arrays that do not fit lead to, the file is at fault
        raise FileFormatError(f"{path} is not a learner's state, or is damaged: {error}") from error
    for name, value in values.items():
        setattr(learner, name, value)


def _check_empty(arrays: Mapping[str, np.ndarray]) -> None:
    """A ValueError where an array without numbers has a shape that memory would be laid out for all the same."""
    for name, array in arrays.items():
        if array.size == 0 and max(array.shape) > LARGEST_EMPTY:
            raise ValueError(f"{name} has no numbers, but the shape {list(array.shape)}")


def _check_sizes(learner: Learner, values: Mapping[str, Any]) -> None:
    """A ValueError unless policy and history can be this learner's; the rest shows when it is used."""
    policy, history = values[POLICY], values.get("_history")
    if policy is not None:
        sizes, wanted = (policy.context_size, policy.parameter_size), (learner.context_size, learner.parameter_size)
        if sizes != wanted:
            raise ValueError(f"its policy is of {sizes} contexts and parameters, not of {wanted}")
    if history is not None and history.expected_rollouts != learner.expected_rollouts:
        raise ValueError(f"it expects {history.expected_rollouts} rollouts, not {learner.expected_rollouts}")


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
