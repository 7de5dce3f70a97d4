"""Reduced sets and approximate extreme points, against dense formulas and the exact SVM."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from baselines.aesvm import AESVMClassifier
from baselines.extreme_points import (
    _halve,
    _Hull,
    _nearest,
    _residuals,
    derive_representatives,
    extreme_points,
)
from baselines.reduced_set import ReducedSetClassifier, _Greedy, reduced_set
from scipy.optimize import nnls
from scipy.spatial.distance import cdist
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from gramian.engine import Engine

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


# ---- approximate extreme points against nearest points of the hull by another solver ----------------


def square_to_hull(K, point, members):
    """‖φ(x) − hull‖² by non-negative least squares, the sum held to 1 by a heavy row."""
    values, vectors = np.linalg.eigh(K)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    heavy = 1e3
    A = np.vstack([root[:, members], np.full((1, len(members)), heavy)])
    mu, _ = nnls(A, np.append(root[:, point], heavy))
    mu /= mu.sum()
    return float(np.sum((root[:, members] @ mu - root[:, point]) ** 2))


@pytest.mark.parametrize("epsilon", [1e-4, 1e-2, 0.2])
def test_every_point_is_within_epsilon_of_the_hull(epsilon):
    X = np.random.default_rng(0).random((120, 2))
    chosen, mass = extreme_points(X, np.ones(120), GAMMA, epsilon)
    assert (np.diff(chosen) > 0).all()
    K = gram(X, X)
    far = [square_to_hull(K, point, chosen) for point in range(120)]
    assert max(far) <= epsilon * (1 + 1e-6) + 1e-8
    np.testing.assert_allclose(mass.sum(), 120.0, rtol=1e-9)
    assert (mass >= 1.0 - 1e-9).all()
    # 106, 32 and 9 of 120 where this was written.
    assert len(chosen) < {1e-4: 118, 1e-2: 50, 0.2: 20}[epsilon]


def test_representatives_are_those_that_others_cannot_stand_for():
    X = np.random.default_rng(1).random((60, 2))
    chosen, _ = extreme_points(X, np.ones(60), GAMMA, 0.02)
    K = gram(X, X)
    # Each joined when it lay farther than ε from the hull of those before; some would be near to them all.
    needed = [square_to_hull(K, point, np.setdiff1d(chosen, point)) > 0.02 for point in chosen]
    assert np.mean(needed) > 0.4


def test_weights_distances_and_slopes_belong_together():
    X = np.random.default_rng(2).random((80, 3))
    K = gram(X, X)
    hull = _Hull(K, 0.01)
    while hull.improve():
        hull.add(hull.worst())
        count = hull._count
        own = hull._members[:count]
        rest = np.setdiff1d(np.arange(80), own)
        mu = hull._mu[rest, :count]
        np.testing.assert_allclose(mu.sum(axis=1), 1.0, atol=1e-9)
        assert (mu >= 0).all()
        np.testing.assert_allclose(
            hull._slope[rest, :count], mu @ K[np.ix_(own, own)] - K[np.ix_(rest, own)], atol=1e-9
        )
        squares = 1.0 - 2.0 * (mu * K[np.ix_(rest, own)]).sum(1) + ((mu @ K[np.ix_(own, own)]) * mu).sum(1)
        np.testing.assert_allclose(hull._distance[rest], squares, atol=1e-9)
    assert not hull._open.any()


def test_the_span_of_the_others_is_nearer_than_their_hull():
    X = np.random.default_rng(3).random((40, 4)) * 2
    K = gram(X, X)
    bounds = _residuals(K)
    hulls = [square_to_hull(K, i, np.setdiff1d(np.arange(40), i)) for i in range(40)]
    assert (bounds <= np.array(hulls) + 1e-6).all()
    span = [1 - K[i, o] @ np.linalg.solve(K[np.ix_(o, o)], K[o, i]) for i, o in enumerate(others(40))]
    np.testing.assert_allclose(bounds, span, atol=1e-5)


def others(n):
    return [np.setdiff1d(np.arange(n), i) for i in range(n)]


@pytest.mark.parametrize("divide", [_halve, _nearest])
def test_rows_are_divided_once_each_into_near_ones(divide):
    rng = np.random.default_rng(4)
    X = rng.random((1000, 2))
    own = np.flatnonzero(rng.random(1000) > 0.3)
    parts = divide(X, own, 60, np.random.default_rng(0))
    assert max(map(len, parts)) <= 60
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), own)
    spread = np.mean([X[part].std(axis=0).mean() for part in parts if len(part) > 20])
    assert spread < 0.75 * X.std(axis=0).mean()
    thin = divide(sp.csr_array(X), own, 60, np.random.default_rng(0))
    assert [len(part) for part in thin] == [len(part) for part in parts]
    for one, other in zip(thin, parts):
        np.testing.assert_array_equal(one, other)


def test_repeated_rows_are_one_row_with_their_weights():
    X = np.random.default_rng(5).random((30, 2))
    weights = np.random.default_rng(6).integers(1, 5, 30)
    order = np.random.default_rng(7).permutation(weights.sum())
    common = {"epsilon": 0.05, "P": 10**5, "V": 10**3, "engine": Engine(1), "rng": np.random.default_rng(0)}
    once = derive_representatives(X, weights.astype(float), np.zeros(30, int), GAMMA, **common)
    repeated = np.repeat(X, weights, axis=0)[order]
    many = derive_representatives(repeated, None, np.zeros(len(order), int), GAMMA, **common)
    assert len(many.rows) == len(once.rows)
    by_place = [np.lexsort(rows.T) for rows in (X[once.rows], repeated[many.rows])]
    np.testing.assert_array_equal(X[once.rows][by_place[0]], repeated[many.rows][by_place[1]])
    np.testing.assert_allclose(once.weights[by_place[0]], many.weights[by_place[1]], atol=1e-9)


def circles(n, n_classes=2):
    rng = np.random.default_rng(8)
    X = rng.random((n, 2))
    return X, np.digitize(np.hypot(X[:, 0] - 0.5, X[:, 1] - 0.5), [0.25, 0.45][: n_classes - 1])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_epsilon_zero_is_the_exact_svm(n_classes):
    X, y = circles(300, n_classes)
    w = np.random.default_rng(9).random(300) + 0.5
    model = AESVMClassifier(0.0, gamma=GAMMA, C=5.0).fit(X, y, sample_weight=w)
    assert model.n_representatives_ == 300
    machines = [SVC(C=5.0, gamma=GAMMA).fit(X, y == c, sample_weight=w) for c in range(n_classes)]
    expected = np.stack([m.decision_function(X) for m in machines], axis=1)
    if n_classes == 2:
        assert model.n_support_ == len(machines[1].support_)
        expected = expected[:, 1]
    np.testing.assert_allclose(model.decision_function(X), expected, atol=2e-4)


@pytest.mark.slow
def test_the_smaller_epsilon_the_nearer_the_exact_svm():
    X, y = circles(300)
    exact = SVC(C=5.0, gamma=GAMMA).fit(X, y).decision_function(X)
    errors, sizes = [], []
    for epsilon in (0.3, 1e-3, 1e-6):
        model = AESVMClassifier(epsilon, V=60, gamma=GAMMA, C=5.0, random_state=0).fit(X, y)
        errors.append(np.abs(model.decision_function(X) - exact).max())
        sizes.append(model.n_representatives_)
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02 * np.abs(exact).max()
    assert sizes[0] < sizes[1] < sizes[2] <= 300


def test_parts_and_subsets_of_many_rows():
    X, y = circles(3000)
    model = AESVMClassifier(1e-2, P=400, V=90, gamma=GAMMA, C=5.0, random_state=0).fit(X, y)
    assert model.n_representatives_ < 1200
    assert model.score(X, y) > 0.95
    thin = AESVMClassifier(1e-2, P=400, V=90, gamma=GAMMA, C=5.0, random_state=0).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(thin.decision_function(X), model.decision_function(X), atol=1e-3)
