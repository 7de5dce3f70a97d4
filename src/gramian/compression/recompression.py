"""Recompression of bases to a size: sums over all rows decide which directions of K̃ are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from gramian._budget import format_bytes
from gramian._numerics import descending_eigh, rank_cutoff, whiten
from gramian._typing import Array, Float64Array, IntArray
from gramian.compression.basis import Basis
from gramian.compression.builder import BuildSettings
from gramian.compression.cores import block_row_grams, coupled_blocks
from gramian.compression.features import FeatureMap
from gramian.compression.plan import at_most_rows
from gramian.compression.randomized_svd import randomized_eigh
from gramian.compression.sums import accumulate
from gramian.data.source import RowSource, row_blocks
from gramian.engine import Engine
from gramian.exceptions import BudgetError
from gramian.landmarks.routing import Partition
from gramian.solvers.arrowhead import Forest
from gramian.solvers.core import CoupledCore

#: Stored numbers per row if neither a rank nor a number of bytes is given. Chosen by hand.
DEFAULT_RANK = 100
#: (symmetric matrix, r) → the r leading eigenvalues, descending, and their vectors.
Leading: TypeAlias = Callable[[Float64Array, int], tuple[Float64Array, Float64Array]]

#: Eigenpairs computed first: this multiple of the expected rank, plus at least so many. Chosen by hand.
LOOKED_FOR, LOOKED_FOR_AT_LEAST = 2.0, 8
#: Other blocks see a block through this multiple of the rank that its own K̃_ss alone would get. Chosen by
#: hand: a larger number changed the error by at most 1 %.
MET = 1.25
#: Powers and extra vectors of the randomised eigenproblems. By hand: a power changed the error by under 1 %.
POWERS, EXTRA = 0, 10
#: Pivots stop once the trace left is ``LEFT_OVER`` of the trace left by the first ``LEFT_OVER_AFTER`` · rank
#: pivots, which is about what the best basis of that rank leaves. The larger bases then add 1 to 10 % to the
#: error. Chosen by hand.
LEFT_OVER, LEFT_OVER_AFTER = 0.05, 2


@dataclass(frozen=True)
class Size:
    """Size limit of a coupled factorization with ranks r_s in blocks of n_s rows.

    ``basis`` is the cost of one number of a basis, ``core`` that of one number of the core, and ``limit``
    bounds Σ n_s r_s · basis + (Σ r_s)² · core. Costs are in bytes; with both equal to 1 they count numbers.
    """

    limit: float
    basis: float = 1.0
    core: float = 1.0

    @classmethod
    def of_equal_ranks(cls, n_rows: int, rank: float, n_blocks: int) -> Size:
        """Return the size of n_blocks bases of equal rank with their core: n·r + (c·r)² numbers."""
        return cls(n_rows * rank + float(rank * n_blocks) ** 2)

    def equal_rank(self, n_rows: int, n_blocks: int) -> float:
        """Return the rank r that uses up the limit if all blocks have it: n·r·basis + (c·r)²·core."""
        half = n_rows * self.basis / 2.0
        squared = n_blocks**2 * self.core
        # Root of squared·r² + 2·half·r = limit, in the form without cancellation.
        return self.limit / (half + float(np.sqrt(half**2 + squared * self.limit)))

    def share(self, gains: Sequence[Float64Array], counts: Float64Array) -> IntArray:
        """Return ranks r_s that spend the limit on the largest gains per byte.

        ``gains[s]``, in descending order, is the gain in ‖K̃‖_F² of each direction of block s; ``counts`` has
        the rows n_s. Directions are taken greedily by gain/(n_s·basis + (2R + 1)·core), where R is the sum of
        the ranks so far. If a direction does not fit, only its own block ends there. Time O(R · blocks).
        """
        ranks = np.zeros(len(gains), np.intp)
        front = np.asarray([g[0] if len(g) else -1.0 for g in gains])
        rows = counts * self.basis
        left, total = self.limit, 0
        while True:
            cost = rows + (2 * total + 1) * self.core
            worth = np.where(cost <= left, front / cost, -1.0)
            s = int(worth.argmax())
            if worth[s] <= 0:
                return ranks
            left -= float(cost[s])
            total += 1
            ranks[s] += 1
            front[s] = gains[s][ranks[s]] if ranks[s] < len(gains[s]) else -1.0


def asked_size(n: int, itemsize: int, rank: int | None, n_blocks: int | None, max_bytes: int | None) -> Size:
    """Return the requested size: ``max_bytes``, or the numbers that a rank stands for with n rows.

    ``rank`` with ``n_blocks`` stands for n·rank + (rank·n_blocks)² numbers, without it for n·rank. If neither
    ``rank`` nor ``max_bytes`` is given, the rank is 100. A rank above n is reduced to n with a warning. A
    single row has two numbers, one of its basis and one of the core: K̃ would be 0 with less.
    """
    if max_bytes is not None:
        # The row numbers of the blocks are stored too.
        order = np.dtype(np.intp).itemsize * n
        if max_bytes <= order + n * itemsize:
            raise BudgetError(
                f"max_bytes={format_bytes(max_bytes)} is too small for one column of {n} rows and their "
                f"order: at least {format_bytes(order + (n + 16) * itemsize)} is needed. Raise max_bytes.",
                order + (n + 16) * itemsize,
            )
        return Size(float(max_bytes - order), itemsize, 8.0)
    rank = min(DEFAULT_RANK, n) if rank is None else at_most_rows("rank", rank, n)
    return Size(float(max(n * rank, 2))) if n_blocks is None else Size.of_equal_ranks(n, rank, n_blocks)


def feature_grams(features: FeatureMap, source: RowSource, settings: BuildSettings) -> list[Float64Array]:
    """Return ΦᵀΦ of each node over all rows, shape (r, r). One pass; time O(n (m d + m r + r²))."""
    nothing = np.zeros((source.shape[0], 0))
    sums = accumulate(
        features,
        source,
        nothing,
        None,
        chunk_rows=settings.chunk_rows,
        engine=settings.engine,
        progress=settings.progress,
    )
    return [s.gram for s in sums]


def block_counts(partition: Partition, source: RowSource, settings: BuildSettings) -> IntArray:
    """Return the number of rows in each leaf block. One pass that only routes rows."""
    counts = np.zeros(partition.n_blocks, np.intp)
    for _, rows in row_blocks(source, settings.chunk_rows):
        counts += np.bincount(partition.route(rows, settings.engine), minlength=len(counts))
    return counts


def recompress_root(
    features: FeatureMap,
    rank: int,
    source: RowSource,
    settings: BuildSettings,
    leading: Leading = descending_eigh,
) -> FeatureMap:
    r"""Return the best approximation of rank ``rank`` of K̃ = ΦΦᵀ, for a feature map with only a global basis.

    With ΦᵀΦ = P Λ Pᵀ the leading eigenvectors of K̃ are Φ P_r Λ_r^(−1/2). The features Φ P_r therefore give
    K̃ cut to its ``rank`` largest eigenvalues, which is optimal in spectral and Frobenius norm. One pass over
    the rows; time O(n (m d + m²) + m³), memory O(m²). ``leading(matrix, rank)`` computes the eigenpairs.
    """
    (root,) = features.nodes
    (gram,) = feature_grams(features, source, settings)
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
    r"""Return K̃ shrunk so that it fits K together with a stored diagonal D = diag(K − K̃).

    A low rank alone fits each diagonal entry of K as well as it can, at the cost of its neighbours. With D
    stored, D does that part: the eigenvalues λ of the core (the bases are orthonormal) become max(λ − σ², 0),
    where σ² = tr(K − K̃)/(n − R) is the mean of the eigenvalues left out, as in probabilistic principal
    components (Tipping and Bishop 1999, equation 8). Time O(n + R³), memory O(R²).
    """
    core = features.core
    assert core is not None
    n = source.shape[0]
    if n <= features.rank:
        return features
    trace = sum(float(features.kernel.diagonal(rows).sum()) for _, rows in row_blocks(source, chunk_rows))
    values, vectors = descending_eigh(core.to_dense())
    left = max(0.0, trace - float(values.sum())) / (n - features.rank)
    shrunk = np.maximum(values - left, 0.0)
    matrix = (vectors * shrunk) @ vectors.T
    return replace(features, core=CoupledCore(0.5 * (matrix + matrix.T), core.ranks, psd=True))


def recompression_bytes(n_blocks: int, landmarks: int) -> int:
    """Return the bytes of :func:`recompress_core`: tiles, and per block three matrices over its landmarks."""
    return 8 * (3 * n_blocks + 8) * landmarks**2


def recompress_core(
    features: FeatureMap, size: Size, source: RowSource, settings: BuildSettings, *, n_rows: int | None = None
) -> FeatureMap:
    r"""Return the best bases and core within ``size`` of the projection core on larger bases Φ_s.

    Let A_s = Φ_sᵀΦ_s over all rows and W_s whiten it, W_sᵀ A_s W_s = I. Then Q_s = Φ_s W_s is orthonormal and
    K̃ = Q S Qᵀ with S_st = L_sᵀ K(Z_s, Z_t) L_t, L_s = V_s A_s W_s. The eigenvectors P_s of S_s,: S_s,:ᵀ are
    the directions of block s, and their eigenvalues say how much of the whole block row each one holds.
    :meth:`Size.share` shares out ranks by these eigenvalues. The new basis is u(x) = P_sᵀ W_sᵀ V_sᵀ k(Z_s, x)
    and the new core C = PᵀSP is positive semi-definite, because S is.

    To save time, S_s,: S_s,:ᵀ uses only the leading eigenvectors of A_t for other blocks t (:data:`MET`).
    ``n_rows`` is the n for which sizes are meant, if ``source`` is a sample of the rows.

    One pass over the rows and two over the pairs of blocks. Time O(n (m d + m²) + c m³ + (c m)² (d + r)),
    memory O(c m² + R²). Source: docs/how-it-works.md, "Recompression".
    """
    engine = settings.engine
    grams = feature_grams(features, source, settings)
    scale = 1.0 if n_rows is None else n_rows / float(source.shape[0])
    counts = np.asarray(block_counts(features.partition, source, settings) * scale, np.float64)
    equal = np.full(len(grams), size.equal_rank(round(counts.sum()), len(grams)))
    pairs, alone = _shared_pairs(grams, equal, np.square, size, counts, engine)

    parts = engine.map(lambda job: _factors(*job), zip(features.nodes, grams, pairs, alone, strict=True))
    whitening, whole, met = zip(*parts, strict=True)
    grams.clear()  # they are as large as everything that follows
    points = [b.landmarks for b in features.nodes]
    rows = block_row_grams(features.kernel, points, whole, met, engine)
    pairs, ranks = _shared_pairs(rows, alone, np.positive, size, counts, engine)
    nodes, vectors = [], []
    for basis, W, L, (values, P), rank in zip(features.nodes, whitening, whole, pairs, ranks, strict=True):
        nodes.append(basis.times(W @ P[:, :rank], values[:rank]))
        vectors.append(L @ P[:, :rank])
    return replace(
        features,
        nodes=tuple(nodes),
        forest=Forest.from_levels([ranks.tolist()], []),
        core=coupled_blocks(features.kernel, points, vectors, None, engine, psd=True, whitened=False),
    )


def _factors(
    basis: Basis, gram: Float64Array, pairs: tuple[Float64Array, Float64Array], rank: int
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return W_s, L_s, and a matrix N_s of few columns with N_s N_sᵀ ≈ L_s L_sᵀ."""
    values, vectors = pairs
    few = min(len(values), int(np.ceil(MET * (rank + 1))))
    V = basis.matrix.astype(np.float64)
    W = whiten(gram, len(gram), rank_cutoff(np.float64)).vectors
    return W, V @ (gram @ W), V @ (vectors[:, :few] * np.sqrt(np.maximum(values[:few], 0.0)))


