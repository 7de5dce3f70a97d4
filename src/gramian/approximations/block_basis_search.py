"""Search for blocks and ranks of a block basis factorization by the spectra of its diagonal blocks.

Source: Wang, Li, Mahoney and Darve, "Block Basis Factorization for Scalable Kernel Evaluation", section
3.2.2, part 3 ("Pre-computation: Parameter Selection").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg as la

from gramian._budget import format_bytes
from gramian._random import children
from gramian._typing import Float64Array, IntArray, Rows
from gramian.compression.builder import block_members
from gramian.compression.rank_sharing import Size
from gramian.engine import Engine
from gramian.exceptions import BudgetError, InputError
from gramian.kernels.base import Kernel
from gramian.landmarks.partition import Partition, fit_partition

#: Largest number of rows of a diagonal block from which its spectrum is computed. Chosen by hand.
DIAGONAL_ROWS = 600


@dataclass(frozen=True)
class Spectra:
    r"""Errors ε_i(m) = (n/n_i) (Σ_{p>m} σ_p²)^(1/2)/‖M_ii‖_F of block i at rank m = 0, 1, …, descending.

    Here σ_p are the singular values of the diagonal block M_ii with n_i of the n rows. Rank m is enough for a
    tolerance ε if ε_i(m) < ε, so r_i(ε) = #{m : ε_i(m) ≥ ε}: one sorted list of all ε_i(m) gives the ranks
    for every tolerance and every size.
    """

    counts: Float64Array  #: n_i, counting all rows
    levels: tuple[Float64Array, ...]
    sampled: IntArray  #: number of rows of each block from which its spectrum was computed

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        sample: Rows,
        members: Sequence[IntArray],
        n_rows: int,
        streams: Sequence[np.random.Generator],
        engine: Engine,
    ) -> Spectra:
        """Compute singular values of each diagonal block, from at most 600 of its sampled rows."""
        total = sum(len(m) for m in members)

        def levels(i: int) -> Float64Array:
            mine = members[i]
            if len(mine) > DIAGONAL_ROWS:
                mine = np.sort(streams[i].choice(mine, DIAGONAL_ROWS, replace=False))
            block = kernel(sample[mine], dtype=np.float64, n_jobs=1)
            squares = np.sort(la.eigvalsh(block, check_finite=False) ** 2)[::-1]
            tails = np.cumsum(squares[::-1])[::-1]
            whole = tails[0] if len(tails) and tails[0] > 0 else 1.0
            found: Float64Array = np.sqrt(tails / whole) * (total / max(1, len(members[i])))
            return found

        counts = np.asarray([len(m) for m in members], np.float64) * (n_rows / max(1, total))
        taken = np.asarray([min(len(m), DIAGONAL_ROWS) for m in members], np.intp)
        return cls(counts, tuple(engine.map(levels, range(len(members)))), taken)

    def for_tolerance(self, tol: float) -> IntArray:
        """Return the smallest ranks that keep the tolerance, by the paper's rule."""
        return np.asarray([np.count_nonzero(level >= tol) for level in self.levels], np.intp)

    def for_size(self, size: Size) -> IntArray:
        """Return the ranks of the smallest tolerance whose size Σ n_i r_i + (Σ r_i)² is within the limit."""
        blocks = np.repeat(np.arange(len(self.levels)), [len(level) for level in self.levels])
        # Levels descend within a block, and a stable sort keeps that order for equal ones.
        order = np.argsort(-np.concatenate([np.zeros(0), *self.levels]), kind="stable")
        bases = size.basis * np.cumsum(self.counts[blocks[order]])
        sizes = bases + size.core * np.arange(1, len(order) + 1, dtype=np.float64) ** 2
        fits = int(np.searchsorted(sizes, size.limit, side="right"))
        ranks: IntArray = np.bincount(blocks[order[:fits]], minlength=len(self.levels))
        return ranks

    def tolerance(self, ranks: IntArray) -> float:
        """Return the tolerance ε that these ranks reach: the largest ε_i(r_i)."""
        left = [level[r] for level, r in zip(self.levels, ranks, strict=True) if r < len(level)]
        return float(max(left, default=0.0))

    def unresolved(self, ranks: IntArray) -> int:
        """Return how many blocks have a rank limited by their sampled rows rather than by their spectrum."""
        return int(np.count_nonzero((self.counts > self.sampled) & (2 * ranks > self.sampled)))

    def size(self, ranks: IntArray, size: Size) -> float:
        """Return the size g = Σ n_i r_i + (Σ r_i)² in the units of ``size``."""
        return size.basis * float(self.counts @ ranks) + size.core * float(ranks.sum()) ** 2


