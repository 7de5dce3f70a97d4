"""The Nyström basis of one node: landmarks, whitening of the (residual) kernel on them, features."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gramian._numerics import rank_cutoff, unit_roundoff, whiten
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.kernels.base import Kernel
from gramian.kernels.columns import Columns


@dataclass(frozen=True)
class NystromBasis:
    """w(x) = Vᵀ k(Z, x) − Pᵀ f(x) of one node.

    ``vectors`` is V (m × r) and ``projection`` P (ranks of the ancestors × r), in the tiles' dtype, as
    they are used on every row; ``columns`` evaluates k(·, Z). ``values`` are the kept eigenvalues of the
    (residual) Gram matrix on the landmarks, ``dropped`` the trace that the rank left out.
    """

    landmarks: Rows
    vectors: FloatArray
    projection: FloatArray
    columns: Columns = field(repr=False)
    values: Float64Array
    dropped: float = 0.0

    @property
    def rank(self) -> int:
        """Columns of the basis."""
        return self.vectors.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of landmarks, vectors and projection."""
        points = self.landmarks
        size = points.data.nbytes if hasattr(points, "indptr") else points.nbytes
        return int(size) + self.vectors.nbytes + self.projection.nbytes

    def truncated(self, rank: int) -> NystromBasis:
        """Return the basis of the ``rank`` leading directions."""
        lost = float(self.values[rank:].sum())
        return replace(
            self,
            vectors=np.ascontiguousarray(self.vectors[:, :rank]),
            projection=np.ascontiguousarray(self.projection[:, :rank]),
            values=self.values[:rank],
            dropped=self.dropped + lost,
        )

    def into(self, X: Rows, above: FloatArray, out: FloatArray) -> None:
        """Write w(x) for rows X, given their ancestors' features ``above``."""
        if self.rank == 0:
            return
        np.matmul(self.columns(X), self.vectors, out=out)
        if self.projection.shape[0]:
            out -= above @ self.projection


class BasisBuilder:
    """Builds a node's basis below given ancestors; all of it in float64."""

    def __init__(self, kernel: Kernel, dtype: Any, above: tuple[NystromBasis, ...]) -> None:
        self._kernel, self._dtype, self._above = kernel, np.dtype(dtype), above

    def build(self, points: Rows, rank: int, *, coupled: bool = False) -> NystromBasis:
        """Whiten the residual Gram matrix on ``points``; the rank is at most ``rank``.

        ``coupled``: bases that a core will couple, so eigenvectors, and a cutoff that its rounding asks for.
        """
        # A copy: landmarks may be views of the caller's rows, which the caller may change.
        points = points.astype(points.dtype if points.dtype.kind == "f" else np.float64)
        gram = self._gram(points)
        scale = float(np.trace(gram))
        above = self.features_above(points)
        residual = bool(above.shape[1])
        if residual:
            gram = gram - above @ above.T
        white = whiten(
            gram,
            rank,
            rank_cutoff(self._dtype, residual=residual, coupled=coupled),
            # The residual is a difference of numbers of the kernel's own size.
            floor=unit_roundoff(self._dtype) * scale if residual else 0.0,
            spectral=coupled,
        )
        return NystromBasis(
            points,
            white.vectors.astype(self._dtype),
            (above.T @ white.vectors).astype(self._dtype),
            self._kernel.against(points, self._dtype),
            white.values,
            white.dropped,
        )

    def _gram(self, points: Rows) -> Float64Array:
        if points.shape[0] == 0:
            return np.zeros((0, 0))
        gram = self._kernel(points, dtype=np.float64, n_jobs=1)
        return 0.5 * (gram + gram.T)

    def features_above(self, points: Rows) -> Float64Array:
        """Ancestors' features of ``points`` in float64, shape (m, ranks of the path)."""
        done = np.zeros((points.shape[0], 0))
        if points.shape[0] == 0:
            return np.zeros((0, sum(b.rank for b in self._above)))
        for basis in self._above:
            block = self._kernel(points, basis.landmarks, dtype=np.float64, n_jobs=1)
            done = np.concatenate([done, block @ basis.vectors - done @ basis.projection], axis=1)
        return done
