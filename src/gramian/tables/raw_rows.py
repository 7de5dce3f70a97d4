"""The way back from encoded rows to rows of a table, for models that take tables as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.data.cells import CATEGORY
from gramian.data.formats.frames import frame_kind
from gramian.exceptions import InputError
from gramian.fast.compress import KnownRows
from gramian.tables.column import Column
from gramian.tables.columns import TableColumns


class RawRows:
    """Function from encoded and scaled rows to rows of the table that they come from.

    A row that was encoded from the table is given back as it is. Of any other row, each value is the nearest
    one of its column in the table: the same category, missing where it is missing, the nearest number or
    date. So a model is only asked about values that it can know, in their own types. Columns that the
    encoding does not use have the value of the first row.

    X : the table, a frame or a two-dimensional array; rows : its encoded and scaled rows (n, width). Memory
    O(n·width).
    """

    def __init__(self, X: Any, columns: TableColumns, rows: Float64Array) -> None:
        self._X, self._known = X, KnownRows(rows)
        self._choices: list[tuple[int, slice, Column, Float64Array, IntArray]] = []
        starts = np.cumsum([0, *(column.width for column in columns.columns)])
        for column, start in zip(columns.columns, starts):
            if column.width:
                places = slice(int(start), int(start) + _width(column))
                values, first = np.unique(rows[:, places], axis=0, return_index=True)
                self._choices.append((column.place, places, column, values, first))
        if frame_kind(X) is None and not isinstance(X, np.ndarray):
            raise InputError(
                f"X has type {type(X).__name__}, of which no rows can be made to ask the model about. Pass a "
                "frame of pandas or polars, an Arrow table or an array."
            )

    def __call__(self, rows: Array) -> Any:
        """Return a table like X with a row for each of the encoded rows (m, width)."""
        whole = np.asarray(rows, np.float64)
        known = self._known.numbers(whole)
        numbers = np.zeros((len(whole), self._X.shape[1]), np.intp)
        for place, places, column, values, first in self._choices:
            numbers[:, place] = first[_nearest(whole[:, places], values, column)]
        numbers = np.where(known[:, None] >= 0, known[:, None], numbers)
        return take_cells(self._X, numbers)


def _width(column: Column) -> int:
    """Return how many encoded columns say the value: parts of a date follow from the date."""
    return column.width if column.kind == CATEGORY else int(column.varies) + int(column.missing)


def _nearest(points: Float64Array, values: Float64Array, column: Column) -> IntArray:
    """Return the number of the value (k, width) of a column that is nearest to each point (m, width).

    The values are sorted. A number's second place says whether it is missing.
    """
    if column.kind == CATEGORY or not column.varies:
        return np.asarray((points @ values.T - 0.5 * np.square(values).sum(axis=1)).argmax(axis=1))
    gone = np.zeros(len(values), bool)
    if column.missing:
        between = 0.5 * (values[:, 1].min() + values[:, 1].max())
        gone = values[:, 1] > between
    known = np.flatnonzero(~gone)
    line = values[known, 0]
    above = np.clip(np.searchsorted(line, points[:, 0]), 1, max(1, len(line) - 1))
    below = above - 1
    above = np.minimum(above, len(line) - 1)
    nearer = points[:, 0] - line[below] <= line[above] - points[:, 0]
    nearest = known[np.where(nearer, below, above)]
    if gone.any():
        nearest = np.where(points[:, 1] > between, np.flatnonzero(gone)[0], nearest)
    return nearest


def take_cells(X: Any, numbers: IntArray) -> Any:
    """Return a table like X whose value (i, j) is that of row ``numbers[i, j]`` in column j of X."""
    kind = frame_kind(X)
    if kind is None:
        return np.take_along_axis(X, numbers, axis=0)
    if kind == "pandas":
        out = X.iloc[numbers[:, 0]].reset_index(drop=True)
        for j in range(numbers.shape[1]):
            out.isetitem(j, X.iloc[:, j].array[numbers[:, j]])
        return out
    if kind == "polars":
        return type(X)([X.to_series(j).gather(numbers[:, j]) for j in range(numbers.shape[1])])
    columns = [X.column(j).take(numbers[:, j]) for j in range(numbers.shape[1])]
    return type(X).from_arrays(columns, schema=X.schema)
