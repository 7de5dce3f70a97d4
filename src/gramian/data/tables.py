"""Tables of every kind, read in blocks of rows: frames, Arrow tables, arrays, sparse rows, row sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, IntArray, RowsLike
from gramian.data.arrow import TEXT, numbers, plain, value_type
from gramian.data.cells import AWARE, BOOLEAN, DATE, EMPTY, NUMERIC, Cells, categories, cells_of, without_kind
from gramian.data.distributed import is_elsewhere, refuse_elsewhere
from gramian.data.formats.frames import column_labels, frame_kind, opened_frame, text_names
from gramian.data.formats.records import Records
from gramian.data.source import ArraySource, RowSource
from gramian.exceptions import InputError

if TYPE_CHECKING:
    from gramian.data.arrow import Table

#: Numbers in a block (a few megabytes), and its smallest and largest number of rows. Chosen by hand.
BLOCK_NUMBERS, LEAST_ROWS, MOST_ROWS = 1 << 20, 64, 1 << 14

#: Types of pandas whose categories are named by their text: bins, months, days.
NAMED = ("interval", "period", "datetime", "timedelta")


class TableBlock(ABC):
    """Some rows of a table."""

    #: The rows as one matrix, if all columns are numbers of one type.
    matrix: Array | None = None

    def cells(self, place: int, column: str, as_category: bool) -> Cells:
        """Return the cells of the column at a place of the table; ``column`` is its name for errors.

        Cells that are all missing have no kind, whatever their stored type: pandas reads a blank column of a
        file as floats.
        """
        return without_kind(self._cells(place, column, as_category))

    @abstractmethod
    def _cells(self, place: int, column: str, as_category: bool) -> Cells:
        """Return the cells as they are stored."""


class TableSource(ABC):
    """Rows and columns that are read a block at a time; nothing is copied whole."""

    shape: tuple[int, int]
    #: Names of the columns; None if columns have only places.
    names: tuple[str, ...] | None = None

    @abstractmethod
    def block(self, where: slice | IntArray) -> TableBlock:
        """Return consecutive rows, or the rows with these numbers."""

    @property
    def block_rows(self) -> int:
        """Number of rows in a block."""
        return int(np.clip(BLOCK_NUMBERS // max(1, self.shape[1]), LEAST_ROWS, MOST_ROWS))


def as_table(X: RowsLike | None) -> TableSource:
    """Return as a table a pandas or polars frame, an Arrow table, an array, sparse rows, a source or a list.

    >>> as_table([[1, "a"], [2, "b"]]).block(slice(0, 2)).cells(1, "1", False).levels
    ('a', 'b')
    """
    if isinstance(X, TableSource):
        return X
    X = opened_frame(X)
    if frame_kind(X) is not None:
        return FrameTable(X)
    if isinstance(X, Records):
        return ArrayTable(X.cells, X.names)
    if isinstance(X, list | tuple):
        rows = np.empty((len(X), len(X[0]) if X and isinstance(X[0], list | tuple) else 0), object)
        if any(not isinstance(row, list | tuple) or len(row) != rows.shape[1] for row in X):
            raise InputError(
                "X is a list whose rows are not lists of one length. Pass one list for each row: [[1, 'a']] "
                "for a single row."
            )
        rows[:] = X if rows.size else rows
        return ArrayTable(rows)
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise InputError("X is a masked array. Pass X.filled(np.nan): NaN is a missing value.")
    if isinstance(X, np.ndarray):
        return ArrayTable(np.asarray(X))
    if sp.issparse(X):
        return SourceTable(ArraySource(X))  # type: ignore[arg-type]
    if is_elsewhere(X):
        refuse_elsewhere(X, "a model of tables")
    if isinstance(X, RowSource):
        return SourceTable(X)
    raise InputError(
        f"X has type {type(X).__name__}; expected a table. Pass a frame of pandas or polars, an Arrow table, "
        f"an array, a sparse matrix or a row source.{_wrapped(X)}"
    )


def _wrapped(X: object) -> str:
    """Return how to pass a dictionary or a path as a table; an empty string for anything else."""
    if isinstance(X, dict):
        return " Of a dict, pass [X] if it is one row, or pandas.DataFrame(X) if it holds columns."
    return " Read a file with gramian.open_data(path, …)." if isinstance(X, str | Path) else ""


class ArrayBlock(TableBlock):
    """Rows of a matrix."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.matrix = rows if rows.dtype.kind in "iufb" else None

    def _cells(self, place: int, column: str, as_category: bool) -> Cells:
        """Return the cells of a column."""
        return cells_of(self.rows[:, place], column, as_category=as_category)


class ArrayTable(TableSource):
    """Rows of an array of numbers, booleans, text, dates or objects; a memmap is read on demand."""

    def __init__(self, X: Array, names: tuple[str, ...] | None = None) -> None:
        # ArraySource raises if the shape is wrong.
        self.shape, self.names = ArraySource(X).shape, names
        self._X = X

    def block(self, where: slice | IntArray) -> TableBlock:
        """Return some rows."""
        return ArrayBlock(np.asarray(self._X[where]))


