"""Trained predictor: one kernel row and one dot product per level, at a cost that does not depend on n."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gramian._numerics import narrowed
from gramian._typing import Array, Float64Array, FloatArray, IntArray, Rows
from gramian.compression.features import BlockSizes, FeatureMap, Unit, units_by_leaf
from gramian.data.values import row_bytes
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.kernels.columns import Columns
from gramian.landmarks.partition import Partition


@dataclass(frozen=True)
class KernelTerms:
    """Kernel values and weights of some rows, all of which have the same points z_j.

    rows : (b,) numbers of the rows; points : (m,) numbers of the points among all points of the predictor;
    values : (b, m), k(x_i, z_j); weights : (m, outputs), c_j. Their product is the prediction of the rows.
    """

    rows: IntArray
    points: IntArray
    values: FloatArray
    weights: FloatArray


@dataclass(frozen=True)
class Predictor:
    r"""f(x) = Σ over the nodes a on x's path of k(x, Z_a) κ_{a, leaf}, with landmarks Z_a and weights κ.

    ``weights[l]`` has shape (leaves, landmarks, outputs), with the landmarks of the leaf's node on level l.
    If the nodes of a level differ in their landmarks, it is a list of arrays instead. To fold coefficients β
    of the features w(x) = Vᵀ k(Z, x) − Pᵀ f(x) into weights: κ_leaf = V β_leaf, and P β_leaf is subtracted
    from the ancestors' coefficients before those are folded. ``columns`` evaluates k(·, Z_a) of each node;
    ``landmarks`` stores the Z_a for model files.
    """

    kernel: Kernel
    partition: Partition
    leaf_levels: Array
    landmarks: tuple[Rows, ...]
    columns: tuple[Columns, ...]
    weights: tuple[tuple[FloatArray, ...], ...]
    n_outputs: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the kernel tiles."""
        tiles: np.dtype[Any] = self.columns[0].dtype
        return tiles

    def with_kernel(self, kernel: Kernel) -> Predictor:
        """Return the predictor with k(·, Z) evaluated by ``kernel``, which may be bound to other rows."""
        columns = tuple(kernel.against(Z, self.dtype) for Z in self.landmarks)
        return replace(self, kernel=kernel, partition=self.partition.with_kernel(kernel), columns=columns)

    @property
    def nbytes(self) -> int:
        """Bytes of the folded weights."""
        return sum(w.nbytes for level in self.weights for w in level)

    @property
    def model_bytes(self) -> int:
        """Bytes of weights and landmarks."""
        points = (row_bytes(Z) or columns.nbytes for Z, columns in zip(self.landmarks, self.columns))
        return self.nbytes + sum(points)

    @property
    def block_sizes(self) -> BlockSizes:
        """Landmarks of the blocks of each level."""
        nodes = [np.unique(level) for level in self.leaf_levels]
        return [
            (f"landmarks, level {i}", [self.columns[node].n_columns for node in level])
            for i, level in enumerate(nodes)
        ]

    def chunk(self, rows: Rows, engine: Engine) -> Float64Array:
        """Return predictions for rows in memory, shape (rows, outputs)."""
        out = np.zeros((rows.shape[0], self.n_outputs))
        labels = self.partition.route(rows, engine)

        def work(unit: Unit) -> tuple[Unit, Float64Array]:
            return unit, self._unit(rows[unit.rows], unit, labels[unit.rows])

        with engine.results(work, units_by_leaf(labels, self.leaf_levels)) as results:
            for unit, values in results:
                out[unit.rows] = values
        return out

    @property
    def n_points(self) -> int:
        """Number of landmarks of all nodes together."""
        return sum(columns.n_columns for columns in self.columns)

    def point(self, number: int) -> Rows:
        """Return a landmark by its number as the kernel takes it, shape (1, d); nodes in their order."""
        starts = self._starts
        node = int(np.searchsorted(starts, number, "right")) - 1
        local = number - int(starts[node])
        return self.landmarks[node][local : local + 1]

    def terms(self, rows: Rows, engine: Engine) -> Iterator[KernelTerms]:
        """Yield k(x, z) and the weights for rows in memory, a group for the rows of a leaf.

        The points of a group are the landmarks of the nodes on the leaf's path. Time as for a prediction,
        memory O(rows of a unit · landmarks of a path).
        """
        labels, starts = self.partition.route(rows, engine), self._starts
        for unit in units_by_leaf(labels, self.leaf_levels):
            X = rows[unit.rows]
            for part in unit.levels[-1]:
                leaf, own = int(labels[unit.rows[part.rows.start]]), X[part.rows]
                nodes = [int(nodes[leaf]) for nodes in self.leaf_levels]
                path = [(level, a) for level, a in enumerate(nodes) if self.columns[a].n_columns]
                if not path:
                    continue
                yield KernelTerms(
                    unit.rows[part.rows],
                    np.concatenate([np.arange(starts[a], starts[a + 1]) for _, a in path]),
                    np.hstack([self.columns[a](own) for _, a in path]),
                    np.concatenate([self.weights[level][leaf] for level, _ in path]),
                )

    @property
    def _starts(self) -> IntArray:
        """Number of the first landmark of each node, and behind them the number of all."""
        return np.cumsum([0, *(columns.n_columns for columns in self.columns)])

    def _unit(self, X: Rows, unit: Unit, leaves: Array) -> Float64Array:
        values = np.zeros((len(unit.rows), self.n_outputs))
        leaf_segments = unit.levels[-1]
        starts = [leaf.rows.start for leaf in leaf_segments]
        for level, segments in enumerate(unit.levels):
            for segment in segments:
                columns = self.columns[segment.node]
                if columns.n_columns == 0:
                    continue
                tile = columns(X[segment.rows])
                # Rows of one node have different weights if they belong to different leaves.
                first, last = (bisect_left(starts, at) for at in (segment.rows.start, segment.rows.stop))
                for leaf in leaf_segments[first:last]:
                    a, b = leaf.rows.start, leaf.rows.stop
                    weight = self.weights[level][int(leaves[a])]
                    values[a:b] += tile[a - segment.rows.start : b - segment.rows.start] @ weight
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
            weights[level].append(narrowed(basis.folded(own), features.dtype))
    # In float64 throughout a level if some of it is, as model files store them.
    wide = [np.result_type(*level) for level in weights]
    return Predictor(
        features.kernel,
        features.partition,
        features.leaf_levels,
        tuple(n.landmarks for n in features.nodes),
        tuple(n.columns for n in features.nodes),
        tuple(tuple(np.asarray(w, kind) for w in level) for level, kind in zip(weights, wide)),
        n_outputs,
    )
