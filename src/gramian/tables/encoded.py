"""Row source of a table, encoded to numbers as rows are read."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, FloatArray, IntArray, RowsLike
from gramian.data.cells import CATEGORY, DATE
from gramian.data.source import ArraySource, RowSource
from gramian.data.tables import as_table
from gramian.exceptions import AccuracyWarning, user_level
from gramian.tables.columns import TableColumns
from gramian.tables.holdout import HoldOut

#: Rows at the start of the table that are looked at, and the fewest different values that tell an order.
#: Chosen by hand.
FIRST_ROWS, FEWEST_VALUES = 10_000, 20
#: Scaled rows stay in memory if they take at most the budget divided by this; otherwise they are computed
#: again each time they are read. Chosen by hand.
KEPT_PART = 8
#: Most encoded numbers that a prediction holds in memory: 32 MB. Chosen by hand.
ONCE_NUMBERS = 1 << 22


class EncodedRows:
    """The rows of a table encoded by :class:`TableColumns`; the table is never copied whole.

    A row source, so that anything that reads rows in blocks can read it. The last of the columns hold ``own``
    (n, k), if that is given. Memory: a block of a few megabytes
    besides the requested rows.

    >>> X = np.array([["red", 1.0], ["blue", 2.0], ["red", 4.0], ["blue", 3.0]], object)
    >>> rows = EncodedRows(TableColumns.learn(X), X)
    >>> rows.shape, rows.take(np.array([2]))
    ((4, 3), array([[0., 1., 4.]]))
    """

    def __init__(self, columns: TableColumns, X: RowsLike, own: Float64Array | None = None) -> None:
        self._own = own
        self.columns, self.table = columns, (table := as_table(X))
        #: Each column's place in the table.
        self.order = columns.order(table)
        #: Bytes of an encoded row, of the cells that it is made from (about as many), and of the table.
        self.row_bytes = self.shape[1] * self.dtype.itemsize + 8 * table.shape[1] + table.row_bytes
        self.reads_ahead, self.read_bytes, self.target = table.reads_ahead, table.read_bytes, table.target
        if table.identity is not None:  # a frame has none: the fingerprint hashes its rows
            self.identity = ("encoded", columns.feature_names, table.identity)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and encoded columns."""
        return self.table.shape[0], self.columns.width

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the encoded numbers."""
        return self.columns.dtype

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each encoded column."""
        return self.columns.feature_names

    def rows(self, where: slice) -> FloatArray:
        """Return consecutive rows as a new array."""
        numbers = range(self.shape[0])[where]
        if numbers.step != 1:
            return self.take(np.asarray(numbers, np.intp))
        return self._encoded(slice(numbers.start, max(numbers.start, numbers.stop)), len(numbers))

    def take(self, indices: IntArray) -> FloatArray:
        """Return the rows with these numbers, in this order, as a new array."""
        array = np.asarray(indices)
        if array.dtype == bool:
            array = np.flatnonzero(array)
        n = self.shape[0]
        if len(array) and not (-n <= array.min() and array.max() < n):
            raise IndexError(f"The table has {n} rows; rows {array.min()} to {array.max()} were asked for.")
        return self._encoded(np.where(array < 0, array + n, array).astype(np.intp), len(array))

    def _encoded(self, where: slice | IntArray, n: int) -> FloatArray:
        out = np.zeros((n, self.shape[1]), self.dtype)
        for part in row_slices(n, self.table.block_rows):
            if isinstance(where, slice):
                rows: slice | IntArray = slice(where.start + part.start, where.start + part.stop)
            else:
                rows = where[part]
            self.columns.encode_block(self.table.block(rows), self.order, rows, out[part])
        if self._own is not None and self._own.shape[1]:
            out[:, -self._own.shape[1] :] = self._own[where]
        return out


