"""Block basis factorization by recompression: the best ranks and core for the bytes.

Source: Wang, Li, Mahoney and Darve, "Block Basis Factorization for Scalable Kernel Evaluation", for the
structure; the computation of bases and core is gramian's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from gramian._budget import format_bytes
from gramian._typing import Rows
from gramian.approximations.meka import MEKABuilder
from gramian.compression.block_choice import BlockTrials, Build
from gramian.compression.builder import Bounds, Builder, BuildSettings
from gramian.compression.features import FeatureMap
from gramian.compression.rank_sharing import DEFAULT_RANK, Size, asked_size
from gramian.compression.recompression import leave_diagonal, recompress_core
from gramian.data.source import ArraySource, RowSource
from gramian.exceptions import BudgetError, InputError
from gramian.landmarks.partition import Partition, fit_partition
from gramian.landmarks.rules import Landmarks

#: Landmarks per rank in trials. They rank settings almost as more landmarks do, at a third of the time.
#: Chosen by hand.
TRIAL_OVERSAMPLING = 4.0


@dataclass(frozen=True)
class BlockBasisBuilder(Builder):
    r"""K̃ = U C Uᵀ of a given size, where the orthonormal U_s comes from the whole block row.

    A block has fewer landmarks than ``oversampling`` times its rank where they leave little of the trace
    (:data:`~.recompression.LEFT_OVER`). The trials include a stored diagonal in the error.
    :meth:`settle` fills in ``n_blocks``, ``rank`` (the mean) and ``limit``; the size properties need it.

    Time of the trials: about ten builds on 12,000 rows. Of the build: O(n (m d + m²) + (c m)² (d + r)).
    """

    method: ClassVar[str] = "bbf"
    coupled: ClassVar[bool] = True
    rank: int | None = None
    n_blocks: int | None = None
    tol: float | None = None
    max_bytes: int | None = None
    oversampling: float = 7.0
    landmarks: Landmarks = "rpcholesky"
    partition: str = "kmeans"
    diagonal: bool = False
    limit: float | None = None
    trial_error: float | None = None

    def settle(self, source: RowSource, settings: BuildSettings) -> Self:
        """Choose the open sizes by trials on a sample."""
        n = source.shape[0]
        trials = BlockTrials.on(
            source, self._trial(settings), settings.rng, settings.engine, stored_diagonal=self.diagonal
        )
        budget = self.max_bytes
        if budget is not None and self.diagonal:
            budget -= n * np.dtype(np.float64).itemsize
        size = asked_size(n, settings.dtype.itemsize, self.rank, self.n_blocks, budget)
        if self.tol is not None:
            count, size = self._for_tolerance(trials, size, n)
        else:
            count = trials.best_count(size) if self.n_blocks is None else min(self.n_blocks, n)
        rank = max(1, round(size.equal_rank(n, count)))
        found = trials.errors.get((count, size.limit))
        return replace(self, n_blocks=count, rank=rank, limit=size.limit, trial_error=found)

    def _for_tolerance(self, trials: BlockTrials, size: Size, n: int) -> tuple[int, Size]:
        assert self.tol is not None
        # K itself has n²/2 numbers.
        most = size.limit if self.max_bytes is not None else size.basis * n * n / 2
        start = Size(min(most, size.basis * DEFAULT_RANK * n), size.basis, size.core)
        count, size, error = trials.least_size(self.tol, start, most)
        if error > self.tol:
            got = format_bytes(size.limit if size.basis > 1 else 8 * size.limit)
            raise BudgetError(
                f"tol={self.tol:g} cannot be reached within {got}: the best that fits, {count} blocks, has a "
                f"relative error of about {error:.2g}. Raise "
                f"{'max_bytes or ' if self.max_bytes is not None else ''}tol.",
                round(size.limit),
            )
        return count, size

    def _trial(self, settings: BuildSettings) -> Build:
        def build(
            sample: ArraySource, n_blocks: int, size: Size, n_rows: int, rng: np.random.Generator
        ) -> FeatureMap:
            rank = max(1, round(size.equal_rank(n_rows, n_blocks)))
            over = min(self.oversampling, TRIAL_OVERSAMPLING)
            inner = self._inner(n_blocks, rank, over)
            rows = settings.floats(sample.rows(slice(0, sample.shape[0])))
            partition = fit_partition(
                rows, n_blocks, method=self.partition, n_levels=1, rng=rng, kernel=settings.kernel
            )
            drawn = replace(settings, rng=rng)
            found = recompress_core(
                inner.assemble(rows, partition, drawn), size, sample, drawn, n_rows=n_rows
            )
            return leave_diagonal(found, sample, chunk_rows=drawn.chunk_rows) if self.diagonal else found

        return build

    def _inner(self, n_blocks: int, rank: int, oversampling: float) -> MEKABuilder:
        return MEKABuilder(
            rank=rank,
            n_blocks=n_blocks,
            core="recompressed",
            oversampling=oversampling,
            landmarks=self.landmarks,
            partition=self.partition,
        )

    @property
    def settled(self) -> MEKABuilder:
        """Builder of the larger bases before recompression; raises before :meth:`settle`."""
        if self.n_blocks is None or self.rank is None or self.limit is None:
            raise InputError("sizes are not chosen yet; call settle first.")
        return self._inner(self.n_blocks, self.rank, self.oversampling)

    @property
    def bounds(self) -> Bounds:
        return replace(self.settled.bounds, passes=1)

    def working_bytes(self, n_rows: int, n_features: int, itemsize: int) -> int:
        """Return the bytes of the recompression."""
        return self.settled.working_bytes(n_rows, n_features, itemsize)

    def assemble(self, sample: Rows, partition: Partition, settings: BuildSettings) -> FeatureMap:
        """Choose landmarks in each block and whiten the kernel on all of them."""
        return self.settled.assemble(sample, partition, settings)

    def finish(self, features: FeatureMap, source: RowSource, settings: BuildSettings) -> FeatureMap:
        """Recompress bases and core to the size."""
        assert self.limit is not None
        assert self.rank is not None
        numbers = self.max_bytes is None
        size = Size(self.limit) if numbers else Size(self.limit, features.dtype.itemsize, 8.0)
        found = recompress_core(features, size, source, settings)
        return leave_diagonal(found, source, chunk_rows=settings.chunk_rows) if self.diagonal else found
