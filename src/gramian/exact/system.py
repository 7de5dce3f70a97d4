"""Linear system (K + D) a = y for the exact K: products, factor, and a count of their costs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg as la
from numpy.typing import DTypeLike

from gramian._budget import format_bytes
from gramian._lapack import cho_solve, cholesky
from gramian._numerics import cholesky_lower, ridge_tolerance
from gramian._typing import Float64Array, IntArray, Rows
from gramian.engine import Engine
from gramian.exceptions import AccuracyWarning, BudgetError, user_level
from gramian.kernels.base import Kernel
from gramian.operators.kernel import KernelOperator, triangle_bytes
from gramian.solvers.solution import Solution, Status, relative_residual

#: Share of the memory that K's tiles may use to be kept between products. Chosen by hand.
KEPT_SHARE = 0.75


@dataclass(slots=True)
class ExactSystem:
    """K + D on rows in memory, whose order can be changed."""

    kernel: Kernel
    rows: Rows  #: (n, d)
    shift: Float64Array  #: D > 0, (n,)
    dtype: Any  #: dtype of the tiles of fast products
    memory_bytes: int
    engine: Engine
    #: Number of kernel values computed, and largest number of bytes held at a time.
    evaluations: int = 0
    held: int = 0
    _operators: dict[str, KernelOperator] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.shift)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the tiles kept by fast products: all of K's lower half, or 0."""
        kept = keeps_tiles(len(self), self.dtype, self.memory_bytes)
        return triangle_bytes(len(self), self.dtype) if kept else 0

    def ordered(self, order: IntArray) -> ExactSystem:
        """Return the system with its rows in another order and its counts of costs at zero.

        Tiles kept in the current order are freed, because memory holds only one set of them.
        """
        self._operators.clear()
        return ExactSystem(
            self.kernel, self.rows[order], self.shift[order], self.dtype, self.memory_bytes, self.engine
        )

    def fast(self, values: Float64Array) -> Float64Array:
        """Return (K + D) V with tiles of the system's dtype, which are kept if memory holds them."""
        return self._product(values, np.dtype(self.dtype).name, self.dtype, self.kept_bytes)

    def accurate(self, values: Float64Array) -> Float64Array:
        """Return (K + D) V with float64 tiles, which are not kept."""
        return self._product(values, "accurate", np.float64, 0)

    @property
    def rounded(self) -> bool:
        """Whether fast products are less accurate than accurate ones."""
        return bool(np.dtype(self.dtype) != np.float64)

    def _product(self, values: Float64Array, name: str, dtype: DTypeLike, keep_bytes: int) -> Float64Array:
        if name not in self._operators:
            self._operators[name] = KernelOperator(
                self.kernel, self.rows, dtype=dtype, n_jobs=self.engine.n_jobs, keep_bytes=keep_bytes
            )
        matrix = self._operators[name]
        before = matrix.evaluations
        out = matrix @ values
        self.evaluations += matrix.evaluations - before
        self.held = max(self.held, matrix.nbytes)
        out += (self.shift * values.T).T
        return out

    @property
    def square_bytes(self) -> int:
        """Bytes of a Cholesky factor."""
        return 8 * len(self) ** 2

    @property
    def direct_fits(self) -> bool:
        """Whether memory holds a Cholesky factor."""
        return self.square_bytes <= self.memory_bytes

    def factorised(self, right: Float64Array) -> Solution:
        """Solve by a Cholesky factor of K + D. Time n³/3, memory 8 n² bytes."""
        if not self.direct_fits:
            raise BudgetError(
                f"a Cholesky factor of {len(self)} rows takes {format_bytes(self.square_bytes)}, above the "
                f"memory budget of {format_bytes(self.memory_bytes)}. Raise memory_budget, or use "
                "solver='cg', which needs no square.",
                self.square_bytes,
            )
        self._operators.clear()  # free kept tiles: memory may not hold both them and the factor
        square = self._square()
        self.held = max(self.held, square.nbytes)
        try:
            lower, jitter = cholesky(square, overwrite=True), 0.0
        except la.LinAlgError:
            lower, jitter = cholesky_lower(self._square(), "K + alpha·I")
        value = cho_solve(lower, right)
        left = right - self.accurate(value)
        residual = relative_residual(left, right)
        target = ridge_tolerance(np.float64)
        if not residual <= target:
            value = value + cho_solve(lower, left)
            residual = relative_residual(right - self.accurate(value), right)
        if not residual <= target:
            warnings.warn(
                f"The Cholesky factor of K + alpha·I solved to a relative residual of {residual:.2g}, above "
                f"the target {target:.2g}: rounding in float64. Raise alpha.",
                AccuracyWarning,
                stacklevel=user_level(),
            )
        return Solution(value, Status.DIRECT, 0, residual, jitter=jitter)

    def _square(self) -> Float64Array:
        square = np.asarray(self.kernel(self.rows, dtype=np.float64, n_jobs=self.engine.n_jobs), np.float64)
        square.flat[:: len(self) + 1] += self.shift
        self.evaluations += square.size
        return square


def keeps_tiles(n_rows: int, dtype: DTypeLike, memory_bytes: int) -> bool:
    """Tell whether fast products of ``n_rows`` rows keep K's tiles between products."""
    return triangle_bytes(n_rows, dtype) <= KEPT_SHARE * memory_bytes
