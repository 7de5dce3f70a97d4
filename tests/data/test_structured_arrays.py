"""Structured arrays are tables with named columns, as lists of dicts are."""

from __future__ import annotations

import numpy as np
import pytest

import gramian as gm
from gramian.data.formats.frames import opened_frame
from gramian.exceptions import InputError

NAMES = ("a", "b", "c")
ROWS = np.random.default_rng(0).normal(size=(40, 3))
Y = 3 * ROWS[:, 0] - ROWS[:, 1]


def fields(order: tuple[str, ...]) -> np.ndarray:
    """Return the rows with their columns as fields in this order."""
    found = np.empty(len(ROWS), [(name, float) for name in order])
    for name in order:
        found[name] = ROWS[:, NAMES.index(name)]
    return found


@pytest.mark.parametrize("kind", [np.ndarray, np.recarray], ids=["structured", "record"])
@pytest.mark.parametrize("model", [gm.KernelRidge(), gm.TabularRegressor(include=[], random_state=0)])
def test_fields_are_matched_by_name(model, kind):
    model.fit(fields(NAMES).view(kind), Y)
    expected = model.predict(fields(NAMES).view(kind))
    np.testing.assert_array_equal(model.predict(fields(("c", "a", "b")).view(kind)), expected)
    with pytest.raises(InputError, match="X has no column 'c', which the training rows had"):
        model.predict(fields(("a", "b")).view(kind))


def test_cells_of_fields_keep_their_values():
    days = np.array(["2020-01-31", "NaT"], "M8[ns]")
    rows = np.empty(2, [("id", np.int64), ("day", "M8[ns]")])
    rows["id"], rows["day"] = [2**53, 2**53 + 1], days
    cells = opened_frame(rows).cells
    assert cells[:, 0].tolist() == [2**53, 2**53 + 1]
    assert cells[0, 1] == days[0]
    assert isinstance(cells[0, 1], np.datetime64)
    assert np.isnat(cells[1, 1])


@pytest.mark.parametrize(
    "rows", [np.zeros((4, 2), [("a", float)]), np.zeros(4, [("a", float, (2,))])], ids=["shape", "subarray"]
)
def test_fields_that_are_no_columns_are_refused(rows):
    with pytest.raises(InputError, match=r"structured array of shape .* expected shape \(n,\)"):
        gm.KernelRidge().fit(rows, np.arange(4.0))
