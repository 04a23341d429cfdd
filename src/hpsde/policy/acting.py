"""What a policy in use computes, from the numbers of its file, by numpy alone: nothing is compiled, JAX is not loaded.

The same numbers give the same bits in every process and thread. Equations: steps/gaussian.py, steps/gating.py,
gp/model.py and gp/moments.py, whose results these functions share to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpsde.base.precision import double_precision
from hpsde.gp.warp import Warp
from hpsde.policy.process import ProcessInUse, squared_distances
from hpsde.policy.spans import Span, find_span

if TYPE_CHECKING:
    from hpsde.steps.gaussian import LinearGaussian

MOST_SPANS = 200  # options that are looked at so; a file may have thousands
PART = 2**18  # numbers of a kernel matrix that are computed at once

Limits = tuple[np.ndarray, np.ndarray] | None


OPTION_FIELDS = ("b", "w", "Sigma")  # their bounds are those of the units


class OptionsInUse(NamedTuple):
    """The kept options in standard units: b [O, D], w [O, F, D], Sigma [O, D, D], bounds [D] where they have any, and
    h of each where their means are not linear in the features (steps/option_policies.py).
    """

    b: np.ndarray
    w: np.ndarray
    Sigma: np.ndarray
    limits: Limits
    h: tuple[Any, ...] = ()

    def means(self, features: np.ndarray) -> np.ndarray:
        """b_o + w_o' phi(s) + h_o(phi(s)) [O, C, D] within the bounds, of features [C, F]."""
        free = self.b[:, None, :] + features[None] @ self.w
        if self.h:
            free = free + np.stack([each.mean(features, np) for each in self.h])
        return free if self.limits is None else np.clip(free, *self.limits)


class SoftmaxInUse:
    """pi(o | s) proportional to exp(theta_o' [phi(s), 1])."""

    def __init__(self, fields: Mapping[str, np.ndarray], kept: np.ndarray):
        self.theta, self._kept = fields["gate_theta"], kept

    def scores(self, means: np.ndarray, features: np.ndarray, contexts: np.ndarray) -> np.ndarray:
        """log pi(o | s) of the kept options [O, C]."""
        values = self.theta[:, :-1] @ features.T + self.theta[:, -1:]
        return _log_softmax(values)[self._kept]


class MarginalInUse:
    """p(o | s) of one Gaussian over the contexts for each option."""

    def __init__(self, fields: Mapping[str, np.ndarray], kept: np.ndarray):
        self.log_share, self.mean, self._kept = fields["gate_log_share"], fields["gate_mean"], kept
        factors = np.linalg.cholesky(fields["gate_covariance"])
        self.whitening = np.linalg.inv(factors)
        self.log_volume = np.sum(np.log(np.diagonal(factors, axis1=1, axis2=2)), axis=1)

    def scores(self, means: np.ndarray, features: np.ndarray, contexts: np.ndarray) -> np.ndarray:
        """log p(o | s) of the kept options [O, C]."""
        white = (contexts[None] - self.mean[:, None]) @ np.swapaxes(self.whitening, 1, 2)
        constant = 0.5 * contexts.shape[1] * np.log(2.0 * np.pi)
        log_density = -0.5 * np.sum(white**2, axis=2) - self.log_volume[:, None] - constant
        return _log_softmax(self.log_share[:, None] + log_density)[self._kept]


