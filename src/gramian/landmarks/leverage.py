"""Ridge leverage scores: how much of a row the other rows cannot explain at a given ridge."""

from __future__ import annotations

import numpy as np
import scipy.linalg as la
from scipy.optimize import brentq

from gramian._lapack import cholesky, solve_triangular
from gramian._numerics import rank_cutoff, whiten
from gramian._typing import Float64Array, IntArray, Rows
from gramian.kernels.base import Kernel

#: Pilot rows for each landmark that is asked for.
PILOT_SHARE = 1.0
#: BLESS: rows that a level looks at for 1/lambda, and points it keeps for each effective dimension.
SEEN, KEPT = 5.0, 5.0
#: BLESS: rows beside these that a level looks at for each landmark that is asked for.
CHOICE = 4
#: BLESS: it ends where half the lambda does not raise the dimension by this factor: rows span each other.
GROWTH = 1.02


def ridge_leverage_scores(
    kernel: Kernel, rows: Rows, pilot: Rows, dimension: float, *, n_jobs: int = 1
) -> Float64Array:
    r"""Estimate ℓ_i(λ) = (K (K + λ I)⁻¹)_ii for the λ at which they sum to ``dimension``, shape (n,).

    With Nyström features B of the pilot points (K ≈ B Bᵀ, σ the singular values of B) the scores are
    b_iᵀ(BᵀB + λ I)⁻¹ b_i, and λ solves Σ σ²/(σ² + λ) = dimension; where B has no more directions than that, λ
    is its smallest eigenvalue's rounding.

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
    """Return at most ``count`` distinct numbers with probability ∝ scores; rows of score 0 are not drawn.

    Where all scores are 0 any row is as good as another.
    """
    usable = int(np.count_nonzero(scores))
    if not usable:
        return np.sort(rng.choice(len(scores), count, replace=False))
    return np.sort(rng.choice(len(scores), min(count, usable), replace=False, p=scores / scores.sum()))


def bless(kernel: Kernel, rows: Rows, count: int, rng: np.random.Generator, *, n_jobs: int = 1) -> IntArray:
    r"""Return ``count`` row numbers by bottom-up leverage score sampling.

    From λ_0 = max k(x, x) on, λ_h = λ_{h−1}/2. A level sees each row with probability
    β = (5·λ_0/λ_h + 4·count)/n, estimates ℓ_i = (k_ii − k_iᵀ(K_JJ + λ_h n A)⁻¹ k_i)/(λ_h n) by the points
    J of the level before, and keeps a row with probability p_i = min(β, 5·ℓ_i), which is its weight in
    A. It ends where the effective dimension Σ ℓ_i/β is half of ``count`` (or grows no more), and draws by
    the scores.

    No level sees more than its own rows: time O(β n · count · (d + count)) for the last, independent of n
    where n is large. Source: Rudi, Calandriello, Carratino and Rosasco 2018, Algorithm 2 (BLESS-R).
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
    """Return (k_ii − k_iᵀ(K_JJ + ridge·A)⁻¹k_i)/ridge of the rows seen, between rounding and 1."""
    left = diagonal[seen].copy()
    if len(kept):
        points = rows[kept]
        system = kernel(points, dtype=np.float64, n_jobs=n_jobs) + np.diag(ridge * weights)
        columns = kernel(points, rows[seen], dtype=np.float64, n_jobs=n_jobs)
        half = solve_triangular(cholesky(system, overwrite=True), columns)
        left -= np.einsum("ij,ij->j", half, half)
    least = rank_cutoff(np.float64) * diagonal[seen]
    return np.clip(left, least, None).clip(max=ridge) / ridge
