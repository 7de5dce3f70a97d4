"""``approximation="auto"``: sizes from n, d, the kernel, the budget and a cheap probe of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg as la

from gramian._numerics import rank_cutoff, unit_roundoff
from gramian._typing import Float64Array, Rows
from gramian.approximations.multiresolution import MultiResolutionBuilder
from gramian.compression.costs import Workload
from gramian.compression.plan import Plan, make_plan
from gramian.data.source import RowSource, sample_rows
from gramian.engine import Run
from gramian.exceptions import BudgetError
from gramian.kernels.base import Kernel
from gramian.kernels.columns import is_thin
from gramian.kernels.precomputed import Precomputed

#: Rows of the probe; its Gram matrix (2 MB) is decomposed in a few hundredths of a second. Chosen by hand.
PROBE_ROWS = 500
#: Bytes per entry of that matrix, including LAPACK's work space and the rows.
PROBE_BYTES = 12
#: Rows closer than this share of the mean squared distance in feature space count as equal. Chosen by hand.
REPEATED = 1e-6
#: If at most this share of the probe's rows occurs only once, the probe has seen nearly all distinct rows.
#: Chosen by hand.
UNSEEN = 0.05
#: Up to this many rows every row is a landmark of the root, which gives the exact model. These sizes are
#: chosen by hand; benchmarks/auto.py measures their errors and times.
EXACT_ROWS = 1_500
#: Rank of a root without blocks, and of a root with blocks.
LONE_ROOT, SHARED_ROOT = 1_000, 600
#: Rows of a block, its rank, and the largest number of blocks.
BLOCK_ROWS, BLOCK_RANK, MAX_BLOCKS = 650, 380, 1_000


@dataclass(frozen=True)
class Probe:
    """Sampled rows, whose Gram matrix shows how fast the spectrum of K falls; decomposed when first asked.

    Repeated rows add eigenvalues of 0 for any kernel, so the smallest eigenvalue that counts is the one with
    the index of the last distinct row.
    """

    rows: Rows
    kernel: Kernel
    n_rows: int  #: rows that these are a sample of

    @cached_property
    def spectrum(self) -> tuple[Float64Array, int, int]:
        """Descending eigenvalues of the Gram matrix, the rows that differ, and those that occur only once."""
        gram = np.asarray(self.kernel(self.rows, dtype=np.float64), np.float64)
        n_distinct, n_single = _different(gram)
        # In place: this is the largest array if the budget is small (the transpose has LAPACK's order).
        values = la.eigvalsh(gram.T, overwrite_a=True, check_finite=False)[::-1]
        return np.maximum(values, 0.0), n_distinct, n_single

    @property
    def least(self) -> float:
        """Estimated eigenvalue of K (all rows) at the index of the probe's last distinct row."""
        values, n_distinct, _ = self.spectrum
        return float(values[n_distinct - 1]) * self.n_rows / len(values)

    @property
    def few_distinct(self) -> bool:
        """Whether nearly all rows repeat a row of the probe; Turing's estimate of the share that does not."""
        values, _, n_single = self.spectrum
        return n_single <= UNSEEN * len(values)

    def needs_float64(self, alpha: float, n_rows: int) -> bool:
        """Tell whether float32 tiles of so many rows would cut off directions that the ridge keeps.

        That is the case if the spectrum falls below float32's cutoff within the probe (a smooth kernel) and
        the cutoff is above alpha/1000.
        """
        values, n_distinct, _ = self.spectrum
        cutoff = rank_cutoff(np.float32) * float(values[0])
        smooth = float(values[n_distinct - 1]) < cutoff
        return smooth and cutoff * n_rows / len(values) > alpha / 1000.0


