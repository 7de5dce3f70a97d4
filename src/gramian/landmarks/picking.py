"""Selection of rows that span a kernel block: by pivots, or by ridge leverage scores.

RPCholesky, pivoted Cholesky and pivoted QR build a factor F (n × m) with K ≈ F Fᵀ and evaluate only the
columns of K that they pick. The leverage score of a row says how much of it the other rows cannot explain at
a given ridge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la
from scipy.optimize import brentq

from gramian._lapack import cholesky, solve_triangular
from gramian._numerics import pivot_floor, rank_cutoff, whiten
from gramian._typing import Float64Array, IntArray, Rows
from gramian.kernels.base import Kernel, finite_diagonal

#: Rows proposed in one round of RPCholesky, as a share of the requested pivots, and at most. Chosen by hand.
PROPOSED_SHARE, MOST_PROPOSED = 0.1, 120
#: Sampled rows per pivot of a pivoted QR. Chosen by hand.
QR_ROWS = 2

#: Pilot rows per requested landmark. Chosen by hand.
PILOT_SHARE = 1.0
#: BLESS: rows that a level examines per unit of 1/lambda, and points that it keeps per unit of effective
#: dimension. Chosen by hand.
SEEN, KEPT = 5.0, 5.0
#: BLESS: further rows that a level examines per requested landmark. Chosen by hand.
CHOICE = 4
#: BLESS: stop if halving lambda raises the effective dimension by less than this factor, since more landmarks
#: would then span nothing new. Chosen by hand.
GROWTH = 1.02


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
        gram = kernel(given, dtype=np.float64, n_jobs=n_jobs)
        white = whiten(0.5 * (gram + gram.T), len(gram), rank_cutoff(np.float64))
        before = white.vectors.T @ kernel(given, rows, dtype=np.float64, n_jobs=n_jobs)
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


def _accepted(block: Float64Array, rng: np.random.Generator, floor: float) -> tuple[IntArray, Float64Array]:
    """Return the proposals that rejection accepts, and the Cholesky factor of their part of ``block``."""
    size = len(block)
    diagonal = block.diagonal().copy()
    chances = rng.random(size)
    lower = np.zeros((size, size))
    kept: list[int] = []
    for i in range(size):
        pivot = block[i, i]
        if pivot > floor and chances[i] * diagonal[i] < pivot:
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


def ridge_leverage_scores(
    kernel: Kernel, rows: Rows, pilot: Rows, dimension: float, *, n_jobs: int = 1
) -> Float64Array:
    r"""Estimate ℓ_i(λ) = (K (K + λ I)⁻¹)_ii for the λ at which they sum to ``dimension``, shape (n,).

    With Nyström features B of the pilot points (K ≈ B Bᵀ, σ the singular values of B) the scores are
    b_iᵀ(BᵀB + λ I)⁻¹ b_i, and λ solves Σ σ²/(σ² + λ) = dimension. If B has too few directions for that, λ is
    the rounding error of its eigenvalues.

    rows : (n, d); pilot : (p, d).

    Time O(n p (d + p)), memory O(n p). Source: the two-stage estimate of Alaoui and Mahoney 2015.
    """
    gram = kernel(pilot, dtype=np.float64, n_jobs=n_jobs)
    white = whiten(0.5 * (gram + gram.T), len(gram), rank_cutoff(np.float64))
    B = kernel(rows, pilot, dtype=np.float64, n_jobs=n_jobs) @ white.vectors
    values, vectors = la.eigh(B.T @ B, driver="evd", check_finite=False)
    values = np.maximum(values, 0.0)
    ridge = _ridge(values, dimension)
    scores: Float64Array = np.square(B @ (vectors / np.sqrt(values + ridge))).sum(axis=1)
    return scores


def _ridge(values: Float64Array, dimension: float) -> float:
    """Return the λ with Σ σ²/(σ² + λ) = dimension."""
    largest = float(values.max(initial=0.0))
    least = rank_cutoff(np.float64) * max(largest, np.finfo(np.float64).tiny)

    def excess(log_ridge: float) -> float:
        return float((values / (values + np.exp(log_ridge))).sum()) - dimension

    low, high = np.log(least), np.log(max(largest, least) * max(len(values), 2) / dimension + least)
    if excess(low) <= 0:
        return float(least)
    return float(np.exp(brentq(excess, low, high))) if excess(high) < 0 else float(np.exp(high))


def leverage_sample(
    kernel: Kernel, rows: Rows, count: int, rng: np.random.Generator, *, n_jobs: int = 1
) -> IntArray:
    """Return ``count`` row numbers drawn without replacement with probability ∝ their leverage scores.

    The scores are estimated from ``count`` pilot rows drawn at random, at the ridge whose effective
    dimension is half of ``count``.
    """
    n = rows.shape[0]
    pilot = np.sort(rng.choice(n, min(n, max(1, round(PILOT_SHARE * count))), replace=False))
    scores = ridge_leverage_scores(kernel, rows, rows[pilot], max(1.0, count / 2), n_jobs=n_jobs)
    return draw(scores, count, rng)


def draw(scores: Float64Array, count: int, rng: np.random.Generator) -> IntArray:
    """Draw at most ``count`` distinct row numbers with probability ∝ scores; rows of score 0 are not drawn.

    If all scores are 0, every row is equally likely.
    """
    usable = int(np.count_nonzero(scores))
    if not usable:
        return np.sort(rng.choice(len(scores), count, replace=False))
    return np.sort(rng.choice(len(scores), min(count, usable), replace=False, p=scores / scores.sum()))


def bless(kernel: Kernel, rows: Rows, count: int, rng: np.random.Generator, *, n_jobs: int = 1) -> IntArray:
    r"""Return ``count`` row numbers by bottom-up leverage score sampling.

    The levels have λ_0 = max k(x, x) and λ_h = λ_{h−1}/2. A level examines each row with probability
    β = (5·λ_0/λ_h + 4·count)/n and estimates its score ℓ_i = (k_ii − k_iᵀ(K_JJ + λ_h n A)⁻¹ k_i)/(λ_h n) from
    the points J that the level before kept. It keeps the row with probability p_i = min(β, 5·ℓ_i), which
    becomes its weight in A. The last level is the one whose effective dimension Σ ℓ_i/β reaches half of
    ``count``, or stops growing; the landmarks are drawn by its scores.

    A level reads only the rows that it examines: time O(β n · count · (d + count)) for the last, independent
    of n for large n. Source: Rudi, Calandriello, Carratino and Rosasco 2018, Algorithm 2 (BLESS-R).
    """
    n = rows.shape[0]
    diagonal = kernel.diagonal(rows)
    scale = float(diagonal.max())
    kept, weights = np.zeros(0, np.intp), np.zeros(0)
    ridge, dimension = scale, 0.0
    while scale > 0:
        ridge /= 2.0
        size = int(min(n, np.ceil(SEEN * scale / ridge) + CHOICE * count))
        share = size / n
        seen = np.sort(rng.choice(n, size, replace=False))
        scores = _explained(kernel, rows, diagonal, seen, kept, weights, ridge * n, n_jobs)
        before, dimension = dimension, float(scores.sum()) / share
        if 2.0 * dimension >= count or dimension < GROWTH * before:
            return seen[draw(scores, count, rng)]
        chances = np.minimum(KEPT * scores, share)
        taken = rng.random(size) * share < chances
        kept, weights = seen[taken], chances[taken]
    return np.sort(rng.choice(n, count, replace=False))


def _explained(
    kernel: Kernel,
    rows: Rows,
    diagonal: Float64Array,
    seen: IntArray,
    kept: IntArray,
    weights: Float64Array,
    ridge: float,
    n_jobs: int,
) -> Float64Array:
    """Return (k_ii − k_iᵀ(K_JJ + ridge·A)⁻¹k_i)/ridge of the examined rows, between rounding error and 1."""
    left = diagonal[seen].copy()
    if len(kept):
        points = rows[kept]
        system = kernel(points, dtype=np.float64, n_jobs=n_jobs) + np.diag(ridge * weights)
        columns = kernel(points, rows[seen], dtype=np.float64, n_jobs=n_jobs)
        half = solve_triangular(cholesky(system, overwrite=True), columns)
        left -= np.einsum("ij,ij->j", half, half)
    least = rank_cutoff(np.float64) * diagonal[seen]
    return np.clip(left, least, None).clip(max=ridge) / ridge
