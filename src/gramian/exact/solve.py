"""Solvers of (K + D) a = y: conjugate gradients in stages, each with a larger preconditioner."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.linalg as la

from gramian._files import read_state, write_state
from gramian._typing import Float64Array, IntArray
from gramian.compression.builder import Builder
from gramian.compression.plan import NOMINAL_THREADS
from gramian.data.fingerprint import content
from gramian.exact.blocks import balanced_blocks
from gramian.exact.policy import LOOK_ROWS, STIFF, Costs, Policy, Sizes
from gramian.exact.preconditioner import Compressed, RootAndBlocks, root_and_blocks
from gramian.exact.sketch import block_rows, sketch_and_project
from gramian.exact.system import ExactSystem
from gramian.operators.kernel import working_bytes
from gramian.solvers.krylov import conjugate_gradient, minimal_residual
from gramian.solvers.solution import Solution, Status

#: Seconds between two saves. Chosen by hand.
SAVE_EVERY = 60.0


class Checkpoint:
    """Checkpoint file of one solve: read at the start, updated, and removed once the solve has converged.

    It holds x (n, p) and hashes of kernel, rows, D and right-hand sides, so that no other problem can start
    from it. The file is either complete or absent, even if the process dies while writing.
    """

    def __init__(
        self, path: Path, system: ExactSystem, right: Float64Array, seconds: float = SAVE_EVERY
    ) -> None:
        self.path, self._seconds = path, seconds
        self._identity = identity_of(system, right)
        self._saved = time.monotonic()
        self._reached: Float64Array | None = None

    def start(self) -> Float64Array | None:
        """Return x from the file, or None if there is no file."""
        stored = read_state(self.path, self._identity)
        return None if stored is None else np.asarray(stored["value"], np.float64)

    def watch(self, state: Solution) -> None:
        """Keep the state, and save it if the last save is some time ago."""
        if not np.isfinite(state.value).all():
            return
        self._reached = state.value
        if time.monotonic() - self._saved >= self._seconds:
            self.keep()

    def keep(self) -> None:
        """Save the last state that was seen, if there is one."""
        if self._reached is not None:
            self.save(self._reached)

    def save(self, value: Float64Array) -> None:
        """Write x to the file."""
        write_state(self.path, self._identity, {"value": value})
        self._saved = time.monotonic()

    def finish(self, solution: Solution) -> None:
        """Remove the file if the solve has converged; otherwise save the solution reached."""
        if solution.status in (Status.CONVERGED, Status.DIRECT):
            self.path.unlink(missing_ok=True)
        else:
            self.save(solution.value)


def identity_of(system: ExactSystem, right: Float64Array) -> dict[str, str]:
    """Return hashes of kernel, rows, D and right-hand sides, by name. Time O(n d)."""
    return {
        "rows": content(system.rows),
        "targets": hashlib.sha256(repr(right.shape).encode() + right.tobytes()).hexdigest(),
        "alpha or weights": hashlib.sha256(system.shift.tobytes()).hexdigest(),
        "kernel": hashlib.sha256(repr(system.kernel).encode()).hexdigest(),
    }


#: Up to this many rows a Cholesky factor is used, because it takes no noticeable time. Chosen by hand.
DIRECT_ROWS = 2000
#: Share of the memory that a preconditioner may use. Chosen by hand.
PRECONDITIONER_SHARE = 0.75
#: Conjugate gradients are not started if the time limit allows fewer products than this. Chosen by hand.
LEAST_PRODUCTS = 10
#: Sizes that tell the solver to choose by its policy.
CHOSEN = Sizes(-1, -1)
#: Solvers that need only products with K + D, by the names that ``Exact(solver=…)`` takes.
ITERATIVE: dict[str, Callable[..., Solution]] = {"minres": minimal_residual}


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a solve: its method, cost and result."""

    name: str  #: none, nystrom, jacobi, pitc, an approximation's, cholesky, askotch or one of ITERATIVE
    rank: int
    block: int
    iterations: int
    residual: float  #: final ‖y − (K + D) a‖/‖y‖, by the recursion if another stage follows
    build_seconds: float
    seconds: float


@dataclass(frozen=True, slots=True)
class SolveSettings:
    """Settings of a solve: method, preconditioner, tolerance and limits."""

    solver: str = "auto"  #: auto, cg, cholesky, askotch or one of ITERATIVE
    sizes: Sizes = CHOSEN  #: of a single preconditioner for the whole solve
    builder: Builder | None = None  #: of an approximation used as preconditioner instead
    tol: float = 1e-6
    max_iter: int = 1000
    time_limit: float | None = None
    checkpoint: Path | None = None


