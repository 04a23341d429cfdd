"""An encoder that is fitted to pictures alone: what moves in them, and where it is. No rollouts are needed.

1. Parts. Pixels belong to the same part where their values are correlated, directly or by way of others. What moves
   independently is in parts of its own, if it moves elsewhere in the picture: a part is learned apart from all others.
2. Principal components c = W' (x - mean) of each part.
3. Numbers. Distances along the pictures there are, from neighbour to neighbour, are those of a few numbers (Isomap:
   Tenenbaum, de Silva and Langford 2000): a goal that moves evenly gives a number that grows evenly. There are so many
   as it takes for pictures that were left out to be told from the others by them.
4. A new picture's numbers by kernel ridge regression, z = offset + sum_i weights_i exp(-|c - c_i|^2 / 2 length^2), with
   the length and ridge that are best for left-out pictures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hpsde.base.archive import WHOLE_NUMBERS, Field
from hpsde.base.checks import ROUNDING, as_numbers, check_shaped
from hpsde.base.later import Later
from hpsde.errors import InputError
from hpsde.steps.encoders import Encoder, contexts_of

sparse = Later("scipy.sparse")
csgraph = Later("scipy.sparse.csgraph")

__all__ = ["PictureEncoder"]

PICTURES = 2000  # of a task, which cost no rollouts
FEWEST = 50  # pictures to fit it to
POINTS = 500  # of the pictures that others are compared with
MOST_NUMBERS = 100  # that learning on them is not hopeless
MOST_PIXELS = 4096  # of which correlations are computed; more are averaged in squares
STILL = 1e-3  # share of the largest standard deviation that is none
SMALL = 1e-3  # share of the largest part's variance that is none
CHANCE = 0.01  # probability that a pair of independent pixels counts as correlated
EXPLAINED, MOST_COMPONENTS = 0.999, 60  # share of a part's variance in its components, and how many there are at most
NEIGHBOURS = 10
MOST_NUMBERS = 6  # of a part
ENOUGH, GAIN = 0.005, 0.1  # share of a part's variance left, and share of it that another number must explain
LENGTHS, RIDGES = (2.0, 4.0, 8.0), (1e-2, 1e-4, 1e-6)  # lengths in distances to the NEIGHBOURS-th neighbour
FAINT = 0.1  # share of the least contrast that is too little


class Parts(NamedTuple):
    """What the encoder has learned. X pixels that move, C components, I points, S numbers.

    component_part [C], number_part [S]: which part each belongs to, from 0, in order. lengths [S]: the same for all
    numbers of a part.
    """

    pixels: np.ndarray  # [X] which of a picture's numbers they are
    mean: np.ndarray  # [X]
    components: np.ndarray  # [X, C]
    component_part: np.ndarray
    points: np.ndarray  # [I, C]
    number_part: np.ndarray
    lengths: np.ndarray
    weights: np.ndarray  # [I, S]
    offset: np.ndarray  # [S]
    low: np.ndarray  # [] the lowest value of a pixel
    high: np.ndarray  # [] the highest
    contrast: np.ndarray  # [] the least difference between the highest and the lowest value of one picture


class PictureEncoder(Encoder):
    """A few numbers that say where what moves in a picture is: `hpsde.PictureEncoder.fit(pictures)`.

    shape: of one picture. size: how many numbers there are. part_sizes: how many of them each part has.
    """

    kind = "pictures"
    fields: ClassVar[dict[str, Field]] = {
        "shape": Field("A", WHOLE_NUMBERS),
        "pixels": Field("X", WHOLE_NUMBERS),
        "mean": Field("X"),
        "components": Field("X C"),
        "component_part": Field("C", WHOLE_NUMBERS),
        "points": Field("I C"),
        "number_part": Field("S", WHOLE_NUMBERS),
        "lengths": Field("S"),
        "weights": Field("I S"),
        "offset": Field("S"),
        "low": Field(""),
        "high": Field(""),
        "contrast": Field(""),
    }

    def __init__(self, shape: tuple[int, ...], parts: Parts):
        self.shape, self.parts, self.size = tuple(shape), parts, len(parts.offset)
        self._slices = [
            (np.flatnonzero(parts.component_part == k), np.flatnonzero(parts.number_part == k))
            for k in np.unique(parts.number_part)
        ]
        self._points = [np.ascontiguousarray(parts.points[:, some]) for some, _ in self._slices]
        self._weights = [np.ascontiguousarray(parts.weights[:, some]) for _, some in self._slices]

    @classmethod
    def fit(cls, pictures: Any) -> PictureEncoder:
        """The encoder for pictures like these [N, ...]: a few hundred or more, of contexts as rollouts will have them.

        Pictures say nothing of which of their numbers matters; what does not is for the learner to find.
        """
        array = as_numbers("pictures", pictures)
        if array.ndim < 2 or len(array) < FEWEST or not array.size:
            raise InputError(f"pictures must have shape [N, ...], {FEWEST} of them or more; got {list(array.shape)}")
        shape = array.shape[1:]
        rows = np.unique(check_shaped("pictures", array, shape), axis=0)
        if len(rows) < FEWEST:
            raise InputError(f"pictures must differ: {FEWEST} or more are needed; got {len(rows)} different ones")
        if not np.ptp(rows, axis=0).max() > ROUNDING * np.abs(rows).max():
            raise InputError("pictures must differ; got pictures that are all alike")
        mean = rows.mean(axis=0)
        x = rows - mean
        points = x[np.linspace(0, len(rows) - 1, min(len(rows), POINTS)).astype(int)]
        averages = [each for each in _parts(x, shape) if np.ptp(points @ each, axis=0).any()]
        if not averages:
            raise InputError("pictures must differ in more of them; got pictures of which all but a few are alike")
        found = [_learned(x, points, average) for average in averages]
        size = sum(len(each.offset) for each in found)
        if size > MOST_NUMBERS:
            raise InputError(
                f"pictures must show a few things that move; in these {len(found)} parts change independently, which "
                f"takes {size} numbers, and {MOST_NUMBERS} are the most. Give an encoder of your own"
            )
        values = rows.min(), rows.max(), np.ptp(rows, axis=1).min()
        return cls(shape, _joined(mean, found, values))

    @classmethod
    def of_task(cls, task: Any, seed: int) -> PictureEncoder:
        """The encoder that is fitted to PICTURES of the task's own contexts, drawn by the seed."""
        return cls.fit(contexts_of(task, seed, PICTURES))

    @property
    def part_sizes(self) -> tuple[int, ...]:
        """How many numbers each part has."""
        return tuple(len(numbers) for _, numbers in self._slices)

    def __repr__(self) -> str:
        return f"PictureEncoder(shape={self.shape}, size={self.size}, part_sizes={self.part_sizes})"

    def check(self, name: str, rows: np.ndarray) -> None:
        """An InputError where pictures [N, X] are of another type than those it was fitted to, or show nothing."""
        low, high = float(self.parts.low), float(self.parts.high)
        reach = high - low
        wrong = (rows.min(axis=1, initial=low) < low - reach) | (rows.max(axis=1, initial=high) > high + reach)
        if wrong.any():
            bad = int(np.argmax(wrong))
            raise InputError(
                f"{name} must be pictures of the type that the encoder was fitted to, from {low:g} to {high:g}; number "
                f"{bad} goes from {rows[bad].min():g} to {rows[bad].max():g} ({int(wrong.sum())} such)"
            )
        contrast = np.ptp(rows, axis=1) if len(rows) else np.zeros(0)
        faint = contrast < FAINT * float(self.parts.contrast)
        if faint.any():
            bad = int(np.argmax(faint))
            raise InputError(
                f"{name} must be pictures like those that the encoder was fitted to, whose pixels differ by "
                f"{float(self.parts.contrast):g} or more; number {bad} is nearly constant: its pixels differ by "
                f"{contrast[bad]:g} ({int(faint.sum())} such)"
            )

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """z [N, S]. Picture by picture: what one gives must not depend, by rounding, on the others."""
        z = np.empty((len(rows), self.size))
        for row, found in zip(rows, z, strict=True):
            c = (row[self.parts.pixels] - self.parts.mean) @ self.parts.components
            for (some, numbers), points, weights in zip(self._slices, self._points, self._weights, strict=True):
                k = np.sum((points - c[some]) ** 2, axis=1) / self.parts.lengths[numbers[0]] ** 2
                found[numbers] = np.exp(-0.5 * k) @ weights
        return z + self.parts.offset

    def arrays(self) -> dict[str, np.ndarray]:
        """What a file holds of it."""
        return super().arrays() | self.parts._asdict()

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> PictureEncoder:
        """The encoder of a file's arrays; a ValueError where they do not fit together."""
        shape, parts = arrays["shape"], Parts(*(arrays[name] for name in Parts._fields))
        if np.any(parts.pixels < 0) or np.any(parts.pixels >= prod(shape.tolist())):
            raise ValueError(f"its encoder looks at pixels that pictures of shape {shape.tolist()} do not have")
        known = np.unique(parts.component_part)
        if not len(known) or not np.array_equal(known, np.unique(parts.number_part)):
            raise ValueError("its encoder's components and numbers are of different parts")
        if not np.all((parts.lengths > 0.0) & (parts.lengths**2 > 0.0)):
            raise ValueError("its encoder's lengths must be positive")
        return cls(tuple(shape.tolist()), parts)


