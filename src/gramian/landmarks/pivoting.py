"""Selection of rows that span a kernel block: RPCholesky, pivoted Cholesky, pivoted QR.

Each builds a factor F (n × m) with K ≈ F Fᵀ and evaluates only the columns of K that it picks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from gramian._lapack import solve_triangular
from gramian._numerics import pivot_floor, rank_cutoff, whiten
from gramian._typing import Float64Array, IntArray, Rows
from gramian.kernels.base import Kernel, finite_diagonal

#: Rows proposed in one round of RPCholesky, as a share of the requested pivots, and at most. Chosen by hand.
PROPOSED_SHARE, MOST_PROPOSED = 0.1, 120
#: Sampled rows per pivot of a pivoted QR. Chosen by hand.
QR_ROWS = 2


@dataclass(frozen=True, slots=True)
class PivotedFactor:
    """Result of :func:`rpcholesky_factor`: pivots and a factor F with K ≈ FᵀF."""

    picked: IntArray  #: row numbers of the pivots
    factor: Float64Array  #: F, one row per direction: (given + picked, n)
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

    Randomly pivoted Cholesky in blocks with rejection. A round draws b rows from the current diagonal and
    accepts the i-th with probability (its diagonal after those before it)/(its diagonal at the draw). The
    distribution is that of drawing one by one, but the work is products of matrices. Expected error of rank
    m: tr(K − F Fᵀ) ≤ (1 + ε) tr(K − K_r) for m ≥ r/ε + r log(1/(ε η)), η = tr(K − K_r)/tr(K).

    Stops early once tr(K − F Fᵀ) ≤ ``tol`` · tr(K), or once the remaining diagonal is rounding error: the
    pivots then span K. With ``tol_after`` the first ``tol_after`` pivots are always taken, and ``tol`` refers
    to the trace that they leave. ``given`` are points (m₀, d) that are landmarks already; F begins with them.
    ``after`` is an earlier factor to continue, which is not computed again.

    Time O(n m (d + m)), memory O(n m); n (m + b) kernel values, m with the given ones. Source: Chen,
    Epperly, Tropp and Webber 2025, Algorithm 2.1; Epperly, Tropp and Webber 2024, Algorithm 2.2.
    """
    n = rows.shape[0]
    diagonal = finite_diagonal(kernel, rows)
    floor, enough = pivot_floor(diagonal), 0.0 if tol_after else tol * diagonal.sum()
    # Columns are written and multiplied in blocks; with one row per direction a block is contiguous.
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
    """Return the number of rows that a round of :func:`rpcholesky_factor` draws."""
    return int(np.clip(PROPOSED_SHARE * count, 1, MOST_PROPOSED))


def _projected(kernel: Kernel, rows: Rows, given: Rows, n_jobs: int) -> Float64Array:
    """Return the factor F of given points Z: Vᵀ k(Z, rows), with V whitening k(Z, Z)."""
    gram = kernel(given, dtype=np.float64, n_jobs=n_jobs)
    white = whiten(0.5 * (gram + gram.T), len(gram), rank_cutoff(np.float64))
    return white.vectors.T @ kernel(given, rows, dtype=np.float64, n_jobs=n_jobs)


def _accepted(block: Float64Array, rng: np.random.Generator, floor: float) -> tuple[IntArray, Float64Array]:
    """Return the proposals that rejection accepts, and the Cholesky factor of their part of ``block``."""
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
    r"""Return pivots by incomplete Cholesky factorization, each the largest entry of diag(K − F Fᵀ).

    Stops after ``count`` pivots, once tr(K − F Fᵀ) ≤ ``tol`` · tr(K) (with ``tol_after``, relative to the
    trace that the first ``tol_after`` pivots leave), or once the rest is rounding error. Unlike RPCholesky it
    is attracted by outliers.

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
    r"""Return at most ``count`` pivots of a QR with column pivoting of K(S, ·), for 2·count random rows S.

    Time O(n m (d + m)), memory O(n m). Source: Golub and Businger 1965; on sampled rows as in Wang, Li,
    Mahoney and Darve, Algorithm 1.
    """
    n = rows.shape[0]
    seen = np.sort(rng.choice(n, min(n, QR_ROWS * count), replace=False))
    sketch = np.asarray(kernel(rows[seen], rows, dtype=np.float64, n_jobs=n_jobs), np.float64)
    return pivot_columns(sketch, count)


def pivot_columns(matrix: Float64Array, count: int) -> IntArray:
    """Return at most ``count`` columns of nearly the largest volume, by QR with column pivoting.

    A column whose pivot |R_jj| is rounding error relative to |R_11| lies in the span of those before it and
    is left out, so repeated points give one pivot. Time O(min(m, n) m n).
    """
    factor, pivots = la.qr(matrix, mode="r", pivoting=True, check_finite=False)
    sizes = np.abs(np.diagonal(factor))
    useful = int(np.count_nonzero(sizes > rank_cutoff(np.float64) * sizes.max(initial=0.0)))
    chosen: IntArray = np.asarray(pivots[: min(count, useful)], np.intp)
    return chosen
