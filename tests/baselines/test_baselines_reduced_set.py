"""Reduced sets against dense distances in the feature space, the fixed point's formula and the exact SVM."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from baselines.reduced_set import ReducedSetClassifier, _Greedy, reduced_set
from scipy.spatial.distance import cdist
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

GAMMA = 3.0


def gram(X, Z):
    return np.exp(-GAMMA * cdist(X, Z, "sqeuclidean"))


@pytest.fixture(scope="module", params=[1, 3])
def expansion(request):
    rng = np.random.default_rng(request.param)
    return rng.random((300, 3)), rng.standard_normal((300, request.param))


def dense_distance(X, alpha, Z, beta):
    square = np.trace(alpha.T @ gram(X, X) @ alpha)
    left = square - 2 * np.trace(alpha.T @ gram(X, Z) @ beta) + np.trace(beta.T @ gram(Z, Z) @ beta)
    return np.sqrt(left / square)


def test_distances_fall_and_are_those_of_the_feature_space(expansion):
    X, alpha = expansion
    found = reduced_set(X, alpha, GAMMA, 30)
    assert found.units.shape == (30, 3)
    assert found.coefficients.shape == (30, alpha.shape[1])
    assert found.distances[0] == 1.0
    assert (np.diff(found.distances) < 0).all()
    assert found.distances[-1] < (0.2 if alpha.shape[1] == 1 else 0.5)
    for count in (1, 7, 30):
        Z = found.units[:count]
        beta = np.linalg.solve(gram(Z, Z), gram(Z, X) @ alpha)
        np.testing.assert_allclose(dense_distance(X, alpha, Z, beta), found.distances[count], atol=1e-6)
    np.testing.assert_allclose(found.coefficients, beta, rtol=1e-6, atol=1e-8)


def test_units_are_better_than_support_vectors(expansion):
    X, alpha = expansion
    moved = reduced_set(X, alpha, GAMMA, 12)
    picked = reduced_set(X, alpha, GAMMA, 12, n_steps=0)
    assert moved.distances[-1] < picked.distances[-1]
    assert moved.distances[1] < picked.distances[1]
    assert (cdist(picked.units, X).min(axis=1) == 0).all()


def test_the_next_point_is_the_fixed_points():
    rng = np.random.default_rng(0)
    X, alpha = rng.random((50, 2)), rng.random((50, 1))
    greedy = _Greedy(X, alpha, GAMMA, 5)
    z = rng.random((4, 2))
    values, heights, following = greedy._residual(z)
    near = gram(z, X) * alpha[:, 0]
    np.testing.assert_allclose(values[:, 0], near.sum(axis=1), atol=1e-10)
    np.testing.assert_allclose(heights, values[:, 0] ** 2, atol=1e-10)
    # The iteration of Schölkopf et al. 1999.
    np.testing.assert_allclose(following, near @ X / near.sum(axis=1, keepdims=True), atol=1e-10)


def test_climbing_never_loses_height_and_ends_where_the_slope_is_zero(expansion):
    X, alpha = expansion
    greedy = _Greedy(X, alpha, GAMMA, 5)
    starts = greedy._starts(6)
    assert len(np.unique(starts, axis=0)) == 6
    heights = [greedy._residual(greedy._climb(starts, steps))[1] for steps in (0, 1, 5, 400)]
    assert all((low <= high).all() for low, high in pairwise(heights))
    top = greedy._climb(starts, 400)
    for step in np.eye(3) * 1e-4:
        slope = greedy._residual(top + step)[1] - greedy._residual(top - step)[1]
        assert (np.abs(slope) < 1e-6 * heights[-1].max()).all()


def test_one_point_is_found_again():
    rng = np.random.default_rng(1)
    z = np.array([[0.4, 0.6]])
    # A smooth expansion that is nearly φ(z): least squares on a grid about it.
    grid = z + 0.3 * rng.standard_normal((40, 2))
    alpha = np.linalg.lstsq(gram(grid, grid), gram(grid, z), rcond=1e-8)[0]
    found = reduced_set(grid, alpha[:, 0], GAMMA, 1, n_steps=500)
    np.testing.assert_allclose(found.units, z, atol=2e-3)
    assert found.distances[1] < 1e-2


def test_as_many_units_as_points_are_the_points():
    rng = np.random.default_rng(2)
    X, alpha = rng.random((9, 2)), rng.standard_normal(9)
    found = reduced_set(X, alpha, GAMMA, 9)
    np.testing.assert_array_equal(found.units, X)
    np.testing.assert_array_equal(found.coefficients[:, 0], alpha)
    assert found.distances[-1] == 0.0


def test_it_stops_where_no_unit_adds_a_direction():
    X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 10, axis=0)
    found = reduced_set(X, np.ones(20), GAMMA, 5)
    assert len(found.units) == 2
    assert found.distances[-1] < 1e-6
    nothing = reduced_set(X, np.zeros(20), GAMMA, 5)
    assert nothing.units.shape == (0, 2)
    assert nothing.coefficients.shape == (0, 1)


def test_more_rows_than_the_pool_and_sparse_ones():
    rng = np.random.default_rng(3)
    X, alpha = np.round(rng.random((4500, 2)), 2), rng.standard_normal(4500)
    found = reduced_set(X, alpha, GAMMA, 10, n_steps=5)
    assert found.distances[-1] < 0.5
    np.testing.assert_allclose(
        reduced_set(sp.csr_array(X), alpha, GAMMA, 10, n_steps=5).distances, found.distances, atol=1e-9
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_with_all_units_it_is_the_exact_svm(n_classes, sparse):
    rng = np.random.default_rng(4)
    X = rng.random((200, 2))
    y = np.digitize(np.sin(6 * X[:, 0]) + X[:, 1], [0.4, 1.1][: n_classes - 1])
    w = rng.random(200) + 0.5
    model = ReducedSetClassifier(200, gamma=GAMMA, C=5.0, tol=1e-6)
    model.fit(sp.csr_array(X) if sparse else X, y, sample_weight=w)
    exact = SVC(C=5.0, gamma=GAMMA, tol=1e-6)
    if n_classes == 2:
        expected = exact.fit(X, y, sample_weight=w).decision_function(X)
    else:
        machines = [SVC(C=5.0, gamma=GAMMA, tol=1e-6).fit(X, y == c, sample_weight=w) for c in range(3)]
        expected = np.stack([m.decision_function(X) for m in machines], axis=1)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=2e-4)


def test_fewer_units_come_nearer_the_more_they_are():
    rng = np.random.default_rng(5)
    X = rng.random((400, 2))
    y = np.digitize(np.sin(6 * X[:, 0]) + X[:, 1], [0.4, 1.1])
    exact = OneVsRestClassifier(SVC(C=5.0, gamma=GAMMA)).fit(X, y).decision_function(X)
    errors = []
    for count in (2, 6, 20):
        model = ReducedSetClassifier(count, gamma=GAMMA, C=5.0).fit(X, y)
        assert len(model.distances_) == count + 1
        errors.append(np.abs(model.decision_function(X) - exact).mean())
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
