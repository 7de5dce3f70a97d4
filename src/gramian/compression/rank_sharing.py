"""Allocation of ranks to blocks: largest gain per byte first, until the size limit is reached."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gramian._budget import format_bytes
from gramian._typing import Float64Array, IntArray
from gramian.exceptions import BudgetError, user_level

#: Stored numbers per row if neither a rank nor a number of bytes is given. Chosen by hand.
DEFAULT_RANK = 100


@dataclass(frozen=True)
class Size:
    """Size limit of a coupled factorization with ranks r_s in blocks of n_s rows.

    ``basis`` is the cost of one number of a basis, ``core`` that of one number of the core, and ``limit``
    bounds Σ n_s r_s · basis + (Σ r_s)² · core. Costs are in bytes; with both equal to 1 they count numbers.
    """

    limit: float
    basis: float = 1.0
    core: float = 1.0

    @classmethod
    def of_equal_ranks(cls, n_rows: int, rank: float, n_blocks: int) -> Size:
        """Return the size of n_blocks bases of equal rank with their core: n·r + (c·r)² numbers."""
        return cls(n_rows * rank + float(rank * n_blocks) ** 2)

    def equal_rank(self, n_rows: int, n_blocks: int) -> float:
        """Return the rank r that uses up the limit if all blocks have it: n·r·basis + (c·r)²·core."""
        half = n_rows * self.basis / 2.0
        squared = n_blocks**2 * self.core
        # Root of squared·r² + 2·half·r = limit, in the form without cancellation.
        return self.limit / (half + float(np.sqrt(half**2 + squared * self.limit)))

    def share(self, gains: Sequence[Float64Array], counts: Float64Array) -> IntArray:
        """Return ranks r_s that spend the limit on the largest gains per byte.

        ``gains[s]``, in descending order, is the gain in ‖K̃‖_F² of each direction of block s; ``counts`` has
        the rows n_s. Directions are taken greedily by gain/(n_s·basis + (2R + 1)·core), where R is the sum of
        the ranks so far. If a direction does not fit, only its own block ends there. Time O(R · blocks).
        """
        ranks = np.zeros(len(gains), np.intp)
        front = np.asarray([g[0] if len(g) else -1.0 for g in gains])
        rows = counts * self.basis
        left, total = self.limit, 0
        while True:
            cost = rows + (2 * total + 1) * self.core
            worth = np.where(cost <= left, front / cost, -1.0)
            s = int(worth.argmax())
            if worth[s] <= 0:
                return ranks
            left -= float(cost[s])
            total += 1
            ranks[s] += 1
            front[s] = gains[s][ranks[s]] if ranks[s] < len(gains[s]) else -1.0


def at_most_rows(name: str, asked: int, n_rows: int) -> int:
    """Return a rank, reduced to the number of rows with a warning if it is larger."""
    if asked > n_rows:
        warnings.warn(
            f"{name}={asked} is larger than n_samples = {n_rows}: no matrix of {n_rows} rows has a higher "
            f"rank than {n_rows}, which is used instead. Give {name} <= {n_rows}.",
            UserWarning,
            stacklevel=user_level(),
        )
    return min(asked, n_rows)


def asked_size(n: int, itemsize: int, rank: int | None, n_blocks: int | None, max_bytes: int | None) -> Size:
    """Return the requested size: ``max_bytes``, or the numbers that a rank stands for with n rows.

    ``rank`` with ``n_blocks`` stands for n·rank + (rank·n_blocks)² numbers, without it for n·rank. If neither
    ``rank`` nor ``max_bytes`` is given, the rank is 100. A rank above n is reduced to n with a warning. A
    single row has two numbers, one of its basis and one of the core: K̃ would be 0 with less.
    """
    if max_bytes is not None:
        # The row numbers of the blocks are stored too.
        order = np.dtype(np.intp).itemsize * n
        if max_bytes <= order + n * itemsize:
            raise BudgetError(
                f"max_bytes={format_bytes(max_bytes)} is too small for one column of {n} rows and their "
                f"order: at least {format_bytes(order + (n + 16) * itemsize)} is needed. Raise max_bytes.",
                order + (n + 16) * itemsize,
            )
        return Size(float(max_bytes - order), itemsize, 8.0)
    rank = min(DEFAULT_RANK, n) if rank is None else at_most_rows("rank", rank, n)
    return Size(float(max(n * rank, 2))) if n_blocks is None else Size.of_equal_ranks(n, rank, n_blocks)
