"""Kernel columns for Euclidean distances: one matrix product per tile, with safeguards for accuracy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike
from scipy.spatial.distance import cdist

from gramian._numerics import distance_error, entry_tolerance
from gramian._tiles import MIN_ROWS, row_slices, tile_rows
from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.kernels.columns import (
    Columns,
    ElementMap,
    dense,
    inner_product,
    is_thin,
    scaled_columns,
    squared_norms,
    tile_type,
)


class EuclideanColumns(Columns):
    r"""Columns of a kernel of r² = ‖(x − z)/ℓ‖², computed by one product that includes the norms.

    With a = s(x − c), b = s(z − c), the row [‖a‖², a, 1] times the column [1; −2b; ‖b‖²] is
    ‖a − b‖². s² = |factor|/ℓ² puts the factor of the exponent into the points, and its sign into the column.
    c is the mean of Z, or its median if outliers drag the mean away.

    The product loses digits if the norms exceed the distance: its error is e = ``distance_error``, and that
    of a kernel entry at most slope · e, where slope = sup |dk/d(r²)|. In float32, columns for which that
    exceeds 2e-5 are computed in float64 and rounded afterwards. In float64, entries with r² too small for e
    are recomputed from differences (near-duplicates, and gamma of 1e12). A kernel with an infinite slope
    falls from 1 as r^``order`` near 0.
    """

    normalized = True

    def __init__(
        self,
        Z: Rows,
        dtype: DTypeLike | None,
        lengthscale: FloatArray,
        factor: float,
        elementwise: ElementMap,
        *,
        slope: float,
        order: float = 1.0,
    ) -> None:
        super().__init__(Z.shape[0], tile_type(Z, dtype))
        self._elementwise = elementwise
        scale, sign = np.sqrt(abs(factor)) / lengthscale, float(np.sign(factor))
        self._frame = _Frame(scale, sign, abs(factor), slope, order, self.dtype)
        self._row_size = max(Z.shape)
        self._Z: Rows = Z if is_thin(Z) else dense(Z)
        self._far = np.zeros(0, np.intp)
        self._near: _DenseProduct | None = None
        self._wide: _DenseProduct | None = None
        self._zero: _SparseProduct | None = None
        if sp.issparse(self._Z):
            self._zero = _SparseProduct(self._Z, self._frame)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                self._prepare(self._Z)

    def _prepare(self, Z: Array) -> None:
        points = Z.astype(np.float64)
        n_features = points.shape[1]
        centre = _float32_numbers(points.mean(axis=0) if len(points) else np.zeros(n_features))
        b = (points - centre) * self._frame.scale
        norms = squared_norms(b)
        needy = self._frame.needs_float64(norms, n_features)
        if needy.any():
            # Unlike the mean, the median is not dragged away by an outlier.
            centre = _float32_numbers(np.median(points, axis=0))
            b = (points - centre) * self._frame.scale
            norms = squared_norms(b)
            needy = self._frame.needs_float64(norms, n_features)
        limits = self._frame.limits(norms, n_features)
        everything = np.arange(len(b))
        if self.dtype == np.float64:
            self._near = _DenseProduct(b, centre, Z, everything, self._frame, self.dtype, limits)
            return
        # If most columns need float64, a float32 product for the others costs more than it saves.
        self._far = everything if 2 * needy.sum() > len(b) else np.flatnonzero(needy)
        far = self._far
        if far.size < len(b):
            self._near = _DenseProduct(b, centre, Z, everything, self._frame, self.dtype, np.zeros(len(b)))
        if far.size:
            double = np.dtype(np.float64)
            self._wide = _DenseProduct(b[far], centre, Z, far, self._frame, double, limits[far])

    def write(self, X: Rows, out: FloatArray) -> None:
        by_zero = is_thin(X) or sp.issparse(self._Z)
        if by_zero and self._zero is None:
            self._zero = _SparseProduct(self._Z, self._frame)
        # A distance that overflows is infinite in this dtype, or is recomputed.
        with np.errstate(over="ignore", invalid="ignore"):
            for rows in row_slices(X.shape[0], tile_rows(self._row_size, self.dtype.itemsize)):
                tile = out[rows]
                if by_zero and self._zero is not None:
                    self._zero.write(X[rows], tile)
                else:
                    self._tile(dense(X[rows]), tile)
                self._elementwise(tile)

    def _tile(self, X: Array, tile: FloatArray) -> None:
        if self._near is not None:
            self._near.write(X, tile)
        if self._wide is not None:
            block = np.empty((len(X), self._far.size))
            self._wide.write(X, block)
            tile[:, slice(None) if self._near is None else self._far] = block


@dataclass(frozen=True, slots=True)
class _Frame:
    """Scale and sign in whose units a tile is a signed squared distance; rules of its accuracy in these."""

    scale: Float64Array
    sign: float
    factor: float
    slope: float
    order: float
    dtype: np.dtype[Any]

    def needs_float64(self, norms: Float64Array, n_features: int) -> Any:
        """Return the columns for which a float32 product would miss the tolerance of a tile."""
        error = distance_error(norms / self.factor, n_features, np.float32)
        return self.slope * error > entry_tolerance(np.float32)

    def limits(self, norms: Float64Array, n_features: int) -> Float64Array:
        """Return, per column, the squared distance (in units of the frame) below which to take differences.

        Each family has r²·|dk/d(r²)| < 1, so an error e of r² changes k by at most e/r², and by less than
        slope · e. If the slope is infinite, |dk/d(r²)| ≤ (q/2) r^(q−2) for the order q < 2 bounds the change
        by e·r^(q−2).
        """
        error = distance_error(norms / self.factor, n_features, np.float64)
        tolerance = entry_tolerance(self.dtype)
        limit = error / tolerance
        if np.isinf(self.slope):
            limit = np.minimum(limit, limit ** (2.0 / (2.0 - self.order)))
        else:
            limit = np.where(self.slope * error > tolerance, limit, 0.0)
        return self.factor * limit


def _settle(
    tile: FloatArray,
    sign: float,
    limits: Float64Array,
    limit: float,
    exact: Callable[[IntArray, IntArray], Array],
) -> None:
    """Recompute entries below the limits (or NaN) from differences, and clip all at zero."""
    if tile.size == 0:
        return
    # Checking the nearest pair is cheaper than clipping every entry.
    nearest = sign * (tile.max() if sign < 0 else tile.min())
    if nearest > limit or nearest == limit == 0:
        return
    if limit > 0 or np.isnan(nearest):
        close = ~(sign * tile > limits)
        rows, columns = np.flatnonzero(close.any(axis=1)), np.flatnonzero(close.any(axis=0))
        tile[np.ix_(rows, columns)] = sign * exact(rows, columns)
    # np.clip is three times as fast as np.minimum and np.maximum, which are slow for a single number.
    np.clip(tile, *((-np.inf, 0.0) if sign < 0 else (0.0, np.inf)), out=tile)


def _float32_numbers(centre: Float64Array) -> Float64Array:
    """Round a centre to float32, so that x − c is the same number in both precisions."""
    largest = float(np.finfo(np.float32).max)
    return np.clip(centre, -largest, largest).astype(np.float32).astype(np.float64)


def _exact(
    scale: Float64Array, X: Rows, Z: Rows, numbers: IntArray, rows: IntArray, columns: IntArray
) -> Float64Array:
    """Return squared distances from differences of rows and numbered points, accurate to the last digits."""
    exact = np.empty((len(rows), len(columns)))
    for i in row_slices(len(rows), MIN_ROWS):
        part = dense(X[rows[i]], np.float64)
        for j in row_slices(len(columns), MIN_ROWS):
            points = dense(Z[numbers[columns[j]]], np.float64)
            if scale.size == 1:
                exact[i, j] = cdist(part, points, "euclidean") ** 2 * scale**2
            else:
                exact[i, j] = cdist(part, points, "seuclidean", V=scale**-2.0) ** 2
    return exact


class _DenseProduct:
    """Signed squared distances to dense points, about their centre, in one dtype."""

    def __init__(
        self,
        b: Float64Array,
        centre: Float64Array,
        points: Array,
        columns: IntArray,
        frame: _Frame,
        dtype: np.dtype[Any],
        limits: Float64Array,
    ) -> None:
        self._points, self._columns = points, columns
        self._centre, self._frame, self._dtype = centre, frame, dtype
        self._rounded_centre, self._scale = centre.astype(dtype), frame.scale.astype(dtype)
        self._limits, self._limit = limits, float(limits.max(initial=0.0))
        m, d = b.shape
        rounded = b.astype(dtype)
        self._factor = np.empty((d + 2, m), dtype)
        # One norm first and one last: the partial sums stay between −‖b‖² and ‖a‖², which halves
        # the rounding error of a sum that starts or ends with both.
        self._factor[0] = frame.sign
        np.multiply(rounded.T, -2.0 * frame.sign, out=self._factor[1:-1])
        self._factor[-1] = frame.sign * squared_norms(rounded)

    def write(self, X: Array, tile: FloatArray) -> None:
        np.matmul(self._augmented(X), self._factor, out=tile)
        exact = partial(_exact, self._frame.scale, X, self._points, self._columns)
        _settle(tile, self._frame.sign, self._limits, self._limit, exact)

    def _augmented(self, X: Array) -> FloatArray:
        n, d = X.shape
        # Values that float32 cannot hold are subtracted in float64; the difference may then be rounded.
        exact = X.dtype.itemsize <= (4 if X.dtype.kind == "f" else 2)
        if exact:
            # Contiguous numbers first: the columns of a wider array take twice as long.
            body = np.subtract(X, self._rounded_centre, dtype=self._dtype)
        else:
            body = np.subtract(X, self._centre, dtype=np.float64).astype(self._dtype, copy=False)
        body *= self._scale
        a = np.empty((n, d + 2), self._dtype)
        a[:, 0] = squared_norms(body)
        a[:, 1:-1] = body
        a[:, -1] = 1.0
        return a


class _SparseProduct:
    """Signed squared distances for sparse X or Z: not centred, and in float64 throughout."""

    def __init__(self, Z: Rows, frame: _Frame) -> None:
        self._frame, self._Z = frame, Z
        self._points = scaled_columns(Z, frame.scale)
        self._norms = squared_norms(self._points)
        self._limits = frame.limits(self._norms, Z.shape[1])
        self._limit = float(self._limits.max(initial=0.0))

    def write(self, X: Rows, tile: FloatArray) -> None:
        a = scaled_columns(X, self._frame.scale)
        square = inner_product(a, self._points)
        square *= -2.0
        square += squared_norms(a)[:, None]
        square += self._norms
        exact = partial(_exact, self._frame.scale, X, self._Z, np.arange(self._Z.shape[0]))
        _settle(square, 1.0, self._limits, self._limit, exact)
        np.multiply(square, self._frame.sign, out=tile, casting="same_kind")
