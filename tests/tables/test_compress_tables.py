"""Compressed models of frames: pipelines keep their first steps, models of tables their columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import gramian as gm
from gramian.tables.compression import FastTabularRegressor

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
