"""Warnings about text columns that a person would read as numbers or dates."""

from __future__ import annotations

import numpy as np
import pytest

from gramian.tables.columns import TableColumns

N = 60
NUMBERS = np.random.default_rng(0).normal(0, 3000, N)


def column(text: list[str]) -> np.ndarray:
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
        columns = TableColumns.learn(column(text))
    assert columns.width == 1


@pytest.mark.parametrize("shape", ["{:02}.{:02}.21", "{:02}-Jan-{:02}", "{} September {:02}"])
def test_years_of_two_digits_are_named(shape: str) -> None:
    text = [shape.format(day, month) for month in (3, 7) for day in range(1, 29)]
    match = r"its dates, such as '.*', have a year of two digits: store dates as dates"
    with pytest.warns(UserWarning, match=match):
        columns = TableColumns.learn(column(text))
    assert "set values that are no dates to missing" in columns.notes[0]


@pytest.mark.parametrize("shape", ["K{:06}", "{}.1.2.3", "{}B", "12-{}-AB"])
def test_codes_are_not_taken_for_numbers(shape: str) -> None:
    with pytest.warns(UserWarning, match=r"as in an identifier: '0'\.$"):
        TableColumns.learn(column([shape.format(i) for i in range(N)]))


def test_a_category_with_many_rare_values_says_what_happens_to_them() -> None:
    text = [f"{i % 30}%" for i in range(40)] + ["50%"] * 60
    with pytest.warns(
        UserWarning, match=r"of which 1 are frequent enough for.* count as one value, \(infreq"
    ):
        TableColumns.learn(column(text))
