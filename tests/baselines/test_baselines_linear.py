"""Linear models on explicit features: folded weights, liblinear's and ridge's dense solutions, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from baselines.base import WeightedRows
from baselines.fastfood_linear import FastfoodLinearClassifier, FastfoodLinearRegressor
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
