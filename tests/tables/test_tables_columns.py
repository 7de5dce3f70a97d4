"""Columns of a table: kinds from any container, encodings against an obvious oracle, bad input by name."""

from __future__ import annotations

import datetime
import decimal
import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import gramian as gm
from gramian.data.source import ArraySource, RowSource
from gramian.data.tables import as_table
from gramian.exceptions import InputError
from gramian.tables import EncodedRows, TableColumns
from gramian.tables.column_statistics import COUNTED, ColumnStatistics

pd = pytest.importorskip("pandas")


def frame(n=400, seed=0):
    """A table of every kind, with missing values in row 3."""
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "size": rng.standard_normal(n),
            "rooms": rng.integers(1, 9, n),
            "garden": rng.random(n) < 0.3,
            "town": rng.choice(["Bath", "Hull", "York"], n),
            "heating": pd.Categorical(rng.choice(["gas", "oil"], n)),
            "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "grade": pd.array(rng.integers(0, 9, n), dtype="Int64"),
            "lift": pd.array(rng.random(n) < 0.5, dtype="boolean"),
            "waited": pd.to_timedelta(rng.integers(0, 90, n), "h"),
        }
    )
    found.loc[3, ["size", "town", "heating", "sold", "grade", "lift"]] = None
    return found


def one(values, name="x"):
    """A frame of one column, and an informative one beside it."""
    return pd.DataFrame({name: values, "beside": np.arange(len(values), dtype=float)})


def encoded(values, **options):
    X = one(values)
    columns = TableColumns.learn(X, **options)
    return columns, columns.encode(X)


# ---- every kind ---------------------------------------------------------------------------------


def test_each_kind_has_its_features():
    columns = TableColumns.learn(frame())
    kinds = [(f.column, f.kind, f.places.stop - f.places.start) for f in columns.features]
    assert kinds == [
        ("size", "numeric", 1),
        ("size", "missing", 1),
        ("rooms", "numeric", 1),
        ("garden", "boolean", 1),
        ("town", "category", 4),
        ("heating", "category", 3),
        ("sold", "date", 1),
        ("sold", "missing", 1),
        ("sold", "cycle", 2),
        ("sold", "weekday", 7),
        ("grade", "numeric", 1),
        ("grade", "missing", 1),
        ("lift", "boolean", 1),
        ("lift", "missing", 1),
        ("waited", "duration", 1),
    ]
    assert columns.features[4].categories == ("Bath", "Hull", "York", "(missing)")
    assert columns.feature_names[4:8] == ("town=Bath", "town=Hull", "town=York", "town=(missing)")
    assert "sold: season (cos)" in columns.feature_names
    assert len(columns.feature_names) == columns.width == 27
    assert columns.groups == ((4, 5, 6, 7), (8, 9, 10), tuple(range(15, 22)))
    names = [columns.feature_names[j] for j in columns.two_valued]
    assert names == [
        "size is missing",
        "garden",
        "sold is missing",
        "grade is missing",
        "lift",
        "lift is missing",
    ]
    assert [columns.feature_names[j] for j in columns.numeric] == ["size", "rooms", "sold", "grade", "waited"]


