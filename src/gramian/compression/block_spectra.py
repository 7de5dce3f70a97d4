"""Spectra of the diagonal blocks of a kernel matrix, and the numbers of blocks and ranks taken from them.

Source: Wang, Li, Mahoney and Darve, "Block Basis Factorization for Scalable Kernel Evaluation", section
3.2.2, part 3 ("Pre-computation: Parameter Selection").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg as la

from gramian._random import children
from gramian._typing import Float64Array, IntArray, Rows
from gramian.compression.features import FeatureMap
from gramian.compression.rank_sharing import Size
from gramian.compression.residual import Residual
from gramian.data.source import ArraySource, RowSource, sample_rows
from gramian.engine import Engine
from gramian.kernels.base import Kernel
from gramian.landmarks.picking import PivotedFactor, rpcholesky_factor

#: Largest number of rows of a block whose eigenvalues are all computed. Chosen by hand: half a second.
DENSE_ROWS = 1200
#: First and largest number of pivots of a larger block, pivots for each rank that is asked for, and columns
#: on which what they leave is measured. Chosen by hand: tests compare the ranks with exact ones.
FIRST_PIVOTS, MOST_PIVOTS, PIVOTS_A_VALUE, CHECKED_COLUMNS = 128, 1024, 2, 64


@dataclass(frozen=True)
class Spectrum:
    """Errors ε(m) of one block at ranks m = 0 … ``computed``, descending; with all of them, the last is 0.

    Beyond ``computed`` the tail is bounded: Σ_{p>m} σ_p² is convex in m and 0 at m = n, so that it lies under
    a chord, and a rank that is read off the chord is an upper bound.
    """

    levels: Float64Array
    n_rows: float  #: n, counting all rows of the block
    error: float = 0.0  #: relative standard error of the last level

    @property
    def computed(self) -> int:
        """Largest rank whose level is computed."""
        return len(self.levels) - 1

    def rank(self, tol: float) -> int:
        """Return the smallest rank m with ε(m) < tol, or an upper bound of it beyond ``computed``."""
        if not len(self.levels):
            return 0
        last = float(self.levels[-1])
        if last < tol:
            return int(np.searchsorted(-self.levels, -tol, side="right"))
        if last == 0.0:
            return self.computed
        left = (self.n_rows - self.computed) * (1.0 - (tol / last) ** 2)
        return min(self.computed + int(left) + 1, int(np.ceil(self.n_rows)))

    def level(self, rank: int) -> float:
        """Return ε at a rank, or its bound beyond ``computed``."""
        if rank < len(self.levels):
            return float(self.levels[rank])
        left = max(self.n_rows - rank, 0.0) / max(self.n_rows - self.computed, 1.0)
        return float(self.levels[-1] * np.sqrt(left)) if len(self.levels) else 0.0


@dataclass(frozen=True)
class Spectra:
    r"""Errors ε_i(m) = (n/n_i) (Σ_{p>m} σ_p²)^(1/2)/‖M_ii‖_F of the blocks i at rank m = 0, 1, …

    Here σ_p are the singular values of the diagonal block M_ii with n_i of the n rows. Rank m is enough for a
    tolerance ε if ε_i(m) < ε.
    """

    counts: Float64Array  #: n_i, counting all rows
    blocks: tuple[Spectrum, ...]

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        sample: Rows,
        members: Sequence[IntArray],
        n_rows: int,
        streams: Sequence[np.random.Generator],
        engine: Engine,
        *,
        tol: float = 0.0,
        numbers: float = np.inf,
    ) -> Spectra:
        """Compute each spectrum to an error below ``tol``, or to a rank with n_i r_i above ``numbers``."""
        total = max(1, sum(len(m) for m in members))
        times = n_rows / total

        def spectrum(i: int) -> Spectrum:
            share = len(members[i]) / total
            if not share:
                return Spectrum(np.zeros(0), 0.0)
            most = numbers / (share * n_rows)
            found = block_spectrum(kernel, sample[members[i]], streams[i], times, tol * share, most)
            return replace(found, levels=found.levels / share)

        counts = np.asarray([len(m) for m in members], np.float64) * times
        return cls(counts, tuple(engine.map(spectrum, range(len(members)))))

    def for_tolerance(self, tol: float) -> IntArray:
        """Return the smallest ranks that keep the tolerance, by the paper's rule."""
        return np.asarray([block.rank(tol) for block in self.blocks], np.intp)

    def for_size(self, size: Size) -> IntArray:
        """Return the ranks of the smallest tolerance whose size Σ n_i r_i + (Σ r_i)² is within the limit."""
        high = float(np.nextafter(max((b.level(0) for b in self.blocks), default=0.0), np.inf))
        low = 0.0
        if self.size(self.for_tolerance(low), size) <= size.limit:
            return self.for_tolerance(low)
        middle = high / 2.0
        while low < middle < high:
            if self.size(self.for_tolerance(middle), size) <= size.limit:
                high = middle
            else:
                low = middle
            middle = (low + high) / 2.0
        return self.for_tolerance(high)

    def tolerance(self, ranks: IntArray) -> float:
        """Return the tolerance ε that these ranks reach: the largest ε_i(r_i)."""
        left = [block.level(int(rank)) for block, rank in zip(self.blocks, ranks, strict=True)]
        return max(left, default=0.0)

    def unresolved(self, ranks: IntArray) -> int:
        """Return how many blocks have a rank beyond what was computed: an upper bound of what they need."""
        beyond = [rank > block.computed for block, rank in zip(self.blocks, ranks, strict=True) if rank]
        return int(np.count_nonzero(beyond))

    def size(self, ranks: IntArray, size: Size) -> float:
        """Return the size g = Σ n_i r_i + (Σ r_i)² in the units of ``size``."""
        return size.basis * float(self.counts @ ranks) + size.core * float(ranks.sum()) ** 2


