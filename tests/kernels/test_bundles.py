"""City-block distances along bundles of features of which a point has at most one that is not 0."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from gramian.kernels.cityblock import Bundles, distances_by_loop
from gramian.kernels.compiled import available

needs_numba = pytest.mark.skipif(not available(), reason="numba is not installed")


def one_hot(rng, n, heights):
    return np.eye(len(heights))[rng.integers(0, len(heights), n)] * heights


def table(rng, n):
    """Two numbers, three categories with a height for each level, a count and a switch."""
    return np.hstack(
        [
            rng.standard_normal((n, 2)),
            one_hot(rng, n, np.linspace(0.3, 1.0, 9)),
            one_hot(rng, n, -np.linspace(0.5, 2.0, 5)),
            rng.integers(0, 4, (n, 1)),
            one_hot(rng, n, np.full(4, 0.7)),
            rng.integers(0, 2, (n, 1)),
        ]
    )


def test_each_category_is_a_bundle_and_its_levels_keep_their_heights():
    Z = np.ascontiguousarray(table(np.random.default_rng(0), 300).T)
    found = Bundles.of(Z, np.full(len(Z), 2.0))
    assert found.alone.tolist() == [0, 1, 16, 21]
    assert found.bundled.tolist() == [*range(2, 16), *range(17, 21)]
    assert found.ends.tolist() == [9, 14, 18]
    np.testing.assert_allclose(found.heights[2:11], np.linspace(0.3, 1.0, 9))
    at = found.places[0].astype(int)
    np.testing.assert_allclose(found.sizes[0], 2.0 * Z[at, np.arange(300)])


def test_features_of_several_numbers_or_that_overlap_are_no_bundle():
    rng = np.random.default_rng(0)
    Z = np.zeros((8, 50))
    Z[:4] = rng.standard_normal((4, 50))
    Z[4:] = rng.random((4, 50)) < 0.8
    found = Bundles.of(Z, np.ones(8))
    assert found.alone.tolist() == list(range(8))
    assert not len(found.ends)


@needs_numba
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_are_those_of_scipy_also_for_rows_that_are_no_such_points(dtype):
    rng = np.random.default_rng(1)
    X, Z = (table(rng, n).astype(dtype) for n in (60, 200))
    X[0, 2:11] = 0  # a level that the points do not have
    X[1, 2:11] *= 3  # another height
    X[2, 2:11] = rng.standard_normal(9)  # more than one level
    X[3] = -X[3]
    X[4] = 0
    weights = rng.uniform(0.5, 2.0, X.shape[1])
    columns = np.ascontiguousarray(Z.T)
    bundles, out = Bundles.of(columns, weights.astype(dtype)), np.empty((60, 200), dtype)
    assert len(bundles.ends) == 3
    distances_by_loop(X, columns, weights, bundles, out)
    truth = cdist(X.astype(np.float64), Z.astype(np.float64), "cityblock", w=weights)
    np.testing.assert_allclose(out, truth, rtol=40 * np.finfo(dtype).eps)


@needs_numba
def test_a_row_has_the_distance_zero_from_itself_and_its_distances_are_symmetric():
    Z = table(np.random.default_rng(2), 100)
    columns, out = np.ascontiguousarray(Z.T), np.empty((100, 100))
    weights = np.linspace(0.1, 3.0, len(columns))
    distances_by_loop(Z, columns, weights, Bundles.of(columns, weights), out)
    assert not np.diagonal(out).any()
    np.testing.assert_array_equal(out, out.T)


@needs_numba
def test_values_that_are_not_finite_reach_only_their_own_row():
    rng = np.random.default_rng(3)
    X, Z = table(rng, 4), table(rng, 50)
    X[1, 3], X[2, 18] = np.nan, np.inf
    columns, out = np.ascontiguousarray(Z.T), np.empty((4, 50))
    weights = np.ones(len(columns))
    distances_by_loop(X, columns, weights, Bundles.of(columns, weights), out)
    np.testing.assert_allclose(out[[0, 3]], cdist(X[[0, 3]], Z, "cityblock"), rtol=1e-14)
    assert np.isnan(out[1]).all()
    assert np.isinf(out[2]).all()
