"""Tables of any columns out of CSV and Parquet files: text, dates and gaps stay, as an Arrow table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gramian._typing import Array
from gramian.data.arrow import check_type, csv_table, labels, parquet_table, select, value_type
from gramian.data.files import CSV, PARQUET, Table, check_exists, check_values, file_format, reading
from gramian.exceptions import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A file's rows as they are stored, and the target where one was named."""

    X: Any  #: Arrow table (n, d) of the features
    y: Array | None  #: (n,) numbers, booleans or (object) strings; None without a target
    target: str | None  #: name of the target column, None without one

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the d columns."""
        return tuple(self.X.schema.names)


def holds_frame(path: str | os.PathLike[str]) -> bool:
    """Return whether a file's suffix names a format whose columns have names and types of their own.

    >>> holds_frame("train.csv.gz"), holds_frame("train.npz")
    (True, False)
    """
    return file_format(Path(path)) in (CSV, PARQUET)


def read_frame(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    text: Iterable[str] = (),
) -> Frame:
    """Read a CSV or Parquet file as a table of whatever columns it has.

    Parameters
    ----------
    path : a ``.csv``, ``.csv.gz`` or ``.parquet`` file.
    target : column that becomes y; numbers, booleans or text, without missing and infinite values.
    columns : names of the features, in the order wanted; by default every column but the target, in the
        file's order, less an index that pandas stored.
    text : columns of a CSV file that are read as text though all of their cells look like numbers; names that
        the file lacks do not count. Parquet says the type of each column.

    Returns
    -------
    Frame : its X is what :class:`gramian.TabularRegressor` and :class:`gramian.TabularClassifier` take.

    Cost: time O(n d), memory that of the Arrow table.

    Errors: ``InputError`` for a file of another format, missing, empty, damaged or ragged, for names that are
    absent or occur twice, and for a target of dates or with missing or infinite values;
    ``MissingPackageError`` without pyarrow.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "train.csv"
    >>> _ = path.write_text("rooms,town,price\\n3,Bath,1.5\\n,Hull,2.5\\n")
    >>> frame = read_frame(path, target="price")
    >>> frame.X.to_pydict(), frame.y
    ({'rooms': [3, None], 'town': ['Bath', 'Hull']}, array([1.5, 2.5]))
    """
    path = Path(path)
    if not holds_frame(path):
        raise InputError(
            f"{path} is a {file_format(path)} file, whose columns have no types. Use read_table."
        )
    check_exists(path)
    with reading(path):
        table = csv_table(path, text) if file_format(path) == CSV else parquet_table(path)
        names = select(path, table.schema, target, columns)
        n = table.num_rows
        if n == 0 or not names:
            what = "rows" if n == 0 else "feature columns besides the target"
            raise InputError(f"{path} has no {what}. Pass a file with at least one row and one feature.")
        y = None
        if target is not None:
            check_type(path, target, value_type(table.schema.field(target).type), None)
            y = labels(table.column(target))
            check_values(path, Table(np.empty((n, 0), np.float32), y, (), target))
    return Frame(table.select(names), y, target)
