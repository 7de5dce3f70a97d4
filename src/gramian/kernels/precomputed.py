"""Precomputed kernel: a point is a row number, and values are looked up in a stored matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from gramian._numerics import STORED_TOLERANCE
from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.exceptions import InputError
from gramian.kernels.base import Kernel
from gramian.kernels.columns import Columns, ColumnsOf

#: Bytes of a page of a file: the cost of a block is the number of pages that it touches.
PAGE_BYTES = 4096
#: Symmetry is checked on the whole matrix up to WHOLE_ROWS rows, else on N_TILES tiles of side TILE_SIDE.
#: Chosen by hand.
WHOLE_ROWS, N_TILES, TILE_SIDE = 2048, 256, 64
#: Largest row number that is exact in float32. A dense float32 matrix of that size would take a petabyte.
MOST_ROWS = 2**24

#: Advice in errors about rows that came where a matrix was expected.
CURE = "Pass K(X, X) of shape (n, n), or the rows themselves with a kernel's name"


class StoredMatrix:
    """Kernel values of rows i and training rows j in an array, a memmap or a CSR matrix, read by blocks.

    values : (rows, training rows); never copied, and of a memmap only the requested blocks are read.
    symmetric : the rows are the training rows, so a block may be read as its transpose if that touches fewer
        pages of the file.
    """

    def __init__(self, values: Rows, *, symmetric: bool = False) -> None:
        self.sparse = sp.issparse(values)
        self._values: Any = sp.csr_array(values) if self.sparse else values
        # An array stored by columns is read as the rows of its transpose.
        flags = getattr(values, "flags", None)
        self._flipped = flags is not None and flags.f_contiguous and not flags.c_contiguous
        if self._flipped:
            self._values = self._values.T
        self.symmetric = symmetric
        self.shape = int(values.shape[0]), int(values.shape[1])
        self.dtype = np.dtype(values.dtype)
        self._check = isinstance(values, np.memmap) and self.dtype.kind == "f"

    def paired(self) -> StoredMatrix:
        """Return the matrix as K(X, X) of the training rows; raise if it cannot be one."""
        check_kernel_matrix(self._values)
        return StoredMatrix(self._values, symmetric=True)

    def block(self, rows: IntArray, columns: IntArray) -> Array:
        """Return the block of these rows and columns in the stored type. Time O(rows · columns)."""
        if self.sparse:
            return np.asarray(self._values[rows][:, columns].toarray())
        if self.symmetric:
            flip = len(columns) * self._pages(rows) < len(rows) * self._pages(columns)
        else:
            flip = self._flipped
        block = self._read(columns, rows).T if flip else self._read(rows, columns)
        if self._check:
            _check_finite(block, rows, columns)
        return block

    def diagonal(self, numbers: IntArray) -> Array:
        """Return k(x_i, x_i) of these training rows."""
        if not self.symmetric:
            raise InputError(
                f"X has shape {self.shape} and no kernel values of its rows with each other. Pass the "
                "training matrix K(X, X)."
            )
        values = np.asarray(self._values[numbers, numbers]).ravel()
        bad = np.flatnonzero(~np.isfinite(values))[:1]
        _check_finite(values[bad], numbers[bad], numbers[bad])
        return values

    def _read(self, rows: IntArray, columns: IntArray) -> Array:
        """Return a block of the stored array; consecutive numbers are read as slices."""
        down, along = _run(rows), _run(columns)
        if isinstance(down, slice) or isinstance(along, slice):
            return np.asarray(self._values[down, along])
        return np.asarray(self._values[rows[:, None], columns])

    def _pages(self, columns: IntArray) -> int:
        """Return the number of pages of a stored row that these columns touch."""
        pages = columns * self.dtype.itemsize // PAGE_BYTES
        return int(np.count_nonzero(np.diff(pages))) + 1


def _check_finite(block: Array, rows: Sequence[int] | IntArray, columns: Sequence[int] | IntArray) -> None:
    """Raise if a block contains NaN or infinity, and say where."""
    bad = np.argwhere(~np.isfinite(block))
    if len(bad):
        i, j = bad[0][0], bad[0][-1]
        raise InputError(
            f"X contains NaN or infinity: X[{rows[i]}, {columns[j]}] is {block[tuple(bad[0])]}. Drop that "
            "row (and at fit the column), or fill it in."
        )


def _run(numbers: IntArray) -> slice | IntArray:
    """Return consecutive numbers as a slice, and others unchanged."""
    if len(numbers) and (np.diff(numbers) == 1).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers


class StoredRows:
    """Row source of a stored matrix: the rows are their numbers, shape (n, 1)."""

    dtype = np.dtype(np.float64)

    def __init__(self, matrix: StoredMatrix) -> None:
        self.matrix = matrix

    @property
    def shape(self) -> tuple[int, int]:
        """(n, 1): a row is its number."""
        return self.matrix.shape[0], 1

    def rows(self, where: slice) -> Float64Array:
        """Return the numbers of consecutive rows."""
        return np.arange(*where.indices(self.shape[0]), dtype=np.float64)[:, None]

    def take(self, indices: IntArray) -> Float64Array:
        """Return the numbers of these rows."""
        return np.asarray(indices, np.float64)[:, None]


@dataclass(frozen=True, eq=False)
class Precomputed(Kernel):
    """k(x_i, z_j) = matrix[i, j]: rows are (n, 1) arrays of row numbers, landmarks numbers of training rows.

    Algorithms that pick rows pick numbers; algorithms that average points refuse this kernel. Estimators bind
    a matrix during a call only and keep ``Precomputed()``, so that a fitted model does not refer to the
    matrix. The matrix need not be positive semi-definite: whitening clips negative eigenvalues and reports
    them.
    """

    matrix: StoredMatrix | None = field(default=None, repr=False)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 if the stored values are float32 or float16, else float64."""
        stored = np.dtype(np.float64) if self.matrix is None else self.matrix.dtype
        return np.dtype(np.float32 if stored.kind == "f" and stored.itemsize <= 4 else np.float64)

    definite = False

    def against(self, Z: Rows, dtype: DTypeLike | None = None) -> Columns:
        values = np.asarray(Z)[:, 0]
        if self.matrix is not None:
            n_train = self.matrix.shape[1]
            wrong = (values != np.floor(values)) | (values < 0) | (values >= n_train)
            if wrong.any():
                raise InputError(
                    f"landmarks holds {values[int(wrong.argmax())]:g}, but with kernel='precomputed' a "
                    "landmark is the number of a training row. Give whole numbers from 0 to "
                    f"{n_train - 1}, shape (m, 1)."
                )
        tiles = np.float64 if dtype is None else dtype
        return ColumnsOf(len(values), tiles, partial(self._write, row_numbers(Z)))

    def _write(self, numbers: IntArray, X: Rows, out: FloatArray) -> None:
        """Write the stored values of rows and landmarks."""
        if self.matrix is None:
            raise InputError(
                "a fitted model does not keep the precomputed matrix. Call its methods with "
                "K(X_new, X_train), not its parts."
            )
        rows = row_numbers(X)
        height = len(rows) if self.matrix.sparse else tile_rows(len(numbers), out.itemsize)
        for part in row_slices(len(rows), max(1, height)):
            out[part] = self.matrix.block(rows[part], numbers)

    def diagonal(self, X: Rows) -> Float64Array:
        if self.matrix is None:
            raise InputError(
                "a fitted model does not keep the precomputed matrix. Pass it to the method again."
            )
        return self.matrix.diagonal(row_numbers(X)).astype(np.float64)