@dataclass(frozen=True)
class FitRows:
    """The rows of a table that a fit learns from.

    rows : encoded; own : their targets in their own units (n, outputs), or classes by number (n,); targets :
    what the models learn; own_weights, weights : (n,) or None, without and with those of classes; numbers :
    places in the table that was given, None for all; n_given : how many rows of it count; holdout : which of
    the rows are held out; deadline : when to end, by ``time.perf_counter``; sample : numbers of the rows that
    the search compares settings on, held-out ones first, and ``n_held_out`` of them.
    """

    rows: EncodedRows
    own: Array
    targets: Any
    own_weights: Array | None
    weights: Array | None
    numbers: IntArray | None
    n_given: int
    holdout: HoldOut
    rng: np.random.Generator
    deadline: float
    sample: IntArray = field(default_factory=lambda: np.zeros(0, np.intp))
    n_held_out: int = 0

    def responses(self, numbers: IntArray) -> Float64Array:
        """Return the targets (m, outputs) of the rows with these numbers."""
        return np.asarray(self.targets.part(numbers)[slice(0, len(numbers))], np.float64)

    @property
    def switched(self) -> tuple[tuple[int, ...], ...]:
        """Encoded columns whose sensitivity is measured by switching values, as they have no derivative."""
        columns = self.rows.columns
        return (*columns.groups, *((int(j),) for j in columns.two_valued))


def in_memory(source: RowSource, memory_bytes: int) -> RowSource:
    """Return rows in memory as float32 if they take an eighth of the bytes at most, else as they are."""
    n, d = source.shape
    if 4 * n * d * KEPT_PART > memory_bytes:
        return source
    kept = np.empty((n, d), np.float32)
    for where in row_slices(n, max(1, (1 << 22) // max(1, 8 * d))):
        kept[where] = np.asarray(source.rows(where))
    return ArraySource(kept)


def read_once(source: RowSource) -> RowSource:
    """Return rows in memory if they are few, so that they are encoded once for all members of a model."""
    n, d = source.shape
    return ArraySource(source.rows(slice(0, n))) if n * d <= ONCE_NUMBERS else source


def warn_of_order(rows: EncodedRows) -> None:
    """Warn if the table is sorted by a date, or lists the rows of one value of a category after another.

    To be called where rows are held out at random. Such rows are often a series or repeated measurements.
    Then a row that is drawn at random has close relatives among the training rows, which new rows lack. Time
    one block of the table.
    """
    head = slice(0, min(FIRST_ROWS, rows.shape[0]))
    block = rows.table.block(head)
    for column, place in zip(rows.columns.columns, rows.order, strict=True):
        if column.kind not in (DATE, CATEGORY):
            continue
        name = column.name if rows.columns.named else int(place)
        values = column.numbers(block.cells(place, column.name, column.kind == CATEGORY))
        if column.kind == DATE and _ascending(values):
            _warn(f"Column {name!r} has dates, and the rows are sorted by it.", "come later", "time", name)
            return
        if column.kind == CATEGORY and _in_groups(values):
            same = f"The rows of each value of column {name!r} follow each other."
            _warn(same, "have other values of it", "groups", name)
            return


def _warn(what: str, new: str, parameter: str, name: str | int) -> None:
    given = repr(name) if isinstance(name, str) else f"X[:, {name}]"
    warnings.warn(
        f"{what} Held-out rows are drawn at random, so scores and intervals hold for new rows like these. If "
        f"new rows will {new}, pass {parameter}={given} to fit.",
        AccuracyWarning,
        stacklevel=user_level(),
    )


def _ascending(values: Array) -> bool:
    """Tell whether values never decrease, or never increase, and differ often."""
    known = values[~np.isnan(values)]
    steps = np.sign(np.diff(known))
    return bool(np.count_nonzero(steps) >= FEWEST_VALUES and (steps.min() >= 0 or steps.max() <= 0))


def _in_groups(codes: Array) -> bool:
    """Tell whether the rows of each code follow each other, for many codes of two rows or more on average."""
    n_runs = 1 + np.count_nonzero(np.diff(codes))
    n_values = len(np.unique(codes))
    return bool(n_runs == n_values >= FEWEST_VALUES and len(codes) >= 2 * n_values)
