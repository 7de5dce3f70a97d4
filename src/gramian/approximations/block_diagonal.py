"""Block-diagonal approximation, of the kernel or of what a low rank leaves of it, as transformers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from gramian._checks import one_of
from gramian._random import children
from gramian._typing import IntArray, Rows
from gramian.approximations.approximation import Approximation, approximation
from gramian.compression.basis import Basis
from gramian.compression.builder import Bounds, Builder, BuildSettings, block_members
from gramian.compression.features import FeatureMap, forest_of
from gramian.data.source import RowSource
from gramian.exceptions import BudgetError
from gramian.landmarks.partition import Partition
from gramian.landmarks.rules import METHODS as LANDMARKS
from gramian.landmarks.rules import Landmarks, select_landmarks

#: Rows of the largest block over the mean that a plan assumes, for the tree's even blocks and for others.
#: Chosen by hand.
EVEN, UNEVEN = 1.25, 3.0
#: Smallest block size that a plan assumes, because equal rows stay together and so small a block is cheap.
#: Chosen by hand.
LEAST_ROWS = 50


@dataclass(frozen=True)
class BlockDiagonalBuilder(Builder):
    r"""K̃_st = 0 for s ≠ t, and K̃_ss = K_ss or its Nyström approximation of rank ``rank``.

    Time O(n_blocks · m² (m + d)), memory O(n_blocks · m (d + r)); m is the rows of a block without a
    ``rank``.
    """

    method: ClassVar[str] = "blockdiagonal"
    remedy: ClassVar[str] = "lower rank, or raise n_blocks"  # smaller blocks take fewer bytes
    rank: int | None = None
    n_blocks: int = 50
    oversampling: float = 1.5
    landmarks: Landmarks = "kmeans"
    partition: str = "tree"
    block_rows: int | None = None

    def settle(self, source: RowSource, settings: BuildSettings) -> Self:
        """Return the builder with the number of rows per block filled in."""
        n = source.shape[0]
        return replace(self, block_rows=expected_rows(n, self.n_blocks, self.partition))

    @property
    def bounds(self) -> Bounds:
        rows = self.block_rows or 1
        landmarks = rows if self.rank is None else max(1, round(self.oversampling * self.rank))
        return Bounds(n_blocks=self.n_blocks, landmarks=landmarks, rank=self.rank or landmarks)

    def sample_size(self, n_rows: int) -> int:
        """Return all rows if every row is a landmark, else the usual sample size."""
        return n_rows if self.rank is None else super().sample_size(n_rows)

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Whiten the kernel on the landmarks of each block."""
        members = block_members(partition.route(sample, settings.engine), partition.n_blocks)
        if self.rank is None:
            bases = whole_blocks(sample, members, settings, most=self.bounds.landmarks)
        else:
            bases = self._low_rank(sample, members, settings)
        notes = left_out(bases)
        return FeatureMap.of_blocks(bases, None, partition, settings.kernel, settings.dtype, notes)

    def _low_rank(self, sample: Rows, members: list[IntArray], settings: BuildSettings) -> list[Basis]:
        streams, kernel = children(settings.rng, len(members)), settings.kernel
        rank, count = self.bounds.rank, self.bounds.landmarks

        def build(s: int) -> Basis:
            local = select_landmarks(sample[members[s]], count, self.landmarks, streams[s], kernel=kernel)
            return settings.basis(local, rank)

        return settings.engine.map(build, range(len(members)))


