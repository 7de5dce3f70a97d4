"""Rows in an order or with copies: warnings, and held-out rows that no twin was fitted to."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import gramian as gm
from gramian.exceptions import AccuracyWarning
from gramian.tables.columns import TableColumns
from gramian.tables.encoded import EncodedRows, warn_of_order
from gramian.tables.holdout import HoldOut

pd = pytest.importorskip("pandas")

N = 300


def frame() -> Any:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "x": np.sort(rng.random(N)),
            "day": pd.date_range("2020-01-01", periods=N, freq="D"),
            "patient": np.repeat([f"p{k:02d}" for k in range(30)], N // 30),
            "site": np.repeat([f"s{k}" for k in range(3)], N // 3),
        }
    )


def warned(X: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_order(EncodedRows(TableColumns.learn(X), X))
    return [str(warning.message) for warning in found]


def test_rows_sorted_by_a_date_are_named() -> None:
    (text,) = warned(frame()[["x", "day"]])
    assert text.startswith("Column 'day' has dates, and the rows are sorted by it.")
    assert text.endswith("If new rows will come later, pass time='day' to fit.")
    assert warned(frame()[["x", "day"]][::-1].reset_index(drop=True)) == [text]
    as_text = frame()[["x", "day"]].astype({"day": str})
    assert warned(as_text) == [text]


def test_rows_of_one_value_after_another_are_named() -> None:
    (text,) = warned(frame()[["x", "patient", "site"]])
    assert text.startswith("The rows of each value of column 'patient' follow each other.")
    assert text.endswith("If new rows will have other values of it, pass groups='patient' to fit.")
    (text,) = warned(frame()[["x", "patient"]].to_numpy(object))
    assert text.endswith("pass groups=X[:, 1] to fit.")


def test_other_tables_are_silent() -> None:
    rng = np.random.default_rng(1)
    assert warned(frame().iloc[rng.permutation(N)]) == []
    assert warned(frame()[["x", "site"]]) == []  # three sites may well be sorted
    assert warned(frame()[["x", "day"]].head(10)) == []
    constant = frame()[["x", "day"]].assign(day=pd.Timestamp("2020-01-01"))
    assert not any("sorted" in text for text in warned(constant))


def test_fits_warn_and_go_on() -> None:
    X = frame()[["x", "day"]]
    y = np.sin(6.0 * X["x"])
    options: dict[str, Any] = {"kernel": "laplacian", "metric": None, "scaling": "standard", "include": ()}
    for model, target in (
        (gm.TabularRegressor(random_state=0, **options), y),
        (gm.TabularClassifier(random_state=0, **options), y > 0),
    ):
        with pytest.warns(AccuracyWarning, match="pass time='day' to fit"):
            model.fit(X, target)
        assert model.score(X, target) > 0.8
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X, target, time="day")


# ---- copies of rows in tables -----------------------------------------------------------------------

QUICK: dict[str, Any] = {
    "kernel": "laplacian",
    "metric": None,
    "scaling": "standard",
    "random_state": 0,
    "include": (),
}


def noisy(n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "c": rng.choice(list("xyz"), n)})
    return X, np.sin(2 * X.a) + 0.5 * X.b + (X.c == "x") + rng.normal(size=n)


def taken(X: Any, y: Any, rows: Any) -> tuple[Any, Any]:
    return X.iloc[rows].reset_index(drop=True), y.iloc[rows].reset_index(drop=True)


def test_copies_are_one_row_with_their_number_as_its_weight() -> None:
    X, y = noisy(120, 0)
    rows = np.r_[np.arange(120), np.arange(40), np.arange(40)]
    with pytest.warns(
        AccuracyWarning, match=r"80 of 200 rows repeat one of the 120 others.*held out together"
    ):
        copied = gm.TabularRegressor(**QUICK).fit(*taken(X, y, rows))
    weighted = gm.TabularRegressor(**QUICK).fit(X, y, sample_weight=np.where(np.arange(120) < 40, 3.0, 1.0))
    np.testing.assert_array_equal(copied.predict(X), weighted.predict(X))
    np.testing.assert_array_equal(copied.oof_rows_, weighted.oof_rows_)


def test_classes_made_even_by_copies_are_judged_by_rows_that_were_not_fitted() -> None:
    X, y = noisy(150, 0)
    y = y > 1.5
    rows = np.r_[np.arange(150), np.tile(np.flatnonzero(y), 5)]
    with pytest.warns(AccuracyWarning, match="rows repeat one of the 150 others"):
        copied = gm.TabularClassifier(**QUICK).fit(*taken(X, y, rows))
    weighted = gm.TabularClassifier(**QUICK).fit(X, y, sample_weight=np.where(y, 6.0, 1.0))
    np.testing.assert_array_equal(copied.predict_proba(X), weighted.predict_proba(X))


@pytest.mark.slow
def test_intervals_of_copied_rows_cover_new_rows() -> None:
    X, y = noisy(300, 1)
    new, wanted = noisy(2000, 9)
    with pytest.warns(AccuracyWarning, match="rows repeat"):
        model = gm.TabularRegressor(**QUICK).fit(
            *taken(X, y, np.random.default_rng(0).permutation(900) % 300)
        )
    low, high = model.predict_interval(new).T
    assert np.mean((low <= wanted) & (wanted <= high)) > 0.84


def test_equal_rows_with_other_targets_are_held_out_together() -> None:
    rng = np.random.default_rng(0)
    setting = rng.permutation(np.repeat(np.arange(60), 4))
    X = rng.normal(size=(60, 2))[setting]
    with pytest.warns(AccuracyWarning, match="180 of 240 rows repeat one of the 60 others"):
        model = gm.TabularRegressor(**QUICK).fit(X, X[:, 0] + rng.normal(size=240))
    held = np.isin(np.arange(240), model.oof_rows_)
    assert all(len(set(held[setting == k])) == 1 for k in range(60))


def test_levels_of_an_experiment_are_measured_anew() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (200, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = gm.TabularRegressor(**QUICK).fit(X, X[:, 0] + rng.normal(size=200))
    assert len(model.oof_rows_) >= 40


def test_repeats_join_groups_and_move_to_the_latest_time() -> None:
    repeats = np.array([0, 1, 2, 0, 3, 1])
    joined = HoldOut(groups=np.array([7, 7, 8, 9, 8, 5])).together(repeats).groups
    assert joined is not None
    np.testing.assert_array_equal(joined == joined[0], [True, True, False, True, False, True])
    times = HoldOut(times=np.array([1.0, 5.0, 3.0, 4.0, 2.0, 0.0])).together(repeats).times
    np.testing.assert_array_equal(times, [4.0, 5.0, 3.0, 4.0, 2.0, 5.0])
