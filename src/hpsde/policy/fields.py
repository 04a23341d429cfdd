"""The fields of a policy file: their types and shapes, and what must hold of their numbers.

Shapes are in the letters of base/shapes.py, and P: points, E: axes of the gate, K: knots of the warp, J: bumps,
V: numbers of the return's level, Q: points of a gate that is sparse, or 0, M: squared exponentials of a kernel,
H: units in a layer of a network, L: its layers after the first, A: axes of a context that is encoded, X: its numbers,
C: components of an encoder, I: its points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hpsde.base.archive import TRUTH_VALUES, WHOLE_NUMBERS, Field
from hpsde.steps.configuration import LARGEST_POINTS
from hpsde.steps.encoders import Encoder, Flat, OwnEncoder
from hpsde.steps.network import NEURAL, SHAPES, Network
from hpsde.steps.pictures import PictureEncoder

# Of these the exponential and its square are taken.
LOGARITHMS = ("gate_log_lengths", "gate_log_signal", "gate_log_noise")
LARGEST_LOGARITHM = 300.0
LARGEST_SUM = 16  # squared exponentials of a kernel
# Infinite where a parameter has none.
BOUNDS = ("units_parameter_low", "units_parameter_high")


COMMON = {
    "kept": Field("O", TRUTH_VALUES),
    "mean_returns": Field("O"),
    "known_contexts": Field("N S"),
    "units_context_centre": Field("S"),
    "units_context_scale": Field("S"),
    "units_parameter_centre": Field("D"),
    "units_parameter_scale": Field("D"),
    "units_parameter_axes": Field("D D"),
    "units_return_level": Field("V"),
    "units_parameter_low": Field("D"),
    "units_parameter_high": Field("D"),
    "option_numbers": Field("O", WHOLE_NUMBERS),
    "option_tried": Field("O", TRUTH_VALUES),
    "option_measured_return": Field("O"),
    "option_measured_rollouts": Field("O", WHOLE_NUMBERS),
    "option_b": Field("O D"),
    "option_w": Field("O F D"),
    "option_Sigma": Field("O D D"),
}
FEATURES = {
    "linear": {"features_centre": Field("F"), "features_scale": Field("F")},
    "quadratic": {"features_centre": Field("S"), "features_scale": Field("S")},
    "cubic": {"features_centre": Field("T"), "features_scale": Field("T")},
    "squared-exponential": {
        "features_centres": Field("J S"),
        "features_bandwidth": Field("S"),
        "features_trend": Field("S"),
    },
    "custom": {},
}
GATES = {
    "gp": {
        "gate_log_lengths": Field("E"),
        "gate_log_signal": Field(""),
        "gate_log_noise": Field(""),
        "gate_z": Field("P E"),
        "gate_mask": Field("P", TRUTH_VALUES),
        "gate_beta": Field("P"),
        "gate_centre": Field("E"),
        "gate_mean": Field(""),
        "gate_axes": Field("E Z"),
        "gate_cautious": Field("", TRUTH_VALUES),
        "gate_binary": Field("", TRUTH_VALUES),
        "gate_matern": Field("", TRUTH_VALUES),
        "gate_kernel_tau": Field("M"),
        "gate_kernel_w": Field("M"),
        "gate_known": Field("Q Q"),
        "gate_scores": Field("P"),
        "gate_warp_returns": Field("K"),
        "gate_warp_scores": Field("K"),
    },
    "softmax": {"gate_theta": Field("O G")},
    "marginal": {
        "gate_log_share": Field("O"),
        "gate_mean": Field("O S"),
        "gate_covariance": Field("O S S"),
    },
}

NEW_IN_VERSION = {
    2: ("units_parameter_axes", "features_trend", "gate_axes", "gate_cautious"),
    3: ("option_numbers", "gate_binary"),
    4: ("option_tried",),
    5: ("gate_matern",),
    6: ("units_return_level",),
    7: BOUNDS,
    8: ("option_measured_return", "option_measured_rollouts"),
    9: ("gate_known",),
    11: ("gate_kernel_tau", "gate_kernel_w"),
}
GONE_IN_VERSION = {11: ("gate_matern",)}
VERSION = max(NEW_IN_VERSION)
NAMES_OPTIONS = 10  # since this version a header may name the kind of the options, and since the next it does
HAS_ENCODER = VERSION + 1  # the version of files whose contexts are encoded, which says by what; others have none
LINEAR = "linear"
ENCODERS: dict[str, type[Encoder]] = {each.kind: each for each in (Flat, PictureEncoder, OwnEncoder)}
OPTIONS: dict[str, tuple[Any, Mapping[str, str]]] = {NEURAL: (Network, SHAPES)}


def fields_of(
    features: Any, gate: Any, version: int = VERSION, options: Any = LINEAR, encoder: Any = None
) -> dict[str, Field]:
    """The fields of a file with these kinds of features, gate, options and encoder; None: there is none."""
    if not isinstance(features, str) or features not in FEATURES:
        raise ValueError(f"features {features!r} is none of {', '.join(FEATURES)}")
    if encoder is not None and (not isinstance(encoder, str) or encoder not in ENCODERS):
        raise ValueError(f"encoder {encoder!r} is none of {', '.join(ENCODERS)}")
    fields = COMMON | FEATURES[features] | gate_fields(gate) | option_fields(options)
    fields |= {} if encoder is None else _as_fields("encoder_", ENCODERS[encoder].fields)
    unknown = {name for since, names in NEW_IN_VERSION.items() if since > version for name in names}
    unknown |= {name for since, names in GONE_IN_VERSION.items() if since <= version for name in names}
    return {name: field for name, field in fields.items() if name not in unknown}


def gate_fields(gate: Any) -> dict[str, Field]:
    """The fields of a gate: hpsde's first three are here, so that they load no JAX; of others their class says them."""
    if isinstance(gate, str) and gate in GATES:
        return GATES[gate]
    from hpsde.steps.gates import known_gates

    known = known_gates()
    if not isinstance(gate, str) or gate not in known:
        raise ValueError(
            f"gate {gate!r} is none of {', '.join(sorted(known))}: import the module that defines it first"
        )
    return _as_fields("gate_", known[gate].shapes)


