"""Residual K − K̃ over the rows of a source, summed by tiles and never stored."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.compression.features import FeatureMap, Unit
from gramian.data.source import RowSource, as_source
from gramian.engine import Engine


@dataclass(frozen=True)
class Leftover:
    """Diagonal of K, and the part of it that the levels of K̃ leave unexplained, row by row."""

    kernel: Float64Array  #: k(x_i, x_i), shape (n,)
    levels: Float64Array  #: k(x_i, x_i) minus the levels of bases up to each one, shape (levels, n)
    leaves: IntArray  #: leaf block of each row, shape (n,)

    @property
    def final(self) -> Float64Array:
        """diag(K − K̃)."""
        return np.asarray(self.levels[-1])


@dataclass(frozen=True)
class ColumnSums:
    """Sums of squares of E = K − K̃ and of K over m picked columns, without diagonal entries."""

    error: Float64Array  #: Σ_i E_ij² of column j, shape (m,)
    inside: Float64Array  #: the part of ``error`` from rows i in the leaf block of j, shape (m,)
    kernel: Float64Array  #: Σ_i K_ij², shape (m,)
    row_error: Float64Array  #: Σ_j w_j E_ij² of row i, shape (n,)
    row_kernel: Float64Array  #: Σ_j w_j K_ij², shape (n,)


@dataclass(frozen=True)
class Residual:
    """E = K − K̃ on the rows of ``source``, never stored.

    With ``stored_diagonal``, E = K − K̃ − D for D = max(diag(K − K̃), 0).
    """

    features: FeatureMap
    source: RowSource
    engine: Engine
    chunk_rows: int
    stored_diagonal: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return self.source.shape[0]

    def diagonal(self, leftover: Leftover) -> Float64Array:
        """Return diag(E): with a stored diagonal, only the negative part that clipping at 0 leaves."""
        return np.minimum(leftover.final, 0.0) if self.stored_diagonal else leftover.final

    def leftover(self) -> Leftover:
        """Return diag(K − K̃) level by level, without D. One pass; time O(n (m d + m r + r²))."""
        forest, core = self.features.forest, self.features.core
        kernel = np.empty(self.n_rows)
        levels = np.empty((len(forest.levels), self.n_rows))
        leaves = np.empty(self.n_rows, np.intp)

        def work(numbers: IntArray, unit: Unit, X: Rows, F: FloatArray) -> None:
            F = F.astype(np.float64)
            left = self.features.kernel.diagonal(X)
            kernel[numbers] = left
            for depth, segments in enumerate(unit.levels):
                for segment in segments:
                    W = F[segment.rows, forest.columns(segment.node)]
                    right = W if core is None else W @ core.block(segment.node, segment.node)
                    left[segment.rows] -= np.einsum("ij,ij->i", W, right)
                levels[depth, numbers] = left
            for segment in unit.levels[-1]:
                leaves[numbers[segment.rows]] = segment.node - forest.levels[-1].start

        done = self.features.map_source(self.source, work, chunk_rows=self.chunk_rows, engine=self.engine)
        with closing(done) as units:
            for _ in units:
                pass
        return Leftover(kernel, levels, leaves)

    def column_sums(self, picked: IntArray, weights: Float64Array) -> ColumnSums:
        """Return sums over the columns ``picked``. One pass; time O(m n (d + r)), memory O(m (d + R) + n).

        Tiles of at most 1,024 × m float64 numbers, two for each thread.
        """
        points = self.source.take(picked)
        columns = self.features.kernel.against(points, np.float64)
        left = _left_factors(self.features, points, self.engine)
        leaf = self.features.leaf_levels[-1][self.features.partition.route(points, self.engine)]
        place = np.full(self.n_rows, -1)
        place[picked] = np.arange(len(picked))
        rows = np.empty((2, self.n_rows))

        def work(numbers: IntArray, unit: Unit, X: Rows, F: FloatArray) -> Float64Array:
            own = np.flatnonzero(place[numbers] >= 0)
            diagonal = own, place[numbers[own]]
            tile = columns(X).astype(np.float64, copy=False)
            tile[diagonal] = 0.0
            square = np.square(tile)
            kernel, rows[1, numbers] = square.sum(axis=0), square @ weights
            self._subtract(tile, F, unit, left)
            tile[diagonal] = 0.0
            np.square(tile, out=tile)
            rows[0, numbers] = tile @ weights
            inside = np.zeros(len(picked))
            for segment in unit.levels[-1]:
                mine = np.flatnonzero(leaf == segment.node)
                inside[mine] += tile[segment.rows, mine].sum(axis=0)
            return np.stack([tile.sum(axis=0), inside, kernel])

        total = np.zeros((3, len(picked)))
        done = self.features.map_source(self.source, work, chunk_rows=self.chunk_rows, engine=self.engine)
        with closing(done) as parts:
            for part in parts:
                total += part
        return ColumnSums(*total, *rows)

    def _subtract(
        self, tile: Float64Array, F: FloatArray, unit: Unit, left: dict[int, tuple[IntArray, Float64Array]]
    ) -> None:
        """Subtract K̃(unit, picked) from a tile of K(unit, picked)."""
        forest = self.features.forest
        for segment in unit.segments:
            if segment.node in left:
                cols, factor = left[segment.node]
                W = F[segment.rows, forest.columns(segment.node)]
                tile[segment.rows, cols] -= W.astype(np.float64) @ factor


def _left_factors(
    features: FeatureMap, picked: Rows, engine: Engine
) -> dict[int, tuple[IntArray, Float64Array]]:
    """Return for each node the picked rows that meet it, and their factor (ranks × rows)."""
    forest = features.forest
    factors: dict[int, list[tuple[Array, Float64Array]]] = defaultdict(list)
    done = features.leaf_blocks(as_source(picked), chunk_rows=picked.shape[0], engine=engine)
    with closing(done) as blocks:
        for numbers, unit, F in blocks:
            for segment in unit.segments:
                W = F[segment.rows, forest.columns(segment.node)].astype(np.float64)
                rows = numbers[segment.rows]
                if features.core is None:
                    factors[segment.node].append((rows, W.T))
                else:
                    coupled = W @ features.core.row_strip(segment.node)
                    for t, part in enumerate(features.core.split_columns(coupled)):
                        factors[t].append((rows, part.T))
    return {
        node: (np.concatenate([rows for rows, _ in parts]), np.concatenate([f for _, f in parts], axis=1))
        for node, parts in factors.items()
    }
