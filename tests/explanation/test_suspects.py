"""Suspects: held-out predictions against refits, planted errors and copies against what was planted."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits

import gramian as gm
from gramian.data.source import as_source
from gramian.estimator.labelled import labelled_classes
from gramian.explanation.suspects import NEAR, _copies, _held_out, _surprising_classes

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(5)
X = RNG.random((240, 2))
Y = 4.0 * X[:, 0] + np.sin(6.0 * X[:, 1]) + 0.05 * RNG.standard_normal(240)
PLANTED = [11, 57, 200]
WRONG = Y.copy()
WRONG[PLANTED] += [0.8, -0.7, 0.9]
MODELS = {
    "exact": gm.KernelRidge(0.1, gamma=4.0, approximation="exact", fit_intercept=True),
    "blocks": gm.KernelRidge(0.1, gamma=4.0, random_state=0),
    "searched": gm.KernelRidgeCV([0.01, 0.1], gamma=4.0),
    "metric": gm.KernelRidge(0.1, metric=gm.Metric(scales=[2.0, 1.0]), standardize=True),
    "svr": gm.KernelSVR(C=10.0, gamma=4.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_planted_errors_are_named_first(name: str) -> None:
    model = clone(MODELS[name]).fit(X, WRONG)
    found = gm.suspects(model, X, WRONG)
    assert set(PLANTED) <= set(found["row"][:5])
    assert len(found) <= 8
    np.testing.assert_array_equal(found["target"], WRONG[found["row"]])
    assert found["surprise"].is_monotonic_decreasing


def test_ridge_predicts_each_row_as_a_fit_to_the_others_does() -> None:
    model = clone(MODELS["exact"]).fit(X, WRONG)
    found = gm.suspects(model, X, WRONG).set_index("row")["held_out"]
    for row in PLANTED:
        others = np.arange(240) != row
        refit = clone(model).fit(X[others], WRONG[others])
        np.testing.assert_allclose(found[row], refit.predict(X[[row]])[0], rtol=1e-6)


def test_classes_predict_each_row_as_a_fit_to_the_others_does() -> None:
    labels = np.array(["low", "mid", "top"])[np.digitize(Y, [1.5, 3.0])]
    model = gm.KernelRidgeClassifier(
        0.1, gamma=4.0, approximation="exact", class_weight={"low": 3.0, "mid": 1.0, "top": 1.0}
    ).fit(X, labels)
    scores = _held_out(model, X, labels, labelled_classes(as_source(X), labels, None, model.class_weight))[0]
    for row in (0, 100):
        others = np.arange(240) != row
        refit = clone(model).fit(X[others], labels[others])
        np.testing.assert_allclose(scores[row], refit.decision_function(X[[row]])[0], rtol=1e-6)


@pytest.mark.parametrize(
    "model", [gm.KernelRidgeClassifier(0.1, gamma=0.001), gm.KernelSVC(gamma=0.001, n_jobs=1)]
)
def test_wrong_labels_are_found_and_few_right_ones_listed(model: Any) -> None:
    D, labels = load_digits(return_X_y=True)
    D, labels = D[:600], labels[:600].copy()
    flipped = np.random.default_rng(0).choice(600, 12, replace=False)
    labels[flipped] = (labels[flipped] + 4) % 10
    found = gm.suspects(clone(model).fit(D, labels), D, labels)
    assert len(set(found["row"]) & set(flipped)) >= 7
    assert len(set(found["row"]) - set(flipped)) <= 3
    right = found[found["row"].isin(flipped)]
    assert np.mean(right["held_out"] == (right["target"] + 6) % 10) > 0.8


def test_two_classes_and_noise_that_grows_with_the_level() -> None:
    labels = np.where(Y > 2.0, "high", "low")
    labels[np.argmax(Y)] = "low"
    found = gm.suspects(gm.KernelRidgeClassifier(0.1, gamma=4.0).fit(X, labels), X, labels)
    assert found["row"].iloc[0] == np.argmax(Y)
    assert found["held_out"].iloc[0] == "high"
    x = np.random.default_rng(1).random((1500, 1))
    grown = 5.0 * x[:, 0] + x[:, 0] ** 2 * np.random.default_rng(2).standard_normal(1500)
    assert len(gm.suspects(gm.KernelRidge(1.0, gamma=4.0).fit(x, grown), x, grown)) <= 3


def test_copies_that_disagree_are_named_with_each_other() -> None:
    rows = np.vstack([X, X[:3], X[3:4] + 1e-6])
    y = np.r_[Y, Y[0] + 2.0, Y[1], Y[2] + 0.01, Y[3] - 2.0]
    found = gm.suspects(gm.KernelRidge(0.1, gamma=4.0).fit(rows, y), rows, y)
    pairs = found[found["copy"].notna()]
    assert {(row, int(copy)) for row, copy in zip(pairs["row"], pairs["copy"], strict=True)} == {
        (0, 240),
        (240, 0),
        (3, 243),
        (243, 3),
    }
    assert set(pairs["reason"]) <= {"both", "copies disagree"}


def test_copies_are_those_of_all_distances() -> None:
    rng = np.random.default_rng(3)
    rows = rng.random((60, 2))
    rows = np.vstack([rows, rows[:20], rows[:5] + 1e-7, rows[:5] + 2e-7])
    y = rng.random(len(rows))
    distance = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    apart = np.unique(rows, axis=0)
    between = np.linalg.norm(apart[:, None] - apart[None], axis=2)
    np.fill_diagonal(between, np.inf)
    near = distance <= NEAR * np.median(between.min(axis=1))
    for _ in range(3):  # copies of copies
        near = (near.astype(int) @ near.astype(int)) > 0
    expected = [max(np.flatnonzero(row), key=lambda j, i=i: abs(y[j] - y[i])) for i, row in enumerate(near)]
    np.testing.assert_allclose(np.abs(y[_copies(rows, y)] - y), np.abs(y[expected] - y))


def test_a_class_is_plausible_from_the_mean_score_of_its_rows() -> None:
    scores = np.array([[2.0, 0.0], [1.0, 0.9], [0.0, 1.0], [0.4, 0.5]])
    surprise, chosen = _surprising_classes(np.array([0, 0, 1, 0]), scores)
    np.testing.assert_array_equal(chosen, [0, 0, 1, 0])  # .5 is below 1, which rows of class 1 have
    np.testing.assert_allclose(surprise, [-2.0, -0.1, -1.0, 0.1])


def test_tables_with_categories_are_judged_in_folds() -> None:
    rng = np.random.default_rng(0)
    flats = pd.DataFrame({"area": rng.uniform(20, 120, 200), "town": rng.choice(["Bath", "Hull"], 200)})
    price = flats["area"] * np.where(flats["town"] == "Bath", 4.0, 2.0) + 5.0 * rng.standard_normal(200)
    price[17] += 120.0
    model = gm.TabularRegressor(effort="instant", random_state=0).fit(flats, price)
    found = gm.suspects(model, flats, price)
    assert found["row"].iloc[0] == 17


def test_the_model_and_the_rows_stay_as_they_are() -> None:
    model = clone(MODELS["blocks"]).fit(X, WRONG)
    rows, y, before = X.copy(), WRONG.copy(), model.predict(X)
    gm.suspects(model, rows, y)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(y, WRONG)
    np.testing.assert_array_equal(model.predict(X), before)


def test_exact_targets_and_constant_rows_name_nobody() -> None:
    linear = X @ [1.0, 2.0]
    model = gm.KernelRidge(1e-8, kernel="linear", approximation="exact").fit(X, linear)
    assert len(gm.suspects(model, X, linear)) <= 2
    same, y = np.ones((30, 2)), np.full(30, 2.0)
    assert gm.suspects(gm.KernelRidge(0.1, gamma=1.0).fit(same, y), same, y).empty


@pytest.mark.parametrize(
    ("rows", "y", "message"),
    [(X, np.column_stack([Y, Y]), "2 targets"), (X[:50], Y, "50"), (X[:, :1], Y, "1 features")],
)
def test_unusable_input_is_named(rows: Any, y: Any, message: str) -> None:
    model = clone(MODELS["exact"]).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        gm.suspects(model, rows, y)


def test_models_without_rows_to_compare_are_refused() -> None:
    with pytest.raises(gm.InputError, match="expected a fitted kernel model"):
        gm.suspects(object(), X, Y)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    stored = gm.KernelRidge(0.1, kernel="precomputed").fit(K, Y)
    with pytest.raises(gm.InputError, match="no rows to compare"):
        gm.suspects(stored, K, Y)
    thin = sp.csr_array(np.where(X > 0.5, X, 0.0))
    with pytest.raises(gm.InputError, match="sparse"):
        gm.suspects(gm.KernelRidge(0.1, gamma=1.0).fit(thin, Y), thin, Y)


def test_without_pandas_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(gm.exceptions.MissingPackageError, match="pip install pandas"):
        gm.suspects(clone(MODELS["exact"]), X, Y)
