"""Predicted bytes and nominal seconds of each phase of a fit, from its sizes alone.

The byte model counts the arrays that each phase holds at once and is tested against the measured peak. The
seconds are operations over nominal rates. They serve only to compare plans and are never displayed: on a busy
two-core machine a fit took 2 to 170 times as long, depending on its method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import scipy.sparse as sp

from gramian._tiles import TILE_BYTES, tile_rows
from gramian.compression.builder import Builder
from gramian.compression.features import UNIT_ROWS
from gramian.data.source import RowSource
from gramian.landmarks.partition import SAMPLE_ROWS, partition_bytes
from gramian.landmarks.rules import selection_bytes

#: Nominal rates of one core: products in flop/s, elementwise exp and copies in numbers/s. Chosen by hand.
GEMM_RATE = {4: 9e10, 8: 4.5e10}
EXP_RATE = {4: 1.2e9, 8: 0.6e9}
#: A symmetric eigenproblem costs this many times the flops of a product of its size. Chosen by hand.
EIGH_FACTOR = 25.0


@dataclass(frozen=True)
class Workload:
    """Size of the data: the numbers on which the costs of a fit depend."""

    n_rows: int
    n_features: int
    n_outputs: int
    itemsize: int  #: bytes of one number of X as stored
    row_bytes: int = 0  #: bytes needed to read one row, beyond the caller's array (0: a view)
    read_bytes: int = 0  #: bytes needed to read any number of rows, such as buffers for pieces of files
    row_numbers: int | None = None  #: numbers stored for a row, if not n_features (CSR)
    streamed: bool = False  #: whether more rows will follow, for which old and new sums are held together

    @classmethod
    def of(cls, source: RowSource, n_outputs: int, *, streamed: bool = False) -> Self:
        """Return the workload of a source, whose first rows show how many numbers a sparse row stores."""
        n, d = source.shape
        first = source.rows(slice(0, min(1024, n)))
        item = source.dtype.itemsize
        if sp.issparse(first):
            # An index is as large as a number, or half of it.
            stored = -(-2 * first.nnz // first.shape[0])
            # A source that reads ahead holds the caller's block, the next one, and for a moment one more.
            blocks = 3 if getattr(source, "reads_ahead", False) else 1
            row_bytes = blocks * stored * item
        else:
            stored, row_bytes = None, getattr(source, "row_bytes", 2 * d * item)
        held = getattr(source, "read_bytes", 0)
        return cls(n, d, n_outputs, item, row_bytes, held, stored, streamed)


@dataclass(frozen=True)
class _Counts:
    """Numbers of blocks, landmarks and columns, limited by the number of rows."""

    leaves: int
    inner: int  # blocks on the levels between root and leaves
    m0: int
    r0: int
    m: int
    r: int
    path: int  # ranks of a leaf's ancestors


def _counts(builder: Builder, work: Workload) -> _Counts:
    sizes = builder.bounds
    leaves = min(sizes.n_blocks, work.n_rows)
    levels = sizes.n_levels
    inner = sum(round(leaves ** (k / levels)) for k in range(1, levels)) if leaves > 1 else 0
    m0 = min(sizes.root_landmarks, work.n_rows)
    # The number of rows bounds the rank of a basis, but not the number of features of an explicit map.
    r0 = sizes.map_columns or min(sizes.root_rank, work.n_rows)
    m = sizes.landmarks
    if m:
        m = min(m, work.n_rows)
    r = min(sizes.rank, m)
    # Blocks cannot hold more landmarks than there are rows.
    if leaves * m > work.n_rows:
        share = work.n_rows / (leaves * m)
        m, r = max(1, round(m * max(share, 0.05))), max(1, round(r * min(1.0, share * m / max(r, 1))))
        r = min(r, m)
    return _Counts(leaves, inner, m0, r0, m, r, r0 + (levels - 1) * r)


def phase_bytes(
    builder: Builder, work: Workload, item: int, threads: int, chunk: int, sample: int
) -> dict[str, int]:
    """Return the bytes that each phase of a fit holds at its peak."""
    s, n, d, p = _counts(builder, work), work.n_rows, work.n_features, work.n_outputs
    width = max(item, work.itemsize)  # a landmark keeps its sampled dtype or is converted to float
    held = d if work.row_numbers is None else work.row_numbers
    blocks = s.leaves + s.inner
    points = s.m0 + blocks * s.m
    # Sampled rows, their numbers (to draw more than 2 % of the rows NumPy permutes all of them), and the
    # copies that k-means makes of the rows on which the partition is fitted.
    drawn = 0 if sample >= n else sample * (held * work.itemsize + 8) + 8 * (n if n <= 50 * sample else 0)
    drawn += work.read_bytes
    if work.itemsize > item or (work.itemsize < item and not builder.stored_sample):
        drawn += sample * held * item
    partition = partition_bytes(builder.partition, sample, s.leaves, held, d, width)
    # Landmarks as sampled, and as the factor of the kernel tiles' product, which is float64 where float32 is
    # too coarse. Landmarks drawn from sparse rows stay sparse: a value and an index per entry.
    rule = getattr(builder, "landmarks", None)
    each = held * 2 if isinstance(rule, str) and rule == "uniform" else d
    bases = (
        points * min(each, d) * (width + 8) + s.m0 * s.r0 * item + blocks * (s.m * s.r + s.path * s.r) * item
    )
    bases += builder.map_bytes(d, item)
    # These steps follow each other: choose landmarks, decompose their Gram matrix, improve the bases.
    eigen = max(5.2 * s.m0**2, 4 * threads * (s.m * s.m + 2 * s.m * s.path)) * 8
    chosen = [selection_bytes(rule, m, sample, held, item) for m in (s.m0, s.m)]
    working = max(round(eigen), chosen[0], threads * chosen[1], builder.working_bytes(n, held, item))
    working += TILE_BYTES
    sums = 8 * (s.r0**2 + blocks * (s.r**2 + s.r * s.path + s.r * p) + s.r0 * p)
    weights = (s.leaves * (s.m0 + s.m * builder.bounds.n_levels) * p) * item
    core = 0
    solve = 8 * (2 * threads + 1) * (s.path**2 + s.r * s.path)
    if builder.coupled:
        core = 8 * (s.leaves * s.r) ** 2
        # Cholesky holds the system and its factor; an indefinite core also needs eigenvectors and work space.
        solve = (2 if builder.bounds.definite else 4) * core + 16 * s.leaves * s.r**2
    chunk = min(chunk, n)
    reading = chunk * (8 * 5 + 16 * p + work.row_bytes) + work.read_bytes
    # The units that threads work on: a tile may be computed in float64, its rows centred and scaled.
    widest, rows = max(s.m0, s.m), min(UNIT_ROWS, chunk)
    unit = rows * ((s.path + s.r + widest + s.r + 2 * p) * item + held * work.itemsize)
    unit += min(rows, tile_rows(max(widest, d + 2), item)) * (widest + d + 2) * 8
    # The sums that wait to be added. Rows are sorted by leaf, so a unit meets only neighbouring leaves (half
    # more, because sizes vary).
    leaves = min(s.leaves, 2 + 1.5 * s.leaves * rows / chunk)
    result = item * (s.path**2 + leaves * s.r * (s.path + s.r + p))
    flight = reading + int(threads * unit + (2 * threads + 1) * result)
    return {
        "sample": drawn + partition,
        "bases": drawn + bases + core * 5 // 4 + working,
        "sums": bases + core + (2 if work.streamed else 1) * sums + flight,
        "solve": bases + core + 2 * sums + solve,
        "fold": bases + core + sums + weights + 8 * max(s.m0**2, s.m * s.r, s.path * s.r),
    }


def phase_seconds(builder: Builder, work: Workload, item: int, threads: int, sample: int) -> dict[str, float]:
    """Return the nominal seconds of each phase: its operations divided by nominal rates."""
    s, n, d, p = _counts(builder, work), work.n_rows, work.n_features, work.n_outputs
    gemm, exp, gemm64 = GEMM_RATE[item] * threads, EXP_RATE[item] * threads, GEMM_RATE[8] * threads
    blocks, levels = s.leaves + s.inner, builder.bounds.n_levels
    lloyd = 10 * 4 * 2 * d * (s.m0**2 + blocks * s.m**2)
    spectral = EIGH_FACTOR * (s.m0**3 + blocks * s.m**3) + 4 * blocks * s.m**2 * s.path
    cluster = 15 * 2 * min(sample, SAMPLE_ROWS) * s.leaves * d
    local = levels * s.m
    computed = s.m0 + local + builder.bounds.map_columns
    per_row = 2 * d * (s.leaves + computed) + 2 * s.m0 * s.r0 + 2 * levels * (s.m * s.r + s.r * s.path)
    gram = s.path**2 + 2 * s.r * s.path + s.r**2 + 2 * p * (s.path + s.r)
    if not builder.coupled:
        solve = s.path**3 / 3 + blocks * (s.r**3 / 3 + s.r**2 * s.path + s.path**2 * s.r)
        core = 0.0
    else:
        total = s.leaves * s.r
        solve = EIGH_FACTOR * s.leaves * s.r**3 + total**3 / 3 + 4 * total * total * s.r
        core = (s.leaves * s.m) ** 2 * (d + s.r)
    return {
        "sample": cluster / gemm + 1e-3,
        "bases": lloyd / gemm + (spectral + core) / gemm64,
        "sums": n * ((per_row + gram) / gemm + computed / exp),
        "solve": solve / gemm64,
        "fold": s.leaves * 2 * p * (s.m0**2 + s.m * s.r) / gemm64,
    }