def test_encoding_equals_the_obvious_one():
    X = frame()
    columns = TableColumns.learn(X)
    Z = columns.encode(X)
    assert Z.dtype == np.float64
    gone = X["size"].isna().to_numpy()
    lower = np.sort(X["size"].dropna())[(len(X) - 2) // 2]
    np.testing.assert_array_equal(Z[:, 0], np.where(gone, lower, X["size"]))
    np.testing.assert_array_equal(Z[:, 1], gone)
    np.testing.assert_array_equal(Z[:, 2], X["rooms"])
    np.testing.assert_array_equal(Z[:, 3], X["garden"])
    for j, town in enumerate(["Bath", "Hull", "York"]):
        np.testing.assert_array_equal(Z[:, 4 + j], X["town"] == town)
    np.testing.assert_array_equal(Z[:, 7], X["town"].isna())
    np.testing.assert_allclose(Z[:, 11], (X["sold"] - X["sold"].quantile(0.5, "lower")).dt.days.fillna(0))
    np.testing.assert_array_equal(Z[:, 12], X["sold"].isna())
    turn = 2 * np.pi * (X["sold"].dt.day_of_year - 1) / 365.2425
    np.testing.assert_allclose(Z[:, 13], np.sin(turn).fillna(0), atol=1e-12)
    np.testing.assert_allclose(Z[:, 14], np.cos(turn).fillna(0), atol=1e-12)
    for j in range(7):
        np.testing.assert_array_equal(Z[:, 15 + j], X["sold"].dt.day_of_week == j)
    assert Z[3, 23] == Z[3, 25] == 1.0
    np.testing.assert_allclose(Z[:, 26], X["waited"].dt.total_seconds() / 86400)


def containers(X):
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    arrow = pa.Table.from_pandas(X, preserve_index=False)
    arrow_types = X.copy()
    for name in X.columns:
        if str(X[name].dtype) != "category":
            arrow_types[name] = X[name].convert_dtypes(dtype_backend="pyarrow")
    return {
        "pandas": X,
        "pandas of Arrow types": arrow_types,
        "polars": pl.from_pandas(X),
        "Arrow table": arrow,
        "Arrow table of several pieces": pa.concat_tables([arrow.slice(0, 100), arrow.slice(100)]),
        "Arrow batch": arrow.combine_chunks().to_batches()[0],
    }


@pytest.mark.parametrize(
    "kind", ["pandas of Arrow types", "polars", "Arrow table", "Arrow table of several pieces", "Arrow batch"]
)
def test_containers_are_alike(kind):
    X = frame()
    other = containers(X)[kind]
    columns, theirs = TableColumns.learn(X), TableColumns.learn(other)
    expected = columns.encode(X)
    assert theirs.features == columns.features
    np.testing.assert_allclose(theirs.encode(other), expected, rtol=1e-12)
    np.testing.assert_allclose(columns.encode(other), expected, rtol=1e-12)
    rows = EncodedRows(columns, other)
    np.testing.assert_allclose(rows.take(np.array([5, 3, -1, 5])), expected[[5, 3, -1, 5]], rtol=1e-12)
    np.testing.assert_allclose(rows.rows(slice(90, 210)), expected[90:210], rtol=1e-12)


def test_arrays_of_objects_are_like_frames_without_names():
    X = frame()
    objects = X.astype(object).to_numpy()
    mine, theirs = TableColumns.learn(X), TableColumns.learn(objects)
    np.testing.assert_array_equal(theirs.encode(objects), mine.encode(X))
    assert theirs.column_names == tuple(map(str, range(9)))
    lists = [list(row) for row in objects]
    np.testing.assert_array_equal(theirs.encode(lists), mine.encode(X))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "bool"])
def test_arrays_of_numbers(dtype):
    X = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 99, (300, 4)).astype(dtype)
    before = X.copy()
    X.flags.writeable = False
    columns = TableColumns.learn(X)
    Z = columns.encode(X)
    np.testing.assert_array_equal(Z, before)
    assert Z.dtype == (np.float32 if dtype in ("float32", "uint8", "bool") else np.float64)
    assert list(columns.two_valued) == ([0, 1, 2, 3] if dtype == "bool" else [])


def test_sparse_rows_sources_and_memmaps(tmp_path):
    dense = np.random.default_rng(0).standard_normal((300, 5)) * (
        np.random.default_rng(1).random((300, 5)) < 0.3
    )
    expected = TableColumns.learn(dense).encode(dense)
    np.save(tmp_path / "X.npy", dense)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for X in (sp.csr_array(dense), sp.csr_matrix(dense), ArraySource(dense), mapped):
        columns = TableColumns.learn(X)
        np.testing.assert_array_equal(columns.encode(X), expected)
        np.testing.assert_array_equal(EncodedRows(columns, X).take(np.array([7, 2])), expected[[7, 2]])


def test_a_memmap_may_have_missing_values(tmp_path):
    X = np.arange(12.0).reshape(6, 2)
    X[2, 0] = np.nan
    np.save(tmp_path / "X.npy", X)
    columns = TableColumns.learn(np.load(tmp_path / "X.npy", mmap_mode="r"))
    assert columns.feature_names == ("0", "0 is missing", "1")


def test_nothing_is_written_into_the_table():
    X = frame()
    before = X.copy(deep=True)
    columns = TableColumns.learn(X)
    columns.encode(X)
    pd.testing.assert_frame_equal(X, before)


# ---- numbers and booleans -----------------------------------------------------------------------


def test_objects_that_are_all_numbers_are_numbers():
    values = np.array([1, 2.5, None, decimal.Decimal("3.5"), float("nan"), np.int8(4), pd.NA], object)
    columns, Z = encoded(pd.Series(values, dtype=object))
    assert columns.columns[0].kind == "numeric"
    np.testing.assert_array_equal(Z[:, 0], [1, 2.5, 2.5, 3.5, 2.5, 4, 2.5])
    np.testing.assert_array_equal(Z[:, 1], [0, 0, 1, 0, 1, 0, 1])


