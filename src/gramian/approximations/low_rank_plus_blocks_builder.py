"""Low rank plus exact diagonal blocks: PITC, with PIC's predictions.

Source: Quiñonero-Candela and Rasmussen 2005; Snelson and Ghahramani 2007.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from gramian._typing import Rows
from gramian.approximations.block_diagonal_builder import expected_rows, left_out, whole_blocks
from gramian.compression.basis import BasisBuilder
from gramian.compression.builder import Builder, block_members, choose_landmarks
from gramian.compression.features import FeatureMap, forest_of
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.landmarks.partition import Partition
from gramian.landmarks.rules import Landmarks

#: Rows of a block where no number of blocks is given: their bases take as much as a root of that rank.
BLOCK_ROWS = 200


@dataclass(frozen=True)
class LowRankPlusBlocksBuilder(Builder):
    r"""K̃ = F Fᵀ + blockdiag((K − F Fᵀ)_ss), F the Nyström features of r₀ landmarks.

    The blocks of the residual are whitened on all their rows, so that K̃ is multi-resolution with the
    largest local ranks, and its solves are the arrowhead's: Woodbury's identity, block by block. Directions
    that whitening cuts off (negative ones by rounding among them) are noted.

    n_blocks : None makes blocks of about 200 rows.

    Time O(n (r₀² + m² + m d)) for blocks of m rows, memory O(n (r₀ + m)).
    """

    method: ClassVar[str] = "lowrankplusblocks"
    root_rank: int = 500
    n_blocks: int | None = None
    landmarks: Landmarks = "kmeans"
    partition: str = "tree"
    block_rows: int | None = None

    def settle(
        self, source: RowSource, kernel: Kernel, *, dtype: Any, rng: np.random.Generator, engine: Engine
    ) -> Self:
        """Choose the number of blocks, and note their rows."""
        n = source.shape[0]
        count = max(1, round(n / BLOCK_ROWS)) if self.n_blocks is None else self.n_blocks
        return replace(self, n_blocks=count, block_rows=expected_rows(n, count, self.partition))

    @property
    def n_leaves(self) -> int:
        """Blocks that are asked for."""
        return self.n_blocks or 1

    @property
    def landmarks_per_block(self) -> int:
        """All rows of a block."""
        return self.block_rows or 1

    @property
    def block_rank(self) -> int:
        """Bound on the rank of a block: its rows."""
        return self.landmarks_per_block

    @property
    def root_landmarks(self) -> int:
        """Landmarks of the global basis."""
        return self.root_rank if isinstance(self.landmarks, str) else len(self.landmarks)

    @property
    def remedy(self) -> str:
        """Smaller blocks take fewer bytes."""
        return "lower root_rank or raise n_blocks"

    def sample_size(self, n_rows: int) -> int:
        """All rows: each is a landmark of its block."""
        return n_rows

    def assemble(
        self,
        sample: Rows,
        partition: Partition,
        kernel: Kernel,
        *,
        dtype: Any,
        rng: np.random.Generator,
        engine: Engine,
    ) -> FeatureMap:
        """Whiten the kernel on the root's landmarks, and what it leaves over on all rows of each block."""
        points = choose_landmarks(sample, self.root_landmarks, self.landmarks, rng, engine, kernel=kernel)
        root = BasisBuilder(kernel, dtype, ()).build(points, self.root_rank)
        members = block_members(partition.route(sample, engine), partition.n_blocks)
        bases = whole_blocks(kernel, sample, members, (root,), dtype, engine, most=self.landmarks_per_block)
        forest = forest_of(partition, [[root.rank], [b.rank for b in bases]], root=True)
        return FeatureMap(kernel, partition, forest, (root, *bases), None, np.dtype(dtype), left_out(bases))
