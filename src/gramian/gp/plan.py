"""Plan of a Gaussian process: what is learned, tried and checked, and sizes that the memory budget holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from gramian.exact.system import keeps_tiles
from gramian.exceptions import BudgetError, InputError, did_you_mean
from gramian.gp.composite import CONDITIONAL_NEIGHBOURS, CONDITIONAL_ROWS
from gramian.gp.learning import block_sizes
from gramian.gp.neighbours import FEWEST, STACK_BYTES
from gramian.gp.parameters import ProcessParameters, start_kernel
from gramian.gp.prior import Hyperparameters
from gramian.kernels import Kernel

#: Approximations with nested bases of landmarks, for which the likelihood's gradient is known.
NESTED: dict[str, type[Approximation]] = {
    "multiresolution": MultiResolution,
    "lowrankplusblocks": LowRankPlusBlocks,
    "blockdiagonal": BlockDiagonal,
}
#: Name of the posterior from the nearest rows.
NEIGHBOURS = "neighbours"
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
#: Tiles of K for the exact mean, whose residuals are computed in float64. By the relative residual 1e-2
#: cadata has the same RMSE to three digits. Chosen by hand.
TILES, MEAN_SOLVE = np.dtype(np.float32), SolveSettings(tol=1e-3)
#: Rows that the deviations are checked on, and the share of all rows that may be held out for it. By hand.
CHECKED_ROWS, HELD_OUT_SHARE = 2_000, 0.1


@dataclass(frozen=True)
class ProcessPlan:
    """How a process is fitted: the start of learning, the posteriors that are tried, held-out rows, sizes."""

    parameters: ProcessParameters
    start: Hyperparameters
    bases: Plan  #: of the nested bases at the start
    learned: tuple[int, ...]  #: rows of each block that hyperparameters are learned from; empty if they stay
    exact_mean: bool  #: whether the mean may be that of the exact kernel matrix, solved by its tiles
    neighbours: bool  #: whether mean and deviation may be those given the nearest rows
    held_out: int  #: rows held out of learning, which choose the posterior; 0 where none is chosen
    bytes: dict[str, int]  #: by phase, beside the bases
    seconds: dict[str, float]

    @property
    def nested(self) -> bool:
        """Whether mean and deviation may be those of the nested bases, by sums over the rows."""
        return self.parameters.setup.automatic or not self.neighbours

    @property
    def engine(self) -> Engine:
        """Engine of as many threads as the budget holds."""
        return Engine(self.bases.n_threads)

    def sizes(self, bases: Plan) -> Plan:
        """Return a plan of bases with the bytes and seconds of the other phases."""
        return replace(bases, bytes=bases.bytes | self.bytes, seconds=bases.seconds | self.seconds)

    def __str__(self) -> str:
        return str(self.shown)

    @property
    def shown(self) -> Plan:
        """The sizes, with what is learned, tried and checked as the reason."""
        steps = [self.bases.reason, f"kernel and noise learned from {sum(self.learned):,} rows"]
        if not self.learned:
            steps[1] = "kernel and noise as given"
        tried = {"multi-resolution": self.nested, "exact mean": self.exact_mean}
        tried["neighbours"] = self.neighbours
        names = " or ".join(name for name, may in tried.items() if may)
        steps.append(f"posterior by {names}, judged on {self.held_out:,} held-out rows")
        if not self.held_out:
            steps[2] = "deviations checked by leaving each row out"
        return replace(self.sizes(self.bases), reason="; ".join(steps))


def plan_fit(
    parameters: ProcessParameters,
    source: RowSource,
    n_outputs: int,
    rng: np.random.Generator,
    *,
    check: bool = True,
) -> ProcessPlan:
    """Return the plan of a fit; without ``check`` it tries no neighbours and holds no rows out.

    Raises :class:`BudgetError` where the memory budget holds no such fit.
    """
    use, approximation, n = parameters.setup.run, parameters.setup.approximation, source.shape[0]
    start = Hyperparameters(start_kernel(parameters, source, rng), parameters.noise, parameters.learn_noise)
    bases = plan_bases(parameters, source, n_outputs, start.kernel, rng)
    size, time, learned = dict[str, int](), dict[str, float](), tuple[int, ...]()
    if parameters.optimizer is not None and len(start.theta):
        learned = block_sizes(parameters.rows_of(n))
        size["learning"] = 8 * SQUARES * max(learned) ** 2
        steps = LEARNING_STEPS * CUBES * sum(float(rows) ** 3 for rows in learned)
        time["learning"] = steps / GEMM_RATE[8] / use.engine.n_threads
        if size["learning"] > use.memory_bytes:
            raise BudgetError(
                f"memory_budget={format_bytes(use.memory_bytes)} is too small to learn from blocks of "
                f"{max(learned)} rows: {format_bytes(size['learning'])} is needed. Raise the budget, "
                "or lower learning_rows.",
                size["learning"],
            )
    exact_mean = solves_for_mean(parameters, n)
    if exact_mean:
        tiles = replace(use, tile_dtype=TILES.name)
        solve = exact_plan(Workload.of(source, n_outputs), SolveSettings(), tiles)
        size["solve"], time["solve"] = use.memory_bytes, 2.0 * solve.total_seconds
    needed = neighbour_bytes(n, source.shape[1], n_outputs, bases.n_threads)
    near = check and takes_neighbours(approximation, n, start, needed, use.memory_bytes)
    if near:
        size["neighbours"] = needed
    held = max(1, min(CHECKED_ROWS, int(HELD_OUT_SHARE * n))) if check and (exact_mean or near) else 0
    return ProcessPlan(parameters, start, bases, learned, exact_mean, near, held, size, time)


def plan_bases(
    parameters: ProcessParameters, source: RowSource, n_outputs: int, kernel: Kernel, rng: np.random.Generator
) -> Plan:
    """Return the plan of the nested bases of a kernel, in float64, at full rank.

    "auto" uses fewer, larger blocks if the budget requires it, and raises :class:`BudgetError` if even one
    block exceeds it.
    """
    approximation, n = parameters.setup.approximation, source.shape[0]
    name = approximation if isinstance(approximation, str) else None
    builder: Builder = MultiResolutionBuilder.root_only(n)
    reason, blocks = f"{name}: every one of {n} rows", 0
    if name == "exact":
        reason = EXACT
    elif name not in ("auto", NEIGHBOURS):
        builder, reason = _asked_builder(approximation), AS_ASKED
    elif n > EXACT_ROWS:
        blocks = max(2, round(n / BLOCK_ROWS))
    limits = "" if solves_for_mean(parameters, n) else f", memory holds no kernel matrix of {n} rows"
    while True:
        if blocks:
            builder = MultiResolutionBuilder(ROOT_RANK, BLOCK_RANK, blocks, 2, 1.0, partition="tree")
            reason = f"{name}: blocks of about {n // blocks} rows{limits}"
        try:
            return _sized(parameters, source, n_outputs, builder, kernel, rng, reason)
        except BudgetError:
            if blocks <= 1:
                raise
            blocks = int(0.8 * blocks)


def _sized(
    parameters: ProcessParameters,
    source: RowSource,
    n_outputs: int,
    builder: Builder,
    kernel: Kernel,
    rng: np.random.Generator,
    reason: str,
) -> Plan:
    """Return the plan of a builder's bases, which takes as many threads as the budget holds."""
    budget, engine = parameters.setup.run.memory_bytes, parameters.setup.run.engine
    n, threads, most, dtype = source.shape[0], engine.n_threads, builder.bounds, np.dtype(np.float64)
    landmarks = min(max(most.root_landmarks, most.landmarks), n)
    unit = 8 * UNIT_ARRAYS * min(UNIT_ROWS, n) * landmarks
    whole = most.root_landmarks >= n and not most.landmarks
    room = UNLIMITED if whole else max(1, budget - threads * unit) // BASES_FACTOR
    try:
        settled = builder.settle(source, BuildSettings(kernel, dtype, rng, engine))
        run = Run(room, Engine(threads), dtype.name)
        plan = make_plan(settled, Workload.of(source, n_outputs), run, reason=reason)
        taken = BASES_FACTOR * plan.peak_bytes + threads * unit
    except BudgetError as error:
        taken = BASES_FACTOR * error.least_bytes + threads * unit
        raise _too_small(builder, n, reason, budget, taken) from None
    if whole:  # a thread has two products (n, n) that wait to be added, beside that of the sums
        fixed = plan.bytes["sample"] + plan.bytes["fold"] + 8 * n * n
        each = 16 * n * n + unit
        threads = max(1, min(threads, (budget - fixed) // each))
        taken = fixed + threads * each
        if taken > budget:
            raise _too_small(builder, n, reason, budget, taken)
        plan = replace(plan, n_threads=threads, bytes={})
    return replace(plan, memory_budget=budget, bytes=plan.bytes | {"bases": taken})


def _too_small(builder: Builder, n: int, reason: str, memory_budget: int, least: int) -> BudgetError:
    sizes, remedy = f"a Gaussian process of {n} rows", "fit to fewer rows"
    if reason == EXACT:
        sizes = f"approximation='exact' of {n} rows"
        remedy = "take approximation='auto', whose mean is exact while memory holds the kernel matrix"
    elif reason == AS_ASKED:
        sizes = f"a process of root_rank={builder.bounds.root_rank} and {builder.bounds.n_blocks} blocks"
        remedy = builder.remedy
    return BudgetError(
        f"memory_budget={format_bytes(memory_budget)} is too small for {sizes}: at least "
        f"{format_bytes(1.01 * least)} is needed. Raise the budget, or {remedy}.",
        least,
    )


def solves_for_mean(parameters: ProcessParameters, n_rows: int) -> bool:
    """Tell whether the mean may be the exact one: memory holds the tiles of K, which iterations only read."""
    setup = parameters.setup
    memory = setup.run.memory_bytes
    return setup.automatic and n_rows > EXACT_ROWS and keeps_tiles(n_rows, TILES, memory)


def takes_neighbours(
    approximation: object, n_rows: int, hyper: Hyperparameters, needed: int, memory_budget: int
) -> bool:
    """Tell whether posteriors from the nearest rows are tried, or raise where they were asked for in vain.

    They need a kernel of known lengthscales and memory for two dense copies of the rows. With 64 rows
    or fewer, all of them would be neighbours; the root holds them all too, and gives the same posterior.
    """
    named = isinstance(approximation, str) and approximation == NEIGHBOURS
    if not named and not (isinstance(approximation, str) and approximation == "auto" and n_rows > EXACT_ROWS):
        return False
    if named and not len(hyper.own):
        raise InputError(
            f"approximation='neighbours' needs a kernel with lengthscales, to tell which rows are near; "
            f"{hyper.kernel!r} has none. Choose another kernel, or approximation='multiresolution'."
        )
    if named and needed > memory_budget:
        raise BudgetError(
            f"memory_budget={format_bytes(memory_budget)} is too small for approximation='neighbours', which "
            f"keeps {n_rows} dense rows: {format_bytes(needed)} is needed. Raise the budget, or choose "
            "approximation='multiresolution'.",
            needed,
        )
    return n_rows > FEWEST and bool(len(hyper.own)) and needed <= memory_budget


def neighbour_bytes(n_rows: int, n_features: int, n_outputs: int, n_threads: int) -> int:
    """Return the memory of two copies of the rows, of those whose density is learned from, and of stacks."""
    learned = min(n_rows, CONDITIONAL_ROWS) * (CONDITIONAL_NEIGHBOURS + 1)
    rows = 8 * n_rows * (2 * n_features + n_outputs + 4) + 16 * learned * (n_features + n_outputs)
    return rows + 5 * STACK_BYTES * n_threads


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