def test_booleans_among_numbers_are_numbers_and_booleans_with_gaps_booleans():
    assert encoded(pd.Series([True, 2, 3, False], dtype=object))[0].columns[0].kind == "numeric"
    columns, Z = encoded(pd.Series([True, None, False, True, True], dtype=object))
    assert columns.columns[0].kind == "boolean"
    np.testing.assert_array_equal(Z[:, 0], [1, 1, 0, 1, 1])
    np.testing.assert_array_equal(Z[:, 1], [0, 1, 0, 0, 0])


def test_whole_numbers_stay_numbers_unless_named_categories():
    codes = np.tile([3, 1, 7], 20)
    assert encoded(codes)[0].columns[0].kind == "numeric"
    for categorical in (["x"], [0], [True, False], np.array([True, False])):
        columns, Z = encoded(codes, categorical=categorical)
        assert columns.columns[0].categories == ("1", "3", "7")
        np.testing.assert_array_equal(Z[:3, :3], [[0, 1, 0], [1, 0, 0], [0, 0, 1]])
    # A gap makes floats of whole numbers; 3.0 is 3.
    with_gap = np.append(codes.astype(float), np.nan)
    columns = TableColumns.learn(one(with_gap), categorical=["x"])
    assert columns.columns[0].one_hot == ("1", "3", "7", "(missing)")
    np.testing.assert_array_equal(
        columns.encode(one(codes))[:3, :4], [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]
    )


def test_columns_called_by_numbers_and_categories_from_the_end():
    X = pd.DataFrame({7: np.tile([1, 2], 10), 9: np.arange(20.0)})
    assert TableColumns.learn(X, categorical=[7]).columns[0].kind == "category"
    assert TableColumns.learn(X.to_numpy(), categorical=[-2]).columns[0].kind == "category"


def test_a_missing_value_in_a_column_that_had_none_is_the_median():
    X = pd.DataFrame({"x": [1.0, 2.0, 4.0], "b": [True, False, True]})
    columns = TableColumns.learn(X)
    new = pd.DataFrame({"x": [np.nan], "b": pd.array([None], dtype="boolean")})
    np.testing.assert_array_equal(columns.encode(new), [[2.0, 1.0]])
    np.testing.assert_array_equal(
        TableColumns.learn(X[["x"]].to_numpy()).encode(np.array([[np.nan]])), [[2.0]]
    )


def test_a_constant_column_with_gaps_leaves_only_what_is_missing():
    columns, Z = encoded([5.0, np.nan, 5.0])
    assert columns.feature_names == ("x is missing", "beside")
    np.testing.assert_array_equal(Z[:, 0], [0, 1, 0])


def test_two_valued_numbers_are_known_across_blocks():
    X = np.column_stack([np.repeat([0, 5], [20_000, 10]), np.repeat([0, 1, 2], [20_000, 5, 5])])
    columns = TableColumns.learn(X)
    assert list(columns.two_valued) == [0]
    assert list(columns.ranges[1]) == [5.0, 2.0]


# ---- categories ---------------------------------------------------------------------------------


def test_rare_and_unseen_categories_are_infrequent():
    values = ["a"] * 60 + ["b"] * 40 + ["c"] * 4 + ["d"]
    columns, Z = encoded(values)
    assert columns.columns[0].one_hot == ("a", "b", "(infrequent)")
    np.testing.assert_array_equal(Z[-5:, 2], 1)
    new = one(["e", None, "b"])
    np.testing.assert_array_equal(columns.encode(new)[:, :3], [[0, 0, 1], [0, 0, 1], [0, 1, 0]])


def test_unseen_categories_are_nowhere_where_none_was_rare():
    columns, _ = encoded(["a", "b"] * 20)
    np.testing.assert_array_equal(columns.encode(one(["c", None]))[:, :2], np.zeros((2, 2)))


def test_the_most_frequent_hundred_have_places():
    counts = np.arange(10, 150)
    with pytest.warns(UserWarning, match="Column 'x' has 140 values, of which 100 are .* 11% of the rows"):
        columns, _ = encoded(np.repeat([f"v{k}" for k in counts], counts))
    assert len(columns.columns[0].categories) == 100
    assert {f"v{k}" for k in counts[-100:]} == set(columns.columns[0].categories)