#: A map or predictor with a method ``on(kernel)``, which returns the same one with another kernel.
Bound = TypeVar("Bound", bound=Any)


def bound(model: Bound, source: object) -> Bound:
    """Return a fitted map or predictor for these rows: with their values, where they are precomputed."""
    if isinstance(source, StoredRows):
        model = model.with_kernel(Precomputed(source.matrix))
    return model


def released(model: Bound, kernel: Kernel) -> tuple[Bound, Kernel]:
    """Return what a fit keeps of a map or predictor, and of its kernel: no precomputed matrix."""
    if not isinstance(kernel, Precomputed):
        return model, kernel
    return model.with_kernel(Precomputed()), Precomputed()


def row_numbers(rows: Rows) -> IntArray:
    """Return the row numbers held in rows of shape (n, 1)."""
    return np.asarray(rows)[:, 0].astype(np.intp)


def check_kernel_matrix(values: Rows) -> None:
    """Raise for a training matrix that cannot be K(X, X): not square, not symmetric, no diagonal.

    Symmetry is checked for all pairs of a sparse matrix or of up to 2,048 rows, else on 256 tiles of 64 × 64
    pairs, always the same ones: O(n) reads. Differences up to the rounding error of float32 are accepted.
    """
    n, width = values.shape
    if n != width:
        raise InputError(
            f"X has shape {(n, width)}; with kernel='precomputed' fit takes the kernel values of the "
            f"training rows with each other, a square matrix. {CURE}."
        )
    if n > MOST_ROWS:
        raise InputError(
            f"X has {n} rows; kernel='precomputed' takes at most {MOST_ROWS}. Pass the rows themselves with "
            "a kernel's name."
        )
    diagonal = StoredMatrix(values, symmetric=True).diagonal(np.arange(n)).astype(np.float64)
    size, apart, where, pair = _asymmetry(values)
    size = max(size, float(np.abs(diagonal).max()))
    if apart > STORED_TOLERANCE * size:
        i, j = where
        raise InputError(
            f"X is not symmetric: X[{i}, {j}] is {pair[0]:.6g} and X[{j}, {i}] is {pair[1]:.6g}, the largest "
            f"difference of the checked pairs ({apart:.3g}). With kernel='precomputed' the training matrix "
            "is K(X, X), rows and columns in the same order. Pass (K + K.T)/2 if you mean that."
        )
    least = int(diagonal.argmin())
    if diagonal[least] < -STORED_TOLERANCE * size:
        raise InputError(
            f"X[{least}, {least}] is {diagonal[least]:.6g}, but k(x, x) cannot be negative. {CURE}."
        )
    if size > 0.0 and float(diagonal.max()) <= STORED_TOLERANCE * size:
        raise InputError(
            "the diagonal of X is zero, as in a matrix of distances. Pass kernel values, such as "
            "np.exp(-gamma * X**2) of Euclidean distances."
        )


