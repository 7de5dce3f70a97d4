"""The plan of a fit: sizes, and bytes and nominal seconds per phase, from the sizes alone.

The byte model counts the arrays that each phase holds at once and is tested against the measured peak. The
seconds are operations over nominal rates. They compare plans, and are shown to nobody: a fit took 2 to 170
times as long on a busy two-core machine, by its method.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from gramian._budget import format_bytes
from gramian._tiles import TILE_BYTES, tile_rows
from gramian._typing import Array
from gramian.compression.builder import Builder
from gramian.compression.features import FeatureMap
from gramian.compression.grouping import UNIT_ROWS
from gramian.compression.rank_sharing import at_most_rows
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.exceptions import BudgetError
from gramian.kernels.base import Kernel
from gramian.landmarks.partition import SAMPLE_ROWS, partition_bytes
from gramian.landmarks.rules import selection_bytes
from gramian.summary import Grid, Shown, Summary

#: More blocks than any default asks for.
DEFAULT_PARTS = 50
#: Nominal rates of one core: products in flop/s, elementwise exp and copies in numbers/s.
GEMM_RATE = {4: 9e10, 8: 4.5e10}
EXP_RATE = {4: 1.2e9, 8: 0.6e9}
#: Symmetric eigenproblems cost this many times the flops of a product of their size.
EIGH_FACTOR = 25.0
#: Rows of a chunk: enough to give every leaf a run of rows, and no more than fits.
MAX_CHUNK_ROWS, MIN_CHUNK_ROWS = 262_144, 4 * UNIT_ROWS

#: Why a plan has its sizes: the user gave them, asked for the exact model, or gave the map itself.
AS_ASKED, EXACT, GIVEN = "as asked", "approximation='exact'", "of the given approximation"
#: Threads for which chunk and sample are sized, whatever their number in the end.
NOMINAL_THREADS = 2


@dataclass(frozen=True)
class Workload:
    """The data's side of the plan."""

    n_rows: int
    n_features: int
    n_outputs: int
    itemsize: int  #: bytes of one number of X as stored
    row_bytes: int = 0  #: bytes that reading a row takes beside the caller's array (0: a view)
    read_bytes: int = 0  #: bytes that reading holds whatever the number of rows: pieces of files
    row_numbers: int | None = None  #: numbers that a stored row holds, where not n_features (CSR)
    sums_held: int = 1  #: sums that a pass holds: a stream has those so far beside those of new rows