@dataclass(frozen=True)
class BlockSizes:
    """Result of the search; ``size`` and ``tol`` are its predictions."""

    partition: Partition
    ranks: IntArray
    counts: Float64Array  #: number of rows of each block, counting all rows
    size: float  #: size g, in numbers or bytes
    tol: float  #: ε that the ranks reach by the rule; it does not bound the error of K̃
    #: Number of blocks whose spectrum comes from a part of their rows, and whose rank exceeds half of that
    #: part: their true rank may be larger.
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
    ε that fits in it) by bisection over 1 … √n, where g is nearly convex. Clusters of different k have random
    streams of their own, so the order of trials has no effect.
    streams of their own, so that the order of trials has no effect.

    sample : (m, d), drawn from the ``n_rows`` rows; partitions and spectra are computed from it.
    partition : clustering rule.

    The rule is a heuristic. Its factor (n_i/n)² asks k blocks of equal size for 1/k of the tolerance each,
    which costs more rank than smaller blocks save. On abalone (1/h² from 1 to 1000), pendigits (0.25 to 25)
    and ctg it chose k = 1 for sizes of 25·n, 50·n, 100·n and 200·n numbers, and for tolerances from 0.3 to
    0.01 (benchmarks/paper_bbf.py --only search). :class:`BlockBasisBuilder` chooses by trials instead.
    Diagonal blocks of more than 600 rows are sampled. The sample's diagonal then has n_i/600 times too much
    weight, so the rank is too large for smooth kernels, and it cannot exceed 600 for rough ones.

    Time O(log n · Σ min(n_i, 600)³), memory O(600²) a thread.
    """

    sample: Rows
    n_rows: int
    kernel: Kernel
    rng: np.random.Generator
    engine: Engine
    partition: str = "kmeans"
    _done: dict[int, tuple[Partition, Spectra]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._seed = int(self.rng.integers(2**32))

    @property
    def most_blocks(self) -> int:
        """Largest number of blocks √n, the paper's bound on k."""
        return max(1, math.isqrt(min(self.n_rows, self.sample.shape[0])))

    def spectra(self, n_blocks: int) -> tuple[Partition, Spectra]:
        """Return the partition into ``n_blocks`` clusters and its spectra."""
        if n_blocks not in self._done:
            stream = np.random.default_rng([self._seed, n_blocks])
            found = fit_partition(
                self.sample, n_blocks, method=self.partition, rng=stream, kernel=self.kernel
            )
            members = block_members(found.route(self.sample, self.engine), found.n_blocks)
            streams = children(stream, found.n_blocks)
            spectra = Spectra.of(self.kernel, self.sample, members, self.n_rows, streams, self.engine)
            self._done[n_blocks] = found, spectra
        return self._done[n_blocks]

    def for_tolerance(self, tol: float, size: Size | None = None, n_blocks: int | None = None) -> BlockSizes:
        """Return the blocks and ranks of the smallest size that reaches ``tol``.

        ``size`` is an upper bound and sets the units; ``n_blocks`` fixes k. If the bound is too small, raises
        :class:`BudgetError` with the best result that fits.
        """
        if not 0 < tol < math.inf:
            raise InputError(f"tol={tol!r} is not a tolerance. Give a positive, finite number.")
        size = Size(math.inf) if size is None else size
        found = self._best(
            lambda k: self._sizes(k, size, lambda spectra: spectra.for_tolerance(tol)),
            lambda sizes: sizes.size,
            n_blocks,
        )
        if found.size > size.limit:
            best = self.for_size(size, n_blocks)
            raise BudgetError(
                f"tol={tol:g} needs {_amount(found.size, size)} by the spectra of the diagonal blocks, more "
                f"than the {_amount(size.limit, size)} allowed: the best that fits is tol={best.tol:.2g} "
                f"with {best.n_blocks} block{'s' * (best.n_blocks > 1)}. Raise max_bytes or tol.",
                math.ceil(found.size),
            )
        return found

    def for_size(self, size: Size, n_blocks: int | None = None) -> BlockSizes:
        """Return the blocks and ranks of the smallest tolerance that fits in ``size``."""
        found = self._best(
            lambda k: self._sizes(k, size, lambda spectra: spectra.for_size(size)),
            lambda sizes: sizes.tol,
            n_blocks,
        )
        if not found.ranks.any():
            least = float(found.counts.min(initial=np.inf)) * size.basis + size.core
            raise BudgetError(
                f"{_amount(size.limit, size)} hold no column of any block: at least {_amount(least, size)} "
                "is needed. Raise max_bytes or rank.",
                math.ceil(least),
            )
        return found

    def _sizes(self, k: int, size: Size, rule: Callable[[Spectra], IntArray]) -> BlockSizes:
        partition, spectra = self.spectra(k)
        ranks = rule(spectra)
        return BlockSizes(
            partition,
            ranks,
            spectra.counts,
            spectra.size(ranks, size),
            spectra.tolerance(ranks),
            spectra.unresolved(ranks),
        )

    def _best(
        self, sizes: Callable[[int], BlockSizes], cost: Callable[[BlockSizes], float], n_blocks: int | None
    ) -> BlockSizes:
        """Minimise a nearly convex cost: step towards the cheaper of k and k + 1, return the best seen."""
        if n_blocks is not None:
            return sizes(n_blocks)
        seen = {1: sizes(1)}
        low, high = 1, self.most_blocks
        while low < high:
            middle = (low + high) // 2
            for k in (middle, middle + 1):
                if k not in seen:
                    seen[k] = sizes(k)
            if cost(seen[middle]) <= cost(seen[middle + 1]):
                high = middle
            else:
                low = middle + 1
        return min(seen.values(), key=cost)


def _amount(value: float, size: Size) -> str:
    return format_bytes(value) if size.basis > 1 else f"{value:.4g} numbers"
