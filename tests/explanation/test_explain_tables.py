"""Explanations of models of tables: shares in the target's own units, columns in the names of the frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from shapley_oracle import shapley_values

import gramian as gm
from gramian.tables import EncodedRows
from gramian.tables.importance.permutation import column_places

pd = pytest.importorskip("pandas")

from sklearn.inspection import partial_dependence, permutation_importance

RNG = np.random.default_rng(0)
N = 240
FRAME = pd.DataFrame(
    {
        "area": RNG.random(N),
        "town": RNG.choice(["Bath", "Hull", "York"], N, p=[0.5, 0.3, 0.2]),
        "lift": RNG.random(N) < 0.4,
        "useless": RNG.random(N),
    }
)
FRAME.loc[::15, "area"] = np.nan
PRICE = np.exp(1.5 * FRAME["area"].fillna(0.5) + (FRAME["town"] == "Hull") + 0.5 * FRAME["lift"])
LABELS = np.where(PRICE > 4.0, "dear", np.where(PRICE > 2.0, "fair", "cheap"))


@pytest.fixture(scope="module")
def regressor() -> Any:
    return gm.TabularRegressor(random_state=0).fit(FRAME[:200], PRICE[:200])


@pytest.fixture(scope="module", params=[pytest.param("three", marks=pytest.mark.slow), "two"])
def classifier(request: Any) -> Any:
    y = LABELS if request.param == "three" else LABELS == "fair"
    return gm.TabularClassifier(random_state=0).fit(FRAME[:200], y[:200])


def total(found: Any) -> np.ndarray:
    return found.intercept + found.shares.sum(axis=1) + found.rest + found.other


@pytest.mark.slow
def test_shares_add_up_in_the_units_of_the_target(regressor: Any) -> None:
    found = regressor.explain(FRAME[200:])
    np.testing.assert_allclose(found.prediction, regressor.predict(FRAME[200:]), rtol=1e-9)
    np.testing.assert_allclose(total(found), found.prediction, rtol=1e-6)
    assert found.kind == "training rows"
    assert found.points.max() < 200
    every = regressor.explain(FRAME[200:203], n_points=200, columns=False)
    assert every.shares.shape == (3, 200)
    size = np.abs(every.shares).sum(axis=1)
    assert (np.abs(every.rest) <= 1e-4 * size).all()


def encoded_players(model: Any, rows: Any) -> tuple[Any, list[Any]]:
    """The prediction of encoded rows, and the places of each column."""

    def predict(encoded: np.ndarray) -> np.ndarray:
        values = model.model_.predict(model.scaling_.apply(encoded))
        return model.target_.expected(np.reshape(values, (len(encoded), -1)))[:, 0]

    return predict, column_places(model.columns_)


def test_a_column_is_one_player_whatever_it_was_encoded_to(regressor: Any) -> None:
    known = FRAME[:3]
    found = regressor.explain(FRAME[200:206], X_train=known)
    assert found.names == ("area", "town", "lift", "useless")
    predict, players = encoded_players(regressor, known)
    rows = np.asarray(EncodedRows(regressor.columns_, FRAME[200:206]).rows(slice(0, 6)))
    background = np.asarray(EncodedRows(regressor.columns_, known).rows(slice(0, 3)))
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), found.prediction, rtol=1e-12)
    errors = np.zeros_like(found.values) if found.errors is None else found.errors
    for i, row in enumerate(rows):
        _, values = shapley_values(predict, row, background, players)
        np.testing.assert_allclose(found.values[i], values, atol=5.0 * errors[i].max() + 1e-4)


def test_without_training_rows_the_background_is_medians_and_no_category(regressor: Any) -> None:
    found = regressor.explain(FRAME[200:210].assign(area=0.25))
    assert found.background == "one row of medians, and of no known category"

    assert np.ptp(found.base) < 1e-6 * abs(found.base[0])
    assert np.abs(found.values[:, :2]).mean() > 5 * np.abs(found.values[:, 3]).mean()


@pytest.mark.slow
def test_log_odds_of_classes_are_explained(classifier: Any) -> None:
    found, values = classifier.explain(FRAME[200:]), classifier.decision_function(FRAME[200:])
    two = values.ndim == 1
    expected = np.abs(values) if two else values.max(axis=1)
    np.testing.assert_allclose(found.prediction, expected, rtol=1e-6)
    np.testing.assert_allclose(total(found), found.prediction, rtol=1e-5, atol=1e-6)
    assert list(found.labels) == [str(label) for label in classifier.predict(FRAME[200:])]


@pytest.mark.slow
def test_a_mean_with_boosting_names_its_term() -> None:
    model = gm.TabularRegressor(random_state=0, include=["boosting"]).fit(FRAME[:200], PRICE[:200])
    found = model.explain(FRAME[200:210])
    np.testing.assert_allclose(found.prediction, model.predict(FRAME[200:210]), rtol=1e-9)
    np.testing.assert_allclose(total(found), found.prediction, rtol=1e-6)
    if hasattr(model.model_, "boosted_"):
        assert found.other.any()


def test_inspection_of_scikit_learn_takes_frames_with_categories(regressor: Any) -> None:
    found = permutation_importance(regressor, FRAME[:200], PRICE[:200], n_repeats=2, random_state=0)
    assert found.importances_mean.argmin() == 3
    curve = partial_dependence(regressor, FRAME[:200], ["town"], categorical_features=["town"])
    assert list(curve["grid_values"][0]) == ["Bath", "Hull", "York"]
    assert curve["average"][0].argmax() == 1
    curve = partial_dependence(regressor, FRAME[:200].dropna(), ["area"], grid_resolution=5)
    assert (np.diff(curve["average"][0]) > 0).all()