class GPInUse:
    """The gate by a Gaussian process: of an option's mean parameters the return less its deviation, or its expected
    return.
    """

    def __init__(self, fields: Mapping[str, np.ndarray], Sigma: np.ndarray):
        self.process, self.cautious = ProcessInUse(fields), bool(fields["gate_cautious"])
        self.warp = Warp(fields["gate_warp_returns"], fields["gate_warp_scores"])
        axes, mask = fields.get("gate_axes"), fields["gate_mask"]
        own = axes is None or np.array_equal(axes, np.eye(len(axes)))
        self.axes = None if axes is None or own else axes
        # Beside its points a process overshoots; log odds of success have no such limit.
        limited = not fields["gate_binary"] and mask.any()
        self.best = float(np.max(fields["gate_scores"][mask])) if limited else np.inf
        self._Sigma = Sigma
        self.spans: list[Span] | None = None  # None: not prepared

    def scores(self, means: np.ndarray, features: np.ndarray, contexts: np.ndarray) -> np.ndarray:
        """What the gate maximises [O, C]."""
        mean, deviation = self.moments(means, contexts, deviations=self.cautious)
        return mean - deviation if self.cautious else mean

    def moments(
        self, means: np.ndarray, contexts: np.ndarray, deviations: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean score of each option [O, C] and its posterior standard deviation, or NaN where that is not asked for."""
        mean, deviation = np.empty(means.shape[:2]), np.full(means.shape[:2], np.nan)
        for part in self._parts(len(means) * len(self.process.points), len(contexts)):
            for o in range(len(means)):
                k, prior = self._expectations(o, means[o, part], contexts[part])
                mean[o, part] = self.process.mean_of(k)
                if deviations:
                    deviation[o, part] = np.sqrt(np.maximum(prior - self.process.known(k), 0.0))
        return (np.minimum(mean, self.best) if self.cautious else mean), deviation

    def prepare(self, means: np.ndarray, contexts: np.ndarray) -> None:
        """Compute what choices between options need, and what their means [O, N, D] in some contexts tell of others."""
        self.process.prepare()
        if len(means) > MOST_SPANS:
            self.spans = []
            return
        spans = [find_span(self.process, at) for at in self._scaled(means, contexts)]
        self.spans = [span for span in spans if span is not None] if all(spans) else []

    def choose(self, means: np.ndarray, contexts: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """The allowed option [O] with the highest cautious score [C]; what bounds decide is not computed."""
        open_ = np.repeat(allowed[:, None], len(contexts), axis=1)
        surest, widest = np.zeros(open_.shape), np.full(open_.shape, np.inf)
        if self.spans and np.sum(allowed) > 1:
            for part in self._parts(len(self.spans[0].nodes), len(contexts)):
                given = means[:, part], contexts[part], open_[:, part]
                surest[:, part], widest[:, part] = self._narrow(self.spans, *given)
        chosen, undecided = np.argmax(open_, axis=0), np.flatnonzero(np.sum(open_, axis=0) > 1)
        row = int(np.sum(open_[:, undecided])) * len(self.process.points) // max(len(undecided), 1)
        for part in self._parts(row, len(undecided)):
            rows = undecided[part]
            given = means[:, rows], contexts[rows], open_[:, rows]
            chosen[rows] = self._choose(*given, surest[:, rows], widest[:, rows])
        return chosen

    def _narrow(
        self, spans: list[Span], means: np.ndarray, contexts: np.ndarray, open_: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Leave open [O, C] the options that may be the best, by what their nodes tell; the least and the largest
        deviation [O, C].
        """
        least, most = np.full(open_.shape, -np.inf), np.full(open_.shape, -np.inf)
        surest, widest = np.zeros(open_.shape), np.full(open_.shape, np.inf)
        for o in np.flatnonzero(open_[:, 0]):
            low, high, surest[o], widest[o] = spans[o].bounds(self.process, self._scaled(means[o], contexts))
            least[o], most[o] = np.minimum(low, self.best) - widest[o], np.minimum(high, self.best) - surest[o]
        open_ &= ~(most < np.max(least, axis=0))
        return surest, widest

    def _choose(
        self, means: np.ndarray, contexts: np.ndarray, open_: np.ndarray, surest: np.ndarray, widest: np.ndarray
    ) -> np.ndarray:
        """The best of the options that are open [O, C], whose deviations lie between bounds."""
        process, places = self.process, np.arange(len(contexts))
        k = process.covariances(self._scaled(means, contexts)[open_])
        mean, least, most = (np.full(open_.shape, -np.inf) for _ in range(3))
        mean[open_] = np.minimum(process.mean_of(k), self.best)
        least[open_] = mean[open_] - np.fmin(process.largest_deviation(k), widest[open_])
        most[open_] = mean[open_] - surest[open_]
        best = np.argmax(least, axis=0)
        # An option that is worse with its least deviation than another with its largest is not chosen. NaN is no less.
        left = open_ & ~(most < least[best, places])
        left[:, np.sum(left, axis=0) == 1] = False
        if not left.any():
            return best
        values = np.where(left, mean, -np.inf)
        values[left] -= process.deviation_of(k[left[open_]])
        return np.where(left.any(axis=0), np.argmax(values, axis=0), best)

    @staticmethod
    def _parts(row: int, count: int) -> list[slice]:
        """Parts of so many rows, each of so many numbers, that are computed at once."""
        size = max(1, PART // max(row, 1))
        return [slice(start, start + size) for start in range(0, count, size)]

    def _scaled(self, means: np.ndarray, contexts: np.ndarray) -> np.ndarray:
        """Points A [xi, s] [..., C, E] in kernel lengths, of mean parameters [..., C, D] and contexts [C, S]."""
        repeated = np.broadcast_to(contexts, (*means.shape[:-1], contexts.shape[1]))
        z = np.concatenate([means, repeated], axis=-1)
        return self.process.scaled(z if self.axes is None else z @ self.axes.T)

    def _expectations(self, option: int, means: np.ndarray, contexts: np.ndarray) -> tuple[np.ndarray, float]:
        """The covariance with every point [C, P], and the prior variance: of the mean parameters' return where the gate
        is cautious, or of the expected return over the option's parameters.
        """
        at = self._scaled(means, contexts)
        if self.cautious:
            return self.process.covariances(at), self.process.signal_variance
        e, U = self.spread[option]
        return _expected_kernel(self.process, at, e, U)

    @cached_property
    def spread(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Eigenvalues and vectors of every option's covariance, in kernel lengths, where it has one."""
        D, lengths = self._Sigma.shape[1], self.process.lengths
        if self.axes is None:
            covariances = self._Sigma / (lengths[:D, None] * lengths[None, :D])
        else:
            A = self.axes[:, :D] / lengths[:, None]
            covariances = A[None] @ self._Sigma @ A.T[None]
        pairs = (np.linalg.eigh(each) for each in covariances)
        return [(np.maximum(e, 0.0), U) for e, U in pairs]


def _expected_kernel(process: ProcessInUse, at: np.ndarray, e: np.ndarray, U: np.ndarray) -> tuple[np.ndarray, float]:
    """q [C, P] and signal^2 sum_j w_j prod_d (1 + 2 e_d / tau_j)^-1/2; see gp/moments.py."""
    D = len(e)
    mu, x = at[:, :D] @ U, process.points[:, :D] @ U
    beside = squared_distances(at[:, D:], process.points[:, D:])
    q, prior = np.zeros((len(at), len(x))), 0.0
    for tau, w in process.kernel.parts:
        height = w * process.signal_variance * np.prod(1.0 + e / tau) ** -0.5
        root = np.sqrt(tau + e)
        q += height * np.exp(-0.5 * (squared_distances(mu / root, x / root) + beside / tau))
        prior += float(w * process.signal_variance * np.prod(1.0 + 2.0 / tau * e) ** -0.5)
    return q, prior


def _log_softmax(values: np.ndarray) -> np.ndarray:
    """values - log sum_o exp(values_o) of [O, C]."""
    shifted = values - np.max(values, axis=0)
    return shifted - np.log(np.sum(np.exp(shifted), axis=0))


def restored_gate(gate: str, fields: Mapping[str, np.ndarray]) -> Any:
    """The gate of a file's fields, as learners have it."""
    from hpsde.policy.fields import gate_fields
    from hpsde.steps.gates import known_gates

    arrays = {name.removeprefix("gate_"): fields[name] for name in gate_fields(gate) if name in fields}
    return known_gates()[gate].restored(arrays)


def restored_h(kind: str, fields: Mapping[str, np.ndarray]) -> Any:
    """What the options' means add to their linear part; None where it is nothing."""
    from hpsde.policy.fields import OPTIONS, option_fields

    if not (names := option_fields(kind)):
        return None
    arrays = {name.removeprefix("option_h_"): fields[name] for name in names}
    if kind in OPTIONS:
        return OPTIONS[kind][0](**arrays)
    from hpsde.steps.options import known_options

    return known_options()[kind].restored(arrays)


def restored_options(kind: str, fields: Mapping[str, np.ndarray], limits: Limits) -> LinearGaussian:
    """The options of a file's fields, as learners have them."""
    from hpsde.steps import gaussian

    b, w, Sigma = (fields[f"option_{name}"] for name in OPTION_FIELDS)
    return gaussian.cut(gaussian.LinearGaussian(b, w, Sigma, h=restored_h(kind, fields)), limits)


class OtherInUse:
    """A gate of another kind, such as a user's own, by what it says itself."""

    def __init__(self, gate: str, fields: Mapping[str, np.ndarray], options: str, limits: Limits):
        self._kind, self._fields, self._options, self._limits = gate, fields, options, limits

    @double_precision
    def scores(self, means: np.ndarray, features: np.ndarray, contexts: np.ndarray) -> np.ndarray:
        """What the gate maximises, of the kept options [O, C]."""
        from hpsde.steps import gates

        kept, options = self._fields["kept"], restored_options(self._options, self._fields, self._limits)
        gate = restored_gate(self._kind, self._fields)
        values = gates.scores(gate, options, kept, features, contexts)
        return values[kept]


GateInUse = GPInUse | SoftmaxInUse | MarginalInUse | OtherInUse


class Acting:
    """The kept options and their gate in use, of a file's fields by their names. Contexts are in standard units."""

    def __init__(self, gate: str, options: str, fields: Mapping[str, np.ndarray], limits: Limits):
        kept, h = fields["kept"], restored_h(options, fields)
        b, w, Sigma = (fields[f"option_{name}"][kept] for name in OPTION_FIELDS)
        each = () if h is None else tuple(type(h)(*(part[o] for part in h)) for o in np.flatnonzero(kept))
        self.options = OptionsInUse(b, w, Sigma, limits, each)
        self.gate: GateInUse
        if gate == "gp":
            self.gate = GPInUse(fields, self.options.Sigma)
        elif gate in ("softmax", "marginal"):
            self.gate = (SoftmaxInUse if gate == "softmax" else MarginalInUse)(fields, kept)
        else:
            self.gate = OtherInUse(gate, fields, options, limits)

    @property
    def is_prepared(self) -> bool:
        """Whether there is nothing that takes long and could be computed beforehand."""
        gate = self.gate
        return not isinstance(gate, GPInUse) or not gate.cautious or len(self.options.b) < 2 or gate.spans is not None

    def prepare(self, features: np.ndarray, contexts: np.ndarray) -> None:
        """Compute what takes long now, so that answers do not; features [N, F] and contexts [N, S] are some of those
        where it will be asked.
        """
        if isinstance(self.gate, GPInUse) and not self.is_prepared:
            with np.errstate(all="ignore"):
                self.gate.prepare(self.options.means(features), contexts)

    def choose(self, means: np.ndarray, features: np.ndarray, contexts: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """The best of the allowed options [O] in each context [C], of options' means [O, C, D]."""
        if isinstance(self.gate, GPInUse) and self.gate.cautious:
            return self.gate.choose(means, contexts, allowed)
        places = np.flatnonzero(allowed)
        values = self.gate.scores(means, features, contexts)
        return places[np.argmax(values[places], axis=0)]
