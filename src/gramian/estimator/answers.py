"""Answers made from values of shape (n, outputs), and the check that these did not overflow.

A classifier has one column of values for two classes (positive for the second), else one for each class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import expit, log_expit, log_softmax, softmax

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.kernels.columns import dense
from gramian.kernels.precomputed import StoredRows

#: Rows that are predicted at a time: two outputs of this many rows are a few megabytes.
PREDICT_ROWS = 65_536


def likeliest(values: Array) -> IntArray:
    """Return the number of the class with the largest value for each row, the first of equal ones."""
    if values.shape[1] == 1:
        return (values[:, 0] > 0).astype(np.intp)
    return np.asarray(values.argmax(axis=1))


def class_labels(values: Array, classes: Array) -> Array:
    """Return the class with the largest value for each row."""
    return np.asarray(classes[likeliest(values)])


def decision_values(values: Float64Array) -> Float64Array:
    """Return values as ``decision_function`` gives them: (n,) for two classes, else (n, classes)."""
    return values[:, 0] if values.shape[1] == 1 else values


def predicted_numbers(values: Float64Array, *, flat: bool) -> Float64Array:
    """Return values as a regressor predicts them: shape (n,) if its targets were ``flat``."""
    return values[:, 0] if flat else values


def probabilities(log_odds: Float64Array) -> Float64Array:
    """Return the probability of each class, (n, classes): a sigmoid of one column, a softmax of several."""
    if log_odds.shape[1] == 1:
        return np.hstack([expit(-log_odds), expit(log_odds)])
    return np.asarray(softmax(log_odds, axis=1))


def log_probabilities(log_odds: Float64Array) -> Float64Array:
    """Return the logarithm of :func:`probabilities`, without its underflow."""
    if log_odds.shape[1] == 1:
        return np.hstack([log_expit(-log_odds), log_expit(log_odds)])
    return np.asarray(log_softmax(log_odds, axis=1))


def predicted_blocks(
    predictor: Any, source: RowSource, engine: Engine
) -> Iterator[tuple[slice, Float64Array]]:
    """Yield each block of rows and a predictor's values for it, (rows, outputs), one block at a time."""
    for where, rows in row_blocks(source, PREDICT_ROWS):
        yield where, predictor.chunk(rows, engine)


def in_blocks(
    blocks: Iterable[tuple[slice, Any]],
    shape: tuple[int, ...],
    answer: Callable[[Any], Array] | None = None,
    *,
    dtype: DTypeLike = np.float64,
) -> Array:
    """Return an array filled with the blocks of values, or with an answer to each block.

    ``blocks`` yields the rows of a block and its values; together they cover all rows.
    """
    out = np.empty(shape, dtype)
    for where, values in blocks:
        out[where] = values if answer is None else answer(values)
    return out


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
