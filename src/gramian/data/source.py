"""Row sources: one small protocol for arrays, memmaps and sparse matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices
from gramian._typing import Array, IntArray, Rows
from gramian.data.values import refuse_not_finite, refuse_overflow
from gramian.exceptions import InputError

#: Types of numbers that are read unchanged; others are converted when a source is made.
KEPT = (np.float64, np.float32, np.uint8, np.int8, np.uint16, np.int16, np.int32, np.int64)
#: Rows of a memmap that are gathered at a time, so that the intermediate copy stays small. Chosen by hand.
TAKE_ROWS = 4096
#: One byte in each page of this many bytes is read, which loads a mapped file's pages into memory.
PAGE = 4096


@runtime_checkable
class RowSource(Protocol):
    """Rows in a stable order, read by slice or by index, never all at once.

    A source may also have ``reads_ahead`` (if True, ``row_blocks`` reads a block ahead in a thread, so
    ``rows`` must allow calls from another thread), ``row_bytes`` (bytes to read one row besides the caller's
    array, for plans), ``read_bytes`` (bytes needed for any read), ``feature_names`` (texts, matched like a
    DataFrame's) and ``target`` (the default y of a fit).
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and features."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers."""

    def rows(self, where: slice) -> Rows:
        """Return consecutive rows (a view if the storage allows it)."""

    def take(self, indices: IntArray) -> Rows:
        """Return the rows with these indices, in this order, as a new array."""


class ArraySource:
    """Rows of an ndarray, a ``np.memmap`` or a sparse matrix; only sparse formats other than CSR are copied.

    A memmap of floats is checked for NaN and infinities as its rows are read; other arrays have already
    been checked by the estimator.

    >>> source = ArraySource(np.arange(6.0).reshape(3, 2))
    >>> source.take(np.array([2, 0]))
    array([[4., 5.],
           [0., 1.]])
    """

    #: Names of the columns, if they are known.
    feature_names: tuple[str, ...] | None = None

    def __init__(self, X: Rows) -> None:
        if X.ndim != 2:
            raise InputError(
                f"X has shape {X.shape}; expected one row a sample, (n, d). "
                "Pass X.reshape(-1, 1) for a single feature, X.reshape(1, -1) for a single sample."
            )
        #: The rows, in memory or mapped from a file. Of the sparse formats only CSR reads rows fast.
        self.array: Rows = X.tocsr() if sp.issparse(X) else X
        #: Number of rows and features.
        self.shape: tuple[int, int] = int(X.shape[0]), int(X.shape[1])
        #: Type of the stored numbers.
        self.dtype: np.dtype[Any] = np.dtype(X.dtype)
        #: Whether ``row_blocks`` reads the next block in a thread; True for data on disk.
        self.reads_ahead = isinstance(X, np.memmap)
        self._check = self.reads_ahead and self.dtype.kind == "f"
        #: Bytes to read a row: the mask that finds NaN in a memmap of floats takes a byte for each number.
        self.row_bytes = self.shape[1] if self._check else 0

    def rows(self, where: slice) -> Rows:
        """Return consecutive rows: a view, or for a CSR matrix a copy of these rows."""
        rows = self.array[where]
        if not isinstance(rows, np.memmap):
            return rows
        return self._checked(np.asarray(rows), range(self.shape[0])[where])

    def take(self, indices: IntArray) -> Rows:
        """Return the rows with these indices as a new array; a memmap is read in file order."""
        if not isinstance(self.array, np.memmap):
            return self.array[indices]
        order = np.argsort(indices, kind="stable")
        out = np.empty((len(indices), self.shape[1]), self.dtype)
        for part in row_slices(len(order), TAKE_ROWS):
            out[order[part]] = self.array[indices[order[part]]]
        return self._checked(out, indices)

    def _checked(self, rows: Array, numbers: Sequence[int] | IntArray) -> Array:
        """Return rows, or raise for the first bad one; ``numbers`` are their row numbers in the source."""
        if self._check:
            refuse_not_finite(rows, lambda row: f"row {int(numbers[row])}")
            refuse_overflow(rows, number=lambda row: int(numbers[row]))
        return rows


class SubsetRows:
    """The rows of ``source`` with these numbers, in this order; nothing is copied until it is read.

    >>> rows = SubsetRows(ArraySource(np.arange(6.0).reshape(3, 2)), np.array([2, 0]))
    >>> rows.shape, rows.rows(slice(0, 1))
    ((2, 2), array([[4., 5.]]))
    """

    def __init__(self, source: RowSource, numbers: IntArray) -> None:
        self.source, self.numbers = source, numbers
        self.shape, self.dtype = (len(numbers), source.shape[1]), source.dtype
        self.reads_ahead: bool = getattr(source, "reads_ahead", False)
        self.read_bytes: int = getattr(source, "read_bytes", 0)
        self.row_bytes: int = getattr(source, "row_bytes", 2 * source.shape[1] * source.dtype.itemsize)
        self.feature_names = getattr(source, "feature_names", None)

    def rows(self, where: slice) -> Rows:
        """Return consecutive rows as a new array."""
        return self.source.take(self.numbers[where])

    def take(self, indices: IntArray) -> Rows:
        """Return the rows with these indices, in this order, as a new array."""
        return self.source.take(self.numbers[indices])


def as_source(X: Rows | RowSource) -> RowSource:
    """Return ``X`` itself if it is a source, else a source of the array."""
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return ArraySource(X)
    if isinstance(X, RowSource):
        return X
    raise InputError(
        f"X has type {type(X).__name__}; expected an array, a sparse matrix or a row source. "
        "Pass np.asarray(X), or an object with shape, dtype, rows and take."
    )


def row_blocks(source: RowSource, rows_per_block: int, start: int = 0) -> Iterator[tuple[slice, Rows]]:
    """Yield consecutive blocks of a source with their row slices, from the block that begins at ``start``.

    If the source ``reads_ahead``, a thread reads the next block while the caller works on this one.
    """
    slices = (where for where in row_slices(source.shape[0], rows_per_block) if where.start >= start)
    if getattr(source, "reads_ahead", False):
        yield from read_ahead(source.rows, slices)
        return
    for where in slices:
        yield where, source.rows(where)


def sample_rows(source: RowSource, size: int, rng: np.random.Generator) -> tuple[Rows, IntArray]:
    """Draw ``size`` rows without replacement, in row order; return all rows if there are fewer."""
    n = source.shape[0]
    if size >= n:
        return source.rows(slice(0, n)), np.arange(n)
    indices = np.sort(rng.choice(n, size, replace=False))
    return source.take(indices), indices


def read_ahead(read: Callable[[slice], Rows], slices: Iterable[slice]) -> Iterator[tuple[slice, Rows]]:
    """Yield ``(where, read(where))`` in order; the next block is read while the caller works on this one.

    An error from ``read`` is raised here, at its block. The thread ends with the iterator, even if the
    caller stops early: closing the iterator waits for the block that is being read.
    """
    todo = iter(slices)
    with ThreadPoolExecutor(1, thread_name_prefix="gramian-read") as thread:
        where = next(todo, None)
        block: Future[Rows] | None = None if where is None else thread.submit(_read, read, where)
        try:
            while where is not None and block is not None:
                rows = block.result()
                here, where = where, next(todo, None)
                block = None if where is None else thread.submit(_read, read, where)
                yield here, rows
        finally:
            if block is not None:
                block.cancel()


def _read(read: Callable[[slice], Rows], where: slice) -> Rows:
    rows = read(where)
    if isinstance(rows, np.ndarray) and isinstance(rows.base, np.memmap) and rows.flags.c_contiguous:
        # A view of a mapped file has not been read yet; a sum over one byte of each page reads it.
        rows.reshape(-1).view(np.uint8)[::PAGE].sum()
    return rows
