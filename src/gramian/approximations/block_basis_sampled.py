"""Block basis factorization as published: bases from sampled columns, inner matrix from sampled rows.

Source: Wang, Li, Mahoney and Darve, "Block Basis Factorization for Scalable Kernel Evaluation", Algorithms 1
to 5. The pivoted QR and LQ of a few rows and columns in turn is that of Engquist and Ying 2009.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from gramian._budget import format_bytes
from gramian._numerics import rank_cutoff
from gramian._random import children
from gramian._typing import Float64Array, IntArray, Rows
from gramian.approximations.block_basis_search import BlockSearch, Spectra
from gramian.compression.basis import Basis
from gramian.compression.builder import Bounds, Builder, BuildSettings, block_members
from gramian.compression.cores import Strip, join_blocks, ridge_inverse
from gramian.compression.features import FeatureMap, forest_of
from gramian.compression.randomized_svd import randomized_svd
from gramian.compression.recompression import DEFAULT_RANK, Size, asked_size, block_counts
from gramian.data.source import RowSource, sample_rows
from gramian.engine import Engine
from gramian.exceptions import BudgetError, InputError
from gramian.kernels.base import Kernel
from gramian.landmarks.partition import SAMPLE_ROWS, Partition
from gramian.landmarks.picking import pivot_columns
from gramian.solvers.core import CoupledCore


@dataclass(frozen=True)
class SampledBasisBuilder(Builder):
    r"""K̃ = U C Uᵀ with U_s = K(X_s, Y_s) V_s Σ_s⁻¹ from sampled columns Y_s: Algorithm 5.

    The randomized SVD K(X_s, Y_s) ≈ U_s Σ_s V_sᵀ makes U_s orthonormal on the sampled rows, and gives any
    point x the features u_s(x) = Σ_s⁻¹ V_sᵀ k(Y_s, x). The core is C_st = H_s K(I_s, I_t) H_tᵀ, where I_s
    holds the important rows from the column sampling and as many drawn rows as the block's rank. I_s is the
    same for all t, so C is positive semi-definite for any data unless some of its blocks are set to zero.

    The paper uses the pseudo-inverse H = Û⁺ for Û = U_s(I_s, :). It blows up if Û is ill-conditioned and K
    does not have exactly this form. Here H = (ÛᵀÛ + τ Σ⁻²)⁻¹ Ûᵀ with τ = ‖K(X_s, Y_s) − U Σ Vᵀ‖_F²/n_s. This
    is least squares with the variance of the entries that U leaves out and that of the coefficients, both
    measured on the sampled columns. If U leaves nothing out, H = Û⁺.

    tol : ranks (and, if ``n_blocks`` is None, blocks) are chosen by :class:`BlockSearch`.
    max_bytes : equal ranks; if ``n_blocks`` is None, the search chooses the blocks. Ranks of the smallest
        tolerance in the budget are far worse, because a block of nearby rows may get rank 0: on abalone,
        pendigits and ctg at 100·n numbers they gave 1.2 to 2.0 times the error.
    n_rounds : q of Algorithm 1; ``n_power``, ``n_extra``: q and ℓ of Algorithm 4.
    oversampling : pivots per rank in Algorithm 1. One, as the paper has it, costs accuracy: 0.054 instead of
        0.038 on abalone (h = 1), 0.72 instead of 0.44 on ctg (h = 0.5).
    cutoff : the blocks set to zero together hold at most ``cutoff`` of ‖K̃‖_F: the bases are orthonormal.

    The features' ``notes`` have the mean number of sampled columns, the relative error of U C Uᵀ on the
    entries that C was fitted to, the number of block pairs set to zero, and the number of blocks whose
    spectrum was too flat for the search (:attr:`BlockSizes.unresolved`).

    With more than 20,000 rows (or ten per column) all of this uses a sample of the rows.
    Time O(c (m² n + rounds·m d n)) for "full", O(n m² + c² m³) for "important", on the sample of n rows;
    memory of the build O(n m) a thread for one block, n/c·m for c, and O(R²) for the core.
    """

    method: ClassVar[str] = "bbf"
    coupled: ClassVar[bool] = True
    rank: int | None = None
    n_blocks: int | None = None
    tol: float | None = None
    max_bytes: int | None = None
    n_rounds: int = 2
    sampling: str = "full"
    oversampling: float = 2.0
    n_power: int = 2
    n_extra: int = 10
    cutoff: float = 0.0
    partition: str = "kmeans"
    diagonal: bool = False
    limit: float | None = None
    n_rows: int | None = None
    predicted_tol: float | None = None

    def settle(self, source: RowSource, settings: BuildSettings) -> Self:
        """Choose the open sizes from the spectra of diagonal blocks of a sample."""
        n, budget = source.shape[0], self.max_bytes
        if budget is not None and self.diagonal:
            budget -= n * np.dtype(np.float64).itemsize
        size = asked_size(n, settings.dtype.itemsize, self.rank, self.n_blocks, budget)
        if self.tol is None and self.n_blocks is not None:
            if budget is None:
                return replace(self, rank=min(self.rank or DEFAULT_RANK, n))
            return replace(self, rank=_equal_rank(size, n, self.n_blocks), limit=size.limit)
        sample = settings.floats(sample_rows(source, min(n, SAMPLE_ROWS), settings.rng)[0])
        search = BlockSearch(sample, n, settings.kernel, settings.rng, settings.engine, self.partition)
        if self.tol is None:
            sizes = search.for_size(size)
            rank = _equal_rank(size, n, sizes.n_blocks)
        else:
            # K itself has n²/2 numbers.
            size = size if budget is not None else replace(size, limit=size.basis * n * n / 2)
            sizes = search.for_tolerance(self.tol, size, self.n_blocks)
            rank = max(1, round(float(sizes.ranks.mean())))
        return replace(
            self, n_blocks=sizes.n_blocks, rank=rank, limit=size.limit, n_rows=n, predicted_tol=sizes.tol
        )

    @property
    def bounds(self) -> Bounds:
        if self.n_blocks is None or self.rank is None:
            raise InputError("sizes are not chosen yet; call settle first.")
        # The most sampled columns of a block: pivots, and as many random ones.
        columns = 2 * self._pivots(self.rank)
        return Bounds(n_blocks=self.n_blocks, landmarks=columns, rank=self.rank, definite=not self.cutoff)

    def working_bytes(self, n_rows: int, n_features: int, itemsize: int) -> int:
        """Return the bytes of a strip of sampled rows or columns and of its factors, for two threads.

        A strip of rows has all candidates as columns. A strip of columns has the rows of a block, assumed to
        be twice the mean block.
        """
        rows, count, columns = self.sample_size(n_rows), self.bounds.n_blocks, self.bounds.landmarks
        candidates = rows if self.sampling == "full" else min(rows, count * columns // 2)
        longest = max(candidates, min(rows, 2 * rows // count))
        return round(4.4 * 8 * min(2, count) * columns * longest)

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Sample columns of each block row, orthonormalise them, and fit the inner matrix on sampled rows."""
        kernel, dtype, engine = settings.kernel, settings.dtype, settings.engine
        members = block_members(partition.route(sample, engine), partition.n_blocks)
        picking, searching, streams = (children(stream, len(members)) for stream in children(settings.rng, 3))
        ranks, flat = self._ranks(kernel, sample, members, searching, dtype.itemsize, engine)
        pivots = np.asarray([self._pivots(r) for r in ranks], np.intp)
        candidates = sample
        if self.sampling == "important":
            candidates = sample[important_rows(kernel, sample, members, pivots, picking, engine)]

        def build(s: int) -> _FittedBlock:
            row = BlockRow(kernel, sample[members[s]], candidates)
            return self._block(row, int(ranks[s]), int(pivots[s]), dtype, streams[s])

        rows = engine.map(build, range(len(members)))
        bases = tuple(row.basis for row in rows)
        core, notes = self._core(kernel, rows, engine)
        notes["sampled columns"] = float(np.mean([b.landmarks.shape[0] for b in bases]))
        if flat:
            notes["blocks with ranks too large to tell"] = float(flat)
        return FeatureMap.of_blocks(bases, core, partition, kernel, dtype, notes)

    def finish(self, features: FeatureMap, source: RowSource, settings: BuildSettings) -> FeatureMap:
        """Drop trailing directions if all rows, unlike the sample, would exceed the size limit."""
        if self.limit is None:
            return features
        counts = block_counts(features.partition, source, settings)
        size = self._size(features.dtype.itemsize)
        gains = [basis.values for basis in features.nodes]
        return _truncate(features, size.share(gains, counts.astype(np.float64)))

    def _pivots(self, rank: int) -> int:
        return max(1, round(self.oversampling * int(rank)))

    def _size(self, itemsize: int) -> Size:
        assert self.limit is not None
        return Size(self.limit) if self.max_bytes is None else Size(self.limit, itemsize, 8.0)

    def _ranks(
        self,
        kernel: Kernel,
        sample: Rows,
        members: Sequence[IntArray],
        streams: Sequence[np.random.Generator],
        itemsize: int,
        engine: Engine,
    ) -> tuple[IntArray, int]:
        """Return the ranks, and the number of blocks whose rank is an upper bound only."""
        if self.tol is None or self.n_rows is None:
            return np.full(len(members), self.rank or DEFAULT_RANK, np.intp), 0
        size = self._size(itemsize)
        spectra = Spectra.of(
            kernel,
            sample,
            members,
            self.n_rows,
            streams,
            engine,
            tol=self.tol,
            numbers=size.limit / size.basis,
        )
        # These blocks come from another sample than the search's, so their sizes may differ a little.
        most = spectra.for_size(size)
        ranks = np.minimum(most, spectra.for_tolerance(self.tol))
        return ranks, spectra.unresolved(ranks)

    def _block(
        self, row: BlockRow, rank: int, pivots: int, dtype: DTypeLike, rng: np.random.Generator
    ) -> _FittedBlock:
        n_rows = row.rows.shape[0]
        if not n_rows or not rank:
            nothing = np.zeros((0, 0))
            basis = Basis.of_columns(row.rows[:0], nothing, row.kernel, dtype, np.zeros(0))
            return _FittedBlock(basis, row.rows[:0], nothing, nothing)
        sample = sample_columns(row, pivots, self.n_rounds, rng)
        U, values, V = randomized_svd(sample.matrix, rank, self.n_power, self.n_extra, rng)
        keep = values > rank_cutoff(dtype, coupled=True) * values[0]
        U, values, V = U[:, keep], values[keep], V[:, keep]
        fitted = np.union1d(sample.rows, draw(n_rows, rank, rng))
        left_out = max(0.0, float(np.square(sample.matrix).sum() - np.square(values).sum())) / n_rows
        basis = Basis.of_columns(
            row.columns[sample.columns], V / values, row.kernel, dtype, values**2 / len(sample.columns)
        )
        inverse = ridge_inverse(U[fitted], left_out / values**2)
        return _FittedBlock(basis, row.rows[fitted], U[fitted], inverse)

    def _core(
        self, kernel: Kernel, blocks: Sequence[_FittedBlock], engine: Engine
    ) -> tuple[CoupledCore, dict[str, float]]:
        r"""Return C_st = H_s K(I_s, I_t) H_tᵀ, s ≤ t, without the smallest blocks, and its relative error."""
        ranks = [block.basis.rank for block in blocks]
        sums = np.zeros(2)

        def strip(s: int) -> tuple[Strip, Float64Array]:
            row, missed = {}, np.zeros(2)
            mine = blocks[s]
            for t in range(s, len(blocks)):
                if not ranks[s] or not ranks[t]:
                    continue
                exact = kernel(mine.rows, blocks[t].rows, dtype=np.float64, n_jobs=1)
                own = mine.inverse @ exact @ blocks[t].inverse.T
                row[s, t] = 0.5 * (own + own.T) if s == t else own
                gap = exact - mine.values @ row[s, t] @ blocks[t].values.T
                missed += (1.0 + (s != t)) * np.asarray([np.square(gap).sum(), np.square(exact).sum()])
            return row, missed

        def rows(strips: Iterator[tuple[Strip, Float64Array]]) -> Iterator[Strip]:
            for row, missed in strips:
                sums[:] += missed
                yield row

        with engine.results(strip, range(len(blocks))) as strips:
            if not self.cutoff:
                core, dropped = join_blocks(rows(strips), ranks, None, psd=True), 0
            else:
                every = {pair: block for row in rows(strips) for pair, block in row.items()}
                kept = large_blocks(every, self.cutoff, len(blocks))
                core, dropped = CoupledCore(kept, ranks, psd=False), len(every) - len(kept)
        missed, total = sums
        notes = {"core misfit": float(np.sqrt(missed / total)) if total > 0 else 0.0}
        return core, notes | ({"pairs of blocks set to zero": float(dropped)} if self.cutoff else {})


