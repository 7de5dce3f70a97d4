"""The operator K̃ + D: factors plus a stored diagonal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg as la

from gramian._budget import format_bytes
from gramian._typing import Array, Float64Array, IntArray
from gramian.exceptions import InputError
from gramian.operators.algebra import Algebra, require_direct
from gramian.operators.base import SymmetricOperator
from gramian.operators.block import BlockOperator
from gramian.solvers.solution import Solution, relative_residual


class DiagonalPlus(SymmetricOperator):
    r"""The symmetric matrix K̃ + D with a block operator K̃ and a diagonal D ≥ 0.

    At a small bandwidth much of K is in its diagonal, which no low rank can represent but n numbers can. With
    S = (D + alpha·I)^(−1/2)

        K̃ + D + alpha·I = S⁻¹ (S K̃ S + I) S⁻¹,

    and S K̃ S is a block operator on scaled bases, so the exact algebras of K̃ apply. Solve and
    log-determinant cost the same as there, plus n·(ranks of a row's path) float64 numbers for the scaled
    bases of the last alpha.

    Parameters
    ----------
    operator : BlockOperator
        K̃, kept without a copy. If its core is indefinite, ``solve`` and ``logdet`` clip the negative
        eigenvalues of S K̃ S (not of K̃), warn, and leave the sum in ``clipped_``.
    diagonal : ndarray (n,)
        D, finite and not negative.

    Attributes
    ----------
    excess_ : float
        Sum of what :meth:`matching` clipped: Σ max(K̃_ii − K_ii, 0).

    ``eigvalsh`` works on the dense matrix, because D makes all n eigenvalues nonzero. It raises
    ``InputError`` beyond ``operator.direct_limit`` rows.

    Examples
    --------
    >>> import numpy as np
    >>> K = DiagonalPlus(BlockOperator.from_parts(3, G=np.ones((3, 1))), np.array([0.0, 1.0, 2.0]))
    >>> (K @ np.ones(3)).tolist(), K.trace()
    ([3.0, 4.0, 5.0], 6.0)
    >>> K.solve(np.array([4.0, 5.0, 6.0]), alpha=1.0).round(6).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, operator: BlockOperator, diagonal: Array) -> None:
        n = operator.shape[0]
        values = np.asarray(diagonal)
        if values.shape != (n,) or values.dtype.kind not in "fiub":
            raise InputError(
                f"diagonal has shape {values.shape} and dtype {values.dtype}, but the operator is {n} × {n}. "
                f"Pass {n} real numbers."
            )
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise InputError(
                "diagonal holds negative, infinite or NaN entries. Pass numbers >= 0, such as "
                "np.maximum(d, 0), or use DiagonalPlus.matching."
            )
        self.operator = operator
        self.added: Float64Array = np.asarray(values, np.float64)
        self.excess_ = 0.0
        self._scaled: tuple[float, Float64Array, Algebra] | None = None

    @classmethod
    def matching(cls, operator: BlockOperator, exact: Float64Array) -> DiagonalPlus:
        """Return K̃ + max(diag(K) − diag(K̃), 0) for the diagonal of K; ``excess_`` is what was clipped."""
        left = np.asarray(exact, np.float64) - operator.diagonal()
        self = cls(operator, np.maximum(left, 0.0))
        self.excess_ = float(-left[left < 0].sum())
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.operator.shape

    @property
    def rank(self) -> int:
        """R, the stored columns of K̃; K̃ + D itself has full rank if D is positive."""
        return self.operator.rank

    @property
    def nbytes(self) -> int:
        """Bytes of K̃ and of the diagonal."""
        return self.operator.nbytes + self.added.nbytes

    @property
    def n_blocks(self) -> int:
        """Blocks of the last level."""
        return self.operator.n_blocks

    @property
    def clipped_(self) -> float:
        """Sum of the magnitudes of the negative eigenvalues of S K̃ S that solve or logdet clipped last."""
        return self._scaled[2].clipped if self._scaled else 0.0

    def diagonal(self) -> Float64Array:
        """Return the n diagonal entries of K̃ + D."""
        return self.operator.diagonal() + self.added

    def eigvalsh(self) -> Float64Array:
        """Return the n eigenvalues of K̃ + D as built, descending; dense, up to ``direct_limit`` rows."""
        require_direct("The eigenvalues of K̃ + D", self.shape[0], self.operator.direct_limit)
        values = la.eigvalsh(self.to_dense(force=True), check_finite=False, overwrite_a=True)
        return np.asarray(values, np.float64)[::-1].copy()

    def __repr__(self) -> str:
        n = self.shape[0]
        return f"<DiagonalPlus {n} × {n}: {self.operator!r} and a diagonal, {format_bytes(self.nbytes)}>"

    def __getstate__(self) -> dict[str, Any]:
        # The scaled bases are larger than the operator and are rebuilt on demand.
        state: Any = super().__getstate__()
        return {**state, "_scaled": None}

    def _block_rows(self, s: int) -> IntArray:
        return self.operator.block_rows(s)

    def _product(self, values: Float64Array) -> Float64Array:
        return self.operator @ values + _times(self.added, values)

    def _entries(self, rows: IntArray, cols: IntArray) -> Float64Array:
        out = self.operator.entries(rows, cols)
        i, j = np.nonzero(rows[:, None] == cols)
        out[i, j] += self.added[rows[i]]
        return out

    def solve_quietly(self, y: Float64Array, alpha: float) -> Solution:
        """Solve (K̃ + D + alpha·I) a = y for checked arguments, without a warning."""
        scale, inner = self._factored(alpha)
        solved = inner.solve(_times(scale, y), 1.0)
        a = _times(scale, solved.value)
        if inner.clipped:
            # Keep the residual of the scaled system: only that system knows what was clipped.
            return replace(solved, value=a)
        return replace(solved, value=a, residual=relative_residual(y - self._product(a) - alpha * a, y))

    def _logdet(self, alpha: float) -> float:
        scale, inner = self._factored(alpha)
        return inner.logdet(1.0) - 2.0 * float(np.log(scale).sum())

    def _leverages(self, alpha: float) -> Float64Array:
        # 1 − alpha·diag((K̃ + D + alpha·I)⁻¹), the inverse being S (S K̃ S + I)⁻¹ S.
        scale, inner = self._factored(alpha)
        return np.asarray(1.0 - alpha * scale**2 * (1.0 - inner.leverages(1.0)))

    def _factored(self, alpha: float) -> tuple[Float64Array, Algebra]:
        # Kept for the last alpha only, because the scaled bases are as large as those of K̃.
        if self._scaled is None or self._scaled[0] != alpha:
            self._scaled = None
            scale = 1.0 / np.sqrt(self.added + alpha)
            self._scaled = alpha, scale, self.operator.scaled(scale).algebra
        return self._scaled[1:]


def _times(weights: Float64Array, values: Float64Array) -> Float64Array:
    """Return diag(weights) V for V (n,) or (n, p)."""
    return (weights * values.T).T
