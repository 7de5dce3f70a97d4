"""Basis of one node: kernel columns, the vectors that multiply them, and the Nyström construction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import DTypeLike

from gramian._numerics import drop_tiny, rank_cutoff, unit_roundoff, warn_negative, whiten
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.kernels.base import Kernel, refuse_large_values
from gramian.kernels.columns import Columns
from gramian.kernels.precomputed import Precomputed


@dataclass(frozen=True)
class Basis:
    """w(x) = Vᵀ k(Z, x) − Pᵀ f(x): features of one node with landmarks Z and ancestors' features f(x).

    ``vectors`` is V (m × r). ``projection`` is P (ranks of the ancestors × r), without rows where the node's
    kernel is not a residual. Both have the tiles' dtype, because they are used on every row. ``columns``
    evaluates k(·, Z). ``values`` are the kept eigenvalues of the (residual) Gram matrix on the landmarks, or
    other numbers by which ranks are compared. ``dropped`` is the trace of the directions that were cut off.

    An explicit feature map (random features) is a basis whose ``columns`` evaluate φ(x) itself: V is the
    identity, written ``vectors=None``, and there are no landmarks.
    """

    landmarks: Rows
    vectors: FloatArray | None
    projection: FloatArray
    columns: Columns = field(repr=False)
    values: Float64Array
    dropped: float = 0.0
    #: Part of ``dropped`` that comes from negative eigenvalues, which values of a user's may have.
    negative: float = 0.0

    @classmethod
    def explicit(cls, columns: Columns, n_features: int) -> Basis:
        """Return the basis of an explicit feature map of rows with ``n_features`` columns."""
        dtype = columns.dtype
        nothing = np.zeros((0, n_features), dtype)
        return cls(
            nothing, None, np.zeros((0, columns.n_columns), dtype), columns, np.ones(columns.n_columns)
        )

    @classmethod
    def of_columns(
        cls, points: Rows, vectors: Float64Array, kernel: Kernel, dtype: DTypeLike, values: Float64Array
    ) -> Basis:
        """Return w(x) = Vᵀ k(Z, x) for given V; the points are copied if they are a view."""
        return cls(
            points,
            np.ascontiguousarray(vectors, dtype),
            np.zeros((0, vectors.shape[1]), dtype),
            kernel.against(points, dtype),
            values,
        )

    @property
    def rank(self) -> int:
        """Columns of the basis."""
        return self.columns.n_columns if self.vectors is None else self.vectors.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of landmarks (or of an explicit map's parameters), vectors and projection."""
        points = self.landmarks
        if self.vectors is None:
            return self.columns.nbytes
        size = points.data.nbytes if hasattr(points, "indptr") else points.nbytes
        return int(size) + self.vectors.nbytes + self.projection.nbytes

    def with_kernel(self, kernel: Kernel) -> Basis:
        """Return the same basis with k(·, Z) evaluated by ``kernel``, for instance bound to other rows."""
        return replace(self, columns=kernel.against(self.landmarks, self.columns.dtype))

    def times(self, matrix: Float64Array, values: Float64Array) -> Basis:
        """Return the basis with features Aᵀ w(x) for A = ``matrix`` (r × r')."""
        dtype = self.columns.dtype
        return replace(
            self,
            vectors=np.ascontiguousarray(self.matrix.astype(np.float64) @ matrix, dtype),
            projection=np.ascontiguousarray(self.projection.astype(np.float64) @ matrix, dtype),
            values=values,
        )

    @property
    def matrix(self) -> FloatArray:
        """V as an array, even where V is the identity."""
        return np.eye(self.rank, dtype=self.columns.dtype) if self.vectors is None else self.vectors

    def folded(self, coefficients: Float64Array) -> Float64Array:
        """Return V c: one weight per kernel column, for coefficients c of the features."""
        return coefficients if self.vectors is None else self.vectors @ coefficients

    def truncated(self, rank: int) -> Basis:
        """Return the basis cut to its ``rank`` leading directions."""
        lost = float(self.values[rank:].sum())
        return replace(
            self,
            vectors=np.ascontiguousarray(self.matrix[:, :rank]),
            projection=np.ascontiguousarray(self.projection[:, :rank]),
            values=self.values[:rank],
            dropped=self.dropped + lost,
        )

    def write(self, X: Rows, above: FloatArray, out: FloatArray) -> None:
        """Write w(x) for rows X, given their ancestors' features ``above``."""
        if self.rank == 0:
            return
        if self.vectors is None:
            self.columns.write(X, out)
        else:
            np.matmul(self.columns(X), self.vectors, out=out)
        if self.projection.shape[0]:
            out -= above @ self.projection
        if self.columns.normalized:
            drop_tiny(out)


def build_basis(
    kernel: Kernel,
    tiles: DTypeLike,
    points: Rows,
    rank: int,
    above: Sequence[Basis] = (),
    *,
    coupled: bool = False,
    spectral: bool | None = None,
) -> Basis:
    """Whiten the residual Gram matrix on ``points`` and return a basis of at most ``rank`` columns.

    ``above`` are the bases of the node's ancestors, ``tiles`` is the dtype of the basis; all arithmetic is in
    float64. ``coupled`` is true if a core will couple the bases; its rounding needs a larger cutoff.
    ``spectral`` asks for eigenvectors even if the rank does not truncate (default: for coupled bases).
    """
    # Copy: landmarks may be views of the caller's rows, which the caller may change.
    points = points.astype(points.dtype if points.dtype.kind == "f" else np.float64)
    gram: Float64Array = np.zeros((0, 0))
    if points.shape[0]:
        gram = np.asarray(kernel(points, dtype=np.float64, n_jobs=1), np.float64)
        refuse_large_values(kernel, float(np.abs(gram.diagonal()).max()), np.dtype(tiles))
        gram = 0.5 * (gram + gram.T)
    scale = float(np.trace(gram))
    features = features_above(kernel, points, above)
    residual = bool(features.shape[1])
    if residual:
        gram = gram - features @ features.T
    # A matrix stored in float32 has the rounding errors of float32 tiles.
    dtype = min(np.dtype(tiles), kernel.dtype) if isinstance(kernel, Precomputed) else np.dtype(tiles)
    white = whiten(
        gram,
        rank,
        rank_cutoff(dtype, residual=residual, coupled=coupled),
        # The residual is a difference of numbers as large as the kernel's, and has their rounding error.
        floor=unit_roundoff(dtype) * scale if residual else 0.0,
        spectral=coupled if spectral is None else spectral,
        definite=kernel.definite,
    )
    if not kernel.definite:
        what = f"The matrix of {len(gram)} landmarks"
        warn_negative(white.negative, float(white.values.sum()) + white.dropped, what)
    return Basis(
        points,
        white.vectors.astype(tiles),
        (features.T @ white.vectors).astype(tiles),
        kernel.against(points, np.dtype(tiles)),
        white.values,
        white.dropped,
        0.0 if kernel.definite else white.negative,
    )


def features_above(kernel: Kernel, points: Rows, above: Sequence[Basis]) -> Float64Array:
    """Return the ancestors' features of ``points`` in float64, shape (m, ranks of the path)."""
    if points.shape[0] == 0:
        return np.zeros((0, sum(b.rank for b in above)))
    done = np.zeros((points.shape[0], 0))
    for basis in above:
        if basis.vectors is None:
            own = basis.columns(points).astype(np.float64)
        else:
            own = kernel(points, basis.landmarks, dtype=np.float64, n_jobs=1) @ basis.vectors
        if basis.projection.shape[0]:
            own = own - done @ basis.projection
        done = np.concatenate([done, own], axis=1)
    return done
