"""Fast predictor: projects a row, routes it to a leaf, evaluates a few kernel units and a linear part."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gramian._numerics import exp_floored
from gramian._typing import Array, FloatArray
from gramian.engine import Engine
from gramian.fast.serving.router import TreeRouter
from gramian.fast.serving.tiles import Tiles

#: Most rows that are predicted together, and most numbers of their tiles, which stay in the second-level
#: cache. Up to FEW_ROWS threads are left alone: to limit them takes longer than to predict. Chosen by hand.
CHUNK_ROWS, CHUNK_NUMBERS, FEW_ROWS = 8192, 1 << 19, 64


@dataclass(frozen=True, eq=False)
class FastPredictor:
    r"""Predictor f_k(x) = Σ_j a_lkj exp(−‖s_lj (z − c_lj)‖²) + b_lkᵀ[z, 1], z = Pᵀ(x − o), l the leaf of z.

    projection : (d, r), P; None if z = x − o.
    offset : (r,), Pᵀo.
    router : finds the leaf of z.
    forms : (leaves, u + outputs, 2r + 1), coefficients of [z, 1, z²]: first −Σ_i s_i² (z_i − c_i)² of each
        unit, then b and zeros for each output.
    weights : (leaves, outputs, u), a.

    Time a row: d·r products for z, (2r + 1)(u + outputs) and u·outputs in the leaf, u exponentials.
    Source: the local units of DC-Pred++ (Hsieh, Si and Dhillon 2014), with centres and widths learned.
    """

    projection: FloatArray | None
    offset: FloatArray
    router: TreeRouter
    forms: FloatArray
    weights: FloatArray

    @property
    def n_outputs(self) -> int:
        """Values a row."""
        return self.weights.shape[1]

    @property
    def n_units(self) -> int:
        """Kernel units of a leaf."""
        return self.weights.shape[2]

    @property
    def exponents(self) -> FloatArray:
        """The forms of the units, (leaves, u, 2r + 1)."""
        return self.forms[:, : self.n_units]

    @property
    def linear(self) -> FloatArray:
        """The forms of the linear parts, (leaves, outputs, 2r + 1)."""
        return self.forms[:, self.n_units :]

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Type of the stored numbers."""
        return self.weights.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the stored numbers."""
        kept = [self.offset, self.forms, self.weights, *self.router.stages]
        return sum(a.nbytes for a in kept) + (0 if self.projection is None else self.projection.nbytes)

    def __call__(self, X: Array, engine: Engine | None = None) -> FloatArray:
        """Return f (n, outputs) for rows X (n, d); infinite or NaN for rows that overflow the float type.

        Memory: the answer, and one chunk for each thread.
        """
        work = self._working()
        if len(X) <= FEW_ROWS:
            with np.errstate(over="ignore", invalid="ignore"):
                return work._chunk(X)
        out = np.empty((len(X), self.n_outputs), work.dtype)

        def fill(rows: slice) -> None:
            # Rows far from the training rows may overflow to infinity or NaN; the caller checks for that.
            with np.errstate(over="ignore", invalid="ignore"):
                out[rows] = work._chunk(X[rows])

        (engine or Engine(1)).run(fill, _chunks(len(X), self.forms.shape[1] + self.forms.shape[2]))
        return out

    def project(self, X: Array, out: FloatArray | None = None) -> FloatArray:
        """Return z, shape (n, r), in ``out`` if it is given."""
        X = np.asarray(X, self.dtype)
        moved: FloatArray = X if self.projection is None else X @ self.projection
        return np.subtract(moved, self.offset, out=out)

    def _working(self) -> FastPredictor:
        """Return the predictor in a type for arithmetic: float16, used for storage only, becomes float32."""
        return self.astype(np.dtype(np.float32)) if self.dtype == np.float16 else self

    def astype(self, dtype: np.dtype[np.floating]) -> FastPredictor:
        """Return the predictor with numbers of another float type."""
        P = self.projection
        return FastPredictor(
            None if P is None else P.astype(dtype),
            self.offset.astype(dtype),
            self.router.astype(dtype),
            self.forms.astype(dtype),
            self.weights.astype(dtype),
        )

    def _chunk(self, X: Array) -> FloatArray:
        n, r = len(X), len(self.offset)
        if self.router.n_leaves == 1 and not self.n_units:
            return self.project(X) @ self.forms[0, :, :r].T + self.forms[0, :, r]
        points = np.empty((n, 2 * r + 1), self.dtype)
        z = self.project(X, points[:, :r])
        points[:, r] = 1.0
        np.multiply(z, z, out=points[:, r + 1 :])
        if self.router.n_leaves == 1:
            return self._leaf(points[None], np.zeros(1, np.intp))[0].T
        labels = self.router.route(points[:, : r + 1])
        if n == 1:
            return self._leaf(points[None], labels)[0].T
        tiles = Tiles.of(labels, self.router.n_leaves)
        values = self._leaf(tiles.spread(points), tiles.leaves)
        return tiles.gather(values.swapaxes(1, 2).reshape(-1, self.n_outputs))

    def _leaf(self, points: FloatArray, leaves: Array) -> FloatArray:
        """Return values (tiles, outputs, height) of points (tiles, height, 2r + 1)."""
        # Units along rows, so that the exponentials of a tile run over contiguous numbers.
        forms = np.matmul(self.forms[leaves], points.swapaxes(1, 2))
        u = self.n_units
        if not u:
            return forms
        units, values = forms[:, :u], forms[:, u:]
        exp_floored(units)
        values += np.matmul(self.weights[leaves], units)
        return values


def _chunks(n: int, numbers: int) -> list[slice]:
    """Return slices of about equal size: a short last one would need padding in every leaf.

    numbers : that the tiles hold for a row.
    """
    count = max(1, -(-n // min(CHUNK_ROWS, CHUNK_NUMBERS // numbers + 1)))
    edges = [n * i // count for i in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]
