"""Laplacian eigenmaps against closed forms, dense linear algebra, and what must not change them."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.csgraph
from scipy.spatial.distance import cdist

from hpsde.errors import InputError
from hpsde.mixture import eigenmaps as embedding
from hpsde.mixture.eigenmaps import LaplacianEigenmaps


def ring(n):
    angles = 2 * np.pi * np.arange(n) / n
    return angles, np.stack([np.cos(angles), np.sin(angles)], axis=1)


def sheet(rng, n):
    """Places along a rolled-up sheet, and the points there in three dimensions."""
    along, across = rng.uniform(0.0, 1.0, n), rng.uniform(0.0, 0.2, n)
    angle = 1.5 * np.pi * along
    return along, np.stack([angle * np.cos(angle), across, angle * np.sin(angle)], axis=1)


def rank_correlation(a, b):
    return np.corrcoef(np.argsort(np.argsort(a)), np.argsort(np.argsort(b)))[0, 1]


def moons(rng, n):
    t = rng.uniform(0.0, np.pi, n)
    upper = np.arange(n) % 2 == 0
    x = np.where(upper, np.cos(t), 1 - np.cos(t))
    y = np.where(upper, np.sin(t), 0.5 - np.sin(t))
    return upper, np.stack([x, y], axis=1) + 0.03 * rng.standard_normal((n, 2))


def clusters(rng, sizes, distance=50.0):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centres = distance * np.array([[0, 0, 0], [1, 1.2, 0.8], [-1, 1.3, 1.1], [0.2, -0.9, 1.1]])
    return labels, centres[labels] + rng.standard_normal((len(labels), 3))


def test_ring_has_cosines_and_the_eigenvalues_of_a_circulant_graph():
    n = 80
    angles, x = ring(n)
    # Two neighbours at equal distance rho, weights exp(-1); the next two, where tau ends, have weight 0.
    fitted = LaplacianEigenmaps(dimensions=4, neighbours=2).fit(x)
    weight = np.exp(-1.0)
    waves = np.array([1, 1, 2, 2])
    truth = 2 * weight * (1 - np.cos(2 * np.pi * waves / n)) / (1 + 2 * weight)
    np.testing.assert_allclose(fitted.eigenvalues, truth, rtol=1e-9)
    for wave, columns in ((1, slice(0, 2)), (2, slice(2, 4))):
        basis = np.sqrt(2.0) * np.stack([np.cos(wave * angles), np.sin(wave * angles)], axis=1)
        rotation = basis.T @ fitted.coordinates[:, columns] / n
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(2), atol=1e-9)
        np.testing.assert_allclose(basis @ rotation, fitted.coordinates[:, columns], atol=1e-8)


def test_line_is_the_eigenproblem_of_the_path_graph():
    n = 60
    x = np.linspace(3.0, 9.0, n)[:, None]
    fitted = LaplacianEigenmaps(dimensions=3, neighbours=1).fit(x)
    # Inner points reach one step, with weight exp(-1); tau ends at two steps. At the ends of the line it ends
    # at three steps, and is one half at two.
    weights = np.eye(n) + np.exp(-1.0) * (np.eye(n, k=1) + np.eye(n, k=-1))
    weights[[0, 2, -1, -3], [2, 0, -3, -1]] = 0.5 * np.exp(-4.0)
    degrees = np.diag(weights.sum(axis=1))
    values, vectors = scipy.linalg.eigh(degrees - weights, degrees)
    np.testing.assert_allclose(fitted.eigenvalues, values[1:4], rtol=1e-8)
    vectors = vectors[:, 1:4] * np.sqrt(np.trace(degrees))
    signs = np.sign(np.sum(vectors * fitted.coordinates, axis=0))
    np.testing.assert_allclose(fitted.coordinates, signs * vectors, atol=1e-7)
    cosine = np.cos(np.pi * (np.arange(n) + 0.5) / n)
    assert abs(np.corrcoef(fitted.coordinates[:, 0], cosine)[0, 1]) > 0.9999


def test_first_coordinate_unrolls_a_sheet():
    along, x = sheet(np.random.default_rng(0), 400)
    first = LaplacianEigenmaps(neighbours=12).fit(x).coordinates[:, 0]
    assert abs(rank_correlation(along, first)) > 0.995


def test_two_moons_come_apart():
    upper, x = moons(np.random.default_rng(1), 400)
    fitted = LaplacianEigenmaps(neighbours=12).fit(x)
    first = fitted.coordinates[:, 0]
    sides = first[upper], first[~upper]
    assert max(map(np.min, sides)) > min(map(np.max, sides)) + 0.5
    assert fitted.eigenvalues[0] < 0.1 * fitted.eigenvalues[1]


def test_coordinates_are_orthonormal_under_the_degrees_and_hold_no_constant():
    rng = np.random.default_rng(2)
    fitted = LaplacianEigenmaps(neighbours=10).fit(rng.standard_normal((150, 4)))
    distances = cdist(fitted.points, fitted.points)
    reach = embedding._reach(distances, fitted.radii)
    degrees = np.maximum(reach, reach.T).sum(axis=1)
    inner = fitted.solutions.T @ (degrees[:, None] * fitted.solutions) / degrees.sum()
    np.testing.assert_allclose(inner, np.eye(8), atol=1e-8)
    np.testing.assert_allclose(degrees @ fitted.solutions / degrees.sum(), np.zeros(8), atol=1e-8)
    assert np.all(np.diff(fitted.eigenvalues) >= 0)
    assert fitted.eigenvalues[0] > 1e-6


@pytest.mark.parametrize("sizes", [(60, 60), (60, 90, 40), (200, 100, 50, 300)])
def test_clusters_out_of_reach_of_each_other_stay_apart(sizes):
    labels, x = clusters(np.random.default_rng(3), sizes)
    fitted = LaplacianEigenmaps().fit(x)
    parts = len(sizes) - 1
    assert np.all(np.isfinite(fitted.coordinates))
    assert fitted.eigenvalues[parts - 1] < 1e-4 < 1e-2 < fitted.eigenvalues[parts]
    first = fitted.coordinates[:, :parts]
    means = np.array([first[labels == k].mean(axis=0) for k in range(len(sizes))])
    spread = max(np.abs(first[labels == k] - means[k]).max() for k in range(len(sizes)))
    apart = cdist(means, means)[np.triu_indices(len(sizes), 1)].min()
    assert apart > 0.5
    assert apart > 50 * spread


def test_bridges_are_the_edges_of_the_minimum_spanning_tree():
    _, x = clusters(np.random.default_rng(4), (40, 50, 30))
    distances = cdist(x, x)
    i, j = embedding._spanning_tree(distances)
    truth = scipy.sparse.csgraph.minimum_spanning_tree(distances).sum()
    np.testing.assert_allclose(distances[i, j].sum(), truth, rtol=1e-12)
    graph = embedding._graph(distances, embedding._radii(distances, 10))
    assert scipy.sparse.csgraph.connected_components(graph)[0] == 1
    assert np.sum(graph.data == embedding.BRIDGE_WEIGHT) == 2 * 2


def test_outliers_do_not_take_the_coordinates():
    rng = np.random.default_rng(5)
    labels, x = clusters(rng, (150, 150), distance=8.0)
    outliers = 200.0 * rng.standard_normal((10, 3))
    first = LaplacianEigenmaps().fit(np.concatenate([x, outliers])).coordinates[:-10, 0]
    assert abs(np.corrcoef(first, labels)[0, 1]) > 0.95


def test_order_of_the_rows_has_no_influence():
    rng = np.random.default_rng(6)
    _, x = sheet(rng, 200)
    order = rng.permutation(200)
    fitted, permuted = LaplacianEigenmaps().fit(x), LaplacianEigenmaps().fit(x[order])
    np.testing.assert_array_equal(permuted.coordinates, fitted.coordinates[order])
    np.testing.assert_array_equal(permuted.eigenvalues, fitted.eigenvalues)


def test_shift_and_scale_of_the_columns_have_no_influence():
    _, x = sheet(np.random.default_rng(7), 200)
    fitted = LaplacianEigenmaps(neighbours=15).fit(x)
    changed = LaplacianEigenmaps(neighbours=15).fit(x * np.array([1e-3, 7.0, 1e4]) + np.array([5.0, -300.0, 1e5]))
    np.testing.assert_allclose(changed.coordinates, fitted.coordinates, atol=1e-6)


def test_columns_without_spread_have_no_influence():
    _, x = sheet(np.random.default_rng(8), 120)
    fitted = LaplacianEigenmaps().fit(x)
    wider = LaplacianEigenmaps().fit(np.insert(x, 1, 0.1, axis=1))
    np.testing.assert_allclose(wider.coordinates, fitted.coordinates, atol=1e-9)


def test_duplicates_count_once_and_share_their_place():
    _, x = sheet(np.random.default_rng(9), 100)
    copies = np.concatenate([x, x[:30], np.repeat(x[:1], 40, axis=0)])
    fitted, repeated = LaplacianEigenmaps().fit(x), LaplacianEigenmaps().fit(copies)
    np.testing.assert_array_equal(repeated.coordinates[:100], fitted.coordinates)
    np.testing.assert_array_equal(repeated.coordinates[100:130], fitted.coordinates[:30])
    np.testing.assert_array_equal(repeated.coordinates[130:], np.repeat(fitted.coordinates[:1], 40, axis=0))


def test_masked_rows_have_no_influence_but_get_coordinates():
    rng = np.random.default_rng(10)
    _, x = sheet(rng, 150)
    mask = rng.uniform(size=150) < 0.7
    disturbed = np.where(mask[:, None], x, 1e6)
    alone = LaplacianEigenmaps().fit(x[mask])
    masked, far = LaplacianEigenmaps().fit(x, mask), LaplacianEigenmaps().fit(disturbed, mask)
    np.testing.assert_array_equal(masked.coordinates[mask], alone.coordinates)
    np.testing.assert_array_equal(masked.coordinates[~mask], alone.transform(x[~mask]))
    np.testing.assert_array_equal(far.coordinates[mask], alone.coordinates)
    assert np.all(np.isfinite(far.coordinates))


def test_transform_gives_points_of_the_graph_their_own_coordinates():
    _, x = clusters(np.random.default_rng(11), (60, 70))
    fitted = LaplacianEigenmaps().fit(x)
    np.testing.assert_array_equal(fitted.transform(x), fitted.coordinates)
    np.testing.assert_array_equal(fitted.transform(x[7:8]), fitted.coordinates[7:8])
    # The Nystroem rule itself, without the look-up: exact but for the ends of the one bridge.
    off = np.max(np.abs(fitted._extend(fitted.points) - fitted.solutions), axis=1)
    assert np.sum(off > 1e-8) == 2
    assert np.max(off) < 1e-3


def test_transform_is_continuous_at_and_between_the_points():
    rng = np.random.default_rng(12)
    _, x = sheet(rng, 200)
    fitted = LaplacianEigenmaps(neighbours=10).fit(x)
    near = fitted.transform(x + 1e-7 * rng.standard_normal(x.shape))
    np.testing.assert_allclose(near, fitted.coordinates, atol=1e-4)
    longest = []
    for number in (2_001, 20_001):
        steps = np.linspace(0.4, 0.5, number)[:, None]
        path = fitted.transform((1 - steps) * x[0] + steps * x[100])
        longest.append(np.max(np.abs(np.diff(path, axis=0))))
    assert longest[1] < longest[0] / 5
    assert longest[1] < 0.02


def test_transform_places_new_points_where_a_joint_fit_would():
    along, x = sheet(np.random.default_rng(13), 600)
    half = LaplacianEigenmaps(dimensions=2).fit(x[:300])
    assert abs(rank_correlation(half.transform(x[300:])[:, 0], along[300:])) > 0.95
    whole = LaplacianEigenmaps(dimensions=2).fit(x).coordinates[300:]
    for column in range(2):
        assert abs(np.corrcoef(half.transform(x[300:])[:, column], whole[:, column])[0, 1]) > 0.97


def test_transform_far_away_is_finite_and_in_batches_the_same():
    rng = np.random.default_rng(14)
    fitted = LaplacianEigenmaps().fit(rng.standard_normal((100, 2)))
    new = 1e3 * rng.standard_normal((embedding.ROWS_AT_ONCE + 50, 2))
    result = fitted.transform(new)
    assert np.all(np.isfinite(result))
    np.testing.assert_allclose(fitted.transform(new[-60:]), result[-60:], rtol=1e-12)
    assert fitted.transform(np.zeros((0, 2))).shape == (0, 8)


def test_sparse_and_dense_solvers_agree(monkeypatch):
    _, x = clusters(np.random.default_rng(15), (250, 200, 150))
    sparse = LaplacianEigenmaps().fit(x)
    monkeypatch.setattr(embedding, "DENSE_POINTS", 10_000)
    dense = LaplacianEigenmaps().fit(x)
    np.testing.assert_allclose(sparse.eigenvalues, dense.eigenvalues, atol=1e-12)
    np.testing.assert_allclose(sparse.coordinates, dense.coordinates, atol=1e-6)


def test_more_points_than_the_graph_may_hold():
    along, x = sheet(np.random.default_rng(16), 900)
    fitted = LaplacianEigenmaps(max_points=300).fit(x)
    assert fitted.points.shape == (300, 3)
    assert fitted.coordinates.shape == (900, 8)
    assert abs(rank_correlation(fitted.coordinates[:, 0], along)) > 0.95


@pytest.mark.parametrize(("n", "dimensions"), [(1, 1), (2, 1), (3, 2), (9, 8), (10, 8)])
def test_few_points_give_fewer_coordinates(n, dimensions):
    x = np.random.default_rng(17).standard_normal((n, 3))
    fitted = LaplacianEigenmaps().fit(x)
    assert 1 <= fitted.dimensions <= dimensions
    assert np.all(np.isfinite(fitted.coordinates))
    assert np.all(np.isfinite(fitted.transform(x + 0.1)))
    if n > 1:
        assert len(np.unique(fitted.coordinates.round(6), axis=0)) == n


def test_all_points_equal_give_one_coordinate_of_zeros():
    for x in (np.full((20, 3), 0.1), 1.0 + 1e-16 * np.arange(12).reshape(6, 2)):
        fitted = LaplacianEigenmaps().fit(x)
        np.testing.assert_array_equal(fitted.coordinates, np.zeros((len(x), 1)))
        np.testing.assert_array_equal(fitted.transform(x + 1.0), np.zeros((len(x), 1)))


@pytest.mark.parametrize(
    ("x", "mask", "message"),
    [
        (np.zeros(5), None, r"expected shape \[N, Z\], got \[5\]"),
        (np.zeros((0, 2)), None, "at least one point"),
        (np.zeros((3, 2)), np.zeros(3, dtype=bool), "at least one point"),
        (np.array([[0.0, np.nan]]), None, "finite"),
        (np.zeros((3, 2)), np.ones(2, dtype=bool), "mask: expected 3 booleans"),
        (np.zeros((3, 2)), np.ones(3), "mask: expected 3 booleans"),
    ],
)
def test_unfit_points_are_refused(x, mask, message):
    with pytest.raises(InputError, match=message):
        LaplacianEigenmaps().fit(x, mask)


def test_unfit_settings_and_new_points_are_refused():
    with pytest.raises(InputError, match="dimensions: expected a whole number of at least 1, got 0"):
        LaplacianEigenmaps(dimensions=0)
    with pytest.raises(InputError, match="neighbours"):
        LaplacianEigenmaps(neighbours=0)
    fitted = LaplacianEigenmaps().fit(np.random.default_rng(18).standard_normal((30, 2)))
    with pytest.raises(InputError, match=r"expected shape \[N, 2\], got \[1, 3\]"):
        fitted.transform(np.zeros((1, 3)))