@pytest.mark.slow
def test_counts_of_very_many_values_lose_none_that_matters():
    tally = ColumnStatistics("x", 0)
    rng = np.random.default_rng(0)
    n, step = 4 * COUNTED, COUNTED // 2
    values = rng.permutation(
        np.concatenate([np.repeat("often", n // 10), np.arange(n - n // 10).astype(str)])
    )
    table = as_table(values.astype(object)[:, None])
    for start in range(0, n, step):
        rows = slice(start, start + step)
        tally.add(table.block(rows).cells(0, "x", False), rows, np.empty(0, np.intp))
    assert tally.lost > 0
    assert len(tally.counts) <= 2 * COUNTED
    assert tally.counts["often"] >= n // 10 - n / COUNTED
    assert tally.column().one_hot == ("often", "(infrequent)")


def test_declared_categories_that_never_occur_have_no_place():
    values = pd.Categorical(["a", "b"] * 10, categories=["a", "b", "z"])
    assert encoded(values)[0].columns[0].one_hot == ("a", "b")


def test_categories_of_booleans_and_numbers():
    columns, _ = encoded(pd.Categorical([True, False] * 10))
    assert columns.columns[0].categories == ("False", "True")
    columns, _ = encoded(pd.Categorical([2.5, 1.0] * 10))
    assert columns.columns[0].categories == ("1", "2.5")
    np.testing.assert_array_equal(columns.encode(one([1, 3]))[:, :2], [[1, 0], [0, 0]])


# ---- dates --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "count", "parts"),
    [
        ("1D", 10, ()),
        ("1D", 40, ("weekday",)),
        ("1D", 500, ("season", "weekday")),
        ("7D", 60, ("season",)),
        ("1h", 24, ()),
        ("1h", 100, ("time of day",)),
        ("5h", 2000, ("season", "weekday", "time of day")),
    ],
)
def test_parts_of_dates_that_their_range_warrants(step, count, parts):
    columns, _ = encoded(pd.date_range("2021-03-01", periods=count, freq=step))
    assert columns.columns[0].parts == parts


def test_dates_of_python_with_zones_and_before_1970_are_alike():
    naive = pd.date_range("1965-12-30 05:30", periods=60, freq="31h")
    expected = encoded(naive)[1]
    zoned = naive.tz_localize("UTC").tz_convert("Asia/Tokyo")
    objects = pd.Series([d.to_pydatetime() for d in naive], dtype=object)
    away = pd.Series([d.to_pydatetime() for d in zoned], dtype=object)
    for values in (zoned, objects, away, naive.to_numpy("datetime64[s]")):
        np.testing.assert_allclose(encoded(values)[1], expected, atol=1e-9)
    days = pd.Series(
        [datetime.date(2020, 1, 1) + datetime.timedelta(days=k) for k in range(40)], dtype=object
    )
    np.testing.assert_array_equal(encoded(days)[1], encoded(pd.to_datetime(days))[1])
    waits = pd.Series([datetime.timedelta(hours=h) for h in range(5)], dtype=object)
    np.testing.assert_allclose(encoded(waits)[1][:, 0], np.arange(5) / 24)


# ---- dates that are stored as text ---------------------------------------------------------------

MOMENTS = pd.Series(pd.date_range("2019-11-20 00:30:15", periods=70, freq="149h"))


@pytest.mark.parametrize(
    ("form", "order"),
    [
        ("%Y-%m-%d", "year first"),
        ("%Y/%m/%d", "year first"),
        ("%Y-%m-%dT%H:%M:%SZ", "year first"),
        ("%Y-%m-%d %H:%M:%S UTC", "year first"),
        ("%Y-%m-%d %H:%M:%S.%f", "year first"),
        ("%d/%m/%Y", "day first"),
        ("%d.%m.%Y %H:%M:%S", "day first"),
        ("%d-%b-%Y", "day first"),
        ("%d %B %Y", "day first"),
        ("%m/%d/%Y", "month first"),
        ("%m-%d-%Y %I:%M:%S %p", "month first"),
        ("%b %d, %Y %H:%M:%S", "month first"),
    ],
)
@pytest.mark.filterwarnings("ignore:Column .x. held times with a time zone")
def test_dates_as_text_are_dates(form, order):
    stored = MOMENTS if "S" in form else MOMENTS.dt.normalize()
    text = MOMENTS.dt.strftime(form).astype(object)
    stored, text = stored.where(stored.index != 3), text.where(text.index != 3, None)
    expected, Z = encoded(stored)
    columns, found = encoded(text)
    assert (columns.columns[0].kind, columns.columns[0].order) == ("date", order)
    assert columns.notes == (f"Column 'x' holds dates as text, {order}: read as dates.",)
    assert columns.feature_names == expected.feature_names
    np.testing.assert_array_equal(found, Z)
    # Stored dates, text with the year first and the training rows' own order mean the same afterwards.
    np.testing.assert_array_equal(columns.encode(one(stored)), Z)
    np.testing.assert_array_equal(columns.encode(one(stored.astype(str).replace("NaT", None))), Z)
    np.testing.assert_array_equal(expected.encode(one(stored.astype(str).replace("NaT", ""))), Z)


def test_dates_as_text_from_any_container():
    text = MOMENTS.dt.strftime("%d/%m/%Y").astype(object)
    text[5] = None
    expected = encoded(text)[1]
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    frames = [
        one(text.astype("string")),
        one(text.astype(pd.ArrowDtype(pa.string()))),
        pl.from_pandas(one(text)),
        pa.Table.from_pandas(one(text)),
        one(text).to_numpy(object),
        one(text).to_numpy(object).tolist(),
    ]
    for X in frames:
        columns = TableColumns.learn(X)
        assert columns.columns[0].kind == "date"
        np.testing.assert_array_equal(columns.encode(X), expected)


def test_days_and_months_are_told_apart_by_the_whole_column():
    # The first 20,000 rows could be either; one row of a later block decides.
    text = ["01/02/2020", "03/04/2020"] * 10_000 + ["05/06/2021", "25/12/2020"] * 5
    assert encoded(text)[0].columns[0].order == "day first"
    columns, _ = encoded(text[:20_000])
    assert columns.columns[0].kind == "category"
    assert columns.notes == (
        "Column 'x' is taken as text: its dates, such as '01/02/2020', may have the day or the month first. "
        "Store dates as dates, and set values that are no dates to missing.",
    )
    # Neither order reads both.
    assert encoded(["25/12/2020", "12/25/2020", "12/26/2020"] * 9)[0].columns[0].kind == "category"


def test_text_that_is_not_all_dates_stays_text():
    text = ["2020-01-05", "2020-02-06", "2020-02-07"] * 20 + ["unknown"] * 9
    for values in (text, text[::-1]):
        columns, _ = encoded(values)
        assert columns.columns[0].kind == "category"
        (note,) = columns.notes
        assert "'2020-01-05' is a date with the year first, 'unknown' is none" in note
    for values in (["10-2020", "11-2020"], ["20200105", "20200106"], ["v1.2", "v1.3"], ["5:6:20", "7:8:20"]):
        columns, _ = encoded(values * 9)
        assert (columns.columns[0].kind, columns.notes) == ("category", ())
    days = ["2020-01-05", "2020-02-06", "2020-03-07"] * 9
    assert encoded(days, categorical=["x"])[0].columns[0].kind == "category"
    assert encoded(pd.Categorical(days))[0].columns[0].kind == "category"
    assert encoded([*days, "", " "])[0].columns[0].missing  # a blank text is a missing date


@pytest.mark.parametrize("form", [None, "%d/%m/%Y"])
def test_new_text_that_is_no_date_is_missing(form):
    columns, _ = encoded(MOMENTS if form is None else MOMENTS.dt.strftime(form))
    new = MOMENTS[:3].dt.strftime(form or "%Y-%m-%d").astype(object)
    expected = columns.encode(one(new.where(new.index != 1, None)))
    new[1] = "soon" + "!" * 1000
    with pytest.warns(
        UserWarning, match=r"'x' held dates .* now holds text that is not a date .*'soon!"
    ) as caught:
        found = columns.encode(one(new))
    assert max(len(str(warning.message)) for warning in caught) < 250
    np.testing.assert_array_equal(found, expected)
    # A batch of one row has the same answer.
    with pytest.warns(UserWarning, match="treated as missing"):
        np.testing.assert_array_equal(columns.encode(one(new)[1:2])[:, :-1], found[1:2, :-1])


# ---- columns that are not used ------------------------------------------------------------------


def test_identifiers_and_columns_without_values_are_dropped_with_a_warning():
    n = 30
    X = one([f"row {k}" for k in range(n)], "id").assign(
        price=[f"{k}.5" for k in range(n)],
        day=[f"0{k // 9 + 1}/0{k % 9 + 1}/2020" for k in range(n)],
        none=np.nan,
        same=1,
    )
    with pytest.warns(UserWarning, match="not used, because") as caught:
        columns = TableColumns.learn(X)
    texts = [str(warning.message) for warning in caught]
    assert "These columns are not used, because they have no values: 'none'." in texts
    (single,) = [text for text in texts if "hardly repeat" in text]
    assert "'id'" in single
    assert "'price' (it holds numbers as text" in single
    assert "'day' (its dates, such as '01/01/2020', may have the day or the month first" in single
    assert columns.feature_names == ("beside",)
    assert "Column 'same' is constant and is not used." in columns.notes
    assert len(columns.notes) == 6
    np.testing.assert_array_equal(columns.encode(X)[:, 0], np.arange(n))


def test_rare_values_beside_missing_ones_say_whether_there_is_a_value():
    n = 200
    X = one(["pool" if k < 4 else None for k in range(n)], "pool").assign(id=[f"{k} a" for k in range(n)])
    with pytest.warns(UserWarning, match="hardly repeat, as in an identifier: 'id'"):
        columns = TableColumns.learn(X)
    assert columns.feature_names == ("pool=(infrequent)", "pool=(missing)", "beside")
    np.testing.assert_array_equal(columns.encode(X)[:, 0], np.arange(n) < 4)


def test_dropped_columns_may_be_absent():
    columns = TableColumns.learn(one([1.0, 1.0, 1.0]))
    np.testing.assert_array_equal(columns.encode(pd.DataFrame({"beside": [4.0]})), [[4.0]])


@pytest.mark.parametrize("values", [[1.0, 1.0], [np.nan, np.nan], ["a", "a"]])
def test_nothing_left_is_an_error(values):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InputError, match=r"No column of X can be used: 1 (constant|without values)"):
            TableColumns.learn(pd.DataFrame({"x": values}))


def test_a_single_row_is_an_error():
    with pytest.raises(InputError, match="2 constant"):
        TableColumns.learn(np.array([[1.0, 2.0]]))


# ---- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["a", 3.5, "b"], r"Column 'x' mixes text \(such as 'a'\) and numbers \(such as 3.5\)"),
        (["a", True], r"Column 'x' mixes text \(such as 'a'\) and booleans \(such as True\)"),
        ([1, pd.Timestamp("2020-01-01")], r"Column 'x' mixes numbers .* and dates"),
        ([[1], [2]], r"Column 'x' holds values of type list \(such as \[1\]\)"),
        ([b"a", b"b"], r"Column 'x' holds values of type bytes"),
        ([1j, 2j], r"Column 'x' holds values of type complex"),
        ([1.0, np.inf], r"Column 'x' holds infinity in row 1 \(from 0\)"),
        ([1, 10**400], r"Column 'x' holds infinity in row 1"),
    ],
)
def test_bad_values_name_the_column(values, text):
    with pytest.raises(InputError, match=text):
        TableColumns.learn(one(pd.Series(values, dtype=object)))


