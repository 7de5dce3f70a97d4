"""Compressed models that take tables as they are: categories, missing values, dates; rows made for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import gramian as gm
from gramian.exceptions import InputError
from gramian.tables import EncodedRows, Scaling, TableColumns
from gramian.tables.raw_rows import RawRows

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
N = 700
X = pd.DataFrame(
    {
        "size": RNG.normal(size=N),
        "rooms": RNG.integers(1, 6, N),
        "age": pd.array(RNG.integers(0, 90, N), dtype="Int64"),
        "town": pd.Categorical(RNG.choice(["Bath", "Hull", "York"], N)),
        "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 700, N), "D"),
    }
)
X.loc[::9, "size"] = np.nan
X.loc[::13, "age"] = pd.NA
X.loc[::11, "town"] = None
SMALL = {"n_levels": 0, "n_units": 16, "n_directions": 4, "random_state": 0}
USED = ["size", "rooms", "town"]


def worth(frame: Any) -> Any:
    """Return a smooth function that takes frames alone, of exactly the types of the training frame."""
    assert frame["town"].dtype == X["town"].dtype
    assert frame["age"].dtype == X["age"].dtype
    assert frame["rooms"].dtype == X["rooms"].dtype
    assert set(frame["rooms"]) <= set(range(1, 6))
    days = (frame["sold"] - pd.Timestamp("2020-01-01")).dt.days.to_numpy()
    age = frame["age"].to_numpy(float, na_value=45.0)
    found = np.sin(frame["size"].fillna(2.0)) + (frame["town"] == "Hull") + 0.5 * frame["town"].isna()
    return found.to_numpy(float) + 0.1 * frame["rooms"].to_numpy() + days / 700 + age / 90


TARGET = worth(X)


def encoded(columns: TableColumns, scaling: Scaling, frame: Any) -> Any:
    return np.asarray(scaling.apply(columns.encode(frame)), np.float64)


def test_rows_go_there_and_back() -> None:
    columns = TableColumns.learn(X)
    scaling = Scaling.learn(EncodedRows(columns, X), columns)
    rows = encoded(columns, scaling, X)
    back = RawRows(X, columns, rows)
    pd.testing.assert_frame_equal(back(rows[::-1]), X.iloc[::-1].reset_index(drop=True))
    # Rows that are no row of the table: each column's value from another row.
    mixed = rows.copy()
    starts = np.cumsum([0, *(column.width for column in columns.columns)])
    for j in range(5):
        mixed[:, starts[j] : starts[j + 1]] = np.roll(rows[:, starts[j] : starts[j + 1]], 3 * j + 1, axis=0)
    made = back(mixed)
    for j, name in enumerate(X.columns):
        pd.testing.assert_series_equal(
            made[name], X[name].iloc[np.roll(np.arange(N), 3 * j + 1)].reset_index(drop=True)
        )
    moved = rows.copy()
    moved[:, starts[0]] += 1e-9  # between two numbers: the nearest, and missing stays missing
    pd.testing.assert_series_equal(back(moved)["size"], X["size"])


@pytest.mark.slow
def test_a_function_of_frames_is_compressed_with_the_same_frame(tmp_path: Path) -> None:
    fast = gm.compress(worth, X, **SMALL)
    assert fast.score(X, TARGET) > 0.9
    assert fast.fidelity_.value > 0.85
    assert fast.cost_.nanoseconds > 0
    gm.save(fast, tmp_path / "m.gramian")
    loaded = gm.load(tmp_path / "m.gramian")
    np.testing.assert_array_equal(loaded.predict(X), fast.predict(X))
    assert loaded.fidelity_ == fast.fidelity_
    many = gm.compress(lambda frame: np.column_stack([worth(frame), -worth(frame)]), X, **SMALL)
    assert many.predict(X).shape == (N, 2)


@pytest.mark.slow
def test_boosting_with_categories_and_missing_values() -> None:
    labels = np.where(np.median(TARGET) < TARGET, "dear", "cheap")
    model = HistGradientBoostingClassifier(max_iter=30, categorical_features="from_dtype").fit(
        X[USED], labels
    )
    fast = gm.compress(model, X[USED], **SMALL)
    np.testing.assert_array_equal(fast.classes_, model.classes_)
    assert (fast.predict(X[USED]) == model.predict(X[USED])).mean() > 0.85
    found, wanted = fast.predict_proba(X[USED]), model.predict_proba(X[USED])
    assert np.sqrt(np.mean((found - wanted) ** 2)) < 0.2
    taught = gm.compress(model, X[USED], labels, unlabelled=X[USED].iloc[:50], **SMALL)
    assert taught.score(X[USED], labels) > 0.8


def test_numbers_that_the_model_names_as_categories() -> None:
    codes, y = X[["size", "rooms"]].fillna(0.0).to_numpy(), X["rooms"].isin([1, 4]).to_numpy(float)
    model = HistGradientBoostingRegressor(max_iter=20, categorical_features=[1]).fit(codes, y)
    fast = gm.compress(model, codes, **SMALL)
    assert fast.columns_.feature_names == ("0", "1=1", "1=2", "1=3", "1=4", "1=5")
    assert fast.score(codes, y) > 0.95
    given = gm.compress(lambda rows: np.isin(rows[:, 1], [1, 4]) * 1.0, codes, categorical=[1], **SMALL)
    assert given.score(codes, y) > 0.95


class CatBoosted:
    """A regressor with the interface of CatBoost's, which takes whole numbers as categories."""

    _estimator_type = "regressor"

    def get_cat_feature_indices(self) -> list[int]:
        return [1]

    def predict(self, frame: Any) -> Any:
        assert frame["rooms"].dtype.kind == "i"  # CatBoost refuses floats as categories
        return frame["rooms"].isin([1, 4]).to_numpy(float)


def test_catboost_names_its_categories() -> None:
    fast = gm.compress(CatBoosted(), X[["age", "rooms"]], **SMALL)
    assert fast.fidelity_.value > 0.95


def test_arrays_with_missing_values_and_other_frames() -> None:
    rows = X[["size", "rooms"]].to_numpy(float)
    fast = gm.compress(lambda array: np.isnan(array[:, 0]) + 0.2 * array[:, 1], rows, **SMALL)
    assert fast.score(rows, np.isnan(rows[:, 0]) + 0.2 * rows[:, 1]) > 0.95
    polars = pytest.importorskip("polars")
    frame = polars.from_pandas(X[USED])
    by_polars = gm.compress(
        lambda one: (one["town"] == "Hull").fill_null(False).to_numpy() * 1.0, frame, **SMALL
    )
    assert by_polars.fidelity_.value > 0.95
    arrow = frame.to_arrow()
    assert gm.compress(lambda one: np.asarray(one["rooms"], float), arrow, **SMALL).fidelity_.value > 0.95


@pytest.mark.slow
def test_stored_answers_for_a_table() -> None:
    fast = gm.compress(TARGET, X, **SMALL)
    assert fast.score(X, TARGET) > 0.85


def test_tables_that_cannot_be_asked_about() -> None:
    with pytest.raises(InputError, match=r"_assert_ failed on \d+ rows with KeyError"):
        gm.compress(_assert_, X, **SMALL)


def _assert_(frame: Any) -> Any:
    if len(frame) < N:
        raise KeyError("rooms")
    return np.zeros(len(frame))
