"""The plan of a fit: the chosen sizes, and the memory and time of each phase."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

import numpy as np

from gramian._budget import format_bytes
from gramian._typing import Array
from gramian.compression.builder import Builder, BuildSettings
from gramian.compression.costs import Workload, phase_bytes, phase_seconds
from gramian.compression.features import UNIT_ROWS, FeatureMap
from gramian.data.source import RowSource
from gramian.engine import Run
from gramian.exceptions import BudgetError, user_level
from gramian.kernels.base import Kernel
from gramian.summary import Grid, Shown, Summary

#: Blocks up to which a plan reduces their number without a warning; no default asks for more.
DEFAULT_PARTS = 50
#: Bounds on the rows of a chunk: enough that every leaf gets several rows. Chosen by hand.
MAX_CHUNK_ROWS, MIN_CHUNK_ROWS = 262_144, 4 * UNIT_ROWS

#: Reason for a plan's sizes: the user gave them, asked for the exact model, or gave a fitted approximation.
AS_ASKED, EXACT, GIVEN = "as asked", "approximation='exact'", "of the given approximation"
#: Number of threads for which chunk and sample are sized, however many run in the end.
NOMINAL_THREADS = 2


@dataclass(frozen=True)
class Plan(Shown):
    """The chosen sizes of a fit and the resources that it needs.

    ``bytes`` are predictions per phase. The fit fills in ``used_seconds`` and ``used_bytes`` (of the arrays
    held at the end of each phase). ``memory_budget`` is the limit that the plan has to respect. ``seconds``
    are operations over nominal rates: they compare two plans, but do not predict the time on this machine.
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
    n_rows: int = 0  #: rows that the plan was made for; 0 if unknown

    @property
    def title(self) -> str:
        """The method, with the reason for its sizes where the user did not name them."""
        return self.method if self.reason in (AS_ASKED, EXACT) else f"{self.method} ({self.reason})"

    @property
    def peak_bytes(self) -> int:
        """Predicted peak of working memory."""
        return max(self.bytes.values())

    @property
    def total_seconds(self) -> float:
        """Operations of the fit over nominal rates: compares plans, but does not predict the time."""
        return sum(self.seconds.values())

    def build(self, source: RowSource, kernel: Kernel, run: Run, weights: Array | None = None) -> FeatureMap:
        """Build the bases, as the phase "bases", with this plan's sizes: see :meth:`Builder.build`."""
        rows = self.builder.bounds.passes * source.shape[0]
        progress = run.phases("bases", rows or None)
        settings = BuildSettings(
            *(kernel, np.dtype(self.dtype), run.rng, run.engine, self.chunk_rows, progress),
            sample_rows=self.sample_rows,
            weights=weights,
        )
        return self.builder.build(source, settings)

    def used(self, bytes_: dict[str, int], seconds: dict[str, float]) -> Plan:
        """Return the plan with the bytes and seconds that the fit used."""
        return replace(self, used_bytes=bytes_, used_seconds=seconds)

    def with_seconds(self, seconds: float, phase: str = "choice") -> Plan:
        """Return the plan of a fit that took this long; what its phases did not take belongs to ``phase``."""
        rest = max(0.0, seconds - sum(self.used_seconds.values()))
        return replace(self, used_seconds={phase: rest} | self.used_seconds)

    def __str__(self) -> str:
        lines = [
            f"{self.method}: root rank {self.root_rank}, {self.n_blocks} blocks of rank "
            f"{self.rank}, {self.dtype} tiles{self.title.removeprefix(self.method)}",
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
            ("method", self.title),
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

    def spent(self) -> Iterator[tuple[str, str]]:
        """Yield budget and predicted peak, and the seconds of a fit."""
        peak = format_bytes(self.peak_bytes)
        yield "budget", f"{format_bytes(self.memory_budget)}, predicted peak {peak}, {self.dtype} tiles"
        if self.used_seconds:
            yield "fit took", f"{sum(self.used_seconds.values()):.3g} s"

    def phases(self) -> Grid:
        """Return predicted and used bytes of each phase, and the seconds of the fit, as a table."""

        def size(bytes_: dict[str, int], phase: str) -> str:
            return format_bytes(bytes_[phase]) if phase in bytes_ else ""

        def time(seconds: dict[str, float], phase: str) -> str:
            return f"{seconds[phase]:.2g} s" if phase in seconds else ""

        rows = tuple(
            (phase, size(self.bytes, phase), size(self.used_bytes, phase), time(self.used_seconds, phase))
            for phase in dict.fromkeys([*self.bytes, *self.used_bytes, *self.used_seconds])
        )
        columns = ("phase", "predicted peak", "held at its end", "took")
        return Grid("Phases of the fit", columns, rows)


def make_plan(
    builder: Builder, work: Workload, run: Run, *, reason: str = AS_ASKED, training: bool = True
) -> Plan:
    """Predict a builder's bytes and seconds, and choose chunk, sample and threads that fit the budget.

    Chunk and sample are sized for two threads, so that the result does not depend on their number. The fit
    then uses as many of the given threads as the budget holds. ``training=False`` plans only the bases.
    Raises :class:`BudgetError` with the smallest budget that works for these sizes.
    """
    item, memory_budget = run.dtype.itemsize, run.memory_bytes
    builder = within_rows(builder, work.n_rows)
    if reason == AS_ASKED and not work.streamed:
        warn_of_ranks(builder, work.n_rows)

    def sized(threads: int, chunk: int, sample: int) -> dict[str, int]:
        everything = phase_bytes(builder, work, item, threads, chunk, sample)
        return everything if training else {p: everything[p] for p in ("sample", "bases")}

    need = max(sized(NOMINAL_THREADS, MIN_CHUNK_ROWS, _least_sample(builder, work)).values())
    if need > memory_budget:
        smaller = {AS_ASKED: f", or {builder.remedy} (approximation='auto' does)"}
        smaller[EXACT] = ", or use approximation='auto'"
        raise BudgetError(
            f"memory_budget={format_bytes(memory_budget)} is too small for {_sizes(builder)} on "
            f"{work.n_features} features: at least {format_bytes(1.01 * need)} is needed. Raise "
            f"the budget{smaller.get(reason, '')}.",
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
    most, threads = builder.bounds, run.engine.n_threads
    while threads > NOMINAL_THREADS and max(sized(threads, chunk, sample).values()) > memory_budget:
        threads -= 1
    sizes = sized(threads, chunk, sample)
    return Plan(
        method=builder.method,
        builder=builder,
        root_rank=most.root_rank,
        rank=most.rank,
        n_blocks=most.n_blocks,
        n_levels=most.n_levels + (most.root_landmarks > 0 and most.landmarks > 0),
        landmarks=most.landmarks,
        dtype=run.dtype.name,
        sample_rows=sample,
        chunk_rows=chunk,
        n_threads=threads,
        bytes=sizes,
        seconds={p: t for p, t in phase_seconds(builder, work, item, threads, sample).items() if p in sizes},
        memory_budget=memory_budget,
        reason=reason,
        n_rows=work.n_rows,
    )


def _sizes(builder: Builder) -> str:
    most = builder.bounds
    root = f"root_rank={most.root_rank}, " if most.root_rank else ""
    return f"{root}n_blocks={most.n_blocks}, rank={most.rank}"


def _least_sample(builder: Builder, work: Workload) -> int:
    # With two rows per landmark, k-means still has something to average.
    most = builder.bounds
    wanted = 2 * max(most.root_landmarks, most.landmarks * most.n_blocks)
    return min(work.n_rows, max(1000, wanted))


def within_rows(builder: Builder, n_rows: int) -> Builder:
    """Return the builder with at most one block per row, and only as many experts as have own landmarks.

    A reduction of the number of blocks warns only above :data:`DEFAULT_PARTS`, because defaults may ask for
    that many.
    """
    own = -(-n_rows // min(n_rows, getattr(builder, "rank", None) or n_rows))
    for name, most in (("n_blocks", n_rows), ("n_experts", own)):
        count = getattr(builder, name, None)
        if isinstance(count, int) and count > n_rows:
            if count > DEFAULT_PARTS:
                warnings.warn(
                    f"{name}={count:,} is more than the {n_rows:,} rows; {most:,} are used. Lower {name}.",
                    UserWarning,
                    stacklevel=user_level(),
                )
            builder = replace(builder, **{name: most})  # type: ignore[type-var]
    return builder


def warn_of_ranks(builder: Builder, n_rows: int) -> None:
    """Warn if the user asked for a rank above the number of rows, which limits the rank of every basis.

    Defaults do not warn, and an explicit map may have more features than there are rows.
    """
    if builder.bounds.map_columns:
        return
    for size in fields(builder):  # type: ignore[arg-type]
        rank = getattr(builder, size.name)
        if size.name in ("rank", "root_rank") and rank not in (None, size.default):
            at_most_rows(size.name, rank, n_rows)


def at_most_rows(name: str, rank: int, n_rows: int) -> int:
    """Return a rank, reduced to the number of rows with a warning if it is larger."""
    if rank > n_rows:
        warnings.warn(
            f"{name}={rank} is larger than n_samples = {n_rows}: no matrix of {n_rows} rows has a higher "
            f"rank than {n_rows}, which is used instead. Give {name} <= {n_rows}.",
            UserWarning,
            stacklevel=user_level(),
        )
    return min(rank, n_rows)
