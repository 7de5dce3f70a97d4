"""Plan of an exact fit: bytes and nominal seconds."""

from __future__ import annotations

from dataclasses import replace

from gramian._budget import format_bytes
from gramian.approximations.multiresolution import MultiResolutionBuilder
from gramian.compression.costs import Resources, Workload
from gramian.compression.plan import EXACT, Plan
from gramian.exact.policy import Costs
from gramian.exact.solve import DIRECT_ROWS, SolveSettings, iteration_bytes
from gramian.exact.system import keeps_tiles
from gramian.exceptions import BudgetError

#: Number of iterations assumed for a solve with a preconditioner. Chosen by hand.
NOMINAL_ITERATIONS = 50


def exact_plan(work: Workload, settings: SolveSettings, resources: Resources, *, reason: str = EXACT) -> Plan:
    """Predict the exact solve's bytes and nominal seconds.

    Raises :class:`BudgetError` if the budget cannot hold a requested factor, or the vectors of an iteration.
    """
    n, dtype = work.n_rows, resources.dtype
    memory_budget, n_threads = resources.memory_budget, resources.n_threads
    once = Costs(n, work.n_features, work.n_outputs, dtype.itemsize)
    costs = replace(once, kept=keeps_tiles(n, dtype, memory_budget))
    vectors = iteration_bytes(n, work.n_features, work.n_outputs, work.itemsize, n_threads)
    square = 8 * n * n + 16 * n * work.n_outputs
    direct = settings.solver == "cholesky" or (
        settings.solver == "auto" and n <= DIRECT_ROWS and square <= memory_budget
    )
    need = square if settings.solver == "cholesky" else vectors
    if need > memory_budget:
        raise BudgetError(
            f"memory_budget={format_bytes(memory_budget)} is too small for the exact system of {n} rows: at "
            f"least {format_bytes(1.01 * need)} is needed. Raise the budget, or use approximation='auto'.",
            need,
        )
    seconds = costs.direct if direct else once.product + NOMINAL_ITERATIONS * costs.product
    return Plan(
        method="exact",
        builder=MultiResolutionBuilder.root_only(n),
        root_rank=n,
        rank=0,
        n_blocks=1,
        n_levels=1,
        landmarks=0,
        dtype=dtype.name,
        sample_rows=n,
        chunk_rows=n,
        n_threads=n_threads,
        bytes={"solve": square if direct else memory_budget},
        seconds={"solve": seconds / n_threads},
        memory_budget=memory_budget,
        reason=reason,
        n_rows=n,
    )
