"""Blocks and ranks of a block basis factorization from the spectra of its diagonal blocks.

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

#: Rows of a diagonal block that its spectrum is taken from at most.
DIAGONAL_ROWS = 600


@dataclass(frozen=True)
class Spectra:
    r"""For each block i and m = 0, 1, …: ε_i(m) = (n/n_i) (Σ_{p>m} σ_p²)^(1/2)/‖M_ii‖_F, descending.

    Rank m is enough for a tolerance ε where ε_i(m) < ε, so that r_i(ε) = #{m : ε_i(m) ≥ ε}: one sorted
    list of all ε_i(m) holds the ranks for every tolerance, and for every size.
    """

    counts: Float64Array  #: n_i of all rows
    levels: tuple[Float64Array, ...]
    sampled: IntArray  #: rows of each block that its spectrum was taken from

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
        """Take singular values of each diagonal block, of 600 of its sampled rows where it has more."""
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
        """Return the least ranks that keep the tolerance: the paper's rule."""
        return np.asarray([np.count_nonzero(level >= tol) for level in self.levels], np.intp)

    def for_size(self, size: Size) -> IntArray:
        """Return the ranks of the least tolerance whose size Σ n_i r_i + (Σ r_i)² is within the limit."""
        blocks = np.repeat(np.arange(len(self.levels)), [len(level) for level in self.levels])
        # Within a block levels descend, and a stable sort keeps that order for equal ones.
        order = np.argsort(-np.concatenate([np.zeros(0), *self.levels]), kind="stable")
        bases = size.basis * np.cumsum(self.counts[blocks[order]])
        sizes = bases + size.core * np.arange(1, len(order) + 1, dtype=np.float64) ** 2
        fits = int(np.searchsorted(sizes, size.limit, side="right"))
        ranks: IntArray = np.bincount(blocks[order[:fits]], minlength=len(self.levels))
        return ranks

    def tolerance(self, ranks: IntArray) -> float:
        """Return the ε that these ranks reach: the largest ε_i(r_i)."""
        left = [level[r] for level, r in zip(self.levels, ranks, strict=True) if r < len(level)]
        return float(max(left, default=0.0))

    def unresolved(self, ranks: IntArray) -> int:
        """Return how many blocks have ranks that their sampled rows bound, rather than their spectrum."""
        return int(np.count_nonzero((self.counts > self.sampled) & (2 * ranks > self.sampled)))

    def size(self, ranks: IntArray, size: Size) -> float:
        """Return g = Σ n_i r_i + (Σ r_i)² in the units of ``size``."""
        return size.basis * float(self.counts @ ranks) + size.core * float(ranks.sum()) ** 2


@dataclass(frozen=True)
class BlockSizes:
    """What the search found; ``size`` and ``tol`` are its predictions."""

    partition: Partition
    ranks: IntArray
    counts: Float64Array  #: rows of each block, of all rows
    size: float  #: g: numbers, or bytes
    tol: float  #: ε that the ranks reach by the rule; the error of K̃ is not bounded by it
    #: Blocks whose rank is over half of the rows that their spectrum was taken from, with more rows than
    #: those: their true rank may be larger.
    unresolved: int

    @property
    def n_blocks(self) -> int:
        """k."""
        return len(self.ranks)


@dataclass
class BlockSearch:
    r"""Number of blocks k and ranks r_i by the paper's rule, for a tolerance or a size.

    For k clusters the rank of block i is r_i = min{m : Σ_{p>m} σ_p² < (n_i/n)² ‖M_ii‖_F² ε²} with the
    singular values σ of its diagonal block M_ii; k minimises g(k) = Σ n_i r_i + (Σ r_i)² (or, for a size, the
    ε that fits in it) by dichotomy over 1 … √n, where g is nearly convex. Clusters of different k have random
    streams of their own, so that the order of trials has no effect.

    sample : (m, d) of the ``n_rows`` rows; partitions and spectra are taken from it.
    partition : clustering rule.

    The rule is a heuristic. The factor (n_i/n)² asks k blocks of equal size for 1/k of the tolerance each,
    which costs ranks that the smaller blocks do not save: on abalone (1/h² from 1 to 1000), pendigits (0.25
    to 25) and ctg it chose k = 1 for sizes of 25·n, 50·n, 100·n and 200·n numbers, and for tolerances from
    0.3 to 0.01 (benchmarks/paper_bbf.py --only search). :class:`BlockBasisBuilder` chooses by trials instead.
    Diagonal blocks of more than 600 rows are sampled; the sample's diagonal weighs n_i/600 times too much, so
    that its rank is too large for smooth kernels, and cannot pass 600 for rough ones.

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
        """√n, the paper's bound on k."""
        return max(1, math.isqrt(min(self.n_rows, self.sample.shape[0])))

    def spectra(self, n_blocks: int) -> tuple[Partition, Spectra]:
        """Return the partition into k clusters and its spectra."""
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
        """Return the blocks and ranks of the least size that reaches ``tol``.

        ``size`` bounds it and sets its units; ``n_blocks`` fixes k. Raises :class:`BudgetError` with the best
        that fits where the bound is too small.
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
        """Return the blocks and ranks of the least tolerance that ``size`` holds."""
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
        """Walk down a nearly convex cost: k goes where k or k + 1 is cheaper; the best seen is returned."""
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