def probe_rows(source: RowSource, rng: np.random.Generator, memory_budget: int) -> Rows:
    """Draw at most 500 rows for a :class:`Probe`, fewer if the budget is small."""
    d = source.shape[1]
    # m rows need PROBE_BYTES·(m² + 2 m d) bytes.
    most = math.isqrt(d * d + memory_budget // PROBE_BYTES) - d
    return sample_rows(source, max(2, min(PROBE_ROWS, most)), rng)[0]


def _different(gram: Float64Array) -> tuple[int, int]:
    """Count the rows that differ from all earlier rows, and those that differ from all other rows.

    Rows differ by k_ii + k_jj − 2 k_ij. If all distances are rounding errors (a very small gamma), all rows
    count as different. Time O(m²), memory O(m).
    """
    m, diagonal = len(gram), gram.diagonal()
    total = 2.0 * m * float(diagonal.sum()) - 2.0 * float(gram.sum())
    least = REPEATED * total / max(1, m * (m - 1))
    if least <= 16.0 * unit_roundoff(np.float64) * float(np.abs(diagonal).max(initial=0.0)):
        return m, m
    first, alone = np.ones(m, bool), np.ones(m, bool)
    for i in range(1, m):
        near = diagonal[i] + diagonal[:i] - 2.0 * gram[i, :i] <= least
        if near.any():
            first[i] = alone[i] = False
            alone[:i][near] = False
    return int(first.sum()), int(alone.sum())


def auto_builder(probe: Probe, alpha: float) -> tuple[MultiResolutionBuilder, str]:
    """Choose root rank, number of blocks and block rank from a probe of the data.

    With few rows, all are landmarks: the exact model. If nearly all rows repeat a few distinct ones, the root
    has all of these. If the spectrum falls below alpha/100 within the probe, the root alone is enough,
    because the ridge removes the rest. Otherwise a root is combined with blocks of about 650 rows, whose
    ranks are more than half of their rows. Smooth data gain by the root (deformed digits: error 0.049 with a
    root of 300, 0.039 with 700) and rough data by the blocks (covtype: 0.151, 0.113, 0.101 with 50, 200, 400
    blocks of rank 100, 0.096 with 150 of rank 400). No cheap look at the rows could tell the two apart.
    """
    n = probe.n_rows
    # k-means centres of sparse rows are dense: with 20,000 features they took 20 times as long as the rest.
    stored = isinstance(probe.kernel, Precomputed)
    landmarks = "rpcholesky" if stored else "uniform" if is_thin(probe.rows) else "kmeans"
    if n <= EXACT_ROWS:
        return replace(MultiResolutionBuilder.root_only(n), landmarks=landmarks), "few rows: exact"
    alone = replace(MultiResolutionBuilder.root_only(LONE_ROOT), landmarks=landmarks)
    if probe.few_distinct:
        return alone, "few different rows: a root has them all"
    if probe.least < alpha / 100.0:
        return alone, "the spectrum falls under alpha/100: a root suffices"
    builder = MultiResolutionBuilder(
        root_rank=SHARED_ROOT,
        rank=BLOCK_RANK,
        n_blocks=int(np.clip(n // BLOCK_ROWS, 2, MAX_BLOCKS)),
        oversampling=1.0,
        landmarks=landmarks,
        partition="kernel" if stored else "kmeans",
    )
    return builder, "the spectrum stays above alpha/100: root and blocks"


def auto_plan(probe: Probe, alpha: float, work: Workload, run: Run) -> Plan:
    """Return the plan of the chosen builder, with its sizes lowered until the budget holds them."""
    builder, reason = auto_builder(probe, alpha)
    while True:
        try:
            return make_plan(builder, work, run, reason=reason)
        except BudgetError as error:
            smaller = shrink(builder)
            if smaller is None:
                raise BudgetError(
                    f"{error} These are the smallest sizes that auto tries.", error.least_bytes
                ) from None
            builder, reason = smaller, reason.split(";")[0] + "; lowered to fit the budget"


def shrink(builder: MultiResolutionBuilder) -> MultiResolutionBuilder | None:
    """Return the builder with the next smaller sizes, or None if there is none.

    The number of blocks falls three times as fast as the ranks: in 300 MB, deformed digits had error 0.0235
    with a root of 333 and 189 blocks of rank 117, and 0.0165 with a root of 600 and 50 blocks of rank 150.
    The last resort is the root alone.
    """
    if builder.n_levels > 1 and builder.root_rank > 100:
        return replace(
            builder,
            root_rank=int(builder.root_rank * 0.96),
            rank=max(40, int(builder.rank * 0.96)),
            n_blocks=max(4, int(builder.n_blocks * 0.88)),
        )
    if builder.n_levels > 1 or builder.root_rank > 16:
        alone = MultiResolutionBuilder.root_only(max(16, int(builder.root_rank * 0.8)))
        return replace(alone, landmarks=builder.landmarks)
    return None
