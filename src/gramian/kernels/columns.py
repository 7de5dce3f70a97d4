"""A kernel prepared against fixed points Z: the evaluator that fills tiles k(X[i:j], Z).

Everything that depends on Z alone (centre, norms, the augmented factor of the product) is computed
once; ``into`` is then one GEMM and one in-place elementwise map per tile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._numerics import unit_roundoff
from gramian._tiles import row_slices, tile_rows
from gramian._typing import Array, FloatArray, Rows

#: Largest entrywise error accepted from a float32 tile; beyond it the column takes float64.
FLOAT32_TOLERANCE = 2e-5

ElementMap = Callable[[FloatArray], None]


class Columns(ABC):
    """k(·, Z) for fixed Z: m columns, filled a tile at a time."""

    def __init__(self, n_columns: int, dtype: Any) -> None:
        self.n_columns = n_columns
        self.dtype = np.dtype(dtype)

    @abstractmethod
    def into(self, X: Rows, out: FloatArray) -> None:
        """Write k(X, Z) into ``out`` of shape (rows of X, m) and this evaluator's dtype."""

    def __call__(self, X: Rows) -> FloatArray:
        out = np.empty((X.shape[0], self.n_columns), self.dtype)
        self.into(X, out)
        return out


def dense(X: Rows, dtype: Any = None) -> Array:
    """Return rows as a dense array (a view where nothing has to change)."""
    array = X.toarray() if sp.issparse(X) else np.asarray(X)
    return array if dtype is None else array.astype(dtype, copy=False)


def float_type(*arrays: Rows) -> np.dtype[Any]:
    """Working dtype of a result: float32 if every input is float32 (or a byte), else float64."""
    small = all(a.dtype == np.float32 or a.dtype.itemsize == 1 for a in arrays)
    single = small and any(a.dtype == np.float32 for a in arrays)
    return np.dtype(np.float32 if single else np.float64)


class EuclideanColumns(Columns):
    r"""Columns of a kernel of r² = ‖(x − z)/ℓ‖², by one product with the norms folded in.

    With a = s(x − c), b = s(z − c), the row [a, σ‖a‖², 1] times the column [−2σb; 1; σ‖b‖²] is σ‖a − b‖²;
    s² = |factor|/ℓ² puts the factor of the exponent into the points, σ is its sign.

    In float32 the product loses digits when the norms exceed the distance. Columns for which
    4u(4 + ρ)² > 2e-5, ρ = ‖z − c‖/(√2 ℓ), are therefore computed in float64 and rounded after (c is
    the mean of Z). For entries that are not negligible ‖x − c‖ is within 4√2 ℓ of ‖z − c‖, so that
    the criterion need not know x.
    """

    def __init__(
        self,
        Z: Rows,
        dtype: Any,
        lengthscale: FloatArray,
        factor: float,
        elementwise: ElementMap,
        *,
        smooth: bool,
    ) -> None:
        super().__init__(Z.shape[0], dtype)
        self._elementwise = elementwise
        self._sign = float(np.sign(factor))
        self._scale = np.sqrt(abs(factor)) / lengthscale
        self._clamp = np.minimum if factor < 0 else np.maximum
        self._sparse_z = Z if sp.issparse(Z) else None
        points = dense(Z, np.float64)
        # The centre is a float32 number, so that x − c is the same in both precisions.
        self._centre = points.mean(axis=0).astype(np.float32).astype(np.float64)
        scaled = (points - self._centre) * self._scale
        self._near = self._augment_z(scaled.astype(self.dtype))
        self._far = np.zeros(0, np.intp)
        if self.dtype == np.float32:
            rho = np.sqrt(np.einsum("ij,ij->i", scaled, scaled) / (2.0 * abs(factor)))
            bound = 4.0 * unit_roundoff(np.float32) * (4.0 + rho) ** 2
            worst = bound > FLOAT32_TOLERANCE if smooth else np.ones(len(rho), bool)
            self._far = np.flatnonzero(worst)
        self._far_factor = self._augment_z(scaled[self._far]) if self._far.size else None
        self._points = points

    def _augment_z(self, b: FloatArray) -> FloatArray:
        m, d = b.shape
        factor = np.empty((d + 2, m), b.dtype)
        np.multiply(b.T, -2.0 * self._sign, out=factor[:d])
        factor[d] = 1.0
        factor[d + 1] = self._sign * np.einsum("ij,ij->i", b, b)
        return factor

    def _augment_x(self, X: Array, dtype: Any) -> FloatArray:
        n, d = X.shape
        wide = X.dtype == np.float64 or (X.dtype.kind in "iu" and X.dtype.itemsize > 2)
        work = np.float64 if wide else dtype
        a = np.empty((n, d + 2), dtype)
        body = a[:, :d]
        np.subtract(X, self._centre.astype(work), out=body, dtype=work, casting="same_kind")
        body *= self._scale.astype(dtype)
        np.einsum("ij,ij->i", body, body, out=a[:, d])
        a[:, d] *= self._sign
        a[:, d + 1] = 1.0
        return a

    def into(self, X: Rows, out: FloatArray) -> None:
        if sp.issparse(X):
            self._sparse_into(X, out)
            self._finish(out)
            return
        X = np.asarray(X)
        near = self._augment_x(X, self.dtype) if self._far.size < self.n_columns else None
        far = self._augment_x(X, np.float64) if self._far_factor is not None else None
        for rows in row_slices(len(X), tile_rows(self.n_columns, self.dtype.itemsize)):
            tile = out[rows]
            if near is not None:
                np.matmul(near[rows], self._near, out=tile)
            if far is not None and self._far_factor is not None:
                tile[:, self._far] = far[rows] @ self._far_factor
            self._finish(tile)

    def _finish(self, tile: FloatArray) -> None:
        # Rounding may leave a squared distance below zero. Looking is cheaper than clamping.
        if (tile.max() if self._sign < 0 else tile.min()) * self._sign < 0:
            self._clamp(tile, 0.0, out=tile)
        self._elementwise(tile)

    def _sparse_into(self, X: Any, out: FloatArray) -> None:
        # Zero is the natural centre of sparse rows; float64 throughout keeps the digits.
        a = X.astype(np.float64).multiply(self._scale).tocsr()
        if self._sparse_z is not None:
            b = self._sparse_z.astype(np.float64).multiply(self._scale).tocsr()
            square = (a @ b.T).toarray()
            norms = np.asarray(b.multiply(b).sum(axis=1)).ravel()
        else:
            scaled = self._points * self._scale
            square = np.asarray(a @ scaled.T)
            norms = np.einsum("ij,ij->i", scaled, scaled)
        square *= -2.0
        square += np.asarray(a.multiply(a).sum(axis=1)).reshape(-1, 1)
        square += norms
        np.multiply(square, self._sign, out=out, casting="same_kind")