class _FittedBlock(NamedTuple):
    """Basis of one block, with U on the rows I to which the core is fitted."""

    basis: Basis
    rows: Rows
    values: Float64Array  #: U(I, :)
    inverse: Float64Array  #: H


def large_blocks(blocks: Strip, cutoff: float, n_blocks: int) -> Strip:
    """Return the upper blocks of a symmetric matrix with ‖C_st‖_F > cutoff · ‖C‖_F/n_blocks.

    The blocks left out have a norm of at most cutoff · ‖C‖_F together. Diagonal blocks always stay.
    """
    squares = {pair: float(np.square(block).sum()) for pair, block in blocks.items()}
    total = sum(square * (1 + (s != t)) for (s, t), square in squares.items())
    least = (cutoff / n_blocks) ** 2 * total
    return {(s, t): block for (s, t), block in blocks.items() if s == t or squares[s, t] > least}


def _equal_rank(size: Size, n_rows: int, n_blocks: int) -> int:
    rank = int(size.equal_rank(n_rows, n_blocks))
    if rank < 1:
        least = size.basis * n_rows + size.core * n_blocks**2
        raise BudgetError(
            f"max_bytes={format_bytes(size.limit)} (without the order of the rows) holds no column of "
            f"each of {n_blocks} blocks: at least {format_bytes(least)} is needed. Raise it, or lower "
            "n_blocks.",
            math.ceil(least),
        )
    return rank


