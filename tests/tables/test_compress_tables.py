"""Compressed models of frames: pipelines keep their first steps, models of tables their columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import gramian as gm
from gramian.exceptions import InputError
from gramian.tables import EncodedRows, Scaling, TableColumns
from gramian.tables.compression import FastTabularRegressor
from gramian.tables.raw_rows import RawRows

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
N = 500
X = pd.DataFrame(
    {
        "size": RNG.random(N),
        "age": RNG.random(N),
        "town": RNG.choice(["Bath", "Hull"], N),
        "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 700, N), "D"),
    }
)
X.loc[::17, "age"] = np.nan
Y = np.sin(6 * X["size"]) + (X.town == "Hull") + (X.sold > pd.Timestamp("2021-01-01"))
LABELS = np.where(Y > 1, "dear", "cheap")
SMALL = {"n_levels": 0, "n_units": 12, "n_directions": 4, "random_state": 0}


def days(frame: Any) -> Any:
    return (frame - pd.Timestamp("2020-01-01")).apply(lambda column: column.dt.days)


def pipeline(last: Any) -> Pipeline:
    columns = make_column_transformer(
        (OneHotEncoder(), ["town"]), (FunctionTransformer(days), ["sold"]), (SimpleImputer(), ["size", "age"])
    )
    return make_pipeline(columns, StandardScaler(), last)


@pytest.mark.slow
def test_a_pipeline_on_a_frame_keeps_its_first_steps() -> None:
    model = pipeline(gm.KernelRidge(0.1, gamma=0.3)).fit(X, Y)
    fast = gm.compress(model, X, Y, **SMALL)
    assert isinstance(fast, Pipeline)
    assert list(fast.named_steps) == list(model.named_steps)
    assert isinstance(fast[-1], gm.FastKernelRegressor)
    assert fast.score(X, model.predict(X)) > 0.9
    assert isinstance(model[-1], gm.KernelRidge)  # the given one is as it was
    assert gm.compress(model, X, **SMALL).score(X, model.predict(X)) > 0.9


def test_a_classifier_and_a_search_over_a_pipeline() -> None:
    search = GridSearchCV(pipeline(LogisticRegression()), {"logisticregression__C": [1.0]}, cv=2).fit(
        X, LABELS
    )
    fast = gm.compress(search, X, LABELS, **SMALL)
    assert isinstance(fast[-1], gm.FastKernelClassifier)
    assert (fast.predict(X) == search.predict(X)).mean() > 0.9


def test_a_pipeline_on_numbers_is_compressed_whole() -> None:
    rows = X[["size"]]
    model = make_pipeline(StandardScaler(), gm.KernelRidge(0.1, gamma=1.0)).fit(rows, Y)
    assert isinstance(gm.compress(model, rows, **SMALL | {"n_directions": 1}), gm.FastKernelRegressor)


@pytest.mark.slow
def test_models_of_tables_are_compressed_by_their_own_way() -> None:
    model = gm.TabularRegressor(kernel="laplacian", metric=None, random_state=0).fit(X, Y)
    fast = gm.compress(model, X, **SMALL)
    np.testing.assert_array_equal(fast.predict(X), model.compress(X, **SMALL).predict(X))
    behind = gm.compress(make_pipeline(FunctionTransformer(), model).fit(X, Y), X, **SMALL)
    assert behind.score(X, Y) > 0.8
    labels = gm.TabularClassifier(kernel="laplacian", metric=None, random_state=0).fit(X, LABELS)
    assert (gm.compress(labels, X, **SMALL).predict(X) == labels.predict(X)).mean() > 0.8


def test_a_model_that_reads_frames_by_itself_is_asked_about_frames() -> None:
    class Reader(DecisionTreeRegressor):
        """A model that reads a frame by itself."""

        def predict(self, frame: Any) -> Any:
            return np.asarray(frame["size"])

    for model in (Reader(), lambda frame: np.asarray(frame["size"])):
        fast = gm.compress(model, X, **SMALL)
        assert isinstance(fast, FastTabularRegressor)
        assert fast.score(X, X["size"]) > 0.95


def test_a_function_of_rows_needs_no_tags() -> None:
    rows = X[["size"]].to_numpy()
    fast = gm.compress(lambda rows: 2.0 * rows[:, 0], rows, Y, **SMALL | {"n_directions": 1})
    assert isinstance(fast, gm.FastKernelRegressor)


# ---- compressed models that take tables as they are -------------------------------------------------

RAW_RNG = np.random.default_rng(0)
N_RAW = 700
RAW = pd.DataFrame(
    {
        "size": RAW_RNG.normal(size=N_RAW),
        "rooms": RAW_RNG.integers(1, 6, N_RAW),
        "age": pd.array(RAW_RNG.integers(0, 90, N_RAW), dtype="Int64"),
        "town": pd.Categorical(RAW_RNG.choice(["Bath", "Hull", "York"], N_RAW)),
        "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(RAW_RNG.integers(0, 700, N_RAW), "D"),
    }
)
RAW.loc[::9, "size"] = np.nan
RAW.loc[::13, "age"] = pd.NA
RAW.loc[::11, "town"] = None
WIDER = {"n_levels": 0, "n_units": 16, "n_directions": 4, "random_state": 0}
USED = ["size", "rooms", "town"]


def worth(frame: Any) -> Any:
    """Return a smooth function that takes frames alone, of exactly the types of the training frame."""
    assert frame["town"].dtype == RAW["town"].dtype
    assert frame["age"].dtype == RAW["age"].dtype
    assert frame["rooms"].dtype == RAW["rooms"].dtype
    assert set(frame["rooms"]) <= set(range(1, 6))
    days = (frame["sold"] - pd.Timestamp("2020-01-01")).dt.days.to_numpy()
    age = frame["age"].to_numpy(float, na_value=45.0)
    found = np.sin(frame["size"].fillna(2.0)) + (frame["town"] == "Hull") + 0.5 * frame["town"].isna()
    return found.to_numpy(float) + 0.1 * frame["rooms"].to_numpy() + days / 700 + age / 90


TARGET = worth(RAW)


def encoded(columns: TableColumns, scaling: Scaling, frame: Any) -> Any:
    return np.asarray(scaling.apply(columns.encode(frame)), np.float64)


def test_rows_go_there_and_back() -> None:
    columns = TableColumns.learn(RAW)
    scaling = Scaling.learn(EncodedRows(columns, RAW), columns)
    rows = encoded(columns, scaling, RAW)
    back = RawRows(RAW, columns, rows)
    pd.testing.assert_frame_equal(back(rows[::-1]), RAW.iloc[::-1].reset_index(drop=True))
    # Rows that are no row of the table: each column's value from another row.
    mixed = rows.copy()
    starts = np.cumsum([0, *(column.width for column in columns.columns)])
    for j in range(5):
        mixed[:, starts[j] : starts[j + 1]] = np.roll(rows[:, starts[j] : starts[j + 1]], 3 * j + 1, axis=0)
    made = back(mixed)
    for j, name in enumerate(RAW.columns):
        pd.testing.assert_series_equal(
            made[name], RAW[name].iloc[np.roll(np.arange(N_RAW), 3 * j + 1)].reset_index(drop=True)
        )
    moved = rows.copy()
    moved[:, starts[0]] += 1e-9  # between two numbers: the nearest, and missing stays missing
    pd.testing.assert_series_equal(back(moved)["size"], RAW["size"])


@pytest.mark.slow
def test_a_function_of_frames_is_compressed_with_the_same_frame(tmp_path: Path) -> None:
    fast = gm.compress(worth, RAW, **WIDER)
    assert fast.score(RAW, TARGET) > 0.9
    assert fast.fidelity_.value > 0.85
    assert fast.cost_.nanoseconds > 0
    gm.save(fast, tmp_path / "m.gramian")
    loaded = gm.load(tmp_path / "m.gramian")
    np.testing.assert_array_equal(loaded.predict(RAW), fast.predict(RAW))
    assert loaded.fidelity_ == fast.fidelity_
    many = gm.compress(lambda frame: np.column_stack([worth(frame), -worth(frame)]), RAW, **WIDER)
    assert many.predict(RAW).shape == (N_RAW, 2)


@pytest.mark.slow
def test_boosting_with_categories_and_missing_values() -> None:
    labels = np.where(np.median(TARGET) < TARGET, "dear", "cheap")
    model = HistGradientBoostingClassifier(max_iter=30, categorical_features="from_dtype").fit(
        RAW[USED], labels
    )
    fast = gm.compress(model, RAW[USED], **WIDER)
    np.testing.assert_array_equal(fast.classes_, model.classes_)
    assert (fast.predict(RAW[USED]) == model.predict(RAW[USED])).mean() > 0.85
    found, wanted = fast.predict_proba(RAW[USED]), model.predict_proba(RAW[USED])
    assert np.sqrt(np.mean((found - wanted) ** 2)) < 0.2
    taught = gm.compress(model, RAW[USED], labels, unlabelled=RAW[USED].iloc[:50], **WIDER)
    assert taught.score(RAW[USED], labels) > 0.8


def test_numbers_that_the_model_names_as_categories() -> None:
    codes, y = RAW[["size", "rooms"]].fillna(0.0).to_numpy(), RAW["rooms"].isin([1, 4]).to_numpy(float)
    model = HistGradientBoostingRegressor(max_iter=20, categorical_features=[1]).fit(codes, y)
    fast = gm.compress(model, codes, **WIDER)
    assert fast.columns_.feature_names == ("0", "1=1", "1=2", "1=3", "1=4", "1=5")
    assert fast.score(codes, y) > 0.95
    given = gm.compress(lambda rows: np.isin(rows[:, 1], [1, 4]) * 1.0, codes, categorical=[1], **WIDER)
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
    fast = gm.compress(CatBoosted(), RAW[["age", "rooms"]], **WIDER)
    assert fast.fidelity_.value > 0.95


def test_arrays_with_missing_values_and_other_frames() -> None:
    rows = RAW[["size", "rooms"]].to_numpy(float)
    fast = gm.compress(lambda array: np.isnan(array[:, 0]) + 0.2 * array[:, 1], rows, **WIDER)
    assert fast.score(rows, np.isnan(rows[:, 0]) + 0.2 * rows[:, 1]) > 0.95
    polars = pytest.importorskip("polars")
    frame = polars.from_pandas(RAW[USED])
    by_polars = gm.compress(
        lambda one: (one["town"] == "Hull").fill_null(False).to_numpy() * 1.0, frame, **WIDER
    )
    assert by_polars.fidelity_.value > 0.95
    arrow = frame.to_arrow()
    assert gm.compress(lambda one: np.asarray(one["rooms"], float), arrow, **WIDER).fidelity_.value > 0.95


@pytest.mark.slow
def test_stored_answers_for_a_table() -> None:
    fast = gm.compress(TARGET, RAW, **WIDER)
    assert fast.score(RAW, TARGET) > 0.85


def test_tables_that_cannot_be_asked_about() -> None:
    with pytest.raises(InputError, match=r"_assert_ failed on \d+ rows with KeyError"):
        gm.compress(_assert_, RAW, **WIDER)


def _assert_(frame: Any) -> Any:
    if len(frame) < N_RAW:
        raise KeyError("rooms")
    return np.zeros(len(frame))
