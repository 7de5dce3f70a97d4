"""Base classes of operators: matrices used through products, entries and solves, in SciPy's words."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

from gramian._budget import format_bytes
from gramian._checks import positive_alpha, refuse_masked
from gramian._numerics import ridge_tolerance
from gramian._typing import Array, Float64Array, FloatArray, IntArray
from gramian.exceptions import AccuracyWarning, InputError, user_level
from gramian.solvers.solution import Solution, Status

#: Side of the largest square matrix that to_dense() returns without force=True (3.2 GB). Chosen by hand.
DENSE_LIMIT = 20_000


class Operator(ABC):
    """A real n × m matrix given by products, entries and transpose. Results are float64."""

    __array_ufunc__ = None  # makes ``ndarray @ operator`` call __rmatmul__
    ndim = 2

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n, m)."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of what is stored."""

    @property
    @abstractmethod
    def T(self) -> Operator:
        """The transpose."""

    @abstractmethod
    def _product(self, values: Float64Array) -> Float64Array:
        """Return the product with (m,) or (m, p)."""

    @abstractmethod
    def _entries(self, rows: IntArray, cols: IntArray) -> Float64Array:
        """Return the dense sub-block of checked row and column numbers."""

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """float64, the type of every result, also if the stored arrays are float32."""
        return np.dtype(np.float64)

    @property
    def adjoint(self) -> Operator:
        """The transpose: all numbers are real."""
        return self.T

    def __matmul__(self, values: Array) -> Float64Array:
        return self._product(self._checked(values, "The right operand"))

    def __rmatmul__(self, values: Array) -> Float64Array:
        return (self.T @ np.asanyarray(values).T).T

    def entries(self, rows: IntArray, cols: IntArray) -> Float64Array:
        """Return the dense sub-block K̃[rows][:, cols] for row and column numbers."""
        n, m = self.shape
        return self._entries(_numbers(rows, n, "rows"), _numbers(cols, m, "cols"))

    def to_dense(self, *, force: bool = False) -> Float64Array:
        """Return the matrix as an (n, m) array; beyond 20,000² numbers only with ``force=True``."""
        n, m = self.shape
        if n * m > DENSE_LIMIT**2 and not force:
            raise InputError(
                f"to_dense() would need {format_bytes(8 * n * m)} for {n} × {m} numbers. Use "
                "entries(rows, cols) for a part, or pass force=True."
            )
        return self._entries(np.arange(n), np.arange(m))

    def as_scipy(self) -> LinearOperator:
        """Return a ``scipy.sparse.linalg.LinearOperator`` of the same matrix."""
        turned = self.T
        return LinearOperator(
            self.shape,
            matvec=lambda v: self @ np.ravel(v),
            matmat=self.__matmul__,
            rmatvec=lambda v: turned @ np.ravel(v),
            rmatmat=turned.__matmul__,
            dtype=self.dtype,
        )

    def _checked(self, values: Array, what: str) -> Float64Array:
        refuse_masked(what, values)
        values = np.asarray(values)
        n, m = self.shape
        if values.ndim not in (1, 2) or len(values) != m:
            raise InputError(
                f"{what} has shape {values.shape}, but the operator is {n} × {m}. Pass shape ({m},) or "
                f"({m}, p)."
            )
        if values.dtype.kind not in "fiub":
            raise InputError(f"{what} has dtype {values.dtype}; pass real numbers.")
        return np.asarray(values, np.float64)