class _Part(NamedTuple):
    components: np.ndarray  # [X, C]
    points: np.ndarray  # [I, C]
    length: float
    weights: np.ndarray  # [I, S]
    offset: np.ndarray  # [S]


def _joined(mean: np.ndarray, found: list[_Part], values: tuple[Any, ...]) -> Parts:
    """All parts side by side, of the pixels that any of them has."""
    components = np.concatenate([each.components for each in found], axis=1)
    pixels = np.flatnonzero(np.any(components != 0.0, axis=1))

    def numbered(sizes: Iterator[int]) -> np.ndarray:
        return np.repeat(np.arange(len(found), dtype=np.int64), list(sizes))

    return Parts(
        pixels,
        mean[pixels],
        components[pixels],
        numbered(each.components.shape[1] for each in found),
        np.concatenate([each.points for each in found], axis=1),
        number_part := numbered(len(each.offset) for each in found),
        np.array([each.length for each in found])[number_part],
        np.concatenate([each.weights for each in found], axis=1),
        np.concatenate([each.offset for each in found]),
        *(np.array(float(value)) for value in values),
    )


def _parts(x: np.ndarray, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Averages [X, P] over the P pixels, or squares of pixels, of each part; x [N, X] less its mean."""
    average = _averages(x, shape)
    y = x @ average if sparse.issparse(average) else x
    deviation = y.std(axis=0)
    live = np.flatnonzero(deviation > STILL * deviation.max())
    y = y[:, live] / deviation[live]
    pairs = 0.5 * len(live) * (len(live) + 1)
    least = np.sqrt(2.0 * np.log(pairs / CHANCE) / len(y))
    linked = np.abs(y.T @ y / len(y)) > min(least, 0.9)
    count, label = csgraph.connected_components(sparse.csr_matrix(linked), directed=False)
    places = [live[label == k] for k in range(count)]
    if any(len(place) > 1 for place in places):  # a pixel that goes with no other is noise
        places = [place for place in places if len(place) > 1]
    variances = [float(np.sum(deviation[place] ** 2)) for place in places]
    kept = [place for place, each in zip(places, variances, strict=True) if each > SMALL * max(variances)]
    return [np.asarray(average[:, place].todense()) for place in kept]


def _averages(x: np.ndarray, shape: tuple[int, ...]) -> Any:
    """A matrix [X, Q] that averages over squares of pixels where these are too many; else the identity."""
    moving = np.flatnonzero(x.std(axis=0) > 0.0)
    size, pixels = x.shape[1], len(moving)
    if pixels <= MOST_PIXELS:
        return sparse.identity(size, format="csc")
    longest = np.argsort(shape, kind="stable")[-2:]  # the axes of the picture, not that of its colours
    side = int(np.ceil((pixels / MOST_PIXELS) ** (1.0 / len(longest))))
    groups = [index // side if axis in longest else index for axis, index in enumerate(np.indices(shape))]
    _, label = np.unique(np.stack([each.ravel() for each in groups]), axis=1, return_inverse=True)
    count = np.bincount(label.ravel())
    return sparse.csc_matrix((1.0 / count[label.ravel()], (np.arange(size), label.ravel())))


def _learned(x: np.ndarray, points: np.ndarray, average: np.ndarray) -> _Part:
    """One part: its components, numbers and regression; x [N, X], points [I, X] less the mean, average [X, P]."""
    y = x @ average
    values, vectors = np.linalg.eigh(y.T @ y / len(y))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    count = int(np.searchsorted(np.cumsum(values), EXPLAINED * np.sum(values))) + 1
    components = average @ vectors[:, : min(count, MOST_COMPONENTS)]
    c = points @ components
    squares = _squares(c, c)
    numbers = _numbers(c, _unrolled(squares))
    offset = numbers.mean(axis=0)
    length, weights, _ = _regression(squares, numbers - offset)
    return _Part(components, c, length, weights, offset)


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances [N, M]."""
    return np.maximum(np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1)[None] - 2.0 * a @ b.T, 0.0)