def _truncate(features: FeatureMap, ranks: IntArray) -> FeatureMap:
    """Return the feature map cut to the leading directions of every block, with its core cut alike."""
    core = features.core
    assert core is not None
    if tuple(ranks) == core.ranks:
        return features
    blocks = {
        (s, t): core.block(s, t)[: ranks[s], : ranks[t]]
        for s in range(len(ranks))
        for t in range(s, len(ranks))
        if not core.is_zero(s, t)
    }
    kept = [int(r) for r in ranks]
    smaller = join_blocks([blocks], kept, None, psd=core.psd) if core.is_dense else CoupledCore(blocks, kept)
    return replace(
        features,
        nodes=tuple(basis.truncated(r) for basis, r in zip(features.nodes, kept, strict=True)),
        forest=forest_of(features.partition, [kept], root=False),
        core=smaller,
    )


@dataclass(frozen=True)
class BlockRow:
    """Block row K(X_s, Y) that is never stored: entries are evaluated on request.

    ``rows`` are the points X_s of a block (n_s, d), ``columns`` the candidates Y.
    """

    kernel: Kernel
    rows: Rows
    columns: Rows

    def entries(self, rows: IntArray | None, columns: IntArray | None) -> Float64Array:
        """Return a submatrix in float64; None selects all rows or columns."""
        left = self.rows if rows is None else self.rows[rows]
        right = self.columns if columns is None else self.columns[columns]
        return np.asarray(self.kernel(left, right, dtype=np.float64, n_jobs=1), np.float64)


