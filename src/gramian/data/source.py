"""Where rows come from: one small protocol over arrays, memmaps and CSR matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from gramian._tiles import row_slices
from gramian._typing import Array, IntArray, Rows
from gramian.exceptions import InputError


@runtime_checkable
class RowSource(Protocol):
    """Rows in a stable order, read by slice or by index, never all at once."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers."""

    def rows(self, where: slice) -> Rows:
        """Return consecutive rows (a view where the storage allows it)."""

    def take(self, indices: IntArray) -> Rows:
        """Return the rows with these indices, in this order, as a new array."""


class ArraySource:
    """Rows of an ndarray, a ``np.memmap`` or a CSR matrix, never copied whole.

    A memmap of floats is checked for NaN and infinities as its rows are read; other arrays have been
    checked at the estimator's door.
    """

    def __init__(self, X: Rows) -> None:
        self._X = X
        self._check = isinstance(X, np.memmap) and X.dtype.kind == "f"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return int(self._X.shape[0]), int(self._X.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers."""
        return np.dtype(self._X.dtype)

    def rows(self, where: slice) -> Rows:
        """Return consecutive rows as a view."""
        return self._checked(self._plain(self._X[where]), where.start)

    def take(self, indices: IntArray) -> Rows:
        """Return the rows with these indices as a new array; a memmap is read in file order."""
        if not isinstance(self._X, np.memmap):
            return self._plain(self._X[indices])
        order = np.argsort(indices, kind="stable")
        out = np.empty((len(indices), self.shape[1]), self.dtype)
        for part in row_slices(len(order), 4096):
            out[order[part]] = self._X[indices[order[part]]]
        return self._checked(out, None)

    @staticmethod
    def _plain(rows: Rows) -> Rows:
        return np.asarray(rows) if isinstance(rows, np.memmap) else rows

    def _checked(self, rows: Rows, start: int | None) -> Rows:
        if self._check and not np.isfinite(rows).all():
            bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            place = "a sampled row" if start is None else f"row {start + bad}"
            raise InputError(f"X contains NaN or infinity in {place}. Drop such rows or fill them in first.")
        return rows


def as_source(X: Rows | RowSource) -> RowSource:
    """Return ``X`` itself if it is a source, else a source over the array."""
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return ArraySource(X)
    if isinstance(X, RowSource):
        return X
    raise InputError(f"X has type {type(X).__name__}; expected an array, a CSR matrix or a row source.")


def row_blocks(source: RowSource, rows_per_block: int) -> Iterator[tuple[slice, Rows]]:
    """Yield consecutive blocks of a source with their row slices."""
    for where in row_slices(source.shape[0], rows_per_block):
        yield where, source.rows(where)


def sample_rows(source: RowSource, size: int, rng: np.random.Generator) -> tuple[Rows, IntArray]:
    """Draw ``size`` rows without replacement, in row order (all rows where there are fewer)."""
    n = source.shape[0]
    if size >= n:
        return source.rows(slice(0, n)), np.arange(n)
    indices = np.sort(rng.choice(n, size, replace=False))
    return source.take(indices), indices


def column_means(Y: Array, weights: Array | None) -> Array:
    """Weighted mean of each column, accumulated in float64."""
    return np.average(np.asarray(Y, np.float64), axis=0, weights=weights)
