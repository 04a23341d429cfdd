"""A policy in one file: a zip archive of plain numpy arrays (`.npz`) with a JSON header. Nothing in it runs.

docs/policy_file.md describes the format. The Gaussian process is stored as its points, its beta = K^-1 y and
its hyper-parameters; what an optimistic or a cautious gate needs besides is computed again on loading (acting.py) or,
for learning, K^-1 when it is first asked for. Loading a policy loads no JAX.
Doubts are text, and stand in the header.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hpsde.base.archive import Field, read_arrays, read_stream, write_arrays
from hpsde.base.precision import double_precision
from hpsde.errors import FileFormatError, InputError
from hpsde.gp.kernel import KINDS
from hpsde.policy.acting import OPTION_FIELDS, restored_gate, restored_options
from hpsde.policy.doubt_entries import doubt_entries, doubts_from
from hpsde.policy.doubts import Doubt
from hpsde.policy.fields import (
    ENCODERS,
    HAS_ENCODER,
    LINEAR,
    NAMES_OPTIONS,
    VERSION,
    check_fields,
    check_shapes,
    fields_of,
)
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.steps import level
from hpsde.steps.encoders import LARGEST_SHAPE, Encoder, OwnEncoder
from hpsde.steps.features import POLYNOMIALS, Custom, FeatureMap, SquaredExponential
from hpsde.steps.rollouts import Units

FORMAT = "hpsde-policy"
READABLE = tuple(range(1, HAS_ENCODER + 1))
KEYS = ("format", "version", "features", "gate")


def save_policy(policy: HierarchicalPolicy, path: str | Path) -> None:
    """Write the policy; the file appears whole or not at all."""
    header, arrays = packed(policy)
    write_arrays(Path(path), {"header": np.array(json.dumps(header)), **arrays})


def packed(policy: HierarchicalPolicy) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the fields of the policy's file, checked."""
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "features": policy.features.kind,
        "gate": policy.gate.kind,
        "doubts": doubt_entries(policy.doubts),
        "options": policy.options_kind,
    }
    if policy.encoder is not None:
        header |= {"version": HAS_ENCODER, "encoder": policy.encoder.kind}
    arrays = policy_arrays(policy)
    check_fields(arrays, policy_fields(policy))
    return header, arrays


def load_policy(
    path: str | Path,
    *,
    features: Callable[[np.ndarray], np.ndarray] | None = None,
    encoder: Callable[[np.ndarray], Any] | None = None,
) -> HierarchicalPolicy:
    """Read a policy. One learned with features, or with an encoder, of your own needs that function again: `features=`,
    `encoder=`.
    """
    return _policy_of(path, read_arrays(Path(path), links=True), features, encoder)


def policy_of_bytes(content: bytes, name: str) -> HierarchicalPolicy:
    """The policy of a file's bytes; `name` is what messages call it."""
    return _policy_of(name, read_stream(io.BytesIO(content), len(content), f"{name} is not a policy file"))