class DotColumns(Columns):
    """Columns of a kernel of the inner product x·z/ℓ², or of the cosine of the angle."""

    def __init__(
        self,
        Z: Rows,
        dtype: Any,
        lengthscale: FloatArray,
        elementwise: ElementMap,
        *,
        normalize: bool = False,
    ) -> None:
        super().__init__(Z.shape[0], dtype)
        self._elementwise = elementwise
        self._normalize = normalize
        points = dense(Z, np.float64) / lengthscale
        if normalize:
            points = points / _norms_or_one(points)[:, None]
        else:
            points = points / lengthscale
        self._factor = np.ascontiguousarray(points.T, dtype=self.dtype)
        self._inverse = (1.0 / lengthscale).astype(self.dtype)

    def into(self, X: Rows, out: FloatArray) -> None:
        if sp.issparse(X):
            rows = X.astype(self.dtype)
            if self._normalize:
                rows = rows.multiply(self._inverse).tocsr()
                norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1))).ravel()
            out[...] = rows @ self._factor
        else:
            tile = dense(X, self.dtype)
            if self._normalize:
                tile = tile * self._inverse
                norms = np.sqrt(np.einsum("ij,ij->i", tile, tile))
            np.matmul(tile, self._factor, out=out)
        if self._normalize:
            out /= np.where(norms > 0, norms, 1.0).astype(self.dtype)[:, None]
        self._elementwise(out)


def _norms_or_one(points: FloatArray) -> FloatArray:
    norms = np.sqrt(np.einsum("ij,ij->i", points, points))
    return np.where(norms > 0, norms, 1.0)


class CityblockColumns(Columns):
    """Columns of a kernel of ‖(x − z)/ℓ‖₁, by SciPy's distances (float64) per tile."""

    def __init__(self, Z: Rows, dtype: Any, lengthscale: FloatArray, elementwise: ElementMap) -> None:
        super().__init__(Z.shape[0], dtype)
        self._elementwise = elementwise
        self._inverse = 1.0 / lengthscale
        self._points = dense(Z, np.float64) * self._inverse

    def into(self, X: Rows, out: FloatArray) -> None:
        from scipy.spatial.distance import cdist

        out[...] = cdist(dense(X, np.float64) * self._inverse, self._points, "cityblock")
        self._elementwise(out)


class PairColumns(Columns):
    """Columns of a sum or product of two kernels, combined in place."""

    def __init__(self, left: Columns, right: Columns, combine: np.ufunc) -> None:
        super().__init__(left.n_columns, left.dtype)
        self._left, self._right, self._combine = left, right, combine

    def into(self, X: Rows, out: FloatArray) -> None:
        self._left.into(X, out)
        self._combine(out, self._right(X), out=out)


class ScaledColumns(Columns):
    """Columns of a kernel times a positive number."""

    def __init__(self, inner: Columns, factor: float) -> None:
        super().__init__(inner.n_columns, inner.dtype)
        self._inner, self._factor = inner, factor

    def into(self, X: Rows, out: FloatArray) -> None:
        self._inner.into(X, out)
        out *= self._factor


class CallableColumns(Columns):
    """Columns of a user's function f(X, Z) → (n, m)."""

    def __init__(self, Z: Rows, dtype: Any, function: Callable[[Rows, Rows], Array]) -> None:
        super().__init__(Z.shape[0], dtype)
        self._points, self._function = Z, function

    def into(self, X: Rows, out: FloatArray) -> None:
        block = np.asarray(self._function(X, self._points))
        if block.shape != out.shape:
            raise ValueError(
                f"the kernel function returned shape {block.shape} for {X.shape[0]} rows and "
                f"{self.n_columns} points; it must return shape {out.shape}: f(X, Z)[i, j] = k(x_i, z_j)."
            )
        out[...] = block
