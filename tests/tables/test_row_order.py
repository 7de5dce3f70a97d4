"""Warnings for tables whose order says that held-out rows should be whole groups, or the latest."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import gramian as gm
from gramian.exceptions import AccuracyWarning
from gramian.tables.columns import TableColumns
from gramian.tables.encoded import EncodedRows, warn_of_order

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