def iteration_bytes(n: int, n_features: int, n_outputs: int, itemsize: int, threads: int) -> int:
    """Return the bytes of an iteration without a preconditioner.

    They count x, the residual, current and previous directions with their images, and temporaries; the rows
    in the order of the blocks; and fast and accurate products.
    """
    products = sum(working_bytes(n, n_features, n_outputs, size, threads) for size in (4, 8))
    return 8 * n * 12 * n_outputs + 2 * n * n_features * itemsize + products


def solve_exact(
    system: ExactSystem,
    right: Float64Array,
    settings: SolveSettings,
    *,
    rng: np.random.Generator,
    progress: Callable[[Solution], None] | None = None,
) -> tuple[Solution, list[Stage]]:
    r"""Solve (K + D) a = y for y (n, p) to ‖y − (K + D) a‖ ≤ tol ‖y‖ in every column; return the stages too.

    "auto" uses a Cholesky factor up to 2,000 rows, and block conjugate gradients by tiles for more. These
    start without a preconditioner. Once the iterations have cost a good part of a preconditioner's price, and
    the rest would cost more than that price, "auto" builds one (:class:`RootAndBlocks`) and continues from
    the current iterate. It repeats this with larger ones or a Cholesky factor, as memory allows (rent or buy,
    :class:`Policy`). A root that explains little of the trace is dropped; if it explains nearly all, a larger
    root replaces the blocks. If ``time_limit`` is too short for ten products, "auto" uses block
    sketch-and-project (:func:`sketch_and_project`).

    With ``settings.checkpoint`` the solution is saved in a file, from which the same problem continues; an
    interrupt saves it and is then raised again.

    Residuals are recomputed in float64, with a warning if they miss the tolerance. Time n² p multiplications
    a step, and n²/2 kernel values: once if memory keeps them, otherwise in each step; memory
    ``system.memory_bytes``.
    """
    if settings.checkpoint is None:
        return _solve_system(system, right, settings, rng, None, progress)
    checkpoint = Checkpoint(settings.checkpoint, system, right)

    def watched(state: Solution) -> None:
        checkpoint.watch(state)
        if progress is not None:
            progress(state)

    try:
        solved, stages = _solve_system(system, right, settings, rng, checkpoint.start(), watched)
    except KeyboardInterrupt:
        checkpoint.keep()
        raise
    checkpoint.finish(solved)
    return solved, stages


def _solve_system(
    system: ExactSystem,
    right: Float64Array,
    settings: SolveSettings,
    rng: np.random.Generator,
    start: Float64Array | None,
    progress: Callable[[Solution], None] | None,
) -> tuple[Solution, list[Stage]]:
    solver = settings.solver
    begin, name, block = time.perf_counter(), solver, 0
    if solver == "cholesky" or (solver == "auto" and len(system) <= DIRECT_ROWS and system.direct_fits):
        solved, name = system.factorised(right), "cholesky"
    elif solver in ITERATIVE:
        solved = ITERATIVE[solver](system.accurate, right, tol=settings.tol, max_iterations=settings.max_iter)
    elif solver == "askotch" or (solver == "auto" and _too_dear(system, right, settings)):
        name = "askotch"
        block = max(settings.sizes.block, 0) or block_rows(len(system), system.memory_bytes)
        solved = sketch_and_project(
            system,
            right,
            block=block,
            tol=settings.tol,
            max_passes=settings.max_iter,
            rng=rng,
            start=start,
            time_limit=settings.time_limit,
            progress=progress,
        )
    else:
        run = _Staged(system, right, settings, rng, progress)
        solved = run.solve(start)
        return solved, run.stages
    took = time.perf_counter() - begin
    built, took = (took, 0.0) if name == "cholesky" else (0.0, took)
    stage = Stage(name, 0, block, solved.iterations, solved.residual, built, took)
    return replace(solved, evaluations=system.evaluations, bytes=system.held), [stage]


def preconditioner_bytes(system: ExactSystem, right: Float64Array) -> int:
    """Return the bytes left for a preconditioner beside an iteration and the tiles that are kept."""
    n, p = right.shape
    # A nominal number of threads: the sizes, and thus the solution, must not depend on the real one.
    vectors = iteration_bytes(n, int(system.rows.shape[1]), p, system.rows.dtype.itemsize, NOMINAL_THREADS)
    return int(PRECONDITIONER_SHARE * (system.memory_bytes - vectors - system.kept_bytes))


def costs_of(system: ExactSystem, right: Float64Array) -> Costs:
    """Return the nominal costs of a solve of this system."""
    item = np.dtype(system.dtype).itemsize
    return Costs(len(system), int(system.rows.shape[1]), right.shape[1], item, system.kept_bytes > 0)


def _too_dear(system: ExactSystem, right: Float64Array, settings: SolveSettings) -> bool:
    """Tell whether the time limit is too short for the products of conjugate gradients."""
    if settings.time_limit is None or settings.sizes != CHOSEN or settings.builder is not None:
        return False
    products = LEAST_PRODUCTS * costs_of(system, right).product / system.engine.n_threads
    return products > settings.time_limit


