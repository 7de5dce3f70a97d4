"""Table of columns of any type in files, read piece by piece on demand."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian._typing import IntArray
from gramian.data.arrow import join_tables
from gramian.data.formats.columnar import ColumnarStorage
from gramian.data.piece_reader import KEPT_PIECES, PieceReader, StoredTarget
from gramian.data.tables import ArrowBlock, TableSource


class StoredTable(TableSource):
    """Columns of CSV or Parquet files; text, dates and missing values stay as they are.

    :class:`gramian.TabularRegressor` and :class:`gramian.TabularClassifier` take one as X. Memory: two pieces
    of a few megabytes, or all of them if they take at most ``keep_bytes``.
    """

    def __init__(self, storage: ColumnarStorage, *, keep_bytes: float = 0.0) -> None:
        self.storage = storage
        self._reader = PieceReader(storage, keep_bytes)
        self.names = tuple(storage.columns)
        self.shape = self._reader.n_rows, len(self.names)

    #: Readers of blocks read the next block while they work on one.
    reads_ahead = True

    @property
    def row_bytes(self) -> int:
        """Bytes to read a row: the caller's block, the next one, and briefly one more."""
        return 3 * 8 * self.shape[1]

    @property
    def read_bytes(self) -> int:
        """Bytes of the pieces that are held while reading, including the one being read, and of buffers."""
        return (KEPT_PIECES + 1) * self.storage.piece_bytes + self.storage.buffer_bytes

    @property
    def target(self) -> StoredTarget | None:
        """The targets, if a target was named; read on demand."""
        return None if self.storage.target is None else StoredTarget(self._reader)

    def block(self, where: slice | IntArray) -> ArrowBlock:
        """Return consecutive rows, or the rows with these numbers."""
        return ArrowBlock(self.columns(where))

    def columns(self, where: slice | IntArray) -> Any:
        """Return rows as an Arrow table."""
        if isinstance(where, slice):
            numbers = range(self.shape[0])[where]
            if numbers.step == 1 and numbers:
                return join_tables(self._reader.consecutive(numbers, "columns"))
            where = np.asarray(numbers, np.intp)
        indices = self._reader.numbers(where)
        if not len(indices):
            return self.columns(slice(0, 1)).slice(0, 0)
        order = np.argsort(indices, kind="stable")
        found = join_tables(part for _, part in self._reader.ascending(indices[order], "columns"))
        return found if (np.diff(order) == 1).all() else found.take(np.argsort(order))
