"""Subset of the rows of a table, read on demand."""

from __future__ import annotations

from gramian._typing import IntArray
from gramian.data.tables import TableBlock, TableSource


class SubsetTable(TableSource):
    """The rows of ``table`` with these numbers, in this order; nothing is copied until it is read.

    >>> import numpy as np
    >>> from gramian.data.tables import as_table
    >>> taken = SubsetTable(as_table([["a"], ["b"], ["c"]]), np.array([2, 0]))
    >>> taken.shape, taken.block(slice(0, 1)).cells(0, "0", False).levels
    ((2, 1), ('c',))
    """

    def __init__(self, table: TableSource, numbers: IntArray) -> None:
        self.shape, self.names = (len(numbers), table.shape[1]), table.names
        self._table, self._numbers = table, numbers
        self.reads_ahead: bool = getattr(table, "reads_ahead", False)
        self.read_bytes: int = getattr(table, "read_bytes", 0)
        self.row_bytes: int = getattr(table, "row_bytes", 0)

    def block(self, where: slice | IntArray) -> TableBlock:
        """Return some rows."""
        return self._table.block(self._numbers[where])
