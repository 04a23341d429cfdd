"""What a policy in use computes, from the numbers of its file, by numpy alone: nothing is compiled, JAX is not loaded.

The same numbers give the same bits in every process and thread. Equations: steps/gaussian.py, steps/gating.py,
gp/model.py and gp/moments.py, whose results these functions share to rounding. In place of K^-1 there is the inverse W
of K's lower Cholesky factor, k' K^-1 k = |W k|^2.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpsde.base.precision import double_precision
from hpsde.gp.kernel import JITTER, correlation, kernel_of
from hpsde.gp.warp import Warp

if TYPE_CHECKING:
    from hpsde.steps.gaussian import LinearGaussian

SMALLEST = 64  # rows of a triangular matrix that is inverted at once
ROWS = 256  # of W that are multiplied at once: what is above the diagonal is left out
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


class ProcessInUse:
    """Mean and standard deviation of a Gaussian process over points A z: of regression, or of success or failure."""

    def __init__(self, fields: Mapping[str, np.ndarray]):
        mask = fields["gate_mask"]
        self.lengths, self.mean = np.exp(fields["gate_log_lengths"]), float(fields["gate_mean"])
        self.signal_variance = float(np.exp(2.0 * fields["gate_log_signal"]))
        self.noise_variance = float(np.exp(2.0 * fields["gate_log_noise"]))
        self.kernel = kernel_of(fields["gate_kernel_tau"], fields["gate_kernel_w"])
        self.centre, self.points = fields["gate_centre"], fields["gate_z"][mask] / self.lengths
        self._squares = np.sum(self.points**2, axis=1)
        self.beta, self._binary = fields["gate_beta"][mask], bool(fields["gate_binary"])
        self._success = fields["gate_scores"][mask] - self.beta if self._binary else None  # its probability
        # Of a sparse process (gp/sparse.py) it does not follow from the points.
        self.inverse = fields["gate_known"][np.ix_(mask, mask)] if fields["gate_known"].size else None

    @cached_property
    def root(self) -> np.ndarray | None:
        """W^1/2 [P], p (1 - p) being the precision of success or failure; None where noise is the same everywhere."""
        p = self._success
        return None if p is None else np.sqrt(np.maximum(p * (1.0 - p), 1e-10))

    @cached_property
    def whitening(self) -> np.ndarray:
        """W [P, P], lower triangular, with W' W = (K + noise)^-1; NaN where K has no factor."""
        K = self.signal_variance * correlation(self.kernel, self._distances(self.points))
        root, diagonal = self.root, np.einsum("ii->i", K)
        diagonal += JITTER * self.signal_variance
        if root is None:
            diagonal += self.noise_variance
        else:
            K *= root[:, None] * root[None]
            diagonal += 1.0
        try:
            W = inverse_of_lower(np.linalg.cholesky(K))
        except np.linalg.LinAlgError:
            return np.full_like(K, np.nan)
        return W if root is None else W * root[None]

    def prepare(self) -> None:
        """Compute what deviations need."""
        if self.inverse is None:
            self.whitening  # noqa: B018 - kept there

    def scaled(self, z: np.ndarray) -> np.ndarray:
        """Points [..., E] less the centre, in kernel lengths."""
        return (z - self.centre) / self.lengths

    def _distances(self, at: np.ndarray) -> np.ndarray:
        """Squared distances [Q, P] of scaled points [Q, E] from those of the process."""
        d2 = at @ (-2.0 * self.points.T)
        d2 += np.sum(at**2, axis=1)[:, None]
        d2 += self._squares[None]
        return np.maximum(d2, 0.0, out=d2)

    def covariances(self, at: np.ndarray) -> np.ndarray:
        """k [Q, P] of scaled points [Q, E]."""
        return self.signal_variance * correlation(self.kernel, self._distances(at))

    def mean_of(self, k: np.ndarray) -> np.ndarray:
        """m + k' beta [Q]."""
        return self.mean + k @ self.beta

    def known(self, k: np.ndarray) -> np.ndarray:
        """k' K^-1 k [Q] of k [Q, P]."""
        if self.inverse is not None:
            return np.sum((k @ self.inverse) * k, axis=1)
        W, total = self.whitening, np.zeros(len(k))
        for start in range(0, len(W), ROWS):
            end = min(start + ROWS, len(W))
            total += np.sum((k[:, :end] @ W[start:end, :end].T) ** 2, axis=1)
        return total

    def deviation_of(self, k: np.ndarray) -> np.ndarray:
        """sqrt(signal^2 - k' K^-1 k) [Q]."""
        return np.sqrt(np.maximum(self.signal_variance - self.known(k), 0.0))

    def largest_deviation(self, k: np.ndarray) -> np.ndarray:
        """A cheap upper bound of `deviation_of` [Q]: the standard deviation given the most informative point alone."""
        own, root = self.signal_variance * (1.0 + JITTER), self.root
        told = np.max(k, axis=1) ** 2 / (own + self.noise_variance) if root is None else 0.0
        if root is not None:
            told = np.max(k**2 / (own + root**-2.0), axis=1)
        return np.sqrt(np.maximum(self.signal_variance - told, 0.0))


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

    def scores(self, means: np.ndarray, features: np.ndarray, contexts: np.ndarray) -> np.ndarray:
        """What the gate maximises [O, C]."""
        mean, deviation = self.moments(means, contexts, deviations=self.cautious)
        return mean - deviation if self.cautious else mean

    def moments(
        self, means: np.ndarray, contexts: np.ndarray, deviations: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean score of each option [O, C] and its posterior standard deviation, or NaN where that is not asked for."""
        mean, deviation = np.empty(means.shape[:2]), np.full(means.shape[:2], np.nan)
        for part in self._parts(means):
            for o in range(len(means)):
                k, prior = self._expectations(o, means[o, part], contexts[part])
                mean[o, part] = self.process.mean_of(k)
                if deviations:
                    deviation[o, part] = np.sqrt(np.maximum(prior - self.process.known(k), 0.0))
        return (np.minimum(mean, self.best) if self.cautious else mean), deviation

    def choose(self, means: np.ndarray, contexts: np.ndarray) -> np.ndarray:
        """The option with the highest cautious score [C]; deviations are computed only where bounds cannot decide."""
        if len(means) == 1:
            return np.zeros(means.shape[1], dtype=int)
        parts = [self._choose(means[:, part], contexts[part]) for part in self._parts(means)]
        return np.concatenate([np.zeros(0, dtype=int), *parts])

    def _choose(self, means: np.ndarray, contexts: np.ndarray) -> np.ndarray:
        process, (O, C) = self.process, means.shape[:2]
        k = process.covariances(self._scaled(means, contexts).reshape(O * C, -1))
        most = np.minimum(process.mean_of(k), self.best).reshape(O, C)
        least = most - process.largest_deviation(k).reshape(O, C)
        best = np.argmax(least, axis=0)
        # An option that is worse without its deviation than another with the largest is not chosen. NaN is no less.
        open_ = ~(most < least[best, np.arange(C)])
        open_[:, np.sum(open_, axis=0) == 1] = False
        if not open_.any():
            return best
        doubtful = open_.any(axis=0)
        values = np.where(open_, most, -np.inf)
        values[open_] -= process.deviation_of(k[open_.ravel()])
        return np.where(doubtful, np.argmax(values, axis=0), best)

    def _parts(self, means: np.ndarray) -> list[slice]:
        """Contexts that are computed at once."""
        size = max(1, PART // max(len(means) * len(self.process.points), 1))
        return [slice(start, start + size) for start in range(0, means.shape[1], size)]

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
    beside = _squared_distances(at[:, D:], process.points[:, D:])
    q, prior = np.zeros((len(at), len(x))), 0.0
    for tau, w in process.kernel.parts:
        height = w * process.signal_variance * np.prod(1.0 + e / tau) ** -0.5
        root = np.sqrt(tau + e)
        q += height * np.exp(-0.5 * (_squared_distances(mu / root, x / root) + beside / tau))
        prior += float(w * process.signal_variance * np.prod(1.0 + 2.0 / tau * e) ** -0.5)
    return q, prior


def _squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.maximum(np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1)[None] - 2.0 * (a @ b.T), 0.0)


def _log_softmax(values: np.ndarray) -> np.ndarray:
    """values - log sum_o exp(values_o) of [O, C]."""
    shifted = values - np.max(values, axis=0)
    return shifted - np.log(np.sum(np.exp(shifted), axis=0))


def inverse_of_lower(L: np.ndarray) -> np.ndarray:
    """The inverse of a lower triangular matrix, by halves: nearly all of it is matrix products."""
    found = np.zeros_like(L)
    _invert_into(found, L)
    return found


def _invert_into(out: np.ndarray, L: np.ndarray) -> None:
    half = len(L) // 2
    if len(L) <= SMALLEST:
        out[:] = np.tril(np.linalg.inv(L))
        return
    first, last = out[:half, :half], out[half:, half:]
    _invert_into(first, L[:half, :half])
    _invert_into(last, L[half:, half:])
    out[half:, :half] = -(last @ (L[half:, :half] @ first))


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

    def prepare(self) -> None:
        """Compute what takes long now, so that the first answer does not."""
        if isinstance(self.gate, GPInUse) and self.gate.cautious and len(self.options.b) > 1:
            with np.errstate(all="ignore"):
                self.gate.process.prepare()

    def choose(self, means: np.ndarray, features: np.ndarray, contexts: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """The best of the allowed options [O] in each context [C], of options' means [O, C, D]."""
        places = np.flatnonzero(allowed)
        if isinstance(self.gate, GPInUse) and self.gate.cautious:
            return places[self.gate.choose(means[places], contexts)]
        values = self.gate.scores(means, features, contexts)
        return places[np.argmax(values[places], axis=0)]
