"""Trained predictor: one kernel row and one dot product per level, at a cost that does not depend on n."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array, FloatArray, Rows
from gramian.compression.features import FeatureMap
from gramian.compression.grouping import Unit, units_by_leaf
from gramian.data.source import RowSource, row_blocks
from gramian.data.values import row_bytes
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import Partition


@dataclass(frozen=True)
class Predictor:
    r"""f(x) = Σ over the nodes a on x's path of k(x, Z_a) κ_{a, leaf}, with landmarks Z_a and weights κ.

    ``weights[l]`` has shape (leaves, landmarks, outputs), with the landmarks of the leaf's node on level l.
    If the nodes of a level differ in their landmarks, it is a list of arrays instead. To fold coefficients β
    of the features w(x) = Vᵀ k(Z, x) − Pᵀ f(x) into weights: κ_leaf = V β_leaf, and P β_leaf is subtracted
    from the ancestors' coefficients before those are folded. ``columns`` evaluates k(·, Z_a) of each node;
    ``landmarks`` stores the Z_a for model files.
    """

    partition: Partition
    leaf_levels: Array
    landmarks: tuple[Rows, ...]
    columns: tuple[Columns, ...]
    weights: tuple[tuple[FloatArray, ...], ...]
    n_outputs: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the kernel tiles."""
        return self.columns[0].dtype

    def on(self, kernel: Kernel) -> Predictor:
        """Return the predictor with k(·, Z) evaluated by ``kernel``, which may be bound to other rows."""
        columns = tuple(kernel.against(Z, self.dtype) for Z in self.landmarks)
        return replace(self, partition=self.partition.on(kernel), columns=columns)

    @property
    def nbytes(self) -> int:
        """Bytes of the folded weights."""
        return sum(w.nbytes for level in self.weights for w in level)

    @property
    def model_bytes(self) -> int:
        """Bytes of weights and landmarks."""
        points = (row_bytes(Z) or columns.nbytes for Z, columns in zip(self.landmarks, self.columns))
        return self.nbytes + sum(points)

    def chunk(self, rows: Rows, engine: Engine) -> Float64Array:
        """Return predictions for rows in memory, shape (rows, outputs)."""
        out = np.zeros((rows.shape[0], self.n_outputs))
        labels = self.partition.route(rows, engine)

        def work(unit: Unit) -> tuple[Unit, Float64Array]:
            return unit, self._unit(rows[unit.rows], unit, labels[unit.rows])

        with engine.results(work, units_by_leaf(labels, self.leaf_levels)) as found:
            for unit, values in found:
                out[unit.rows] = values
        return out

    def blocks(
        self, source: RowSource, *, engine: Engine, chunk_rows: int
    ) -> Iterator[tuple[slice, Float64Array]]:
        """Yield (rows, predictions) for each chunk. Time O(n (route + m d + m outputs)) for m landmarks."""
        for where, rows in row_blocks(source, chunk_rows):
            yield where, self.chunk(rows, engine)

    def _unit(self, X: Any, unit: Unit, leaves: Array) -> Float64Array:
        values = np.zeros((len(unit.rows), self.n_outputs))
        leaf_segments = unit.levels[-1]
        for level, segments in enumerate(unit.levels):
            for segment in segments:
                columns = self.columns[segment.node]
                if columns.n_columns == 0:
                    continue
                tile = columns(X[segment.rows])
                # Rows of one node have different weights if they belong to different leaves.
                for leaf in leaf_segments:
                    a = max(leaf.rows.start, segment.rows.start)
                    b = min(leaf.rows.stop, segment.rows.stop)
                    if a < b:
                        weight = self.weights[level][int(leaves[a])]
                        local = slice(a - segment.rows.start, b - segment.rows.start)
                        values[a:b] += tile[local] @ weight
        return values


def fold(features: FeatureMap, beta: Sequence[Float64Array]) -> Predictor:
    """Fold the features' coefficients (one (r, outputs) array per node) into kernel weights."""
    forest = features.forest
    leaves = forest.levels[-1]
    n_levels = len(forest.levels)
    n_outputs = beta[0].shape[1]
    weights: list[list[FloatArray]] = [[] for _ in range(n_levels)]
    for leaf in range(leaves.start, leaves.stop):
        path = (*forest.path(leaf), leaf)
        coefficients = np.concatenate([beta[a] for a in path])
        for level in reversed(range(n_levels)):
            basis = features.nodes[path[level]]
            start = forest.path_rank(path[level])
            own = coefficients[start : start + basis.rank]
            if basis.projection.shape[0]:
                coefficients[:start] -= basis.projection @ own
            weights[level].append(basis.folded(own).astype(features.dtype))
    return Predictor(
        features.partition,
        features.leaf_levels,
        tuple(n.landmarks for n in features.nodes),
        tuple(n.columns for n in features.nodes),
        tuple(tuple(level) for level in weights),
        n_outputs,
    )
