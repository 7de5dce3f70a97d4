"""Table of columns of any type in files, read piece by piece on demand."""

from __future__ import annotations

from typing import Any

from gramian._typing import IntArray
from gramian.data.formats.columnar import ColumnarStorage
from gramian.data.stored_source import StoredSource
from gramian.data.tables import TableBlock, TableSource, arrow_cells


class StoredTable(TableSource):
    """Columns of CSV or Parquet files; text, dates and missing values stay as they are.

    :class:`gramian.TabularRegressor` and :class:`gramian.TabularClassifier` take one as X. Memory: two pieces
    of a few megabytes, or all of them if they take at most ``keep_bytes``.
    """

    #: Readers of blocks read the next block while they work on one.
    reads_ahead = True

    def __init__(self, storage: ColumnarStorage, *, keep_bytes: float = 0.0) -> None:
        self.storage = storage
        self._reader = StoredSource(storage, keep_bytes=keep_bytes)
        self.names, self.shape = self._reader.feature_names, self._reader.shape
        self.read_bytes, self.row_bytes = self._reader.read_bytes, self._reader.row_bytes
        #: The targets, if a target was named; read on demand.
        self.target = self._reader.target

    def block(self, where: slice | IntArray) -> TableBlock:
        """Return consecutive rows, or the rows with these numbers."""
        return TableBlock(self.columns(where).columns, arrow_cells)

    def columns(self, where: slice | IntArray) -> Any:
        """Return rows as an Arrow table."""
        return self._reader.read(where, "columns")
