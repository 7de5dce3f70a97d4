"""Spectra of the diagonal blocks of a kernel matrix, and the ranks that the paper's rule takes from them.

Source: Wang, Li, Mahoney and Darve, "Block Basis Factorization for Scalable Kernel Evaluation", section
3.2.2, part 3 ("Pre-computation: Parameter Selection").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as la

from gramian._typing import Float64Array, IntArray, Rows
from gramian.compression.rank_sharing import Size
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
