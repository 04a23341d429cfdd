"""A policy in one file: a zip archive of plain numpy arrays (`.npz`) with a JSON header. Nothing in it can run.

The fields are listed in docs/policy_file.md. The Gaussian process is stored as its data and hyper-parameters and
conditioned again on loading, which gives the same bits on the same machine.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hpsde import gp
from hpsde._precision import double_precision
from hpsde.errors import FileFormatError, InputError
from hpsde.features import Custom, FeatureMap, Linear, SquaredExponential
from hpsde.gating import Gate, GPGate, MarginalGate, SoftmaxGate
from hpsde.gaussian import LinearGaussian
from hpsde.policy import HierarchicalPolicy
from hpsde.rollouts import Units
from hpsde.warp import Warp

FORMAT, VERSION = "hpsde-policy", 1


def save_policy(policy: HierarchicalPolicy, path: str | Path) -> None:
    """Write the policy; the file appears whole or not at all."""
    header = {"format": FORMAT, "version": VERSION, "features": policy.features.kind, "gate": policy.gate.kind}
    arrays: dict[str, Any] = {f"option_{name}": value for name, value in policy.standard_options._asdict().items()}
    arrays |= {"kept": policy.kept, "mean_returns": policy.mean_returns, "known_contexts": policy.known_contexts}
    arrays |= {f"units_{name}": value for name, value in policy.units._asdict().items()}
    arrays |= _feature_arrays(policy.features) | _gate_arrays(policy.gate)
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    try:
        with open(partial, "wb") as file:
            np.savez(file, header=np.array(json.dumps(header)), **{k: np.asarray(v) for k, v in arrays.items()})
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def load_policy(
    path: str | Path, *, features: Callable[[np.ndarray], np.ndarray] | None = None
) -> HierarchicalPolicy:
    """Read a policy. One learned with features of your own needs that function again: `features=`."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, EOFError, KeyError, NotImplementedError) as error:
        raise FileFormatError(f"{path} is not a policy file, or is damaged: {error}") from error
    header = _header(path, arrays)
    try:
        policy = _assemble(header, arrays, features)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise FileFormatError(f"{path} is damaged: {type(error).__name__}: {error}") from error
    return policy


def _header(path: str | Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    try:
        header = json.loads(str(arrays["header"]))
        known = isinstance(header, dict) and header["format"] == FORMAT
        version = header["version"]
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} is not a policy file: it has no hpsde header") from error
    if not known:
        raise FileFormatError(f"{path} is not a policy file: its format is {header['format']!r}, not {FORMAT!r}")
    if version != VERSION:
        raise FileFormatError(f"{path} has version {version}; this hpsde reads version {VERSION}")
    return header


@double_precision
def _assemble(header: dict[str, Any], arrays: dict[str, np.ndarray], function: Any) -> HierarchicalPolicy:
    for name, array in arrays.items():
        if name != "header" and not (array.dtype == bool or np.issubdtype(array.dtype, np.number)):
            raise ValueError(f"field {name} holds {array.dtype}, not numbers")
    options = LinearGaussian(*(jnp.asarray(arrays[f"option_{name}"]) for name in LinearGaussian._fields))
    units = Units(*(arrays[f"units_{name}"] for name in Units._fields))
    kept = arrays["kept"].astype(bool)
    _check_shapes(options, units, kept, arrays)
    return HierarchicalPolicy(
        standard_options=options,
        kept=kept,
        gate=_gate(header["gate"], arrays),
        features=_features(header["features"], arrays, function),
        units=units,
        mean_returns=arrays["mean_returns"],
        known_contexts=arrays["known_contexts"],
    )


def _check_shapes(options: LinearGaussian, units: Units, kept: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
    count, size = options.b.shape
    contexts = len(units.context_centre)
    expected = {
        "w": (options.w.shape, (count, options.w.shape[1], size)),
        "Sigma": (options.Sigma.shape, (count, size, size)),
        "kept": (kept.shape, (count,)),
        "mean_returns": (arrays["mean_returns"].shape, (count,)),
        "parameter units": (units.parameter_centre.shape + units.parameter_scale.shape, (size, size)),
        "context scale": (units.context_scale.shape, (contexts,)),
        "known_contexts": (arrays["known_contexts"].shape[1:], (contexts,)),
    }
    for name, (actual, wanted) in expected.items():
        if actual != wanted:
            raise ValueError(f"{name} has shape {actual}, expected {wanted}")
    if not kept.any():
        raise ValueError("no option is kept")


def _feature_arrays(features: FeatureMap) -> dict[str, np.ndarray]:
    if isinstance(features, Linear):
        return {"features_centre": features.centre, "features_scale": features.scale}
    if isinstance(features, SquaredExponential):
        return {"features_centres": features.centres, "features_bandwidth": features.bandwidth}
    return {}


def _features(kind: str, arrays: dict[str, np.ndarray], function: Any) -> FeatureMap:
    if kind == "custom":
        if not callable(function):
            raise InputError("this policy was learned with features of your own: load_policy(path, features=function)")
        return Custom(function)
    if kind == "linear":
        return Linear(arrays["features_centre"], arrays["features_scale"])
    if kind == "squared-exponential":
        return SquaredExponential(arrays["features_centres"], arrays["features_bandwidth"])
    raise ValueError(f"unknown features {kind!r}")


def _gate_arrays(gate: Gate) -> dict[str, Any]:
    if isinstance(gate, GPGate):
        process = gate.process
        fields = {f"gate_{name}": value for name, value in process.hyperparameters._asdict().items()}
        points = process.z + process.centre[None, :]
        return fields | {
            "gate_z": np.where(process.mask[:, None], points, 0.0),
            "gate_scores": gate.scores,
            "gate_mask": process.mask,
            "gate_warp_returns": gate.warp.returns,
            "gate_warp_scores": gate.warp.scores,
        }
    return {f"gate_{name}": value for name, value in gate._asdict().items()}


def _gate(kind: str, arrays: dict[str, np.ndarray]) -> Gate:
    if kind == "gp":
        hyperparameters = gp.Hyperparameters(
            *(jnp.asarray(arrays[f"gate_{name}"]) for name in gp.Hyperparameters._fields)
        )
        mask, scores = arrays["gate_mask"].astype(bool), arrays["gate_scores"]
        condition = gp.condition_by_lapack if jax.default_backend() == "cpu" else gp.condition
        process = condition(hyperparameters, arrays["gate_z"], scores, mask)
        return GPGate(process, jnp.asarray(scores), Warp(arrays["gate_warp_returns"], arrays["gate_warp_scores"]))
    for gate in (SoftmaxGate, MarginalGate):
        if kind == gate.kind:
            return gate(*(jnp.asarray(arrays[f"gate_{name}"]) for name in gate._fields))
    raise ValueError(f"unknown gate {kind!r}")
