"""Rows of data: files, tables, benchmark sets, and rows made from scikit-learn's digits."""

from gramian.data.datasets import Dataset, DigitsData, load_dataset, make_digits
from gramian.data.fingerprint import fingerprint
from gramian.data.opening import open_data
from gramian.data.reading import Table, read_table
from gramian.data.source import ArraySource, RowSource, as_source
from gramian.data.stored_source import StoredSource
from gramian.data.writing import write_predictions

__all__ = [
    "ArraySource",
    "Dataset",
    "DigitsData",
    "RowSource",
    "StoredSource",
    "Table",
    "as_source",
    "fingerprint",
    "load_dataset",
    "make_digits",
    "open_data",
    "read_table",
    "write_predictions",
]
