"""Exact ridge regression for one penalty after another, on rows that none of them fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg as la

from gramian._lapack import cho_solve, cholesky
from gramian._numerics import unit_roundoff
from gramian._typing import Float64Array, FloatArray, Rows
from gramian.approximation.training import float32_alpha
from gramian.engine import Engine
from gramian.exact.ridge import without_ones
from gramian.kernels.base import Kernel


def ridge_solution(
    gram: FloatArray, alpha: float, weights: Float64Array | None, right: Float64Array
) -> Float64Array | None:
    """Return (K + alpha·W⁻¹)⁻¹ right by a Cholesky factor of K's precision, written over K.

    None where there is none: the penalty is of no use.
    """
    gram.flat[:: len(gram) + 1] += alpha if weights is None else alpha / weights
    try:
        factor = cholesky(gram, overwrite=True)
    except la.LinAlgError:
        return None
    return cho_solve(factor, right.astype(gram.dtype)).astype(np.float64)


@dataclass
class PenaltyTrials:
    """Values of other rows by the exact models of one kernel with an intercept.

    kernel : k; rows : (n, d), fitted; others : (m, d); targets : (n, outputs); weights : (n,),
    all > 0, or None; engine : threads.

    What penalties are compared by needs few digits: where alpha allows, K and K(others, rows) are computed
    once, in float32, and a penalty costs n³/3 multiplications of that precision; under it they are computed
    for each in float64. Memory 8 (n² + n m) bytes.
    """

    kernel: Kernel
    rows: Rows
    others: Rows
    targets: Float64Array
    weights: Float64Array | None
    engine: Engine
    _kept: tuple[FloatArray, FloatArray] | None = field(default=None, repr=False)

    def values(self, alpha: float) -> Float64Array:
        """Return f(others) + b, (m, outputs); infinite where K + alpha·W⁻¹ has no Cholesky factor."""
        n = len(self.targets)
        diagonal = float(np.mean(self.kernel.diagonal(self.rows)))
        least = alpha if self.weights is None else alpha / float(self.weights.max())
        single = least >= float32_alpha(n, diagonal, unit_roundoff(np.float32))
        if single and self._kept is None:
            self._kept = self._matrices(np.float32)
        elif not single:
            self._kept = None
        gram, across = self._kept if self._kept is not None else self._matrices(np.float64)
        mean = np.average(self.targets, axis=0, weights=self.weights)
        right = np.column_stack([self.targets - mean, np.ones(n)])
        solved = ridge_solution(gram.copy() if self._kept is not None else gram, alpha, self.weights, right)
        if solved is None:
            return np.full((len(across), self.targets.shape[1]), np.inf)
        coefficients, offset = without_ones(solved)
        return np.asarray(across @ coefficients.astype(across.dtype) + (mean + offset), np.float64)

    def _matrices(self, dtype: Any) -> tuple[FloatArray, FloatArray]:
        n_jobs = self.engine.n_jobs
        return (
            self.kernel(self.rows, dtype=dtype, n_jobs=n_jobs),
            self.kernel(self.others, self.rows, dtype=dtype, n_jobs=n_jobs),
        )
