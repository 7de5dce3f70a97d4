"""Columns whose values arrive in another type than expected: exact identifiers, markers, zones, codes."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal

import numpy as np
import pytest

import gramian as gm
from gramian.data.tables import as_table
from gramian.tables import TableColumns
from gramian.tables.holdout import HoldOut

BASE = 2**60
IDS = np.arange(60) % 3


def column(values):
    return np.fromiter(values, object, len(values))[:, None]


def learned(X, **options):
    return TableColumns.learn(X, **options)


# ---- exact identifiers -----------------------------------------------------------------------------------


def identifiers():
    yield (BASE + IDS)[:, None]
    yield (2**63 + IDS.astype(np.uint64) + np.uint64(1))[:, None]
    yield column((BASE + IDS).tolist())
    yield column([2**70 + int(k) for k in IDS])
    yield column([Decimal(BASE) + int(k) for k in IDS])


@pytest.mark.parametrize("X", list(identifiers()))
def test_identifiers_of_64_bits_are_categories_of_their_own(X):
    columns = learned(X, categorical=[0])
    assert columns.columns[0].categories == tuple(map(str, sorted(set(map(int, X[:, 0])))))
    assert (columns.encode(X).argmax(axis=1) == IDS).all()
    for groups in (X[:, 0], X[:, 0].tolist()):
        assert len(np.unique(HoldOut.of(as_table(X), groups, None).groups)) == 3


def test_identifiers_with_missing_values_in_frames():
    values = [None if k % 7 == 0 else BASE + int(i) for k, i in enumerate(IDS)]
    pd, pl, pa = map(pytest.importorskip, ("pandas", "polars", "pyarrow"))
    for frame in (
        pd.DataFrame({"id": pd.array(values, dtype="Int64")}),
        pd.DataFrame({"id": pd.Categorical(values)}),
        pl.DataFrame({"id": values}),
        pa.table({"id": values}),
    ):
        found = learned(frame, categorical=["id"]).columns[0]
        assert found.categories == tuple(str(BASE + k) for k in range(3))


@pytest.mark.parametrize("first", ["f2", "f4", "f8"])
@pytest.mark.parametrize("then", ["f4", "f8"])
def test_categories_do_not_depend_on_the_width_of_floats(first, then):
    values = np.array([0.5, 0.25, 3.0] if first == "f2" else [0.1, 1 / 3, 2.0])[IDS]
    columns = learned(values.astype(first)[:, None], categorical=[0])
    np.testing.assert_array_equal(
        columns.encode(values.astype(then)[:, None]), columns.encode(values.astype(first)[:, None])
    )


def test_exports_refuse_what_they_would_round(tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([BASE + rng.integers(0, 3, 120), np.arange(120)])
    y = np.array([0.0, 5.0, -5.0])[X[:, 0] - BASE]
    model = gm.TabularRegressor(effort="fast", kernel="laplacian", categorical=[0], random_state=0).fit(X, y)
    fast = gm.compress(model, X)
    with pytest.raises(gm.InputError, match="rounds beyond 2\\*\\*53"):
        gm.export(fast, tmp_path / "model.c")


# ---- the same values in another type ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bool, int, float])
def test_a_category_type_of_booleans_or_numbers_is_read_as_such(kind):
    pd = pytest.importorskip("pandas")
    values = (np.arange(40) % 2).astype(kind)
    plain = pd.DataFrame({"b": values, "n": np.arange(40.0)})
    coded = plain.assign(b=pd.Categorical(values))
    for first, then in ((plain, coded), (coded, plain)):
        columns = learned(first)
        np.testing.assert_array_equal(columns.encode(then), columns.encode(first))


def test_categories_that_are_dates_match_their_text():
    pd = pytest.importorskip("pandas")
    days = pd.to_datetime(["2020-01-01", "2020-01-02"] * 20)
    columns = learned(pd.DataFrame({"d": pd.Categorical(days)}))
    np.testing.assert_array_equal(
        columns.encode(pd.DataFrame({"d": days.strftime("%Y-%m-%d")})),
        columns.encode(pd.DataFrame({"d": pd.Categorical(days)})),
    )


@pytest.mark.parametrize("marker", ["?", "-", "NA", "unknown", "N/A"])
def test_markers_among_numbers_are_missing_values(marker):
    numbers = np.arange(60) / 7
    texts = [marker if k % 9 == 0 else f"{v:.3f}" for k, v in enumerate(numbers)]
    columns = learned(column(texts))
    assert columns.feature_names == ("0", "0 is missing")
    wanted = [np.nan if text == marker else float(text) for text in texts]
    same = learned(np.array(wanted)[:, None])
    np.testing.assert_array_equal(columns.encode(column(texts)), same.encode(np.array(wanted)[:, None]))
    np.testing.assert_array_equal(columns.encode(np.array(wanted)[:, None]), columns.encode(column(texts)))
    with pytest.raises(gm.InputError, match="held numbers during fit and now holds text"):
        columns.encode(column(["1.0", "many"]))


def test_codes_with_leading_zeros_stay_text():
    codes = ["?", "007", "07", "7"] * 10
    assert set(learned(column(codes)).columns[0].categories) == set(codes)


def test_a_loss_of_many_values_is_told_with_its_size():
    rare = [f"v{k}" for k in range(60)] + ["often"] * 40
    with pytest.warns(UserWarning, match="Column '0' has 61 values, of which 1 are .*60% of the rows"):
        learned(column(rare))


# ---- times -----------------------------------------------------------------------------------------------


def test_times_with_a_zone_after_times_without():
    pd = pytest.importorskip("pandas")
    naive = pd.Series(pd.date_range("2021-01-01", periods=50, freq="7h"))
    aware = naive.dt.tz_localize("Asia/Tokyo")
    forms = {
        "stored": (naive, aware),
        "objects": (naive.astype(object), aware.astype(object)),
        "text": (naive.astype(str), aware.astype(str)),
    }
    for first, then in [(a, b) for a, _ in forms.values() for _, b in forms.values()]:
        for one, other in ((first, then), (then, first)):
            columns = learned(pd.DataFrame({"t": one}))
            with pytest.warns(UserWarning, match="Column 't' held times with.* a time zone during fit"):
                columns.encode(pd.DataFrame({"t": other}))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                columns.encode(pd.DataFrame({"t": one}))
    both = pd.concat([naive.astype(object), aware.astype(object)], ignore_index=True)
    with pytest.raises(gm.InputError, match="Column 't' mixes times with a time zone"):
        learned(pd.DataFrame({"t": both}))


@pytest.mark.parametrize(
    ("form", "zone"),
    [
        *(("%Y-%m-%dT%H:%M" + end, True) for end in ("Z", " UTC", ":30.5Z", "+02:00", "-0500", "+02")),
        *((form, False) for form in ("%d-%m-%Y", "%d-%m-%Y %H:%M", "%Y-%m-%d %H:%M:30.25")),
    ],
)
def test_text_that_names_its_zone(form, zone):
    times = [datetime.datetime(2021, 1, 1) + datetime.timedelta(hours=7 * k) for k in range(200)]
    columns = learned(column([time.strftime(form) for time in times]))
    stored = {False: times, True: [time.replace(tzinfo=datetime.UTC) for time in times]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        columns.encode(column(stored[zone]))
    with pytest.warns(UserWarning, match="a time zone during fit"):
        columns.encode(column(stored[not zone]))


@pytest.mark.parametrize(("order", "other"), [("%d/%m/%Y", "%m/%d/%Y"), ("%m/%d/%Y", "%d/%m/%Y")])
def test_dates_in_the_other_order_are_refused(order, other):
    days = np.datetime64("2020-01-01") + 3 * np.arange(60)
    columns = learned(column([day.strftime(order) for day in days.tolist()]))
    with pytest.raises(gm.InputError, match=r"Column '0' held dates with the .* in doubt"):
        columns.encode(column([day.strftime(other) for day in days.tolist()]))


def test_codes_of_twenty_digits_beside_a_marker_stay_text():
    codes = [f"1234567890123456789{k % 3}" for k in range(30)]
    columns = learned(column([*codes, "?"]))
    assert columns.feature_names == (
        "0=12345678901234567890",
        "0=12345678901234567891",
        "0=12345678901234567892",
        "0=(infrequent)",
    )


def test_names_of_encoded_columns_are_unique():
    """Also where categories hold "=", and those of open_data; a column keeps its own name."""
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"a": ["b=c", "x"] * 9, "a=b": ["c", "y"] * 9, "a=x": np.arange(18.0)})
    expected = ("a=b=c", "a=x (2)", "a=b=c (2)", "a=b=y", "a=x")
    assert learned(X).feature_names == expected
    assert gm.open_data(X, categorical="onehot").feature_names == expected


# ---- warnings about text columns that a person would read as numbers or dates -----------------------

N = 60
NUMBERS = np.random.default_rng(0).normal(0, 3000, N)


def text_column(text: list[str]) -> np.ndarray:
    """Return a table of a column of text and one of numbers."""
    return np.array([text, range(len(text))], object).T


@pytest.mark.parametrize(
    "shape", ["£{:,.2f}", "{:.2f}€", "-{:.1f} kg", "{:,.2f}", "{:.3f} %", "decimal comma"]
)
def test_numbers_as_people_write_them_are_named(shape: str) -> None:
    if shape == "decimal comma":
        text = [f"{value:.2f}".replace(".", ",") for value in NUMBERS]
    else:
        text = [shape.format(1000 + abs(value)) for value in NUMBERS]
    with pytest.warns(UserWarning, match=r"such as '.*', look like numbers: store them as numbers\)"):
        columns = TableColumns.learn(text_column(text))
    assert columns.width == 1


@pytest.mark.parametrize("shape", ["{:02}.{:02}.21", "{:02}-Jan-{:02}", "{} September {:02}"])
def test_years_of_two_digits_are_named(shape: str) -> None:
    text = [shape.format(day, month) for month in (3, 7) for day in range(1, 29)]
    match = r"its dates, such as '.*', have a year of two digits: store dates as dates"
    with pytest.warns(UserWarning, match=match):
        columns = TableColumns.learn(text_column(text))
    assert "set values that are no dates to missing" in columns.notes[0]


@pytest.mark.parametrize("shape", ["K{:06}", "{}.1.2.3", "{}B", "12-{}-AB"])
def test_codes_are_not_taken_for_numbers(shape: str) -> None:
    with pytest.warns(UserWarning, match=r"as in an identifier: '0'\.$"):
        TableColumns.learn(text_column([shape.format(i) for i in range(N)]))


def test_a_category_with_many_rare_values_says_what_happens_to_them() -> None:
    text = [f"{i % 30}%" for i in range(40)] + ["50%"] * 60
    with pytest.warns(
        UserWarning, match=r"of which 1 are frequent enough for.* count as one value, \(infreq"
    ):
        TableColumns.learn(text_column(text))
