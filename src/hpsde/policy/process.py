"""The Gaussian process of a policy in use, by numpy alone. Equations: gp/model.py.

In place of K^-1 there is the inverse W of K's lower Cholesky factor, k' K^-1 k = |W k|^2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from hpsde.gp.kernel import JITTER, correlation, kernel_of

SMALLEST = 64  # rows of a triangular matrix that is inverted at once
ROWS = 256  # of W that are multiplied at once: what is above the diagonal is left out


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
        """Compute what deviations and bounds need."""
        self.norm  # noqa: B018 - kept there
        if self.inverse is None:
            self.whitening  # noqa: B018

    def scaled(self, z: np.ndarray) -> np.ndarray:
        """Points [..., E] less the centre, in kernel lengths."""
        return (z - self.centre) / self.lengths

    def _distances(self, at: np.ndarray) -> np.ndarray:
        """Squared distances [Q, P] of scaled points [Q, E] from those of the process."""
        return squared_distances(at, self.points, self._squares)

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
        total = np.zeros(len(k))
        for white in self._whitened(k):
            total += np.sum(white**2, axis=1)
        return total

    def known_together(self, k: np.ndarray) -> np.ndarray:
        """k K^-1 k' [Q, Q] of k [Q, P]; its diagonal is `known`."""
        if self.inverse is not None:
            return k @ self.inverse @ k.T
        total = np.zeros((len(k), len(k)))
        for white in self._whitened(k):
            total += white @ white.T
        return total

    def _whitened(self, k: np.ndarray) -> Iterator[np.ndarray]:
        """W k [Q, P] of k [Q, P], some rows of W at a time."""
        W = self.whitening
        for start in range(0, len(W), ROWS):
            end = min(start + ROWS, len(W))
            yield k[:, :end] @ W[start:end, :end].T

    @cached_property
    def norm(self) -> float:
        """The norm of the mean less m in the kernel's space: sqrt(beta' K beta)."""
        total = 0.0
        for start in range(0, len(self.points), ROWS):  # of the symmetric matrix what is on one side of the diagonal
            own = slice(start, start + ROWS)
            d2 = squared_distances(self.points[own], self.points[: own.stop])
            twice = np.append(2.0 * self.beta[:start], self.beta[own])
            total += self.signal_variance * float(self.beta[own] @ (correlation(self.kernel, d2) @ twice))
        return float(np.sqrt(max(total, 0.0)))

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


def squared_distances(a: np.ndarray, b: np.ndarray, squares: np.ndarray | None = None) -> np.ndarray:
    """|a - b|^2 [Q, P] of points [Q, E] and [P, E]; `squares` [P] is |b|^2 where that is known."""
    d2 = a @ (-2.0 * b.T)
    d2 += np.sum(a**2, axis=1)[:, None]
    d2 += np.sum(b**2, axis=1) if squares is None else squares
    return np.maximum(d2, 0.0, out=d2)


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