def _asymmetry(values: Rows) -> tuple[float, float, tuple[int, int], tuple[float, float]]:
    """Return the largest |K_ij| and |K_ij − K_ji| that were met, and where, with both entries, the latter."""
    n = values.shape[0]
    if sp.issparse(values):
        # Only entries that are stored in K or in Kᵀ can differ.
        gap: Any = abs(values.astype(np.float64) - values.T.astype(np.float64)).tocoo()
        size = float(abs(values).max()) if values.nnz else 0.0
        worst = int(gap.data.argmax()) if gap.nnz else -1
        if worst < 0:
            return size, 0.0, (0, 0), (0.0, 0.0)
        i, j = int(gap.row[worst]), int(gap.col[worst])
        return size, float(gap.data[worst]), (i, j), (float(values[i, j]), float(values[j, i]))
    size, apart, where = 0.0, 0.0, (0, 0)
    for rows, columns in _tile_pairs(n):
        upper = np.asarray(values[rows, columns], np.float64)
        lower = np.asarray(values[columns, rows], np.float64).T
        size = max(size, float(np.abs(upper).max()), float(np.abs(lower).max()))
        _check_finite(upper, range(n)[rows], range(n)[columns])
        _check_finite(lower.T, range(n)[columns], range(n)[rows])
        gaps = np.abs(upper - lower)
        if gaps.max() > apart:
            down, along = divmod(int(gaps.argmax()), gaps.shape[1])
            apart, where = float(gaps[down, along]), (rows.start + down, columns.start + along)
    i, j = where
    return size, apart, where, (float(values[i, j]), float(values[j, i]))


def _tile_pairs(n: int) -> list[tuple[slice, slice]]:
    """Return the tiles of the upper triangle that are compared with their mirror images."""
    tiles = list(row_slices(n, TILE_SIDE))
    if n <= WHOLE_ROWS:
        return [(a, b) for i, a in enumerate(tiles) for b in tiles[i:]]
    drawn = np.sort(np.random.default_rng(0).integers(len(tiles), size=(N_TILES, 2)), axis=1)
    return [(tiles[a], tiles[b]) for a, b in drawn]
