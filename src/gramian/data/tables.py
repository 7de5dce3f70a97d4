"""Tables of every kind, read in blocks of rows: frames, Arrow tables, arrays, sparse rows, row sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, IntArray, RowsLike
from gramian.data.arrow import TEXT, decode, numbers, value_type
from gramian.data.cells import AWARE, BOOLEAN, DATE, EMPTY, NUMERIC, Cells, categories, cells_of, without_kind
from gramian.data.distributed import refuse_elsewhere
from gramian.data.formats.frames import column_labels, frame_kind, opened_frame, text_names
from gramian.data.formats.records import Records
from gramian.data.source import ArraySource, RowSource
from gramian.exceptions import InputError

if TYPE_CHECKING:
    from gramian.data.arrow import Column

#: Numbers in a block (a few megabytes), and its smallest and largest number of rows. Chosen by hand.
BLOCK_NUMBERS, LEAST_ROWS, MOST_ROWS = 1 << 20, 64, 1 << 14

#: Types of pandas whose categories are named by their text: bins, months, days.
NAMED = ("interval", "period", "datetime", "timedelta")


class TableBlock:
    """Some rows of a table.

    columns : their columns: arrays, series of pandas or polars, or Arrow's.
    convert : from a column, its name for errors and whether it is a category to its cells.
    matrix : the rows as one matrix, if all columns are numbers of one type.
    """

    def __init__(
        self,
        columns: Sequence[Any] | Array,
        convert: Callable[[Any, str, bool], Cells],
        matrix: Array | None = None,
    ) -> None:
        self.columns, self.convert, self.matrix = columns, convert, matrix

    def cells(self, place: int, column: str, as_category: bool) -> Cells:
        """Return the cells of the column at a place of the table; ``column`` is its name for errors.

        Cells that are all missing have no kind, whatever their stored type: pandas reads a blank column of a
        file as floats.
        """
        return without_kind(self.convert(self.columns[place], column, as_category))


class TableSource:
    """Rows and columns that are read a block at a time; nothing is copied whole.

    X : a frame of pandas or polars, an Arrow table or batch, an array of numbers, booleans, text, dates or
        objects, or a row source. Sparse rows are made dense block by block.
    names : names of the columns; None if columns have only places.
    numbers : numbers of the rows of X that are the table's, in this order; None for all.
    """

    def __init__(
        self, X: RowsLike, names: tuple[str, ...] | None = None, numbers: IntArray | None = None
    ) -> None:
        self.names, self._numbers, self._kind = names, numbers, frame_kind(X)
        self._X = table = cast("Any", X)
        if self._kind == "Arrow":  # an old batch has no shape
            n, d = table.num_rows, table.num_columns
        else:
            # ArraySource raises if the shape is wrong.
            n, d = (ArraySource(X) if isinstance(X, np.ndarray) else table).shape
        self.shape: tuple[int, int] = (int(n) if numbers is None else len(numbers)), int(d)
        # Further attributes as of a RowSource; those of a frame are its columns.
        source = table if self._kind is None else None
        self.reads_ahead: bool = getattr(source, "reads_ahead", False)
        self.read_bytes: int = getattr(source, "read_bytes", 0)
        self.row_bytes: int = getattr(source, "row_bytes", 0)
        self.target: Any = getattr(source, "target", None) if numbers is None else None
        self.identity: Any = getattr(source, "identity", None) if numbers is None else None

    @property
    def block_rows(self) -> int:
        """Number of rows in a block."""
        return int(np.clip(BLOCK_NUMBERS // max(1, self.shape[1]), LEAST_ROWS, MOST_ROWS))

    def subset(self, numbers: IntArray) -> TableSource:
        """Return the rows with these numbers, in this order; nothing is copied before it is read.

        >>> part = as_table([["a"], ["b"], ["c"]]).subset(np.array([2, 0]))
        >>> part.shape, part.block(slice(0, 1)).cells(0, "0", False).levels
        ((2, 1), ('c',))
        """
        return TableSource(self._X, self.names, numbers if self._numbers is None else self._numbers[numbers])

    def block(self, where: slice | IntArray) -> TableBlock:
        """Return consecutive rows, or the rows with these numbers."""
        X, kind = self._X, self._kind
        if self._numbers is not None:
            where = self._numbers[where]
        if kind == "pandas":
            whole = isinstance(where, slice) and where == slice(0, X.shape[0])
            part = X if whole else X.iloc[where]
            # One after the other these take a tenth of the time that frame.iloc[:, place] takes.
            return TableBlock([series for _, series in part.items()], _pandas_cells)
        if isinstance(X, np.ndarray):
            part = X[where]
        elif kind is None:
            part = X.rows(where) if isinstance(where, slice) else X.take(where)
        elif isinstance(where, slice):
            start, stop, _ = where.indices(self.shape[0])
            part = X.slice(start, max(0, stop - start))
        else:
            part = X[where] if kind == "polars" else X.take(where)
        if kind == "polars":
            return TableBlock(part.get_columns(), _polars_cells)
        if frame_kind(part) == "Arrow":  # also the rows of a file of columns of any type
            return TableBlock(part.columns, arrow_cells)
        rows = np.asarray(part.toarray() if hasattr(part, "toarray") else part)
        return TableBlock(rows.T, cells_of, rows if rows.dtype.kind in "iufb" else None)


def as_table(X: RowsLike | None) -> TableSource:
    """Return as a table a pandas or polars frame, an Arrow table, an array, sparse rows, a source or a list.

    >>> as_table([[1, "a"], [2, "b"]]).block(slice(0, 2)).cells(1, "1", False).levels
    ('a', 'b')
    """
    if isinstance(X, TableSource):
        return X
    X = opened_frame(X)
    if frame_kind(X) is not None:
        return TableSource(X, text_names(column_labels(X)))
    if isinstance(X, Records):
        return TableSource(X.cells, X.names)
    if isinstance(X, list | tuple):
        rows = np.empty((len(X), len(X[0]) if X and isinstance(X[0], list | tuple) else 0), object)
        if any(not isinstance(row, list | tuple) or len(row) != rows.shape[1] for row in X):
            raise InputError(
                "X is a list whose rows are not lists of one length. Pass one list for each row: [[1, 'a']] "
                "for a single row."
            )
        rows[:] = X if rows.size else rows
        return TableSource(rows)
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise InputError("X is a masked array. Pass X.filled(np.nan): NaN is a missing value.")
    if isinstance(X, np.ndarray):
        return TableSource(np.asarray(X))
    if sp.issparse(X):
        return TableSource(ArraySource(X))  # type: ignore[arg-type]
    refuse_elsewhere(X, "a model of tables")
    if isinstance(X, RowSource):
        labels = getattr(X, "feature_names", None)
        return TableSource(X, None if labels is None else text_names(labels))
    raise InputError(
        f"X has type {type(X).__name__}; expected a table. Pass a frame of pandas or polars, an Arrow table, "
        f"an array, a sparse matrix or a row source.{_wrapped(X)}"
    )


def _wrapped(X: object) -> str:
    """Return how to pass a dictionary or a path as a table; an empty string for anything else."""
    if isinstance(X, dict):
        return " Of a dict, pass [X] if it is one row, or pandas.DataFrame(X) if it holds columns."
    return " Read a file with gramian.open_data(path, …)." if isinstance(X, str | Path) else ""


def _pandas_cells(series: Any, column: str, as_category: bool) -> Cells:
    """Return the cells of a column of pandas with a NumPy, pandas or Arrow type."""
    kind = series.dtype
    if kind.name == "category":
        values = series.array.categories
        levels = values.to_numpy(dtype=object).tolist()
        if str(values.dtype).startswith(NAMED):
            levels = list(map(str, levels))
        return categories(series.array.codes, levels, column)
    if isinstance(kind, np.dtype) or as_category:
        raw = series.to_numpy() if isinstance(kind, np.dtype) else series.to_numpy(object, na_value=None)
    elif kind.kind in "iufb":
        # pandas' own nullable numbers and booleans, in which values may be missing.
        values = series.to_numpy(np.float64, na_value=np.nan)
        small = str(kind).lower() in ("int8", "uint8", "int16", "uint16", "float32", "boolean")
        example = next(iter(values[~np.isnan(values)][:1].tolist()), None)
        return Cells(BOOLEAN if kind.kind == "b" else NUMERIC, values, narrow=small, example=example)
    elif kind.kind in "mM" and not str(kind).startswith(("date32", "date64")):
        raw = series.to_numpy("datetime64[us]" if kind.kind == "M" else "timedelta64[us]")
        zoned = getattr(kind, "tz", None) is not None or "tz=" in str(kind)
        return _zoned(cells_of(raw, column, as_category), zoned)
    else:
        raw = series.to_numpy(object, na_value=None)
    return cells_of(raw, column, as_category)


def _polars_cells(series: Any, column: str, as_category: bool) -> Cells:
    """Return the cells of a column of polars."""
    kind, name = series.dtype, str(series.dtype)
    if name.startswith(("String", "Categorical", "Enum")):
        return cells_of(_listed(series.to_list()), column, as_category or not name.startswith("String"))
    exact = as_category and kind.is_integer()  # nulls would make floats of them
    if kind.is_temporal() or (not exact and kind.is_numeric() and not kind.is_decimal()):
        # Nulls become NaN and NaT.
        cells = cells_of(series.to_numpy(), column, as_category)
        return _zoned(cells, getattr(kind, "time_zone", None) is not None)
    return cells_of(_listed(series.to_list()), column, as_category)


def arrow_cells(arrow: Column, column: str, as_category: bool) -> Cells:
    """Return the cells of a column of Arrow."""
    if hasattr(arrow, "combine_chunks"):
        arrow = arrow.combine_chunks()
    kind = str(value_type(arrow.type))
    coded = str(arrow.type).startswith("dictionary")
    if kind == "null":
        return Cells(EMPTY, np.full(len(arrow), np.nan))
    if kind in TEXT or coded or as_category or kind == "bool":
        values = arrow if kind.startswith("decimal") else decode(arrow)
        return cells_of(_listed(values.to_pylist()), column, coded or as_category)
    if kind.startswith(("timestamp", "date", "duration")):
        cells = cells_of(arrow.to_numpy(zero_copy_only=False), column)
        return _zoned(cells, getattr(arrow.type, "tz", None) is not None)
    if kind.startswith(("int", "uint", "half", "float", "double", "decimal")):
        return cells_of(numbers(arrow), column)
    return cells_of(_listed(arrow.to_pylist()), column)


def _zoned(cells: Cells, zoned: bool) -> Cells:
    """Return the cells of a column whose type may name a time zone."""
    return replace(cells, holds=AWARE) if zoned and cells.kind == DATE else cells


def _listed(values: list[Any]) -> Array:
    """Return objects as a one-dimensional array, whatever they are."""
    return np.fromiter(values, object, len(values))
