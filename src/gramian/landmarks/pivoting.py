"""Selection of rows that span a kernel block: RPCholesky, pivoted Cholesky, pivoted QR.

All work on a factor F (n × m) of the rows seen so far, K ≈ F Fᵀ, and evaluate K in the picked columns only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from gramian._lapack import solve_triangular
from gramian._numerics import pivot_floor, rank_cutoff, whiten
from gramian._typing import Float64Array, IntArray, Rows
from gramian.kernels.base import Kernel

#: Proposals of one round of RPCholesky for each that is still to be found; at most this many.
PROPOSED_SHARE, MOST_PROPOSED = 0.1, 120
#: Rows that a pivoted QR looks at for each pivot.
QR_ROWS = 2


@dataclass(frozen=True, slots=True)
class PivotedFactor:
    """K ≈ FᵀF by pivots: what :func:`rpcholesky_factor` found."""

    picked: IntArray  #: row numbers of the pivots
    factor: Float64Array  #: F, one row a direction: (given + picked, n)
    diagonal: Float64Array  #: diag(K − FᵀF), (n,)


def rpcholesky(
    kernel: Kernel,
    rows: Rows,
    count: int,
    rng: np.random.Generator,
    *,
    tol: float = 0.0,
    tol_after: int = 0,
    given: Rows | None = None,
    n_jobs: int = 1,
) -> IntArray:
    """Return the pivots of :func:`rpcholesky_factor`."""
    return rpcholesky_factor(
        kernel, rows, count, rng, tol=tol, tol_after=tol_after, given=given, n_jobs=n_jobs
    ).picked


def rpcholesky_factor(
    kernel: Kernel,
    rows: Rows,
    count: int,
    rng: np.random.Generator,
    *,
    tol: float = 0.0,
    tol_after: int = 0,
    given: Rows | None = None,
    after: PivotedFactor | None = None,
    n_jobs: int = 1,
) -> PivotedFactor:
    r"""Return at most ``count`` pivots, each drawn with probability ∝ diag(K − F Fᵀ), and the factor.

    Randomly pivoted Cholesky, by blocks with rejection: a round draws b rows from the current diagonal, then
    accepts the i-th with probability (its diagonal after those before it)/(its diagonal at the draw), so
    that the law is that of drawing one by one, while the work is products of matrices. Expected error of
    rank m: tr(K − F Fᵀ) ≤ (1 + ε) tr(K − K_r) for m ≥ r/ε + r log(1/(ε η)), η = tr(K − K_r)/tr(K).

    Fewer come back where tr(K − F Fᵀ) ≤ ``tol`` · tr(K), or where the diagonal that is left is rounding:
    those rows span K. With ``tol_after`` the first ``tol_after`` pivots are always taken, and ``tol`` is a
    part of the trace that they leave. ``given`` are points (m₀, d) that are landmarks already; F begins
    with them. ``after`` is a factor that is continued: F begins with it, and costs nothing again.

    Time O(n m (d + m)), memory O(n m); n (m + b) kernel values, m with the given ones. Source: Chen,
    Epperly, Tropp and Webber 2025, Algorithm 2.1; Epperly, Tropp and Webber 2024, Algorithm 2.2.
    """
    n = rows.shape[0]
    diagonal = kernel.diagonal(rows)
    floor, enough = pivot_floor(diagonal), 0.0 if tol_after else tol * diagonal.sum()
    # Columns are written and multiplied a block at a time: one block is contiguous in this order.
    before = np.zeros((0, n)) if after is None else after.factor
    if given is not None:
        before = _projected(kernel, rows, given, n_jobs)
    start = len(before)
    factor = np.empty((start + count, n))
    factor[:start] = before
    diagonal -= np.einsum("ij,ij->j", before, before)
    picked = np.empty(0, np.intp)
    while len(picked) < count:
        diagonal[diagonal <= floor] = 0.0
        total = diagonal.sum()
        if 0 < tol_after <= len(picked) and not enough:
            enough = tol * total
        if total <= enough:
            break
        done = start + len(picked)
        proposed = proposed_rows(count)
        drawn = rng.choice(n, proposed, p=diagonal / total)
        block = kernel(rows[drawn], dtype=np.float64, n_jobs=1)
        part = factor[:done, drawn]
        accepted, lower = _accepted(block - part.T @ part, rng, floor)
        new = drawn[accepted][: count - len(picked)]
        lower = lower[: len(new), : len(new)]
        columns = kernel(rows[new], rows, dtype=np.float64, n_jobs=n_jobs)
        columns -= factor[:done, new].T @ factor[:done]
        factor[done : done + len(new)] = solve_triangular(lower, columns)
        picked = np.concatenate([picked, new])
        diagonal -= np.einsum("ij,ij->j", *(2 * [factor[done : start + len(picked)]]))
        diagonal[picked] = 0.0
    return PivotedFactor(picked, factor[: start + len(picked)], diagonal)


def proposed_rows(count: int) -> int:
    """Return how many rows a round of :func:`rpcholesky_factor` draws."""
    return int(np.clip(PROPOSED_SHARE * count, 1, MOST_PROPOSED))


def _projected(kernel: Kernel, rows: Rows, given: Rows, n_jobs: int) -> Float64Array:
    """Return F of given points: Vᵀ k(Z, rows) with V whitening k(Z, Z), one row a direction."""
    gram = kernel(given, dtype=np.float64, n_jobs=n_jobs)
    white = whiten(0.5 * (gram + gram.T), len(gram), rank_cutoff(np.float64))
    return white.vectors.T @ kernel(given, rows, dtype=np.float64, n_jobs=n_jobs)


def _accepted(block: Float64Array, rng: np.random.Generator, floor: float) -> tuple[IntArray, Float64Array]:
    """Return the proposals that rejection keeps, and the Cholesky factor of their part of ``block``."""
    size = len(block)
    asked = block.diagonal().copy()
    chances = rng.random(size)
    lower = np.zeros((size, size))
    kept: list[int] = []
    for i in range(size):
        pivot = block[i, i]
        if pivot > floor and chances[i] * asked[i] < pivot:
            column = block[:, i] / np.sqrt(pivot)
            lower[:, len(kept)] = column
            kept.append(i)
            block = block - np.outer(column, column)
    return np.asarray(kept, np.intp), lower[np.ix_(kept, range(len(kept)))]


def pivoted_cholesky(
    kernel: Kernel, rows: Rows, count: int, *, tol: float = 0.0, tol_after: int = 0, n_jobs: int = 1
) -> IntArray:
    r"""Return row numbers, each the largest entry of diag(K − F Fᵀ): the incomplete Cholesky factorization.

    Ends after ``count`` pivots, or where tr(K − F Fᵀ) ≤ ``tol`` · tr(K) (with ``tol_after``: of the trace
    that the first ``tol_after`` pivots leave), or where what is left is rounding.
    It follows outliers, which RPCholesky does not.

    Time O(n m (d + m)), memory O(n m). Source: Fine and Scheinberg 2001; Harbrecht, Peters and
    Schneider 2012.
    """
    n = rows.shape[0]
    diagonal = kernel.diagonal(rows)
    floor, enough = pivot_floor(diagonal), 0.0 if tol_after else tol * diagonal.sum()
    factor = np.empty((count, n))
    picked: list[int] = []
    while len(picked) < count and diagonal.sum() > enough:
        new = int(diagonal.argmax())
        if diagonal[new] <= floor:
            break
        done = len(picked)
        if 0 < done == tol_after:
            enough = tol * diagonal.sum()
        column = kernel(rows[[new]], rows, dtype=np.float64, n_jobs=n_jobs)[0]
        column -= factor[:done, new] @ factor[:done]
        factor[done] = column / np.sqrt(diagonal[new])
        picked.append(new)
        diagonal = np.maximum(diagonal - factor[done] ** 2, 0.0)
        diagonal[picked] = 0.0
    return np.asarray(picked, np.intp)


def pivoted_qr(
    kernel: Kernel, rows: Rows, count: int, rng: np.random.Generator, *, n_jobs: int = 1
) -> IntArray:
    r"""Return at most ``count`` row numbers: the column pivots of a QR of K(S, ·) for 2·count random rows S.

    Time O(n m (d + m)), memory O(n m). Source: Golub and Businger 1965; on sampled rows as in Wang, Li,
    Mahoney and Darve, Algorithm 1.
    """
    n = rows.shape[0]
    seen = np.sort(rng.choice(n, min(n, QR_ROWS * count), replace=False))
    sketch = np.asarray(kernel(rows[seen], rows, dtype=np.float64, n_jobs=n_jobs), np.float64)
    return pivot_columns(sketch, count)


def pivot_columns(matrix: Float64Array, count: int) -> IntArray:
    """Return at most ``count`` columns of nearly the largest volume, by QR with column pivoting.

    Columns whose pivot |R_jj| is rounding beside |R_11| lie in the span of those before them and are left
    out: repeated points give one. Time O(min(m, n) m n).
    """
    factor, pivots = la.qr(matrix, mode="r", pivoting=True, check_finite=False)
    sizes = np.abs(np.diagonal(factor))
    useful = int(np.count_nonzero(sizes > rank_cutoff(np.float64) * sizes.max(initial=0.0)))
    chosen: IntArray = np.asarray(pivots[: min(count, useful)], np.intp)
    return chosen
