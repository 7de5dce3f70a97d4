"""Missing values of tables: all markers mean the same, whatever type a container stores them as."""

from __future__ import annotations

import decimal
import io
import warnings
from typing import Any

import numpy as np
import pytest

import gramian as gm
from gramian.exceptions import AccuracyWarning
from gramian.tables import TableColumns

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

M = 3
TRAIN = pd.DataFrame(
    {
        "number": [1.5, 2.5, None] * 10,
        "boolean": [True, False, None] * 10,
        "text": ["a", "b", None] * 10,
        "whole text": ["a", "b", "c"] * 10,
        "date": [pd.Timestamp("2020-01-01") + pd.Timedelta(days=40 * k) for k in range(29)] + [None],
        "date as text": [f"{k % 28 + 1:02d}/{k % 12 + 1:02d}/2020" for k in range(30)],
        "duration": [pd.Timedelta(hours=k) for k in range(29)] + [None],
        "category": pd.Categorical(["a", "b", None] * 10),
        "number as category": pd.Categorical([1, 2, None] * 10),
        "named category": [1, 2, 3] * 10,
    }
)
NAMES = list(TRAIN)
COLUMNS = TableColumns.learn(TRAIN, categorical=["named category"])
NOTHING = COLUMNS.encode(pd.DataFrame(dict.fromkeys(NAMES, [None] * M), dtype=object))


def test_nothing_is_the_median_the_missing_place_and_no_weekday() -> None:
    ones = [name for name, value in zip(COLUMNS.feature_names, NOTHING[0]) if value == 1.0]
    assert ones == [
        "number is missing",
        "boolean is missing",
        "text=(missing)",
        "date is missing",
        "duration is missing",
        "category=(missing)",
        "number as category=(missing)",
    ]


PANDAS: list[Any] = ["object", "float64", "float32", "Int64", "Float64", "boolean", "string", "category"]
PANDAS += ["datetime64[ns]", "datetime64[us, UTC]", "timedelta64[ns]", "period[D]"]
ARROW = [
    pa.null(),
    pa.float64(),
    pa.float16(),
    pa.int64(),
    pa.uint8(),
    pa.bool_(),
    pa.string(),
    pa.large_string(),
]
ARROW += [pa.timestamp("us"), pa.timestamp("s", "UTC"), pa.date32(), pa.date64(), pa.duration("us")]
ARROW += [pa.decimal128(5, 2), pa.time32("s"), pa.binary(), pa.list_(pa.int64())]
ARROW += [pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int32(), pa.int64())]
POLARS = [pl.Null, pl.Float64, pl.Int64, pl.Boolean, pl.String, pl.Categorical, pl.Enum(["a"]), pl.Date]
POLARS += [pl.Datetime, pl.Duration, pl.Time, pl.Decimal(5, 2), pl.List(pl.Int64), pl.Binary]


@pytest.mark.parametrize("kind", [*PANDAS, *map(pd.ArrowDtype, ARROW)], ids=str)
def test_a_pandas_column_of_missing_values_of_any_type(kind: Any) -> None:
    markers = [None, np.nan, pd.NaT, pd.NA] if kind == "object" else [None]
    for marker in markers:
        X = pd.DataFrame({name: pd.Series([marker] * M, dtype=kind) for name in NAMES})
        np.testing.assert_array_equal(COLUMNS.encode(X), NOTHING)


@pytest.mark.parametrize("kind", ARROW, ids=str)
def test_an_arrow_column_of_nulls_of_any_type(kind: Any) -> None:
    table = pa.table({name: pa.nulls(M, kind) for name in NAMES})
    np.testing.assert_array_equal(COLUMNS.encode(table), NOTHING)


@pytest.mark.parametrize("kind", POLARS, ids=str)
def test_a_polars_column_of_nulls_of_any_type(kind: Any) -> None:
    frame = pl.DataFrame({name: pl.Series([None] * M, dtype=kind) for name in NAMES})
    np.testing.assert_array_equal(COLUMNS.encode(frame), NOTHING)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_arrays_and_lists_of_any_marker() -> None:
    markers = [None, float("nan"), np.float32("nan"), decimal.Decimal("nan"), pd.NA, pd.NaT]
    markers += [np.datetime64("NaT"), np.timedelta64("NaT")]
    for marker in markers:
        rows = np.empty((M, len(NAMES)), object)
        rows[:] = marker
        np.testing.assert_array_equal(COLUMNS.encode(rows), NOTHING)
        np.testing.assert_array_equal(COLUMNS.encode(rows.tolist()), NOTHING)
        rows[0], rows[1] = None, np.nan
        np.testing.assert_array_equal(COLUMNS.encode(rows), NOTHING)
    for value in (np.nan, np.datetime64("NaT"), np.timedelta64("NaT")):
        np.testing.assert_array_equal(COLUMNS.encode(np.full((M, len(NAMES)), value)), NOTHING)


@pytest.mark.parametrize("backend", [None, "numpy_nullable", "pyarrow"])
def test_a_blank_file(backend: str | None) -> None:
    text = ",".join(NAMES) + "\n" + ("," * (len(NAMES) - 1) + "\n") * M
    options = {} if backend is None else {"dtype_backend": backend}
    np.testing.assert_array_equal(COLUMNS.encode(pd.read_csv(io.StringIO(text), **options)), NOTHING)


def test_arrow_dates_in_pandas_may_have_missing_values() -> None:
    stored = TRAIN[["date", "number"]]
    expected = TableColumns.learn(stored)
    for kind in (pa.date32(), pa.date64()):
        X = stored.assign(date=stored["date"].astype(pd.ArrowDtype(kind)))
        columns = TableColumns.learn(X)
        assert columns.feature_names == expected.feature_names
        np.testing.assert_array_equal(columns.encode(X), expected.encode(stored))


def test_a_training_column_of_missing_values_of_any_type_is_left_out() -> None:
    X = pd.DataFrame({str(kind): pd.Series([None] * 9, dtype=kind) for kind in PANDAS}).assign(x=range(9))
    with pytest.warns(UserWarning, match="not used, because they have no values"):
        columns = TableColumns.learn(X)
    assert columns.feature_names == ("x",)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(columns.encode(X.iloc[:, ::-1])[:, 0], range(9))


def test_a_batch_without_values_is_predicted() -> None:
    X = TRAIN.assign(number=np.arange(30.0))
    model = gm.TabularRegressor(kernel="laplacian", metric=None, random_state=0)
    with pytest.warns(AccuracyWarning, match="pass time='date' to fit"):
        model.fit(X, np.arange(30.0))
    batch = X[:4].copy()
    expected = model.predict(batch.astype({"text": object}).assign(text=None))
    for values in (
        np.full(4, np.nan),
        [pd.NaT] * 4,
        pd.array([pd.NA] * 4),
        pd.Series([None] * 4, dtype="Int64"),
    ):
        np.testing.assert_array_equal(model.predict(batch.assign(text=values)), expected)
