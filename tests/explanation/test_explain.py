"""Shares against the dense sum of kernel values, contributions against predictions of changed rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import gramian as gm
from gramian.explanation import Explanation, explain
from gramian.explanation.machines import secant
from gramian.explanation.value import largest

RNG = np.random.default_rng(3)
X = RNG.random((150, 3))
Y = np.sin(5 * X[:, 0]) + X[:, 1]
CLASSES = np.array(["low", "mid", "top"])[np.digitize(Y, [0.4, 1.0])]
BLOCKS = gm.MultiResolution(root_rank=15, rank=6, n_blocks=4)

NUMBERS = {
    "exact": gm.KernelRidge(0.1, gamma=4.0, approximation="exact", fit_intercept=True),
    "blocks": gm.KernelRidge(0.1, gamma=4.0, approximation=BLOCKS, random_state=0),
    "levels": gm.KernelRidge(
        0.1, gamma=4.0, approximation=gm.MultiResolution(root_rank=9, rank=4, n_blocks=6, n_levels=3)
    ),
    "meka": gm.KernelRidge(0.1, gamma=4.0, approximation=gm.MEKA(rank=9, n_blocks=3), random_state=0),
    "standardized": gm.KernelRidge(0.1, gamma=0.5, approximation="exact", standardize=True),
    "metric": gm.KernelRidge(0.1, metric=gm.Metric(scales=[2.0, 1.0, 0.0]), approximation="exact"),
    "svr": gm.KernelSVR(C=10.0, gamma=4.0),
    "process": gm.GaussianProcessRegressor(max_iter=30, n_restarts_optimizer=0, random_state=0),
}
CLASSIFIERS = {
    "ridge": gm.KernelRidgeClassifier(gamma=4.0, approximation="exact"),
    "svc": gm.KernelSVC(gamma=4.0),
    "logistic": gm.KernelLogisticRegression(gamma=4.0, C=10.0),
}


def total(found: Explanation) -> np.ndarray:
    return found.intercept + found.shares.sum(axis=1) + found.rest + found.other


def fitted(model: Any, X: Any = X, y: Any = Y) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.AccuracyWarning)
        return model.fit(X, y)


def test_shares_are_those_of_the_dense_sum() -> None:
    model = fitted(NUMBERS["exact"])
    found = model.explain(X[:20], n_points=150, columns=False)
    K = np.exp(-4.0 * ((X[:20, None] - X[None]) ** 2).sum(axis=2))
    coefficients = model.predictor_.coefficients[:, 0]
    dense = np.zeros((20, 150))
    np.put_along_axis(dense, found.points, found.shares, 1)
    np.testing.assert_allclose(dense, K * coefficients, atol=1e-9 * np.abs(coefficients).max())
    np.testing.assert_array_equal(found.weights, coefficients[found.points])
    np.testing.assert_allclose(found.similarities, np.take_along_axis(K, found.points, 1), rtol=1e-6)
    # The largest come first, and nothing is left over.
    assert (np.diff(np.abs(found.shares), axis=1) <= 0).all()
    np.testing.assert_allclose(found.rest, 0.0, atol=1e-9 * np.abs(dense).sum())
    np.testing.assert_allclose(found.intercept, model.intercept_[0])
    few = model.explain(X[:20], n_points=4, columns=False)
    np.testing.assert_array_equal(few.points, found.points[:, :4])
    np.testing.assert_allclose(few.rest, found.shares[:, 4:].sum(axis=1), atol=1e-9 * np.abs(dense).sum())


@pytest.mark.parametrize("name", ["exact", "blocks"])
def test_similar_rows_come_first_where_asked_for(name: str) -> None:
    model = fitted(NUMBERS[name])
    found = model.explain(X[:10], n_points=5, by="similarity", columns=False)
    assert (np.diff(found.similarities, axis=1) <= 0).all()
    if name == "exact":
        assert found.points[:, 0].tolist() == list(range(10))  # a row is like itself
    np.testing.assert_allclose(total(found), found.prediction, rtol=1e-6)
    with pytest.raises(gm.InputError, match="by='other'"):
        model.explain(X[:2], by="other")


@pytest.mark.parametrize("name", NUMBERS)
def test_shares_add_up_to_the_prediction(name: str) -> None:
    model = fitted(NUMBERS[name])
    found = explain(model, X[:30], n_points=3)
    np.testing.assert_allclose(found.prediction, model.predict(X[:30]), rtol=1e-9)
    np.testing.assert_allclose(total(found), found.prediction, rtol=1e-6)
    if name != "process":  # whose landmarks are many, with large weights of both signs
        every = explain(model, X[:30], n_points=10_000, columns=False)
        size = np.abs(every.shares).sum(axis=1) + 1.0
        assert (np.abs(every.rest) <= 1e-3 * size).all()


def test_terms_of_blocks_are_the_landmarks_on_the_path() -> None:
    model = fitted(NUMBERS["blocks"])
    predictor, found = model.predictor_, model.explain(X[:9], n_points=4, columns=False)
    assert found.kind == "landmarks"
    assert predictor.n_points == sum(len(Z) for Z in predictor.landmarks)
    for i in range(9):
        Z = np.concatenate([predictor.point(int(j)) for j in found.points[i]])
        k = np.exp(-4.0 * ((X[i] - Z) ** 2).sum(axis=1))
        np.testing.assert_allclose(found.shares[i], k * found.weights[i], rtol=1e-4, atol=1e-6)


def test_landmarks_are_matched_with_the_nearest_training_row() -> None:
    model = fitted(NUMBERS["meka"])
    found = model.explain(X[:5], n_points=3, X_train=X)
    for point, row in zip(found.points.ravel(), found.nearest.ravel(), strict=True):
        z = model.predictor_.point(int(point))
        distances = ((X - z) ** 2).sum(axis=1)  # several rows may be equally near to a centre
        np.testing.assert_allclose(distances[row], distances.min(), rtol=1e-6, atol=1e-9)
    assert "near row" in str(found.summary())
    assert fitted(NUMBERS["exact"]).explain(X[:5], X_train=X).nearest is None  # they are rows already


@pytest.mark.parametrize("name", ["exact", "standardized", "metric"])
def test_rows_that_the_model_keeps_are_the_background(name: str) -> None:
    model = fitted(NUMBERS[name])
    found, known = model.explain(X[:6]), model.explain(X[:6], X_train=X)
    np.testing.assert_allclose(found.values, known.values, atol=1e-9)
    assert found.background == "150 of the model's 150 training rows"
    if name == "metric":
        np.testing.assert_allclose(found.values[:, 2], 0.0, atol=1e-9)  # its scale is 0


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes_are_explained_in_their_decision_values(name: str) -> None:
    model = fitted(CLASSIFIERS[name], y=CLASSES)
    found, values = model.explain(X[:8], n_points=3), model.decision_function(X[:8])
    np.testing.assert_allclose(found.prediction, values.max(axis=1), rtol=1e-9)
    np.testing.assert_allclose(total(found), found.prediction, rtol=1e-5, atol=1e-7)
    assert list(found.labels) == list(model.classes_[values.argmax(axis=1)])
    one = model.explain(X[:8], output="mid", columns=False)
    np.testing.assert_allclose(one.prediction, values[:, 1], rtol=1e-9)
    two = fitted(CLASSIFIERS[name], y=CLASSES == "mid")
    values = two.decision_function(X[:8])
    np.testing.assert_allclose(two.explain(X[:8], output=True).prediction, values, rtol=1e-9)
    negative = two.explain(X[:8], output=False)
    np.testing.assert_allclose(negative.prediction, -values, rtol=1e-9)
    np.testing.assert_allclose(total(negative), -values, rtol=1e-5, atol=1e-7)


def test_one_of_several_targets_is_chosen() -> None:
    model = fitted(gm.KernelRidge(0.1, gamma=4.0, approximation="exact"), y=np.column_stack([Y, -2.0 * Y]))
    first, second = (model.explain(X[:4], output=o) for o in (0, 1))
    np.testing.assert_allclose(second.shares, -2.0 * first.shares, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(second.values, -2.0 * first.values, rtol=1e-4, atol=1e-7)
    with pytest.raises(gm.InputError, match="2 outputs: pass output=0"):
        model.explain(X[:4])
    with pytest.raises(gm.InputError, match="whole number from 0 to 1"):
        model.explain(X[:4], output=2)


def test_the_background_of_sparse_rows_is_zero() -> None:
    rows = np.where(X > 0.5, X, 0.0)
    model = fitted(gm.KernelRidge(0.1, gamma=4.0, approximation="exact"), sp.csr_array(rows))
    found = model.explain(sp.csr_array(rows[:6]))
    assert found.background == "one row of zeros"
    assert not found.values[rows[:6] == 0].any()
    same = fitted(gm.KernelRidge(0.1, gamma=4.0, approximation="exact"), rows).explain(
        rows[:6], X_train=np.zeros((1, 3))
    )
    np.testing.assert_allclose(found.values, same.values, atol=1e-6)


def test_a_precomputed_kernel_has_rows_but_no_columns() -> None:
    K = np.exp(-4.0 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    model = fitted(gm.KernelRidge(0.1, kernel="precomputed", approximation="exact"), K)
    plain = fitted(gm.KernelRidge(0.1, gamma=4.0, approximation="exact")).explain(X[:5])
    found = model.explain(K[:5])
    assert found.values is found.base is found.errors is None
    np.testing.assert_array_equal(found.points, plain.points)
    landmarks = fitted(gm.KernelRidge(0.1, kernel="precomputed", approximation="nystrom"), K)
    with pytest.raises(gm.InputError, match="no features to measure distances"):
        landmarks.explain(K[:5], X_train=K)


def test_what_has_no_rows_says_so() -> None:
    model = fitted(gm.KernelRidge(0.1, approximation=gm.RandomFourier(rank=10)))
    with pytest.raises(gm.InputError, match="random features, which belong to no row"):
        model.explain(X[:2])
    pairs = gm.DCSVC(gamma=4.0).fit(X, CLASSES)
    with pytest.raises(gm.InputError, match="is no sum over rows"):
        pairs.explain(X[:2])
    with pytest.raises(gm.InputError, match="expected a fitted kernel model"):
        explain(object(), X[:2])
    full = fitted(gm.KernelRidge(0.1, metric=gm.Metric(matrix=np.eye(3)), approximation="exact"))
    with pytest.raises(gm.InputError, match="Pass X_train, or columns=False"):
        full.explain(X[:2])
    assert full.explain(X[:2], columns=False).values is None
    with pytest.raises(gm.InputError, match="n_points=0"):
        full.explain(X[:2], n_points=0)
    classes = fitted(CLASSIFIERS["ridge"], y=CLASSES)
    with pytest.raises(gm.InputError, match="none of the classes"):
        classes.explain(X[:2], output="other")


def test_an_explanation_is_a_frozen_value() -> None:
    found = fitted(NUMBERS["exact"]).explain(X[:5])
    with pytest.raises(ValueError, match="read-only"):
        found.shares[0, 0] = 1.0
    assert len(found) == 5
    np.testing.assert_array_equal(found[-1].shares, found.shares[4:])
    with pytest.raises(gm.InputError, match="from 0 to 4"):
        found[5]
    text = str(found.summary())
    assert "2 further predictions" in text
    assert "all other training rows" in text
    assert "<table" in found._repr_html_()
    assert repr(found) == "<Explanation of 5 predictions by 5 training rows>"


def test_largest_and_secant() -> None:
    shares = np.array([[1.0, -3.0, 2.0], [0.0, 0.5, -0.1]])
    assert largest(shares, 2).tolist() == [[1, 2], [1, 2]]
    assert largest(shares, 3).tolist() == [[1, 2, 0], [1, 2, 0]]
    start, end = np.array([0.0, 1.0, 1.0]), np.array([2.0, 1.0, 1.0 + 1e-15])
    np.testing.assert_allclose(secant(np.exp, start, end), [(np.e**2 - 1) / 2, np.e, np.e], rtol=1e-6)