@approximation
class BlockDiagonal(Approximation):
    r"""The kernel within blocks and zero between them: K̃_ss = K_ss, or its Nyström approximation.

    Accurate if the kernel is narrow compared with the blocks. The MEKA paper calls it BKA.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    rank : int, optional
        Rank of a block; None keeps the whole blocks of K, n·(rows of a block) numbers.
    n_blocks : int
    oversampling : float
        Landmarks per rank, if ``rank`` is given.
    landmarks : str
        Rule by name (:func:`gramian.landmarks.rules.select_landmarks`).
    partition : {"tree", "kmeans", "minibatch", "kcenters", "kernel"}
        The tree has blocks of equal size, which is best if blocks are kept whole.
    memory_budget, tile_dtype, random_state, n_jobs, verbose : as for :class:`MEKA`.

    Attributes
    ----------
    As for :class:`MEKA`; ``features_.notes`` has the trace that whitening of whole blocks cut off.

    Raises ``InputError`` for unusable input and ``BudgetError`` for a budget that is too small.

    Time O(n m (d + m)) for m landmarks or rows a block; memory n·m numbers for whole blocks.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((400, 2))
    >>> a = gm.BlockDiagonal(gamma=500.0, n_blocks=8, random_state=0).fit(X)
    >>> bool(a.relative_error(X) < 0.4), bool(a.block_errors(X).max() < 1e-6)
    (True, True)
    """

    builders = (BlockDiagonalBuilder,)

    rank: int | None = None
    n_blocks: int = 50
    oversampling: float = 1.5
    landmarks: str = "kmeans"
    partition: str = "tree"

    def builder(self) -> BlockDiagonalBuilder:
        one_of("landmarks", self.landmarks, LANDMARKS)
        return self._sizes(BlockDiagonalBuilder)


def expected_rows(n_rows: int, n_blocks: int, partition: str) -> int:
    """Return the number of rows that a plan assumes for the largest block."""
    if n_blocks == 1:
        return n_rows
    likely = math.ceil((EVEN if partition == "tree" else UNEVEN) * n_rows / n_blocks) + 1
    return min(n_rows, max(LEAST_ROWS, likely))


def check_rows(rows: int, most: int) -> None:
    """Raise if a block has more rows than the plan assumed."""
    if rows > most:
        raise BudgetError(
            f"The partition is uneven: its largest block has {rows} different rows, over the {most} that "
            "the plan counted with. Take partition='tree', or more n_blocks.",
            0,
        )


def whole_blocks(
    sample: Rows, members: list[IntArray], settings: BuildSettings, *above: Basis, most: int
) -> list[Basis]:
    """Return bases whose landmarks are all rows of their block, with repeated rows taken once.

    They span the (residual) kernel on the block; eigenvalues below the cutoff, including negative ones, are
    left out. ``most`` bounds the rows of a block. Time O(Σ n_s² (n_s + d)), memory O(max n_s²) a thread.
    """

    def different(mine: IntArray) -> Rows:
        rows = sample[mine]
        if not sp.issparse(rows):
            return np.unique(rows, axis=0)
        # Two random projections identify equal sparse rows without making them dense.
        shadows = rows @ np.random.default_rng(0).standard_normal((rows.shape[1], 2))
        return rows[np.sort(np.unique(shadows, axis=0, return_index=True)[1])]

    points = [different(mine) for mine in members]
    check_rows(max((rows.shape[0] for rows in points), default=0), most)

    def build(rows: Rows) -> Basis:
        return settings.basis(rows, rows.shape[0], *above, spectral=True)

    return settings.engine.map(build, points)


def left_out(bases: list[Basis]) -> dict[str, float]:
    """Return a note with the sum of magnitudes of the eigenvalues that whitening cut off."""
    return {"trace left out of the blocks": float(sum(b.dropped for b in bases))}


#: Rows of a block if no number of blocks is given: its basis takes as much as a root of that rank. By hand.
BLOCK_ROWS = 200


