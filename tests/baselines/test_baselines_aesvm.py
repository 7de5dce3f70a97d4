"""Approximate extreme points against nearest points of the hull by another solver, and the exact SVM."""

from __future__ import annotations

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
from scipy.optimize import nnls
from scipy.spatial.distance import cdist
from sklearn.svm import SVC

from gramian.engine import Engine

GAMMA = 3.0


def gram(X, Z):
    return np.exp(-GAMMA * cdist(X, Z, "sqeuclidean"))


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