@dataclass(frozen=True)
class Plan(Shown):
    """What was chosen and what it takes.

    ``bytes`` are predictions per phase; ``used_bytes`` and ``used_seconds`` are filled in by the fit (bytes:
    of the arrays held at the end of each phase). ``memory_budget`` is what had to hold. ``seconds`` are
    operations over nominal rates: they compare two plans, and say nothing about the clock of this machine.
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
    n_threads: int
    bytes: dict[str, int]
    seconds: dict[str, float]
    memory_budget: int
    reason: str = AS_ASKED
    used_bytes: dict[str, int] = field(default_factory=dict)
    used_seconds: dict[str, float] = field(default_factory=dict)
    n_rows: int = 0  #: rows that the plan was made for; 0 where that is not known

    @property
    def peak_bytes(self) -> int:
        """Predicted peak of working memory."""
        return max(self.bytes.values())

    @property
    def total_seconds(self) -> float:
        """Operations of the fit over nominal rates, to compare plans by; no prediction of the time."""
        return sum(self.seconds.values())

    def build(
        self,
        source: RowSource,
        kernel: Kernel,
        *,
        rng: np.random.Generator,
        engine: Engine,
        weights: Array | None = None,
    ) -> FeatureMap:
        """Build the bases, of these sizes and in these tiles: see :meth:`Builder.build`."""
        return self.builder.build(
            source,
            kernel,
            dtype=np.dtype(self.dtype),
            rng=rng,
            engine=engine,
            sample_size=self.sample_rows,
            chunk_rows=self.chunk_rows,
            weights=weights,
        )

    def used(self, bytes_: dict[str, int], seconds: dict[str, float]) -> Plan:
        """Return the plan with what the fit used."""
        return replace(self, used_bytes=bytes_, used_seconds=seconds)

    def __str__(self) -> str:
        lines = [
            f"{self.method}: root rank {self.root_rank}, {self.n_blocks} blocks of rank "
            f"{self.rank}, {self.dtype} tiles ({self.reason})",
            f"budget {format_bytes(self.memory_budget)}, predicted peak {format_bytes(self.peak_bytes)}",
        ]
        for phase, size in self.bytes.items():
            used = self.used_seconds.get(phase)
            took = "" if used is None else f", took {used:.2g} s"
            lines.append(f"  {phase:8} {format_bytes(size):>8}{took}")
        return "\n".join(lines)

    def summary(self) -> Summary:
        """Return sizes, budget and predictions, and the phases as a table."""
        sizes = [f"root rank {self.root_rank:,}"] if self.root_rank else []
        if self.rank:
            sizes.append(f"{self.n_blocks:,} blocks of rank {self.rank:,} on {self.landmarks:,} landmarks")
        facts = [
            ("method", f"{self.method} ({self.reason})"),
            ("sizes", ", ".join(sizes)),
            ("tiles", f"{self.dtype}, chunks of {self.chunk_rows:,} rows, {self.n_threads} threads"),
            ("sample", f"{self.sample_rows:,} rows"),
            ("budget", format_bytes(self.memory_budget)),
            ("predicted", f"peak of {format_bytes(self.peak_bytes)}"),
        ]
        if self.n_rows:
            facts.insert(1, ("rows", f"{self.n_rows:,}"))
        if self.used_seconds:
            facts.append(("took", f"{sum(self.used_seconds.values()):.2g} s"))
        return Summary(f"Plan of {self.method}", tuple(facts), (self.phases(),))

    def phases(self) -> Grid:
        """Return bytes per phase, predicted and used, and the seconds of the fit as a table."""

        def size(bytes_: dict[str, int], phase: str) -> str:
            return format_bytes(bytes_[phase]) if phase in bytes_ else ""

        def time(seconds: dict[str, float], phase: str) -> str:
            return f"{seconds[phase]:.2g} s" if phase in seconds else ""

        rows = tuple(
            (
                phase,
                size(self.bytes, phase),
                size(self.used_bytes, phase),
                time(self.used_seconds, phase),
            )
            for phase in dict.fromkeys([*self.bytes, *self.used_bytes, *self.used_seconds])
        )
        columns = ("phase", "predicted peak", "held at its end", "took")
        return Grid("Phases of the fit", columns, rows)


def make_plan(
    builder: Builder,
    work: Workload,
    *,
    dtype: Any,
    n_threads: int,
    memory_budget: int,
    reason: str = AS_ASKED,
    training: bool = True,
) -> Plan:
    """Predict a builder's bytes and seconds, and choose chunk, sample and threads so that they fit.

    Chunk and sample are chosen for two threads, so that the result does not depend on ``n_threads``; of
    those, as many are used as the budget then holds. ``training=False`` plans the bases alone. Raises
    :class:`BudgetError` with the least budget that works for these sizes.
    """
    item = np.dtype(dtype).itemsize
    builder = within_rows(builder, work.n_rows)
    if reason == AS_ASKED and work.sums_held == 1:  # a stream has more rows to come
        warn_of_ranks(builder, work.n_rows)

    def sized(threads: int, chunk: int, sample: int) -> dict[str, int]:
        everything = _bytes(builder, work, item, threads, chunk, sample)
        return everything if training else {p: everything[p] for p in ("sample", "bases")}

    need = max(sized(NOMINAL_THREADS, MIN_CHUNK_ROWS, _least_sample(builder, work)).values())
    if need > memory_budget:
        raise BudgetError(
            f"memory_budget={format_bytes(memory_budget)} is too small for {_sizes(builder)} on "
            f"{work.n_features} features: at least {format_bytes(1.01 * need)} is needed. Raise "
            f"the budget{_smaller(builder, reason)}.",
            need,
        )
    chunk = min(MAX_CHUNK_ROWS, max(MIN_CHUNK_ROWS, work.n_rows))
    sample = builder.sample_size(work.n_rows)
    sizes = sized(NOMINAL_THREADS, chunk, sample)
    while max(sizes.values()) > memory_budget:
        if sizes.get("sums", 0) > memory_budget:
            chunk = max(MIN_CHUNK_ROWS, chunk // 2)
        if max(sizes["sample"], sizes["bases"]) > memory_budget:
            sample = max(_least_sample(builder, work), int(sample * 0.7))
        sizes = sized(NOMINAL_THREADS, chunk, sample)
    threads = n_threads
    while threads > NOMINAL_THREADS and max(sized(threads, chunk, sample).values()) > memory_budget:
        threads -= 1
    sizes = sized(threads, chunk, sample)
    return Plan(
        method=builder.method,
        builder=builder,
        root_rank=builder.root_columns,
        rank=builder.block_rank,
        n_blocks=builder.n_leaves,
        n_levels=builder.nested_levels + (builder.root_landmarks > 0 and builder.landmarks_per_block > 0),
        landmarks=builder.landmarks_per_block,
        dtype=np.dtype(dtype).name,
        sample_rows=sample,
        chunk_rows=chunk,
        n_threads=threads,
        bytes=sizes,
        seconds={p: t for p, t in _seconds(builder, work, item, threads, sample).items() if p in sizes},
        memory_budget=memory_budget,
        reason=reason,
        n_rows=work.n_rows,
    )


def later_bytes(builder: Builder, work: Workload, plan: Plan) -> dict[str, int]:
    """Predict the bytes per phase of a model whose bases are there, with a plan's chunks and threads."""
    item = np.dtype(plan.dtype).itemsize
    everything = _bytes(builder, work, item, plan.n_threads, plan.chunk_rows, plan.sample_rows)
    return {phase: everything[phase] for phase in ("sums", "solve", "fold")}


