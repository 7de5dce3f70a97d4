"""Exact ridge regression for a sequence of penalties, scored on held-out rows."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg as la
from numpy.typing import DTypeLike

from gramian._lapack import cho_solve, cholesky
from gramian._numerics import unit_roundoff
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.engine import Engine
from gramian.estimator.parameters import float32_alpha
from gramian.exact.blocks import balanced_blocks
from gramian.exact.policy import Policy, Sizes
from gramian.exact.preconditioner import root_and_blocks
from gramian.exact.predictor import without_ones
from gramian.exact.solve import costs_of, preconditioner_bytes
from gramian.exact.system import ExactSystem
from gramian.kernels.base import Kernel
from gramian.operators.kernel import KernelOperator
from gramian.solvers.krylov import conjugate_gradient
from gramian.solvers.solution import Solution

#: Target of the relative residual of trials, and largest number of iterations: more accuracy would not change
#: which penalty is best. Chosen by hand.
TRIAL_TOL, TRIAL_STEPS = 1e-2, 100
#: A relative residual too small to be reached, so that another rule stops the iteration.
NEVER = 1e-30
#: Number of directions whose products are kept for the next penalty. Chosen by hand.
KEPT_DIRECTIONS = 128
#: Directions with eigenvalues below this share of the largest are rounding of float32 products. By hand.
DEPENDENT = 1e-6


def ridge_solution(
    gram: FloatArray, alpha: float, weights: Float64Array | None, right: Float64Array
) -> Float64Array | None:
    """Return (K + alpha·W⁻¹)⁻¹ right by a Cholesky factor in K's precision, written over K.

    Returns None if the factorisation fails: this penalty is too small to be useful.
    """
    gram.flat[:: len(gram) + 1] += alpha if weights is None else alpha / weights
    try:
        factor = cholesky(gram, overwrite=True)
    except la.LinAlgError:
        return None
    return cho_solve(factor, right.astype(gram.dtype)).astype(np.float64)


@dataclass
class _PenaltyProblem:
    """Training rows and targets of the trials, and the validation rows."""

    kernel: Kernel
    rows: Rows
    others: Rows
    targets: Float64Array
    weights: Float64Array | None
    engine: Engine
    #: Coefficients (n, outputs) and offset (outputs,) of the last penalty.
    solved: tuple[Float64Array, Float64Array] | None = field(default=None, repr=False, kw_only=True)

    @property
    def mean(self) -> Float64Array:
        """Mean of the targets, shape (outputs,)."""
        return np.asarray(np.average(self.targets, axis=0, weights=self.weights))

    @property
    def right(self) -> Float64Array:
        """Right-hand sides: centred targets and, in the last column, ones."""
        return np.column_stack([self.targets - self.mean, np.ones(len(self.targets))])


@dataclass
class PenaltyTrials(_PenaltyProblem):
    """Predictions for validation rows by exact models of one kernel with an intercept.

    kernel : k; rows : (n, d), training rows; others : (m, d), validation rows; targets : (n, outputs);
    weights : (n,), all > 0, or None; engine : threads.

    Few digits suffice to compare penalties. If alpha is large enough for float32, K and K(others, rows) are
    computed once in that precision, and a penalty costs n³/3 multiplications. For a smaller alpha both are
    computed anew in float64. Memory 8 (n² + n m) bytes.
    """

    _kept: tuple[FloatArray, FloatArray] | None = field(default=None, repr=False)

    def values(self, alpha: float) -> Float64Array:
        """Return f(others) + b, (m, outputs); infinite if K + alpha·W⁻¹ has no Cholesky factor."""
        n = len(self.targets)
        diagonal = float(np.mean(self.kernel.diagonal(self.rows)))
        least = alpha if self.weights is None else alpha / float(self.weights.max())
        single = least >= float32_alpha(n, diagonal, unit_roundoff(np.float32))
        if single and self._kept is None:
            self._kept = self._matrices(np.float32)
        elif not single:
            self._kept = None
        gram, across = self._kept if self._kept is not None else self._matrices(np.float64)
        gram = gram.copy() if self._kept is not None else gram
        solved = ridge_solution(gram, alpha, self.weights, self.right)
        if solved is None:
            return np.full((len(across), self.targets.shape[1]), np.inf)
        coefficients, offset = without_ones(solved)
        self.solved = coefficients, self.mean + offset
        return np.asarray(across @ coefficients.astype(across.dtype) + (self.mean + offset), np.float64)

    def _matrices(self, dtype: DTypeLike) -> tuple[FloatArray, FloatArray]:
        n_jobs = self.engine.n_jobs
        return (
            self.kernel(self.rows, dtype=dtype, n_jobs=n_jobs),
            self.kernel(self.others, self.rows, dtype=dtype, n_jobs=n_jobs),
        )


@dataclass
class IterativeTrials(_PenaltyProblem):
    """Predictions for validation rows by conjugate gradients with one preconditioner for every penalty.

    kernel, rows, others, targets, weights, engine : as for :class:`PenaltyTrials`; dtype : of the tiles;
    memory_bytes : bound on kept tiles and preconditioner; rng : for pivots and blocks; tol : of the solves,
    may be changed between them; deadline : time at which a solve stops, by ``time.perf_counter``; ``cut`` :
    whether the deadline stopped a solve.

    (K + alpha·W⁻¹) is solved to a relative residual of ``tol``, with at most ``TRIAL_STEPS`` products, from a
    start computed from earlier penalties' products. The preconditioner is built for the first penalty; a
    factor of 3 in alpha makes its condition number at most 3 times as large. Time n²/2 + n m kernel values,
    and n² outputs multiplications a step.
    """

    dtype: Any
    memory_bytes: int
    rng: np.random.Generator
    tol: float = TRIAL_TOL
    deadline: float = math.inf
    cut: bool = False
    _system: ExactSystem | None = field(default=None, repr=False)  #: rows in the preconditioner's order
    _directions: list[Float64Array] = field(default_factory=list, repr=False)
    _products: list[Float64Array] = field(default_factory=list, repr=False)  #: K P of these directions P

    def values(self, alpha: float) -> Float64Array:
        """Return f(others) + b, (m, outputs), by an iterative solve for this penalty.

        Products K P that were computed for one penalty help the next: it starts from the Galerkin solution in
        their directions P, P (Pᵀ(K + D)P)⁻¹ Pᵀ right.
        """
        shift = np.full(len(self.targets), alpha) if self.weights is None else alpha / self.weights
        system = self._begin(shift) if self._system is None else self._system
        system.shift = shift[self._order]
        late = False

        def ended(state: Solution) -> bool:
            nonlocal late
            if state.residual <= self.tol or state.iterations >= TRIAL_STEPS:
                return True
            late = time.perf_counter() >= self.deadline
            return late

        solution = conjugate_gradient(
            self._multiply,
            self._right,
            precondition=self._precondition,
            start=self._galerkin(system) if self._directions else None,
            # Stopped by the recursion's residual: computing a true one costs as much as a step.
            tol=NEVER,
            max_iterations=TRIAL_STEPS + 1,
            progress=ended,
        )
        self.cut = self.cut or late
        coefficients, offset = without_ones(solution.value)
        as_given = np.empty_like(coefficients)
        as_given[self._order] = coefficients
        self.solved = as_given, self.mean + offset
        across = KernelOperator(
            self.kernel, self.others, system.rows, dtype=self.dtype, n_jobs=self.engine.n_jobs
        )
        return np.asarray(across @ coefficients + (self.mean + offset), np.float64)

    def _begin(self, shift: Float64Array) -> ExactSystem:
        """Build the preconditioner, and return the system with its rows in the order of that."""
        system = ExactSystem(self.kernel, self.rows, shift, self.dtype, self.memory_bytes, self.engine)
        costs, room = costs_of(system, self.right), preconditioner_bytes(system, self.right)
        sizes = Policy(costs, room, False, TRIAL_TOL).next_sizes(Sizes(0, 0))
        self._order, slices = np.arange(len(system)), list[slice]()
        if sizes is not None and sizes.block:
            blocks = balanced_blocks(system.rows, system.kernel, sizes.block, self.rng, system.engine)
            self._order, slices = blocks.order, blocks.slices
        ordered, self._right = system.ordered(self._order), self.right[self._order]
        self._precondition = None
        if sizes is not None:
            self._precondition, _ = root_and_blocks(ordered, sizes, slices, room, self.rng, costs=costs)
        self._system = ordered
        return ordered

    def _multiply(self, values: Float64Array) -> Float64Array:
        assert self._system is not None
        out = self._system.fast(values)
        if sum(each.shape[1] for each in self._directions) < KEPT_DIRECTIONS:
            self._directions.append(values)
            self._products.append(out - self._system.shift[:, None] * values)
        return out

    def _galerkin(self, system: ExactSystem) -> Float64Array:
        directions, products = np.hstack(self._directions), np.hstack(self._products)
        square = directions.T @ (products + system.shift[:, None] * directions)
        inner, *_ = la.lstsq(0.5 * (square + square.T), directions.T @ self._right, cond=DEPENDENT)
        return np.asarray(directions @ inner)
