"""Choice of the number and size of blocks by trials on a sample, scored on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gramian._random import children
from gramian._typing import IntArray
from gramian.compression.features import FeatureMap
from gramian.compression.rank_sharing import Size
from gramian.compression.residual import Residual
from gramian.data.source import ArraySource, RowSource, sample_rows
from gramian.engine import Engine

#: Rows on which trials are built, validation rows, and columns of the error matrix. Chosen by hand.
TRIAL_ROWS, VALIDATION_ROWS, VALIDATION_COLUMNS = 12_000, 2_000, 500
#: Numbers of blocks tried first. Half and double the best one follow, then steps of 2^(1/2). Chosen by hand.
FIRST_COUNTS = (1, 4, 16, 64)
#: Smallest number of rows in a block. Chosen by hand.
LEAST_BLOCK = 30
#: A size is accepted if its error is at least ``CLOSE`` times the tolerance; at most ``MOST_SIZES`` sizes are
#: tried. Chosen by hand.
CLOSE, MOST_SIZES = 0.8, 12

#: (sample, n_blocks, size, n, generator) → features of the sample, sized for n rows.
Build = Callable[[ArraySource, int, Size, int, np.random.Generator], FeatureMap]


@dataclass
class BlockTrials:
    """Relative errors of approximations with given blocks and size, each built once.

    Every trial uses the same sample, validation rows and random stream, so two trials differ only in their
    blocks. One trial costs one build on 12,000 rows.
    """

    build: Build
    n_rows: int
    sample: ArraySource
    validation: ArraySource
    columns: IntArray
    seed: int
    engine: Engine
    stored_diagonal: bool = False
    errors: dict[tuple[int, float], float] = field(default_factory=dict)

    @classmethod
    def on(
        cls,
        source: RowSource,
        build: Build,
        rng: np.random.Generator,
        engine: Engine,
        *,
        stored_diagonal: bool = False,
    ) -> BlockTrials:
        """Draw the sample and, where there are enough rows, other rows for validation."""
        n = source.shape[0]
        drawing, validating, trial = children(rng, 3)
        rows, numbers = sample_rows(source, min(n, TRIAL_ROWS), drawing)
        others = np.setdiff1d(np.arange(n), numbers) if n < 4 * TRIAL_ROWS else None
        if n <= TRIAL_ROWS + VALIDATION_ROWS:
            # Too few rows for a separate validation set: all rows serve for both.
            validation = rows
        elif others is None:
            validation = sample_rows(source, VALIDATION_ROWS, validating)[0]
        else:
            validation = source.take(np.sort(validating.choice(others, VALIDATION_ROWS, replace=False)))
        count = validation.shape[0]
        columns = np.sort(validating.choice(count, min(VALIDATION_COLUMNS, count), replace=False))
        seed = int(trial.integers(2**32))
        return cls(
            build, n, ArraySource(rows), ArraySource(validation), columns, seed, engine, stored_diagonal
        )

    def error(self, n_blocks: int, size: Size) -> float:
        """Return ‖K − K̃‖_F/‖K‖_F estimated from validation rows × columns."""
        key = n_blocks, size.limit
        if key not in self.errors:
            features = self.build(self.sample, n_blocks, size, self.n_rows, np.random.default_rng(self.seed))
            left = Residual(
                features, self.validation, self.engine, self.validation.shape[0], self.stored_diagonal
            )
            sums = left.column_sums(self.columns, np.ones(len(self.columns)))
            diagonal = left.leftover()
            # A full row of K has n − 1 off-diagonal entries, a sampled one has fewer: scale them up.
            others = (self.n_rows - 1) / max(1, self.validation.shape[0] - 1)
            error = others * sums.error.sum() + np.square(left.diagonal(diagonal)[self.columns]).sum()
            total = others * sums.kernel.sum() + np.square(diagonal.kernel[self.columns]).sum()
            self.errors[key] = float(np.sqrt(error / total)) if total > 0 else 0.0
        return self.errors[key]

    @property
    def most_blocks(self) -> int:
        """Largest number of blocks for which a block still has ``LEAST_BLOCK`` rows."""
        return max(1, min(self.n_rows, self.sample.shape[0]) // LEAST_BLOCK)

    def best_count(self, size: Size, counts: Sequence[int] = FIRST_COUNTS) -> int:
        """Return the number of blocks with the least error, from a grid refined twice around its best."""
        tried = self._tried(size, counts)
        for factor in (2.0, np.sqrt(2.0)):
            best = min(tried, key=tried.__getitem__)
            tried |= self._tried(size, [round(best / factor), round(best * factor)])
        return min(tried, key=tried.__getitem__)

    def _tried(self, size: Size, counts: Sequence[int]) -> dict[int, float]:
        usable = sorted({min(max(1, c), self.most_blocks) for c in counts})
        # Keep only numbers of blocks for which each block gets a rank of at least 1.
        usable = [c for c in usable if c == 1 or size.equal_rank(self.n_rows, c) >= 1.0]
        return {c: self.error(c, size) for c in usable}

    def least_size(self, tol: float, start: Size, most: float) -> tuple[int, Size, float]:
        """Return blocks, size and error of the smallest size whose error is at most ``tol``.

        The search scales the size limit by the ratio of error to tolerance and keeps it inside a bracket. It
        stops at ``most``; the error may then exceed ``tol``.
        """
        size = Size(min(start.limit, most), start.basis, start.core)
        count = self.best_count(size)
        low, high = 0.0, np.inf
        found = count, size, self.error(count, size)
        for _ in range(MOST_SIZES):
            error = self.error(count, size)
            if error <= tol:
                found, high = (count, size, error), size.limit
                if error >= CLOSE * tol:
                    break
            else:
                low = size.limit
                if found[2] > tol:
                    found = count, size, error
                if size.limit >= most:
                    break
            step = float(np.clip(error / (0.9 * tol), 1 / 4, 4)) if error > 0 else 0.25
            limit = size.limit * step
            if not low < limit < high:
                limit = float(np.sqrt(max(low, high / 16) * high))
            size = Size(min(limit, most), start.basis, start.core)
            count = self.best_count(size, (count // 2, count, 2 * count))
        return found
