"""Low rank plus diagonal blocks as a transformer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from gramian._typing import Rows
from gramian.approximations.approximation import Approximation, approximation
from gramian.approximations.block_diagonal import expected_rows, left_out, whole_blocks
from gramian.compression.builder import Bounds, Builder, BuildSettings, block_members
from gramian.compression.features import FeatureMap, forest_of
from gramian.data.source import RowSource
from gramian.landmarks.partition import Partition
from gramian.landmarks.rules import Landmarks, select_landmarks


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

    root_rank: int = 500
    n_blocks: int | None = None
    landmarks: Any = "kmeans"
    partition: str = "tree"

    def builder(self) -> LowRankPlusBlocksBuilder:
        return self._sizes(LowRankPlusBlocksBuilder)


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
