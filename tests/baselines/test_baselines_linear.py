"""Linear models on explicit features, float32 expansions and local deep kernels, against dense formulas."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from baselines.base import WeightedRows, moments
from baselines.expansion import Expansion
from baselines.fastfood_linear import FastfoodLinearClassifier, FastfoodLinearRegressor
from baselines.ldkl import LDKLClassifier, PathTrees, _Descent
from baselines.linear import ridge
from baselines.nystrom_linear import NystromLinearClassifier, NystromLinearRegressor
from scipy.spatial.distance import cdist
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

import gramian as gm
from gramian.engine import Engine


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    X = rng.random((500, 3))
    return X, np.sin(5 * X[:, 0]) + X[:, 1], rng.random(500) + 0.2


def features_of(model, X):
    """W^(−1/2) k(Z, x) in float64, by the eigenvectors of W; all of its directions are kept."""
    Z = model.model_.units.astype(np.float64) + model.model_.centre
    W = np.exp(-model.gamma * cdist(Z, Z, "sqeuclidean"))
    values, vectors = np.linalg.eigh(W)
    assert values.min() > 1e-6 * values.max()
    return np.exp(-model.gamma * cdist(X, Z, "sqeuclidean")) @ vectors / np.sqrt(values) @ vectors.T


def test_folded_weights_are_features_times_weights(table):
    X, y, w = table
    model = NystromLinearRegressor(12, gamma=4.0, alpha=0.1, random_state=0).fit(X, y, sample_weight=w)
    dense = Ridge(0.1, solver="cholesky").fit(features_of(model, X), y, sample_weight=w)
    np.testing.assert_allclose(model.predict(X), dense.predict(features_of(model, X)), atol=2e-4)
    outputs = np.stack([y, -y, X[:, 2]], axis=1)
    many = NystromLinearRegressor(12, gamma=4.0, alpha=0.1, random_state=0).fit(X, outputs, sample_weight=w)
    assert many.model_.coefficients.shape == (12, 3)
    np.testing.assert_allclose(many.predict(X)[:, 0], model.predict(X), atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_svm_on_the_features_is_liblinears(table, n_classes):
    X, y, w = table
    labels = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    model = NystromLinearClassifier(12, gamma=4.0, C=5.0, tol=1e-8, random_state=0)
    model.fit(X, labels, sample_weight=w)
    dense = LinearSVC(C=5.0, dual=False, tol=1e-8).fit(features_of(model, X), labels, sample_weight=w)
    np.testing.assert_allclose(
        model.decision_function(X), dense.decision_function(features_of(model, X)), atol=2e-3
    )


@pytest.mark.parametrize("form", ["pairs", "phase"])
def test_fastfood_values_are_the_products(table, form):
    X, y, w = table
    model = FastfoodLinearRegressor(40, form=form, gamma=2.0, alpha=0.3, random_state=0)
    model.fit(X, y, sample_weight=w)
    F = model.model_(X).astype(np.float64)
    dense = Ridge(0.3, solver="cholesky").fit(F, y, sample_weight=w)
    np.testing.assert_allclose(model.predict(X), dense.predict(F), atol=2e-5)
    labels = y > 1
    svm = FastfoodLinearClassifier(40, form=form, gamma=2.0, C=3.0, tol=1e-8, random_state=0).fit(X, labels)
    dense = LinearSVC(C=3.0, dual=False, tol=1e-8).fit(svm.model_(X).astype(np.float64), labels)
    np.testing.assert_allclose(
        svm.decision_function(X), dense.decision_function(svm.model_(X).astype(np.float64)), atol=1e-4
    )


def test_fastfood_draws_what_the_map_of_the_library_draws(table):
    X, _, _ = table
    rng = np.random.default_rng(0)
    model = FastfoodLinearRegressor(1000, gamma=2.0, random_state=rng).fit(X, X[:, 0])
    F = model.model_(X).astype(np.float64)
    K = np.exp(-2.0 * cdist(X, X, "sqeuclidean"))
    assert np.linalg.norm(F @ F.T - K) / np.linalg.norm(K) < 0.1


@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_by_sums_is_the_dense_solution(table, weighted):
    X, y, w = table
    targets = np.stack([y, X[:, 0] ** 2], axis=1)
    rows = WeightedRows(np.tile(X, (40, 1)), np.tile(targets, (40, 1)), np.tile(w, 40) if weighted else None)
    weights, intercept = ridge(lambda rows: rows**3, 3, rows, alpha=0.7, engine=Engine(2))
    dense = Ridge(0.7, solver="cholesky").fit(rows.rows**3, rows.targets, sample_weight=rows.weights)
    np.testing.assert_allclose(weights.T, dense.coef_, atol=1e-9)
    np.testing.assert_allclose(intercept, dense.intercept_, atol=1e-9)


def test_liblinear_that_ends_early_warns_with_the_remedy(table):
    X, y, _ = table
    svm = NystromLinearClassifier(
        20, gamma=2.0, C=1e4, tol=1e-12, loss="hinge", max_iter=2, random_state=0, n_jobs=1
    )
    with pytest.warns(gm.AccuracyWarning, match=r"ended after max_iter=2 .* Raise max_iter or tol, lower C"):
        svm.fit(X, y > 1)


# ---- the float32 expansion against float64 sums -----------------------------------------------------


def dense_sum(X, Z, beta, b, gamma):
    return np.exp(-gamma * cdist(X, Z, "sqeuclidean")) @ beta + b


@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize(("m", "d"), [(1, 3), (40, 7), (3000, 2)])
def test_it_is_the_sum(m, d, outputs):
    rng = np.random.default_rng(m)
    Z, X = rng.standard_normal((m, d)), rng.standard_normal((2500, d))
    beta, b = rng.standard_normal((m, outputs)) / m, rng.standard_normal(outputs)
    model = Expansion.of(Z, beta, b, 0.3)
    expected = dense_sum(X, Z, beta, b, 0.3)
    np.testing.assert_allclose(model.decide(X), expected, atol=1e-5)
    np.testing.assert_allclose(model.decide(sp.csr_array(X)), expected, atol=1e-5)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decide(X), model.decide(X))
    assert model.nbytes == 4 * (m * d + m * outputs + outputs + d)
    assert model.decide(X[:0]).shape == (0, outputs)


@pytest.mark.parametrize(("spread", "gamma"), [(1.0, 1e12), (1e4, 1.0), (1.0, 1e-12), (1e-3, 1e5)])
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_it_keeps_its_digits(spread, gamma, offset):
    rng = np.random.default_rng(0)
    Z = offset + spread * rng.standard_normal((30, 4)).astype(np.float32).astype(np.float64)
    X = np.concatenate([Z, Z + 0.3 / np.sqrt(gamma) * rng.standard_normal(Z.shape)])
    beta = rng.standard_normal((30, 1))
    model = Expansion.of(Z, beta, np.zeros(1), gamma)
    # The units as they are stored, rounded to float32 about their centre.
    units = model.units.astype(np.float64) + model.centre
    tolerance = 3e-4
    np.testing.assert_allclose(model.decide(X), dense_sum(X, units, beta, 0.0, gamma), atol=tolerance)


def test_no_units_leave_the_intercept():
    model = Expansion.of(np.zeros((0, 3)), np.zeros((0, 2)), np.array([1.0, -2.0]), 1.0)
    np.testing.assert_array_equal(model.decide(np.ones((5, 3))), np.tile([1.0, -2.0], (5, 1)))


# ---- local deep kernel learning against all nodes with their indicators -----------------------------


def all_nodes(model, X):
    """f with every node evaluated in float64, times the indicator of the paths through it."""
    rows = np.hstack([X - model.centre.astype(np.float64), np.ones((len(X), 1))])
    out = np.zeros((len(X), model.n_outputs))
    for tree in range(model.n_outputs):
        indicator = {0: np.ones(len(X))}
        for node in range(model.weights.shape[1]):
            gate = np.tanh(model.sigma * (rows @ model.theta_prime[tree, node].astype(float)))
            out[:, tree] += indicator[node] * gate * (rows @ model.weights[tree, node].astype(float))
            if node < model.theta.shape[1]:
                left = rows @ model.theta[tree, node].astype(float) > 0
                indicator[2 * node + 1] = indicator[node] * left
                indicator[2 * node + 2] = indicator[node] * ~left
    return out


def random_trees(depth, d, outputs, rng):
    inner, nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    draw = [rng.standard_normal((outputs, size, d + 1)).astype(np.float32) for size in (inner, nodes, nodes)]
    return PathTrees(*draw, 0.7, rng.standard_normal(d).astype(np.float32))


@pytest.mark.parametrize("depth", [0, 1, 3, 7])
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_path_gives_what_all_nodes_give(depth, outputs):
    rng = np.random.default_rng(depth)
    trees = random_trees(depth, 6, outputs, rng)
    assert trees.depth == depth
    X = rng.standard_normal((5000, 6))
    np.testing.assert_allclose(trees.decide(X), all_nodes(trees, X), atol=2e-4)
    np.testing.assert_array_equal(trees.decide(sp.csr_array(X)), trees.decide(X))


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_slopes_equal_differences_of_the_smooth_value(depth):
    rng = np.random.default_rng(1)
    descent = _Descent(depth, 0.0, 0.0, 0.0, sigma=0.8, n_epochs=1, batch_size=1, step=1.0)
    columns = 2**depth - 1 + 2 * (2 ** (depth + 1) - 1)
    products = rng.standard_normal((4, columns))
    _, slopes = descent.value_and_slopes(products, 1.3)
    for column in range(columns):
        moved = [products.copy() for _ in range(2)]
        moved[0][:, column] -= 1e-5
        moved[1][:, column] += 1e-5
        low, high = (descent.value_and_slopes(p, 1.3)[0] for p in moved)
        np.testing.assert_allclose(slopes[:, column], (high - low) / 2e-5, atol=1e-7)


def test_the_smooth_value_becomes_that_of_the_path():
    rng = np.random.default_rng(2)
    trees = random_trees(4, 3, 1, rng)
    X = rng.standard_normal((300, 3))
    rows = np.hstack([X - trees.centre, np.ones((300, 1))])
    products = rows @ np.concatenate([trees.theta[0], trees.theta_prime[0], trees.weights[0]]).T
    descent = _Descent(4, 0.0, 0.0, 0.0, sigma=trees.sigma, n_epochs=1, batch_size=1, step=1.0)
    values, _ = descent.value_and_slopes(products, 1e4)
    clear = (np.abs(products[:, :15]) > 1e-2).all(axis=1)
    assert clear.sum() > 200
    np.testing.assert_allclose(values[clear], trees.decide(X)[clear, 0], atol=1e-4)


def testmoments_are_weighted_and_know_constant_features():
    rng = np.random.default_rng(3)
    X = np.hstack([rng.random((500, 2)) + 1e4, np.full((500, 1), 7.0), np.zeros((500, 1))])
    weights = rng.integers(1, 4, 500).astype(float)
    mean, scale = moments(X, weights)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    np.testing.assert_allclose(mean, repeated.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(scale, [*repeated.std(axis=0)[:2], 1.0, 1.0], rtol=1e-4)


def test_units_of_the_features_do_not_matter():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((600, 3))
    y = X[:, 0] * X[:, 1] > 0
    fit = [
        LDKLClassifier(3, n_epochs=10, random_state=0).fit(rows, y).decision_function(rows)
        for rows in (X, X * [1e-3, 1.0, 64.0], X + 100.0)
    ]
    for other in fit[1:]:
        assert np.mean((fit[0] > 0) == (other > 0)) > 0.97