class SourceTable(TableSource):
    """Rows of a row source or of a sparse matrix: all numbers, made dense block by block."""

    def __init__(self, source: RowSource) -> None:
        names = getattr(source, "feature_names", None)
        self.shape, self.names = source.shape, None if names is None else text_names(names)
        self._source = source

    def block(self, where: slice | IntArray) -> TableBlock:
        """Return some rows."""
        rows = self._source.rows(where) if isinstance(where, slice) else self._source.take(where)
        return ArrayBlock(np.asarray(rows.toarray() if sp.issparse(rows) else rows))


class FrameTable(TableSource):
    """Rows of a pandas or polars frame, or of an Arrow table or batch."""

    def __init__(self, frame: Any) -> None:
        self._kind, self._frame = frame_kind(frame), frame
        labels = column_labels(frame)
        self.names = text_names(labels)
        # An old Arrow batch has no shape.
        n_rows = frame.num_rows if self._kind == "Arrow" else frame.shape[0]
        self.shape = int(n_rows), len(labels)

    def block(self, where: slice | IntArray) -> TableBlock:
        """Return some rows."""
        frame = self._frame
        if self._kind == "pandas":
            whole = isinstance(where, slice) and where == slice(0, self.shape[0])
            return PandasBlock(frame if whole else frame.iloc[where])
        if isinstance(where, slice):
            start, stop, _ = where.indices(self.shape[0])
            part = frame.slice(start, max(0, stop - start))
        else:
            part = frame[where] if self._kind == "polars" else frame.take(where)
        return PolarsBlock(part) if self._kind == "polars" else ArrowBlock(part)


class PandasBlock(TableBlock):
    """Rows of a pandas frame."""

    def __init__(self, frame: Any) -> None:
        # One after the other these take a tenth of the time that frame.iloc[:, place] takes.
        self._columns = [series for _, series in frame.items()]

    def _cells(self, place: int, column: str, as_category: bool) -> Cells:
        """Return the cells of a column with a NumPy, pandas or Arrow type."""
        series = self._columns[place]
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
            return Cells(
                BOOLEAN if kind.kind == "b" else NUMERIC, values, narrow=small, example=_first_present(values)
            )
        elif kind.kind in "mM" and not str(kind).startswith(("date32", "date64")):
            raw = series.to_numpy("datetime64[us]" if kind.kind == "M" else "timedelta64[us]")
            zoned = getattr(kind, "tz", None) is not None or "tz=" in str(kind)
            return _zoned(cells_of(raw, column, as_category=as_category), zoned)
        else:
            raw = series.to_numpy(object, na_value=None)
        return cells_of(raw, column, as_category=as_category)


class PolarsBlock(TableBlock):
    """Rows of a polars frame."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def _cells(self, place: int, column: str, as_category: bool) -> Cells:
        """Return the cells of a column."""
        series = self._frame.to_series(place)
        name = str(series.dtype)
        if name.startswith(("String", "Categorical", "Enum")):
            declared = as_category or not name.startswith("String")
            return cells_of(_listed(series.to_list()), column, as_category=declared)
        exact = as_category and series.dtype.is_integer()  # nulls would make floats of them
        if series.dtype.is_temporal() or (
            not exact and series.dtype.is_numeric() and not series.dtype.is_decimal()
        ):
            # Nulls become NaN and NaT.
            cells = cells_of(series.to_numpy(), column, as_category=as_category)
            return _zoned(cells, getattr(series.dtype, "time_zone", None) is not None)
        return cells_of(_listed(series.to_list()), column, as_category=as_category)


class ArrowBlock(TableBlock):
    """Rows of an Arrow table or batch."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def _cells(self, place: int, column: str, as_category: bool) -> Cells:
        """Return the cells of a column."""
        found = self._table.column(place)
        if hasattr(found, "combine_chunks"):
            found = found.combine_chunks()
        kind = str(value_type(found.type))
        coded = str(found.type).startswith("dictionary")
        if kind == "null":
            return Cells(EMPTY, np.full(len(found), np.nan))
        if kind in TEXT or coded or as_category or kind == "bool":
            values = found if kind.startswith("decimal") else plain(found)
            return cells_of(_listed(values.to_pylist()), column, as_category=coded or as_category)
        if kind.startswith(("timestamp", "date", "duration")):
            cells = cells_of(found.to_numpy(zero_copy_only=False), column)
            return _zoned(cells, getattr(found.type, "tz", None) is not None)
        if kind.startswith(("int", "uint", "half", "float", "double", "decimal")):
            return cells_of(numbers(found), column)
        return cells_of(_listed(found.to_pylist()), column)


def _zoned(cells: Cells, zoned: bool) -> Cells:
    """Return the cells of a column whose type may name a time zone."""
    return replace(cells, holds=AWARE) if zoned and cells.kind == DATE else cells


def _listed(values: list[Any]) -> Array:
    """Return objects as a one-dimensional array, whatever they are."""
    return np.fromiter(values, object, len(values))


def _first_present(values: Array) -> object:
    present = values[~np.isnan(values)][:1]
    return float(present[0]) if len(present) else None