def _smaller(builder: Builder, reason: str) -> str:
    if reason == AS_ASKED:
        return f", or {builder.remedy} (approximation='auto' does)"
    return ", or use approximation='auto'" if reason == EXACT else ""


def _sizes(builder: Builder) -> str:
    root = f"root_rank={builder.root_columns}, " if builder.root_columns else ""
    return f"{root}n_blocks={builder.n_leaves}, rank={builder.block_rank}"


def _least_sample(builder: Builder, work: Workload) -> int:
    # Two rows per landmark still leave k-means something to average.
    wanted = 2 * max(builder.root_landmarks, builder.landmarks_per_block * builder.n_leaves)
    return min(work.n_rows, max(1000, wanted))


def within_rows(builder: Builder, n_rows: int) -> Builder:
    """Return the builder with at most a block for each row, and as many experts as have own landmarks.

    Blocks are cut without a warning up to :data:`DEFAULT_PARTS`, which a default may ask for.
    """
    own = -(-n_rows // min(n_rows, getattr(builder, "rank", None) or n_rows))
    for name, most in (("n_blocks", n_rows), ("n_experts", own)):
        asked = getattr(builder, name, None)
        if isinstance(asked, int) and asked > n_rows:
            if asked > DEFAULT_PARTS:
                warnings.warn(
                    f"{name}={asked:,} is more than the {n_rows:,} rows; {most:,} are used. Lower {name}.",
                    UserWarning,
                    stacklevel=3,
                )
            builder = replace(builder, **{name: most})  # type: ignore[type-var]
    return builder


def warn_of_ranks(builder: Builder, n_rows: int) -> None:
    """Warn of a rank that was asked for and is larger than the number of rows, which bounds the bases.

    A default is no wish, and an explicit map may have more features than there are rows.
    """
    if builder.map_columns:
        return
    for size in fields(builder):  # type: ignore[arg-type]
        asked = getattr(builder, size.name)
        if size.name in ("rank", "root_rank") and asked not in (None, size.default):
            at_most_rows(size.name, asked, n_rows)


@dataclass(frozen=True)
class _Shape:
    """Counts that both models share."""

    leaves: int
    inner: int  # blocks on the levels between root and leaves
    m0: int
    r0: int
    m: int
    r: int
    path: int  # ranks of a leaf's ancestors


def _shape(builder: Builder, work: Workload) -> _Shape:
    leaves = min(builder.n_leaves, work.n_rows)
    levels = builder.nested_levels
    inner = sum(round(leaves ** (k / levels)) for k in range(1, levels)) if leaves > 1 else 0
    m0 = min(builder.root_landmarks, work.n_rows)
    # Rows bound the rank of a basis, but not the features of an explicit map.
    r0 = builder.map_columns or min(builder.root_columns, work.n_rows)
    m = builder.landmarks_per_block
    if m:
        m = min(m, work.n_rows)
    r = min(builder.block_rank, m)
    # Blocks cannot hold more landmarks than there are rows.
    if leaves * m > work.n_rows:
        share = work.n_rows / (leaves * m)
        m, r = max(1, round(m * max(share, 0.05))), max(1, round(r * min(1.0, share * m / max(r, 1))))
        r = min(r, m)
    return _Shape(leaves, inner, m0, r0, m, r, r0 + (levels - 1) * r)


def _bytes(
    builder: Builder, work: Workload, item: int, threads: int, chunk: int, sample: int
) -> dict[str, int]:
    s, n, d, p = _shape(builder, work), work.n_rows, work.n_features, work.n_outputs
    width = max(item, work.itemsize)  # a landmark is stored as it was sampled, or as a float
    held = d if work.row_numbers is None else work.row_numbers
    blocks = s.leaves + s.inner
    points = s.m0 + blocks * s.m
    # Sampled rows, their numbers (NumPy permutes all rows for a draw of over 2 %), and the copies that
    # k-means makes of the part that the partition is fitted on.
    drawn = 0 if sample >= n else sample * (held * work.itemsize + 8) + 8 * (n if n <= 50 * sample else 0)
    drawn += work.read_bytes
    if work.itemsize > item or (work.itemsize < item and not builder.stored_sample):
        drawn += sample * held * item
    partition = partition_bytes(builder.partition, sample, s.leaves, held, d, width)
    # Landmarks as sampled, and as the factor of the tiles' product, in float64 where float32 is too coarse.
    # Drawn landmarks of sparse rows stay sparse: a value and an index.
    rule = getattr(builder, "landmarks", None)
    each = held * 2 if isinstance(rule, str) and rule == "uniform" else d
    bases = (
        points * min(each, d) * (width + 8) + s.m0 * s.r0 * item + blocks * (s.m * s.r + s.path * s.r) * item
    )
    bases += builder.map_bytes(d, item)
    # One after another: landmarks are chosen, their Gram matrix is decomposed, bases are improved.
    eigen = max(5.2 * s.m0**2, 4 * threads * (s.m * s.m + 2 * s.m * s.path)) * 8
    chosen = [selection_bytes(rule, m, sample, held, item) for m in (s.m0, s.m)]
    working = max(round(eigen), chosen[0], threads * chosen[1], builder.working_bytes(n, held, item))
    working += TILE_BYTES
    sums = 8 * (s.r0**2 + blocks * (s.r**2 + s.r * s.path + s.r * p) + s.r0 * p)
    weights = (s.leaves * (s.m0 + s.m * builder.nested_levels) * p) * item
    core = 0
    solve = 8 * (2 * threads + 1) * (s.path**2 + s.r * s.path)
    if builder.coupled:
        core = 8 * (s.leaves * s.r) ** 2
        # Cholesky has the system and its factor; an indefinite core its eigenvectors and work space too.
        solve = (2 if builder.definite else 4) * core + 16 * s.leaves * s.r**2
    chunk = min(chunk, n)
    reading = chunk * (8 * 5 + 16 * p + work.row_bytes) + work.read_bytes
    flight = reading + _flight_bytes(s, d, p, item, held * work.itemsize, threads, chunk)
    return {
        "sample": drawn + partition,
        "bases": drawn + bases + core * 5 // 4 + working,
        "sums": bases + core + work.sums_held * sums + flight,
        "solve": bases + core + 2 * sums + solve,
        "fold": bases + core + sums + weights + 8 * max(s.m0**2, s.m * s.r, s.path * s.r),
    }


def _flight_bytes(s: _Shape, d: int, p: int, item: int, row: int, threads: int, chunk: int) -> int:
    """Bytes of the units that threads work on, and of the sums that wait to be added."""
    widest = max(s.m0, s.m)
    rows = min(UNIT_ROWS, chunk)
    unit = rows * ((s.path + s.r + widest + s.r + 2 * p) * item + row)
    # A tile in flight may be computed in float64, and its rows are centred and scaled.
    unit += min(rows, tile_rows(max(widest, d + 2), item)) * (widest + d + 2) * 8
    # Rows are sorted by leaf, so that a unit meets the leaves of a stretch (half more: they are uneven).
    leaves = min(s.leaves, 2 + 1.5 * s.leaves * rows / chunk)
    result = item * (s.path**2 + leaves * s.r * (s.path + s.r + p))
    return int(threads * unit + (2 * threads + 1) * result)


def _seconds(builder: Builder, work: Workload, item: int, threads: int, sample: int) -> dict[str, float]:
    s, n, d, p = _shape(builder, work), work.n_rows, work.n_features, work.n_outputs
    gemm, exp, gemm64 = GEMM_RATE[item] * threads, EXP_RATE[item] * threads, GEMM_RATE[8] * threads
    blocks, levels = s.leaves + s.inner, builder.nested_levels
    lloyd = 10 * 4 * 2 * d * (s.m0**2 + blocks * s.m**2)
    spectral = EIGH_FACTOR * (s.m0**3 + blocks * s.m**3) + 4 * blocks * s.m**2 * s.path
    cluster = 15 * 2 * min(sample, SAMPLE_ROWS) * s.leaves * d
    local = levels * s.m
    computed = s.m0 + local + builder.map_columns
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