class _Staged:
    """Conjugate gradients in stages, each starting from the previous stage's result."""

    def __init__(
        self,
        system: ExactSystem,
        right: Float64Array,
        settings: SolveSettings,
        rng: np.random.Generator,
        progress: Callable[[Solution], None] | None,
    ) -> None:
        self._system, self._right, self._settings = system, right, settings
        self._rng, self._progress = rng, progress
        self._deadline = None if settings.time_limit is None else time.perf_counter() + settings.time_limit
        costs = self._costs = costs_of(system, right)
        self._room = preconditioner_bytes(system, right)
        factor = settings.solver == "auto" and system.direct_fits
        self._policy = Policy(costs, self._room, factor, settings.tol)
        self._auto = settings.sizes == CHOSEN and settings.builder is None
        self.stages: list[Stage] = []
        self._evaluations = 0
        self._held = 0

    def solve(self, value: Float64Array | None) -> Solution:
        """Run stages until one converges or a limit is reached."""
        sizes = self._settings.sizes
        if sizes == CHOSEN:
            sizes = Sizes(0, 0)
            if self._auto and self._stiff():
                sizes = self._policy.next_sizes(sizes) or sizes
        iterations = 0
        while True:
            begin = time.perf_counter()
            solved, order, next_step = self._stage(sizes, value, begin, self._settings.max_iter - iterations)
            iterations += solved.iterations
            value = np.empty_like(self._right)
            value[order] = solved.value
            if solved.status is Status.PAUSED and next_step == "direct":
                begin = time.perf_counter()
                solved = self._system.factorised(self._right)
                value = solved.value
                took = time.perf_counter() - begin
                self.stages.append(Stage("cholesky", 0, 0, 0, solved.residual, took, 0.0))
            if solved.status is not Status.PAUSED:
                return replace(
                    solved,
                    value=value,
                    iterations=iterations,
                    evaluations=self._evaluations + self._system.evaluations,
                    bytes=max(self._held, self._system.held),
                )
            larger = self._policy.next_sizes(sizes)
            assert larger is not None
            sizes = larger

    def _stiff(self) -> bool:
        """Tell from a few rows whether iterations without a preconditioner would be wasted."""
        n = len(self._system)
        rows = self._system.rows[np.sort(self._rng.choice(n, min(n, LOOK_ROWS), replace=False))]
        gram = self._system.kernel(rows, dtype=np.float64)
        values = la.eigvalsh(gram, check_finite=False) * (n / len(gram))
        self._evaluations += gram.size
        return int((values > float(self._system.shift.min())).sum()) >= STIFF

    def _stage(
        self, sizes: Sizes, start: Float64Array | None, begin: float, max_iterations: int
    ) -> tuple[Solution, IntArray, str]:
        """Build a preconditioner and iterate with it; return solution, order of the rows and next action."""
        system, order = self._system, np.arange(len(self._system))
        slices: list[slice] = []
        if sizes.block:
            blocks = balanced_blocks(system.rows, system.kernel, sizes.block, self._rng, system.engine)
            order, slices = blocks.order, blocks.slices
            system = system.ordered(order)
        name, rank = "none", 0
        preconditioner: RootAndBlocks | Compressed | None = None
        if self._settings.builder is not None:
            preconditioner = Compressed(self._settings.builder, system, self._rng)
            name, rank = self._settings.builder.method, preconditioner.rank
        elif sizes.rank or sizes.block:
            preconditioner, name = root_and_blocks(
                system, sizes, slices, self._room, self._rng, costs=self._costs if self._auto else None
            )
            rank = preconditioner.rank
        if preconditioner is not None:
            self._held = max(self._held, preconditioner.nbytes + system.kept_bytes)
        built = time.perf_counter()
        residuals: list[float] = []
        verdict = "go on"

        def watch(state: Solution) -> bool:
            nonlocal verdict
            residuals.append(state.residual)
            if self._progress is not None:
                original = np.empty_like(state.value)
                original[order] = state.value
                self._progress(replace(state, value=original))
            if self._auto:
                verdict = self._policy.verdict(sizes, residuals)
            return verdict != "go on"

        solved = conjugate_gradient(
            system.fast,
            self._right[order],
            precondition=preconditioner,
            accurate=system.accurate if system.rounded else None,
            start=None if start is None else start[order],
            tol=self._settings.tol,
            max_iterations=max_iterations,
            time_limit=None if self._deadline is None else max(0.0, self._deadline - time.perf_counter()),
            progress=watch,
        )
        if system is not self._system:
            self._evaluations += system.evaluations
            self._held = max(self._held, system.held)
        self.stages.append(
            Stage(
                name,
                rank,
                sizes.block if name in ("jacobi", "pitc") else 0,
                solved.iterations,
                solved.residual,
                built - begin,
                time.perf_counter() - built,
            )
        )
        return solved, order, verdict
