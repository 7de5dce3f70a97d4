"""Rows of data: files, tables, and arrays in memory."""

from gramian.data.fingerprint import fingerprint
from gramian.data.opening import open_data
from gramian.data.reading import Table, read_table
from gramian.data.source import ArraySource, RowSource, as_source
from gramian.data.stored_source import StoredSource
from gramian.data.writing import write_predictions

__all__ = [
    "ArraySource",
    "RowSource",
    "StoredSource",
    "Table",
    "as_source",
    "fingerprint",
    "open_data",
    "read_table",
    "write_predictions",
]
