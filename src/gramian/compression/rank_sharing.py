"""Allocation of ranks to blocks: largest gain per byte first, until the size limit is reached."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gramian._budget import format_bytes
from gramian._typing import Float64Array, IntArray
from gramian.exceptions import BudgetError

#: Numbers a row where nothing says how large a factorization may be.
DEFAULT_RANK = 100


@dataclass(frozen=True)
class Size:
    """Bytes of a coupled factorization: ``basis`` per number of a basis, ``core`` per number of the core.

    ``limit`` bounds Σ n_s r_s · basis + (Σ r_s)² · core. With ones, bytes are numbers.
    """

    limit: float
    basis: float = 1.0
    core: float = 1.0

    @classmethod
    def of_equal_ranks(cls, n_rows: int, rank: float, n_blocks: int) -> Size:
        """Return the numbers of n_blocks bases of one rank: n·r + (c·r)²."""
        return cls(n_rows * rank + float(rank * n_blocks) ** 2)

    def equal_rank(self, n_rows: int, n_blocks: int) -> float:
        """Return the rank r that spends the limit where all blocks have it: n·r·basis + (c·r)²·core."""
        half = n_rows * self.basis / 2.0
        squared = n_blocks**2 * self.core
        # The root of squared·r² + 2·half·r = limit, without the cancellation of the usual formula.
        return self.limit / (half + float(np.sqrt(half**2 + squared * self.limit)))

    def share(self, gains: Sequence[Float64Array], counts: Float64Array) -> IntArray:
        """Return ranks r_s that spend the limit on the largest gains per byte.

        ``gains[s]``, descending, is what ‖K̃‖_F² gains by each direction of block s, ``counts`` the rows
        n_s. Greedy by gain/(n_s·basis + (2R + 1)·core), R the ranks given so far; the first directions
        that do not fit end their block only. Time O(R · blocks).
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
    """Return a rank, cut to the number of rows with a warning."""
    if asked > n_rows:
        warnings.warn(
            f"{name}={asked} is larger than n_samples = {n_rows}: no matrix of {n_rows} rows has a higher "
            f"rank than {n_rows}, which is used instead. Give {name} <= {n_rows}.",
            UserWarning,
            stacklevel=2,
        )
    return min(asked, n_rows)


def asked_size(n: int, itemsize: int, rank: int | None, n_blocks: int | None, max_bytes: int | None) -> Size:
    """Return the size that is asked for: ``max_bytes``, or the numbers of a rank for n rows.

    ``rank`` with ``n_blocks`` stands for n·rank + (rank·n_blocks)² numbers, without it for n·rank. It is
    100 if neither it nor ``max_bytes`` is given. A given rank above n is cut to n with a warning.
    """
    if max_bytes is not None:
        # Row numbers of the blocks are kept beside the numbers.
        order = np.dtype(np.intp).itemsize * n
        if max_bytes <= order + n * itemsize:
            raise BudgetError(
                f"max_bytes={format_bytes(max_bytes)} does not hold one column for {n} rows "
                f"and their order: at least {format_bytes(order + (n + 16) * itemsize)} is needed.",
                order + (n + 16) * itemsize,
            )
        return Size(float(max_bytes - order), itemsize, 8.0)
    rank = min(DEFAULT_RANK, n) if rank is None else at_most_rows("rank", rank, n)
    return Size(float(n * rank)) if n_blocks is None else Size.of_equal_ranks(n, rank, n_blocks)