def test_a_mixture_across_blocks_is_found():
    values = pd.Series([1.5] * 20_000 + ["a"] * 20_000, dtype=object)
    with pytest.raises(InputError, match=r"mixes numbers \(such as 1.5\) and text \(such as 'a'\)"):
        TableColumns.learn(one(values))


def test_lists_and_structs_of_polars_and_arrow_and_times_name_the_column():
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    for X in (pl.DataFrame({"x": [[1], [2]]}), pa.table({"x": [[1], [2]]})):
        with pytest.raises(InputError, match="Column 'x' holds values of type list"):
            TableColumns.learn(X)
    with pytest.raises(InputError, match="Column 'x' holds values of type"):
        TableColumns.learn(pa.table({"x": [datetime.time(1), datetime.time(2)]}))


def test_infinity_is_found_in_the_row_that_holds_it():
    X = np.zeros((40_000, 2))
    X[:, 1] = np.arange(40_000)
    columns = TableColumns.learn(X)
    X[33_000, 0] = -np.inf
    with pytest.raises(InputError, match="Column '0' holds infinity in row 33000"):
        TableColumns.learn(X)
    X[33_000, 0], X[33_001, 1] = 0.0, np.inf
    with pytest.raises(InputError, match="Column '1' holds infinity in row 33001"):
        columns.encode(X)
    with pytest.raises(InputError, match="Column '1' holds infinity in row 33001"):
        EncodedRows(columns, X).take(np.array([5, 33_001]))
    objects = X.astype(object)
    with pytest.raises(InputError, match="Column '1' holds infinity in row 33001"):
        columns.encode(objects)