def block_spectrum(
    kernel: Kernel, rows: Rows, rng: np.random.Generator, times: float, tol: float, most: float
) -> Spectrum:
    r"""Return (Σ_{p>m} σ_p²)^(1/2)/‖M‖_F for the matrix M of ``times`` as many rows like these.

    All eigenvalues are computed of up to 1,200 rows, if there are no others. Else the largest are those of
    FᵀF of a randomly pivoted Cholesky factor F, which grows until the error is below ``tol``, the rank is
    ``most``, or F has 1,024 pivots. What it leaves, E = M − FᵀF, adds ‖E‖_F² to every tail: its diagonal is
    known, the rest is measured on 64 drawn columns. With s = ``times`` eigenvalues count s², squared entries
    off the diagonal s², and on it s.

    A level is thus the error of an approximation of rank m, a little above the least one.
    Time O(n r (d + r)) for r pivots, memory O(n r).
    """
    n = rows.shape[0]
    if n <= DENSE_ROWS and times == 1.0:
        values = la.eigvalsh(kernel(rows, dtype=np.float64, n_jobs=1), check_finite=False)
        tails = np.append(np.cumsum(np.sort(values**2))[::-1], 0.0)
        return Spectrum(np.sqrt(tails / (tails[0] or 1.0)), float(n))
    count, rank, found = FIRST_PIVOTS, 0, None
    while True:
        found = rpcholesky_factor(kernel, rows, min(count, n) - rank, rng, after=found, n_jobs=1)
        rank = len(found.factor)
        spans = rank < min(count, n) or rank == n
        spectrum = _from_factor(kernel, rows, found, rng, times)
        reliable = rank // PIVOTS_A_VALUE
        if spans or spectrum.levels[reliable] < tol or reliable >= most or count >= MOST_PIVOTS:
            return spectrum
        count *= 2


def _from_factor(
    kernel: Kernel, rows: Rows, found: PivotedFactor, rng: np.random.Generator, times: float
) -> Spectrum:
    """Return the levels that a factor and what it leaves give: those of an approximation of each rank."""
    F, n = found.factor, rows.shape[0]
    values = times * la.eigvalsh(F @ F.T, check_finite=False)[::-1]
    columns = np.sort(rng.choice(n, min(n, CHECKED_COLUMNS), replace=False))
    left = kernel(rows, rows[columns], dtype=np.float64, n_jobs=1) - F.T @ F[:, columns]
    left[columns, np.arange(len(columns))] = 0.0
    sums = np.square(left).sum(axis=0)
    off, spread = times**2 * n * sums.mean(), times**2 * n * sums.std() / np.sqrt(len(columns))
    rest = off + times * float(np.square(np.maximum(found.diagonal, 0.0)).sum())
    tails = np.append(np.cumsum(np.square(values)[::-1])[::-1], 0.0) + rest
    error = 0.5 * spread / tails[-1] if tails[-1] > 0 and len(columns) < n else 0.0
    return Spectrum(np.sqrt(tails / (tails[0] or 1.0)), times * n, float(error))


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
