"""Kernel ridge regression on the exact K: the system, an intercept, and its predictor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from gramian._numerics import EXPANSION_TOLERANCE, expansion_error
from gramian._tiles import row_slices
from gramian._typing import Float64Array, Rows
from gramian.compression.features import BlockSizes
from gramian.compression.plan import Plan
from gramian.compression.predictor import KernelTerms
from gramian.data.values import row_bytes
from gramian.engine import Engine
from gramian.estimator.labelled import LabelledRows
from gramian.exact.solve import SolveSettings, Stage, solve_exact
from gramian.exact.system import ExactSystem
from gramian.kernels.base import Kernel
from gramian.kernels.columns import Columns
from gramian.operators.kernel import KernelOperator
from gramian.solvers.solution import Solution

#: Bytes of the kernel values of a group of rows against all training rows. Chosen by hand.
GROUP_BYTES = 1 << 25


@dataclass(frozen=True)
class ExactPredictor:
    """f(x) = Σ_i k(x, x_i) a_i over all training rows x_i. Time O(n (d + outputs)) a row, in tiles.

    kernel : k; rows : (n, d), the training rows with positive weight; coefficients : (n, outputs).
    """

    kernel: Kernel
    rows: Rows
    coefficients: Float64Array
    dtype: np.dtype[Any]

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return int(self.coefficients.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the coefficients, without the rows."""
        return self.coefficients.nbytes

    @property
    def model_bytes(self) -> int:
        """Bytes of coefficients and rows."""
        return self.nbytes + row_bytes(self.rows)

    @property
    def block_sizes(self) -> BlockSizes:
        """No sizes: there are no blocks."""
        return ()

    @property
    def landmarks(self) -> tuple[Rows, ...]:
        """All training rows, as the only node's points."""
        return (self.rows,)

    def with_kernel(self, kernel: Kernel) -> ExactPredictor:
        """Return the predictor with k evaluated by ``kernel``, which may be bound to other rows."""
        return replace(self, kernel=kernel)

    def chunk(self, rows: Rows, engine: Engine) -> Float64Array:
        """Return predictions for rows in memory, shape (rows, outputs)."""
        kernel, dtype, prepared = self.kernel, self.dtype, self._prepared
        return (
            KernelOperator(kernel, rows, self.rows, dtype=dtype, n_jobs=engine.n_jobs, prepared=prepared)
            @ self.coefficients
        )

    @cached_property
    def _prepared(self) -> dict[int, Columns]:
        """Prepared parts of the rows: a few of them take longer than a prediction of one row."""
        return {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ExactPredictor, (self.kernel, self.rows, self.coefficients, self.dtype)

    @property
    def n_points(self) -> int:
        """Number of training rows."""
        return int(self.rows.shape[0])

    def point(self, number: int) -> Rows:
        """Return a training row by its number as the kernel takes it, shape (1, d)."""
        return self.rows[number : number + 1]

    def terms(self, rows: Rows, engine: Engine) -> Iterator[KernelTerms]:
        """Yield k(x, x_i) and a_i for rows in memory, in groups whose kernel values take 32 MB at most."""
        columns = self.kernel.against(self.rows, self.dtype)
        every = np.arange(self.n_points)
        height = max(1, GROUP_BYTES // (8 * max(1, self.n_points)))
        for part in row_slices(int(rows.shape[0]), height):
            numbers = np.arange(part.start, part.stop)
            yield KernelTerms(numbers, every, columns(rows[part]), self.coefficients)


def train_exact(
    labelled: LabelledRows[Any],
    kernel: Kernel,
    alpha: float | Float64Array,
    settings: SolveSettings,
    plan: Plan,
    *,
    intercept: bool,
    engine: Engine,
    rng: np.random.Generator,
    progress: Callable[[Solution], None] | None = None,
) -> tuple[ExactPredictor, Float64Array, Solution, list[Stage]]:
    r"""Minimise Σ w_i ‖y_i − f(x_i) − b‖² + alpha ‖f‖² over all f of the kernel's space.

    f = Σ a_i k(x_i, ·) with (K + alpha·W⁻¹) a = y − b·1; rows of weight 0 have a_i = 0 and are left out. With
    ``intercept``, b makes Σ a_i = 0: if a_y and a_1 are the solutions for y and for 1, then
    b = Σ a_y / Σ a_1 and a = a_y − b a_1. Both are solved for together. Without it, b = 0. ``alpha`` is one
    number, or one for each output; then the outputs of each distinct one are solved for in turn, and the
    solution is the least accurate one. Returns the predictor, b (outputs,), the solution and its stages.

    plan : gives the tiles' dtype and the memory. Time and memory: see :func:`solve_exact`, plus a copy of the
    rows, which the predictor keeps.
    """
    rows = labelled.rows
    rows = rows.copy() if sp.issparse(rows) else np.array(rows)
    targets, weights, dtype = labelled.numbers, labelled.weights, np.dtype(plan.dtype)
    if weights is not None and not (weights > 0).all():
        kept = np.flatnonzero(weights > 0)
        rows, targets, weights = rows[kept], targets[kept], weights[kept]
    n = int(rows.shape[0])
    value, offset = np.empty(targets.shape), np.zeros(targets.shape[1])
    solutions, stages = list[Solution](), list[Stage]()
    for one in np.unique(alpha):
        mine = np.broadcast_to(alpha == one, offset.shape) if np.ndim(alpha) else slice(None)
        shift = np.full(n, one) if weights is None else one / weights
        right = np.column_stack([targets[:, mine], np.ones(n)]) if intercept else targets[:, mine]
        system = ExactSystem(kernel, rows, shift, dtype, plan.memory_budget, engine)
        solution, done = solve_exact(system, right, settings, rng=rng, progress=progress)
        solutions, stages, solved = [*solutions, solution], [*stages, *done], solution.value
        if intercept:
            solved, offset[mine] = without_ones(solved)
        value[:, mine] = solved
    solution = max(solutions, key=lambda solution: solution.residual)
    predictor = ExactPredictor(kernel, rows, value, served_dtype(kernel, rows, value, targets, dtype))
    return predictor, offset, solution, stages


def without_ones(value: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return a (n, outputs) with Σ a_i = 0 and b (outputs,), from solutions for y and, last, for 1."""
    ones = value[:, -1]
    offset = value[:, :-1].sum(axis=0) / ones.sum()
    return value[:, :-1] - np.outer(ones, offset), offset


def served_dtype(
    kernel: Kernel, rows: Rows, value: Float64Array, targets: Float64Array, dtype: DTypeLike
) -> np.dtype[Any]:
    """Return the dtype of a prediction's tiles: ``dtype``, or float64 if its rounding would show."""
    largest = float(np.mean(kernel.diagonal(rows[: min(1024, rows.shape[0])])))
    error = largest * expansion_error(1.0, dtype) * np.linalg.norm(value, axis=0)
    allowed = EXPANSION_TOLERANCE * np.sqrt(np.mean(np.square(targets), axis=0))
    return np.dtype(dtype if (error <= allowed).all() else np.float64)