@pytest.mark.parametrize(
    ("train", "new", "text"),
    [
        ([1.0, 2.0], ["a", "b"], r"Column 'x' held numbers during fit and now holds text \(such as 'a'\)"),
        (
            ["a", "b"] * 9,
            [1.0, 2.0],
            r"Column 'x' held text during fit and now holds numbers \(such as 1.0\)",
        ),
        ([True, False], [1, 2], r"Column 'x' held booleans during fit and now holds the number 2"),
        ([1.0, 2.0], ["0.5", "b"], r"Column 'x' held numbers during fit and now holds text \(such as 'b'\)"),
        ([True, False], ["yes"], r"Column 'x' held booleans during fit and now holds text"),
        (pd.date_range("2020", periods=3), [1.0], r"Column 'x' held dates during fit and now holds numbers"),
    ],
)
def test_another_kind_at_prediction_names_the_column(train, new, text):
    columns = TableColumns.learn(one(train))
    with pytest.raises(InputError, match=text):
        columns.encode(one(new))


def test_kinds_that_hold_the_same_values_pass():
    columns = TableColumns.learn(one([True, False, True]))
    np.testing.assert_array_equal(columns.encode(one([1, 0]))[:, 0], [1, 0])
    columns = TableColumns.learn(one([0, 1, 2]))
    np.testing.assert_array_equal(columns.encode(one([True, False]))[:, 0], [1, 0])
    columns = TableColumns.learn(one(["a", "b"] * 9))
    np.testing.assert_array_equal(columns.encode(one(pd.Categorical(["b"])))[:, :2], [[0, 1]])
    nothing = one(pd.Series([None, None], dtype=object))
    np.testing.assert_array_equal(columns.encode(nothing)[:, :2], np.zeros((2, 2)))


