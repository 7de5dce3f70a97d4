"""Choice of a Gaussian process's approximation: from the number of rows and the budget, or as requested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gramian._budget import format_bytes
from gramian.approximations.approximation import Approximation
from gramian.approximations.block_diagonal import BlockDiagonal, LowRankPlusBlocks
from gramian.approximations.multiresolution import MultiResolution, MultiResolutionBuilder
from gramian.compression.builder import Builder, BuildSettings
from gramian.compression.costs import GEMM_RATE, Workload
from gramian.compression.features import UNIT_ROWS
from gramian.compression.plan import AS_ASKED, EXACT, Plan, make_plan
from gramian.data.source import RowSource
from gramian.engine import Engine, Run
from gramian.exact.exact import exact_plan
from gramian.exact.solve import SolveSettings
from gramian.exceptions import BudgetError, InputError, did_you_mean
from gramian.gp.conditional import CONDITIONAL_NEIGHBOURS, CONDITIONAL_ROWS
from gramian.gp.exact_mean import TILES, fits_memory
from gramian.gp.hyperparameters import Hyperparameters
from gramian.gp.neighbours import neighbour_bytes
from gramian.kernels import Kernel

#: Approximations with nested bases of landmarks, for which the likelihood's gradient is known.
NESTED: dict[str, type[Approximation]] = {
    "multiresolution": MultiResolution,
    "lowrankplusblocks": LowRankPlusBlocks,
    "blockdiagonal": BlockDiagonal,
}
#: Name of the posterior from the nearest rows, and the fewest neighbours of a row. Chosen by hand.
NEIGHBOURS, FEWEST = "neighbours", 64
#: Memory of the nested bases over that of one pass: those of the first and of the learned kernel are held;
#: with ``learning_rows=None``, the factor and the adjoints of the blocks.
BASES_FACTOR = 2
#: Assumed evaluations of the likelihood in all stages, operations of one by the cube of a block's rows, and
#: square arrays that it holds.
LEARNING_STEPS, CUBES, SQUARES = 100, 4, 7
#: A budget that does not limit what is planned.
UNLIMITED = 1 << 60
#: Arrays (rows of a unit × landmarks) that a kernel's derivative holds at a time.
UNIT_ARRAYS = 6
#: Up to this many rows "auto" takes every row as a landmark, which is exact. Chosen by hand.
EXACT_ROWS = 2_000
#: Beyond that, the rank of the root and of each block, and the rows of a block. On cadata a block's rank of
#: 200 in place of 100 takes a sixth off what the posterior's mean loses to the exact one; chosen by hand.
ROOT_RANK, BLOCK_RANK, BLOCK_ROWS = 500, 200, 400


def plan_sizes(
    approximation: object,
    source: RowSource,
    work: Workload,
    kernel: Kernel,
    *,
    learning_blocks: Sequence[int],
    memory_budget: int,
    engine: Engine,
    rng: np.random.Generator,
) -> Plan:
    """Return the plan of an approximation in float64, at full rank.

    "auto" uses fewer, larger blocks if the budget requires it, and raises :class:`BudgetError` if even one
    block exceeds it. ``learning_blocks`` are the rows of each block that hyperparameters are learned from.
    """
    n = work.n_rows
    solved = solves_for_mean(approximation, n, memory_budget)
    tiles = Run(memory_budget, engine, TILES.name)

    def planned(builder: Builder, reason: str) -> Plan:
        dtype = np.dtype(np.float64)
        most = builder.bounds
        landmarks = max(most.root_landmarks, most.landmarks)
        unit = 8 * UNIT_ARRAYS * min(UNIT_ROWS, n) * min(landmarks, n)
        units = engine.n_threads * unit
        whole = most.root_landmarks >= n and not most.landmarks
        threads = engine.n_threads
        room = UNLIMITED if whole else max(1, memory_budget - units) // BASES_FACTOR
        try:
            settled = builder.settle(source, BuildSettings(kernel, dtype, rng, engine))
            plan = make_plan(settled, work, Run(room, Engine(threads), dtype.name), reason=reason)
            taken = BASES_FACTOR * plan.peak_bytes + units
            if whole:  # a thread has two products (n, n) that wait to be added, beside that of the sums
                fixed = plan.bytes["sample"] + plan.bytes["fold"] + 8 * n * n
                each = 16 * n * n + unit
                threads = max(1, min(threads, (memory_budget - fixed) // each))
                taken = fixed + threads * each
                if taken > memory_budget:
                    raise BudgetError("", taken)
                plan = replace(plan, n_threads=threads, bytes={})
        except BudgetError as error:
            least = error.least_bytes if whole else BASES_FACTOR * error.least_bytes + units
            sizes, remedy = f"a Gaussian process of {n} rows", "fit to fewer rows"
            if reason == EXACT:
                sizes = f"approximation='exact' of {n} rows"
                remedy = "take approximation='auto', whose mean is exact while memory holds the kernel matrix"
            elif reason == AS_ASKED:
                sizes = f"a process of root_rank={most.root_rank} and {most.n_blocks} blocks"
                remedy = builder.remedy
            raise BudgetError(
                f"memory_budget={format_bytes(memory_budget)} is too small for {sizes}: at least "
                f"{format_bytes(1.01 * least)} is needed. Raise the budget, or {remedy}.",
                least,
            ) from None
        size = {"bases": taken}
        time = dict(plan.seconds)
        if learning_blocks:
            size["learning"] = 8 * SQUARES * min(n, max(learning_blocks)) ** 2
            steps = LEARNING_STEPS * CUBES * sum(float(min(n, b)) ** 3 for b in learning_blocks)
            time["learning"] = steps / GEMM_RATE[8] / engine.n_threads
        if solved:
            size["solve"] = memory_budget
            time["solve"] = 2.0 * exact_plan(work, SolveSettings(), tiles).total_seconds
        needed = _neighbour_bytes(n, source.shape[1], work.n_outputs, engine.n_threads)
        if isinstance(approximation, str) and approximation in ("auto", NEIGHBOURS) and n > EXACT_ROWS:
            size |= {"neighbours": needed} if needed <= memory_budget else {}
        if size.get("learning", 0) > memory_budget:
            raise BudgetError(
                f"memory_budget={format_bytes(memory_budget)} is too small to learn from blocks of "
                f"{max(learning_blocks)} rows: {format_bytes(size['learning'])} is needed. Raise the budget, "
                "or lower learning_rows.",
                size["learning"],
            )
        return replace(plan, memory_budget=memory_budget, bytes=plan.bytes | size, seconds=time)

    name = approximation if isinstance(approximation, str) else None
    if name == "exact":
        return planned(MultiResolutionBuilder.root_only(n), EXACT)
    if name not in ("auto", NEIGHBOURS):
        return planned(_asked_builder(approximation), AS_ASKED)
    if n <= EXACT_ROWS:
        return planned(MultiResolutionBuilder.root_only(n), f"{name}: every one of {n} rows")
    blocks = max(2, round(n / BLOCK_ROWS))
    limits = "" if solved else f", memory holds no kernel matrix of {n} rows"
    while True:
        builder = MultiResolutionBuilder(ROOT_RANK, BLOCK_RANK, blocks, 2, 1.0, partition="tree")
        try:
            return planned(builder, f"{name}: blocks of about {n // blocks} rows{limits}")
        except BudgetError:
            if blocks == 1:
                raise
            blocks = int(0.8 * blocks)


def solves_for_mean(approximation: object, n_rows: int, memory_budget: int) -> bool:
    """Tell whether the posterior's mean is that of the exact kernel matrix, solved by its tiles."""
    chosen = isinstance(approximation, str) and approximation == "auto"
    return chosen and n_rows > EXACT_ROWS and fits_memory(n_rows, memory_budget)


