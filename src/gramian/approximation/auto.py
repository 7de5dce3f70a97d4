"""``approximation="auto"``: sizes from n, d, the kernel, the budget and a cheap probe of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg as la

from gramian._numerics import rank_cutoff
from gramian._typing import Float64Array
from gramian.approximation.multiresolution import MultiResolutionBuilder
from gramian.approximation.plan import Plan, Workload, make_plan
from gramian.data.source import RowSource, sample_rows
from gramian.exceptions import BudgetError
from gramian.kernels.base import Kernel
from gramian.kernels.columns import is_thin
from gramian.kernels.precomputed import Precomputed

#: Rows of the probe: its Gram matrix (2 MB) is decomposed in a few hundredths of a second.
PROBE_ROWS = 500
#: Bytes per entry of that matrix, with LAPACK's work space and the rows beside it.
PROBE_BYTES = 12
#: Up to this many rows every row is a landmark of the root, which is the exact model.
EXACT_ROWS = 1_500
#: Rank of a root that works alone, and of one that shares with blocks.
LONE_ROOT, SHARED_ROOT = 1_000, 600
#: Rows of a block, its rank, and the most blocks that a plan asks for.
BLOCK_ROWS, BLOCK_RANK, MAX_BLOCKS = 650, 380, 1_000


@dataclass(frozen=True)
class Probe:
    """How fast the spectrum of K falls: the eigenvalues of the Gram matrix of sampled rows."""

    n_rows: int
    eigenvalues: Float64Array
    thin: bool = False  #: rows are sparse with few entries, as of texts
    stored: bool = False  #: rows are those of a given matrix, which have no points

    @property
    def least(self) -> float:
        """Estimate of the eigenvalue of K (all rows) with the probe's last index."""
        return float(self.eigenvalues[-1]) * self.n_rows / len(self.eigenvalues)

    def needs_float64(self, alpha: float) -> bool:
        """Whether float32 tiles would cut off directions that the ridge does not.

        So it is where the spectrum falls under float32's cutoff within the probe (a smooth kernel) and the
        cutoff lies above alpha/1000.
        """
        cutoff = rank_cutoff(np.float32) * float(self.eigenvalues[0])
        smooth = float(self.eigenvalues[-1]) < cutoff
        return smooth and cutoff * self.n_rows / len(self.eigenvalues) > alpha / 1000.0


def probe(source: RowSource, kernel: Kernel, rng: np.random.Generator, memory_budget: int) -> Probe:
    """Return the spectrum of the Gram matrix of at most 500 sampled rows, fewer in a small budget."""
    d = source.shape[1]
    # m rows take PROBE_BYTES·(m² + 2 m d).
    most = math.isqrt(d * d + memory_budget // PROBE_BYTES) - d
    rows, _ = sample_rows(source, max(2, min(PROBE_ROWS, most)), rng)
    gram = kernel(rows, dtype=np.float64)
    # In place, for this is the largest array of a small budget (the transpose is in LAPACK's order).
    values = la.eigvalsh(gram.T, overwrite_a=True, check_finite=False)[::-1]
    return Probe(source.shape[0], np.maximum(values, 0.0), is_thin(rows), isinstance(kernel, Precomputed))


def auto_builder(found: Probe, alpha: float) -> tuple[MultiResolutionBuilder, str]:
    """Choose root rank, blocks and block rank.

    Few rows: all are landmarks, the exact model. A spectrum that has fallen under alpha/100 within the
    probe: the root alone, for what it leaves over the ridge removes. Else a root and blocks of about
    650 rows, whose ranks take in most of a block: smooth data gain by the root (deformed digits: error
    0.049 with a root of 300, 0.039 with 700), rough data by the blocks (covtype: 0.151, 0.113, 0.101 with
    50, 200, 400 blocks of rank 100, 0.096 with 150 of rank 400), and no cheap look at the rows told the
    two apart.
    """
    n = found.n_rows
    # Centres of sparse rows are dense: with 20,000 features k-means took twenty times as long as the rest.
    landmarks = "rpcholesky" if found.stored else "uniform" if found.thin else "kmeans"
    if n <= EXACT_ROWS:
        return replace(_root_only(n), landmarks=landmarks), "few rows: exact"
    if found.least < alpha / 100.0:
        return replace(
            _root_only(LONE_ROOT), landmarks=landmarks
        ), "the spectrum falls under alpha/100: a root suffices"
    builder = MultiResolutionBuilder(
        root_rank=SHARED_ROOT,
        rank=BLOCK_RANK,
        n_blocks=int(np.clip(n // BLOCK_ROWS, 2, MAX_BLOCKS)),
        oversampling=1.0,
        landmarks=landmarks,
        partition="kernel" if found.stored else "kmeans",
    )
    return builder, "the spectrum stays above alpha/100: root and blocks"


def _root_only(rank: int) -> MultiResolutionBuilder:
    return MultiResolutionBuilder(root_rank=rank, n_levels=1, rank=0, n_blocks=1)


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
                raise BudgetError(
                    f"{error} These are the smallest sizes that auto tries.", error.least_bytes
                ) from None
            builder, reason = smaller, reason.split(";")[0] + "; lowered to fit the budget"


def shrink(builder: MultiResolutionBuilder) -> MultiResolutionBuilder | None:
    """Return the next smaller sizes, or None at the end.

    Blocks go three times as fast as ranks (in 300 MB, deformed digits had error 0.0235 with 333 + 189 × 117
    and 0.0165 with 600 + 50 × 150); the root alone is the last resort.
    """
    if builder.n_levels > 1 and builder.root_rank > 100:
        return replace(
            builder,
            root_rank=int(builder.root_rank * 0.96),
            rank=max(40, int(builder.rank * 0.96)),
            n_blocks=max(4, int(builder.n_blocks * 0.88)),
        )
    if builder.n_levels > 1 or builder.root_rank > 16:
        alone = _root_only(max(16, int(builder.root_rank * 0.8)))
        return replace(alone, landmarks=builder.landmarks)
    return None
