"""Kernel ridge regression by one pass of streaming sums, for any approximation."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gramian._budget import format_bytes
from gramian._checks import one_of
from gramian._numerics import ridge_tolerance, unit_roundoff
from gramian._phases import Phases, silent
from gramian._typing import Float64Array
from gramian.compression.checkpoint import SumsCheckpoint
from gramian.compression.features import FeatureMap
from gramian.compression.plan import Plan
from gramian.compression.predictor import Predictor, fold
from gramian.compression.ridge_sums import Labelled, RidgeSums, split_intercept, sum_rows
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.exceptions import AccuracyWarning, user_level
from gramian.kernels.base import Kernel, refuse_large_values
from gramian.solvers.arrowhead import ArrowheadFactor, Forest, NodeSums, multiply
from gramian.solvers.core import CoupledCore
from gramian.solvers.coupled import ridge_coefficients
from gramian.solvers.solution import Solution, Status, relative_residual

#: Logger of phases: each record has the attributes ``phase``, ``seconds`` and ``bytes``.
LOG = logging.getLogger("gramian")
#: Up to this many rows float64 tiles are chosen, because they cost no noticeable time. Chosen by hand.
SMALL_ROWS = 3_000
#: Values of the parameter ``tile_dtype``.
TILE_DTYPES = ("auto", "float32", "float64")


@dataclass(frozen=True)
class RidgeFit:
    """Trained ridge model with its plan and solution."""

    predictor: Predictor
    solution: Solution
    plan: Plan
    rank: int
    intercept: Float64Array  #: the unpenalised intercept, or zeros, shape (outputs,)


def train_ridge(
    rows: Labelled,
    kernel: Kernel,
    alpha: float | Float64Array,
    plan: Plan,
    *,
    intercept: bool,
    shift: Float64Array,
    rng: np.random.Generator,
    engine: Engine,
    phases: Phases = silent,
    checkpoint: SumsCheckpoint | None = None,
) -> RidgeFit:
    r"""Minimise Σ w_i ‖y_i − f(x_i) − b‖² + alpha ‖f‖² over the approximation's functions f.

    ``alpha`` is one number, or one for each output.

    b is 0, or with ``intercept`` a constant that is not penalised. ``shift`` is a constant near the targets'
    mean that is subtracted before the sums are made (see :class:`RidgeSums`); it is 0 without an intercept.

    One random read of the sample, one pass over the rows, then the exact solve of
    (FᵀΩF + alpha·I) β = FᵀΩy: by elimination for nested bases, or as β = C (A C + alpha·I)⁻¹ b for a coupled
    core, with A = FᵀΩF and b = FᵀΩy. The residual of that system is recomputed, and a warning says if it
    exceeds its tolerance. The plan states time and memory; memory does not depend on n.
    """
    clock, source = _Clock(), rows.source
    features = plan.build(source, kernel, rng=rng, engine=engine, weights=rows.weights, phases=phases)
    clock.lap("bases", features.nbytes)
    sums = RidgeSums.zeros(features, shift, intercept=intercept)
    progress = phases("sums", source.shape[0])
    if checkpoint is not None:
        progress(checkpoint.bind(rows, plan, features, sums, alpha))

    def done(count: int) -> None:
        if checkpoint is not None:
            checkpoint.passed(sums, count, last=sums.n_rows == source.shape[0])

    sum_rows(
        sums,
        features,
        source,
        rows.targets,
        rows.weights,
        chunk_rows=plan.chunk_rows,
        engine=engine,
        done=done,
        progress=progress,
    )
    clock.lap("sums", features.nbytes + sums.nbytes)
    phases("solve")
    beta, offset, solution = solve_ridge(features, sums, alpha, engine)
    clock.lap("solve", features.nbytes + 2 * sums.nbytes)
    predictor = fold(features, beta)
    if checkpoint is not None:
        checkpoint.finish()
    clock.lap("fold", features.nbytes + predictor.nbytes)
    return RidgeFit(predictor, solution, plan.used(clock.bytes, clock.seconds), features.rank, offset)


def solve_ridge(
    features: FeatureMap, sums: RidgeSums, alpha: float | Float64Array, engine: Engine
) -> tuple[list[Float64Array], Float64Array, Solution]:
    """Solve (FᵀΩF + alpha·I) β = FᵀΩ(y − b); return β per node, the intercept b (or 0) and the solution.

    With an alpha for each output each distinct one is solved for; the solution is the least accurate one.
    """
    if isinstance(alpha, np.ndarray):
        each, which = np.unique(alpha, return_inverse=True)
        found = [solve_ridge(features, sums, float(one), engine) for one in each]
        outputs = np.arange(len(which))
        mixed = [
            np.stack(nodes)[which, :, outputs].T.copy()
            for nodes in zip(*(b for b, _, _ in found), strict=True)
        ]
        offset = np.stack([b for _, b, _ in found])[which, outputs]
        worst = max((solution for _, _, solution in found), key=lambda solution: solution.residual)
        return mixed, offset, replace(worst, value=np.concatenate(mixed))
    if features.core is None:
        factor = ArrowheadFactor(features.forest, sums.nodes, alpha, engine)
        beta, solution = solve_eliminated(factor, features.forest, sums.nodes)
    else:
        beta, solution = solve_coupled(features.core, sums.nodes, alpha, engine)
    if not sums.intercept:
        return beta, np.zeros_like(sums.shift), solution
    beta, offset = split_intercept(beta, sums.nodes, sums.mass, features.dtype, sums.right)
    return beta, sums.shift + offset, solution


class _Clock:
    """Clock that keeps seconds and bytes of the phases and logs each at its end (``gramian``, INFO)."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.bytes: dict[str, int] = {}
        self.seconds: dict[str, float] = {}

    def lap(self, phase: str, held: int) -> None:
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        self.seconds[phase], self.bytes[phase] = seconds, held
        facts = {"phase": phase, "seconds": seconds, "bytes": held}
        LOG.info("%s: %.2f s, %s held", phase, seconds, format_bytes(held), extra=facts)


