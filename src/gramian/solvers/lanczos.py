"""Largest eigenpairs of a matrix known only by its products: block Lanczos with thick restarts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from gramian._checks import positive_number
from gramian._numerics import descending_eigh, unit_roundoff
from gramian._tiles import blas_for
from gramian._typing import Float64Array
from gramian.exceptions import AccuracyWarning, InputError, user_level

#: Bounds on the columns of a block. A pass over a kernel matrix costs little more for a block than for one
#: vector. Chosen by hand.
LEAST_BLOCK, MOST_BLOCK = 8, 64
#: Blocks that the basis holds beside the requested vectors. Chosen by hand.
BLOCKS = 4
#: If PATIENCE restarts do not bring the residual below FALL times what it was, it counts as rounding error.
#: Chosen by hand.
PATIENCE, FALL = 4, 0.5
#: A residual from the recursion counts as converged below this share of the tolerance, subject to a check.
#: Chosen by hand.
CLAIM = 0.5

Multiply = Callable[[Float64Array], Float64Array]


@dataclass(frozen=True, slots=True)
class Eigenpairs:
    """Eigenvalues and eigenvectors with their residuals."""

    values: Float64Array  #: descending, (k,)
    vectors: Float64Array  #: orthonormal columns, (n, k)
    residuals: Float64Array  #: ‖A v − λ v‖ of each pair, recomputed at the end, (k,)
    norm: float  #: largest |eigenvalue| found, a lower bound of ‖A‖₂
    products: int  #: products of A with a block of vectors
    columns: int  #: vectors in all these blocks together

    @property
    def relative_residual(self) -> float:
        """The largest residual relative to ‖A‖₂; 0 for the zero matrix."""
        return float(self.residuals.max(initial=0.0)) / self.norm if self.norm > 0 else 0.0


def leading_eigenpairs(
    multiply: Multiply,
    n: int,
    count: int,
    *,
    tol: float,
    rng: np.random.Generator,
    start: Float64Array | None = None,
    block: int | None = None,
    max_products: int = 200,
) -> Eigenpairs:
    r"""Return the ``count`` largest eigenvalues of a symmetric A and their vectors.

    Block Lanczos: the basis V = [V_1 … V_j] grows by the part of A V_j that is orthogonal to it
    (orthogonalised twice). T = VᵀAV is kept, and A V = V T + V_{j+1} B E_jᵀ, so the residual of a Ritz pair
    (θ, y) of T is ‖B E_jᵀ y‖. A full basis is cut to its leading Ritz vectors and continued (thick restart).
    The iteration ends when ‖A v − λ v‖ ≤ tol·‖A‖₂ for all pairs, checked by one more product with the
    vectors.

    Parameters
    ----------
    multiply : callable
        V (n, q) → A V (n, q).
    tol : float
        Target of the residuals. The error of well separated eigenvalues is its square, that of others at most
        itself.
    start : ndarray (n, q), optional
        Vectors near the eigenvectors, such as those of an approximation; the block then has q columns.
    block : int, optional
        Columns of a block; by default half of ``count``, between 8 and 64. An eigenvalue that is repeated
        more often than that may be found too few times.
    max_products : int
        Largest number of products, not counting the check.

    Time: a product and O(n q m) for each block, m ≤ 2·count + 5 blocks the columns of the basis; memory
    8 n (m + 3 q) bytes. If the basis has room for n columns, the matrix is formed and factorised.

    Raises ``InputError`` if count is not in 1 … n; an ``AccuracyWarning`` with the residual says that the
    tolerance was missed. Source: Golub and Underwood 1977; Wu and Simon 2000 (thick restart); Musco and Musco
    2015 for the gain by blocks.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.diag(np.arange(1.0, 400.0))
    >>> pairs = leading_eigenpairs(lambda V: A @ V, 399, 2, tol=1e-9, rng=np.random.default_rng(0))
    >>> pairs.values.round(8).tolist()
    [399.0, 398.0]
    """
    if not 1 <= count <= n:
        raise InputError(f"count={count} eigenpairs of a matrix of {n} rows: ask for 1 to {n}.")
    positive_number("tol", tol, why="the target of the relative residual")
    width = _width(count) if block is None else int(block)
    width = width if start is None else max(width, start.shape[1])
    most = _most(count, width)
    with blas_for(min(n, most)):
        if n <= most:
            pairs = _dense(multiply, n, count)
        else:
            pairs = _Basis(multiply, n, most, rng).run(start, width, count, tol, max_products)
    if not pairs.relative_residual <= tol:
        warnings.warn(
            f"The {count} largest eigenpairs ended with residual {pairs.relative_residual:.2g} relative to "
            f"the norm, above the target {tol:.2g}, after {pairs.products} products. Raise tol "
            "or max_products; products in float32 need float64 tiles for less than about 1e-5.",
            AccuracyWarning,
            stacklevel=user_level(),
        )
    return pairs


def basis_bytes(n: int, count: int, started: int = 0) -> int:
    """Return the bytes that :func:`leading_eigenpairs` needs when it starts from ``started`` vectors."""
    width = max(_width(count), started)
    return 8 * n * min(n, _most(count, width) + 3 * width)


def _width(count: int) -> int:
    return int(np.clip(-(-count // 2), LEAST_BLOCK, MOST_BLOCK))


def _most(count: int, width: int) -> int:
    """Return the columns of a basis: a block more than the larger of 2·count and count + BLOCKS·width."""
    return max(2 * count, count + BLOCKS * width) + width


def _dense(multiply: Multiply, n: int, count: int) -> Eigenpairs:
    matrix = multiply(np.eye(n))
    values, vectors = descending_eigh(0.5 * (matrix + matrix.T))
    norm = float(np.abs(values).max())
    values, vectors = values[:count], np.ascontiguousarray(vectors[:, :count])
    residuals = np.asarray(la.norm(matrix @ vectors - vectors * values, axis=0), np.float64)
    return Eigenpairs(values, vectors, residuals, norm, 1, n)


class _Basis:
    """An orthonormal basis V with T = VᵀAV, and the products spent so far."""

    def __init__(self, multiply: Multiply, n: int, most: int, rng: np.random.Generator) -> None:
        self._multiply, self._most, self._rng = multiply, most, rng
        self._v = np.empty((n, most), order="F")
        self._t = np.zeros((most, most))
        self._size = 0
        self.products = self.columns = 0

    def run(
        self, start: Float64Array | None, width: int, count: int, tol: float, max_products: int
    ) -> Eigenpairs:
        n = len(self._v)
        given = np.zeros((n, 0)) if start is None else np.asarray(start, np.float64)
        padded = np.hstack([given, self._rng.standard_normal((n, width - given.shape[1]))])
        block, before = self._orthonormal(padded), np.inf
        history: list[float] = []
        while True:
            block, coupling = self._grow(block, width)
            values, vectors = descending_eigh(self._t[: self._size, : self._size])
            claimed = la.norm(coupling @ vectors[-coupling.shape[1] :, :count], axis=0)
            scale = float(np.abs(values).max())
            stuck = len(history) > PATIENCE and history[-1] > FALL * history[-1 - PATIENCE]
            ended = stuck or self.products >= max_products
            if self._size >= count and (ended or claimed.max(initial=0.0) <= CLAIM * tol * scale):
                pairs = self._checked(vectors[:, :count], scale)
                missed = pairs.relative_residual
                # A false claim that did not halve the last one: the products are not more accurate than this.
                if missed <= tol or ended or missed > 0.5 * before:
                    return pairs
                before = missed
            if self._size + block.shape[1] > self._most:
                history.append(float(claimed.max(initial=0.0)))
                self._restart(values, vectors, min(self._most - 2 * width, count + width))

    def _grow(self, block: Float64Array, width: int) -> tuple[Float64Array, Float64Array]:
        """Append a block; return the next block, and B with A V = V T + next·B in the block's columns."""
        image = self._apply(block)
        first, self._size = self._size, self._size + block.shape[1]
        self._v[:, first : self._size] = block
        basis = self._v[:, : self._size]
        inner = basis.T @ image
        image -= basis @ inner
        again = basis.T @ image
        image -= basis @ again
        inner += again
        own = inner[first:]
        inner[first:] = 0.5 * (own + own.T)
        self._t[: self._size, first : self._size] = inner
        self._t[first : self._size, : self._size] = inner.T
        scale = float(np.abs(self._t[: self._size, : self._size]).max(initial=0.0))
        q, triangle, pivots = la.qr(image, mode="economic", pivoting=True, check_finite=False)
        # Smaller directions are rounding error of the product.
        keep = int(
            (np.abs(triangle.diagonal()) > 16.0 * len(q) ** 0.5 * unit_roundoff(q.dtype) * scale).sum()
        )
        coupling = np.empty_like(triangle)
        coupling[:, pivots] = triangle
        if self._size < self._most and keep == 0:
            # The space is invariant: other eigenvectors lie outside of it.
            fresh = self._rng.standard_normal((len(q), min(width, len(q) - self._size)))
            return self._orthonormal(fresh), np.zeros((fresh.shape[1], block.shape[1]))
        return self._orthonormal(np.asarray(q[:, :keep], np.float64)), np.asarray(coupling[:keep], np.float64)

    def _orthonormal(self, columns: Float64Array) -> Float64Array:
        """Return an orthonormal basis of the columns, orthogonal to V."""
        basis = self._v[:, : self._size]
        for _ in range(2):
            columns = columns - basis @ (basis.T @ columns)
            columns = np.asarray(la.qr(columns, mode="economic", check_finite=False)[0], np.float64)
        return columns

    def _restart(self, values: Float64Array, vectors: Float64Array, keep: int) -> None:
        self._v[:, :keep] = self._v[:, : self._size] @ vectors[:, :keep]
        self._size = keep
        self._t[:keep, :keep] = np.diag(values[:keep])

    def _apply(self, block: Float64Array) -> Float64Array:
        self.products += 1
        self.columns += block.shape[1]
        return np.array(self._multiply(np.ascontiguousarray(block)), np.float64)

    def _checked(self, vectors: Float64Array, norm: float) -> Eigenpairs:
        ritz = self._v[:, : self._size] @ vectors
        image = self._apply(ritz)
        inner = ritz.T @ image
        values, turn = descending_eigh(0.5 * (inner + inner.T))
        ritz, image = ritz @ turn, image @ turn
        residuals = np.asarray(la.norm(image - ritz * values, axis=0), np.float64)
        return Eigenpairs(values, ritz, residuals, norm, self.products, self.columns)
