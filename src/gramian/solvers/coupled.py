r"""Exact algebra of a coupled core: K̃ = W C Wᵀ with a block-diagonal W and a symmetric core C.

Let T_sᵀT_s = W_sᵀW_s, with T_s from a QR of the block or from its Gram matrix. Then K̃ = Q S Qᵀ, where
S = T C Tᵀ (R' × R') and Q has orthonormal columns, so every question about K̃ + alpha·I becomes one about
S + alpha·I. A core that was estimated from samples is not positive semi-definite in general: the negative
eigenvalues of S are clipped, with a warning that gives their amount.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg as la

from gramian._budget import format_bytes
from gramian._checks import positive_alpha
from gramian._lapack import cho_solve
from gramian._numerics import cholesky_lower, clip_negative, gram_factor, unit_roundoff
from gramian._tiles import blas_for
from gramian._typing import Float64Array
from gramian.engine import Engine
from gramian.exceptions import InputError
from gramian.solvers.core import CoupledCore
from gramian.solvers.krylov import conjugate_gradient
from gramian.solvers.solution import Solution, Status, relative_residual

#: Largest R' for a dense factorisation (S then takes 800 MB); beyond it conjugate gradients are used. Chosen
#: by hand.
DIRECT_LIMIT = 10_000

#: Largest number of iterations of conjugate gradients. Chosen by hand.
MAX_ITERATIONS = 1_000


class CoupledSystem:
    r"""The system S = T C Tᵀ for factors T_s (r'_s × r_s) and a core C, with exact algebra on S + alpha·I.

    Parameters
    ----------
    factors : sequence of ndarray (r'_s, r_s)
        One per block, with T_sᵀT_s = W_sᵀW_s.
    core : CoupledCore
        C; ``core.psd`` chooses Cholesky over an eigendecomposition with clipping.
    direct_limit : int
        Largest R' = Σ r'_s for dense factorisations.
    engine : Engine, optional
        Threads for the assembly of S.

    Cost: assembly O(R² max r), Cholesky R'³/3, eigendecomposition about 9 R'³; memory 2 to 3 R'².
    Beyond ``direct_limit``: O(R² p) (dense core) or O(nnz p) (block-sparse core) per iteration.
    Conjugate gradients cannot clip eigenvalues: for an indefinite S + alpha·I they end with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> core = CoupledCore(np.array([[2.0, 1.0], [1.0, 2.0]]), (1, 1), psd=True)
    >>> system = CoupledSystem([np.eye(1), np.eye(1)], core)
    >>> system.solve(np.array([4.0, 4.0]), alpha=1.0).value.round(6).tolist()
    [1.0, 1.0]
    """

    def __init__(
        self,
        factors: Sequence[Float64Array],
        core: CoupledCore,
        *,
        direct_limit: int = DIRECT_LIMIT,
        engine: Engine | None = None,
    ) -> None:
        widths = tuple(t.shape[1] for t in factors)
        if widths != core.ranks:
            raise InputError(
                f"The factors have {widths} columns, but the core has ranks {core.ranks}. "
                "Pass one factor T_s with r_s columns per block of the core."
            )
        self.core = core
        self.factors = tuple(np.asarray(t, np.float64) for t in factors)
        self.direct_limit = int(direct_limit)
        self.offsets = np.concatenate([[0], np.cumsum([len(t) for t in self.factors])]).astype(np.intp)
        self._engine = engine or Engine(1)
        self._eigh: tuple[Float64Array, Float64Array] | None = None
        self._cholesky: tuple[float, Float64Array, float] | None = None
        self._clipped = 0.0

    @property
    def size(self) -> int:
        """R', the rows of S."""
        return int(self.offsets[-1])

    @property
    def clipped(self) -> float:
        """Sum of the magnitudes of the clipped negative eigenvalues; 0.0 before any were computed."""
        return self._clipped

    def stack(self, right: Sequence[Float64Array] | Float64Array) -> Float64Array:
        """Return the right-hand side as one (R', p) or (R',) array."""
        if isinstance(right, np.ndarray):
            stacked = np.asarray(right, np.float64)
        else:
            stacked = np.concatenate([np.asarray(b, np.float64) for b in right])
        if stacked.ndim not in (1, 2) or len(stacked) != self.size:
            raise InputError(
                f"The right-hand side has shape {stacked.shape}, but the system has {self.size} "
                f"rows. Pass shape ({self.size},) or ({self.size}, p)."
            )
        return stacked

    def split(self, stacked: Float64Array) -> list[Float64Array]:
        """Cut (R', p) into one (r'_s, p) view per block."""
        return np.split(stacked, self.offsets[1:-1])

    def expand(self, values: Float64Array) -> Float64Array:
        """Return Tᵀ values, from (R', p) to (R, p)."""
        return np.concatenate([t.T @ v for t, v in zip(self.factors, self.split(values), strict=True)])

    def multiply(self, values: Float64Array) -> Float64Array:
        """Return S values as built (nothing clipped), without forming S."""
        inner = self.core.multiply(self.expand(values))
        return np.concatenate([t @ v for t, v in zip(self.factors, self.core.split(inner), strict=True)])

    def multiply_clipped(self, values: Float64Array) -> Float64Array:
        """Return S₊ values, where S₊ is S without its clipped eigenvalues, as in the solves."""
        if self._eigh is None or self._clipped == 0.0:
            return self.multiply(values)
        eigenvalues, vectors = self._eigh
        return vectors @ ((vectors.T @ values).T * eigenvalues).T

    def to_dense(self) -> Float64Array:
        """Return S; raise beyond ``direct_limit``."""
        self._require_direct("S")
        out = np.empty((self.size, self.size))

        def fill(s: int) -> None:
            rows = slice(self.offsets[s], self.offsets[s + 1])
            strip = self.factors[s] @ self.core.row_strip(s)
            for t, part in enumerate(self.core.split_columns(strip)):
                if t >= s:
                    cols = slice(self.offsets[t], self.offsets[t + 1])
                    block = part @ self.factors[t].T
                    out[rows, cols] = block if t > s else (block + block.T) / 2
                    if t > s:
                        out[cols, rows] = block.T

        self._engine.run(fill, range(len(self.factors)))
        return out

    def eigenvalues(self) -> Float64Array:
        """Return the eigenvalues of S as built, ascending, none clipped."""
        self._require_direct("The eigenvalues")
        with blas_for(self.size):
            values = la.eigvalsh(self.to_dense(), check_finite=False, overwrite_a=True)
        return np.asarray(values, np.float64)

    def eigh(self) -> tuple[Float64Array, Float64Array]:
        """Return the eigenvalues of S, ascending and clipped at 0, and the vectors; cached."""
        if self._eigh is None:
            self._require_direct("The eigendecomposition")
            with blas_for(self.size):
                values, vectors = la.eigh(self.to_dense(), driver="evd", check_finite=False, overwrite_a=True)
            values, self._clipped = clip_negative(values, "the coupled system S = T C Tᵀ")
            self._eigh = values, vectors
        return self._eigh

    def positive_part(self, values: Float64Array) -> Float64Array:
        """Project onto the eigenvectors of S that were not clipped; the identity if none were."""
        if self._eigh is None or self._clipped == 0.0:
            return values
        kept = self._eigh[1][:, self._eigh[0] > 0]
        return kept @ (kept.T @ values)

    def solve(
        self,
        right: Sequence[Float64Array] | Float64Array,
        alpha: float,
        *,
        tol: float | None = None,
        max_iterations: int = MAX_ITERATIONS,
    ) -> Solution:
        """Solve (S + alpha·I) x = right, with negative eigenvalues of S clipped.

        ``right`` is one array (R',) or (R', p), or one array per block. ``tol`` is the target of the
        relative residual of conjugate gradients, √u = 1e-8 by default.
        """
        alpha = positive_alpha(alpha)
        b = self.stack(right)
        if self.size > self.direct_limit:
            # With a block-sparse core, products are only as large as its blocks.
            with blas_for(self.size if self.core.is_dense else max(self.core.ranks, default=0)):
                return conjugate_gradient(
                    lambda v: self.multiply(v) + alpha * v,
                    b,
                    precondition=self._block_jacobi(alpha),
                    tol=float(np.sqrt(unit_roundoff(np.float64))) if tol is None else tol,
                    max_iterations=max_iterations,
                )
        with blas_for(self.size):
            return self._solve_directly(b, alpha)

    def logdet(self, alpha: float, n_rows: int | None = None) -> float:
        """Return log det(S + alpha·I), or of the n_rows × n_rows matrix Q S Qᵀ + alpha·I."""
        alpha = positive_alpha(alpha)
        self._require_direct("The log-determinant")
        rest = 0.0 if n_rows is None else (n_rows - self.size) * float(np.log(alpha))
        if self.core.psd and self._eigh is None:
            with blas_for(self.size):
                return rest + 2.0 * float(np.log(np.diag(self._factor(alpha)[0])).sum())
        return rest + float(np.log(self.eigh()[0] + alpha).sum())

    def _solve_directly(self, b: Float64Array, alpha: float) -> Solution:
        if self.core.psd and self._eigh is None:
            lower, jitter = self._factor(alpha)
            x = cho_solve(lower, b)
            residual = b - self.multiply(x) - alpha * x
        else:
            values, vectors = self.eigh()
            jitter = 0.0
            inner = vectors.T @ b
            x = vectors @ (inner.T / (values + alpha)).T
            coefficients = vectors.T @ x
            residual = b - vectors @ (coefficients.T * values).T - alpha * x
        return Solution(x, Status.DIRECT, 0, relative_residual(residual, b), self._clipped, jitter)

    def _factor(self, alpha: float) -> tuple[Float64Array, float]:
        # Kept for the last alpha only; for many alphas eigh() is cheaper.
        if self._cholesky is None or self._cholesky[0] != alpha:
            self._cholesky = None
            shifted = self.to_dense()
            shifted.flat[:: self.size + 1] += alpha
            self._cholesky = alpha, *cholesky_lower(shifted, "the system S + alpha·I")
        return self._cholesky[1:]

    def _block_jacobi(self, alpha: float) -> Callable[[Float64Array], Float64Array]:
        # Clipping keeps each inverse positive definite for any core.
        inverses = []
        for s, t in enumerate(self.factors):
            values, vectors = la.eigh(t @ self.core.block(s, s) @ t.T, check_finite=False)
            inverses.append((vectors / (np.maximum(values, 0.0) + alpha)) @ vectors.T)

        def apply(v: Float64Array) -> Float64Array:
            return np.concatenate([m @ part for m, part in zip(inverses, self.split(v), strict=True)])

        return apply

    def _require_direct(self, what: str) -> None:
        if self.size > self.direct_limit:
            raise InputError(
                f"{what} of the coupled system needs a dense matrix of {self.size} × {self.size} "
                f"({format_bytes(8 * self.size**2)}), beyond direct_limit={self.direct_limit}. "
                "Lower the rank or the number of blocks, or raise direct_limit."
            )


def ridge_coefficients(
    grams: Sequence[Float64Array],
    core: CoupledCore,
    rhs: Float64Array,
    alpha: float,
    *,
    direct_limit: int = DIRECT_LIMIT,
    engine: Engine | None = None,
) -> tuple[Float64Array, Solution]:
    r"""Train kernel ridge regression from sums over the rows: f(x) = w(x)ᵀ β.

        β = C (A C + alpha·I)⁻¹ b = C Tᵀ (S + alpha·I)⁻¹ T⁻ᵀ b,   A = WᵀW = TᵀT,   b = Wᵀ y,

    The second form, by the push-through identity, is symmetric. Clipped directions of S do not enter β.

    Parameters
    ----------
    grams : sequence of ndarray (r_s, r_s)
        A_s = W_sᵀW_s per block.
    core : CoupledCore
        C, R × R.
    rhs : ndarray (R,) or (R, p)
        b = Wᵀ y for p outputs.
    alpha : float
        Ridge penalty, > 0.

    Returns
    -------
    β of the shape of ``rhs`` and the :class:`Solution` of the inner system.

    Cost: O(Σ r_s³ + R² max r + R³/3), memory O(R²).
    Source: docs/how-it-works.md, "Training without storing the bases".
    """
    factors = [gram_factor(np.asarray(a, np.float64)) for a in grams]
    system = CoupledSystem([t for t, _ in factors], core, direct_limit=direct_limit, engine=engine)
    b = np.asarray(rhs, np.float64)
    if b.ndim not in (1, 2) or len(b) != core.size:
        raise InputError(
            f"rhs has shape {b.shape}, but the core has {core.size} rows. Pass b = Wᵀy with shape "
            f"({core.size},) or ({core.size}, p)."
        )
    whitened = [inverse.T @ part for (_, inverse), part in zip(factors, core.split(b), strict=True)]
    solution = system.solve(whitened, alpha)
    return core.multiply(system.expand(system.positive_part(solution.value))), solution
