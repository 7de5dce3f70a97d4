"""Settings of an exact solve, the value behind ``approximation="exact"``, and the plan of its fit."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, replace

from sklearn.base import BaseEstimator

from gramian._budget import format_bytes
from gramian._checks import one_of, positive_number, whole_number
from gramian.approximations.approximation import Approximation
from gramian.approximations.multiresolution import MultiResolutionBuilder
from gramian.compression.costs import Workload
from gramian.compression.plan import EXACT, Plan
from gramian.engine import Run
from gramian.exact.policy import Costs, Sizes
from gramian.exact.solve import CHOSEN, DIRECT_ROWS, ITERATIVE, SolveSettings, iteration_bytes
from gramian.exact.system import keeps_tiles
from gramian.exceptions import BudgetError, InputError

SOLVERS = ("auto", "cg", "cholesky", "askotch")
PRECONDITIONERS = ("auto", "none", "nystrom", "jacobi", "pitc")
#: Rank and block size used if only the kind of preconditioner is given. Chosen by hand.
DEFAULT_RANK, DEFAULT_BLOCK = 500, 1000


@dataclass(eq=False, repr=False)
class Exact(BaseEstimator):
    r"""Solver settings for the exact kernel matrix, as in ``KernelRidge(approximation=gm.Exact(...))``.

    (K + alpha·I) a = y is solved until ‖y − (K + alpha·I) a‖ ≤ tol ‖y‖. K is computed by tiles; these are
    kept between products if three quarters of ``memory_budget`` can hold the tiles of its lower half.
    ``approximation="exact"`` is ``gm.Exact()``.

    Parameters
    ----------
    solver : {"auto", "cg", "cholesky", "minres", "askotch"}, default="auto"
        "auto" uses a Cholesky factor if that is expected to be fastest and fits into ``memory_budget``
        (always up to 2,000 rows), else block conjugate gradients. "minres" is for kernels that are not
        positive semi-definite. "askotch", block sketch-and-project, gives an answer even if a single product
        with K takes too long (``max_iter`` then counts passes over the rows); "auto" uses it if
        ``time_limit`` is too short for ten products.
    preconditioner : {"auto", "none", "nystrom", "jacobi", "pitc"} or approximation, default="auto"
        For conjugate gradients: a low-rank root from pivots ("nystrom"), the diagonal blocks of K over
        clusters ("jacobi"), or both, where the blocks hold the root's residual ("pitc"). "auto" begins with
        none and builds larger ones as iterations become expensive. An unfitted approximation, such as
        ``gm.MultiResolution(rank=200)``, replaces K by its own exact algebra, with the model's kernel.
    rank, block : int, default=None
        Rank of the root and rows of a block; 500 and 1,000 if only the preconditioner is given.
    tol : float, default=1e-6
        Target of the relative residual, recomputed in float64.
    max_iter : int, default=1000
        Largest number of iterations.
    time_limit : float, default=None
        Largest number of seconds for the solve; the result reached by then is kept, with a warning.
    checkpoint : str or path, default=None
        A folder, as for :class:`KernelRidge`. The coefficients are saved in it every minute, and also when a
        limit or Ctrl-C ends the solve early. A later fit to the same rows, targets and kernel continues from
        them; a fit that converges removes the file.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).random((3000, 2))
    >>> y = np.sin(6 * X[:, 0]) * np.cos(9 * X[:, 1])
    >>> exact = gm.Exact(solver="cg", tol=1e-8)
    >>> m = gm.KernelRidge(alpha=1e-2, gamma=10.0, approximation=exact, random_state=0).fit(X, y)
    >>> bool(m.solution_.residual <= 1e-8)
    True
    """

    _: KW_ONLY
    solver: str = "auto"
    preconditioner: str | Approximation = "auto"
    rank: int | None = None
    block: int | None = None
    tol: float = 1e-6
    max_iter: int = 1000
    time_limit: float | None = None
    checkpoint: str | os.PathLike[str] | None = None

    def settings(self) -> SolveSettings:
        """Return the settings after checking every parameter."""
        one_of("solver", self.solver, (*SOLVERS, *ITERATIVE))
        builder = None
        if isinstance(self.preconditioner, Approximation):
            builder = self.preconditioner.builder()
        else:
            one_of("preconditioner", self.preconditioner, PRECONDITIONERS)
        limit = None if self.time_limit is None else positive_number("time_limit", self.time_limit)
        return SolveSettings(
            solver=self.solver,
            sizes=CHOSEN if builder is not None else self._sizes(),
            builder=builder,
            tol=positive_number("tol", self.tol),
            max_iter=whole_number("max_iter", self.max_iter, 1),
            time_limit=limit,
        )

    def _sizes(self) -> Sizes:
        rank = None if self.rank is None else whole_number("rank", self.rank, 1)
        block = None if self.block is None else whole_number("block", self.block, 1)
        kind = str(self.preconditioner)
        if kind in ("auto", "none"):
            if rank is not None or (block is not None and self.solver != "askotch"):
                raise InputError(
                    f"rank={self.rank!r} and block={self.block!r} have no effect with "
                    f"preconditioner={kind!r}. Choose 'nystrom', 'jacobi' or 'pitc', or leave them out."
                )
            if block is not None:
                return Sizes(0, block)
            return CHOSEN if kind == "auto" else Sizes(0, 0)
        for name, value, idle in (("rank", rank, "jacobi"), ("block", block, "nystrom")):
            if value is not None and kind == idle:
                raise InputError(f"{name}={value} has no effect with preconditioner={kind!r}. Leave it out.")
        return Sizes(
            0 if kind == "jacobi" else rank or DEFAULT_RANK,
            0 if kind == "nystrom" else block or DEFAULT_BLOCK,
        )


#: Number of iterations assumed for a solve with a preconditioner. Chosen by hand.
NOMINAL_ITERATIONS = 50


def exact_plan(work: Workload, settings: SolveSettings, run: Run, *, reason: str = EXACT) -> Plan:
    """Predict the exact solve's bytes and nominal seconds.

    Raises :class:`BudgetError` if the budget cannot hold a requested factor, or the vectors of an iteration.
    """
    n, dtype = work.n_rows, run.dtype
    memory_budget, n_threads = run.memory_bytes, run.engine.n_threads
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
