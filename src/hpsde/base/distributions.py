"""Distributions of contexts and of initial parameters: `Uniform`, `Gaussian`, `Samples`.

All are immutable and checked once, when made. A scalar argument means one number; arrays must agree in
length, where a scalar beside an array holds for every entry. Sampling takes an explicit key, JAX's or
one of base/draws.py. Results are numpy arrays of 64 bits, and nothing is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from hpsde.base.arrays import is_jax
from hpsde.base.checks import check_rows
from hpsde.base.draws import normal_rows, uniform_rows
from hpsde.base.later import Later
from hpsde.base.shapes import Array, Float
from hpsde.errors import InputError

linalg = Later("scipy.linalg")


__all__ = ["Distribution", "Gaussian", "Samples", "Uniform", "as_distribution"]


@runtime_checkable
class Distribution(Protocol):
    """What a context or an initial distribution offers; an object of your own with these will do."""

    @property
    def size(self) -> int:
        """How many numbers one draw has."""

    @property
    def has_density(self) -> bool:
        """Whether `log_prob` is known."""

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Lowest and highest value of each number, or None where there is no such limit."""

    def sample(self, key: Array, n: int) -> Any:
        """`n` independent draws [n, size], as a numpy or JAX array."""

    def log_prob(self, x: Any) -> Any:
        """Log density [N] at each row of `x` [N, size]."""


@dataclass(frozen=True)
class Uniform:
    """Uniform between `low` and `high`, both ends included: log p(x) = -sum_j log(high_j - low_j) inside."""

    numpy_keys: ClassVar[bool] = True

    low: Any
    high: Any

    def __post_init__(self) -> None:
        low, high = _finite("Uniform low", self.low), _finite("Uniform high", self.high)
        low, high = _same_length("Uniform low and high", low, high)
        if not np.all(low < high):
            raise InputError(
                f"Uniform: every low must be less than its high, got low {low.tolist()} and high "
                f"{high.tolist()}; a value that never changes is given as samples: an array [[value]]"
            )
        object.__setattr__(self, "low", tuple(low.tolist()))
        object.__setattr__(self, "high", tuple(high.tolist()))

    @property
    def size(self) -> int:
        return len(self.bounds[0])

    @property
    def has_density(self) -> bool:
        return True

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(self.low), np.asarray(self.high)

    def sample(self, key: Array, n: int) -> Float[np.ndarray, "n size"]:
        """`n` independent draws."""
        low, high = self.bounds
        share = uniform_rows(key, _count(n), self.size)
        return np.minimum(low + (high - low) * share, high)

    def log_prob(self, x: Any) -> Float[np.ndarray, " N"]:
        """Log density at each row of `x` [N, size]; minus infinity outside."""
        low, high = self.bounds
        rows = check_rows("x", x, self.size)
        inside = np.all((rows >= low) & (rows <= high), axis=1)
        return np.where(inside, -np.sum(np.log(high - low)), -np.inf)