class SymmetricOperator(Operator):
    """A symmetric n × n matrix K̃ over rows in blocks, with the algebra of K̃ + alpha·I."""

    @property
    @abstractmethod
    def n_blocks(self) -> int:
        """Blocks of the last level."""

    @abstractmethod
    def _block_rows(self, s: int) -> IntArray:
        """Return the row numbers of a block, whose number has been checked."""

    @abstractmethod
    def diagonal(self) -> Float64Array:
        """Return the n diagonal entries of K̃."""

    @abstractmethod
    def solve_quietly(self, y: Float64Array, alpha: float) -> Solution:
        """Solve (K̃ + alpha·I) a = y for checked arguments, without a warning."""

    @abstractmethod
    def _logdet(self, alpha: float) -> float:
        """Return log det(K̃ + alpha·I) for a checked alpha."""

    @abstractmethod
    def _leverages(self, alpha: float) -> Float64Array:
        """Return the leverage scores for a checked alpha."""

    @abstractmethod
    def eigvalsh(self) -> Float64Array:
        """Return the eigenvalues of K̃ as built (nothing clipped), descending; zeros may be left out."""

    @property
    @abstractmethod
    def clipped_(self) -> float:
        """Sum of the magnitudes of the negative eigenvalues that solve or logdet have clipped."""

    @property
    def T(self) -> SymmetricOperator:
        """The operator itself: K̃ is symmetric."""
        return self

    def trace(self) -> float:
        """Return the sum of the diagonal of K̃."""
        return float(self.diagonal().sum())

    def block_rows(self, s: int) -> IntArray:
        """Return the row numbers of block s of the last level."""
        if not 0 <= s < self.n_blocks:
            raise InputError(f"Block {s} does not exist: the last level has blocks 0 to {self.n_blocks - 1}.")
        return self._block_rows(s)

    def block(self, s: int) -> Float64Array:
        """Return the dense diagonal block of K̃ on the rows of block s of the last level."""
        rows = self.block_rows(s)
        return self._entries(rows, rows)

    def block_errors(
        self, exact: Callable[[IntArray, IntArray], FloatArray], *, n_rows: int = 500
    ) -> Float64Array:
        """Return ‖K_ss − K̃_ss‖_F/‖K_ss‖_F of each block of the last level, shape (blocks,).

        ``exact(rows, cols)`` returns entries of K by row numbers. A block of more than ``n_rows`` rows is
        measured on that many of them, evenly spaced. NaN for an empty block. Time O(blocks n_rows² (d + r)).
        """
        sums = self.block_sums(exact, n_rows=n_rows)
        return np.array([np.sqrt(e.sum() / k.sum()) if len(k) else np.nan for _, e, k in sums])

    def block_sums(
        self, exact: Callable[[IntArray, IntArray], FloatArray], *, n_rows: int
    ) -> Iterator[tuple[int, Float64Array, Float64Array]]:
        """Yield for each block its number of rows, and the row sums of (K_ss − K̃_ss)² and K_ss² on a sample.

        A sampled row meets m − 1 of its n_s − 1 partners off the diagonal, and the sums are scaled up
        accordingly.
        """
        for s in range(self.n_blocks):
            rows = self._block_rows(s)
            count = len(rows)
            if count > n_rows:
                rows = rows[np.linspace(0, count - 1, n_rows).astype(np.intp)]
            truth = np.asarray(exact(rows, rows), np.float64) if count else np.zeros((0, 0))
            scale = (count - 1) / max(len(rows) - 1, 1)
            error = truth - self._entries(rows, rows)
            yield count, _row_sums(error, scale), _row_sums(truth, scale)

    def solve(self, y: Array, alpha: float) -> Float64Array:
        """Return (K̃ + alpha·I)⁻¹ y for y (n,) or (n, p); :meth:`solution` adds the evidence."""
        return self.solution(y, alpha).value

    def solution(self, y: Array, alpha: float) -> Solution:
        """Solve (K̃ + alpha·I) a = y and recompute the residual; warn if it is above 1e-8."""
        alpha = positive_alpha(alpha)
        y = self._checked(y, "y")
        if not np.isfinite(y).all():
            raise InputError("y contains NaN or infinity. Drop or impute those rows first.")
        solution = self.solve_quietly(y, alpha)
        target = ridge_tolerance(np.float64)
        if solution.status is Status.DIRECT and solution.residual > target:
            warnings.warn(
                f"The solve with alpha={alpha:.3g} ended with relative residual {solution.residual:.2g}, "
                f"above the target {target:.2g}: rounding in float64. Raise alpha.",
                AccuracyWarning,
                stacklevel=user_level(),
            )
        return solution

    def logdet(self, alpha: float) -> float:
        """Return log det(K̃ + alpha·I)."""
        return self._logdet(positive_alpha(alpha))

    def leverages(self, alpha: float) -> Float64Array:
        """Return the ridge leverage scores, the diagonal of K̃ (K̃ + alpha·I)⁻¹; exact, each from 0 to 1.

        Their sum is the effective dimension. Negative eigenvalues are clipped as in :meth:`solve`. Time: a
        factorisation and O(n·(ranks of a row's path)²), or O(n r R) with a core.
        """
        return np.clip(self._leverages(positive_alpha(alpha)), 0.0, 1.0)


def _row_sums(block: Float64Array, scale: float) -> Float64Array:
    """Return the row sums of squares, with those off the diagonal multiplied by ``scale``."""
    diagonal = np.diagonal(block) ** 2
    return np.asarray(scale * (np.einsum("ij,ij->i", block, block) - diagonal) + diagonal)


def _numbers(numbers: ArrayLike, count: int, what: str) -> IntArray:
    """Return row or column numbers as an array, or raise if they are not numbers from 0 to count − 1."""
    refuse_masked(what, numbers)
    array = np.asarray(numbers)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(
            f"{what} has dtype {array.dtype} and {array.ndim} dimensions; pass a list of row numbers."
        )
    if array.size and (array.min() < 0 or array.max() >= count):
        raise InputError(
            f"{what} has numbers from {array.min()} to {array.max()}; pass numbers from 0 to {count - 1}."
        )
    return array.astype(np.intp)
