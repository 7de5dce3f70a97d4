"""What a fit will cost: bytes and seconds per phase, from the sizes alone.

The byte model counts the arrays that each phase holds at once and is tested against the measured peak;
the seconds are operations over nominal rates, good to a factor of two, and decide nothing but ``auto``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gramian._budget import format_bytes
from gramian.approximation.builder import Builder
from gramian.approximation.grouping import UNIT_ROWS
from gramian.approximation.multiresolution import MultiResolutionBuilder
from gramian.exceptions import BudgetError
from gramian.partition import SAMPLE_ROWS

#: Nominal rates of one core: products in flop/s, elementwise exp and copies in numbers/s.
GEMM_RATE = {4: 9e10, 8: 4.5e10}
EXP_RATE = {4: 1.2e9, 8: 0.6e9}
#: Symmetric eigenproblems cost this many times the flops of a product of their size.
EIGH_FACTOR = 25.0
#: Rows of a chunk: enough to give every leaf a run of rows, and no more than fits.
MAX_CHUNK_ROWS, MIN_CHUNK_ROWS = 262_144, 4 * UNIT_ROWS


@dataclass(frozen=True)
class Workload:
    """The data's side of the plan."""

    n_rows: int
    n_features: int
    n_outputs: int
    itemsize: int  #: bytes of one number of X as stored
    in_place: bool = True  #: chunks are views of the caller's array


@dataclass(frozen=True)
class Plan:
    """What was chosen and what it takes.

    ``bytes`` and ``seconds`` are predictions per phase; ``used_bytes`` and ``used_seconds`` are filled in by
    the fit (bytes: of the arrays held at the end of each phase). ``memory_budget`` is what had to hold.
    """

    method: str
    builder: Builder = field(repr=False)
    root_rank: int
    rank: int
    n_blocks: int
    n_levels: int
    landmarks: int
    dtype: str
    sample_rows: int
    chunk_rows: int
    bytes: dict[str, int]
    seconds: dict[str, float]
    memory_budget: int
    reason: str = "as asked"
    used_bytes: dict[str, int] = field(default_factory=dict)
    used_seconds: dict[str, float] = field(default_factory=dict)

    @property
    def peak_bytes(self) -> int:
        """Predicted peak of working memory."""
        return max(self.bytes.values())

    @property
    def total_seconds(self) -> float:
        """Predicted time of the fit."""
        return sum(self.seconds.values())

    def used(self, bytes_: dict[str, int], seconds: dict[str, float]) -> Plan:
        """Return the plan with what the fit used."""
        return replace(self, used_bytes=bytes_, used_seconds=seconds)

    def __str__(self) -> str:
        lines = [
            f"{self.method}: root rank {self.root_rank}, {self.n_blocks} blocks of rank "
            f"{self.rank}, {self.dtype} tiles ({self.reason})",
            f"budget {format_bytes(self.memory_budget)}, predicted peak {format_bytes(self.peak_bytes)}, "
            f"predicted time {self.total_seconds:.2g} s",
        ]
        for phase, size in self.bytes.items():
            used = self.used_seconds.get(phase)
            took = "" if used is None else f", took {used:.2g} s"
            lines.append(f"  {phase:8} {format_bytes(size):>8}, {self.seconds.get(phase, 0.0):.2g} s{took}")
        return "\n".join(lines)


