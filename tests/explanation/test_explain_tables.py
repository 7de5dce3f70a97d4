"""Explanations of models of tables: shares in the target's own units, columns in the names of the frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from table_models import TRAIN, table

import gramian as gm
from gramian.explanation.columns import table_reference
from gramian.tables import EncodedRows
from gramian.tables.column import LevelMeans

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
    return found.base + found.shares.sum(axis=1) + found.rest + found.other


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


def test_columns_have_the_names_of_the_frame(regressor: Any) -> None:
    found = regressor.explain(FRAME[200:210], X_train=FRAME[:200])
    assert found.column_names == ("area", "town", "lift", "useless")
    changed = FRAME[200:210].assign(town="Bath")  # the most frequent
    expected = regressor.predict(FRAME[200:210]) - regressor.predict(changed)
    np.testing.assert_allclose(found.columns[:, 1], expected, rtol=1e-5, atol=1e-5)
    changed = FRAME[200:210].assign(lift=False)
    expected = regressor.predict(FRAME[200:210]) - regressor.predict(changed)
    np.testing.assert_allclose(found.columns[:, 2], expected, rtol=1e-5, atol=1e-5)


def test_without_training_rows_a_category_is_unknown_and_a_number_the_median(regressor: Any) -> None:
    known = FRAME[200:210].assign(area=0.25)
    found = regressor.explain(known)
    changed = known.assign(town="Atlantis")
    expected = regressor.predict(known) - regressor.predict(changed)
    np.testing.assert_allclose(found.columns[:, 1], expected, rtol=1e-5, atol=1e-5)
    centre = regressor.columns_.columns[0].centre
    expected = regressor.predict(known) - regressor.predict(known.assign(area=centre))
    np.testing.assert_allclose(found.columns[:, 0], expected, rtol=1e-5, atol=1e-5)
    assert np.abs(found.columns[:, :2]).mean() > 5 * np.abs(found.columns[:, 3]).mean()


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


def test_reference_of_a_category_has_its_level_mean_where_others_have_numbers_for_many_levels():
    columns, _, _ = table(TRAIN, "standard", means=True)
    assert columns.means
    assert columns.lookups
    reference = table_reference(columns, EncodedRows(columns, TRAIN))
    for place, each in columns.levels:
        if isinstance(each, LevelMeans):
            assert reference[place] == pytest.approx(reference[each.places] @ np.array(each.values))