def _shared_pairs(
    matrices: Sequence[Float64Array],
    expected: Array,
    gain: Callable[[Float64Array], Float64Array],
    size: Size,
    counts: Float64Array,
    engine: Engine,
) -> tuple[list[tuple[Float64Array, Float64Array]], IntArray]:
    """Return leading eigenpairs of each matrix, and the ranks that ``size`` shares out by gain(λ).

    Somewhat more than ``expected`` pairs come from random vectors with a fixed start, so that results repeat.
    A matrix where even more pairs turn out to be worth their bytes is decomposed in full.
    """
    wanted = np.ceil(LOOKED_FOR * expected).astype(np.intp) + LOOKED_FOR_AT_LEAST

    def leading(s: int) -> tuple[Float64Array, Float64Array]:
        return randomized_eigh(matrices[s], int(wanted[s]), POWERS, EXTRA, np.random.default_rng(0))

    pairs = engine.map(leading, range(len(matrices)))
    while True:
        ranks = size.share([gain(np.maximum(values, 0.0)) for values, _ in pairs], counts)
        known = np.asarray([len(values) for values, _ in pairs])
        whole = np.asarray([len(matrix) for matrix in matrices])
        short = [int(s) for s in np.flatnonzero((ranks == known) & (known < whole))]
        if not short:
            return pairs, ranks
        for s, pair in zip(short, engine.map(lambda s: descending_eigh(matrices[s]), short), strict=True):
            pairs[s] = pair
