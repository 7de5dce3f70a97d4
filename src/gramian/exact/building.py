"""Construction of a preconditioner with given sizes, or with sizes improved at the same cost."""

from __future__ import annotations

import numpy as np

from gramian.exact.policy import ENOUGH, Costs, Sizes
from gramian.exact.preconditioner import RootAndBlocks
from gramian.exact.system import ExactSystem
from gramian.exceptions import BudgetError
from gramian.landmarks.pivoting import PivotedFactor, rpcholesky_factor

#: If a root leaves more than this share of the trace, it is dropped: blocks alone are better. By hand.
USELESS_ROOT = 0.9
#: If a root leaves less than this share, the kernel is smooth, and a larger root replaces the blocks. By
#: hand.
SMOOTH_ROOT = 0.05


def root_and_blocks(
    system: ExactSystem,
    sizes: Sizes,
    slices: list[slice],
    room: int,
    rng: np.random.Generator,
    *,
    costs: Costs | None,
) -> tuple[RootAndBlocks, str]:
    """Return a preconditioner of these sizes and its name; the system counts the kernel values.

    With ``costs`` the sizes may be improved. The root stops growing once it is large enough. It is dropped if
    it explains little of the trace; if it explains nearly all, a larger root replaces the blocks. Without
    ``costs`` the sizes are used as given, and more than ``room`` bytes raise :class:`BudgetError`.
    """
    n = len(system)
    factor, name = np.zeros((0, n)), "jacobi"
    if sizes.rank:
        whole = float(system.kernel.diagonal(system.rows).sum())
        enough = ENOUGH * float(system.shift.min())
        tol = enough / whole if costs is not None and whole > 0 else 0.0
        pivoted, name = _pivot(system, sizes.rank, tol, rng), "pitc" if slices else "nystrom"
        factor = pivoted.factor
        remainder = float(pivoted.diagonal.sum())
        left = remainder / whole if whole > 0 else 0.0
        if costs is not None and left > USELESS_ROOT:
            factor, name = np.zeros((0, n)), "jacobi"
        elif costs is not None and left < SMOOTH_ROOT:
            slices, name = [], "nystrom"
            more = costs.root_affordable(costs.build(sizes), room) - len(pivoted.picked)
            if more > 0 and len(pivoted.picked) == sizes.rank and not remainder <= enough:
                factor = _pivot(system, more, tol, rng, pivoted).factor
    found = RootAndBlocks(system.kernel, system.rows, system.shift, factor, slices, system.engine)
    system.evaluations += found.evaluations
    if found.nbytes > room and costs is None:
        raise BudgetError(
            f"the preconditioner of rank {sizes.rank} and blocks of {sizes.block} rows takes more than "
            "its share of memory_budget. Lower rank or block, or raise the budget.",
            found.nbytes,
        )
    return found, name


def _pivot(
    system: ExactSystem, rank: int, tol: float, rng: np.random.Generator, after: PivotedFactor | None = None
) -> PivotedFactor:
    system.evaluations += len(system) * rank
    return rpcholesky_factor(
        system.kernel, system.rows, rank, rng, tol=tol, after=after, n_jobs=system.engine.n_jobs or -1
    )
