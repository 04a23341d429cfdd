"""The numbers of a policy that a page evaluates itself (page/model.js), as policy/acting.py does: options, gate, units.

Arrays are as in run_data.py, 64 bits each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpsde.gp.kernel import JITTER
from hpsde.policy.acting import GPInUse, MarginalInUse, SoftmaxInUse
from hpsde.policy.fields import LINEAR
from hpsde.policy.hierarchical import HierarchicalPolicy
from hpsde.serve.run_data import packed
from hpsde.steps.features import LOW, Custom, SquaredExponential


def model_data(policy: HierarchicalPolicy) -> dict[str, Any] | None:
    """All that a page needs to evaluate the policy in any context; None where it has code of the user's own, an encoder
    of contexts, or a gate that is sparse, whose deviations do not follow from its points.
    """
    gate, units, options = policy.acting.gate, policy.units, policy.acting.options
    if policy.options_kind != LINEAR or isinstance(policy.features, Custom) or policy.encoder is not None:
        return None
    if not isinstance(gate, GPInUse | SoftmaxInUse | MarginalInUse):
        return None
    if isinstance(gate, GPInUse) and gate.process.inverse is not None:
        return None
    tried = None if policy.tried is None else np.asarray(policy.tried)[policy.kept]
    allowed = tried if tried is not None and tried.any() else np.ones(len(options.b), dtype=bool)
    low, high = options.limits or (np.full(policy.parameter_size, -np.inf), np.full(policy.parameter_size, np.inf))
    values: dict[str, Any] = {"b": options.b, "w": options.w, "low": low, "high": high}
    values |= {name: getattr(units, name) for name in units._fields}
    values |= {"allowed": allowed.astype(float), "mean_returns": policy.mean_returns[policy.kept]}
    return {
        "turned": bool(units.turned),
        "features": _features(policy),
        "gate": _gate(gate, policy),
        **{name: packed(value, "f8") for name, value in values.items()},
    }


def _features(policy: HierarchicalPolicy) -> dict[str, Any]:
    features: Any = policy.features
    if isinstance(features, SquaredExponential):
        trend = features.trend if np.any(features.trend) else np.zeros(0)
        values = {"centres": features.centres, "bandwidth": features.bandwidth, "trend": trend}
        height = LOW if len(trend) else 1.0
        return {"kind": features.kind, "height": height, **{name: packed(each, "f8") for name, each in values.items()}}
    return {
        "kind": features.kind,
        "centre": packed(features.centre, "f8"),
        "scale": packed(features.scale, "f8"),
    }


def _gate(gate: GPInUse | SoftmaxInUse | MarginalInUse, policy: HierarchicalPolicy) -> dict[str, Any]:
    places = np.flatnonzero(policy.kept).tolist()
    if isinstance(gate, SoftmaxInUse):
        return {"kind": "softmax", "kept": places, "theta": packed(gate.theta, "f8")}
    values: dict[str, Any]
    if isinstance(gate, MarginalInUse):
        values = {"log_share": gate.log_share, "mean": gate.mean}
        values |= {"whitening": gate.whitening, "log_volume": gate.log_volume}
        return {"kind": "marginal", "kept": places, **{name: packed(each, "f8") for name, each in values.items()}}
    process = gate.process
    spread = [] if gate.cautious else gate.spread
    values = {
        "points": process.points,
        "beta": process.beta,
        "lengths": process.lengths,
        "centre": process.centre,
        "axes": np.zeros((0, 0)) if gate.axes is None else gate.axes,
        "root": np.zeros(0) if process.root is None else process.root,
        "variances": [e for e, _ in spread],
        "directions": [U for _, U in spread],
        "warp_returns": gate.warp.returns,
        "warp_scores": gate.warp.scores,
        "best": [gate.best],
    }
    numbers = {"mean": process.mean, "signal": process.signal_variance, "noise": process.noise_variance}
    return {
        "kind": "gp",
        "cautious": gate.cautious,
        "jitter": JITTER,
        "tau": process.kernel.tau,
        "weights": process.kernel.w,
        **numbers,
        **{name: packed(each, "f8") for name, each in values.items()},
    }
