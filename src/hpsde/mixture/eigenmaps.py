"""Laplacian eigenmaps with an out-of-sample map (Belkin and Niyogi 2003; Bengio et al. 2004).

An optional step before density estimation: points on curved sheets get a few coordinates in which neighbours
stay neighbours. The steps, for points x_1..x_n scaled to unit variance in each column:

1. How strongly x reaches out to x_j, at distance d = |x - x_j|, is a heat kernel with the width of x's own
   neighbourhood, cut off beyond it:
       a(x -> j) = exp(-d^2 / rho(x)^2) tau(x, d),
   rho(x) the distance from x to its k-th neighbour, itself not counted; tau is 1 up to rho(x) and falls
   linearly to 0 at the distance of a later neighbour, number k + max(2, k / 5), so that no weight jumps when
   points move.
2. The graph is symmetric, w_ij = max(a(i -> j), a(j -> i)), with w_ii = 1. Every point has k neighbours with
   weights of at least exp(-1): outliers are tied to the rest, and only groups of more than k points can part.
3. The graph is kept connected: an edge of the minimum spanning tree weighs at least 1e-3. Where the
   neighbourhoods fall apart into components, these are the shortest bridges between them, and the first
   coordinates then tell the components apart, instead of being an arbitrary mixture.
4. The coordinates are the solutions f of L f = lambda D f with the smallest lambda > 0, D = diag(sum_j w_ij),
   L = D - W, scaled so that f^T D f / trace(D) = 1. The constant solution, lambda = 0, is left out.
5. Nystroem: f(x) = sum_j w(x, j) f_j / ((1 - lambda) sum_j w(x, j)), where x's nearest x_j takes the place of
   "itself" in rho(x). This is continuous in x, and at a point x_i of the graph it is f_i, because
   (I - D^-1 L) f = (1 - lambda) f row by row. The rule does not know the bridges, so that at their ends it is
   off by some 1e-4; there, as at every point of the graph, `transform` returns f_i itself.

A point that occurs twice counts once: the embedding shows where points are, not how many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from hpsde.base.checks import as_numbers
from hpsde.base.shapes import Bool, Float
from hpsde.errors import InputError

__all__ = ["Embedding", "LaplacianEigenmaps"]

BRIDGE_WEIGHT = 1e-3
# 1 / (1 - lambda) amplifies the out-of-sample map; coordinates beyond this lambda are as good as noise.
LARGEST_EIGENVALUE = 0.95
DENSE_POINTS = 500
ROWS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class Embedding:
    """What `LaplacianEigenmaps.fit` found. E coordinates, n points in the graph.

    coordinates [N, E]: of the rows that were given to `fit`, in their order.
    eigenvalues [E]: lambda, ascending: the smoother coordinates first.
    centre [Z], scale [Z]: x is scaled by (x - centre) / scale; a column without spread has scale infinity.
    points [n, Z], radii [n, 2], solutions [n, E]: of the graph: x_j scaled; rho and where tau ends; f_j.
    """

    coordinates: Float[np.ndarray, "N E"]
    eigenvalues: Float[np.ndarray, " E"]
    centre: Float[np.ndarray, " Z"]
    scale: Float[np.ndarray, " Z"]
    neighbours: int
    points: Float[np.ndarray, "n Z"]
    radii: Float[np.ndarray, "n 2"]
    solutions: Float[np.ndarray, "n E"]

    @property
    def dimensions(self) -> int:
        """E, the number of coordinates."""
        return len(self.eigenvalues)

    def transform(self, x: Any) -> Float[np.ndarray, "M E"]:
        """Coordinates of new points [M, Z]; at a point of the graph exactly the coordinates it has there."""
        rows = _check_points(x, len(self.centre))
        scaled = (rows - self.centre) / self.scale
        distance, nearest = cKDTree(self.points).query(scaled, distance_upper_bound=1e-9)
        coordinates = np.zeros((len(rows), self.dimensions))
        in_graph = distance == 0.0
        coordinates[in_graph] = self.solutions[nearest[in_graph]]
        new = np.flatnonzero(~in_graph)
        for start in range(0, len(new), ROWS_AT_ONCE):
            part = new[start : start + ROWS_AT_ONCE]
            coordinates[part] = self._extend(scaled[part])
        return coordinates

    def _extend(self, scaled: Float[np.ndarray, "M Z"]) -> Float[np.ndarray, "M E"]:
        distances = cdist(scaled, self.points)
        outward = _reach(distances, _radii(distances, self.neighbours))
        inward = _reach(distances.T, self.radii).T
        weights = np.maximum(outward, inward)
        mean = weights @ self.solutions / np.sum(weights, axis=1, keepdims=True)
        return mean / (1.0 - self.eigenvalues)


@dataclass(frozen=True)
class LaplacianEigenmaps:
    """Laplacian eigenmaps of points.

    dimensions: the most coordinates to give. There are fewer when there are not so many points, or when
        further solutions oscillate from neighbour to neighbour (lambda above 0.95); there is always one.
    neighbours: k. Groups of no more than k points do not part from the rest.
    scaled: whether each number is scaled to its deviation at first.
    max_points: the most points in the graph, whose time and memory grow with the square of their number. Of
        more points an even selection makes the graph, and the others get their coordinates by the
        out-of-sample map.
    """

    dimensions: int = 8
    neighbours: int = 25
    max_points: int = 4000
    scaled: bool = True

    def __post_init__(self) -> None:
        for name, least in (("dimensions", 1), ("neighbours", 1), ("max_points", 2)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < least:
                raise InputError(f"{name}: expected a whole number of at least {least}, got {value!r}")

    def fit(self, x: Any, mask: Any = None) -> Embedding:
        """The embedding of the rows of `x` [N, Z]. Where `mask` [N] is False a row has no part in the graph
        and gets its coordinates by the out-of-sample map. The order of the rows has no influence."""
        rows = _check_points(x)
        chosen = rows if mask is None else rows[_check_mask(mask, len(rows))]
        if len(chosen) == 0:
            raise InputError(f"x: expected at least one point, got none in {len(rows)} rows")
        # Sorted, so that the order of the rows has no influence, not even by rounding; + 0.0 unites -0 and 0.
        distinct = np.unique(chosen + 0.0, axis=0)
        if len(distinct) > self.max_points:
            distinct = distinct[np.linspace(0, len(distinct) - 1, self.max_points).round().astype(int)]
        centre, scale = _scaling(distinct) if self.scaled else _nothing(distinct)
        points = np.unique((distinct - centre) / scale + 0.0, axis=0)
        distances = cdist(points, points)
        neighbours = min(self.neighbours, len(points) - 1)
        radii = _radii(distances, neighbours)
        eigenvalues, solutions = _eigenmaps(_graph(distances, radii), self.dimensions)
        embedding = Embedding(
            np.zeros((0, len(eigenvalues))), eigenvalues, centre, scale, neighbours, points, radii, solutions
        )
        return replace(embedding, coordinates=embedding.transform(rows))


def _radii(distances: Float[np.ndarray, "M n"], neighbours: int) -> Float[np.ndarray, "M 2"]:
    """For each row: rho, the distance to the k-th neighbour after the nearest, and where tau reaches 0."""
    last = distances.shape[1] - 1
    ends = (neighbours, min(neighbours + max(2, neighbours // 5), last))
    radii = np.partition(distances, ends, axis=1)[:, ends]
    return np.maximum(radii, np.finfo(float).tiny)


def _reach(distances: Float[np.ndarray, "M n"], radii: Float[np.ndarray, "M 2"]) -> Float[np.ndarray, "M n"]:
    """a(x -> j) = exp(-d^2 / rho^2) tau, where `distances` are from x in rows to j in columns."""
    rho, end = radii[:, :1], radii[:, 1:]
    reach = np.zeros_like(distances)
    row, column = np.nonzero(distances <= end)
    d, rho, end = distances[row, column], rho[row, 0], end[row, 0]
    fading = d > rho
    tau = np.where(fading, (end - d) / np.where(fading, end - rho, 1.0), 1.0)
    reach[row, column] = np.exp(-((d / rho) ** 2)) * tau
    return reach


def _graph(distances: Float[np.ndarray, "n n"], radii: Float[np.ndarray, "n 2"]) -> scipy.sparse.csr_array:
    """The weights w_ij, symmetric, the spanning tree's edges among them."""
    reach = scipy.sparse.csr_array(_reach(distances, radii))
    i, j = _spanning_tree(distances)
    ends = (np.concatenate([i, j]), np.concatenate([j, i]))
    bridges = scipy.sparse.csr_array((np.full(len(ends[0]), BRIDGE_WEIGHT), ends), shape=reach.shape)
    return scipy.sparse.csr_array(reach.maximum(reach.T).maximum(bridges))


