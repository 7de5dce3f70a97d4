"""Blocks and ranks of a block basis factorization by the paper's rule, from spectra of diagonal blocks.

Source: Wang, Li, Mahoney and Darve, "Block Basis Factorization for Scalable Kernel Evaluation", section
3.2.2, part 3 ("Pre-computation: Parameter Selection").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg as la

from gramian._budget import format_bytes
from gramian._random import children
from gramian._typing import Float64Array, IntArray, Rows
from gramian.compression.builder import block_members
from gramian.compression.recompression import Size
from gramian.engine import Engine
from gramian.exceptions import BudgetError, InputError
from gramian.kernels.base import Kernel
from gramian.landmarks.partition import Partition, fit_partition
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
            unscaled = block_spectrum(kernel, sample[members[i]], streams[i], times, tol * share, most)
            return replace(unscaled, levels=unscaled.levels / share)

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
    count, rank, factor = FIRST_PIVOTS, 0, None
    while True:
        factor = rpcholesky_factor(kernel, rows, min(count, n) - rank, rng, after=factor, n_jobs=1)
        rank = len(factor.factor)
        spans = rank < min(count, n) or rank == n
        spectrum = _from_factor(kernel, rows, factor, rng, times)
        reliable = rank // PIVOTS_A_VALUE
        if spans or spectrum.levels[reliable] < tol or reliable >= most or count >= MOST_PIVOTS:
            return spectrum
        count *= 2


def _from_factor(
    kernel: Kernel, rows: Rows, pivoted: PivotedFactor, rng: np.random.Generator, times: float
) -> Spectrum:
    """Return the levels that a factor and what it leaves give: those of an approximation of each rank."""
    F, n = pivoted.factor, rows.shape[0]
    values = times * la.eigvalsh(F @ F.T, check_finite=False)[::-1]
    columns = np.sort(rng.choice(n, min(n, CHECKED_COLUMNS), replace=False))
    left = kernel(rows, rows[columns], dtype=np.float64, n_jobs=1) - F.T @ F[:, columns]
    left[columns, np.arange(len(columns))] = 0.0
    sums = np.square(left).sum(axis=0)
    off, spread = times**2 * n * sums.mean(), times**2 * n * sums.std() / np.sqrt(len(columns))
    rest = off + times * float(np.square(np.maximum(pivoted.diagonal, 0.0)).sum())
    tails = np.append(np.cumsum(np.square(values)[::-1])[::-1], 0.0) + rest
    error = 0.5 * spread / tails[-1] if tails[-1] > 0 and len(columns) < n else 0.0
    return Spectrum(np.sqrt(tails / (tails[0] or 1.0)), times * n, float(error))


@dataclass(frozen=True)
class BlockSizes:
    """Result of the search; ``size`` and ``tol`` are its predictions."""

    partition: Partition
    ranks: IntArray
    counts: Float64Array  #: number of rows of each block, counting all rows
    size: float  #: size g, in numbers or bytes
    tol: float  #: ε that the ranks reach by the rule; it does not bound the error of K̃
    #: Number of blocks whose rank lies beyond the computed part of their spectrum: it is an upper bound.
    unresolved: int

    @property
    def n_blocks(self) -> int:
        """Number of blocks k."""
        return len(self.ranks)


@dataclass
class BlockSearch:
    r"""Search for the number of blocks k and ranks r_i by the paper's rule, for a tolerance or a size.

    For k clusters the rank of block i is r_i = min{m : Σ_{p>m} σ_p² < (n_i/n)² ‖M_ii‖_F² ε²} with the
    singular values σ of its diagonal block M_ii. k minimises g(k) = Σ n_i r_i + (Σ r_i)² (or, for a size, the
    ε that fits in it) among the powers of two up to √n, and then among numbers around the best of these. The
    paper bisects 1 … √n; where g has several minima, or is flat around √n/2, that misses the least one.
    Clusters of different k have random streams of their own, so the order of trials has no effect.

    sample : (m, d), drawn from the ``n_rows`` rows; partitions and spectra are computed from it.
    partition : clustering rule.

    The rule is a heuristic: it bounds the diagonal blocks and takes their ranks for whole block rows, so that
    the error of K̃ may exceed ε. :class:`BlockBasisBuilder` chooses by trials instead.

    Time O(log n · Σ n_i r_i (d + r_i)) for twice the ranks r_i that are asked for, at most 1,024 a block;
    memory O(Σ n_i r_i) over the sampled rows.
    """

    sample: Rows
    n_rows: int
    kernel: Kernel
    rng: np.random.Generator
    engine: Engine
    partition: str = "kmeans"
    _done: dict[tuple[int, float, float], tuple[Partition, Spectra]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._seed = int(self.rng.integers(2**32))

    @property
    def most_blocks(self) -> int:
        """Largest number of blocks √n, the paper's bound on k."""
        return max(1, math.isqrt(min(self.n_rows, self.sample.shape[0])))

    def spectra(
        self, n_blocks: int, tol: float = 0.0, numbers: float = math.inf
    ) -> tuple[Partition, Spectra]:
        """Return the partition into ``n_blocks`` clusters, and spectra as far as is asked."""
        key = n_blocks, tol, numbers
        if key not in self._done:
            stream = np.random.default_rng([self._seed, n_blocks])
            partition = fit_partition(
                self.sample, n_blocks, method=self.partition, rng=stream, kernel=self.kernel
            )
            members = block_members(partition.route(self.sample, self.engine), partition.n_blocks)
            streams = children(stream, partition.n_blocks)
            self._done[key] = (
                partition,
                Spectra.of(
                    self.kernel,
                    self.sample,
                    members,
                    self.n_rows,
                    streams,
                    self.engine,
                    tol=tol,
                    numbers=numbers,
                ),
            )
        return self._done[key]

    def for_tolerance(self, tol: float, size: Size | None = None, n_blocks: int | None = None) -> BlockSizes:
        """Return the blocks and ranks of the smallest size that reaches ``tol``.

        ``size`` is an upper bound and sets the units; ``n_blocks`` fixes k. If the bound is too small, raises
        :class:`BudgetError` with the best result that fits.
        """
        if not 0 < tol < math.inf:
            raise InputError(f"tol={tol!r} is not a tolerance. Give a positive, finite number.")
        size = Size(math.inf) if size is None else size
        sizes = self._best(size, tol, n_blocks)
        if sizes.size > size.limit:
            best = self.for_size(size, n_blocks)
            whole = size.limit >= size.basis * self.n_rows**2 / 2
            limit, remedy = ("of K itself", "tol") if whole else ("allowed", "max_bytes or tol")
            raise BudgetError(
                f"tol={tol:g} needs {_amount(sizes.size, size)} by the spectra of the diagonal blocks, more "
                f"than the {_amount(size.limit, size)} {limit}: the best that fits is tol={best.tol:.2g} "
                f"with {best.n_blocks} block{'s' * (best.n_blocks > 1)}. Raise {remedy}.",
                math.ceil(sizes.size),
            )
        return sizes

    def for_size(self, size: Size, n_blocks: int | None = None) -> BlockSizes:
        """Return the blocks and ranks of the smallest tolerance that fits in ``size``."""
        sizes = self._best(size, None, n_blocks)
        if not sizes.ranks.any():
            least = float(sizes.counts.min(initial=np.inf)) * size.basis + size.core
            raise BudgetError(
                f"{_amount(size.limit, size)} hold no column of any block: at least {_amount(least, size)} "
                "is needed. Raise max_bytes or rank.",
                math.ceil(least),
            )
        return sizes

    def _sizes(self, k: int, size: Size, tol: float | None) -> BlockSizes:
        partition, spectra = self.spectra(k, tol or 0.0, size.limit / size.basis)
        ranks = spectra.for_size(size) if tol is None else spectra.for_tolerance(tol)
        return BlockSizes(
            partition,
            ranks,
            spectra.counts,
            spectra.size(ranks, size),
            spectra.tolerance(ranks),
            spectra.unresolved(ranks),
        )

    def _best(self, size: Size, tol: float | None, n_blocks: int | None) -> BlockSizes:
        """Return the least size for a tolerance, or the least tolerance of the size where there is none."""
        if n_blocks is not None:
            return self._sizes(n_blocks, size, tol)
        seen: dict[int, BlockSizes] = {}

        def cost(k: int) -> float:
            seen[k] = self._sizes(k, size, tol)
            return seen[k].tol if tol is None else seen[k].size

        return seen[least_count(cost, self.most_blocks)]


def least_count(cost: Callable[[int], float], most: int) -> int:
    """Return the number with the least cost among powers of two, and numbers ever nearer to the best one."""
    seen = {k: cost(k) for k in sorted({*(2**i for i in range(most.bit_length())), most})}
    for factor in (2**0.5, 2**0.25, 2**0.125):
        best = min(seen, key=lambda k: (seen[k], k))
        near = {min(max(1, round(count)), most) for count in (best / factor, best * factor)}
        seen |= {k: cost(k) for k in sorted(near - set(seen))}
    return min(seen, key=lambda k: (seen[k], k))


def _amount(value: float, size: Size) -> str:
    return format_bytes(value) if size.basis > 1 else f"{value:.4g} numbers"