def _policy_of(
    path: str | Path, arrays: dict[str, np.ndarray], features: Any = None, encoder: Any = None
) -> HierarchicalPolicy:
    """The policy of what was read; `path` is for messages."""
    try:
        header = json.loads(str(arrays.pop("header")))
    except (KeyError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not a policy file: it has no hpsde header") from error
    policy = unpacked(path, header, arrays, features, encoder)
    _check_custom_features(policy)
    try:
        policy.prepare()
    except MemoryError as error:
        raise FileFormatError(f"{path} needs more memory than there is") from error
    return policy


def unpacked(
    path: str | Path,
    header: Any,
    arrays: dict[str, np.ndarray],
    features: Callable[[np.ndarray], np.ndarray] | None = None,
    encoder: Any = None,
) -> HierarchicalPolicy:
    """The policy of a header and fields, checked; errors name the file."""
    _check_header(path, header)
    if (header["features"] == "custom") != (features is not None):
        raise InputError(
            f"{path} was learned with features of your own: load_policy(path, features=function)"
            if features is None
            else f"{path} has {header['features']} features and takes no others: load_policy(path)"
        )
    if (header.get("encoder") == OwnEncoder.kind) != (encoder is not None):
        raise InputError(
            f"{path} was learned with an encoder of your own, which is not in the file: load_policy(path, "
            "encoder=function)"
            if encoder is None
            else f"{path} has {'no' if 'encoder' not in header else 'its own'} encoder and takes no other: "
            "load_policy(path)"
        )
    try:
        kinds = header["features"], header["gate"], header["version"], header.get("options", LINEAR)
        check_fields(arrays, fields_of(*kinds, header.get("encoder")))
        encodes = _encoder(header.get("encoder"), arrays, encoder)
    except InputError:  # of the user's own encoder
        raise
    except ValueError as error:
        raise FileFormatError(f"{path} is damaged: {error}") from error
    return _assemble(header, _unsaid(arrays) | arrays, features, _doubts(path, header), encodes)


def _encoder(kind: str | None, arrays: dict[str, np.ndarray], function: Any) -> Encoder | None:
    """What encodes contexts; a ValueError where it cannot be that of the file's options."""
    if kind is None:
        return None
    own = {name.removeprefix("encoder_"): arrays[name] for name in arrays if name.startswith("encoder_")}
    size = len(arrays["units_context_centre"])
    found = restored_encoder(kind, own, function, size)
    if found.size != size:
        raise ValueError(f"its encoder gives {found.size} numbers, its options take {size}")
    return found


def restored_encoder(
    kind: str, arrays: dict[str, np.ndarray], function: Any = None, size: int | None = None
) -> Encoder:
    """The encoder of its arrays; a ValueError where they do not fit together. function: the user's own, which gives
    `size` numbers.
    """
    check_shapes(arrays, ENCODERS[kind].fields)
    shape = tuple(arrays["shape"].tolist())
    if not shape or min(shape) < 1 or math.prod(shape) > LARGEST_SHAPE:
        raise ValueError(f"its contexts are of shape {list(shape)}")
    return OwnEncoder(function, shape, size=size) if kind == OwnEncoder.kind else ENCODERS[kind].restored(arrays)


def policy_arrays(policy: HierarchicalPolicy) -> dict[str, np.ndarray]:
    """All numbers of a policy, by the names of the file's fields."""
    values, fields = _values(policy), policy_fields(policy)
    return {name: np.asarray(values[name], dtype=fields[name].dtype) for name in fields}


def policy_fields(policy: HierarchicalPolicy) -> dict[str, Field]:
    """The fields of the policy's file."""
    encoder = None if policy.encoder is None else policy.encoder.kind
    return fields_of(policy.features.kind, policy.gate_kind, options=policy.options_kind, encoder=encoder)


def _check_header(path: str | Path, header: Any) -> None:
    try:
        known = header["format"] == FORMAT
        version = header["version"]
    except (KeyError, TypeError) as error:
        raise FileFormatError(f"{path} is not a policy file: it has no hpsde header") from error
    if not known:
        raise FileFormatError(f"{path} is not a policy file: its format is {header['format']!r}, not {FORMAT!r}")
    if version not in READABLE:
        known_versions = ", ".join(map(str, READABLE))
        raise FileFormatError(f"{path} has version {version!r}; this hpsde reads versions {known_versions}")
    since = {"doubts": 3, "options": NAMES_OPTIONS, "encoder": HAS_ENCODER}
    later = [name for name in since if version >= since[name]]
    if set(header) != {*KEYS, *later}:
        raise FileFormatError(f"{path} is damaged: its header has the keys {', '.join(header)}")


def _doubts(path: str | Path, header: dict[str, Any]) -> tuple[Doubt, ...]:
    try:
        return doubts_from(header.get("doubts", []))
    except ValueError as error:
        raise FileFormatError(f"{path} is damaged: {error}") from error


def _values(policy: HierarchicalPolicy) -> dict[str, Any]:
    """All fields of the file by name."""
    values: dict[str, Any] = {f"option_{name}": getattr(policy.standard_options, name) for name in OPTION_FIELDS}
    h = policy.standard_options.h
    values |= {} if h is None else {f"option_h_{name}": value for name, value in h._asdict().items()}
    values |= {f"units_{name}": value for name, value in policy.units._asdict().items()}
    values |= {name: getattr(policy, name) for name in ("kept", "mean_returns", "known_contexts")}
    numbers = 0 if policy.numbers is None else np.asarray(policy.numbers)
    values["option_numbers"] = np.where(policy.kept, numbers, 0)
    values["option_tried"] = policy.kept if policy.tried is None else np.asarray(policy.tried) & policy.kept
    means, counts = policy.measured_returns, policy.measured_rollouts
    values["option_measured_return"] = np.where(policy.kept, 0.0 if means is None else means, 0.0)
    values["option_measured_rollouts"] = np.where(policy.kept, 0 if counts is None else counts, 0)
    values |= {f"features_{name}": value for name, value in vars(policy.features).items()}
    if policy.encoder is not None:
        values |= {f"encoder_{name}": value for name, value in policy.encoder.arrays().items()}
    from hpsde.steps.gates import kind_of

    return values | {f"gate_{name}": value for name, value in kind_of(policy.gate).arrays(policy.gate).items()}


def _unsaid(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What earlier versions had no fields for.

    Parameters were scaled alone, features without trend, no gate cautious, none of success or failure, all kernels
    squared exponentials, returns had no level, parameters no bounds, gates were exact;
    nobody counted options, nor what they had earned.
    """
    kernel = KINDS["matern" if arrays.get("gate_matern") else "se"]
    return {
        "option_numbers": np.zeros(len(arrays["kept"]), dtype=np.int64),
        "option_tried": arrays["kept"],
        "option_measured_return": np.zeros(len(arrays["kept"])),
        "option_measured_rollouts": np.zeros(len(arrays["kept"]), dtype=np.int64),
        "units_parameter_axes": np.eye(len(arrays["units_parameter_scale"])),
        "units_return_level": level.none(len(arrays["units_context_scale"])),
        "units_parameter_low": np.full(len(arrays["units_parameter_scale"]), -np.inf),
        "units_parameter_high": np.full(len(arrays["units_parameter_scale"]), np.inf),
        "features_trend": np.zeros(len(arrays["units_context_scale"])),
        "gate_cautious": np.array(False),
        "gate_binary": np.array(False),
        "gate_kernel_tau": np.array(kernel.tau),
        "gate_kernel_w": np.array(kernel.w),
        "gate_known": np.zeros((0, 0)),
    }


def _assemble(
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
    function: Any,
    doubts: tuple[Doubt, ...],
    encoder: Encoder | None,
) -> HierarchicalPolicy:
    """The policy of checked fields."""
    units = Units(*(arrays[f"units_{name}"] for name in Units._fields))
    return HierarchicalPolicy.of_fields(
        arrays,
        header["gate"],
        header.get("options", LINEAR),
        kept=arrays["kept"],
        features=_features(header["features"], arrays, function),
        units=units,
        mean_returns=arrays["mean_returns"],
        known_contexts=arrays["known_contexts"],
        numbers=arrays["option_numbers"] if arrays["option_numbers"].any() else None,
        tried=arrays["option_tried"],
        measured_returns=arrays["option_measured_return"],
        measured_rollouts=arrays["option_measured_rollouts"],
        doubts=doubts,
        encoder=encoder,
    )


@double_precision
def made_later(name: str, gate: str, options: str, fields: Mapping[str, np.ndarray], units: Units) -> Any:
    """The options or the gate of a policy with these fields, as learners have them."""
    return restored_gate(gate, fields) if name == "gate" else restored_options(options, fields, units.limits)


def _features(kind: str, arrays: dict[str, np.ndarray], function: Any) -> FeatureMap:
    if kind == "custom":
        return Custom(function)
    if kind in POLYNOMIALS:
        return POLYNOMIALS[kind](arrays["features_centre"], arrays["features_scale"])
    return SquaredExponential(arrays["features_centres"], arrays["features_bandwidth"], arrays["features_trend"])


def _check_custom_features(policy: HierarchicalPolicy) -> None:
    """Features given on loading must be as many as those that the policy was learned with."""
    wanted = policy.acting.options.w.shape[1]
    given = policy.features(policy.units.context_centre[None, :]).shape[1]
    if given != wanted:
        raise InputError(
            f"features must be the function the policy was learned with, which gave {wanted} features; "
            f"this one gives {given}"
        )
