"""Cells of a column of objects: signalling NaN and values without a hash."""

from decimal import Decimal

import numpy as np
import pytest

import gramian as gm
from gramian.data.cells import cells_of
from gramian.exceptions import listed


def objects(*values):
    return np.fromiter(values, object, len(values))


def test_a_signalling_nan_is_a_missing_value():
    cells = cells_of(objects(Decimal("1.5"), Decimal("sNaN"), Decimal("NaN"), Decimal(2)), "x")
    np.testing.assert_array_equal(cells.values, [1.5, np.nan, np.nan, 2.0])
    X = np.column_stack([objects(*map(Decimal, range(9)), Decimal("sNaN")), np.arange(10.0)])
    with pytest.raises(gm.InputError, match="Column '0' of X has 1 missing value in 10 rows"):
        gm.KernelRidge().fit(X, np.arange(10.0))


@pytest.mark.parametrize("value", [[1], {"a": 1}, (1, [2])])
def test_what_has_no_hash_is_refused_by_name(value):
    with pytest.raises(gm.InputError, match=f"Column 'x' holds values of type {type(value).__name__}"):
        cells_of(objects("a", value), "x")


def test_lists_that_are_cut_say_how_many_are_left():
    assert listed("abc", 2, show=str) == "a, b, and 1 more"
    assert listed(range(2000)).endswith("9, and 1,990 more")
