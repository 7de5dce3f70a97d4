"""Rows of data: files, benchmark sets, and rows made from scikit-learn's digits."""

from gramian.data.datasets import Dataset, DigitsData, load_dataset, make_digits
from gramian.data.files import Table, read_table, write_predictions
from gramian.data.source import ArraySource, RowSource, as_source

__all__ = [
    "ArraySource",
    "Dataset",
    "DigitsData",
    "RowSource",
    "Table",
    "as_source",
    "load_dataset",
    "make_digits",
    "read_table",
    "write_predictions",
]
