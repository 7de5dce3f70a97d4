"""Choice of a Gaussian process's approximation: from the number of rows and the budget, or as requested."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gramian._budget import format_bytes
from gramian.approximations.approximation import Approximation
from gramian.approximations.block_diagonal import BlockDiagonal
from gramian.approximations.low_rank_plus_blocks import LowRankPlusBlocks
from gramian.approximations.multiresolution import MultiResolution, MultiResolutionBuilder
from gramian.compression.builder import Builder
from gramian.compression.costs import Resources, Workload
from gramian.compression.grouping import UNIT_ROWS
from gramian.compression.plan import AS_ASKED, EXACT, Plan, make_plan
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.exceptions import BudgetError, InputError, did_you_mean
from gramian.kernels import Kernel

#: Approximations with nested bases of landmarks, for which the likelihood's gradient is known.
NESTED: dict[str, type[Approximation]] = {
    "multiresolution": MultiResolution,
    "lowrankplusblocks": LowRankPlusBlocks,
    "blockdiagonal": BlockDiagonal,
}
#: Memory of learning over that of one pass: it holds the first bases and the ones being tried, the factor and
#: the adjoints of its blocks.
LEARNING_FACTOR = 2
#: Assumed number of passes for learning: 25 steps, each one pass forward and two for the gradient.
LEARNING_PASSES = 75
#: Arrays (rows of a unit × landmarks) that a kernel's derivative holds at a time.
UNIT_ARRAYS = 6
#: Up to this many rows "auto" takes every row as a landmark, which is exact. Chosen by hand.
EXACT_ROWS = 2_000
#: Beyond that, the rank of the root and of each block, and the rows of a block. Chosen by hand.
ROOT_RANK, BLOCK_RANK, BLOCK_ROWS = 500, 100, 400
#: With more blocks, rows are routed by bisection, since k-means compares each row with every centre. Chosen
#: by hand.
MANY_BLOCKS = 500


def sized(
    approximation: Any,
    source: RowSource,
    work: Workload,
    kernel: Kernel,
    *,
    learning_rows: int,
    memory_budget: int,
    engine: Engine,
    rng: np.random.Generator,
) -> Plan:
    """Return the plan of an approximation in float64, at full rank.

    "auto" uses fewer, larger blocks if the budget requires it, and raises :class:`BudgetError` if even one
    block exceeds it. ``learning_rows`` (0 if nothing is learned) enters the estimate of the seconds.
    """
    n = work.n_rows

    def planned(builder: Builder, reason: str) -> Plan:
        dtype = np.dtype(np.float64)
        landmarks = max(builder.root_landmarks, builder.landmarks_per_block)
        units = 8 * UNIT_ARRAYS * engine.n_threads * min(UNIT_ROWS, n) * min(landmarks, n)
        try:
            plan = make_plan(
                builder.settle(source, kernel, dtype=dtype, rng=rng, engine=engine),
                work,
                Resources(dtype, engine.n_threads, max(1, memory_budget - units) // LEARNING_FACTOR),
                reason=reason,
            )
        except BudgetError as error:
            least = LEARNING_FACTOR * error.least_bytes + units
            raise BudgetError(
                f"memory_budget={format_bytes(memory_budget)} is too small for a Gaussian process of "
                f"root_rank={builder.root_columns} and {builder.n_leaves} blocks: at least "
                f"{format_bytes(1.01 * least)} is needed. Raise the budget, or {builder.remedy}.",
                least,
            ) from None
        learning = {"learning": LEARNING_FACTOR * plan.peak_bytes + units}
        seconds = {"learning": LEARNING_PASSES * plan.seconds["sums"] * learning_rows / n}
        return replace(
            plan,
            memory_budget=memory_budget,
            bytes=plan.bytes | learning,
            seconds=plan.seconds | seconds,
        )

    name = approximation if isinstance(approximation, str) else None
    if name == "exact":
        return planned(MultiResolutionBuilder.root_only(n), EXACT)
    if name != "auto":
        return planned(_asked(approximation), AS_ASKED)
    if n <= EXACT_ROWS:
        return planned(MultiResolutionBuilder.root_only(n), f"auto: every one of {n} rows")
    blocks = max(2, round(n / BLOCK_ROWS))
    while True:
        partition = "kmeans" if blocks <= MANY_BLOCKS else "tree"
        builder = MultiResolutionBuilder(ROOT_RANK, BLOCK_RANK, blocks, 2, 1.0, partition=partition)
        try:
            return planned(builder, f"auto: blocks of about {n // blocks} rows")
        except BudgetError:
            if blocks == 1:
                raise
            blocks = int(0.8 * blocks)


def _asked(chosen: Any) -> Builder:
    """Return the builder of a name or an instance, with exactly as many landmarks as its rank."""
    if isinstance(chosen, str) and chosen in NESTED:
        chosen = NESTED[chosen]()
    if not isinstance(chosen, tuple(NESTED.values())):
        names = ("auto", "exact", *NESTED)
        raise InputError(
            f"approximation={chosen!r} is not one that a Gaussian process takes: its bases must be nested "
            f"and have landmarks. Choose one of {', '.join(names)}, or an instance such as "
            "gramian.MultiResolution(root_rank=300, rank=50, n_blocks=80)." + did_you_mean(chosen, names)
        )
    builder: Any = chosen._builder()  # type: ignore[attr-defined]
    return replace(builder, oversampling=1.0) if hasattr(builder, "oversampling") else builder