@dataclass(frozen=True)
class Gaussian:
    """N(mean, covariance). `spread` is a standard deviation, one for all or one for each number, or, when it
    is a matrix [size, size], the covariance itself."""

    numpy_keys: ClassVar[bool] = True

    mean: Any
    spread: Any

    def __post_init__(self) -> None:
        mean = _finite("Gaussian mean", self.mean)
        spread = _finite("Gaussian spread", self.spread, dimensions=(1, 2))
        if spread.ndim == 2:
            covariance = _covariance(spread, len(mean))
            object.__setattr__(self, "spread", tuple(map(tuple, covariance.tolist())))
        else:
            mean, spread = _same_length("Gaussian mean and spread", mean, spread)
            if not np.all(spread > 0):
                raise InputError(f"Gaussian spread: standard deviations must be positive, got {spread.tolist()}")
            object.__setattr__(self, "spread", tuple(spread.tolist()))
        object.__setattr__(self, "mean", tuple(mean.tolist()))

    @property
    def size(self) -> int:
        return len(np.asarray(self.mean))

    @property
    def has_density(self) -> bool:
        return True

    @property
    def bounds(self) -> None:
        return None

    @property
    def covariance(self) -> np.ndarray:
        """The covariance matrix [size, size]."""
        spread = np.asarray(self.spread)
        return spread if spread.ndim == 2 else np.diag(spread**2)

    def sample(self, key: Array, n: int) -> Float[np.ndarray, "n size"]:
        """`n` independent draws: mean + L e with covariance = L L^T, e ~ N(0, I)."""
        noise = normal_rows(key, _count(n), self.size)
        return np.asarray(self.mean) + noise @ np.linalg.cholesky(self.covariance).T

    def log_prob(self, x: Any) -> Float[np.ndarray, " N"]:
        """Log density at each row of `x` [N, size]."""
        deviation = check_rows("x", x, self.size) - np.asarray(self.mean)
        factor = np.linalg.cholesky(self.covariance)
        white = linalg.solve_triangular(factor, deviation.T, lower=True, check_finite=False)
        log_det = 2.0 * np.sum(np.log(np.diag(factor)))
        return -0.5 * (np.sum(white**2, axis=0) + log_det + self.size * np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class Samples:
    """The rows of `values` [M, size], each as likely as the others. There is no density to evaluate.

    Contexts may be of any `shape`, such as pictures: then `values` are [M, *shape], and a row has all numbers of one.
    """

    numpy_keys: ClassVar[bool] = True

    values: Any
    shape: tuple[int, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        try:
            values = np.array(self.values, dtype=float, ndmin=1)
        except (TypeError, ValueError) as error:
            raise InputError(f"Samples: expected rows of numbers, got {self.values!r:.80}") from error
        if values.ndim < 2 or 0 in values.shape:
            raise InputError(
                f"Samples: expected an array [M, size], a sample in each row, got shape {values.shape}; "
                "samples of a single number have shape [M, 1]"
            )
        if not np.all(np.isfinite(values)):
            raise InputError(f"Samples: expected finite numbers, got {np.sum(~np.isfinite(values))} that are not")
        object.__setattr__(self, "shape", values.shape[1:])
        values = values.reshape(len(values), -1)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        return f"Samples([{len(self.values)} rows of {' x '.join(map(str, self.shape))}])"

    @property
    def size(self) -> int:
        return np.shape(self.values)[1]

    @property
    def has_density(self) -> bool:
        return False

    @property
    def bounds(self) -> None:
        return None

    def sample(self, key: Array, n: int) -> Float[np.ndarray, "n size"]:
        """`n` rows, drawn with replacement."""
        values = np.asarray(self.values)
        share = uniform_rows(key, _count(n))
        return values[np.floor(share * len(values)).astype(int)]

    def log_prob(self, x: Any) -> Float[np.ndarray, " N"]:
        """Not known: always an error. Ask `has_density` first."""
        raise InputError("Samples have no log density; give hpsde.Uniform or hpsde.Gaussian where one is needed")


def as_distribution(thing: Any, name: str = "distribution", shaped: bool = False) -> Distribution:
    """`thing` itself where it is a distribution, or `Samples` of an array or a list of rows; of any shape if `shaped`.

    A pair (low, high) is refused, because it could as well be two samples.
    """
    if isinstance(thing, Distribution):
        return _rows_only(thing, name, shaped)
    if isinstance(thing, np.ndarray | list) or is_jax(thing):
        try:
            return _rows_only(Samples(np.asarray(thing, dtype=float)), name, shaped)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        except (TypeError, ValueError) as error:
            raise InputError(f"{name}: expected rows of numbers, got {thing!r}") from error
    hint = "; for a range write hpsde.Uniform(low, high)" if isinstance(thing, tuple) else ""
    raise InputError(
        f"{name}: expected hpsde.Uniform, hpsde.Gaussian or an array of samples [M, size], "
        f"got {type(thing).__name__}{hint}"
    )


def _rows_only(thing: Distribution, name: str, shaped: bool) -> Distribution:
    if not shaped and isinstance(thing, Samples) and len(thing.shape) > 1:
        raise InputError(f"{name}: expected an array [M, size], a sample in each row; got {thing!r}")
    return thing


def _finite(name: str, value: Any, dimensions: tuple[int, ...] = (1,)) -> np.ndarray:
    """`value` as a float64 array; a scalar becomes a vector of length one."""
    try:
        array = np.array(value, dtype=float, ndmin=1)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: expected numbers, got {value!r}") from error
    if array.ndim not in dimensions or array.size == 0:
        shapes = "a number or a vector" if dimensions == (1,) else "a number, a vector or a matrix"
        raise InputError(f"{name}: expected {shapes}, got shape {array.shape}")
    if not np.all(np.isfinite(array)):
        raise InputError(f"{name}: expected finite numbers, got {array.tolist()}")
    return array


def _same_length(name: str, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both vectors at their common length; one of length one is repeated."""
    if len(first) != len(second) and 1 not in (len(first), len(second)):
        raise InputError(f"{name}: expected the same length, got {len(first)} and {len(second)}")
    size = max(len(first), len(second))
    return np.broadcast_to(first, size), np.broadcast_to(second, size)


def _covariance(matrix: np.ndarray, size: int) -> np.ndarray:
    if matrix.shape != (size, size):
        raise InputError(f"Gaussian spread: expected a covariance of shape {(size, size)}, got {matrix.shape}")
    if not np.allclose(matrix, matrix.T, rtol=1e-8, atol=1e-12 * np.max(np.abs(matrix))):
        raise InputError("Gaussian spread: expected a symmetric covariance matrix")
    matrix = 0.5 * (matrix + matrix.T)
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError as error:
        smallest = np.linalg.eigvalsh(matrix)[0]
        raise InputError(
            f"Gaussian spread: expected a positive definite matrix, got smallest eigenvalue {smallest:.3g}"
        ) from error
    return matrix


def _count(n: int) -> int:
    if n < 0:
        raise InputError(f"n: expected a number of draws of at least 0, got {n}")
    return int(n)
