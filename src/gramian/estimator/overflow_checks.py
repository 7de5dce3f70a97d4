"""Check of predictions and features for overflow; the error names the row and the value that caused it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import FloatArray, IntArray, Rows
from gramian.data.source import RowSource
from gramian.exceptions import InputError
from gramian.kernels.columns import dense
from gramian.kernels.precomputed import StoredRows

Item = TypeVar("Item")
Values = TypeVar("Values", bound=FloatArray)
#: Rows that are looked at together.
_BLOCK = 65_536


def overflowing() -> np.errstate:
    """Return a context in which NumPy says nothing of overflow: :func:`finite_values` looks for it."""
    return np.errstate(over="ignore", invalid="ignore")


def quietly(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items that are each computed in :func:`overflowing`; what is done with them is not."""
    iterator, end = iter(items), object()
    while True:
        with overflowing():
            item: Any = next(iterator, end)
        if item is end:
            return
        yield item


def finite_values(
    values: Values, rows: Callable[[IntArray], Any], *, first: int = 0, what: str = "the prediction overflows"
) -> Values:
    """Return values (n, outputs) if all are finite; else raise ``InputError`` naming the first bad row.

    rows : from row numbers to those rows, whose values are finite; first : the number of the first of the
    values' rows. Time of one pass over ``values``.
    """
    if all(np.isfinite(values[where]).all() for where in row_slices(len(values), _BLOCK)):
        return values
    bad = first + np.flatnonzero(~np.isfinite(values).all(axis=1))
    row = dense(rows(bad[:1]), np.float64)[0]
    place = int(np.abs(row).argmax())
    others = f", and so do {len(bad) - 1:,} more rows" if len(bad) > 1 else ""
    raise InputError(
        f"X has the value {row[place]:.6g} in row {bad[0]}, feature {place}: {what}{others}. Pass rows that "
        "are like the training rows; correct or clip such values."
    )


def finite_blocks(
    blocks: Iterable[tuple[slice, Values]], rows: Callable[[IntArray], Any]
) -> Iterator[tuple[slice, Values]]:
    """Yield blocks of values with the rows that they are of, each checked by :func:`finite_values`."""
    for where, values in blocks:
        yield where, finite_values(values, rows, first=where.start)


def rows_at(source: RowSource, numbers: IntArray) -> Rows:
    """Return some rows of a source; of precomputed ones the kernel values, not the row numbers."""
    if isinstance(source, StoredRows):
        return source.matrix.block(numbers, np.arange(source.matrix.shape[1]))
    return source.take(numbers)