def make_plan(
    builder: Builder,
    work: Workload,
    *,
    dtype: Any,
    n_threads: int,
    memory_budget: int,
    reason: str = "as asked",
) -> Plan:
    """Predict a builder's bytes and seconds, and choose chunk and sample so that they fit.

    Raises :class:`BudgetError` with the least budget that works for these sizes.
    """
    item = np.dtype(dtype).itemsize
    least = _bytes(builder, work, item, n_threads, MIN_CHUNK_ROWS, _least_sample(builder, work))
    if max(least.values()) > memory_budget:
        need = max(least.values())
        raise BudgetError(
            f"memory_budget={format_bytes(memory_budget)} is too small for {_sizes(builder)} on "
            f"{work.n_features} features: at least {format_bytes(1.01 * need)} is needed. Raise the "
            "budget, or lower rank, root_rank or n_blocks (approximation='auto' does).",
            need,
        )
    chunk = min(MAX_CHUNK_ROWS, max(MIN_CHUNK_ROWS, work.n_rows))
    sample = builder.sample_size(work.n_rows)
    sizes = _bytes(builder, work, item, n_threads, chunk, sample)
    while max(sizes.values()) > memory_budget:
        chunk = max(MIN_CHUNK_ROWS, chunk // 2)
        sample = max(_least_sample(builder, work), int(sample * 0.7))
        sizes = _bytes(builder, work, item, n_threads, chunk, sample)
    multi = isinstance(builder, MultiResolutionBuilder)
    return Plan(
        method="multiresolution" if multi else "meka",
        builder=builder,
        root_rank=builder.root_landmarks,
        rank=getattr(builder, "rank", 0) if builder.landmarks_per_block else 0,
        n_blocks=builder.n_leaves,
        n_levels=getattr(builder, "n_levels", 1),
        landmarks=builder.landmarks_per_block,
        dtype=np.dtype(dtype).name,
        sample_rows=sample,
        chunk_rows=chunk,
        bytes=sizes,
        seconds=_seconds(builder, work, item, n_threads, sample),
        memory_budget=memory_budget,
        reason=reason,
    )


def _sizes(builder: Builder) -> str:
    rank = getattr(builder, "rank", 0)
    root = f"root_rank={builder.root_landmarks}, " if builder.root_landmarks else ""
    return f"{root}n_blocks={builder.n_leaves}, rank={rank}"


def _least_sample(builder: Builder, work: Workload) -> int:
    # Two rows per landmark still leave k-means something to average.
    wanted = 2 * max(builder.root_landmarks, builder.landmarks_per_block * builder.n_leaves)
    return min(work.n_rows, max(1000, wanted))


@dataclass(frozen=True)
class _Shape:
    """Counts that both models share."""

    leaves: int
    inner: int  # blocks on the levels between root and leaves
    m0: int
    m: int
    r: int
    path: int  # ranks of a leaf's ancestors


def _shape(builder: Builder, work: Workload) -> _Shape:
    leaves = min(builder.n_leaves, work.n_rows)
    levels = builder.nested_levels
    inner = sum(round(leaves ** (k / levels)) for k in range(1, levels)) if leaves > 1 else 0
    m0 = min(builder.root_landmarks, work.n_rows)
    m = builder.landmarks_per_block
    if m:
        m = min(m, work.n_rows)
    r = min(getattr(builder, "rank", 0), m)
    # Blocks cannot hold more landmarks than there are rows.
    if leaves * m > work.n_rows:
        share = work.n_rows / (leaves * m)
        m, r = max(1, round(m * max(share, 0.05))), max(1, round(r * min(1.0, share * m / max(r, 1))))
        r = min(r, m)
    return _Shape(leaves, inner, m0, m, r, m0 + (levels - 1) * r)


def _bytes(
    builder: Builder, work: Workload, item: int, threads: int, chunk: int, sample: int
) -> dict[str, int]:
    s, d, p = _shape(builder, work), work.n_features, work.n_outputs
    width = max(item, work.itemsize)  # a landmark is stored as it was sampled, or as a float
    blocks = s.leaves + s.inner
    points = s.m0 + blocks * s.m
    # Sampled rows, and scikit-learn's own copies of the part that the partition is fitted on.
    drawn = sample * d * work.itemsize
    fit_rows = min(sample, SAMPLE_ROWS)
    partition = fit_rows * d * (item + 8) + s.leaves * fit_rows // 8
    if work.itemsize < item:
        drawn += sample * d * item
    bases = points * d * (width + 2 * item) + s.m0 * s.m0 * item
    bases += blocks * (s.m * s.r + s.path * s.r) * item
    eigen = max(s.m0**2, threads * (s.m * s.m + 2 * s.m * s.path)) * 8 * 4
    eigen += 10 * max(s.m0, threads * s.m) * d * 2 * item
    sums = 8 * (s.m0**2 + blocks * (s.r**2 + s.r * s.path + s.r * p) + s.m0 * p)
    flight = 3 * threads + 1
    width_features = s.path + s.r
    unit = UNIT_ROWS * ((width_features * 2 + max(s.m0, s.m) * 2 + 2 * p) * item + d * (width + item))
    unit += item * (s.path**2 + s.r * (s.path + s.r))
    read = chunk * (8 * 5 + 8 * p) + (0 if work.in_place else chunk * d * work.itemsize)
    if builder.root_landmarks:
        core = 0
        solve = sums + 8 * (threads + 2) * (s.path**2 + s.r * s.path)
    else:
        total = s.leaves * s.r
        core = 8 * total * total
        solve = 3 * core + sums
    weights = (s.leaves * (s.m0 + s.m * builder.nested_levels) * p) * item
    return {
        "sample": drawn + partition,
        "bases": drawn + bases + core + eigen,
        "sums": bases + core + sums + read + flight * unit,
        "solve": bases + core + sums + solve,
        "fold": bases + core + 2 * sums + weights,
    }


def _seconds(builder: Builder, work: Workload, item: int, threads: int, sample: int) -> dict[str, float]:
    s, n, d, p = _shape(builder, work), work.n_rows, work.n_features, work.n_outputs
    gemm, exp, gemm64 = GEMM_RATE[item] * threads, EXP_RATE[item] * threads, GEMM_RATE[8] * threads
    blocks, levels = s.leaves + s.inner, builder.nested_levels
    lloyd = 10 * 4 * 2 * d * (s.m0**2 + blocks * s.m**2)
    spectral = EIGH_FACTOR * (s.m0**3 + blocks * s.m**3) + 4 * blocks * s.m**2 * s.path
    cluster = 15 * 2 * min(sample, SAMPLE_ROWS) * s.leaves * d
    local = levels * s.m
    per_row = 2 * d * (s.leaves + s.m0 + local) + 2 * s.m0**2 + 2 * levels * (s.m * s.r + s.r * s.path)
    gram = s.path**2 + 2 * s.r * s.path + s.r**2 + 2 * p * (s.path + s.r)
    if builder.root_landmarks:
        solve = s.path**3 / 3 + blocks * (s.r**3 / 3 + s.r**2 * s.path + s.path**2 * s.r)
        core = 0.0
    else:
        total = s.leaves * s.r
        solve = EIGH_FACTOR * s.leaves * s.r**3 + total**3 / 3 + 4 * total * total * s.r
        core = (s.leaves * s.m) ** 2 * (d + s.r)
    return {
        "sample": cluster / gemm + 1e-3,
        "bases": lloyd / gemm + (spectral + core) / gemm64,
        "sums": n * ((per_row + gram) / gemm + (s.m0 + local) / exp),
        "solve": solve / gemm64,
        "fold": s.leaves * 2 * p * (s.m0**2 + s.m * s.r) / gemm64,
    }
