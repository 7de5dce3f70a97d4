"""``approximation="auto"``: sizes from n, d, the kernel, the budget and a cheap probe of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg as la

from gramian.approximation.multiresolution import MultiResolutionBuilder
from gramian.approximation.plan import Plan, Workload, make_plan
from gramian.data.source import RowSource, sample_rows
from gramian.exceptions import BudgetError
from gramian.kernels.base import Kernel

#: Rows of the probe: its Gram matrix is the one dense matrix of the plan (1,500² numbers, 18 MB).
PROBE_ROWS = 1_500
#: Bytes per entry of that matrix, with LAPACK's work space and the rows beside it.
PROBE_BYTES = 12


@dataclass(frozen=True)
class Probe:
    """How fast the spectrum of K falls on a sample of the rows.

    ``tail[r]`` is the share of the trace that the best basis of rank r leaves out, extrapolated by the
    sample's own spectrum.
    """

    n_rows: int
    eigenvalues: Any
    mean_diagonal: float

    def rank_for(self, level: float) -> int:
        """Return the number of eigenvalues of K (sample's times n/m) above ``level``."""
        m = len(self.eigenvalues)
        return int(np.count_nonzero(self.eigenvalues * (self.n_rows / m) > level))

    def tail(self, rank: int) -> float:
        """Return the share of the trace beyond the first ``rank`` eigenvalues."""
        total = float(self.eigenvalues.sum())
        return float(self.eigenvalues[rank:].sum()) / total if total > 0 else 0.0


def probe(source: RowSource, kernel: Kernel, rng: np.random.Generator, memory_budget: int) -> Probe:
    """Return the spectrum of the Gram matrix of at most 1,500 sampled rows, fewer in a small budget."""
    d = source.shape[1]
    # m rows take PROBE_BYTES·(m² + 2 m d).
    most = math.isqrt(d * d + memory_budget // PROBE_BYTES) - d
    rows, _ = sample_rows(source, max(2, min(PROBE_ROWS, most)), rng)
    gram = kernel(rows, dtype=np.float64)
    diagonal = float(np.trace(gram)) / len(gram)
    # In place, for this is the largest array of a small budget (the transpose is in LAPACK's order).
    values = la.eigvalsh(gram.T, overwrite_a=True, check_finite=False)[::-1]
    return Probe(source.shape[0], np.maximum(values, 0.0), diagonal)


def auto_builder(found: Probe, alpha: float) -> tuple[MultiResolutionBuilder, str]:
    """Choose root rank, blocks and block rank.

    Few rows: every row is a landmark of the root, which is the exact model. A spectrum that falls under
    alpha/10 within the root's rank: the root alone. Else a root and blocks of about 200 rows with
    rank 150: the more the root leaves over, the smaller it needs to be.
    """
    n = found.n_rows
    if n <= PROBE_ROWS:
        return MultiResolutionBuilder(root_rank=n, n_levels=1, rank=0, n_blocks=1), "few rows: exact"
    needed = found.rank_for(alpha / 10.0)
    if needed <= 600:
        root = int(min(n, max(100, 1.5 * needed)))
        return (
            MultiResolutionBuilder(root_rank=root, n_levels=1, rank=0, n_blocks=1),
            f"low rank: {needed} eigenvalues above alpha/10",
        )
    root = 300 if found.tail(300) > 0.25 else 1000 if n <= 30_000 else 600
    blocks = int(np.clip(n // 200, 2, 400))
    builder = MultiResolutionBuilder(root_rank=root, rank=150, n_blocks=blocks, oversampling=1.3)
    return builder, f"a root of rank {root} leaves {found.tail(root):.0%} of the trace to the blocks"


def auto_plan(
    found: Probe,
    alpha: float,
    work: Workload,
    *,
    dtype: Any,
    n_threads: int,
    memory_budget: int,
) -> Plan:
    """Return the plan of the chosen builder, its sizes lowered until the budget holds."""
    builder, reason = auto_builder(found, alpha)
    while True:
        try:
            return make_plan(
                builder,
                work,
                dtype=dtype,
                n_threads=n_threads,
                memory_budget=memory_budget,
                reason=reason,
            )
        except BudgetError as error:
            smaller = shrink(builder)
            if smaller is None:
                raise BudgetError(f"{error} No smaller sizes are left to try.", error.least_bytes) from None
            builder, reason = smaller, reason.split(";")[0] + "; lowered to fit the budget"


def shrink(builder: MultiResolutionBuilder) -> MultiResolutionBuilder | None:
    """Return the next smaller sizes: blocks' rank and number first, then the root; None at the end."""
    if builder.n_levels > 1 and builder.rank > 40:
        return replace(builder, rank=int(builder.rank * 0.8))
    if builder.n_levels > 1 and builder.n_blocks > 8:
        return replace(builder, n_blocks=int(builder.n_blocks * 0.7))
    if builder.root_rank > 32:
        return replace(builder, root_rank=int(builder.root_rank * 0.8))
    if builder.n_levels > 1:
        return replace(builder, n_levels=1, rank=0, n_blocks=1)
    return None