def test_columns_by_name():
    X = frame()
    columns = TableColumns.learn(X)
    np.testing.assert_array_equal(columns.encode(X[X.columns[::-1]]), columns.encode(X))
    with pytest.raises(InputError, match="X has no column 'town', which the training rows had"):
        columns.encode(X.drop(columns="town"))
    with pytest.raises(InputError, match=r"no column 'town'.* Did you mean 'towns'"):
        columns.encode(X.rename(columns={"town": "towns"}))
    with pytest.raises(InputError, match="X has a column 'price', which the training rows did not have"):
        columns.encode(X.assign(price=1.0))
    with pytest.warns(UserWarning, match="X does not have valid feature names, but the model"):
        np.testing.assert_array_equal(columns.encode(X.astype(object).to_numpy()), columns.encode(X))
    with (
        pytest.warns(UserWarning, match="X does not have valid feature names"),
        pytest.raises(InputError, match="X has 2 columns, but the training rows had 9"),
    ):
        columns.encode(np.zeros((3, 2)))
    places = TableColumns.learn(X.astype(object).to_numpy())
    with pytest.warns(UserWarning, match="X has feature names, but the model was fitted without"):
        np.testing.assert_array_equal(places.encode(X), columns.encode(X))


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.zeros((0, 3)), r"shape \(0, 3\), so no rows"),
        (np.zeros((3, 0)), r"shape \(3, 0\), so no columns"),
        (np.zeros(3), r"shape \(3,\); expected one row a sample"),
        (np.ma.masked_array(np.zeros((2, 2)), True), r"masked array.*X\.filled"),
        (np.zeros((2, 2), complex), "Column '0' holds values of type complex128"),
        ([[1, 2], [3]], "rows are not lists of one length"),
        ([1, 2], "rows are not lists of one length"),
        ("table.csv", "X has type str; expected a table"),
        (pd.Series([1.0]), "X has type Series; expected a table"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "names the column 'a' more than once"),
    ],
)
def test_what_is_no_table(X, text):
    with pytest.raises(InputError, match=text):
        TableColumns.learn(X)


def test_dask_is_to_be_computed():
    da = pytest.importorskip("dask.array")
    with pytest.raises(InputError, match=r"of Dask.*Pass X.compute\(\)"):
        TableColumns.learn(da.zeros((4, 2)))


@pytest.mark.parametrize(
    ("categorical", "text"),
    [
        ("x", r"categorical='x' is a string; give a list: \['x'\]"),
        (["besides"], "names 'besides', which is not a column of X. Did you mean 'beside'"),
        ([5], "names 5, which is not a column of X"),
        ([True], "mask of length 1, but X has 2 columns"),
    ],
)
def test_bad_categorical(categorical, text):
    with pytest.raises(InputError, match=text):
        TableColumns.learn(one([1, 2]), categorical=categorical)
    with pytest.raises(InputError, match=r"not a column of X\. X has no column names: give column numbers"):
        TableColumns.learn(np.zeros((2, 2)), categorical=["x"])


