"""Row source with a subset of another source's rows, read on demand."""

from __future__ import annotations

from gramian._typing import IntArray, Rows
from gramian.data.source import RowSource


class SubsetRows:
    """The rows of ``source`` with these numbers, in this order; nothing is copied until it is read.

    >>> import numpy as np
    >>> from gramian.data.source import ArraySource
    >>> rows = SubsetRows(ArraySource(np.arange(6.0).reshape(3, 2)), np.array([2, 0]))
    >>> rows.shape, rows.rows(slice(0, 1))
    ((2, 2), array([[4., 5.]]))
    """

    def __init__(self, source: RowSource, numbers: IntArray) -> None:
        self.source, self.numbers = source, numbers
        self.shape, self.dtype = (len(numbers), source.shape[1]), source.dtype
        self.reads_ahead: bool = getattr(source, "reads_ahead", False)
        self.read_bytes: int = getattr(source, "read_bytes", 0)
        self.row_bytes: int = getattr(source, "row_bytes", 2 * source.shape[1] * source.dtype.itemsize)
        self.feature_names = getattr(source, "feature_names", None)

    def rows(self, where: slice) -> Rows:
        """Return consecutive rows as a new array."""
        return self.source.take(self.numbers[where])

    def take(self, indices: IntArray) -> Rows:
        """Return the rows with these indices, in this order, as a new array."""
        return self.source.take(self.numbers[indices])