def option_fields(options: Any) -> dict[str, Field]:
    """The fields of what the options' means add to their linear part: networks are here, so that they load no JAX; of
    others their class says them.
    """
    if options == LINEAR:
        return {}
    if isinstance(options, str) and options in OPTIONS:
        return _as_fields("option_h_", OPTIONS[options][1])
    from hpsde.steps.options import known_options

    known = known_options()
    if not isinstance(options, str) or options not in known:
        raise ValueError(
            f"options {options!r} is none of {', '.join(sorted(known))}: import the module that defines it first"
        )
    return _as_fields("option_h_", known[options].shapes)


def _as_fields(prefix: str, shapes: Mapping[str, str | Field]) -> dict[str, Field]:
    return {prefix + name: Field(shape) if isinstance(shape, str) else shape for name, shape in shapes.items()}


def check_fields(arrays: Mapping[str, np.ndarray], fields: Mapping[str, Field]) -> None:
    """A ValueError unless these are the fields, with their types and shapes, and numbers that make sense."""
    sizes = check_shapes(arrays, fields)
    # Every other size has numbers in the file that go with it: where there are no parameters, features need none.
    if sizes["D"] < 1 or sizes["O"] < 1:
        raise ValueError(f"it has {sizes['D']} parameters and {sizes['O']} options, at least 1 of each is needed")
    if sizes.get("P", 0) > LARGEST_POINTS:
        raise ValueError(f"its gate has {sizes['P']} points, at most {LARGEST_POINTS} are possible")
    if sizes.get("Q", 0) not in (0, sizes.get("P", 0)):
        raise ValueError(f"what its gate knows is of {sizes['Q']} points, not of its {sizes['P']}")
    for whole, of, wanted in (
        ("Z", "a gate", sizes["S"] + sizes["D"]),
        ("G", "a gate", sizes["F"] + 1),
        ("T", "cubic features", sizes["S"]),
        ("V", "the return's level", 1 + 2 * sizes["S"]),
    ):
        if sizes.get(whole, wanted) != wanted:
            raise ValueError(f"{sizes[whole]} numbers of {of} were found where {wanted} are needed")
    if "E" in sizes:
        # Since version 3 a gate may see few directions of its numbers; before, it saw as many as there are.
        least, most = 1 if "gate_binary" in fields else sizes["S"] + sizes["D"], sizes["S"] + sizes["D"]
        if not least <= sizes["E"] <= most:
            raise ValueError(f"{sizes['E']} axes of a gate were found where {least} to {most} are possible")
    if "features_centre" in fields:
        degree = "FST".index(fields["features_centre"].shape) + 1
        if sizes["F"] != math.comb(sizes["S"] + degree, degree) - 1:
            kind = ("linear", "quadratic", "cubic")[degree - 1]
            raise ValueError(f"{sizes['F']} {kind} features were found for {sizes['S']} context numbers")
    if "J" in sizes:
        wanted = sizes["J"] + (sizes["S"] if np.any(arrays.get("features_trend", 0.0)) else 0)
        if sizes["F"] != wanted:
            raise ValueError(f"options of {sizes['F']} features were found where {wanted} features are")
    _check_numbers(arrays)


