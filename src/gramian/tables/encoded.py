"""Row source of a table, encoded to numbers as rows are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian._typing import FloatArray, IntArray
from gramian.data.formats.frames import frame_kind
from gramian.data.source import RowSource
from gramian.data.tables import Table, as_table
from gramian.tables.columns import TableColumns


class EncodedRows:
    """The rows of a table encoded by :class:`TableColumns`; the table is never copied whole.

    A row source, so that anything that reads rows in blocks can read it. Memory: a block of a few megabytes
    besides the requested rows.

    >>> X = np.array([["red", 1.0], ["blue", 2.0], ["red", 4.0], ["blue", 3.0]], object)
    >>> rows = EncodedRows(TableColumns.learn(X), X)
    >>> rows.shape, rows.take(np.array([2]))
    ((4, 3), array([[0., 1., 4.]]))
    """

    def __init__(self, columns: TableColumns, X: Any) -> None:
        self.columns, self._given, self._table = columns, X, as_table(X)
        self._order = columns.order(self._table)
        #: Bytes of an encoded row, and about as much for the cells that it is made from.
        self.row_bytes = self.shape[1] * self.dtype.itemsize + 8 * self._table.shape[1]
        if frame_kind(X) is not None or not isinstance(X, RowSource | Table):
            return
        self.row_bytes += getattr(X, "row_bytes", 0)
        for name in ("reads_ahead", "read_bytes", "target"):
            if getattr(X, name, None) is not None:
                setattr(self, name, getattr(X, name))
        identity = getattr(X, "identity", None)
        if identity is not None:  # a frame has none: the fingerprint hashes its rows
            self.identity = ("encoded", columns.feature_names, identity)

    def under(self, columns: TableColumns) -> EncodedRows:
        """Return the same rows encoded by other columns."""
        return EncodedRows(columns, self._given)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and encoded columns."""
        return self._table.shape[0], self.columns.width

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the encoded numbers."""
        return self.columns.dtype

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each encoded column."""
        return self.columns.feature_names

    def rows(self, where: slice) -> FloatArray:
        """Return consecutive rows as a new array."""
        numbers = range(self.shape[0])[where]
        if numbers.step != 1:
            return self.take(np.asarray(numbers, np.intp))
        return self._encoded(slice(numbers.start, max(numbers.start, numbers.stop)), len(numbers))

    def take(self, indices: IntArray) -> FloatArray:
        """Return the rows with these numbers, in this order, as a new array."""
        found = np.asarray(indices)
        if found.dtype == bool:
            found = np.flatnonzero(found)
        n = self.shape[0]
        if len(found) and not (-n <= found.min() and found.max() < n):
            raise IndexError(f"The table has {n} rows; rows {found.min()} to {found.max()} were asked for.")
        return self._encoded(np.where(found < 0, found + n, found).astype(np.intp), len(found))

    def _encoded(self, where: slice | IntArray, n: int) -> FloatArray:
        out = np.zeros((n, self.shape[1]), self.dtype)
        step = self._table.block_rows
        for start in range(0, n, step):
            stop = min(n, start + step)
            rows: slice | IntArray
            if isinstance(where, slice):
                rows = slice(where.start + start, where.start + stop)
            else:
                rows = where[start:stop]
            self.columns.encode_block(self._table.block(rows), self._order, rows, out[start:stop])
        return out
