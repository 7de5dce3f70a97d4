"""Search for the blocks and ranks of a block basis factorization by the paper's rule.

Source: Wang, Li, Mahoney and Darve, "Block Basis Factorization for Scalable Kernel Evaluation", section
3.2.2, part 3 ("Pre-computation: Parameter Selection").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from gramian._budget import format_bytes
from gramian._random import children
from gramian._typing import Float64Array, IntArray, Rows
from gramian.compression.block_spectra import Spectra
from gramian.compression.builder import block_members
from gramian.compression.rank_sharing import Size
from gramian.engine import Engine
from gramian.exceptions import BudgetError, InputError
from gramian.kernels.base import Kernel
from gramian.landmarks.partition import Partition, fit_partition


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
            found = fit_partition(
                self.sample, n_blocks, method=self.partition, rng=stream, kernel=self.kernel
            )
            members = block_members(found.route(self.sample, self.engine), found.n_blocks)
            streams = children(stream, found.n_blocks)
            self._done[key] = (
                found,
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
        found = self._best(
            lambda k: self._sizes(k, size, tol, lambda spectra: spectra.for_tolerance(tol)),
            lambda sizes: sizes.size,
            n_blocks,
        )
        if found.size > size.limit:
            best = self.for_size(size, n_blocks)
            whole = size.limit >= size.basis * self.n_rows**2 / 2
            limit, remedy = ("of K itself", "tol") if whole else ("allowed", "max_bytes or tol")
            raise BudgetError(
                f"tol={tol:g} needs {_amount(found.size, size)} by the spectra of the diagonal blocks, more "
                f"than the {_amount(size.limit, size)} {limit}: the best that fits is tol={best.tol:.2g} "
                f"with {best.n_blocks} block{'s' * (best.n_blocks > 1)}. Raise {remedy}.",
                math.ceil(found.size),
            )
        return found

    def for_size(self, size: Size, n_blocks: int | None = None) -> BlockSizes:
        """Return the blocks and ranks of the smallest tolerance that fits in ``size``."""
        found = self._best(
            lambda k: self._sizes(k, size, 0.0, lambda spectra: spectra.for_size(size)),
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

    def _sizes(self, k: int, size: Size, tol: float, rule: Callable[[Spectra], IntArray]) -> BlockSizes:
        partition, spectra = self.spectra(k, tol, size.limit / size.basis)
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
        """Minimise a cost over powers of two, then over numbers ever nearer to the best of them."""
        if n_blocks is not None:
            return sizes(n_blocks)
        most = self.most_blocks
        seen: dict[int, BlockSizes] = {}

        def best_of(counts: Iterable[float]) -> int:
            for k in sorted({min(max(1, round(count)), most) for count in counts} - set(seen)):
                seen[k] = sizes(k)
            return min(seen, key=lambda k: (cost(seen[k]), k))

        best = best_of([*(2**i for i in range(most.bit_length())), most])
        for factor in (2**0.5, 2**0.25, 2**0.125):
            best = best_of((best / factor, best * factor))
        return seen[best]


def _amount(value: float, size: Size) -> str:
    return format_bytes(value) if size.basis > 1 else f"{value:.4g} numbers"