def check_shapes(arrays: Mapping[str, np.ndarray], fields: Mapping[str, Field]) -> dict[str, int]:
    """The sizes by their letters, or a ValueError unless these are the fields, with their types, finite numbers and
    shapes.
    """
    if missing := [name for name in fields if name not in arrays]:
        raise ValueError(f"the field {missing[0]} is missing")
    if unknown := [name for name in arrays if name not in fields]:
        raise ValueError(f"the field {unknown[0]} is not known")
    sizes: dict[str, int] = {}
    for name, field in fields.items():
        _check_shape(name, arrays[name], field, sizes)
        if not np.all(np.isfinite(arrays[name]) | (np.isinf(arrays[name]) & (name in BOUNDS))):
            raise ValueError(f"the field {name} holds numbers that are not finite")
    return sizes


def _check_shape(name: str, array: np.ndarray, field: Field, sizes: dict[str, int]) -> None:
    letters = field.shape.split()
    if array.dtype != np.dtype(field.dtype):
        raise ValueError(f"the field {name} holds {array.dtype}, expected {np.dtype(field.dtype)}")
    wanted = [sizes.get(letter, letter) for letter in letters]
    if array.ndim == len(letters):
        for letter, size in zip(letters, array.shape, strict=True):
            sizes.setdefault(letter, size)
    if array.shape != tuple(sizes.get(letter) for letter in letters):
        raise ValueError(f"the field {name} has shape {list(array.shape)}, expected [{', '.join(map(str, wanted))}]")


def _check_numbers(arrays: Mapping[str, np.ndarray]) -> None:
    if not arrays["kept"].any():
        raise ValueError("no option is kept")
    for name, array in arrays.items():
        if name.endswith(("_scale", "_bandwidth")) and not np.all(array > 0.0):
            raise ValueError(f"the field {name} must be positive")
        if name in LOGARITHMS and np.any(np.abs(array) > LARGEST_LOGARITHM):
            raise ValueError(f"the field {name} must lie within +-{LARGEST_LOGARITHM:g}")
    if "option_numbers" in arrays:
        _check_option_numbers(arrays["option_numbers"][arrays["kept"]])
    if np.any(arrays.get("option_measured_rollouts", 0) < 0):
        raise ValueError("the field option_measured_rollouts must not be negative")
    if "gate_kernel_tau" in arrays:
        _check_kernel(arrays["gate_kernel_tau"], arrays["gate_kernel_w"])
    if arrays.get("gate_binary", False):
        _check_success(arrays["gate_scores"], arrays["gate_beta"])
    if BOUNDS[0] in arrays and not np.all(arrays[BOUNDS[0]] < arrays[BOUNDS[1]]):
        raise ValueError(f"the field {BOUNDS[0]} must be less than {BOUNDS[1]}")
    axes = arrays.get("units_parameter_axes", np.eye(1))
    if np.linalg.matrix_rank(axes) < len(axes):
        raise ValueError("the field units_parameter_axes holds axes that do not span the parameters")
    for name in ("option_Sigma", "gate_covariance"):
        if name in arrays and not _positive_definite(arrays[name]):
            raise ValueError(f"the field {name} holds a matrix that is no covariance")
    if "gate_warp_scores" in arrays:
        returns, scores = arrays["gate_warp_returns"], arrays["gate_warp_scores"]
        if len(scores) < 2 or np.any(np.diff(scores) <= 0.0) or np.any(np.diff(returns) < 0.0):
            raise ValueError("the knots of the warp do not increase")


def _check_option_numbers(kept: np.ndarray) -> None:
    """The kept options have different numbers from 1 on, or all 0 where options were not numbered."""
    if np.any(kept) and (np.any(kept < 1) or len(np.unique(kept)) < len(kept)):
        raise ValueError("the field option_numbers holds numbers that name no options")


def _check_kernel(tau: np.ndarray, w: np.ndarray) -> None:
    """A sum of one or a few squared exponentials, whose weights sum to 1."""
    if not 1 <= len(tau) <= LARGEST_SUM:
        raise ValueError(f"its kernel is a sum of {len(tau)}, expected 1 to {LARGEST_SUM}")
    if not (np.all(tau > 0.0) and np.all(w > 0.0) and abs(np.sum(w) - 1.0) < 1e-9):
        raise ValueError("the fields gate_kernel_tau and gate_kernel_w must be positive, and gate_kernel_w sum to 1")


def _check_success(scores: np.ndarray, beta: np.ndarray) -> None:
    """Scores are success (1) or failure (0), and beta is by how much its probability misses them."""
    if not np.all(np.isin(scores, (0.0, 1.0))):
        raise ValueError("the field gate_scores must hold 0 or 1, for the gate is one of success or failure")
    if not np.all((scores - beta >= 0.0) & (scores - beta <= 1.0)):
        raise ValueError("the field gate_beta must hold scores less probabilities")


def _positive_definite(matrices: np.ndarray) -> bool:
    rounding = 1e-9 * np.max(np.abs(matrices), initial=0.0)
    if not np.allclose(matrices, np.swapaxes(matrices, 1, 2), rtol=0.0, atol=rounding):
        return False
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return True
