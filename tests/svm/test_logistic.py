"""KernelLogisticRegression: scikit-learn's contract, exact agreement, weights, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from suite.datasets import load_dataset

import gramian as gm
from gramian.svm.logistic import KernelLogisticRegression


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([KernelLogisticRegression()])
def test_sklearn_check(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.random((250, 3))
    score = np.sin(5 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(250)
    return X, np.array(["low", "mid", "high"])[np.digitize(score, [0.7, 1.3])], rng.random((60, 3))


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_exact_agrees_with_logistic_regression_on_the_kernels_root(table, C, n_classes):
    X, y, new = table
    if n_classes == 2:
        y = y == "high"
    kernel = gm.Gaussian(lengthscale=np.sqrt(0.5 / 4.0))
    values, vectors = np.linalg.eigh(kernel(X))
    keep = values > 1e-10
    root = vectors[:, keep] / np.sqrt(values[keep])
    peer = LogisticRegression(C=C, tol=1e-9, max_iter=20_000).fit(kernel(X) @ root, y)
    model = KernelLogisticRegression(C, gamma=4.0, approximation="exact", tol=1e-11).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(new), peer.predict_proba(kernel(new, X) @ root), atol=1e-3)
    assert model.classes_.tolist() == peer.classes_.tolist()
    np.testing.assert_array_equal(model.predict(new), model.classes_[model.predict_proba(new).argmax(axis=1)])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_equal_repetition_and_class_weights_multiply_them(table, n_classes):
    X, y, new = table
    if n_classes == 2:
        y = np.where(y == "high", "high", "low")
    model = KernelLogisticRegression(3.0, gamma=4.0, tol=1e-11, approximation="exact")
    w = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = clone(model).fit(X, y, w).predict_proba(new)
    repeated = clone(model).fit(np.repeat(X, w, axis=0), np.repeat(y, w)).predict_proba(new)
    np.testing.assert_allclose(weighted, repeated, atol=1e-4)
    by_class = clone(model).set_params(class_weight={"high": 3.0}).fit(X, y).predict_proba(new)
    by_row = clone(model).fit(X, y, np.where(y == "high", 3.0, 1.0)).predict_proba(new)
    np.testing.assert_allclose(by_class, by_row, atol=1e-9)


def test_grid_search(table):
    X, y, _ = table
    search = GridSearchCV(
        KernelLogisticRegression(gamma=4.0), {"C": [1e-3, 1.0]}, cv=2, scoring="neg_log_loss"
    )
    assert search.fit(X, y).best_params_ == {"C": 1.0}


def test_bad_input(table):
    X, y, _ = table
    with pytest.raises(gm.InputError, match="one class"):
        KernelLogisticRegression().fit(X, np.full(len(X), "a"))
    with pytest.raises(gm.InputError, match=r"C=-1 must be a positive, finite number"):
        KernelLogisticRegression(-1).fit(X, y)
    with pytest.raises(gm.BudgetError, match="memory_budget"):
        KernelLogisticRegression(memory_budget="20KB").fit(X, y)
    with pytest.raises(gm.InputError, match="sample_weight is zero everywhere"):
        KernelLogisticRegression().fit(X, y, np.zeros(len(X)))


@pytest.mark.data
def test_letter_of_26_classes():
    data = load_dataset("letter")
    order = np.random.default_rng(0).permutation(len(data.X))[:4500]
    X, y = data.X[order] / data.X.std(axis=0), data.y[order]
    peer = SVC(C=10.0, gamma=0.1).fit(X[:2500], y[:2500]).score(X[2500:], y[2500:])
    sizes = gm.MultiResolution(root_rank=500, rank=0, n_blocks=1, n_levels=1)
    model = KernelLogisticRegression(30.0, gamma=0.1, approximation=sizes, random_state=0, tol=1e-5)
    assert model.fit(X[:2500], y[:2500]).score(X[2500:], y[2500:]) > peer - 0.03