@dataclass(frozen=True)
class SampledColumns:
    """Chosen columns Π_c and rows Π_r of a block row M, and the values M(:, Π_c)."""

    columns: IntArray  #: numbers of the chosen candidates
    rows: IntArray  #: numbers of the block's important rows
    matrix: Float64Array  #: (n_s, columns): all rows of the chosen columns


def sample_columns(row: BlockRow, count: int, n_rounds: int, rng: np.random.Generator) -> SampledColumns:
    r"""Return representative columns of one block row: Algorithm 1, the randomized pivoted QR and LQ.

    Each round draws ``count`` random rows in addition to the important ones. The ``count`` pivots of a QR of
    these rows become the important columns. The round then draws as many random columns in addition to
    these, and the pivots of an LQ of all rows of these columns become the important rows. The result has at
    most 2·count columns. The rounds stop early when one leaves the important columns unchanged.

    Time O(rounds · count² (n_s + candidates)); at most rounds · 2·count · (n_s + candidates) kernel values.
    """
    n_rows, n_columns = row.rows.shape[0], row.columns.shape[0]
    rows = columns = important = np.zeros(0, np.intp)
    matrix = np.zeros((n_rows, 0))
    for done in range(n_rounds):
        tried = np.union1d(rows, draw(n_rows, count, rng))
        before, important = important, np.sort(pivot_columns(row.entries(tried, None), count))
        if done and np.array_equal(important, before):
            break
        columns = np.union1d(important, draw(n_columns, count, rng))
        matrix = row.entries(None, columns)
        rows = pivot_columns(matrix.T, count)
    return SampledColumns(columns, rows, matrix)


def important_rows(
    kernel: Kernel,
    points: Rows,
    members: Sequence[IntArray],
    counts: IntArray,
    streams: Sequence[np.random.Generator],
    engine: Engine,
) -> IntArray:
    r"""Return Γ, the numbers of some important rows of every block: the first half of Algorithm 3.

    They are the ``counts[s]`` pivots of an LQ of the block's rows in as many random columns. With these m
    rows per block as candidates in place of all n columns, Algorithm 1 on c blocks costs O(n m² + c² m³)
    instead of O(c n m²).
    """
    n = points.shape[0]

    def pick(s: int) -> IntArray:
        drawn = points[draw(n, int(counts[s]), streams[s])]
        strip = BlockRow(kernel, points[members[s]], drawn).entries(None, None)
        return members[s][pivot_columns(strip.T, int(counts[s]))]

    picked = engine.map(pick, range(len(members)))
    return np.sort(np.concatenate([np.zeros(0, np.intp), *picked]))


def draw(n: int, count: int, rng: np.random.Generator) -> IntArray:
    """Draw ``count`` of the numbers 0 … n − 1 without replacement, in ascending order; all if n <= count."""
    return np.arange(n) if count >= n else np.sort(rng.choice(n, count, replace=False))