@dataclass(frozen=True)
class LowRankPlusBlocksBuilder(Builder):
    r"""K̃ = F Fᵀ + blockdiag((K − F Fᵀ)_ss), where F are the Nyström features of r₀ landmarks.

    The residual blocks are whitened on all their rows. K̃ is thus a multi-resolution approximation with the
    largest local ranks, and is solved by arrowhead elimination: Woodbury's identity, block by block. The
    directions that whitening cuts off (some negative by rounding) are noted.

    Time O(n (r₀² + m² + m d)) for blocks of m rows, memory O(n (r₀ + m)).
    """

    method: ClassVar[str] = "lowrankplusblocks"
    remedy: ClassVar[str] = "lower root_rank or raise n_blocks"  # smaller blocks take fewer bytes
    root_rank: int = 500
    n_blocks: int | None = None
    landmarks: Landmarks = "kmeans"
    partition: str = "tree"
    block_rows: int | None = None

    def settle(self, source: RowSource, settings: BuildSettings) -> Self:
        """Choose the number of blocks and fill in their rows."""
        n = source.shape[0]
        count = max(1, round(n / BLOCK_ROWS)) if self.n_blocks is None else self.n_blocks
        return replace(self, n_blocks=count, block_rows=expected_rows(n, count, self.partition))

    @property
    def bounds(self) -> Bounds:
        points = self.root_rank if isinstance(self.landmarks, str) else len(self.landmarks)
        rows = self.block_rows or 1  # all of them are landmarks
        return Bounds(points, points, n_blocks=self.n_blocks or 1, landmarks=rows, rank=rows)

    def sample_size(self, n_rows: int) -> int:
        """Return the number of rows, because each row is a landmark of its block."""
        return n_rows

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Whiten the kernel on the root's landmarks, and its residual on all rows of each block."""
        kernel, engine = settings.kernel, settings.engine
        points = select_landmarks(
            sample, self.bounds.root_landmarks, self.landmarks, settings.rng, engine, kernel=kernel
        )
        root = settings.basis(points, self.root_rank)
        members = block_members(partition.route(sample, engine), partition.n_blocks)
        bases = whole_blocks(sample, members, settings, root, most=self.bounds.landmarks)
        forest = forest_of(partition, [[root.rank], [b.rank for b in bases]], root=True)
        return FeatureMap(kernel, partition, forest, (root, *bases), None, settings.dtype, left_out(bases))


@approximation
class LowRankPlusBlocks(Approximation):
    r"""Nyström plus the exact diagonal blocks of its residual: K̃ = F Fᵀ + blockdiag(K − F Fᵀ).

    In Gaussian processes this is the partially independent training conditional (PITC); features of new rows
    are those of PIC. K̃ equals K within blocks. :class:`MultiResolution` has the same form with low-rank
    blocks, at a fraction of the bytes.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params : as for :class:`MEKA`.
    root_rank : int
        Rank (and landmarks) of F.
    n_blocks : int, optional
        None makes blocks of about 200 rows.
    landmarks : str or array (m, d)
        Landmarks of F: a rule by name (:func:`gramian.landmarks.rules.select_landmarks`), or points.
    partition : {"tree", "kmeans", "minibatch", "kcenters", "kernel"}
    memory_budget, tile_dtype, random_state, n_jobs, verbose : as for :class:`MEKA`.

    Attributes
    ----------
    As for :class:`MEKA`; ``features_.notes`` has the trace of the residual blocks that whitening cut off,
    which is rounding and includes negative directions.

    Raises ``InputError`` for unusable input and ``BudgetError`` if n·(root_rank + rows of a block) numbers
    exceed the budget; more blocks take less.

    Time O(n (m₀ + m) (d + m₀ + m)) for m₀ landmarks and m rows a block, memory n·(root_rank + m) numbers.

    Source: Quiñonero-Candela and Rasmussen 2005; Snelson and Ghahramani 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.approximations import LowRankPlusBlocks
    >>> X = np.random.default_rng(0).random((600, 2))
    >>> a = LowRankPlusBlocks(gamma=20.0, root_rank=40, random_state=0).fit(X)
    >>> bool(a.relative_error(X) < 0.05), bool(a.block_errors(X).max() < 1e-6)
    (True, True)
    """

    builders = (LowRankPlusBlocksBuilder,)

    root_rank: int = 500
    n_blocks: int | None = None
    landmarks: Any = "kmeans"
    partition: str = "tree"
