"""Stored features of the training rows, as block operator, dense array or CSR matrix."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import scipy.sparse as sp

from gramian._numerics import clip_negative
from gramian._phases import Progress, uncounted
from gramian._typing import Array, Float64Array, FloatArray, IntArray
from gramian.compression.features import FeatureMap
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.operators.basis import BasisLevel
from gramian.operators.block import BlockOperator
from gramian.operators.diagonal import DiagonalPlus
from gramian.solvers.core import CoupledCore


def stored_levels(
    features: FeatureMap,
    source: RowSource,
    *,
    chunk_rows: int,
    engine: Engine,
    progress: Progress = uncounted,
) -> list[BasisLevel]:
    """Return the bases of the source's rows, level by level, stored in the tiles' dtype.

    Rows of a block are in the order in which the pass reads them. Memory n·(ranks of a row's path).
    """
    forest = features.forest
    rows: list[list[IntArray]] = [[] for _ in forest.ranks]
    parts: list[_Growing] = [_Growing(rank, features.dtype, source.shape[0]) for rank in forest.ranks]
    with closing(features.leaf_blocks(source, chunk_rows=chunk_rows, engine=engine)) as units:
        for numbers, unit, F in units:
            for segment in unit.segments:
                rows[segment.node].append(numbers[segment.rows])
                parts[segment.node].add(F[segment.rows, forest.columns(segment.node)])
            progress(len(numbers))
    levels = []
    for level in forest.levels:
        nodes = range(level.start, level.stop)
        members = [np.concatenate(rows[b]) if rows[b] else np.zeros(0, np.intp) for b in nodes]
        blocks = [parts[b].whole() for b in nodes]
        levels.append(BasisLevel(source.shape[0], members, blocks))
    return levels


def operator_of(
    features: FeatureMap,
    source: RowSource,
    *,
    chunk_rows: int,
    engine: Engine,
    stored_diagonal: bool = False,
    progress: Progress = uncounted,
) -> BlockOperator | DiagonalPlus:
    """Return K̃ on the rows of the source, plus D = max(diag(K − K̃), 0) if ``stored_diagonal`` is set."""
    levels = stored_levels(features, source, chunk_rows=chunk_rows, engine=engine, progress=progress)
    operator = BlockOperator(levels, features.core)
    if not stored_diagonal:
        return operator
    exact = [features.kernel.diagonal(rows) for _, rows in row_blocks(source, chunk_rows)]
    return DiagonalPlus.matching(operator, np.concatenate(exact))


class _Growing:
    """Array that grows by an eighth of its rows when it is full, in place if it is large."""

    def __init__(self, width: int, dtype: np.dtype[Any], most: int) -> None:
        self._rows: FloatArray = np.empty((0, width), dtype)
        self._count, self._most = 0, most

    def add(self, more: FloatArray) -> None:
        """Append rows to the array."""
        stop = self._count + len(more)
        if stop > len(self._rows):
            size = min(self._most, max(stop, stop + stop // 8))
            self._rows.resize((size, self._rows.shape[1]), refcheck=False)
        self._rows[self._count : stop] = more
        self._count = stop

    def whole(self) -> FloatArray:
        """Return all rows; afterwards no rows can be added."""
        self._rows.resize((self._count, self._rows.shape[1]), refcheck=False)
        return self._rows


def dense_features(features: FeatureMap, source: RowSource, *, chunk_rows: int, engine: Engine) -> FloatArray:
    """Return F of shape (n, R) with F Fᵀ = K̃; for a coupled core C = L Lᵀ, F(x) = w_s(x)ᵀ L_s."""
    forest, offsets = features.forest, features.offsets
    roots = None if features.core is None else core_root(features.core)
    out = np.zeros((source.shape[0], features.rank), features.dtype)
    with closing(features.leaf_blocks(source, chunk_rows=chunk_rows, engine=engine)) as units:
        for numbers, unit, F in units:
            for segment in unit.segments:
                W, offset = F[segment.rows, forest.columns(segment.node)], offsets[segment.node]
                columns = slice(offset, offset + W.shape[1])
                if roots is None:
                    out[numbers[segment.rows], columns] = W
                else:
                    out[numbers[segment.rows]] = W @ roots[columns].astype(W.dtype)
    return out


def core_root(core: CoupledCore) -> Float64Array:
    """Return the symmetric square root of the core, with a warning if negative eigenvalues were clipped."""
    values, vectors = np.linalg.eigh(core.to_dense())
    positive, _ = clip_negative(values, "the core", whitened=core.psd)
    return np.asarray((vectors * np.sqrt(positive)) @ vectors.T)


def sparse_features(
    features: FeatureMap, source: RowSource, *, chunk_rows: int, engine: Engine
) -> sp.csr_array:
    """Return F as CSR: a row has entries only on its own path, n·(path ranks) in all."""
    n, forest = source.shape[0], features.forest
    if features.core is not None:
        return sp.csr_array(dense_features(features, source, chunk_rows=chunk_rows, engine=engine))
    leaves = forest.levels[-1]
    columns = [
        np.concatenate(
            [
                features.offsets[node] + np.arange(forest.ranks[node], dtype=np.int32)
                for node in (*forest.path(leaf), leaf)
            ]
        )
        for leaf in range(leaves.start, leaves.stop)
    ]
    widths = np.asarray(features.path_ranks)
    labels = np.empty(n, np.intp)
    values: list[tuple[Array, int, FloatArray]] = []
    with closing(features.leaf_blocks(source, chunk_rows=chunk_rows, engine=engine)) as units:
        for numbers, unit, F in units:
            for segment in unit.levels[-1]:
                leaf = segment.node - leaves.start
                labels[numbers[segment.rows]] = leaf
                values.append((numbers[segment.rows], leaf, F[segment.rows, : widths[leaf]].copy()))
    indptr = np.concatenate([[0], np.cumsum(widths[labels])])
    data = np.empty(int(indptr[-1]), features.dtype)
    indices = np.empty(int(indptr[-1]), np.int64 if indptr[-1] > np.iinfo(np.int32).max else np.int32)
    for numbers, leaf, block in values:
        where = indptr[numbers][:, None] + np.arange(widths[leaf])
        data[where] = block
        indices[where] = columns[leaf]
    return sp.csr_array((data, indices, indptr), shape=(n, features.rank))
