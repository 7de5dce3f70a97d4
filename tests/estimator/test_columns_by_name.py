"""Columns are matched by name: every estimator, every kind of table at fit, every kind at prediction."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from every_estimator import ESTIMATORS, HOSTS, QUICK

import gramian as gm
from gramian.data.source import as_source
from gramian.exceptions import AccuracyWarning

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
dd = pytest.importorskip("dask.dataframe")

NAMES = ["a", "b", "c"]
ORDER = ["c", "a", "b"]  # the columns at prediction
RNG = np.random.default_rng(0)
#: Whole numbers, so that they are the same in every type.
ROWS = RNG.integers(0, 50, (40, 3))
Y = 3.0 * ROWS[:, 0] - ROWS[:, 1]
LABELS = np.where(Y > np.median(Y), "yes", "no")


class Source:
    """A row source of somebody else, with names."""

    def __init__(self, rows, names):
        self._rows, self.feature_names = rows, names
        self.shape, self.dtype = rows.shape, rows.dtype

    def rows(self, where):
        return self._rows[where]

    def take(self, indices):
        return self._rows[indices]


def columns(rows, names):
    return {name: rows[:, NAMES.index(name)] for name in names}


def matrix(rows, names):
    return rows[:, [NAMES.index(name) for name in names]]


#: Kinds of tables with names: a function from rows and the order of the columns.
NAMED = {
    "pandas": lambda rows, names: pd.DataFrame(columns(rows, names)),
    "polars": lambda rows, names: pl.DataFrame(columns(rows, names)),
    "lazy": lambda rows, names: pl.LazyFrame(columns(rows, names)),
    "arrow": lambda rows, names: pa.table(columns(rows, names)),
    "batch": lambda rows, names: pa.RecordBatch.from_pydict(columns(rows, names)),
    "records": lambda rows, names: pd.DataFrame(columns(rows, names)).to_dict("records"),
    "opened": lambda rows, names: gm.open_data(pa.table(columns(rows, names))),
    "source": lambda rows, names: Source(matrix(rows, names), names),
    "dask": lambda rows, names: dd.from_pandas(pd.DataFrame(columns(rows, names)), npartitions=2),
}
UNNAMED = {
    "array": matrix,
    "list": lambda rows, names: matrix(rows, names).tolist(),
    "sparse": lambda rows, names: sp.csr_array(matrix(rows, names)),
    "numbers": lambda rows, names: pd.DataFrame(matrix(rows, names)),
    "nameless source": lambda rows, names: as_source(matrix(rows, names)),
}
#: Estimators that work on Dask collections; others refuse them.
CLUSTER = ("KernelRidge", "KernelRidgeClassifier")
MODELS = [name for name in ESTIMATORS if name not in HOSTS and hasattr(ESTIMATORS[name], "fit")]
METHODS = ("predict", "decision_function", "predict_proba", "transform", "predict_interval")


def made(name):
    kind = ESTIMATORS[name]
    return kind(**QUICK.get(name, {}))


def fitted(name, X):
    model = made(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        return model.fit(X, LABELS if hasattr(model, "predict_proba") or "Class" in name or "SVC" in name else Y)


def asked(model, X):
    """Return what the model says of the rows, by the method and by its score."""
    return {method: np.asarray(getattr(model, method)(X)) for method in METHODS if hasattr(model, method)}


@pytest.mark.parametrize("name", MODELS)
def test_permuted_columns_are_matched_by_name(name):
    for at_fit, make in NAMED.items():
        print(at_fit)
        if at_fit == "dask" and name not in CLUSTER:
            continue
        model = fitted(name, make(ROWS, NAMES))
        assert model.feature_names_in_.tolist() == NAMES
        expected = asked(model, make(ROWS, NAMES))
        assert expected
        for kind, other in NAMED.items():
            if kind == "dask" and name not in CLUSTER:
                continue
            for method, found in asked(model, other(ROWS, ORDER)).items():
                if found.dtype.kind == "f":
                    np.testing.assert_allclose(
                        found, expected[method], rtol=1e-4, atol=1e-5, err_msg=f"{at_fit} {kind} {method}"
                    )
                else:
                    assert (found == expected[method]).all(), (at_fit, kind, method)
