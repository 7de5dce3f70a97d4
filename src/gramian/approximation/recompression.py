"""Smaller bases from larger ones: sums over all rows say which directions K̃ needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from gramian._numerics import descending_eigh, gram_factor, rank_cutoff
from gramian._typing import Float64Array, IntArray
from gramian.approximation.features import FeatureMap
from gramian.approximation.projection_core import block_row_grams, landmark_core
from gramian.approximation.rank_sharing import Size
from gramian.approximation.storage import exact_diagonal
from gramian.approximation.sums import accumulate
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.routing import Partition
from gramian.solvers.arrowhead import Forest
from gramian.solvers.core import CoupledCore

#: (symmetric matrix, r) → the r leading eigenvalues, descending, and their vectors.
Leading: TypeAlias = Callable[[Float64Array, int], tuple[Float64Array, Float64Array]]

#: A block's rank at most, as a multiple of the mean rank.
MOST_RANKS = 4


def feature_grams(
    features: FeatureMap, source: RowSource, *, chunk_rows: int, engine: Engine
) -> list[Float64Array]:
    """Return ΦᵀΦ of each node over all rows, shape (r, r). One pass; time O(n (m d + m r + r²))."""
    nothing = np.zeros((source.shape[0], 0))
    sums = accumulate(features, source, nothing, None, chunk_rows=chunk_rows, engine=engine)
    return [s.gram for s in sums]


def block_counts(partition: Partition, source: RowSource, *, chunk_rows: int, engine: Engine) -> IntArray:
    """Return the rows of each leaf block. One pass of routing."""
    counts = np.zeros(partition.n_blocks, np.intp)
    for _, rows in row_blocks(source, chunk_rows):
        counts += np.bincount(partition.route(rows, engine), minlength=len(counts))
    return counts


def recompress_root(
    features: FeatureMap,
    rank: int,
    source: RowSource,
    *,
    chunk_rows: int,
    engine: Engine,
    leading: Leading = descending_eigh,
) -> FeatureMap:
    r"""Return the best approximation of rank ``rank`` of K̃ = ΦΦᵀ, for a global basis alone.

    With ΦᵀΦ = P Λ Pᵀ the leading eigenvectors of K̃ are Φ P_r Λ_r^(−1/2), so that the features Φ P_r give
    K̃ cut to its ``rank`` largest eigenvalues: the optimal one in spectral and Frobenius norm. One pass over
    the rows; time O(n (m d + m²) + m³), memory O(m²). ``leading(matrix, rank)`` gives the eigenpairs.
    """
    (root,) = features.nodes
    (gram,) = feature_grams(features, source, chunk_rows=chunk_rows, engine=engine)
    values, vectors = leading(gram, min(rank, len(gram)))
    keep = int(np.count_nonzero(values > rank_cutoff(np.float64) * max(values.max(initial=0.0), 0.0)))
    smaller = root.times(vectors[:, :keep], values[:keep])
    lost = max(0.0, float(np.trace(gram)) - float(values[:keep].sum()))
    return replace(
        features,
        nodes=(replace(smaller, dropped=root.dropped + lost),),
        forest=Forest.from_levels([[keep]], []),
    )


def leave_diagonal(features: FeatureMap, source: RowSource, *, chunk_rows: int) -> FeatureMap:
    r"""Return K̃ shrunk to what it explains beside a stored diagonal D = diag(K − K̃).

    A low rank alone fits each diagonal entry of K as well as it can, at the cost of the entries beside it.
    With D stored that is D's part: the eigenvalues λ of the core (the bases are orthonormal) become
    max(λ − σ², 0) with the mean σ² = tr(K − K̃)/(n − R) of those left out, as in probabilistic principal
    components (Tipping and Bishop 1999, equation 8). Time O(n + R³), memory O(R²).
    """
    core = features.core
    assert core is not None
    n = source.shape[0]
    if n <= features.rank:
        return features
    trace = sum(
        float(exact_diagonal(features.kernel, rows).sum()) for _, rows in row_blocks(source, chunk_rows)
    )
    values, vectors = descending_eigh(core.to_dense())
    left = max(0.0, trace - float(values.sum())) / (n - features.rank)
    shrunk = np.maximum(values - left, 0.0)
    matrix = (vectors * shrunk) @ vectors.T
    return replace(features, core=CoupledCore(0.5 * (matrix + matrix.T), core.ranks, psd=True))


def recompression_bytes(n_blocks: int, landmarks: int) -> int:
    """Bytes of :func:`recompress_core`: three matrices of a block's landmarks each, and tiles."""
    return 8 * (3 * n_blocks + 8) * landmarks**2


def recompress_core(
    features: FeatureMap,
    size: Size,
    source: RowSource,
    *,
    most: int,
    n_rows: int | None = None,
    chunk_rows: int,
    engine: Engine,
) -> FeatureMap:
    r"""Return the best bases and core within ``size`` of the projection core on larger bases Φ_s.

    With A_s = Φ_sᵀΦ_s = E D Eᵀ over all rows, cut to the leading ``most`` eigenpairs, Q_s = Φ_s E D^(−1/2) is
    orthonormal and K̃ = Q S Qᵀ with S_st = R_s V_sᵀ K(Z_s, Z_t) V_t R_tᵀ, R_s = D^(1/2) Eᵀ. The eigenvectors
    P_s of S_s,: S_s,:ᵀ are the directions of block s by what they hold of its whole block row; their
    eigenvalues are shared out by :meth:`Size.share`. New basis u(x) = P_sᵀ D^(−1/2) Eᵀ V_sᵀ k(Z_s, x), new
    core C = PᵀSP: positive semi-definite, for S is.

    ``most`` bounds the rank of a block: a few times the mean leaves room for uneven blocks.
    ``n_rows`` is the n that the sizes are meant for where ``source`` is a sample of it.

    One pass over the rows and two over the pairs of blocks. Time O(n (m d + m²) + c m³ + (c m)² (d + most)),
    memory O(c m² + R²). Source: docs/how-it-works.md, "Recompression".
    """
    grams = feature_grams(features, source, chunk_rows=chunk_rows, engine=engine)
    factors = list(engine.map(lambda gram: gram_factor(gram, most), grams))
    del grams  # as large as all that follows
    points = [b.landmarks for b in features.nodes]
    whole = [b.matrix @ T.T for b, (T, _) in zip(features.nodes, factors, strict=True)]
    spectra = list(engine.map(descending_eigh, block_row_grams(features.kernel, points, whole, engine)))
    counts = block_counts(features.partition, source, chunk_rows=chunk_rows, engine=engine)
    scale = 1.0 if n_rows is None else n_rows / float(source.shape[0])
    ranks = size.share([values for values, _ in spectra], np.asarray(scale * counts, np.float64))
    nodes, vectors = [], []
    for basis, (_, inverse), L, (values, P), rank in zip(
        features.nodes, factors, whole, spectra, ranks, strict=True
    ):
        nodes.append(basis.times(inverse @ P[:, :rank], values[:rank]))
        vectors.append(L @ P[:, :rank])
    return replace(
        features,
        nodes=tuple(nodes),
        forest=Forest.from_levels([ranks.tolist()], []),
        core=landmark_core(features.kernel, points, vectors, engine),
    )