def _unrolled(squares: np.ndarray) -> np.ndarray:
    """Isomap: numbers [I, K] whose distances are those along the neighbours, of squared distances [I, I]."""
    distances = np.sqrt(squares) + 1e-12 * np.sqrt(squares.max())  # two pictures may be alike in this part
    np.fill_diagonal(distances, 0.0)
    nearest = np.argsort(distances, axis=1)[:, 1 : NEIGHBOURS + 1]
    rows = np.repeat(np.arange(len(distances)), nearest.shape[1])
    graph = sparse.csr_matrix((distances[rows, nearest.ravel()], (rows, nearest.ravel())), shape=distances.shape)
    graph = graph.maximum(csgraph.minimum_spanning_tree(sparse.csr_matrix(distances)))  # in one piece
    along = csgraph.shortest_path(graph, directed=False) ** 2
    inner = -0.5 * (along - along.mean(axis=0)[None] - along.mean(axis=1)[:, None] + along.mean())
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    count = max(1, min(MOST_NUMBERS, int(np.sum(values > 1e-9 * values[-1]))))
    found = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1][:, :count]
    largest = found[np.argmax(np.abs(found), axis=0), np.arange(count)]
    return found * np.sign(largest)


def _numbers(c: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """As many of the candidates [I, K] as it takes to predict the components c [I, C] of left-out pictures."""
    values, left = c - c.mean(axis=0), 1.0
    for count in range(1, candidates.shape[1] + 1):
        some = candidates[:, :count]
        error = _regression(_squares(some, some), values)[2] / np.sum(values**2)
        if count > 1 and error > (1.0 - GAIN) * left:
            return candidates[:, : count - 1]
        left = error
        if left < ENOUGH:
            return candidates[:, :count]
    return candidates


def _regression(squares: np.ndarray, values: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Length and weights [I, S] of the kernel ridge regression that predicts left-out values [I, S] best, and the sum
    of its squared errors there. squares [I, I]: distances of what they are predicted from.
    """
    near = float(np.mean(np.sqrt(np.sort(squares, axis=1)[:, min(NEIGHBOURS, len(squares) - 1)])))
    best: tuple[float, np.ndarray, float] | None = None
    for factor in LENGTHS:
        length = factor * max(near, 1e-6 * float(np.sqrt(squares.max())))
        kernel = np.exp(-0.5 * squares / length**2)
        for ridge in RIDGES:
            inverse = np.linalg.inv(kernel + ridge * np.eye(len(kernel)))
            weights = inverse @ values
            error = float(np.sum((weights / np.diagonal(inverse)[:, None]) ** 2))
            if best is None or error < best[2]:
                best = length, weights, error
    if best is None:
        raise RuntimeError("there is nothing to choose from")
    return best
