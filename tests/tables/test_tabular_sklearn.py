"""scikit-learn's contract and tools around the estimators of tables; tables of every sort."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gramian as gm
from gramian.tables.compression import FastTabularRegressor

QUICK: dict[str, Any] = {
    "kernel": "laplacian",
    "metric": "diagonal",
    "scaling": "standard",
    "random_state": 0,
}
DRAWN = "rows are drawn, and held out with all their weight: of repeated rows one copy"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": DRAWN,
    "check_sample_weight_equivalence_on_sparse_data": DRAWN,
}
BOTH = [gm.TabularRegressor(**QUICK), gm.TabularClassifier(**QUICK)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:. rows are too few to compare:gramian.exceptions.AccuracyWarning")
@parametrize_with_checks(BOTH, expected_failed_checks=lambda estimator: EXPECTED)
def test_sklearn_check(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def table() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.random((200, 3))
    X[::9, 1] = np.nan
    return X, (np.sin(5 * X[:, 0]) > 0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("model", BOTH, ids=lambda m: type(m).__name__)
def test_clones_pickles_pipelines_and_searches(model: Any, table: Any) -> None:
    X, y = table
    first, again = clone(model).fit(X, y), clone(model).fit(X, y)
    np.testing.assert_array_equal(first.predict(X), again.predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict(X), first.predict(X))
    assert cross_val_score(model, X, y, cv=2).min() > 0.4
    search = GridSearchCV(model, {"scaling": ["standard", "quantile"]}, cv=2).fit(X, y)
    assert search.best_estimator_.scaling in ("standard", "quantile")
    pipe = make_pipeline(StandardScaler(), model).fit(X, y)
    assert pipe.score(X, y) > 0.7


def test_unfitted_models_say_so(table: Any) -> None:
    X, _ = table
    for ask in (
        lambda: gm.TabularRegressor().predict(X),
        lambda: gm.TabularRegressor().predict_interval(X),
        lambda: gm.TabularRegressor().transform_rows(X),
        lambda: gm.TabularClassifier().predict_proba(X),
        lambda: gm.TabularClassifier().compress(X),
        lambda: FastTabularRegressor().predict(X),
        lambda: FastTabularRegressor().fit(X),
        lambda: gm.TabularRegressor().metric_,
        lambda: gm.TabularRegressor().plan_,
    ):
        with pytest.raises(NotFittedError):
            ask()


def frames(X: Any, names: list[str]) -> dict[str, Any]:
    """The same rows as tables of every sort; without gaps, which CSR has no word for."""
    found: dict[str, Any] = {
        "array": X,
        "list": X.tolist(),
        "csr": sp.csr_array(X),
        "float": np.asfortranarray(X),
    }
    try:
        import pandas as pd

        found["pandas"] = pd.DataFrame(X, columns=names)
    except ImportError:
        pass
    try:
        import polars as pl

        found["polars"] = pl.DataFrame(X, schema=names)
    except ImportError:
        pass
    try:
        import pyarrow as pa

        found["arrow"] = pa.table({name: X[:, j] for j, name in enumerate(names)})
    except ImportError:
        pass
    return found


def test_tables_of_every_sort_give_the_same_model() -> None:
    rng = np.random.default_rng(0)
    X = np.round(rng.random((150, 3)), 3)
    X[X < 0.2] = 0.0
    y = np.sin(4 * X[:, 0]) + X[:, 1]
    sorts = frames(X, ["a", "b", "c"])
    expected = gm.TabularRegressor(**QUICK).fit(X, y).predict(X)
    for name, sort in sorts.items():
        model = gm.TabularRegressor(**QUICK).fit(sort, y)
        np.testing.assert_allclose(model.predict(sort), expected, atol=1e-8, err_msg=name)
        named = name in ("pandas", "polars", "arrow")
        assert hasattr(model, "feature_names_in_") == named, name
        if named:
            assert model.feature_names_in_.tolist() == ["a", "b", "c"]


def test_a_row_source_brings_its_target(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((100, 2))
    np.savez(tmp_path / "rows.npz", X=X, y=X[:, 0])
    table = np.column_stack([X, X[:, 0]])
    np.savetxt(tmp_path / "rows.csv", table, delimiter=",", header="a,b,y", comments="")
    pytest.importorskip("pyarrow")
    source = gm.open_data(tmp_path / "rows.csv", target="y")
    model = gm.TabularRegressor(**QUICK).fit(source)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.score(source, X[:, 0]) > 0.99