def solve_eliminated(
    factor: ArrowheadFactor, forest: Forest, sums: Sequence[NodeSums]
) -> tuple[list[Float64Array], Solution]:
    """Solve for the sums' right-hand sides, with one refinement step if the residual is too large."""
    alpha, right = factor.alpha, [s.rhs for s in sums]
    beta = factor.solve(right)
    target = ridge_tolerance(np.float64)
    for step in range(2):
        product = multiply(forest, sums, beta, alpha)
        gap = [r - q for r, q in zip(right, product, strict=True)]
        residual = relative_residual(np.concatenate(gap), np.concatenate(right))
        if residual <= target or step:
            break
        beta = [b + c for b, c in zip(beta, factor.solve(gap), strict=True)]
    warn_if_missed(residual, target)
    value = np.concatenate(beta)
    return beta, Solution(value, Status.DIRECT, 0, residual, jitter=factor.jitter)


def solve_coupled(
    core: CoupledCore, sums: Sequence[NodeSums], alpha: float, engine: Engine
) -> tuple[list[Float64Array], Solution]:
    """Solve the ridge system of a coupled core and recompute the residual of its normal equations."""
    right = np.concatenate([s.rhs for s in sums])
    beta, solution = ridge_coefficients([s.gram for s in sums], core, right, alpha, engine=engine)
    if solution.status is Status.DIRECT:  # conjugate gradients give their own warning
        warn_if_missed(solution.residual, ridge_tolerance(np.float64))
    return core.split(beta), solution


def warn_if_missed(residual: float, target: float) -> None:
    """Warn if the residual of a ridge system is above its target."""
    if residual > target:
        warnings.warn(
            f"the ridge system was solved to a relative residual of {residual:.2g}, above the target "
            f"{target:.2g}. Raise alpha, or lower the rank.",
            AccuracyWarning,
            stacklevel=user_level(),
        )


def float32_alpha(n_rows: int, mean_diagonal: float, roundoff: float) -> float:
    """Return the smallest alpha for which float32 tiles are accurate enough.

    Let u be the unit roundoff and k̄ the mean diagonal of K. A float32 product over 1,024 rows has an error
    of about 1024·u·k̄, and the n/1024 products of a pass err independently. The sums then carry noise of
    32·u·√n·k̄; alpha should be at least four times that.
    """
    return 128.0 * roundoff * float(np.sqrt(n_rows)) * mean_diagonal


def choose_dtype(
    tile_dtype: str, source: RowSource, kernel: Kernel, alpha: float | None, n_rows: int | None = None
) -> np.dtype[Any]:
    """Return the dtype of the tiles: the requested one, or for ``"auto"`` the one that this rule gives.

    float64 for up to 3,000 rows (where it costs nothing noticeable), for alpha below :func:`float32_alpha`,
    and for kernel values beyond the range of float32; float32 otherwise. ``n_rows`` is the number of rows to
    decide for, if not that of the source. Raises ``InputError`` for kernel values that the dtype cannot hold.
    """
    one_of("tile_dtype", tile_dtype, TILE_DTYPES)
    with np.errstate(over="ignore", invalid="ignore"):
        diagonal = kernel.diagonal(source.rows(slice(0, min(1024, source.shape[0]))))
    n = source.shape[0] if n_rows is None else n_rows
    largest = float(np.abs(diagonal).max())  # no |k(x, z)| is larger
    if tile_dtype == "auto":
        mean = float(np.mean(diagonal))
        fine = alpha is not None and alpha < float32_alpha(n, mean, unit_roundoff(np.float32))
        # Bases divide by roots of kernel values, which tiny ones would make overflow.
        wide = largest > float(np.finfo(np.float32).max) or 0.0 < largest < float(np.finfo(np.float32).tiny)
        tile_dtype = "float64" if n <= SMALL_ROWS or fine or wide else "float32"
    dtype: np.dtype[Any] = np.dtype(tile_dtype)
    refuse_large_values(kernel, largest, dtype)
    return dtype