def test_infinity_is_no_category():
    with pytest.raises(InputError, match=r"Column 'x' holds infinity\. Replace it"):
        TableColumns.learn(one([1.0, np.inf, 1.0]), categorical=["x"])


def test_dates_as_categories_are_refused():
    with pytest.raises(InputError, match="Column 'x' holds dates as categories"):
        TableColumns.learn(one(pd.Categorical([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)])))


def test_bins_months_and_days_that_are_categories_go_by_their_names():
    bins = pd.cut(np.tile([1.0, 5.0, 9.0], 10), [0, 4, 10])
    columns, Z = encoded(bins)
    assert columns.feature_names == ("x=(0, 4]", "x=(4, 10]", "beside")
    np.testing.assert_array_equal(Z[:3, :2], [[1, 0], [0, 1], [0, 1]])
    months = pd.Categorical(pd.PeriodIndex(["2020-01", "2020-02"] * 10, freq="M"))
    assert encoded(months)[0].columns[0].categories == ("2020-01", "2020-02")


# ---- rows as a source ---------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(-1e6, 1e6)),
            st.one_of(st.none(), st.sampled_from("abc")),
            st.one_of(st.none(), st.booleans()),
        ),
        min_size=2,
        max_size=60,
    ),
    st.integers(1, 7),
)
def test_blocks_equal_the_whole(rows, step):
    X = np.array([*rows, (1.0, "a", True), (2.0, "a", False)], object)
    columns = TableColumns.learn(X)
    whole = columns.encode(X)
    source = EncodedRows(columns, X)
    assert isinstance(source, RowSource)
    assert source.feature_names == columns.feature_names
    assert np.isfinite(whole).all()
    parts = [source.rows(slice(k, k + step)) for k in range(0, len(X), step)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(source.rows(slice(None, None, 2)), whole[::2])
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(source.take(order), whole[order])
    np.testing.assert_array_equal(source.take(np.arange(len(X)) % 2 == 0), whole[::2])
    singles = np.concatenate([columns.encode(X[k : k + 1]) for k in range(len(X))])
    np.testing.assert_array_equal(singles, whole)


def test_rows_beyond_the_last_are_an_index_error():
    X = np.arange(6.0).reshape(3, 2)
    rows = EncodedRows(TableColumns.learn(X), X)
    with pytest.raises(IndexError, match="The table has 3 rows"):
        rows.take(np.array([3]))
    assert rows.rows(slice(3, 9)).shape == (0, 2)


def test_pickles_and_order_of_rows():
    X = frame()
    columns = TableColumns.learn(X)
    again = pickle.loads(pickle.dumps(columns))
    assert again == columns
    np.testing.assert_array_equal(again.encode(X), columns.encode(X))
    assert TableColumns.learn(X.iloc[::-1]) == columns


def test_rows_of_files_keep_their_target_and_name(tmp_path):
    X, y = np.arange(400.0).reshape(200, 2), np.arange(200.0)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    source = gm.open_data(tmp_path / "X.npy", target=tmp_path / "y.npy")
    rows = EncodedRows(TableColumns.learn(source), source)
    np.testing.assert_array_equal(rows.rows(slice(50, 90)), X[50:90])
    np.testing.assert_array_equal(np.asarray(rows.target[:]), y)
    assert rows.reads_ahead
    assert rows.read_bytes == source.read_bytes
    assert rows.identity == ("encoded", ("0", "1"), source.identity)
    model = gm.KernelRidge(1e-3, gamma=1e-4, random_state=0).fit(rows)
    assert model.score(rows, y) > 0.9
    assert EncodedRows(rows.columns, X).target is None


def test_a_million_rows_are_read_by_blocks():
    n = 1_000_000
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.standard_normal(n), "b": rng.integers(0, 50, n).astype(np.int32)})
    X["c"] = pd.Categorical.from_codes(rng.integers(0, 5, n), list("vwxyz"))
    own = n * (8 + 4 + 1)
    tracemalloc.start()
    columns = TableColumns.learn(X)
    rows = EncodedRows(columns, X)
    total = sum(float(rows.rows(slice(k, k + 16_384)).sum()) for k in range(0, n, 16_384))
    taken = rows.take(np.arange(0, n, 1000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken.shape == (1000, 7)
    assert total == pytest.approx(X["a"].sum() + X["b"].sum() + n)
    assert peak < 12e6 < own