def takes_neighbours(
    approximation: object, source: RowSource, hyper: Hyperparameters, memory_budget: int, n_threads: int
) -> bool:
    """Tell whether posteriors from the nearest rows are tried, or raise where they were asked for in vain.

    They need a kernel of known lengthscales and memory for two dense copies of the rows. With 64 rows
    or fewer, all of them would be neighbours; the root holds them all too, and gives the same posterior.
    """
    n, d = source.shape
    asked = isinstance(approximation, str) and approximation == NEIGHBOURS
    if not asked and not (isinstance(approximation, str) and approximation == "auto" and n > EXACT_ROWS):
        return False
    needed = _neighbour_bytes(n, d, 1, n_threads)
    if asked and not len(hyper.own):
        raise InputError(
            f"approximation='neighbours' needs a kernel with lengthscales, to tell which rows are near; "
            f"{hyper.kernel!r} has none. Choose another kernel, or approximation='multiresolution'."
        )
    if asked and needed > memory_budget:
        raise BudgetError(
            f"memory_budget={format_bytes(memory_budget)} is too small for approximation='neighbours', which "
            f"keeps {n} dense rows: {format_bytes(needed)} is needed. Raise the budget, or choose "
            "approximation='multiresolution'.",
            needed,
        )
    return n > FEWEST and bool(len(hyper.own)) and needed <= memory_budget


def _neighbour_bytes(n_rows: int, n_features: int, n_outputs: int, n_threads: int) -> int:
    """Return the working memory of neighbours, and of the rows whose density is learned from."""
    learned = min(n_rows, CONDITIONAL_ROWS) * (CONDITIONAL_NEIGHBOURS + 1)
    return neighbour_bytes(n_rows, n_features, n_outputs, n_threads) + 16 * learned * (n_features + n_outputs)


def _asked_builder(chosen: object) -> Builder:
    """Return the builder of a name or an instance, with exactly as many landmarks as its rank."""
    if isinstance(chosen, str) and chosen in NESTED:
        chosen = NESTED[chosen]()
    if not isinstance(chosen, tuple(NESTED.values())):
        names = ("auto", "exact", NEIGHBOURS, *NESTED)
        raise InputError(
            f"approximation={chosen!r} is not one that a Gaussian process takes: its bases must be nested "
            f"and have landmarks. Choose one of {', '.join(names)}, or an instance such as "
            "gramian.MultiResolution(root_rank=300, rank=50, n_blocks=80)." + did_you_mean(chosen, names)
        )
    builder: Any = chosen.builder()  # type: ignore[attr-defined]
    made: Builder = replace(builder, oversampling=1.0) if hasattr(builder, "oversampling") else builder
    return made