def _spanning_tree(distances: Float[np.ndarray, "n n"]) -> tuple[np.ndarray, np.ndarray]:
    """The n - 1 edges of a minimum spanning tree, by Prim's algorithm."""
    n = len(distances)
    nearest, parent = distances[0].copy(), np.zeros(n, dtype=int)
    outside = np.ones(n, dtype=bool)
    outside[0] = False
    added = np.zeros(n - 1, dtype=int)
    for step in range(n - 1):
        new = int(np.argmin(np.where(outside, nearest, np.inf)))
        added[step], outside[new] = new, False
        closer = outside & (distances[new] < nearest)
        nearest[closer], parent[closer] = distances[new, closer], new
    return parent[added], added


def _eigenmaps(weights: scipy.sparse.csr_array, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """The smallest lambda > 0 with L f = lambda D f, and their f [n, E].

    With S = D^-1/2 W D^-1/2 and u = D^1/2 f it is the symmetric problem S u = (1 - lambda) u. The constant f
    is known, u_0 = D^1/2 1: taking 2 u_0 u_0^T from S moves its eigenvalue from 1, the largest, to -1.
    """
    n = weights.shape[0]
    if n == 1:
        return np.zeros(1), np.zeros((1, 1))
    degree = weights.sum(axis=1)
    root = np.sqrt(degree / degree.sum())
    inverse = scipy.sparse.diags_array(1.0 / np.sqrt(degree))
    similarity = scipy.sparse.csr_array(inverse @ weights @ inverse)
    count = min(dimensions, n - 1)
    values, vectors = _largest(similarity, root, count)
    eigenvalues = np.maximum(1.0 - values, 0.0)
    kept = max(1, int(np.sum(eigenvalues <= LARGEST_EIGENVALUE)))
    solutions = vectors[:, :kept] / root[:, None]
    return eigenvalues[:kept], solutions * _signs(solutions)


def _largest(
    similarity: scipy.sparse.csr_array, root: Float[np.ndarray, " n"], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The `count` largest eigenvalues of S - 2 u_0 u_0^T, descending, and their eigenvectors."""
    n = len(root)
    if n > DENSE_POINTS and count < n // 10:
        operator = LinearOperator((n, n), matvec=lambda v: similarity @ v - 2.0 * root * (root @ v), dtype=float)
        # Many vectors, because eigenvalues crowd where components hang together by bridges alone.
        start = np.random.default_rng(0).standard_normal(n)
        try:
            values, vectors = eigsh(operator, count, which="LA", v0=start, ncv=max(40, 4 * count))
            return values[::-1], vectors[:, ::-1]
        except ArpackNoConvergence:
            pass
    dense = similarity.toarray() - 2.0 * np.outer(root, root)
    values, vectors = scipy.linalg.eigh(dense, subset_by_index=[n - count, n - 1])
    return values[::-1], vectors[:, ::-1]


def _signs(solutions: Float[np.ndarray, "n E"]) -> Float[np.ndarray, " E"]:
    """Signs that make the largest entry of each column positive (of equally large ones, the first)."""
    size = np.abs(solutions)
    first = np.argmax(size >= (1.0 - 1e-6) * np.max(size, axis=0), axis=0)
    return np.where(solutions[first, np.arange(solutions.shape[1])] < 0.0, -1.0, 1.0)


def _scaling(points: Float[np.ndarray, "n Z"]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column; infinity where the spread is nothing but rounding."""
    spread = np.ptp(points, axis=0)
    constant = spread <= 1e-12 * np.max(np.abs(points), axis=0)
    return np.mean(points, axis=0), np.where(constant, np.inf, np.std(points, axis=0))


def _nothing(points: Float[np.ndarray, "n Z"]) -> tuple[np.ndarray, np.ndarray]:
    """The centre and scale that change nothing."""
    return np.zeros(points.shape[1]), np.ones(points.shape[1])


def _check_points(x: Any, size: int | None = None) -> Float[np.ndarray, "N Z"]:
    rows = as_numbers("x", x)
    if rows.ndim != 2 or rows.shape[1] == 0 or (size is not None and rows.shape[1] != size):
        raise InputError(f"x: expected shape [N, {'Z' if size is None else size}], got {list(rows.shape)}")
    bad = np.sum(~np.all(np.isfinite(rows), axis=1))
    if bad:
        raise InputError(f"x: expected finite numbers, got {bad} rows with others")
    return rows


def _check_mask(mask: Any, n: int) -> Bool[np.ndarray, " N"]:
    selected = np.asarray(mask)
    if selected.shape != (n,) or selected.dtype != bool:
        raise InputError(f"mask: expected {n} booleans, got {selected.dtype} of shape {list(selected.shape)}")
    return selected
