"""Prepared kernel columns k(·, Z) for fixed points Z, which fill tiles k(X[i:j], Z).

Everything that depends on Z only (centre, norms, factor of the product) is computed once. ``into`` then takes
one product and one in-place elementwise map per tile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.exceptions import InputError

#: Below this share of stored entries a sparse product is faster than a dense one. Chosen by hand.
THIN = 1 / 32

ElementMap = Callable[[FloatArray], None]


class Columns(ABC):
    """The m columns k(·, Z) for fixed points Z, computed tile by tile."""

    #: Whether k(x, x) = 1, so that features are at most 1 and tiny ones are rounding.
    normalized = False

    def __init__(self, n_columns: int, dtype: DTypeLike | None) -> None:
        self.n_columns = n_columns
        self.dtype = np.dtype(dtype)

    @abstractmethod
    def write(self, X: Rows, out: FloatArray) -> None:
        """Write k(X, Z) into ``out`` of shape (rows of X, m) and this evaluator's dtype."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that the evaluator holds."""
        return sum(v.nbytes for v in vars(self).values() if isinstance(v, np.ndarray))

    def __call__(self, X: Rows) -> FloatArray:
        out = np.empty((X.shape[0], self.n_columns), self.dtype)
        self.write(X, out)
        return out


def dense(X: Rows, dtype: DTypeLike | None = None) -> Array:
    """Return rows as a dense array, without a copy if nothing has to change."""
    array = X.toarray() if sp.issparse(X) else np.asarray(X)
    return array if dtype is None else array.astype(dtype, copy=False)


def float_type(*arrays: Rows) -> np.dtype[Any]:
    """Return the type of a result: float32 for float32 inputs (bytes may be among them), else float64."""
    small = all(a.dtype == np.float32 or a.dtype.itemsize == 1 for a in arrays)
    single = small and any(a.dtype == np.float32 for a in arrays)
    return np.dtype(np.float32 if single else np.float64)


def tile_type(Z: Rows, dtype: DTypeLike | None) -> np.dtype[Any]:
    """Return the type of the tiles k(·, Z) if ``dtype`` is asked for; None leaves it to the points."""
    return float_type(Z) if dtype is None else np.dtype(dtype)


def leave(t: FloatArray) -> None:
    """Leave a tile as it is."""


def is_thin(X: Rows) -> bool:
    """Return whether rows are so sparse that a sparse product is faster than dense tiles."""
    return sp.issparse(X) and X.nnz < THIN * X.shape[0] * X.shape[1]


def inner_product(A: Rows, B: Rows) -> Float64Array:
    """Return A Bᵀ as a dense array; either may be sparse."""
    if sp.issparse(A):
        product = A @ B.T
        return product.toarray() if sp.issparse(product) else np.asarray(product)
    return np.ascontiguousarray(np.asarray(B @ A.T).T)


def squared_norms(X: Rows, weights: FloatArray | None = None) -> Float64Array:
    """Return Σ_f w_f x_f² of each row in float64, for rows of any type."""
    if sp.issparse(X):
        square: Any = X.astype(np.float64)
        square = square.multiply(square)
        if weights is not None:
            square = square.multiply(weights)
        return np.asarray(square.sum(axis=1), np.float64).ravel()
    wide = np.asarray(X, np.float64)
    if weights is None:
        return np.asarray(np.einsum("ij,ij->i", wide, wide))
    return np.asarray(np.einsum("ij,ij->i", wide, wide * weights))


def scaled_columns(X: Any, scale: FloatArray) -> Rows:
    """Return rows in float64 with each feature multiplied by its scale; sparse rows stay sparse."""
    thin = sp.issparse(X)
    return sp.csr_array(X.astype(np.float64).multiply(scale)) if thin else np.asarray(X, np.float64) * scale


def check_block(block: Rows, n_rows: int, n_columns: int) -> Array:
    """Return the result of a user's kernel function; raise if it is not a block of real numbers."""
    array = dense(block)
    if array.shape != (n_rows, n_columns) or array.dtype.kind not in "fiub":
        raise InputError(
            f"the kernel function returned shape {array.shape} and dtype {array.dtype} for {n_rows} rows "
            f"and {n_columns} points; expected real numbers of shape ({n_rows}, {n_columns}). Return an "
            "array with f(X, Z)[i, j] = k(x_i, z_j)."
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        i, j = np.argwhere(np.isnan(array))[0]
        raise InputError(
            f"the kernel function returned NaN, first for row {i} and point {j} of a block of {n_rows} rows "
            f"and {n_columns} points. Return a number for every pair of rows."
        )
    return array


class DotColumns(Columns):
    """Columns of a kernel of the inner product x·z/ℓ², or of the cosine of the angle."""

    def __init__(
        self,
        Z: Rows,
        dtype: DTypeLike | None,
        lengthscale: FloatArray,
        elementwise: ElementMap,
        *,
        normalize: bool = False,
    ) -> None:
        super().__init__(Z.shape[0], tile_type(Z, dtype))
        self._elementwise = elementwise
        self._normalize = normalize
        self._weights = np.broadcast_to(lengthscale**-2.0, (Z.shape[1],))
        self._row_size = max(Z.shape)
        # Z carries the weights of both factors, so that rows of X are used as they are.
        self._points: Any = scaled_columns(Z if is_thin(Z) else dense(Z), self._weights)
        if normalize:
            inverse = 1.0 / _norms_or_one(Z, self._weights)
            self._points = scaled_columns(self._points.T, inverse).T
        self._factor = None if sp.issparse(self._points) else self._points.T.astype(self.dtype, order="C")

    def write(self, X: Rows, out: FloatArray) -> None:
        for rows in row_slices(X.shape[0], tile_rows(self._row_size, self.dtype.itemsize)):
            part, tile = X[rows], out[rows]
            if self._factor is None or is_thin(X):
                wide = part.astype(np.float64) if sp.issparse(part) else dense(part, np.float64)
                tile[...] = inner_product(wide, self._points)
            else:
                np.matmul(dense(part, self.dtype), self._factor, out=tile)
            if self._normalize:
                tile /= _norms_or_one(part, self._weights).astype(self.dtype)[:, None]
            self._elementwise(tile)


def _norms_or_one(points: Rows, weights: FloatArray) -> Float64Array:
    norms = np.sqrt(squared_norms(points, weights))
    return np.where(norms > 0, norms, 1.0)


class ColumnsOf(Columns):
    """Columns that ``write(X, out)`` fills: of a kernel that is made of others, or of a user's function."""

    def __init__(self, n_columns: int, dtype: DTypeLike, write: Callable[[Rows, FloatArray], None]) -> None:
        super().__init__(n_columns, dtype)
        self._write = write

    def write(self, X: Rows, out: FloatArray) -> None:
        self._write(X, out)
