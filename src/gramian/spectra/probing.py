"""Preparation of K + D for random probing: a row order and a preconditioner that reduce the variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gramian._lapack import inverse_of_triangle
from gramian._numerics import cholesky_lower, unit_roundoff
from gramian._typing import Array, Float64Array, IntArray
from gramian.data.values import refuse_overflow
from gramian.engine import Engine
from gramian.estimator.parameters import float32_alpha
from gramian.exact.blocks import balanced_blocks
from gramian.exact.policy import Costs
from gramian.exact.preconditioner import RootAndBlocks
from gramian.exact.system import ExactSystem
from gramian.exceptions import InputError
from gramian.kernels.base import finite_diagonal
from gramian.landmarks.picking import rpcholesky_factor
from gramian.operators.base import SymmetricOperator
from gramian.operators.kernel import KernelOperator
from gramian.solvers.krylov import conjugate_gradient

#: The preconditioner may cost as much as this many products with K; an estimate takes several tens of them.
#: Chosen by hand, as are the next constants.
PRODUCTS = 10.0
#: Fraction of the memory left besides kept tiles that the preconditioner may use.
ROOM = 0.5
#: If the low-rank root leaves more than the first fraction of the trace, the root is dropped as useless; if
#: it leaves less than the second, the blocks are dropped as unnecessary.
USELESS, ENOUGH = 0.9, 0.05


def rows_of_square(operator: KernelOperator | SymmetricOperator) -> int:
    """Return n; raise ``InputError`` for an operator that is not symmetric, or rows on which k overflows."""
    if not isinstance(operator, KernelOperator | SymmetricOperator):
        raise InputError(
            f"operator has type {type(operator).__name__}; expected a KernelOperator, such as "
            "gramian.operators.KernelOperator(kernel, X), or an approximation's operator_."
        )
    if isinstance(operator, KernelOperator) and operator.columns is not None:
        n, m = operator.shape
        raise InputError(f"operator is k(X, Z) of shape {n} × {m}; expected k(X, X). Leave columns out.")
    if not operator.shape[0]:
        raise InputError("operator has no rows; expected at least one.")
    if isinstance(operator, KernelOperator):
        rows = operator.rows
        values: Array = rows.data if sp.issparse(rows) else np.asarray(rows)
        if not np.isfinite(values).all():
            raise InputError("the operator's rows hold NaN or infinity. Drop such rows, or fill them in.")
        refuse_overflow(rows)
        finite_diagonal(operator.kernel, rows, operator.tile_dtype)
    return operator.shape[0]


def system_of(operator: KernelOperator, shift: Float64Array, memory_bytes: int) -> ExactSystem:
    """Return K + D; tiles are float64 if float32 could not resolve D."""
    dtype = operator.tile_dtype
    mean = float(operator.diagonal().mean())
    if float(shift.min()) < float32_alpha(len(shift), mean, unit_roundoff(np.float32)):
        dtype = np.dtype(np.float64)
    return ExactSystem(operator.kernel, operator.rows, shift, dtype, memory_bytes, Engine(operator.n_jobs))


def factored(system: ExactSystem) -> Float64Array:
    """Return the Cholesky factor of K + D. Time O(n³), memory 8 n² bytes."""
    square = system.kernel(system.rows, dtype=np.float64, n_jobs=system.engine.n_jobs)
    square.flat[:: len(system) + 1] += system.shift
    return cholesky_lower(np.asarray(square, np.float64), "K + alpha·I")[0]


def inverse_diagonal(system: ExactSystem) -> Float64Array:
    """Return the diagonal of (K + D)⁻¹ by a Cholesky factor."""
    inverse = inverse_of_triangle(factored(system))
    return np.asarray(np.einsum("ij,ij->j", inverse, inverse), np.float64)


@dataclass(frozen=True)
class Probed:
    """System K + D with rows ordered by blocks, and a preconditioner M ≈ K + D."""

    system: ExactSystem
    order: IntArray  #: row numbers in the order of the system
    preconditioner: RootAndBlocks

    @classmethod
    def of(cls, system: ExactSystem, n_probes: int, rng: np.random.Generator) -> Probed:
        """Build M at the cost of about ten products: a pivoted low-rank root and exact residual blocks."""
        n = len(system)
        costs = Costs(n, int(system.rows.shape[1]), n_probes, np.dtype(system.dtype).itemsize)
        room = int(ROOM * (system.memory_bytes - system.kept_bytes))
        sizes = costs.affordable(PRODUCTS * costs.product, room)
        factor, order, slices = np.zeros((0, n)), np.arange(n), []
        if sizes.block:
            blocks = balanced_blocks(system.rows, system.kernel, sizes.block, rng, system.engine)
            order, slices = blocks.order, blocks.slices
            system = system.ordered(order)
            pivoted = rpcholesky_factor(
                system.kernel, system.rows, sizes.rank, rng, n_jobs=system.engine.n_threads
            )
            whole = float(system.kernel.diagonal(system.rows).sum())
            left = float(pivoted.diagonal.sum())
            if left <= USELESS * whole:
                factor = pivoted.factor
            if left <= ENOUGH * whole:
                slices = []
        M = RootAndBlocks(system.kernel, system.rows, system.shift, factor, slices, system.engine)
        return cls(system, order, M)

    def solve(self, right: Float64Array, tol: float, max_iterations: int) -> Float64Array:
        """Return (K + D)⁻¹ right, rows in the order of the system."""
        system = self.system
        return conjugate_gradient(
            system.fast,
            right,
            precondition=self.preconditioner,
            accurate=system.accurate if system.rounded else None,
            tol=tol,
            max_iterations=max_iterations,
        ).value
